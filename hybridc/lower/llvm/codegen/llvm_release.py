"""A shared library of LLVM by LLVM-C, its C interface: a release build, as distributions of LLVM are.

Its passes are a list of our own: those that our loops gain by, of the some ninety of ``default<O2>``, which take twice
as long (``benchmarks/llvm_passes.py`` compares them).
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint, c_void_p
from pathlib import Path
from typing import Any

from hybridc.ground.limits import require_address_space
from hybridc.lower.llvm.codegen.llvm_library import ADDRESSES, REMEDY, LLVMLibrary

_TEXT: Any = POINTER(c_char_p)  # out parameter of a string
_OUT: Any = POINTER(c_void_p)  # and of an object
_NONE = None  # result type void

# Result and argument types of the functions.
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "ContextCreate": (c_void_p,),
    "ContextDispose": (_NONE, c_void_p),
    "CreateMemoryBufferWithMemoryRangeCopy": (c_void_p, c_char_p, c_size_t, c_char_p),
    "CreatePassBuilderOptions": (c_void_p,),
    "CreateTargetDataLayout": (c_void_p, c_void_p),
    "CreateTargetMachine": (c_void_p, c_void_p, *[c_char_p] * 3, *[c_int] * 3),
    "DisposeMemoryBuffer": (_NONE, c_void_p),
    "DisposeMessage": (_NONE, c_void_p),
    "DisposeModule": (_NONE, c_void_p),
    "DisposePassBuilderOptions": (_NONE, c_void_p),
    "DisposeTargetData": (_NONE, c_void_p),
    "DisposeTargetMachine": (_NONE, c_void_p),
    "GetBufferSize": (c_size_t, c_void_p),
    "GetBufferStart": (c_void_p, c_void_p),
    "GetDefaultTargetTriple": (c_void_p,),
    "GetErrorMessage": (c_void_p, c_void_p),
    "GetHostCPUFeatures": (c_void_p,),
    "GetHostCPUName": (c_void_p,),
    "GetTargetFromTriple": (c_int, c_char_p, _OUT, _TEXT),
    "GetVersion": (_NONE, *[POINTER(c_uint)] * 3),
    "InitializeX86AsmPrinter": (_NONE,),
    "InitializeX86Target": (_NONE,),
    "InitializeX86TargetInfo": (_NONE,),
    "InitializeX86TargetMC": (_NONE,),
    "ParseCommandLineOptions": (_NONE, c_int, POINTER(c_char_p), c_char_p),
    "ParseIRInContext": (c_int, c_void_p, c_void_p, _OUT, _TEXT),
    "PrintModuleToString": (c_void_p, c_void_p),
    "RunPasses": (c_void_p, c_void_p, c_char_p, c_void_p, c_void_p),
    "SetModuleDataLayout": (_NONE, c_void_p, c_void_p),
    "SetTarget": (_NONE, c_void_p, c_char_p),
    "TargetMachineEmitToMemoryBuffer": (c_int, c_void_p, c_void_p, c_int, _TEXT, _OUT),
    "VerifyModule": (c_int, c_void_p, c_int, _TEXT),
}

# It is not run to a fixpoint, as in ``default<O2>``; LLVM would end the process where it has not reached one.
_COMBINE = "instcombine<no-verify-fixpoint>"
PASSES = (
    f"always-inline,function(sroa,early-cse<memssa>,simplifycfg,{_COMBINE},"
    f"loop-mssa(loop-rotate,licm),simplifycfg,{_COMBINE},"
    # A short inner loop whose sums lie in memory becomes sums in registers, which the loop around can have several of.
    "loop(indvars,loop-unroll-full),gvn,loop-mssa(licm),"
    f"loop-vectorize,{_COMBINE},loop-unroll,slp-vectorizer,{_COMBINE},simplifycfg)"
)
# Enumerators of LLVM-C: what VerifyModule does with a fault; relocations and code model; kinds of files.
_RETURN_STATUS = 2
_PIC, _SMALL = 2, 3
_ASSEMBLY, _OBJECT = 0, 1


class ReleaseLLVM(LLVMLibrary):
    """The library in a file; OSError if it cannot be loaded, AttributeError if it has not all the functions."""

    name = "release"

    def __init__(self, path: str, passes: str = PASSES) -> None:
        require_address_space(ADDRESSES, "loading LLVM", REMEDY)
        self._path, self.passes = path, passes.encode()
        library = ctypes.CDLL(path)
        self._functions: dict[str, Any] = {}
        for name, (result, *arguments) in _SIGNATURES.items():
            function = self._functions[name] = getattr(library, f"LLVM{name}")
            function.restype, function.argtypes = result, arguments
        for part in ("TargetInfo", "Target", "TargetMC", "AsmPrinter"):
            self._call(f"InitializeX86{part}")
        # No vectorised epilogues of loops: they take a third more compile time.
        words = (c_char_p * 2)(b"hybridc", b"-enable-epilogue-vectorization=false")
        self._call("ParseCommandLineOptions", 2, words, None)
        self._triple = self._text(self._call("GetDefaultTargetTriple")).encode()

    def _call(self, name: str, *arguments: Any) -> Any:
        """Call a function, without the GIL."""
        return self._functions[name](*arguments)

    @property
    def path(self) -> Path:
        return Path(self._path)

    def version(self) -> str:
        numbers = [c_uint() for _ in range(3)]
        self._call("GetVersion", *[byref(n) for n in numbers])
        return ".".join(str(n.value) for n in numbers)

    def host_name(self) -> str:
        return self._text(self._call("GetHostCPUName"))

    def host_features(self) -> str:
        return self._text(self._call("GetHostCPUFeatures"))

    def context(self) -> int:
        return self._call("ContextCreate")

    def dispose_context(self, context: int) -> None:
        self._call("ContextDispose", context)

    def parsed(self, context: int, text: str) -> int:
        code, module, message = text.encode(), c_void_p(), c_char_p()
        buffer = self._call("CreateMemoryBufferWithMemoryRangeCopy", code, len(code), b"module")
        if self._call("ParseIRInContext", context, buffer, byref(module), byref(message)):  # it takes the buffer
            raise RuntimeError(f"LLVM cannot parse the module: {self._message(message)}")
        assert module.value is not None
        return module.value

    def dispose_module(self, module: int) -> None:
        self._call("DisposeModule", module)

    def text(self, module: int) -> str:
        return self._text(self._call("PrintModuleToString", module))

    def fault(self, module: int) -> str:
        message = c_char_p()
        is_wrong = self._call("VerifyModule", module, _RETURN_STATUS, byref(message))
        report = self._message(message)
        return report if is_wrong else ""

    def machine(self, name: str, features: str, level: int) -> int:
        target, message = c_void_p(), c_char_p()
        if self._call("GetTargetFromTriple", self._triple, byref(target), byref(message)):
            triple = self._triple.decode()
            raise RuntimeError(f"LLVM has no target for {triple}, the triple of this machine: {self._message(message)}")
        texts = self._triple, name.encode(), features.encode()
        return self._call("CreateTargetMachine", target, *texts, level, _PIC, _SMALL)

    def dispose_machine(self, machine: int) -> None:
        self._call("DisposeTargetMachine", machine)

    def optimise(self, machine: int, module: int, level: int) -> None:
        data = self._call("CreateTargetDataLayout", machine)
        self._call("SetModuleDataLayout", module, data)
        self._call("DisposeTargetData", data)
        self._call("SetTarget", module, self._triple)
        options = self._call("CreatePassBuilderOptions")
        error = self._call("RunPasses", module, self.passes, machine, options)
        self._call("DisposePassBuilderOptions", options)
        if error:
            raise RuntimeError(f"LLVM cannot run its passes: {self._text(self._call('GetErrorMessage', error))}")

    def emitted(self, machine: int, module: int, *, assembly: bool) -> bytes:
        message, buffer = c_char_p(), c_void_p()
        kind = _ASSEMBLY if assembly else _OBJECT
        if self._call("TargetMachineEmitToMemoryBuffer", machine, module, kind, byref(message), byref(buffer)):
            raise RuntimeError(f"LLVM cannot generate code for the module: {self._message(message)}")
        code = ctypes.string_at(self._call("GetBufferStart", buffer), self._call("GetBufferSize", buffer))
        self._call("DisposeMemoryBuffer", buffer)
        return code

    def _text(self, address: int) -> str:
        """A Python string of one that LLVM allocated, which is freed."""
        text = ctypes.string_at(address).decode()
        self._call("DisposeMessage", address)
        return text

    def _message(self, message: c_char_p) -> str:
        """The text of an out parameter; "" for null."""
        address = ctypes.cast(message, c_void_p).value
        return "" if address is None else self._text(address)

"""Bindings of LLVM's C API in llvmlite's library: parse, optimise, emit objects, load them.

llvmlite's Python modules take longer to import than a compiled program takes to load, and let one
thread at a time into LLVM. Here threads compile in parallel, each a module of its own.
The signatures are those of the llvmlite version that the project pins.
"""

from __future__ import annotations

import ctypes
import functools
import platform
import weakref
from collections.abc import Sequence
from ctypes import POINTER, byref, c_bool, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from hybridc.ground.limits import require_address_space
from hybridc.ground.locks import ForkLock

_TEXT: Any = POINTER(c_char_p)  # out parameter of a string
_NONE = None  # result type void
# Address space for LLVM, and for one of its compilations: without it LLVM ends the process.
_ADDRESSES, _COMPILATION = 192 << 20, 64 << 20
_REMEDY = "leave LLVM out (HYBRIDC_TARGET=numpy)"

# Result and argument types of the functions.
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "AddSymbol": (_NONE, c_char_p, c_void_p),
    "ContextCreate": (c_void_p,),
    "ContextDispose": (_NONE, c_void_p),
    "CopyStringRepOfTargetData": (_NONE, c_void_p, _TEXT),
    "CreateMCJITCompiler": (c_void_p, c_void_p, c_void_p, c_bool, _TEXT),
    "CreateObjectFile": (c_void_p, c_char_p, c_size_t),
    "CreatePassBuilder": (c_void_p, c_void_p, c_void_p),
    "CreatePipelineTuningOptions": (c_void_p,),
    "CreateTargetMachine": (c_void_p, c_void_p, *[c_char_p] * 3, c_int, *[c_char_p] * 2, c_int, c_int, c_char_p),
    "CreateTargetMachineData": (c_void_p, c_void_p),
    "DisposeExecutionEngine": (_NONE, c_void_p),
    "DisposeMemoryBuffer": (_NONE, c_void_p),
    "DisposeModule": (_NONE, c_void_p),
    "DisposeNewModulePassManger": (_NONE, c_void_p),
    "DisposeObjectFile": (_NONE, c_void_p),
    "DisposePassBuilder": (_NONE, c_void_p),
    "DisposePipelineTuningOptions": (_NONE, c_void_p),
    "DisposeString": (_NONE, c_char_p),
    "DisposeTargetData": (_NONE, c_void_p),
    "DisposeTargetMachine": (_NONE, c_void_p),
    "FinalizeObject": (_NONE, c_void_p),
    "GetBufferSize": (c_size_t, c_void_p),
    "GetBufferStart": (c_void_p, c_void_p),
    "GetDefaultTargetTriple": (_NONE, _TEXT),
    "GetFunctionAddress": (c_uint64, c_void_p, c_char_p),
    "GetHostCPUFeatures": (c_int, _TEXT),
    "GetHostCPUName": (_NONE, _TEXT),
    "GetTargetFromTriple": (c_void_p, c_char_p, _TEXT),
    "GetVersionInfo": (c_uint,),
    "MCJITAddObjectFile": (_NONE, c_void_p, c_void_p),
    "PTOSetLoopInterleaving": (_NONE, c_void_p, c_bool),
    "PTOSetLoopUnrolling": (_NONE, c_void_p, c_bool),
    "PTOSetLoopVectorization": (_NONE, c_void_p, c_bool),
    "ParseAssembly": (c_void_p, c_void_p, c_char_p, _TEXT),
    "PrintModuleToString": (_NONE, c_void_p, _TEXT),
    "RunNewModulePassManager": (_NONE, c_void_p, c_void_p, c_void_p),
    "SearchAddressOfSymbol": (c_void_p, c_char_p),
    "SetDataLayout": (_NONE, c_void_p, c_char_p),
    "SetTarget": (_NONE, c_void_p, c_char_p),
    "TargetMachineEmitToMemory": (c_void_p, c_void_p, c_void_p, c_int, _TEXT),
    "VerifyModule": (c_bool, c_void_p, _TEXT),
    "buildPerModuleDefaultPipeline": (c_void_p, c_void_p, c_int),
}

_LOCK = ForkLock()


# --- LLVM and the host -----------------------------------------------------------------------------------------


def llvm_version() -> str:
    """LLVM's version."""
    version = call("GetVersionInfo")
    return ".".join(map(str, version.to_bytes(4, "big").lstrip(b"\0")))


def host_name() -> str:
    """LLVM's name of the host CPU."""
    return _made("GetHostCPUName")


def host_features() -> dict[str, bool]:
    """The host CPU's features by LLVM's names, with whether it has them."""
    return {feature[1:]: feature[0] == "+" for feature in _made("GetHostCPUFeatures").split(",") if feature}


def add_symbol(name: str, address: int) -> None:
    """Make an external function callable by name."""
    call("AddSymbol", name.encode(), address)


def has_symbol(name: str) -> bool:
    """Whether a name resolves to a function."""
    return call("SearchAddressOfSymbol", name.encode()) is not None


# --- from text to object code ----------------------------------------------------------------------------------


class LLVMModule:
    """An LLVM module, for one thread at a time; RuntimeError if its text does not parse."""

    def __init__(self, text: str) -> None:
        context = call("ContextCreate")
        weakref.finalize(self, call, "ContextDispose", context).atexit = False
        self.pointer: int = _parsed(context, text)
        weakref.finalize(self, call, "DisposeModule", self.pointer).atexit = False  # the last is the first to be called

    def __str__(self) -> str:
        return _made("PrintModuleToString", self.pointer)

    def verify(self) -> None:
        """RuntimeError if the module is invalid."""
        message = c_char_p()
        wrong = call("VerifyModule", self.pointer, byref(message))
        report = _taken(message)
        if wrong:
            raise RuntimeError(f"the module fails LLVM's verifier: {report}")


class TargetMachine:
    """A target machine, for one thread at a time; ``level`` is the optimisation level, 0 to 3."""

    def __init__(self, name: str, features: str, level: int) -> None:
        self.level = level
        self.pointer = _machine(name, features, level, "pic", "small", for_engine=False)
        weakref.finalize(self, call, "DisposeTargetMachine", self.pointer).atexit = False

    def optimise(self, module: LLVMModule) -> None:
        """Run LLVM's passes; RuntimeError if the module is invalid."""
        data = call("CreateTargetMachineData", self.pointer)
        call("SetDataLayout", module.pointer, _made("CopyStringRepOfTargetData", data).encode())
        call("DisposeTargetData", data)
        call("SetTarget", module.pointer, _made("GetDefaultTargetTriple").encode())
        module.verify()
        options = call("CreatePipelineTuningOptions")
        for choice in ("LoopInterleaving", "LoopUnrolling", "LoopVectorization"):
            call(f"PTOSet{choice}", options, True)
        builder = call("CreatePassBuilder", self.pointer, options)
        passes = call("buildPerModuleDefaultPipeline", builder, self.level)
        call("RunNewModulePassManager", passes, module.pointer, builder)
        call("DisposeNewModulePassManger", passes)
        call("DisposePassBuilder", builder)
        call("DisposePipelineTuningOptions", options)

    def object(self, module: LLVMModule) -> bytes:
        """A relocatable object file."""
        return self._emitted(module, 1)

    def assembly(self, module: LLVMModule) -> str:
        """Assembly text."""
        return self._emitted(module, 0).decode()

    def _emitted(self, module: LLVMModule, kind: int) -> bytes:
        message = c_char_p()
        buffer = call("TargetMachineEmitToMemory", self.pointer, module.pointer, kind, byref(message))
        said = _taken(message)
        if not buffer:
            raise RuntimeError(f"LLVM cannot generate code for the module: {said}")
        code = ctypes.string_at(call("GetBufferStart", buffer), call("GetBufferSize", buffer))
        call("DisposeMemoryBuffer", buffer)
        return code


# --- from object code to addresses -----------------------------------------------------------------------------


class Engine:
    """Object files loaded into executable memory, until it is closed."""

    __slots__ = ("_context", "_pointer")

    def __init__(self, objects: Sequence[bytes]) -> None:
        self._context = call("ContextCreate")
        module = _parsed(self._context, "")
        machine = _machine("", "", 2, "default", "jitdefault", for_engine=True)
        near = platform.machine().lower() in ("arm64", "aarch64")  # branches of these reach only near code
        message = c_char_p()
        engine = call("CreateMCJITCompiler", module, machine, near, byref(message))  # takes ownership of both
        said = _taken(message)
        if not engine:
            raise RuntimeError(f"LLVM cannot create an execution engine on this processor: {said}")
        for code in objects:
            file = call("CreateObjectFile", code, len(code))
            call("MCJITAddObjectFile", engine, file)
            call("DisposeObjectFile", file)
        call("FinalizeObject", engine)
        self._pointer: int | None = engine

    @property
    def closed(self) -> bool:
        """Whether the code is freed."""
        return self._pointer is None

    def address(self, name: str) -> int:
        """The address of a function, which must exist."""
        return call("GetFunctionAddress", self._pointer, name.encode())

    def close(self) -> None:
        """Free the code."""
        if self._pointer is not None:
            call("DisposeExecutionEngine", self._pointer)
            call("ContextDispose", self._context)
            self._pointer = None


# --- calls -----------------------------------------------------------------------------------------------------


def call(name: str, *arguments: Any) -> Any:
    """Call a function of the library, without the GIL."""
    return _function(name)(*arguments)


@functools.cache
def _function(name: str) -> Any:
    result, *arguments = _SIGNATURES[name]
    function = getattr(_library(), f"LLVMPY_{name}")
    function.restype, function.argtypes = result, arguments
    return function


def _library() -> ctypes.CDLL:
    with _LOCK.current:
        return _loaded()


def require_memory() -> None:
    """Raise LimitError if LLVM would end the process for want of memory."""
    require_address_space(_COMPILATION, "compiling with LLVM", _REMEDY)


def library_path() -> Path:
    """The file of the library."""
    # Imported late: GPU graphs import this module too, on machines that may lack the package.
    import llvmlite
    from llvmlite.utils import get_library_name

    return Path(llvmlite.__file__).parent / "binding" / get_library_name()


@functools.cache
def _loaded() -> ctypes.CDLL:
    path = library_path()
    require_address_space(_ADDRESSES, "loading LLVM", _REMEDY)
    library = ctypes.CDLL(str(path))
    library.LLVMPY_InitializeNativeTarget()
    library.LLVMPY_InitializeNativeAsmPrinter()
    # Makes symbols of the process (the C library's) resolvable now, not only after the first engine.
    library.LLVMPY_LoadLibraryPermanently(None, byref(c_char_p()))
    # No vectorised epilogues of loops: they take a third more compile time.
    library.LLVMPY_SetCommandLine(b"hybridc", b"-enable-epilogue-vectorization=false")
    return library


def _parsed(context: int, text: str) -> int:
    message = c_char_p()
    module = call("ParseAssembly", context, text.encode(), byref(message))
    said = _taken(message)
    if said:
        raise RuntimeError(f"LLVM cannot parse the module: {said}")
    return module


def _machine(name: str, features: str, level: int, addresses: str, model: str, *, for_engine: bool) -> int:
    triple = _made("GetDefaultTargetTriple").encode()
    message = c_char_p()
    target = call("GetTargetFromTriple", triple, byref(message))
    said = _taken(message)
    if not target:
        raise RuntimeError(f"LLVM has no target for {triple.decode()}, the triple of this machine: {said}")
    texts = name.encode(), features.encode(), level, addresses.encode(), model.encode()
    return call("CreateTargetMachine", target, triple, *texts, 0, int(for_engine), b"")


def _made(name: str, *arguments: Any) -> str:
    """The string that a function returns."""
    text = c_char_p()
    call(name, *arguments, byref(text))
    return _taken(text)


def _taken(text: c_char_p) -> str:
    """A Python string of one that LLVM allocated, which is freed; "" for null."""
    if text.value is None:
        return ""
    copy = text.value.decode()
    call("DisposeString", text)
    return copy

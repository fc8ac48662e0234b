"""Bindings of llvmlite's library of LLVM: parse, optimise, emit objects, load them.

llvmlite's Python modules take longer to import than a compiled program takes to load, and let one
thread at a time into LLVM. Here threads compile in parallel, each a module of its own.
The signatures are those of the llvmlite version that the project pins.
"""

from __future__ import annotations

import ctypes
import functools
import platform
from collections.abc import Sequence
from ctypes import POINTER, byref, c_bool, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from hybridc.errors import MissingPackageError
from hybridc.ground.limits import require_address_space
from hybridc.ground.locks import ForkLock
from hybridc.lower.llvm.codegen.llvm_library import ADDRESSES, REMEDY, LLVMLibrary

_TEXT: Any = POINTER(c_char_p)  # out parameter of a string
_NONE = None  # result type void

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
    "InitializeAllAsmPrinters": (_NONE,),
    "InitializeAllTargetInfos": (_NONE,),
    "InitializeAllTargetMCs": (_NONE,),
    "InitializeAllTargets": (_NONE,),
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


# --- symbols ---------------------------------------------------------------------------------------------------


def add_symbol(name: str, address: int) -> None:
    """Make an external function callable by name."""
    call("AddSymbol", name.encode(), address)


def has_symbol(name: str) -> bool:
    """Whether a name resolves to a function."""
    return call("SearchAddressOfSymbol", name.encode()) is not None


# --- from text to object code ----------------------------------------------------------------------------------


class Llvmlite(LLVMLibrary):
    """Llvmlite's library, with the passes of ``default<O2>``: it can be given no list of passes.

    It compiles for this computer's system, or for that of a triple, of any architecture.
    """

    name = "llvmlite"

    def __init__(self, triple: str = "") -> None:
        self.triple = triple or _made("GetDefaultTargetTriple")
        if triple:
            for part in ("TargetInfos", "Targets", "TargetMCs", "AsmPrinters"):
                call(f"InitializeAll{part}")

    @property
    def path(self) -> Path:
        return llvmlite_path()

    def version(self) -> str:
        return ".".join(map(str, call("GetVersionInfo").to_bytes(4, "big").lstrip(b"\0")))

    def host_name(self) -> str:
        return _made("GetHostCPUName")

    def host_features(self) -> str:
        return _made("GetHostCPUFeatures")

    def context(self) -> int:
        return call("ContextCreate")

    def dispose_context(self, context: int) -> None:
        call("ContextDispose", context)

    def parsed(self, context: int, text: str) -> int:
        return _parsed(context, text)

    def dispose_module(self, module: int) -> None:
        call("DisposeModule", module)

    def text(self, module: int) -> str:
        return _made("PrintModuleToString", module)

    def fault(self, module: int) -> str:
        message = c_char_p()
        is_wrong = call("VerifyModule", module, byref(message))
        report = _taken(message)
        return report if is_wrong else ""

    def machine(self, name: str, features: str, level: int) -> int:
        return _machine(name, features, level, "pic", "small", self.triple)

    def dispose_machine(self, machine: int) -> None:
        call("DisposeTargetMachine", machine)

    def optimise(self, machine: int, module: int, level: int) -> None:
        data = call("CreateTargetMachineData", machine)
        call("SetDataLayout", module, _made("CopyStringRepOfTargetData", data).encode())
        call("DisposeTargetData", data)
        call("SetTarget", module, self.triple.encode())
        options = call("CreatePipelineTuningOptions")
        for choice in ("LoopInterleaving", "LoopUnrolling", "LoopVectorization"):
            call(f"PTOSet{choice}", options, True)
        builder = call("CreatePassBuilder", machine, options)
        passes = call("buildPerModuleDefaultPipeline", builder, level)
        call("RunNewModulePassManager", passes, module, builder)
        call("DisposeNewModulePassManger", passes)
        call("DisposePassBuilder", builder)
        call("DisposePipelineTuningOptions", options)

    def emitted(self, machine: int, module: int, *, assembly: bool) -> bytes:
        message = c_char_p()
        buffer = call("TargetMachineEmitToMemory", machine, module, 0 if assembly else 1, byref(message))
        report = _taken(message)
        if not buffer:
            raise RuntimeError(f"LLVM cannot generate code for the module: {report}")
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
        machine = _machine("", "", 2, "default", "jitdefault", _made("GetDefaultTargetTriple"), for_engine=True)
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


def llvmlite_path() -> Path:
    """The file of the library."""
    # Imported late: GPU graphs import this module too, on machines that may lack the package.
    try:
        import llvmlite
        from llvmlite.utils import get_library_name
    except ImportError as error:
        text = "LLVM's targets for other architectures are those of llvmlite: pip install 'hybridc[cross]'"
        raise MissingPackageError(text) from error

    return Path(llvmlite.__file__).parent / "binding" / get_library_name()


@functools.cache
def _loaded() -> ctypes.CDLL:
    path = llvmlite_path()
    require_address_space(ADDRESSES, "loading LLVM", REMEDY)
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


def _machine(
    name: str, features: str, level: int, addresses: str, model: str, triple: str, *, for_engine: bool = False
) -> int:
    message = c_char_p()
    target = call("GetTargetFromTriple", triple.encode(), byref(message))
    said = _taken(message)
    if not target:
        raise RuntimeError(f"LLVM has no target for the triple {triple}: {said}")
    texts = name.encode(), features.encode(), level, addresses.encode(), model.encode()
    return call("CreateTargetMachine", target, triple.encode(), *texts, 0, int(for_engine), b"")


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

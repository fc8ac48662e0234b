"""The native runtime of this process: loaded once, with the addresses of Python's and NumPy's functions."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
from functools import cache
from typing import Any

import numpy as np

from hybridc.errors import LimitError
from hybridc.ground import limits
from hybridc.ground.buffers import take
from hybridc.lower.llvm.codegen import native_function as codegen
from hybridc.lower.llvm.executor.runtime_object import runtime_object
from hybridc.lower.llvm.executor.structures import Outside
from hybridc.runtime.native.builtin_functions import redirect
from hybridc.runtime.native.native_events import NATIVE_EVENTS
from hybridc.runtime.native.threads import Threads, system_functions
from hybridc.runtime.workspace import Workspace

# Indices into NumPy's C API table, which only grows: part of its ABI.
_NEW_FROM_DESCR = 94
_SET_BASE_OBJECT = 282


class NativeRuntime:
    """The loaded runtime; one per process, until it ends."""

    def __init__(self) -> None:
        engine = _load()
        self.entry = engine.address("entry")
        self.wrapped = engine.address("wrapped")
        self.grid = engine.address("grid")
        self.loop = engine.address("loop")
        self._plain = self._recording = engine
        self._run = _RUN(engine.address("run"))
        self.outside = _outside()
        self.outside.loop = self.loop
        stop = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(engine.address("stop"))
        self.threads = Threads(self.outside, stop)

    def run(self, program: int, slots: Any, first: int, last: int) -> None:
        """Run the regions [first, last) of a program, given the addresses of its slots."""
        self._run(program, slots, first, last)

    def record(self, on: bool) -> bool:
        """Run the variant that records events from now on, or the other one; whether this system has the former."""
        if not self.outside.clock_gettime:
            return False
        if on and self._recording is self._plain:
            self._recording = _load(records=True)
        engine = self._recording if on else self._plain
        for name in ("entry", "wrapped"):
            redirect(self._plain.address(name), engine.address(name))
        self._run = _RUN(engine.address("run"))
        return True

    def thread_names(self) -> dict[int, str]:
        """The names of the threads of kernels, by their identities."""
        return self.threads.names()


# void run(Program *, void **slots, int64 first, int64 last)
_RUN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


def native_runtime() -> NativeRuntime:
    """The native runtime."""
    with _LOCK.current:
        return _library()


@cache
def _library() -> NativeRuntime:
    runtime = NativeRuntime()
    NATIVE_EVENTS.begin(runtime)
    return runtime


_LOCK = codegen.fork_lock()


def compile_runtime_ahead() -> None:
    """Start loading it on another thread: if it must be compiled, LLVM is idle while Python forms kernels."""
    if not _library.cache_info().currsize:
        limits.thread(_ahead, "hybridc native runtime")  # where none can be started, the first call loads it


def _ahead() -> None:
    with contextlib.suppress(LimitError):  # the first call raises it
        native_runtime()


def _load(records: bool = False) -> Any:
    """The functions, in memory."""
    memory = codegen._ExecutableMemory([runtime_object(records)])
    # A thread may still run this code while the process ends.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))
    return memory.engine


def _outside() -> Outside:
    """Addresses of functions and objects in this process."""
    api = ctypes.pythonapi
    functions = {
        "tuple_new": api.PyTuple_New,
        "tuple_set": api.PyTuple_SetItem,
        "tuple_get": api.PyTuple_GetItem,
        "incref": api.Py_IncRef,
        "decref": api.Py_DecRef,
        "allocate": api.PyType_GenericAlloc,
        "vectorcall": api.PyObject_Vectorcall,
        "save_thread": api.PyEval_SaveThread,
        "restore_thread": api.PyEval_RestoreThread,
        "set_error": api.PyErr_SetString,
        **system_functions(),
    }
    objects = {
        "none": None,
        "not_implemented": NotImplemented,
        "type_error": TypeError,
        "tuple": tuple,
        "ndarray": np.ndarray,
        "workspace": Workspace,
        "take": take,
    }
    outside = Outside()
    for name, function in functions.items():
        setattr(outside, name, ctypes.cast(function, ctypes.c_void_p).value)
    for name, object_ in objects.items():
        setattr(outside, name, id(object_))
    numpy_functions = _numpy_functions()
    outside.new_array = numpy_functions[_NEW_FROM_DESCR]
    outside.set_base = numpy_functions[_SET_BASE_OBJECT]
    return outside


def _numpy_functions() -> Any:
    umath: Any = importlib.import_module("numpy._core._multiarray_umath")
    get = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    return ctypes.cast(get(umath._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))

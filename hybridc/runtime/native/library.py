"""The native runtime in this process: compiled once, loaded, and told where Python's and NumPy's functions are."""

from __future__ import annotations

import ctypes
import importlib
import platform
from functools import cache
from typing import Any

import numpy as np

from hybridc.lower.llvm import codegen
from hybridc.runtime.buffers import take
from hybridc.runtime.native.emit_entry import emit_entry
from hybridc.runtime.native.emit_pool import emit_pool
from hybridc.runtime.native.ir_text import Module
from hybridc.runtime.native.layout import Outside
from hybridc.runtime.native.threads import Threads, system_functions

llvm: Any = importlib.import_module("llvmlite.binding")  # it has no types

# Positions in NumPy's table of C functions, which only grows: part of its binary interface.
_NEW_FROM_DESCR = 94
_SET_BASE_OBJECT = 282
# What tells a core that it waits in a loop.
_PAUSE = {"x86_64": "llvm.x86.sse2.pause()", "aarch64": "llvm.aarch64.hint(i32 1)"}


class Workspace(np.ndarray[Any, Any]):
    """The memory that one call of a program at a time may use: its arena, and what its host steps keep."""

    cells: dict[Any, Any]


class Library:
    """The loaded functions; one of a process, kept until it ends."""

    def __init__(self) -> None:
        self._engine = _load()
        self.entry = int(self._engine.get_function_address("entry"))
        self.run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(
            self._engine.get_function_address("run")
        )
        self.outside = _outside()
        stop = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(self._engine.get_function_address("stop"))
        self.threads = Threads(self.outside, stop)
        # A thread may still run this code while the process ends, when engines are freed.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._engine))


@cache
def library() -> Library:
    """The native runtime."""
    return Library()


def ir_text() -> str:
    """The LLVM IR of the native runtime."""
    module = Module(_PAUSE.get(platform.machine(), ""))
    emit_entry(module, emit_pool(module))
    return str(module)


def _load() -> Any:
    """An engine with the compiled functions."""
    code = codegen.machine().emit_object(codegen.optimised(ir_text()))
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), codegen.machine_for_memory())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine


def _outside() -> Outside:
    """Addresses in this process."""
    api = ctypes.pythonapi
    functions = {
        "tuple_new": api.PyTuple_New,
        "tuple_set": api.PyTuple_SetItem,
        "tuple_get": api.PyTuple_GetItem,
        "incref": api.Py_IncRef,
        "decref": api.Py_DecRef,
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
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return ctypes.cast(get(umath._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))

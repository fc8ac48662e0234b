"""Load Triton functions from source, once in a process; and run one on the interpreter.

Triton decides when it is imported whether its functions are compiled or interpreted, for the whole process: the first
use decides here too.
"""

from __future__ import annotations

import importlib
import linecache
import os
import sys
import tempfile
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from hybridc.errors import UnsupportedError
from hybridc.ground.locks import ForkLock
from hybridc.ground.store import Store, store
from hybridc.lower.triton.triton_function import Config, TritonFunction
from hybridc.runtime.triton_interpreter import integer, interpreter

_LOADED: dict[str, Any] = {}
_LOADING = ForkLock()
# The interpreter has global state.
_INTERPRETING = ForkLock()


def triton(*, interpreted: bool) -> Any:
    """The Triton package, in interpreted or compiled mode."""
    if "triton" not in sys.modules and interpreted:
        os.environ["TRITON_INTERPRET"] = "1"  # Triton reads it from there when it is imported
    try:
        module = importlib.import_module("triton")
        language = importlib.import_module("triton.language")
    except ImportError as error:
        raise UnsupportedError(
            f'the GPU target needs Triton 3.6 or newer: pip install "hybridc[triton]" ({error})'
        ) from error
    is_interpreted = type(language.zeros).__name__ == "InterpretedFunction"
    if interpreted == is_interpreted:
        return module
    if interpreted:
        raise UnsupportedError(
            "Triton was imported before hybridc's interpreter device was used, and so compiles its functions; set "
            "TRITON_INTERPRET=1 in the environment of this process, or use the device before importing triton"
        )
    raise UnsupportedError(
        "Triton interprets its functions in this process, so none can be compiled for a GPU; unset TRITON_INTERPRET, "
        "or set HYBRIDC_GPU=interpreter"
    )


def load_kernel(function: TritonFunction, *, interpreted: bool) -> Any:
    """The function of a source, as Triton's decorator made it; cached."""
    loaded = _LOADED.get(function.key)
    if loaded is not None:
        return loaded
    with _LOADING.current:
        if function.key not in _LOADED:
            triton(interpreted=interpreted)
            _LOADED[function.key] = _import(function)
        return _LOADED[function.key]


def _import(function: TritonFunction) -> Any:
    """Import a source as a module with a file, so that tracebacks, profilers and debuggers show its lines."""
    name = f"{function.name}_{function.key[:24]}"
    path = store().put_source(name, function.source) or _temporary().put_source(name, function.source)
    filename = f"<{name}>" if path is None else str(path)
    # Triton and tracebacks read the text from here, even if the file is gone.
    lines = function.source.splitlines(keepends=True)
    linecache.cache[filename] = (len(function.source), None, lines, filename)
    module = ModuleType(f"hybridc.generated.{name}")
    module.__file__ = filename
    exec(compile(function.source, filename, "exec"), module.__dict__)
    return module.__dict__[function.name]


def _temporary() -> Store:
    """The store of sources if the cache folder cannot be written."""
    user = os.getuid() if hasattr(os, "getuid") else ""
    return Store(os.path.join(tempfile.gettempdir(), f"hybridc-{user}"))


def run_interpreted(
    function: TritonFunction, arrays: Sequence[npt.NDArray[Any]], numbers: Sequence[int], config: Config
) -> None:
    """Run all programs of a launch, one after the other, on NumPy arrays."""
    for array, dtype in zip(arrays, function.pointers, strict=True):
        if array.dtype != dtype:
            raise TypeError(f"{function.name}: expected an array of {dtype}, got one of {array.dtype}")
    interpret(function, [array.ctypes.data for array in arrays], numbers, config)


def interpret(function: TritonFunction, pointers: Sequence[int], numbers: Sequence[int], config: Config) -> None:
    """Run all programs of a launch, one after the other, on host memory."""
    kernel = load_kernel(function, interpreted=True)
    memories = [_InterpreterMemory(pointer, dtype) for pointer, dtype in zip(pointers, function.pointers, strict=True)]
    with _INTERPRETING.current, np.errstate(all="ignore"):
        interpreter()
        sized = [integer(value, bits) for value, bits in zip(numbers, function.numbers, strict=True)]
        kernel[config.grid](*memories, *sized, **dict(config.constants))


class _InterpreterMemory:
    """The tensor interface that Triton's interpreter uses."""

    __slots__ = ("_pointer", "dtype")

    def __init__(self, pointer: int, dtype: np.dtype[Any]) -> None:
        self._pointer = pointer
        self.dtype = dtype.name  # the part of a tensor's dtype name that Triton reads

    def data_ptr(self) -> int:
        """The address."""
        return self._pointer

    # Triton copies tensors to the host and back; this memory is host memory already.

    def untyped_storage(self) -> _InterpreterMemory:
        return self

    def cpu(self) -> _InterpreterMemory:
        return self

    def copy_(self, _other: _InterpreterMemory) -> None: ...

    def new_empty(self, *_args: Any, **_kwargs: Any) -> _InterpreterMemory:
        return self

    def set_(self, *_args: Any) -> None: ...

    def storage_offset(self) -> None: ...

    def size(self) -> None: ...

    def stride(self) -> None: ...

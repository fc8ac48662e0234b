"""Calls of a program on NDArrays, rather than NumPy arrays, by one native function."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from hybridc.lower.llvm.executor.structures import WrapperCall
from hybridc.runtime.native.builtin_functions import builtin
from hybridc.runtime.native.native_library import native_runtime
from hybridc.runtime.native.native_program import NativeProgram, anchor_of
from hybridc.runtime.native.probe import objects_are_as_declared
from hybridc.runtime.workspace import POOL

_WORD = ctypes.sizeof(ctypes.c_void_p)


def wrapper_entry(program: NativeProgram, type_: Any) -> Callable[..., Any] | None:
    """``call(*wrappers)``: the program on NDArrays; returns a new NDArray, or a tuple of them; None if not possible.

    A wrapper is an object of exactly ``type_``, which has ``__slots__`` and is made by ``type_(array)``. The call
    returns None, without effect, where the entry would refuse the arrays, or without an idle workspace in the pool.
    Errors are the entry's.
    """
    if not objects_are_as_declared():
        return None
    pattern = _pattern(type_)
    return None if pattern is None else _WrapperCall(program, type_, *pattern).function()


def _pattern(type_: Any) -> tuple[Any, int] | None:
    """The words of a new wrapper, and the offset of its array; None if these are not plain slots."""
    size = int(type_.__basicsize__)
    if type_.__itemsize__ or type_.__dictoffset__:
        return None
    array = np.zeros(1)
    box = type_(array)
    words = (ctypes.c_void_p * (size // _WORD)).from_buffer_copy(ctypes.string_at(id(box), size))
    places = [i for i, word in enumerate(words) if word == id(array)]
    if len(places) != 1 or any(words[i] not in (None, id(None)) for i in range(2, len(words)) if i != places[0]):
        return None
    words[places[0]] = None
    return words, places[0] * _WORD


class _WrapperCall:
    """The structure that native code reads, and the objects to which it points."""

    def __init__(self, program: NativeProgram, type_: Any, pattern: Any, array_offset: int) -> None:
        anchor = program.tables.anchor()
        self._keep = (type_, pattern, anchor)
        POOL.join(self, program.plan.arena)
        POOL.reserve(program.plan.arena)
        self._cell = WrapperCall(
            anchor=id(anchor),
            type=id(type_),
            size=type_.__basicsize__,
            array_offset=array_offset,
            pattern=ctypes.addressof(pattern),
            arenas=ctypes.addressof(POOL.table),
        )

    def function(self) -> Callable[..., Any]:
        """The builtin function."""
        return builtin(native_runtime().wrapped, anchor_of(self._cell, self))

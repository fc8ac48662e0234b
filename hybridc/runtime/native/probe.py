"""Whether the object layouts of this Python and this NumPy are as `structures` declares them."""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any

import numpy as np

from hybridc.lower.llvm.executor.structures import ALIGNED, C_CONTIGUOUS, WRITEABLE, ArrayObject, DescrObject


@cache
def objects_are_as_declared() -> bool:
    """Whether native code may read arrays: checked on real arrays that differ in each declared field.

    False without a GIL, as others may change an object while it is read, and such a Python's objects are laid out
    differently.
    """
    if sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    if "t" in getattr(sys, "abiflags", "") or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return False
    return all(_array_is_as_declared(array) for array in _arrays())


def _arrays() -> list[Any]:
    plain: Any = np.arange(12, dtype=np.float32).reshape(3, 4)
    read_only = plain.astype(np.int64)
    read_only.flags.writeable = False
    unaligned: Any = np.zeros(17, np.uint8)[1:].view(np.float64)
    others: list[Any] = [np.zeros((), np.float16), np.zeros((0, 5), np.bool_), plain.astype(">f8"), np.zeros(3, "S5")]
    return [plain, plain.T, plain[:, ::2], read_only, unaligned, *others]


def _array_is_as_declared(array: Any) -> bool:
    seen = ArrayObject.from_address(id(array))
    if seen.type != id(np.ndarray) or seen.data != array.ctypes.data or seen.descr != id(array.dtype):
        return False
    flags = {C_CONTIGUOUS: array.flags.c_contiguous, ALIGNED: array.flags.aligned, WRITEABLE: array.flags.writeable}
    if any(bool(seen.flags & bit) != wanted for bit, wanted in flags.items()):
        return False
    if seen.rank != array.ndim or (array.ndim and _integers(seen.shape, array.ndim) != array.shape):
        return False
    dtype = DescrObject.from_address(id(array.dtype))
    return dtype.type_num == array.dtype.num and chr(dtype.byteorder) == array.dtype.byteorder


def _integers(address: int, count: int) -> tuple[int, ...]:
    return tuple((ctypes.c_int64 * count).from_address(address))

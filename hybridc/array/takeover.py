"""Memory takeover: an array gets the memory of a temporary one instead of a copy."""

from __future__ import annotations

import functools
import sys

import numpy as np

from hybridc.array.ndarray import NDArray
from hybridc.ground.buffers import COUNTS_ARE_EXACT, POOL

# From so many bytes on, taking over the memory of a temporary is faster than copying it.
WORTH_TAKING = 1 << 14


def taken_over(target: NDArray, source: NDArray) -> bool:
    """Whether the source's memory became the target's, which nobody can tell from a copy.

    For that nobody else may know one of the two arrays: views know the array that they show. The caller has a name for
    the source, and none for the target.
    """
    new, old = source._data, target._data
    if type(new) is not np.ndarray or type(old) is not np.ndarray:
        return False
    if new.nbytes < WORTH_TAKING or new.dtype != old.dtype or not COUNTS_ARE_EXACT:
        return False
    plain = new.flags.c_contiguous and new.flags.writeable and old.flags.c_contiguous
    owned = new.base is None or POOL.owns(new.base)
    del new, old
    if plain and owned and _references(target, source) == _alone():
        target._data = source._data
        return True
    return False


def _references(target: NDArray, source: NDArray) -> tuple[int, int, int]:
    """Reference counts of the target's array, the source's array, and the source."""
    return sys.getrefcount(target._data), sys.getrefcount(source._data), sys.getrefcount(source)


@functools.cache
def _alone() -> tuple[int, int, int]:
    """:func:`_references` of an array without other references."""

    def called(target: NDArray, source: NDArray) -> tuple[int, int, int]:
        return _references(target, source)

    source = NDArray(np.zeros(1))
    return called(NDArray(np.zeros(1)), source)


def is_unshared(array: NDArray) -> bool:
    """Whether the array holds the only reference to its buffer, so that the buffer may be replaced."""
    data = array._data
    if type(data) is not np.ndarray or not COUNTS_ARE_EXACT:
        return False
    owned = data.base is None or POOL.owns(data.base)
    del data
    return owned and sys.getrefcount(array._data) == _unshared()


@functools.cache
def _unshared() -> int:
    """The reference count, in that expression, of memory that only the array references."""
    array = NDArray(np.zeros(1))
    return sys.getrefcount(array._data)

"""The order of elements along an axis: which comes first, second, and so on."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridc.dtypes import STORED

# From so many elements along the axis, and in all, it pays to sort keys; from so many times the wanted ones, to select.
_LONG, _MANY, _SEVERAL = 16, 2048, 8
_LOW = np.uint64(0xFFFFFFFF)


def order_along(x: Any, axis: int, ascending: bool, count: int | None = None) -> Any:
    """The indices that sort along an axis, or the first ``count`` of them; stably, in both directions.

    NaN comes last when ascending, first when descending.
    """
    x = sortable(x)
    if x.size >= _MANY and x.shape[axis] >= _LONG and x.dtype.itemsize <= 4 and x.dtype.kind in "fiub":
        rows = np.ascontiguousarray(np.moveaxis(x, axis, -1))
        return np.ascontiguousarray(np.moveaxis(_order_by_keys(rows, ascending, count), -1, axis))
    if ascending:
        order = np.argsort(x, axis, kind="stable")
    else:  # sort the reversed array ascending, and reverse the result
        order = x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis)
    return order[(slice(None),) * (axis % x.ndim) + (slice(0, count),)]


def sortable(x: Any) -> Any:
    """The array, or its elements in a dtype in which NumPy sorts NaN as the largest number."""
    return x.astype(np.float32) if x.dtype in STORED else x


def _order_by_keys(x: Any, ascending: bool, count: int | None) -> Any:
    """The order along the last axis: numbers that hold a value above its place need no stable sort, which is slower."""
    keys = _keys(x)
    if not ascending:
        keys ^= _LOW
    keys <<= np.uint64(32)
    keys |= np.arange(x.shape[-1], dtype=np.uint64)
    if count is not None and 0 < _SEVERAL * count <= x.shape[-1]:
        keys = np.partition(keys, count - 1, -1)[..., :count].copy()
    keys.sort(-1)
    keys &= _LOW
    return keys.view(np.int64)[..., :count]


def _keys(x: Any) -> Any:
    """Integers of 32 bits with the order of the elements, ties included."""
    if x.dtype.kind != "f":
        lowest = np.iinfo(x.dtype).min if x.dtype.kind == "i" else 0
        return (x.astype(np.int64) - lowest).view(np.uint64)
    bits: Any = (x.astype(np.float32, copy=False) + np.float32(0)).view(np.uint32)  # no number is -0
    negative = -(bits >> 31)  # all bits of a negative number change places, of others the sign
    keys = (bits ^ (negative | np.uint32(1 << 31))).astype(np.uint64)
    keys[np.isnan(x)] = _LOW
    return keys

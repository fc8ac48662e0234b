"""Edits of ``mx.np`` arrays by indices that shapes and arguments tell: inserting, deleting, padding, differences."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnnecessaryIsInstance=false
# Arguments are whatever NumPy takes: numbers, lists, arrays, symbols.

from __future__ import annotations

from typing import Any

import numpy as onp

from hybridc.array.dispatch import is_symbol
from hybridc.array.functions import function
from hybridc.array.ndarray import NDArray
from hybridc.dialects.array.shape import normalize_axis
from hybridc.dialects.numpy_rules import BOOL
from hybridc.dtypes import is_float
from hybridc.errors import MXNetError
from hybridc.np.apply import cast, dtype_of, is_number, operand, reshaped
from hybridc.np.by_element import not_equal, rint
from hybridc.np.making import array, beside, device_of, full
from hybridc.np.reducing import given, max, mean, min
from hybridc.np.selection import picked
from hybridc.np.shaping import broadcast_to, concatenate, moveaxis, ravel, reshape

__all__ = [
    "delete",
    "diff",
    "ediff1d",
    "fill_diagonal",
    "insert",
    "pad",
    "resize",
]


def host_index(name: str, obj: Any) -> Any:
    """Indices whose values are needed now: integers, lists or arrays as NumPy's array, or a slice."""
    if isinstance(obj, slice):
        return obj
    if is_symbol(obj):
        raise MXNetError(
            f"mx.np.{name}: the shape of the result depends on the indices, whose values a trace does not have; "
            "use constant indices, or leave this block unhybridized"
        )
    values = onp.asarray(obj.asnumpy() if isinstance(obj, NDArray) else obj)
    return values.astype(onp.int64) if is_float(values.dtype) or not values.size else values


def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Any:
    """The array with values before the given indices along an axis, or of the flattened array."""
    a = given(arr)
    added = beside(a, values, dtype_of(a)) if is_number(values) or isinstance(values, list | tuple) else operand(values)
    added = cast(added, dtype_of(a)) if added.dtype != a.dtype else added
    if axis is None:
        a, axis = ravel(a), 0
    axis = normalize_axis("insert", axis, a.ndim, "axis has")
    n = a.shape[axis]
    index = host_index("insert", obj)
    index = onp.arange(*index.indices(n)) if isinstance(index, slice) else index
    index = index.nonzero()[0] if index.dtype == onp.bool_ and index.ndim else index
    count = index.size
    if count == 1:  # all the values before one element
        if added.ndim < a.ndim:
            added = reshape(added, (1,) * (a.ndim - added.ndim) + added.shape)
        if not index.ndim:
            added = moveaxis(added, 0, axis)
        count = added.shape[axis]
    added = broadcast_to(added, (*a.shape[:axis], count, *a.shape[axis + 1 :]))
    where = index.reshape(()) if index.size == 1 else index
    order = onp.insert(onp.arange(n), where, onp.arange(n, n + count))
    return picked(concatenate([a, added], axis), order, axis)


def delete(arr: Any, obj: Any, axis: int | None = None) -> Any:
    """The array without the elements at the given indices along an axis, or of the flattened array."""
    a = given(arr)
    if axis is None:
        a, axis = ravel(a), 0
    axis = normalize_axis("delete", axis, a.ndim, "axis has")
    return picked(a, onp.delete(onp.arange(a.shape[axis]), host_index("delete", obj)), axis)


def resize(a: Any, new_shape: Any) -> Any:
    """As many elements as a shape has, from the start again where the array ends."""
    a = ravel(given(a))
    order = onp.resize(onp.arange(a.size), new_shape)
    return picked(a, order, 0) if a.size else full(order.shape, 0, dtype_of(a), ctx=device_of(a))


# --- padding -----------------------------------------------------------------------------------------------------

_REARRANGING = ("edge", "reflect", "symmetric", "wrap")
_STATISTICS = {"maximum": max, "minimum": min, "mean": mean}
_KEYWORDS = {
    "constant": ("constant_values",),
    "empty": (),
    "edge": (),
    "wrap": (),
    "reflect": ("reflect_type",),
    "symmetric": ("reflect_type",),
    "linear_ramp": ("end_values",),
    **dict.fromkeys(_STATISTICS, ("stat_length",)),
}


def pad(x: Any, pad_width: Any = None, mode: str = "constant", **kwargs: Any) -> Any:
    """The array with a border: a constant, its own elements rearranged, or statistics of them along each axis."""
    if pad_width is None:
        raise TypeError("mx.np.pad: pad_width is missing: (before, after) for each axis")
    if mode not in _KEYWORDS:
        raise ValueError(f"mx.np.pad: mode {mode!r} is not supported; there are {', '.join(_KEYWORDS)}")
    for key in kwargs:
        if key not in _KEYWORDS[mode]:
            raise ValueError(f"mx.np.pad: unsupported keyword argument {key!r} for mode {mode!r}")
    if kwargs.get("reflect_type", "even") != "even":
        raise NotImplementedError("mx.np.pad: reflect_type='odd' is not supported")
    a = given(x)
    widths = [(int(before), int(after)) for before, after in onp.broadcast_to(pad_width, (a.ndim, 2))]
    if any(n < 0 for pair in widths for n in pair):
        raise ValueError("mx.np.pad: pad_width can't contain negative values")
    if mode in _REARRANGING:
        how: Any = mode
        for axis, pair in enumerate(widths):
            if any(pair):
                a = picked(a, onp.pad(onp.arange(a.shape[axis]), pair, how), axis)
        return a
    values = kwargs.get("constant_values", 0)
    if mode in ("constant", "empty") and is_number(values):
        return _constant_border(a, widths, values)
    pairs = onp.broadcast_to(kwargs.get("end_values", values), (a.ndim, 2)).tolist()
    lengths = kwargs.get("stat_length")
    lengths = [(None, None)] * a.ndim if lengths is None else onp.broadcast_to(lengths, (a.ndim, 2)).tolist()
    for axis, (before, after) in enumerate(widths):
        if before or after:
            parts = [
                _border(a, axis, width, mode, pairs[axis][end], lengths[axis][end], end)
                for end, width in ((0, before), (1, after))
            ]
            a = concatenate([parts[0], a, parts[1]], axis)
    return a


def _constant_border(a: Any, widths: list[tuple[int, int]], value: Any) -> Any:
    if not a.ndim:
        return a
    if dtype_of(a) == BOOL:
        return cast(_constant_border(cast(a, "uint8"), widths, bool(value)), BOOL)
    return function("pad")(a, mode="constant", pad_width=sum(widths, ()), constant_value=value)


def _border(a: Any, axis: int, width: int, mode: str, value: Any, length: int | None, end: int) -> Any:
    """One side of the border along an axis."""
    shape = (*a.shape[:axis], width, *a.shape[axis + 1 :])
    if mode == "constant":
        return full(shape, value, dtype_of(a), ctx=device_of(a))
    n = a.shape[axis]
    if mode == "linear_ramp":
        edge = picked(a, onp.array([n - 1 if end else 0]), axis)
        steps = onp.arange(1, width + 1) if end else onp.arange(width, 0, -1)
        part = reshape(beside(a, steps / onp.maximum(width, 1), "float32"), (width, *[1] * (a.ndim - axis - 1)))
        ramp = edge + (value - edge) * part
        return ramp if is_float(dtype_of(a)) else cast(ramp, a.dtype)
    length = n if length is None else onp.minimum(length, n).item()
    part = a[(slice(None),) * axis + (slice(n - length, n) if end else slice(0, length),)]
    statistic = _STATISTICS[mode](part, axis, keepdims=True)
    if mode == "mean" and not is_float(dtype_of(a)):
        statistic = rint(statistic)
    return broadcast_to(cast(statistic, a.dtype), shape)


# --- differences -------------------------------------------------------------------------------------------------


def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """Each element less the one before it along an axis, n times; of booleans, whether they differ."""
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n}")
    a = given(a)
    if not a.ndim:
        raise ValueError("diff requires input that is at least one dimensional")
    axis = normalize_axis("diff", axis, a.ndim, "axis has")
    if not n:
        return a
    # COMPAT(mxnet): MXNet refuses prepend and append, and ignores 0.
    ends = [_end_of(a, axis, part) for part in (prepend, append)]
    parts = [part for part in (ends[0], a, ends[1]) if part is not None]
    a = concatenate(parts, axis) if len(parts) > 1 else a
    lead = (slice(None),) * axis
    for _ in range(n):
        last, first = a[(*lead, slice(1, None))], a[(*lead, slice(None, -1))]
        a = not_equal(last, first) if dtype_of(a) == BOOL else last - first
    return a


def _end_of(a: Any, axis: int, part: Any) -> Any:
    """What is prepended or appended: a number along the whole axis."""
    if part is None:
        return None
    if is_number(part):
        return full((*a.shape[:axis], 1, *a.shape[axis + 1 :]), part, dtype_of(a), ctx=device_of(a))
    part = operand(part)
    return part if part.ndim else broadcast_to(part, (*a.shape[:axis], 1, *a.shape[axis + 1 :]))


def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """The differences of neighbours in the flattened array, between others."""
    a = ravel(given(ary))
    ends = [None if part is None else cast(ravel(given(part)), a.dtype) for part in (to_begin, to_end)]
    parts = [part for part in (ends[0], diff(a), ends[1]) if part is not None]
    return concatenate(parts, 0) if len(parts) > 1 else parts[0]


# --- in place ----------------------------------------------------------------------------------------------------


def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    """Write a value, or values in turn, to the main diagonal of the array itself."""
    if not isinstance(a, NDArray):
        raise MXNetError("mx.np.fill_diagonal changes an array, which a traced block cannot; use mx.np.where with eye")
    rows = onp.zeros(a.shape, onp.bool_)
    onp.fill_diagonal(rows, True, wrap)
    values = onp.resize(onp.asarray(val.asnumpy() if isinstance(val, NDArray) else val).ravel(), rows.sum())
    a[array(rows, BOOL)] = reshaped(array(values, a.dtype), values.shape)

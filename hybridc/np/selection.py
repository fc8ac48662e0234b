"""Choosing, ordering and counting elements of ``mx.np`` arrays."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnnecessaryIsInstance=false
# Arguments are whatever NumPy takes: numbers, lists, arrays, symbols.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as onp

from hybridc.array.dispatch import is_symbol
from hybridc.array.functions import function
from hybridc.dialects.array.shape import normalize_axis
from hybridc.dialects.array.shape_rules import broadcast_shapes
from hybridc.dialects.numpy_rules import BOOL, INT32, INT64, common
from hybridc.errors import MXNetError
from hybridc.np.apply import cast, dtype_of, into, is_number, operand, reshaped
from hybridc.np.by_element import greater_equal, less_equal, maximum, minimum
from hybridc.np.making import arange, array, beside, device_of, full_like, zeros
from hybridc.np.reducing import given
from hybridc.np.shaping import broadcast_to, ravel, reshape

__all__ = [
    "argsort",
    "argwhere",
    "clip",
    "diag",
    "diagonal",
    "flatnonzero",
    "nonzero",
    "select",
    "sort",
    "take",
    "take_along_axis",
    "tri",
    "tril",
    "triu",
    "where",
]


def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """x where the condition is not 0, else y; without these, the indices of the elements that are not 0."""
    if x is None and y is None:
        return nonzero(condition)
    if x is None or y is None:
        raise ValueError("either both or neither of x and y should be given")
    condition, x, y = operand(condition), operand(x), operand(y)
    if is_number(condition):
        condition = array(condition, dtype=onp.bool_)
    dtype = _beside(x, y)
    x, y = (full_like(condition, v, dtype) if is_number(v) else cast(v, dtype) for v in (x, y))
    inputs = condition, x, y
    shape = broadcast_shapes("where", ("condition", "x", "y"), [v.shape for v in inputs])
    return function("where")(*[broadcast_to(v, shape) for v in inputs])


def _beside(x: Any, y: Any) -> Any:
    """The dtype of two operands together."""
    arrays = [v for v in (x, y) if not is_number(v)]
    dtype = common([dtype_of(v) for v in arrays])
    numbers = [v for v in (x, y) if is_number(v)]
    if not arrays:
        return BOOL if isinstance(x, bool) and isinstance(y, bool) else dtype
    if dtype.kind in "iub" and any(isinstance(v, float | onp.floating) for v in numbers):
        return onp.dtype(onp.float32)
    if dtype == BOOL and any(not isinstance(v, bool | onp.bool_) for v in numbers):
        return INT64
    return dtype


def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    """For each element the choice whose condition is the first that is true, else the default."""
    if len(condlist) != len(choicelist):
        raise ValueError("list of cases must be same length as list of conditions")
    if not len(condlist):
        raise ValueError("select with an empty condition list is not possible")
    chosen = default
    for condition, choice in zip(reversed(list(condlist)), reversed(list(choicelist)), strict=True):
        chosen = where(condition, choice, chosen)
    return chosen


def clip(a: Any, a_min: Any = None, a_max: Any = None, out: Any = None) -> Any:
    """The elements, those below ``a_min`` and above ``a_max`` replaced by these."""
    if a_min is None and a_max is None:
        raise ValueError("array_clip: must set either max or min")
    a = given(a)
    if (a_min is None or is_number(a_min)) and (a_max is None or is_number(a_max)) and dtype_of(a).kind == "f":
        low, high = -onp.inf if a_min is None else a_min, onp.inf if a_max is None else a_max
        return function("clip")(a, a_min=float(low), a_max=float(high), out=out)
    made = a if a_min is None else maximum(a, a_min)
    return into(made if a_max is None else minimum(made, a_max), out)


def take(a: Any, indices: Any, axis: int | None = None, mode: str = "raise", out: Any = None) -> Any:
    """The elements, or slices along an axis, at indices."""
    a = given(a)
    indices = beside(a, indices, INT64) if is_number(indices) or isinstance(indices, list | tuple) else operand(indices)
    if axis is None or not a.ndim:
        a, axis = ravel(a), 0
    axis = normalize_axis("take", axis, a.ndim, "axis has")
    shape = (*a.shape[:axis], *indices.shape, *a.shape[axis + 1 :])
    found = function("take")(a, reshaped(indices, indices.shape or (1,)), axis=axis, mode=mode)
    return into(reshaped(found, shape), out)


def picked(a: Any, index: Any, axis: int) -> Any:
    """The slices along an axis at indices that are known now and not out of range: any trace can compile it."""
    return function("take")(a, beside(a, index, INT64), axis=axis, mode="clip")


def take_along_axis(arr: Any, indices: Any, axis: int | None) -> Any:
    """The elements at indices along an axis, one for each index."""
    a = given(arr)
    if axis is None:
        a, axis = ravel(a), 0
    return function("take_along_axis")(a, operand(indices), axis=axis)


def nonzero(a: Any) -> Any:
    """The indices of the elements that are not 0, an array for each axis."""
    values = _values("nonzero", a)
    return tuple(beside(a, i, INT64) for i in onp.atleast_1d(values).nonzero())


def _values(name: str, a: Any) -> Any:
    """The values of an array, of which the number of results depends."""
    a = given(a)
    if is_symbol(a):
        raise MXNetError(
            f"mx.np.{name}: how many results there are depends on values, which a trace does not have; "
            "use mx.np.where with three arguments, or leave this block unhybridized"
        )
    return a.asnumpy()


def flatnonzero(a: Any) -> Any:
    """The indices of the elements of the flattened array that are not 0."""
    return nonzero(ravel(a))[0]


def argwhere(a: Any) -> Any:
    """The indices of the elements that are not 0, a row for each."""
    return beside(a, onp.argwhere(_values("argwhere", a)), INT64)


def sort(
    a: Any,
    axis: int | None = -1,
    kind: str | None = None,  # noqa: ARG001  (in NumPy's signature; all are stable)
    order: Any = None,
) -> Any:
    """The elements in ascending order along an axis, or of the flattened array."""
    _check_sort("sort", order)
    a = given(a)
    if axis is None:
        a, axis = ravel(a), 0
    normalize_axis("sort", axis, a.ndim, "axis has")
    if dtype_of(a) == BOOL:
        return cast(sort(cast(a, "uint8"), axis), BOOL)
    return function("sort")(a, axis=axis)


def argsort(
    a: Any,
    axis: int | None = -1,
    kind: str | None = None,  # noqa: ARG001  (in NumPy's signature; all are stable)
    order: Any = None,
) -> Any:
    """The indices in the order of the elements along an axis, or of the flattened array; int64."""
    _check_sort("argsort", order)
    a = given(a)
    if axis is None or not a.ndim:
        a, axis = ravel(a), 0
    normalize_axis("argsort", axis, a.ndim, "axis has")
    if dtype_of(a) == BOOL:
        a = cast(a, "uint8")
    return function("argsort")(a, axis=axis, dtype=INT64)


def _check_sort(name: str, order: Any) -> None:
    if order is not None:
        raise NotImplementedError(f"mx.np.{name}: order= is of structured arrays, which there are not")


def diag(array: Any, k: int = 0) -> Any:
    """The ``k``-th diagonal of the matrix ``array``, or the matrix with the elements of a vector on it."""
    a = given(array)
    if a.ndim not in (1, 2):
        raise ValueError("Input must be 1- or 2-d.")
    return function("diag")(a, k=k) if a.ndim == 1 else diagonal(a, k)


def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """The elements of a diagonal of two axes, along a new last axis."""
    a = given(a)
    if a.ndim < 2:
        raise ValueError("diag requires an array of at least two dimensions")
    first, second = (normalize_axis("diagonal", i, a.ndim, "axis has") for i in (axis1, axis2))
    if not -a.shape[first] < offset < a.shape[second]:  # COMPAT(mxnet): MXNet refuses a diagonal outside of the matrix
        rest = tuple(n for i, n in enumerate(a.shape) if i not in (first, second))
        return zeros((*rest, 0), dtype_of(a), ctx=device_of(a))
    return function("diag")(a, k=offset, axis1=first, axis2=second)


def _band(name: str, m: Any, inside: Callable[[Any], Any]) -> Any:
    """A matrix with 0 outside of a band; a row of one dimension is each row of a square matrix, as in NumPy."""
    a = given(m)
    if a.ndim == 1:
        a = broadcast_to(a, (a.shape[0], a.shape[0]))
    if a.ndim < 2:
        raise ValueError(f"mx.np.{name}: array must have at least one dimension")
    mask = inside(_diagonals(a.shape[-2], a.shape[-1], device_of(a)))
    return function("where")(broadcast_to(mask, a.shape), a, function("zeros_like")(a))


def _diagonals(rows: int, columns: int, ctx: Any) -> Any:
    """Which diagonal of a matrix each element is on; those above the main one count up."""
    return arange(columns, dtype=INT32, ctx=ctx) - reshape(arange(rows, dtype=INT32, ctx=ctx), (rows, 1))


def tril(m: Any, k: int = 0) -> Any:
    """The elements on and below the k-th diagonal, 0 above it."""
    return _band("tril", m, lambda diagonal: less_equal(diagonal, k))


def triu(m: Any, k: int = 0) -> Any:
    """The elements on and above the k-th diagonal, 0 below it."""
    return _band("triu", m, lambda diagonal: greater_equal(diagonal, k))


def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = None, ctx: Any = None) -> Any:
    """1 on and below the k-th diagonal, 0 above it."""
    return cast(less_equal(_diagonals(N, N if M is None else M, ctx), k), "float32" if dtype is None else dtype)

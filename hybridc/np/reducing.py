"""Sums, means, extremes and other reductions of ``mx.np``; of all elements they have the shape ``()``."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnnecessaryIsInstance=false
# Arguments are whatever NumPy takes: numbers, lists, arrays, symbols.

from __future__ import annotations

import math
from typing import Any

from hybridc.array.functions import function
from hybridc.dialects.array.shape import normalize_axis
from hybridc.dialects.numpy_rules import BOOL, INT64
from hybridc.dtypes import is_float
from hybridc.np.apply import call, cast, dtype_of, into, is_number, operand, reshaped
from hybridc.np.by_element import logical_not, sqrt
from hybridc.np.making import array

__all__ = [
    "all",
    "alltrue",
    "amax",
    "amin",
    "any",
    "argmax",
    "argmin",
    "average",
    "count_nonzero",
    "cumsum",
    "max",
    "mean",
    "min",
    "nanprod",
    "nansum",
    "prod",
    "product",
    "ptp",
    "sometrue",
    "std",
    "sum",
    "var",
]

Axis = int | tuple[int, ...] | None


def axes_of(name: str, axis: Any, rank: int) -> tuple[int, ...]:
    """The axes of NumPy's argument ``axis``, counted from 0."""
    if axis is None:
        return tuple(range(rank))
    axes = tuple(axis) if isinstance(axis, tuple | list) else (axis,)
    found = tuple(normalize_axis(name, int(a), rank, "axis has") for a in axes)
    if len(set(found)) != len(found):
        raise ValueError(f"mx.np.{name}: axis={axis} names an axis twice")
    return found


def _shape(shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    kept = [1 if i in axes else n for i, n in enumerate(shape)]
    return tuple(kept) if keepdims else tuple(n for i, n in enumerate(shape) if i not in axes)


def given(a: Any) -> Any:
    """The operand of a reduction: an array, also of a number."""
    a = operand(a)
    return array(a) if is_number(a) else a


def _reduced(
    name: str, operator: str, a: Any, axis: Axis, dtype: Any, out: Any, keepdims: bool, numbers: bool = True
) -> Any:
    """A reduction by an operator of ``mx.nd``; ``numbers`` says whether no element has a result, too."""
    a = given(a)
    if dtype is not None:
        a = cast(a, dtype)
    axes = axes_of(name, axis, a.ndim)
    shape = _shape(a.shape, axes, keepdims)
    if not numbers and math.prod(a.shape[i] for i in axes) == 0 and math.prod(shape):
        raise ValueError(f"mx.np.{name}: an array of shape {a.shape} has no elements along axis={axis}")
    if not axes:
        y = call("identity", a) if operator in ("max", "min") else call(operator, reshaped(a, (*a.shape, 1)), axis=-1)
    else:
        y = call(operator, a, axis=axes, keepdims=keepdims)
    return into(reshaped(y, shape), out)


def sum(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    out: Any = None,
    where: Any = None,
) -> Any:
    """The sum of the elements along axes; of booleans in int64."""
    _check_rest("sum", initial, where)
    return _reduced("sum", "sum", a, axis, dtype, out, keepdims)


def prod(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """The product of the elements along axes; of booleans in int64."""
    _check_rest("prod", initial, where)
    return _reduced("prod", "prod", a, axis, dtype, out, keepdims)


product = prod


def mean(
    a: Any, axis: Axis = None, dtype: Any = None, out: Any = None, keepdims: bool = False, where: Any = None
) -> Any:
    """The mean of the elements along axes; of integers in float32."""
    _check_rest("mean", None, where)
    return _reduced("mean", "mean", a, axis, dtype, out, keepdims)


def max(
    a: Any, axis: Axis = None, keepdims: bool = False, out: Any = None, initial: Any = None, where: Any = None
) -> Any:
    """The greatest element along axes; nan if one is nan."""
    _check_rest("max", initial, where)
    return _reduced("max", "max", a, axis, None, out, keepdims, numbers=False)


def min(
    a: Any, axis: Axis = None, keepdims: bool = False, out: Any = None, initial: Any = None, where: Any = None
) -> Any:
    """The least element along axes; nan if one is nan."""
    _check_rest("min", initial, where)
    return _reduced("min", "min", a, axis, None, out, keepdims, numbers=False)


amax, amin = max, min


def _check_rest(name: str, initial: Any, where: Any) -> None:
    if initial is not None or where is not None:
        raise NotImplementedError(f"mx.np.{name}: initial= and where= are not supported; use mx.np.where before it")


def var(a: Any, axis: Axis = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: bool = False) -> Any:
    """The mean of the squared distances from the mean, divided by their number less ``ddof``."""
    a = given(a)
    if dtype is not None or not is_float(dtype_of(a)):
        a = cast(a, "float32" if dtype is None else dtype)
    axes = axes_of("var", axis, a.ndim)
    distance = a - mean(a, axis, keepdims=True)
    squares = sum(distance * distance, axis, keepdims=keepdims)
    count = math.prod(a.shape[i] for i in axes) - ddof
    return into(squares / (count if count > 0 else math.nan), out)


def std(a: Any, axis: Axis = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: bool = False) -> Any:
    """The square root of the variance."""
    return into(sqrt(var(a, axis, dtype, None, ddof, keepdims)), out)


def average(a: Any, axis: Axis = None, weights: Any = None, returned: bool = False, out: Any = None) -> Any:
    """The mean along axes with weights; with ``returned``, also the sum of the weights."""
    a = given(a)
    if weights is None:
        result = mean(a, axis)
        total = full_count(a, result, axis)
    else:
        weights = operand(weights)
        if weights.shape != a.shape:
            (i,) = axes_of("average", axis, a.ndim)
            if axis is None or weights.ndim != 1 or weights.shape[0] != a.shape[i]:
                raise TypeError("mx.np.average: weights have the shape of a, or its length along one axis")
            weights = reshaped(weights, tuple(n if k == i else 1 for k, n in enumerate(a.shape)))
            total = sum(weights * function("ones_like")(a), axis)
        else:
            total = sum(weights, axis)
        result = sum(a * weights, axis) / total
    return (into(result, out), total) if returned else into(result, out)


def full_count(a: Any, result: Any, axis: Axis) -> Any:
    """The number of elements along axes, as an array like the result."""
    count = math.prod(a.shape[i] for i in axes_of("average", axis, a.ndim))
    return function("full_like")(result, fill_value=count)


def any(a: Any, axis: Axis = None, keepdims: bool = False, out: Any = None) -> Any:
    """Whether an element along axes is not 0."""
    a = given(a)
    nonzero = cast(logical_not(logical_not(a)), "uint8")
    axes = axes_of("any", axis, a.ndim)
    if math.prod(a.shape[i] for i in axes) == 0:
        return into(cast(sum(nonzero, axis, keepdims=keepdims), BOOL), out)
    return into(cast(max(nonzero, axis, keepdims=keepdims), BOOL), out)


def all(a: Any, axis: Axis = None, keepdims: bool = False, out: Any = None) -> Any:
    """Whether all elements along axes are not 0."""
    return into(logical_not(any(logical_not(given(a)), axis, keepdims)), out)


sometrue, alltrue = any, all


def _index(name: str, a: Any, axis: int | None, out: Any, keepdims: bool) -> Any:
    a = given(a)
    if a.size == 0 and (axis is None or a.shape[axis] == 0):
        raise ValueError(f"mx.np.{name}: attempt to get {name} of an empty sequence")
    if axis is not None:
        axis = normalize_axis(name, axis, a.ndim, "axis has")
    if dtype_of(a) == BOOL:
        a = cast(a, "uint8")
    axes = axes_of(name, axis, a.ndim)
    y = function(name)(reshaped(a, (1,)) if not a.ndim else a, axis=axis, keepdims=False)
    return into(reshaped(cast(y, INT64), _shape(a.shape, axes, keepdims)), out)


def argmax(a: Any, axis: int | None = None, out: Any = None, keepdims: bool = False) -> Any:
    """The index of the greatest element, the first of several, along an axis or in the flattened array; int64."""
    return _index("argmax", a, axis, out, keepdims)


def argmin(a: Any, axis: int | None = None, out: Any = None, keepdims: bool = False) -> Any:
    """The index of the least element, the first of several, along an axis or in the flattened array; int64."""
    return _index("argmin", a, axis, out, keepdims)


def cumsum(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    """The sums of all elements up to each one along an axis, or in the flattened array; of booleans in int64."""
    a = given(a)
    if dtype is None and dtype_of(a) == BOOL:
        dtype = INT64
    return into(function("cumsum")(a if dtype is None else cast(a, dtype), axis=axis), out)


def ptp(a: Any, axis: Axis = None, out: Any = None, keepdims: bool = False) -> Any:
    """The distance of the greatest element from the least along axes."""
    return into(max(a, axis, keepdims) - min(a, axis, keepdims), out)


def count_nonzero(a: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    """How many elements along axes are not 0; int64."""
    return sum(logical_not(logical_not(given(a))), axis, keepdims=keepdims)


def nansum(a: Any, axis: Axis = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:
    """The sum of the elements along axes, with 0 for nan."""
    return _reduced("nansum", "nansum", a, axis, dtype, out, keepdims)


def nanprod(a: Any, axis: Axis = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:
    """The product of the elements along axes, with 1 for nan."""
    return _reduced("nanprod", "nanprod", a, axis, dtype, out, keepdims)

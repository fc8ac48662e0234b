"""Sums, means, extremes and other reductions of ``mx.np``; of all elements they have the shape ``()``."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnnecessaryIsInstance=false
# Arguments are whatever NumPy takes: numbers, lists, arrays, symbols.

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as onp

from hybridc.array.autocast import AUTOCAST
from hybridc.array.dispatch import invoke
from hybridc.array.functions import function
from hybridc.array.numpy_array import ndarray
from hybridc.dialects.array.shape import normalize_axis
from hybridc.dialects.array.shape_rules import broadcast_shapes
from hybridc.dialects.numpy_rules import BOOL, INT32, INT64
from hybridc.dialects.operator import Operator
from hybridc.dialects.operator_registry import of_function
from hybridc.dtypes import FLOAT16, FLOAT32, FLOAT64, is_float, is_half
from hybridc.errors import MXNetError
from hybridc.ground.events import RECORDER
from hybridc.ground.state import STATE
from hybridc.np.apply import call, cast, dtype_of, into, is_number, operand, recorded, reshaped
from hybridc.np.by_element import (
    equal,
    isclose,
    isnan,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    not_equal,
    sqrt,
)
from hybridc.np.making import array

__all__ = [
    "all",
    "allclose",
    "alltrue",
    "amax",
    "amin",
    "any",
    "argmax",
    "argmin",
    "array_equal",
    "array_equiv",
    "average",
    "count_nonzero",
    "cumprod",
    "cumsum",
    "max",
    "mean",
    "min",
    "nanargmax",
    "nanargmin",
    "nancumprod",
    "nancumsum",
    "nanmax",
    "nanmean",
    "nanmin",
    "nanprod",
    "nanstd",
    "nansum",
    "nanvar",
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
    if axis is None or (not rank and axis in (0, -1)):  # a number counts as an axis of one element, as in NumPy
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


# --- sums, products, means, extremes -----------------------------------------------------------------------------

# Dtypes that NumPy reduces as hybridc does, beside float32; means only of floats.
_OTHERS = frozenset([FLOAT16, FLOAT64, INT32, INT64])


@functools.lru_cache(1024)
def _reduction(operator: str, axis: Any, keepdims: bool) -> Operator:
    return of_function(operator).bind(axis=axis, keepdims=keepdims)


def _at_once(operator: str, a: ndarray, axis: Any, keepdims: bool) -> Any:
    """The reduction of an array of which NumPy has the kernel; None for the cases that need care."""
    data = a._data
    if STATE.trace is not None or RECORDER.operators or AUTOCAST.rules or axis == () or not data.size or not data.ndim:
        return None
    if data.dtype is not FLOAT32 and (data.dtype not in _OTHERS or (operator == "mean" and data.dtype.kind != "f")):
        return None
    try:
        op = _reduction(operator, axis, keepdims)
        result = op.eager(data)
    except (TypeError, ValueError, IndexError, MXNetError):  # explained by the way with care
        return None
    if not keepdims and data.ndim == (data.ndim if axis is None else len(axis) if type(axis) is tuple else 1):
        result = result.reshape(())
    return recorded(op, (a,), (data,), result) if STATE.recording else ndarray(result)


def _reduced(
    name: str, operator: str, a: Any, axis: Axis, dtype: Any, out: Any, keepdims: bool, numbers: bool = True
) -> Any:
    """A reduction by an operator of ``mx.nd``; ``numbers`` says whether no element has a result, too."""
    if type(a) is ndarray and dtype is None and out is None:
        y = _at_once(operator, a, axis, keepdims)
        if y is not None:
            return y
    a = given(a)
    if dtype is not None:
        a = cast(a, dtype)
    axes = axes_of(name, axis, a.ndim)
    shape = _shape(a.shape, axes, keepdims)
    if not numbers and math.prod(a.shape[i] for i in axes) == 0 and math.prod(shape):
        raise ValueError(f"mx.np.{name}: an array of shape {a.shape} has no elements along axis={axis}; give initial=")
    if not numbers and dtype_of(a) == BOOL:
        return into(cast(_reduced(name, operator, cast(a, "uint8"), axis, None, None, keepdims, False), BOOL), out)
    if not axes:
        y = call("identity", a) if operator in ("max", "min") else call(operator, reshaped(a, (*a.shape, 1)), axis=-1)
    else:
        y = call(operator, a, axis=axes, keepdims=keepdims)
    return into(reshaped(y, shape), out)


def _chosen(a: Any, where: Any, neutral: Any) -> Any:
    """The elements where a condition holds, elsewhere a number that changes no result."""
    a, where = given(a), given(where)
    shape = broadcast_shapes("where", ("a", "where"), [a.shape, where.shape])
    a, where = (x if x.shape == shape else function("broadcast_to")(x, shape=shape) for x in (a, where))
    return function("where")(where, a, function("full_like")(a, fill_value=neutral))


def sum(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    out: Any = None,
    where: Any = None,
) -> Any:
    """The sum of ``initial`` and of the elements along axes, ``where`` a condition holds; of booleans in int64."""
    a = a if where is None else _chosen(a, where, 0)
    if initial is None:
        return _reduced("sum", "sum", a, axis, dtype, out, keepdims)
    return into(_reduced("sum", "sum", a, axis, dtype, None, keepdims) + initial, out)


def prod(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """The product of ``initial`` and of the elements along axes, ``where`` a condition holds; of booleans in int64."""
    a = a if where is None else _chosen(a, where, 1)
    if initial is None:
        return _reduced("prod", "prod", a, axis, dtype, out, keepdims)
    return into(_reduced("prod", "prod", a, axis, dtype, None, keepdims) * initial, out)


product = prod


def mean(
    a: Any, axis: Axis = None, dtype: Any = None, out: Any = None, keepdims: bool = False, where: Any = None
) -> Any:
    """The mean of the elements along axes, those ``where`` a condition holds; of integers in float32."""
    if where is None:
        return _reduced("mean", "mean", a, axis, dtype, out, keepdims)
    a = _floating(a, dtype)
    total = sum(a, axis, keepdims=keepdims, where=where)
    return into(total / sum(_chosen(function("ones_like")(a), where, 0), axis, keepdims=keepdims), out)


def _floating(a: Any, dtype: Any = None) -> Any:
    """An operand in a dtype, or else in its dtype of floats, or in float32."""
    a = given(a)
    return cast(a, dtype) if dtype is not None else a if is_float(dtype_of(a)) else cast(a, "float32")


def max(
    a: Any, axis: Axis = None, keepdims: bool = False, out: Any = None, initial: Any = None, where: Any = None
) -> Any:
    """The greatest of ``initial`` and of the elements along axes, ``where`` a condition holds; nan if one is nan."""
    return _extreme("max", maximum, a, axis, keepdims, out, initial, where)


def min(
    a: Any, axis: Axis = None, keepdims: bool = False, out: Any = None, initial: Any = None, where: Any = None
) -> Any:
    """The least of ``initial`` and of the elements along axes, ``where`` a condition holds; nan if one is nan."""
    return _extreme("min", minimum, a, axis, keepdims, out, initial, where)


def _extreme(name: str, further: Any, a: Any, axis: Axis, keepdims: bool, out: Any, initial: Any, where: Any) -> Any:
    if initial is None:
        if where is not None:
            raise ValueError(f"mx.np.{name}: where= may choose no element, which has no {name}imum; give initial=")
        return _reduced(name, name, a, axis, None, out, keepdims, numbers=False)
    a = given(a) if where is None else _chosen(a, where, initial)
    axes = axes_of(name, axis, a.ndim)
    if math.prod(a.shape[i] for i in axes) == 0:
        return into(sum(a, axis, keepdims=keepdims) + initial, out)
    return into(further(_reduced(name, name, a, axis, None, None, keepdims, numbers=False), initial), out)


amax, amin = max, min


def ptp(a: Any, axis: Axis = None, out: Any = None, keepdims: bool = False) -> Any:
    """The distance of the greatest element from the least along axes."""
    return into(max(a, axis, keepdims) - min(a, axis, keepdims), out)


# --- spread, weights ---------------------------------------------------------------------------------------------


def _variance(a: Any, axis: Axis, dtype: Any, ddof: float, keepdims: bool, where: Any) -> tuple[Any, Any]:
    """The variance, of half precision in single, and the dtype that it is to have."""
    a = _floating(a, dtype)
    dtype = dtype_of(a)
    if is_half(dtype):  # squares overflow there
        a = cast(a, "float32")
    axes = axes_of("var", axis, a.ndim)
    distance = a - mean(a, axis, keepdims=True, where=where)
    squares = sum(distance * distance, axis, keepdims=keepdims, where=where)
    if where is None:
        count: Any = math.prod(a.shape[i] for i in axes) - ddof
        return squares / (count if count > 0 else math.nan), dtype
    count = sum(_chosen(function("ones_like")(a), where, 0), axis, keepdims=keepdims) - ddof
    return squares / _chosen(count, count > 0, math.nan), dtype


def var(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    where: Any = None,
) -> Any:
    """The mean of the squared distances from the mean, divided by their number less ``ddof``."""
    squares, dtype = _variance(a, axis, dtype, ddof, keepdims, where)
    return into(cast(squares, dtype), out)


def std(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    where: Any = None,
) -> Any:
    """The square root of the variance."""
    squares, dtype = _variance(a, axis, dtype, ddof, keepdims, where)
    return into(cast(sqrt(squares), dtype), out)


def average(a: Any, axis: Axis = None, weights: Any = None, returned: bool = False, out: Any = None) -> Any:
    """The mean along axes with weights; with ``returned``, also the sum of the weights."""
    a = given(a)
    if weights is None:
        result = mean(a, axis)
        count = math.prod(a.shape[i] for i in axes_of("average", axis, a.ndim))
        # COMPAT(mxnet): there the number of elements has the shape () whatever the result's is.
        return (into(result, out), function("full_like")(result, fill_value=count)) if returned else into(result, out)
    weights = given(weights)
    if weights.shape != a.shape:
        if axis is None:
            raise TypeError("mx.np.average: weights of another shape than a need an axis")
        (i,) = axes_of("average", axis, a.ndim)
        if weights.ndim != 1 or weights.shape[0] != a.shape[i]:
            raise TypeError("mx.np.average: weights have the shape of a, or its length along one axis")
        weights = reshaped(weights, tuple(n if k == i else 1 for k, n in enumerate(a.shape)))
        weights = function("broadcast_to")(weights, shape=a.shape)
    total = sum(weights, axis)
    result = into(sum(a * weights, axis) / total, out)
    return (result, total) if returned else result


# --- truth -------------------------------------------------------------------------------------------------------


def any(a: Any, axis: Axis = None, keepdims: bool = False, out: Any = None) -> Any:
    """Whether an element along axes is not 0."""
    return _truth("any", onp.any, a, axis, keepdims, out)


def all(a: Any, axis: Axis = None, keepdims: bool = False, out: Any = None) -> Any:
    """Whether all elements along axes are not 0."""
    return _truth("all", onp.all, a, axis, keepdims, out)


sometrue, alltrue = any, all


def _truth(name: str, reduce: Any, a: Any, axis: Axis, keepdims: bool, out: Any) -> Any:
    """``any`` is the greatest and ``all`` the least of truth values, which compiled code reduces as bytes."""
    axis = tuple(axis) if isinstance(axis, list) else axis
    if type(a) is ndarray and out is None and not (STATE.recording or RECORDER.operators) and STATE.trace is None:
        axes_of(name, axis, a.ndim)
        return ndarray(onp.asarray(reduce(a._data, axis=axis, keepdims=keepdims)))
    a = given(a)
    nonzero = cast(not_equal(a, 0), "uint8")
    axes = axes_of(name, axis, a.ndim)
    if math.prod(a.shape[i] for i in axes) == 0:
        total = sum(nonzero, axis, keepdims=keepdims)
        return into(cast(total if name == "any" else total + 1, BOOL), out)
    extreme = max if name == "any" else min
    return into(cast(extreme(nonzero, axis, keepdims), BOOL), out)


def count_nonzero(a: Any, axis: Axis = None, *, keepdims: bool = False) -> Any:
    """How many elements along axes are not 0; int64."""
    return sum(not_equal(given(a), 0), axis, keepdims=keepdims)


def allclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Whether all elements of a and b differ by at most atol + rtol * |b|."""
    return bool(all(isclose(a, b, rtol, atol, equal_nan)))


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    """Whether two arrays have one shape and equal elements; with ``equal_nan`` a nan equals a nan."""
    a1, a2 = given(a1), given(a2)
    if a1.shape != a2.shape:
        return False
    same = equal(a1, a2)
    return bool(all(logical_or(same, logical_and(isnan(a1), isnan(a2))) if equal_nan else same))


def array_equiv(a1: Any, a2: Any) -> bool:
    """Whether two arrays have equal elements and one shape, once they are broadcast."""
    a1, a2 = given(a1), given(a2)
    try:
        broadcast_shapes("array_equiv", ("a1", "a2"), [a1.shape, a2.shape])
    except MXNetError:
        return False
    return bool(all(equal(a1, a2)))


# --- indices of extremes -----------------------------------------------------------------------------------------


@functools.lru_cache(256)
def _indexing(name: str, axis: int | None) -> Operator:
    return of_function(name).bind(axis=axis, dtype=INT64)


def _index(name: str, a: Any, axis: int | None, out: Any, keepdims: bool) -> Any:
    if type(a) is ndarray and out is None and STATE.trace is None and not RECORDER.operators:
        data = a._data
        if data.size and data.ndim and (data.dtype is FLOAT32 or data.dtype in _OTHERS):
            reduce: Any = onp.argmax if name == "argmax" else onp.argmin
            result = onp.asarray(reduce(data, axis, keepdims=keepdims))
            return recorded(_indexing(name, axis), (a,), (data,), result) if STATE.recording else ndarray(result)
    a = given(a)
    if a.size == 0 and (axis is None or a.shape[axis] == 0):
        raise ValueError(f"mx.np.{name}: attempt to get {name} of an empty sequence")
    axis = normalize_axis(name, axis, a.ndim, "axis has") if axis is not None and a.ndim else None
    if dtype_of(a) == BOOL:
        a = cast(a, "uint8")
    shape = _shape(a.shape, axes_of(name, axis, a.ndim), keepdims)
    if not math.prod(shape):
        return into(cast(function("zeros_like")(sum(a, axis, keepdims=keepdims)), INT64), out)
    y = reshaped(invoke(_indexing(name, axis), [a if a.ndim else reshaped(a, (1,))]), shape)
    return into(y, out)


def argmax(a: Any, axis: int | None = None, out: Any = None, keepdims: bool = False) -> Any:
    """The index of the greatest element, the first of several, along an axis or in the flattened array; int64."""
    return _index("argmax", a, axis, out, keepdims)


def argmin(a: Any, axis: int | None = None, out: Any = None, keepdims: bool = False) -> Any:
    """The index of the least element, the first of several, along an axis or in the flattened array; int64."""
    return _index("argmin", a, axis, out, keepdims)


# --- sums and products so far ------------------------------------------------------------------------------------


def _so_far(name: str, a: Any, axis: int | None, dtype: Any, out: Any) -> Any:
    a = given(a)
    if axis is not None:
        axis = normalize_axis(name, axis, a.ndim or 1, "axis has")
    if dtype is None and dtype_of(a) == BOOL:
        dtype = INT64
    return into(function(name)(a if dtype is None else cast(a, dtype), axis=axis), out)


def cumsum(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    """The sums of all elements up to each one along an axis, or in the flattened array; of booleans in int64."""
    return _so_far("cumsum", a, axis, dtype, out)


def cumprod(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    """The products of all elements up to each one along an axis, or in the flattened array; of booleans in int64."""
    return _so_far("cumprod", a, axis, dtype, out)


# --- without nan -------------------------------------------------------------------------------------------------


def _without_nan(a: Any, number: float) -> Any:
    """The elements, with a number for nan; integers have none."""
    a = given(a)
    return _chosen(a, logical_not(isnan(a)), number) if is_float(dtype_of(a)) else a


def nansum(
    a: Any, axis: Axis = None, dtype: Any = None, out: Any = None, keepdims: bool = False, initial: Any = None,
    where: Any = None,
) -> Any:  # fmt: skip
    """The sum of the elements along axes, with 0 for nan."""
    return sum(_without_nan(a, 0), axis, dtype, keepdims, initial, out, where)


def nanprod(
    a: Any, axis: Axis = None, dtype: Any = None, out: Any = None, keepdims: bool = False, initial: Any = None,
    where: Any = None,
) -> Any:  # fmt: skip
    """The product of the elements along axes, with 1 for nan."""
    return prod(_without_nan(a, 1), axis, dtype, out, keepdims, initial, where)


def nancumsum(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    """The sums of all elements up to each one, with 0 for nan."""
    return cumsum(_without_nan(a, 0), axis, dtype, out)


def nancumprod(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    """The products of all elements up to each one, with 1 for nan."""
    return cumprod(_without_nan(a, 1), axis, dtype, out)


def nanmax(
    a: Any, axis: Axis = None, out: Any = None, keepdims: bool = False, initial: Any = None, where: Any = None
) -> Any:
    """The greatest element along axes that is not nan; nan if all are."""
    return _nan_extreme(max, -math.inf, a, axis, out, keepdims, initial, where)


def nanmin(
    a: Any, axis: Axis = None, out: Any = None, keepdims: bool = False, initial: Any = None, where: Any = None
) -> Any:
    """The least element along axes that is not nan; nan if all are."""
    return _nan_extreme(min, math.inf, a, axis, out, keepdims, initial, where)


def _nan_extreme(
    extreme: Any, number: float, a: Any, axis: Axis, out: Any, keepdims: bool, initial: Any, where: Any
) -> Any:
    a = given(a)
    result = extreme(_without_nan(a, number), axis, keepdims, None, initial, where)
    if initial is not None or not is_float(dtype_of(a)):
        return into(result, out)
    return into(_chosen(result, logical_not(all(isnan(a), axis, keepdims)), math.nan), out)


def nanmean(
    a: Any, axis: Axis = None, dtype: Any = None, out: Any = None, keepdims: bool = False, where: Any = None
) -> Any:
    """The mean of the elements along axes that are not nan."""
    a = _floating(a, dtype)
    return mean(a, axis, None, out, keepdims, _numbers(a, where))


def nanvar(
    a: Any, axis: Axis = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: bool = False,
    where: Any = None,
) -> Any:  # fmt: skip
    """The variance of the elements along axes that are not nan."""
    a = _floating(a, dtype)
    return var(a, axis, None, out, ddof, keepdims, _numbers(a, where))


def nanstd(
    a: Any, axis: Axis = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: bool = False,
    where: Any = None,
) -> Any:  # fmt: skip
    """The standard deviation of the elements along axes that are not nan."""
    a = _floating(a, dtype)
    return std(a, axis, None, out, ddof, keepdims, _numbers(a, where))


def _numbers(a: Any, where: Any) -> Any:
    """Where elements are not nan, and a condition holds."""
    numbers = logical_not(isnan(a))
    return numbers if where is None else logical_and(numbers, given(where))


def nanargmax(a: Any, axis: int | None = None, out: Any = None, *, keepdims: bool = False) -> Any:
    """The index of the greatest element that is not nan."""
    return argmax(_without_nan(a, -math.inf), axis, out, keepdims)


def nanargmin(a: Any, axis: int | None = None, out: Any = None, *, keepdims: bool = False) -> Any:
    """The index of the least element that is not nan."""
    return argmin(_without_nan(a, math.inf), axis, out, keepdims)

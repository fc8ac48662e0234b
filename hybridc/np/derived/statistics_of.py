"""Statistics of ``mx.np`` arrays: quantiles, histograms, polynomials, integrals."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnnecessaryIsInstance=false
# Arguments are whatever NumPy takes: numbers, lists, arrays, symbols.

from __future__ import annotations

import math
from typing import Any

import numpy as onp

from hybridc.array.dispatch import is_symbol
from hybridc.array.functions import function
from hybridc.array.ndarray import NDArray
from hybridc.dialects.array.shape import normalize_axis
from hybridc.dtypes import is_float
from hybridc.errors import MXNetError
from hybridc.np.apply import cast, dtype_of, into, is_number, operand, reshaped
from hybridc.np.by_element import floor, isnan
from hybridc.np.making import beside, device_of, full
from hybridc.np.numpy_fallback import on_copies
from hybridc.np.reducing import axes_of, given
from hybridc.np.reducing import sum as sum_of
from hybridc.np.selection import picked
from hybridc.np.shaping import broadcast_to, moveaxis, promoted, reshape, transpose

__all__ = [
    "histogram",
    "median",
    "percentile",
    "polyval",
    "quantile",
    "trapz",
]

_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def percentile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: Any = None,
    interpolation: str = "linear",
    keepdims: bool = False,
) -> Any:
    """The value that q percent of the elements along axes are below, between neighbours by ``interpolation``."""
    return _quantile("percentile", a, q, 100, axis, out, overwrite_input, interpolation, keepdims)


def quantile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: Any = None,
    interpolation: str = "linear",
    keepdims: bool = False,
) -> Any:
    """The value that a part q of the elements along axes is below, between neighbours by ``interpolation``."""
    return _quantile("quantile", a, q, 1, axis, out, overwrite_input, interpolation, keepdims)


def median(a: Any, axis: Any = None, out: Any = None, overwrite_input: Any = None, keepdims: bool = False) -> Any:
    """The value in the middle of the elements along axes, or the mean of the two there."""
    return _quantile("median", a, 0.5, 1, axis, out, overwrite_input, "linear", keepdims)


def _quantile(
    name: str,
    a: Any,
    q: Any,
    whole: int,
    axis: Any,
    out: Any,
    overwrite_input: Any,  # noqa: ARG001  (a permission that is not used)
    interpolation: str,
    keepdims: bool,
) -> Any:
    """Quantiles of the sorted elements; ``whole`` is what q is for the greatest one."""
    if interpolation not in _INTERPOLATIONS:
        raise ValueError(f"mx.np.{name}: interpolation {interpolation!r} is not one of {', '.join(_INTERPOLATIONS)}")
    a = given(a)
    a = a if is_float(dtype_of(a)) else cast(a, "float32")
    axes = axes_of(name, axis, a.ndim)
    rest = [i for i in range(a.ndim) if i not in axes]
    lead = tuple(a.shape[i] for i in rest)
    n = math.prod(a.shape[i] for i in axes)
    shape = tuple(1 if i in axes else n for i, n in enumerate(a.shape)) if keepdims else lead
    if not n:
        raise ValueError(f"mx.np.{name}: an array of shape {a.shape} has no elements along axis={axis}")
    ascending = function("sort")(reshape(transpose(a, [*rest, *axes]), (*lead, n)), axis=-1)
    if is_symbol(q):
        value, of_q = _at_traced(ascending, cast(q, a.dtype) * ((n - 1) / whole), interpolation), q.shape
    else:
        parts = onp.asarray(q.asnumpy() if isinstance(q, NDArray) else q, onp.float64) / whole
        if not ((parts >= 0) & (parts <= 1)).all():
            raise ValueError(f"{name.capitalize()}s must be in the range [0, {whole}]")
        value, of_q = _at(ascending, parts.ravel() * (n - 1), interpolation), parts.shape
    greatest = picked(ascending, [n - 1], -1)  # nan, if one is nan
    value = function("where")(*_alike(isnan(greatest), greatest, value))
    return into(reshaped(moveaxis(value, -1, 0), (*of_q, *shape)), out)


def _alike(*arrays: Any) -> list[Any]:
    shape = onp.broadcast_shapes(*[a.shape for a in arrays])
    return [broadcast_to(a, shape) for a in arrays]


def _at(ascending: Any, places: Any, interpolation: str) -> Any:
    """The elements at places between the indices of the last axis."""
    if interpolation == "nearest":
        return picked(ascending, onp.floor(places + 0.5), -1)
    low, high = onp.floor(places), onp.ceil(places)
    if interpolation == "lower" or (low == places).all():
        return picked(ascending, low, -1)
    if interpolation == "higher":
        return picked(ascending, high, -1)
    first, second = picked(ascending, low, -1), picked(ascending, high, -1)
    weight = (high != low) * 0.5 if interpolation == "midpoint" else places - low
    return first + (second - first) * beside(ascending, weight, ascending.dtype)


def _at_traced(ascending: Any, places: Any, interpolation: str) -> Any:
    """As :func:`_at`, of places that are values of a trace."""
    places = reshape(places, (places.size,))

    def at(index: Any) -> Any:
        return function("take")(ascending, index, axis=-1, mode="clip")

    if interpolation == "nearest":
        return at(floor(places + 0.5))
    low = floor(places)
    high = -floor(-places)
    if interpolation in ("lower", "higher"):
        return at(low if interpolation == "lower" else high)
    weight = (high - low) * 0.5 if interpolation == "midpoint" else places - low
    return at(low) + (at(high) - at(low)) * weight


def histogram(
    a: Any, bins: Any = 10, range: Any = None, normed: Any = None, weights: Any = None, density: Any = None
) -> list[Any]:
    """How many elements fall into each bin, in int64, and the edges of the bins, in the dtype of the elements.

    Parameters
    ----------
    normed:
        None or False: what NumPy removed is a NotImplementedError; use ``density``.
    """
    if normed:
        raise NotImplementedError("mx.np.histogram: normed is not supported; use density")
    a = given(a)
    if weights is not None or density or isinstance(bins, str):
        return list(on_copies("histogram", onp.histogram)(a, bins, range, density, weights))
    data = a if is_float(dtype_of(a)) else cast(a, "float32")
    if not is_number(bins):
        return list(function("_histogram")(data, cast(operand(bins), data.dtype)))
    if range is None:
        # COMPAT(mxnet): without a range it is that of the elements, as in NumPy; MXNet raises.
        if is_symbol(a):
            raise MXNetError("mx.np.histogram: without range= it depends on values, which a trace does not have")
        low, high = (float(data.asnumpy().min()), float(data.asnumpy().max())) if a.size else (0.0, 1.0)
        range = (low, high) if low < high else (low - 0.5, high + 0.5)
    return list(function("_histogram")(data, bin_cnt=int(bins), range=tuple(float(x) for x in range)))


def polyval(p: Any, x: Any) -> Any:
    """The polynomial with coefficients p, that of the highest power first, at x."""
    p = given(p)
    if p.ndim != 1:
        raise ValueError(f"mx.np.polyval: coefficients have one dimension, got shape {p.shape}")
    p, x = promoted([p, given(x)])
    y = full(x.shape, 0, dtype_of(x), ctx=device_of(x)) if not p.size else broadcast_to(p[0], x.shape)
    for i in [*onp.arange(1, p.size)]:
        y = y * x + p[int(i)]
    return y


def trapz(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Any:
    """The integral of ``y`` along ``axis`` by the trapezoidal rule, at points ``x`` or at distances ``dx``."""
    y = given(y)
    axis = normalize_axis("trapz", axis, y.ndim, "axis has")
    lead = (slice(None),) * axis
    if x is None:
        distance = dx
    else:
        x = given(x)
        along = axis if x.ndim > 1 else 0
        before = (slice(None),) * along
        distance = x[(*before, slice(1, None))] - x[(*before, slice(None, -1))]
        if x.ndim == 1:
            distance = reshape(distance, (distance.size, *[1] * (y.ndim - axis - 1)))
    return sum_of((y[(*lead, slice(1, None))] + y[(*lead, slice(None, -1))]) * distance / 2.0, axis)

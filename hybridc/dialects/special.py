"""Functions on arrays that NumPy lacks: the error function, those of other steps, and what C does differently.

They return float32 for float32 and smaller dtypes, else float64. tests/runtime/test_special.py compares with SciPy's.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hybridc.dialects.scalar import coefficients as table
from hybridc.ground.machine import NOMINAL

# erf(x) = x P(x²) / Q(x²) for |x| <= 3.95, beyond which float32 rounds to ±1. Fitted to the smallest relative error
# (0.35 ulp); rounding in P and Q brings it to at most 7 ulp (tests/runtime/test_special.py).
_P = (1.1283791, 0.19155091, 0.052875523, 0.0038081831, 0.00028468741, 2.0258949e-06)
_Q = (1.0, 0.50309026, 0.11455987, 0.015055139, 0.0011707292, 3.7831644e-05)
_LIMIT, _ONE = np.float32(3.95), np.float32(1)
# Below so many elements C's function for each takes less time than two dozen ufunc calls.
_FEW = 256
# Elements per block: four arrays of them fill the third cache, and a call takes longer than handing over the GIL.
_BLOCK = NOMINAL.third // 4 // 4


class _Scratch(threading.local):
    """Arrays for intermediate values, one set per thread."""

    def __init__(self) -> None:
        self.arrays = np.empty((3, _BLOCK), np.float32)


_SCRATCH = _Scratch()


def _horner(coefficients: Sequence[float], x: Any, out: Any = None) -> Any:
    """The polynomial with these coefficients, lowest first."""
    out = np.multiply(x, coefficients[-1], out=out)
    for c in coefficients[-2:0:-1]:
        np.add(out, c, out=out)
        np.multiply(out, x, out=out)
    return np.add(out, coefficients[0], out=out)


# --- the error function -----------------------------------------------------------------------------------------------


def _erf_of_single(x: Any, out: Any) -> None:
    clipped, square, p = (a[: x.size] for a in _SCRATCH.arrays)
    np.clip(x, -_LIMIT, _LIMIT, out=clipped)  # NumPy vectorises clip, but not minimum of an array and a number
    np.multiply(clipped, clipped, out=square)
    _horner(_P, square, p)
    np.multiply(p, clipped, out=p)
    _horner(_Q, square, clipped)
    np.divide(p, clipped, out=p)
    np.clip(p, -_ONE, _ONE, out=out)


def _erf_of_double(_: Any, x: Any) -> Any:
    """x P(x²) up to 1, above 1 - exp(R(|x|))."""
    a: Any = np.minimum(np.abs(x), 6.0)
    near: Any = a * _horner(table.ERF_NEAR_F64, np.minimum(a * a, 1.0))
    far: Any = 1.0 - np.exp(_horner(table.ERF_FAR_F64, a - 3.5))
    where: Any = np.where
    return np.copysign(where(a < 1.0, near, far), x)


# --- functions of arrays of any dtype ---------------------------------------------------------------------------------


def _in_blocks(write: Callable[[Any, Any], None], x: Any, dtype: Any, out: Any) -> Any:
    """An array of a dtype, or ``out``, into which a function writes the results for one block of x after the other."""
    result = np.empty(x.shape, dtype) if out is None else out
    packed = result.flags.c_contiguous and result.shape == x.shape
    target = result.reshape(-1) if packed else np.empty(result.size, dtype)
    source = np.ascontiguousarray(np.broadcast_to(x, result.shape)).reshape(-1)
    for i in range(0, source.size, _BLOCK):
        write(source[i : i + _BLOCK], target[i : i + _BLOCK])
    if not packed:
        result[...] = target.reshape(result.shape)
    return result


def by_blocks(formula: Callable[[Any, Any], Any], builder: Any, x: Any, out: Any = None) -> Any:
    """A function of arrays of any dtype and layout, from a formula in float64, written for a builder of NumPy."""

    def write(source: Any, target: Any) -> None:
        target[:] = formula(builder, source.astype(np.float64))

    x = np.asarray(x)
    with np.errstate(all="ignore"):  # infinities and nan are results
        result = _in_blocks(write, x, np.result_type(x.dtype, np.float32), out)
    return result if out is not None or result.ndim else result[()]


def erf(x: Any, out: Any = None) -> Any:
    """The error function, 2/sqrt(pi) times the integral of exp(-t²) from 0 to x."""
    x = np.asarray(x)
    if 0 < x.size < _FEW and out is None and x.dtype.kind == "f" and x.dtype.itemsize in (4, 8):
        return np.array(list(map(math.erf, x.ravel().tolist())), x.dtype).reshape(x.shape)[()]
    if x.dtype != np.float32:
        return by_blocks(_erf_of_double, None, x, out)
    return _in_blocks(_erf_of_single, x, np.float32, out)


def power(x: Any, y: Any, out: Any = None) -> Any:
    """x**y with C's results, also for an exponent 0.5, where NumPy takes a square root.

    That makes -inf**0.5 nan, and -0.0**0.5 negative.
    """
    roots: Any = np.equal(y, 0.5)
    if np.any(roots):
        where: Any = np.where
        x = where(roots & (np.equal(x, -np.inf) | np.equal(x, 0)), np.abs(x), x)
    return np.power(x, y, out=out) if out is not None else np.power(x, y)


def quotient(x: Any, y: Any, out: Any = None) -> Any:
    """x / y for integers, truncated; NumPy's own floors."""
    return np.floor_divide(np.subtract(x, np.fmod(x, y)), y, out=out)

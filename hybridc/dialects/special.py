"""Special functions on arrays: scipy's, but for ``erf`` of float32, which is vectorised here."""

from __future__ import annotations

import functools
import threading
from typing import Any

import numpy as np

from hybridc.ground.machine import NOMINAL

# erf(x) = x P(x²) / Q(x²) for |x| <= 3.95, beyond which float32 rounds to ±1. Fitted to the smallest relative error
# (0.35 ulp); rounding in P and Q brings it to at most 7 ulp (tests/runtime/test_special.py).
_P = (1.1283791, 0.19155091, 0.052875523, 0.0038081831, 0.00028468741, 2.0258949e-06)
_Q = (1.0, 0.50309026, 0.11455987, 0.015055139, 0.0011707292, 3.7831644e-05)
_LIMIT, _ONE = np.float32(3.95), np.float32(1)
# Below so many elements scipy's loop is faster than two dozen ufunc calls.
_FEW = 4096
# Elements per block: four arrays of them fill the third cache, and a call takes longer than handing over the GIL.
_BLOCK = NOMINAL.third // 4 // 4


@functools.cache
def scipy_special() -> Any:
    """The module ``scipy.special``, imported when first used: it is slow to import."""
    from scipy import special

    return special


class _Scratch(threading.local):
    """Arrays for intermediate values, one set per thread."""

    def __init__(self) -> None:
        self.arrays = np.empty((3, _BLOCK), np.float32)


_SCRATCH = _Scratch()


def erf(x: Any, out: Any = None) -> Any:
    """The error function, 2/sqrt(pi) times the integral of exp(-t²) from 0 to x."""
    x = np.asarray(x)
    if x.dtype != np.float32 or x.size < _FEW:
        return scipy_special().erf(x, out=out) if out is not None else scipy_special().erf(x)
    result = np.empty(x.shape, np.float32) if out is None else out
    if x.flags.c_contiguous and result.flags.c_contiguous and x.shape == result.shape:
        source, target = x.reshape(-1), result.reshape(-1)
        for i in range(0, source.size, _BLOCK):
            _erf_block(source[i : i + _BLOCK], target[i : i + _BLOCK])
        return result
    packed = np.ascontiguousarray(np.broadcast_to(x, result.shape))
    result[...] = erf(packed)
    return result


def _erf_block(x: Any, out: Any) -> None:
    clipped, square, p = (a[: x.size] for a in _SCRATCH.arrays)
    np.clip(x, -_LIMIT, _LIMIT, out=clipped)  # NumPy vectorises clip, but not minimum of an array and a number
    np.multiply(clipped, clipped, out=square)
    _horner(_P, square, p)
    np.multiply(p, clipped, out=p)
    _horner(_Q, square, clipped)
    np.divide(p, clipped, out=p)
    np.clip(p, -_ONE, _ONE, out=out)


def _horner(coefficients: tuple[float, ...], x: Any, out: Any) -> None:
    """The polynomial with these coefficients, lowest first."""
    np.multiply(x, coefficients[-1], out=out)
    for c in coefficients[-2:0:-1]:
        np.add(out, c, out=out)
        np.multiply(out, x, out=out)
    np.add(out, coefficients[0], out=out)


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


def __getattr__(name: str) -> Any:
    if name.startswith("__"):  # looked up by the import system
        raise AttributeError(name)
    return getattr(scipy_special(), name)

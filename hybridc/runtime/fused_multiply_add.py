"""x y + z with one rounding on NumPy arrays, as a processor's fused multiply-add computes it.

The product is split into two numbers exactly, and so is its sum with z; what is too small to be represented makes
the last place of the smaller part odd, so that the one rounding that follows is right.
S. Boldo, G. Melquiond: Emulation of a FMA and correctly rounded sums (IEEE Transactions on Computers, 2008).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]
_SPLIT = 2.0**27 + 1  # a number times this gives its upper 26 bits


def fused_multiply_add(x: npt.NDArray[Any], y: npt.NDArray[Any], z: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """x y + z of floats of one dtype. Subnormal results of double precision may be rounded twice."""
    dtype = z.dtype
    x, y, z = np.broadcast_arrays(x, y, z)
    with np.errstate(all="ignore"):
        doubles = [v.astype(np.float64) for v in (x, y, z)]
        plain = (doubles[0] * doubles[1] + doubles[2]).astype(dtype)
        if dtype == np.float64:
            exact = _of_doubles(*doubles)
        else:
            exact = _odd(*_sum(doubles[0] * doubles[1], doubles[2])).astype(dtype)
    product = np.isfinite(x) & np.isfinite(y)
    plain = np.where(product & ~np.isfinite(z), z, plain)
    usual = product & np.isfinite(z) & np.isfinite(exact) & (exact != 0)
    return np.where(usual, exact, plain)


def _of_doubles(x: Doubles, y: Doubles, z: Doubles) -> Doubles:
    (x, power_x), (y, power_y) = np.frexp(x), np.frexp(y)
    power = power_x + power_y
    high, low = _product(x, y)
    z = np.ldexp(z, -power)  # all three as great as the product, so that nothing overflows on the way
    rounded, rest = _sum(high, z)
    return np.ldexp(rounded + _odd(*_sum(rest, low)), power)


def _sum(x: Doubles, y: Doubles) -> tuple[Doubles, Doubles]:
    """The sum and its rounding error (two-sum)."""
    total = x + y
    other = total - x
    return total, (x - (total - other)) + (y - other)


def _product(x: Doubles, y: Doubles) -> tuple[Doubles, Doubles]:
    """The product and its rounding error."""
    (a, b), (c, d) = _halves(x), _halves(y)
    product = x * y
    return product, ((a * c - product) + a * d + b * c) + b * d


def _halves(x: Doubles) -> tuple[Doubles, Doubles]:
    great = x * _SPLIT
    high = great - (great - x)
    return high, x - high


def _odd(x: Doubles, lost: Doubles) -> Doubles:
    """A sum rounded to odd: truncated, and if inexact its last bit is 1."""
    even = np.ascontiguousarray(x).view(np.int64) & 1 == 0
    beside = np.nextafter(x, np.copysign(np.inf, lost))
    return np.where((lost != 0) & even, beside, x)

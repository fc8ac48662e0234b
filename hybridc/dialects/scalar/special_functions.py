"""Special functions as compositions of other steps: polynomials, recurrences, asymptotic series, reflections.

All compute in double precision, with the polynomials of :mod:`hybridc.dialects.scalar.coefficients`. Every branch is
computed for every element, so operands are kept where a branch is defined.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hybridc.dialects.scalar import coefficients as table

# Bernoulli's numbers B(2k) over 2k (2k - 1), and over 2k: the asymptotic series of log(gamma(x)) and of digamma.
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400)
_ASYMPTOTIC = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12, -3617 / 8160)
# From here on these series are exact.
_FAR = 10.0
# Below it gamma(x) is 1 / x.
_TINY = 1e-20


def _polynomial(coefficients: Sequence[float], x: Any) -> Any:
    """The polynomial with these coefficients, lowest first."""
    result: Any = coefficients[-1]
    for c in coefficients[-2::-1]:
        result = x * result + c
    return result


def _lowered(b: Any, x: Any) -> tuple[Any, Any]:
    """For 3 <= x <= 10 what is less by a whole number and below 3, and gamma(x) over its gamma; else x and 1."""
    product: Any = 1.0
    for _ in range(8):
        above = x >= 3.0
        x = b.select(above, x - 1.0, x)
        product = b.select(above, x, 1.0) * product
    return x, product


def erfinv(b: Any, x: Any) -> Any:
    """x times a polynomial of w = -log(1 - x²), of its root in the tails."""
    x = b.cast(x, np.float64)
    w = -b.log((1.0 - x) * (x + 1.0))
    root = b.sqrt(b.max(w, 6.25))
    near = _polynomial(table.ERFINV_NEAR_F64, b.min(w, 6.25) - 3.125)
    middle = _polynomial(table.ERFINV_MIDDLE_F64, b.min(root, 4.0) - 3.0)
    far = _polynomial(table.ERFINV_FAR_F64, b.min(root, 6.01) - 5.0)
    y = x * b.select(w < 6.25, near, b.select(w < 16.0, middle, far))
    return b.select(b.abs(x) == 1.0, x * math.inf, b.select(b.abs(x) > 1.0, math.nan, y))


def gamma(b: Any, x: Any) -> Any:
    """Of negative x by the reflection gamma(x) gamma(-x) = -pi / (x sin(pi x)); nan where that has a pole."""
    x = b.cast(x, np.float64)
    size = b.abs(x)
    # By the recurrence to arguments from 2 to 3; those below 2 are raised.
    raised = b.select(size < 1.0, size + 2.0, b.select(size < 2.0, size + 1.0, b.min(size, _FAR)))
    divisor = b.select(size < 1.0, size * (size + 1.0), b.select(size < 2.0, size, 1.0))
    inside, product = _lowered(b, raised)
    near = _polynomial(table.GAMMA_F64, inside - 2.5) * product / divisor
    large = b.min(b.max(size, _FAR), 172.0)
    root = b.pow(large, large * 0.5 - 0.25)  # its square may overflow before exp(-x) makes it smaller
    series = b.exp(_polynomial(_STIRLING, 1.0 / (large * large)) / large)
    far = root * b.exp(-large) * root * series * math.sqrt(2 * math.pi)
    above = b.select(size < _FAR, near, b.select(size < 171.7, far, b.select(b.isnan(x), x, math.inf)))
    whole = b.rint(x)
    sine = b.sin((x - whole) * math.pi)
    odd = whole - b.floor(whole * 0.5) * 2.0 == 1.0
    below = math.pi / (x * b.select(odd, sine, -sine) * above)
    signed = b.select(x > 0.0, above, b.select(x == whole, math.nan, b.select(size > 190.0, below * 0.0, below)))
    return b.select(size < _TINY, 1.0 / x, b.select(b.isnan(x), x, signed))


def lgamma(b: Any, x: Any) -> Any:
    """Of negative x by the reflection of gamma; inf where gamma has a pole; -inf at -inf, as MXNet's."""
    x = b.cast(x, np.float64)
    size = b.abs(x)
    inside, product = _lowered(b, b.min(b.max(size, 1.5), _FAR))
    # log(gamma(2 + t)) = t P(t) for t from -0.5 to 1; log(gamma) has zeros at 1 and 2.
    t = b.select(size < 0.5, size, b.select(size < 1.5, size - 1.0, inside - 2.0))
    raised = b.select(size < 0.5, size * (size + 1.0), b.select(size < 1.5, size, 1.0 / product))
    near = t * _polynomial(table.LGAMMA_F64, t) - b.log(raised)
    large = b.max(size, _FAR)
    series = _polynomial(_STIRLING, 1.0 / (large * large)) / large
    far = (large - 0.5) * (b.log(large) - 1.0) + (series + (0.5 * math.log(2 * math.pi) - 0.5))
    above = b.select(size < _FAR, near, far)
    below = math.log(math.pi) - b.log(size * b.abs(b.sin((x - b.rint(x)) * math.pi))) - above
    signed = b.select(x > 0.0, above, below)
    return b.select(size < _TINY, -b.log(size), b.select(b.isinf(x), x, signed))


def digamma(b: Any, x: Any) -> Any:
    """Of negative x by the reflection there; nan where gamma has a pole, but at 0, whose sign says the side."""
    x = b.cast(x, np.float64)
    size = b.abs(x)
    inside = b.select(size < 1.0, size + 1.0, b.min(size, _FAR))
    steps: Any = 0.0
    for _ in range(9):
        above = inside >= 2.0
        inside = b.select(above, inside - 1.0, inside)
        steps = b.select(above, 1.0 / inside, 0.0) + steps
    distance = (inside - table.DIGAMMA_ROOT[0]) - table.DIGAMMA_ROOT[1]
    near = distance * _polynomial(table.DIGAMMA_F64, inside - 1.5) + steps
    near = near - b.select(size < 1.0, 1.0 / size, 0.0)
    large = b.max(size, _FAR)
    square = 1.0 / (large * large)
    far = b.log(large) - 0.5 / large - square * _polynomial(_ASYMPTOTIC, square)
    above = b.select(size < _FAR, near, far)
    turn = (x - b.rint(x)) * math.pi
    below = above - 1.0 / x - b.cos(turn) * math.pi / b.sin(turn)
    signed = b.select(x > 0.0, above, b.select(turn == 0.0, math.nan, below))
    return b.select(size < _TINY, -1.0 / x, b.select(b.isnan(x), x, signed))

"""Operators of two inputs that NumPy has beside MXNet's first ones: angles, signs, quotients, extremes without nan."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hybridc.dialects.math.elementwise import Binary, by_element, meaning
from hybridc.dialects.numpy_rules import INEXACT
from hybridc.dialects.operator import no_gradient, register


@register("hybrid.arctan2")
class Arctan2(Binary):
    """The angle of the point (rhs, lhs), from -pi to pi"""

    NNVM = "_npi_arctan2"
    NNVM_SCALAR = ("_npi_arctan2_scalar", "_npi_rarctan2_scalar")
    NUMPY = INEXACT
    REFERENCE = by_element(math.atan2)

    def scalar(self, b: Any, x: Any, y: Any) -> Any:
        return b.atan2(x, y)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, y, _ = values
        return lambda: dy * (y / (x * x + y * y)), lambda: dy * (-x / (x * x + y * y))


@register("hybrid.copysign")
class Copysign(Binary):
    """|lhs| with the sign of rhs, also that of a zero"""

    NNVM = "_npi_copysign"
    NNVM_SCALAR = ("_npi_copysign_scalar", "_npi_rcopysign_scalar")
    NUMPY = INEXACT
    REFERENCE = by_element(math.copysign)

    def scalar(self, b: Any, x: Any, y: Any) -> Any:
        return b.copysign(x, y)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, y, _ = values
        return lambda: dy * (F.equal(F.lesser(x, 0), F.lesser(y, 0)) * 2 - 1), None


@register("hybrid.ldexp")
class Ldexp(Binary):
    """lhs * 2**rhs"""

    NNVM = "_npi_ldexp"
    NNVM_SCALAR = ("_npi_ldexp_scalar", "_npi_rldexp_scalar")
    NUMPY = INEXACT
    REFERENCE = meaning(lambda x, y: x * 2.0**y)

    def scalar(self, b: Any, x: Any, y: Any) -> Any:
        half = b.floor(y * 0.5)  # in two factors, as 2**rhs may be infinite although the result is not
        return x * b.exp2(half) * b.exp2(y - half)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, _, y, z = values
        return lambda: dy * F.exp2(y), lambda: dy * z * math.log(2)


@register("hybrid.fmod")
class Fmod(Binary):
    """The remainder of lhs / rhs with the sign of lhs; of integers 0 where rhs is 0"""

    REFERENCE = by_element(math.fmod)
    LOW = 0.5

    def scalar(self, b: Any, x: Any, y: Any) -> Any:
        return b.fmod(x, y)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, y, _ = values
        return dy, lambda: -dy * F.trunc(x / y)


@register("hybrid.floor_divide")
class FloorDivide(Binary):
    """floor(lhs / rhs), exactly; of integers 0 where rhs is 0"""

    REFERENCE = meaning(lambda x, y: np.floor(x / y))
    LOW = 0.5
    gradient = no_gradient

    def scalar(self, b: Any, x: Any, y: Any) -> Any:
        # lhs less the remainder is a multiple of rhs; the quotient of floats is off by less than a half.
        rest = b.fmod(x, y)
        cut = b.quotient(x - rest, y)
        whole = b.select((rest != 0) & ((rest < 0) != (y < 0)), cut - 1, cut)
        down = b.floor(whole)
        nearest = b.select(whole - down > 0.5, down + 1, down)
        signed = b.select(nearest == 0, b.quotient(x * 0, y), nearest)
        return b.select(y == 0, b.quotient(x, y), signed)

    def eager(self, *arrays: Any) -> Any:
        with np.errstate(all="ignore"):
            return np.floor_divide(*arrays)


@register("hybrid.fmax")
class Fmax(Binary):
    """The greater of lhs and rhs; the other one if one is nan"""

    REFERENCE = by_element(max)

    def scalar(self, b: Any, x: Any, y: Any) -> Any:
        return b.select((x >= y) | (y != y), x, y)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _, z = values
        return _of_chosen(F, dy, x, z)


@register("hybrid.fmin")
class Fmin(Binary):
    """The lesser of lhs and rhs; the other one if one is nan"""

    REFERENCE = by_element(min)

    def scalar(self, b: Any, x: Any, y: Any) -> Any:
        return b.select((x <= y) | (y != y), x, y)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _, z = values
        return _of_chosen(F, dy, x, z)


def _of_chosen(F: Any, dy: Any, x: Any, z: Any) -> Any:
    """The gradients of what is one of two inputs: x at equality."""
    first = F.equal(z, x)
    return dy * first, dy * (1 - first)


@register("hybrid.heaviside")
class Heaviside(Binary):
    """0 where lhs < 0, 1 where lhs > 0, rhs where lhs is 0; nan stays nan"""

    NUMPY = INEXACT
    REFERENCE = by_element(lambda x, y: 0 if x < 0 else 1 if x > 0 else y)

    def scalar(self, b: Any, x: Any, y: Any) -> Any:
        return b.select(x == 0, y, b.select(x < 0, 0, b.select(x > 0, 1, x)))

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _, _ = values
        return None, dy * F.equal(x, 0)


@register("hybrid.logaddexp")
class Logaddexp(Binary):
    """log(e**lhs + e**rhs) without overflow"""

    NUMPY = INEXACT
    REFERENCE = meaning(lambda x, y: np.log(np.exp(x) + np.exp(y)))

    def scalar(self, b: Any, x: Any, y: Any) -> Any:
        return b.select(x == y, x + math.log(2), b.max(x, y) + b.log1p(b.exp(-b.abs(x - y))))

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, y, z = values
        return lambda: dy * F.exp(x - z), lambda: dy * F.exp(y - z)

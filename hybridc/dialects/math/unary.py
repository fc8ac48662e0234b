"""Powers, logarithms, rounding and other scalar functions of one input."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from hybridc.dialects.math.elementwise import by_element, meaning
from hybridc.dialects.operator import Elementwise, Sample, attribute, register
from hybridc.dialects.operator_attribute import Shape
from hybridc.dialects.scalar import NUMPY
from hybridc.dialects.special import scipy_special
from hybridc.errors import UnsupportedError


class Unary(Elementwise):
    """A scalar function of one input.

    ``REFERENCE`` is its meaning in float64, ``LOW`` and ``HIGH`` bound where the samples are taken,
    ``STEPS`` says that it is constant almost everywhere and so has no gradient.
    """

    REFERENCE: ClassVar[Any] = None
    LOW: ClassVar[float] = -2.0
    HIGH: ClassVar[float] = 2.0
    STEPS: ClassVar[bool] = False

    @classmethod
    def samples(cls) -> list[Sample]:
        if cls.REFERENCE is None:
            return []
        shapes: list[Shape] = [(3, 5), (2, 1, 7), (0, 4), (1,)]
        return [Sample([s], cls.REFERENCE, low=cls.LOW, high=cls.HIGH, grad=not cls.STEPS) for s in shapes]


def special(name: str) -> Callable[..., Any]:
    """A ufunc of scipy.special."""
    return getattr(scipy_special(), name)


# --- sign, powers -----------------------------------------------------------------------------------------


@register("hybrid.negative", "_np_negative")
class Negative(Unary):
    """-x"""

    REFERENCE = meaning(lambda x: 0 - x)

    def scalar(self, b: Any, x: Any) -> Any:
        return -x

    def gradient(self, F: Any, *values: Any) -> Any:
        return -values[0]


@register("hybrid.abs", "_abs")
class Abs(Unary):
    """|x|"""

    REFERENCE = meaning(lambda x: np.maximum(x, -x))

    def scalar(self, b: Any, x: Any) -> Any:
        return b.abs(x)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _ = values
        return dy * F.sign(x)


@register("hybrid.sign")
class Sign(Unary):
    """-1, 0 or 1 as x is negative, zero or positive; nan stays nan"""

    # COMPAT(mxnet): nan gives nan; there it gives 0 and hides the error.
    REFERENCE = meaning(lambda x: 1.0 * (x > 0) - (x < 0))
    STEPS = True

    def scalar(self, b: Any, x: Any) -> Any:
        return b.sign(x)


@register("hybrid.square")
class Square(Unary):
    """x**2"""

    REFERENCE = meaning(lambda x: x**2)

    def scalar(self, b: Any, x: Any) -> Any:
        return x * x

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _ = values
        return dy * (x * 2)


@register("hybrid.sqrt")
class Sqrt(Unary):
    """The square root of x"""

    REFERENCE = meaning(lambda x: x**0.5)
    LOW = 0.2

    def scalar(self, b: Any, x: Any) -> Any:
        return b.sqrt(x)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, _, y = values
        return dy * 0.5 / y


@register("hybrid.rsqrt")
class Rsqrt(Unary):
    """1 / sqrt(x)"""

    REFERENCE = meaning(lambda x: x**-0.5)
    LOW = 0.2

    def scalar(self, b: Any, x: Any) -> Any:
        return 1.0 / b.sqrt(x)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, y = values
        return dy * -0.5 * (y / x)


@register("hybrid.cbrt")
class Cbrt(Unary):
    """The cube root of x"""

    REFERENCE = by_element(lambda x: math.copysign(abs(x) ** (1 / 3), x))
    LOW = 0.2

    def scalar(self, b: Any, x: Any) -> Any:
        return b.cbrt(x)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, _, y = values
        return dy / (3 * y * y)


@register("hybrid.rcbrt")
class Rcbrt(Unary):
    """1 / cbrt(x)"""

    REFERENCE = meaning(lambda x: 1 / np.cbrt(x))
    LOW = 0.2

    def scalar(self, b: Any, x: Any) -> Any:
        return 1.0 / b.cbrt(x)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, y = values
        return dy * (y / x) / -3


@register("hybrid.reciprocal")
class Reciprocal(Unary):
    """1 / x"""

    REFERENCE = meaning(lambda x: 1 / x)
    LOW = 0.2

    def scalar(self, b: Any, x: Any) -> Any:
        return 1.0 / x

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, _, y = values
        return -dy * y * y


# --- exponentials, logarithms -----------------------------------------------------------------------------


@register("hybrid.exp")
class Exp(Unary):
    """e**x"""

    REFERENCE = by_element(math.exp)

    def scalar(self, b: Any, x: Any) -> Any:
        return b.exp(x)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, _, y = values
        return dy * y


@register("hybrid.expm1")
class Expm1(Unary):
    """e**x - 1, exact for small x"""

    REFERENCE = by_element(math.expm1)

    def scalar(self, b: Any, x: Any) -> Any:
        return b.expm1(x)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, _, y = values
        return dy * (y + 1)


@register("hybrid.log")
class Log(Unary):
    """The natural logarithm of x"""

    REFERENCE = by_element(math.log)
    LOW = 0.2

    def scalar(self, b: Any, x: Any) -> Any:
        return b.log(x)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _ = values
        return dy / x


@register("hybrid.log1p")
class Log1p(Unary):
    """log(1 + x), exact for small x"""

    REFERENCE = by_element(math.log1p)
    LOW = -0.7

    def scalar(self, b: Any, x: Any) -> Any:
        return b.log1p(x)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _ = values
        return dy / (x + 1)


@register("hybrid.log2")
class Log2(Unary):
    """The logarithm of x to the base 2"""

    REFERENCE = meaning(lambda x: np.log(x) / math.log(2))
    LOW = 0.2

    def scalar(self, b: Any, x: Any) -> Any:
        return b.log2(x)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _ = values
        return dy / (x * math.log(2))


@register("hybrid.log10")
class Log10(Unary):
    """The logarithm of x to the base 10"""

    REFERENCE = meaning(lambda x: np.log(x) / math.log(10))
    LOW = 0.2

    def scalar(self, b: Any, x: Any) -> Any:
        return b.log10(x)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _ = values
        return dy / (x * math.log(10))


# --- rounding ---------------------------------------------------------------------------------------------


@register("hybrid.floor")
class Floor(Unary):
    """The greatest whole number that is at most x"""

    REFERENCE = by_element(math.floor)
    STEPS = True

    def scalar(self, b: Any, x: Any) -> Any:
        return b.floor(x)


@register("hybrid.ceil")
class Ceil(Unary):
    """The least whole number that is at least x"""

    REFERENCE = by_element(math.ceil)
    STEPS = True

    def scalar(self, b: Any, x: Any) -> Any:
        return b.ceil(x)


@register("hybrid.trunc", "fix")
class Trunc(Unary):
    """x without its fraction"""

    REFERENCE = meaning(lambda x: np.sign(x) * np.floor(np.abs(x)))
    STEPS = True

    def scalar(self, b: Any, x: Any) -> Any:
        return b.trunc(x)


@register("hybrid.round")
class Round(Unary):
    """The whole number nearest to x, a half away from zero"""

    REFERENCE = meaning(lambda x: np.sign(x) * np.floor(np.abs(x) + 0.5))
    STEPS = True

    def scalar(self, b: Any, x: Any) -> Any:
        # Not floor(|x| + 0.5): that addition rounds, so the largest float below 0.5 would become 1.
        whole = b.trunc(x)
        return b.select(b.abs(x - whole) >= 0.5, whole + b.sign(x), whole)


@register("hybrid.rint")
class Rint(Unary):
    """The whole number nearest to x, a half towards minus infinity"""

    REFERENCE = meaning(lambda x: np.ceil(x - 0.5))
    STEPS = True

    def scalar(self, b: Any, x: Any) -> Any:
        whole = b.floor(x)
        return b.select(x - whole > 0.5, b.ceil(x), whole)


# --- special functions ------------------------------------------------------------------------------------


@register("hybrid.erf")
class Erf(Unary):
    """The error function, 2/sqrt(pi) * integral of exp(-t**2) from 0 to x"""

    REFERENCE = by_element(math.erf)

    def scalar(self, b: Any, x: Any) -> Any:
        return b.erf(x)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _ = values
        return dy * (2 / math.sqrt(math.pi)) * F.exp(-(x * x))


def _by_bisection(y: float) -> float:
    """The number whose error function is ``y``."""
    low, high = -6.0, 6.0
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if math.erf(middle) < y else (low, middle)
    return middle


@register("hybrid.erfinv")
class Erfinv(Unary):
    """The inverse of the error function"""

    REFERENCE = by_element(_by_bisection)
    LOW, HIGH = -0.9, 0.9

    def scalar(self, b: Any, x: Any) -> Any:
        return b.select(x == 0, x, b.erfinv(x))  # -0.0 stays

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, _, y = values
        return dy * (math.sqrt(math.pi) / 2) * F.exp(y * y)


@register("hybrid.gamma")
class Gamma(Unary):
    """The gamma function, (x - 1)! for whole x"""

    REFERENCE = by_element(math.gamma)
    LOW, HIGH = 0.5, 4.0

    def scalar(self, b: Any, x: Any) -> Any:
        return b.gamma(x)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, y = values
        return dy * y * F.digamma(x)


@register("hybrid.gammaln")
class Gammaln(Unary):
    """log|gamma(x)|"""

    REFERENCE = by_element(math.lgamma)
    LOW, HIGH = 0.5, 4.0

    def scalar(self, b: Any, x: Any) -> Any:
        return b.lgamma(x)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _ = values
        return dy * F.digamma(x)


def _digamma_series(x: Any) -> Any:
    """The recurrence digamma(x) = digamma(x + 1) - 1 / x up to where the asymptotic series is exact."""
    y = x + 12
    series: Any = np.log(y) - 1 / (2 * y) - 1 / (12 * y**2) + 1 / (120 * y**4) - 1 / (252 * y**6) + 1 / (240 * y**8)
    return series - sum(1 / (x + k) for k in range(12))


@register("hybrid.digamma")
class Digamma(Unary):
    """The derivative of log(gamma(x))"""

    REFERENCE = meaning(_digamma_series)
    LOW, HIGH = 0.5, 4.0
    STEPS = True

    def scalar(self, b: Any, x: Any) -> Any:
        return b.digamma(x)

    def gradient(self, F: Any, *values: Any) -> Any:
        raise UnsupportedError(
            "digamma cannot be differentiated, so gamma and gammaln have first derivatives only; "
            "use F.BlockGrad on what should not be differentiated twice"
        )


# --- activation-like --------------------------------------------------------------------------------------


@register("hybrid.smooth_l1")
class SmoothL1(Unary):
    """(scalar * x)**2 / 2 where |x| < 1 / scalar**2, else |x| - 0.5 / scalar**2"""

    scalar_: float = attribute(1.0, "where the parabola ends: at |x| = 1 / scalar**2")

    def scalar(self, b: Any, x: Any) -> Any:
        size, square = b.abs(x), self.scalar_**2
        near = size * size * (0.5 * square)
        end = 1 / square if square else math.inf  # the parabola is flat, and never ends
        return b.select(size < end, near, size - 0.5 * end)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _ = values
        return dy * F.clip(x * self.scalar_**2, -1, 1)

    @classmethod
    def samples(cls) -> list[Sample]:
        def reference(x: Any, s: float = 1.0) -> Any:
            y = NUMPY.select(np.abs(x) < 1 / s**2, 0.5 * (s * x) ** 2, np.abs(x) - 0.5 / s**2)
            return y

        return [
            Sample([(3, 5)], lambda x: reference(x)),
            Sample([(0, 2)], lambda x: reference(x)),
            Sample([(4, 3)], lambda x: reference(x, 1.7), scalar=1.7),
            Sample([(3,)], np.zeros_like, scalar=0),
        ]

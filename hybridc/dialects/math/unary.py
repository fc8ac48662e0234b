"""Powers, logarithms, rounding and other scalar functions of one input."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from hybridc.dialects.math.elementwise import by_element, meaning
from hybridc.dialects.numpy_rules import COUNTS, INEXACT, PROMOTES, NumpyRule
from hybridc.dialects.operator import Elementwise, Opaque, Sample, attribute, define, no_gradient, register
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.dialects.scalar import NUMPY
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
    NUMPY = INEXACT

    @classmethod
    def samples(cls) -> list[Sample]:
        if cls.REFERENCE is None:
            return []
        shapes: list[Shape] = [(3, 5), (2, 1, 7), (0, 4), (1,)]
        return [Sample([s], cls.REFERENCE, low=cls.LOW, high=cls.HIGH, grad=not cls.STEPS) for s in shapes]


def unary(
    name: str,
    doc: str,
    reference: Any,
    scalar: Callable[[Any, Any], Any],
    gradient: Callable[[Any, Any, Any, Any], Any] | None = None,
    *,
    alias: str = "",
    class_name: str = "",
    between: tuple[float, float] = (Unary.LOW, Unary.HIGH),
    base: type[Unary] = Unary,
    numpy: NumpyRule | None = None,
    eager: Callable[[Any], Any] | None = None,
    for_nnvm: Callable[[Any, Any], Any] | None = None,
) -> type[Unary]:
    """A function as a row of a table: its meaning in float64, its scalar body, and its gradient unless it has steps.

    ``alias`` is another name; the samples lie ``between`` two numbers. The functions are methods without ``self``.
    """
    functions: dict[str, Any] = {"scalar": scalar, "gradient": gradient, "eager": eager, "for_nnvm": for_nnvm}
    fields: dict[str, Any] = {key: staticmethod(f) for key, f in functions.items() if f is not None}
    fields["NUMPY"] = numpy or (PROMOTES if gradient is None and base is Unary else base.NUMPY)
    fields |= {"REFERENCE": reference, "STEPS": gradient is None, "LOW": between[0], "HIGH": between[1]}
    return define(base, name, doc, *[alias] * bool(alias), class_name=class_name, module=scalar.__module__, **fields)


# --- sign, powers -----------------------------------------------------------------------------------------


Negative = unary(
    "hybrid.negative",
    "-x",
    meaning(lambda x: 0 - x),
    lambda b, x: -x,
    lambda F, dy, x, y: -dy,
    alias="_np_negative",
    numpy=COUNTS,
)
Abs = unary(
    "hybrid.abs",
    "|x|",
    meaning(lambda x: np.maximum(x, -x)),
    lambda b, x: b.abs(x),
    lambda F, dy, x, y: dy * F.sign(x),
    alias="_abs",
    numpy=PROMOTES,
)


@register("hybrid.sign")
class Sign(Unary):
    """-1, 0 or 1 as x is negative, zero or positive; nan stays nan"""

    # COMPAT(mxnet): nan gives nan; there it gives 0 and hides the error.
    REFERENCE = meaning(lambda x: 1.0 * (x > 0) - (x < 0))
    STEPS = True
    NUMPY = PROMOTES

    def scalar(self, b: Any, x: Any) -> Any:
        return b.sign(x)


Square = unary(
    "hybrid.square",
    "x**2",
    meaning(lambda x: x**2),
    lambda b, x: x * x,
    lambda F, dy, x, y: dy * (x * 2),
    numpy=PROMOTES,
)
Sqrt = unary(
    "hybrid.sqrt",
    "The square root of x",
    meaning(lambda x: x**0.5),
    lambda b, x: b.sqrt(x),
    lambda F, dy, x, y: dy * 0.5 / y,
    between=(0.2, 2.0),
)
Rsqrt = unary(
    "hybrid.rsqrt",
    "1 / sqrt(x)",
    meaning(lambda x: x**-0.5),
    lambda b, x: 1.0 / b.sqrt(x),
    lambda F, dy, x, y: dy * -0.5 * (y / x),
    between=(0.2, 2.0),
)
Cbrt = unary(
    "hybrid.cbrt",
    "The cube root of x",
    by_element(lambda x: math.copysign(abs(x) ** (1 / 3), x)),
    lambda b, x: b.cbrt(x),
    lambda F, dy, x, y: dy / (3 * y * y),
    between=(0.2, 2.0),
)
Rcbrt = unary(
    "hybrid.rcbrt",
    "1 / cbrt(x)",
    meaning(lambda x: 1 / np.cbrt(x)),
    lambda b, x: 1.0 / b.cbrt(x),
    lambda F, dy, x, y: dy * (y / x) / -3,
    between=(0.2, 2.0),
)
Reciprocal = unary(
    "hybrid.reciprocal",
    "1 / x",
    meaning(lambda x: 1 / x),
    lambda b, x: 1.0 / x,
    lambda F, dy, x, y: -dy * y * y,
    between=(0.2, 2.0),
)


# --- exponentials, logarithms -----------------------------------------------------------------------------


Exp = unary("hybrid.exp", "e**x", by_element(math.exp), lambda b, x: b.exp(x), lambda F, dy, x, y: dy * y)
Exp2 = unary(
    "hybrid.exp2",
    "2**x",
    meaning(lambda x: 2.0**x),
    lambda b, x: b.exp2(x),
    lambda F, dy, x, y: dy * (y * math.log(2)),
)
Expm1 = unary(
    "hybrid.expm1",
    "e**x - 1, exact for small x",
    by_element(math.expm1),
    lambda b, x: b.expm1(x),
    lambda F, dy, x, y: dy * (y + 1),
)
Log = unary(
    "hybrid.log",
    "The natural logarithm of x",
    by_element(math.log),
    lambda b, x: b.log(x),
    lambda F, dy, x, y: dy / x,
    between=(0.2, 2.0),
)
Log1p = unary(
    "hybrid.log1p",
    "log(1 + x), exact for small x",
    by_element(math.log1p),
    lambda b, x: b.log1p(x),
    lambda F, dy, x, y: dy / (x + 1),
    between=(-0.7, 2.0),
)
Log2 = unary(
    "hybrid.log2",
    "The logarithm of x to the base 2",
    meaning(lambda x: np.log(x) / math.log(2)),
    lambda b, x: b.log2(x),
    lambda F, dy, x, y: dy / (x * math.log(2)),
    between=(0.2, 2.0),
)
Log10 = unary(
    "hybrid.log10",
    "The logarithm of x to the base 10",
    meaning(lambda x: np.log(x) / math.log(10)),
    lambda b, x: b.log10(x),
    lambda F, dy, x, y: dy / (x * math.log(10)),
    between=(0.2, 2.0),
)


# --- rounding ---------------------------------------------------------------------------------------------


Floor = unary(
    "hybrid.floor", "The greatest whole number that is at most x", by_element(math.floor), lambda b, x: b.floor(x)
)
Ceil = unary("hybrid.ceil", "The least whole number that is at least x", by_element(math.ceil), lambda b, x: b.ceil(x))
Trunc = unary(
    "hybrid.trunc",
    "x without its fraction",
    meaning(lambda x: np.sign(x) * np.floor(np.abs(x))),
    lambda b, x: b.trunc(x),
    alias="fix",
)


@register("hybrid.round")
class Round(Unary):
    """The whole number nearest to x, a half away from zero"""

    REFERENCE = meaning(lambda x: np.sign(x) * np.floor(np.abs(x) + 0.5))
    STEPS = True
    NUMPY = PROMOTES

    def scalar(self, b: Any, x: Any) -> Any:
        # Not floor(|x| + 0.5): that addition rounds, so the largest float below 0.5 would become 1.
        whole = b.trunc(x)
        return b.select(b.abs(x - whole) >= 0.5, whole + b.sign(x), whole)


@register("hybrid.rint")
class Rint(Unary):
    """The whole number nearest to x, a half towards minus infinity"""

    REFERENCE = meaning(lambda x: np.ceil(x - 0.5))
    STEPS = True
    NUMPY = PROMOTES

    def scalar(self, b: Any, x: Any) -> Any:
        whole = b.floor(x)
        return b.select(x - whole > 0.5, b.ceil(x), whole)


@register("hybrid.around")
class Around(Unary):
    """x rounded to so many decimals, a half to the even one"""

    NNVM = "_npi_around"
    STEPS = True
    NUMPY = PROMOTES
    gradient = no_gradient

    decimals: int = attribute(0, "how many decimals; negative ones count from the point to the left")

    def scalar(self, b: Any, x: Any) -> Any:
        scale = 10.0 ** abs(self.decimals)
        if not self.decimals:
            return b.rint(x)
        return b.rint(x * scale) / scale if self.decimals > 0 else b.rint(x / scale) * scale

    def eager(self, *arrays: Any) -> Any:
        return np.rint(*arrays) if not self.decimals and arrays[0].dtype.kind == "f" else super().eager(*arrays)

    @classmethod
    def samples(cls) -> list[Sample]:
        rounded: Any = np.vectorize(round, otypes=[float])  # Python rounds halves to even, too
        halves = np.array([0.5, 1.5, -0.5, -2.5, 2.25, 0.0])
        return [
            Sample([halves], rounded, grad=False),
            Sample([(3, 5)], lambda x: rounded(10 * x) / 10, grad=False, decimals=1),
            Sample([(0, 2)], rounded, grad=False),
            Sample([100 * halves], lambda x: rounded(x / 100) * 100, grad=False, decimals=-2),
        ]


@register("hybrid.frexp")
class Frexp(Opaque):
    """Mantissas of 0.5 to 1 and exponents, int32, of which x is mantissa * 2**exponent"""

    def num_outputs(self) -> int:
        return 2

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        return shapes, [shapes[0]] * 2

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [dtypes[0], np.dtype(np.int32)]

    def eager(self, *arrays: Any) -> Any:
        mantissa, exponent = np.frexp(arrays[0])
        return np.asarray(mantissa), np.asarray(exponent, np.int32)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, _, _, _, exponent = values
        return dy * F.exp2(F.cast(-exponent, dy.dtype))

    @classmethod
    def samples(cls) -> list[Sample]:
        def reference(x: Any) -> Any:
            exponent = np.floor(np.log2(np.abs(x))) + 1
            return x / 2.0**exponent, exponent

        return [Sample([s], reference, low=0.2) for s in ((3, 5), (0, 2))]


@register("hybrid.nan_to_num")
class NanToNum(Unary):
    """x with numbers for nan and for the infinities"""

    NNVM = "_npi_nan_to_num"
    NNVM_ONLY = ("copy",)
    NUMPY = PROMOTES

    nan: float = attribute(0.0, "the number for nan")
    posinf: float | None = attribute(None, "the number for inf; None for the greatest float32")
    neginf: float | None = attribute(None, "the number for -inf; None for the least float32")

    def scalar(self, b: Any, x: Any) -> Any:
        limit = float(np.finfo(np.float32).max)
        above, below = limit if self.posinf is None else self.posinf, -limit if self.neginf is None else self.neginf
        infinite = b.select(x == math.inf, above, b.select(x == -math.inf, below, x))
        return b.select(x != x, self.nan, infinite)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _ = values
        return dy * F.isfinite(x)

    @classmethod
    def samples(cls) -> list[Sample]:
        odd = np.array([1.5, math.nan, math.inf, -math.inf, -2])
        return [
            Sample([(3, 5)], lambda x: x),
            Sample([odd], lambda _: np.array([1.5, 7, 9, -9, -2]), grad=False, nan=7, posinf=9, neginf=-9),
        ]


# --- special functions ------------------------------------------------------------------------------------


Erf = unary(
    "hybrid.erf",
    "The error function, 2/sqrt(pi) * integral of exp(-t**2) from 0 to x",
    by_element(math.erf),
    lambda b, x: b.erf(x),
    lambda F, dy, x, y: dy * (2 / math.sqrt(math.pi)) * F.exp(-(x * x)),
)


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


Gamma = unary(
    "hybrid.gamma",
    "The gamma function, (x - 1)! for whole x",
    by_element(math.gamma),
    lambda b, x: b.gamma(x),
    lambda F, dy, x, y: dy * y * F.digamma(x),
    between=(0.5, 4.0),
)
Gammaln = unary(
    "hybrid.gammaln",
    "log|gamma(x)|",
    by_element(math.lgamma),
    lambda b, x: b.lgamma(x),
    lambda F, dy, x, y: dy * F.digamma(x),
    between=(0.5, 4.0),
)


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

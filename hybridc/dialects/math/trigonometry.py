"""Trigonometric and hyperbolic functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hybridc.dialects.math.elementwise import by_element, meaning
from hybridc.dialects.math.unary import Unary
from hybridc.dialects.operator import register


@register("hybrid.sin")
class Sin(Unary):
    """The sine of x"""

    REFERENCE = by_element(math.sin)

    def scalar(self, b: Any, x: Any) -> Any:
        return b.sin(x)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _ = values
        return dy * F.cos(x)


@register("hybrid.cos")
class Cos(Unary):
    """The cosine of x"""

    REFERENCE = by_element(math.cos)

    def scalar(self, b: Any, x: Any) -> Any:
        return b.cos(x)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _ = values
        return -dy * F.sin(x)


@register("hybrid.tan")
class Tan(Unary):
    """The tangent of x"""

    REFERENCE = meaning(lambda x: np.sin(x) / np.cos(x))
    LOW, HIGH = -1.2, 1.2

    def scalar(self, b: Any, x: Any) -> Any:
        return b.tan(x)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, _, y = values
        return dy * (y * y + 1)


@register("hybrid.arcsin")
class Arcsin(Unary):
    """The inverse of the sine"""

    REFERENCE = by_element(math.asin)
    LOW, HIGH = -0.9, 0.9

    def scalar(self, b: Any, x: Any) -> Any:
        return b.asin(x)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _ = values
        return dy * F.rsqrt(1 - x * x)


@register("hybrid.arccos")
class Arccos(Unary):
    """The inverse of the cosine"""

    REFERENCE = by_element(math.acos)
    LOW, HIGH = -0.9, 0.9

    def scalar(self, b: Any, x: Any) -> Any:
        return b.acos(x)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _ = values
        return -dy * F.rsqrt(1 - x * x)


@register("hybrid.arctan")
class Arctan(Unary):
    """The inverse of the tangent"""

    REFERENCE = by_element(math.atan)

    def scalar(self, b: Any, x: Any) -> Any:
        return b.atan(x)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _ = values
        return dy / (x * x + 1)


@register("hybrid.sinh")
class Sinh(Unary):
    """The hyperbolic sine of x"""

    REFERENCE = meaning(lambda x: (np.exp(x) - np.exp(-x)) / 2)

    def scalar(self, b: Any, x: Any) -> Any:
        return b.sinh(x)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _ = values
        return dy * F.cosh(x)


@register("hybrid.cosh")
class Cosh(Unary):
    """The hyperbolic cosine of x"""

    REFERENCE = meaning(lambda x: (np.exp(x) + np.exp(-x)) / 2)

    def scalar(self, b: Any, x: Any) -> Any:
        return b.cosh(x)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _ = values
        return dy * F.sinh(x)


@register("hybrid.tanh")
class Tanh(Unary):
    """The hyperbolic tangent of x"""

    REFERENCE = meaning(lambda x: (np.exp(2 * x) - 1) / (np.exp(2 * x) + 1))

    def scalar(self, b: Any, x: Any) -> Any:
        return b.tanh(x)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, _, y = values
        return dy * (1 - y * y)


@register("hybrid.arcsinh")
class Arcsinh(Unary):
    """The inverse of the hyperbolic sine"""

    REFERENCE = meaning(lambda x: np.log(x + np.sqrt(x * x + 1)))

    def scalar(self, b: Any, x: Any) -> Any:
        return b.asinh(x)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _ = values
        # COMPAT(mxnet): the second derivative is -x / (x * x + 1) ** 1.5; there its sign is wrong.
        return dy * F.rsqrt(x * x + 1)


@register("hybrid.arccosh")
class Arccosh(Unary):
    """The inverse of the hyperbolic cosine"""

    REFERENCE = meaning(lambda x: np.log(x + np.sqrt(x * x - 1)))
    LOW, HIGH = 1.2, 4.0

    def scalar(self, b: Any, x: Any) -> Any:
        return b.acosh(x)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _ = values
        # COMPAT(mxnet): the second derivative is -x / (x * x - 1) ** 1.5; there its sign is wrong.
        return dy * F.rsqrt(x * x - 1)


@register("hybrid.arctanh")
class Arctanh(Unary):
    """The inverse of the hyperbolic tangent"""

    REFERENCE = meaning(lambda x: 0.5 * np.log((1 + x) / (1 - x)))
    LOW, HIGH = -0.9, 0.9

    def scalar(self, b: Any, x: Any) -> Any:
        return b.atanh(x)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _ = values
        return dy / (1 - x * x)


@register("hybrid.degrees")
class Degrees(Unary):
    """Radians in degrees, x * 180 / pi"""

    REFERENCE = meaning(lambda x: x * 180 / math.pi)

    def scalar(self, b: Any, x: Any) -> Any:
        return x * (180 / math.pi)

    def gradient(self, F: Any, *values: Any) -> Any:
        # COMPAT(mxnet): this can be differentiated again; there it cannot.
        return values[0] * (180 / math.pi)


@register("hybrid.radians")
class Radians(Unary):
    """Degrees in radians, x * pi / 180"""

    REFERENCE = meaning(lambda x: x * math.pi / 180)

    def scalar(self, b: Any, x: Any) -> Any:
        return x * (math.pi / 180)

    def gradient(self, F: Any, *values: Any) -> Any:
        return values[0] * (math.pi / 180)

"""Trigonometric and hyperbolic functions."""

from __future__ import annotations

import math

import numpy as np

from hybridc.dialects.math.elementwise import by_element, meaning
from hybridc.dialects.math.unary import unary

Sin = unary(
    "hybrid.sin", "The sine of x", by_element(math.sin), lambda b, x: b.sin(x), lambda F, dy, x, y: dy * F.cos(x)
)
Cos = unary(
    "hybrid.cos", "The cosine of x", by_element(math.cos), lambda b, x: b.cos(x), lambda F, dy, x, y: -dy * F.sin(x)
)
Tan = unary(
    "hybrid.tan",
    "The tangent of x",
    meaning(lambda x: np.sin(x) / np.cos(x)),
    lambda b, x: b.tan(x),
    lambda F, dy, x, y: dy * (y * y + 1),
    between=(-1.2, 1.2),
)
Arcsin = unary(
    "hybrid.arcsin",
    "The inverse of the sine",
    by_element(math.asin),
    lambda b, x: b.asin(x),
    lambda F, dy, x, y: dy * F.rsqrt(1 - x * x),
    between=(-0.9, 0.9),
)
Arccos = unary(
    "hybrid.arccos",
    "The inverse of the cosine",
    by_element(math.acos),
    lambda b, x: b.acos(x),
    lambda F, dy, x, y: -dy * F.rsqrt(1 - x * x),
    between=(-0.9, 0.9),
)
Arctan = unary(
    "hybrid.arctan",
    "The inverse of the tangent",
    by_element(math.atan),
    lambda b, x: b.atan(x),
    lambda F, dy, x, y: dy / (x * x + 1),
)
Sinh = unary(
    "hybrid.sinh",
    "The hyperbolic sine of x",
    meaning(lambda x: (np.exp(x) - np.exp(-x)) / 2),
    lambda b, x: b.sinh(x),
    lambda F, dy, x, y: dy * F.cosh(x),
)
Cosh = unary(
    "hybrid.cosh",
    "The hyperbolic cosine of x",
    meaning(lambda x: (np.exp(x) + np.exp(-x)) / 2),
    lambda b, x: b.cosh(x),
    lambda F, dy, x, y: dy * F.sinh(x),
)
Tanh = unary(
    "hybrid.tanh",
    "The hyperbolic tangent of x",
    meaning(lambda x: (np.exp(2 * x) - 1) / (np.exp(2 * x) + 1)),
    lambda b, x: b.tanh(x),
    lambda F, dy, x, y: dy * (1 - y * y),
)
Arcsinh = unary(
    "hybrid.arcsinh",
    "The inverse of the hyperbolic sine",
    meaning(lambda x: np.log(x + np.sqrt(x * x + 1))),
    lambda b, x: b.asinh(x),
    # COMPAT(mxnet): the second derivative is -x / (x * x + 1) ** 1.5; there its sign is wrong.
    lambda F, dy, x, y: dy * F.rsqrt(x * x + 1),
)
Arccosh = unary(
    "hybrid.arccosh",
    "The inverse of the hyperbolic cosine",
    meaning(lambda x: np.log(x + np.sqrt(x * x - 1))),
    lambda b, x: b.acosh(x),
    # COMPAT(mxnet): the second derivative is -x / (x * x - 1) ** 1.5; there its sign is wrong.
    lambda F, dy, x, y: dy * F.rsqrt(x * x - 1),
    between=(1.2, 4.0),
)
Arctanh = unary(
    "hybrid.arctanh",
    "The inverse of the hyperbolic tangent",
    meaning(lambda x: 0.5 * np.log((1 + x) / (1 - x))),
    lambda b, x: b.atanh(x),
    lambda F, dy, x, y: dy / (1 - x * x),
    between=(-0.9, 0.9),
)
Degrees = unary(
    "hybrid.degrees",
    "Radians in degrees, x * 180 / pi",
    meaning(lambda x: x * 180 / math.pi),
    lambda b, x: x * (180 / math.pi),
    # COMPAT(mxnet): this can be differentiated again; there it cannot.
    lambda F, dy, x, y: dy * (180 / math.pi),
)
Radians = unary(
    "hybrid.radians",
    "Degrees in radians, x * pi / 180",
    meaning(lambda x: x * math.pi / 180),
    lambda b, x: x * (math.pi / 180),
    lambda F, dy, x, y: dy * (math.pi / 180),
)

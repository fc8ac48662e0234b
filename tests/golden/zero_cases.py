"""Scalar operators on zeros of both signs, infinities, nan and numbers that are nearly none, and how signs are noted.

``noted`` is used by the script that makes zeros.json with MXNet 1.9.1 and by the tests of hybridc.
"""

import numpy as np

NUMBERS = [0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 0.5, -0.5, 0.25, -0.25, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3.0, -3.0]
PAIRS = ["broadcast_mod", "broadcast_minimum", "broadcast_maximum", "broadcast_add", "broadcast_sub", "broadcast_mul"]
PAIRS += ["broadcast_div", "broadcast_power", "broadcast_hypot"]
UNARY = """
sign round rint trunc fix floor ceil abs negative relu sqrt rsqrt cbrt rcbrt reciprocal square exp expm1 log
log2 log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh degrees radians
sigmoid softsign erf erfinv gamma gammaln hard_sigmoid logical_not
"""
SCALARS = [0.0, -0.0, 2.0, -2.0, np.inf]
WITH_SCALAR = {
    "mod": lambda F, x, s: x % s,
    "rmod": lambda F, x, s: s % x,
    "max": lambda F, x, s: F.maximum(x, s),
    "min": lambda F, x, s: F.minimum(x, s),
    "sub": lambda F, x, s: x - s,
    "rsub": lambda F, x, s: s - x,
    "mul": lambda F, x, s: x * s,
    "rdiv": lambda F, x, s: s / x,
    "rpow": lambda F, x, s: s**x,
    "clip": lambda F, x, s: F.clip(x, min(abs(s), 1.0), max(abs(s), 1.0)),  # bounds of -0.0 are those of 0.0 here
}


def _of_pair(name):
    return lambda F, x, y: getattr(F, name)(x, y)


def _of_one(name):
    return lambda F, x: getattr(F, name)(x)


def _of_scalar(function, scalar):
    return lambda F, x: function(F, x, scalar)


CASES = {name: _of_pair(name) for name in PAIRS} | {name: _of_one(name) for name in UNARY.split()}
CASES |= {f"{name} {s}": _of_scalar(f, s) for name, f in WITH_SCALAR.items() for s in SCALARS}


def inputs(name):
    """All numbers, or all pairs of them."""
    numbers = np.array(NUMBERS, "float32")
    return (np.repeat(numbers, len(numbers)), np.tile(numbers, len(numbers))) if name in PAIRS else (numbers,)


def noted(values):
    """A sign and a letter for each element: 0, inf, x for other numbers, and nan alone."""
    kinds = np.where(values == 0, "0", np.where(np.isinf(values), "inf", "x"))
    signs = np.where(np.signbit(values), "-", "+")
    return ["nan" if np.isnan(v) else s + k for v, s, k in zip(values, signs, kinds)]

"""Bodies in Triton's language, interpreted, against NumPy with more digits; and compiled for a GPU."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from hybridc.dialects.scalar import NUMPY, NumPyScalar
from hybridc.dialects.upstream import HOST, loop_dtypes
from tests.lower.triton.bodies import run, stage_of

STEPS = [n for n in vars(NumPyScalar) if n[0] != "_" and n not in (*HOST, "select", "cast")]
DTYPES = ["float16", "float32", "float64", "int8", "uint8", "int32", "int64", "bool"]
BINARY = {"add", "sub", "mul", "div", "rem", "fmod", "max", "min", "pow", "hypot", "atan2"} | {
    *("lt", "le", "gt", "ge", "eq", "ne", "logical_and", "logical_or", "logical_xor")
}

# Steps that are not rounded as IEEE 754 says, with the units in the last place that they may be wrong by.
ROUGH = """
    exp log log2 log10 log1p expm1 cbrt sin cos asin acos atan atan2 sinh cosh tanh asinh acosh atanh erf hypot pow tan
"""
UNITS = dict.fromkeys(ROUGH.split(), 2.5) | {"tan": 4.0}
IN_DOUBLE = 45  # 1e-14 of the value

EDGES = [
    0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 0.7, 1.1875, 4.0, 7.0, 17.3, 88.7, 88.73, 104.0, 709.78, 710.5, 745.1, 1e-3,
    1e-7, 6e-8, 1e-30, 1e-38, 1e-45, 1e30, 3e38, 1e-300, 1e300, 5e-324, 2.0**31, 2.0**23 + 1, 65504.0, np.inf, np.nan,
]  # fmt: skip


def of_steps(kind):
    """The steps that take one or two operands of a dtype."""
    found = []
    for step in STEPS:
        try:
            loop_dtypes(step, (np.dtype(kind),) * (2 if step in BINARY else 1))
        except TypeError:
            continue
        found.append(step)
    return found


def samples(dtype, size):
    """Special numbers beside each other in pairs, and others."""
    random = np.random.default_rng(0)
    if np.dtype(dtype).kind == "f":
        with np.errstate(over="ignore"):
            few = np.array([*EDGES, *(-e for e in EDGES)]).astype(dtype)
        rest = np.concatenate([random.uniform(-9, 9, size), random.normal(0, 1, size)]).astype(dtype)
    elif dtype == "bool":
        few = rest = np.array([False, True])
    else:
        limits = np.iinfo(dtype)
        few = np.array([0, 1, 2, 3, 7, 100, limits.max, limits.max - 1, limits.min], dtype)
        few = np.concatenate([few, -few]) if limits.min else few
        rest = random.integers(limits.min, limits.max, size, dtype, endpoint=True)
    x, y = (v.ravel() for v in np.meshgrid(few, few))
    x, y = (np.concatenate([v, np.resize(random.permutation(rest), size)])[:size] for v in (x, y))
    return x, y


@pytest.mark.parametrize("dtype", DTYPES)
def test_steps(dtype):
    size = 8192
    x, y = samples(dtype, size)
    steps = of_steps(dtype)
    assert len(steps) > 30
    stages = []
    for step in steps:
        count = 2 if step in BINARY else 1
        out = loop_dtypes(step, (np.dtype(dtype),) * count)[-1]
        stages.append(stage_of(lambda b, *xs, s=step, n=count: getattr(b, s)(*xs[:n]), [dtype] * 2, out, (size,)))
    for step, got in zip(steps, run(stages, x, y), strict=True):
        operands = (x, y) if step in BINARY else (x,)
        if step == "pow" and x.dtype.kind == "i":  # of negative exponents NumPy makes no integers
            got, operands = got[y >= 0], (x[y >= 0], y[y >= 0])
        check(step, got, operands)


def check(step, got, operands):
    with np.errstate(all="ignore"):
        if step not in UNITS or got.dtype.kind != "f":
            same(step, got, getattr(NUMPY, step)(*operands))
            return
        wide = np.float64 if got.dtype.itemsize < 8 or step == "erf" else np.longdouble
        function = special.erf if step == "erf" else getattr(NUMPY, step)
        right = function(*[v.astype(got.dtype).astype(wide) for v in operands])
    near(step, got, right, 0.51 if got.dtype == np.float16 else IN_DOUBLE if got.dtype == np.float64 else UNITS[step])


def same(step, got, right):
    assert got.dtype == right.dtype, step
    np.testing.assert_array_equal(got, right, step)
    if got.dtype.kind == "f" and step not in ("rem", "sign"):  # in which NumPy's zeros have other signs
        zero = got == 0
        np.testing.assert_array_equal(np.signbit(got)[zero], np.signbit(right)[zero], step)


def near(step, got, right, limit):
    with np.errstate(all="ignore"):
        rounded = right.astype(got.dtype)
        odd = ~np.isfinite(got) | ~np.isfinite(rounded)
        edge = np.isinf(got) ^ np.isinf(rounded)
    assert (np.abs(np.where(np.isinf(got), rounded, got)[edge]) == np.finfo(got.dtype).max).all(), step
    np.testing.assert_array_equal(got[odd & ~edge], rounded[odd & ~edge], step)
    info = np.finfo(got.dtype)
    _, exponent = np.frexp(right)
    unit = np.ldexp(right.dtype.type(1), np.maximum(exponent - 1, info.minexp) - info.nmant)
    with np.errstate(all="ignore"):
        errors = np.where(odd, 0, np.abs(got.astype(right.dtype) - right) / unit)
    assert errors.max() <= limit, (step, errors.max(), got[errors.argmax()], right[errors.argmax()])

"""The steps of scalar bodies and the reductions by them, as linalg ops of kernels; and scalars to compute them of."""

from __future__ import annotations

import numpy as np

from hybridc.dialects.scalar import loop_dtypes, table
from tests.lower.triton.bodies import op_of

OTHERS = ("select", "cast", "like", "logistic")
STEPS = [name for name, step in table.STEPS.items() if name not in OTHERS]
DTYPES = ["float16", "float32", "float64", "int8", "uint8", "int32", "int64", "bool"]
BINARY = {"add", "sub", "mul", "div", "quotient", "rem", "fmod", "max", "min", "pow", "hypot", "atan2"} | {
    *("lt", "le", "gt", "ge", "eq", "ne", "logical_and", "logical_or", "logical_xor")
}
# Steps that are not rounded as IEEE 754 says.
ROUGH = [
    "exp", "log", "log2", "log10", "log1p", "expm1", "cbrt", "sin", "cos", "asin", "acos", "atan", "atan2", "sinh",
    "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "hypot", "pow", "tan", "exp2", "erfinv", "gamma", "lgamma",
    "digamma",
]  # fmt: skip
# Which NumPy lacks: tests/runtime/test_special.py compares them with SciPy's.
SPECIAL = ("erf", "erfinv", "gamma", "lgamma", "digamma")

EDGES = [
    0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 0.7, 1.1875, 4.0, 7.0, 17.3, 88.7, 88.73, 104.0, 709.78, 710.5, 745.1, 1e-3,
    1e-7, 6e-8, 1e-30, 1e-38, 1e-45, 1e30, 3e38, 1e-300, 1e300, 5e-324, 2.0**31, 2.0**23 + 1, 65504.0, np.inf, np.nan,
]  # fmt: skip


def of_steps(kind):
    """The steps that take one or two operands of a dtype."""
    return [step for step in STEPS if dtypes_of(step, kind)]


def dtypes_of(step, kind):
    """The dtypes in which a step is computed of operands of a dtype; None if it takes no such operands."""
    try:
        return loop_dtypes(step, (np.dtype(kind),) * (2 if step in BINARY else 1))
    except TypeError:
        return None


def stages_of(kind, steps, size):
    """The linalg ops of steps, each of the first or of both of two arrays."""
    given = [(step, 2 if step in BINARY else 1) for step in steps]
    bodies = [lambda b, *xs, s=step, n=count: getattr(b, s)(*xs[:n]) for step, count in given]
    outs = [dtypes_of(step, kind)[-1] for step in steps]
    return [op_of(body, [kind] * 2, out, (size,)) for body, out in zip(bodies, outs, strict=True)]


def reductions(kind, shape):
    """The reductions of rows, by name."""
    dtype = np.dtype(kind)
    if dtype.kind == "b":
        limits = (False, True)
    else:
        limits = (-np.inf, np.inf) if dtype.kind == "f" else (np.iinfo(kind).min, np.iinfo(kind).max)
    starts = {"add": 0, "mul": 1, "max": limits[0], "min": limits[1]}
    return [
        (name, op_of(lambda b, x, sofar, n=name: getattr(b, n)(sofar, x), [kind], kind, shape, start))
        for name, start in starts.items()
    ]


def of_numbers():
    """Stages that add what is computed of numbers alone."""
    bodies = [
        lambda b: b.fmod(b.cast(7.5, "float32"), b.cast(2.0, "float32")),
        lambda b: b.cast(b.pow(b.cast(3, "int64"), b.cast(5, "int64")), "float32"),
        lambda b: b.exp(b.cast(1.0, "float32")),
        lambda b: b.select(b.lt(b.cast(1.0, "float32"), 2.0), b.sqrt(b.cast(2.0, "float32")), 3.0),
    ]
    return [op_of(lambda b, x, _, f=f: b.add(x, f(b)), ["float32"], "float32") for f in bodies]


def samples(dtype, size):
    """Special values next to each other in pairs, and others."""
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
    return [np.concatenate([v, np.resize(random.permutation(rest), size)])[:size] for v in (x, y)]

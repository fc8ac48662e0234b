"""The scalar vocabulary upstream: every step has a form, and what is composed means what NumPy's function means."""

from __future__ import annotations

import numpy as np
import pytest

from hybridc.dialects.scalar import NUMPY, loop_dtypes
from hybridc.dialects.scalar.table import STEPS

FLOATS = np.array([0.0, -0.0, 1.5, -1.5, 2.0, -7.25, 1e-30, 3e38, np.inf, -np.inf, np.nan])
INTEGERS = np.array([0, 1, -1, 2, -2, 7, -7, 100, -128, 127])


COMPOSED = {name: step.expansion for name, step in STEPS.items() if step.expansion is not None}


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int64", "uint8", "bool"])
@pytest.mark.parametrize("step", sorted(COMPOSED))
def test_composed_steps(step, dtype):
    values = (FLOATS if dtype.startswith("f") else INTEGERS).astype(dtype)
    count = 2 if step in ("rem", "hypot") else 1
    xs = [g.reshape(-1) for g in np.meshgrid(*[values] * count)]
    ufunc = getattr(NUMPY, step)
    try:
        *wanted, out = loop_dtypes(step, tuple(x.dtype for x in xs))
    except TypeError:
        with pytest.raises(TypeError):
            ufunc(*xs)
        return
    if step == "reciprocal" and out.kind in "iu":
        xs = [x[x != 0] for x in xs]  # undefined in NumPy, too
    with np.errstate(all="ignore"):
        got = COMPOSED[step](NUMPY, *[x.astype(d) for x, d in zip(xs, wanted, strict=True)])
        want = ufunc(*xs)
    assert want.dtype == out
    np.testing.assert_allclose(np.asarray(got).astype(out), want, rtol=2e-3 if out == np.float16 else 1e-6)


@pytest.mark.parametrize(
    ("step", "kinds", "expected"),
    [
        ("add", ("float32", float), ("float32", "float32", "float32")),
        ("less_than_half", ("int32", float), ("float64", "float64", "bool")),
        ("div", ("int32", "int32"), ("float64", "float64", "float64")),
        ("exp", ("int8",), ("float16", "float16")),
        ("erf", ("float16",), ("float32", "float32")),
        ("logical_and", ("bool", bool), ("bool", "bool", "bool")),
    ],
)
def test_dtypes_of_steps(step, kinds, expected):
    step = {"less_than_half": "lt"}.get(step, step)
    kinds = tuple(k if isinstance(k, type) else np.dtype(k) for k in kinds)
    assert loop_dtypes(step, kinds) == tuple(map(np.dtype, expected))

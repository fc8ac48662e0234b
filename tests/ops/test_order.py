"""Sorting indices of long and short arrays: those of Python's own sort, which is stable."""

from __future__ import annotations

import math

import numpy as np
import pytest

import hybridc as mx
from hybridc.dialects.array.order import order_along

FLOATS = ("float16", "float32", "float64")
INTEGERS = ("bool", "int8", "uint8", "int32", "int64")


def values(dtype, shape):
    """Many equal ones, and all that is extreme."""
    rng = np.random.default_rng(1)
    if dtype in INTEGERS:
        info = np.iinfo("int8" if dtype == "bool" else dtype)
        return rng.choice(np.array([0, 1, 2, info.min, info.min + 1, info.max], dtype), shape)
    info = np.finfo(dtype)
    special = [0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, info.max, info.min, info.smallest_subnormal, -info.tiny]
    return np.where(
        rng.random(shape) < 0.3, rng.choice(np.array(special, dtype), shape), rng.normal(size=shape)
    ).astype(dtype)


def expected(x, axis, ascending):
    """NaN is the largest; equal elements keep their order."""

    def of_row(row):
        def key(i):
            number = row[i].item()
            nan = math.isnan(number)
            number = 0 if nan else number
            return (nan, number) if ascending else (not nan, -number)

        return np.array(sorted(range(len(row)), key=key))

    return np.apply_along_axis(of_row, axis, x)


@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize(
    ("shape", "axis"), [((5, 9), 1), ((3, 1000), -1), ((300, 17), 0), ((20, 30, 16), 1), ((4000,), 0)]
)
@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
def test_order_is_that_of_a_stable_sort(dtype, shape, axis, ascending):
    x = values(dtype, shape)
    right = expected(x, axis, ascending)
    got = order_along(x, axis, ascending)
    np.testing.assert_array_equal(got, right)
    assert got.flags.c_contiguous
    for count in (0, 1, 3, x.shape[axis]):
        np.testing.assert_array_equal(order_along(x, axis, ascending, count), np.take(right, range(count), axis))


def test_views_are_sorted_as_they_are_seen():
    x = values("float32", (64, 100))
    for view in (x.T, x[::-1, ::2], x[:, 3:90]):
        np.testing.assert_array_equal(order_along(view, 0, True), expected(view, 0, True))


@pytest.mark.parametrize("k", [1, 7, 300, 2000])
@pytest.mark.parametrize("ascending", [True, False])
def test_the_first_of_many(k, ascending):
    x = values("float32", (3, 2000))
    right = expected(x, 1, ascending)[:, :k]
    both = mx.nd.topk(mx.nd.array(x), k=k, ret_typ="both", is_ascend=ascending, dtype="int64")
    np.testing.assert_array_equal(both[1].asnumpy(), right)
    np.testing.assert_array_equal(both[0].asnumpy(), np.take_along_axis(x, right, 1))

"""Sums of many numbers keep their precision: of an array, of its rows, of its columns; the rest of a block, too."""

from __future__ import annotations

import numpy as np
import pytest

import hybridc as mx
from hybridc.gluon.nn import HybridLambda
from hybridc.options import OPTIONS

MANY = 4_000_003


@pytest.mark.parametrize("value", [0.1, 0.7, 1 / 3])
@pytest.mark.parametrize(("shape", "axis"), [((MANY,), 0), ((2, MANY // 2), 1), ((MANY // 6, 6), 0)])
def test_equal_numbers(shape, axis, value):
    """All roundings of a sum of equal numbers have the same sign as long as it has the same exponent."""
    x = np.full(shape, value, np.float32)
    net = HybridLambda(lambda F, x: F.sum(x, axis=axis))
    eager, right = net(mx.nd.array(x)).asnumpy(), x.sum(axis, dtype=np.float64)
    net.hybridize()
    got = net(mx.nd.array(x)).asnumpy()
    by_columns = 1e-4 if axis == 0 and len(shape) > 1 else 1.5e-6  # NumPy adds them one by one, in blocks of 4096
    # NumPy 2.0 sums a long row in pieces that are less exact than those of newer versions.
    np.testing.assert_allclose(eager, right, rtol=max(by_columns, 5e-6))
    np.testing.assert_allclose(got, right, rtol=1.5e-6 if OPTIONS.target == "llvm" else by_columns)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32"])
def test_columns_of_any_layout(dtype):
    """Eager sums over long axes, some of them in blocks, with axes kept or not, of whole numbers."""
    x = np.random.default_rng(0).integers(0, 2, (2, 3 * 4096 + 5, 3)).astype(dtype)
    x[:, ::9] = 0
    for array in (x, x.transpose(2, 1, 0), np.asfortranarray(x), x[:, ::-2]):
        y = mx.nd.array(array, dtype=dtype)
        for axis in (None, 1, (0, 1), (1, 2), (0, 1, 2), -2):
            for kept in (False, True):
                got, right = mx.nd.sum(y, axis=axis, keepdims=kept).asnumpy(), array.sum(axis, "f8", keepdims=kept)
                np.testing.assert_array_equal(got, right.astype(dtype).reshape(got.shape))


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4096, 4097, 5 * 4096, 65 * 4096 + 1])
def test_any_number_of_parts(count):
    """Whole numbers are added exactly, in whatever order; and every part once."""
    x = np.random.default_rng(count).integers(-9, 9, count).astype(np.float32)
    net = HybridLambda(lambda F, x, y: (F.sum(x), F.max(x) if count else F.sum(y), F.sum(y, axis=0)))
    net.hybridize()
    y = np.stack([x, -x, 2 * x], axis=1)
    for got, right in zip(net(mx.nd.array(x), mx.nd.array(y)), (x.sum(), x.max(initial=-9), y.sum(0)), strict=True):
        if count or got.shape == (3,):
            np.testing.assert_array_equal(got.asnumpy().ravel(), np.ravel(right))

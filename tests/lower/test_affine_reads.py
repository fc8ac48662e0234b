"""Reads at sums of loops: flips, steps, windows and parts of concatenations, on each target, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import hybridc as mx
from hybridc.gluon.nn import HybridLambda
from hybridc.ir.structured import affine_operands, kernels
from tests.random_programs import tiles

pytestmark = pytest.mark.triton
X = np.random.default_rng(0).normal(size=(7, 12)).astype(np.float32)


def windows(x, size, stride, dilation):
    return np.stack(
        [
            x[:, i * stride : i * stride + dilation * size : dilation]
            for i in range((12 - dilation * (size - 1) - 1) // stride + 1)
        ],
        1,
    )


CASES = {
    "flip": (lambda F, x: F.exp(F.reverse(x, axis=1)), lambda x: np.exp(x[:, ::-1])),
    "both flipped": (lambda F, x: F.reverse(x, axis=(0, 1)) + x, lambda x: x[::-1, ::-1] + x),
    "backwards by two": (
        lambda F, x: F.slice(x, begin=(6, None), end=(None, None), step=(-2, 3)) * 2,
        lambda x: x[6::-2, ::3] * 2,
    ),
    "flipped rows": (lambda F, x: F.softmax(F.reverse(x, axis=1)), lambda x: softmax(x[:, ::-1])),
    "summed": (lambda F, x: F.sum(F.reverse(x, axis=0), axis=0), lambda x: x.sum(0)),
    "windows": (
        lambda F, x: F.max(F.windows(x, axes=1, kernel=3, count=10), axis=2),
        lambda x: windows(x, 3, 1, 1).max(2),
    ),
    "strided windows": (
        lambda F, x: F.windows(x, axes=1, kernel=4, count=3, stride=2, dilate=2) + 1,
        lambda x: windows(x, 4, 2, 2) + 1,
    ),
    "windows in one body": (
        lambda F, x: F.window_max(x, axes=1, kernel=3, count=10) * 2,
        lambda x: windows(x, 3, 1, 1).max(2) * 2,
    ),
    "of a part": (
        lambda F, x: F.reverse(F.slice_axis(x, axis=1, begin=2, end=9), axis=1) * 3,
        lambda x: x[:, 2:9][:, ::-1] * 3,
    ),
    "transposed": (lambda F, x: F.reverse(F.transpose(x), axis=0) * 3, lambda x: x.T[::-1] * 3),
}


def softmax(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@pytest.mark.parametrize("target", ["numpy", "llvm", "triton"])
@pytest.mark.parametrize("name", CASES)
def test_targets_read_at_sums_of_loops(name, target):
    function, reference = CASES[name]
    x = mx.nd.array(X, ctx=mx.gpu() if target == "triton" else mx.cpu())
    got = HybridLambda(function).trace(x).optimize().lower(target).compile()(x).asnumpy()
    np.testing.assert_allclose(got, reference(X), rtol=2e-6)


@pytest.mark.parametrize("name", CASES)
def test_reads_are_no_copies_and_the_same_for_all_targets(name):
    """One kernel, whose structured form and whose text are those of all targets."""
    traced = HybridLambda(CASES[name][0]).trace(mx.nd.array(X)).optimize()
    formed = {target: traced.form(target).module for target in ("numpy", "llvm", "triton")}
    assert len({str(module) for module in formed.values()}) == 1
    (kernel,) = kernels(formed["llvm"]).values()
    assert "tensor.extract " not in str(kernel)
    assert any(affine_operands(op) for op in kernel.body.block.ops)


def test_a_slice_in_a_part_of_a_concatenation_is_a_slice_of_that_part():
    def function(F, x, y):
        whole = F.concat(x, y * 2, dim=1)
        return F.slice_axis(whole, axis=1, begin=14, end=20) + 1, F.slice_axis(whole, axis=1, begin=1, end=5)

    arrays = [mx.nd.array(X), mx.nd.array(X)]
    lowered = HybridLambda(function).trace(*arrays).optimize().lower("llvm")
    assert "tensor.concat" not in str(HybridLambda(function).trace(*arrays).optimize().form("llvm").module)
    got = [x.asnumpy() for x in lowered.compile()(*arrays)]
    np.testing.assert_array_equal(got[0], X[:, 2:8] * 2 + 1)
    np.testing.assert_array_equal(got[1], X[:, 1:5])


def test_a_producer_writes_into_the_inside_of_a_padded_array():
    """Of a large array the padding is put beside it, and what makes it writes where it belongs."""
    x = np.random.default_rng(1).normal(size=(1, 3, 90, 90)).astype(np.float32)

    def function(F, x):
        return F.pad(F.relu(x), mode="constant", pad_width=(0, 0, 0, 0, 1, 1, 1, 1))

    lowered = HybridLambda(function).trace(mx.nd.array(x)).optimize().lower("llvm")
    want = np.pad(np.maximum(x, 0), ((0, 0), (0, 0), (1, 1), (1, 1)))
    np.testing.assert_array_equal(lowered.compile()(mx.nd.array(x)).asnumpy(), want)


@pytest.mark.parametrize("target", ["numpy", "llvm"])
@pytest.mark.parametrize("size", [1, 3])
def test_a_slice_that_is_a_part_is_that_part(size, target):
    def function(F, x):
        a, b = F.split(F.concat(x, x * 2, dim=0), num_outputs=2, axis=0)
        return a * F.exp(b)

    x = mx.nd.arange(size)
    got = HybridLambda(function).trace(x).optimize().lower(target).compile()(x).asnumpy()
    np.testing.assert_allclose(got, x.asnumpy() * np.exp(2 * x.asnumpy()), rtol=1e-6)


def test_numpy_writes_parts_with_gaps_between_their_rows():
    """Axes of a result that is a part of a greater array do not merge: a reshape of it would be a copy."""
    x = np.random.default_rng(2).normal(size=(6, 5, 4)).astype(np.float32)

    def function(F, x):
        return F.concat(F.exp(x), x * 2, dim=2)

    with tiles(8, 32):
        lowered = HybridLambda(function).trace(mx.nd.array(x)).optimize().lower("numpy")
        got = lowered.compile()(mx.nd.array(x)).asnumpy()
    np.testing.assert_allclose(got, np.concatenate([np.exp(x), x * 2], 2), rtol=1e-6)

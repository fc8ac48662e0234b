"""Borders around computed arrays: one kernel fills all parts of one, and LLVM's code of it serves every size."""

from __future__ import annotations

import numpy as np
import pytest

import hybridc as mx
from hybridc import autograd
from hybridc.compile.stages import Traced
from hybridc.gluon.nn import HybridLambda
from hybridc.trace.tracer import trace_call

TARGETS = ("numpy", "llvm", pytest.param("triton", marks=pytest.mark.triton))
WIDTHS = {  # what is inside is most of each array: else it is written by one loop nest
    (9,): (2, 1),
    (7, 30): (0, 0, 3, 0),
    (5, 4, 6): (0, 1, 1, 0, 0, 1),
    (2, 9, 8, 5): (0, 0, 1, 1, 2, 1, 0, 0),
    (2, 5, 9, 8): (0, 0, 0, 0, 1, 1, 1, 1),
    (1, 7, 8, 9, 3): (0, 0, 1, 1, 1, 0, 2, 1, 0, 0),
}


def lowered(target, function, *arrays):
    traced = Traced(trace_call(HybridLambda(function), list(arrays), training=False))
    return traced.optimize().lower(target)


def padded(widths, value):
    """A function that pads what it computes by a constant."""
    return lambda F, x: F.Pad(x * 2, mode="constant", pad_width=widths, constant_value=value)


def numbers(shape, dtype):
    return mx.nd.array(np.random.default_rng(len(shape)).integers(-50, 50, shape), dtype=dtype)


def expected(x, widths, value):
    return np.pad(x.asnumpy() * 2, list(zip(widths[::2], widths[1::2], strict=True)), constant_values=value)


@pytest.mark.parametrize("shape", WIDTHS, ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_one_kernel_fills_a_border(target, shape):
    widths = WIDTHS[shape]
    kinds = (("float16", -1.5), ("int8", 7), ("float64", 0.1), ("int64", -3))
    for dtype, value in kinds if target == "llvm" else kinds[:2]:
        x = numbers(shape, dtype)
        made = lowered(target, padded(widths, value), x)
        np.testing.assert_array_equal(made.compile()(x).asnumpy(), expected(x, widths, value))
        assert len(made.programs["forward"].launches) == 2


def test_borders_of_all_sizes_and_values_share_a_function():
    """As far as their elements have one size, and they have up to three axes."""
    functions = [
        {f.key for f in lowered("llvm", padded(WIDTHS[s], v), numbers(s, d)).programs["forward"].functions_called()}
        for s in WIDTHS
        if len(s) < 5
        for d, v in (("float32", 0), ("int32", 5))
    ]
    assert len(set.intersection(*functions)) == 1
    assert all(len(each) == 2 for each in functions)


MOVED = {
    "padded": lambda F, x: F.Pad(x, mode="constant", pad_width=(0, 0, 2, 0, 1, 3, 0, 0), constant_value=-3),
    "beyond": lambda F, x: F.Pad(x, mode="constant", pad_width=(9, 0, 0, 0, 0, 0, 0, 11), constant_value=7),
    "reordered": lambda F, x: F.transpose(x, axes=(2, 3, 1, 0)),
    "rows": lambda F, x: F.transpose(x, axes=(1, 0, 2, 3)),
    "padded rows": lambda F, x: F.Pad(F.transpose(x, axes=(2, 0, 1, 3)), mode="constant", pad_width=(1,) * 8),
}
DEFINED = {
    "padded": lambda x: np.pad(x, ((0, 0), (2, 0), (1, 3), (0, 0)), constant_values=-3),
    "beyond": lambda x: np.pad(x, ((9, 0), (0, 0), (0, 0), (0, 11)), constant_values=7),
    "reordered": lambda x: x.transpose(2, 3, 1, 0),
    "rows": lambda x: x.transpose(1, 0, 2, 3),
    "padded rows": lambda x: np.pad(x.transpose(2, 0, 1, 3), 1),
}


@pytest.mark.parametrize("kind", MOVED)
def test_arguments_are_moved_by_code_for_all_sizes(kind):
    """Which float32 are, too, where squares of them are not turned in registers."""
    used = set()
    for shape in ((9, 4, 5, 24), (8, 3, 2, 40), (31, 1, 6, 8), (12, 7, 1, 9), (3, 2, 3, 4)):
        for dtype in ("int32", "float16", "float32"):
            x = numbers(shape, dtype)
            made = lowered("llvm", MOVED[kind], x)
            np.testing.assert_array_equal(made.compile()(x).asnumpy(), DEFINED[kind](x.asnumpy()))
            if dtype == "int32" and min(shape) > 1 and max(shape) > 4:
                used.update(f.key for f in made.programs["forward"].functions_called())
    assert len(used) == 1


@pytest.mark.parametrize("target", TARGETS)
def test_constant_parts_of_any_size(target):
    """Also around an array with a border."""
    widths = (0, 0, 1, 2)

    def function(F, x):
        return F.concat(F.ones((3, 5000)), padded(widths, 5)(F, x), F.zeros((1, 5000)), dim=0)

    x = numbers((2, 4997), "float32")
    made = lowered(target, function, x)
    want = np.concatenate([np.ones((3, 5000)), expected(x, widths, 5), np.zeros((1, 5000))])
    np.testing.assert_array_equal(made.compile()(x).asnumpy(), want)
    assert len(made.programs["forward"].launches) == 2


@pytest.mark.parametrize("target", TARGETS)
def test_gradients_through_borders(target):
    """Of a sum of products with weights: those inside the border, times 2."""
    x = numbers((2, 6, 7, 3), "float32")
    widths, weights = (0, 0, 1, 2, 2, 1, 0, 0), np.random.default_rng(2).normal(size=(2, 9, 10, 3)).astype("f")
    net = HybridLambda(lambda F, x, w: F.sum(F.relu(padded(widths, 4)(F, x)) * w))
    net.hybridize()
    context = mx.gpu() if target == "triton" else mx.cpu()
    x, w = x.as_in_context(context), mx.nd.array(weights, ctx=context)
    x.attach_grad()
    with autograd.record():
        y = net(x, w)
    y.backward()
    inside = weights[:, 1:7, 2:9]
    np.testing.assert_allclose(x.grad.asnumpy(), np.where(x.asnumpy() > 0, 2 * inside, 0), rtol=1e-6)
    np.testing.assert_allclose(y.asnumpy(), (np.maximum(expected(x, widths, 4), 0) * weights).sum(), rtol=1e-4)

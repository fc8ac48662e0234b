"""Attention whose weights a dropout thins out: the kernels read the random samples, which are drawn once."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hybridc.random import generator
from tests.lower.evaluate import Evaluator
from tests.lower.llvm.guarded import native_kernels
from tests.lower.triton.attentions import forward_of
from tests.lower.triton.guarded import Interpreted
from tests.lower.triton.printed import kernel_cache, launches_of_attention, leave_out_attention
from tests.lower.triton.test_attention import lowered as predicted
from tests.lower.triton.test_attention_backward import SMALL, TOLERANCE, call, fused, lowered
from tests.slices import one_in

pytestmark = [pytest.mark.triton, pytest.mark.long]


RNG = np.random.default_rng(31)
KEY = np.array([7, 40], np.uint64)


def normal(*shape, dtype="float32"):
    return RNG.normal(size=shape).astype(dtype)


def factor(shape, dtype, p=0.25, draw=0):
    """What each weight is multiplied with."""
    single = np.float64 if dtype == "float64" else np.float32
    drawn = generator(KEY, draw).random(shape, single).astype(dtype)
    return (drawn >= np.dtype(dtype).type(p)) / (1 - p)


def thinned(mode="training"):
    """An attention with a dropout."""

    def function(F, q, k, v):
        weights = F.softmax(F.batch_dot(q, k, transpose_b=True) * 0.25)
        return F.batch_dot(F.Dropout(weights, p=0.25, mode=mode), v)

    return function


def attend(q, k, v, gradient, factor, scale=0.25, hidden=None):
    """The definition: the result, then gradients of queries, keys and values; ``hidden`` scores are minus infinity."""
    q, k, v, gradient = (x.astype(np.float64) for x in (q, k, v, gradient))
    scores = q @ k.swapaxes(-1, -2) * scale
    if hidden is not None:
        scores = np.where(hidden, -np.inf, scores)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    weights = powers / powers.sum(-1, keepdims=True)
    of_weights = gradient @ v.swapaxes(-1, -2) * factor
    of_scores = weights * (of_weights - (of_weights * weights).sum(-1, keepdims=True)) * scale
    thin = weights * factor
    return [thin @ v, of_scores @ k, of_scores.swapaxes(-1, -2) @ q, thin.swapaxes(-1, -2) @ gradient]


def agrees(function, want, arrays, gradient, tiles):
    """Forward and backward are one kernel each, and right in blocks of these sizes."""
    module = lowered(function, arrays, range(len(arrays)))
    kernels = native_kernels(module)
    assert len(fused(module)) == 1
    assert sum(forward_of(k) is not None for k in kernels) == 1
    for sizes in tiles:
        ran = Interpreted(
            module,
            lambda k, s, t=sizes: launches_of_attention(k, s, t) or kernel_cache().of(k, s),
        )
        for got, expected in zip(call(module, ran, [*arrays, KEY], gradient), want, strict=True):
            limit = TOLERANCE[arrays[0].dtype.name] * max(1.0, np.abs(expected).max())
            np.testing.assert_allclose(got.reshape(expected.shape), expected, rtol=0, atol=limit)


@pytest.mark.parametrize(
    ("rows", "keys", "dtype"),
    one_in(
        3, [(20, 40, "float16"), (33, 35, "float16"), (20, 40, "float32"), (33, 35, "float32"), (20, 36, "float64")]
    ),
)
def test_any_sizes(rows, keys, dtype):
    """Lengths that blocks divide, and others."""
    arrays = [normal(2, n, 8, dtype=dtype) for n in (rows, keys, keys)]
    gradient = normal(2, rows, 8, dtype=dtype)
    want = attend(*arrays, gradient, factor((2, rows, keys), dtype))
    agrees(thinned(), want, arrays, gradient, [SMALL])


def test_large_blocks():
    arrays, gradient = [normal(2, n, 16) for n in (40, 72, 72)], normal(2, 40, 16)
    want = attend(*arrays, gradient, factor((2, 40, 72), "float32"))
    agrees(thinned(), want, arrays, gradient, [()])


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_causal(dtype):
    """Blocks that are hidden are not read."""

    def function(F, q, k, v):
        scores = F.batch_dot(q, k, transpose_b=True) * 0.25
        rows, keys = (F.arange(n) for n in scores.shape[1:])
        later = F.broadcast_greater(F.reshape(keys, (1, 1, -1)), F.reshape(rows, (1, -1, 1)))
        scores = F.where(F.broadcast_like(later, scores), F.full_like(scores, -math.inf), scores)
        return F.batch_dot(F.Dropout(F.softmax(scores), p=0.25), v)

    arrays, gradient = [normal(2, 48, 8, dtype=dtype) for _ in range(3)], normal(2, 48, 8, dtype=dtype)
    hidden = np.arange(48) > np.arange(48)[:, None]
    want = attend(*arrays, gradient, factor((2, 48, 48), dtype), hidden=hidden)
    agrees(function, want, arrays, gradient, [SMALL])
    (forward,) = [a for a in map(forward_of, native_kernels(lowered(function, arrays))) if a is not None]
    assert forward.hidden == 0


def test_heads_and_numbers_along_some_axes():
    """Four dimensions; what is dropped is the same for all rows."""
    arrays, gradient = [normal(2, 3, n, 8) for n in (20, 40, 40)], normal(2, 3, 20, 8)

    def function(F, q, k, v):
        weights = F.softmax(F.linalg.gemm2(q, k, transpose_b=True) * 0.25)
        return F.linalg.gemm2(F.Dropout(weights, p=0.25, axes=(2,)), v)

    want = attend(*arrays, gradient, factor((2, 3, 1, 40), "float32"))
    agrees(function, want, arrays, gradient, [SMALL])


def test_layers_share_kernels_and_have_draws_of_their_own():
    lengths, gradient = (24, 40, 40, 40, 40), normal(2, 24, 8)
    arrays = [normal(2, n, 8) for n in lengths]

    def function(F, q, k, v, k2, v2):
        return thinned()(F, thinned()(F, q, k, v), k2, v2)

    one, other = (factor((2, 24, 40), "float32", draw=d) for d in (0, 1))
    assert (one != other).any()
    first = attend(*arrays[:3], gradient, one)[0]
    result, d_first, dk2, dv2 = attend(first, *arrays[3:], gradient, other)
    _, dq, dk, dv = attend(*arrays[:3], d_first, one)
    agrees(function, [result, dq, dk, dv, dk2, dv2], arrays, gradient, [SMALL])


def test_prediction_and_training_alike():
    """Where something is always dropped, without a backward."""
    arrays = [normal(2, n, 8) for n in (20, 40, 40)]
    want, *_ = attend(*arrays, normal(2, 20, 8), factor((2, 20, 40), "float32"))
    module = predicted(thinned("always"), *arrays)
    assert forward_of(native_kernels(module)[0]) is not None
    (got,) = Interpreted(module, kernel_cache().of).call("forward", *arrays, KEY)
    np.testing.assert_allclose(got, want, rtol=0, atol=4e-6 * np.abs(want).max())


def test_the_nests_one_after_the_other(monkeypatch):
    """What is too long for one program goes through memory, and is right there, too; and so is the definition."""
    leave_out_attention(monkeypatch)
    arrays, gradient = [normal(2, n, 8) for n in (20, 33, 33)], normal(2, 20, 8)
    module = lowered(thinned(), arrays)
    assert len(fused(module)) == 1
    want = attend(*arrays, gradient, factor((2, 20, 33), "float32"))
    for run in (Interpreted(module, kernel_cache().of), Evaluator(module, views=True)):
        for got, expected in zip(call(module, run, [*arrays, KEY], gradient), want, strict=True):
            np.testing.assert_allclose(got, expected, rtol=0, atol=4e-6 * np.abs(expected).max())


def test_another_factor_in_the_backward_stays():
    """Where a gradient is multiplied with something else, sums of rows are not those of the result."""

    def function(F, q, k, v):
        weights = F.softmax(F.batch_dot(q, k, transpose_b=True))
        return F.batch_dot(F.Dropout(weights, p=0.25) + F.BlockGrad(weights), v)

    module = lowered(function, [normal(2, 20, 20) for _ in range(3)])
    assert not fused(module)

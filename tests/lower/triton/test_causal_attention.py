"""Keys that a causal mask hides are known from its formula, and blocks of them are not read, forward and backward."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import hybridc as mx
from hybridc.gluon.nn import HybridLambda
from hybridc.ir.attention import attention_of
from hybridc.transforms.code.blocks.choose_attention import AttentionTile
from tests.lower.llvm.guarded import native_kernels
from tests.lower.triton.attentions import backward_of, forward_of
from tests.lower.triton.guarded import Interpreted
from tests.lower.triton.printed import kernel_cache, launches_of_attention
from tests.lower.triton.test_attention import causal
from tests.lower.triton.test_attention_backward import attend, call, lowered
from tests.slices import one_in

pytestmark = pytest.mark.triton


RNG = np.random.default_rng(29)
SMALL = (AttentionTile(16, 16, 4, 1),)


def normal(*shape, dtype="float32"):
    return RNG.normal(size=shape).astype(dtype)


def indices(F, scores):
    """Those of rows and of keys, which broadcast to scores."""
    rows, keys = (F.arange(n) for n in scores.shape[1:])
    return F.reshape(rows, (1, -1, 1)), F.reshape(keys, (1, 1, -1))


def masked_by(hidden):
    """An attention whose scores are minus infinity where ``hidden(F, rows, keys)`` of indices is not zero."""

    def function(F, q, k, v):
        scores = F.batch_dot(q, k, transpose_b=True) * 0.3
        rows, keys = (
            F.reshape(F.arange(n), s) for n, s in zip(scores.shape[1:], ((1, -1, 1), (1, 1, -1)), strict=True)
        )
        mask = F.broadcast_like(hidden(F, rows, keys), scores)
        return F.batch_dot(F.softmax(F.where(mask, F.full_like(scores, -math.inf), scores)), v)

    return function


def inverted(function):
    """The mask chooses scores, not minus infinity."""

    def attention(F, q, k, v):
        scores = F.batch_dot(q, k, transpose_b=True)
        rows, keys = (
            F.reshape(F.arange(n), s) for n, s in zip(scores.shape[1:], ((1, -1, 1), (1, 1, -1)), strict=True)
        )
        shown = F.where(F.broadcast_like(function(F, rows, keys), scores), scores, F.full_like(scores, -math.inf))
        return F.batch_dot(F.softmax(shown * 0.5), v)

    return attention


def added(F, q, k, v):
    scores = F.batch_dot(q, k, transpose_b=True)
    later = F.broadcast_lesser(*indices(F, scores))
    mask = F.where(later, F.full_like(later, -math.inf), F.zeros_like(later))
    return F.batch_dot(F.softmax(F.broadcast_add(scores, mask)), v)


def by_bias(bias):
    """What is added to scores is made of whether keys are beyond rows."""

    def attention(F, q, k, v):
        scores = F.batch_dot(q, k, transpose_b=True) * 0.3
        return F.batch_dot(F.softmax(F.broadcast_add(scores, bias(F, F.broadcast_lesser(*indices(F, scores))))), v)

    return attention


def chosen_large(F, q, k, v):
    scores = F.batch_dot(q, k, transpose_b=True)
    later = F.broadcast_like(F.broadcast_lesser(*indices(F, scores)), scores)
    return F.batch_dot(F.softmax(F.where(later, F.full_like(scores, -1e4), scores)), v)


def integers(F, q, k, v):
    scores = F.batch_dot(q, k, transpose_b=True)
    rows, keys = (F.reshape(F.arange(n, dtype="int32"), s) for n, s in zip(scores.shape[1:], ((1, -1, 1), (1, 1, -1))))
    later = F.broadcast_like(F.broadcast_greater(keys, rows), scores)
    return F.batch_dot(F.softmax(F.where(later, F.full_like(scores, -math.inf), scores)), v)


def padded_too(F, q, k, v, mask):
    """A mask of data beside the causal one, both of large finite numbers: a row may see nothing but what one hides."""
    scores = F.batch_dot(q, k, transpose_b=True)
    later = F.broadcast_lesser(*indices(F, scores))
    return F.batch_dot(F.softmax(F.broadcast_add(F.broadcast_add(scores, mask), later * -1e9)), v)


def hidden_by(function, rows=64, keys=64):
    """By how much keys are known to be hidden, forward and backward."""
    module = lowered(function, [np.ones((2, n, 8), np.float32) for n in (rows, keys, keys)])
    kernels = native_kernels(module)
    (forward,) = [a for a in map(forward_of, kernels) if a is not None]
    (backward,) = [a for a in map(backward_of, kernels) if a is not None]
    return forward.hidden, backward.hidden


@pytest.mark.parametrize(
    ("function", "by"),
    one_in(
        2,
        [
            (causal, 0),
            (masked_by(lambda F, rows, keys: F.broadcast_lesser(rows, keys)), 0),
            (masked_by(lambda F, rows, keys: F.broadcast_greater_equal(keys, rows + 4)), 3),
            (masked_by(lambda F, rows, keys: F.broadcast_lesser_equal(rows + 7, keys + 2)), 4),
            (inverted(lambda F, rows, keys: F.broadcast_greater_equal(rows, keys)), 0),
            (inverted(lambda F, rows, keys: F.broadcast_lesser(keys, rows + 2)), 1),
            (added, 0),
            (masked_by(lambda F, rows, keys: F.broadcast_greater(keys, rows) * F.broadcast_greater(keys, rows + 8)), 8),
            (
                masked_by(
                    lambda F, rows, keys: F.broadcast_lesser(F.broadcast_sub(rows * 2, keys * 2), F.zeros(1) - 5)
                ),
                2,
            ),
            (
                masked_by(
                    lambda F, rows, keys: F.broadcast_logical_or(keys > rows, F.broadcast_lesser(keys, rows - 8))
                ),
                0,
            ),
            (by_bias(lambda F, later: later * -1e9), 0),
            (by_bias(lambda F, later: (1 - later - 1) * 1e4), 0),
            (by_bias(lambda F, later: F.log(1 - later)), 0),
            (by_bias(lambda F, later: F.where(later, F.ones_like(later) * -math.inf, F.zeros_like(later))), 0),
            (chosen_large, 0),
            (integers, 0),
        ],
    ),
)
def test_what_is_known_of_a_mask(function, by):
    assert hidden_by(function) == (by, by)
    assert hidden_by(function, 20, 33) == (by, by)


@pytest.mark.parametrize(
    "hidden",
    [
        lambda F, rows, keys: F.broadcast_greater(rows, keys),  # what is before
        lambda F, rows, keys: F.broadcast_greater_equal(keys, rows),  # the first row sees nothing
        lambda F, rows, keys: F.broadcast_greater(keys, rows * 2),
        lambda F, rows, keys: F.broadcast_equal(keys, rows),
    ],
)
def test_what_is_not_known(hidden):
    """All of it is computed."""
    assert hidden_by(masked_by(hidden)) == (None, None)


@pytest.mark.parametrize("bias", [lambda F, later: later * -100, lambda F, later: later * 1e9])
def test_numbers_that_do_not_hide(bias):
    assert hidden_by(by_bias(bias)) == (None, None)


def test_large_numbers_beside_a_mask_of_data_hide_no_block():
    arrays = [np.ones(s, np.float32) for s in ((2, 64, 8), (2, 64, 8), (2, 64, 8), (2, 64, 64))]
    kernels = native_kernels(lowered(padded_too, arrays))
    assert [a.hidden for k in kernels for a in [attention_of(k)] if a] == [None, None]


@pytest.mark.parametrize(
    ("rows", "keys", "by"),
    one_in(3, [(r, k, b) for b, (r, k) in itertools.product((5, 0, 40), ((40, 70), (64, 64), (70, 40)))]),
)
def test_hidden_blocks_are_not_read(rows, keys, by):
    """Results are right, and what only hidden blocks hold, NaN, reaches nothing."""
    arrays, gradient = [normal(2, n, 8) for n in (rows, keys, keys)], normal(2, rows, 8)
    function = masked_by(lambda F, rows, keys: F.broadcast_greater(keys, rows + by))
    want = attend(*arrays, gradient, 0.3, hidden=np.arange(keys) > np.arange(rows)[:, None] + by)
    unseen = rows + by + 16
    for x in arrays[1:]:
        x[:, unseen:] = np.nan
    module = lowered(function, arrays)

    def kernel_launches(kernel, strides):
        return launches_of_attention(kernel, strides, SMALL) or kernel_cache().of(kernel, strides)

    for got, expected in zip(call(module, Interpreted(module, kernel_launches), arrays, gradient), want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=0, atol=4e-6 * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("function", [by_bias(lambda F, later: later * -1e9), chosen_large, integers])
def test_blocks_that_large_finite_numbers_or_integers_hide_are_not_read(function):
    """The result is that of all blocks, for scores of a usual size."""
    arrays, gradient = [normal(2, 40, 8) for _ in range(3)], normal(2, 40, 8)
    scale = 0.3 if function not in (chosen_large, integers) else 1.0
    want = attend(*arrays, gradient, scale, hidden=np.arange(40) > np.arange(40)[:, None])
    module = lowered(function, arrays)

    def kernel_launches(kernel, strides):
        return launches_of_attention(kernel, strides, SMALL)

    for got, expected in zip(call(module, Interpreted(module, kernel_launches), arrays, gradient), want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=0, atol=4e-6 * max(1.0, np.abs(expected).max()))


def test_half_precision_counts_no_further_than_it_can():
    """Indices that are rounded are no places."""

    def function(F, q, k, v):
        scores = F.batch_dot(q, k, transpose_b=True)
        rows, keys = (F.cast(F.arange(n), "float16").reshape(s) for n, s in ((3000, (1, -1, 1)), (3000, (1, 1, -1))))
        mask = F.broadcast_like(F.broadcast_greater(keys, rows), scores)
        return F.batch_dot(F.softmax(F.where(mask, F.full_like(scores, -math.inf), scores)), v)

    inputs = [mx.nd.ones((1, 3000, 8), dtype="float16") for _ in range(3)]
    module = HybridLambda(function).trace(*inputs).optimize().form("triton").module
    (attention,) = [a for a in map(forward_of, native_kernels(module)) if a is not None]
    assert attention.hidden is None

"""Masks that are arguments, and heads as networks split them: fused forward and backward, right against float64."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.llvm.guarded import native_kernels
from tests.lower.triton.attentions import backward_of, forward_of
from tests.lower.triton.guarded import Interpreted
from tests.lower.triton.printed import kernel_cache
from tests.lower.triton.test_attention_backward import TOLERANCE, attend, call, lowered
from tests.slices import one_in

pytestmark = pytest.mark.triton


RNG = np.random.default_rng(37)
BATCH, HEADS, ROWS, KEYS, SIZE = 2, 2, 20, 33, 8


def normal(*shape, dtype="float32"):
    return RNG.normal(size=shape).astype(dtype)


def one_pair(function, arrays, grads):
    """The results and gradients by one kernel forward and one backward, which no array of scores is given."""
    module = lowered(function, arrays, grads)
    kernels = native_kernels(module)
    assert sum(forward_of(k) is not None for k in kernels) == 1
    assert sum(backward_of(k) is not None for k in kernels) == 1
    gradient = normal(*next(iter(result_shapes(module))), dtype=arrays[0].dtype)
    return gradient, call(module, Interpreted(module, kernel_cache().of), arrays, gradient)


def result_shapes(module):
    forward = next(f for f in module.ops if f.sym_name.data == "forward")
    return [kind.get_shape() for kind in forward.function_type.outputs]


def agrees(got, want, dtype):
    for one, other in zip(got, want, strict=True):
        limit = TOLERANCE[dtype] * max(1.0, np.abs(other).max())
        np.testing.assert_allclose(one.reshape(other.shape), other, rtol=0, atol=limit)


# --- masks -------------------------------------------------------------------------------------------------


def scores(F, q, k):
    return F.batch_dot(q, k, transpose_b=True) * 0.25


def added(F, q, k, v, mask):
    """What is hidden is -1e9 less."""
    return F.batch_dot(F.softmax(F.broadcast_add(scores(F, q, k), (1 - F.expand_dims(mask, 0)) * -1e9)), v)


def added_small(F, q, k, v, mask):
    return F.batch_dot(F.softmax(F.broadcast_add(scores(F, q, k), (1 - F.expand_dims(mask, 1)) * -1e4)), v)


def chosen(F, q, k, v, mask):
    s = scores(F, q, k)
    return F.batch_dot(F.softmax(F.where(mask, s, F.full_like(s, -1e4))), v)


def chosen_infinite(F, q, k, v, mask):
    s = scores(F, q, k)
    return F.batch_dot(F.softmax(F.where(F.broadcast_like(mask, s), s, F.full_like(s, -np.inf))), v)


def chosen_and_multiplied(F, q, k, v, mask):
    """Weights of what is hidden are zero, too: where a row sees nothing, nothing is summed."""
    s = scores(F, q, k)
    return F.batch_dot(F.softmax(F.where(mask, s, F.full_like(s, -1e4))) * mask, v)


def sequence(F, q, k, v, length):
    s = F.transpose(scores(F, q, k), axes=(2, 0, 1))
    s = F.SequenceMask(s, sequence_length=length, use_sequence_length=True, value=-1e4)
    return F.batch_dot(F.softmax(F.transpose(s, axes=(1, 2, 0))), v)


def compared(F, q, k, v, length):
    places = F.reshape(F.arange(k.shape[1], dtype=length.dtype), (1, 1, -1))
    hidden = F.broadcast_greater_equal(places, F.reshape(length, (-1, 1, 1)))
    return F.batch_dot(F.softmax(F.broadcast_add(scores(F, q, k), hidden * -1e4)), v)


@pytest.mark.parametrize(
    ("function", "shape", "dtype"),
    one_in(
        2,
        [
            (added, (ROWS, KEYS), "float32"),
            (added_small, (BATCH, KEYS), "float16"),
            (chosen, (BATCH, ROWS, KEYS), "float32"),
            (chosen, (BATCH, ROWS, KEYS), "float16"),
            (chosen_infinite, (1, ROWS, KEYS), "float32"),
            (chosen_infinite, (BATCH, 1, KEYS), "float16"),
            (chosen_and_multiplied, (BATCH, ROWS, KEYS), "float32"),
            (sequence, (BATCH,), "float32"),
            (compared, (BATCH,), "float32"),
            (compared, (BATCH,), "float16"),
        ],
    ),
)
def test_masks_that_are_given(function, shape, dtype):
    arrays = [normal(BATCH, n, SIZE, dtype=dtype) for n in (ROWS, KEYS, KEYS)]
    if len(shape) == 1:
        mask = np.array([5, KEYS], dtype)
        shown = np.arange(KEYS) < mask[:, None, None]
    else:
        mask = (RNG.random(shape) < 0.6).astype(dtype)
        mask[..., 0] = 1
        shown = (mask[:, None] if mask.shape == (BATCH, KEYS) else mask).astype(bool)
    gradient, got = one_pair(function, [*arrays, mask], (0, 1, 2))
    want = attend(*arrays, gradient, 0.25, hidden=np.broadcast_to(~shown, (BATCH, ROWS, KEYS)))
    agrees(got, want, dtype)


def test_a_row_that_large_finite_numbers_hide_is_uniform():
    """No block of such a row may be left out: its weights are all the same, as by the definition."""
    arrays, mask = [normal(BATCH, n, SIZE) for n in (ROWS, KEYS, KEYS)], np.ones((BATCH, ROWS, KEYS), np.float32)
    mask[1, 3] = 0
    gradient, got = one_pair(chosen, [*arrays, mask], (0, 1, 2))
    np.testing.assert_allclose(got[0][1, 3], arrays[2][1].astype(np.float64).mean(0), rtol=0, atol=4e-6)
    others = [i for i in range(ROWS) if i != 3]
    want, dq, _, _ = attend(*arrays, gradient, 0.25)
    np.testing.assert_allclose(got[0][1, others], want[1, others], rtol=0, atol=4e-6)
    np.testing.assert_allclose(got[1][1, others], dq[1, others], rtol=0, atol=4e-6 * np.abs(dq).max())
    np.testing.assert_array_equal(got[1][1, 3], 0)  # its scores are numbers, not products


# --- heads -------------------------------------------------------------------------------------------------


def split(F, x, heads=HEADS):
    """(batch, length, heads * size) as (batch * heads, length, size)."""
    x = F.transpose(F.reshape(x, (0, 0, heads, -1)), axes=(0, 2, 1, 3))
    return F.reshape(x, (-1, 0, 0), reverse=True)


def merge(F, x, heads=HEADS):
    """The other way round."""
    x = F.transpose(F.reshape(x, (-1, heads, 0, 0), reverse=True), axes=(0, 2, 1, 3))
    return F.reshape(x, (0, 0, -1))


def scaled_before(F, q, k, v, mask):
    q, k, v = (split(F, x) for x in (q * 0.25, k, v))
    s = F.batch_dot(q, k, transpose_b=True)
    mask = F.reshape(F.broadcast_axis(F.expand_dims(mask, 1), axis=1, size=HEADS), (-3, 0, 0))
    return merge(F, F.batch_dot(F.softmax(F.where(mask, s, F.ones_like(s) * -1e4)), v))


def in_four_dimensions(F, q, k, v, mask):
    q, k, v = (split(F, x) for x in (q, k, v))
    s = F.reshape(scores(F, q, k), (-4, -1, HEADS, 0, 0))
    s = F.broadcast_add(s, (1 - F.expand_dims(mask, 1)) * -1e4)
    return merge(F, F.batch_dot(F.reshape(F.softmax(s), (-3, 0, 0)), v))


def by_root(F, q, k, v, mask):
    """1/4 is the inverse root of 16, a head's size."""
    s = F.batch_dot(F.contrib.div_sqrt_dim(split(F, q)), split(F, k), transpose_b=True)
    mask = F.reshape(F.broadcast_axis(F.expand_dims(mask, 1), axis=1, size=HEADS), (-3, 0, 0))
    return merge(F, F.batch_dot(F.softmax(s + (1 - mask) * -1e4), split(F, v)))


def of_heads(x):
    return x.reshape(*x.shape[:2], HEADS, -1).swapaxes(1, 2)


@pytest.mark.parametrize("function", [scaled_before, in_four_dimensions, by_root])
def test_heads_and_masks_of_networks(function):
    arrays = [normal(BATCH, n, HEADS * 16) for n in (ROWS, KEYS, KEYS)]
    mask = (RNG.random((BATCH, ROWS, KEYS)) < 0.6).astype("float32")
    mask[..., 0] = 1
    gradient, got = one_pair(function, [*arrays, mask], (0, 1, 2))
    want = attend(*map(of_heads, (*arrays, gradient)), 0.25, hidden=mask[:, None] == 0)
    agrees(got, [x.swapaxes(1, 2).reshape(BATCH, x.shape[2], -1) for x in want], "float32")


def test_queries_keys_and_values_of_one_product():
    """Parts of one array, of which one is scaled: the array stays, and no part is copied."""

    def function(F, x, weight):
        q, k, v = F.split(F.FullyConnected(x, weight, num_hidden=48, no_bias=True, flatten=False), 3, axis=2)
        q, k, v = (split(F, x) for x in (q * 0.25, k, v))
        return merge(F, F.batch_dot(F.softmax(F.batch_dot(q, k, transpose_b=True)), v))

    x, weight = normal(BATCH, ROWS, 16), normal(48, 16) * 0.2
    gradient, (result, dx, dw) = one_pair(function, [x, weight], (0, 1))
    made = x.astype(np.float64) @ weight.T.astype(np.float64)
    want, *grads = attend(*map(of_heads, np.split(made, 3, 2)), of_heads(gradient), 0.25)
    d = np.concatenate([g.swapaxes(1, 2).reshape(BATCH, ROWS, 16) for g in grads], 2)
    agrees([result], [want.swapaxes(1, 2).reshape(BATCH, ROWS, 16)], "float32")
    agrees([dx, dw], [d @ weight, np.einsum("bri,brj->ij", d, x)], "float32")
    kept = result_shapes(lowered(function, [x, weight], (0, 1)))
    assert sum(np.prod(s) for s in kept) < 3 * x.size + 48 * BATCH * ROWS  # the result, the product, and rows


def test_groups_of_heads_share_keys():
    def function(F, q, k, v):
        q = F.transpose(F.reshape(q, (0, 0, 4, -1)), axes=(0, 2, 1, 3))
        k, v = (F.transpose(F.reshape(x, (0, 0, 2, -1)), axes=(0, 2, 1, 3)) for x in (k, v))
        k, v = (F.repeat(x, 2, axis=1) for x in (k, v))
        mixed = F.linalg.gemm2(F.softmax(F.linalg.gemm2(q, k, transpose_b=True, alpha=0.25)), v)
        return F.reshape(F.transpose(mixed, axes=(0, 2, 1, 3)), (0, 0, -1))

    arrays = [normal(BATCH, ROWS, 32), normal(BATCH, KEYS, 16), normal(BATCH, KEYS, 16)]
    gradient, got = one_pair(function, arrays, (0, 1, 2))

    def heads(x, n):
        return x.reshape(*x.shape[:2], n, 8).swapaxes(1, 2)

    k, v = (np.repeat(heads(x, 2), 2, 1) for x in arrays[1:])
    want = attend(heads(arrays[0], 4), k, v, heads(gradient, 4), 0.25)
    want[2:] = [x.reshape(BATCH, 2, 2, KEYS, 8).sum(2) for x in want[2:]]
    agrees(got, [x.swapaxes(1, 2).reshape(BATCH, x.shape[2], -1) for x in want], "float32")

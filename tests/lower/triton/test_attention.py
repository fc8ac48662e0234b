"""Attention as one kernel, by the interpreter between forbidden pages, against its definition in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest

import hybridc as mx
from benchmarks import workloads
from hybridc.compile import pipeline
from hybridc.gluon.nn import HybridLambda
from hybridc.ir.kernels.kernel_text import read_kernel
from hybridc.ir.structured import kernels
from hybridc.transforms.code.blocks.choose_attention import AttentionTile
from hybridc.transforms.schedules.blocks import tile_blocks
from tests.lower.llvm.guarded import run_passes
from tests.lower.triton.attentions import forward_of
from tests.lower.triton.guarded import Interpreted
from tests.lower.triton.printed import kernel_cache, launches_of_attention, leave_out_attention
from tests.slices import but

pytestmark = pytest.mark.triton


RNG = np.random.default_rng(17)
TOLERANCE = {"float16": 6e-3, "float32": 4e-6, "float64": 1e-13}
# Blocks so small that there are several of rows and of keys.
SMALL = (AttentionTile(16, 16, 4, 1),)


def normal(*shape, dtype="float32"):
    return RNG.normal(size=shape).astype(dtype)


def lowered(net, *arrays):
    """The module of kernels of a network, or a function."""
    net = net if isinstance(net, mx.gluon.HybridBlock) else HybridLambda(net)
    inputs = [mx.nd.array(x, dtype=x.dtype) for x in arrays]
    module = net.trace(*inputs).optimize().module.clone()
    run_passes(module, pipeline.triton_kernels())
    return module


def fused(module):
    """The kernels that are attentions."""
    return [k for k in map(read_kernel, kernels(module).values()) if forward_of(k) is not None]


def agrees(function, want, *arrays, tiles=(SMALL, ()), largest=1.0):
    """One kernel computes the function as its definition does, in blocks of any size.

    Scores up to the ``largest`` are rounded, and a power of one is off by as much.
    """
    module = lowered(function, *arrays)
    assert len(fused(module)) == 1
    dtype = arrays[0].dtype.name
    for chosen in tiles:
        ran = Interpreted(module, lambda k, s, t=chosen: launches_of_attention(k, s, t) or kernel_cache().of(k, s))
        (got,) = ran.call("forward", *arrays)
        assert sum(forward_of(k) is not None for k in ran.ran) == 1
        limit = TOLERANCE[dtype] * max(1.0, np.abs(want[np.isfinite(want)]).max(initial=0))
        limit *= max(1.0, largest * np.finfo(dtype).eps / TOLERANCE[dtype])
        np.testing.assert_allclose(got.reshape(want.shape), want, rtol=0, atol=limit)


def attend(q, k, v, scale=1.0, mask=0.0, hidden=None):
    """The definition, on (batch, length, size); where ``hidden``, scores are minus infinity."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scores = q @ k.swapaxes(-1, -2) * scale + mask
    if hidden is not None:
        scores = np.where(hidden, -np.inf, scores)
    with np.errstate(invalid="ignore"):
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        return powers / powers.sum(-1, keepdims=True) @ v


def plain(F, q, k, v, scale=0.25):
    return F.batch_dot(F.softmax(F.batch_dot(q, k, transpose_b=True) * scale), v)


@pytest.mark.parametrize(
    ("rows", "keys", "size", "width", "dtype"),
    [
        (1, 100, 16, 16, "float16"),
        (17, 2, 16, 16, "float32"),
        (17, 64, 5, 16, "float16"),
        (64, 17, 16, 5, "float32"),
        (64, 64, 64, 64, "float16"),
        (100, 100, 64, 64, "float32"),
        (20, 33, 2, 1, "float32"),
        (20, 33, 8, 24, "float64"),
    ],
)
def test_any_sizes(rows, keys, size, width, dtype):
    arrays = [normal(2, n, d, dtype=dtype) for n, d in ((rows, size), (keys, size), (keys, width))]
    agrees(plain, attend(*arrays, 0.25), *arrays, tiles=((), SMALL) if rows * keys < 4000 else ((),))


def test_no_scale_and_operands_in_any_layout():
    """Keys that are transposed in memory, and heads behind the lengths."""
    q, k, v = normal(2, 20, 3, 8), normal(2, 3, 8, 33), normal(33, 2, 3, 8)

    def function(F, q, k, v):
        scores = F.linalg.gemm2(F.transpose(q, axes=(0, 2, 1, 3)), k)
        mixed = F.linalg.gemm2(F.softmax(scores, axis=-1), F.transpose(v, axes=(1, 2, 0, 3)))
        return F.transpose(mixed, axes=(2, 0, 1, 3))

    want = attend(q.transpose(0, 2, 1, 3), k.swapaxes(-1, -2), v.transpose(1, 2, 0, 3)).transpose(2, 0, 1, 3)
    agrees(function, want, q, k, v)


def test_heads_share_keys_and_values():
    q, k, v = normal(2, 3, 20, 8), normal(2, 1, 33, 8), normal(2, 1, 33, 8)

    def function(F, q, k, v):
        k, v = (F.broadcast_axis(x, axis=1, size=3) for x in (k, v))
        return F.linalg.gemm2(F.softmax(F.linalg.gemm2(q, k, transpose_b=True)), v)

    agrees(function, attend(q, k, v), q, k, v)


def causal(F, q, k, v):
    scores = F.batch_dot(q, k, transpose_b=True) * 0.3
    rows, keys = (F.arange(n) for n in scores.shape[1:])
    later = F.broadcast_greater(F.reshape(keys, (1, 1, -1)), F.reshape(rows, (1, -1, 1)))
    scores = F.where(F.broadcast_like(later, scores), F.full_like(scores, -math.inf), scores)
    return F.batch_dot(F.softmax(scores), v)


@pytest.mark.parametrize(("rows", "keys", "dtype"), [(33, 49, "float16"), (33, 49, "float32"), (70, 64, "float32")])
def test_causal_by_comparing_indices(rows, keys, dtype):
    """However large it is, the mask is never in memory."""
    arrays = [normal(2, n, 8, dtype=dtype) for n in (rows, keys, keys)]
    want = attend(*arrays, 0.3, hidden=np.arange(keys) > np.arange(rows)[:, None])
    agrees(causal, want, *arrays)
    assert len(kernels(lowered(causal, *arrays))) == 1


def test_a_mask_that_is_needed_elsewhere_stays():
    """Two attentions with one mask of indices compute it each for itself; who else reads it finds it."""

    def function(F, q, k, v):
        rows, keys = (F.arange(70).reshape(s) for s in ((1, -1, 1), (1, 1, -1)))
        mask = F.broadcast_lesser(rows, keys) * -1e4

        def one(q):
            return F.batch_dot(F.softmax(F.broadcast_add(F.batch_dot(q, k, transpose_b=True), mask)), v)

        return [one(one(q)), mask + 1]

    arrays = [normal(2, 70, 8) for _ in range(3)]
    module = lowered(function, *arrays)
    (kernel,) = fused(module)
    assert len(kernel.arguments) == 3
    ran = Interpreted(module, kernel_cache().of)
    got, mask = ran.call("forward", *arrays)
    later = np.arange(70) > np.arange(70)[:, None]
    want = attend(attend(*arrays, mask=later * -1e4), *arrays[1:], mask=later * -1e4)
    np.testing.assert_allclose(got, want, rtol=0, atol=4e-6)
    np.testing.assert_array_equal(mask[0], 1 - later * 1e4)


@pytest.mark.parametrize("dtype", but(("float16",), ["float16", "float32"]))
@pytest.mark.parametrize("shape", [(1, 20, 33), (4, 1, 33), (1, 20, 1)])
def test_additive_masks(shape, dtype):
    arrays = [normal(4, n, 8, dtype=dtype) for n in (20, 33, 33)]
    mask = normal(*shape, dtype=dtype)

    def function(F, q, k, v, mask):
        return F.batch_dot(F.softmax(F.broadcast_add(F.batch_dot(q, k, transpose_b=True) * 0.3, mask)), v)

    agrees(function, attend(*arrays, 0.3, mask=mask.astype(np.float64)), *arrays, mask)


def masked(F, q, k, v, mask):
    return F.batch_dot(F.softmax(F.broadcast_add(F.batch_dot(q, k, transpose_b=True), mask)), v)


def test_rows_that_see_no_key_or_none_for_long():
    """A row without any is NaN, as by the definition; one whose first blocks are hidden is not."""
    arrays = [normal(2, n, 8) for n in (20, 49, 49)]
    hidden = np.zeros((20, 49), bool)
    hidden[3] = hidden[4, 1:] = hidden[5, :40] = hidden[6, 20:40] = True
    mask = np.where(hidden, -np.inf, 0).astype(np.float32)[None]
    want = attend(*arrays, hidden=hidden)
    assert np.isnan(want).sum() == 2 * 8
    agrees(masked, want, *arrays, mask)


def test_numbers_that_are_none():
    """NaN and infinity in scores reach all columns of their rows, in values all rows of their columns."""
    q, k, v = (normal(1, n, 8) for n in (20, 49, 49))
    mask = np.zeros((1, 20, 49), np.float32)
    mask[0, 2, 40], mask[0, 3, 1], mask[0, 4, 20] = np.nan, np.inf, -np.inf
    v[0, 30, 5], v[0, 48, 6] = np.nan, np.inf
    want = attend(q, k, v, mask=mask.astype(np.float64))
    assert np.isnan(want).sum() == 2 * 8 + 18
    agrees(masked, want, q, k, v, mask)


def test_scores_so_large_that_powers_of_them_are_none():
    arrays = [normal(2, 20, 8) * 30, normal(2, 49, 8) * 30, normal(2, 49, 8)]
    q, k, v = (x.astype(np.float64) for x in arrays)
    largest = np.abs(q @ k.swapaxes(1, 2)).max() / 4
    assert largest > 1000
    agrees(plain, attend(q, k, v, 0.25), *arrays, largest=largest)


def test_what_follows_is_in_the_kernel():
    q, k, v, x = normal(2, 20, 8), normal(2, 33, 8), normal(2, 33, 24), normal(2, 20, 24)

    def function(F, q, k, v, x):
        return F.relu(plain(F, q, k, v)) + x

    agrees(function, np.maximum(attend(q, k, v, 0.25), 0) + x, q, k, v, x)


def test_written_by_hand_with_a_division():
    def function(F, q, k, v):
        scores = F.batch_dot(q, k, transpose_b=True)
        powers = F.exp(F.broadcast_sub(scores, F.max(scores, axis=-1, keepdims=True)))
        return F.batch_dot(F.broadcast_div(powers, F.sum(powers, axis=-1, keepdims=True)), v)

    arrays = [normal(2, n, 8) for n in (20, 33, 33)]
    agrees(function, attend(*arrays), *arrays)


def test_wide_offsets(monkeypatch):
    monkeypatch.setattr(tile_blocks, "NARROW", 1)
    arrays = [normal(2, n, 8) for n in (20, 33, 33)]
    module = lowered(plain, *arrays)
    (kernel_launch,) = launches_of_attention(*fused(module), {}).kernel_launches
    assert kernel_launch.function.source.count("int64") == 3
    agrees(plain, attend(*arrays, 0.25), *arrays)


@pytest.mark.parametrize(
    "function",
    [
        lambda F, q, k, v: F.batch_dot(F.softmax(F.batch_dot(q, k, transpose_b=True), axis=1), v),
        lambda F, q, k, v: F.batch_dot(F.log_softmax(F.batch_dot(q, k, transpose_b=True)), v),
        lambda F, q, k, v: F.batch_dot(F.softmin(F.batch_dot(q, k, transpose_b=True)) + 1, v),
        lambda F, q, k, v: F.batch_dot(F.sigmoid(F.batch_dot(q, k, transpose_b=True)), v),
        lambda F, q, k, v: F.batch_dot(F.softmax(F.batch_dot(q, k, transpose_b=True)), v, transpose_a=True),
        lambda F, q, k, v: [s := F.batch_dot(q, k, transpose_b=True), F.batch_dot(F.softmax(s), v)],
        lambda F, q, k, v: [w := F.softmax(F.batch_dot(q, k, transpose_b=True)), F.batch_dot(w, v)],
    ],
)
def test_what_is_no_attention(function):
    """Other axes, other functions, scores or weights that are needed elsewhere."""
    assert not fused(lowered(function, *[normal(2, 20, 20)] * 3))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_the_three_nests_one_after_the_other(monkeypatch, dtype):
    """What is too long for one program goes through memory, and is right there, too."""
    leave_out_attention(monkeypatch)
    arrays = [normal(2, n, 8, dtype=dtype) for n in (20, 33, 33)]
    module = lowered(plain, *arrays)
    assert len(fused(module)) == 1
    ran = Interpreted(module, kernel_cache().of)
    (got,) = ran.call("forward", *arrays)
    np.testing.assert_allclose(got, attend(*arrays, 0.25), rtol=0, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("size", [128, 256, 512])
def test_long_rows_stay_products(size):
    """What would not fit into the registers of a program is not joined."""
    arrays = [normal(1, n, size, dtype="float16") for n in (20, 33, 33)]
    module = lowered(plain, *arrays)
    assert all(launches_of_attention(k, {}) is not None for k in fused(module))
    assert bool(fused(module)) == (size <= 256)


def test_attention_of_the_benchmarks(monkeypatch):
    for name, value in {"HEADS": 2, "HEAD": 16}.items():
        monkeypatch.setattr(workloads, name, value)
    arrays = [normal(2, 2, 20, 16) for _ in range(3)]
    agrees(workloads.Attention(), attend(*arrays, 0.25), *arrays)


def test_heads_of_an_encoder_are_strides(monkeypatch):
    """Queries, keys and values are parts of one array, whose heads lie beside each other."""
    sizes = {"WIDTH": 32, "HEADS": 2, "HIDDEN": 48, "ENCODER_BATCH": 2, "SEQUENCE": 20}
    for name, value in sizes.items():
        monkeypatch.setattr(workloads, name, value)
    arrays = workloads.encoder_inputs(RNG)
    (want,) = workloads.encoder_reference({n: a.astype(np.float64) for n, a in arrays.items()})
    x = arrays.pop("x")
    net = workloads.Encoder({n: mx.nd.array(a, dtype="float32") for n, a in arrays.items()})
    net(mx.nd.array(x))
    module = lowered(net, x)
    assert len(fused(module)) == 1
    ran = Interpreted(module, kernel_cache().of)
    (got,) = ran.call("forward", x, *[p.data().asnumpy() for p in net.collect_params().values()])
    np.testing.assert_allclose(got, want, rtol=0, atol=2e-5)

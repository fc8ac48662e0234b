"""The backward of attention as one kernel, by the interpreter between forbidden pages, against float64."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import hybridc as mx
from benchmarks import workloads
from hybridc.compile import pipeline
from hybridc.gluon.nn import HybridLambda
from hybridc.transforms.code.blocks.choose_attention import AttentionTile
from hybridc.transforms.schedules.blocks import tile_blocks
from tests.lower.evaluate import Evaluator
from tests.lower.llvm.guarded import native_kernels, run_passes
from tests.lower.triton.attentions import backward_of, forward_of
from tests.lower.triton.guarded import Interpreted
from tests.lower.triton.printed import kernel_cache, launches_of_attention, leave_out_attention
from tests.lower.triton.test_attention import causal, masked, plain
from tests.slices import one_in

pytestmark = [pytest.mark.triton, pytest.mark.long]


RNG = np.random.default_rng(23)
TOLERANCE = {"float16": 1e-2, "float32": 4e-6, "float64": 1e-13}
# Blocks so small that there are several of rows and of keys.
SMALL = (AttentionTile(16, 16, 4, 1),)


def normal(*shape, dtype="float32"):
    return RNG.normal(size=shape).astype(dtype)


def recorded(function, arrays, grads=(0, 1, 2)):
    """What is recorded of a function, with the gradients of some arguments."""
    inputs = [mx.nd.array(x, dtype=x.dtype) for x in arrays]
    with mx.autograd.record():
        traced = HybridLambda(function).trace(*inputs)
    return dataclasses.replace(traced, grads=tuple(grads))


def lowered(function, arrays, grads=(0, 1, 2)):
    """The module of kernels, forward and backward."""
    module = recorded(function, arrays, grads).optimize().module.clone()
    run_passes(module, pipeline.triton_kernels())
    return module


def fused(module):
    """The kernels that are backwards of attentions."""
    return [k for k in native_kernels(module) if backward_of(k) is not None]


def call(module, runs, arrays, gradient):
    """The result and the gradients, by something that runs a module."""
    backward = next(f for f in module.ops if f.sym_name.data == "backward")
    results = runs.call("forward", *arrays)
    given = [*arrays, *results]
    saved = backward.attributes["hybrid.saved"].get_values()
    return [results[0], *runs.call("backward", *[given[i] for i in saved], gradient)]


def by_triton(module, tiles=None):
    """Runs kernels by their functions, attentions with these tiles."""
    return Interpreted(module, lambda k, s: (tiles and launches_of_attention(k, s, tiles)) or kernel_cache().of(k, s))


def agrees(function, want, arrays, gradient, tiles=(SMALL,), largest=1.0):
    """Forward and backward are one kernel each, and right in blocks of these sizes."""
    module = lowered(function, arrays, range(len(arrays)) if len(want) > 4 else (0, 1, 2))
    assert len(fused(module)) == 1
    text = str(module)
    assert all(text.count(f"@{k.name}(") > 1 for k in native_kernels(module))  # nothing is left of what they replace
    assert sum(forward_of(k) is not None for k in native_kernels(module)) == 1
    dtype = arrays[0].dtype.name
    for run in (by_triton(module, t) for t in tiles):
        for got, expected in zip(call(module, run, arrays, gradient), want, strict=True):
            limit = TOLERANCE[dtype] * max(1.0, np.abs(expected[np.isfinite(expected)]).max(initial=0)) * largest
            np.testing.assert_allclose(got.reshape(expected.shape), expected, rtol=0, atol=limit)


def wide(*arrays):
    return [x.astype(np.float64) for x in arrays]


def attend(q, k, v, gradient, scale=1.0, mask=0.0, hidden=None):
    """The definition: the result, then gradients of queries, keys and values; ``hidden`` scores are minus infinity."""
    q, k, v, gradient = wide(q, k, v, gradient)
    scores = q @ k.swapaxes(-1, -2) * scale + mask
    if hidden is not None:
        scores = np.where(hidden, -np.inf, scores)
    with np.errstate(invalid="ignore"):
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        weights = powers / powers.sum(-1, keepdims=True)
        of_weights = gradient @ v.swapaxes(-1, -2)
        of_scores = weights * (of_weights - (of_weights * weights).sum(-1, keepdims=True)) * scale
    return [weights @ v, of_scores @ k, of_scores.swapaxes(-1, -2) @ q, weights.swapaxes(-1, -2) @ gradient]


@pytest.mark.parametrize(
    ("rows", "keys", "size", "width", "dtype"),
    one_in(
        2,
        [
            (2, 40, 16, 16, "float16"),
            (17, 2, 16, 16, "float32"),
            (17, 64, 5, 16, "float16"),
            (64, 17, 16, 5, "float32"),
            (64, 64, 64, 64, "float16"),
            (33, 50, 128, 128, "float16"),
            (33, 50, 128, 128, "float32"),
            (20, 33, 2, 3, "float32"),
            (20, 33, 8, 24, "float64"),
        ],
    ),
)
def test_any_sizes(rows, keys, size, width, dtype):
    arrays = [normal(2, n, d, dtype=dtype) for n, d in ((rows, size), (keys, size), (keys, width))]
    arrays[0] *= size**-0.5
    gradient = normal(2, rows, width, dtype=dtype)
    want = attend(*arrays, gradient, 0.25)
    agrees(plain, want, arrays, gradient, tiles=(None, SMALL) if rows * keys < 1400 else (None,))


@pytest.mark.parametrize(("rows", "keys", "dtype"), [(33, 49, "float16"), (70, 64, "float32")])
def test_causal_by_comparing_indices(rows, keys, dtype):
    """However large it is, the mask is never in memory."""
    arrays = [normal(2, n, 8, dtype=dtype) for n in (rows, keys, keys)]
    gradient = normal(2, rows, 8, dtype=dtype)
    want = attend(*arrays, gradient, 0.3, hidden=np.arange(keys) > np.arange(rows)[:, None])
    agrees(causal, want, arrays, gradient)


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((1, 20, 33), "float16"), ((1, 20, 33), "float32"), ((4, 1, 33), "float16"), ((4, 20, 1), "float32")],
)
def test_additive_masks(shape, dtype):
    arrays = [normal(4, n, 8, dtype=dtype) for n in (20, 33, 33)]
    gradient, mask = normal(4, 20, 8, dtype=dtype), normal(*shape, dtype=dtype)

    def function(F, q, k, v, mask):
        return F.batch_dot(F.softmax(F.broadcast_add(F.batch_dot(q, k, transpose_b=True) * 0.3, mask)), v)

    want = attend(*arrays, gradient, 0.3, mask=mask.astype(np.float64))
    agrees(function, want, [*arrays, mask], gradient)


def test_rows_that_see_no_key_or_none_for_long():
    """A row without any is NaN, and so are gradients that sum over it; one whose first blocks are hidden is not."""
    arrays, gradient = [normal(3, n, 8) for n in (20, 49, 49)], normal(3, 20, 8)
    hidden = np.zeros((3, 20, 49), bool)
    hidden[1, 3] = hidden[:, 4, 1:] = hidden[:, 5, :40] = hidden[:, 6, 20:40] = True
    mask = np.where(hidden, -np.inf, 0).astype(np.float32)
    want = attend(*arrays, gradient, hidden=hidden)
    assert [np.isnan(x).sum() for x in want] == [8, 8, 49 * 8, 49 * 8]
    agrees(masked, want, [*arrays, mask], gradient)


def test_scores_so_large_that_powers_of_them_are_none():
    arrays, gradient = [normal(2, 20, 8) * 30, normal(2, 49, 8) * 30, normal(2, 49, 8)], normal(2, 20, 8)
    q, k, _ = wide(*arrays)
    largest = np.abs(q @ k.swapaxes(1, 2)).max() / 4
    assert largest > 1000
    agrees(plain, attend(*arrays, gradient, 0.25), arrays, gradient, largest=largest / 4)


def test_operands_in_any_layout():
    """Keys that are transposed in memory, and heads behind the lengths."""
    arrays, gradient = [normal(2, 20, 3, 8), normal(2, 3, 8, 33), normal(33, 2, 3, 8)], normal(20, 2, 3, 8)

    def function(F, q, k, v):
        scores = F.linalg.gemm2(F.transpose(q, axes=(0, 2, 1, 3)), k)
        mixed = F.linalg.gemm2(F.softmax(scores, axis=-1), F.transpose(v, axes=(1, 2, 0, 3)))
        return F.transpose(mixed, axes=(2, 0, 1, 3))

    q, k, v = arrays[0].transpose(0, 2, 1, 3), arrays[1].swapaxes(-1, -2), arrays[2].transpose(1, 2, 0, 3)
    mixed, dq, dk, dv = attend(q, k, v, gradient.transpose(1, 2, 0, 3))
    want = [mixed.transpose(2, 0, 1, 3), dq.transpose(0, 2, 1, 3), dk.swapaxes(-1, -2), dv.transpose(2, 0, 1, 3)]
    agrees(function, want, arrays, gradient)


def test_heads_share_keys_and_values():
    arrays, gradient = [normal(2, 3, 20, 8), normal(2, 1, 33, 8), normal(2, 1, 33, 8)], normal(2, 3, 20, 8)

    def function(F, q, k, v):
        k, v = (F.broadcast_axis(x, axis=1, size=3) for x in (k, v))
        return F.linalg.gemm2(F.softmax(F.linalg.gemm2(q, k, transpose_b=True)), v)

    result, dq, dk, dv = attend(*arrays, gradient)
    want = [result, dq, *(x.sum(1, keepdims=True) for x in (dk, dv))]
    agrees(function, want, arrays, gradient)


def test_what_follows_is_in_the_kernels():
    """An activation and a residual after it, a scale and an activation before."""
    arrays, gradient = [normal(2, n, 8) for n in (20, 33, 33)], normal(2, 20, 8)

    def function(F, q, k, v):
        return F.tanh(plain(F, F.sigmoid(q) * 3, k, v)) + q

    q, k, v = wide(*arrays)
    gate = 1 / (1 + np.exp(-q))
    inner = attend(gate * 3, k, v, gradient, 0.25)[0]
    _, dq, dk, dv = attend(gate * 3, k, v, gradient * (1 - np.tanh(inner) ** 2), 0.25)
    want = [np.tanh(inner) + q, dq * 3 * gate * (1 - gate) + gradient, dk, dv]
    agrees(function, want, arrays, gradient)


@pytest.mark.parametrize("gate", [lambda F, x: F.relu(x), lambda F, x: F.LayerNorm(x, F.ones(8), F.ones(8) * 0.1)])
def test_what_is_computed_again_beside_gradients(gate):
    """A kernel that makes keys again for gradients of queries, and reads their own gradient, is split."""
    arrays, gradient = [normal(2, n, 8) for n in (20, 33, 33)], normal(2, 20, 8)

    def function(F, q, k, v):
        return plain(F, gate(F, q), gate(F, k), v)

    def gated(x):
        if gate(mx.nd, mx.nd.array([[[-1.0] * 8]])).asnumpy().any():
            wide = x - x.mean(-1, keepdims=True)
            norm = np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-5)
            return (
                wide / norm + 0.1,
                lambda d: (d - d.mean(-1, keepdims=True) - wide * (d * wide).mean(-1, keepdims=True) / norm**2) / norm,
            )
        return np.maximum(x, 0), lambda d: d * (x > 0)

    (q, of_q), (k, of_k) = gated(wide(arrays[0])[0]), gated(wide(arrays[1])[0])
    result, dq, dk, dv = attend(q, k, arrays[2], gradient, 0.25)
    agrees(function, [result, of_q(dq), of_k(dk), dv], arrays, gradient)


def test_one_kernel_serves_equal_layers():
    """Two attentions, one behind the other: both are fused, and share two kernels."""
    arrays, gradient = [normal(2, 20, 8) for _ in range(5)], normal(2, 20, 8)

    def function(F, q, k, v, k2, v2):
        return plain(F, plain(F, q, k, v), k2, v2)

    first = attend(*arrays[:3], gradient, 0.25)[0]
    result, d_first, dk2, dv2 = attend(first, *arrays[3:], gradient, 0.25)
    _, dq, dk, dv = attend(*arrays[:3], d_first, 0.25)
    agrees(function, [result, dq, dk, dv, dk2, dv2], arrays, gradient)


def test_layers_that_share_keys():
    """Their gradients are added where the last of them is made."""
    arrays, gradient = [normal(2, 20, 8) for _ in range(3)], normal(2, 20, 8)

    def function(F, q, k, v):
        return plain(F, plain(F, q, k, v), k, v)

    first = attend(*arrays, gradient, 0.25)[0]
    result, d_first, dk2, dv2 = attend(first, *arrays[1:], gradient, 0.25)
    _, dq, dk, dv = attend(*arrays, d_first, 0.25)
    module = lowered(function, arrays)
    assert len(fused(module)) == 2
    for got, want in zip(
        call(module, by_triton(module), arrays, gradient), [result, dq, dk + dk2, dv + dv2], strict=True
    ):
        np.testing.assert_allclose(got, want, rtol=0, atol=8e-6)


def test_wide_offsets(monkeypatch):
    monkeypatch.setattr(tile_blocks, "NARROW", 1)
    arrays, gradient = [normal(2, n, 8) for n in (20, 33, 33)], normal(2, 20, 8)
    (kernel,) = fused(lowered(plain, arrays))
    assert [p.function.source.count("int64") for p in launches_of_attention(kernel, {}).kernel_launches] == [3, 3]
    agrees(plain, attend(*arrays, gradient, 0.25), arrays, gradient)


def test_the_nests_one_after_the_other(monkeypatch):
    """What is too long for one program goes through memory, and is right there, too; and so is the definition."""
    leave_out_attention(monkeypatch)
    arrays, gradient = [normal(2, n, 8) for n in (20, 33, 33)], normal(2, 20, 8)
    module = lowered(plain, arrays)
    assert len(fused(module)) == 1
    for run in (Interpreted(module, kernel_cache().of), Evaluator(module, views=True)):
        for got, want in zip(call(module, run, arrays, gradient), attend(*arrays, gradient, 0.25), strict=True):
            np.testing.assert_allclose(got, want, rtol=0, atol=4e-6)


@pytest.mark.long
def test_an_encoder(monkeypatch):
    """Heads are strides of one array, and of its gradient; the result is kept as another matmul wants it."""
    sizes = {"WIDTH": 32, "HEADS": 2, "HIDDEN": 48, "ENCODER_BATCH": 2, "SEQUENCE": 20}
    for name, value in sizes.items():
        monkeypatch.setattr(workloads, name, value)
    arrays = {n: mx.nd.array(a, dtype="float32") for n, a in workloads.encoder_inputs(RNG).items()}
    x = arrays.pop("x")
    net = workloads.Encoder(arrays)
    net(x)
    with mx.autograd.record():
        traced = net.trace(x)
    module = dataclasses.replace(traced, grads=tuple(range(13))).optimize().module
    plainly, module = module.clone(), module.clone()
    run_passes(plainly, pipeline.triton_kernels()[:-1])
    run_passes(module, pipeline.triton_kernels())
    (kernel,) = fused(module)
    assert len(kernel.arguments) == 7  # queries and keys are read once each, for scores and for gradients
    given = [x.asnumpy(), *(p.data().asnumpy() for p in net.collect_params().values())]
    gradient = normal(*x.shape)
    want = call(plainly, Evaluator(plainly, views=True), given, gradient)
    for got, expected in zip(call(module, by_triton(module), given, gradient), want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=0, atol=3e-5 * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("function", [plain, causal])
def test_nothing_of_the_size_of_scores_is_in_memory(function):
    """The plans of both functions, arena and results for the backward, are smaller than one array of scores."""
    arrays = [normal(4, 192, 8) for _ in range(3)]
    scores = 4 * 192 * 192 * 4
    programs = recorded(function, arrays).optimize().lower("triton").programs
    assert {*programs} == {"forward", "backward"}
    assert all(0 < p.arena < scores // 4 for p in programs.values())


def scaled(F, q, k, v):
    return F.batch_dot(F.softmax(F.batch_dot(q, k, transpose_b=True) * q.sum()), v)


@pytest.mark.parametrize(
    ("function", "grads"),
    [
        (plain, (0,)),
        (plain, (2,)),
        (scaled, (0, 1, 2)),
        (lambda F, q, k, v: F.batch_dot(F.log_softmax(F.batch_dot(q, k, transpose_b=True)), v), (0, 1, 2)),
        (lambda F, q, k, v: [w := F.softmax(F.batch_dot(q, k, transpose_b=True)), F.batch_dot(w, v)], (0, 1, 2)),
    ],
)
def test_what_stays(function, grads):
    """Where not all gradients are asked for, or weights or gradients of scores are needed elsewhere, matmuls stay."""
    module = lowered(function, [normal(2, 20, 20) for _ in range(3)], grads)
    assert not fused(module)
    assert not [k for k in native_kernels(module) if len(k.nests) > 3]

"""Kernels with several contractions: against NumPy in double precision, by any number of threads, and their memory."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import hybridc as mx
from hybridc import options
from hybridc.compile import pipeline, targets
from hybridc.compile.stages import Traced
from hybridc.gluon import HybridBlock
from hybridc.ir.kernels.kernel_text import read_kernel
from hybridc.ir.structured import kernels
from hybridc.lower.llvm.native_target import native_target
from hybridc.runtime.native import num_threads, set_num_threads
from hybridc.trace.tracer import trace_call
from hybridc.transforms.code.kernel_cache import KernelCache


class Heads(HybridBlock):
    """Attention with several heads, perhaps with a mask that all share; its weights may be a result, too."""

    def __init__(self, heads, scores=False):
        super().__init__()
        self.heads, self.scores = heads, scores

    def split(self, F, x):
        return F.reshape(F.transpose(F.reshape(x, shape=(0, 0, self.heads, -1)), axes=(0, 2, 1, 3)), shape=(-3, 0, 0))

    def hybrid_forward(self, F, q, k, v, *mask):
        q, k, v = (self.split(F, x) for x in (q, k, v))
        scores = F.batch_dot(q, k, transpose_b=True) * 0.125
        scores = F.broadcast_add(scores, mask[0]) if mask else scores
        weights = F.softmax(scores)
        made = F.reshape(F.batch_dot(weights, v), shape=(-4, -1, self.heads, 0, 0))
        made = F.reshape(F.transpose(made, axes=(0, 2, 1, 3)), shape=(0, 0, -3))
        return (made, weights) if self.scores else made


def arrays(batch, rows, keys, width, *, mask=False):
    rng = np.random.default_rng(rows)
    found = [rng.standard_normal((batch, n, width)).astype("f") for n in (rows, keys, keys)]
    if mask:
        found.append(np.where(np.arange(keys) > np.arange(rows)[:, None], -1e9, 0).astype("f")[None])
    return found


def expected(heads, q, k, v, *mask):
    """The result and its gradients for a gradient of one everywhere but for signs that alternate, in float64."""
    q, k, v = (x.astype("d").reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3) for x in (q, k, v))
    scores = np.einsum("bhqd,bhkd->bhqk", q, k) * 0.125 + (mask[0].astype("d") if mask else 0)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)

    def merged(x):
        return x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1)

    out = np.einsum("bhqk,bhkd->bhqd", weights, v)
    g = np.where(np.arange(out.shape[2]) % 2, 1.0, -1.0)[:, None] * np.ones_like(out)
    dv = np.einsum("bhqk,bhqd->bhkd", weights, g)
    dw = np.einsum("bhqd,bhkd->bhqk", g, v)
    ds = weights * (dw - (dw * weights).sum(-1, keepdims=True)) * 0.125
    dq, dk = np.einsum("bhqk,bhkd->bhqd", ds, k), np.einsum("bhqk,bhqd->bhkd", ds, q)
    return [*map(merged, (out, dq, dk, dv)), weights.reshape(-1, *weights.shape[2:])]


def lowered(net, inputs):
    """The program of a network and of the gradients of queries, keys and values."""
    trace = trace_call(net, [mx.nd.array(x) for x in inputs], training=False)
    return Traced(trace, (0, 1, 2)).optimize().lower("llvm")


def grids(program):
    """The parallel regions over a grid of a program's forward and backward: the tiles, and the parts at each."""
    steps = [s[1] for part in program.programs.values() for s in part.steps if isinstance(s, tuple)]
    return [(step.grid.sizes, len(step.grid.parts)) for step in steps if step.grid is not None]


def recorded(graph, inputs):
    """A result, and the gradients of its inputs, for a gradient whose signs alternate from row to row."""
    given = [mx.nd.array(x) for x in inputs]
    for x in given:
        x.attach_grad()
    with mx.autograd.record():
        made = graph(*given)
    made.backward(mx.nd.array(np.where(np.arange(made.shape[1]) % 2, 1.0, -1.0)[:, None] * np.ones(made.shape)))
    return [a.asnumpy() for a in (made, *(x.grad for x in given[:3]))]


CASES = {
    "whole heads": (2, 4, 256, 256, 64, False),
    "a mask": (1, 8, 300, 520, 48, True),
    "blocks of rows": (1, 8, 1536, 1040, 8, False),
}


@pytest.mark.parametrize("case", CASES)
def test_attention_and_its_gradients(case):
    batch, heads, rows, keys, size, mask = CASES[case]
    inputs = arrays(batch, rows, keys, heads * size, mask=mask)
    program = lowered(Heads(heads), inputs)
    assert len(grids(program)) == 2
    for found, wanted in zip(recorded(program.compile(), inputs), expected(heads, *inputs), strict=False):
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=3e-5)


@pytest.mark.parametrize("case", CASES)
def test_the_same_bits_by_any_number_of_threads(case, monkeypatch):
    batch, heads, rows, keys, size, mask = CASES[case]
    inputs = arrays(batch, rows, keys, heads * size, mask=mask)
    before, bits = num_threads(), []
    try:
        for threads in (1, 2, 3):
            for module in (targets, pipeline):
                monkeypatch.setattr(module, "OPTIONS", dataclasses.replace(options.OPTIONS, num_threads=threads))
            set_num_threads(threads)
            bits.append([a.tobytes() for a in recorded(lowered(Heads(heads), inputs).compile(), inputs)])
    finally:
        set_num_threads(before)
    assert bits[0] == bits[1] == bits[2]


def test_what_lies_between_may_be_a_result_too():
    inputs = arrays(2, 256, 256, 4 * 64)
    net = Heads(4, scores=True)
    trace = trace_call(net, [mx.nd.array(x) for x in inputs], training=False)
    program = Traced(trace).optimize().lower("llvm")
    assert len(grids(program)) == 1
    out, weights = program.compile()(*map(mx.nd.array, inputs))
    wanted = expected(4, *inputs)
    np.testing.assert_allclose(out.asnumpy(), wanted[0], rtol=1e-3, atol=3e-6)
    np.testing.assert_allclose(weights.asnumpy(), wanted[-1], rtol=1e-4, atol=1e-7)


def test_scores_are_never_in_memory_as_a_whole():
    """The arena holds what two threads have of a tile, not 64 MiB of scores."""
    inputs = arrays(4, 1024, 1024, 4 * 16)
    trace = trace_call(Heads(4), [mx.nd.array(x) for x in inputs], training=False)
    program = Traced(trace).optimize().lower("llvm")
    ((sizes, parts),) = grids(program)
    assert (sizes, parts) == ((4, 4, 2), 3)
    (planned,) = program.programs.values()
    assert planned.arena < 8 << 20


def test_threads_that_find_no_tile_have_no_scratch():
    """Memory does not grow with threads beyond the tiles."""
    inputs = arrays(4, 1024, 1024, 4 * 16)
    trace = trace_call(Heads(4), [mx.nd.array(x) for x in inputs], training=False)
    function = next(f for f in kernels(Traced(trace).optimize().form("llvm").module).values() if f.body.blocks)
    kernel = read_kernel(function)
    needed = [KernelCache(native_target(threads)).memory(kernel, {})[0] for threads in (16, 32, 64)]
    assert kernel.grid
    assert needed[0] < needed[1] == needed[2]


def test_another_batch_is_planned_with_the_same_kernels():
    """New sizes: the grid grows with the batch."""
    net = Heads(4)
    net.hybridize()
    for batch in (2, 3, 5, 7):
        inputs = arrays(batch, 256, 256, 4 * 64)
        found = net(*map(mx.nd.array, inputs)).asnumpy()
        np.testing.assert_allclose(found, expected(4, *inputs)[0], rtol=1e-3, atol=3e-6)

"""Kernels with a grid, tile by tile, for each target that a processor runs: against NumPy in double precision."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest

import hybridc as mx
from hybridc import options
from hybridc.compile import pipeline, targets
from hybridc.compile.stages import Traced
from hybridc.gluon import HybridBlock, nn
from hybridc.ir.costs import PARTS
from hybridc.ir.kernels.grid_kernel import tile_of
from hybridc.ir.kernels.kernel_text import read_kernel
from hybridc.ir.structured import is_host, kernels
from hybridc.trace.tracer import trace_call
from hybridc.transforms.code import array_code, grid_regions
from hybridc.transforms.structured.fuse_attention import FuseAttention
from tests.slices import one_in

HIDDEN = -1e4


class Masked(HybridBlock):
    """Attention of arrays of shape (batch, heads, length, size), or (batch, length, heads * size); perhaps masked."""

    def __init__(self, rows, keys, heads=0, causal=False):
        super().__init__()
        self.rows, self.keys, self.heads, self.causal = rows, keys, heads, causal

    def split(self, F, x):
        if self.heads:
            x = F.transpose(F.reshape(x, shape=(0, 0, self.heads, -1)), axes=(0, 2, 1, 3))
        return F.reshape(x, shape=(-3, 0, 0))

    def hybrid_forward(self, F, q, k, v, *mask):
        batch = -1 if self.heads else q.shape[0]
        q, k, v = (self.split(F, x) for x in (q, k, v))
        scores = F.batch_dot(q, k, transpose_b=True) * 0.5
        if self.causal:
            i, j = (F.reshape(F.arange(n), shape=s) for n, s in ((self.rows, (1, -1, 1)), (self.keys, (1, 1, -1))))
            later = F.cast(F.broadcast_greater(j, i), "bool")
            scores = F.where(F.broadcast_like(later, scores), F.full_like(scores, HIDDEN), scores)
        scores = F.broadcast_add(scores, mask[0]) if mask else scores
        made = F.batch_dot(F.softmax(scores), v)
        if not self.heads:
            return F.reshape(made, shape=(-4, batch, -1, 0, 0))
        return F.reshape(F.transpose(F.reshape(made, shape=(-4, -1, self.heads, 0, 0)), axes=(0, 2, 1, 3)), (0, 0, -3))


@dataclasses.dataclass(frozen=True)
class Case:
    batch: int
    heads: int
    rows: int
    keys: int
    size: int
    merged: bool = False
    causal: bool = False
    mask: bool = False

    def block(self):
        return Masked(self.rows, self.keys, self.heads if self.merged else 0, self.causal)

    def arrays(self, dtype):
        """Queries, keys, values, perhaps a mask, and a gradient of the result."""
        rng = np.random.default_rng(self.rows)
        shapes = [(self.batch, self.heads, n, self.size) for n in (self.rows, self.keys, self.keys, self.rows)]
        *given, gradient = [self.merge(rng.standard_normal(s)).astype(dtype) for s in shapes]
        hidden = rng.random((self.batch * self.heads, 1, self.keys)) < 0.3
        hidden[..., 0] = False
        return [*given, *([np.where(hidden, HIDDEN, 0).astype(dtype)] if self.mask else [])], gradient

    def merge(self, x):
        return x.transpose(0, 2, 1, 3).reshape(self.batch, x.shape[2], self.heads * self.size) if self.merged else x

    def heads_of(self, x):
        x = x.astype("d")
        return x.reshape(self.batch, -1, self.heads, self.size).transpose(0, 2, 1, 3) if self.merged else x

    def expected(self, given, gradient):
        """The result, and the gradients of queries, keys and values, by NumPy in float64."""
        q, k, v, g = map(self.heads_of, (*given[:3], gradient))
        scores = np.einsum("bhqd,bhkd->bhqk", q, k) * 0.5
        if self.causal:
            scores = np.where(np.arange(self.keys) > np.arange(self.rows)[:, None], HIDDEN, scores)
        if self.mask:
            scores = scores + given[3].astype("d").reshape(self.batch, self.heads, 1, self.keys)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        of_weights = np.einsum("bhqd,bhkd->bhqk", g, v)
        of_scores = 0.5 * weights * (of_weights - (of_weights * weights).sum(-1, keepdims=True))
        made = np.einsum("bhqk,bhkd->bhqd", weights, v)
        grads = [np.einsum("bhqk,bhkd->bhqd", of_scores, k), np.einsum("bhqk,bhqd->bhkd", of_scores, q)]
        return [self.merge(x) for x in (made, *grads, np.einsum("bhqk,bhqd->bhkd", weights, g))]


CASES = {
    "plain": Case(2, 4, 16, 24, 8),
    "sizes that do not divide": Case(3, 5, 13, 11, 5),
    "one batch, one head": Case(1, 1, 64, 32, 4),
    "heads in one row": Case(2, 4, 16, 12, 4, merged=True),
    "causal": Case(2, 4, 32, 32, 8, causal=True),
    "causal, odd": Case(1, 9, 17, 19, 3, causal=True),
    "a mask of data": Case(2, 4, 8, 20, 4, mask=True),
    "both masks, heads in one row": Case(2, 4, 24, 24, 4, merged=True, causal=True, mask=True),
}
WIDTHS = "sizes that do not divide", "both masks, heads in one row"
TOLERANCES = {"float32": 2e-6, "float64": 1e-14, "float16": 4e-3}
RARE = "float64", "float16"
SAVED = {"saved": 2**30, "computed again": 0}
_ARRAYS = [*((case, "float32") for case in CASES), *itertools.product(WIDTHS, RARE)]
ATTENTIONS = [(*arrays, *how) for arrays in _ARRAYS for how in itertools.product(("numpy", "llvm"), SAVED)]


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    """Tiles of a few small heads or rows."""
    monkeypatch.setattr(array_code, "MOST", 3000)
    monkeypatch.setattr(array_code, "FEWEST", 4)
    monkeypatch.setattr(grid_regions, "CACHED", 3000)
    monkeypatch.setattr(grid_regions, "FEWEST", 4)


def lowered(monkeypatch, target, case, given, saved, grads=(0, 1, 2)):
    """The program of a case, which saves so many bytes of weights for the gradients of queries, keys and values."""
    chosen = FuseAttention(row=2**40, saved=saved)
    for name in ("KERNELS", "NUMPY_KERNELS"):
        passes = [chosen if isinstance(p, FuseAttention) else p for p in getattr(pipeline, name)]
        monkeypatch.setattr(pipeline, name, tuple(passes))
    trace = trace_call(case.block(), [mx.nd.array(x, dtype=x.dtype) for x in given], training=False)
    return Traced(trace, grads).optimize().lower(target)


def grids(program):
    """How many loop nests and tiles each kernel with a grid has."""
    found = [read_kernel(f) for f in kernels(program.module).values() if not is_host(f)]
    how = (1, 3000) if program.target.name == "numpy" else (PARTS, 0)
    return {len(k.nests): k.grid_size // math.prod(tile_of(k, 3000, 4, *how)) for k in found if k.grid}


def recorded(graph, given, gradient):
    """A result, and the gradients of queries, keys and values."""
    arrays = [mx.nd.array(x, dtype=x.dtype) for x in given]
    for x in arrays[:3]:
        x.attach_grad()
    with mx.autograd.record():
        made = graph(*arrays)
    made.backward(mx.nd.array(gradient, dtype=gradient.dtype))
    return [a.asnumpy() for a in (made, *(x.grad for x in arrays[:3]))]


@pytest.mark.parametrize(("case", "dtype", "target", "saved"), one_in(5, ATTENTIONS))
def test_attention_and_its_gradients(monkeypatch, case, dtype, target, saved):
    case = CASES[case]
    given, gradient = case.arrays(dtype)
    program = lowered(monkeypatch, target, case, given, SAVED[saved])
    found = grids(program)
    # With less than eight points gradients are not fused, nor where the native target widens an operand twice.
    if (dtype, target, saved) != ("float16", "llvm", "computed again"):
        assert found[3] > 1
        assert case.batch * case.heads < 8 or {7, 4} & found.keys()
    tolerance = TOLERANCES[dtype]
    for result, wanted in zip(
        recorded(program.compile(), given, gradient), case.expected(given, gradient), strict=True
    ):
        np.testing.assert_allclose(result, wanted, rtol=0, atol=tolerance * max(1, np.abs(wanted).max()))


@pytest.mark.parametrize("target", ["numpy", "llvm"])
def test_one_query(monkeypatch, target):
    """Axes of size one are no loops."""
    case = Case(4, 4, 1, 32, 4)
    given, gradient = case.arrays("float32")
    program = lowered(monkeypatch, target, case, given, 0, ())
    assert grids(program)[3] > 1
    made = program.compile()(*(mx.nd.array(x) for x in given)).asnumpy()
    np.testing.assert_allclose(made, case.expected(given, gradient)[0], rtol=0, atol=2e-6)


@pytest.mark.parametrize("target", ["numpy", "llvm"])
def test_queries_that_are_keys(target):
    """A tile has all rows of what is read along queries and along keys."""
    net = nn.HybridLambda(lambda F, x: F.batch_dot(F.softmax(F.batch_dot(x, x, transpose_b=True)), x))
    x = np.random.default_rng(0).standard_normal((9, 32, 4)).astype("f")
    program = Traced(trace_call(net, [mx.nd.array(x)], training=False)).optimize().lower(target)
    assert grids(program)[3] == 9
    wide = x.astype("d")
    weights = np.exp(wide @ wide.swapaxes(1, 2))
    weights /= weights.sum(-1, keepdims=True)
    np.testing.assert_allclose(program.compile()(mx.nd.array(x)).asnumpy(), weights @ wide, rtol=0, atol=1e-5)


@pytest.mark.parametrize("target", ["numpy", "llvm"])
def test_an_empty_batch(target):
    net = nn.HybridLambda(lambda F, q: F.batch_dot(F.softmax(F.batch_dot(q, q * 2, transpose_b=True)), q + 1))
    queries = mx.nd.zeros((0, 8, 4))
    trace = trace_call(net, [queries], training=False)
    assert Traced(trace).optimize().lower(target).compile()(queries).shape == (0, 8, 4)


@pytest.mark.parametrize("saved", SAVED)
@pytest.mark.parametrize("target", ["numpy", "llvm"])
def test_the_same_bits_by_any_number_of_threads(monkeypatch, target, saved):
    case, bits = Case(2, 8, 128, 130, 16, causal=True), set()
    given, gradient = case.arrays("float32")
    monkeypatch.setattr(array_code, "MOST", 2**21)
    for threads in (1, 2, 3):
        for module in (targets, pipeline):
            monkeypatch.setattr(module, "OPTIONS", dataclasses.replace(options.OPTIONS, num_threads=threads))
        made = recorded(lowered(monkeypatch, target, case, given, SAVED[saved]).compile(), given, gradient)
        bits.add(tuple(x.tobytes() for x in made))
    assert len(bits) == 1


def test_a_program_of_numpy_can_be_read(monkeypatch):
    """A loop over tiles that calls a function for each loop nest."""
    program = lowered(monkeypatch, "numpy", CASES["plain"], CASES["plain"].arrays("float32")[0], 0)
    source = program.programs["forward"].source
    assert "3 loop nests over a grid of 8x16 in tiles of 1x8" in source
    assert "        nest1(x0[a0 : a0 + 1, a1 : a1 + 8], x1[a0 : a0 + 1], t0)\n" in source

"""The structured form without the views between loops computes what it did, and has the views that it should have."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects import tensor
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.dialects.linalg import ops as linalg
from xdsl.transforms.common_subexpression_elimination import CommonSubexpressionElimination
from xdsl.transforms.dead_code_elimination import DeadCodeElimination

from benchmarks import workloads
from hybridc import autograd
from hybridc.array.ndarray import NDArray
from hybridc.compile.stages import Traced
from hybridc.dialects.mlir.hybrid import location_of
from hybridc.gluon import HybridBlock
from hybridc.gluon.nn import HybridLambda
from hybridc.ground.sizes import Sizes
from hybridc.ir import spec
from hybridc.ir.structured import shape_of
from hybridc.tools.check_op.case import (
    ndarrays,
)
from hybridc.trace.tracer import trace_call
from hybridc.transforms.structured.hybrid_to_linalg import HybridToLinalg
from hybridc.transforms.views.fold_views import Cuts, FoldViews
from hybridc.transforms.views.result_orders import by_axis, in_memory, merged, row_major, split_pieces
from tests.lower.evaluate import Evaluator
from tests.lower.levels import check_folded, saved
from tests.slices import one_in

PASSES = (
    HybridToLinalg(), CommonSubexpressionElimination(), DeadCodeElimination(),
    FoldViews(), CommonSubexpressionElimination(), DeadCodeElimination(),
)  # fmt: skip


def folded(trace, grads=()):
    module = Traced(trace, grads).optimize().module.clone()
    for each in PASSES:
        each.apply(Context(), module)
        module.verify()
        spec.check_level(module, spec.level_after(each.name, "structured"), each.name)
    for function in bodies(module):
        check_folded(function)
    return module


def bodies(module):
    return [op for op in module.ops if isinstance(op, FuncOp) and op.body.blocks]


def forward_and_backward(evaluator, inputs, weights):
    known = [*inputs, *evaluator.call("forward", *inputs)]
    return evaluator.call("backward", *[known[i] for i in saved(evaluator.functions["backward"])], *weights)


# --- what becomes of the views of networks -----------------------------------------------------------------


def traces_of(name, training=False):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workloads, "STEPS", 3)  # of the lstm; they show what 35 would
        program = workloads.WORKLOADS[name].build(hybridized=False)
        called = zip(program.blocks, program.feeds(), strict=True)
        return [trace_call(block, list(feed), training) for block, feed in called]


def operations(function, name):
    return [op for op in function.body.block.ops if op.name == name]


def copies(function):
    """Loops that only move elements."""
    return [op for op in operations(function, "linalg.generic") if len(list(op.body.block.ops)) == 1]


@pytest.mark.parametrize("name", ["encoder", "attention", "mlp", "layernorm", "softmax", "lstm"])
def test_networks_move_nothing(name):
    for trace in traces_of(name):
        (function,) = bodies(folded(trace))
        assert not copies(function)
        assert not operations(function, "linalg.transpose")


@pytest.mark.parametrize("name", ["encoder", "attention", "mlp", "mlp_train", "layernorm", "softmax", "lstm"])
def test_training_networks_moves_nothing(name):
    for trace in traces_of(name, training=True):
        for function in bodies(folded(trace, tuple(range(len(trace.leaves))))):
            assert not copies(function)


def test_heads_of_attention_are_strides():
    (trace,) = traces_of("encoder")
    (function,) = bodies(folded(trace))
    assert len(operations(function, "tensor.extract_slice")) == 3  # q, k, v
    assert len(operations(function, "tensor.expand_shape")) == 3  # of them, into heads
    (merged_heads,) = operations(function, "tensor.collapse_shape")
    contractions = [op for op in operations(function, "linalg.generic") if len(op.inputs) == 2 and reduces(op)]
    shapes = [shape_of(op.results[0]) for op in contractions]
    # of q, k, v together; of scores; of the context, written so that its heads lie side by side; three dense layers
    context = (8, 128, 8, 32)
    assert shapes == [(8, 128, 768), (8, 8, 128, 128), context, (8, 128, 256), (8, 128, 1024), (8, 128, 256)]
    assert merged_heads.operands[0] is contractions[2].results[0]
    lhs, rhs, out = [[e.position for e in m.data.results] for m in contractions[2].indexing_maps.data]
    assert (lhs, rhs, out) == ([0, 2, 1, 4], [0, 4, 2, 3], [0, 1, 2, 3])


def reduces(op):
    return any(kind.data.value == "reduction" for kind in op.iterator_types.data)


# --- random programs of views ------------------------------------------------------------------------------


class Program(HybridBlock):
    """A chain of views and computations, drawn from a seed while its shapes are known."""

    def __init__(self, seed):
        super().__init__()
        self.seed = seed

    def hybrid_forward(self, F, x, y):
        rng = np.random.default_rng(self.seed)
        known = [x, y]
        for _ in range(int(rng.integers(4, 12))):
            known.append(step(F, rng, known[-1 - int(rng.integers(min(3, len(known))))]))
        return known[-1], known[-2], F.sum(known[-3] * 2, axis=-1)


def step(F, rng, x):
    rank = len(x.shape)
    match rng.integers(9):
        case 0 | 1:
            return F.transpose(x, axes=tuple(int(a) for a in rng.permutation(rank)))
        case 2:
            return F.reshape(x, shape=another_shape(rng, x.shape))
        case 3:
            axis = int(rng.integers(rank))
            first = int(rng.integers(x.shape[axis]))
            return F.slice_axis(x, axis=axis, begin=first, end=int(rng.integers(first + 1, x.shape[axis] + 1)))
        case 4:
            return F.sin(x) + 1
        case 5:
            return x - F.mean(x, axis=int(rng.integers(rank)), keepdims=True)
        case 6:
            return F.broadcast_mul(x, F.sum(x, axis=0, keepdims=True))
        case 7:
            flat = F.reshape(x, shape=(-1, x.shape[-1]))
            return F.dot(flat, F.cos(flat), transpose_b=True) if x.shape[-1] > 1 else x * 3
        case _:
            rows = F.reshape(x, shape=(x.shape[0], -1))
            return F.dot(F.transpose(rows), rows) * 0.1 + F.ones_like(F.dot(F.transpose(rows), rows))


def another_shape(rng, shape):
    """The sizes of a shape, cut into primes and joined again."""
    primes = [p for n in shape for p in prime_factors(n)]
    ends = sorted({int(e) for e in rng.integers(0, len(primes) + 1, int(rng.integers(0, 4)))} | {0, len(primes)})
    sizes = [int(np.prod(primes[a:b])) for a, b in itertools.pairwise(ends)]
    for _ in range(int(rng.integers(2))):
        sizes.insert(int(rng.integers(len(sizes) + 1)), 1)
    return tuple(sizes) or (1,)


def prime_factors(n):
    return next(([p, *prime_factors(n // p)] for p in range(2, n + 1) if n % p == 0), [])


@pytest.mark.parametrize("seed", one_in(3, range(60)))
def test_random_views(seed):
    rng = np.random.default_rng(seed)
    arrays = [rng.normal(size=(2, 6, 4)), rng.normal(size=(4, 3, 1, 2))]
    block = Program(seed)
    with autograd.record():
        inputs = ndarrays(arrays)
        for x in inputs:
            x.attach_grad()
        outputs = block(*inputs)
        total = sum((y * y).sum() for y in outputs)
    total.backward()
    trace = trace_call(block, ndarrays(arrays), True)
    evaluator = Evaluator(folded(trace, (0, 1)), views=True)
    results = evaluator.call("forward", *arrays)[: len(outputs)]
    for got, want in zip(results, outputs, strict=True):
        np.testing.assert_allclose(got, want.asnumpy(), rtol=1e-9, atol=1e-9)
    grads = forward_and_backward(evaluator, arrays, [2 * y.asnumpy() for y in outputs])
    for got, x in zip(grads, inputs, strict=True):
        scale = max(1.0, float(np.abs(x.grad.asnumpy()).max()))
        np.testing.assert_allclose(got / scale, x.grad.asnumpy() / scale, rtol=1e-8, atol=1e-8)


def test_reshapes_that_fit_together_nowhere_stay():
    """6 = 2 x 3 here, 3 x 2 there: a cut at one place only, and a view between."""

    class Net(HybridBlock):
        def hybrid_forward(self, F, x):
            y = F.exp(x).reshape((6,))
            return F.sin(y).reshape((3, 2)) * 2

    x = np.arange(6.0).reshape(2, 3) / 6
    trace = trace_call(Net(), ndarrays([x]), False)
    module = folded(trace)
    (got,) = Evaluator(module, views=True).call("forward", x)
    np.testing.assert_allclose(got, 2 * np.sin(np.exp(x)).reshape(3, 2))
    assert not copies(bodies(module)[0])


def test_the_same_value_can_be_returned_in_several_forms():
    class Net(HybridBlock):
        def hybrid_forward(self, F, x):
            y = F.exp(x)
            return y, F.transpose(y), y.reshape((-1,)), F.transpose(F.transpose(y)), F.slice_axis(y, 1, 1, 3)

    x = np.arange(12.0).reshape(3, 4) / 12
    trace = trace_call(Net(), ndarrays([x]), False)
    module = folded(trace)
    got = Evaluator(module, views=True).call("forward", x)
    y = np.exp(x)
    for a, b in zip(got, [y, y.T, y.ravel(), y, y[:, 1:3]], strict=True):
        np.testing.assert_allclose(a, b)
    (function,) = bodies(module)
    assert len(copies(function)) == 2  # of the transposed one and of the slice: others own their memory
    returned = function.body.block.last_op.operands
    assert returned[0] is returned[3]
    for value in returned:
        assert not isinstance(value.owner, linalg.TransposeOp | tensor.ExtractSliceOp)


def test_a_transposed_result_is_written_transposed():
    class Net(HybridBlock):
        def hybrid_forward(self, F, x, w):
            return F.transpose(F.relu(F.dot(x, w)))

    x, w = np.arange(6.0).reshape(2, 3), np.ones((3, 4))
    module = folded(trace_call(Net(), ndarrays([x, w]), False))
    (got,) = Evaluator(module, views=True).call("forward", x, w)
    np.testing.assert_allclose(got, np.maximum(x @ w, 0).T)
    (function,) = bodies(module)
    assert not copies(function)
    contraction, relu = operations(function, "linalg.generic")
    assert shape_of(contraction.results[0]) == shape_of(relu.results[0]) == (4, 2)


def test_slices_of_axes_that_were_joined():
    """Whole rows of the outer axis are a slice of it; other parts need the elements in a row."""

    class Net(HybridBlock):
        def hybrid_forward(self, F, x):
            joined = F.reshape(F.transpose(x, axes=(1, 0, 2)), (12, 2))  # axes of 4 and of 3
            rows, part = F.slice_axis(joined, 0, 3, 9), F.slice_axis(joined, 0, 2, 6)
            return F.exp(rows), F.exp(part)

    x = np.arange(24.0).reshape(3, 4, 2) / 24
    module = folded(trace_call(Net(), ndarrays([x]), False))
    joined = x.transpose(1, 0, 2).reshape(12, 2)
    got = Evaluator(module, views=True).call("forward", x)
    for a, b in zip(got, [joined[3:9], joined[2:6]], strict=True):
        np.testing.assert_allclose(a, np.exp(b))
    (function,) = bodies(module)
    assert [shape_of(op.results[0]) for op in copies(function)] == [(4, 3, 2)]  # for the part that begins inside a row


def test_numbers_in_bodies_leave_sums_their_loops():
    """A sum of ones has no other input that says how far to go."""

    class Net(HybridBlock):
        def hybrid_forward(self, F, x):
            ones = F.ones_like(x)
            return F.sum(ones, axis=1), F.dot(ones, F.transpose(ones)), F.reshape(ones, (-1,)), x + ones

    x = np.arange(6.0).reshape(2, 3)
    module = folded(trace_call(Net(), ndarrays([x]), False))
    got = Evaluator(module, views=True).call("forward", x)
    for a, b in zip(got, [[3, 3], [[3, 3], [3, 3]], np.ones(6), x + 1], strict=True):
        np.testing.assert_array_equal(a, b)
    addition = operations(bodies(module)[0], "linalg.generic")[-1]
    assert len(addition.inputs) == 1


def test_copies_and_fills_of_unsigned_integers_are_unsigned():
    class Net(HybridBlock):
        def hybrid_forward(self, F, x):
            return F.transpose(x), F.zeros_like(x).reshape((-1,)), F.reshape(F.transpose(x), (-1,)) + x.reshape((-1,))

    x = np.array([[200, 3], [255, 7]], np.uint8)
    module = folded(trace_call(Net(), [NDArray(x)], False))
    got = Evaluator(module, views=True).call("forward", x)
    for a, b in zip(got, [x.T, np.zeros(4), x.T.ravel() + x.ravel()], strict=True):
        assert a.dtype == np.uint8
        np.testing.assert_array_equal(a, b)
    for op in bodies(module)[0].body.block.ops:
        if isinstance(op, linalg.GenericOp) or (isinstance(op, linalg.FillOp) and "hybrid.operator" in op.attributes):
            assert op.attributes["hybrid.dtype"].data == "uint8"


def test_every_operation_keeps_the_users_line():
    (trace,) = traces_of("encoder")
    (function,) = bodies(folded(trace))
    for op in function.body.walk():
        assert isinstance(op, ReturnOp | FuncOp) or location_of(op) is not None, op


# --- pieces of memory --------------------------------------------------------------------------------------


def test_pieces_are_what_numpy_says():
    """Random views of an array, their strides against those of NumPy's views."""
    rng = np.random.default_rng(5)
    for _ in range(200):
        shape = tuple(int(n) for n in rng.integers(1, 5, int(rng.integers(1, 5))))
        x = np.arange(np.prod(shape)).reshape(shape)
        pieces, seen = merged(row_major(shape)), x
        for _ in range(3):
            axes = by_axis(pieces, seen.shape)
            order = [int(a) for a in rng.permutation(seen.ndim)]
            assert axes is not None
            pieces, seen = merged(piece for a in order for piece in axes[a]), seen.transpose(order)
        walked = np.array([0])
        for size, stride in pieces:
            walked = (walked[:, None] + np.arange(size) * stride).ravel()
        np.testing.assert_array_equal(walked, seen.ravel())
        known = [(n, s // x.itemsize) for n, s in zip(seen.shape, seen.strides, strict=True)]
        assert pieces == merged(known)


def test_pieces_cut_to_sizes():
    assert split_pieces([(12, 1)], [3, 4]) == [(3, 4), (4, 1)]
    assert split_pieces([(4, 3), (3, 1)], [2, 2, 3]) == [(2, 6), (2, 3), (3, 1)]
    assert split_pieces([(4, 1), (3, 4)], [2, 6]) is None
    assert split_pieces([(4, 1), (3, 4)], [3, 4]) is None
    assert split_pieces([], []) == []
    assert by_axis([(4, 1), (3, 4)], (6, 2)) is None
    assert by_axis([(4, 1), (3, 4)], (1, 12, 1)) == [[], [(4, 1), (3, 4)], []]
    assert in_memory([(4, 1), (3, 4)]) == [1, 0]


@pytest.mark.parametrize("order", [(1, 2, 0), (2, 0, 1)])
@pytest.mark.parametrize("target", ["numpy", "llvm"])
def test_the_host_gets_axes_in_their_order(order, target):
    """Three axes that each take the next one's place: the order and its inverse are not the same."""
    x = np.random.default_rng(0).normal(size=(2, 3, 4))
    block = HybridLambda(lambda F, x: F.sort(F.transpose(x, order), axis=0))
    executable = block.trace(NDArray(x)).optimize().lower(target).compile().forward
    np.testing.assert_array_equal(executable(x)[0], np.sort(x.transpose(order), 0))


def test_cuts_at_symbolic_sizes_that_are_equal_are_one():
    sizes = Sizes()
    n, m = sizes.free(4), sizes.free(4)  # different until they are compared
    cuts = Cuts()
    axis = cuts.axis(16)
    for inner in (n, m, 4):
        cuts.stands_for(axis, [cuts.axis(4), cuts.axis(inner)])
    cuts.settle()
    assert cuts.factors(axis) == (4, 4)

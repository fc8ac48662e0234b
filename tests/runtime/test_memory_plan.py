"""The memory plan, and its verifier: what it accepts computes the right thing, and what is broken it rejects."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, i64

import hybridc as mx
from hybridc.compile.stages import Traced
from hybridc.dialects.mlir.hybrid_rt import AliasOp, AllocOp, ArenaOp, DonatedOp, LaunchOp, ViewOp
from hybridc.errors import VerifyError
from hybridc.gluon.nn import HybridLambda
from hybridc.ir import spec
from hybridc.ir.structured import kernels
from hybridc.ir.values import functions
from hybridc.transforms.memory.plan_memory import Buffer, PlanMemory, assign_offsets, largest_live_set
from hybridc.transforms.memory.verify_plan import VerifyPlan
from tests.lower.outline import outline
from tests.runtime.plan_runner import PlanRunner, declare_inplace
from tests.slices import but


def chain(F, x):
    for _ in range(2):
        x = F.dot(F.tanh(x), x)
        x = x / (F.sum(F.square(x), axis=1, keepdims=True) + 1)
    return x


def branches(F, x):
    a = F.dot(x, x)
    b, c = F.exp(a * 0.1), F.dot(a, a)
    return F.dot(b, c) + a, F.softmax(c), F.dot(b, b.T)


def views(F, x):
    a = F.dot(x, x)
    t, r = F.transpose(a), F.reshape(a, (-1,))
    return F.dot(t, a), F.dot(F.dot(a, x), t) + F.reshape(F.exp(r), (6, 6))


PROGRAMS = {"chain": chain, "branches": branches, "views": views}


def data(*shape):
    return mx.nd.array(np.random.default_rng(0).normal(size=shape) * 0.3, dtype="float64")


def planned(function, *inputs, donated=(), scratch=0):
    """The planned module with a fresh trace each time, the input, and the right results."""
    inputs = inputs or (data(6, 6),)
    net = HybridLambda(function)
    results = net(*inputs)
    expected = [y.asnumpy() for y in (results if isinstance(results, list | tuple) else [results])]
    module = net.trace(*inputs).optimize().structure().module
    return plan(module, donated, scratch), inputs, expected


def plan(module, donated=(), scratch=0):
    declare_inplace(outline(module))
    for function in functions(module):
        if function.sym_visibility is None and donated:
            function.attributes["hybrid.donated"] = DenseArrayBase.from_list(i64, donated)
        elif function.body.blocks and scratch:
            function.attributes["hybrid.scratch"] = IntegerAttr(scratch, i64)
    spec.check_level(module, "kernels", "outline")
    PlanMemory().apply(Context(), module)
    module.verify()
    spec.check_level(module, "plan", "plan-memory")
    return module


def accepted(module):
    try:
        VerifyPlan().apply(Context(), module)
    except VerifyError:
        return False
    return True


def refused(module):
    """Why it is."""
    with pytest.raises(VerifyError) as error:
        VerifyPlan().apply(Context(), module)
    return str(error.value)


def results(module, inputs):
    return PlanRunner(module).call("forward", *[x.asnumpy() for x in inputs])


def only(module, cls):
    return [op for op in module.walk() if isinstance(op, cls)]


def is_right(module, inputs, expected):
    got = results(module, inputs)
    return all(np.allclose(g, w, rtol=1e-10) for g, w in zip(got, expected, strict=True))


# --- every wrong offset -----------------------------------------------------------------------------------


@pytest.mark.parametrize("scratch", but((64,), [0, 64]))
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_accepted_is_right_and_what_is_wrong_is_refused(name, scratch):
    """Move each array to every other place, one at a time."""
    module, inputs, expected = planned(PROGRAMS[name], scratch=scratch)
    assert accepted(module)
    assert is_right(module, inputs, expected)
    (arena,) = only(module, ArenaOp)
    rejected = right = wrong = 0
    for view in only(module, ViewOp):
        kept = view.properties["offset"]
        for offset in range(0, arena.size + 64, 64):
            view.properties["offset"] = IntegerAttr(offset, i64)
            good = accepted(module)
            try:
                same = is_right(module, inputs, expected)
            except ValueError:  # outside the arena
                same = False
            assert same or not good, f"{view} is accepted, but wrong"
            rejected, right, wrong = rejected + (not good), right + good, wrong + (not same)
        view.properties["offset"] = kept
    assert right > 0
    assert rejected >= wrong > 0


def test_each_declared_pair_is_needed():
    """Without its declaration, every write over an argument is refused."""
    module, _, _ = planned(lambda F, x: F.dot(F.tanh(F.dot(x, x)), F.exp(F.dot(x, x) + 1)))
    in_place = [
        op
        for op in only(module, LaunchOp)
        if any(_place(a) == _place(b) for a in op.ins for b in op.outs if _place(a) is not None)
    ]
    assert len(in_place) >= 2
    for launch in in_place:
        kernel = kernels(module)[launch.kernel.string_value()]
        kept = kernel.attributes["hybrid.inplace"]
        kernel.attributes["hybrid.inplace"] = DenseArrayBase.from_list(i64, [])
        assert "does not declare" in refused(module)
        kernel.attributes["hybrid.inplace"] = kept
    assert accepted(module)


def _place(value):
    return value.owner.offset.value.data if isinstance(value.owner, ViewOp) else None


def test_a_pair_that_is_another_one_is_refused():
    module, inputs, expected = planned(lambda F, x: F.dot(F.broadcast_add(F.dot(x, x), F.sum(x, axis=0)), x))
    assert is_right(module, inputs, expected)
    (kernel,) = {
        op.kernel.string_value()
        for op in only(module, LaunchOp)
        if len(op.ins) == 2 and any(_place(a) == _place(op.outs[0]) for a in op.ins if _place(a) is not None)
    }
    declared = kernels(module)[kernel].attributes
    assert list(declared["hybrid.inplace"].get_values()) == [0, 0]
    declared["hybrid.inplace"] = DenseArrayBase.from_list(i64, [1, 0])
    assert "does not declare" in refused(module)


def test_what_was_written_in_place_is_there_until_it_is_read():
    """The exponential is in the memory of its argument, and is read after two other arrays were made."""
    module, inputs, expected = planned(lambda F, x: F.dot(F.exp(F.dot(x, x)), F.dot(x, F.dot(x, F.tanh(x)))))
    assert accepted(module)
    assert is_right(module, inputs, expected)


def test_an_array_that_is_also_read_transposed_is_not_written():
    def function(F, x):
        a = F.dot(x, x)
        return F.dot(a + F.transpose(a), x)

    module, inputs, expected = planned(function)
    assert accepted(module)
    assert is_right(module, inputs, expected)


def test_scratch_that_meets_an_array_is_refused():
    module, _, _ = planned(chain, scratch=64)
    launch = next(op for op in only(module, LaunchOp) if isinstance(op.ins[0].owner, ViewOp))
    assert accepted(module)
    launch.scratch.owner.properties["offset"] = launch.ins[0].owner.offset
    assert "scratch shares memory with" in refused(module)


def test_a_read_before_any_write_is_refused():
    module, _, _ = planned(chain)
    first = only(module, LaunchOp)[0]
    first.detach()
    assert "before it is written" in refused(module)


# --- results ----------------------------------------------------------------------------------------------


def test_results_are_fresh_arrays():
    module, _, _ = planned(branches)
    (function,) = [f for f in functions(module) if f.sym_visibility is None]
    end = function.body.block.last_op
    assert isinstance(end, func.ReturnOp)
    assert all(isinstance(v.owner, AllocOp) for v in end.arguments)
    assert len(set(end.arguments)) == 3


def test_no_more_memory_than_alive_at_once():
    """A chain of any length needs the memory of two arrays."""

    def arena(length):
        def function(F, x):
            for _ in range(length):
                x = F.dot(x, x)
            return x + 0.5

        module, _, _ = planned(function)
        return only(module, ArenaOp)[0].size

    assert arena(3) == arena(9) == 2 * 320  # 6 * 6 * 8 bytes, rounded up to 64


def test_what_the_backward_needs_stays():
    x = mx.nd.ones((3, 4), dtype="float64") * 0.5
    trace = HybridLambda(lambda F, x: F.softmax(F.tanh(x) * x)).trace(x).trace
    module = plan(Traced(trace, (0,)).optimize().structure().module)
    assert [f.sym_name.data for f in functions(module) if f.sym_visibility is None] == ["forward", "backward"]
    assert accepted(module)
    run = PlanRunner(module)
    known = [x.asnumpy(), *run.call("forward", x.asnumpy())]
    (backward,) = [f for f in functions(module) if f.sym_name.data == "backward"]
    ograd = np.arange(12.0).reshape(3, 4)
    (got,) = run.call("backward", *[known[i] for i in backward.attributes["hybrid.saved"].get_values()], ograd)
    x.attach_grad()
    with mx.autograd.record():
        y = mx.nd.softmax(mx.nd.tanh(x) * x)
    y.backward(mx.nd.array(ograd, dtype="float64"))
    np.testing.assert_allclose(got, x.grad.asnumpy(), rtol=1e-10)


def test_unsigned_arrays_keep_their_dtype():
    x = mx.nd.array([[200, 3], [5, 255]], dtype="uint8")
    module, inputs, expected = planned(lambda F, x: F.maximum(F.sort(x), x) + x, x)
    assert accepted(module)
    for got, want in zip(results(module, inputs), expected, strict=True):
        assert got.dtype == np.uint8
        np.testing.assert_array_equal(got, want)


# --- donated arguments ------------------------------------------------------------------------------------


def step(F, w, g):
    return w - 0.5 * g, g * g


@pytest.mark.parametrize(
    ("function", "copies"),
    [
        (lambda F, w, g: w - g, False),  # the kernel declares that it may
        (lambda F, w, g: F.dot(w, g), True),  # this one does not
        (lambda F, w, g: F.dot(g, g), False),  # nobody reads the argument
        (lambda F, w, g: (lambda v: (v - g, F.dot(v, w)))(w * 2), True),  # it is read later: the copy waits
        (lambda F, w, g: F.sort(w), True),
        (lambda F, w, g: F.reshape(F.softmax(F.reshape(g, (4, 9))), (6, 6)), False),  # made in another shape
        (lambda F, w, g: F.reshape(F.softmax(F.reshape(g, (4, 9))) * F.reshape(w, (4, 9)), (6, 6)), False),
        (lambda F, w, g: (lambda v: (F.reshape(v, (6, 6)), v))(F.softmax(F.reshape(g, (4, 9)))), False),
        (lambda F, w, g: F.reshape(F.dot(g, w), (-1,)).reshape((6, 6)), True),
    ],
)
def test_a_donated_argument_is_written(function, copies):
    module, inputs, expected = planned(function, data(6, 6), data(6, 6) + 1, donated=(0, 0))
    assert accepted(module)
    w, g = [x.asnumpy().copy() for x in inputs]
    got = PlanRunner(module).call("forward", w, g)
    assert got[0] is w
    np.testing.assert_allclose(w, expected[0], rtol=1e-12)
    for y, want in zip(got, expected, strict=True):
        np.testing.assert_allclose(y, want, rtol=1e-12)
    np.testing.assert_array_equal(g, inputs[1].asnumpy())
    assert bool([op for op in module.walk() if op.name == "hybrid_rt.copy"]) == copies


def test_only_donated_arguments_are_written():
    module, _, _ = planned(lambda F, w, g: (w - g, g * 2), data(6, 6), data(6, 6), donated=(0, 0))
    assert accepted(module)
    (function,) = [f for f in functions(module) if f.sym_visibility is None]
    kept = function.attributes.pop("hybrid.donated")
    assert "argument 0 (data0) is not donated by the caller" in refused(module)
    function.attributes["hybrid.donated"] = DenseArrayBase.from_list(i64, [1, 0])
    assert "argument 0 (data0) is not donated by the caller" in refused(module)
    function.attributes["hybrid.donated"] = kept
    for launch in only(module, LaunchOp):  # an argument itself, without asking
        launch.operands[len(launch.ins)] = function.body.block.args[1]
        assert "not donated" in refused(module)
        break


def test_a_donated_argument_is_not_read_too_late():
    module, _, _ = planned(lambda F, w, g: (w - g, F.dot(g, g)), data(6, 6), data(6, 6), donated=(0, 0))
    (function,) = [f for f in functions(module) if f.sym_visibility is None]
    later = [op for op in only(module, LaunchOp) if not isinstance(op.outs[0].owner, DonatedOp)][-1]
    later.operands[0] = function.body.block.args[0]
    assert "whose memory the donated" in refused(module)


def test_a_result_elsewhere_than_donated_is_refused():
    module, _, _ = planned(lambda F, w, g: (w - g, F.dot(g, g)), data(6, 6), data(6, 6), donated=(0, 0))
    (function,) = [f for f in functions(module) if f.sym_visibility is None]
    function.body.block.last_op.operands[0] = function.body.block.last_op.operands[1]
    assert "is not in the memory of argument 0" in refused(module)


# --- views ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attribute", "values"), [("order", [0, 1]), ("begin", [2, 1]), ("step", [2, 1]), ("begin", [-1, 0])]
)
def test_a_view_that_does_not_fit_its_source_is_refused(attribute, values):
    def function(F, x):
        a = F.slice(F.sort(x), begin=(0, 1), end=(3, 5))
        return F.sort(F.transpose(a))

    module, inputs, expected = planned(function, data(4, 5))
    assert accepted(module)
    assert is_right(module, inputs, expected)
    (alias,) = [op for op in module.walk() if attribute in op.attributes]
    alias.attributes[attribute] = DenseArrayBase.from_list(i64, values)
    assert "does not give a view of type" in refused(module)


def test_a_reshape_that_would_move_elements_is_refused():
    module, _, _ = planned(lambda F, x: F.sort(F.reshape(F.sort(x), (4, 6))), data(6, 4))
    first, last = only(module, AliasOp)
    assert accepted(module)
    narrow = last.result.type
    seen = AliasOp("transpose", first.array, {"order": DenseArrayBase.from_list(i64, [1, 0])}, narrow)
    last.parent_block().insert_op_before(seen, first)
    last.operands[0] = first.operands[0] = seen.result
    assert "reshape of the alias" in refused(module)


# --- offsets ----------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 12), st.integers(0, 6)), max_size=25))
@settings(deadline=None)
def test_buffers_alive_together_lie_apart(drawn):
    buffers = [Buffer(64 * size, start, start + length) for size, start, length in drawn]
    size = assign_offsets(buffers)
    assert size == max((b.offset + b.size for b in buffers), default=0)
    moments = range(20)
    assert largest_live_set(buffers) == max(sum(b.size for b in buffers if b.start <= m <= b.end) for m in moments)
    assert size >= largest_live_set(buffers)
    for i, a in enumerate(buffers):
        for b in buffers[:i]:
            together = a.start <= b.end and b.start <= a.end
            assert not together or a.offset + a.size <= b.offset or b.offset + b.size <= a.offset


@pytest.mark.parametrize(
    "drawn",
    [
        [(4, 1, 5), (5, 3, 3), (4, 4, 8), (5, 6, 6)],  # largest first leaves a gap of 4 under one of 5
        [(2, 0, 1), (1, 1, 2), (2, 2, 3), (1, 0, 0), (1, 3, 3)],
        [(3, 0, 2), (2, 1, 4), (3, 3, 6), (2, 5, 8), (4, 7, 9), (1, 0, 9)],
    ],
)
def test_no_memory_is_wasted_where_another_order_wastes_none(drawn):
    buffers = [Buffer(64 * size, start, end) for size, start, end in drawn]
    assert assign_offsets(buffers) == largest_live_set(buffers)


# --- the host ---------------------------------------------------------------------------------------------


@mx.op.register("tests.planned_negate")
class PlannedNegate(mx.op.Opaque):
    """-data, by the host, where the data is if it may"""

    INPLACE: ClassVar = ((0, 0),)

    def infer_shape(self, shapes):
        return shapes, list(shapes)

    def eager(self, x):
        return -x


@pytest.mark.parametrize(
    ("function", "shared"),
    [
        (lambda F, x: F.exp(F.planned_negate(F.exp(x))), True),
        (lambda F, x: F.exp(F.planned_negate(x)), False),  # an input is never written
        (lambda F, x: (lambda y: F.planned_negate(y) * F.sum(F.dot(y, y)))(F.exp(x)), False),  # needed afterwards
    ],
)
def test_a_host_call_works_in_place_where_it_declares_it(function, shared):
    module, inputs, expected = planned(function)
    (launch,) = [op for op in only(module, LaunchOp) if "negate" in op.kernel.string_value()]
    assert accepted(module)
    assert is_right(module, inputs, expected)
    assert (_place(launch.ins[0]) == _place(launch.outs[0])) == shared

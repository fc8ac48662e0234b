"""The memory plan, and its verifier: what it accepts computes the right thing, and what is broken it rejects."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, i64

import hybridc as mx
from hybridc.dialects.hybrid_rt import AllocOp, ArenaOp, LaunchOp, ViewOp
from hybridc.errors import VerifyError
from hybridc.gluon.nn import HybridLambda
from hybridc.lower.numpy.emit import emit
from hybridc.runtime.compiled_graph import Executable
from hybridc.transforms.values import functions
from hybridc.transforms.verify_plan import VerifyPlan


def chain(F, x):
    for _ in range(3):
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


def planned(function):
    """The planned module with a fresh trace each time, the input, and the right results."""
    x = mx.nd.array(np.random.default_rng(0).normal(size=(6, 6)) * 0.3, dtype="float64")
    net = HybridLambda(function)
    results = net(x)
    expected = [y.asnumpy() for y in (results if isinstance(results, list | tuple) else [results])]
    return net.trace(x).optimize().lower().module, x, expected


def accepted(module):
    try:
        VerifyPlan().apply(Context(), module)
    except VerifyError:
        return False
    return True


def results(module, x):
    """What the program computes, from memory that is full of NaN."""
    program = emit(module, "forward", 1)
    program.source = program.source.replace("np.empty(", "poisoned(")
    program.scope["poisoned"] = poisoned
    return Executable(program)(x._data)


def poisoned(shape, dtype):
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        return np.full(shape, np.nan, dtype)
    return np.full(shape, 0xFF, dtype)  # all bits set: NaN in every float type


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_wrong_offset_is_found_or_harmless(name):
    """Move each array to every other place, one at a time. Accepted plans must be right; not all are accepted."""
    module, x, expected = planned(PROGRAMS[name])
    assert accepted(module)
    (arena,) = [op for op in module.walk() if isinstance(op, ArenaOp)]
    views = [op for op in module.walk() if isinstance(op, ViewOp)]
    assert len(views) > 3
    rejected = right = 0
    for view in views:
        kept = view.properties["offset"]
        for offset in range(0, arena.size + 64, 64):
            view.properties["offset"] = IntegerAttr(offset, i64)
            if not accepted(module):
                rejected += 1
                continue
            right += 1
            for got, want in zip(results(module, x), expected, strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-10, err_msg=f"{view} is accepted, but wrong")
        view.properties["offset"] = kept
    assert rejected > right > 0


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_plan_that_computes_the_wrong_thing_is_rejected(name):
    """The other direction: where moving an array changes the results, the verifier must say so."""
    module, x, expected = planned(PROGRAMS[name])
    (arena,) = [op for op in module.walk() if isinstance(op, ArenaOp)]
    wrong = 0
    for view in [op for op in module.walk() if isinstance(op, ViewOp)]:
        kept = view.properties["offset"]
        for offset in range(0, arena.size - 63, 64):
            view.properties["offset"] = IntegerAttr(offset, i64)
            try:
                same = all(
                    np.allclose(got, want, rtol=1e-10) for got, want in zip(results(module, x), expected, strict=True)
                )
            except ValueError:  # outside the arena
                same = False
            if not same:
                wrong += 1
                assert not accepted(module)
        view.properties["offset"] = kept
    assert wrong > 0


def test_each_declared_pair_is_needed():
    """Without its declaration, every write over an argument is refused."""
    module, _, _ = planned(lambda F, x: F.dot(F.tanh(F.dot(x, x)), F.exp(F.dot(x, x) + 1)))
    in_place = [
        op
        for op in module.walk()
        if isinstance(op, LaunchOp)
        and any(_place(a) == _place(b) for a in op.ins for b in op.outs if _place(a) is not None)
    ]
    assert in_place
    kernels = {f.sym_name.data: f for f in functions(module)}
    for launch in in_place:
        kernel = kernels[launch.kernel.string_value()]
        kept = kernel.attributes["hybrid.inplace"]
        kernel.attributes["hybrid.inplace"] = DenseArrayBase.from_list(i64, [])
        assert not accepted(module)
        kernel.attributes["hybrid.inplace"] = kept
    assert accepted(module)


def _place(value):
    return value.owner.offset.value.data if isinstance(value.owner, ViewOp) else None


def test_results_are_fresh_arrays():
    module, _, _ = planned(branches)
    (function,) = [f for f in functions(module) if f.sym_visibility is None]
    end = function.body.block.last_op
    assert isinstance(end, func.ReturnOp)
    assert all(isinstance(v.owner, AllocOp) for v in end.arguments)
    assert len(set(end.arguments)) == 3


def test_no_more_memory_than_alive_at_once():
    """A chain of any length needs the memory of two arrays and of a row."""

    def arena(length):
        def function(F, x):
            for _ in range(length):
                x = F.dot(x, x)
            return x + 0.5

        module, _, _ = planned(function)
        return next(op.size for op in module.walk() if isinstance(op, ArenaOp))

    assert arena(3) == arena(9) == 2 * 320  # 6 * 6 * 8 bytes, rounded up to 64


def test_backward_plans_are_verified_too():
    x = mx.nd.ones((3, 4))
    trace = HybridLambda(lambda F, x: F.softmax(F.tanh(x) * x)).trace(x).trace
    from hybridc.stages import Traced

    lowered = Traced(trace, (0,)).optimize().lower()
    assert [f.sym_name.data for f in functions(lowered.module) if f.sym_visibility is None] == ["forward", "backward"]
    assert accepted(lowered.module)


@mx.op.register("tests.host_negate")
class HostNegate(mx.op.Opaque):
    """-data, by the host, where the data is if it may"""

    INPLACE = ((0, 0),)
    seen: ClassVar = []

    def infer_shape(self, shapes):
        return shapes, list(shapes)

    def eager(self, x):
        return -x

    def eager_out(self, outs, x):
        HostNegate.seen.append(np.may_share_memory(outs[0], x))
        np.negative(x, out=outs[0])


@pytest.mark.parametrize(
    ("function", "shared"),
    [
        (lambda F, x: F.exp(F.host_negate(F.exp(x))), True),
        (lambda F, x: F.exp(F.host_negate(x)), False),  # an input is never written
        (lambda F, x: (lambda y: F.host_negate(y) * F.sum(F.dot(y, y)))(F.exp(x)), False),  # it is needed afterwards
    ],
)
def test_a_host_call_works_in_place_where_it_declares_it(function, shared):
    net, x = HybridLambda(function), mx.nd.array(np.linspace(-1, 1, 9).reshape(3, 3))
    want = net(x).asnumpy()
    HostNegate.seen.clear()
    net.hybridize()
    np.testing.assert_allclose(net(x).asnumpy(), want, rtol=1e-6)
    assert HostNegate.seen == [shared]

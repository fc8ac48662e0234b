"""Fusion of random graphs, forward and backward: what the kernels compute together, and that a tile at a time can."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.linalg import ops as linalg

import hybridc as mx
from hybridc.compile.stages import Traced
from hybridc.ir.costs import MANY
from hybridc.ir.structured import kernels, places_of, shape_of
from hybridc.trace.tracer import trace_call
from hybridc.transforms.structured import fuse_kernels, loop_groups
from tests.lower.evaluate import Evaluator
from tests.slices import tries
from tests.test_properties import Net, programs


def structure(program):
    """The structured form of a program, forward and backward for all inputs."""
    return structured(Net(program), program.shapes)


def structured(net, shapes):
    """The structured form of a network of float64 arrays, forward and backward for all inputs."""
    trace = trace_call(net, [mx.nd.zeros(s, dtype="float64") for s in shapes], False)
    return Traced(trace, tuple(range(len(trace.leaves)))).optimize().structure().module


def run(module, rng):
    """The results of all functions on random arrays."""
    found = []
    for name in ("forward", "backward"):
        function = Evaluator(module).functions[name]
        arrays = [rng.normal(size=shape_of(a)) for a in function.body.block.args]
        found += Evaluator(module).call(name, *arrays)
    return found


def nests(kernel):
    """The operations of each loop nest, with the axes of their loops; and its iteration space."""
    domains = [tuple(d.get_values()) for d in kernel.attributes["hybrid.domains"].data]
    found = [(domain, []) for domain in domains]
    for op in kernel.body.block.ops:
        if isinstance(op, linalg.GenericOp | linalg.MatmulOp):
            nest = op.attributes.get("hybrid.loop_nest")
            found[0 if nest is None else nest.value.data][1].append(op)
    return found


def check_nest(domain, ops, small):
    """The axes have the loops' sizes; tiles along axis 0 can be computed one after the other."""
    for op in ops:
        axes = tuple(op.attributes["hybrid.axes"].get_values())
        maps = places_of(op)
        for value, places in zip(op.operands, maps, strict=True):
            for size, loop in zip(shape_of(value) if places else (), places, strict=True):
                assert axes[loop] == -1 or domain[axes[loop]] == size
        reduced = {axes[i] for i in range(len(axes)) if i not in maps[-1]}
        if -1 in reduced:
            assert op is ops[0], "a product begins its nest"
            continue
        inside = [u.operation for u in op.results[0].uses if u.operation in ops]
        for user in inside:  # what one operation gives at a point is what the other takes there
            theirs = tuple(user.attributes["hybrid.axes"].get_values())
            for index, operand in enumerate(user.operands[:-1]):
                if operand is op.results[0]:
                    places = places_of(user)[index]
                    assert [theirs[i] for i in places] == [axes[i] for i in maps[-1]]
        if math.prod(domain) > max(small, 1):
            assert 0 not in reduced or not inside, "read before the last tile"
            cheap = math.prod(shape_of(op.results[0])) * MANY <= math.prod(domain)
            assert 0 in axes or (cheap and inside and not reduced), "computed again in every tile"


@pytest.mark.long
@settings(max_examples=tries(60), deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(program=programs(), small=st.sampled_from([0, 20, 65536]))
def test_kernels_compute_what_the_graph_does(program, small):
    before, after = structure(program), structure(program)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop_groups, "ONE_TILE", small)
        fuse_kernels.FuseKernels().apply(Context(), after)
    after.verify()
    for kernel in kernels(after).values():
        if kernel.body.blocks:
            for domain, ops in nests(kernel):
                check_nest(domain, ops, small)
    results = zip(run(before, np.random.default_rng(0)), run(after, np.random.default_rng(0)), strict=True)
    for want, got in results:
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12, err_msg=f"{program}")


class Outer(mx.gluon.HybridBlock):
    """Products of each maximum of a row with each other one, and a reduction of the maxima that joins their group."""

    def __init__(self, reduce, first):
        super().__init__()
        self.reduce, self.first = reduce, first

    def hybrid_forward(self, F, x):
        maxima = F.max(x, axis=1)
        reduced = [F.sum(maxima), F.mean(maxima), maxima * 2][self.reduce]
        products = F.broadcast_mul(F.expand_dims(maxima, 0), F.expand_dims(maxima, 1))
        products = F.softmax(products) if self.first else F.broadcast_mul(products, F.sum(products, axis=1))
        return reduced, products


@pytest.mark.parametrize("reduce", range(3))
@pytest.mark.parametrize("first", [True, False])
def test_what_is_read_along_two_axes_is_complete_before(reduce, first):
    net, x = Outer(reduce, first), mx.nd.array(np.random.default_rng(0).normal(size=(4, 4)), dtype="float64")
    module = structured(net, [x.shape])
    fuse_kernels.FuseKernels().apply(Context(), module)
    for kernel in kernels(module).values():
        for domain, ops in nests(kernel) if kernel.body.blocks else ():
            check_nest(domain, ops, loop_groups.ONE_TILE)
    want = [y.asnumpy() for y in net(x)]
    net.hybridize()
    for got, right in zip(net(x), want, strict=True):
        np.testing.assert_allclose(got.asnumpy(), right, rtol=1e-12)

"""Contractions as kernels of their own, and merged: the same results, valid kernels, the fewest contractions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from xdsl.context import Context

import hybridc as mx
from hybridc.compile import pipeline
from hybridc.compile.stages import Traced
from hybridc.ir import spec
from hybridc.ir.costs import WORTH_PACKING as ROWS
from hybridc.ir.kernels.kernel_text import read_kernel
from hybridc.ir.structured import is_host, kernels, shape_of
from hybridc.trace.tracer import trace_call
from hybridc.transforms.kernels.merge_contractions import MergeContractions
from hybridc.transforms.kernels.split_contractions import SplitContractions
from tests.lower.evaluate import Evaluator
from tests.slices import tries
from tests.test_properties import Net, programs


def kernels_of(net, inputs, training=False):
    """The kernels of a network: of its forward, and if asked for of the gradient for all inputs and parameters."""
    trace = trace_call(net, inputs, training)
    module = Traced(trace, tuple(range(len(trace.leaves))) if training else ()).optimize().module
    for each in (*pipeline.structured_passes("numpy"), *pipeline.KERNELS):
        each.apply(Context(), module)
    return module


def run(module, seed):
    """The results of all functions on random arrays."""
    rng, found = np.random.default_rng(seed), []
    for name, function in Evaluator(module).functions.items():
        if function.sym_visibility is None:
            arrays = [rng.normal(size=shape_of(a)) for a in function.body.block.args]
            found += Evaluator(module).call(name, *arrays)
    return found


def check(module, *passes):
    """Passes change no result, and leave valid kernels; contractions stand alone."""
    before = run(module, 7)
    for each in passes:
        each.apply(Context(), module)
        module.verify()
        spec.check_level(module, "kernels", each.name)
    for x, y in zip(before, run(module, 7), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)
    found = [read_kernel(f) for f in kernels(module).values() if not is_host(f)]
    contractions = [k for k in found if any(n.contraction is not None for n in k.nests)]
    assert all(len(k.ops) == 1 for k in contractions)
    return contractions


@settings(max_examples=tries(40), deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(programs())
def test_random_programs(program):
    inputs = [mx.nd.zeros(s, dtype="float64") for s in program.shapes]
    check(kernels_of(Net(program), inputs, training=True), SplitContractions(), MergeContractions())


class Steps(mx.gluon.HybridBlock):
    """A recurrent network, unrolled."""

    def __init__(self, steps):
        super().__init__()
        self.steps = steps
        with self.name_scope():
            self.wx = self.params.get("wx", shape=(6, 5), dtype="float64", init=mx.init.Normal())
            self.wh = self.params.get("wh", shape=(6, 6), dtype="float64", init=mx.init.Normal())

    def hybrid_forward(self, F, xs, h, wx, wh):
        for x in F.split(xs, num_outputs=self.steps, axis=0, squeeze_axis=True):
            h = F.tanh(F.dot(x, wx, transpose_b=True) + F.dot(h, wh, transpose_b=True))
        return h


@pytest.mark.parametrize("training", [False, True])
def test_steps_of_a_recurrent_network(training):
    net = Steps(3)
    net.initialize()
    inputs = [mx.nd.ones((3, 3, 5), dtype="float64"), mx.nd.ones((3, 6), dtype="float64")]
    contractions = check(kernels_of(net, inputs, training), SplitContractions(), MergeContractions())
    assert sorted(k.nests[0].domain for k in contractions)[-1] == (9, 6)


def test_many_rows_stay_apart():
    net = Steps(2)
    net.initialize()
    inputs = [mx.nd.ones((2, ROWS + 1, 5), dtype="float64"), mx.nd.ones((ROWS + 1, 6), dtype="float64")]
    contractions = check(kernels_of(net, inputs), SplitContractions(), MergeContractions())
    assert {k.nests[0].domain for k in contractions} == {(ROWS + 1, 6)}

"""The search for what is behind a contraction, in networks that carry a state from step to step."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from xdsl.context import Context

import hybridc as mx
from hybridc.compile import pipeline, targets, trace_key, warm_start
from hybridc.compile.stages import Traced
from hybridc.trace.tracer import trace_call
from hybridc.transforms.structured import contraction_chains
from hybridc.transforms.structured.fuse_attention import FuseAttention
from tests.slices import crossed


class Steps(mx.gluon.HybridBlock):
    """So many steps; the state is added to at each, and never goes through a contraction."""

    def __init__(self, count):
        super().__init__()
        self.count = count
        with self.name_scope():
            self.dense = mx.gluon.nn.Dense(4, in_units=4)

    def hybrid_forward(self, F, x):
        state = x
        for _ in range(self.count):
            state = F.tanh(state + F.sigmoid(self.dense(F.tanh(state))))
        return state


def ops_met(monkeypatch, count):
    """How many operations fuse-attention looks at in a network of so many steps."""
    net = Steps(count)
    net.initialize()
    module = Traced(trace_call(net, [mx.nd.ones((3, 4))], False), ()).optimize().module
    for each in (*pipeline.structured_passes("llvm"), *pipeline.LOOPS):
        each.apply(Context(), module)
    met, loops_of = [], contraction_chains.operation_loops
    monkeypatch.setattr(contraction_chains, "operation_loops", lambda op: met.append(op) or loops_of(op))
    FuseAttention().apply(Context(), module)
    monkeypatch.undo()
    return len(met)


def test_the_search_is_linear_in_the_steps(monkeypatch):
    few, many = (ops_met(monkeypatch, count) for count in (40, 160))
    assert 0 < few < many < 5 * few


class Normalized(mx.gluon.HybridBlock):
    """Rows are normalized between two contractions, and added to what the first one is of."""

    def __init__(self, norm):
        super().__init__()
        self.norm = norm
        with self.name_scope():
            self.first, self.second = (mx.gluon.nn.Dense(4, in_units=4, flatten=False) for _ in range(2))
            self.layer = mx.gluon.nn.LayerNorm(in_channels=4)

    def hybrid_forward(self, F, x):
        y = x + self.first(x)
        return self.second(F.softmax(y, axis=-1) if self.norm == "softmax" else self.layer(y))


@pytest.mark.parametrize(
    ("net", "shape", "target"),
    crossed(
        2,
        [Steps(1), Steps(2), Steps(3), Normalized("layer"), Normalized("softmax")],
        [(3, 4), (4, 4), (1, 4)],
        ["llvm", "numpy"],
    ),
    ids=lambda value: repr(value) if isinstance(value, mx.gluon.HybridBlock) else str(value),
)
def test_what_is_added_to_its_own_operand_is_no_attention(net, shape, target, monkeypatch):
    """There two loops of a contraction are one axis of what follows; eager results are the oracle."""
    for module in (targets, trace_key, warm_start):
        monkeypatch.setattr(module, "OPTIONS", dataclasses.replace(module.OPTIONS, target=target))
    net.initialize(mx.init.Xavier(), force_reinit=True)
    x = mx.nd.array(np.random.default_rng(1).normal(size=shape))
    x.attach_grad()
    found = []
    for active in (False, True):
        net.hybridize(active)
        with mx.autograd.record():
            y = net(x)
        y.backward()
        found.append((y.asnumpy(), x.grad.asnumpy()))
    for eager, compiled in zip(*found, strict=True):
        np.testing.assert_allclose(compiled, eager, rtol=1e-5, atol=1e-6)

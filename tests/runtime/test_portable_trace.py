"""Traces that another process reads: what they compute, the keys of their graphs, and users' lines are the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import hybridc as mx
from hybridc import nd
from hybridc.compile.background.portable_trace import PortableTrace, portable
from hybridc.compile.compiled_graph import replay
from hybridc.compile.stages import Traced
from hybridc.compile.trace_key import key_of
from hybridc.ground.serialize import NotWritable, from_bytes, to_bytes
from hybridc.tools.check_op.case import each_sample
from hybridc.tools.check_op.check_compiled import OperatorNet
from hybridc.trace.tracer import Trace, trace_call
from tests.ops.samples import each


def sent(traced: Traced) -> bytes:
    """What another process gets."""
    return to_bytes(portable(traced, "key"))


def received(data: bytes) -> Traced:
    """What it makes of that."""
    return from_bytes(PortableTrace, data).traced()


def outputs(trace: Trace, arrays: list[nd.NDArray]) -> list[bytes]:
    """What a trace computes: bits."""
    data = iter(arrays)
    key = nd.NDArray(np.array([3, 5], np.uint64))
    inputs = [key if role == "key" else next(data).copy() for role in trace.roles]
    with np.errstate(all="ignore"):
        return [y.asnumpy().tobytes() for y in replay(trace, inputs)]


@each(each_sample, every=4)
def test_every_operator(case):
    arrays = [nd.ones((1,)), *[nd.NDArray(x) for x in case.arrays()]]
    traced = Traced(trace_call(OperatorNet(case.operator()), arrays, training=case.training))
    try:
        key = key_of(traced)
    except NotWritable:
        return  # whose graph no cache keeps
    read = received(sent(traced))
    assert key_of(read) == key
    assert [str(node.location) for node in read.trace.nodes] == [str(node.location) for node in traced.trace.nodes]
    assert outputs(read.trace, arrays) == outputs(traced.trace, arrays)


class Steps(mx.gluon.HybridBlock):
    """Loops in loops, a mutated input, a number that varies, random numbers."""

    def __init__(self):
        super().__init__()
        self.rate = 0.5
        self.norm = mx.gluon.nn.BatchNorm(in_channels=4)

    def hybrid_forward(self, F, x):
        def step(row, state):
            state = F.contrib.while_loop(
                lambda s: F.sum(s) < 5, lambda s: ([], s + F.topk(row, k=1)[0]), state, max_iterations=3
            )[1]
            return state * self.rate, state

        x = F.Dropout(self.norm(x), p=0.3)
        return F.contrib.foreach(step, x, F.zeros_like(x[0]))[0]


def test_lines_of_graphs_inside_operators():
    net = Steps()
    net.initialize()
    traced = Traced(trace_call(net, [nd.ones((3, 4))], True), (0,), heads=(0,))
    data, lines = sent(traced), [str(step.location) for step in inner(traced)]
    for step in inner(traced):
        step.location = None  # in this process equal operators are one
    read = received(data)
    assert (read.grads, read.heads, read.trace.updates) == ((0,), (0,), traced.trace.updates)
    assert read.trace.name == traced.trace.name
    assert [str(step.location) for step in inner(read)] == lines
    assert {step.location.line for step in inner(read) if step.op.NAME.endswith("topk")} == {line_of("F.topk(")}


def inner(traced):
    """The operators of the graphs inside operators."""
    bodies = [value for node in traced.trace.nodes for value in node.op.attrs.values() if hasattr(value, "steps")]
    found = []
    while bodies:
        steps = bodies.pop().steps
        found += steps
        bodies += [value for step in steps for value in step.op.attrs.values() if hasattr(value, "steps")]
    return found


def line_of(text):
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)

"""A trace as data that another process reads, to compile it into the disk cache."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from hybridc.compile.definitions import is_own
from hybridc.compile.stages import Traced
from hybridc.dialects.body import Body, BodyStep
from hybridc.dialects.operator import Operator
from hybridc.ground.location import Location
from hybridc.ground.records import dataclass
from hybridc.ground.serialize import NotWritable
from hybridc.trace.tracer import Trace, TraceNode


class PortableInput(NamedTuple):
    """An input of a trace."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    role: str


class PortableNode(NamedTuple):
    """An operator, the indices of its input values, and the user's lines: its own, and those of graphs inside it."""

    op: Operator
    inputs: list[int]
    location: Location | None
    inner: list[Location | None]


@dataclass
class PortableTrace:
    """A :class:`~hybridc.compile.stages.Traced` of hybridc's own operators, and the ``identity`` of its graph.

    Values have indices: first the ``inputs``, then the outputs of each node. ``results`` and ``updates`` are the
    trace's outputs and updates; ``grads``, ``donated`` and ``heads`` are as there.
    """

    identity: str
    name: str
    training: bool
    inputs: list[PortableInput]
    nodes: list[PortableNode]
    results: list[int]
    updates: list[int]
    grads: tuple[int, ...]
    donated: tuple[tuple[int, ...], ...]
    heads: tuple[int, ...] | None

    def traced(self) -> Traced:
        """The trace, made anew: shapes and dtypes of results are inferred."""
        trace = Trace(self.training)
        trace.name = self.name
        values = [trace.leaf(leaf.name, leaf.shape, leaf.dtype, leaf.role) for leaf in self.inputs]
        for node in self.nodes:
            for step, location in zip(_inner_steps(node.op), node.inner, strict=True):
                step.location = location
            values += trace.emit(node.op, [values[i] for i in node.inputs], node.location)
        trace.outputs = [values[i] for i in self.results]
        trace.updates = list(self.updates)
        donated = tuple([(argument, result) for argument, result in self.donated])
        return Traced(trace, self.grads, (), donated, self.heads)


def portable(traced: Traced, identity: str) -> PortableTrace:
    """A trace as data; NotWritable if another process would not know one of its operators."""
    trace = traced.trace
    numbers = {id(symbol): i for i, symbol in enumerate(trace.leaves)}
    nodes: list[PortableNode] = []
    for node in trace.nodes:
        nodes.append(_node(node, [numbers[id(s)] for s in node.inputs]))
        for symbol in node.outputs:
            numbers[id(symbol)] = len(numbers)
    return PortableTrace(
        identity,
        trace.name,
        trace.training,
        [
            PortableInput(s.name, tuple(map(int, s.shape)), s._dtype, role)
            for s, role in zip(trace.leaves, trace.roles, strict=True)
        ],
        nodes,
        [numbers[id(s)] for s in trace.outputs],
        trace.updates,
        traced.grads,
        traced.donated,
        traced.heads,
    )


def _node(node: TraceNode, inputs: list[int]) -> PortableNode:
    if not is_own(type(node.op)):
        raise NotWritable(f"{node.op.NAME}, an operator of yours")
    return PortableNode(node.op, inputs, node.location, [step.location for step in _inner_steps(node.op)])


def _inner_steps(op: Operator) -> Iterator[BodyStep]:
    """The operators of the graphs inside an operator, at any depth."""
    for value in op.key[1:]:
        if isinstance(value, Body):
            for step in value.steps:
                yield step
                yield from _inner_steps(step.op)

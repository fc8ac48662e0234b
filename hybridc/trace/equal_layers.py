"""Equal layers: operators that repeat with other parameters are one graph, which is compiled once.

A deep network has the same layers again and again, as an encoder's stack. Layers are equal as the steps of a loop are
(:mod:`hybridc.trace.roll_steps`): by their operators, and by what each reads of its own layer and of the one before.
Each becomes one node, an ``equal_layer``; the kernels of its graph are formed once, and called in its place
(:mod:`hybridc.compile.inlined_layers`), so that memory is planned for the network as a whole.

Layers of images are left as they are: their kernels keep images in an order of axes of their own, which would be turned
at both ends of each.
"""

from __future__ import annotations

import copy

from hybridc.dialects.control.layer import EqualLayer
from hybridc.trace.roll_steps import EqualSteps, Nodes, beginnings, runs
from hybridc.trace.traced import TracedSymbol
from hybridc.trace.tracer import Trace, TraceNode, live_nodes

# The fewest layers, and the fewest operators of one: to compile fewer is no more work than to look for them.
LAYERS, OPERATORS = 4, 8


def with_equal_layers(trace: Trace) -> Trace:
    """The trace with its equal layers as nodes; itself, if it has none."""
    while len(trace.nodes) >= LAYERS * OPERATORS and (layered := _replaced(trace)) is not None:
        trace = layered
    return trace


def _replaced(trace: Trace) -> Trace | None:
    """A trace in which the longest run of equal layers is replaced; None without any."""
    nodes = Nodes.of(trace)
    for run in runs(nodes, LAYERS):
        if run.period < OPERATORS:
            continue
        for begin in beginnings(nodes, run, LAYERS, LAYERS):
            layers = EqualSteps.layers(nodes, begin, run.period, (run.end - begin) // run.period)
            if layers is not None:
                return _with_nodes(trace, nodes, layers)
    return None


def _with_nodes(trace: Trace, nodes: Nodes, layers: EqualSteps) -> Trace:
    before, after = nodes.rest[: layers.begin], nodes.rest[layers.end :]
    read = {id(x) for node in after for x in node.inputs} | {id(x) for x in trace.outputs}
    values = {place: layers.values(place) for place in layers.places()}
    places = [*layers.states, *[p for p in values if p not in layers.states and any(id(x) in read for x in values[p])]]
    data = [("row", i) for i in range(len(layers.rows))]
    body, shared = layers.body_of(data, range(layers.period), places)
    inputs = [
        *layers.rows,
        *[[x] * layers.steps for x in layers.states.values()],
        *[[x] * layers.steps for x in shared],
    ]
    parameters = {id(x) for x, role in zip(trace.leaves, trace.roles, strict=True) if role == "parameter"}
    fixed = tuple([i for i, of_all in enumerate(inputs) if all(id(x) in parameters for x in of_all)])
    op = EqualLayer.bind(body=body, fixed=fixed)
    layered = copy.copy(trace)
    layered.nodes = []
    new: dict[int, TracedSymbol] = {}
    state: list[TracedSymbol] = [*layers.states.values()]
    for k in range(layers.steps):
        rows = [of_all[k] for of_all in layers.rows]
        results = layered.emit(op, [*rows, *state, *shared], layers.body[0].location)
        state = results[: len(state)]
        new.update((id(values[place][k]), x) for place, x in zip(places, results, strict=True))
    rest = [_reading(node, new) for node in after]
    layered.outputs = [new.get(id(x), x) for x in trace.outputs]
    layered.nodes = live_nodes([*nodes.apart, *before, *layered.nodes, *rest], layered.outputs)
    return layered


def _reading(node: TraceNode, new: dict[int, TracedSymbol]) -> TraceNode:
    """A node that reads values in the place of others."""
    if not any(id(x) in new for x in node.inputs):
        return node
    changed = TraceNode(node.op, [new.get(id(x), x) for x in node.inputs], node.location)
    changed.outputs = node.outputs
    return changed

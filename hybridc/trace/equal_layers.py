"""Equal layers: operators that repeat with other parameters are one graph, which is compiled once.

A deep network has the same layers again and again, as an encoder's stack. Layers are equal as the steps of a loop are
(:mod:`hybridc.trace.roll_steps`): by their operators, and by what each reads of its own layer and of the one before.
Each becomes one node, an ``equal_layer``; the kernels of its graph are formed once, and called in its place
(:mod:`hybridc.compile.inlined_layers`), so that memory is planned for the network as a whole.

Kernels of convolutions keep images with their channels last, whatever order the user chose. So between layers of images
these are turned to that, by transposes that become views; what computes with other ranks is left as it is.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

from hybridc.dialects.body import Body, BodyStep
from hybridc.dialects.control.layer import EqualLayer
from hybridc.dialects.operator_registry import operator
from hybridc.trace.roll_steps import EqualSteps, Nodes, beginnings, runs
from hybridc.trace.traced import TracedSymbol
from hybridc.trace.tracer import Trace, TraceNode, live_nodes

# The fewest layers, and the fewest operators of one: to compile fewer is no more work than to look for them.
LAYERS, OPERATORS = 4, 6
# Images with channels last of such with channels first, and the other way round.
LAST = operator("hybrid.transpose").bind(axes=(0, 2, 3, 1))
FIRST = operator("hybrid.transpose").bind(axes=(0, 3, 1, 2))


def with_equal_layers(trace: Trace) -> Trace:
    """The trace with its equal layers as nodes; itself, if it has none."""
    while len(trace.nodes) >= LAYERS * OPERATORS and (layered := _replaced(trace)) is not None:
        trace = layered
    return trace


def _replaced(trace: Trace) -> Trace | None:
    """A trace in which the longest run of equal layers is replaced; None without any.

    Layers had better begin with what several operators read, as a residual connection and what it is around: that is an
    array anyway. Else a kernel could have ended with an operator that is in the next layer now.
    """
    nodes = Nodes.of(trace)
    for run in runs(nodes, LAYERS):
        if run.period < OPERATORS:
            continue
        possible: list[EqualSteps] = []
        for begin in beginnings(nodes, run, LAYERS, LAYERS):
            layers = EqualSteps.layers(nodes, begin, run.period, (run.end - begin) // run.period)
            if layers is None:
                continue
            if layers.reads_of_states() > len(layers.states):
                return _with_nodes(trace, nodes, layers)
            possible.append(layers)
        if possible:
            return _with_nodes(trace, nodes, possible[0])
    return None


def _with_nodes(trace: Trace, nodes: Nodes, layers: EqualSteps) -> Trace:
    """The trace with a node for each of these layers."""
    before, after = nodes.rest[: layers.begin], nodes.rest[layers.end :]
    read = {id(x) for node in after for x in node.inputs} | {id(x) for x in trace.outputs}
    values = {place: layers.values(place) for place in layers.places()}
    places = [*layers.states, *[p for p in values if p not in layers.states and any(id(x) in read for x in values[p])]]
    data = [("row", i) for i in range(len(layers.rows))]
    body, shared = layers.body_of(data, range(layers.period), places)
    parameters = {id(x) for x, role in zip(trace.leaves, trace.roles, strict=True) if role == "parameter"}
    # The inputs of a layer: rows, states, which those before it compute, and what all layers read.
    first, last = len(layers.rows), len(layers.rows) + len(layers.states)
    fixed = [i for i, row in enumerate(layers.rows) if all(id(x) in parameters for x in row)]
    fixed += [i for i, x in enumerate(shared, last) if id(x) in parameters]
    has_images = _has_channels_first(layers)
    images = [has_images and len(values[place][0].shape) == 4 for place in places]
    if any(images):
        body = _turned(body, [i for i, image in zip(range(first, last), images, strict=False) if image], images)
    op = EqualLayer.bind(body=body, fixed=tuple(fixed))
    layered = copy.copy(trace)
    layered.nodes = []
    new: dict[int, TracedSymbol] = {}
    where = layers.body[0].location
    state = [
        layered.emit(LAST, [x], where)[0] if image else x
        for x, image in zip(layers.states.values(), images, strict=False)
    ]
    for k in range(layers.steps):
        rows = [of_all[k] for of_all in layers.rows]
        results = layered.emit(op, [*rows, *state, *shared], where)
        state = results[: len(state)]
        for place, x, image in zip(places, results, images, strict=True):
            if id(values[place][k]) in read:
                new[id(values[place][k])] = layered.emit(FIRST, [x], where)[0] if image else x
    rest = [_reading(node, new) for node in after]
    layered.outputs = [new.get(id(x), x) for x in trace.outputs]
    layered.nodes = live_nodes([*nodes.apart, *before, *layered.nodes, *rest], layered.outputs)
    return layered


def _has_channels_first(layers: EqualSteps) -> bool:
    """Whether a layer has operators in the layout NCHW."""
    return any(node.op.attrs.get("layout", "") in (None, "NCHW") for node in layers.body)


def _turned(body: Body, arguments: Sequence[int], results: Sequence[bool]) -> Body:
    """A body for images with channels last, which are some of its arguments and results."""
    numbers, count = dict(enumerate(range(body.arguments))), body.arguments
    steps: list[BodyStep] = []
    for i in arguments:
        steps.append(BodyStep(FIRST, [i], count))
        numbers[i] = count
        count += 1
    for step in body.steps:
        steps.append(step.moved([numbers[i] for i in step.inputs], count))
        numbers.update((old, count + k) for k, old in enumerate(step.outputs))
        count += len(step.outputs)
    last: list[int] = []
    for image, i in zip(results, body.results, strict=True):
        if image:
            steps.append(BodyStep(LAST, [numbers[i]], count))
            count += 1
        last.append(count - 1 if image else numbers[i])
    return Body(body.arguments, steps, last)


def _reading(node: TraceNode, new: dict[int, TracedSymbol]) -> TraceNode:
    """A node that reads values in the place of others."""
    if not any(id(x) in new for x in node.inputs):
        return node
    changed = TraceNode(node.op, [new.get(id(x), x) for x in node.inputs], node.location)
    changed.outputs = node.outputs
    return changed

"""Loops, branches and recurrent layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hybridc.dialects.control.branch import Branch
from hybridc.dialects.control.layer import EqualLayer
from hybridc.dialects.control.loop import ForLoop, WhileLoop
from hybridc.dialects.control.rnn import GATES, Rnn
from hybridc.interchange.onnx.writing.onnx_value import BOOL, INT64, OnnxValue
from hybridc.interchange.onnx.writing.translate import Result, Translator, translation


@translation(EqualLayer)
def equal_layer(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """The operators of the layer."""
    return tuple(t.write_body(op.graph, inputs))


def truth(t: Translator, x: OnnxValue) -> OnnxValue:
    """Whether a number is not zero, as a value without axes."""
    return t.moves.reshape(t.writer.cast(x, BOOL), ())


@translation(Branch)
def branch(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """If: both graphs read the values around them."""
    results = t.results_of(op, inputs)
    graphs: list[Any] = []
    condition = truth(t, inputs[0])
    for name, body in (("then", op.then), ("otherwise", op.otherwise)):
        with t.writer.inner_graph(name) as graph:
            found = t.write_body(body, inputs)
            graphs.append(graph.proto([_in(t, x, r) for x, r in zip(found, results, strict=True)]))
    given = [(r.shape, r.dtype) for r in results]
    return tuple(t.writer.results("If", [condition], given, then_branch=graphs[0], else_branch=graphs[1]))


def _in(t: Translator, x: OnnxValue, result: Result) -> OnnxValue:
    """A value in the shape and dtype of a result."""
    return t.writer.cast(t.moves.broadcast(x, result.shape), result.dtype)


@translation(ForLoop)
def for_loop(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """Loop, which takes the rows of the data: ONNX's Scan reads no values around it in some engines."""
    if op.saves:
        return None
    data = [_turned(t, x) for x in inputs[: op.data]] if op.backwards else inputs[: op.data]
    given = [*data, *inputs[op.data :]]
    if op.counted:
        count = t.moves.reshape(t.writer.cast(inputs[-1 - bool(op.counters)], INT64), ())
    else:
        count = t.writer.integer_scalar(op.count([x.shape for x in inputs]))
    found = _loop(t, op, given, count, None, is_counted=op.counted)
    turned = [_turned(t, y) if op.backwards else y for y in found[: op.outputs]]
    return (*turned, *found[op.outputs :])


def _turned(t: Translator, x: OnnxValue) -> OnnxValue:
    """The rows from the last to the first."""
    begin = (x.shape[0] - 1, *[0] * (x.ndim - 1))
    return t.moves.slice(x, begin, (-1, *[1] * (x.ndim - 1)), x.shape)


@translation(WhileLoop)
def while_loop(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """Loop, which asks before the first step and after each."""
    if op.saves:
        return None

    def ask(values: Sequence[OnnxValue]) -> OnnxValue:
        return truth(t, t.write_body(op.condition, values)[0])

    return _loop(t, op, inputs, t.writer.integer_scalar(op.most), ask, is_counted=True)


def _loop(
    t: Translator,
    op: Any,
    inputs: Sequence[OnnxValue],
    most: OnnxValue,
    ask: Callable[[Sequence[OnnxValue]], OnnxValue] | None,
    is_counted: bool,
) -> Any:
    """Loop; if steps are counted, the rows of those that do not run are zeros, and their number may be a result."""
    results = t.results_of(op, inputs)
    first = op.rows_inside()
    data, states, read = inputs[:first], inputs[first : first + op.states], inputs[first + op.states :]
    after = results[op.outputs : op.outputs + op.states]
    before = [t.moves.broadcast(x, r.shape) for x, r in zip(states, after, strict=True)]
    begin = t.constant(np.asarray(True)) if ask is None else ask([*before, *read])
    with t.writer.inner_graph("step") as graph:
        number = graph.input("number", (), INT64)
        going = graph.input("goes_on", (), BOOL)
        counter = [graph.input("count", (), INT64)] if is_counted else []
        own = [graph.input("state", x.shape, x.dtype) for x in before]
        rows = [t.writer.node("Gather", [x, number], x.shape[1:], x.dtype, axis=0) for x in data]
        found = t.write_body(op.body, [*rows, *own, *read])
        ends = [_in(t, x, r) for x, r in zip(found[op.outputs :], after, strict=True)]
        stacked = [_in(t, x, Result(r.shape[1:], r.dtype)) for x, r in zip(found, results[: op.outputs], strict=False)]
        more = going if ask is None else ask([*ends, *read])
        proto = graph.proto([more, *[x + 1 for x in counter], *ends, *stacked])
    count = [t.constant(np.asarray(0, np.int64))] if is_counted else []
    outputs = [*[((), INT64)] * is_counted, *[(r.shape, r.dtype) for r in (*after, *results[: op.outputs])]]
    values = t.writer.results("Loop", [most, begin, *count, *before], outputs, body=proto)
    ran, values = values[:is_counted], values[is_counted:]
    outs = [_padded(t, y, ran[0]) if is_counted else y for y in values[op.states :]]
    return (*outs, *values[: op.states], *ran)


def _padded(t: Translator, x: OnnxValue, ran: OnnxValue) -> OnnxValue:
    """The rows of steps that ran, and zeros: as many as the shape says."""
    missing = t.writer.integer_scalar(x.shape[0]) - ran
    ends = t.moves.concat(
        [
            t.constant(np.zeros(x.ndim, np.int64)),
            t.moves.reshape(missing, (1,)),
            t.constant(np.zeros(x.ndim - 1, np.int64)),
        ],
        0,
    )
    wide = t.writer.cast(x, np.int32) if x.dtype == BOOL else x
    padded = t.writer.node("Pad", [wide, ends], x.shape, wide.dtype)
    shaped = t.writer.node("Reshape", [padded, t.writer.integers(x.shape)], x.shape, wide.dtype)
    return t.writer.cast(shaped, x.dtype)


# --- recurrent layers -------------------------------------------------------------------------------------------------

# The operator of each kind of cell, and for each of its gates the place among MXNet's.
_CELLS: dict[str, tuple[str, tuple[int, ...]]] = {
    "rnn_relu": ("RNN", (0,)),
    "rnn_tanh": ("RNN", (0,)),
    "lstm": ("LSTM", (0, 3, 1, 2)),
    "gru": ("GRU", (1, 0, 2)),
}


@translation(Rnn)
def rnn(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """RNN, LSTM or GRU for each layer; with a projection, clipped cells or dropout it decomposes."""
    if op.projection_size is not None or op.lstm_state_clip_min is not None or op.drops:
        return None
    data, vector, state, *more = inputs
    lengths = t.writer.cast(more.pop(), np.int32) if op.use_sequence_length else None
    states = [state, *more]
    taken = _Parameters(t, op, vector)
    weights = [(taken.gates(x), taken.gates(h)) for x, h, _ in op.weights(data.shape[2])]
    biases = [t.moves.concat([taken.gates((x[0],)), taken.gates((x[0],))], 0) for x, _, _ in op.weights(data.shape[2])]
    ends: list[list[OnnxValue]] = []
    for layer in range(op.num_layers):
        rows = range(layer * op.directions, (layer + 1) * op.directions)
        parts = [
            _stacked(t, [weights[i][0] for i in rows]),
            _stacked(t, [weights[i][1] for i in rows]),
            _stacked(t, [biases[i] for i in rows]),
        ]
        before = [_rows(t, x, rows) for x in states]
        data, last = _layer(t, op, data, parts, lengths, before)
        ends.append(last)
    if not op.state_outputs:
        return data
    return (data, *[t.moves.concat(list(each), 0) for each in zip(*ends, strict=True)])


def _layer(
    t: Translator,
    op: Any,
    data: OnnxValue,
    parts: Sequence[OnnxValue],
    lengths: OnnxValue | None,
    before: Sequence[OnnxValue],
) -> tuple[OnnxValue, list[OnnxValue]]:
    """A layer: its results at all steps, and its last states."""
    operator, _ = _CELLS[op.mode]
    (steps, batch), size, directions = data.shape[:2], op.state_size, op.directions
    more: dict[str, Any] = {"gru": {"linear_before_reset": 1}, "rnn_relu": {"activations": ["Relu"] * directions}}.get(
        op.mode, {}
    )
    y, *last = t.writer.results(
        operator,
        [data, *parts, lengths, *before],
        [((steps, directions, batch, size), data.dtype), *[(x.shape, x.dtype) for x in before]],
        hidden_size=size,
        direction="bidirectional" if directions == 2 else "forward",
        **more,
    )
    joined = t.moves.transpose(y, (0, 2, 1, 3))
    return t.moves.reshape(joined, (steps, batch, directions * size)), last


def _stacked(t: Translator, xs: Sequence[OnnxValue]) -> OnnxValue:
    """Arrays along a new first axis."""
    return t.moves.concat([t.moves.reshape(x, (1, *x.shape)) for x in xs], 0)


def _rows(t: Translator, x: OnnxValue, rows: range) -> OnnxValue:
    begin = (rows.start, *[0] * (x.ndim - 1))
    return t.moves.slice(x, begin, (1,) * x.ndim, (len(rows), *x.shape[1:]))


class _Parameters:
    """Takes arrays out of the vector of parameters, one after the other, with the gates in ONNX's order."""

    def __init__(self, t: Translator, op: Any, vector: OnnxValue) -> None:
        self.t = t
        self.order = _CELLS[op.mode][1]
        self.count = GATES[op.mode]
        self.vector = vector
        self.begin = 0

    def gates(self, shape: tuple[int, ...]) -> OnnxValue:
        """The next array, whose first axis has a part for each gate."""
        part = (shape[0] // self.count, *shape[1:])
        size = int(np.prod(part))
        pieces: list[OnnxValue] = []
        for gate in self.order:
            flat = self.t.moves.slice(self.vector, (self.begin + gate * size,), (1,), (size,))
            pieces.append(self.t.moves.reshape(flat, part))
        self.begin += size * self.count
        return self.t.moves.concat(pieces, 0)

"""``RNN``: layers of recurrent networks, as MXNet's fused operator: matmuls for all steps at once, then a loop.

The vector ``parameters`` has all weights, then all biases; by layer, then by direction: input to hidden, hidden to
hidden, and, of projections, hidden to result (which has no bias).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from hybridc.dialects.control.inner_graph import new_trace
from hybridc.dialects.nn.dropout import Dropout
from hybridc.dialects.operator import Bad, Composite, Sample, attribute, register
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.dtypes import is_float
from hybridc.errors import AttributeValueError, DTypeError, ShapeError
from hybridc.ground.hooks import HOOKS
from hybridc.ground.nesting import as_list

# Gates of each kind of cell: so many times the state's size are the rows of weights.
GATES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}
# Their names in those of weights that are apart.
GATE_NAMES = {"rnn_relu": ("",), "rnn_tanh": ("",), "lstm": ("_i", "_f", "_c", "_o"), "gru": ("_r", "_z", "_o")}


@register("hybrid.rnn", "RNN")
class Rnn(Composite):
    """Layers of an Elman network (``rnn_relu``, ``rnn_tanh``), of LSTM or GRU, over sequences

    Results are the states of the last layer at all steps ``(steps, batch, directions * size)``; if ``state_outputs``,
    also the last states of all layers, and of LSTM their cells.

    Examples
    --------
    >>> x = mx.nd.ones((3, 1, 2))  # steps, batch, features
    >>> weights = mx.nd.full(4 * 4 * (2 + 4 + 2), 0.1)  # of 4 gates: from the input, from the state, and two biases
    >>> h, c = mx.nd.zeros((1, 1, 4)), mx.nd.zeros((1, 1, 4))
    >>> y, h, c = mx.nd.RNN(x, weights, h, c, state_size=4, num_layers=1, mode="lstm", state_outputs=True)
    >>> y.shape, h.shape, c.shape
    ((3, 1, 4), (1, 1, 4), (1, 1, 4))
    >>> print(y.asnumpy()[:, 0, 0].round(3))
    [0.134 0.232 0.302]
    """

    INPUT_DOCS: ClassVar = {
        "data": "(steps, batch, features)",
        "parameters": "all weights and biases, one after the other",
        "state": "(layers * directions, batch, size): the states before the first step",
        "state_cell": "(layers * directions, batch, size): the cells of LSTM",
        "sequence_length": "(batch,): the steps of each sequence; others give 0, and leave the states",
    }
    INPUTS = ("data", "parameters", "state", "state_cell", "sequence_length")
    OUTPUTS = ("output", "state_output", "statecell_output")
    SAME_DTYPE = False
    TRAIN_MODE = True

    state_size: int = attribute(doc="the size of a state", low=1)
    num_layers: int = attribute(doc="the number of layers", low=1)
    bidirectional: bool = attribute(False, "each layer also runs from the last step to the first")
    mode: str = attribute(doc="the kind of cell", enum=tuple(GATES))
    p: float = attribute(0.0, "the probability of 0 in what a layer gives to the next, in training", low=0, high=1)
    state_outputs: bool = attribute(False, "return the last states, too")
    projection_size: int | None = attribute(None, "the size of what an LSTM gives on, a projection of its state")
    lstm_state_clip_min: float | None = attribute(None, "the least value of a cell")
    lstm_state_clip_max: float | None = attribute(None, "the greatest value of a cell")
    lstm_state_clip_nan: bool = attribute(False, "cells that are nan are clipped, too")
    use_sequence_length: bool = attribute(False, "sequences have lengths")
    train: bool | None = attribute(None, "internal: whether this is for training")
    draw: int = attribute(0, "internal: tells the uses in one graph apart")

    def check(self) -> None:
        if self.projection_size is not None and (self.mode != "lstm" or self.projection_size < 1):
            raise AttributeValueError(
                f"RNN: projection_size={self.projection_size} must be at least 1, and mode 'lstm', got {self.mode!r}"
            )
        clips = self.lstm_state_clip_min, self.lstm_state_clip_max
        if (clips[0] is None) != (clips[1] is None) or (clips[0] is not None and self.mode != "lstm"):
            raise AttributeValueError(
                f"RNN: lstm_state_clip_min and lstm_state_clip_max go together, with mode 'lstm', got {clips[0]}, "
                f"{clips[1]} and {self.mode!r}"
            )
        self.directions: int = 1 + self.bidirectional
        self.width: int = self.projection_size or self.state_size  # of what a layer gives on
        self.drops: bool = self.p > 0 and self.num_layers > 1 and bool(self.train)
        if self.drops:  # with these attributes
            vars(self)["DRAWS"] = True

    # --- inference -----------------------------------------------------------------------------------------

    def input_names(self) -> tuple[str, ...]:
        given = {"state_cell": self.mode == "lstm", "sequence_length": self.use_sequence_length}
        return tuple(name for name in self.INPUTS if given.get(name, True))

    def num_visible_outputs(self) -> int:
        """The states at all steps, perhaps the last states."""
        return 1 + self.state_outputs * (1 + (self.mode == "lstm"))

    def num_outputs(self) -> int:
        """And the factors of dropout."""
        return self.num_visible_outputs() + self.drops

    def nnvm_outputs(self) -> int:
        """In files as here."""
        return self.num_visible_outputs()

    def weights(self, features: int) -> Iterator[tuple[Shape, Shape, Shape | None]]:
        """By layer and direction, the shapes of the weights: of inputs, of states, of the projection."""
        rows = GATES[self.mode] * self.state_size
        for layer in range(self.num_layers):
            columns = features if not layer else self.width * self.directions
            projected = None if self.projection_size is None else (self.projection_size, self.state_size)
            for _ in range(self.directions):
                yield (rows, columns), (rows, self.width), projected

    def parameter_count(self, features: int) -> int:
        """The size of ``parameters``."""
        count = 0
        for x, h, r in self.weights(features):
            count += x[0] * x[1] + h[0] * h[1] + (0 if r is None else r[0] * r[1]) + 2 * x[0]
        return count

    def features_of(self, count: int) -> int:
        """The number of features for which ``parameters`` has this size."""
        each = GATES[self.mode] * self.state_size * self.directions
        features, rest = divmod(count - self.parameter_count(0), each)
        if rest or features < 1:
            raise ShapeError(
                f"RNN: no number of features has {count} parameters, for {self.num_layers} layers of {self.mode}, "
                f"state_size={self.state_size}, bidirectional={self.bidirectional}"
            )
        return features

    def named_parts(self, features: int) -> Iterator[tuple[str, int, Shape]]:
        """The parts of ``parameters``, without projection: name (``l0_i2h_f_weight``), index and shape of each."""
        begin, biases = 0, list[str]()
        for i, (x, h, _) in enumerate(self.weights(features)):
            layer = f"{'lr'[i % self.directions]}{i // self.directions}"
            for group, (_, columns) in (("i2h", x), ("h2h", h)):
                for gate in GATE_NAMES[self.mode]:
                    yield f"{layer}_{group}{gate}_weight", begin, (self.state_size, columns)
                    biases.append(f"{layer}_{group}{gate}_bias")
                    begin += self.state_size * columns
        for name in biases:
            yield name, begin, (self.state_size,)
            begin += self.state_size

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        data, parameters, state, *more = shapes[: len(self.input_names())]
        if len(data) != 3:
            raise ShapeError(f"RNN: data must be (steps, batch, features), got shape {data}")
        steps, batch, features = data
        count = self.parameter_count(features)
        if features != -1 and parameters not in ((count,), (-1,)):
            raise ShapeError(
                f"RNN: parameters must have shape ({count},) for {features} features, {self.num_layers} layers of "
                f"{self.mode} and state_size={self.state_size}, got {parameters}"
            )
        layers = self.num_layers * self.directions
        wanted = [(layers, batch, self.width), *[(layers, batch, self.state_size)] * (self.mode == "lstm")]
        wanted += [(batch,)] * self.use_sequence_length
        for name, got, shape in zip(self.input_names()[2:], (state, *more), wanted, strict=True):
            if len(got) != len(shape) or any(a != b for a, b in zip(got, shape, strict=True) if -1 not in (a, b)):
                raise ShapeError(f"RNN: {name} must have shape {shape}, got {got}")
        result = (steps, batch, self.width * self.directions)
        outs = [result, *wanted[: self.num_visible_outputs() - 1]]
        outs += [(self.num_layers - 1, *result)] * self.drops
        return [data, (count,) if features != -1 else parameters, *wanted, *shapes[len(self.input_names()) :]], outs

    def complete_shapes(self, shapes: list[Shape | None], outputs: list[Shape | None]) -> list[Shape | None]:
        """Infer the other inputs from the shape of ``data``."""
        data = shapes[0]
        if data is None or len(data) != 3:
            return shapes
        layers = self.num_layers * self.directions
        known: list[Shape | None] = [data, (self.parameter_count(data[2]),), (layers, data[1], self.width)]
        known += [(layers, data[1], self.state_size)] * (self.mode == "lstm") + [(data[1],)] * self.use_sequence_length
        return [k if s is None else s for k, s in zip(known, shapes, strict=False)]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        """All but lengths have one floating-point dtype."""
        given = dtypes[: 3 + (self.mode == "lstm")]
        if any(d != given[0] for d in given) or not is_float(given[0]):
            got = ", ".join(f"{n} is {d}" for n, d in zip(self.input_names(), given, strict=False))
            raise DTypeError(f"RNN: data, parameters and states must have one floating-point dtype, but {got}")
        return dtypes, [given[0]] * self.num_outputs()

    def eager(self, *arrays: Any) -> Any:
        self.infer_shape([x.shape for x in arrays])
        return super().eager(*arrays)

    # --- meaning -------------------------------------------------------------------------------------------

    def decompose(self, F: Any, *inputs: Any) -> Any:
        factors: Any = None
        given = inputs[: len(self.input_names())]
        if self.drops:
            data, key = inputs[0], inputs[-1]
            shape = (self.num_layers - 1, *data.shape[:2], self.width * self.directions)
            dropout = Dropout.bind(p=self.p, mode="always", draw=self.draw)
            _, factors = dropout.decompose(F, F.ones(shape=shape, dtype=data.dtype), key)
        found = self._from_vector(F, given, factors)
        results = [*found, factors] if self.drops else list(found)
        return tuple(results) if len(results) > 1 else results[0]

    def gradient_of(self, needed: Sequence[bool], F: Any, *values: Any) -> Any:
        """By the layers' operators; what was dropped is dropped again."""
        visible, count = self.num_visible_outputs(), len(self.input_names())
        ograds, inputs = values[:visible], list(values[visible : visible + count])
        more = [values[-1]] if self.drops else []
        trace = new_trace()
        leaves = [trace.leaf(f"x{i}", x.shape, x.dtype, "value") for i, x in enumerate([*inputs, *more])]
        with trace.active():
            results = self._from_vector(HOOKS.symbols(), leaves[:count], leaves[-1] if self.drops else None)
        body = trace.body(leaves, results)
        return body.gradients(F, ograds, [*inputs, *more], [*needed[:count], *[False] * len(more)])[:count]

    def _from_vector(self, F: Any, inputs: Sequence[Any], factors: Any) -> tuple[Any, ...]:
        """The visible results, given the inputs."""
        data, parameters, state, *more = inputs
        lengths = more.pop() if self.use_sequence_length else None
        taken = _Vector(F, parameters)
        shapes = list(self.weights(data.shape[2]))
        weights = [[taken(shape) for shape in each if shape is not None] for each in shapes]
        biases = [[taken((each[0][0],)) for _ in range(2)] for each in shapes]
        return self.layers(F, data, weights, biases, [state, *more], lengths, factors)

    def layers(
        self, F: Any, data: Any, weights: Sequence[list[Any]], biases: Sequence[list[Any]], states: Sequence[Any],
        lengths: Any = None, factors: Any = None,
    ) -> tuple[Any, ...]:  # fmt: skip
        """The visible results, given the weights by layer and direction, and the factors of dropout."""
        outs: list[Any] = []
        last: list[Any] = []
        last_cells: list[Any] = []
        for number, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
            layer, backwards = divmod(number, self.directions)
            if layer and not backwards and factors is not None:
                factor = F.slice_axis(factors, axis=0, begin=layer - 1, end=layer)
                data = data * F.reshape_to(factor, shape=factor.shape[1:])
            before = [_row(F, x, number) for x in states]
            given = _turned(F, data, lengths) if backwards else data
            out, after = self._direction(F, given, weight, bias, before, lengths)
            last.append(after[0])
            last_cells += after[1:]
            outs = [*outs, _turned(F, out, lengths)] if backwards else [out]
            if backwards or self.directions == 1:
                data = F.concat(*outs, dim=2) if backwards else out
        if not self.state_outputs:
            return (data,)
        ends = [F.stack(*last, axis=0), *([F.stack(*last_cells, axis=0)] if last_cells else [])]
        return (data, *ends)

    def _direction(
        self, F: Any, data: Any, weight: list[Any], bias: list[Any], states: list[Any], lengths: Any
    ) -> tuple[Any, list[Any]]:
        """One layer in one direction: its results at all steps, and its last states."""
        # COMPAT(mxnet): on CPUs it ignores the lengths of sequences, and the bounds of cells.
        rows = weight[0].shape[0]
        given = F.FullyConnected(data, weight[0], bias[0], num_hidden=rows, flatten=False)
        cell = _CELLS[self.mode]

        def step(x: Any, states: list[Any]) -> list[Any]:
            of_state = F.FullyConnected(states[0], weight[1], bias[1], num_hidden=rows)
            after = cell(self, F, x, of_state, states)
            if len(weight) > 2:
                after[0] = F.FullyConnected(after[0], weight[2], num_hidden=self.width, no_bias=True)
            return after

        if lengths is None:

            def plain(x: Any, states: list[Any]) -> tuple[Any, list[Any]]:
                after = step(x, states)
                return after[0], after

            return F.contrib.foreach(plain, given, states)
        steps, batch = data.shape[:2]
        index = F.reshape_to(F.arange(0, steps, dtype="float32"), shape=(steps, 1, 1))
        inside = F.broadcast_lesser(index, F.reshape_to(F.cast(lengths, "float32"), shape=(1, batch, 1)))

        def masked(each: list[Any], states: list[Any]) -> tuple[Any, list[Any]]:
            x, is_inside = each
            after = step(x, states)
            chosen = [
                F.where(F.broadcast_to(is_inside, shape=a.shape), a, b) for a, b in zip(after, states, strict=True)
            ]
            return F.where(F.broadcast_to(is_inside, shape=after[0].shape), after[0], F.zeros_like(after[0])), chosen

        return F.contrib.foreach(masked, [given, inside], states)

    def clipped(self, F: Any, cell: Any) -> Any:
        """The cells of LSTM in their bounds."""
        if self.lstm_state_clip_min is None or self.lstm_state_clip_max is None:
            return cell
        low, high = self.lstm_state_clip_min, self.lstm_state_clip_max
        made = F.clip(cell, low, high)
        return F.where(cell == cell, made, F.ones_like(cell) * low) if self.lstm_state_clip_nan else made

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        random = np.random.default_rng(5)
        found: list[Sample] = []
        for mode, more in [
            ("rnn_tanh", {"num_layers": 2}),
            ("rnn_relu", {"bidirectional": True}),
            ("lstm", {"bidirectional": True, "num_layers": 2}),
            ("lstm", {"projection_size": 2, "lstm_state_clip_min": -0.2, "lstm_state_clip_max": 0.2}),
            ("gru", {"use_sequence_length": True, "bidirectional": True}),
        ]:
            attrs: dict[str, Any] = {"state_size": 3, "num_layers": 1, "mode": mode, "state_outputs": True, **more}
            op: Any = cls.bind(**attrs)
            layers, lstm = op.num_layers * op.directions, mode == "lstm"
            inputs = [random.normal(size=s) for s in [(4, 2, 3), (op.parameter_count(3),), (layers, 2, op.width)]]
            inputs += [random.normal(size=(layers, 2, 3))] * lstm
            inputs += [np.array([4.0, 2.0])] * op.use_sequence_length
            # The relu's kinks and the clips are no places for finite differences.
            grad = mode != "rnn_relu" and "lstm_state_clip_min" not in more
            found.append(Sample(inputs, _reference(op), grad=grad and not op.use_sequence_length, **attrs))
        return found

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        attrs: dict[str, Any] = {"state_size": 3, "num_layers": 1, "mode": "rnn_tanh"}
        parameters = "RNN: parameters must have shape (24,) for 3 features, 1 layers of rnn_tanh and state_size=3, got"
        return [
            (((4, 3), (24,), (1, 2, 3)), attrs, "RNN: data must be (steps, batch, features), got shape (4, 3)"),
            (((4, 2, 3), (25,), (1, 2, 3)), attrs, f"{parameters} (25,)"),
            (((4, 2, 3), (24,), (2, 2, 3)), attrs, "RNN: state must have shape (1, 2, 3), got (2, 2, 3)"),
            (((4, 2, 3), (24,), (1, 2, 3)), {**attrs, "projection_size": 2},
             "RNN: projection_size=2 must be at least 1, and mode 'lstm', got 'rnn_tanh'"),
            (((4, 2, 3), (24,), (1, 2, 3)), {**attrs, "lstm_state_clip_min": 0.0},
             "RNN: lstm_state_clip_min and lstm_state_clip_max go together, with mode 'lstm', got 0.0, None and "
             "'rnn_tanh'"),
        ]  # fmt: skip


class _Vector:
    """Takes arrays of given shapes out of a vector, one after the other."""

    def __init__(self, F: Any, vector: Any) -> None:
        self.F = F
        self.vector = vector
        self.begin = 0

    def __call__(self, shape: Shape) -> Any:
        end = self.begin + math.prod(shape)
        part = self.F.slice_axis(self.vector, axis=0, begin=self.begin, end=end)
        self.begin = end
        return self.F.reshape_to(part, shape=shape)


def _row(F: Any, x: Any, index: int) -> Any:
    return F.reshape_to(F.slice_axis(x, axis=0, begin=index, end=index + 1), shape=x.shape[1:])


def _turned(F: Any, x: Any, lengths: Any) -> Any:
    """Sequences from the last step to the first."""
    return F.flip(x, axis=0) if lengths is None else F.SequenceReverse(x, lengths, use_sequence_length=True)


# --- cells ------------------------------------------------------------------------------------------------------------


def _elman(activation: str) -> Callable[..., list[Any]]:
    def cell(op: Rnn, F: Any, x: Any, h: Any, states: list[Any]) -> list[Any]:  # noqa: ARG001
        return [F.Activation(x + h, act_type=activation)]

    return cell


def _lstm(op: Rnn, F: Any, x: Any, h: Any, states: list[Any]) -> list[Any]:
    into, forget, new, out = F.split(x + h, num_outputs=4, axis=1)
    cell = op.clipped(F, F.sigmoid(forget) * states[1] + F.sigmoid(into) * F.tanh(new))
    return [F.sigmoid(out) * F.tanh(cell), cell]


def _gru(op: Rnn, F: Any, x: Any, h: Any, states: list[Any]) -> list[Any]:  # noqa: ARG001
    (xr, xz, xn), (hr, hz, hn) = (as_list(F.split(v, num_outputs=3, axis=1)) for v in (x, h))
    update = F.sigmoid(xz + hz)
    new = F.tanh(xn + F.sigmoid(xr + hr) * hn)
    return [(1 - update) * new + update * states[0]]


_CELLS: dict[str, Callable[..., list[Any]]] = {
    "rnn_relu": _elman("relu"),
    "rnn_tanh": _elman("tanh"),
    "lstm": _lstm,
    "gru": _gru,
}


def _reference(op: Any) -> Callable[..., Any]:
    """The operator by NumPy: each step of each layer."""

    def sigmoid(x: Any) -> Any:
        return 1 / (1 + np.exp(-x))

    def step(x: Any, h: Any, c: Any, parts: list[Any]) -> tuple[Any, Any]:
        wx, wh, *wr, bx, bh = parts
        x, h0 = x @ wx.T + bx, h @ wh.T + bh
        if op.mode == "gru":
            (xr, xz, xn), (hr, hz, hn) = np.split(x, 3), np.split(h0, 3)
            z = sigmoid(xz + hz)
            return (1 - z) * np.tanh(xn + sigmoid(xr + hr) * hn) + z * h, c
        if op.mode != "lstm":
            return (np.tanh(x + h0) if op.mode == "rnn_tanh" else np.maximum(x + h0, 0)), c
        i, f, g, o = np.split(x + h0, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        c = c if op.lstm_state_clip_min is None else np.clip(c, op.lstm_state_clip_min, op.lstm_state_clip_max)
        h = sigmoid(o) * np.tanh(c)
        return (wr[0] @ h if wr else h), c

    def run(data: Any, parameters: Any, state: Any, *more: Any) -> Any:
        cells = more[0] if op.mode == "lstm" else np.zeros((len(state), *state.shape[1:]))
        lengths = more[-1].astype(int) if op.use_sequence_length else [len(data)] * data.shape[1]
        shapes = list(op.weights(data.shape[2]))
        flat = [s for each in shapes for s in each if s is not None] + [(each[0][0],) for each in shapes for _ in "xh"]
        ends: list[int] = np.cumsum([math.prod(s) for s in flat]).tolist()
        parts = [parameters[e - math.prod(s) : e].reshape(s) for e, s in zip(ends, flat, strict=True)]
        count = len(shapes)
        each = (len(flat) - 2 * count) // count
        state, cells = state.copy(), cells.copy()
        for layer in range(op.num_layers):
            out = np.zeros((*data.shape[:2], op.directions * op.width))
            for direction in range(op.directions):
                number = layer * op.directions + direction
                own = [*parts[number * each :][:each], *parts[count * each + 2 * number :][:2]]
                for n, length in enumerate(lengths):
                    h, c = state[number, n], cells[number, n]
                    for t in range(length) if not direction else reversed(range(length)):
                        h, c = step(data[t, n], h, c, own)
                        out[t, n, direction * op.width :][: op.width] = h
                    state[number, n], cells[number, n] = h, c
            data = out
        return (data, state, cells) if op.mode == "lstm" else (data, state)

    return run

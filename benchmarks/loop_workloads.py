"""Workloads of loops and recurrent layers: ``benchmarks/peers/run.py --only loops``.

Parameters of recurrent layers are named as Gluon's: ``l0_i2h_weight``, those of the direction from the end ``r0_…``.
Gates of an LSTM are input, forget, cell, output, of a GRU reset, update, new.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

import hybridc as mx
from benchmarks.peers.peer import COUNTED_STEPS
from benchmarks.workloads import (
    F32,
    LEARNING_RATE,
    Arrays,
    Program,
    WithParameters,
    Workload,
    inference,
    linear,
    log_softmax,
    normal,
    sigmoid,
    softmax,
    training,
)

LSTM_LAYER = (35, 32, 128, 256)  # steps, batch, inputs, states
BIGRU = (100, 16, 64, 128)
DECODER = (20, 16, 64, 128)
PLACES = 30  # which the decoder attends to
MODEL = (35, 20, 200, 200)
WORDS = 10000
NUMBERS = 8


def weights(rng: np.random.Generator, tag: str, gates: int, inputs: int, states: int) -> Arrays:
    """One layer and direction."""
    scale, rows = 1 / math.sqrt(states), gates * states
    return {
        f"{tag}_i2h_weight": normal(rng, rows, inputs, scale=scale),
        f"{tag}_h2h_weight": normal(rng, rows, states, scale=scale),
        f"{tag}_i2h_bias": normal(rng, rows, scale=0.1),
        f"{tag}_h2h_bias": normal(rng, rows, scale=0.1),
    }


def filled(layer: Any, arrays: Mapping[str, Any]) -> Any:
    """A Gluon layer with the given parameters."""
    layer.initialize()
    for name, parameter in layer.collect_params().items():
        parameter.set_data(arrays[name.removeprefix(layer.prefix)])
    return layer


def projected(d: Arrays, tag: str, x: np.ndarray) -> np.ndarray:
    return linear(x, d[f"{tag}_i2h_weight"], d[f"{tag}_i2h_bias"])


def gru_step(given: np.ndarray, kept: np.ndarray, h: np.ndarray) -> np.ndarray:
    """The state after the projections of the input and of the state."""
    (r, z, n), (hr, hz, hn) = (np.split(a, 3, axis=-1) for a in (given, kept))
    update = sigmoid(z + hz)
    return (1 - update) * np.tanh(n + sigmoid(r + hr) * hn) + update * h


# --- layers -------------------------------------------------------------------------------------------------


def lstm_layer_inputs(rng: np.random.Generator) -> Arrays:
    steps, batch, inputs, states = LSTM_LAYER
    return {"x": normal(rng, steps, batch, inputs), **weights(rng, "l0", 4, inputs, states)}


def lstm_forward(d: Arrays, tag: str, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The states, the cells and the gates after their functions, for each step."""
    w, b = d[f"{tag}_h2h_weight"], d[f"{tag}_h2h_bias"]
    given = projected(d, tag, x)
    h = c = np.zeros((x.shape[1], w.shape[1]), x.dtype)
    states, cells, gates = list[np.ndarray](), list[np.ndarray](), list[np.ndarray]()
    for row in given:
        i, f, g, o = np.split(row + linear(h, w, b), 4, axis=-1)
        i, f, g, o = sigmoid(i), sigmoid(f), np.tanh(g), sigmoid(o)
        c = f * c + i * g
        h = o * np.tanh(c)
        states.append(h)
        cells.append(c)
        gates.append(np.concatenate([i, f, g, o], axis=-1))
    return np.stack(states), np.stack(cells), np.stack(gates)


def lstm_backward(d: Arrays, tag: str, x: np.ndarray, dy: np.ndarray, found: Any, grads: Arrays) -> np.ndarray:
    """The gradient of the layer's input; those of its parameters are added to ``grads``."""
    states, cells, gates = found
    w = d[f"{tag}_h2h_weight"]
    dh = dc = np.zeros_like(states[0])
    rows = np.empty_like(gates)
    for t in reversed(range(len(x))):
        i, f, g, o = np.split(gates[t], 4, axis=-1)
        before = cells[t - 1] if t else np.zeros_like(cells[0])
        dh = dh + dy[t]
        bent = np.tanh(cells[t])
        dc = dc + dh * o * (1 - bent * bent)
        parts = (dc * g * i * (1 - i), dc * before * f * (1 - f), dc * i * (1 - g * g), dh * bent * o * (1 - o))
        rows[t] = np.concatenate(parts, axis=-1)
        dh, dc = rows[t] @ w, dc * f
    before = np.concatenate([np.zeros_like(states[:1]), states[:-1]])
    grads[f"{tag}_i2h_weight"] = np.einsum("tni,tnj->ij", rows, x, optimize=True)
    grads[f"{tag}_h2h_weight"] = np.einsum("tni,tnj->ij", rows, before, optimize=True)
    grads[f"{tag}_i2h_bias"] = grads[f"{tag}_h2h_bias"] = rows.sum(axis=(0, 1))
    return rows @ d[f"{tag}_i2h_weight"]


def lstm_layer_program(arrays: Mapping[str, Any], hybridized: bool) -> Program:
    layer = filled(mx.gluon.rnn.LSTM(LSTM_LAYER[3], input_size=LSTM_LAYER[2]), arrays)
    return inference(layer, hybridized, arrays["x"])


def bigru_inputs(rng: np.random.Generator) -> Arrays:
    steps, batch, inputs, states = BIGRU
    arrays = {"x": normal(rng, steps, batch, inputs)}
    for layer, size in enumerate((inputs, 2 * states)):
        for direction in "lr":
            arrays |= weights(rng, f"{direction}{layer}", 3, size, states)
    return arrays


def bigru_reference(d: Arrays) -> list[np.ndarray]:
    def directed(tag: str, x: np.ndarray) -> np.ndarray:
        w, b = d[f"{tag}_h2h_weight"], d[f"{tag}_h2h_bias"]
        h, states = np.zeros((x.shape[1], w.shape[1]), x.dtype), list[np.ndarray]()
        for row in projected(d, tag, x):
            h = gru_step(row, linear(h, w, b), h)
            states.append(h)
        return np.stack(states)

    x = d["x"]
    for layer in "01":
        x = np.concatenate([directed(f"l{layer}", x), directed(f"r{layer}", x[::-1])[::-1]], axis=-1)
    return [x]


def bigru_program(arrays: Mapping[str, Any], hybridized: bool) -> Program:
    layer = mx.gluon.rnn.GRU(BIGRU[3], num_layers=2, bidirectional=True, input_size=BIGRU[2])
    return inference(filled(layer, arrays), hybridized, arrays["x"])


# --- a loop over rows ---------------------------------------------------------------------------------------


class Decoder(WithParameters):
    """A GRU cell whose input is joined by what its state attends to, by ``foreach``."""

    def hybrid_forward(self, F: Any, x: Any, h: Any, memory: Any, **p: Any) -> Any:
        size = 3 * DECODER[3]

        def step(row: Any, h: Any) -> Any:
            scores = F.softmax(F.batch_dot(memory, F.expand_dims(h, axis=2)), axis=1)
            context = F.squeeze(F.batch_dot(scores, memory, transpose_a=True), axis=1)
            joined = F.concat(row, context, dim=1)
            given = F.FullyConnected(joined, p["l0_i2h_weight"], p["l0_i2h_bias"], num_hidden=size)
            kept = F.FullyConnected(h, p["l0_h2h_weight"], p["l0_h2h_bias"], num_hidden=size)
            (r, z, n), (hr, hz, hn) = (F.split(a, num_outputs=3, axis=1) for a in (given, kept))
            update = F.sigmoid(z + hz)
            h = (1 - update) * F.tanh(n + F.sigmoid(r + hr) * hn) + update * h
            return h, h

        return F.contrib.foreach(step, x, h)[0]


def decoder_inputs(rng: np.random.Generator) -> Arrays:
    steps, batch, inputs, states = DECODER
    return {
        "x": normal(rng, steps, batch, inputs),
        "h0": normal(rng, batch, states, scale=0.1),
        "memory": normal(rng, batch, PLACES, states, scale=0.3),  # larger ones make errors grow from step to step
        **weights(rng, "l0", 3, inputs + states, states),
    }


def decoder_reference(d: Arrays) -> list[np.ndarray]:
    h, states = d["h0"], list[np.ndarray]()
    for row in d["x"]:
        context = np.einsum("np,npm->nm", softmax(np.einsum("npm,nm->np", d["memory"], h)), d["memory"])
        given = projected(d, "l0", np.concatenate([row, context], axis=-1))
        h = gru_step(given, linear(h, d["l0_h2h_weight"], d["l0_h2h_bias"]), h)
        states.append(h)
    return [np.stack(states)]


def decoder_program(arrays: Mapping[str, Any], hybridized: bool) -> Program:
    given = {name: x for name, x in arrays.items() if name not in ("x", "h0", "memory")}
    return inference(Decoder(given), hybridized, arrays["x"], arrays["h0"], arrays["memory"])


# --- a language model ---------------------------------------------------------------------------------------


class LanguageModel(mx.gluon.HybridBlock):
    """Words as vectors, two layers of LSTM, a score for each word that may follow."""

    def __init__(self, arrays: Mapping[str, Any]) -> None:
        super().__init__()
        inputs, states = MODEL[2:]
        with self.name_scope():
            self.embedding = mx.gluon.nn.Embedding(WORDS, inputs)
            self.layers = mx.gluon.rnn.LSTM(states, num_layers=2, input_size=inputs)
            self.scores = mx.gluon.nn.Dense(WORDS, in_units=states, flatten=False)
        for block in (self.embedding, self.scores):
            block.initialize()
        filled(self.layers, arrays)
        self.embedding.weight.set_data(arrays["table"])
        self.scores.weight.set_data(arrays["wz"])
        self.scores.bias.set_data(arrays["bz"])

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return self.scores(self.layers(self.embedding(x)))

    def trained(self) -> list[Any]:
        """The parameters in the order of the inputs."""
        layers = self.layers.collect_params()
        names = [f"{self.layers.prefix}l{i}_{kind}" for i in "01" for kind in KINDS]
        return [self.embedding.weight, *(layers[name] for name in names), self.scores.weight, self.scores.bias]


KINDS = ("i2h_weight", "h2h_weight", "i2h_bias", "h2h_bias")


def model_inputs(rng: np.random.Generator, sizes: tuple[int, int, int, int], words: int) -> Arrays:
    """Words and weights of a language model with two layers of LSTM."""
    steps, batch, inputs, states = sizes
    text = rng.integers(0, words, size=(steps + 1, batch)).astype(np.int64)
    return {
        "x": text[:-1],
        "y": text[1:],
        "table": normal(rng, words, inputs),
        **weights(rng, "l0", 4, inputs, states),
        **weights(rng, "l1", 4, states, states),
        "wz": normal(rng, words, states, scale=0.1),
        "bz": normal(rng, words, scale=0.1),
    }


def language_model_reference(d: Arrays) -> list[np.ndarray]:
    """The loss and the parameters after the first step."""
    x, y = d["x"], d["y"].ravel()
    embedded = d["table"][x]
    first = lstm_forward(d, "l0", embedded)
    second = lstm_forward(d, "l1", first[0])
    flat = second[0].reshape(-1, second[0].shape[-1])
    logarithms = log_softmax(linear(flat, d["wz"], d["bz"]))
    rows = np.arange(len(y))
    loss = -logarithms[rows, y].mean()
    dz = np.exp(logarithms)
    dz[rows, y] -= 1
    dz /= len(y)
    grads = {"wz": dz.T @ flat, "bz": dz.sum(axis=0), "table": np.zeros_like(d["table"])}
    dh = (dz @ d["wz"]).reshape(second[0].shape)
    dh = lstm_backward(d, "l1", first[0], dh, second, grads)
    dx = lstm_backward(d, "l0", embedded, dh, first, grads)
    np.add.at(grads["table"], x, dx)
    return [loss, *(w - LEARNING_RATE * grads[name] for name, w in d.items() if name not in "xy")]


def language_model_program(arrays: Mapping[str, Any], hybridized: bool) -> Program:
    net = LanguageModel(arrays)
    return training(net, mx.gluon.loss.SoftmaxCrossEntropyLoss(), net.trained(), hybridized, arrays["x"], arrays["y"])


# --- a loop with a condition --------------------------------------------------------------------------------


class CheapSteps(mx.gluon.HybridBlock):
    """A while loop that counts its steps."""

    def hybrid_forward(self, F: Any, i: Any, s: Any) -> Any:
        def step(i: Any, s: Any) -> Any:
            return [], [i + 1, s * 0.99 + 1]

        return F.contrib.while_loop(lambda i, _: i < COUNTED_STEPS, step, [i, s], max_iterations=COUNTED_STEPS)[1][1]


def while_loop_reference(d: Arrays) -> list[np.ndarray]:
    i, s = d["i"], d["s"]
    while i[0] < COUNTED_STEPS:
        i, s = i + 1, s * 0.99 + 1
    return [s]


# --- the table ----------------------------------------------------------------------------------------------


def _costs(sizes: tuple[int, int, int, int], gates: int) -> tuple[float, float]:
    """Bytes that are read or written at least, and multiply-adds as two, of one layer."""
    steps, batch, inputs, states = sizes
    weight = gates * states * (inputs + states)
    return F32 * (weight + steps * batch * (inputs + states)), 2 * steps * batch * weight


_STATES = 2 * BIGRU[3]
_FIRST, _SECOND = _costs(BIGRU, 3), _costs((*BIGRU[:2], _STATES, BIGRU[3]), 3)
_BIGRU = 2 * (_FIRST[0] + _SECOND[0]), 2 * (_FIRST[1] + _SECOND[1])
_DECODER = _costs((*DECODER[:2], DECODER[2] + DECODER[3], DECODER[3]), 3)
_MODEL = 3 * (2 * _costs(MODEL, 4)[1] + 2 * MODEL[0] * MODEL[1] * MODEL[3] * WORDS)

_ALL = (
    Workload(
        "lstm_layer",
        "LSTM layer, 35x32x128 → 256",
        lstm_layer_inputs,
        lambda d: [lstm_forward(d, "l0", d["x"])[0]],
        lstm_layer_program,
        *_costs(LSTM_LAYER, 4),
    ),
    Workload(
        "bigru", "two bidirectional GRU layers, 100x16x64 → 128", bigru_inputs, bigru_reference, bigru_program, *_BIGRU
    ),
    Workload(
        "decoder",
        "GRU cell with attention, 20 steps of 16x64 → 128, by foreach",
        decoder_inputs,
        decoder_reference,
        decoder_program,
        *_DECODER,
    ),
    Workload(
        "language_model",
        "two LSTM layers, 35x20x200, 10,000 words: one step of SGD with momentum",
        lambda rng: model_inputs(rng, MODEL, WORDS),
        language_model_reference,
        language_model_program,
        F32 * 5 * 2 * WORDS * MODEL[3],
        _MODEL,
    ),
    Workload(
        "while_loop",
        "1000 steps of s * 0.99 + 1, 8 numbers",
        lambda r: {"i": np.zeros(1, np.float32), "s": normal(r, NUMBERS)},
        while_loop_reference,
        lambda t, h: inference(CheapSteps(), h, t["i"], t["s"]),
        F32 * 2 * NUMBERS,
        2 * COUNTED_STEPS * NUMBERS,
    ),
)

LOOPS: dict[str, Workload] = {w.name: w for w in _ALL}

"""Networks whose kernels are counted, written once for all frameworks: see ``kernel_counts.py``.

A network is a function of a builder and of its arrays by name. Arrays of one shape are added and multiplied by Python's
operators, others by the builder's methods. Builders are in ``peers/hybridc_counts.py``, ``torch_counts.py`` and
``jax_counts.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]
EPSILON = 1e-5
SEED = 20240607
HEAD = "head"  # the array of the gradients of the results


@dataclass(frozen=True)
class CountedNetwork:
    """A network: its inputs, constants (without gradients), moved statistics; other arrays are parameters."""

    about: str
    function: Callable[[Any, Any], Any]
    make: Callable[[Maker], None]
    head: tuple[int, ...]  # the shape of the result
    inputs: tuple[str, ...] = ("x",)
    constants: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()

    def arrays(self) -> Arrays:
        """All arrays, the same ones every time."""
        maker = Maker()
        self.make(maker)
        maker.normal(HEAD, *self.head)
        return maker.arrays

    def differentiated(self, arrays: Any) -> list[str]:
        """The names of the arrays whose gradients are asked for."""
        return [name for name in arrays if name not in (*self.constants, *self.moved, HEAD)]

    def parameters(self, arrays: Any) -> list[str]:
        """The names of the parameters."""
        return [name for name in self.differentiated(arrays) if name not in self.inputs]


class Maker:
    """Seeded arrays by name."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(SEED)
        self.arrays: Arrays = {}

    def normal(self, name: str, *shape: int, scale: float = 1.0) -> None:
        self.arrays[name] = self.random.standard_normal(shape, dtype=np.float32) * np.float32(scale)

    def below(self, name: str, bound: int, *shape: int) -> None:
        """Random integers from 0."""
        self.arrays[name] = self.random.integers(0, bound, size=shape).astype(np.int64)

    def scale(self, tag: str, n: int, shift: bool = True) -> None:
        """A scale ``g`` around 1, and a shift ``h``."""
        self.arrays[f"g{tag}"] = self.random.random(n, dtype=np.float32) + np.float32(0.5)
        if shift:
            self.normal(f"h{tag}", n, scale=0.1)

    def dense(self, tag: str, inputs: int, outputs: int) -> None:
        """A weight ``w`` and a bias ``b``."""
        self.normal(f"w{tag}", outputs, inputs, scale=1 / math.sqrt(inputs))
        self.normal(f"b{tag}", outputs, scale=0.1)


def dense(b: Any, d: Any, tag: str, x: Any) -> Any:
    """A dense layer on the last axis."""
    return b.linear(x, d[f"w{tag}"], d[f"b{tag}"])


# --- recurrent ----------------------------------------------------------------------------------------------

STEPS, BATCH, FEATURES, STATE = 20, 16, 32, 64


def recurrent(gates: int, steps: int, *states: str) -> Callable[[Maker], None]:
    def make(m: Maker) -> None:
        m.normal("x", steps, BATCH, FEATURES)
        for name in states:
            m.normal(name, BATCH, STATE, scale=0.1)
        m.dense("x", FEATURES, gates * STATE)
        m.dense("h", STATE, gates * STATE)

    return make


def gru(b: Any, d: Any) -> Any:
    """Gates are reset, update, new."""
    h, states = d["h0"], list[Any]()
    for t in range(STEPS):
        given, kept = dense(b, d, "x", b.row(d["x"], t)), dense(b, d, "h", h)
        (r, z, n), (hr, hz, hn) = (b.parts(a, 3, 1) for a in (given, kept))
        update = b.sigmoid(z + hz)
        h = (1 - update) * b.tanh(n + b.sigmoid(r + hr) * hn) + update * h
        states.append(h)
    return b.stack(states)


def lstm_of(rows: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def lstm(b: Any, d: Any) -> Any:
        h, c, states = d["h0"], d["c0"], list[Any]()
        for x in rows(b, d["x"]):
            i, f, g, o = b.parts(dense(b, d, "x", x) + dense(b, d, "h", h), 4, 1)
            c = b.sigmoid(f) * c + b.sigmoid(i) * b.tanh(g)
            h = b.sigmoid(o) * b.tanh(c)
            states.append(h)
        return b.stack(states)

    return lstm


# --- of tokens ----------------------------------------------------------------------------------------------

N, TOKENS, WIDTH, HEADS, HIDDEN = 4, 64, 128, 4, 256
SIZE = WIDTH // HEADS


def rotary_arrays(m: Maker) -> None:
    m.normal("x", N, TOKENS, WIDTH)
    for tag in "12":
        m.scale(tag, WIDTH)
    m.dense("qkv", WIDTH, 3 * WIDTH)
    m.dense("o", WIDTH, WIDTH)
    m.dense("up", WIDTH, HIDDEN)
    m.dense("down", HIDDEN, WIDTH)
    angles = np.arange(TOKENS)[:, None] / 10000 ** (np.arange(SIZE // 2) / (SIZE // 2))
    for name, function in (("cos", np.cos), ("sin", np.sin)):
        m.arrays[name] = np.tile(function(angles), 2)[None, None].astype(np.float32)


def rotary(b: Any, d: Any) -> Any:
    """A transformer block; queries and keys are rotated by their positions."""

    def heads(z: Any) -> Any:
        return b.transpose(b.reshape(z, N, TOKENS, HEADS, SIZE), 0, 2, 1, 3)

    def rotated(z: Any) -> Any:
        first, second = b.parts(z, 2, 3)
        return b.add(b.mul(z, d["cos"]), b.mul(b.concat([-second, first], 3), d["sin"]))

    x = d["x"]
    q, k, v = (heads(z) for z in b.parts(dense(b, d, "qkv", b.layer_norm(x, d["g1"], d["h1"])), 3, 2))
    q, k, v = (b.reshape(z, N * HEADS, TOKENS, SIZE) for z in (rotated(q), rotated(k), v))
    mixed = b.matmul(b.softmax(b.matmul(q, b.transpose(k, 0, 2, 1)) * (1 / math.sqrt(SIZE))), v)
    mixed = b.reshape(b.transpose(b.reshape(mixed, N, HEADS, TOKENS, SIZE), 0, 2, 1, 3), N, TOKENS, WIDTH)
    x = x + dense(b, d, "o", mixed)
    return x + dense(b, d, "down", b.gelu(dense(b, d, "up", b.layer_norm(x, d["g2"], d["h2"]))))


def mixer_arrays(m: Maker) -> None:
    m.normal("x", N, TOKENS, WIDTH)
    for tag in "12":
        m.scale(tag, WIDTH)
    for tag, size in (("t", TOKENS), ("c", WIDTH)):
        m.dense(f"{tag}1", size, 2 * size)
        m.dense(f"{tag}2", 2 * size, size)


def mixer(b: Any, d: Any) -> Any:
    """Dense layers along the tokens, then along the channels."""
    x = d["x"]
    y = b.transpose(b.layer_norm(x, d["g1"], d["h1"]), 0, 2, 1)
    x = x + b.transpose(dense(b, d, "t2", b.gelu(dense(b, d, "t1", y))), 0, 2, 1)
    return x + dense(b, d, "c2", b.gelu(dense(b, d, "c1", b.layer_norm(x, d["g2"], d["h2"]))))


WORDS, LENGTH = 1000, 32


def embedding_arrays(m: Maker) -> None:
    m.below("tokens", WORDS, BATCH, LENGTH)
    m.normal("table", WORDS, FEATURES)
    m.dense("z", FEATURES, 10)


# --- gates, experts, graphs ---------------------------------------------------------------------------------

GATES = 4


def gates_arrays(m: Maker) -> None:
    m.normal("x", N, TOKENS, FEATURES)
    for i in range(GATES):
        m.dense(f"g{i}", FEATURES, 2 * FEATURES)
        m.dense(f"r{i}", FEATURES, 2 * FEATURES)


def gates(b: Any, d: Any) -> Any:
    """The gates of WaveNet: half of the channels by tanh, half by sigmoid; residuals, and a sum of skips."""
    x, skips = d["x"], None
    for i in range(GATES):
        both = dense(b, d, f"g{i}", x)
        filtered, gate = b.tanh(b.slice(both, 2, 0, FEATURES)), b.sigmoid(b.slice(both, 2, FEATURES, 2 * FEATURES))
        both = dense(b, d, f"r{i}", filtered * gate)
        x = x + b.slice(both, 2, 0, FEATURES)
        skip = b.slice(both, 2, FEATURES, 2 * FEATURES)
        skips = skip if skips is None else skips + skip
    return b.relu(skips)


EXPERTS, SAMPLES = 4, 64


def experts_arrays(m: Maker) -> None:
    m.normal("x", SAMPLES, FEATURES)
    m.dense("gate", FEATURES, EXPERTS)
    for i in range(EXPERTS):
        m.dense(f"u{i}", FEATURES, STATE)
        m.dense(f"d{i}", STATE, FEATURES)


def experts_of(top: bool) -> Callable[[Any, Any], Any]:
    def experts(b: Any, d: Any) -> Any:
        x = d["x"]
        weights = b.softmax(dense(b, d, "gate", x))
        if top:
            weights = weights * b.one_hot(b.argmax(weights), EXPERTS)
        total = None
        for i in range(EXPERTS):
            y = dense(b, d, f"d{i}", b.relu(dense(b, d, f"u{i}", x)))
            part = b.mul(y, b.slice(weights, 1, i, i + 1))
            total = part if total is None else total + part
        return total

    return experts


NODES = 128


def graph_arrays(m: Maker) -> None:
    m.normal("x", NODES, FEATURES)
    m.below("edges", 2, NODES, NODES)
    m.arrays["edges"] = m.arrays["edges"].astype(np.float32)
    m.dense("1", FEATURES, STATE)
    m.dense("2", STATE, 10)


def graph(b: Any, d: Any) -> Any:
    """Two graph convolutions; the matrix of the edges is divided by the roots of the degrees."""
    root = 1 / b.sqrt(b.sum(d["edges"], 1) + 1)
    edges = b.mul(b.mul(d["edges"], root), b.reshape(root, 1, NODES))
    h = b.relu(b.matmul(edges, dense(b, d, "1", d["x"])))
    return b.matmul(edges, dense(b, d, "2", h))


LAYERS, GROWTH = 20, 16


def chain_arrays(m: Maker) -> None:
    m.normal("x", SAMPLES, FEATURES)
    for i in range(LAYERS):
        m.dense(str(i), FEATURES + i * GROWTH, GROWTH)


def chain(b: Any, d: Any) -> Any:
    """Each layer's results join its features."""
    x = d["x"]
    for i in range(LAYERS):
        x = b.concat([x, b.relu(dense(b, d, str(i), x))], 1)
    return x


# --- losses -------------------------------------------------------------------------------------------------

CLASSES, PIXELS, LATENT = 100, 784, 16


def classes_arrays(m: Maker) -> None:
    m.normal("x", SAMPLES, FEATURES)
    m.below("y", CLASSES, SAMPLES)
    m.dense("z", FEATURES, CLASSES)


def cross_entropy(b: Any, d: Any) -> Any:
    return -b.pick(b.log_softmax(dense(b, d, "z", d["x"])), d["y"])


def focal(b: Any, d: Any) -> Any:
    """Cross entropy times (1 - p)²."""
    logarithm = b.pick(b.log_softmax(dense(b, d, "z", d["x"])), d["y"])
    return -b.square(1 - b.exp(logarithm)) * logarithm


def smoothed(b: Any, d: Any) -> Any:
    """Cross entropy with a tenth of the label spread over all classes."""
    logarithms = b.log_softmax(dense(b, d, "z", d["x"]))
    labels = b.one_hot(d["y"], CLASSES) * 0.9 + 0.1 / CLASSES
    return -b.sum(labels * logarithms, 1, False)


def vae_arrays(m: Maker) -> None:
    m.arrays["x"] = m.random.random((SAMPLES, PIXELS), dtype=np.float32)
    m.normal("noise", SAMPLES, LATENT)
    m.dense("1", PIXELS, STATE)
    m.dense("2", STATE, 2 * LATENT)
    m.dense("3", LATENT, STATE)
    m.dense("4", STATE, PIXELS)


def vae(b: Any, d: Any) -> Any:
    """Cross entropy of the pixels, and the divergence from the normal distribution."""
    x = d["x"]
    mean, logarithm = b.parts(dense(b, d, "2", b.relu(dense(b, d, "1", x))), 2, 1)
    z = mean + b.exp(logarithm * 0.5) * d["noise"]
    logits = dense(b, d, "4", b.relu(dense(b, d, "3", z)))
    pixels = b.sum(b.relu(logits) - logits * x + b.log(1 + b.exp(-b.abs(logits))), 1)
    return b.reshape(pixels - 0.5 * b.sum(1 + logarithm - b.square(mean) - b.exp(logarithm), 1), SAMPLES)


def contrastive_arrays(m: Maker) -> None:
    for name in "xy":
        m.normal(name, SAMPLES, FEATURES)
        m.dense(name, FEATURES, STATE)
    m.arrays["same"] = np.arange(SAMPLES)


def contrastive(b: Any, d: Any) -> Any:
    """InfoNCE: each sample finds its other view among all, in both directions."""

    def projected(name: str) -> Any:
        z = dense(b, d, name, d[name])
        return b.div(z, b.sqrt(b.sum(b.square(z), 1) + 1e-6))

    scores = b.matmul(projected("x"), b.transpose(projected("y"), 1, 0)) * 10
    rows, columns = b.log_softmax(scores), b.log_softmax(b.transpose(scores, 1, 0))
    return -0.5 * (b.pick(rows, d["same"]) + b.pick(columns, d["same"]))


# --- normalization ------------------------------------------------------------------------------------------

CHANNELS, SIDE, GROUPS = 32, 16, 8
IMAGE = (N, CHANNELS, SIDE, SIDE)


def image_arrays(*more: str) -> Callable[[Maker], None]:
    def make(m: Maker) -> None:
        m.normal("x", *IMAGE)
        m.scale("1", CHANNELS)
        if more:
            m.arrays["mean"], m.arrays["variance"] = np.zeros(CHANNELS, np.float32), np.ones(CHANNELS, np.float32)

    return make


def block_arrays(shift: bool) -> Callable[[Maker], None]:
    def make(m: Maker) -> None:
        m.normal("x", N, TOKENS, WIDTH)
        m.scale("1", WIDTH, shift)
        m.dense("up", WIDTH, HIDDEN)
        m.dense("down", HIDDEN, WIDTH)

    return make


def rms_norm(b: Any, d: Any) -> Any:
    x = d["x"]
    y = b.mul(b.div(x, b.sqrt(b.mean(b.square(x), 2) + EPSILON)), d["g1"])
    return x + dense(b, d, "down", b.gelu(dense(b, d, "up", y)))


def layer_norm(b: Any, d: Any) -> Any:
    y = b.layer_norm(d["x"], d["g1"], d["h1"])
    return d["x"] + dense(b, d, "down", b.gelu(dense(b, d, "up", y)))


def batch_norm(b: Any, d: Any) -> Any:
    x = d["x"]
    return b.relu(b.batch_norm(x, d["g1"], d["h1"], d["mean"], d["variance"]) + x)


# --- the table ----------------------------------------------------------------------------------------------

_STATES = (STEPS, BATCH, STATE)
_TOKENS = (N, TOKENS, WIDTH)
_LABELS: dict[str, Any] = {"head": (SAMPLES,), "constants": ("y",)}

COUNTED = {
    "gru": CountedNetwork("GRU of 20 steps, by slices", gru, recurrent(3, STEPS, "h0"), _STATES, ("x", "h0")),
    "lstm": CountedNetwork(
        "LSTM of 20 steps, by slices",
        lstm_of(lambda b, x: [b.row(x, t) for t in range(STEPS)]),
        recurrent(4, STEPS, "h0", "c0"),
        _STATES,
        ("x", "h0", "c0"),
    ),
    "lstm_80": CountedNetwork(
        "LSTM of 80 steps, split",
        lstm_of(lambda b, x: b.rows(x)),
        recurrent(4, 4 * STEPS, "h0", "c0"),
        (4 * STEPS, BATCH, STATE),
        ("x", "h0", "c0"),
    ),
    "rotary": CountedNetwork("transformer block, rotary", rotary, rotary_arrays, _TOKENS, constants=("cos", "sin")),
    "mixer": CountedNetwork("MLP-mixer block", mixer, mixer_arrays, _TOKENS),
    "gates": CountedNetwork("four gates of WaveNet", gates, gates_arrays, (N, TOKENS, FEATURES)),
    "vae": CountedNetwork("VAE with its loss", vae, vae_arrays, (SAMPLES,), constants=("noise",)),
    "contrastive": CountedNetwork(
        "InfoNCE", contrastive, contrastive_arrays, (SAMPLES,), ("x", "y"), constants=("same",)
    ),
    "moe_soft": CountedNetwork("four experts, all weighted", experts_of(False), experts_arrays, (SAMPLES, FEATURES)),
    "moe_top1": CountedNetwork("four experts, the best one", experts_of(True), experts_arrays, (SAMPLES, FEATURES)),
    "graph": CountedNetwork("two graph convolutions", graph, graph_arrays, (NODES, 10), constants=("edges",)),
    "dense_chain": CountedNetwork(
        "20 dense layers, concatenated", chain, chain_arrays, (SAMPLES, FEATURES + LAYERS * GROWTH)
    ),
    "cross_entropy": CountedNetwork("dense, cross entropy", cross_entropy, classes_arrays, **_LABELS),
    "focal": CountedNetwork("dense, focal loss", focal, classes_arrays, **_LABELS),
    "smoothed": CountedNetwork("dense, label-smoothed loss", smoothed, classes_arrays, **_LABELS),
    "embedding": CountedNetwork(
        "embedding, summed, dense",
        lambda b, d: dense(b, d, "z", b.sum(b.embedding(d["tokens"], d["table"]), 1, False)),
        embedding_arrays,
        (BATCH, 10),
        (),
        constants=("tokens",),
    ),
    "group_norm": CountedNetwork(
        "group norm, ReLU",
        lambda b, d: b.relu(b.group_norm(d["x"], d["g1"], d["h1"], GROUPS)),
        image_arrays(),
        IMAGE,
    ),
    "instance_norm": CountedNetwork(
        "instance norm, ReLU",
        lambda b, d: b.relu(b.instance_norm(d["x"], d["g1"], d["h1"])),
        image_arrays(),
        IMAGE,
    ),
    "rms_norm": CountedNetwork("RMS norm, MLP, residual", rms_norm, block_arrays(False), _TOKENS),
    "layer_norm": CountedNetwork("layer norm, MLP, residual", layer_norm, block_arrays(True), _TOKENS),
    "batch_norm": CountedNetwork(
        "batch norm, residual, ReLU", batch_norm, image_arrays("moved"), IMAGE, moved=("mean", "variance")
    ),
}

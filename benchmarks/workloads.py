"""The benchmark workloads: shapes, seeded inputs, the float64 NumPy definition of each, and a Gluon network.

``inputs`` are the same arrays every time; ``reference`` is NumPy, written once for every dtype: on float64 it
is the oracle that results are checked against, on float32 it is what plain NumPy would do. ``build`` makes a
:class:`Program`, eager or hybridized. Weights are stored as (outputs, inputs), as Gluon does.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import hybridc as mx
from hybridc.gluon import nn

Arrays = dict[str, np.ndarray]

SEED = 20240607
EPSILON = 1e-5  # of layer normalization
TOLERANCE = 1e-4  # largest error, as a part of the largest magnitude in the output
LEARNING_RATE, MOMENTUM = 0.01, 0.9


@dataclass(frozen=True)
class Program:
    """A workload ready to run: ``call()`` is one step, ``fetch(result)`` its outputs as NumPy arrays.

    ``call(x, …)`` is one of other data in the place of the first inputs.
    ``feeds()`` gives the arguments with which one step calls each of the blocks.
    """

    call: Callable[..., Any]
    fetch: Callable[[Any], list[np.ndarray]]
    blocks: tuple[mx.gluon.HybridBlock, ...]
    feeds: Callable[[], tuple[tuple[Any, ...], ...]]

    def graphs(self) -> list[Any]:
        """The compiled graphs of the blocks, after a call."""
        cached = [b.__dict__.get("_cached_graph") for b in self.blocks]
        return [g for c in cached if c is not None for g in c.graphs()]

    def kernels(self) -> int:
        """Kernel launches in one call, host calls included."""
        return sum(len(p.launches) for p in self._programs())

    def host_calls(self) -> int:
        """Calls of the host in one call."""
        return sum(len(p.host_calls) for p in self._programs())

    def _programs(self) -> list[Any]:
        both = [x for g in self.graphs() for x in (g.forward, g.backward) if x is not None]
        return [executable.program for executable in both]


def largest_error(out: np.ndarray, ref: np.ndarray) -> float:
    """The largest error, relative to the largest magnitude."""
    return float(np.max(np.abs(out - ref)) / np.max(np.abs(ref)))


@dataclass(frozen=True)
class Workload:
    """What is measured.

    ``moved`` (bytes, each array read or written once) and ``flops`` (a multiply-add is two) are unavoidable;
    ``docs/performance.md`` derives a floor from them.
    """

    name: str
    about: str
    make: Callable[[np.random.Generator], Arrays]
    reference: Callable[[Arrays], list[np.ndarray]]
    network: Callable[[Mapping[str, Any], bool], Program]
    moved: float
    flops: float
    distance: Callable[[np.ndarray, np.ndarray], float] = largest_error

    def inputs(self) -> Arrays:
        """The input arrays, float32 (labels int64)."""
        return self.make(np.random.default_rng(SEED))

    def oracle(self) -> list[np.ndarray]:
        """The outputs, computed in float64."""
        return _oracle(self)

    def build(self, hybridized: bool) -> Program:
        """The network with its inputs and parameters in place."""
        arrays = {name: mx.nd.array(value, dtype="float32") for name, value in self.inputs().items()}
        return self.network(arrays, hybridized)

    def check(self, program: Program) -> float:
        """Run one step; its largest error, see :meth:`error`."""
        return self.error(program.fetch(program.call()))

    def error(self, outs: list[np.ndarray]) -> float:
        """The largest error of the first step's outputs, relative to their magnitude; AssertionError if too large."""
        refs = self.oracle()
        assert len(outs) == len(refs), f"{self.name}: {len(outs)} outputs, expected {len(refs)}"
        worst = 0.0
        for number, (out, ref) in enumerate(zip(outs, refs)):
            assert out.shape == ref.shape, f"{self.name}: output {number} is {out.shape}, expected {ref.shape}"
            error = self.distance(out, ref)
            assert error <= TOLERANCE, f"{self.name}: output {number} is off by {error:.1e} of its magnitude"
            worst = max(worst, error)
        return worst


@functools.cache
def _oracle(workload: Workload) -> list[np.ndarray]:
    """What :meth:`Workload.oracle` gives: once, as it may take seconds."""
    wide = {k: v.astype(np.float64) if v.dtype == np.float32 else v for k, v in workload.inputs().items()}
    return [np.asarray(out, np.float64) for out in workload.reference(wide)]


# --- NumPy --------------------------------------------------------------------------------------------------


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def gelu(x: np.ndarray) -> np.ndarray:
    from scipy.special import erf

    return 0.5 * x * (1 + erf(x * (1 / math.sqrt(2.0))))


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def log_softmax(x: np.ndarray) -> np.ndarray:
    z = x - x.max(axis=-1, keepdims=True)
    return z - np.log(np.exp(z).sum(axis=-1, keepdims=True))


def layer_norm(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, epsilon: float = EPSILON) -> np.ndarray:
    d = x - x.mean(axis=-1, keepdims=True)
    variance = (d * d).mean(axis=-1, keepdims=True)
    return d / np.sqrt(variance + epsilon) * gamma + beta


def linear(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    return x @ w.T + b


def attend(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    scores = (q @ np.swapaxes(k, -1, -2)) * (1 / math.sqrt(q.shape[-1]))
    return softmax(scores) @ v


# --- inputs -------------------------------------------------------------------------------------------------


def normal(rng: np.random.Generator, *shape: int, scale: float = 1.0) -> np.ndarray:
    return rng.standard_normal(shape, dtype=np.float32) * np.float32(scale)


def around_one(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.random(n, dtype=np.float32) + np.float32(0.5)


def dense(rng: np.random.Generator, tag: str, n_in: int, n_out: int, gain: float = 2.0) -> Arrays:
    weight = normal(rng, n_out, n_in, scale=math.sqrt(gain / n_in))
    return {f"w{tag}": weight, f"b{tag}": normal(rng, n_out, scale=0.1)}


# --- networks -----------------------------------------------------------------------------------------------


def inference(net: mx.gluon.HybridBlock, hybridized: bool, *args: Any) -> Program:
    """A network called on fixed inputs."""
    if hybridized:
        net.hybridize()

    def fetch(result: Any) -> list[np.ndarray]:
        return [y.asnumpy() for y in (result if isinstance(result, list | tuple) else (result,))]

    return Program(lambda *data: net(*data, *args[len(data) :]) if data else net(*args), fetch, (net,), lambda: (args,))


def training(
    net: mx.gluon.HybridBlock,
    loss_of: mx.gluon.HybridBlock,
    parameters: Sequence[Any],
    hybridized: bool,
    x: Any,
    y: Any,
) -> Program:
    """The usual loop: one step of SGD with momentum; it gives the mean of the losses, and the parameters after it."""
    if hybridized:
        net.hybridize()
        loss_of.hybridize()
    settings = {"learning_rate": LEARNING_RATE, "momentum": MOMENTUM}
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", settings)

    def step(x: Any = x, y: Any = y) -> Any:
        with mx.autograd.record():
            loss = loss_of(net(x), y)
        loss.backward()
        trainer.step(x.shape[0])
        return loss

    def fetch(loss: Any) -> list[np.ndarray]:
        return [np.asarray(loss.asnumpy().mean()), *(p.data().asnumpy() for p in parameters)]

    return Program(step, fetch, (net, loss_of), lambda: ((x,), (net(x), y)))


class WithParameters(mx.gluon.HybridBlock):
    """A block whose parameters are the given arrays."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__()
        with self.name_scope():
            for name, value in values.items():
                parameter = self.params.get(name, shape=value.shape)
                parameter.initialize(init=mx.init.Zero())
                parameter.set_data(value)
                setattr(self, name, parameter)


def dense_layer(arrays: Mapping[str, Any], tag: str, activation: str | None = None) -> nn.Dense:
    weight = arrays[f"w{tag}"]
    layer = nn.Dense(weight.shape[0], in_units=weight.shape[1], activation=activation)
    layer.initialize()
    layer.weight.set_data(weight)
    layer.bias.set_data(arrays[f"b{tag}"])
    return layer


# --- multilayer perceptrons ---------------------------------------------------------------------------------

TINY, BIG = (32, 64, 64, 10), (784, 512, 512, 10)
PARAMETERS = ("w1", "b1", "w2", "b2", "w3", "b3")


def multiply_adds(sizes: tuple[int, ...]) -> int:
    return sum(a * b for a, b in itertools.pairwise(sizes))


def mlp_inputs(batch: int, sizes: tuple[int, ...], labels: bool = False) -> Callable[..., Arrays]:
    def make(rng: np.random.Generator) -> Arrays:
        arrays = {"x": normal(rng, batch, sizes[0])}
        if labels:
            arrays["y"] = rng.integers(0, sizes[-1], size=batch).astype(np.int64)
        for i, (a, b) in enumerate(itertools.pairwise(sizes), 1):
            arrays |= dense(rng, str(i), a, b)
        return arrays

    return make


def mlp_reference(d: Arrays) -> np.ndarray:
    h = relu(linear(d["x"], d["w1"], d["b1"]))
    h = relu(linear(h, d["w2"], d["b2"]))
    return linear(h, d["w3"], d["b3"])


def mlp_train_reference(d: Arrays) -> list[np.ndarray]:
    """The loss and the parameters after one step of SGD with momentum, which starts at zero."""
    x, y, n = d["x"], d["y"], d["x"].shape[0]
    h1 = relu(linear(x, d["w1"], d["b1"]))
    h2 = relu(linear(h1, d["w2"], d["b2"]))
    logp = log_softmax(linear(h2, d["w3"], d["b3"]))
    loss = -logp[np.arange(n), y].mean()
    g = np.exp(logp)
    g[np.arange(n), y] -= 1
    g = g / n
    grads = {"w3": g.T @ h2, "b3": g.sum(0)}
    g = (g @ d["w3"]) * (h2 > 0)
    grads |= {"w2": g.T @ h1, "b2": g.sum(0)}
    g = (g @ d["w2"]) * (h1 > 0)
    grads |= {"w1": g.T @ x, "b1": g.sum(0)}
    return [loss, *(d[k] - LEARNING_RATE * grads[k] for k in PARAMETERS)]


def mlp_net(arrays: Mapping[str, Any], last: str | None = None) -> nn.HybridSequential:
    net = nn.HybridSequential()
    net.add(dense_layer(arrays, "1", "relu"), dense_layer(arrays, "2", "relu"), dense_layer(arrays, "3"))
    if last is not None:
        net.add(nn.HybridLambda(last))
    return net


def mlp_train_program(arrays: Mapping[str, Any], hybridized: bool) -> Program:
    net = mlp_net(arrays)
    parameters = [p for layer in net for p in (layer.weight, layer.bias)]
    loss_of = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    return training(net, loss_of, parameters, hybridized, arrays["x"], arrays["y"])


# --- bound by memory ----------------------------------------------------------------------------------------

SQUARE, ROWS, COLUMNS = 2048, 4096, 1024


def chain_reference(d: Arrays) -> list[np.ndarray]:
    x = d["x"]
    return [np.tanh(x * d["a"] + d["b"]) * sigmoid(x) + np.exp(-x * x)]


class Chain(mx.gluon.HybridBlock):
    """Elementwise operators with one broadcast."""

    def hybrid_forward(self, F: Any, x: Any, a: Any, b: Any) -> Any:
        return F.tanh(F.broadcast_add(x * a, b)) * F.sigmoid(x) + F.exp(-x * x)


class GeluBias(mx.gluon.HybridBlock):
    """gelu(x + b)"""

    def hybrid_forward(self, F: Any, x: Any, b: Any) -> Any:
        return F.LeakyReLU(F.broadcast_add(x, F.expand_dims(b, axis=0)), act_type="gelu")


class LayerNorm(mx.gluon.HybridBlock):
    """Normalization over the last axis."""

    def hybrid_forward(self, F: Any, x: Any, gamma: Any, beta: Any) -> Any:
        return F.LayerNorm(x, gamma, beta, eps=EPSILON)


class Softmax(mx.gluon.HybridBlock):
    """softmax over the last axis."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.softmax(x, axis=-1)


class MinMax(mx.gluon.HybridBlock):
    """(x - min) / (max - min): reductions of the whole array, then a second pass."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        low = F.min(x)
        return F.broadcast_div(F.broadcast_sub(x, low), F.broadcast_sub(F.max(x), low))


def minmax_reference(d: Arrays) -> list[np.ndarray]:
    x = d["x"]
    return [(x - x.min()) / (x.max() - x.min())]


# --- attention ----------------------------------------------------------------------------------------------

BATCH, HEADS, SEQUENCE, HEAD = 4, 8, 128, 64
ENCODER_BATCH, WIDTH, HIDDEN = 8, 256, 1024


def dot_product_attention(F: Any, q: Any, k: Any, v: Any, size: int) -> Any:
    """Of queries, keys and values of shape (batch * heads, sequence, size)."""
    scores = F.batch_dot(q, k, transpose_b=True) * (1 / math.sqrt(size))
    return F.batch_dot(F.softmax(scores, axis=-1), v)


class Attention(mx.gluon.HybridBlock):
    """Scaled dot-product attention."""

    def hybrid_forward(self, F: Any, q: Any, k: Any, v: Any) -> Any:
        q, k, v = (F.reshape(z, shape=(-3, -2)) for z in (q, k, v))
        return F.reshape(dot_product_attention(F, q, k, v, HEAD), shape=(-4, -1, HEADS, -2))


class Encoder(WithParameters):
    """A pre-normalizing transformer encoder layer with one projection for queries, keys and values."""

    def hybrid_forward(self, F: Any, x: Any, **p: Any) -> Any:
        def linear(z: Any, tag: str, n: int) -> Any:
            return F.FullyConnected(z, p["w" + tag], p["b" + tag], num_hidden=n, flatten=False)

        def heads(z: Any) -> Any:
            z = F.transpose(F.reshape(z, shape=(0, 0, HEADS, -1)), axes=(0, 2, 1, 3))
            return F.reshape(z, shape=(-3, -2))

        qkv = linear(F.LayerNorm(x, p["g1"], p["h1"], eps=EPSILON), "qkv", 3 * WIDTH)
        q, k, v = (F.slice_axis(qkv, axis=-1, begin=i * WIDTH, end=(i + 1) * WIDTH) for i in range(3))
        context = dot_product_attention(F, heads(q), heads(k), heads(v), WIDTH // HEADS)
        context = F.transpose(F.reshape(context, shape=(-4, -1, HEADS, -2)), axes=(0, 2, 1, 3))
        x = x + linear(F.reshape(context, shape=(0, 0, -3)), "o", WIDTH)
        h = linear(F.LayerNorm(x, p["g2"], p["h2"], eps=EPSILON), "up", HIDDEN)
        return x + linear(F.LeakyReLU(h, act_type="gelu"), "dn", WIDTH)


def encoder_inputs(rng: np.random.Generator) -> Arrays:
    arrays = {"x": normal(rng, ENCODER_BATCH, SEQUENCE, WIDTH)}
    for i in "12":
        arrays |= {"g" + i: around_one(rng, WIDTH), "h" + i: normal(rng, WIDTH, scale=0.1)}
    for tag, a, b in (
        ("qkv", WIDTH, 3 * WIDTH),
        ("o", WIDTH, WIDTH),
        ("up", WIDTH, HIDDEN),
        ("dn", HIDDEN, WIDTH),
    ):
        arrays |= dense(rng, tag, a, b, gain=1.0)
    return arrays


def encoder_reference(d: Arrays) -> list[np.ndarray]:
    x = d["x"]
    n, s, m = x.shape
    qkv = linear(layer_norm(x, d["g1"], d["h1"]), d["wqkv"], d["bqkv"])
    q, k, v = (t.reshape(n, s, HEADS, m // HEADS).transpose(0, 2, 1, 3) for t in np.split(qkv, 3, axis=-1))
    context = attend(q, k, v).transpose(0, 2, 1, 3).reshape(n, s, m)
    x = x + linear(context, d["wo"], d["bo"])
    h = gelu(linear(layer_norm(x, d["g2"], d["h2"]), d["wup"], d["bup"]))
    return [x + linear(h, d["wdn"], d["bdn"])]


# --- LSTM ---------------------------------------------------------------------------------------------------

STEPS, LSTM_BATCH, LSTM_IN, LSTM_OUT = 35, 32, 128, 256


class LSTM(WithParameters):
    """An LSTM cell, unrolled; gates are input, forget, cell, output. Gives all states and the last cell."""

    def hybrid_forward(self, F: Any, xs: Any, h: Any, c: Any, wx: Any, wh: Any, b: Any) -> Any:
        states = []
        for x in F.split(xs, num_outputs=STEPS, axis=0, squeeze_axis=True):
            gates = F.FullyConnected(x, wx, b, num_hidden=4 * LSTM_OUT) + F.FullyConnected(
                h, wh, no_bias=True, num_hidden=4 * LSTM_OUT
            )
            i, f, g, o = F.split(gates, num_outputs=4, axis=1)
            c = F.sigmoid(f) * c + F.sigmoid(i) * F.tanh(g)
            h = F.sigmoid(o) * F.tanh(c)
            states.append(h)
        return F.stack(*states, axis=0), c


def lstm_inputs(rng: np.random.Generator) -> Arrays:
    return {
        "x": normal(rng, STEPS, LSTM_BATCH, LSTM_IN),
        "h0": normal(rng, LSTM_BATCH, LSTM_OUT, scale=0.1),
        "c0": normal(rng, LSTM_BATCH, LSTM_OUT, scale=0.1),
        "wx": normal(rng, 4 * LSTM_OUT, LSTM_IN, scale=1 / math.sqrt(LSTM_IN)),
        "wh": normal(rng, 4 * LSTM_OUT, LSTM_OUT, scale=1 / math.sqrt(LSTM_OUT)),
        "b": normal(rng, 4 * LSTM_OUT, scale=0.1),
    }


def lstm_reference(d: Arrays) -> list[np.ndarray]:
    h, c, states = d["h0"], d["c0"], []
    for x in d["x"]:
        i, f, g, o = np.split(x @ d["wx"].T + h @ d["wh"].T + d["b"], 4, axis=-1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        states.append(h)
    return [np.stack(states), c]


# --- an operator of the user's ------------------------------------------------------------------------------

CUSTOM_BATCH, CUSTOM = 256, (1024, 1024, 1024)


@functools.cache
def user_operator() -> str:
    """Registers 1 / (1 + exp(-x)) as a user would; its name."""

    @mx.op.register("bench.user_sigmoid")
    class UserSigmoid(mx.op.Elementwise):
        """1 / (1 + exp(-x))"""

        def scalar(self, b: Any, x: Any) -> Any:
            return 1.0 / (b.exp(-x) + 1.0)

        def gradient(self, F: Any, *values: Any) -> Any:
            dy, _, y = values
            return dy * y * (1 - y)

    return "user_sigmoid"


def user_sigmoid(F: Any, x: Any) -> Any:
    """The user's operator on an array."""
    return getattr(F, user_operator())(x)


class TwoLayers(WithParameters):
    """Two layers, each followed by the user's operator."""

    def hybrid_forward(self, F: Any, x: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
        h = user_sigmoid(F, F.FullyConnected(x, w1, b1, num_hidden=CUSTOM[1]))
        return user_sigmoid(F, F.FullyConnected(h, w2, b2, num_hidden=CUSTOM[2]))


def custom_op_inputs(rng: np.random.Generator) -> Arrays:
    """``slope`` is what the gradients are multiplied with from the left."""
    arrays = {name: normal(rng, CUSTOM_BATCH, CUSTOM[0]) for name in ("x", "slope")}
    return arrays | dense(rng, "1", *CUSTOM[:2], gain=1.0) | dense(rng, "2", *CUSTOM[1:], gain=1.0)


def custom_op_reference(d: Arrays) -> list[np.ndarray]:
    """The output and the gradients of the parameters."""
    h = sigmoid(linear(d["x"], d["w1"], d["b1"]))
    y = sigmoid(linear(h, d["w2"], d["b2"]))
    g2 = d["slope"] * y * (1 - y)
    g1 = (g2 @ d["w2"]) * h * (1 - h)
    return [y, g1.T @ d["x"], g1.sum(0), g2.T @ h, g2.sum(0)]


def custom_op_program(arrays: Mapping[str, Any], hybridized: bool) -> Program:
    net = TwoLayers(_picked(arrays, "w1 b1 w2 b2"))
    if hybridized:
        net.hybridize()
    x, slope = arrays["x"], arrays["slope"]
    parameters = (net.w1, net.b1, net.w2, net.b2)

    def step() -> Any:
        with mx.autograd.record():
            y = net(x)
        y.backward(slope)
        return y

    def fetch(y: Any) -> list[np.ndarray]:
        return [y.asnumpy(), *(p.grad().asnumpy() for p in parameters)]

    return Program(step, fetch, (net,), lambda: ((x,),))


# --- the table ----------------------------------------------------------------------------------------------

F32 = 4
_TOKENS = ENCODER_BATCH * SEQUENCE
_HEADS_SHAPE = (BATCH, HEADS, SEQUENCE, HEAD)
_SCORES = BATCH * HEADS * SEQUENCE * SEQUENCE


def _picked(arrays: Mapping[str, Any], names: str) -> dict[str, Any]:
    return {name: arrays[name] for name in names.split()}


_ALL = (
    Workload(
        "tiny_mlp",
        "1x32 → 64 → 64 → 10",
        mlp_inputs(1, TINY),
        lambda d: [mlp_reference(d)],
        lambda t, h: inference(mlp_net(t), h, t["x"]),
        F32 * multiply_adds(TINY),
        2 * multiply_adds(TINY),
    ),
    Workload(
        "mlp",
        "128x784 → 512 → 512 → 10, log_softmax",
        mlp_inputs(128, BIG),
        lambda d: [log_softmax(mlp_reference(d))],
        lambda t, h: inference(mlp_net(t, "log_softmax"), h, t["x"]),
        F32 * (multiply_adds(BIG) + 128 * 794),
        2 * 128 * multiply_adds(BIG),
    ),
    Workload(
        "mlp_train",
        "mlp: one step of SGD with momentum",
        mlp_inputs(128, BIG, labels=True),
        mlp_train_reference,
        mlp_train_program,
        F32 * (5 * multiply_adds(BIG) + 128 * 784),
        6 * 128 * multiply_adds(BIG) - 2 * 128 * 784 * 512,
    ),
    Workload(
        "chain",
        "tanh(x*a+b)*sigmoid(x)+exp(-x*x), 2048x2048",
        lambda r: {
            "x": normal(r, SQUARE, SQUARE),
            "a": normal(r, SQUARE, SQUARE),
            "b": normal(r, 1, SQUARE),
        },
        chain_reference,
        lambda t, h: inference(Chain(), h, *t.values()),
        F32 * 3 * SQUARE**2,
        8 * SQUARE**2,
    ),
    Workload(
        "gelu_bias",
        "gelu(x + b), 4096x1024",
        lambda r: {"x": normal(r, ROWS, COLUMNS), "b": normal(r, COLUMNS)},
        lambda d: [gelu(d["x"] + d["b"])],
        lambda t, h: inference(GeluBias(), h, *t.values()),
        F32 * 2 * ROWS * COLUMNS,
        4 * ROWS * COLUMNS,
    ),
    Workload(
        "layernorm",
        "4096x1024, over the last axis",
        lambda r: {"x": normal(r, ROWS, COLUMNS), "g": around_one(r, COLUMNS), "b": normal(r, COLUMNS)},
        lambda d: [layer_norm(d["x"], d["g"], d["b"])],
        lambda t, h: inference(LayerNorm(), h, *t.values()),
        F32 * 2 * ROWS * COLUMNS,
        8 * ROWS * COLUMNS,
    ),
    Workload(
        "softmax",
        "4096x1024, over the last axis",
        lambda r: {"x": normal(r, ROWS, COLUMNS)},
        lambda d: [softmax(d["x"])],
        lambda t, h: inference(Softmax(), h, *t.values()),
        F32 * 2 * ROWS * COLUMNS,
        4 * ROWS * COLUMNS,
    ),
    Workload(
        "attention",
        "4 x 8 heads x 128 x 64",
        lambda r: {name: normal(r, *_HEADS_SHAPE) for name in "qkv"},
        lambda d: [attend(d["q"], d["k"], d["v"])],
        lambda t, h: inference(Attention(), h, *t.values()),
        F32 * 4 * BATCH * HEADS * SEQUENCE * HEAD,
        4 * _SCORES * HEAD,
    ),
    Workload(
        "encoder",
        "8x128x256, 8 heads, 1024 hidden",
        encoder_inputs,
        encoder_reference,
        lambda t, h: inference(Encoder({k: v for k, v in t.items() if k != "x"}), h, t["x"]),
        F32 * (2 * _TOKENS * WIDTH + WIDTH * (4 * WIDTH + 2 * HIDDEN)),
        2 * _TOKENS * WIDTH * (4 * WIDTH + 2 * HIDDEN) + 4 * _TOKENS * SEQUENCE * WIDTH,
    ),
    Workload(
        "lstm",
        "35 steps of 32x128 → 256, unrolled",
        lstm_inputs,
        lstm_reference,
        lambda t, h: inference(LSTM(_picked(t, "wx wh b")), h, t["x"], t["h0"], t["c0"]),
        F32 * (4 * LSTM_OUT * (LSTM_IN + LSTM_OUT) + STEPS * LSTM_BATCH * (LSTM_IN + LSTM_OUT)),
        2 * STEPS * LSTM_BATCH * 4 * LSTM_OUT * (LSTM_IN + LSTM_OUT),
    ),
    Workload(
        "norm_layer",
        "(x - min) / (max - min), 2048x2048",
        lambda r: {"x": normal(r, SQUARE, SQUARE)},
        minmax_reference,
        lambda t, h: inference(MinMax(), h, *t.values()),
        F32 * 3 * SQUARE**2,
        4 * SQUARE**2,
    ),
    Workload(
        "custom_op",
        "256x1024 → 1024 → 1024, a user's activation, with backward",
        custom_op_inputs,
        custom_op_reference,
        custom_op_program,
        F32 * (2 * multiply_adds(CUSTOM) + 3 * CUSTOM_BATCH * CUSTOM[0]),
        10 * CUSTOM_BATCH * CUSTOM[0] ** 2,
    ),
)

WORKLOADS: dict[str, Workload] = {w.name: w for w in _ALL}

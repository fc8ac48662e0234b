"""Workloads of first calls, ``benchmarks/peers/first_calls.py``: of many graphs, of many shapes, of long graphs.

Beside Gluon networks they are symbols, executors and modules, which MXNet alone has, too.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import hybridc as mx
from benchmarks.loop_workloads import language_model_reference, model_inputs
from benchmarks.peers.peer import GRAPHS
from benchmarks.workloads import (
    LEARNING_RATE,
    MOMENTUM,
    Arrays,
    Program,
    WithParameters,
    Workload,
    around_one,
    dense,
    dense_layer,
    inference,
    layer_norm,
    linear,
    normal,
    relu,
    sigmoid,
    softmax,
)


def program(call: Callable[..., Any], fetch: Callable[[Any], list[np.ndarray]]) -> Program:
    """A program of no blocks."""
    return Program(call, fetch, (), lambda: ())


# --- graphs of two operators --------------------------------------------------------------------------------

OPERATORS: dict[str, Callable[..., Any]] = {"sigmoid": sigmoid, "relu": relu}  # that NumPy lacks


class TwoOperators(mx.gluon.HybridBlock):
    """outer(inner(x))"""

    def __init__(self, inner: str, outer: str) -> None:
        super().__init__()
        self._inner, self._outer = inner, outer

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return getattr(F, self._outer)(getattr(F, self._inner)(x))


def graphs_program(arrays: Mapping[str, Any], hybridized: bool) -> Program:
    """Each call is of the next graph."""
    graphs = [inference(TwoOperators(*names), hybridized, arrays["x"]) for names in GRAPHS]
    turns = itertools.cycle(graphs)
    return program(lambda *data: next(turns).call(*data), graphs[0].fetch)


def graphs_reference(d: Arrays) -> list[np.ndarray]:
    """What the first of the graphs gives."""
    x = d["x"]
    for name in GRAPHS[0]:
        x = OPERATORS.get(name, getattr(np, name, None))(x)
    return [x]


# --- long graphs --------------------------------------------------------------------------------------------

UNITS, ROWS = 16, 4


def tanh_chain_program(arrays: Mapping[str, Any], operators: int) -> Program:
    symbol = mx.sym.Variable("x")
    for _ in range(operators):
        symbol = mx.sym.tanh(symbol)
    return program(lambda: symbol.eval(ctx=mx.cpu(), x=arrays["x"]), lambda result: [result[0].asnumpy()])


def tanh_chain_reference(d: Arrays, operators: int) -> list[np.ndarray]:
    x = d["x"]
    for _ in range(operators):
        x = np.tanh(x)
    return [x]


def layers_inputs(rng: np.random.Generator, layers: int, normed: bool) -> Arrays:
    arrays = {"x": normal(rng, ROWS, UNITS)}
    for i in range(layers):
        arrays |= dense(rng, str(i), UNITS, UNITS, gain=0.1)  # errors shrink from layer to layer
        arrays |= {f"g{i}": around_one(rng, UNITS), f"h{i}": normal(rng, UNITS, scale=0.1)} if normed else {}
    return arrays


def layers_program(arrays: Mapping[str, Any], hybridized: bool) -> Program:
    net = mx.gluon.nn.HybridSequential()
    for i in itertools.takewhile(lambda i: f"w{i}" in arrays, itertools.count()):
        net.add(dense_layer(arrays, str(i), "tanh"))
        if f"g{i}" in arrays:
            norm = mx.gluon.nn.LayerNorm(in_channels=UNITS)
            norm.initialize()
            norm.gamma.set_data(arrays[f"g{i}"])
            norm.beta.set_data(arrays[f"h{i}"])
            net.add(norm)
    return inference(net, hybridized, arrays["x"])


def layers_reference(d: Arrays) -> list[np.ndarray]:
    x = d["x"]
    for i in itertools.takewhile(lambda i: f"w{i}" in d, itertools.count()):
        x = np.tanh(linear(x, d[f"w{i}"], d[f"b{i}"]))
        x = layer_norm(x, d[f"g{i}"], d[f"h{i}"]) if f"g{i}" in d else x
    return [x]


# --- many shapes --------------------------------------------------------------------------------------------

KEY = 64
EXECUTORS, BATCHES = 10, (1, 2, 3, 5, 8, 13, 21, 34)


class GrowingKeys(WithParameters):
    """A step of a decoder: what attention makes of all keys so far, and the keys and values with the new ones."""

    def hybrid_forward(self, F: Any, x: Any, keys: Any, values: Any, **p: Any) -> Any:
        def projected(z: Any, tag: str) -> Any:
            return F.FullyConnected(z, p["w" + tag], p["b" + tag], num_hidden=KEY)

        keys = F.concat(keys, F.expand_dims(projected(x, "k"), axis=1), dim=1)
        values = F.concat(values, F.expand_dims(projected(x, "v"), axis=1), dim=1)
        scores = F.batch_dot(keys, F.expand_dims(projected(x, "q"), axis=2)) * (1 / math.sqrt(KEY))
        context = F.batch_dot(F.softmax(scores, axis=1), values, transpose_a=True)
        return x + projected(F.squeeze(context, axis=1), "o"), keys, values


def growing_keys_inputs(rng: np.random.Generator) -> Arrays:
    arrays = {"x": normal(rng, ROWS, KEY), "keys": normal(rng, ROWS, 1, KEY), "values": normal(rng, ROWS, 1, KEY)}
    for tag in "qkvo":
        arrays |= dense(rng, tag, KEY, KEY, gain=1.0)
    return arrays


def growing_keys_program(arrays: Mapping[str, Any], hybridized: bool) -> Program:
    parameters = dict(arrays)
    data = [parameters.pop(name) for name in ("x", "keys", "values")]
    return inference(GrowingKeys(parameters), hybridized, *data)


def growing_keys_reference(d: Arrays) -> list[np.ndarray]:
    x = d["x"]
    q, k, v = (linear(x, d["w" + tag], d["b" + tag]) for tag in "qkv")
    keys, values = (np.concatenate([d[n], new[:, None]], axis=1) for n, new in (("keys", k), ("values", v)))
    weights = softmax(np.einsum("npk,nk->np", keys, q) * (1 / math.sqrt(KEY)))
    return [x + linear(np.einsum("np,npk->nk", weights, values), d["wo"], d["bo"]), keys, values]


def executors_program(arrays: Mapping[str, Any]) -> Program:
    """One symbol, bound ten times at each of eight batch sizes, and run forwards and backwards."""
    hidden = mx.sym.tanh(mx.sym.FullyConnected(mx.sym.Variable("x"), num_hidden=UNITS, name="one"))
    symbol = mx.sym.FullyConnected(hidden, num_hidden=ROWS, name="two")
    x = arrays["x"]
    given = {f"{name}_{kind}": arrays[f"{kind[0]}{name}"] for name in ("one", "two") for kind in ("weight", "bias")}

    def call() -> Any:
        for batch in [*BATCHES] * EXECUTORS:
            executor = symbol.simple_bind(mx.cpu(), x=(batch, UNITS))
            executor.copy_params_from(given)
            (y,) = executor.forward(is_train=True, x=x[:batch])
            executor.backward([mx.nd.ones(y.shape)])
        return y, executor.grad_dict["one_weight"]

    return program(call, lambda found: [each.asnumpy() for each in found])


def executors_reference(d: Arrays) -> list[np.ndarray]:
    """The result and the gradient of the first weights, for a gradient of ones, of the largest batch."""
    h = np.tanh(linear(d["x"], d["wone"], d["bone"]))
    y = linear(h, d["wtwo"], d["btwo"])
    return [y, ((np.ones_like(y) @ d["wtwo"]) * (1 - h * h)).T @ d["x"]]


# --- modules ------------------------------------------------------------------------------------------------

STATES, WORDS = 32, 50
BUCKET = 20  # steps of the first


def unrolled(steps: int) -> Any:
    """A language model of two LSTM layers, as a symbol of so many steps."""
    cells = mx.rnn.SequentialRNNCell()
    for i in range(2):
        cells.add(mx.rnn.LSTMCell(STATES, prefix=f"l{i}_"))
    words = mx.sym.Embedding(mx.sym.var("data"), weight=mx.sym.var("table"), input_dim=WORDS, output_dim=STATES)
    states, _ = cells.unroll(steps, inputs=words, layout="TNC", merge_outputs=True)
    scores = mx.sym.FullyConnected(
        mx.sym.reshape(states, shape=(-1, STATES)), mx.sym.var("wz"), mx.sym.var("bz"), num_hidden=WORDS
    )
    return mx.sym.SoftmaxOutput(scores, mx.sym.reshape(mx.sym.var("softmax_label"), shape=(-1,)), name="softmax")


def batch_of(x: Any, y: Any) -> Any:
    """Words and those that follow, in the bucket of their number of steps."""
    data, label = [("data", x.shape)], [("softmax_label", y.shape)]
    return mx.io.DataBatch([x], [y], bucket_key=x.shape[0], provide_data=data, provide_label=label)


def module_program(arrays: Mapping[str, Any], module: Any) -> Program:
    """Steps of SGD with momentum; the first binds the module."""
    parameters = dict(arrays)
    x, y = parameters.pop("x"), parameters.pop("y")

    def start(first: Any) -> None:
        module.bind(data_shapes=first.provide_data, label_shapes=first.provide_label)
        module.set_params(parameters, {})
        settings = {"learning_rate": LEARNING_RATE, "momentum": MOMENTUM, "rescale_grad": 1 / y.size}
        module.init_optimizer(optimizer="sgd", optimizer_params=settings)

    def step(x: Any = x, y: Any = y) -> Any:
        batch = batch_of(x, y)
        if not module.binded:
            start(batch)
        module.forward_backward(batch)
        module.update()
        return module.get_outputs()[0], y

    def fetch(found: Any) -> list[np.ndarray]:
        likely, labels = found[0].asnumpy(), found[1].asnumpy().astype(int).ravel()
        loss = -np.log(likely[np.arange(labels.size), labels]).mean()
        trained = module.get_params()[0]
        return [np.asarray(loss), *(trained[name].asnumpy() for name in parameters)]

    return program(step, fetch)


def bucketing_module() -> Any:
    """A module of the same network for any number of steps."""
    return mx.mod.BucketingModule(lambda steps: (unrolled(steps), ["data"], ["softmax_label"]), BUCKET)


# --- the table ----------------------------------------------------------------------------------------------


def _workload(
    name: str,
    about: str,
    make: Callable[[np.random.Generator], Arrays],
    reference: Callable[[Arrays], list[np.ndarray]],
    network: Callable[[Mapping[str, Any], bool], Program],
) -> Workload:
    """One whose calls are of no interest but the first: it has no floor."""
    return Workload(name, about, make, reference, network, 0.0, 0.0)


def _tanh_chain(operators: int) -> Workload:
    return _workload(
        f"tanh_chain_{operators}",
        f"a symbol of {operators} tanh, {ROWS}x{UNITS}",
        lambda rng: {"x": normal(rng, ROWS, UNITS)},
        lambda d: tanh_chain_reference(d, operators),
        lambda arrays, _: tanh_chain_program(arrays, operators),
    )


def _layers(layers: int, normed: bool = False) -> Workload:
    return _workload(
        f"{'normed' if normed else 'dense'}_layers_{layers}",
        f"{layers} layers of Dense{' and LayerNorm' * normed}, {ROWS}x{UNITS}",
        lambda rng: layers_inputs(rng, layers, normed),
        layers_reference,
        layers_program,
    )


def _unrolled(steps: int) -> Workload:
    return _workload(
        f"unrolled_lstm_{steps}",
        f"a Module of two LSTM layers, {steps} steps unrolled: one step of SGD with momentum",
        lambda rng: model_inputs(rng, (steps, STATES, STATES, STATES), WORDS),
        language_model_reference,
        lambda arrays, _: module_program(arrays, mx.mod.Module(unrolled(steps), ["data"], ["softmax_label"])),
    )


_ALL = (
    _workload(
        "graphs",
        f"graphs of two operators, {ROWS}x{UNITS}, each call another one",
        lambda rng: {"x": normal(rng, ROWS, UNITS)},
        graphs_reference,
        graphs_program,
    ),
    *(_tanh_chain(n) for n in (450, 900)),
    *(_layers(n) for n in (500, 1000)),
    *(_layers(n, normed=True) for n in (625, 1250)),
    _workload(
        "growing_keys",
        "attention of a new token to those before, 4x64",
        growing_keys_inputs,
        growing_keys_reference,
        growing_keys_program,
    ),
    _workload(
        "executors",
        "ten executors of one symbol at eight batch sizes each, forward and backward",
        lambda rng: {
            "x": normal(rng, max(BATCHES), UNITS),
            **dense(rng, "one", UNITS, UNITS, gain=1.0),
            **dense(rng, "two", UNITS, ROWS, gain=1.0),
        },
        executors_reference,
        lambda arrays, _: executors_program(arrays),
    ),
    *(_unrolled(n) for n in (5, 20, 60)),
    _workload(
        "buckets",
        f"a BucketingModule of the same network, {BUCKET} steps",
        lambda rng: model_inputs(rng, (BUCKET, STATES, STATES, STATES), WORDS),
        language_model_reference,
        lambda arrays, _: module_program(arrays, bucketing_module()),
    ),
)

FIRST_WORKLOADS: dict[str, Workload] = {w.name: w for w in _ALL}

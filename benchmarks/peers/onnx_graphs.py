"""Each workload as a graph of ONNX operators, weights as constants, for all peers that read such files."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper  # pyright: ignore[reportMissingImports]

from benchmarks.image_networks import EPSILON, NETWORKS, Conv
from benchmarks.peers.peer import (
    COUNTED_STEPS,
    SENTENCE_EPSILON,
    SENTENCE_HEADS,
    Arrays,
    Peer,
    Program,
    Task,
    encoder_layers,
)

OPSET, IR_VERSION = 20, 10


class Graph:
    """An ONNX graph that is being written; values go by name."""

    def __init__(self, task: Task, inputs: str) -> None:
        self.arrays = task.arrays
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.feeds = {name: task.arrays[name] for name in inputs.split()}

    def op(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        """An operator; the name of its output, or those of several."""
        names = [f"{kind}_{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def constant(self, value: Any) -> str:
        """An array that is known when the graph is built."""
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.array(value, order="C"), name))
        return name

    def number(self, value: float) -> str:
        """A float32 constant."""
        return self.constant(np.float32(value))

    def weight(self, name: str) -> str:
        """An input of the task as a constant."""
        return self.constant(self.arrays[name])

    def model(self, *outputs: str) -> bytes:
        """The graph in ONNX's format."""
        floats = TensorProto.FLOAT
        given = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for name, x in self.feeds.items()
        ]
        made = [helper.make_tensor_value_info(name, floats, None) for name in outputs]
        graph = helper.make_graph(self.nodes, "benchmark", given, made, self.constants)
        opsets = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION).SerializeToString()

    # --- layers

    def linear(self, x: str, tag: str) -> str:
        """A layer on the last axis of an array of any rank."""
        product = self.op("MatMul", x, self.constant(self.arrays[f"w{tag}"].T))
        return self.op("Add", product, self.weight(f"b{tag}"))

    def perceptron(self, x: str) -> str:
        """Three layers on a matrix."""
        for i in "123":
            x = self.op("Gemm", x, self.weight(f"w{i}"), self.weight(f"b{i}"), transB=1)
            x = self.op("Relu", x) if i != "3" else x
        return x

    def layer_norm(self, x: str, gamma: str, beta: str, epsilon: float) -> str:
        """Normalization over the last axis."""
        given = self.weight(gamma), self.weight(beta)
        return self.op("LayerNormalization", x, *given, axis=-1, epsilon=epsilon)

    def attend(self, q: str, k_transposed: str, v: str, size: int) -> str:
        """Scaled dot-product attention."""
        scores = self.op("Mul", self.op("MatMul", q, k_transposed), self.number(1 / math.sqrt(size)))
        return self.op("MatMul", self.op("Softmax", scores, axis=-1), v)

    def recurrent(self, kind: str, x: str, *tags: str, **attributes: Any) -> str:
        """A recurrent layer of one or two directions, (steps, directions, batch, states), from zeros."""
        order = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2)}[kind]  # of ONNX's gates among Gluon's

        def gates(tag: str, name: str) -> np.ndarray:
            parts = np.split(self.arrays[f"{tag}_{name}"], len(order))
            return np.concatenate([parts[i] for i in order])

        given, kept = (np.stack([gates(t, f"{n}_weight") for t in tags]) for n in ("i2h", "h2h"))
        biases = np.stack([np.concatenate([gates(t, f"{n}_bias") for n in ("i2h", "h2h")]) for t in tags])
        operands = [self.constant(a) for a in (given, kept, biases)]
        return self.op(kind, x, *operands, hidden_size=kept.shape[2], **attributes)


class Builder:
    """Layers of image networks."""

    def __init__(self, graph: Graph) -> None:
        self.g = graph

    def conv(self, x: str, tag: str, layer: Conv) -> str:
        before, after = zip(*layer.border)
        axes = len(layer.kernel)
        return self.g.op(
            "ConvTranspose" if layer.transposed else "Conv", x, self.g.weight(f"w{tag}"), kernel_shape=layer.kernel,
            strides=[layer.stride] * axes, dilations=[layer.dilate] * axes, group=layer.groups,
            pads=[*before, *after],
        )  # fmt: skip

    def norm(self, x: str, tag: str, channels: int) -> str:
        given = (self.g.weight(name + tag) for name in "ghmv")
        return self.g.op("BatchNormalization", x, *given, epsilon=EPSILON)

    def relu(self, x: str) -> str:
        return self.g.op("Relu", x)

    def clip(self, x: str, low: float, high: float) -> str:
        return self.g.op("Clip", x, self.g.number(low), self.g.number(high))

    def tanh(self, x: str) -> str:
        return self.g.op("Tanh", x)

    def sigmoid(self, x: str) -> str:
        return self.g.op("Sigmoid", x)

    def add(self, x: str, y: str) -> str:
        return self.g.op("Add", x, y)

    def multiply(self, x: str, y: str) -> str:
        return self.g.op("Mul", x, y)

    def concat(self, x: str, y: str) -> str:
        return self.g.op("Concat", x, y, axis=1)

    def max_pool(self, x: str, kernel: int, stride: int, pad: int) -> str:
        return self.g.op("MaxPool", x, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4)

    def mean_pool(self, x: str) -> str:
        return self.flatten(self.g.op("GlobalAveragePool", x))

    def flatten(self, x: str) -> str:
        return self.g.op("Flatten", x)

    def dense(self, x: str, tag: str, columns: int, outputs: int) -> str:
        return self.g.op("Gemm", x, self.g.weight(f"w{tag}"), self.g.weight(f"b{tag}"), transB=1)


class OnnxPeer(Peer):
    """What runs such graphs, on so many threads; it has no gradients."""

    def __init__(self, version: str, threads: int) -> None:
        self.version, self.threads = version, threads

    def loaded(self, model: bytes, feeds: Arrays) -> Callable[[], list[np.ndarray]]:
        """What runs a model on these inputs."""
        raise NotImplementedError

    def session(self, graph: Graph, *outputs: str) -> Program:
        """What runs a graph."""
        return self._started(graph.model(*outputs), graph.feeds)

    def onnx_file(self, task: Task) -> Program:
        """What runs a file with the arrays as its inputs."""
        return self._started(Path(task.file).read_bytes(), task.arrays)

    def _started(self, model: bytes, feeds: Arrays) -> Program:
        """What runs a model. Loading optimizes it and packs weights: that belongs to the first call."""
        made: list[Callable[[], list[np.ndarray]]] = []

        def call() -> Any:
            if not made:
                made.append(self.loaded(model, feeds))
            return made[0]()

        return Program(call, list)

    def tiny_mlp(self, task: Task) -> Program:
        g = Graph(task, "x")
        return self.session(g, g.perceptron("x"))

    def mlp(self, task: Task) -> Program:
        g = Graph(task, "x")
        return self.session(g, g.op("LogSoftmax", g.perceptron("x"), axis=-1))

    def chain(self, task: Task) -> Program:
        g = Graph(task, "x a b")
        t = g.op("Tanh", g.op("Add", g.op("Mul", "x", "a"), "b"))
        e = g.op("Exp", g.op("Neg", g.op("Mul", "x", "x")))
        return self.session(g, g.op("Add", g.op("Mul", t, g.op("Sigmoid", "x")), e))

    def gelu_bias(self, task: Task) -> Program:
        g = Graph(task, "x b")
        return self.session(g, g.op("Gelu", g.op("Add", "x", "b")))

    def layernorm(self, task: Task) -> Program:
        g = Graph(task, "x")
        return self.session(g, g.layer_norm("x", "g", "b", task.epsilon))

    def softmax(self, task: Task) -> Program:
        g = Graph(task, "x")
        return self.session(g, g.op("Softmax", "x", axis=-1))

    def norm_layer(self, task: Task) -> Program:
        g = Graph(task, "x")
        low, high = g.op("ReduceMin", "x", keepdims=0), g.op("ReduceMax", "x", keepdims=0)
        return self.session(g, g.op("Div", g.op("Sub", "x", low), g.op("Sub", high, low)))

    def attention(self, task: Task) -> Program:
        g = Graph(task, "q k v")
        keys = g.op("Transpose", "k", perm=[0, 1, 3, 2])
        return self.session(g, g.attend("q", keys, "v", task.arrays["q"].shape[-1]))

    def encoder(self, task: Task) -> Program:
        g = Graph(task, "x")
        n, s, m = task.arrays["x"].shape
        size = m // task.heads

        def split(z: str, *axes: int) -> str:
            shaped = g.op("Reshape", z, g.constant(np.array([n, s, task.heads, size])))
            return g.op("Transpose", shaped, perm=axes)

        qkv = g.linear(g.layer_norm("x", "g1", "h1", task.epsilon), "qkv")
        q, k, v = g.op("Split", qkv, outputs=3, axis=-1, num_outputs=3)
        context = g.attend(split(q, 0, 2, 1, 3), split(k, 0, 2, 3, 1), split(v, 0, 2, 1, 3), size)
        context = g.op("Transpose", context, perm=[0, 2, 1, 3])
        context = g.op("Reshape", context, g.constant(np.array([n, s, m])))
        x = g.op("Add", "x", g.linear(context, "o"))
        h = g.op("Gelu", g.linear(g.layer_norm(x, "g2", "h2", task.epsilon), "up"))
        return self.session(g, g.op("Add", x, g.linear(h, "dn")))

    def sentences(self, task: Task) -> Program:
        g = Graph(task, "x lengths")
        n, tokens = task.arrays["x"].shape
        heads, units = SENTENCE_HEADS, task.arrays["words"].shape[1]
        split, joined = (g.constant(np.array([n, tokens, *rest])) for rest in ((heads, units // heads), (units,)))
        one, two = g.constant(np.array([1])), g.constant(np.array([2]))

        def norm(x: str, tag: str) -> str:
            return g.layer_norm(x, "g" + tag, "h" + tag, SENTENCE_EPSILON)

        lengths = g.op("Unsqueeze", "lengths", one)
        shown = g.op("Cast", g.op("Less", g.constant(np.arange(tokens)), lengths), to=TensorProto.FLOAT)
        mask = g.op("Unsqueeze", g.op("Unsqueeze", shown, one), two)
        mask = g.op("Mul", g.op("Sub", g.number(1), mask), g.number(-1e9))
        tables = g.constant(task.arrays["places"][:tokens] + task.arrays["kinds"][0])
        x = norm(g.op("Add", g.op("Gather", g.weight("words"), "x", axis=0), tables), "e")
        for i in range(encoder_layers(task.arrays)):
            q, k, v = (g.op("Reshape", g.linear(x, f"{i}{part}"), split) for part in "qkv")
            q, k, v = (
                g.op("Transpose", z, perm=axes) for z, axes in ((q, [0, 2, 1, 3]), (k, [0, 2, 3, 1]), (v, [0, 2, 1, 3]))
            )
            scores = g.op("Div", g.op("MatMul", q, k), g.number(math.sqrt(units // heads)))
            context = g.op("MatMul", g.op("Softmax", g.op("Add", scores, mask), axis=-1), v)
            context = g.op("Reshape", g.op("Transpose", context, perm=[0, 2, 1, 3]), joined)
            x = norm(g.op("Add", g.linear(context, f"{i}o"), x), f"{i}a")
            x = norm(g.op("Add", g.linear(g.op("Gelu", g.linear(x, f"{i}u")), f"{i}d"), x), f"{i}f")
        total = g.op("ReduceSum", g.op("Mul", x, g.op("Unsqueeze", shown, two)), one, keepdims=0)
        mean = g.op("Div", total, g.op("Cast", lengths, to=TensorProto.FLOAT))
        return self.session(g, g.op("LpNormalization", mean, axis=1, p=2))

    def image(self, task: Task) -> Program:
        """A network of images."""
        g = Graph(task, "x")
        return self.session(g, NETWORKS[task.name].function(Builder(g), "x"))

    def lstm(self, task: Task) -> Program:
        g = Graph(task, "x h0 c0")
        wx, wh = (g.constant(task.arrays[name].T) for name in ("wx", "wh"))
        bias = g.weight("b")
        h, c, states = "h0", "c0", []
        for step in range(len(task.arrays["x"])):
            x = g.op("Gather", "x", g.constant(np.int64(step)), axis=0)
            gates = g.op("Add", g.op("Add", g.op("MatMul", x, wx), g.op("MatMul", h, wh)), bias)
            i, f, u, o = g.op("Split", gates, outputs=4, axis=1, num_outputs=4)
            kept = g.op("Mul", g.op("Sigmoid", f), c)
            c = g.op("Add", kept, g.op("Mul", g.op("Sigmoid", i), g.op("Tanh", u)))
            h = g.op("Mul", g.op("Sigmoid", o), g.op("Tanh", c))
            states.append(g.op("Unsqueeze", h, g.constant(np.array([0]))))
        return self.session(g, g.op("Concat", *states, axis=0), c)

    def lstm_layer(self, task: Task) -> Program:
        g = Graph(task, "x")
        return self.session(g, g.op("Squeeze", g.recurrent("LSTM", "x", "l0"), g.constant(np.array([1]))))

    def bigru(self, task: Task) -> Program:
        g = Graph(task, "x")
        steps, batch, _ = task.arrays["x"].shape
        x = "x"
        for layer in "01":
            made = g.recurrent("GRU", x, f"l{layer}", f"r{layer}", linear_before_reset=1, direction="bidirectional")
            made = g.op("Transpose", made, perm=[0, 2, 1, 3])
            x = g.op("Reshape", made, g.constant(np.array([steps, batch, -1])))
        return self.session(g, x)

    def decoder(self, task: Task) -> Program:
        g = Graph(task, "x h0 memory")
        one = g.constant(np.array([1]))
        given, kept = (g.constant(task.arrays[f"l0_{name}_weight"].T) for name in ("i2h", "h2h"))
        bias, kept_bias = g.weight("l0_i2h_bias"), g.weight("l0_h2h_bias")
        turned = g.op("Transpose", "memory", perm=[0, 2, 1])
        h, states = "h0", list[str]()
        for step in range(len(task.arrays["x"])):
            row = g.op("Gather", "x", g.constant(np.int64(step)), axis=0)
            scores = g.op("Softmax", g.op("MatMul", g.op("Unsqueeze", h, one), turned), axis=2)
            context = g.op("Squeeze", g.op("MatMul", scores, "memory"), one)
            rows = g.op("Add", g.op("MatMul", g.op("Concat", row, context, axis=1), given), bias)
            r, z, n = g.op("Split", rows, outputs=3, axis=1, num_outputs=3)
            rows = g.op("Add", g.op("MatMul", h, kept), kept_bias)
            hr, hz, hn = g.op("Split", rows, outputs=3, axis=1, num_outputs=3)
            update = g.op("Sigmoid", g.op("Add", z, hz))
            new = g.op("Tanh", g.op("Add", n, g.op("Mul", g.op("Sigmoid", g.op("Add", r, hr)), hn)))
            # (1 - z) n + z h
            h = g.op("Add", new, g.op("Mul", update, g.op("Sub", h, new)))
            states.append(g.op("Unsqueeze", h, g.constant(np.array([0]))))
        return self.session(g, g.op("Concat", *states, axis=0))

    def while_loop(self, task: Task) -> Program:
        g = Graph(task, "i s")
        limit = g.number(COUNTED_STEPS)
        goes_on = g.op("Squeeze", g.op("Less", "i", limit))
        numbers = {"one": np.float32(1), "factor": np.float32(0.99), "limit": np.float32(COUNTED_STEPS)}
        floats, truth = TensorProto.FLOAT, TensorProto.BOOL
        shapes = {name: x.shape for name, x in g.feeds.items()}
        body = helper.make_graph(
            [
                helper.make_node("Add", ["i_in", "one"], ["i_out"]),
                helper.make_node("Mul", ["s_in", "factor"], ["scaled"]),
                helper.make_node("Add", ["scaled", "one"], ["s_out"]),
                helper.make_node("Less", ["i_out", "limit"], ["less"]),
                helper.make_node("Squeeze", ["less"], ["again"]),
            ],
            "step",
            [
                helper.make_tensor_value_info("number", TensorProto.INT64, []),
                helper.make_tensor_value_info("before", truth, []),
                helper.make_tensor_value_info("i_in", floats, shapes["i"]),
                helper.make_tensor_value_info("s_in", floats, shapes["s"]),
            ],
            [
                helper.make_tensor_value_info("again", truth, []),
                helper.make_tensor_value_info("i_out", floats, shapes["i"]),
                helper.make_tensor_value_info("s_out", floats, shapes["s"]),
            ],
            [numpy_helper.from_array(np.array(x), name) for name, x in numbers.items()],
        )
        _, s = g.op("Loop", "", goes_on, "i", "s", outputs=2, body=body)
        return self.session(g, s)

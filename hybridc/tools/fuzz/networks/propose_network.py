"""Random networks: nodes are proposed by the shapes of the values that a network has, and eager calls decide.

A proposal that the library refuses is dropped; one whose results do not have the batch as their first axis, or change
with it in other axes, too. An error that is none of the library's is a failure, and such a network is given as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import TypeVar

import numpy as np

from hybridc import autograd
from hybridc.dialects.operator_attribute import Shape
from hybridc.errors import MXNetError
from hybridc.ground.nesting import as_list
from hybridc.nd.creation import array
from hybridc.tools.fuzz.networks.random_network import (
    BATCH,
    NetworkBody,
    NetworkInput,
    NetworkNode,
    RandomNetwork,
    network_class,
)

T = TypeVar("T")

# Channels, sizes of axes, and numbers of examples that fill vectors and those that do not; small, as networks are many.
CHANNELS = (1, 2, 3, 4, 5, 7, 8, 16, 17)
SPATIAL = (1, 2, 3, 4, 5, 6, 8, 9)
MOST = 3000  # elements of a value for one example
BATCHES = (1, 1, 2, 3, 4, 5, 8)
ACTIVATIONS = ("relu", "sigmoid", "tanh", "softrelu", "softsign")
OPTIMIZERS = (
    "'sgd', {'learning_rate': 0.1}",
    "'sgd', {'learning_rate': 0.05, 'momentum': 0.9, 'wd': 0.01}",
    "'sgd', {'learning_rate': 0.1, 'clip_gradient': 0.05, 'lr_scheduler': mx.lr_scheduler.FactorScheduler(2, 0.5)}",
    "'nag', {'learning_rate': 0.05, 'momentum': 0.9}",
    "'adam', {'learning_rate': 0.01}",
    "'adam', {'learning_rate': 0.01, 'wd': 0.01, 'lr_scheduler': mx.lr_scheduler.PolyScheduler(10, 0.01)}",
    "'adagrad', {'learning_rate': 0.05}",
    "'adadelta', {}",
    "'adamax', {'learning_rate': 0.01}",
    "'rmsprop', {'learning_rate': 0.01}",
    "'rmsprop', {'learning_rate': 0.01, 'centered': True}",
    "'ftrl', {'learning_rate': 0.05}",
    "'nadam', {'learning_rate': 0.01}",
    "'lamb', {'learning_rate': 0.01}",
)
# None has a kink at 0, which the means of what is normalised are but for rounding.
LOSSES = (
    "(o - y) ** 2",
    "gluon.loss.L2Loss()(o, y)",
    "gluon.loss.HuberLoss()(o, y)",
    "gluon.loss.LogisticLoss()(o + 0.01, mx.nd.sign(y))",
    "gluon.loss.SigmoidBCELoss()(o + 0.01, y)",
)

# A proposal: the call, the constructor of its block (or None), and the shape of its weight (or None).
Proposal = tuple[str, str | None, Shape | None]


def random_network(seed: int, number: int) -> RandomNetwork:
    """The network of this number among those of a seed."""
    return _NetworkWriter(Random(f"network-{seed}-{number}")).whole()


class _NetworkWriter:
    """A network while it is written."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.nodes: list[NetworkNode] = []
        self.shapes: list[Shape] = []  # of the values, without the axis of examples
        self.broken = False  # an error that is none of the library's

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def pick(self, choices: Sequence[T]) -> T:
        return self.random.choice(choices)

    # --- the whole -------------------------------------------------------------------------------------------

    def whole(self) -> RandomNetwork:
        """A network with inputs and events."""
        random = self.random
        inputs = [self.input() for _ in range(self.pick((1, 1, 1, 2, 2, 3)))]
        network = self.network(inputs, random.randint(2, 15), nests=True)
        dtype = self.pick(("float32",) * 6 + ("float16", "bfloat16"))
        parts = None
        if self.chance(0.2):
            blocks = [i for i, node in enumerate(network.nodes) if node.block is not None]
            parts = tuple(i for i in blocks if self.chance(0.6))
        optimizer = self.pick(OPTIMIZERS)
        if dtype != "float32":
            optimizer = optimizer.replace("{", "{'multi_precision': True, ", 1).replace(", }", "}")
        inputs = self.growing(network, inputs)
        return RandomNetwork(
            network,
            tuple(inputs),
            self.events(parts is None, any(x.grows for x in inputs)),
            dtype,
            parts,
            tuple(name for name in ("static_alloc", "static_shape") if self.chance(0.2)),
            optimizer,
            tuple((random.randrange(12), self.pick(("null", "add"))) for _ in range(self.pick((0, 0, 0, 1, 2)))),
            self.pick(LOSSES),
            random.randrange(1000),
        )

    def growing(self, network: NetworkBody, inputs: list[NetworkInput]) -> list[NetworkInput]:
        """The inputs, with the axes that may be longer: all but channels, or the last ones, or none."""
        axes = {1: (), 2: (0, 1), 3: (1, 2), 4: (1, 2, 3)}
        for choice in (axes, {rank: some[-1:] for rank, some in axes.items()}):
            grown = [replace(x, grows=(0,) if x.classes is not None else choice[len(x.shape)]) for x in inputs]
            longer = [replace(x, shape=x.shape_of(BATCH, True)[1:]) for x in grown]
            if self.broken or not any(x.grows for x in grown):
                break
            try:
                _shape(network, inputs, BATCH, longer)
            except MXNetError:
                continue
            return grown
        return inputs

    def events(self, whole: bool, grows: bool) -> tuple[tuple[str, int], ...]:
        words = ["predict", "predict", "train", "train", "train", "loop", "write", "save", "threads"]
        words += ["step", "step", "export"] if whole else []
        found = [(self.pick(("predict", "train")), self.pick(BATCHES))]
        for _ in range(self.random.randint(2, 6)):
            word = self.pick(words)
            found.append((word, self.random.randrange(12) if word == "write" else self.pick(BATCHES)))
            if grows and word != "write" and self.chance(0.4):
                found[-1] = (f"{word}+", found[-1][1])
            if word == "write":
                found.append(("predict", found[0][1]))
        if self.chance(0.05):
            found.append(("predict", 0))
        return tuple(found)

    def input(self) -> NetworkInput:
        kind = self.pick(("row", "row", "sequence", "sequence", "line", "image", "image", "volume", "tokens"))
        channels, size = self.pick(CHANNELS), self.pick(SPATIAL)
        shapes: dict[str, Shape] = {
            "row": (channels,),
            "sequence": (self.pick((1, 2, 3, 5)), channels),
            "line": (channels, self.pick((4, 7, 9, 16))),
            "image": (channels, size, self.pick((size, *SPATIAL))),
            "volume": (self.pick((1, 2, 3)), self.pick((2, 3, 4)), self.pick((2, 4)), self.pick((2, 3, 5))),
            "tokens": (self.pick((1, 2, 3, 5)),),
        }
        return NetworkInput(shapes[kind], self.pick((3, 11)) if kind == "tokens" else None)

    def network(self, inputs: Sequence[NetworkInput], count: int, nests: bool) -> NetworkBody:
        """So many nodes, as far as eager calls take them."""
        self.shapes = [x.shape for x in inputs]
        style = self.pick(("hybrid_forward", "hybrid_forward", "forward"))
        classes = {i: x.classes for i, x in enumerate(inputs) if x.classes is not None}
        for i, number in classes.items():  # tokens have one use
            self.extend(inputs, style, NetworkNode("{b}({0})", (i,), f"nn.Embedding({number}, {self.pick(CHANNELS)})"))
        for _ in range(4 * count):
            if len(self.nodes) >= count or self.broken:
                break
            usable = [i for i in range(len(self.shapes)) if i not in classes]
            if usable:
                self.extend(inputs, style, self.proposal(usable, nests))
        return self.made(inputs, style)

    def made(self, inputs: Sequence[NetworkInput], style: str) -> NetworkBody:
        used = {i for node in self.nodes for i in node.operands}
        results = range(len(inputs), len(self.shapes))
        ends = [i for i in results if i not in used]
        outputs = ends[-3:] if ends else [len(self.shapes) - 1]
        if self.broken:
            outputs = [len(self.shapes) - 1]
        return NetworkBody(len(inputs), tuple(self.nodes), tuple(outputs), style)

    def extend(self, inputs: Sequence[NetworkInput], style: str, node: NetworkNode | None) -> None:
        """Take a node if eager calls with two numbers of examples do, and its value begins with that axis."""
        if node is None:
            return
        self.nodes.append(node)
        last = len(inputs) + len(self.nodes) - 1
        network = NetworkBody(len(inputs), tuple(self.nodes), (last,), style)
        try:
            shapes = [_shape(network, inputs, batch) for batch in (BATCH, BATCH + 1)]
        except MXNetError:
            self.nodes.pop()
            return
        except Exception:
            self.broken = True
            self.shapes.append(())
            return
        first, second = shapes
        fits = first[:1] == (BATCH,) and second == (BATCH + 1, *first[1:]) and 0 < math.prod(first[1:]) <= MOST
        if not fits:
            self.nodes.pop()
            return
        self.shapes.append(first[1:])

    # --- proposals -------------------------------------------------------------------------------------------

    def proposal(self, usable: Sequence[int], nests: bool) -> NetworkNode | None:
        """A node on some of these values, later ones more often."""
        operand = self.pick(usable[-3:]) if self.chance(0.8) else self.pick(usable)
        roll = self.random.random()
        if roll < 0.22:
            return self.joined(operand, usable)
        if roll < 0.28 and nests:
            return self.nested(operand)
        if roll < 0.33:
            return self.repeated(usable)
        shape = self.shapes[operand]
        makers: dict[int, Callable[[Shape], Proposal]] = {1: self.on_row, 3: self.on_image, 4: self.on_volume}
        if roll < 0.5:
            made = self.on_any(shape)
        elif len(shape) == 2:
            made = self.on_line(shape) if self.chance(0.5) else self.on_sequence(shape)
        elif len(shape) in makers:
            made = makers[len(shape)](shape)
        else:
            made = self.on_any(shape)
        call, block, weight = made
        return NetworkNode(call, (operand,), block, None, weight)

    def joined(self, operand: int, usable: Sequence[int]) -> NetworkNode | None:
        """Two or three values together: sums, concatenations, products, choices."""
        shape = self.shapes[operand]
        same = [i for i in usable if self.shapes[i] == shape and i != operand]
        if same and self.chance(0.6):
            call = self.pick(
                (
                    "{0} + {1}",
                    "{0} * {1}",
                    "{0} - {1}",
                    "F.maximum({0}, {1})",
                    "F.concat({0}, {1}, dim=1)",
                    "F.stack({0}, {1}, axis=1)",
                    "F.where({0} > 0, {0}, {1})",
                    "F.add_n({0}, {1}, {0})",
                )
            )
            return NetworkNode(call, (operand, self.pick(same)))
        if not shape:
            return NetworkNode("{0} * {1}", (operand, operand))
        ranks = [i for i in usable if len(self.shapes[i]) == len(shape)]
        other = self.pick(ranks)
        if len(shape) == 1:
            kinds = ("F.concat({0}, {1}, dim=1)", "F.broadcast_mul(F.expand_dims({0}, 2), F.expand_dims({1}, 1))")
            return NetworkNode(self.pick(kinds), (operand, other))
        axis = self.random.randint(1, len(shape))
        attention = "F.batch_dot(F.softmax(F.batch_dot({0}, {1}, transpose_b=True) * 0.5), {1})"
        calls = [f"F.concat({{0}}, {{1}}, dim={axis})", "F.broadcast_add({0}, F.mean({1}, axis=1, keepdims=True))"]
        calls += [attention, "F.batch_dot({0}, {1}, transpose_b=True)"] if len(shape) == 2 else []
        return NetworkNode(self.pick(calls), (operand, other))

    def nested(self, operand: int) -> NetworkNode | None:
        """A network inside, by itself or around a residual sum."""
        inner = _NetworkWriter(self.random)
        network = inner.network([NetworkInput(self.shapes[operand])], self.random.randint(1, 4), nests=False)
        if not network.nodes:
            return None
        self.broken |= inner.broken
        network = replace(network, outputs=network.outputs[-1:])
        same = not inner.broken and inner.shapes[network.outputs[0]] == self.shapes[operand]
        return NetworkNode("{0} + {b}({0})" if same and self.chance(0.7) else "{b}({0})", (operand,), network)

    def repeated(self, usable: Sequence[int]) -> NetworkNode | None:
        """A block once more, with the parameters that it has."""
        known = [(i, n) for i, n in enumerate(self.nodes) if n.block is not None and n.call == "{b}({0})"]
        if not known:
            return None
        at, node = self.pick(known)
        of = self.shapes[node.operands[0]]
        alike = [i for i in usable if len(self.shapes[i]) == len(of)]
        if not alike:
            return None
        return NetworkNode(node.call, (self.pick(alike),), None, node.same_as if node.same_as is not None else at)

    def on_any(self, shape: Shape) -> Proposal:
        axis = self.random.randint(1, len(shape)) if shape else 0
        size = shape[axis - 1] if shape else 1
        activation = self.pick(ACTIVATIONS)
        functions = [
            "F.tanh({0})", "F.relu({0})", "F.sigmoid({0}) * {0}", "{0} * 0.5 + 1", "1 - {0}", "F.abs({0})",
            "F.exp({0} * 0.1)", "F.log(F.abs({0}) + 1)", "F.square({0})", "F.sqrt(F.abs({0}) + 0.1)", "F.erf({0})",
            "F.clip({0}, -1, 1)", "F.LeakyReLU({0}, act_type='elu')", "F.Custom({0}, op_type='fuzz_scale')",
            "F.fuzz_gate({0})", "F.BlockGrad({0}) + {0}",
            "F.contrib.cond(F.sum({0}) > 0, lambda: F.tanh({0}), lambda: {0} * 0.5)",
            "F.contrib.while_loop(lambda i, s: F.sum(i) < 3, lambda i, s: ([], [i + 1, F.tanh(s) + {0}]), "
            "[F.zeros((1,)), {0}], max_iterations=5)[1][1]",
            "F.L2Normalization(F.Flatten({0}))",
        ]  # fmt: skip
        if len(shape):
            functions += [
                f"F.softmax({{0}}, axis={axis})", f"F.log_softmax({{0}}, axis={axis})",
                f"F.mean({{0}}, axis={axis}, keepdims=True)", f"F.sum({{0}}, axis={axis})",
                f"F.max({{0}}, axis={axis})", f"F.slice_axis({{0}}, axis={axis}, begin={size // 2}, end=None)",
                f"F.flip({{0}}, axis={axis})", f"F.repeat({{0}}, repeats=2, axis={axis})",
                f"F.norm({{0}} + 0.5, axis={axis})", f"F.expand_dims({{0}}, axis={axis})",
                f"F.split({{0}}, num_outputs=2, axis={axis})[{self.pick((0, 1))}]",
                f"F.broadcast_sub({{0}}, F.mean({{0}}, axis={axis}, keepdims=True))",
                f"F.cumsum({{0}}, axis={axis})", f"F.take({{0}}, F.zeros((2,)), axis={axis})",
                f"F.reverse({{0}}, axis={axis})", "F.smooth_l1({0}, scalar=1)",
            ]  # fmt: skip
        blocks = [
            f"nn.Activation({activation!r})", "nn.LeakyReLU(0.2)", "nn.PReLU()", "nn.ELU()", "nn.SELU()", "nn.GELU()",
            "nn.Swish()", f"nn.Dropout({self.pick((0.0, 0.3, 0.5))})", f"nn.BatchNorm(axis={max(axis, 1)})",
            "nn.BatchNorm(scale=False)", "nn.BatchNorm(center=False, use_global_stats=True)", "nn.LayerNorm()",
            "contrib_nn.SyncBatchNorm()", f"nn.LayerNorm(axis={max(axis, 1)})", "nn.Flatten()",
            f"nn.Dense({self.pick(CHANNELS)})",
            f"nn.Dense({self.pick(CHANNELS)}, activation={activation!r}, use_bias={self.chance(0.5)})",
            "nn.HybridLambda('tanh')", "nn.InstanceNorm()",
        ]  # fmt: skip
        weighted = [("F.broadcast_mul({0}, {w})", None, (1, *shape)), ("F.broadcast_add({0}, {w})", None, (1, *shape))]
        roll = self.random.random()
        if roll < 0.1:
            return self.pick(weighted)
        if roll < 0.55:
            return self.pick(functions), None, None
        return "{b}({0})", self.pick(blocks), None

    def on_row(self, shape: Shape) -> Proposal:
        size, units = shape[0], self.pick(CHANNELS)
        cell = self.pick((f"rnn.RNNCell({units})", f"rnn.LSTMCell({units})", f"rnn.GRUCell({units})"))
        divisors = [n for n in range(1, size + 1) if size % n == 0]
        width = self.pick(divisors)
        return self.pick((
            ("{b}({0})", f"nn.Dense({units})", None),
            ("{b}({0})", f"nn.Dense({units}, activation={self.pick(ACTIVATIONS)!r})", None),
            ("{b}({0})", f"nn.Dense({units}, use_bias=False)", None),
            ("{b}({0})", _sequential([f"nn.Dense({units})", "nn.BatchNorm()", "nn.Activation('relu')"]), None),
            ("{b}({0})", f"beside(1, nn.Dense({units}), nn.Dense(2))", None),
            ("F.FullyConnected({0}, {w}, no_bias=True, num_hidden=3)", None, (3, size)),
            ("F.dot({0}, {w})", None, (size, units)),
            ("F.dot({0}, F.tanh({w}), transpose_b=True)", None, (units, size)),
            (f"F.reshape({{0}}, shape=(0, {size // width}, {width}))", None, None),
            ("{b}.unroll(1, F.expand_dims({0}, 1), layout='NTC', merge_outputs=True)[0]", cell, None),
        ))  # fmt: skip

    def on_sequence(self, shape: Shape) -> Proposal:
        steps, size = shape
        units = self.pick((1, 2, 3, 5, 8))
        more = "".join(
            f", {text}" for text, p in (("bidirectional=True", 0.3), ("num_layers=2", 0.3)) if self.chance(p)
        )
        layer = self.pick(("LSTM", "GRU", "RNN"))
        cells = (
            f"rnn.RNNCell({units})", f"rnn.LSTMCell({units})", f"rnn.GRUCell({units})",
            f"rnn.ResidualCell(rnn.GRUCell({size}))", f"rnn.ZoneoutCell(rnn.RNNCell({units}), 0.3, 0.2)",
            f"rnn.BidirectionalCell(rnn.LSTMCell({units}), rnn.LSTMCell({units}))",
            f"contrib_rnn.LSTMPCell({units}, 2)",
            f"contrib_rnn.VariationalDropoutCell(rnn.GRUCell({units}), drop_inputs=0.3, drop_states=0.2)",
        )  # fmt: skip
        first = "F.slice_axis({0}, axis=1, begin=0, end=1)"
        state = f"F.reshape({first}, shape=(0, -1))"
        loops = (
            f"F.swapaxes(F.contrib.foreach(lambda x, s: (F.tanh(x + s), x - s), F.swapaxes({{0}}, 0, 1), {state})[0], "
            "0, 1)",
            f"F.contrib.foreach(lambda x, s: (s, s * 0.5 + x), F.swapaxes({{0}}, 0, 1), {state})[1]",
        )
        carried = f"F.contrib.foreach(lambda x, s: {{b}}(x, s), F.swapaxes({{0}}, 0, 1), [{state}])[1][0]"
        return self.pick((
            ("{b}({0})", f"rnn.{layer}({units}, layout='NTC'{more})", None),
            ("{b}({0})", f"rnn.{layer}({units}, layout='NTC', num_layers=2, dropout=0.3)", None),
            ("F.swapaxes({b}(F.swapaxes({0}, 0, 1)), 0, 1)", f"rnn.{layer}({units}{more})", None),
            (f"{{b}}.unroll({steps}, {{0}}, layout='NTC', merge_outputs=True)[0]", self.pick(cells), None),
            (self.pick(loops), None, None),
            (carried, f"rnn.{self.pick(('RNNCell', 'GRUCell'))}({size})", None),
            ("{b}({0})", f"nn.Dense({units}, flatten=False)", None),
            (f"F.reverse({{0}}, axis=1)[:, :{max(1, steps // 2)}]", None, None),
            ("F.swapaxes({0}, 1, 2)", None, None),
            ("F.SequenceMask(F.swapaxes({0}, 0, 1)).swapaxes(0, 1)", None, None),
        ))  # fmt: skip

    def on_line(self, shape: Shape) -> Proposal:
        return self.spatial(shape, 1)

    def on_image(self, shape: Shape) -> Proposal:
        channels, height, width = shape
        others: tuple[Proposal, ...] = (
            ("{b}({0})", f"nn.ReflectionPad2D({self.pick((1, 2))})", None),
            ("F.UpSampling({0}, scale=2, sample_type='nearest')", None, None),
            ("F.LRN({0}, nsize=3)", None, None),
            ("F.Pad({0}, mode='constant', pad_width=(0, 0, 0, 0, 1, 0, 2, 1), constant_value=0.5)", None, None),
            (f"F.reshape({{0}}, shape=(0, {channels}, {height * width}))", None, None),
            ("F.transpose({0}, axes=(0, 2, 3, 1))", None, None),
            ("{0}[:, :, ::2]", None, None),
            ("{b}({0})", f"contrib_nn.PixelShuffle2D({self.pick((1, 2))})", None),
            ("F.space_to_depth({0}, 2)", None, None),
            ("F.contrib.BilinearResize2D({0}, height=5, width=3)", None, None),
            ("{b}({0})", _sequential([f"nn.Conv2D({self.pick(CHANNELS)}, 3, padding=1, use_bias=False)",
                                     "nn.BatchNorm()", "nn.Activation('relu')"]), None),
        )  # fmt: skip
        return self.pick(others) if self.chance(0.3) else self.spatial(shape, 2)

    def on_volume(self, shape: Shape) -> Proposal:
        return self.spatial(shape, 3)

    def spatial(self, shape: Shape, rank: int) -> Proposal:
        """A convolution, a pooling, a normalisation over so many spatial axes."""
        channels = shape[0]
        kernel = self.pick((1, 1, 2, 3, 3, 3, 5))
        options: list[str] = []
        if self.chance(0.6):
            options.append(f"padding={kernel // 2}")
        if self.chance(0.3):
            options.append("strides=2")
        if self.chance(0.2):
            options.append("dilation=2")
        if self.chance(0.3):
            options.append("use_bias=False")
        if self.chance(0.2):
            options.append(f"activation={self.pick(ACTIVATIONS)!r}")
        filters = self.pick(CHANNELS)
        grouped = ""
        if self.chance(0.3):
            groups = self.pick([n for n in range(1, channels + 1) if channels % n == 0])
            filters, grouped = groups * self.pick((1, 2)), f", groups={groups}"
        text = "".join(f", {o}" for o in options)
        plain = "".join(f", {o}" for o in options if not o.startswith(("dilation", "use_bias", "activation")))
        convolutions = [f"nn.Conv{rank}D({filters}, {kernel}{text}{grouped})"] * 4
        convolutions += [f"nn.Conv{rank}DTranspose({filters}, {kernel}{text})"]
        full = ", ceil_mode=True" if self.chance(0.3) else ""
        inside = ", count_include_pad=False" if self.chance(0.4) else ""
        size = min(kernel, 3)
        plain = plain.replace(f"padding={kernel // 2}", f"padding={size // 2}")
        others = [
            f"nn.MaxPool{rank}D({size}{plain}{full})", f"nn.AvgPool{rank}D({size}{plain}{full}{inside})",
            f"nn.GlobalAvgPool{rank}D()", f"nn.GlobalMaxPool{rank}D()", "nn.BatchNorm()", "nn.InstanceNorm()",
            f"nn.GroupNorm({self.pick([n for n in range(1, channels + 1) if channels % n == 0])})",
        ]  # fmt: skip
        return "{b}({0})", self.pick(convolutions) if self.chance(0.6) else self.pick(others), None


def _sequential(layers: Sequence[str]) -> str:
    """The text of a sequence of layers."""
    return f"sequence({', '.join(layers)})"


def _shape(
    network: NetworkBody, inputs: Sequence[NetworkInput], batch: int, others: Sequence[NetworkInput] = ()
) -> Shape:
    """The shape of the network's first result, by an eager call; then it is called with the other inputs."""
    net = network_class(network)()
    net.initialize()
    values = [array(x.array(batch, 0), dtype="float32") for x in inputs]
    with autograd.predict_mode(), np.errstate(all="ignore"):
        shape = tuple(as_list(net(*values))[0].shape)
        if others:
            net(*(array(x.array(batch, 0), dtype="float32") for x in others))
        return shape

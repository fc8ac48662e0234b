"""PyTorch, eagerly or with ``torch.compile``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from torch._higher_order_ops import while_loop  # pyright: ignore[reportMissingImports]
from torch.nn import functional as F  # pyright: ignore[reportMissingImports]

from benchmarks.image_networks import EPSILON, NETWORKS, Conv, trained
from benchmarks.peers.peer import (
    COUNTED_STEPS,
    GRAPHS,
    SENTENCE_EPSILON,
    SENTENCE_HEADS,
    Counts,
    Peer,
    Program,
    Task,
    as_list,
    encoder_layers,
    in_turn,
)

LAYERS = ("w1", "b1", "w2", "b2")
# As nn.LSTM and nn.GRU call them: torch.compile leaves these modules alone.
lstm, gru = torch.compiler.disable(torch.lstm), torch.compiler.disable(torch.gru)


class Network(torch.nn.Module):
    """A function of parameters and inputs, as the module that PyTorch expects."""

    def __init__(self, parameters: Mapping[str, Any], function: Callable[..., Any]) -> None:
        super().__init__()
        self.values = torch.nn.ParameterDict(
            {k: torch.nn.Parameter(v, requires_grad=trained(k)) for k, v in parameters.items()}
        )
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(self.values, *inputs)


class UserSigmoid(torch.autograd.Function):
    """1 / (1 + exp(-x)) with its gradient, as a user would write it."""

    @staticmethod
    def forward(ctx: Any, *xs: Any) -> Any:
        y = 1 / (1 + torch.exp(-xs[0]))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (y,) = ctx.saved_tensors
        return grads[0] * y * (1 - y)


def fetch(result: Any) -> list[np.ndarray]:
    """Outputs as NumPy arrays."""
    return [y.detach().numpy() for y in as_list(result)]


def perceptron(p: Any, x: Any) -> Any:
    """Three layers."""
    h = torch.relu(F.linear(x, p["w1"], p["b1"]))
    h = torch.relu(F.linear(h, p["w2"], p["b2"]))
    return F.linear(h, p["w3"], p["b3"])


def encoder_of(task: Task) -> Callable[..., Any]:
    """The layer as a function of parameters and x."""

    def split(z: Any) -> Any:
        return z.unflatten(-1, (task.heads, -1)).transpose(1, 2)

    def forward(p: Any, x: Any) -> Any:
        h = F.layer_norm(x, x.shape[-1:], p["g1"], p["h1"], task.epsilon)
        q, k, v = F.linear(h, p["wqkv"], p["bqkv"]).chunk(3, dim=-1)
        context = F.scaled_dot_product_attention(split(q), split(k), split(v))
        x = x + F.linear(context.transpose(1, 2).flatten(2), p["wo"], p["bo"])
        h = F.layer_norm(x, x.shape[-1:], p["g2"], p["h2"], task.epsilon)
        return x + F.linear(F.gelu(F.linear(h, p["wup"], p["bup"])), p["wdn"], p["bdn"])

    return forward


def layers(p: Any, *tags: str) -> list[Any]:
    """The parameters of recurrent layers and directions in PyTorch's order."""
    kinds = ("i2h_weight", "h2h_weight", "i2h_bias", "h2h_bias")
    return [p[f"{tag}_{kind}"] for tag in tags for kind in kinds]


class Builder:
    """Layers of image networks."""

    def __init__(self, parameters: Any, training: bool) -> None:
        self.p, self.training = parameters, training

    def conv(self, x: Any, tag: str, layer: Conv) -> Any:
        before, after = zip(*layer.border)
        if before != after:  # causal
            x, before = F.pad(x, (before[0], after[0])), 0
        run = getattr(F, f"conv{'_transpose' * layer.transposed}{len(layer.kernel)}d")
        dilation, groups = layer.dilate, layer.groups
        return run(x, self.p[f"w{tag}"], stride=layer.stride, padding=before, dilation=dilation, groups=groups)

    def norm(self, x: Any, tag: str, channels: int) -> Any:
        gamma, beta, mean, variance = (self.p[name + tag] for name in "ghmv")
        return F.batch_norm(x, mean, variance, gamma, beta, training=self.training, eps=EPSILON)

    def relu(self, x: Any) -> Any:
        return torch.relu(x)

    def clip(self, x: Any, low: float, high: float) -> Any:
        return F.hardtanh(x, low, high)

    def tanh(self, x: Any) -> Any:
        return torch.tanh(x)

    def sigmoid(self, x: Any) -> Any:
        return torch.sigmoid(x)

    def add(self, x: Any, y: Any) -> Any:
        return x + y

    def multiply(self, x: Any, y: Any) -> Any:
        return x * y

    def concat(self, x: Any, y: Any) -> Any:
        return torch.cat((x, y), 1)

    def max_pool(self, x: Any, kernel: int, stride: int, pad: int) -> Any:
        return F.max_pool2d(x, kernel, stride, pad)

    def mean_pool(self, x: Any) -> Any:
        return x.mean((2, 3))

    def flatten(self, x: Any) -> Any:
        return x.flatten(1)

    def dense(self, x: Any, tag: str, columns: int, outputs: int) -> Any:
        return F.linear(x, self.p[f"w{tag}"], self.p[f"b{tag}"])


LAST = {4: torch.channels_last, 5: torch.channels_last_3d}  # by rank


class Torch(Peer):
    """The mode is ``eager``, ``last`` (eager networks of images with the channels last) or ``compile`` (them, too)."""

    def __init__(self, mode: str, threads: int) -> None:
        self.version = torch.__version__
        torch.set_num_threads(threads)
        self.mode = mode
        self.ready: Callable[[Any], Any] = torch.compile if mode == "compile" else lambda function: function

    def array(self, value: np.ndarray) -> Any:
        """A tensor, an image in the layout of the mode."""
        tensor = torch.from_numpy(value)
        if self.mode == "eager" or value.ndim not in LAST:
            return tensor
        return tensor.contiguous(memory_format=LAST[value.ndim])

    def inference(self, function: Any, *inputs: np.ndarray) -> Program:
        """A function called on fixed inputs, without gradients."""
        torch.set_grad_enabled(False)
        run = self.ready(function)
        given = [torch.from_numpy(x) for x in inputs]
        return Program(lambda *data: run(*data, *given[len(data) :]), fetch)

    def network(self, task: Task, inputs: str, function: Callable[..., Any]) -> Program:
        """The same where all arrays but the named ones are parameters."""
        names = inputs.split()
        parameters = {k: torch.from_numpy(v) for k, v in task.arrays.items() if k not in names}
        return self.inference(Network(parameters, function).eval(), *(task.arrays[n] for n in names))

    def tiny_mlp(self, task: Task) -> Program:
        return self.network(task, "x", perceptron)

    def mlp(self, task: Task) -> Program:
        return self.network(task, "x", lambda p, x: torch.log_softmax(perceptron(p, x), dim=-1))

    def training(self, task: Task, loss_of: Callable[..., Any]) -> Program:
        """Steps of SGD with momentum; the loss is a function of parameters, x and y."""
        torch.set_grad_enabled(True)
        arrays = self.laid_out(task)
        x, y = arrays.pop("x"), arrays.pop("y")
        net = Network(arrays, loss_of)
        run = self.ready(net)
        parameters = [net.values[name] for name in arrays if trained(name)]
        optimizer = torch.optim.SGD(parameters, lr=task.learning_rate, momentum=task.momentum, fused=True)

        def step(x: Any = x, y: Any = y) -> Any:
            optimizer.zero_grad(set_to_none=True)
            loss = run(x, y)
            loss.backward()
            optimizer.step()
            return loss

        return Program(step, lambda loss: fetch([loss, *(p.clone() for p in parameters)]))

    def mlp_train(self, task: Task) -> Program:
        return self.training(task, lambda p, x, y: F.cross_entropy(perceptron(p, x), y))

    def encoder_train(self, task: Task) -> Program:
        forward = encoder_of(task)
        return self.training(task, lambda p, x, y: 0.5 * (forward(p, x) - y).square().sum(dim=2).mean())

    def chain(self, task: Task) -> Program:
        return self.inference(
            lambda x, a, b: torch.tanh(x * a + b) * torch.sigmoid(x) + torch.exp(-x * x), *task.arrays.values()
        )

    def gelu_bias(self, task: Task) -> Program:
        return self.inference(lambda x, b: F.gelu(x + b), *task.arrays.values())

    def layernorm(self, task: Task) -> Program:
        return self.inference(lambda x, g, b: F.layer_norm(x, x.shape[-1:], g, b, task.epsilon), *task.arrays.values())

    def softmax(self, task: Task) -> Program:
        return self.inference(lambda x: torch.softmax(x, dim=-1), *task.arrays.values())

    def norm_layer(self, task: Task) -> Program:
        return self.inference(lambda x: (x - x.min()) / (x.max() - x.min()), *task.arrays.values())

    def attention(self, task: Task) -> Program:
        return self.inference(F.scaled_dot_product_attention, *task.arrays.values())

    def encoder(self, task: Task) -> Program:
        return self.network(task, "x", encoder_of(task))

    def sentences(self, task: Task) -> Program:
        layers, heads = encoder_layers(task.arrays), SENTENCE_HEADS

        def norm(p: Any, x: Any, tag: str) -> Any:
            return F.layer_norm(x, x.shape[-1:], p["g" + tag], p["h" + tag], SENTENCE_EPSILON)

        def forward(p: Any, tokens: Any, lengths: Any) -> Any:
            def dense(x: Any, tag: str) -> Any:
                return F.linear(x, p["w" + tag], p["b" + tag])

            shown = torch.arange(tokens.shape[1]) < lengths[:, None]
            x = F.embedding(tokens, p["words"]) + p["places"][: tokens.shape[1]] + p["kinds"][0]
            x = norm(p, x, "e")
            for i in range(layers):
                parts = (dense(x, f"{i}{part}").unflatten(-1, (heads, -1)).transpose(1, 2) for part in "qkv")
                context = F.scaled_dot_product_attention(*parts, attn_mask=shown[:, None, None])
                x = norm(p, x + dense(context.transpose(1, 2).flatten(2), f"{i}o"), f"{i}a")
                x = norm(p, x + dense(F.gelu(dense(x, f"{i}u")), f"{i}d"), f"{i}f")
            return F.normalize((x * shown[:, :, None]).sum(dim=1) / lengths[:, None])

        return self.network(task, "x lengths", forward)

    def program(self, task: Task) -> Program | None:
        return None if self.mode == "last" and task.name not in NETWORKS else super().program(task)

    def counts(self, task: Task) -> Counts:
        from benchmarks.peers.torch_counts import counted

        return counted(task)

    def laid_out(self, task: Task) -> dict[str, Any]:
        """The arrays as tensors, in the layout of the mode."""
        return {k: self.array(v) for k, v in task.arrays.items()}

    def image(self, task: Task) -> Program:
        """A network of images."""
        function, arrays = NETWORKS[task.name].function, self.laid_out(task)
        given = arrays.pop("x")
        torch.set_grad_enabled(False)
        run = self.ready(Network(arrays, lambda p, x: function(Builder(p, False), x)).eval())
        return Program(lambda x=given: run(x), fetch)

    def image_training(self, task: Task) -> Program:
        """Its training step; running means and variances are no parameters."""
        function = NETWORKS[task.name].function

        def loss_of(p: Any, x: Any, y: Any) -> Any:
            return F.cross_entropy(function(Builder(p, True), x), y)

        return self.training(task, loss_of)

    def image_gradient(self, task: Task) -> Program:
        """The backward alone, again and again for one forward."""
        network, arrays = NETWORKS[task.name], self.laid_out(task)
        torch.set_grad_enabled(True)
        towards = arrays[network.gradient].requires_grad_()
        x, dy = arrays.pop("x"), arrays.pop("dy")
        y = network.function(Builder(arrays, False), x)
        return Program(lambda: torch.autograd.grad(y, towards, dy, retain_graph=True), fetch)

    def lstm(self, task: Task) -> Program:
        def forward(p: Any, xs: Any, h: Any, c: Any) -> Any:
            states: list[Any] = []
            for x in xs.unbind(0):
                i, f, g, o = (F.linear(x, p["wx"], p["b"]) + F.linear(h, p["wh"])).chunk(4, dim=-1)
                c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
                h = torch.sigmoid(o) * torch.tanh(c)
                states.append(h)
            return torch.stack(states), c

        return self.network(task, "x h0 c0", forward)

    def lstm_layer(self, task: Task) -> Program:
        def forward(p: Any, x: Any) -> Any:
            states = [x.new_zeros(1, x.shape[1], p["l0_h2h_weight"].shape[1])] * 2
            return lstm(x, states, layers(p, "l0"), True, 1, 0.0, False, False, False)[0]

        return self.network(task, "x", forward)

    def bigru(self, task: Task) -> Program:
        def forward(p: Any, x: Any) -> Any:
            state = x.new_zeros(4, x.shape[1], p["l0_h2h_weight"].shape[1])
            return gru(x, state, layers(p, "l0", "r0", "l1", "r1"), True, 2, 0.0, False, True, False)[0]

        return self.network(task, "x", forward)

    def language_model(self, task: Task) -> Program:
        def loss_of(p: Any, x: Any, y: Any) -> Any:
            h = F.embedding(x, p["table"])
            states = [h.new_zeros(2, h.shape[1], h.shape[2])] * 2
            h = lstm(h, states, layers(p, "l0", "l1"), True, 2, 0.0, True, False, False)[0]
            return F.cross_entropy(F.linear(h, p["wz"], p["bz"]).flatten(0, 1), y.flatten())

        return self.training(task, loss_of)

    def decoder(self, task: Task) -> Program:
        def forward(p: Any, rows: Any, h: Any, memory: Any) -> Any:
            states: list[Any] = []
            for row in rows.unbind(0):
                scores = torch.softmax(torch.bmm(memory, h[:, :, None]), 1)
                context = torch.bmm(scores.transpose(1, 2), memory)[:, 0]
                given = F.linear(torch.cat((row, context), 1), p["l0_i2h_weight"], p["l0_i2h_bias"])
                kept = F.linear(h, p["l0_h2h_weight"], p["l0_h2h_bias"])
                (r, z, n), (hr, hz, hn) = given.chunk(3, 1), kept.chunk(3, 1)
                update = torch.sigmoid(z + hz)
                h = (1 - update) * torch.tanh(n + torch.sigmoid(r + hr) * hn) + update * h
                states.append(h)
            return torch.stack(states)

        return self.network(task, "x h0 memory", forward)

    def while_loop(self, task: Task) -> Program:
        def steps(i: Any, s: Any) -> Any:
            while i < COUNTED_STEPS:
                i, s = i + 1, s * 0.99 + 1
            return s

        def one_operator(i: Any, s: Any) -> Any:
            return while_loop(lambda i, _: i[0] < COUNTED_STEPS, lambda i, s: (i + 1, s * 0.99 + 1), (i, s))[1]

        return self.inference(one_operator if self.mode == "compile" else steps, task.arrays["i"], task.arrays["s"])

    def graphs(self, task: Task) -> Program:
        def graph(inner: str, outer: str) -> Program:
            first, second = getattr(torch, inner), getattr(torch, outer)
            return self.inference(lambda x: second(first(x)), task.arrays["x"])

        return in_turn([graph(*names) for names in GRAPHS])

    def tanh_chain(self, task: Task) -> Program:
        operators = int(task.name.rpartition("_")[2])

        def forward(x: Any) -> Any:
            for _ in range(operators):
                x = torch.tanh(x)
            return x

        return self.inference(forward, task.arrays["x"])

    def dense_layers(self, task: Task) -> Program:
        layers = sum(name[0] == "w" for name in task.arrays)

        def forward(p: Any, x: Any) -> Any:
            for i in range(layers):
                x = torch.tanh(F.linear(x, p[f"w{i}"], p[f"b{i}"]))
                x = F.layer_norm(x, x.shape[-1:], p[f"g{i}"], p[f"h{i}"], task.epsilon) if f"g{i}" in p else x
            return x

        return self.network(task, "x", forward)

    normed_layers = dense_layers

    def growing_keys(self, task: Task) -> Program:
        def forward(p: Any, x: Any, keys: Any, values: Any) -> Any:
            q, k, v = (F.linear(x, p["w" + tag], p["b" + tag])[:, None] for tag in "qkv")
            keys, values = torch.cat((keys, k), 1), torch.cat((values, v), 1)
            context = F.scaled_dot_product_attention(q, keys, values)[:, 0]
            return x + F.linear(context, p["wo"], p["bo"]), keys, values

        return self.network(task, "x keys values", forward)

    def custom_op(self, task: Task) -> Program:
        torch.set_grad_enabled(True)
        arrays = {k: torch.from_numpy(v) for k, v in task.arrays.items()}
        x, slope = arrays.pop("x"), arrays.pop("slope")

        def forward(p: Any, x: Any) -> Any:
            h = UserSigmoid.apply(F.linear(x, p["w1"], p["b1"]))
            return UserSigmoid.apply(F.linear(h, p["w2"], p["b2"]))

        net = Network(arrays, forward)
        run = self.ready(net)
        parameters = [net.values[name] for name in LAYERS]

        def step() -> Any:
            y = run(x)
            return [y.detach(), *torch.autograd.grad(y, parameters, slope)]

        return Program(step, fetch)


def open_peer(mode: str, threads: int) -> Peer:
    return Torch(mode, threads)

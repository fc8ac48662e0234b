"""PyTorch, eagerly or with ``torch.compile``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from torch.nn import functional as F  # pyright: ignore[reportMissingImports]

from benchmarks.image_networks import EPSILON, NETWORKS
from benchmarks.peers.peer import Peer, Program, Task, as_list

LAYERS = ("w1", "b1", "w2", "b2")


class Network(torch.nn.Module):
    """A function of parameters and inputs, as the module that PyTorch expects."""

    def __init__(self, parameters: Mapping[str, Any], function: Callable[..., Any]) -> None:
        super().__init__()
        self.values = torch.nn.ParameterDict({k: torch.nn.Parameter(v) for k, v in parameters.items()})
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


class Builder:
    """Layers of image networks."""

    def __init__(self, parameters: Any) -> None:
        self.p = parameters

    def conv(self, x: Any, tag: str, channels: int, filters: int, kernel: int, stride: int = 1) -> Any:
        return F.conv2d(x, self.p[f"w{tag}"], stride=stride, padding=kernel // 2)

    def norm(self, x: Any, tag: str, channels: int) -> Any:
        gamma, beta, mean, variance = (self.p[name + tag] for name in "ghmv")
        return F.batch_norm(x, mean, variance, gamma, beta, eps=EPSILON)

    def relu(self, x: Any) -> Any:
        return torch.relu(x)

    def add(self, x: Any, y: Any) -> Any:
        return x + y

    def max_pool(self, x: Any) -> Any:
        return F.max_pool2d(x, 3, 2, 1)

    def mean_pool(self, x: Any) -> Any:
        return x.mean((2, 3))

    def dense(self, x: Any, tag: str, columns: int, outputs: int) -> Any:
        return F.linear(x, self.p[f"w{tag}"], self.p[f"b{tag}"])


class Torch(Peer):
    """The mode is ``eager`` or ``compile``."""

    def __init__(self, mode: str, threads: int) -> None:
        self.version = torch.__version__
        torch.set_num_threads(threads)
        self.ready: Callable[[Any], Any] = torch.compile if mode == "compile" else lambda function: function

    def inference(self, function: Any, *inputs: np.ndarray) -> Program:
        """A function called on fixed inputs, without gradients."""
        torch.set_grad_enabled(False)
        run = self.ready(function)
        given = [torch.from_numpy(x) for x in inputs]
        return Program(lambda: run(*given), fetch)

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
        arrays = {k: torch.from_numpy(v) for k, v in task.arrays.items()}
        x, y = arrays.pop("x"), arrays.pop("y")
        net = Network(arrays, loss_of)
        run = self.ready(net)
        parameters = [net.values[name] for name in arrays]
        optimizer = torch.optim.SGD(parameters, lr=task.learning_rate, momentum=task.momentum, fused=True)

        def step() -> Any:
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

    def image(self, task: Task) -> Program:
        """A network of images, channels last: the faster layout."""
        function = NETWORKS[task.name].function
        arrays = {k: torch.from_numpy(v) for k, v in task.arrays.items()}
        last = {k: v.contiguous(memory_format=torch.channels_last) if v.ndim == 4 else v for k, v in arrays.items()}
        x = last.pop("x")
        torch.set_grad_enabled(False)
        run = self.ready(Network(last, lambda p, x: function(Builder(p), x)).eval())
        return Program(lambda: run(x), fetch)

    residual_block = resnet18 = image

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

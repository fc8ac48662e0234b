"""The workloads of the GPU benchmarks that change parameters: a training step, and a step of an optimizer."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

import hybridc as mx
from benchmarks import workloads
from benchmarks.gpu import bench
from benchmarks.gpu.bench import Arrays, Comparison, System, normal
from benchmarks.gpu.clock import Clock
from benchmarks.gpu.table import COMPILED, EAGER, OURS, Row

RATE, MOMENTUM = 1e-3, 0.9
DTYPES = ("float16", "float32", "bfloat16")
# The elements of each of 40 weights that Adam updates.
ADAM_SIZE = 2_500_000


def comparisons(small: bool) -> dict[str, Callable[[], Comparison]]:
    """The workloads."""
    layer = Layer(2, 9, 32, 2, 48) if small else LAYER
    found: dict[str, Callable[[], Comparison]] = {}
    for dtype in DTYPES:
        found[f"encoder layer, training step, {dtype}"] = functools.partial(training_step, layer, dtype)
    found["Adam on 100 M parameters, float32"] = functools.partial(adam, 1000 if small else ADAM_SIZE, 40)
    return found


# --- the encoder layer ----------------------------------------------------------------------------------------


class Layer:
    """A pre-normalizing transformer encoder layer of some size, for both."""

    def __init__(self, batch: int, sequence: int, width: int, heads: int, hidden: int) -> None:
        self.batch, self.sequence, self.width, self.heads, self.hidden = batch, sequence, width, heads, hidden

    def flops(self) -> float:
        """Of a forward and a backward."""
        tokens = self.batch * self.sequence
        products = 2.0 * tokens * self.width * (4 * self.width + 2 * self.hidden)
        return 3 * products + 3.5 * 4.0 * tokens * self.sequence * self.width

    def x(self) -> np.ndarray:
        """The input."""
        return normal(self.batch, self.sequence, self.width)

    def parameters(self) -> Arrays:
        """By their names."""
        made: Arrays = {}
        for i in "12":
            made |= {"g" + i: 1 + normal(self.width, scale=0.1), "h" + i: normal(self.width, scale=0.1, seed=2)}
        shapes = {"qkv": (3, 1), "o": (1, 1), "up": (self.hidden / self.width, 1), "dn": (1, self.hidden / self.width)}
        for seed, (tag, (n_out, n_in)) in enumerate(shapes.items(), 3):
            rows, columns = int(n_out * self.width), int(n_in * self.width)
            made["w" + tag] = normal(rows, columns, scale=1 / math.sqrt(columns), seed=seed)
            made["b" + tag] = normal(rows, scale=0.1, seed=seed + 5)
        return made

    def ours(self, F: Any, x: Any, p: Any) -> Any:
        """As a user of Gluon writes it."""

        def linear(z: Any, tag: str, n: int) -> Any:
            return F.FullyConnected(z, p["w" + tag], p["b" + tag], num_hidden=n, flatten=False)

        def split(z: Any) -> Any:
            return F.reshape(F.transpose(F.reshape(z, shape=(0, 0, self.heads, -1)), axes=(0, 2, 1, 3)), shape=(-3, -2))

        qkv = linear(F.LayerNorm(x, p["g1"], p["h1"], eps=1e-5), "qkv", 3 * self.width)
        q, k, v = (split(z) for z in F.split(qkv, num_outputs=3, axis=2))
        scores = F.batch_dot(q, k, transpose_b=True) * (1 / math.sqrt(self.width // self.heads))
        context = F.reshape(F.batch_dot(F.softmax(scores, axis=-1), v), shape=(-4, -1, self.heads, -2))
        context = F.reshape(F.transpose(context, axes=(0, 2, 1, 3)), shape=(0, 0, -3))
        x = x + linear(context, "o", self.width)
        h = linear(F.LayerNorm(x, p["g2"], p["h2"], eps=1e-5), "up", self.hidden)
        return x + linear(F.LeakyReLU(h, act_type="gelu"), "dn", self.width)

    def theirs(self, t: Any, x: Any, p: Any) -> Any:
        """As a user of PyTorch writes it."""
        f = t.nn.functional

        def split(z: Any) -> Any:
            return z.unflatten(-1, (self.heads, -1)).transpose(1, 2)

        h = f.layer_norm(x, x.shape[-1:], p["g1"], p["h1"], 1e-5)
        q, k, v = f.linear(h, p["wqkv"], p["bqkv"]).chunk(3, dim=-1)
        context = f.scaled_dot_product_attention(split(q), split(k), split(v))
        x = x + f.linear(context.transpose(1, 2).flatten(2), p["wo"], p["bo"])
        h = f.layer_norm(x, x.shape[-1:], p["g2"], p["h2"], 1e-5)
        return x + f.linear(f.gelu(f.linear(h, p["wup"], p["bup"])), p["wdn"], p["bdn"])


LAYER = Layer(8, 512, 1024, 16, 4096)


def training_step(layer: Layer, dtype: str) -> Comparison:
    """Forward, backward and SGD with momentum."""
    clock = bench.clock()
    clock.torch._dynamo.reset()
    row = Row("encoder layer, training step", dtype, flops=layer.flops())
    compiled = clock.torch.compile(layer.theirs, dynamic=False)
    systems = {
        OURS: lambda: _our_step(layer, dtype),
        EAGER: lambda: _their_step(clock, layer, dtype, layer.theirs),
        COMPILED: lambda: _their_step(clock, layer, dtype, compiled),
    }
    return Comparison(row, systems)


def _our_step(layer: Layer, dtype: str) -> System:
    class Net(workloads.WithParameters):
        def hybrid_forward(self, F: Any, x: Any, **p: Any) -> Any:
            return layer.ours(F, x, p)

    with mx.gpu(0):
        net = Net({name: mx.nd.array(value) for name, value in layer.parameters().items()})
        x, head = (bench.on_gpu(a, dtype) for a in (layer.x(), normal(*layer.x().shape, seed=9)))
        net.cast(dtype)
    net.hybridize()
    settings = {"learning_rate": RATE, "momentum": MOMENTUM}
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", settings)

    def step() -> Any:
        with mx.autograd.record():
            y = net(x)
        y.backward(head)
        trainer.step(1)
        return y

    weights = [getattr(net, name) for name in layer.parameters()]
    return System(step, lambda y: [y.asnumpy(), *(w.data().asnumpy() for w in weights)])


def _their_step(clock: Clock, layer: Layer, dtype: str, function: Callable[..., Any]) -> System:
    torch = clock.torch
    p = {n: bench.tensor(clock, a, dtype).clone().requires_grad_() for n, a in layer.parameters().items()}
    x, head = (bench.tensor(clock, a, dtype) for a in (layer.x(), normal(*layer.x().shape, seed=9)))
    # On the CPU PyTorch 2.13's fused update leaves float16 parameters as they are.
    optimizer = torch.optim.SGD(p.values(), lr=RATE, momentum=MOMENTUM, fused=clock.on_card)

    def step() -> Any:
        optimizer.zero_grad(set_to_none=True)
        y = function(torch, x, p)
        y.backward(head)
        optimizer.step()
        return y

    return System(step, lambda y: [bench.numpy_of(z) for z in (y, *p.values())])


# --- Adam -----------------------------------------------------------------------------------------------------


def adam(size: int, count: int) -> Comparison:
    """One step on so many weights of this size; each reads four arrays and writes three."""
    clock = bench.clock()
    torch = clock.torch
    torch._dynamo.reset()
    weights, grads = ([normal(size, scale=scale, seed=1 + i % 5) for i in range(count)] for scale in (1.0, 0.1))

    def ours() -> System:
        update = mx.optimizer.get_updater(mx.optimizer.create("adam", learning_rate=RATE))
        w, g = ([bench.on_gpu(a, "float32") for a in arrays] for arrays in (weights, grads))
        return System(lambda: update(list(range(count)), g, w), lambda _: [w[0].asnumpy(), w[-1].asnumpy()])

    def theirs(fused: bool) -> System:
        w = [bench.tensor(clock, a, "float32").clone().requires_grad_() for a in weights]
        for x, g in zip(w, grads):
            x.grad = bench.tensor(clock, g, "float32").clone()
        optimizer = torch.optim.Adam(w, lr=RATE, **({"fused": True} if fused else {"foreach": True}))
        step = optimizer.step if fused else torch.compile(optimizer.step)
        return System(step, lambda _: [bench.numpy_of(w[0]), bench.numpy_of(w[-1])])

    row = Row(f"Adam on {size * count / 1e6:g} M parameters", "float32", 7.0 * 4 * size * count)
    return Comparison(row, {OURS: ours, EAGER: lambda: theirs(True), COMPILED: lambda: theirs(False)})

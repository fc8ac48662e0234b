"""The workloads of the GPU benchmarks that are functions of arrays, the most important first."""

# The tables are of functions of any F and arrays.
# pyright: reportUnknownLambdaType=none, reportUnknownMemberType=none, reportUnknownArgumentType=none

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.gpu.bench import BYTES, Arrays, Workload, normal

BATCH_HEADS = (4, 16)
LAYERS = ("1", "2", "3")


def workloads(small: bool) -> list[Workload]:
    """All; ``small`` ones try the programs where there is no GPU."""
    return [*bound_by_memory(small), *products(small), *attention(small), mlp(), lstm(small)]


# --- bound by memory ------------------------------------------------------------------------------------------


def bound_by_memory(small: bool) -> Iterator[Workload]:
    """Elementwise operators and rows."""
    rows, columns, words = (8, 65, 70) if small else (8192, 4096, 32_000)
    size = rows * columns
    for dtype in ("float16", "float32"):
        width = BYTES[dtype]
        yield Workload(
            "tanh(x*a + b)*sigmoid(x) + exp(-x*x)",
            lambda: {"x": normal(rows, columns), "a": normal(rows, columns, seed=1), "b": normal(1, columns, seed=2)},
            lambda F, x, a, b: F.tanh(F.broadcast_add(x * a, b)) * F.sigmoid(x) + F.exp(-x * x),
            lambda t, x, a, b: t.tanh(x * a + b) * t.sigmoid(x) + t.exp(-x * x),
            dtype,
            3 * size * width,
        )
        yield Workload(
            "gelu(x + b)",
            lambda: {"x": normal(rows, columns), "b": normal(1, columns, seed=1)},
            lambda F, x, b: F.LeakyReLU(F.broadcast_add(x, b), act_type="gelu"),
            lambda t, x, b: t.nn.functional.gelu(x + b),
            dtype,
            2 * size * width,
        )
        yield Workload(
            "softmax",
            lambda: {"x": normal(rows, columns)},
            lambda F, x: F.softmax(x),
            lambda t, x: t.softmax(x, dim=-1),
            dtype,
            2 * size * width,
        )
        yield Workload(
            "layer norm, forward and backward",
            lambda: {"x": normal(rows, columns), "g": 1 + normal(columns, scale=0.1), "b": normal(columns, seed=2)},
            lambda F, x, g, b: F.LayerNorm(x, g, b, eps=1e-5),
            lambda t, x, g, b: t.nn.functional.layer_norm(x, x.shape[-1:], g, b, 1e-5),
            dtype,
            5 * size * width,
            train=True,
        )
        yield Workload(
            "cross entropy, forward and backward",
            lambda: {"x": normal(rows // 2, words), "y": labels(rows // 2, words)},
            lambda F, x, y: -F.pick(F.log_softmax(x), y, axis=1),
            lambda t, x, y: t.nn.functional.cross_entropy(x, y, reduction="none"),
            dtype,
            3 * (rows // 2) * words * width,
            train=True,
        )


def labels(count: int, classes: int) -> np.ndarray:
    """Class numbers."""
    return np.random.default_rng(4).integers(0, classes, count)


# --- bound by products ----------------------------------------------------------------------------------------


def products(small: bool) -> Iterator[Workload]:
    """A product with bias and gelu."""
    for side in (32, 40) if small else (2048, 4096, 8192):
        for dtype in ("float16", "bfloat16", "float32"):
            if dtype == "float32" and side == 8192:  # slow without tensor cores, and no different
                continue
            yield Workload(
                f"gelu(x w + b), {side}",
                lambda side=side: {
                    "x": normal(side, side),
                    "w": normal(side, side, scale=1 / math.sqrt(side), seed=1),
                    "b": normal(side, seed=2),
                },
                lambda F, x, w, b, side=side: F.LeakyReLU(F.FullyConnected(x, w, b, num_hidden=side), act_type="gelu"),
                lambda t, x, w, b: t.nn.functional.gelu(t.nn.functional.linear(x, w, b)),
                dtype,
                flops=2.0 * side**3,
                early=dtype == "float16",
            )


def attention(small: bool) -> Iterator[Workload]:
    """Scaled dot-product attention of four sequences with 16 heads."""
    batch, heads = (1, 2) if small else BATCH_HEADS
    sizes = [(16, 16)] if small else [(n, d) for d in (64, 128) for n in (1024, 2048, 4096, 8192)]
    for sequence, size in sizes:
        flops = 4.0 * batch * heads * sequence * sequence * size
        for train in (False, True):
            for dtype in ("float16", "bfloat16") if sequence == 2048 else ("float16",):
                yield _attention(batch * heads, sequence, size, dtype, flops, train)


def _attention(heads: int, sequence: int, size: int, dtype: str, flops: float, train: bool) -> Workload:
    def ours(F: Any, q: Any, k: Any, v: Any) -> Any:
        scores = F.batch_dot(q, k, transpose_b=True) * (1 / math.sqrt(size))
        return F.batch_dot(F.softmax(scores, axis=-1), v)

    def theirs(t: Any, q: Any, k: Any, v: Any) -> Any:
        return t.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None])[0]

    def arrays() -> Arrays:
        return {name: normal(heads, sequence, size, seed=i) for i, name in enumerate("qkv")}

    name = f"attention {heads}x{sequence}x{size}" + ", forward and backward" * train
    early = sequence == 2048 and dtype == "float16"
    return Workload(name, arrays, ours, theirs, dtype, 0, 3.5 * flops if train else flops, train, early=early)


# --- networks -------------------------------------------------------------------------------------------------


def mlp() -> Workload:
    """1x32, 64, 64, 10: what a call costs besides its kernels."""
    sizes = (32, 64, 64, 10)

    def arrays() -> Arrays:
        made = {"x": normal(1, sizes[0])}
        for i, tag in enumerate(LAYERS):
            made["w" + tag] = normal(sizes[i + 1], sizes[i], scale=1 / math.sqrt(sizes[i]), seed=i + 1)
            made["b" + tag] = normal(sizes[i + 1], seed=i + 4)
        return made

    def ours(F: Any, x: Any, **p: Any) -> Any:
        for i, tag in enumerate(LAYERS):
            x = F.FullyConnected(x, p["w" + tag], p["b" + tag], num_hidden=sizes[i + 1])
            x = F.relu(x) if tag != "3" else x
        return x

    def theirs(t: Any, x: Any, **p: Any) -> Any:
        for tag in LAYERS:
            x = t.nn.functional.linear(x, p["w" + tag], p["b" + tag])
            x = t.relu(x) if tag != "3" else x
        return x

    return Workload("small network, latency", arrays, ours, theirs, latency=True)


def lstm(small: bool) -> Workload:
    """An unrolled cell; PyTorch's eager way is cuDNN's."""
    steps, batch, given, made = (3, 2, 8, 16) if small else (35, 64, 512, 512)

    def arrays() -> Arrays:
        return {
            "xs": normal(steps, batch, given),
            "h": normal(batch, made, scale=0.1, seed=1),
            "c": normal(batch, made, scale=0.1, seed=2),
            "wx": normal(4 * made, given, scale=1 / math.sqrt(given), seed=3),
            "wh": normal(4 * made, made, scale=1 / math.sqrt(made), seed=4),
            "b": normal(4 * made, scale=0.1, seed=5),
        }

    def ours(F: Any, xs: Any, h: Any, c: Any, wx: Any, wh: Any, b: Any) -> Any:
        states: list[Any] = []
        for x in F.split(xs, num_outputs=steps, axis=0, squeeze_axis=True):
            gates = F.FullyConnected(x, wx, b, num_hidden=4 * made)
            gates = gates + F.FullyConnected(h, wh, no_bias=True, num_hidden=4 * made)
            i, f, g, o = F.split(gates, num_outputs=4, axis=1)
            c = F.sigmoid(f) * c + F.sigmoid(i) * F.tanh(g)
            h = F.sigmoid(o) * F.tanh(c)
            states.append(h)
        return F.stack(*states, axis=0)

    def theirs(t: Any, xs: Any, h: Any, c: Any, wx: Any, wh: Any, b: Any) -> Any:
        states: list[Any] = []
        for x in xs.unbind(0):
            i, f, g, o = (t.nn.functional.linear(x, wx, b) + t.nn.functional.linear(h, wh)).chunk(4, 1)
            c = t.sigmoid(f) * c + t.sigmoid(i) * t.tanh(g)
            h = t.sigmoid(o) * t.tanh(c)
            states.append(h)
        return t.stack(states)

    def cudnn(t: Any, xs: Any, h: Any, c: Any, wx: Any, wh: Any, b: Any) -> Any:
        weights = [wx, wh, b, t.zeros_like(b)]
        return t.lstm(xs, (h[None], c[None]), weights, True, 1, 0.0, False, False, False)[0]

    flops = 2.0 * steps * batch * 4 * made * (given + made)
    return Workload(f"LSTM, {steps} steps", arrays, ours, theirs, flops=flops, eager=cudnn)

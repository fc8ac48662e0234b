"""Networks of images, written once for all frameworks: ``benchmarks/peers/run.py --only residual_block,resnet18``.

A network is a function of a builder and its input. What a builder is given and gives is a framework's own; here are
that of the inputs' shapes, that of NumPy, which is the oracle, and Gluon's, which hybridc and MXNet run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

EPSILON = 1e-5  # of batch normalization
Arrays = dict[str, np.ndarray]


# --- networks ---------------------------------------------------------------------------------------------------------


def residual(b: Any, x: Any, tag: str, channels: int, filters: int, stride: int = 1) -> Any:
    """Two convolutions and what they are added to: the input, or a convolution of it where sizes differ."""
    y = b.relu(b.norm(b.conv(x, f"{tag}a", channels, filters, 3, stride), f"{tag}a", filters))
    y = b.norm(b.conv(y, f"{tag}b", filters, filters, 3), f"{tag}b", filters)
    if stride > 1 or channels != filters:
        x = b.norm(b.conv(x, f"{tag}d", channels, filters, 1, stride), f"{tag}d", filters)
    return b.relu(b.add(y, x))


def residual_block(b: Any, x: Any) -> Any:
    """A block of 64 channels."""
    return residual(b, x, "1", 64, 64)


def resnet18(b: Any, x: Any) -> Any:
    """ResNet-18 of He et al., with 1000 classes."""
    x = b.relu(b.norm(b.conv(x, "0", 3, 64, 7, 2), "0", 64))
    x, channels = b.max_pool(x), 64
    for stage, filters in enumerate((64, 128, 256, 512)):
        for block in range(2):
            x = residual(b, x, f"{stage}{block}", channels, filters, 2 if stage and not block else 1)
            channels = filters
    return b.dense(b.mean_pool(x), "z", 512, 1000)


@dataclass(frozen=True)
class ImageNetwork:
    """A network with the shape of its input."""

    function: Callable[[Any, Any], Any]
    shape: tuple[int, ...]


NETWORKS = {
    "residual_block": ImageNetwork(residual_block, (8, 64, 56, 56)),
    "resnet18": ImageNetwork(resnet18, (1, 3, 224, 224)),
}


# --- builders ---------------------------------------------------------------------------------------------------------


@dataclass
class InputsBuilder:
    """Makes the inputs: values are shapes; ``flops`` counts those of convolutions and dense layers."""

    rng: np.random.Generator
    arrays: Arrays = field(default_factory=dict)
    flops: int = 0

    def _normal(self, name: str, *shape: int, scale: float = 1.0) -> None:
        self.arrays[name] = self.rng.standard_normal(shape, dtype=np.float32) * np.float32(scale)

    def conv(self, x: Any, tag: str, channels: int, filters: int, kernel: int, stride: int = 1) -> Any:
        terms = channels * kernel * kernel
        self._normal(f"w{tag}", filters, channels, kernel, kernel, scale=math.sqrt(2 / terms))
        n, _, *sizes = x
        made = (n, filters, *((s + 2 * (kernel // 2) - kernel) // stride + 1 for s in sizes))
        self.flops += 2 * math.prod(made) * terms
        return made

    def norm(self, x: Any, tag: str, channels: int) -> Any:
        for name in "gv":
            self.arrays[f"{name}{tag}"] = self.rng.random(channels, dtype=np.float32) + np.float32(0.5)
        for name in "hm":
            self._normal(f"{name}{tag}", channels, scale=0.1)
        return x

    def relu(self, x: Any) -> Any:
        return x

    def add(self, x: Any, y: Any) -> Any:
        assert x == y
        return x

    def max_pool(self, x: Any) -> Any:
        return (*x[:2], *((s - 1) // 2 + 1 for s in x[2:]))

    def mean_pool(self, x: Any) -> Any:
        return x[:2]

    def dense(self, x: Any, tag: str, columns: int, outputs: int) -> Any:
        self._normal(f"w{tag}", outputs, columns, scale=1 / math.sqrt(columns))
        self._normal(f"b{tag}", outputs, scale=0.1)
        self.flops += 2 * x[0] * columns * outputs
        return (x[0], outputs)


@dataclass(frozen=True)
class NumPyBuilder:
    """The definition, tap by tap."""

    arrays: Mapping[str, np.ndarray]

    def conv(self, x: Any, tag: str, channels: int, filters: int, kernel: int, stride: int = 1) -> Any:
        w, pad = self.arrays[f"w{tag}"], kernel // 2
        x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
        rows, columns = ((n - kernel) // stride + 1 for n in x.shape[2:])
        total: Any = 0.0
        for i in range(kernel):
            for j in range(kernel):
                part = x[:, :, i : i + stride * rows : stride, j : j + stride * columns : stride][:, :, :rows, :columns]
                total = total + np.tensordot(part, w[:, :, i, j], (1, 1))
        return np.ascontiguousarray(total.transpose(0, 3, 1, 2))

    def norm(self, x: Any, tag: str, channels: int) -> Any:
        gamma, beta, mean, variance = (self.arrays[name + tag][:, None, None] for name in "ghmv")
        return (x - mean) / np.sqrt(variance + EPSILON) * gamma + beta

    def relu(self, x: Any) -> Any:
        return np.maximum(x, 0)

    def add(self, x: Any, y: Any) -> Any:
        return x + y

    def max_pool(self, x: Any) -> Any:
        rows, columns = ((n - 1) // 2 + 1 for n in x.shape[2:])
        x = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
        parts = [x[:, :, i::2, j::2][:, :, :rows, :columns] for i in range(3) for j in range(3)]
        return np.max(parts, axis=0)

    def mean_pool(self, x: Any) -> Any:
        return x.mean((2, 3))

    def dense(self, x: Any, tag: str, columns: int, outputs: int) -> Any:
        return x @ self.arrays[f"w{tag}"].T + self.arrays[f"b{tag}"]


@dataclass(frozen=True)
class GluonBuilder:
    """Operators of ``F``, with the parameters by their names."""

    F: Any
    parameters: Mapping[str, Any]

    def conv(self, x: Any, tag: str, channels: int, filters: int, kernel: int, stride: int = 1) -> Any:
        pad = kernel // 2
        return self.F.Convolution(
            x, self.parameters[f"w{tag}"], kernel=(kernel, kernel), stride=(stride, stride), pad=(pad, pad),
            num_filter=filters, no_bias=True,
        )  # fmt: skip

    def norm(self, x: Any, tag: str, channels: int) -> Any:
        given = (self.parameters[name + tag] for name in "ghmv")
        return self.F.BatchNorm(x, *given, fix_gamma=False, use_global_stats=True, eps=EPSILON)

    def relu(self, x: Any) -> Any:
        return self.F.relu(x)

    def add(self, x: Any, y: Any) -> Any:
        return x + y

    def max_pool(self, x: Any) -> Any:
        return self.F.Pooling(x, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="max")

    def mean_pool(self, x: Any) -> Any:
        return self.F.Pooling(x, kernel=(1, 1), global_pool=True, pool_type="avg")

    def dense(self, x: Any, tag: str, columns: int, outputs: int) -> Any:
        return self.F.FullyConnected(x, self.parameters[f"w{tag}"], self.parameters[f"b{tag}"], num_hidden=outputs)


def inputs(network: ImageNetwork, rng: np.random.Generator) -> Arrays:
    """The input ``x``, weights, and what normalization needs."""
    builder = InputsBuilder(rng)
    builder.arrays["x"] = rng.standard_normal(network.shape, dtype=np.float32)
    network.function(builder, network.shape)
    return builder.arrays


def flops(network: ImageNetwork) -> int:
    """Multiplications and additions of convolutions and dense layers."""
    builder = InputsBuilder(np.random.default_rng(0))
    network.function(builder, network.shape)
    return builder.flops

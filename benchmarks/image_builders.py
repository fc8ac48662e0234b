"""Two builders of the networks of images: NumPy's, which is the oracle and differentiates, and Gluon's."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.image_networks import EPSILON, Conv

# --- convolutions in NumPy: a sum over the taps of the kernel


def _taps(layer: Conv, sizes: tuple[int, ...]) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """Each tap's place in the weights, and the places in the padded input that it meets for a result of these sizes."""
    for tap in itertools.product(*map(range, layer.kernel)):
        starts = [i * layer.dilate for i in tap]
        found = [slice(s, s + layer.stride * n, layer.stride) for s, n in zip(starts, sizes, strict=True)]
        yield (..., *tap), (..., *found)


def _grouped(x: np.ndarray, layer: Conv) -> np.ndarray:
    """As (n, groups, channels of a group, pixels)."""
    return x.reshape(x.shape[0], layer.groups, x.shape[1] // layer.groups, -1)


def _by_taps(w: np.ndarray, layer: Conv) -> np.ndarray:
    """Weights as (…, groups, filters of a group, channels of a group): BLAS wants the matrix of a tap in one piece."""
    w = w.reshape(layer.groups, -1, *w.shape[1:])
    return np.ascontiguousarray(np.moveaxis(w, (0, 1, 2), (-3, -2, -1)))


def correlate(x: np.ndarray, w: np.ndarray, layer: Conv) -> np.ndarray:
    """The convolution of an image; ``w`` is (filters, channels / groups, …)."""
    sizes = tuple([(n - s) // layer.stride + 1 for n, s in zip(x.shape[2:], layer.spans(), strict=True)])
    x = np.pad(x, [(0, 0), (0, 0), *layer.border])
    w = _by_taps(w, layer)
    total = sum(w[tap[1:]] @ _grouped(x[place], layer) for tap, place in _taps(layer, sizes))
    return np.asarray(total).reshape(x.shape[0], -1, *sizes)


def spread(y: np.ndarray, w: np.ndarray, layer: Conv, sizes: tuple[int, ...]) -> np.ndarray:
    """The adjoint of :func:`correlate` for an image of these sizes: its gradient, or a transposed convolution."""
    w = _by_taps(w, layer)
    padded = [n + sum(p) for n, p in zip(sizes, layer.border, strict=True)]
    x = np.zeros((y.shape[0], layer.groups * w.shape[-1], *padded), y.dtype)
    for tap, place in _taps(layer, y.shape[2:]):
        x[place] += (w[tap[1:]].swapaxes(1, 2) @ _grouped(y, layer)).reshape(x[place].shape)
    return x[(..., *(slice(before, before + n) for n, (before, _) in zip(sizes, layer.border, strict=True)))]


def weight_gradient(x: np.ndarray, dy: np.ndarray, layer: Conv) -> np.ndarray:
    """The gradient of :func:`correlate` with respect to its weights."""
    x, sizes = np.pad(x, [(0, 0), (0, 0), *layer.border]), dy.shape[2:]
    shape = (layer.groups, dy.shape[1] // layer.groups, x.shape[1] // layer.groups, *layer.kernel)
    dw = np.empty(shape, x.dtype)
    for tap, place in _taps(layer, sizes):
        dw[tap] = (_grouped(dy, layer) @ _grouped(x[place], layer).swapaxes(2, 3)).sum(axis=0)
    return dw.reshape(-1, *dw.shape[2:])


# --- NumPy ------------------------------------------------------------------------------------------------------------


@dataclass
class Value:
    """An array, and what is known so far of its gradient."""

    array: np.ndarray
    grad: Any = 0.0


Rule = Callable[[np.ndarray], "tuple[np.ndarray, ...]"]  # the gradients of an operator's inputs for its result's


@dataclass
class NumPyBuilder:
    """The definition of each layer, and its gradient; in training, normalization is by the batch."""

    arrays: Mapping[str, np.ndarray]
    training: bool = False
    parameters: dict[str, Value] = field(default_factory=dict[str, Value])
    steps: list[tuple[Value, tuple[Value, ...], Rule]] = field(default_factory=list[Any])

    def parameter(self, name: str) -> Value:
        """An input by its name."""
        return self.parameters.setdefault(name, Value(self.arrays[name]))

    def backward(self, result: Value, dy: np.ndarray) -> dict[str, np.ndarray]:
        """The gradients of the inputs for that of the result."""
        result.grad = dy
        for made, inputs, rule in reversed(self.steps):
            for x, grad in zip(inputs, rule(made.grad), strict=True):
                x.grad = x.grad + grad
        return {name: value.grad for name, value in self.parameters.items()}

    def _made(self, array: np.ndarray, rule: Rule, *inputs: Value) -> Value:
        value = Value(array)
        self.steps.append((value, inputs, rule))
        return value

    def conv(self, x: Value, tag: str, layer: Conv) -> Value:
        weight = self.parameter(f"w{tag}")
        a, w, sizes = x.array, weight.array, x.array.shape[2:]
        if layer.transposed:
            made = spread(a, w, layer, layer.sizes(sizes))
            return self._made(made, lambda d: (correlate(d, w, layer), weight_gradient(d, a, layer)), x, weight)
        made = correlate(a, w, layer)
        return self._made(made, lambda d: (spread(d, w, layer, sizes), weight_gradient(a, d, layer)), x, weight)

    def norm(self, x: Value, tag: str, channels: int) -> Value:
        gamma, beta, mean, variance = (self.parameter(name + tag) for name in "ghmv")
        axes = (0, *range(2, x.array.ndim))

        def wide(per_channel: np.ndarray) -> np.ndarray:
            return per_channel.reshape(-1, *[1] * (len(axes) - 1))

        if not self.training:
            factor = wide(gamma.array / np.sqrt(variance.array + EPSILON))
            made = (x.array - wide(mean.array)) * factor + wide(beta.array)
            return self._made(made, lambda d: (d * factor,), x)
        centred = x.array - x.array.mean(axes, keepdims=True)
        factor = 1 / np.sqrt((centred * centred).mean(axes, keepdims=True) + EPSILON)
        unit = centred * factor

        def rule(d: np.ndarray) -> tuple[np.ndarray, ...]:
            du = d * wide(gamma.array)
            along = du.mean(axes, keepdims=True) + unit * (du * unit).mean(axes, keepdims=True)
            return (du - along) * factor, (d * unit).sum(axes), d.sum(axes)

        return self._made(unit * wide(gamma.array) + wide(beta.array), rule, x, gamma, beta)

    def relu(self, x: Value) -> Value:
        return self.clip(x, 0.0, np.inf)

    def clip(self, x: Value, low: float, high: float) -> Value:
        within = (x.array > low) & (x.array < high)
        return self._made(np.clip(x.array, low, high), lambda d: (d * within,), x)

    def tanh(self, x: Value) -> Value:
        y = np.tanh(x.array)
        return self._made(y, lambda d: (d * (1 - y * y),), x)

    def sigmoid(self, x: Value) -> Value:
        y = 1 / (1 + np.exp(-x.array))
        return self._made(y, lambda d: (d * y * (1 - y),), x)

    def add(self, x: Value, y: Value) -> Value:
        return self._made(x.array + y.array, lambda d: (d, d), x, y)

    def multiply(self, x: Value, y: Value) -> Value:
        return self._made(x.array * y.array, lambda d: (d * y.array, d * x.array), x, y)

    def concat(self, x: Value, y: Value) -> Value:
        n = x.array.shape[1]
        return self._made(np.concatenate([x.array, y.array], axis=1), lambda d: (d[:, :n], d[:, n:]), x, y)

    def max_pool(self, x: Value, kernel: int, stride: int, pad: int) -> Value:
        window = Conv(1, 1, (kernel, kernel), stride, pad=(pad, pad))
        sizes = window.sizes(x.array.shape[2:])
        padded = np.pad(x.array, [(0, 0), (0, 0), *window.border], constant_values=-np.inf)
        places = [place for _, place in _taps(window, sizes)]
        parts = np.stack([padded[place] for place in places])
        first = parts.argmax(axis=0)

        def rule(d: np.ndarray) -> tuple[np.ndarray, ...]:
            dx = np.zeros_like(padded)
            for number, place in enumerate(places):
                dx[place] += d * (first == number)
            return (dx[..., pad : dx.shape[2] - pad, pad : dx.shape[3] - pad],)

        return self._made(parts.max(axis=0), rule, x)

    def mean_pool(self, x: Value) -> Value:
        shape, count = x.array.shape, x.array[0, 0].size
        return self._made(x.array.mean((2, 3)), lambda d: (np.broadcast_to(d[..., None, None] / count, shape),), x)

    def flatten(self, x: Value) -> Value:
        shape = x.array.shape
        return self._made(x.array.reshape(shape[0], -1), lambda d: (d.reshape(shape),), x)

    def dense(self, x: Value, tag: str, columns: int, outputs: int) -> Value:
        w, b = self.parameter(f"w{tag}"), self.parameter(f"b{tag}")
        made = x.array @ w.array.T + b.array
        return self._made(made, lambda d: (d @ w.array, d.T @ x.array, d.sum(axis=0)), x, w, b)


# --- Gluon ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GluonBuilder:
    """Operators of ``F``, with the parameters by their names."""

    F: Any
    parameters: Mapping[str, Any]
    training: bool = False

    def conv(self, x: Any, tag: str, layer: Conv) -> Any:
        border = [before for before, _ in layer.border]
        axes = len(layer.kernel)
        operator = self.F.Deconvolution if layer.transposed else self.F.Convolution
        dilate = {} if layer.transposed else {"dilate": (layer.dilate,) * axes}
        y = operator(
            x, self.parameters[f"w{tag}"], kernel=layer.kernel, stride=(layer.stride,) * axes, pad=tuple(border),
            num_filter=layer.filters, num_group=layer.groups, no_bias=True, **dilate,
        )  # fmt: skip
        return self.F.slice_axis(y, axis=2, begin=0, end=-border[0]) if layer.causal else y

    def norm(self, x: Any, tag: str, channels: int) -> Any:
        given = (self.parameters[name + tag] for name in "ghmv")
        return self.F.BatchNorm(x, *given, fix_gamma=False, use_global_stats=not self.training, eps=EPSILON)

    def relu(self, x: Any) -> Any:
        return self.F.relu(x)

    def clip(self, x: Any, low: float, high: float) -> Any:
        return self.F.clip(x, low, high)

    def tanh(self, x: Any) -> Any:
        return self.F.tanh(x)

    def sigmoid(self, x: Any) -> Any:
        return self.F.sigmoid(x)

    def add(self, x: Any, y: Any) -> Any:
        return x + y

    def multiply(self, x: Any, y: Any) -> Any:
        return x * y

    def concat(self, x: Any, y: Any) -> Any:
        return self.F.concat(x, y, dim=1)

    def max_pool(self, x: Any, kernel: int, stride: int, pad: int) -> Any:
        sizes = {"kernel": (kernel,) * 2, "stride": (stride,) * 2, "pad": (pad,) * 2}
        return self.F.Pooling(x, pool_type="max", **sizes)

    def mean_pool(self, x: Any) -> Any:
        return self.F.Pooling(x, kernel=(1, 1), global_pool=True, pool_type="avg")

    def flatten(self, x: Any) -> Any:
        return self.F.flatten(x)

    def dense(self, x: Any, tag: str, columns: int, outputs: int) -> Any:
        return self.F.FullyConnected(x, self.parameters[f"w{tag}"], self.parameters[f"b{tag}"], num_hidden=outputs)

"""Networks of images and sound, written once for all frameworks: ``benchmarks/peers/run.py --only images``.

A network is a function of a builder and its input. What a builder is given and gives is a framework's own; here is that
of shapes, ``image_builders.py`` has NumPy's and Gluon's, ``peers/`` the others. Layers are named
by tags: their weights are ``w<tag>``, their biases ``b<tag>``, of batch normalization gamma is ``g<tag>``, beta
``h<tag>``, the running mean ``m<tag>``, the running variance ``v<tag>``.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

EPSILON = 1e-5  # of batch normalization
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Conv:
    """A convolution, or a transposed one, of any number of axes, with zeros around its input; without a bias.

    A causal one has all zeros before its input: as many as it needs to give as many results.
    """

    channels: int
    filters: int
    kernel: tuple[int, ...]
    stride: int = 1
    dilate: int = 1
    pad: tuple[int, ...] = ()  # not given: that which keeps the sizes of a stride of 1
    groups: int = 1
    causal: bool = False
    transposed: bool = False

    @property
    def border(self) -> list[tuple[int, int]]:
        """The zeros before and after each axis."""
        if self.causal:
            return [((k - 1) * self.dilate, 0) for k in self.kernel]
        return [(p, p) for p in self.pad or [(k - 1) * self.dilate // 2 for k in self.kernel]]

    def spans(self) -> list[int]:
        """The pixels that a result meets along each axis, less the zeros around."""
        return [(k - 1) * self.dilate + 1 - sum(p) for k, p in zip(self.kernel, self.border, strict=True)]

    @property
    def weight(self) -> tuple[int, ...]:
        """The shape of the weights: those of a transposed one are (channels, filters / groups, …)."""
        a, b = (self.channels, self.filters) if self.transposed else (self.filters, self.channels)
        return (a, b // self.groups, *self.kernel)

    def sizes(self, given: tuple[int, ...]) -> tuple[int, ...]:
        """The sizes of the result for those of the input."""
        if self.transposed:
            return tuple([(n - 1) * self.stride + s for n, s in zip(given, self.spans(), strict=True)])
        return tuple([(n - s) // self.stride + 1 for n, s in zip(given, self.spans(), strict=True)])


def conv_2d(channels: int, filters: int, kernel: int, stride: int = 1, groups: int = 1) -> Conv:
    """A convolution of pictures with a square kernel."""
    return Conv(channels, filters, (kernel, kernel), stride, groups=groups)


# --- networks ---------------------------------------------------------------------------------------------------------


def normed(b: Any, x: Any, tag: str, layer: Conv) -> Any:
    """A convolution and batch normalization."""
    return b.norm(b.conv(x, tag, layer), tag, layer.filters)


def residual(b: Any, x: Any, tag: str, channels: int, filters: int, stride: int = 1) -> Any:
    """Two convolutions and what they are added to: the input, or a convolution of it where sizes differ."""
    y = b.relu(normed(b, x, f"{tag}a", conv_2d(channels, filters, 3, stride)))
    y = normed(b, y, f"{tag}b", conv_2d(filters, filters, 3))
    if stride > 1 or channels != filters:
        x = normed(b, x, f"{tag}d", conv_2d(channels, filters, 1, stride))
    return b.relu(b.add(y, x))


def bottleneck(b: Any, x: Any, tag: str, channels: int, filters: int, stride: int = 1) -> Any:
    """The same of three convolutions, which ends with four times the filters."""
    y = b.relu(normed(b, x, f"{tag}a", conv_2d(channels, filters, 1)))
    y = b.relu(normed(b, y, f"{tag}b", conv_2d(filters, filters, 3, stride)))
    y = normed(b, y, f"{tag}c", conv_2d(filters, 4 * filters, 1))
    if stride > 1 or channels != 4 * filters:
        x = normed(b, x, f"{tag}d", conv_2d(channels, 4 * filters, 1, stride))
    return b.relu(b.add(y, x))


def residual_block(b: Any, x: Any) -> Any:
    """A block of 64 channels."""
    return residual(b, x, "1", 64, 64)


def resnet(block: Callable[..., Any], counts: tuple[int, ...], growth: int) -> Callable[[Any, Any], Any]:
    """A ResNet of He et al., with 1000 classes; the strides of bottlenecks are at their second convolutions."""

    def network(b: Any, x: Any) -> Any:
        x = b.relu(normed(b, x, "0", conv_2d(3, 64, 7, 2)))
        x, channels = b.max_pool(x, 3, 2, 1), 64
        for stage, count in enumerate(counts):
            for number in range(count):
                filters = 64 << stage
                x = block(b, x, f"{stage}_{number}", channels, filters, 2 if stage and not number else 1)
                channels = growth * filters
        return b.dense(b.mean_pool(x), "z", channels, 1000)

    return network


def mobilenet(b: Any, x: Any) -> Any:
    """MobileNetV2 of Sandler et al., with 1000 classes."""
    x, channels = b.clip(normed(b, x, "0", conv_2d(3, 32, 3, 2)), 0.0, 6.0), 32
    stages = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    for stage, (expansion, filters, count, stride) in enumerate(stages):
        for number in range(count):
            tag, wide, step = f"{stage}_{number}", expansion * channels, 1 if number else stride
            y = x if expansion == 1 else b.clip(normed(b, x, f"{tag}a", conv_2d(channels, wide, 1)), 0.0, 6.0)
            y = b.clip(normed(b, y, f"{tag}b", conv_2d(wide, wide, 3, step, groups=wide)), 0.0, 6.0)
            y = normed(b, y, f"{tag}c", conv_2d(wide, filters, 1))
            x, channels = b.add(y, x) if number else y, filters
    x = b.clip(normed(b, x, "y", conv_2d(channels, 1280, 1)), 0.0, 6.0)
    return b.dense(b.mean_pool(x), "z", 1280, 1000)


def unet(b: Any, x: Any) -> Any:
    """A U-Net of Ronneberger et al. with zeros around its images and half of its filters; two classes a pixel."""

    def twice(x: Any, tag: str, channels: int, filters: int) -> Any:
        x = b.relu(normed(b, x, f"{tag}a", conv_2d(channels, filters, 3)))
        return b.relu(normed(b, x, f"{tag}b", conv_2d(filters, filters, 3)))

    left: list[Any] = []
    channels = 3
    for filters in (32, 64, 128, 256):
        x = twice(x, f"d{filters}", channels, filters)
        left.append(x)
        x, channels = b.max_pool(x, 2, 2, 0), filters
    x = twice(x, "d512", 256, 512)
    for filters in (256, 128, 64, 32):
        x = b.conv(x, f"t{filters}", Conv(2 * filters, filters, (2, 2), 2, pad=(0, 0), transposed=True))
        x = twice(b.concat(left.pop(), x), f"u{filters}", 2 * filters, filters)
    return b.conv(x, "z", conv_2d(32, 2, 1))


def wavenet(b: Any, x: Any) -> Any:
    """Ten gated layers of WaveNet (van den Oord et al.), dilated by 1 to 512, and what follows their sum."""
    total: Any = None
    for layer in range(10):
        taps = Conv(32, 32, (2,), dilate=2**layer, causal=True)
        gated = b.multiply(b.tanh(b.conv(x, f"f{layer}", taps)), b.sigmoid(b.conv(x, f"g{layer}", taps)))
        skip = b.conv(gated, f"s{layer}", Conv(32, 32, (1,)))
        total = skip if total is None else b.add(total, skip)
        x = b.add(x, b.conv(gated, f"r{layer}", Conv(32, 32, (1,))))
    return b.conv(b.relu(b.conv(b.relu(total), "y", Conv(32, 32, (1,)))), "z", Conv(32, 256, (1,)))


def block_3d(b: Any, x: Any) -> Any:
    """A residual block of volumes, 16 channels."""
    layer = Conv(16, 16, (3, 3, 3))
    y = b.relu(normed(b, x, "a", layer))
    return b.relu(b.add(normed(b, y, "b", layer), x))


def lenet(b: Any, x: Any) -> Any:
    """LeNet for digits, as MXNet's examples have it."""
    x = b.max_pool(b.tanh(b.conv(x, "1", Conv(1, 20, (5, 5), pad=(0, 0)))), 2, 2, 0)
    x = b.max_pool(b.tanh(b.conv(x, "2", Conv(20, 50, (5, 5), pad=(0, 0)))), 2, 2, 0)
    return b.dense(b.tanh(b.dense(b.flatten(x), "3", 800, 500)), "z", 500, 10)


@dataclass(frozen=True)
class ImageNetwork:
    """A network with the shape of its input, and what is run of it: a prediction, a training step, or a gradient.

    A training step is one of SGD with momentum for the softmax cross-entropy of ``classes``. A gradient is that of the
    input ``x`` or of a weight, for a given gradient ``dy`` of the result. A *beside* names a workload that it is to be
    divided by.
    """

    about: str
    function: Callable[[Any, Any], Any]
    shape: tuple[int, ...]
    classes: int = 0
    gradient: str = ""
    scale: float = 1.0  # of the input
    beside: str = ""

    @property
    def kind(self) -> str:
        """The method of a peer that makes the program."""
        return "image_training" if self.classes else "image_gradient" if self.gradient else "image"


RESNET18, RESNET50 = resnet(residual, (2, 2, 2, 2), 1), resnet(bottleneck, (3, 4, 6, 3), 4)
PREDICTIONS = {
    "residual_block": ImageNetwork("8x64x56x56", residual_block, (8, 64, 56, 56)),
    "resnet18": ImageNetwork("1x3x224x224", RESNET18, (1, 3, 224, 224)),
    "resnet18_small": ImageNetwork("8x3x64x64", RESNET18, (8, 3, 64, 64)),
    "resnet50": ImageNetwork("1x3x224x224", RESNET50, (1, 3, 224, 224)),
    "mobilenet": ImageNetwork("MobileNetV2, 1x3x224x224", mobilenet, (1, 3, 224, 224)),
    "unet": ImageNetwork("1x3x128x128", unet, (1, 3, 128, 128)),
    "wavenet": ImageNetwork("4x32x2048", wavenet, (4, 32, 2048)),
    "block_3d": ImageNetwork("2x16x16x32x32", block_3d, (2, 16, 16, 32, 32)),
}
TRAININGS = {
    "resnet18_train": ImageNetwork("16x3x64x64, a training step", RESNET18, (16, 3, 64, 64), classes=1000),
    "mobilenet_train": ImageNetwork("MobileNetV2, 4x3x64x64, a training step", mobilenet, (4, 3, 64, 64), classes=1000),
    "lenet_train": ImageNetwork("64x1x28x28, a training step", lenet, (64, 1, 28, 28), classes=10),
}
DENORMALS = {
    "denormals": dataclasses.replace(
        PREDICTIONS["residual_block"], about="residual_block, x of 1e-40", scale=1e-40, beside="residual_block"
    )
}

# --- single convolutions: what they are, and the shape of their input

CONVOLUTIONS = {
    "3x3": (conv_2d(64, 64, 3), (8, 64, 56, 56)),
    "5x5": (conv_2d(32, 64, 5), (4, 32, 28, 28)),
    "1x7": (Conv(128, 128, (1, 7)), (4, 128, 17, 17)),
    "strided": (conv_2d(64, 128, 3, 2), (4, 64, 56, 56)),
    "dilated": (Conv(64, 64, (3, 3), dilate=2), (4, 64, 28, 28)),
    "pointwise": (conv_2d(256, 64, 1), (4, 256, 28, 28)),
    "first": (conv_2d(3, 64, 7, 2), (1, 3, 224, 224)),
    "depthwise_large": (conv_2d(96, 96, 3, groups=96), (1, 96, 112, 112)),
    "depthwise_small": (conv_2d(256, 256, 3, groups=256), (8, 256, 14, 14)),
    "grouped": (conv_2d(128, 128, 3, groups=32), (4, 128, 28, 28)),
    "causal_1d": (Conv(32, 32, (2,), dilate=64, causal=True), (4, 32, 2048)),
    "3d": (Conv(16, 16, (3, 3, 3)), (2, 16, 16, 32, 32)),
    "transposed": (Conv(64, 32, (4, 4), 2, pad=(1, 1), transposed=True), (4, 64, 28, 28)),
}


def _layer(name: str, gradient: str) -> ImageNetwork:
    layer, shape = CONVOLUTIONS[name]
    groups = f", {layer.groups} groups" if layer.groups > 1 else ""
    about = f"{layer.channels}→{layer.filters}{groups}, of {'x'.join(map(str, shape))}"
    return ImageNetwork(about, lambda b, x: b.conv(x, "1", layer), shape, gradient=gradient)


LAYERS = {
    f"{name}{suffix}": _layer(name, gradient)
    for name in CONVOLUTIONS
    for suffix, gradient in (("", ""), ("_dx", "x"), ("_dw", "w1"))
}


# --- inputs -----------------------------------------------------------------------------------------------------------


@dataclass
class ShapeBuilder:
    """Notes what inputs a network has: values are shapes; ``flops`` counts those of convolutions and dense layers."""

    normal: dict[str, tuple[tuple[int, ...], float]] = field(default_factory=dict[str, Any])  # shapes, deviations
    positive: dict[str, int] = field(default_factory=dict[str, int])  # sizes of vectors around one
    convolutions: dict[tuple[Conv, int], None] = field(default_factory=dict[Any, None])  # each with a size of its input
    flops: int = 0

    def conv(self, x: Any, tag: str, layer: Conv) -> Any:
        self.convolutions[layer, x[2]] = None
        terms = layer.channels // layer.groups * math.prod(layer.kernel)
        self.normal[f"w{tag}"] = layer.weight, math.sqrt(2 / terms)
        made = (x[0], layer.filters, *layer.sizes(x[2:]))
        self.flops += 2 * math.prod(layer.weight) * x[0] * math.prod(x[2:] if layer.transposed else made[2:])
        return made

    def norm(self, x: Any, tag: str, channels: int) -> Any:
        self.positive |= {f"g{tag}": channels, f"v{tag}": channels}
        self.normal |= {f"h{tag}": ((channels,), 0.1), f"m{tag}": ((channels,), 0.1)}
        return x

    def relu(self, x: Any) -> Any:
        return x

    tanh = sigmoid = relu

    def clip(self, x: Any, low: float, high: float) -> Any:
        return x

    def add(self, x: Any, y: Any) -> Any:
        assert x == y
        return x

    multiply = add

    def concat(self, x: Any, y: Any) -> Any:
        return (x[0], x[1] + y[1], *x[2:])

    def max_pool(self, x: Any, kernel: int, stride: int, pad: int) -> Any:
        return (*x[:2], *((n + 2 * pad - kernel) // stride + 1 for n in x[2:]))

    def mean_pool(self, x: Any) -> Any:
        return x[:2]

    def flatten(self, x: Any) -> Any:
        return (x[0], math.prod(x[1:]))

    def dense(self, x: Any, tag: str, columns: int, outputs: int) -> Any:
        assert x[1:] == (columns,)
        self.normal |= {f"w{tag}": ((outputs, columns), 1 / math.sqrt(columns)), f"b{tag}": ((outputs,), 0.1)}
        self.flops += 2 * x[0] * columns * outputs
        return (x[0], outputs)


def trained(name: str) -> bool:
    """Whether an input of a network is a parameter that a training step changes: no data, no mean, no variance."""
    return name[0] not in "xydmv"


def _shapes(network: ImageNetwork) -> tuple[ShapeBuilder, tuple[int, ...]]:
    """What a network needs, and the shape of its result."""
    builder = ShapeBuilder()
    builder.normal["x"] = network.shape, network.scale
    result = network.function(builder, network.shape)
    if network.gradient:
        builder.normal["dy"] = result, 1.0
    return builder, result


def inputs(network: ImageNetwork, rng: np.random.Generator) -> Arrays:
    """The input ``x``, weights, what normalization needs, and labels ``y`` or the gradient ``dy`` of the result."""
    known, _ = _shapes(network)
    made = {k: rng.standard_normal(s, dtype=np.float32) * np.float32(scale) for k, (s, scale) in known.normal.items()}
    made |= {k: rng.random(n, dtype=np.float32) + np.float32(0.5) for k, n in known.positive.items()}
    if network.classes:
        made["y"] = rng.integers(0, network.classes, size=network.shape[0]).astype(np.int64)
    return made


def costs(network: ImageNetwork) -> tuple[int, int]:
    """Bytes of inputs and results, and multiplications and additions, that nobody can avoid."""
    known, result = _shapes(network)
    numbers = sum(math.prod(shape) for shape, _ in known.normal.values()) + sum(known.positive.values())
    if not network.gradient:  # a gradient reads two of x, dy and weights, and makes the third
        numbers += math.prod(result)
    return 4 * numbers, known.flops * (3 if network.classes else 1)


def _of_resnet(layer: Conv, size: int) -> ImageNetwork:
    """A convolution of images with its normalization and activation."""
    about = f"{layer.channels}→{layer.filters}, stride {layer.stride}, of {size}x{size}"
    return ImageNetwork(about, lambda b, x: b.relu(normed(b, x, "1", layer)), (1, layer.channels, size, size))


RESNET18_CONVOLUTIONS = {  # with the size of their images
    f"resnet18_{size}_{layer.kernel[0]}x{layer.kernel[1]}_{layer.channels}_{layer.filters}": (layer, size)
    for layer, size in _shapes(PREDICTIONS["resnet18"])[0].convolutions
}
RESNET18_LAYERS = {name: _of_resnet(*given) for name, given in RESNET18_CONVOLUTIONS.items()}
NETWORKS = PREDICTIONS | TRAININGS | DENORMALS | LAYERS | RESNET18_LAYERS

"""Random changes of the light and colours of images, which the host computes; random flips."""

from __future__ import annotations

import colorsys
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from hybridc import random
from hybridc.dialects.nn.dropout import uniform
from hybridc.dialects.operator import Bad, Opaque, Sample, attribute, register
from hybridc.dialects.operator_attribute import DType, Floats, Shape
from hybridc.dialects.scalar import NUMPY
from hybridc.dialects.vision.image_ops import Flipping
from hybridc.dialects.vision.rules import always
from hybridc.dtypes import is_float, wide
from hybridc.errors import AttributeValueError, ShapeError

# How much red, green and blue count in the lightness of a pixel (ITU-R BT.601).
LIGHTNESS = (0.299, 0.587, 0.114)
# The directions in which the colours of ImageNet's pixels vary most, times how much: as in AlexNet and in MXNet.
EIGENVECTORS = np.array([[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]])
EIGENVALUES = np.array([55.46, 4.794, 1.148])


# --- the changes, of float arrays (H, W, C) or (N, H, W, C) -----------------------------------------------------------


def _gray(x: Any) -> Any:
    """The lightness of each pixel, with one channel."""
    return x if x.shape[-1] == 1 else (x * np.asarray(LIGHTNESS, x.dtype)).sum(-1, keepdims=True)


def brightened(x: Any, factor: Any) -> Any:
    """All values times the factor."""
    return x * factor


def contrasted(x: Any, factor: Any) -> Any:
    """The differences from the mean lightness of each image times the factor."""
    return x * factor + (1 - factor) * (_gray(x).mean((-3, -2), keepdims=True) if x.size else 0)


def saturated(x: Any, factor: Any) -> Any:
    """The differences from the lightness of each pixel times the factor."""
    # COMPAT(mxnet): MXNet takes the blue channel alone for the lightness.
    return x if x.shape[-1] == 1 else x * factor + (1 - factor) * _gray(x)


def hue_turned(x: Any, turn: Any) -> Any:
    """The hue of each pixel moved around the circle of colours by ``turn`` of its whole."""
    if x.shape[-1] == 1:
        return x
    select = NUMPY.select
    r, g, b = (x[..., i] / 255 for i in range(3))
    high: Any = np.maximum(np.maximum(r, g), b)
    low: Any = np.minimum(np.minimum(r, g), b)
    span, light = high - low, (high + low) / 2
    coloured = span > np.finfo(np.float32).eps
    some = select(coloured, span, 1)
    with np.errstate(all="ignore"):
        strength = select(coloured, span / np.minimum(high + low, 2 - high - low), 0)
    hue = select(high == g, (b - r) / some + 2, (r - g) / some + 4)
    hue = select(high == r, (g - b) / some, hue)
    hue = hue * 2 * coloured + turn * 12  # twelve parts of the circle
    spread: Any = strength * np.minimum(light, 1 - light)
    channels: list[Any] = []
    for start in (0, 8, 4):
        place = np.mod(hue + start, 12)
        channels.append(light - spread * np.clip(np.minimum(place - 3, 9 - place), -1, 1))
    return np.stack(channels, -1) * 255


def lit(x: Any, alpha: Any) -> Any:
    """Noise along the directions in which colours vary: the same for all pixels."""
    if x.shape[-1] == 1:
        return x
    return x + (EIGENVECTORS * EIGENVALUES @ np.asarray(alpha)).astype(x.dtype)


# --- the operators ----------------------------------------------------------------------------------------------------


class ChangingColors(Opaque):
    """An operator that changes the colours of images; the gradient passes through it as it is, as in MXNet."""

    # COMPAT(mxnet): several images are changed, too, all by the same random numbers.
    INPUT_DOCS: ClassVar = {"data": "an image (H, W, C) of 1 or 3 channels, or several (N, H, W, C)"}
    SAME_DTYPE = False
    ROUNDS: ClassVar[bool] = False  # whether integers are rounded, and not cut off

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        data = shapes[0]
        if len(data) not in (3, 4) or data[-1] not in (1, 3, -1):
            raise ShapeError(
                f"{self.ALIASES[0]}: data must have shape (H, W, C) or (N, H, W, C) with 1 or 3 channels C, got {data}"
            )
        return shapes, [data]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [dtypes[0]]

    def changed(self, x: Any, rng: Any) -> Any:
        """The changed image, in floating-point numbers."""
        raise NotImplementedError

    def eager(self, *arrays: Any) -> Any:
        x = arrays[0]
        self.infer_shape([y.shape for y in arrays])
        rng = random.generator(arrays[1], getattr(self, "draw")) if self.DRAWS else None  # noqa: B009 - of subclasses
        made = self.changed(x.astype(wide(x.dtype) if is_float(x.dtype) else np.float32), rng)
        if not is_float(x.dtype):
            limits = np.iinfo(x.dtype)
            made = np.clip((np.rint(made) if self.ROUNDS else made).astype(np.float64), limits.min, limits.max)
        return made.astype(x.dtype)

    def gradient(self, F: Any, *values: Any) -> Any:
        return (values[0], None)[: len(self.INPUTS) - self.DRAWS]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        attrs = {n: 1 for n, a in cls.ATTRIBUTES.items() if n != "draw" and a.kind == "float"}
        attrs = {"alpha": (1, 1, 1)} if "alpha" in cls.ATTRIBUTES else attrs
        text = f"{cls.ALIASES[0]}: data must have shape (H, W, C) or (N, H, W, C) with 1 or 3 channels C, got"
        return [(((4, 4),), attrs, f"{text} (4, 4)"), (((2, 2, 4),), attrs, f"{text} (2, 2, 4)")]


@register("hybrid.image_adjust_lighting", "image.adjust_lighting")
class ImageAdjustLighting(ChangingColors):
    """The image with ``alpha`` times the directions added in which the colours of ImageNet vary most"""

    alpha: Floats = attribute(doc="three numbers, for the directions in which colours vary")

    def check(self) -> None:
        if len(self.alpha) != 3:
            raise AttributeValueError(f"image.adjust_lighting: alpha must have three numbers, got {self.alpha}")

    def changed(self, x: Any, rng: Any) -> Any:
        return lit(x, self.alpha)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        alpha = (-0.1, -0.4, -0.6)
        added = [
            -0.1 * 55.46 * -0.5675 - 0.4 * 4.794 * 0.7192 - 0.6 * 1.148 * 0.4009,
            -0.1 * 55.46 * -0.5808 - 0.4 * 4.794 * -0.0045 - 0.6 * 1.148 * -0.8140,
            -0.1 * 55.46 * -0.5836 - 0.4 * 4.794 * -0.6948 - 0.6 * 1.148 * 0.4203,
        ]
        pixels = np.array([[[0, 10, 250], [255, 254, 3]]], np.uint8)
        whole = np.trunc(np.clip(pixels + np.array(added), 0, 255))
        halves = ("float32", "float64", "float16")
        return [
            Sample([(2, 3, 3)], lambda x: x + np.array(added), grad=False, dtypes=halves, alpha=alpha),
            Sample([(2, 3, 1)], lambda x: x, grad=False, alpha=alpha),
            Sample([pixels], always(whole), grad=False, alpha=alpha),
            Sample([(0, 3, 3)], lambda x: x, grad=False, alpha=alpha),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = "image.adjust_lighting: alpha must have three numbers, got (1.0,)"
        return [*super().bad_samples(), (((2, 2, 3),), {"alpha": 1}, text)]


class RandomlyChanging(ChangingColors):
    """An operator that changes the colours of an image by random numbers."""

    INPUTS = ("data", "key")
    DRAWS = True


class _Factor(RandomlyChanging):
    """A change by a factor between two numbers."""

    CHANGE: ClassVar[Any] = None
    min_factor: float = attribute(doc="the least factor", low=0)
    max_factor: float = attribute(doc="the largest factor", low=0)
    draw: int = attribute(0, "internal: tells the uses in one graph apart")

    def changed(self, x: Any, rng: Any) -> Any:
        return type(self).CHANGE(x, x.dtype.type(rng.uniform(self.min_factor, self.max_factor)))


@register("hybrid.image_random_brightness", "image.random_brightness")
class ImageRandomBrightness(_Factor):
    """The image times a random factor

    Examples
    --------
    >>> mx.random.seed(0)
    >>> image = mx.nd.array([[[100, 50, 0]]], dtype="uint8")
    >>> print(mx.nd.image.random_brightness(image, 0.5, 1.5).asnumpy())
    [[[51 25  0]]]
    """

    CHANGE = staticmethod(brightened)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        bytes_ = np.array([[[0, 47, 172], [255, 100, 3]]], np.uint8)
        same: Any = {"min_factor": 1.5, "max_factor": 1.5, "grad": False}
        halves = ("float32", "float64", "float16")
        return [
            Sample([(2, 3, 3)], lambda x: x * 1.5, dtypes=halves, **same),
            Sample([bytes_], always(np.array([[[0, 70, 255], [255, 150, 4]]])), **same),
            Sample([np.array([[[-100], [3]]], np.int8)], always(np.array([[[-128], [4]]])), **same),
        ]


@register("hybrid.image_random_contrast", "image.random_contrast")
class ImageRandomContrast(_Factor):
    """The image with its differences from the mean lightness times a random factor

    Examples
    --------
    >>> mx.random.seed(0)
    >>> image = mx.nd.array([[[100, 50, 0]]], dtype="uint8")
    >>> print(mx.nd.image.random_contrast(image, 0.5, 1.5).asnumpy())
    [[[80 54 28]]]
    """

    CHANGE = staticmethod(contrasted)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def reference(x: Any) -> Any:
            mean = (0.299 * x[..., 0] + 0.587 * x[..., 1] + 0.114 * x[..., 2]).mean()
            return mean + (x - mean) * 0.5

        same: Any = {"min_factor": 0.5, "max_factor": 0.5, "grad": False}
        return [
            Sample([(2, 3, 3)], reference, dtypes=("float32", "float64", "float16"), **same),
            Sample([(2, 3, 1)], lambda x: (x + x.mean()) / 2, **same),
            Sample([(3, 2, 4, 1)], lambda x: (x + x.mean((1, 2, 3), keepdims=True)) / 2, **same),
            Sample([np.array([[[0], [100]]], np.uint8)], always(np.array([[[25], [75]]])), **same),
            Sample([(0, 3, 3)], lambda x: x, **same),
        ]


@register("hybrid.image_random_saturation", "image.random_saturation")
class ImageRandomSaturation(_Factor):
    """The image with the differences from the lightness of each pixel times a random factor

    Examples
    --------
    >>> mx.random.seed(0)
    >>> image = mx.nd.array([[[100, 50, 0]]], dtype="uint8")
    >>> print(mx.nd.image.random_saturation(image, 0.5, 1.5).asnumpy())
    [[[80 54 28]]]
    """

    CHANGE = staticmethod(saturated)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def reference(x: Any) -> Any:
            gray = 0.299 * x[..., :1] + 0.587 * x[..., 1:2] + 0.114 * x[..., 2:]
            return gray + (x - gray) * 0.5

        same: Any = {"min_factor": 0.5, "max_factor": 0.5, "grad": False}
        return [
            Sample([(2, 3, 3)], reference, dtypes=("float32", "float64", "float16"), **same),
            Sample([(2, 3, 1)], lambda x: x, **same),
        ]


@register("hybrid.image_random_hue", "image.random_hue")
class ImageRandomHue(_Factor):
    """The image with its hues moved around the circle of colours by a random part of it

    Examples
    --------
    >>> mx.random.seed(0)
    >>> image = mx.nd.array([[[100, 50, 0]]], dtype="uint8")
    >>> print(mx.nd.image.random_hue(image, 0.5, 1.5).asnumpy())
    [[[  0  43 100]]]
    """

    # COMPAT(mxnet): there integers are cut off, and hues that do not turn become darker.
    ROUNDS = True
    CHANGE = staticmethod(hue_turned)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def reference(x: Any) -> Any:
            out = np.zeros_like(x)
            for i, j in np.ndindex(*x.shape[:2]):
                h, light, s = colorsys.rgb_to_hls(*(x[i, j] / 255))
                out[i, j] = np.array(colorsys.hls_to_rgb((h + 0.1) % 1, light, s)) * 255
            return out

        same: Any = {"min_factor": 0.1, "max_factor": 0.1, "grad": False}
        primaries = np.array([[[255.5, 0, 0], [0, 200, 0], [10, 10, 10], [250, 0, 255], [20, 200, 200], [0, 0, 0]]])
        return [
            Sample([(3, 5, 3)], reference, low=0, high=255, **same),
            Sample([primaries], reference, dtypes=("float64",), **same),
            Sample([(2, 3, 1)], lambda x: x, **same),
        ]


@register("hybrid.image_random_lighting", "image.random_lighting")
class ImageRandomLighting(RandomlyChanging):
    """The image with random noise along the directions in which the colours of ImageNet vary most

    Examples
    --------
    >>> mx.random.seed(0)
    >>> image = mx.nd.array([[[100, 50, 0]]], dtype="uint8")
    >>> print(mx.nd.image.random_lighting(image, alpha_std=0.5).asnumpy())
    [[[94 46  0]]]
    """

    alpha_std: float = attribute(0.05, "the standard deviation of the noise")
    draw: int = attribute(0, "internal: tells the uses in one graph apart")

    def changed(self, x: Any, rng: Any) -> Any:
        return lit(x, rng.standard_normal(3) * self.alpha_std)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [Sample([(2, 3, c)], lambda x: x, grad=False, alpha_std=0) for c in (1, 3)]


@register("hybrid.image_random_color_jitter", "image.random_color_jitter")
class ImageRandomColorJitter(RandomlyChanging):
    """The image with brightness, contrast, saturation and hue changed at random, in random order

    Examples
    --------
    >>> mx.random.seed(0)
    >>> image = mx.nd.array([[[100, 50, 0]]], dtype="uint8")
    >>> print(mx.nd.image.random_color_jitter(image, 0.2, 0.2, 0.2, 0.1).asnumpy())
    [[[94 28  7]]]
    """

    brightness: float = attribute(doc="the factor of brightness differs from 1 by at most this")
    contrast: float = attribute(doc="the factor of contrast differs from 1 by at most this")
    saturation: float = attribute(doc="the factor of saturation differs from 1 by at most this")
    hue: float = attribute(doc="hues move by at most this part of the circle of colours")
    draw: int = attribute(0, "internal: tells the uses in one graph apart")

    def changed(self, x: Any, rng: Any) -> Any:
        steps: list[Any] = [
            (brightened, self.brightness, 1), (contrasted, self.contrast, 1), (saturated, self.saturation, 1),
            (hue_turned, self.hue, 0),
        ]  # fmt: skip
        for i in rng.permutation(len(steps)).tolist():
            change, most, middle = steps[i]
            if most > 0:
                x = change(x, x.dtype.type(middle + rng.uniform(-most, most)))
        return x

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        none: Any = {"brightness": 0, "contrast": 0, "saturation": 0, "hue": 0, "grad": False}
        return [Sample([(2, 3, c)], lambda x: x, **none) for c in (1, 3)]


# --- random flips -----------------------------------------------------------------------------------------------------


class RandomFlipping(Flipping):
    """Images that are flipped, all or none, with probability 1/2."""

    INPUTS = ("data", "key")
    DRAWS = True
    SAME_DTYPE = False
    draw: int = attribute(0, "internal: tells the uses in one graph apart")

    def eager(self, *arrays: Any) -> Any:
        x, key = arrays
        self.infer_shape([x.shape, key.shape])
        return np.flip(x, self.AXIS).copy() if uniform(key, self.draw, (), np.dtype("float32")) < 0.5 else x.copy()

    def decompose(self, F: Any, *inputs: Any) -> Any:
        x, key = inputs
        drawn = F.uniform_sample(key, shape=(1,) * len(x.shape), draw=self.draw)
        return F.where(drawn < 0.5, F.flip(x, axis=len(x.shape) + self.AXIS), x)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, _, key, _ = values
        return self.decompose(F, dy, key)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        same = np.full((2, 3, 1), 7, np.uint8)
        return [Sample([same], always(same), grad=False), Sample([(1, 1, 3)], lambda x: x)]


@register("hybrid.image_random_flip_left_right", "image.random_flip_left_right")
class ImageRandomFlipLeftRight(RandomFlipping):
    """Images with the columns in the opposite order, with probability 1/2

    Examples
    --------
    >>> mx.random.seed(0)
    >>> image = mx.nd.array([[[1], [2], [3]]])
    >>> for _ in range(3):
    ...     print(mx.nd.image.random_flip_left_right(image).reshape(-1).tolist())
    [3.0, 2.0, 1.0]
    [1.0, 2.0, 3.0]
    [1.0, 2.0, 3.0]
    """


@register("hybrid.image_random_flip_top_bottom", "image.random_flip_top_bottom")
class ImageRandomFlipTopBottom(RandomFlipping):
    """Images with the rows in the opposite order, with probability 1/2

    Examples
    --------
    >>> mx.random.seed(0)
    >>> image = mx.nd.array([[[1]], [[2]], [[3]]])
    >>> for _ in range(3):
    ...     print(mx.nd.image.random_flip_top_bottom(image).reshape(-1).tolist())
    [3.0, 2.0, 1.0]
    [1.0, 2.0, 3.0]
    [1.0, 2.0, 3.0]
    """

    AXIS = -3

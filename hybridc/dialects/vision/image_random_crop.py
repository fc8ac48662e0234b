"""Random parts of images, resized to one size, which the host computes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from hybridc import random
from hybridc.dialects.operator import Bad, Opaque, Sample, attribute, no_gradient, register
from hybridc.dialects.operator_attribute import DType, Floats, Shape
from hybridc.dialects.vision.image_ops import IMAGES
from hybridc.dialects.vision.image_resize import METHODS, require_images
from hybridc.dialects.vision.resampling import LANCZOS, NEAREST, resample
from hybridc.errors import AttributeValueError, ShapeError

# What lies in a part of an image: the first row and column, and how many there are.
Part = tuple[int, int, int, int]


class RandomPart(Opaque):
    """A random part of an image, or the same of several, resized to ``width`` and ``height``; no gradient flows."""

    # COMPAT(mxnet): MXNet 1.9.1 has functions for this in mx.image, and no operator; these names are MXNet 2's.
    gradient = no_gradient

    INPUTS = ("data", "key")
    INPUT_DOCS: ClassVar = IMAGES
    DRAWS = True
    SAME_DTYPE = False
    PAIRS: ClassVar[tuple[str, ...]] = ()

    width: int = 1
    height: int = 1
    interp: int = 1
    draw: int = 0

    def check(self) -> None:
        for name in self.PAIRS:
            low_high: Floats = getattr(self, name)
            if len(low_high) != 2 or not 0 <= low_high[0] <= low_high[1]:
                raise AttributeValueError(
                    f"{self.ALIASES[0]}: {name} must be two numbers of at least 0, the second not less than the first, "
                    f"got {low_high}"
                )
        if not NEAREST <= self.interp <= LANCZOS:
            raise AttributeValueError(f"{self.ALIASES[0]}: interp must be {METHODS}, got {self.interp}")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        data = shapes[0]
        require_images(self.ALIASES[0], data)
        if 0 in data[-3:-1]:
            raise ShapeError(f"{self.ALIASES[0]}: the images have no pixels: data has shape {data}")
        return shapes, [(*data[:-3], self.height, self.width, data[-1])]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [dtypes[0]]

    def eager(self, *arrays: Any) -> Any:
        x, key = arrays
        self.infer_shape([x.shape, key.shape])
        top, left, rows, columns = self.part(random.generator(key, self.draw), *x.shape[-3:-1])
        part = np.ascontiguousarray(x[..., top : top + rows, left : left + columns, :])
        return resample(part, self.height, self.width, self.interp)

    def part(self, rng: Any, height: int, width: int) -> Part:
        """The part of images of this size."""
        raise NotImplementedError

    def fitting(self, height: int, width: int) -> tuple[int, int]:
        """The largest rows and columns in the image, up to the new size and with the ratio of its sides."""
        scale = min(1.0, height / self.height, width / self.width)
        return max(int(self.height * scale), 1), max(int(self.width * scale), 1)

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        title, name = cls.ALIASES[0], cls.PAIRS[0]
        size: Any = {"width": 2, "height": 2}
        pair = "must be two numbers of at least 0, the second not less than the first"
        return [
            (((4, 4),), size, f"{title}: data must have shape (H, W, C) or (N, H, W, C), got (4, 4)"),
            (((4, 4, 3),), {**size, name: (1, 0)}, f"{title}: {name} {pair}, got (1.0, 0.0)"),
            (((4, 4, 3),), {**size, "interp": 9}, f"{title}: interp must be {METHODS}, got 9"),
        ]


@register("hybrid.image_random_crop", "image.random_crop")
class ImageRandomCrop(RandomPart):
    """A part of ``width`` and ``height`` at a random place; of a smaller image as much as fits, resized

    Examples
    --------
    >>> mx.random.seed(0)
    >>> image = mx.nd.arange(16).reshape((4, 4, 1))
    >>> print(mx.nd.image.random_crop(image, width=2, height=2).asnumpy()[:, :, 0])
    [[0. 1.]
     [4. 5.]]
    """

    PAIRS = ("xrange", "yrange")
    xrange: Floats = attribute((0.0, 1.0), "where the part may be: 0 is on the left and 1 on the right")
    yrange: Floats = attribute((0.0, 1.0), "where the part may be: 0 is at the top and 1 at the bottom")
    width: int = attribute(doc="the number of columns", low=1)
    height: int = attribute(doc="the number of rows", low=1)
    interp: int = attribute(1, "the method of resizing: " + METHODS)
    draw: int = attribute(0, "internal: tells the uses in one graph apart")

    def check(self) -> None:
        super().check()
        if max(self.xrange[1], self.yrange[1]) > 1:
            raise AttributeValueError(
                f"image.random_crop: xrange and yrange end at 1 or before, got {self.xrange} and {self.yrange}"
            )

    def part(self, rng: Any, height: int, width: int) -> Part:
        rows, columns = self.fitting(height, width)
        top, left = (
            # Each of the places in the range is equally likely, the last included.
            min(int(rng.uniform(low * free, high * free + (low < high))), math.floor(high * free))
            for free, (low, high) in ((height - rows, self.yrange), (width - columns, self.xrange))
        )
        return top, left, rows, columns

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        middle: Any = {"xrange": (0.5, 0.5), "yrange": (0.5, 0.5)}
        return [
            Sample([(4, 6, 3)], lambda x: x[1:3, 2:4], grad=False, width=2, height=2, **middle),
            Sample([(2, 3, 5, 1)], lambda x: x[:, 2:, 4:], grad=False, width=1, height=1, xrange=(1, 1), yrange=(1, 1)),
            Sample([(4, 6, 3)], lambda x: x, grad=False, width=6, height=4),
            Sample([np.full((2, 2, 1), 9, np.uint8)], lambda _: np.full((5, 3, 1), 9), grad=False, width=3, height=5),
        ]


@register("hybrid.image_random_resized_crop", "image.random_resized_crop")
class ImageRandomResizedCrop(RandomPart):
    """A part of random area and ratio of sides at a random place, resized to ``width`` and ``height``

    Examples
    --------
    >>> mx.random.seed(0)
    >>> image = mx.nd.arange(16).reshape((4, 4, 1))
    >>> part = mx.nd.image.random_resized_crop(image, width=2, height=2, area=(0.5, 1))
    >>> print(part.asnumpy()[:, :, 0])
    [[1.25 2.75]
     [7.25 8.75]]
    """

    PAIRS = ("area", "ratio")
    width: int = attribute(doc="the number of columns", low=1)
    height: int = attribute(doc="the number of rows", low=1)
    area: Floats = attribute((0.08, 1.0), "the area of the part, divided by that of the image")
    ratio: Floats = attribute((3 / 4, 4 / 3), "the width of the part, divided by its height")
    interp: int = attribute(1, "the method of resizing: " + METHODS)
    max_trial: int = attribute(10, "how often a part is drawn that may not fit, before the middle is taken", low=0)
    draw: int = attribute(0, "internal: tells the uses in one graph apart")

    def check(self) -> None:
        super().check()
        if self.ratio[0] <= 0:
            raise AttributeValueError(f"image.random_resized_crop: ratio must be greater than 0, got {self.ratio}")

    def part(self, rng: Any, height: int, width: int) -> Part:
        for _ in range(self.max_trial):
            size = rng.uniform(*self.area) * height * width
            ratio = math.exp(rng.uniform(*map(math.log, self.ratio)))
            rows, columns = max(round(math.sqrt(size / ratio)), 1), max(round(math.sqrt(size * ratio)), 1)
            if rows <= height and columns <= width:
                top, left = rng.integers(0, (height - rows + 1, width - columns + 1)).tolist()
                return top, left, rows, columns
        rows, columns = self.fitting(height, width)
        return (height - rows) // 2, (width - columns) // 2, rows, columns

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        size: Any = {"width": 2, "height": 2, "grad": False}
        whole: Any = {"area": (1, 1), "ratio": (1, 1)}
        return [
            Sample([(4, 4, 3)], lambda x: x.reshape(2, 2, 2, 2, 3).mean((1, 3)), **whole, **size),
            Sample([(2, 4, 6, 3)], lambda x: x[:, 1:3, 2:4], max_trial=0, **size),
            Sample([(4, 6, 3)], lambda x: x[1:3, 2:4], area=(4, 5), **size),
            Sample([np.full((2, 9, 1), 9, np.uint8)], lambda _: np.full((2, 2, 1), 9), **size),
        ]

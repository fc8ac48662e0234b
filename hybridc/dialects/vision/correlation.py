"""Correlation of two feature maps, as in FlowNet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hybridc.dialects.operator import Bad, Sample, attribute, register
from hybridc.dialects.operator_attribute import Shape
from hybridc.dialects.vision.bilinear import axis_of
from hybridc.dialects.vision.rules import CheckedComposite, require_shape
from hybridc.dtypes import wide
from hybridc.errors import AttributeValueError, ShapeError


@register("hybrid.correlation", "Correlation")
class Correlation(CheckedComposite):
    """How alike the surroundings of a place in ``data1`` are to those of displaced places in ``data2``

    The mean, over channels and a square window, of products, or of absolute differences. The channels of the result
    are the displacements, row by row.
    """

    INPUTS = ("data1", "data2")
    kernel_size: int = attribute(1, "rows and columns of the window, an odd number", low=1)
    max_displacement: int = attribute(1, "the largest displacement", low=0)
    stride1: int = attribute(1, "the distance of places in data1", low=1)
    stride2: int = attribute(1, "the distance of displacements", low=1)
    pad_size: int = attribute(0, "rows and columns of zeros on each side", low=0)
    is_multiply: bool = attribute(True, "products; else absolute differences")

    def check(self) -> None:
        if self.kernel_size % 2 == 0:
            raise AttributeValueError(f"Correlation: kernel_size must be odd, got {self.kernel_size}")
        self.reach = self.max_displacement // self.stride2

    def out_size(self, size: Shape) -> Shape:
        """Rows and columns of the result."""
        border = self.max_displacement + self.kernel_size // 2
        return tuple(-1 if n == -1 else -(-(n + 2 * self.pad_size - 2 * border) // self.stride1) for n in size)

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        first, second = shapes
        require_shape("Correlation", "data1", first, ("N", "C", "height", "width"))
        require_shape("Correlation", "data2", second, first)
        shape = tuple(b if a == -1 else a for a, b in zip(first, second, strict=True))
        size = self.out_size(shape[2:])
        if any(n != -1 and n < 1 for n in size):
            raise ShapeError(
                f"Correlation: max_displacement={self.max_displacement} and kernel_size={self.kernel_size} are too "
                f"large for padded data of shape {shape}"
            )
        return [shape, shape], [(shape[0], (2 * self.reach + 1) ** 2, *size)]

    def decompose(self, F: Any, *inputs: Any) -> Any:
        images, channels, height, width = inputs[0].shape
        dtype = np.dtype(inputs[0].dtype)
        size = self.out_size((height, width))
        shifts, taps = 2 * self.reach + 1, self.kernel_size
        # Axes: image, channel, vertical and horizontal displacement, row and column of the window, row and column.
        padded = [self._padded(F, F.cast(x, wide(dtype))) for x in inputs]
        windows: list[Any] = []
        for x, displaced in zip(padded, (False, True), strict=True):
            for axis in (0, 1):
                index = self._index(F, size[axis], axis, displaced)
                x = F.take(x, F.reshape_to(index, shape=(_size(index),)), axis=2 + axis)
            steps = shifts if displaced else 1
            x = F.reshape_to(x, shape=(images, channels, steps, taps, size[0], steps, taps, size[1]))
            windows.append(F.transpose(x, axes=(0, 1, 2, 5, 3, 6, 4, 7)))
        first, second = windows
        alike = first * second if self.is_multiply else (first - second) * self._sign(F, first, second)
        total = F.sum(alike, axis=(1, 4, 5)) / (taps * taps * max(channels, 1))
        return F.cast(F.reshape_to(total, shape=(images, shifts * shifts, *size)), dtype)

    def _sign(self, F: Any, first: Any, second: Any) -> Any:
        """The derivative of the absolute difference by the first; 1 where both are equal."""
        return F.broadcast_greater_equal(first, second) * 2 - 1

    def _padded(self, F: Any, x: Any) -> Any:
        if not self.pad_size:
            return x
        return F.pad(x, mode="constant", pad_width=(0, 0, 0, 0, *(self.pad_size,) * 4))

    def _index(self, F: Any, size: int, axis: int, displaced: bool) -> Any:
        """The index of each displacement, tap and place along an axis."""
        steps = 2 * self.reach + 1 if displaced else 1
        shift = axis_of(F, steps, (steps, 1, 1), "int64") * self.stride2 - (self.reach * self.stride2) * displaced
        tap = axis_of(F, self.kernel_size, (1, self.kernel_size, 1), "int64")
        place = axis_of(F, size, (1, 1, size), "int64") * self.stride1 + self.max_displacement
        return shift + tap + place

    def nnvm_outputs(self) -> int:
        """What it keeps for the backward are two hidden outputs there."""
        return 3

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [
            Sample([shape, shape], correlated(*attrs), grad=shape[0] > 0, **dict(zip(_NAMES, attrs, strict=True)))
            for shape, attrs in (
                ((2, 3, 4, 5), (1, 1, 1, 1, 1, True)),
                ((1, 2, 5, 4), (3, 1, 2, 1, 2, True)),
                ((1, 2, 4, 4), (3, 2, 1, 2, 3, False)),
                ((1, 1, 3, 3), (1, 0, 1, 1, 0, True)),
                ((0, 2, 4, 4), (1, 1, 1, 1, 1, True)),
            )
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        large = "Correlation: max_displacement=5 and kernel_size=1 are too large for padded data of shape (1, 2, 5, 5)"
        other = "Correlation: data2 must have shape (1, 2, 5, 5), got (1, 2, 4, 5)"
        return [
            (((1, 2, 5, 5), (1, 2, 5, 5)), {"max_displacement": 5}, large),
            (((1, 2, 5, 5), (1, 2, 5, 5)), {"kernel_size": 2}, "Correlation: kernel_size must be odd, got 2"),
            (((1, 2, 5, 5), (1, 2, 4, 5)), {}, other),
        ]


def _size(index: Any) -> int:
    steps, taps, places = index.shape
    return steps * taps * places


_NAMES = ("kernel_size", "max_displacement", "stride1", "stride2", "pad_size", "is_multiply")


def correlated(kernel: int, most: int, stride1: int, stride2: int, pad: int, multiply: bool) -> Any:
    """The reference of samples: window by window."""

    def reference(first: Any, second: Any) -> Any:
        width = ((0, 0), (0, 0), (pad, pad), (pad, pad))
        a, b = np.pad(first, width), np.pad(second, width)
        reach = most // stride2
        moves = [(i * stride2, j * stride2) for i in range(-reach, reach + 1) for j in range(-reach, reach + 1)]
        rows, columns = (range(most, n - most - kernel + 1, stride1) for n in a.shape[2:])
        out = np.zeros((len(a), len(moves), len(rows), len(columns)))
        for (m, (down, right)), (i, y), (j, x) in (
            (m, i, j) for m in enumerate(moves) for i in enumerate(rows) for j in enumerate(columns)
        ):
            one = a[:, :, y : y + kernel, x : x + kernel]
            two = b[:, :, y + down : y + down + kernel, x + right : x + right + kernel]
            out[:, m, i, j] = (one * two if multiply else abs(one - two)).mean((1, 2, 3)) if len(a) else 0
        return out

    return reference

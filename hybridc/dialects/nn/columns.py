"""Windows of images as columns of matrices: what a convolution multiplies with its weight."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hybridc.dialects.array.windows import windows_in
from hybridc.dialects.operator import Bad, Composite, Sample, attribute, register
from hybridc.dialects.operator_attribute import Axes, Shape
from hybridc.errors import AttributeValueError, ShapeError


class _Columns(Composite):
    """Windows as the columns of a matrix for each example: (N, C, *image) and (N, C * kernel, windows)."""

    kernel_: Axes = attribute(doc="size of a window: (w,), (h, w) or (d, h, w)")
    stride: Axes = attribute((), "distance of windows along each axis; 1 by default")
    dilate: Axes = attribute((), "distance of the elements of a window; 1 by default")
    pad: Axes = attribute((), "zeros before and after each axis; 0 by default")

    def check(self) -> None:
        n = len(self.kernel_)
        if not 1 <= n <= 3:
            raise AttributeValueError(f"{self.title()}: kernel={self.kernel_} must have 1, 2 or 3 numbers")
        for name in ("kernel", "stride", "dilate", "pad"):
            values, low = self.attrs[name], int(name != "pad")
            if len(values) not in (0, n) or any(v < low for v in values):
                raise AttributeValueError(
                    f"{self.title()}: {name}={values} must have {n} numbers of at least {low}, one for each axis"
                )

    def windows(self, image: Shape) -> dict[str, Any]:
        """The attributes of ``windows`` for an image of this size."""
        n = len(self.kernel_)
        stride, dilate, pad = self.stride or (1,) * n, self.dilate or (1,) * n, self.pad or (0,) * n
        count = tuple(windows_in(*each) for each in zip(image, self.kernel_, stride, pad, dilate, strict=True))
        if any(c < 1 for c in count):
            raise ShapeError(
                f"{self.title()}: kernel={self.kernel_} with dilate={dilate} is larger than an image of {image} with "
                f"pad={pad}"
            )
        axes = tuple(range(2, 2 + n))
        return {"axes": axes, "kernel": self.kernel_, "count": count, "stride": stride, "dilate": dilate, "pad": pad}

    # COMPAT(mxnet): images of one and three dimensions; there only those of two work.


@register("hybrid.im2col")
class Im2Col(_Columns):
    """The windows of each image (N, C, *image) as columns: (N, C * elements of a window, number of windows)"""

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        (shape,) = shapes
        if len(shape) != 2 + len(self.kernel_):
            raise ShapeError(
                f"im2col: data of shape {shape} must have {2 + len(self.kernel_)} axes for kernel={self.kernel_}"
            )
        count = self.windows(shape[2:])["count"]
        return shapes, [(shape[0], shape[1] * math.prod(self.kernel_), math.prod(count))]

    def decompose(self, F: Any, *inputs: Any) -> Any:
        (x,) = inputs
        (shape,) = self.infer_shape([x.shape])[1]
        n = len(self.kernel_)
        y = F.windows(x, **self.windows(x.shape[2:]))
        order = (0, 1, *range(2 + n, 2 + 2 * n), *range(2, 2 + n))
        return F.reshape_to(F.transpose(y, axes=order), shape=shape)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def columns(x: Any) -> Any:
            return np.stack([x[0, :, i : i + 2, j : j + 2].reshape(-1) for i in range(2) for j in range(3)], 1)[None]

        def line(x: Any) -> Any:
            x = np.pad(x, ((0, 0), (0, 0), (1, 1)))
            return np.stack([x[:, :, [i, i + 2]].reshape(2, -1) for i in (0, 2, 4)], 2)

        def cube(x: Any) -> Any:
            return x.reshape(1, 8, 1)

        return [
            Sample([(1, 2, 3, 4)], columns, kernel=(2, 2)),
            Sample([(2, 2, 5)], line, kernel=2, stride=2, dilate=2, pad=1),
            Sample([(1, 1, 2, 2, 2)], cube, kernel=(2, 2, 2)),
            Sample([(0, 2, 3)], lambda _: np.zeros((0, 4, 2)), kernel=2),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        return [
            (((1, 1, 3),), {"kernel": (2, 2)}, "im2col: data of shape (1, 1, 3) must have 4 axes for kernel=(2, 2)"),
            (
                ((1, 1, 3),),
                {"kernel": 4},
                "im2col: kernel=(4,) with dilate=(1,) is larger than an image of (3,) with pad=(0,)",
            ),
            (
                ((1, 1, 3),),
                {"kernel": 2, "stride": 0},
                "im2col: stride=(0,) must have 1 numbers of at least 1, one for each axis",
            ),
            (((1, 1, 3),), {"kernel": ()}, "im2col: kernel=() must have 1, 2 or 3 numbers"),
        ]


@register("hybrid.col2im")
class Col2Im(_Columns):
    """The sum of windows, columns as of ``im2col``, in an image: (N, C, *output_size)"""

    ORDER = ("output_size", "kernel", "stride", "dilate", "pad")
    output_size: Shape = attribute(doc="size of the image: (w,), (h, w) or (d, h, w)")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        (shape,) = shapes
        if len(self.output_size) != len(self.kernel_):
            raise ShapeError(
                f"col2im: output_size={self.output_size} must have as many numbers as kernel={self.kernel_}"
            )
        elements, count = math.prod(self.kernel_), math.prod(self.windows(self.output_size)["count"])
        if len(shape) != 3 or shape[1] % elements or shape[2] != count:
            raise ShapeError(
                f"col2im: data of shape {shape} must be (examples, a multiple of {elements} elements of a window, "
                f"{count} windows) for output_size={self.output_size}"
            )
        return shapes, [(shape[0], shape[1] // elements, *self.output_size)]

    def decompose(self, F: Any, *inputs: Any) -> Any:
        (x,) = inputs
        (shape,) = self.infer_shape([x.shape])[1]
        n, attrs = len(self.kernel_), self.windows(self.output_size)
        y = F.reshape_to(x, shape=(*shape[:2], *self.kernel_, *attrs["count"]))
        y = F.transpose(y, axes=(0, 1, *range(2 + n, 2 + 2 * n), *range(2, 2 + n)))
        return F.windows_add(y, size=self.output_size, **attrs)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def image(x: Any) -> Any:
            y = np.zeros((2, 1, 2, 3))
            for k, (i, j) in enumerate(np.ndindex(2, 2)):
                y[:, 0, i : i + 1, j : j + 2] += x[:, k].reshape(2, 1, 2)
            return y

        def line(x: Any) -> Any:
            y = np.zeros((1, 2, 7))
            for k, o in np.ndindex(3, 3):
                y[:, :, 2 * o + k] += x.reshape(1, 2, 3, 3)[:, :, k, o]
            return y[:, :, 1:6]

        return [
            Sample([(2, 4, 2)], image, output_size=(2, 3), kernel=(2, 2)),
            Sample([(1, 6, 3)], line, output_size=5, kernel=3, stride=2, pad=1),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = "col2im: data of shape (1, 5, 3) must be (examples, a multiple of 3 elements of a window, 3 windows) "
        text += "for output_size=(5,)"
        return [
            (((1, 5, 3),), {"output_size": 5, "kernel": 3}, text),
            (
                ((1, 3, 3),),
                {"output_size": (5, 5), "kernel": 3},
                "col2im: output_size=(5, 5) must have as many numbers as kernel=(3,)",
            ),
        ]

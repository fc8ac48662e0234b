"""Resizing of images as OpenCV does it: without smoothing, but for averages over areas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from hybridc.dialects.operator import Bad, Composite, Opaque, Sample, attribute, register
from hybridc.dialects.operator_attribute import Axes, DType, Shape
from hybridc.dialects.vision.resampling import AREA, LANCZOS, LINEAR, NEAREST, method_of, resample
from hybridc.dialects.vision.rules import always
from hybridc.dtypes import is_float, wide
from hybridc.errors import AttributeValueError, ShapeError

METHODS = "0 (nearest), 1 (bilinear), 2 (bicubic), 3 (area) or 4 (Lanczos)"


def require_images(title: str, shape: Shape) -> None:
    """Raise unless the shape is of one image ``(H, W, C)``, or of several."""
    if len(shape) not in (3, 4):
        raise ShapeError(f"{title}: data must have shape (H, W, C) or (N, H, W, C), got {shape}")


@register("hybrid.image_resize", "image.resize", "_image_resize")
class ImageResize(Composite):
    """Images with another width and height, as OpenCV resizes them

    Bilinear interpolation of floating-point numbers and the nearest pixel are compiled. What else there is, the host
    computes, without a gradient.
    """

    INPUT_DOCS: ClassVar = {"data": "an image (H, W, C), or several (N, H, W, C)"}
    size: Axes = attribute((), "the new width and height, or one number for both")
    keep_ratio: bool = attribute(False, "whether one number is the size of the shorter side")
    interp: int = attribute(1, "the method: " + METHODS)

    def check(self) -> None:
        if len(self.size) not in (1, 2) or min(self.size) < 1:
            raise AttributeValueError(
                f"image.resize: size must be one or two numbers of at least 1, width and height, got {self.size}"
            )
        if not NEAREST <= self.interp <= LANCZOS:
            raise AttributeValueError(f"image.resize: interp must be {METHODS}, got {self.interp}")

    def target(self, height: int, width: int) -> tuple[int, int]:
        """The new height and width."""
        if len(self.size) == 2:
            return self.size[1], self.size[0]
        (side,) = self.size
        if not self.keep_ratio:
            return side, side
        return (height * side // width, side) if height > width else (side, width * side // height)

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        (data,) = shapes
        require_images("image.resize", data)
        height, width = data[-3:-1]
        if 0 in (height, width):
            raise ShapeError(f"image.resize: the images have no pixels: data has shape {data}")
        made = self.target(height, width) if min(height, width) > 0 or len(self.size) == 2 else (-1, -1)
        return shapes, [(*data[:-3], *made, data[-1])]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [dtypes[0]]

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        rows, columns = self.infer_shape([x.shape])[1][0][-3:-1]
        return resample(x, rows, columns, self.interp)

    def decompose(self, F: Any, *inputs: Any) -> Any:
        (x,) = inputs
        height, width = map(int, x.shape[-3:-1])
        rows, columns = self.target(height, width)
        method = method_of(self.interp, height, width, rows, columns)
        dtype = np.dtype(x.dtype)
        axis = len(x.shape) - 3
        if (rows, columns) == (height, width):
            return F.identity(x)
        if method == AREA and (height, width) == (2 * rows, 2 * columns) and is_float(dtype):
            squares = F.reshape_to(x, shape=(*x.shape[:-3], rows, 2, columns, 2, x.shape[-1]))
            return F.mean(squares, axis=(axis + 1, axis + 3))
        if method > LINEAR or (method == LINEAR and not is_float(dtype)):
            return F._resize_on_host(x, rows=rows, columns=columns, interp=self.interp)
        if method == NEAREST:
            return F.take(F.take(x, _nearest(F, height, rows), axis=axis), _nearest(F, width, columns), axis=axis + 1)
        made = F.cast(x, wide(dtype))
        for size, wanted, at in ((width, columns, axis + 1), (height, rows, axis)):
            first, part = _between(F, size, wanted)
            shape = (wanted, *(1,) * (len(x.shape) - at - 1))
            below, above = (F.cast(F.reshape_to(v, shape=shape), made.dtype) for v in (1 - part, part))
            made = F.take(made, first, axis=at) * below + F.take(made, first + 1, axis=at) * above
        return F.cast(made, dtype)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        whole = np.array([[10, 20], [30, 50]], np.uint8)[:, :, None]

        def reference(x: Any) -> Any:
            height, width = x.shape[:2]
            out = np.zeros((4, 5, x.shape[2]))
            for i, j in np.ndindex(4, 5):
                y, u = (i + 0.5) * height / 4 - 0.5, (j + 0.5) * width / 5 - 0.5
                y, u = min(max(y, 0), height - 1), min(max(u, 0), width - 1)
                for a, b in np.ndindex(height, width):
                    out[i, j] += x[a, b] * max(0, 1 - abs(y - a)) * max(0, 1 - abs(u - b))
            return out

        single: Any = {"grad": False, "dtypes": ("float32",)}  # in which OpenCV has its weights
        bytes_: Any = {"grad": False, "dtypes": ("uint8",)}
        return [
            Sample([(3, 7, 2)], reference, size=(5, 4), dtypes=("float32", "float16"), grad=False),
            Sample([(2, 4, 6, 3)], lambda x: x[:, ::2][:, :, ::2], size=(3, 2), interp=0),
            Sample([(1, 1, 3)], lambda x: np.broadcast_to(x, (3, 3, 3)), size=3),
            Sample([(4, 6, 1)], lambda x: x.reshape(2, 2, 3, 2, 1).mean((1, 3)), size=(3, 2)),
            Sample([(6, 4, 1)], lambda x: x.reshape(3, 2, 2, 2, 1).mean((1, 3)), size=2, keep_ratio=True, interp=3),
            Sample([(6, 9, 1)], lambda x: x.reshape(2, 3, 3, 3, 1).mean((1, 3)), size=(3, 2), interp=3, **single),
            Sample([(4, 4, 1)], lambda x: x, size=4, interp=2),
            Sample([whole], lambda _: np.array([[[28]]]), size=1, **bytes_),
            Sample([whole], lambda _: whole, size=2, interp=4, **bytes_),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        size = "image.resize: size must be one or two numbers of at least 1, width and height, got"
        return [
            (((4, 4, 3),), {}, f"{size} ()"),
            (((4, 4, 3),), {"size": (0, 3)}, f"{size} (0, 3)"),
            (((4, 4, 3),), {"size": 2, "interp": 9}, f"image.resize: interp must be {METHODS}, got 9"),
            (((4, 4),), {"size": 2}, "image.resize: data must have shape (H, W, C) or (N, H, W, C), got (4, 4)"),
            (((0, 4, 3),), {"size": 2}, "image.resize: the images have no pixels: data has shape (0, 4, 3)"),
        ]


def _nearest(F: Any, size: int, wanted: int) -> Any:
    """The index of the old pixel for each new one."""
    return F.cast(F.floor(F._arange(wanted, dtype="float64") * (1 / (wanted / size))), "int64")


def _between(F: Any, size: int, wanted: int) -> tuple[Any, Any]:
    """The index of the old pixel before each new one, and how far beyond it that is, in single precision."""
    place = (F._arange(wanted, dtype="float64") + 0.5) * (1 / (wanted / size)) - 0.5
    place = F.clip(F.cast(place, "float32"), 0, size - 1)
    first = F.floor(place)
    return F.cast(first, "int64"), place - first


@register("hybrid._resize_on_host")
class ResizeOnHost(Opaque):
    """``image.resize`` by the host"""

    rows: int = attribute(doc="the new height", low=1)
    columns: int = attribute(doc="the new width", low=1)
    interp: int = attribute(1, "the method, as in ``image.resize``")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        (data,) = shapes
        require_images("image.resize", data)
        return shapes, [(*data[:-3], self.rows, self.columns, data[-1])]

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        self.infer_shape([x.shape])
        return resample(x, self.rows, self.columns, self.interp)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        ramp = np.arange(6.0).reshape(6, 1, 1) + np.zeros((6, 1, 2))
        middle = always(np.full((1, 1, 2), 2.5))

        def areas(x: Any) -> Any:
            total = np.concatenate([[0], np.cumsum(x)])
            return np.diff(np.interp(np.linspace(0, 16, 6), np.arange(17), total)).reshape(1, 5, 1) / 3.2

        single: Any = {"grad": False, "dtypes": ("float32",)}  # in which OpenCV has its weights
        return [
            *(Sample([ramp], middle, rows=1, columns=1, interp=method, **single) for method in (1, 2, 3, 4)),
            Sample([(1, 16, 1)], areas, rows=1, columns=5, interp=3, **single),
        ]

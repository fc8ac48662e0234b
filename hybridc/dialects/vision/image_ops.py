"""Operators of ``mx.nd.image`` that move and scale pixels: ``(H, W, C)``, or several images ``(N, H, W, C)``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from hybridc.dialects.operator import Bad, Composite, Sample, attribute, register
from hybridc.dialects.operator_attribute import Axes, DType, Floats, Shape
from hybridc.dialects.vision.image_resize import require_images
from hybridc.dialects.vision.rules import CheckedComposite, always
from hybridc.errors import AttributeValueError, ShapeError

FLOAT32 = np.dtype("float32")
IMAGES: dict[str, str] = {"data": "an image (H, W, C), or several (N, H, W, C)"}


@register("hybrid.image_to_tensor", "image.to_tensor")
class ImageToTensor(Composite):
    """Images as float32, divided by 255, with the channels before rows and columns"""

    INPUT_DOCS: ClassVar = IMAGES

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        (data,) = shapes
        require_images("image.to_tensor", data)
        return shapes, [(*data[:-3], data[-1], *data[-3:-1])]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [FLOAT32]

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        self.infer_shape([x.shape])
        return np.divide(np.moveaxis(x, -1, -3), 255, dtype=FLOAT32, casting="unsafe", order="C")

    def decompose(self, F: Any, *inputs: Any) -> Any:
        (x,) = inputs
        order = (2, 0, 1) if len(x.shape) == 3 else (0, 3, 1, 2)
        return F.transpose(F.cast(x, "float32"), axes=order) / 255

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        image = np.arange(24, dtype=np.uint8).reshape(2, 4, 3) * 10
        return [
            Sample([image], lambda x: x.transpose(2, 0, 1) / 255, grad=False, dtypes=("uint8",)),
            Sample([image[None]], lambda x: x.transpose(0, 3, 1, 2) / 255, grad=False, dtypes=("uint8",)),
            Sample([(3, 5, 1)], lambda x: x.transpose(2, 0, 1) / 255, grad=False, dtypes=("float32", "float16")),
            Sample([(0, 2, 3, 4)], always(np.zeros((0, 4, 2, 3))), grad=False, dtypes=("float32",)),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        return [(((4, 4),), {}, "image.to_tensor: data must have shape (H, W, C) or (N, H, W, C), got (4, 4)")]


@register("hybrid.image_normalize", "image.normalize")
class ImageNormalize(CheckedComposite):
    """(data - mean) / std for each channel of images ``(C, H, W)`` or ``(N, C, H, W)``"""

    # COMPAT(mxnet): any number of channels, not 1 and 3 only; the defaults serve each. Integers are an error: there
    # mean and std become integers, too, and a fraction 0.
    INPUT_DOCS: ClassVar = {"data": "an image (C, H, W), or several (N, C, H, W)"}
    mean: Floats = attribute((0.0, 0.0, 0.0, 0.0), "the mean of each channel, or one for all")
    std: Floats = attribute((1.0, 1.0, 1.0, 1.0), "the standard deviation of each channel, or one for all")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        (data,) = shapes
        if len(data) not in (3, 4):
            raise ShapeError(f"image.normalize: data must have shape (C, H, W) or (N, C, H, W), got {data}")
        if data[-3] >= 0:
            self.of_channels("mean", data)
            self.of_channels("std", data)
        return shapes, [data]

    def of_channels(self, name: str, shape: Shape) -> Floats:
        """The number of each channel, or one for all."""
        values: Floats = getattr(self, name)
        if values == self.ATTRIBUTES[name].default:
            return values[:1]
        if len(values) not in (1, shape[-3]):
            counts = "1 number" if shape[-3] == 1 else f"1 or {shape[-3]} numbers"
            raise AttributeValueError(
                f"image.normalize: {name} must have {counts} for data of shape {shape}, got {values}"
            )
        return values

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        self.infer_shape([x.shape])
        self.infer_type([x.dtype])
        mean, std = (np.array(self.of_channels(n, x.shape)).astype(x.dtype).reshape(-1, 1, 1) for n in ("mean", "std"))
        return (x - mean) / std

    def decompose(self, F: Any, *inputs: Any) -> Any:
        (x,) = inputs
        number = F.reshape_to(F._arange(x.shape[-3], dtype="int32"), shape=(x.shape[-3], 1, 1))
        mean, std = (_by_channel(F, number, self.of_channels(n, x.shape), x.dtype) for n in ("mean", "std"))
        return (x - mean) / std

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def reference(x: Any) -> Any:
            return np.stack([(x[0] - 1) / 2, (x[1] - 2) / 4, (x[2] + 3) / 0.5])

        return [
            Sample([(3, 2, 5)], reference, mean=(1, 2, -3), std=(2, 4, 0.5), dtypes=("float32", "float64", "float16")),
            Sample([(2, 3, 1, 1)], lambda x: (x - 0.5) * 4, mean=0.5, std=0.25),
            Sample([(2, 1, 3)], lambda x: x),
            Sample([(0, 3, 2, 2)], lambda x: x, grad=False, mean=(1, 2, 3)),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        mean = "image.normalize: mean must have 1 or 3 numbers for data of shape (3, 2, 2), got (0.5, 1.0)"
        whole = "image_normalize: data must be floating-point, got uint8; use .astype('float32')"
        return [
            (((3, 2, 2),), {"mean": (0.5, 1)}, mean),
            (((3, 2),), {}, "image.normalize: data must have shape (C, H, W) or (N, C, H, W), got (3, 2)"),
            ((np.zeros((3, 2, 2), np.uint8),), {}, whole),
        ]


def _by_channel(F: Any, number: Any, values: Floats, dtype: Any) -> Any:
    """One of the values, by the number of the channel; a single value is for all."""
    if len(values) == 1:
        return values[0]
    total: Any = None
    for i, value in enumerate(values):
        own = F.cast(number == i, dtype) * value
        total = own if total is None else total + own
    return total


@register("hybrid.image_crop", "image.crop")
class ImageCrop(Composite):
    """A part of each image: ``height`` rows from ``y`` on, ``width`` columns from ``x`` on"""

    INPUT_DOCS: ClassVar = IMAGES
    x: int = attribute(doc="the first column", low=0)
    y: int = attribute(doc="the first row", low=0)
    width: int = attribute(doc="the number of columns", low=1)
    height: int = attribute(doc="the number of rows", low=1)

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        (data,) = shapes
        require_images("image.crop", data)
        rows, columns = data[-3:-1]
        if (rows != -1 and self.y + self.height > rows) or (columns != -1 and self.x + self.width > columns):
            raise ShapeError(
                f"image.crop: rows {self.y} to {self.y + self.height - 1} and columns {self.x} to "
                f"{self.x + self.width - 1} are not all in images of {rows} rows and {columns} columns"
            )
        return shapes, [(*data[:-3], self.height, self.width, data[-1])]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [dtypes[0]]

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        self.infer_shape([x.shape])
        return x[..., self.y : self.y + self.height, self.x : self.x + self.width, :].copy()

    def decompose(self, F: Any, *inputs: Any) -> Any:
        (x,) = inputs
        axis = len(x.shape) - 3
        rows = F.slice_axis(x, axis=axis, begin=self.y, end=self.y + self.height)
        return F.slice_axis(rows, axis=axis + 1, begin=self.x, end=self.x + self.width)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        part: Any = {"x": 1, "y": 0, "width": 2, "height": 3}
        return [
            Sample([(4, 3, 2)], lambda x: x[:3, 1:], **part),
            Sample([(2, 3, 5, 1)], lambda x: x[:, :3, 1:3], **part),
            Sample([(1, 1, 3)], lambda x: x, x=0, y=0, width=1, height=1),
            Sample([np.arange(24, dtype=np.uint8).reshape(4, 3, 2)], lambda x: x[:3, 1:], grad=False, **part),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        part: Any = {"x": 3, "y": 1, "width": 2, "height": 2}
        beyond = "image.crop: rows 1 to 2 and columns 3 to 4 are not all in images of 3 rows and 4 columns"
        return [
            (((3, 4, 3),), part, beyond),
            (((3, 4),), part, "image.crop: data must have shape (H, W, C) or (N, H, W, C), got (3, 4)"),
            (((3, 4, 3),), {**part, "x": -1}, "image_crop: attribute x takes an integer of at least 0, got -1"),
        ]


class Flipping(Composite):
    """Images with the pixels along an axis in the opposite order."""

    # COMPAT(mxnet): several images are flipped, too. MXNet's gradient is not flipped back, and with an odd number of
    # rows its flip_top_bottom leaves the middle one as it was in memory.
    INPUT_DOCS: ClassVar = IMAGES
    AXIS: ClassVar[int] = -2

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        require_images(self.ALIASES[0], shapes[0])
        return shapes, [shapes[0]]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [dtypes[0]]

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        self.infer_shape([x.shape])
        return np.flip(x, self.AXIS).copy()

    def decompose(self, F: Any, *inputs: Any) -> Any:
        (x,) = inputs
        return F.flip(x, axis=len(x.shape) + self.AXIS)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def reference(x: Any) -> Any:
            return x[..., ::-1, :] if cls.AXIS == -2 else x[..., ::-1, :, :]

        image = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
        return [
            Sample([(3, 5, 2)], reference, dtypes=("float32", "float64", "float16")),
            Sample([(2, 4, 3, 1)], reference),
            Sample([image], reference, grad=False),
            Sample([(0, 4, 3)], lambda x: x, grad=False),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        title = cls.ALIASES[0]
        return [(((4, 4),), {}, f"{title}: data must have shape (H, W, C) or (N, H, W, C), got (4, 4)")]


@register("hybrid.image_flip_left_right", "image.flip_left_right")
class ImageFlipLeftRight(Flipping):
    """Images with the columns in the opposite order"""


@register("hybrid.image_flip_top_bottom", "image.flip_top_bottom")
class ImageFlipTopBottom(Flipping):
    """Images with the rows in the opposite order"""

    AXIS = -3


@register("hybrid.crop_like", "Crop")
class CropLike(CheckedComposite):
    """A part of the rows and columns of images ``(N, C, H, W)``; its size is ``h_w``, or that of a second input"""

    # COMPAT(mxnet): any dtype, not float32 only.
    VARIADIC = True
    NNVM_COUNT = "num_args"
    INPUT_DOCS: ClassVar = {"data": "the images, and perhaps an array with the size of the part"}
    offset: Axes = attribute((0, 0), "the first row and column")
    h_w: Axes = attribute((0, 0), "the number of rows and columns, if there is one input")
    num_args: int | None = attribute(None, "how many inputs there are; counted, so it need not be given")
    center_crop: bool = attribute(False, "whether the part is in the middle, and not at the offset")

    def check(self) -> None:
        for name in ("offset", "h_w"):
            value: Axes = getattr(self, name)
            if len(value) != 2 or min(value) < 0:
                raise AttributeValueError(f"Crop: {name} must be two numbers of at least 0, got {value}")

    def part(self, shapes: Sequence[Shape]) -> tuple[Axes, Axes]:
        """The first row and column, and how many there are."""
        data = shapes[0]
        if len(shapes) > 2:
            raise ShapeError(f"Crop: takes one or two inputs, got {len(shapes)}")
        for name, shape in zip(("data", "the second input"), shapes, strict=False):
            if len(shape) != 4:
                raise ShapeError(f"Crop: {name} must have shape (N, C, H, W), got {shape}")
        size = shapes[1][2:] if len(shapes) == 2 else self.h_w
        if -1 in (*data[2:], *size):
            return self.offset, size
        first = tuple((n - s) // 2 for n, s in zip(data[2:], size, strict=True)) if self.center_crop else self.offset
        if min(size) < 1 or any(f < 0 or f + s > n for f, s, n in zip(first, size, data[2:], strict=True)):
            raise ShapeError(f"Crop: a part of size {size} from {first} on is not in images of size {data[2:]}")
        return first, size

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        return shapes, [(*shapes[0][:2], *self.part(shapes)[1])]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        self.require_same_dtype(dtypes)
        return dtypes, [dtypes[0]]

    def decompose(self, F: Any, *inputs: Any) -> Any:
        (row, column), (rows, columns) = self.part([x.shape for x in inputs])
        part = F.slice_axis(inputs[0], axis=2, begin=row, end=row + rows)
        return F.slice_axis(part, axis=3, begin=column, end=column + columns)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, data, *others = values
        (row, column), (rows, columns) = self.part([x.shape for x in (data, *others[:-1])])
        ends: Any = {"begin": (0, 0, row, column), "end": (*data.shape[:2], row + rows, column + columns)}
        return (F.slice_scatter(dy, shape=data.shape, **ends), *[None] * (len(others) - 1))

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [
            Sample([(2, 3, 4, 5)], lambda x: x[:, :, 1:3, 2:5], h_w=(2, 3), offset=(1, 2)),
            Sample([(1, 1, 5, 5)], lambda x: x[:, :, 1:3, 1:4], h_w=(2, 3), center_crop=True, num_args=1),
            Sample([(1, 2, 4, 4), (1, 3, 2, 3)], lambda x, _: x[:, :, 1:3, :3], offset=(1, 0)),
            Sample([(0, 2, 4, 4), (2, 3, 4, 4)], lambda x, _: x, grad=False, num_args=2),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        return [
            (
                ((1, 1, 4, 4),),
                {"h_w": (5, 2)},
                "Crop: a part of size (5, 2) from (0, 0) on is not in images of size (4, 4)",
            ),
            (((1, 1, 4, 4),), {}, "Crop: a part of size (0, 0) from (0, 0) on is not in images of size (4, 4)"),
            (((4, 4),), {"h_w": (2, 2)}, "Crop: data must have shape (N, C, H, W), got (4, 4)"),
            (((1, 1, 4, 4),), {"h_w": 2}, "Crop: h_w must be two numbers of at least 0, got (2,)"),
        ]

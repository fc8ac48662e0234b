"""Regions of interest of feature maps, brought to one size: by the largest element of each bin, or by averages."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from hybridc.dialects.array.gather import in_single
from hybridc.dialects.operator import Bad, Opaque, Operator, Sample, attribute, register
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.dialects.vision.bilinear import axis_of, interpolate
from hybridc.dialects.vision.rules import CheckedComposite, always, require_float, require_shape
from hybridc.dtypes import wide
from hybridc.errors import AttributeValueError, IndexRangeError, ShapeError

INT64 = np.dtype("int64")

DATA_DOC = "feature maps (N, C, height, width)"
ROIS_DOC = "(R, 5): the index of an image, and left, top, right and bottom of a region in it"
SIZE_DOC = "rows and columns of the result"
SCALE_DOC = "the size of the feature map, divided by that of the image in which the regions are given"


class OfRegions(Operator):
    """What the operators on ``data`` and ``rois`` have in common."""

    INFERS_PARTLY = True
    pooled_size: Shape = (1, 1)
    spatial_scale: float = 1.0
    position_sensitive: bool = False

    def check(self) -> None:
        if len(self.pooled_size) != 2 or min(self.pooled_size) < 1:
            raise AttributeValueError(
                f"{self.title()}: pooled_size must be two sizes of at least 1, rows and columns, got {self.pooled_size}"
            )

    def pooled_shape(self, data: Shape, rois: Shape) -> Shape:
        """The shape of the result; raise if the inputs' are wrong."""
        require_shape(self.title(), "data", data, ("N", "C", "height", "width"))
        require_shape(self.title(), "rois", rois, ("R", 5))
        rows, columns = self.pooled_size
        channels = data[1]
        if self.position_sensitive:
            if channels != -1 and channels % (rows * columns):
                raise ShapeError(
                    f"{self.title()}: position_sensitive needs a number of channels that {rows} * {columns} bins "
                    f"divide, got data of shape {data}"
                )
            channels = channels // (rows * columns) if channels != -1 else -1
        if 0 in data[2:] and rois[0]:
            raise ShapeError(f"{self.title()}: the feature maps have no pixels: data has shape {data}")
        return (rois[0], channels, rows, columns)


def require_images(title: str, rois: Any, images: int) -> None:
    """Raise unless each region is of an image that exists, or of none, by a negative number."""
    # COMPAT(mxnet): there ROIPooling gives 0, and ROIAlign what lies in memory, or the process ends.
    wrong = np.flatnonzero(~(rois[:, 0] < images))
    if wrong.size:
        number, have = int(wrong[0]), f"{images} image{'s' * (images != 1)}"
        raise IndexRangeError(
            f"{title}: rois[{number}] is a region of image {float(rois[number, 0]):g}, but data has {have}; "
            f"the first column must be from 0 to {images - 1}, or -1 for no image"
        )


@register("hybrid.roi_pooling", "ROIPooling")
class RoiPooling(OfRegions, Opaque):
    """The largest element of each bin of each region; 0 for a bin outside of the feature map, or of the image -1

    Corners are rounded to whole pixels, both of which belong to the region.
    """

    INPUTS = ("data", "rois")
    INPUT_DOCS: ClassVar = {"data": DATA_DOC, "rois": ROIS_DOC}
    pooled_size: Shape = attribute(doc=SIZE_DOC)
    spatial_scale: float = attribute(doc=SCALE_DOC, low=0, high=1)

    def num_outputs(self) -> int:
        return 2  # the elements and, hidden, where in the data each is, or -1

    def num_visible_outputs(self) -> int:
        return 1

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        out = self.pooled_shape(*shapes)
        return [shapes[0], (shapes[1][0], 5)], [out, out]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        require_float(self, dtypes)
        return dtypes, [dtypes[0], INT64]

    def eager(self, *arrays: Any) -> Any:
        data, rois = arrays
        shape = self.infer_shape([data.shape, rois.shape])[1][0]
        dtypes = self.infer_type([data.dtype, rois.dtype])[1]
        out, index = np.zeros(shape, dtypes[0]), np.full(shape, -1)
        _, channels, height, width = data.shape
        require_images(self.title(), rois, len(data))
        for i, (image, *corners) in enumerate(rois.astype(wide(rois.dtype), copy=False)):
            if image <= -1:
                continue
            scaled = np.asarray(corners) * np.asarray(self.spatial_scale, np.float32)
            left, top, right, bottom = np.trunc(scaled + np.copysign(0.5, scaled)).astype(np.int64).tolist()
            rows, in_rows = _bins(top, bottom, self.pooled_size[0], height)
            columns, in_columns = _bins(left, right, self.pooled_size[1], width)
            # Every bin has as many rows and columns as the largest; those too many are masked.
            inside = in_rows[:, None, :, None] & in_columns[None, :, None, :]
            pixels = (rows[:, None, :, None] * width + columns[None, :, None, :]).reshape(*self.pooled_size, -1)
            window: Any = np.take(data[int(image)].reshape(channels, -1), pixels, 1)
            if not inside.all():
                window = np.where(inside.reshape(pixels.shape), window, -np.inf)
            found = np.argmax(window, -1)[..., None]
            some: Any = inside.any((2, 3))
            out[i] = np.where(some, np.take_along_axis(window, found, -1)[..., 0], 0)
            plane: Any = int(image) * channels + np.asarray(range(channels), INT64)[:, None, None]
            pixel: Any = np.take_along_axis(pixels[None], found, -1)[..., 0]
            index[i] = np.where(some, plane * (height * width) + pixel, -1)
        return out, index

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, data, _, _, index = values
        dy = F.where(index >= 0, dy, F.zeros_like(dy))

        def add(dy: Any) -> Any:
            flat = F.take_scatter(F.reshape_to(dy, shape=(size,)), index_, shape=(data_size,))
            return F.reshape_to(flat, shape=data.shape)

        size, data_size = math.prod(dy.shape), math.prod(data.shape)
        index_ = F.reshape_to(index, shape=(size,))
        return (in_single(F, dy, add) if size else F.zeros_like(data)), None

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        x = np.arange(48.0).reshape(1, 1, 8, 6)
        roi = np.array([[0.0, 0, 0, 4, 4]])
        known = always(np.array([[[[14, 16], [26, 28]]]]))
        smaller = always(np.array([[[[7, 9], [19, 21]]]]))
        regions = np.array([[0, 1, 0, 6, 3], [1, 2, 1, 2, 1], [1, 4, 4, 2, 2], [0, -3, -3, 1, 1], [0, 20, 20, 30, 30]])

        def reference(x: Any, rois: Any) -> Any:
            out = np.zeros((len(rois), x.shape[1], 2, 3))
            for r, c, i, j in np.ndindex(*out.shape):
                image, left, top, right, bottom = (int(v) for v in rois[r])
                h, w = max(bottom - top + 1, 1), max(right - left + 1, 1)
                rows = [v + top for v in range(h) if i * h / 2 < v + 1 and v < (i + 1) * h / 2]
                columns = [v + left for v in range(w) if j * w / 3 < v + 1 and v < (j + 1) * w / 3]
                inside = [(a, b) for a in rows for b in columns if 0 <= a < x.shape[2] and 0 <= b < x.shape[3]]
                out[r, c, i, j] = max((x[image, c, a, b] for a, b in inside), default=0)
            return out

        attrs: Any = {"pooled_size": (2, 3), "spatial_scale": 1}
        return [
            Sample(
                [x, roi],
                known,
                pooled_size=(2, 2),
                spatial_scale=1,
                grad=False,
                dtypes=("float32", "float64", "float16"),
            ),
            Sample([x, roi], smaller, pooled_size=(2, 2), spatial_scale=0.7, grad=False),
            Sample([(2, 3, 5, 7), regions.astype(float)], reference, **attrs),
            Sample([(2, 3, 1, 1), regions[:3].astype(float)], reference, **attrs),
            Sample([(2, 3, 5, 7), (0, 5)], always(np.zeros((0, 3, 2, 3))), grad=False, **attrs),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        size = "ROIPooling: pooled_size must be two sizes of at least 1, rows and columns, got (2,)"
        attrs: Any = {"pooled_size": (2, 2), "spatial_scale": 0.5}
        return [
            (((1, 3, 4, 4), (1, 5)), {**attrs, "pooled_size": 2}, size),
            (((1, 3, 4, 4), (1, 4)), attrs, "ROIPooling: rois must have shape (R, 5), got (1, 4)"),
            (((3, 4, 4), (1, 5)), attrs, "ROIPooling: data must have shape (N, C, height, width), got (3, 4, 4)"),
            (
                ((1, 3, 4, 4), (1, 5)),
                {**attrs, "spatial_scale": 2},
                "ROIPooling: attribute spatial_scale takes a number from 0 to 1, got 2.0",
            ),
        ]


def _bins(first: int, last: int, count: int, limit: int) -> tuple[Any, Any]:
    """The indices ``(count, n)`` in each of ``count`` bins from ``first`` to ``last``, and which of them are in range.

    The largest bin has n of them.
    """
    size = max(last - first + 1, 1)
    number = np.arange(count)
    begin, end = first + number * size // count, first - (-(number + 1) * size // count)
    begin, end = np.clip(begin, 0, limit), np.clip(end, 0, limit)
    index = begin[:, None] + np.arange(max(int((end - begin).max()), 1))
    return np.clip(index, 0, limit - 1), index < end[:, None]


# --- averages of interpolated samples ---------------------------------------------------------------------------------


class OfAlignedRegions(OfRegions):
    """Regions without rounding: a bin is the average of samples in a regular grid, by bilinear interpolation."""

    sample_ratio: int = -1
    aligned: bool = False

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        """All are floating-point, and equal."""
        require_float(self, dtypes)
        return dtypes, [dtypes[0]]

    def least_side(self) -> float:
        """The smallest width and height of a region."""
        # COMPAT(mxnet): with aligned, MXNet ends the process where a side is not greater than 0.
        return 0.0 if self.aligned else 1.0


@register("hybrid.roi_align", "contrib.ROIAlign", "_contrib_ROIAlign")
class RoiAlign(OfAlignedRegions, CheckedComposite):
    """The average of each bin of each region, by bilinear interpolation at points of a grid in the bin

    Those of the image -1 give 0, as do, compiled with a ``sample_ratio``, those of images that do not exist; else these
    are an error. No gradient flows to the regions.
    """

    INPUTS = ("data", "rois")
    INPUT_DOCS: ClassVar = {"data": DATA_DOC, "rois": ROIS_DOC}
    pooled_size: Shape = attribute(doc=SIZE_DOC)
    spatial_scale: float = attribute(doc=SCALE_DOC)
    sample_ratio: int = attribute(-1, "points along each side of a bin; -1 for one in each pixel, which the host finds")
    position_sensitive: bool = attribute(False, "whether each bin reads channels of its own")
    aligned: bool = attribute(False, "whether the centre of the first pixel is at 0.5, not at 0")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        return [shapes[0], (shapes[1][0], 5)], [self.pooled_shape(*shapes)]

    def eager(self, *arrays: Any) -> Any:
        data, rois = arrays
        self.pooled_shape(data.shape, rois.shape)
        require_images(self.title(), rois, len(data))
        return super().eager(data, rois)

    def decompose(self, F: Any, *inputs: Any) -> Any:
        data, rois = inputs
        out = self.pooled_shape(data.shape, rois.shape)
        if self.sample_ratio <= 0:
            attrs = {name: value for name, value in self.attrs.items() if name != "sample_ratio"}
            return F._adaptive_roi_align(data, rois, **attrs)
        # COMPAT(mxnet): for the i-th region, of the image -1, MXNet's CPU sets element i of all to 0, not its bins.
        images, channels, height, width = data.shape
        count, _, rows, columns = out
        if not count or not images:
            return F.zeros(shape=out, dtype=data.dtype)
        dtype = np.dtype(data.dtype)
        rois = F.BlockGrad(F.cast(rois, wide(dtype)))
        image, left, top, right, bottom = (F.slice_axis(rois, axis=1, begin=i, end=i + 1) for i in range(5))
        image = F.trunc(image)
        y, valid_y = self._points(F, top, bottom, rows, height)
        x, valid_x = self._points(F, left, right, columns, width)
        ny, nx = rows * self.sample_ratio, columns * self.sample_ratio
        y, valid_y = (F.reshape_to(v, shape=(count, ny, 1)) for v in (y, valid_y))
        x, valid_x = (F.reshape_to(v, shape=(count, 1, nx)) for v in (x, valid_x))
        valid = valid_y * valid_x * F.reshape_to((image >= 0) * (image <= images - 1), shape=(count, 1, 1))
        groups = rows * columns if self.position_sensitive else 1
        split = F.reshape_to(data, shape=(images, channels // groups, groups, height, width))
        split = F.transpose(split, axes=(0, 3, 4, 2, 1))
        split = F.reshape_to(split, shape=(images * height * width * groups, channels // groups))
        first = F.reshape_to(F.cast(F.clip(image, 0, images - 1), "int64"), shape=(count, 1, 1)) * height
        zero = F.zeros_like(y + x)
        group: Any = 0
        if groups > 1:
            row, column = (axis_of(F, n, s, "float64") for n, s in ((ny, (1, ny, 1)), (nx, (1, 1, nx))))
            group = F.floor(row / self.sample_ratio) * columns + F.floor(column / self.sample_ratio)
            group = F.cast(group, "int64")

        def place(row: Any, column: Any) -> Any:
            return ((first + row) * width + column) * groups + group

        found = interpolate(F, split, place, y + zero, x + zero, (height, width))
        found = found * F.reshape_to(valid, shape=(count, ny, nx, 1))
        shape = (count, rows, self.sample_ratio, columns, self.sample_ratio, channels // groups)
        found = F.mean(F.reshape_to(found, shape=shape), axis=(2, 4))
        return F.transpose(F.cast(found, dtype), axes=(0, 3, 1, 2))

    def _points(self, F: Any, low: Any, high: Any, bins: int, limit: int) -> tuple[Any, Any]:
        """The points ``(R, bins * sample_ratio)`` along an axis, and 1 for each that counts, else 0."""
        shift = 0.5 if self.aligned else 0.0
        low, high = low * self.spatial_scale - shift, high * self.spatial_scale - shift
        step = F.maximum(high - low, self.least_side()) / (bins * self.sample_ratio)
        number = bins * self.sample_ratio
        at = low + step * (axis_of(F, number, (1, number), low.dtype) + 0.5)
        return F.clip(at, 0, limit - 1), (at >= -1) * (at <= limit)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [
            Sample(inputs, aligned_reference(**attrs), grad=grad, dtypes=dtypes, **attrs)
            for sample_ratio in (2, -1)
            for inputs, attrs, grad, dtypes in _aligned_samples(sample_ratio)
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        attrs: Any = {"pooled_size": (2, 2), "spatial_scale": 0.5}
        divide = "ROIAlign: position_sensitive needs a number of channels that 2 * 2 bins divide, got data of shape"
        return [
            (((1, 3, 4, 4), (1, 4)), attrs, "ROIAlign: rois must have shape (R, 5), got (1, 4)"),
            (((1, 3, 4, 4), (1, 5)), {**attrs, "position_sensitive": True}, f"{divide} (1, 3, 4, 4)"),
            (
                ((1, 3, 4, 4), (1, 5)),
                {**attrs, "pooled_size": (0, 2)},
                "ROIAlign: pooled_size must be two sizes of at least 1, rows and columns, got (0, 2)",
            ),
        ]


class _Adaptive(OfAlignedRegions, Opaque):
    """As many points in each bin as it has pixels: the host finds the weight of each pixel in each bin."""

    INPUTS = ("data", "rois")
    pooled_size: Shape = attribute(doc=SIZE_DOC)
    spatial_scale: float = attribute(doc=SCALE_DOC)
    position_sensitive: bool = attribute(False, "whether each bin reads channels of its own")
    aligned: bool = attribute(False, "whether the centre of the first pixel is at 0.5, not at 0")

    def regions(self, rois: Any, size: Shape) -> Iterator[tuple[int, int, Any, Any, Any, Any]]:
        """Of each region in an image: its number, the image, slices of rows and columns, and the weights of these."""
        images, height, width = size
        require_images(self.title(), rois, images)
        shift = 0.5 if self.aligned else 0.0
        for i, (image, *corners) in enumerate(rois.astype(wide(rois.dtype), copy=False)):
            if image <= -1:
                continue
            left, top, right, bottom = np.asarray(corners) * np.asarray(self.spatial_scale, rois.dtype) - shift
            rows, weight_y = self._weights(top, bottom, self.pooled_size[0], height)
            columns, weight_x = self._weights(left, right, self.pooled_size[1], width)
            yield i, int(image), rows, columns, weight_y, weight_x

    def _weights(self, low: Any, high: Any, bins: int, limit: int) -> tuple[slice, Any]:
        """A slice of pixels along an axis, and the weight ``(bins, pixels)`` that each has in each bin."""
        side = max(high - low, low.dtype.type(self.least_side()))
        points = max(int(np.ceil(side / bins)), 1)
        at = low + side / (bins * points) * (np.arange(bins * points, dtype=low.dtype) + low.dtype.type(0.5))
        valid = (at >= -1) & (at <= limit)
        at = np.clip(at, 0, limit - 1)
        first = np.floor(at).astype(np.int64)
        second = np.minimum(first + 1, limit - 1)
        begin, end = int(first.min()), int(second.max()) + 1
        weights = np.zeros((bins, end - begin), low.dtype)
        which = np.repeat(np.arange(bins), points)
        for index, weight in ((first, 1 - (at - first)), (second, at - first)):
            np.add.at(weights, (which, index - begin), weight * valid / points)
        return slice(begin, end), weights


@register("hybrid._adaptive_roi_align")
class AdaptiveRoiAlign(_Adaptive):
    """``contrib.ROIAlign`` with as many points in each bin as it has pixels"""

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        return [shapes[0], (shapes[1][0], 5)], [self.pooled_shape(*shapes)]

    def eager(self, *arrays: Any) -> Any:
        data, rois = arrays
        (shape,) = self.infer_shape([data.shape, rois.shape])[1]
        (dtype,) = self.infer_type([data.dtype, rois.dtype])[1]
        out = np.zeros(shape, wide(dtype))
        split = (shape[1], *self.pooled_size)
        for i, image, rows, columns, weight_y, weight_x in self.regions(rois, (len(data), *data.shape[2:])):
            part = data[image, :, rows, columns].astype(out.dtype, copy=False)
            if self.position_sensitive:
                part = part.reshape(*split, *part.shape[1:])
                out[i] = np.einsum("pr,cpqrs,qs->cpq", weight_y, part, weight_x, optimize=True)
            else:
                out[i] = weight_y @ (part @ weight_x.T)
        return out.astype(dtype, copy=False)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, data, rois, _ = values
        return F._adaptive_roi_align_scatter(dy, rois, shape=data.shape, **self.attrs), None

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        found: list[Sample] = []
        for inputs, attrs, grad, dtypes in _aligned_samples(-1):
            reference = aligned_reference(**attrs)
            del attrs["sample_ratio"]
            found.append(Sample(inputs, reference, grad=grad, dtypes=dtypes, **attrs))
        return found


@register("hybrid._adaptive_roi_align_scatter")
class AdaptiveRoiAlignScatter(_Adaptive):
    """The gradient of ``_adaptive_roi_align``: each bin's, distributed to the pixels that it averages"""

    shape: Shape = attribute(doc="shape of the feature maps")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        data, rois = shapes
        require_shape(self.title(), "data", data, self.pooled_shape(self.shape, rois))
        return [data, (rois[0], 5)], [self.shape]

    def eager(self, *arrays: Any) -> Any:
        data, rois = arrays
        self.infer_shape([data.shape, rois.shape])
        (dtype,) = self.infer_type([data.dtype, rois.dtype])[1]
        images, channels, height, width = self.shape
        out = np.zeros(self.shape, wide(dtype))
        for i, image, rows, columns, weight_y, weight_x in self.regions(rois, (images, height, width)):
            part = data[i].astype(out.dtype, copy=False)
            if self.position_sensitive:
                spread = np.einsum("pr,cpq,qs->cpqrs", weight_y, part, weight_x, optimize=True)
                out[image, :, rows, columns] += spread.reshape(channels, *spread.shape[3:])
            else:
                out[image, :, rows, columns] += weight_y.T @ (part @ weight_x)
        return out.astype(dtype, copy=False)

    def gradient(self, F: Any, *values: Any) -> Any:
        ddx, _, rois, _ = values
        attrs = {name: value for name, value in self.attrs.items() if name != "shape"}
        return F._adaptive_roi_align(ddx, rois, **attrs), None

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        rois = np.array([[0.0, 1, 1, 2, 2]])
        out = np.zeros((1, 1, 4, 4))
        out[0, 0, 1:3, 1:3] = 0.25

        def reference(dy: Any, _: Any) -> Any:
            return dy.reshape(1, 1, 1, 1) * out

        return [Sample([(1, 1, 1, 1), rois], reference, shape=(1, 1, 4, 4), pooled_size=(1, 1), spatial_scale=1)]


def aligned_reference(
    pooled_size: Shape,
    spatial_scale: float,
    sample_ratio: int,
    position_sensitive: bool = False,
    aligned: bool = False,
) -> Any:
    """The reference of samples: bin by bin and point by point."""

    def pixel(plane: Any, y: float, x: float) -> float:
        h, w = plane.shape
        if not (-1 <= y <= h and -1 <= x <= w):
            return 0.0
        y, x = min(max(y, 0), h - 1), min(max(x, 0), w - 1)
        near = [(i, j) for i in (int(y), int(y) + 1) for j in (int(x), int(x) + 1) if i < h and j < w]
        return sum(plane[i, j] * (1 - abs(y - i)) * (1 - abs(x - j)) for i, j in near)

    def reference(data: Any, rois: Any) -> Any:
        rows, columns = pooled_size
        groups = rows * columns if position_sensitive else 1
        out = np.zeros((len(rois), data.shape[1] // groups, rows, columns))
        for r, c, i, j in np.ndindex(*out.shape):
            image = int(rois[r, 0])
            left, top, right, bottom = rois[r, 1:] * spatial_scale - (0.5 if aligned else 0)
            least = 0 if aligned else 1
            h, w = max(bottom - top, least) / rows, max(right - left, least) / columns
            ny, nx = (sample_ratio if sample_ratio > 0 else int(np.ceil(v)) for v in (h, w))
            if not 0 <= image < len(data):
                continue
            plane = data[image, c * groups + (i * columns + j if groups > 1 else 0)]
            points = [(top + h * (i + (a + 0.5) / ny), left + w * (j + (b + 0.5) / nx)) for a, b in np.ndindex(ny, nx)]
            out[r, c, i, j] = sum(pixel(plane, y, x) for y, x in points) / len(points)
        return out

    return reference


def _aligned_samples(sample_ratio: int) -> Iterator[tuple[list[Any], dict[str, Any], bool, tuple[str, ...]]]:
    """Inputs, attributes, whether there is a gradient, and dtypes."""
    rois = np.array(
        [[0, 6, 2, 25, 16], [1, 8, 4, 8, 4], [-1, 0, 0, 12, 12], [0, -24, -12, 6, 5], [1, 80, 8, 120, 16]], float
    )
    inside = np.array([[1, 2, 4, 44, 36], [0, 12, 8, 28, 14]], float)
    plain = ("float32", "float64")
    attrs: Any = {"pooled_size": (2, 3), "spatial_scale": 0.25, "sample_ratio": sample_ratio}
    yield [(2, 2, 5, 7), rois], {**attrs}, True, (*plain, "float16")
    yield [(2, 2, 5, 7), inside], {**attrs, "spatial_scale": 0.125, "aligned": True}, True, plain
    yield [(2, 12, 5, 7), rois], {**attrs, "position_sensitive": True}, True, plain
    yield [(2, 2, 1, 1), rois], {**attrs}, True, plain
    yield [(2, 2, 5, 7), (0, 5)], {**attrs}, False, plain

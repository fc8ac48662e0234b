"""Regions of feature maps pooled in other ways: each bin from channels of its own, and rotated regions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from hybridc.dialects.operator import Bad, Opaque, Sample, attribute, register
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.dialects.vision.bilinear import axis_of, interpolate
from hybridc.dialects.vision.roi import DATA_DOC, ROIS_DOC, SCALE_DOC, SIZE_DOC, require_images
from hybridc.dialects.vision.rules import CheckedComposite, always, require_float, require_shape
from hybridc.dtypes import wide
from hybridc.errors import AttributeValueError, ShapeError

# --- averages, of channels of each bin's own --------------------------------------------------------------------------


class _PositionSensitive(Opaque):
    """Bins ``pooled_size`` x ``pooled_size``, whose channels belong to cells of ``group_size`` x ``group_size``."""

    INFERS_PARTLY = True
    INPUTS = ("data", "rois")

    spatial_scale: float = attribute(doc=SCALE_DOC, low=0, high=1)
    output_dim: int = attribute(doc="channels of the result", low=1)
    pooled_size: int = attribute(doc="rows, and columns, of the result", low=1)
    group_size: int = attribute(0, "rows, and columns, of cells with channels of their own; pooled_size by default")

    def check(self) -> None:
        if self.group_size < 0:
            raise AttributeValueError(f"{self.title()}: group_size must be at least 0, got {self.group_size}")
        self.cells: int = self.group_size or self.pooled_size
        # The cell of each bin, and with it its channels (output_dim, bins, bins).
        cell = np.arange(self.pooled_size) * self.cells // self.pooled_size
        first = np.arange(self.output_dim)[:, None, None] * self.cells
        self.channels: Any = (first + cell[:, None]) * self.cells + cell

    def result(self, data: Shape, rois: Shape) -> Shape:
        """The shape of the result; raise if the inputs' are wrong."""
        wanted = self.output_dim * self.cells**2
        require_shape(self.title(), "data", data, ("N", "C", "height", "width"))
        if data[1] not in (wanted, -1):
            raise ShapeError(
                f"{self.title()}: data must have {wanted} channels, output_dim={self.output_dim} for each of "
                f"{self.cells} x {self.cells} cells, got data of shape {data}"
            )
        require_shape(self.title(), "rois", rois, ("R", 5))
        return (rois[0], self.output_dim, self.pooled_size, self.pooled_size)

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        """All are floating-point, and equal."""
        require_float(self, dtypes)
        return dtypes, [dtypes[0]]

    def regions(self, rois: Any, size: Shape) -> Iterator[tuple[int, int, Any, Any]]:
        """Of each region in an image: its number, the image, and the weights (bins, pixels) of rows and of columns."""
        images, height, width = size
        require_images(self.title(), rois, images)
        for i, (image, *corners) in enumerate(rois.astype(wide(rois.dtype), copy=False)):
            if image <= -1:
                continue
            left, top, right, bottom = np.trunc(np.asarray(corners) + np.copysign(0.5, corners).astype(rois.dtype))
            yield i, int(image), self._weights(top, bottom, height), self._weights(left, right, width)

    def _weights(self, first: Any, last: Any, limit: int) -> Any:
        """The weight ``(bins, limit)`` that each pixel of an axis has in each bin: all in a bin have the same one."""
        kind = np.float64 if first.dtype == np.float64 else np.float32
        low, high = first * kind(self.spatial_scale), (last + kind(1)) * kind(self.spatial_scale)
        step = max(high - low, kind(0.1)) / kind(self.pooled_size)
        number: Any = np.arange(self.pooled_size).astype(kind)
        begin = np.clip(np.floor(number * step + low), 0, limit)[:, None]
        end = np.clip(np.ceil((number + kind(1)) * step + low), 0, limit)[:, None]
        pixel = np.arange(limit)
        return ((pixel >= begin) & (pixel < end)) / np.maximum(end - begin, 1)


@register("hybrid.psroi_pooling", "contrib.PSROIPooling", "_contrib_PSROIPooling")
class PsRoiPooling(_PositionSensitive):
    """The average of each bin of each region, of channels that belong to the bin's place; 0 for an empty bin

    Channel ``d`` of the result has in the bin ``(i, j)`` the average of channel
    ``(d * group_size + i) * group_size + j`` of the data (with as many cells as bins). Regions of the image -1 give 0.

    Examples
    --------
    >>> x = mx.nd.arange(16).reshape((1, 4, 2, 2))  # a channel for each of 2 x 2 bins
    >>> regions = mx.nd.array([[0, 0, 0, 1, 1]])
    >>> y = mx.nd.contrib.PSROIPooling(x, regions, spatial_scale=1, output_dim=1, pooled_size=2)
    >>> print(y.asnumpy())
    [[[[ 0.  5.]
       [10. 15.]]]]
    """

    INPUT_DOCS: ClassVar = {"data": DATA_DOC, "rois": ROIS_DOC}

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        return [shapes[0], (shapes[1][0], 5)], [self.result(*shapes)]

    def eager(self, *arrays: Any) -> Any:
        data, rois = arrays
        (dtype,) = self.infer_type([data.dtype, rois.dtype])[1]
        out = np.zeros(self.result(data.shape, rois.shape), wide(dtype))
        for i, image, rows, columns in self.regions(rois, (len(data), *data.shape[2:])):
            part = data[image, self.channels].astype(out.dtype, copy=False)
            out[i] = np.einsum("pr,cpqrs,qs->cpq", rows, part, columns, optimize=True)
        return out.astype(dtype, copy=False)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, data, rois, _ = values
        return F._psroi_pooling_scatter(dy, rois, shape=data.shape, **self.attrs), None

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        rois = np.array([[0, 0, 0, 10, 9], [1, 2, 1, 12, 8], [-1, 0, 0, 4, 4], [1, 20, 20, 30, 30.0]])

        def reference(x: Any, rois: Any, bins: int, cells: int) -> Any:
            out = np.zeros((len(rois), 2, bins, bins))
            for r, d, i, j in np.ndindex(*out.shape):
                image, left, top, right, bottom = rois[r]
                low, high = np.array([top, left]) * 0.5, (np.array([bottom, right]) + 1) * 0.5
                step = np.maximum(high - low, 0.1) / bins
                begin, end = np.floor(low + step * [i, j]), np.ceil(low + step * [i + 1, j + 1])
                (a, c), (b, e) = (np.clip(v, 0, x.shape[2:]).astype(int) for v in (begin, end))
                channel = (d * cells + i * cells // bins) * cells + j * cells // bins
                part = x[int(image), channel, a:b, c:e]
                out[r, d, i, j] = part.mean() if part.size and image >= 0 else 0
            return out

        attrs: Any = {"spatial_scale": 0.5, "output_dim": 2}
        return [
            Sample([(2, 8, 6, 7), rois], lambda x, r: reference(x, r, 2, 2), pooled_size=2, **attrs),
            Sample([(2, 8, 6, 7), rois], lambda x, r: reference(x, r, 3, 2), pooled_size=3, group_size=2, **attrs),
            Sample([(2, 8, 6, 7), (0, 5)], always(np.zeros((0, 2, 2, 2))), grad=False, pooled_size=2, **attrs),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        attrs: Any = {"spatial_scale": 0.5, "output_dim": 2, "pooled_size": 2}
        channels = "PSROIPooling: data must have 8 channels, output_dim=2 for each of 2 x 2 cells, got data of shape"
        return [
            (((1, 6, 4, 4), (1, 5)), attrs, f"{channels} (1, 6, 4, 4)"),
            (((1, 8, 4, 4), (1, 4)), attrs, "PSROIPooling: rois must have shape (R, 5), got (1, 4)"),
            (((1, 8, 4, 4), (1, 5)), {**attrs, "group_size": -1},
             "PSROIPooling: group_size must be at least 0, got -1"),
        ]  # fmt: skip


@register("hybrid._psroi_pooling_scatter")
class PsRoiPoolingScatter(_PositionSensitive):
    """The gradient of ``contrib.PSROIPooling``: each bin's, in equal parts for the pixels that it averages"""

    shape: Shape = attribute(doc="shape of the feature maps")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        data, rois = shapes
        require_shape(self.title(), "data", data, self.result(self.shape, rois))
        return [data, (rois[0], 5)], [self.shape]

    def eager(self, *arrays: Any) -> Any:
        data, rois = arrays
        self.infer_shape([data.shape, rois.shape])
        (dtype,) = self.infer_type([data.dtype, rois.dtype])[1]
        out = np.zeros(self.shape, wide(dtype))
        for i, image, rows, columns in self.regions(rois, (self.shape[0], *self.shape[2:])):
            spread = np.einsum("pr,cpq,qs->cpqrs", rows, data[i].astype(out.dtype, copy=False), columns, optimize=True)
            np.add.at(out[image], self.channels, spread)
        return out.astype(dtype, copy=False)

    def gradient(self, F: Any, *values: Any) -> Any:
        ddx, _, rois, _ = values
        attrs = {name: value for name, value in self.attrs.items() if name != "shape"}
        return F._contrib_PSROIPooling(ddx, rois, **attrs), None

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        rois = np.array([[0.0, 1, 1, 2, 2]])
        out = np.zeros((1, 1, 4, 4))
        out[0, 0, 1:3, 1:3] = 0.25

        def reference(dy: Any, _: Any) -> Any:
            return dy.reshape(1, 1, 1, 1) * out

        return [
            Sample([(1, 1, 1, 1), rois], reference, shape=(1, 1, 4, 4), pooled_size=1, output_dim=1, spatial_scale=1)
        ]


# --- bins that move ---------------------------------------------------------------------------------------------------


@register("hybrid.deformable_psroi_pooling", "contrib.DeformablePSROIPooling", "_contrib_DeformablePSROIPooling")
class DeformablePsRoiPooling(CheckedComposite):
    """The average of points of each bin of each region, moved by ``trans``, of channels of the bin's place

    Points are ``sample_per_part`` along each side of a bin, by bilinear interpolation; those outside of the feature map
    do not count. No gradient flows to the regions.

    Examples
    --------
    >>> x = mx.nd.arange(16).reshape((1, 4, 2, 2))  # a channel for each of 2 x 2 bins
    >>> regions = mx.nd.array([[0, 0, 0, 1, 1]])
    >>> y = mx.nd.contrib.DeformablePSROIPooling(
    ...     x, regions, spatial_scale=1, output_dim=1, group_size=2, pooled_size=2, no_trans=True
    ... )
    >>> print(y[0].asnumpy())
    [[[ 0.   4.5]
      [ 9.  13.5]]]
    """

    INFERS_PARTLY = True
    INPUTS = ("data", "rois", "trans")
    INPUT_DOCS: ClassVar = {
        "data": DATA_DOC,
        "rois": ROIS_DOC,
        "trans": "(R, 2 * classes, part_size, part_size): x and y by which a part moves, in sides of its region",
    }
    OPTIONAL = 1

    spatial_scale: float = attribute(doc=SCALE_DOC, low=0, high=1)
    output_dim: int = attribute(doc="channels of the result", low=1)
    group_size: int = attribute(doc="rows, and columns, of cells with channels of their own", low=1)
    pooled_size: int = attribute(doc="rows, and columns, of the result", low=1)
    part_size: int = attribute(0, "rows, and columns, of parts that move; pooled_size by default", low=0)
    sample_per_part: int = attribute(1, "points along each side of a bin", low=1)
    trans_std: float = attribute(0.0, "factor of trans", low=0, high=1)
    no_trans: bool = attribute(False, "leave trans out")

    def input_names(self) -> tuple[str, ...]:
        return self.INPUTS[:2] if self.no_trans else self.INPUTS

    def nnvm_outputs(self) -> int:
        """There, how many points count is a hidden output."""
        return 2

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        data, rois, *trans = shapes
        channels, parts, bins = (
            self.output_dim * self.group_size**2,
            self.part_size or self.pooled_size,
            self.pooled_size,
        )
        require_shape(self.title(), "data", data, ("N", channels, "height", "width"))
        require_shape(self.title(), "rois", rois, ("R", 5))
        for shape in trans:
            require_shape(self.title(), "trans", shape, (rois[0], "2 * classes", parts, parts))
            if shape[1] != -1 and (shape[1] % 2 or not shape[1] or self.output_dim % (shape[1] // 2)):
                raise ShapeError(
                    f"{self.title()}: trans must have 2 channels for each class, and output_dim={self.output_dim} be a "
                    f"multiple of the classes, got trans of shape {shape}"
                )
        return [data, (rois[0], 5), *trans], [(rois[0], self.output_dim, bins, bins)]

    def eager(self, *arrays: Any) -> Any:
        self.infer_shape([x.shape for x in arrays])
        require_images(self.title(), arrays[1], len(arrays[0]))
        return super().eager(*arrays)

    def decompose(self, F: Any, *inputs: Any) -> Any:
        data, rois, *trans = inputs
        (out,) = self.infer_shape([x.shape for x in inputs])[1]
        images, _, height, width = data.shape
        count, bins, points, cells = rois.shape[0], self.pooled_size, self.sample_per_part, self.group_size
        if not count or not images:
            return F.zeros(shape=out, dtype=data.dtype)
        dtype = np.dtype(data.dtype)
        classes = trans[0].shape[1] // 2 if trans else 1
        each = self.output_dim // classes
        along = (count, classes, bins, bins, points, points)
        rois = F.BlockGrad(F.cast(rois, wide(dtype)))
        image, left, top, right, bottom = (
            F.reshape_to(F.slice_axis(rois, axis=1, begin=i, end=i + 1), shape=(count, *[1] * 5)) for i in range(5)
        )
        image = F.trunc(image)
        moves: list[Any] = [0, 0]
        if trans:
            parts = self.part_size or bins
            part = (np.arange(bins) * parts // bins).tolist()
            moved = F.reshape_to(F.cast(trans[0], wide(dtype)), shape=(count, classes, 2, parts, parts))
            for axis in (3, 4):
                cut = [F.slice_axis(moved, axis=axis, begin=i, end=i + 1) for i in part]
                moved = F.concat(*cut, dim=axis) if len(cut) > 1 else cut[0]
            moves = [
                F.reshape_to(F.slice_axis(moved, axis=2, begin=i, end=i + 1), shape=(*along[:4], 1, 1)) * self.trans_std
                for i in (0, 1)
            ]
        x, inside_x = self._positions(F, left, right, moves[0], 3, width)
        y, inside_y = self._positions(F, top, bottom, moves[1], 2, height)
        zero = F.zeros_like(x + y)
        valid = F.cast(inside_x * inside_y, wide(dtype)) + zero
        split = F.reshape_to(data, shape=(images, classes, each, cells, cells, height, width))
        split = F.transpose(split, axes=(0, 1, 3, 4, 5, 6, 2))
        split = F.reshape_to(split, shape=(images * classes * cells**2 * height * width, each))

        def number(size: int, axis: int) -> Any:
            return axis_of(F, size, tuple(size if a == axis else 1 for a in range(6)), "float64")

        row, column = (F.floor(number(bins, axis) * cells / bins) for axis in (2, 3))
        first = F.clip(F.cast(image, "float64"), 0, images - 1) * classes + number(classes, 1)
        first = F.cast((first * cells + row) * cells + column, "int64") * height

        def place(row: Any, column: Any) -> Any:
            return (first + row) * width + column

        found = interpolate(F, split, place, y + zero, x + zero, (height, width))
        found = found * F.reshape_to(valid * (image >= 0), shape=(*along, 1))
        total = F.sum(F.reshape_to(found, shape=(*along[:4], points**2, each)), axis=4)
        counted = F.sum(F.reshape_to(valid, shape=(*along[:4], points**2)), axis=4, keepdims=True)
        found = total / F.maximum(counted, 1)
        found = F.reshape_to(F.transpose(found, axes=(0, 1, 4, 2, 3)), shape=out)
        return F.cast(found, dtype)

    def _positions(self, F: Any, first: Any, last: Any, move: Any, axis: int, limit: int) -> tuple[Any, Any]:
        """The points along an axis of the image, which is that of bins, and whether each counts."""
        bins, points = self.pooled_size, self.sample_per_part
        low, high = (F.trunc(v + F.sign(v) * 0.5) for v in (first, last))
        low, high = low * self.spatial_scale - 0.5, (high + 1) * self.spatial_scale - 0.5
        side = F.maximum(high - low, 0.1)
        bin_ = axis_of(F, bins, tuple(bins if a == axis else 1 for a in range(6)), low.dtype)
        point = axis_of(F, points, tuple(points if a == axis + 2 else 1 for a in range(6)), low.dtype)
        at = (bin_ * (side / bins) + low + move * side) + point * (side / bins / points)
        return F.clip(at, 0, limit - 1), (at >= -0.5) * (at <= limit - 0.5)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        rois = np.array([[0, 1, 0, 10, 9], [1, 2, 1, 12, 8], [-1, 0, 0, 4, 4], [1, 20, 20, 30, 30.0]])
        trans = np.linspace(-1.1, 1.3, 4 * 2 * 9).reshape(4, 2, 3, 3)

        def reference(x: Any, rois: Any, trans: Any = None) -> Any:
            out = np.zeros((len(rois), 2, 3, 3))
            for r, d, i, j in np.ndindex(*out.shape):
                image, left, top, right, bottom = rois[r]
                low = np.array([top, left]) * 0.5 - 0.5
                side = np.maximum((np.array([bottom, right]) + 1) * 0.5 - 0.5 - low, 0.1)
                moved = np.zeros(2) if trans is None else trans[r, ::-1, i, j] * 0.1
                plane = x[int(image), (d * 2 + i * 2 // 3) * 2 + j * 2 // 3]
                found: list[Any] = []
                for point in np.ndindex(2, 2):
                    at = side / 3 * [i, j] + low + moved * side + np.array(point) * side / 6
                    if (at >= -0.5).all() and (at <= np.array(plane.shape) - 0.5).all():
                        found.append(
                            _interpolated(plane[None], *np.clip(at, 0, np.array(plane.shape) - 1)[:, None])[0, 0]
                        )
                out[r, d, i, j] = np.mean(found) if found and image >= 0 else 0
            return out

        attrs: Any = {"spatial_scale": 0.5, "output_dim": 2, "group_size": 2, "pooled_size": 3, "sample_per_part": 2}
        return [
            Sample([(2, 8, 6, 7), rois, trans], reference, trans_std=0.1, dtypes=("float32", "float64"), **attrs),
            Sample([(2, 8, 6, 7), rois], reference, no_trans=True, dtypes=("float32", "float64"), **attrs),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        attrs: Any = {"spatial_scale": 0.5, "output_dim": 2, "group_size": 2, "pooled_size": 2}
        title = "DeformablePSROIPooling"
        return [
            (((1, 6, 4, 4), (1, 5), (1, 2, 2, 2)), attrs,
             f"{title}: data must have shape (N, 8, height, width), got (1, 6, 4, 4)"),
            (((1, 8, 4, 4), (1, 5), (1, 3, 2, 2)), attrs,
             f"{title}: trans must have 2 channels for each class, and output_dim=2 be a multiple of the classes, got "
             "trans of shape (1, 3, 2, 2)"),
        ]  # fmt: skip


# --- rotated regions --------------------------------------------------------------------------------------------------


@register("hybrid.rroi_align", "contrib.RROIAlign", "_contrib_RROIAlign")
class RotatedRoiAlign(Opaque):
    """The average of each bin of each rotated region, by bilinear interpolation at points of a grid in the bin

    As in MXNet, it has no gradient. Regions of the image -1 give 0.
    """

    INFERS_PARTLY = True
    INPUTS = ("data", "rois")
    INPUT_DOCS: ClassVar = {
        "data": DATA_DOC,
        "rois": "(R, 6): the index of an image, and of a region in it the centre x, y, width, height and degrees",
    }
    pooled_size: Shape = attribute(doc=SIZE_DOC)
    spatial_scale: float = attribute(doc=SCALE_DOC)
    sampling_ratio: int = attribute(-1, "points along each side of a bin; -1 for one in each pixel")

    def check(self) -> None:
        if len(self.pooled_size) != 2 or min(self.pooled_size) < 1:
            raise AttributeValueError(
                f"{self.title()}: pooled_size must be two sizes of at least 1, rows and columns, got {self.pooled_size}"
            )

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        data, rois = shapes
        require_shape(self.title(), "data", data, ("N", "C", "height", "width"))
        require_shape(self.title(), "rois", rois, ("R", 6))
        return [data, (rois[0], 6)], [(rois[0], data[1], *self.pooled_size)]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        require_float(self, dtypes)
        return dtypes, [dtypes[0]]

    def eager(self, *arrays: Any) -> Any:
        data, rois = arrays
        (shape,) = self.infer_shape([data.shape, rois.shape])[1]
        (dtype,) = self.infer_type([data.dtype, rois.dtype])[1]
        out = np.zeros(shape, wide(dtype))
        require_images(self.title(), rois, len(data))
        for i, (image, *where) in enumerate(rois.astype(out.dtype, copy=False)):
            if image > -1:
                points = self._points(*where)
                number = points.shape[3] * points.shape[4]
                found = _interpolated(data[int(image)].astype(out.dtype, copy=False), *points)
                out[i] = found.sum((3, 4)) / number
        return out.astype(dtype, copy=False)

    def _points(self, x: Any, y: Any, width: Any, height: Any, degrees: Any) -> Any:
        """The points of a region ``(y or x, rows, columns, points, points)`` of the bins."""
        scale = type(x)(self.spatial_scale)
        rows, columns = self.pooled_size
        high, wide_ = max(height * scale, type(x)(1)), max(width * scale, type(x)(1))
        ny, nx = (
            self.sampling_ratio if self.sampling_ratio > 0 else math.ceil(side / bins)
            for side, bins in ((high, rows), (wide_, columns))
        )
        up = ((np.arange(rows * ny) + 0.5) / (rows * ny) - 0.5).reshape(rows, 1, ny, 1) * high
        along = ((np.arange(columns * nx) + 0.5) / (columns * nx) - 0.5).reshape(1, columns, 1, nx) * wide_
        turned = degrees * (math.pi / 180)
        sine, cosine = np.sin(turned), np.cos(turned)
        return np.stack([up * cosine - along * sine + y * scale, along * cosine + up * sine + x * scale])

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        x = np.arange(30.0).reshape(1, 1, 5, 6)  # linear: an average is the value at the centre of a bin
        rois = np.array([[0, 2, 2, 2, 2, 90], [0, 3, 2, 2, 4, 0], [-1, 2, 2, 2, 2, 0]], float)
        known = np.zeros((3, 1, 2, 2))
        known[0, 0] = [[14 + 3 - 0.5, 14 - 3 - 0.5], [14 + 3 + 0.5, 14 - 3 + 0.5]]
        known[1, 0] = [[15 - 6 - 0.5, 15 - 6 + 0.5], [15 + 6 - 0.5, 15 + 6 + 0.5]]
        attrs: Any = {"pooled_size": (2, 2), "spatial_scale": 1}
        return [
            Sample([x, rois], always(known), grad=False, sampling_ratio=2, **attrs),
            Sample([x, rois], always(known), grad=False, dtypes=("float32", "float64"), **attrs),
            Sample([(2, 3, 5, 7), (0, 6)], always(np.zeros((0, 3, 2, 2))), grad=False, **attrs),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        attrs: Any = {"pooled_size": (2, 2), "spatial_scale": 0.5}
        size = "RROIAlign: pooled_size must be two sizes of at least 1, rows and columns, got (2, 0)"
        return [
            (((1, 3, 4, 4), (1, 5)), attrs, "RROIAlign: rois must have shape (R, 6), got (1, 5)"),
            (((1, 3, 4, 4), (1, 6)), {**attrs, "pooled_size": (2, 0)}, size),
        ]


def _interpolated(image: Any, y: Any, x: Any) -> Any:
    """Channels of an image at points between pixels; 0 more than a pixel outside."""
    height, width = image.shape[1:]
    inside = (y >= -1) & (y <= height) & (x >= -1) & (x <= width)
    y, x = np.clip(y, 0, height - 1), np.clip(x, 0, width - 1)
    top, left = y.astype(np.int64), x.astype(np.int64)
    below, right = np.minimum(top + 1, height - 1), np.minimum(left + 1, width - 1)
    dy, dx = y - top, x - left
    upper = image[:, top, left] * (1 - dx) + image[:, top, right] * dx
    lower = image[:, below, left] * (1 - dx) + image[:, below, right] * dx
    return (upper * (1 - dy) + lower * dy) * inside

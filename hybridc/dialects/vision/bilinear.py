"""Bilinear interpolation at computed positions: samplers, and the grids of positions that they read at."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from hybridc.dialects.array.gather import as_index
from hybridc.dialects.movement import MovementBuilder, bounded_index
from hybridc.dialects.operator import Bad, Movement, Sample, attribute, register
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.dialects.vision.rules import CheckedComposite, require_shape
from hybridc.dtypes import wide
from hybridc.errors import AttributeValueError, ShapeError


def pixel_rows(F: Any, data: Any) -> Any:
    """The pixels of images ``(N, C, H, W)`` as rows: ``(N H W, C)``."""
    n, c, h, w = data.shape
    return F.reshape_to(F.transpose(data, axes=(0, 2, 3, 1)), shape=(n * h * w, c))


def interpolate(F: Any, rows: Any, place: Any, y: Any, x: Any, size: tuple[int, int]) -> Any:
    """Bilinear interpolation between rows at positions of one shape; the result has one more axis, that of a row.

    ``place(row, column)`` is the index in ``rows`` of the pixel at these whole numbers, which are inside of an image
    of ``size``. Outside of it pixels are 0. Half precision is computed in single.
    """
    height, width = size
    dtype = wide(np.dtype(rows.dtype))
    top, left = F.floor(y), F.floor(x)
    below, right = y - top, x - left
    indices: list[Any] = []
    weights: list[Any] = []
    for row, weight_y in ((top, 1 - below), (top + 1, below)):
        for column, weight_x in ((left, 1 - right), (left + 1, right)):
            # Asked so, what is not a number stays one.
            outside = (row < 0) + (row > height - 1) + (column < 0) + (column > width - 1)
            weight = weight_y * weight_x
            weights.append(F.cast(F.where(outside, F.zeros_like(weight), weight), dtype))
            bounded = (F.clip(row, 0, max(height - 1, 0)), F.clip(column, 0, max(width - 1, 0)))
            indices.append(place(*(F.cast(v, "int64") for v in bounded)))
    shape = (4, math.prod(y.shape))
    index, weight = (F.reshape_to(F.stack(*v, axis=0), shape=shape) for v in (indices, weights))
    return F.reshape_to(F._weighted_rows(rows, index, weight), shape=(*y.shape, rows.shape[1]))


@register("hybrid._weighted_rows")
class WeightedRows(Movement):
    """Sums of rows: in row p of the result that of ``weight[k, p] * data[index[k, p]]`` over k"""

    INPUTS = ("data", "index", "weight")
    SAME_DTYPE = False

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        data, index, weight = shapes
        require_shape(self.title(), "data", data, ("rows", "columns"))
        require_shape(self.title(), "index", index, ("terms", "sums"))
        require_shape(self.title(), "weight", weight, index)
        return shapes, [(index[1], data[1])]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [dtypes[2]]

    def move(self, m: MovementBuilder[Any], *xs: Any) -> Any:
        data, index, weight = xs
        terms, sums = map(int, index.shape)

        def term(x: Any, k: int) -> Any:
            return m.reshape(m.slice(x, (k, 0), (1, 1), (1, sums)), (sums,))

        pairs = [(term(index, k), term(weight, k)) for k in range(terms)]

        def element(b: Any, row: Any, column: Any) -> Any:
            total: Any = None
            for each, factor in pairs:
                chosen = bounded_index(b, each[row], data.shape[0], "clip")
                own = b.cast(data[chosen, column], weight.dtype) * factor[row]
                total = own if total is None else total + own
            return total

        return m.generate((sums, data.shape[1]), weight.dtype, element)

    def eager(self, *arrays: Any) -> Any:
        data, index, weight = arrays
        (shape,) = self.infer_shape([x.shape for x in arrays])[1]
        total = np.zeros(shape, weight.dtype)
        for each, factor in zip(as_index(index, len(data), "clip"), weight, strict=True):
            total += np.take(data, each, 0).astype(weight.dtype, copy=False) * factor[:, None]
        return total

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, data, index, weight, _ = values
        (terms, sums), columns = index.shape, data.shape[1]

        def of_data() -> Any:
            spread = F.reshape_to(weight, shape=(terms, sums, 1)) * F.reshape_to(dy, shape=(1, sums, columns))
            spread = F.reshape_to(spread, shape=(terms * sums, columns))
            return F.take_scatter(spread, F.reshape_to(index, shape=(terms * sums,)), shape=data.shape)

        def of_weight() -> Any:
            taken = F.cast(F.take(data, index), dy.dtype)
            return F.sum(taken * F.reshape_to(dy, shape=(1, sums, columns)), axis=2)

        return of_data, None, of_weight

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        index = np.array([[0, 2, 1, 2, 0], [1, 1, 1, 0, 2]])

        def reference(data: Any, index: Any, weight: Any) -> Any:
            return np.einsum("kp,kpc->pc", weight, data[index])

        return [
            Sample([(3, 4), index, (2, 5)], reference, dtypes=("float32", "float64", "float16")),
            Sample([(3, 1), index[:1], (1, 5)], reference),
            Sample([(3, 4), index[:, :0], (2, 0)], reference, grad=False),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = "_weighted_rows: weight must have shape (1, 2), got (2, 2)"
        return [(((3, 4), np.zeros((1, 2), np.int64), (2, 2)), {}, text)]


def axis_of(F: Any, size: int, shape: Shape, dtype: Any) -> Any:
    """The numbers from 0 to ``size - 1``, in a shape."""
    return F.reshape_to(F._arange(size, dtype=dtype), shape=shape)


@register("hybrid.bilinear_sampler", "BilinearSampler")
class BilinearSampler(CheckedComposite):
    """data at the positions of a grid, by bilinear interpolation; 0 outside of the image"""

    INPUTS = ("data", "grid")
    INPUT_DOCS: ClassVar = {
        "data": "(N, C, height, width)",
        "grid": "(N, 2, rows, columns): x and y, of which -1 and 1 are the first and the last pixel",
    }
    cudnn_off: bool | None = attribute(None, "accepted for MXNet's API, without effect")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        data, grid = shapes
        require_shape("BilinearSampler", "data", data, ("N", "C", "height", "width"))
        require_shape("BilinearSampler", "grid", grid, (data[0], 2, "rows", "columns"))
        if 0 in data[2:]:
            raise ShapeError(f"BilinearSampler: the images have no pixels: data has shape {data}")
        return [data, (data[0], 2, *grid[2:])], [(*data[:2], *grid[2:])]

    def decompose(self, F: Any, *inputs: Any) -> Any:
        data, grid = inputs
        images, _, height, width = data.shape
        rows, columns = grid.shape[2:]
        dtype = np.dtype(data.dtype)
        grid = F.cast(grid, wide(dtype))
        x, y = (
            F.reshape_to(F.slice_axis(grid, axis=1, begin=i, end=i + 1), shape=(images, rows * columns)) for i in (0, 1)
        )
        first = axis_of(F, images, (images, 1), "int64") * height

        def place(row: Any, column: Any) -> Any:
            return (first + row) * width + column

        y, x = (y + 1) * ((height - 1) / 2), (x + 1) * ((width - 1) / 2)
        found = interpolate(F, pixel_rows(F, data), place, y, x, (height, width))
        found = F.transpose(F.cast(found, dtype), axes=(0, 2, 1))
        return F.reshape_to(found, shape=(*data.shape[:2], rows, columns))

    def nnvm_outputs(self) -> int:
        """What it keeps for the backward is a hidden output there."""
        return 2

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        grid = np.array([[[-0.9, 0.95, 0.1], [0.3, -0.7, 1.2]], [[-0.8, 0.9, 0.3], [-0.2, 0.55, -1.5]]])[None]
        corners = np.array([[[-1, 1], [0, 1.5]], [[-1, 1], [1, 1]]])[None]

        def reference(x: Any, grid: Any) -> Any:
            out = np.zeros((*x.shape[:2], *grid.shape[2:]))
            height, width = x.shape[2:]
            for n, _, row, column in np.ndindex(*grid.shape[:1], 1, *grid.shape[2:]):
                u = (grid[n, 0, row, column] + 1) * (width - 1) / 2
                v = (grid[n, 1, row, column] + 1) * (height - 1) / 2
                for i, j in np.ndindex(height, width):
                    out[n, :, row, column] += x[n, :, i, j] * max(0, 1 - abs(v - i)) * max(0, 1 - abs(u - j))
            return out

        return [
            Sample([(1, 2, 3, 4), grid], reference, dtypes=("float32", "float64", "float16")),
            Sample([(1, 2, 3, 4), corners], reference, grad=False),
            Sample([(2, 3, 5, 2), (2, 2, 3, 1)], reference, low=-1.2, high=1.2),
            Sample([(1, 2, 1, 1), (1, 2, 2, 2)], reference, low=-0.9, high=0.9),
            Sample([(0, 2, 3, 3), (0, 2, 2, 2)], reference, grad=False),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = "BilinearSampler: grid must have shape (2, 2, rows, columns), got"
        return [
            (((2, 3, 4, 4), (2, 3, 4, 4)), {}, f"{text} (2, 3, 4, 4)"),
            (((2, 3, 4, 4), (1, 2, 4, 4)), {}, f"{text} (1, 2, 4, 4)"),
            (
                ((2, 3, 0, 4), (2, 2, 4, 4)),
                {},
                "BilinearSampler: the images have no pixels: data has shape (2, 3, 0, 4)",
            ),
        ]


def _coordinate(F: Any, size: int, shape: Shape, dtype: Any) -> Any:
    """Positions from -1 to 1 along an axis."""
    # COMPAT(mxnet): the middle, where there is one position only; MXNet divides by 0.
    return axis_of(F, size, shape, dtype) * (2 / (size - 1)) - 1 if size > 1 else axis_of(F, size, shape, dtype)


def affine_grid(F: Any, matrices: Any, rows: int, columns: int) -> Any:
    """x and y of a grid ``(N, 2, rows, columns)`` under matrices ``(N, 6)``."""
    images = matrices.shape[0]
    dtype = wide(np.dtype(matrices.dtype))
    x, y = (
        _coordinate(F, columns, (1, 1, 1, columns), dtype),
        _coordinate(F, rows, (1, 1, rows, 1), dtype),
    )
    matrices = F.reshape_to(F.cast(matrices, dtype), shape=(images, 2, 3))
    a, b, c = (
        F.reshape_to(F.slice_axis(matrices, axis=2, begin=i, end=i + 1), shape=(images, 2, 1, 1)) for i in range(3)
    )
    return a * x + b * y + c


@register("hybrid.grid_generator", "GridGenerator")
class GridGenerator(CheckedComposite):
    """The positions that a sampler reads at: those of an affine map, or each pixel's moved by a flow"""

    INPUT_DOCS: ClassVar = {"data": "affine: matrices (N, 6); warp: flows (N, 2, rows, columns), in pixels"}
    transform_type: str = attribute(doc="what the data is", enum=("affine", "warp"))
    target_shape: Shape = attribute((0, 0), "rows and columns of an affine map's grid")

    def check(self) -> None:
        if len(self.target_shape) != 2 or (self.transform_type == "affine" and min(self.target_shape) < 1):
            raise AttributeValueError(
                f"GridGenerator: target_shape must be two sizes of at least 1, rows and columns, got "
                f"{self.target_shape}"
            )

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        (data,) = shapes
        if self.transform_type == "affine":
            require_shape("GridGenerator", "data", data, ("N", 6))
            return [(data[0], 6)], [(data[0], 2, *self.target_shape)]
        require_shape("GridGenerator", "data", data, ("N", 2, "rows", "columns"))
        shape = (data[0], 2, *data[2:])
        return [shape], [shape]

    def decompose(self, F: Any, *inputs: Any) -> Any:
        (data,) = inputs
        if self.transform_type == "affine":
            return F.cast(affine_grid(F, data, *self.target_shape), data.dtype)
        dtype = wide(np.dtype(data.dtype))
        rows, columns = data.shape[2:]
        moved: list[Any] = []
        for i, (size, shape) in enumerate(((columns, (1, 1, 1, columns)), (rows, (1, 1, rows, 1)))):
            flow = F.slice_axis(F.cast(data, dtype), axis=1, begin=i, end=i + 1)
            # COMPAT(mxnet): with one pixel along an axis MXNet divides by 0.
            moved.append((flow + axis_of(F, size, shape, dtype)) * (2 / max(size - 1, 1)) - 1)
        return F.cast(F.concat(*moved, dim=1), data.dtype)

    def nnvm_outputs(self) -> int:
        """What it keeps for the backward is a hidden output there."""
        return 2

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def affine(matrices: Any) -> Any:
            out = np.zeros((len(matrices), 2, 2, 3))
            for row, column in np.ndindex(2, 3):
                at = np.array([-1 + column, -1 + 2 * row, 1])
                out[:, :, row, column] = matrices.reshape(-1, 2, 3) @ at
            return out

        def warp(flow: Any) -> Any:
            out = np.zeros_like(flow)
            rows, columns = flow.shape[2:]
            for i, j in np.ndindex(rows, columns):
                out[:, 0, i, j] = (flow[:, 0, i, j] + j) * 2 / (columns - 1) - 1
                out[:, 1, i, j] = (flow[:, 1, i, j] + i) * 2 / (rows - 1) - 1
            return out

        attrs: Any = {"transform_type": "affine", "target_shape": (2, 3)}
        one: Any = {"transform_type": "affine", "target_shape": (1, 1)}
        return [
            Sample([(2, 6)], affine, dtypes=("float32", "float64", "float16"), **attrs),
            Sample([(2, 2, 3, 4)], warp, transform_type="warp"),
            Sample([(1, 6)], lambda m: m[:, [2, 5]].reshape(1, 2, 1, 1), **one),
            Sample([(0, 6)], affine, grad=False, **attrs),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        size = "GridGenerator: target_shape must be two sizes of at least 1, rows and columns, got (0, 0)"
        warp = "GridGenerator: data must have shape (N, 2, rows, columns), got (2, 3, 4, 4)"
        return [
            (((2, 6),), {"transform_type": "affine"}, size),
            (((2, 3, 4, 4),), {"transform_type": "warp"}, warp),
            (
                ((2, 2, 3),),
                {"transform_type": "affine", "target_shape": (2, 2)},
                "GridGenerator: data must have shape (N, 6), got (2, 2, 3)",
            ),
        ]


@register("hybrid.spatial_transformer", "SpatialTransformer")
class SpatialTransformer(CheckedComposite):
    """data under an affine map of positions, by bilinear interpolation; 0 outside of the image"""

    INPUTS = ("data", "loc")
    INPUT_DOCS: ClassVar = {"data": "(N, C, height, width)", "loc": "(N, 6): the matrices of the maps"}
    target_shape: Shape = attribute((0, 0), "rows and columns of the result")
    transform_type: str = attribute(doc="the kind of map", enum=("affine",))
    sampler_type: str = attribute(doc="the kind of interpolation", enum=("bilinear",))
    cudnn_off: bool | None = attribute(None, "accepted for MXNet's API, without effect")

    def check(self) -> None:
        if len(self.target_shape) != 2 or min(self.target_shape) < 1:
            raise AttributeValueError(
                f"SpatialTransformer: target_shape must be two sizes of at least 1, rows and columns, got "
                f"{self.target_shape}"
            )

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        data, loc = shapes
        require_shape("SpatialTransformer", "data", data, ("N", "C", "height", "width"))
        require_shape("SpatialTransformer", "loc", loc, (data[0], 6))
        if 0 in data[2:]:
            raise ShapeError(f"SpatialTransformer: the images have no pixels: data has shape {data}")
        return [data, (data[0], 6)], [(*data[:2], *self.target_shape)]

    def decompose(self, F: Any, *inputs: Any) -> Any:
        data, loc = inputs
        grid = affine_grid(F, loc, *self.target_shape)
        return F.BilinearSampler(data, F.cast(grid, data.dtype))

    def nnvm_outputs(self) -> int:
        """What it keeps for the backward are two hidden outputs there."""
        return 3

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        same, flipped = np.array([[1.0, 0, 0, 0, 1, 0]]), np.array([[-1.0, 0, 0, 0, 1, 0]])
        half = np.array([[0.6, 0.1, -0.05, 0.15, 0.7, 0.05]] * 2)
        attrs: Any = {"transform_type": "affine", "sampler_type": "bilinear"}

        def reference(x: Any, theta: Any) -> Any:
            out = np.zeros((*x.shape[:2], 2, 3))
            for n, row, column in np.ndindex(len(x), 2, 3):
                u, v = theta[n].reshape(2, 3) @ np.array([column - 1, 2 * row - 1, 1])
                u, v = (u + 1) * (x.shape[3] - 1) / 2, (v + 1) * (x.shape[2] - 1) / 2
                for i, j in np.ndindex(*x.shape[2:]):
                    out[n, :, row, column] += x[n, :, i, j] * max(0, 1 - abs(v - i)) * max(0, 1 - abs(u - j))
            return out

        return [
            Sample([(2, 2, 4, 5), half], reference, target_shape=(2, 3), **attrs),
            Sample([(1, 2, 3, 5), same], lambda x, _: x, grad=False, target_shape=(3, 5), **attrs),
            Sample([(1, 2, 3, 5), flipped], lambda x, _: x[..., ::-1], grad=False, target_shape=(3, 5), **attrs),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        attrs: Any = {"transform_type": "affine", "sampler_type": "bilinear"}
        size = "SpatialTransformer: target_shape must be two sizes of at least 1, rows and columns, got (0, 0)"
        loc = "SpatialTransformer: loc must have shape (2, 6), got (1, 6)"
        return [
            (((2, 3, 4, 4), (2, 6)), attrs, size),
            (((2, 3, 4, 4), (1, 6)), {**attrs, "target_shape": (2, 2)}, loc),
        ]

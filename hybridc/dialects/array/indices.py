"""Operators on indices, and index_copy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from hybridc.dialects.array.gather import as_index
from hybridc.dialects.array.shape import normalize_axis
from hybridc.dialects.movement import MovementBuilder, bounded_index
from hybridc.dialects.operator import Bad, Movement, Opaque, Sample, attribute, no_gradient, register
from hybridc.dialects.operator_attribute import Axes, DType, Shape
from hybridc.errors import AttributeValueError, ShapeError


@register("hybrid.ravel_multi_index", "_ravel_multi_index")
class RavelMultiIndex(Opaque):
    """The position in row-major order of the element that each column of data names by its coordinates."""

    gradient = no_gradient

    NNVM = "_ravel_multi_index"
    shape: Shape = attribute(doc="shape of the array that is indexed; the first size is not used")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        (data,) = shapes
        if not data or data[0] != len(self.shape):
            raise ShapeError(
                f"ravel_multi_index: data must have {len(self.shape)} rows, one for each axis of "
                f"shape={self.shape}, got shape {data}"
            )
        return shapes, [data[1:] or (1,)]

    def eager(self, *arrays: Any) -> Any:
        (data,) = arrays
        out = self.infer_shape([data.shape])[1][0]
        flat = np.zeros(data.shape[1:], np.int64)
        for coordinate, size in zip(data.astype(np.int64), self.shape, strict=True):
            flat = flat * size + coordinate
        return flat.astype(data.dtype).reshape(out)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        data = np.array([[0, 1, 1], [1, 2, 0]], np.float32)
        return [Sample([data], lambda _: np.array([1, 5, 3]), grad=False, shape=(2, 3))]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = "ravel_multi_index: data must have 2 rows, one for each axis of shape=(2, 3), got shape (3, 4)"
        return [(((3, 4),), {"shape": (2, 3)}, text)]


@register("hybrid.unravel_index", "_unravel_index")
class UnravelIndex(Opaque):
    """The coordinates, one row an axis, of the elements at the given positions in row-major order."""

    gradient = no_gradient

    NNVM = "_unravel_index"
    # COMPAT(mxnet): data of several dimensions keeps them; MXNet gives a shape that lacks some of the results.
    shape: Shape = attribute(doc="shape of the array that is indexed; the first size is not used")

    def check(self) -> None:
        if not self.shape:
            raise AttributeValueError("unravel_index: shape=() has no axes; it takes the shape of the array indexed")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        return shapes, [(len(self.shape), *shapes[0])]

    def eager(self, *arrays: Any) -> Any:
        (data,) = arrays
        rest = data.astype(np.int64)
        rows: list[Any] = []
        for size in self.shape[:0:-1]:
            rows.append(rest % size)
            rest = rest // size
        return np.stack([rest, *rows[::-1]]).astype(data.dtype)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        data = np.array([1, 5, 3], np.float32)
        return [
            Sample([data], lambda _: np.array([[0, 1, 1], [1, 2, 0]]), grad=False, shape=(2, 3)),
            Sample([np.array([[23]])], lambda _: np.array([[[1]], [[2]], [[3]]]), grad=False, shape=(2, 3, 4)),
        ]


@register("hybrid.index_array", "contrib.index_array", "_contrib_index_array")
class IndexArray(Opaque):
    """For each element of data its own coordinates, along a new last axis, in int64."""

    gradient = no_gradient

    axes: Axes | None = attribute(None, "which coordinates; all by default")

    def chosen(self, rank: int) -> tuple[int, ...]:
        """The axes whose coordinates are given."""
        if self.axes is None:
            return tuple(range(rank))
        return tuple(normalize_axis("index_array", a, rank, "axes has") for a in self.axes)

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        (shape,) = shapes
        return shapes, [(*shape, len(self.chosen(len(shape))))]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [np.dtype("int64")]

    def move(self, m: MovementBuilder[Any], *xs: Any) -> Any:
        (x,) = xs
        axes = self.chosen(len(x.shape))

        def element(b: Any, *i: Any) -> Any:
            *at, which = i
            result = at[axes[0]]
            for number, axis in enumerate(axes):
                result = b.select(which == number, at[axis], result)
            return result

        return m.generate((*x.shape, len(axes)), np.dtype("int64"), element)

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        out = np.empty(self.infer_shape([x.shape])[1][0], np.int64)
        for i, axis in enumerate(self.chosen(x.ndim)):
            column = [1] * x.ndim
            column[axis] = x.shape[axis]
            out[..., i] = np.array(range(x.shape[axis]), np.int64).reshape(column)
        return out

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def reference(_: Any) -> Any:
            return np.array([[[i, j] for j in range(3)] for i in range(2)])

        return [
            Sample([(2, 3)], reference, grad=False),
            Sample([(2, 3)], lambda x: reference(x)[..., ::-1], grad=False, axes=(1, 0)),
            Sample([(2, 3)], lambda x: reference(x)[..., 1:], grad=False, axes=-1),
        ]


@register("hybrid.index_copy", "contrib.index_copy", "_contrib_index_copy")
class IndexCopy(Movement):
    """old_tensor with the rows of new_tensor at index_vector; of duplicates, the last."""

    INPUTS = ("old_tensor", "index_vector", "new_tensor")
    INPUT_DOCS: ClassVar = {
        "old_tensor": "the array, which stays as it is",
        "index_vector": "the rows that are replaced, counted from 0; an error if one is no row",
        "new_tensor": "the new rows, one for each index, of the shape of old_tensor's",
    }
    SAME_DTYPE = False

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        old, index, new = shapes
        if len(index) != 1 or not old or new != (*index, *old[1:]):
            raise ShapeError(
                f"index_copy: new_tensor must have a row like those of old_tensor {old} for each element of "
                f"index_vector {index}, got {new}"
            )
        return shapes, [old]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [dtypes[0]]

    def eager(self, *arrays: Any) -> Any:
        old, index, new = arrays
        self.infer_shape([a.shape for a in arrays])
        out = old.copy()
        out[as_index(index, old.shape[0], "raise")] = new
        return out

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, old, index, new, _ = values
        if not old.shape[0]:
            return dy, None, None
        rows = F.reshape_to(F.one_hot(index, old.shape[0]), shape=(*index.shape, old.shape[0]))
        kept = F.reshape_to(F.max(rows, axis=0) < 0.5, shape=(old.shape[0], *(1,) * (len(old.shape) - 1)))
        return dy * F.cast(kept, dy.dtype), None, F.take(dy, index) if math.prod(new.shape) else None

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        index = np.array([2, 0])
        return [Sample([(3, 2), index, (2, 2)], lambda x, _, y: np.stack([y[1], x[1], y[0]]))]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = (
            "index_copy: new_tensor must have a row like those of old_tensor (3, 2) for each element of "
            "index_vector (2,), got (2, 3)"
        )
        return [(((3, 2), (2,), (2, 3)), {}, text)]


@register("hybrid.fill_element_0index")
class FillElement(Movement):
    """lhs, in which row i has mhs[i] in the column that rhs[i] names"""

    INPUTS = ("lhs", "mhs", "rhs")
    INPUT_DOCS: ClassVar = {
        "lhs": "the matrix",
        "mhs": "the new values, one for each row",
        "rhs": "their columns, one for each row, counted from 0; what lies outside is the nearest column",
    }
    SAME_DTYPE = False

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        lhs, mhs, rhs = shapes
        if len(lhs) != 2 or mhs != lhs[:1] or rhs != lhs[:1]:
            raise ShapeError(
                "fill_element_0index: lhs must be a matrix, mhs and rhs as long as it has rows, "
                f"got {lhs}, {mhs}, {rhs}"
            )
        return shapes, [lhs]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [dtypes[0]]

    def move(self, m: MovementBuilder[Any], *xs: Any) -> Any:
        lhs, mhs, rhs = xs

        def element(b: Any, row: Any, column: Any) -> Any:
            chosen = bounded_index(b, rhs[row], lhs.shape[1], "clip")
            return b.select(column == chosen, mhs[row], lhs[row, column])

        return m.generate(lhs.shape, lhs.dtype, element)

    def eager(self, *arrays: Any) -> Any:
        lhs, mhs, rhs = arrays
        self.infer_shape([a.shape for a in arrays])
        out = lhs.copy()
        np.put_along_axis(out, as_index(rhs, lhs.shape[1], "clip").reshape(-1, 1), mhs.reshape(-1, 1), 1)
        return out

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, _, mhs, rhs, _ = values
        return F.fill_element_0index(dy, F.zeros_like(mhs), rhs), F.pick(dy, rhs), None

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def reference(x: Any, y: Any, _: Any) -> Any:
            return np.array([[y[0], x[0, 1], x[0, 2]], [x[1, 0], x[1, 1], y[1]]])

        return [Sample([(2, 3), (2,), np.array([0, 2])], reference)]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = "fill_element_0index: lhs must be a matrix, mhs and rhs as long as it has rows, got (2, 3), (3,), (2,)"
        return [(((2, 3), (3,), (2,)), {}, text)]

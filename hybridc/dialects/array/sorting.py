"""Sorting, argmax and their like. Indices are floats by default, as in MXNet."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from hybridc.dialects.array.gather import add_rows, as_index
from hybridc.dialects.array.order import order_along, sortable
from hybridc.dialects.array.shape import normalize_axis
from hybridc.dialects.movement import MovementBuilder, extreme_place
from hybridc.dialects.operator import Bad, Opaque, Sample, attribute, no_gradient, register
from hybridc.dialects.operator_attribute import DType, Floats, Shape
from hybridc.errors import AttributeValueError, ShapeError

FLOAT32 = np.dtype("float32")


class _ArgExtreme(Opaque):
    """The index of an extreme element along an axis, in the input's dtype; NaN is extreme."""

    gradient = no_gradient

    EXTREME = "max"

    axis: int | None = attribute(None, "the axis; the flattened array if None")
    keepdims: bool = attribute(False, "keep the axis, with size 1")
    dtype: DType | None = attribute(None, "internal: the dtype of the indices, where that is not the input's")

    @classmethod
    def upgrade_nnvm(cls, attrs: Mapping[str, str], version: int) -> Mapping[str, str]:
        """Before 0.9.5, axis -1 meant all axes."""
        return {k: v for k, v in attrs.items() if version >= 905 or (k, v) != ("axis", "-1")}

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        (shape,) = shapes
        if self.axis is None:
            size, out = math.prod(shape), (1,) * len(shape) if self.keepdims else (1,)
        else:
            axis = normalize_axis(self.title(), self.axis, len(shape))
            size = shape[axis]
            kept = (1,) if self.keepdims else ()
            out = (*shape[:axis], *kept, *shape[axis + 1 :]) or (1,)
        if not size:
            raise ShapeError(f"{self.title()}: no element to choose from in an input of shape {shape}")
        return shapes, [out]

    def move(self, m: MovementBuilder[Any], *xs: Any) -> Any:
        (x,) = xs
        flat = m.reshape(x, (math.prod(x.shape),)) if self.axis is None else x
        place = extreme_place(m, flat, (self.axis or 0) % len(flat.shape), self.EXTREME, self.dtype)
        return m.reshape(place, self.infer_shape([x.shape])[1][0])

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        shape = self.infer_shape([x.shape])[1][0]
        return self.choose(x).astype(self.dtype or x.dtype).reshape(shape)

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [self.dtype or dtypes[0]]

    def choose(self, x: Any) -> Any:
        """The indices as integers."""
        raise ShapeError(f"{self.title()}: {x.shape}")

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = f"{cls.title()}: no element to choose from in an input of shape (2, 0)"
        return [(((2, 0),), {"axis": 1}, text)]


@register("hybrid.argmax")
class ArgMax(_ArgExtreme):
    """The index of the largest element along an axis, in the input's dtype; of equal ones, the first."""

    def choose(self, x: Any) -> Any:
        return np.asarray(np.argmax(x, self.axis))

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        ties = np.array([[1, 3, 3], [2, 2, 1]], np.float32)
        return [
            Sample([(2, 3)], lambda x: np.array([float(np.argmax(x))]), grad=False),
            Sample([(2, 3)], lambda x: np.array([[float(np.argmax(x))]]), grad=False, keepdims=True),
            Sample([(2, 3, 4)], lambda x: np.argmax(x, 1).astype(float), grad=False, axis=-2),
            Sample([ties], lambda _: np.array([[1.0], [0.0]]), grad=False, axis=1, keepdims=True),
            Sample([(3,)], lambda x: np.array([float(np.argmax(x))]), grad=False, axis=0),
        ]


@register("hybrid.argmin")
class ArgMin(_ArgExtreme):
    """The index of the smallest element along an axis, in the input's dtype; of equal ones, the first."""

    EXTREME = "min"

    def choose(self, x: Any) -> Any:
        return np.asarray(np.argmin(x, self.axis))

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [
            Sample([(2, 3)], lambda x: np.array([float(np.argmin(x))]), grad=False),
            Sample([(2, 3, 4)], lambda x: np.argmin(x, 2).astype(float), grad=False, axis=-1),
        ]


@register("hybrid.argmax_channel")
class ArgMaxChannel(Opaque):
    """The index of the largest element along axis 1, in the input's dtype."""

    gradient = no_gradient

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        (shape,) = shapes
        if len(shape) < 2 or not shape[1]:
            raise ShapeError(f"argmax_channel: the input needs a second axis with elements, got shape {shape}")
        return shapes, [(shape[0], *shape[2:])]

    def move(self, m: MovementBuilder[Any], *xs: Any) -> Any:
        place = extreme_place(m, xs[0], 1, "max")
        return m.reshape(place, self.infer_shape([xs[0].shape])[1][0])

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        self.infer_shape([x.shape])
        return np.asarray(np.argmax(x, 1)).astype(x.dtype)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [Sample([(2, 3, 4)], lambda x: np.argmax(x, 1).astype(float), grad=False)]


class _Sorting(Opaque):
    """An operator along an axis, or along all elements if ``axis`` is None."""

    axis: int | None = -1
    is_ascend: bool = True

    def place(self, shape: Shape) -> tuple[Shape, int]:
        """The shape that is sorted and the axis along which."""
        if self.axis is None:
            return (math.prod(shape),), 0
        return shape, normalize_axis(self.title(), self.axis, len(shape))

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        return shapes, [self.place(shapes[0])[0]]

    def order(self, x: Any, count: int | None = None) -> tuple[Any, Any, int]:
        """The array to sort, the sorting indices or the first ``count`` of them, and the axis."""
        shape, axis = self.place(x.shape)
        x = x.reshape(shape)
        return x, order_along(x, axis, self.is_ascend, count), axis


@register("hybrid.sort")
class Sort(_Sorting):
    """The elements in order along an axis."""

    OUTPUTS = ("output0",)

    axis: int | None = attribute(-1, "the axis; the flattened array if None")
    is_ascend: bool = attribute(True, "smallest first")

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        shape, axis = self.place(x.shape)
        ordered = np.sort(sortable(x.reshape(shape)), axis).astype(x.dtype, copy=False)
        return ordered if self.is_ascend else np.flip(ordered, axis).copy()

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _ = values
        order = F.argsort(x, axis=self.axis, is_ascend=self.is_ascend, dtype="int64")
        return F.reshape_to(_scatter_along(F, dy, order, self.place(x.shape)[1]), shape=x.shape)

    def nnvm_outputs(self) -> int:
        """The order is a hidden output there."""
        return 2

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [
            Sample([(2, 5)], lambda x: np.sort(x)),
            Sample([(2, 5)], lambda x: -np.sort(-x, 0), axis=0, is_ascend=False),
            Sample([(2, 3)], lambda x: np.sort(x, None), axis=None),
            Sample([(0, 3)], lambda x: x),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = "sort: axis 2 is out of range for an input of 2 dimensions; it must be from -2 to 1"
        return [(((2, 3),), {"axis": 2}, text)]


def _scatter_along(F: Any, dy: Any, order: Any, axis: int) -> Any:
    """The gradient of ``x[order]`` along an axis: ``dy`` by the inverse of the permutation ``order``."""
    return F.take_along_axis(dy, F.argsort(order, axis=axis, dtype="int64"), axis=axis)


@register("hybrid.take_along_axis")
class TakeAlongAxis(Opaque):
    """``data[…, indices[…], …]``: a gather along an axis (``take_along_axis``)."""

    INPUTS = ("data", "indices")
    SAME_DTYPE = False
    axis: int = attribute(-1, "the axis")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        data, indices = shapes
        axis = normalize_axis("take_along_axis", self.axis, len(data))
        if len(indices) != len(data) or any(
            m != n and i != axis for i, (m, n) in enumerate(zip(data, indices, strict=True))
        ):
            raise ShapeError(
                f"take_along_axis: data {data} and indices {indices} must have equal shapes except along axis {axis}"
            )
        return shapes, [indices]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [dtypes[0]]

    def eager(self, *arrays: Any) -> Any:
        data, indices = arrays
        self.infer_shape([data.shape, indices.shape])
        return np.take_along_axis(data, as_index(indices, data.shape[self.axis], "raise"), self.axis)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, data, indices, _ = values
        return F.scatter_along_axis(dy, indices, size=data.shape[self.axis], axis=self.axis), None

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        index = np.array([[0, 2, 2], [1, 0, 1]])
        return [Sample([(2, 4), index], lambda x, i: np.stack([x[0, i[0]], x[1, i[1]]]))]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = "take_along_axis: data (2, 3) and indices (3, 3) must have equal shapes except along axis 1"
        return [(((2, 3), np.zeros((3, 3), int)), {}, text)]


@register("hybrid.scatter_along_axis")
class ScatterAlongAxis(Opaque):
    """Scatter-add of the elements of data along an axis into zeros (the gradient of that gather)."""

    INPUTS = ("data", "indices")
    SAME_DTYPE = False
    size: int = attribute(doc="length of the result along the axis")
    axis: int = attribute(-1, "the axis")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        data, indices = shapes
        axis = normalize_axis("scatter_along_axis", self.axis, len(data))
        if indices != data:
            raise ShapeError(f"scatter_along_axis: data {data} and indices {indices} must have equal shapes")
        return shapes, [(*data[:axis], self.size, *data[axis + 1 :])]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [dtypes[0]]

    def eager(self, *arrays: Any) -> Any:
        data, indices = arrays
        self.infer_shape([data.shape, indices.shape])
        moved = np.moveaxis(data, self.axis, -1)
        index = as_index(np.moveaxis(indices, self.axis, -1), self.size, "raise")
        rows = math.prod(moved.shape[:-1])
        index = index.reshape(rows, moved.shape[-1]) + self.size * np.arange(rows)[:, None]
        added = add_rows(rows * self.size, index.reshape(-1), moved.reshape(-1))
        return np.ascontiguousarray(np.moveaxis(added.reshape(*moved.shape[:-1], self.size), -1, self.axis))

    def gradient(self, F: Any, *values: Any) -> Any:
        ddx, _, indices, _ = values
        return F.take_along_axis(ddx, indices, axis=self.axis), None

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        index = np.array([[0, 2, 2], [1, 0, 1]])

        def reference(y: Any, _: Any) -> Any:
            out = np.zeros((2, 4))
            out[0, 0], out[0, 2] = y[0, 0], y[0, 1] + y[0, 2]
            out[1, 1], out[1, 0] = y[1, 0] + y[1, 2], y[1, 1]
            return out

        return [Sample([(2, 3), index], reference, size=4)]


@register("hybrid.argsort")
class ArgSort(_Sorting):
    """The indices that put the elements in order along an axis; equal elements keep their order."""

    gradient = no_gradient

    axis: int | None = attribute(-1, "the axis; the flattened array if None")
    is_ascend: bool = attribute(True, "smallest first")
    dtype: DType = attribute(FLOAT32, "dtype of the indices")

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [self.dtype]

    def eager(self, *arrays: Any) -> Any:
        return self.order(arrays[0])[1].astype(self.dtype)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        ties = np.array([1, 1, 0, 0, 1], np.float32)
        return [
            Sample([(2, 5)], lambda x: np.argsort(x), grad=False),
            Sample([(2, 5)], lambda x: np.argsort(-x, 0), grad=False, axis=0, is_ascend=False),
            Sample([(2, 3)], lambda x: np.argsort(x.reshape(-1)), grad=False, axis=None, dtype="int32"),
            Sample([ties], lambda _: np.array([2, 3, 0, 1, 4]), grad=False),
            Sample([ties], lambda _: np.array([0, 1, 4, 2, 3]), grad=False, is_ascend=False),
        ]


@register("hybrid.topk")
class TopK(_Sorting):
    """The k largest (or smallest) elements along an axis: their indices, values, both, or a 0/1 mask."""

    axis: int | None = attribute(-1, "the axis; the flattened array if None")
    k: int = attribute(1, "how many; all if less than 1")
    ret_typ: str = attribute("indices", "what to return", enum=("value", "indices", "mask", "both"))
    is_ascend: bool = attribute(False, "the smallest elements")
    dtype: DType = attribute(FLOAT32, "dtype of the indices")

    def num_outputs(self) -> int:
        return 2 if self.ret_typ == "both" else 1

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        shape, axis = self.place(shapes[0])
        if self.k > shape[axis]:
            raise ShapeError(
                f"topk: k={self.k} is more than the {shape[axis]} elements along axis {self.axis} "
                f"of an input of shape {shapes[0]}"
            )
        k = self.k if self.k > 0 else shape[axis]
        out = shapes[0] if self.ret_typ == "mask" else (*shape[:axis], k, *shape[axis + 1 :])
        return shapes, [out] * self.num_outputs()

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        types = {"value": [dtypes[0]], "mask": [dtypes[0]], "indices": [self.dtype]}
        return dtypes, types.get(self.ret_typ, [dtypes[0], self.dtype])

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        self.infer_shape([x.shape])
        flat, order, axis = self.order(x, self.k if self.k > 0 else None)
        if self.ret_typ == "mask":
            mask = np.zeros_like(flat)
            np.put_along_axis(mask, order, 1, axis)
            return mask.reshape(x.shape)
        indices = order.astype(self.dtype)
        if self.ret_typ == "indices":
            return indices
        values = np.take_along_axis(flat, order, axis).astype(x.dtype, copy=False)
        return values if self.ret_typ == "value" else (values, indices)

    def gradient(self, F: Any, *values: Any) -> Any:
        if self.ret_typ in ("indices", "mask"):
            return None
        dy, x = values[0], values[self.num_outputs()]
        shape, axis = self.place(x.shape)
        order = F.topk(x, axis=self.axis, k=self.k, is_ascend=self.is_ascend, dtype="int64")
        return F.reshape_to(F.scatter_along_axis(dy, order, size=shape[axis], axis=axis), shape=x.shape)

    def output_names(self) -> tuple[str, ...]:
        return ("output0", "output1")[: self.num_outputs()] if self.nnvm_outputs() == 2 else ("output",)

    def nnvm_outputs(self) -> int:
        """The indices are a hidden output there."""
        return 2 if self.ret_typ == "value" else self.num_outputs()

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        x = np.array([[3, 1, 2], [9, 8, 7]], np.float32)

        def both(x: Any) -> Any:
            order = np.argsort(-x, 1)[:, :2]
            return np.stack([r[o] for r, o in zip(x, order, strict=True)]), order

        return [
            Sample([x], lambda _: np.array([[0], [0]]), grad=False),
            Sample([x], lambda _: np.array([[3, 2], [9, 8]]), grad=False, k=2, ret_typ="value"),
            Sample([x], lambda _: np.array([[1, 0, 1], [1, 1, 0]]), grad=False, k=2, ret_typ="mask"),
            Sample([x], lambda _: np.array([1, 2]), grad=False, k=2, axis=None, is_ascend=True, dtype="int32"),
            Sample([(3, 5)], both, grad=False, k=2, ret_typ="both"),
            Sample([(3, 5)], lambda x: np.sort(x, 0)[:2], k=2, axis=0, is_ascend=True, ret_typ="value"),
            Sample([(2, 3)], lambda x: -np.sort(-x), k=0, ret_typ="value"),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        return [
            (
                ((2, 3),),
                {"k": 9},
                "topk: k=9 is more than the 3 elements along axis -1 of an input of shape (2, 3)",
            ),
            (
                ((2, 3),),
                {"ret_typ": "all"},
                "topk: attribute ret_typ takes one of 'value', 'indices', 'mask', 'both', got 'all'",
            ),
        ]


@register("hybrid.histogram", "_histogram")
class Histogram(Opaque):
    """How many elements fall into each bin, and the edges of the bins: ``bin_cnt`` equal ones in ``range``, or given"""

    gradient = no_gradient

    NNVM = "_histogram"
    INPUTS = ("data", "bins")
    INPUT_DOCS: ClassVar = {
        "data": "the numbers, of any shape",
        "bins": "the edges of the bins, in ascending order, one more than there are bins; if bin_cnt is None",
    }
    OPTIONAL = 1
    bin_cnt: int | None = attribute(None, "number of bins; None if their edges are an input", low=1)
    range: Floats | None = attribute(None, "the lowest and the highest edge")

    def check(self) -> None:
        if self.bin_cnt is not None and (self.range is None or len(self.range) != 2):
            raise AttributeValueError(f"_histogram: bin_cnt={self.bin_cnt} needs range=(low, high), got {self.range}")

    def input_names(self) -> tuple[str, ...]:
        return ("data", "bins") if self.bin_cnt is None else ("data",)

    def num_outputs(self) -> int:
        return 2

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        if self.bin_cnt is None and len(shapes[1]) != 1:
            raise ShapeError(f"_histogram: bins must have one axis, the edges of the bins; got shape {shapes[1]}")
        edges = shapes[1][0] if self.bin_cnt is None else self.bin_cnt + 1
        return shapes, [(edges - 1 if edges >= 0 else -1,), (edges,)]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [np.dtype("int64"), dtypes[0]]

    def eager(self, *arrays: Any) -> Any:
        data, *edges_given = arrays
        bins: Any = edges_given[0] if edges_given else self.bin_cnt
        ends: Any = self.range
        counts, edges = np.histogram(data, bins, ends)
        return counts.astype(np.int64), edges.astype(data.dtype)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def reference(x: Any) -> Any:
            return np.array([((x >= a) & (x < a + 1)).sum() for a in (-2, -1, 0, 1)]), np.arange(-2.0, 3)

        edges = np.array([0.0, 1.0, 3.0], np.float32)
        return [
            Sample([(3, 5)], reference, grad=False, bin_cnt=4, range=(-2, 2), low=-1.5, high=1.5),
            Sample(
                [np.array([0, 1, 1, 3], np.float32), edges],
                lambda _x, b: (np.array([1, 3]), b),
                grad=False,
                dtypes=("float32",),
            ),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        return [(((3,),), {"bin_cnt": 4}, "_histogram: bin_cnt=4 needs range=(low, high), got None")]

"""Operators that gather or scatter by several indices at once, one-hot vectors, selection by a condition."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from hybridc.dialects.array.gather import add_rows, as_index, gathered, in_single
from hybridc.dialects.array.shape import normalize_axis
from hybridc.dialects.array.shape_rules import is_known
from hybridc.dialects.operator import (
    Bad,
    Composite,
    Elementwise,
    Movement,
    Opaque,
    Sample,
    attribute,
    no_gradient,
    register,
)
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.dialects.scalar import NUMPY
from hybridc.errors import DTypeError, MXNetError, ShapeError
from hybridc.ground.hooks import HOOKS
from hybridc.sparse_storage import stype_of


class _IndexedND(Movement):
    """Indices of shape ``(m, …)``: column ``k`` is a coordinate in the first ``m`` axes."""

    SAME_DTYPE = False

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [dtypes[0]]

    def split(self, shape: Shape, indices: Shape) -> tuple[Shape, Shape]:
        """The sizes that are indexed and those that are not."""
        if len(indices) < 2:
            raise ShapeError(f"{self.title()}: indices must have at least 2 dimensions, got shape {indices}")
        if indices[0] > len(shape):
            raise ShapeError(
                f"{self.title()}: indices of shape {indices} name {indices[0]} coordinates, "
                f"but the array has shape {shape}"
            )
        return shape[: indices[0]], shape[indices[0] :]


def _flat(indices: Any, sizes: Shape) -> Any:
    """The row-major linear index of each coordinate, over the leading ``sizes``."""
    flat = np.zeros(indices.shape[1:], np.int64)
    for coordinate, size in zip(indices, sizes, strict=True):
        flat = flat * size + as_index(coordinate, size, "raise")
    return flat.reshape(-1)


@register("hybrid.gather_nd")
class GatherND(_IndexedND):
    """``data[indices[0], indices[1], …]``; negative indices count from the end."""

    INPUTS = ("data", "indices")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        data, indices = shapes
        return shapes, [indices[1:] + self.split(data, indices)[1]]

    def eager(self, *arrays: Any) -> Any:
        data, indices = arrays
        shape = self.infer_shape([data.shape, indices.shape])[1][0]
        if indices.dtype.kind not in "iu":
            indices = indices.astype(np.int64)
        return gathered("gather_nd", data, tuple(indices)).reshape(shape)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, data, indices, _ = values
        return in_single(F, dy, lambda dy: F.scatter_add_nd(dy, indices, shape=data.shape)), None

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        index = np.array([[0, 1, 1, 0], [1, 2, -1, 1]], np.float32)
        return [
            Sample([(2, 3), index], lambda x, _: x[[0, 1, 1, 0], [1, 2, 2, 1]]),
            Sample([(2, 3, 2), index], lambda x, _: x[[0, 1, 1, 0], [1, 2, 2, 1]]),
            Sample([(3, 2), np.array([[[0, 2], [2, 1]]])], lambda x, i: x[i[0]]),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        return [
            (
                ((2, 3), np.array([0, 1])),
                {},
                "gather_nd: indices must have at least 2 dimensions, got shape (2,)",
            ),
            (
                ((2,), np.array([[0], [1]])),
                {},
                "gather_nd: indices of shape (2, 1) name 2 coordinates, but the array has shape (2,)",
            ),
        ]


@register("hybrid.scatter_add_nd", "_backward_gather_nd")
class ScatterAddND(_IndexedND):
    """Scatter-add of the input's elements at ``indices`` into zeros of ``shape``."""

    NNVM = "_backward_gather_nd"
    INPUTS = ("data", "indices")
    shape: Shape = attribute(doc="shape of the result")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        data, indices = shapes
        expected = indices[1:] + self.split(self.shape, indices)[1]
        if data != expected:
            raise ShapeError(f"{self.title()}: data has shape {data}, expected {expected} for these indices")
        return shapes, [self.shape]

    def place(self, sizes: Shape, index: Any, rows: Any) -> Any:
        """The leading axes as one, filled with the rows."""
        return add_rows(math.prod(sizes), index, rows)

    def eager(self, *arrays: Any) -> Any:
        data, indices = arrays
        self.infer_shape([data.shape, indices.shape])
        sizes, rest = self.split(self.shape, indices.shape)
        if not data.size:
            return np.zeros(self.shape, data.dtype)
        index = _flat(indices, sizes)
        return self.place(sizes, index, data.reshape(index.size, *rest)).reshape(self.shape)

    def gradient(self, F: Any, *values: Any) -> Any:
        ddx, _, indices, _ = values
        return F.gather_nd(ddx, indices), None

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def reference(y: Any, i: Any) -> Any:
            out = np.zeros((2, 3, 2))
            np.add.at(out, tuple(np.asarray(i, int)), y)
            return out

        return [Sample([(3, 2), np.array([[0, 1, 0], [2, 0, 2]])], reference, shape=(2, 3, 2))]


@register("hybrid.scatter_nd")
class ScatterND(ScatterAddND):
    """Scatter of the input's elements at ``indices`` into zeros of ``shape``; of duplicates, the last."""

    def place(self, sizes: Shape, index: Any, rows: Any) -> Any:
        out = np.zeros((math.prod(sizes), *rows.shape[1:]), rows.dtype)
        out[index] = rows
        return out

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def reference(y: Any, i: Any) -> Any:
            out = np.zeros((3, 2))
            out[np.asarray(i[0], int)] = y
            return out

        return [Sample([(2, 2), np.array([[2, 0]], np.int64)], reference, shape=(3, 2))]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = "scatter_nd: data has shape (3,), expected (2,) for these indices"
        return [(((3,), np.array([[0, 1]])), {"shape": (4,)}, text)]


@register("hybrid.scatter_set_nd", "_scatter_set_nd")
class ScatterSetND(_IndexedND):
    """lhs with the elements of rhs at ``indices``; of duplicates, the last."""

    gradient = no_gradient

    NNVM = "_scatter_set_nd"
    INPUTS = ("lhs", "rhs", "indices")
    shape: Shape = attribute(doc="shape of lhs and of the result")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        lhs, rhs, indices = shapes
        expected = indices[1:] + self.split(self.shape, indices)[1]
        if lhs != self.shape or rhs != expected:
            raise ShapeError(
                f"{self.title()}: lhs has shape {lhs} and rhs {rhs}, expected {self.shape} and {expected} for these "
                "indices"
            )
        return shapes, [self.shape]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [dtypes[0]]

    def eager(self, *arrays: Any) -> Any:
        lhs, rhs, indices = arrays
        self.infer_shape([x.shape for x in arrays])
        sizes, rest = self.split(self.shape, indices.shape)
        result = lhs.copy()
        if rhs.size:
            index = _flat(indices, sizes)
            result.reshape(-1, *rest)[index] = rhs.reshape(index.size, *rest)
        return result

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def reference(x: Any, y: Any, i: Any) -> Any:
            out = x.copy()
            out[np.asarray(i[0], int)] = y
            return out

        return [Sample([(3, 2), (2, 2), np.array([[2, 0]], np.int64)], reference, grad=False, shape=(3, 2))]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = "scatter_set_nd: lhs has shape (4,) and rhs (3,), expected (4,) and (2,) for these indices"
        return [(((4,), (3,), np.array([[0, 1]])), {"shape": (4,)}, text)]


@register("hybrid.one_hot")
class OneHot(Composite):
    """``on_value`` at the place that the index names along a new last axis, ``off_value`` elsewhere."""

    INPUTS = ("indices",)
    depth: int = attribute(doc="length of the new axis", low=0)
    on_value: float = attribute(1.0, "the value at the index")
    off_value: float = attribute(0.0, "the value elsewhere")
    dtype: DType = attribute("float32", "dtype of the result")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        return shapes, [(*shapes[0], self.depth)]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [self.dtype]

    def index_sizes(self, shapes: Sequence[Shape]) -> Mapping[int, int]:
        return {0: self.depth}

    def eager(self, *arrays: Any) -> Any:
        (indices,) = arrays
        hot = indices.astype(np.int64)[..., None] == np.arange(self.depth)
        on, off = (np.asarray(v).astype(self.dtype) for v in (self.on_value, self.off_value))
        return np.where(hot, on, off)

    def decompose(self, F: Any, *inputs: Any) -> Any:
        (indices,) = inputs
        index = F.reshape_to(F.cast(indices, dtype="int64"), shape=(*indices.shape, 1))
        counter = F.reshape_to(F._arange(self.depth, dtype="int64"), shape=(*(1,) * len(indices.shape), self.depth))
        hot: Any = F.cast(F.equal(index, counter), dtype=self.dtype)
        if (self.on_value, self.off_value) == (1, 0):
            return hot
        return F.where(hot, F.full_like(hot, self.on_value), F.full_like(hot, self.off_value))

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        index = np.array([0, 2, 5, -1], np.float32)
        hot = np.array([[1, 0, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0]])
        return [
            Sample([index], lambda _: hot, grad=False, depth=3),
            Sample([index], lambda _: hot * 4 + 1, grad=False, depth=3, on_value=5, off_value=1, dtype="int32"),
            Sample([np.array([[1]])], lambda _: np.array([[[0, 1]]]), grad=False, depth=2),
        ]


@register("hybrid.where")
class Where(Elementwise):
    """x where the condition is not 0, else y.

    The three broadcast, but in :func:`where` a condition of one dimension selects rows.
    """

    INPUTS = ("condition", "x", "y")
    INPUT_DOCS: ClassVar = {
        "condition": "where it is not 0, x is taken; as an array of one dimension it has an element for each row of x",
        "x": "an array, or a number for all its elements",
        "y": "an array of the dtype of x, or a number; x and y are not both numbers",
    }
    SAME_DTYPE = False
    INPLACE = ((1, 0), (2, 0))

    def scalar(self, b: Any, condition: Any, x: Any, y: Any) -> Any:
        return b.select(condition != 0, x, y)

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        _, x, y = dtypes
        if x != y:
            raise DTypeError(f"where: x and y must have one dtype, but x is {x}, y is {y}; use .astype('{x}')")
        return dtypes, [x]

    def eager(self, *arrays: Any) -> Any:
        condition, x, y = arrays
        if x.dtype != y.dtype:
            self.infer_type([condition.dtype, x.dtype, y.dtype])
        return NUMPY.select(condition, x, y)

    def infer_storage_type(self, inputs: Sequence[Any]) -> Sequence[str] | None:
        stypes, shapes = [stype_of(x) for x in inputs], {x.shape for x in inputs}
        if stypes == ["csr", "default", "default"] and len(shapes) == 1:
            return ("default",)
        return super().infer_storage_type(inputs)

    def eager_sparse(self, *arrays: Any) -> Any:
        condition, x, y = arrays
        if stype_of(condition) != "csr" or stype_of(x) != "default":
            return super().eager_sparse(*arrays)
        self.infer_type([a.dtype for a in arrays])
        made, chosen = y.copy(), condition.data != 0
        places = condition.rows()[chosen], condition.indices[chosen]
        made[places] = x[places]
        return made

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, condition, _, _, _ = values
        zero = F.zeros_like(dy)
        return None, F.where(condition, dy, zero), F.where(condition, zero, dy)

    @classmethod
    def function(cls) -> Callable[..., Any] | None:
        return where

    @classmethod
    def from_nnvm(cls, attrs: Mapping[str, str]) -> Any:
        """A file does not say whether the condition selects rows."""
        return WhereByShapes.from_nnvm(attrs)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def choose(c: Any, x: Any, y: Any) -> Any:
            return (c != 0) * x + (c == 0) * y

        mask = np.array([[0, 1, 2], [1, 0, -1]], np.float32)
        return [
            Sample([mask, (2, 3), (2, 3)], choose),
            Sample([mask.astype("int32"), (2, 1), (3,)], choose),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = (
            "where: shapes do not broadcast: condition (2, 3), x (2, 3), y (2, 4); axis 1 has sizes [3, 4], "
            "which must be equal or 1"
        )
        return [(((2, 3), (2, 3), (2, 4)), {}, text)]


def where(condition: Any, x: Any, y: Any, out: Any = None, name: str | None = None) -> Any:  # noqa: ARG001
    """x where the condition is not 0, else y.

    The three broadcast; x or y may be a number. A condition of one dimension selects rows of x and y, and is as
    long as their first axis.
    """
    function, invoke = HOOKS.function, HOOKS.invoke
    composed = next((v for v in (condition, x, y) if hasattr(v, "entries")), None)
    if composed is not None:  # whose shape is not known yet
        return composed.choose(condition, x, y, out)
    # COMPAT(mxnet): numbers and broadcasting; MXNet wants arrays of one shape.
    if isinstance(x, int | float) and hasattr(y, "dtype"):
        x = function("full_like")(y, x)
    elif hasattr(x, "dtype") and isinstance(y, int | float):
        y = function("full_like")(x, y)
    if any(not is_known(getattr(v, "inferred_shape", ())) for v in (condition, x, y)):
        return invoke(WhereByShapes.bind(), (condition, x, y), out)
    shape: Shape = getattr(x, "shape", ())
    rows: Shape = getattr(condition, "shape", ())
    if (aligned := _of_rows(rows, shape)) != rows:
        condition = function("reshape_to")(condition, shape=aligned)
    return invoke(Where.bind(), (condition, x, y), out)


def _of_rows(condition: Shape, x: Shape) -> Shape:
    """The shape with which a condition broadcasts: one of a single axis selects rows of x, and fits their number."""
    if len(condition) != 1 or len(x) < 2 or condition == (1,):
        return condition
    if condition[0] != x[0]:
        raise ShapeError(
            f"where: a condition of one axis selects rows; it has {condition[0]} elements for the {x[0]} rows of x {x}"
        )
    return (*condition, *(1,) * (len(x) - 1))


def _of_condition(condition: Shape | None, x: Shape | None) -> Shape | None:
    """What a condition says of the shape of x: that of elements, of which 1 may broadcast, or the number of rows."""
    if condition is None or x is None:
        return None
    sizes = tuple(-1 if n == 1 else n for n in condition)
    return (*sizes, *(-1,) * (len(x) - 1)) if len(condition) == 1 else sizes


def _with_sizes(shape: Shape | None, other: Shape | None) -> Shape | None:
    """A shape with its unknown sizes taken from another one."""
    if shape is None or other is None or len(shape) != len(other):
        return shape
    return tuple(m if n == -1 else n for n, m in zip(shape, other, strict=True))


@register("hybrid.where_by_shapes")
class WhereByShapes(Composite):
    """where, for inputs whose shapes are not known where it is called: they say whether the condition selects rows"""

    NNVM = "where"
    INPUTS = ("condition", "x", "y")
    SAME_DTYPE = False

    def aligned(self, condition: Shape, x: Shape) -> Shape:
        """The shape with which the condition broadcasts."""
        return _of_rows(condition, x)

    def complete_shapes(self, shapes: list[Shape | None], outputs: list[Shape | None]) -> list[Shape | None]:
        """All have one shape, unless it is known that they do not."""
        given = [s for s in (*outputs, *shapes[1:]) if s is not None]
        known = next((s for s in given if -1 not in s), given[0] if given else None)
        condition, x, y = [known if s is None else s for s in shapes]
        chosen = [_with_sizes(s, known) for s in (x, y)]
        return [condition, *[_with_sizes(s, _of_condition(condition, s)) for s in chosen]]

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        condition, x, y = shapes
        return shapes, Where.bind().infer_shape([self.aligned(condition, x), x, y])[1]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return Where.bind().infer_type(dtypes)

    def complete_types(self, dtypes: list[DType | None]) -> list[DType | None]:
        """x and y have one dtype."""
        known = next((d for d in dtypes[1:] if d is not None), None)
        return [known if d is None else d for d in dtypes]

    def decompose(self, F: Any, *inputs: Any) -> Any:
        return F.where(*inputs)

    def eager(self, *arrays: Any) -> Any:
        condition, x, y = arrays
        return Where.bind().eager(condition.reshape(self.aligned(condition.shape, x.shape)), x, y)

    def gradient(self, F: Any, *values: Any) -> Any:
        return Where.bind().gradient(F, *values)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def choose(c: Any, x: Any, y: Any) -> Any:
            c = c[:, None] if c.ndim < x.ndim else c
            return (c != 0) * x + (c == 0) * y

        mask = np.array([[0, 1, 2], [1, 0, -1]], np.float32)
        return [
            Sample([np.array([0, 1], np.float32), (2, 3), (2, 3)], choose),
            Sample([mask.astype("int32"), (2, 3), (2, 3)], choose),
        ]


@register("hybrid.boolean_mask", "contrib.boolean_mask", "_contrib_boolean_mask")
class BooleanMask(Opaque):
    """The slices of data along ``axis`` for which ``index`` is not 0.

    Examples
    --------
    >>> x = mx.nd.array([[1, 2], [3, 4], [5, 6]])
    >>> print(mx.nd.boolean_mask(x, mx.nd.array([1, 0, 1])).asnumpy())
    [[1. 2.]
     [5. 6.]]
    """

    INPUTS = ("data", "index")
    SAME_DTYPE = False
    SHAPES_ARE_KNOWN = False
    axis: int = attribute(0, "the axis")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        data, index = shapes
        size = data[normalize_axis("boolean_mask", self.axis, len(data))]
        if index != (size,):
            raise ShapeError(
                f"boolean_mask: index must have shape ({size},), as axis {self.axis} of data {data}, got {index}"
            )
        raise MXNetError(
            "boolean_mask: the shape of the result depends on values, so it cannot be in a hybridized block; "
            "use F.where, or leave this block unhybridized"
        )

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [dtypes[0]]

    def eager(self, *arrays: Any) -> Any:
        data, index = arrays
        if not -data.ndim <= self.axis < data.ndim or index.shape != (data.shape[self.axis],):
            self.infer_shape([data.shape, index.shape])
        return np.compress(index != 0, data, self.axis)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, data, index, _ = values
        # Values are known: this runs eagerly only.
        places = F.array(np.flatnonzero(index.asnumpy()), dtype="int64")
        return F.take_scatter(dy, places, shape=data.shape, axis=self.axis % len(data.shape)), None

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = "boolean_mask: index must have shape (2,), as axis 0 of data (2, 3), got (3,)"
        axis = "boolean_mask: axis 2 is out of range for an input of 2 dimensions; it must be from -2 to 1"
        return [(((2, 3), (3,)), {}, text), (((2, 3), (3,)), {"axis": 2}, axis)]

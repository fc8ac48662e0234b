"""Gathers, and their gradients, which are scatter-adds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from hybridc.dialects.array.shape import normalize_axis
from hybridc.dialects.handwritten import ArraySpec, Kernel
from hybridc.dialects.kernels import add_rows as kernels
from hybridc.dialects.movement import MovementBuilder, bounded_index
from hybridc.dialects.operator import Bad, Composite, Elementwise, Movement, Sample, attribute, register
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.dtypes import is_half
from hybridc.errors import IndexRangeError, ShapeError
from hybridc.sparse_storage import RowSparseStorage, stype_of

MODES = ("clip", "wrap", "raise")


def as_index(indices: Any, size: int, mode: str) -> Any:
    """Indices of any dtype as integers from 0 to ``size - 1``, by the rule of ``mode``."""
    index = indices.astype(np.int64, copy=False)
    if mode == "wrap":
        return index % size if size else index
    if mode == "clip":
        return np.minimum(np.maximum(index, 0), max(size - 1, 0))
    wrong = index[(index < -size) | (index >= size)]
    if wrong.size:
        raise IndexRangeError(f"index {wrong.reshape(-1)[0]} is out of bounds for an axis of size {size}")
    return index % size if size else index


def gathered(title: str, data: Any, index: tuple[Any, ...]) -> Any:
    """``data[index]`` for integers along the first axes, which count from the end if negative."""
    try:
        return data[index]
    except IndexError as error:
        raise IndexRangeError(f"{title}: {error}") from error


def add_rows(rows: int, index: Any, values: Any) -> Any:
    """``out[index[i]] += values[i]`` into zeros of ``rows`` rows.

    Done on flat arrays, for which ``np.add.at`` has a fast loop, a bounded number of elements at a time.
    """
    width = math.prod(values.shape[1:])
    out = np.zeros((rows, *values.shape[1:]), values.dtype)
    flat = out.reshape(-1)
    column = np.array(range(width), np.int64)
    step = max((1 << 20) // max(width, 1), 1)
    for begin in range(0, index.size, step):
        places = index[begin : begin + step].reshape(-1, 1) * width + column
        np.add.at(flat, places.reshape(-1), values[begin : begin + step].reshape(-1))
    return out


def in_single(F: Any, x: Any, adding: Callable[[Any], Any]) -> Any:
    """``adding(x)``, accumulated in float32 if ``x`` has half precision: many elements may be added to one."""
    return F.cast(adding(F.cast(x, "float32")), x.dtype) if is_half(x.dtype) else adding(x)


class _Indexed(Movement):
    """A movement whose indices may have any dtype; the result has the data's."""

    SAME_DTYPE = False

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [dtypes[0]]


@register("hybrid.take")
class Take(_Indexed):
    """``a[…, indices, …]``: the slices of ``a`` along an axis that the indices name."""

    INPUTS = ("a", "indices")
    axis: int = attribute(0, "the axis")
    # COMPAT(mxnet): with mode="raise" negative indices count from the end, as in NumPy; MXNet rejects them.
    mode: str = attribute("clip", "what indices out of range mean", enum=MODES)

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        a, indices = shapes
        axis = normalize_axis("take", self.axis, len(a))
        if not a[axis] and math.prod(indices):
            raise ShapeError(f"take: nothing can be taken along axis {axis} of an array of shape {a}")
        return shapes, [(*a[:axis], *indices, *a[axis + 1 :])]

    def index_sizes(self, shapes: Sequence[Shape]) -> Mapping[int, int]:
        return {1: shapes[0][self.axis]} if self.mode == "clip" else {}

    def move(self, m: MovementBuilder[Any], *xs: Any) -> Any:
        if self.mode == "raise":  # only the host can
            return None
        a, indices = xs
        (shape,) = self.infer_shape([a.shape, indices.shape])[1]
        axis = self.axis % len(a.shape)
        end = axis + len(indices.shape)

        def element(b: Any, *i: Any) -> Any:
            chosen = bounded_index(b, b.load(indices, *i[axis:end]), a.shape[axis], self.mode)
            return b.load(a, *i[:axis], chosen, *i[end:])

        return m.generate(shape, a.dtype, element)

    def eager(self, *arrays: Any) -> Any:
        a, indices = arrays
        if not a.size:
            self.infer_shape([a.shape, indices.shape])
        return np.take(a, as_index(indices, a.shape[self.axis], self.mode), self.axis)

    def infer_storage_type(self, inputs: Sequence[Any]) -> Sequence[str] | None:
        a, indices = inputs
        if self.axis % len(a.shape) or stype_of(indices) != "default" or (stype_of(a) == "csr" and indices.ndim != 1):
            return None
        return ("csr",) if stype_of(a) == "csr" else ("default",)

    def eager_sparse(self, *arrays: Any) -> Any:
        a, indices = arrays
        return a.take_rows(as_index(indices, a.shape[0], self.mode))

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, a, indices, _ = values
        axis = self.axis % len(a.shape)
        return in_single(F, dy, lambda dy: F.take_scatter(dy, indices, shape=a.shape, axis=axis, mode=self.mode)), None

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        index = np.array([[0, 2], [1, 1]], np.int32)
        far = np.array([-1.0, 5, 1], np.float32)
        return [
            Sample([(3, 2), index], lambda a, i: a[i]),
            Sample([(2, 3, 2), index], lambda a, i: np.swapaxes(a, 0, 1)[i].transpose(2, 0, 1, 3), axis=1),
            Sample([(2, 3), far], lambda a, _: a[:, [0, 2, 1]], grad=False, axis=-1),
            Sample([(2, 3), far], lambda a, _: a[:, [2, 2, 1]], grad=False, axis=1, mode="wrap"),
            Sample([(3,), np.array([0, -1, 2, 0])], lambda a, i: a[i], mode="raise"),
            Sample([(2, 3), np.zeros((0,), np.int64)], lambda a, _: a[:0]),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = "index 3 is out of bounds for an axis of size 2"
        return [
            (((2, 3), np.array([3])), {"mode": "raise"}, text),
            (
                ((2, 3), np.array([0])),
                {"axis": 2},
                "take: axis 2 is out of range for an input of 2 dimensions; it must be from -2 to 1",
            ),
        ]


@register("hybrid.take_scatter")
class TakeScatter(_Indexed):
    """Zeros of ``shape``, to whose slices those of the input are added: the gradient of ``take``."""

    INPUTS = ("data", "indices")
    shape: Shape = attribute(doc="shape of the result")
    axis: int = attribute(0, "the axis", low=0)
    mode: str = attribute("clip", "what indices out of range mean", enum=MODES)

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        data, indices = shapes
        normalize_axis("take_scatter", self.axis, len(self.shape))
        expected = (*self.shape[: self.axis], *indices, *self.shape[self.axis + 1 :])
        if data != expected:
            raise ShapeError(f"take_scatter: data has shape {data}, expected {expected}")
        if not self.shape[self.axis] and math.prod(indices):
            raise ShapeError(
                f"take_scatter: nothing can be added along axis {self.axis} of a result of shape {self.shape}"
            )
        return shapes, [self.shape]

    def kernel(self, target: str, inputs: Sequence[ArraySpec], outputs: Sequence[ArraySpec]) -> Kernel | None:
        if self.mode == "raise":  # the host checks the indices
            return None
        data, indices = inputs
        return kernels.add_rows(target, data, indices, self.shape, self.axis, self.mode)

    def eager(self, *arrays: Any) -> Any:
        data, indices = arrays
        self.infer_shape([data.shape, indices.shape])
        before, size, after = self.shape[: self.axis], self.shape[self.axis], self.shape[self.axis + 1 :]
        index = as_index(indices, size, self.mode).reshape(-1)
        middle = data.reshape(math.prod(before), index.size, math.prod(after))
        rows = add_rows(size, index, middle.swapaxes(0, 1).reshape(index.size, -1 if data.size else 0))
        if not data.size:
            return np.zeros(self.shape, data.dtype)
        return np.ascontiguousarray(rows.reshape(size, middle.shape[0], -1).swapaxes(0, 1)).reshape(self.shape)

    def gradient(self, F: Any, *values: Any) -> Any:
        ddx, _, indices, _ = values
        return F.take(ddx, indices, axis=self.axis, mode=self.mode), None

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def reference(y: Any, _: Any) -> Any:
            out = np.zeros((2, 3))
            for column, target in enumerate((0, 2, 0, 0)):
                out[:, target] += y[:, column]
            return out

        return [Sample([(2, 4), np.array([0, 2, 0, 0])], reference, shape=(2, 3), axis=1)]


@register("hybrid.rows_scatter")
class RowsScatter(Composite):
    """Zeros of ``shape``, to whose rows those of the input are added, as a row_sparse array.

    It is the gradient of a table from which rows were taken. A compiled backward returns the rows and their numbers;
    elsewhere in a graph the operator is dense.
    """

    INPUTS = ("data", "indices")
    SAME_DTYPE = False
    shape: Shape = attribute(doc="shape of the result")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        data, indices = shapes
        if not self.shape or (not self.shape[0] and math.prod(indices)):
            raise ShapeError(f"rows_scatter: no row can be added to a result of shape {self.shape}")
        expected = (*indices, *self.shape[1:])
        if data != expected:
            raise ShapeError(f"rows_scatter: data has shape {data}, expected {expected}")
        return shapes, [self.shape]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [dtypes[0]]

    def decompose(self, F: Any, *inputs: Any) -> Any:
        data, indices = inputs
        return in_single(F, data, lambda data: F.take_scatter(data, indices, shape=self.shape))

    def rows_added(self, F: Any, *inputs: Any) -> tuple[Any, Any] | None:
        data, indices = inputs
        numbers = F.clip(F.cast(F.reshape(indices, shape=(-1,)), "int64"), 0, self.shape[0] - 1)
        return F.reshape_to(data, shape=(*numbers.shape, *self.shape[1:])), numbers

    def eager(self, *arrays: Any) -> Any:
        data, indices = arrays
        self.infer_shape([data.shape, indices.shape])
        index = as_index(indices, self.shape[0], "clip").reshape(-1)
        return RowSparseStorage.of_sum(self.shape, data.reshape(len(index), *self.shape[1:]), index)

    def gradient(self, F: Any, *values: Any) -> Any:
        ddx, _, indices, _ = values
        return F.take(ddx, indices), None

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def reference(y: Any, _: Any) -> Any:
            out = np.zeros((4, 2))
            for row, target in enumerate((3, 0, 3)):
                out[target] += y[row]
            return out

        return [Sample([(3, 2), np.array([3, 0, 3])], reference, shape=(4, 2), grad=False)]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        return [
            (((2,), (2,)), {"shape": ()}, "rows_scatter: no row can be added to a result of shape ()"),
            (((2, 3), (2,)), {"shape": (4, 2)}, "rows_scatter: data has shape (2, 3), expected (2, 2)"),
        ]


@register("hybrid.embedding", "Embedding", "contrib.SparseEmbedding")
class Embedding(Composite):
    """``weight[data]``: the row of the table for each integer; integers out of range are clipped."""

    NNVM = "Embedding"
    NNVM_ALIASES = ("_contrib_SparseEmbedding",)
    INPUTS = ("data", "weight")
    SAME_DTYPE = False
    input_dim: int = attribute(doc="number of rows of the table", low=1)
    output_dim: int = attribute(doc="length of a row", low=1)
    dtype: DType = attribute("float32", "for MXNet's signature; the weight's own dtype counts")
    sparse_grad: bool = attribute(False, "the table's gradient is row_sparse: its rows are those that data names")

    def complete_shapes(self, shapes: list[Shape | None], outputs: list[Shape | None]) -> list[Shape | None]:
        """The table has the size that the attributes say."""
        return [shapes[0], (self.input_dim, self.output_dim) if shapes[1] is None else shapes[1]]

    def complete_types(self, dtypes: list[DType | None]) -> list[DType | None]:
        """The table has the dtype of the attribute, whatever the integers have."""
        return [dtypes[0], self.dtype if dtypes[1] is None else dtypes[1]]

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        data, weight = shapes
        table = (self.input_dim, self.output_dim)
        if len(weight) != 2 or any(n not in (-1, m) for n, m in zip(weight, table, strict=True)):
            raise ShapeError(f"Embedding: weight must have shape {table} (input_dim, output_dim), got {weight}")
        return [data, table], [(*data, self.output_dim)]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [dtypes[1]]

    def index_sizes(self, shapes: Sequence[Shape]) -> Mapping[int, int]:
        return {0: self.input_dim}

    def eager(self, *arrays: Any) -> Any:
        data, weight = arrays
        self.infer_shape([data.shape, weight.shape])
        return np.take(weight, as_index(data, weight.shape[0], "clip"), 0)

    def infer_storage_type(self, inputs: Sequence[Any]) -> Sequence[str] | None:
        return ("default",) if [stype_of(x) for x in inputs] == ["default", "row_sparse"] else None

    def eager_sparse(self, *arrays: Any) -> Any:
        data, weight = arrays
        self.infer_shape([data.shape, weight.shape])
        return weight.take_rows(as_index(data, weight.shape[0], "clip"))

    def decompose(self, F: Any, *inputs: Any) -> Any:
        data, weight = inputs
        return F.take(weight, data)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, data, weight, _ = values
        if self.sparse_grad or weight.stype == "row_sparse":
            return None, F.rows_scatter(dy, data, shape=weight.shape)
        return None, in_single(F, dy, lambda dy: F.take_scatter(dy, data, shape=weight.shape))

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        words = np.array([[0, 2, 2], [1, 9, -1]], np.float32)
        return [
            Sample([words, (3, 4)], lambda _, w: w[np.array([[0, 2, 2], [1, 2, 0]])], input_dim=3, output_dim=4),
            Sample([np.array([1, 0], np.int64), (2, 1)], lambda i, w: w[i], input_dim=2, output_dim=1),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = "Embedding: weight must have shape (4, 2) (input_dim, output_dim), got (3, 2)"
        return [((np.array([0]), (3, 2)), {"input_dim": 4, "output_dim": 2}, text)]


@register("hybrid.pick", "choose_element_0index")
class Pick(_Indexed):
    """A gather of one element along an axis: ``data[i, index[i]]``."""

    INPUTS = ("data", "index")
    axis: int = attribute(-1, "the axis")
    keepdims: bool = attribute(False, "keep the axis, with size 1")
    mode: str = attribute("clip", "what indices out of range mean", enum=("clip", "wrap"))
    # COMPAT(mxnet): MXNet has no such attribute, and files do not say how to compile.
    NNVM_ATTRIBUTES: ClassVar[dict[str, str]] = {"made": ""}
    made: bool = attribute(False, "the data is made just before: compiled, the loops that make it pick, too")

    def decomposes(self) -> bool:
        """Whether a comparison of all elements is faster than a gather."""
        return self.made

    def decompose(self, F: Any, *inputs: Any) -> Any:
        data, index = inputs
        axis = self.axis % len(data.shape)
        dropped, kept = self._reduced(data.shape, axis)
        made = kept_at(F, data, F.reshape_to(index, shape=kept), axis, data.shape[axis], self.mode)
        made = F.sum(made, axis=axis, keepdims=True)
        return made if self.keepdims else F.reshape_to(made, shape=dropped or (1,))

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        data, index = shapes
        axis = normalize_axis("pick", self.axis, len(data))
        dropped, kept = self._reduced(data, axis)
        if index not in (dropped, kept):
            raise ShapeError(
                f"pick: index must have the shape of data {data} without axis {axis}, {dropped}, got {index}"
            )
        return shapes, [kept if self.keepdims else dropped or (1,)]

    def _reduced(self, data: Shape, axis: int) -> tuple[Shape, Shape]:
        return data[:axis] + data[axis + 1 :], (*data[:axis], 1, *data[axis + 1 :])

    def complete_shapes(self, shapes: list[Shape | None], outputs: list[Shape | None]) -> list[Shape | None]:
        """The index has the shape of the data without the axis."""
        data, index = shapes
        if data is None or index is not None:
            return shapes
        return [data, self._reduced(data, normalize_axis("pick", self.axis, len(data)))[0]]

    def index_sizes(self, shapes: Sequence[Shape]) -> Mapping[int, int]:
        return {1: shapes[0][self.axis]} if self.mode == "clip" else {}

    def move(self, m: MovementBuilder[Any], *xs: Any) -> Any:
        data, index = xs
        axis = self.axis % len(data.shape)
        kept = (*data.shape[:axis], 1, *data.shape[axis + 1 :])
        index = m.reshape(index, kept)

        def element(b: Any, *i: Any) -> Any:
            chosen = bounded_index(b, b.load(index, *i), data.shape[axis], self.mode)
            return b.load(data, *i[:axis], chosen, *i[axis + 1 :])

        picked = m.generate(kept, data.dtype, element)
        return m.reshape(picked, self.infer_shape([x.shape for x in xs])[1][0])

    def eager(self, *arrays: Any) -> Any:
        data, index = arrays
        shape = self.infer_shape([data.shape, index.shape])[1][0]
        axis = self.axis % data.ndim
        chosen = as_index(index, data.shape[axis], self.mode)
        chosen = chosen.reshape(*data.shape[:axis], 1, *data.shape[axis + 1 :])
        return np.take_along_axis(data, chosen, axis).reshape(shape)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, data, index, _ = values
        return F.pick_scatter(dy, index, shape=data.shape, axis=self.axis, mode=self.mode), None

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        index = np.array([2, 0], np.float32)
        far = np.array([5, -1], np.int32)
        return [
            Sample([(2, 3), index], lambda x, _: np.array([x[0, 2], x[1, 0]])),
            Sample([(2, 3), index], lambda x, _: np.array([[x[0, 2]], [x[1, 0]]]), keepdims=True),
            Sample([(2, 3), np.array([[0, 1, 0]])], lambda x, _: np.array([x[0, 0], x[1, 1], x[0, 2]]), axis=0),
            Sample([(2, 3), index], lambda x, _: np.array([x[0, 2], x[1, 0]]), made=True),
            Sample([(2, 3), far], lambda x, _: np.array([[x[0, 2]], [x[1, 2]]]), mode="wrap", keepdims=True, made=True),
            Sample([(2, 3), far], lambda x, _: np.array([x[0, 2], x[1, 0]]), grad=False),
            Sample([(2, 3), far], lambda x, _: np.array([x[0, 2], x[1, 2]]), grad=False, mode="wrap"),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = "pick: index must have the shape of data (2, 3) without axis 1, (2,), got (3,)"
        return [(((2, 3), np.array([0, 1, 1])), {}, text)]


@register("hybrid._keep_where_equal")
class KeepWhereEqual(Elementwise):
    """data where two arrays of indices are equal, else 0"""

    INPUTS = ("data", "counter", "index")
    SAME_DTYPE = False
    INPLACE = ((0, 0),)

    def scalar(self, b: Any, data: Any, counter: Any, index: Any) -> Any:
        return b.select(b.cast(counter, np.dtype("int64")) == b.cast(index, np.dtype("int64")), data, 0)

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [dtypes[0]]

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, _, counter, index, _ = values
        return F._keep_where_equal(dy, counter, index), None, None

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        counter, index, hot = np.arange(3), np.array([[2], [0]]), np.array([[0, 0, 1], [1, 0, 0]])

        def reference(x: Any, _: Any, __: Any) -> Any:
            return x * hot[: len(x)]

        return [
            Sample([(2, 1), counter, index], reference),
            Sample([(2, 3), counter, index], reference),
            Sample([(0, 3), counter, np.zeros((0, 1), np.int64)], reference),
        ]


def kept_at(F: Any, data: Any, index: Any, axis: int, size: int, mode: str) -> Any:
    """The data where its place along an axis of ``size`` is what ``index`` says, elsewhere 0."""
    index = F.cast(index, dtype="int64")  # exact for indices of every dtype
    index = F.minimum(F.maximum(index, 0), size - 1) if mode == "clip" else F.modulo(index, size)
    shape = tuple(size if i == axis else 1 for i in range(len(index.shape)))
    return F._keep_where_equal(data, F.reshape_to(F._arange(size, dtype="int64"), shape=shape), index)


@register("hybrid.pick_scatter")
class PickScatter(Composite):
    """Zeros of ``shape`` with the input's elements at the places ``index``: the gradient of ``pick``."""

    INPUTS = ("data", "index")
    SAME_DTYPE = False
    shape: Shape = attribute(doc="shape of the result")
    axis: int = attribute(-1, "the axis")
    mode: str = attribute("clip", "what indices out of range mean", enum=("clip", "wrap"))

    def kept(self) -> Shape:
        """The shape of the inputs with keepdims."""
        axis = self.axis % len(self.shape)
        return (*self.shape[:axis], 1, *self.shape[axis + 1 :])

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        normalize_axis("pick_scatter", self.axis, len(self.shape))
        kept, axis = self.kept(), self.axis % len(self.shape)
        allowed = (kept, kept[:axis] + kept[axis + 1 :], *([(1,)] if len(kept) == 1 else []))
        if any(s not in allowed for s in shapes):
            raise ShapeError(
                f"pick_scatter: inputs must have shape {kept}, or lack its axis {axis}, got shapes {shapes}"
            )
        return shapes, [self.shape]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [dtypes[0]]

    def eager(self, *arrays: Any) -> Any:
        data, index = arrays
        self.infer_shape([data.shape, index.shape])
        out = np.zeros(self.shape, data.dtype)
        chosen = as_index(index, self.shape[self.axis], self.mode).reshape(self.kept())
        np.put_along_axis(out, chosen, data.reshape(self.kept()), self.axis)
        return out

    def decompose(self, F: Any, *inputs: Any) -> Any:
        data, index = (F.reshape_to(x, shape=self.kept()) for x in inputs)
        return kept_at(F, data, index, self.axis % len(self.shape), self.shape[self.axis], self.mode)

    def gradient(self, F: Any, *values: Any) -> Any:
        ddx, data, index, _ = values
        picked = F.pick(ddx, index, axis=self.axis, keepdims=True, mode=self.mode)
        return F.reshape_to(picked, shape=data.shape), None

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def reference(y: Any, _: Any) -> Any:
            out = np.zeros((2, 3))
            out[0, 2], out[1, 0] = y
            return out

        return [Sample([(2,), np.array([2, 0], np.float32)], reference, shape=(2, 3))]


@register("hybrid.batch_take")
class BatchTake(Composite):
    """``a[i, indices[i]]`` for a matrix ``a``."""

    INPUTS = ("a", "indices")
    SAME_DTYPE = False

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        a, indices = shapes
        if len(a) != 2 or math.prod(indices) != a[0]:
            raise ShapeError(f"batch_take: a must be a matrix with a row for each index, got a {a}, indices {indices}")
        return shapes, [indices]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [dtypes[0]]

    def index_sizes(self, shapes: Sequence[Shape]) -> Mapping[int, int]:
        return {1: shapes[0][1]}

    def eager(self, *arrays: Any) -> Any:
        a, indices = arrays
        self.infer_shape([a.shape, indices.shape])
        chosen = as_index(indices, a.shape[1], "clip")
        return a[np.arange(a.shape[0]), chosen.reshape(-1)].reshape(indices.shape)

    def decompose(self, F: Any, *inputs: Any) -> Any:
        a, indices = inputs
        picked = F.pick(a, F.reshape_to(indices, shape=a.shape[:1]))
        return F.reshape_to(picked, shape=indices.shape)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, a, indices, _ = values
        dy, indices = (F.reshape_to(v, shape=a.shape[:1]) for v in (dy, indices))
        return F.pick_scatter(dy, indices, shape=a.shape), None

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [Sample([(2, 3), np.array([1, 2], np.int32)], lambda a, _: np.array([a[0, 1], a[1, 2]]))]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = "batch_take: a must be a matrix with a row for each index, got a (2, 3), indices (3,)"
        return [(((2, 3), np.array([0, 1, 1])), {}, text)]

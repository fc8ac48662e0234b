"""Operators on batches of sequences of different lengths, and cumulative sums."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from hybridc.dialects.array.shape import normalize_axis
from hybridc.dialects.movement import MovementBuilder
from hybridc.dialects.numpy_rules import COUNTS
from hybridc.dialects.operator import (
    Bad,
    Composite,
    Movement,
    Opaque,
    Operator,
    Sample,
    attribute,
    no_gradient,
    register,
)
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.dtypes import wide
from hybridc.errors import AttributeValueError, IndexRangeError, ShapeError


class _OfSequences(Operator):
    """Data and lengths; an attribute says whether lengths are given."""

    INPUTS = ("data", "sequence_length")
    OPTIONAL = 1
    SAME_DTYPE = False
    use_sequence_length: bool = False

    def input_names(self) -> tuple[str, ...]:
        return self.INPUTS if self.use_sequence_length else self.INPUTS[:1]

    def complete_types(self, dtypes: list[DType | None]) -> list[DType | None]:
        """Lengths have the dtype of the data, unless they have another."""
        return [dtypes[0] if d is None else d for d in dtypes]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [dtypes[0]]


class _Sequences(_OfSequences, Composite):
    """Data of shape ``(time, batch, …)``, with ``axis=1`` ``(batch, time, …)``, and lengths."""

    axis: int = 0

    def check(self) -> None:
        if self.axis not in (0, 1):
            raise AttributeValueError(f"{self.title()}: axis={self.axis} must be 0 or 1")

    def complete_shapes(self, shapes: list[Shape | None], outputs: list[Shape | None]) -> list[Shape | None]:
        """There is one length for each sequence."""
        data = shapes[0]
        if data is None or len(data) < 2:
            return shapes
        return [data, *[(data[1 - self.axis],) if s is None else s for s in shapes[1:]]]

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        data = shapes[0]
        if len(data) < 2:
            raise ShapeError(f"{self.title()}: data must have at least 2 dimensions, got shape {data}")
        if len(shapes) > 1 and shapes[1] != (data[1 - self.axis],):
            raise ShapeError(
                f"{self.title()}: sequence_length must have shape ({data[1 - self.axis]},), one number for "
                f"each sequence of data {data}, got {shapes[1]}"
            )
        return shapes, [self.result(data)]

    def result(self, data: Shape) -> Shape:
        """The shape of the result."""
        return data

    def steps(self, data: Any) -> Any:
        """The index of each time step, to be compared with lengths of shape :meth:`by_batch`."""
        shape = [1] * data.ndim
        shape[self.axis] = data.shape[self.axis]
        return np.array(range(data.shape[self.axis]), np.int64).reshape(shape)

    def by_batch(self, data: Any) -> Shape:
        """The shape in which the lengths broadcast against data."""
        return tuple(n if i == 1 - self.axis else 1 for i, n in enumerate(data.shape))


@register("hybrid.sequence_mask", "SequenceMask")
class SequenceMask(_Sequences):
    """data, with ``value`` in the steps after the end of each sequence; a length that is nan is 0"""

    use_sequence_length: bool = attribute(False, "whether lengths are given; else data is returned")
    value: float = attribute(0.0, "the value after the end")
    axis: int = attribute(0, "the time axis, 0 or 1")

    def eager(self, *arrays: Any) -> Any:
        data = arrays[0]
        self.infer_shape([a.shape for a in arrays])
        out = data.copy()
        if len(arrays) > 1:
            inside = self.steps(data) < np.trunc(arrays[1]).reshape(self.by_batch(data))
            out[np.broadcast_to(~inside, data.shape)] = np.asarray(self.value).astype(data.dtype)
        return out

    def decompose(self, F: Any, *inputs: Any) -> Any:
        data = inputs[0]
        if len(inputs) == 1:
            return F.identity(data)
        size = data.shape[self.axis]
        counter = F._arange(size, dtype="float32")
        counter = F.reshape_to(counter, shape=tuple(size if i == self.axis else 1 for i in range(len(data.shape))))
        lengths = F.reshape_to(F.trunc(F.cast(inputs[1], dtype="float32")), shape=self.by_batch(data))
        inside = F.broadcast_to(F.lesser(counter, lengths), shape=data.shape)
        return F.where(inside, data, F.full_like(data, self.value))

    def gradient(self, F: Any, *values: Any) -> Any:
        dy = values[0]
        if not self.use_sequence_length:
            return dy
        return F.SequenceMask(dy, values[2], use_sequence_length=True, axis=self.axis), None

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def reference(x: Any, n: Any) -> Any:
            out = x.copy()
            for i, length in enumerate(n):
                out[int(length) :, i] = 0
            return out

        lengths = np.array([1, 3], np.float32)
        return [
            Sample([(3, 2, 2)], lambda x: x),
            Sample([(3, 2, 2), lengths], reference, use_sequence_length=True),
            Sample(
                [(2, 3), np.array([1, 2], np.int32)],
                lambda x, _: np.array([[x[0, 0], -1, -1], [x[1, 0], x[1, 1], -1]]),
                use_sequence_length=True,
                value=-1,
                axis=1,
            ),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = (
            "SequenceMask: sequence_length must have shape (2,), one number for each sequence of data (3, 2), got (3,)"
        )
        return [
            (((3, 2), (3,)), {"use_sequence_length": True}, text),
            (((3, 2),), {"axis": 2}, "SequenceMask: axis=2 must be 0 or 1"),
        ]


def _last_steps(lengths: Any, steps: int) -> Any:
    """The index of the last step of each sequence."""
    wrong = np.flatnonzero(~((lengths >= 1) & (np.trunc(lengths) <= steps)))
    if wrong.size:
        # COMPAT(mxnet): for other lengths the result there is what lies in memory.
        n = int(wrong[0])
        raise IndexRangeError(
            f"SequenceLast: sequence_length[{n}] is {lengths[n].item():g}; it must be from 1 to {steps}, the steps of "
            "data"
        )
    return lengths.astype(np.int64) - 1


@register("hybrid._last_steps")
class LastSteps(Opaque):
    """The index of the last step of each sequence; the host, as it may raise."""

    INPUTS = ("sequence_length",)
    gradient = no_gradient

    steps: int = attribute(doc="the size of the time axis")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        return shapes, list(shapes)

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [np.dtype(np.int64)]

    def eager(self, *arrays: Any) -> Any:
        return _last_steps(arrays[0], self.steps)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [Sample([np.array([1, 3, 2.5])], lambda n: np.floor(n) - 1, grad=False, steps=3)]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = "SequenceLast: sequence_length[0] is 4; it must be from 1 to 3, the steps of data"
        return [((np.array([4]),), {"steps": 3}, text)]


@register("hybrid.sequence_last", "SequenceLast")
class SequenceLast(_Sequences):
    """The last step of each sequence; a length that is not from 1 to the number of steps is an error"""

    use_sequence_length: bool = attribute(False, "whether lengths are given; else all are as long as data")
    axis: int = attribute(0, "the time axis, 0 or 1")

    def result(self, data: Shape) -> Shape:
        if not data[self.axis]:
            raise ShapeError(f"{self.title()}: data of shape {data} has no step along axis {self.axis}")
        return (*data[: self.axis], *data[self.axis + 1 :])

    def eager(self, *arrays: Any) -> Any:
        data = arrays[0]
        self.infer_shape([a.shape for a in arrays])
        if len(arrays) == 1:
            return np.take(data, -1, self.axis)
        last = _last_steps(arrays[1], data.shape[self.axis])
        batch = np.array(range(len(last)), np.int64)
        return data[(last, batch) if self.axis == 0 else (batch, last)]

    def rows(self, data: Shape) -> Shape:
        """The shape of the data with all steps of all sequences along one axis."""
        return (data[0] * data[1], *data[2:])

    def places(self, F: Any, data: Any, lengths: Any) -> Any:
        """The rows that are the last steps."""
        last = F._last_steps(lengths, steps=data.shape[self.axis])
        batch = F._arange(lengths.shape[0], dtype="int64")
        return last * data.shape[1] + batch if self.axis == 0 else batch * data.shape[1] + last

    def decompose(self, F: Any, *inputs: Any) -> Any:
        data = inputs[0]
        if len(inputs) == 1:
            size = data.shape[self.axis]
            return F.reshape_to(
                F.slice_axis(data, axis=self.axis, begin=size - 1, end=size), shape=self.result(data.shape)
            )
        return F.take(F.reshape_to(data, shape=self.rows(data.shape)), self.places(F, *inputs))

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, data = values[:2]
        if self.use_sequence_length:
            rows = F.take_scatter(dy, self.places(F, data, values[2]), shape=self.rows(data.shape))
            return F.reshape_to(rows, shape=data.shape), None
        size = data.shape[self.axis]
        lead = (None,) * self.axis
        dy = F.expand_dims(dy, axis=self.axis)
        return F.slice_scatter(dy, shape=data.shape, begin=(*lead, size - 1), end=(*lead, size))

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        lengths = np.array([1, 3])
        return [
            Sample([(3, 2, 2)], lambda x: x[-1]),
            Sample([(2, 3)], lambda x: x[:, -1], axis=1),
            Sample([(3, 2, 2), lengths], lambda x, _: np.stack([x[0, 0], x[2, 1]]), use_sequence_length=True),
            Sample([(2, 3), lengths], lambda x, _: x[[0, 1], [0, 2]], use_sequence_length=True, axis=1),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = "SequenceLast: sequence_length[1] is 0; it must be from 1 to 3, the steps of data"
        return [
            (((3,),), {}, "SequenceLast: data must have at least 2 dimensions, got shape (3,)"),
            (((3, 2), np.array([3, 0])), {"use_sequence_length": True}, text),
        ]


@register("hybrid.sequence_reverse", "SequenceReverse")
class SequenceReverse(_OfSequences, Movement):
    """The steps of each sequence in reverse order; those after its end stay where they are

    A length beyond the axis is the axis's, one that is nan is 0.
    """

    use_sequence_length: bool = attribute(False, "whether lengths are given; else all are as long as data")
    axis: int = attribute(0, "the time axis: 0")

    def check(self) -> None:
        if self.axis != 0:
            raise AttributeValueError(f"SequenceReverse: axis={self.axis} must be 0, the time axis")

    def complete_shapes(self, shapes: list[Shape | None], outputs: list[Shape | None]) -> list[Shape | None]:
        """There is one length for each sequence."""
        data = shapes[0]
        if data is None or len(data) < 2:
            return shapes
        return [data, *[data[1:2] if s is None else s for s in shapes[1:]]]

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        data = shapes[0]
        if len(data) < 2 or (len(shapes) > 1 and shapes[1] != (data[1],)):
            got = " and sequence_length ".join(map(str, shapes))
            raise ShapeError(
                f"SequenceReverse: data must be (time, batch, ...) and sequence_length (batch,), got data {got}"
            )
        return shapes, [data]

    def move(self, m: MovementBuilder[Any], *xs: Any) -> Any:
        data, rank = xs[0], len(xs[0].shape)
        last = data.shape[0] - 1
        if len(xs) == 1:
            return m.slice(data, (last, *(0,) * (rank - 1)), (-1, *(1,) * (rank - 1)), data.shape)

        def element(b: Any, step: Any, sequence: Any, *rest: Any) -> Any:
            length = xs[1][sequence]
            # Limited as a float: what is beyond an integer's range has no meaning as one.
            # COMPAT(mxnet): there a length beyond the axis leaves the result undefined.
            limited = b.min(b.cast(length, np.dtype("float64")), float(last + 1))
            length = b.cast(b.select(length > 0, limited, 0.0), np.dtype("int64"))
            source = b.select(step < length, length - 1 - step, step)
            return b.load(data, source, sequence, *rest)

        return m.generate(data.shape, data.dtype, element)

    def eager(self, *arrays: Any) -> Any:
        data = arrays[0]
        self.infer_shape([a.shape for a in arrays])
        if len(arrays) == 1:
            return data[::-1].copy()
        limited = np.minimum(arrays[1].astype(np.float64), data.shape[0])
        lengths = np.where(limited > 0, limited, 0).astype(np.int64)
        step = np.array(range(data.shape[0]), np.int64).reshape(-1, 1)
        source = step + (step < lengths) * (lengths - 1 - 2 * step)
        return np.take_along_axis(data, source.reshape(*source.shape, *(1,) * (data.ndim - 2)), 0)

    def gradient(self, F: Any, *values: Any) -> Any:
        if not self.use_sequence_length:
            return F.SequenceReverse(values[0])
        return F.SequenceReverse(values[0], values[2], use_sequence_length=True), None

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def reference(x: Any, n: Any) -> Any:
            out = x.copy()
            for i, length in enumerate(n):
                out[:length, i] = x[:length, i][::-1]
            return out

        lengths = np.array([2, 3])
        return [
            Sample([(3, 2, 2)], lambda x: x[::-1]),
            Sample([(4, 2, 2), lengths], reference, use_sequence_length=True),
            Sample([(4, 2), lengths], reference, use_sequence_length=True),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = (
            "SequenceReverse: data must be (time, batch, ...) and sequence_length (batch,), "
            "got data (3, 2) and sequence_length (3,)"
        )
        return [(((3, 2), (3,)), {"use_sequence_length": True}, text)]


@register("hybrid.cumsum", "_np_cumsum")
class CumSum(Opaque):
    """The sums of all elements up to each one along an axis, or in the flattened array."""

    INPUTS = ("a",)
    INPUT_DOCS: ClassVar = {"a": "the array"}
    NUMPY = COUNTS
    axis: int | None = attribute(None, "the axis; the flattened array if None")
    dtype: DType | None = attribute(None, "dtype of the result; the input's by default")

    def complete_shapes(self, shapes: list[Shape | None], outputs: list[Shape | None]) -> list[Shape | None]:
        return list(outputs) if self.axis is not None and shapes[0] is None else shapes

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        (shape,) = shapes
        if self.axis is None or (not shape and self.axis in (0, -1)):  # NumPy takes a scalar for an array of one
            return shapes, [(math.prod(shape),)]
        normalize_axis(self.title(), self.axis, len(shape))
        return shapes, [shape]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [dtypes[0] if self.dtype is None else self.dtype]

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        dtype = x.dtype if self.dtype is None else self.dtype
        return np.cumsum(x, self.axis, wide(dtype)).astype(dtype, copy=False)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _ = values
        axis = 0 if self.axis is None else self.axis
        return F.reshape_to(F.flip(F.cumsum(F.flip(dy, axis=axis), axis=axis), axis=axis), shape=x.shape)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [
            Sample([(2, 3)], lambda x: np.array([x.reshape(-1)[: i + 1].sum() for i in range(6)])),
            Sample([(2, 3)], lambda x: np.stack([x[0], x[0] + x[1]]), axis=-2),
            Sample([(2, 0)], lambda x: x, axis=1),
            Sample([(2, 1)], lambda x: x, axis=1, dtype="float64"),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = "cumsum: axis 2 is out of range for an input of 2 dimensions; it must be from -2 to 1"
        return [(((2, 3),), {"axis": 2}, text)]


@register("hybrid.cumprod")
class CumProd(CumSum):
    """The products of all elements up to each one along an axis, or in the flattened array; 0 has the gradient nan"""

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        dtype = x.dtype if self.dtype is None else self.dtype
        return np.cumprod(x, self.axis, wide(dtype)).astype(dtype, copy=False)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, y = values
        axis = 0 if self.axis is None else self.axis
        following = F.flip(F.cumsum(F.flip(dy * y, axis=axis), axis=axis), axis=axis)
        return F.reshape_to(following, shape=x.shape) / x

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [
            Sample([(2, 3)], lambda x: np.array([x.reshape(-1)[: i + 1].prod() for i in range(6)]), low=0.5),
            Sample([(2, 3)], lambda x: np.stack([x[0], x[0] * x[1]]), axis=-2, low=0.5),
            Sample([(2, 0)], lambda x: x, axis=1),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = "cumprod: axis 2 is out of range for an input of 2 dimensions; it must be from -2 to 1"
        return [(((2, 3),), {"axis": 2}, text)]

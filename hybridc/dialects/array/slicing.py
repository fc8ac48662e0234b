"""Slicing, and its inverse: operators that read or write a strided slice of an array."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from hybridc.dialects.array.shape import View, axis_tuple, normalize_axis
from hybridc.dialects.movement import MovementBuilder
from hybridc.dialects.operator import Bad, Movement, Sample, attribute, register
from hybridc.dialects.operator_attribute import Axes, Axis, Index, Shape, Slice, Steps
from hybridc.errors import AttributeValueError, ShapeError
from hybridc.sparse_storage import CsrStorage

Key = tuple[slice, ...]


def slice_key(begin: Slice, end: Slice, step: Slice) -> Key:
    """The NumPy key of begin, end and step, one number an axis; a short ``step`` means 1."""
    steps = (*step, *(None,) * (len(begin) - len(step)))
    return tuple(slice(b, e, s) for b, e, s in zip(begin, end, steps, strict=True))


def require_key(title: str, begin: Slice, end: Slice, step: Slice) -> None:
    """Raise unless begin, end and step are a key."""
    if len(begin) != len(end) or len(step) > len(begin):
        raise AttributeValueError(f"{title}: begin={begin}, end={end} and step={step} must be equally long")
    if 0 in step:
        raise AttributeValueError(f"{title}: step={step} must not contain 0")


def part_of(size: int, key: slice) -> tuple[int, int, int]:
    """The first index, the step and the number of elements of a slice of an axis: as ``slice.indices`` says them.

    Python's own wants plain integers, and not sizes that are symbolic.
    """
    step = 1 if key.step is None else key.step
    low, high = (0, size) if step > 0 else (-1, size - 1)

    def limited(index: int | None, default: int) -> int:
        if index is None:
            return default
        index = index + size if index < 0 else index
        return low if index < low else min(index, high)

    begin, end = (low, high) if step > 0 else (high, low)
    begin, end = limited(key.start, begin), limited(key.stop, end)
    length = end - begin if step > 0 else begin - end
    return begin, step, -(-length // abs(step)) if length > 0 else 0


def sliced_shape(title: str, shape: Shape, key: Key) -> Shape:
    """The shape of ``x[key]``; an axis of unknown size (-1) has one afterwards, too."""
    if len(key) > len(shape):
        raise ShapeError(f"{title}: {len(key)} axes are sliced, but the input has shape {shape}")
    sizes = [-1 if n < 0 else part_of(n, k)[2] for k, n in zip(key, shape, strict=False)]
    return (*sizes, *shape[len(key) :])


def box_of(shape: Shape, key: Key) -> tuple[tuple[int, ...], tuple[int, ...], Shape]:
    """The first index, the step and the number of elements along each axis of ``x[key]``."""
    parts = [part_of(n, k) for k, n in zip(key, shape, strict=False)]
    parts += [(0, 1, n) for n in shape[len(key) :]]
    begin, step, sizes = zip(*parts, strict=True) if parts else ((), (), ())
    return begin, step, sizes


class _Slicing(View):
    """A slice with begin, end and step along the leading axes."""

    begin: Slice = attribute(doc="first index along each axis; None is the start")
    end: Slice = attribute(doc="end index along each axis; None is the end")
    step: Steps = attribute((), "step along each axis; negative goes backwards")

    def check(self) -> None:
        require_key(self.title(), self.begin, self.end, self.step)

    def key_of(self) -> Key:
        """The NumPy key."""
        return slice_key(self.begin, self.end, self.step)


@register("hybrid.slice", "crop")
class SliceBox(_Slicing):
    """The slice ``data[begin[0]:end[0]:step[0], begin[1]:end[1]:step[1], …]``."""

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        return shapes, [sliced_shape("slice", shapes[0], self.key_of())]

    def move(self, m: MovementBuilder[Any], *xs: Any) -> Any:
        return m.slice(xs[0], *box_of(xs[0].shape, self.key_of()))

    def eager(self, *arrays: Any) -> Any:
        return arrays[0][self.key_of()]

    def infer_storage_type(self, inputs: Sequence[Any]) -> Sequence[str] | None:
        forward = all(s in (None, 1) for s in self.step)
        return ("csr",) if forward and isinstance(inputs[0], CsrStorage) else None

    def eager_sparse(self, *arrays: Any) -> Any:
        (x,) = arrays
        (row, column), _, (rows, columns) = box_of(x.shape, self.key_of())
        return x.slice_rows(row, row + rows).slice_columns(column, column + columns)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _ = values
        return F.slice_scatter(dy, shape=x.shape, begin=self.begin, end=self.end, step=self.step)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [
            Sample([(2, 3, 4)], lambda x: x[0:, 1:3], begin=(0, 1), end=(None, 3)),
            Sample([(2, 3)], lambda x: x[:, -1::-1], begin=(None, -1), end=(None, None), step=(None, -1)),
            Sample([(2, 5)], lambda x: x[:, 4:0:-2], begin=(None, 4), end=(None, 0), step=(1, -2)),
            Sample([(2, 3)], lambda x: x[1:1], begin=1, end=1),
            Sample([(2, 3)], lambda x: x[0:1, 0:9], begin=(0, 0), end=(1, 9)),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        long: dict[str, Any] = {"begin": (0, 0, 0), "end": (1, 1, 1)}
        return [
            (((2, 3),), long, "slice: 3 axes are sliced, but the input has shape (2, 3)"),
            (
                ((2, 3),),
                {"begin": (0,), "end": (1, 2)},
                "slice: begin=(0,), end=(1, 2) and step=() must be equally long",
            ),
            (((2, 3),), {"begin": 0, "end": 1, "step": 0}, "slice: step=(0,) must not contain 0"),
        ]


@register("hybrid.basic_index")
class BasicIndex(_Slicing):
    """``data[key]`` for a key of integers, slices and None: slices, drops axes, then adds axes of size 1.

    ``squeeze`` names the axes of the sliced array that integers indexed; ``newaxis`` the axes of the result
    that None made.
    """

    squeeze: Axes = attribute((), "axes to drop after slicing")
    newaxis: Axes = attribute((), "positions of new axes in the result, in increasing order")

    def check(self) -> None:
        super().check()
        for name, axes in (("squeeze", self.squeeze), ("newaxis", self.newaxis)):
            if any(a >= b for a, b in itertools.pairwise(axes)):
                raise AttributeValueError(f"indexing: {name}={axes} must be in increasing order")

    def result_shape(self, shape: Shape) -> Shape:
        """The shape of the result; a single element has shape (1,)."""
        sliced = sliced_shape("indexing", shape, self.key_of())
        if any(not 0 <= i < len(sliced) or sliced[i] not in (1, -1) for i in self.squeeze):
            raise ShapeError(f"indexing: squeeze={self.squeeze} must name axes of size 1 of the box {sliced}")
        if any(not 0 <= i < len(sliced) - len(self.squeeze) + len(self.newaxis) for i in self.newaxis):
            raise ShapeError(f"indexing: newaxis={self.newaxis} names axes that the result does not have")
        out = [n for i, n in enumerate(sliced) if i not in self.squeeze]
        for position in self.newaxis:
            out.insert(position, 1)
        return tuple(out) or (1,)

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        return shapes, [self.result_shape(shapes[0])]

    def move(self, m: MovementBuilder[Any], *xs: Any) -> Any:
        (x,) = xs
        return m.reshape(m.slice(x, *box_of(x.shape, self.key_of())), self.result_shape(x.shape))

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        key: list[Any] = list(self.key_of())
        for axis in self.squeeze:
            begin, _, count = part_of(x.shape[axis], key[axis])
            if count != 1:
                self.result_shape(x.shape)
            key[axis] = begin
        rest = iter(key)
        # The result has the new axes at known places; all others take the next part of the key.
        full: list[Any] = []
        position = 0
        for part in rest:
            while position in self.newaxis:
                full.append(None)
                position += 1
            full.append(part)
            position += isinstance(part, slice)
        rank = x.ndim - len(self.squeeze) + len(self.newaxis)
        tail: list[Any] = [None if p in self.newaxis else slice(None) for p in range(position, rank)]
        result = x[(*full, *tail)]
        return result if result.ndim else x[(*key, None)]

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _ = values
        sliced = sliced_shape("indexing", x.shape, self.key_of())
        if dy.shape != sliced:
            dy = F.reshape_to(dy, shape=sliced)
        return F.slice_scatter(dy, shape=x.shape, begin=self.begin, end=self.end, step=self.step)

    def row(self, shape: Shape, output: int) -> tuple[int, int] | None:
        begin, _, sizes = box_of(shape, self.key_of())
        if len(self.squeeze) != 1 or self.newaxis or len(shape) < 2:
            return None
        (axis,) = self.squeeze
        whole = all(n == m for i, (n, m) in enumerate(zip(sizes, shape, strict=True)) if i != axis)
        return (axis, begin[axis]) if whole and not any(b for i, b in enumerate(begin) if i != axis) else None

    def for_nnvm(self, F: Any, *inputs: Any) -> Any:
        (x,) = inputs
        y = F.slice(x, begin=self.begin, end=self.end, step=self.step) if self.begin else x
        y = F.squeeze(y, axis=self.squeeze) if self.squeeze else y
        for position in self.newaxis:
            y = F.expand_dims(y, axis=position)
        return y

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        row: dict[str, Any] = {"begin": (1,), "end": (2,), "squeeze": (0,)}
        mixed: dict[str, Any] = {
            "begin": (1, None),
            "end": (2, None),
            "step": (None, -2),
            "squeeze": (0,),
            "newaxis": (0, 2),
        }
        return [
            Sample([(2, 3)], lambda x: x[1], **row),
            Sample([(2, 3, 4)], lambda x: x[1, None, ::-2, None][..., :], **mixed),
            Sample([(3,)], lambda x: x[1:2], **row),
            Sample([(2, 3)], lambda x: x[:, :, None], begin=(), end=(), newaxis=(2,)),
            Sample([(2, 3)], lambda x: x[0, 0:0], begin=(None, 0), end=(1, 0), squeeze=(0,)),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = "must name axes of size 1 of the box (0, 3)"
        return [(((2, 3),), {"begin": 2, "end": 3, "squeeze": 0}, f"indexing: squeeze=(0,) {text}")]


@register("hybrid.slice_scatter")
class SliceScatter(Movement):
    """Zeros of ``shape`` in which the slice ``[begin:end:step]`` is the input: the gradient of slicing."""

    shape: Shape = attribute(doc="shape of the result")
    begin: Slice = attribute(doc="first index along each axis")
    end: Slice = attribute(doc="end index along each axis")
    step: Steps = attribute((), "step along each axis")

    def check(self) -> None:
        require_key(self.title(), self.begin, self.end, self.step)

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        box = sliced_shape("slice_scatter", self.shape, slice_key(self.begin, self.end, self.step))
        if shapes[0] != box:
            raise ShapeError(f"slice_scatter: the box has shape {box}, the input has shape {shapes[0]}")
        return shapes, [self.shape]

    def move(self, m: MovementBuilder[Any], *xs: Any) -> Any:
        begin, step, _ = box_of(self.shape, slice_key(self.begin, self.end, self.step))
        return m.insert(xs[0], m.full(self.shape, xs[0].dtype, 0), begin, step)

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        self.infer_shape([x.shape])
        out = np.zeros(self.shape, x.dtype)
        out[slice_key(self.begin, self.end, self.step)] = x
        return out

    def eager_out(self, outs: Sequence[Any], *arrays: Any) -> None:
        outs[0][...] = 0
        outs[0][slice_key(self.begin, self.end, self.step)] = arrays[0]

    def placed(self) -> tuple[int, ...] | None:
        begin, step, _ = box_of(self.shape, slice_key(self.begin, self.end, self.step))
        return begin if all(n == 1 for n in step) else None

    def gradient(self, F: Any, *values: Any) -> Any:
        return F.slice(values[0], begin=self.begin, end=self.end, step=self.step)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def reference(x: Any) -> Any:
            out = np.zeros((3, 5))
            out[1:, ::-2] = x
            return out

        box: dict[str, Any] = {"begin": (1, None), "end": (None, None), "step": (1, -2)}
        return [Sample([(2, 3)], reference, shape=(3, 5), **box)]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = "slice_scatter: the box has shape (1, 3), the input has shape (2, 3)"
        return [(((2, 3),), {"shape": (2, 3), "begin": 0, "end": 1}, text)]


@register("hybrid.slice_assign")
class SliceAssign(Movement):
    """lhs, in which the slice ``[begin:end:step]`` is replaced by rhs (which broadcasts)."""

    NNVM = "_slice_assign"
    NNVM_ALIASES = ("_crop_assign",)
    INPUTS = ("lhs", "rhs")
    INPLACE = ((0, 0),)
    begin: Slice = attribute(doc="first index along each axis")
    end: Slice = attribute(doc="end index along each axis")
    step: Steps = attribute((), "step along each axis")

    def check(self) -> None:
        require_key(self.title(), self.begin, self.end, self.step)

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        lhs, rhs = shapes
        box = sliced_shape("slice_assign", lhs, slice_key(self.begin, self.end, self.step))
        if len(rhs) > len(box) or any(n not in (1, m) for n, m in zip(rhs[::-1], box[::-1], strict=False)):
            raise ShapeError(f"slice_assign: rhs {rhs} does not broadcast to the box {box} of lhs {lhs}")
        return shapes, [lhs]

    def move(self, m: MovementBuilder[Any], *xs: Any) -> Any:
        lhs, rhs = xs
        begin, step, shape = box_of(lhs.shape, slice_key(self.begin, self.end, self.step))
        return m.insert(m.broadcast(rhs, shape), lhs, begin, step)

    def eager(self, *arrays: Any) -> Any:
        lhs, rhs = arrays
        self.infer_shape([lhs.shape, rhs.shape])
        out = lhs.copy()
        out[slice_key(self.begin, self.end, self.step)] = rhs
        return out

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, _, rhs, _ = values
        part = F.slice(dy, begin=self.begin, end=self.end, step=self.step)
        hole = F.slice_assign(dy, F.zeros_like(part), begin=self.begin, end=self.end, step=self.step)
        return hole, part if rhs.shape == part.shape else F.sum_to(part, shape=rhs.shape)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def reference(x: Any, y: Any) -> Any:
            out = x.copy()
            out[1:, ::-2] = y
            return out

        box: dict[str, Any] = {"begin": (1, None), "end": (None, None), "step": (1, -2)}
        return [Sample([(3, 5), (2, 3)], reference, **box)]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = "slice_assign: rhs (2, 2) does not broadcast to the box (1, 3) of lhs (2, 3)"
        unlike = "slice_assign: begin=(0,), end=(1, 2) and step=() must be equally long"
        return [
            (((2, 3), (2, 2)), {"begin": 0, "end": 1}, text),
            (((2, 3), (2, 2)), {"begin": 0, "end": (1, 2)}, unlike),
        ]


@register("hybrid.slice_assign_scalar")
class SliceAssignScalar(Movement):
    """data, in which the slice ``[begin:end:step]`` is replaced by a scalar."""

    NNVM = "_slice_assign_scalar"
    NNVM_ALIASES = ("_crop_assign_scalar",)
    INPLACE = ((0, 0),)
    scalar: float = attribute(0.0, "the number")
    begin: Slice = attribute(doc="first index along each axis")
    end: Slice = attribute(doc="end index along each axis")
    step: Steps = attribute((), "step along each axis")

    def check(self) -> None:
        require_key(self.title(), self.begin, self.end, self.step)

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        sliced_shape("slice_assign_scalar", shapes[0], slice_key(self.begin, self.end, self.step))
        return shapes, [shapes[0]]

    def move(self, m: MovementBuilder[Any], *xs: Any) -> Any:
        (x,) = xs
        begin, step, shape = box_of(x.shape, slice_key(self.begin, self.end, self.step))
        return m.insert(m.full(shape, x.dtype, self.scalar), x, begin, step)

    def eager(self, *arrays: Any) -> Any:
        out = arrays[0].copy()
        out[slice_key(self.begin, self.end, self.step)] = self.scalar
        return out

    def gradient(self, F: Any, *values: Any) -> Any:
        return F.slice_assign_scalar(values[0], begin=self.begin, end=self.end, step=self.step)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        box: dict[str, Any] = {"begin": (1,), "end": (None,)}
        return [Sample([(3, 2)], lambda x: np.concatenate([x[:1], np.full((2, 2), 7.0)]), scalar=7, **box)]


@register("hybrid.slice_axis")
class SliceAxis(View):
    """``data[begin:end]`` along one axis."""

    axis: int = attribute(doc="the axis")
    begin: Index = attribute(doc="first index, negative from the end")
    end: Index | None = attribute(doc="end index, negative from the end; None is the end")

    def bounds(self, shape: Shape) -> tuple[int, int, int]:
        """The axis and the indices, all counted from 0."""
        axis = normalize_axis("slice_axis", self.axis, len(shape))
        n = shape[axis]
        begin = self.begin + n if self.begin < 0 else self.begin
        end = n if self.end is None else self.end + n if self.end < 0 else self.end
        if not (0 <= begin <= n and 0 <= end <= n and begin <= end):
            raise ShapeError(
                f"slice_axis: begin={self.begin}, end={self.end} do not fit axis {axis} of an input of shape "
                f"{shape}; they must be in order and from {-n} to {n}"
            )
        return axis, begin, end

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        (shape,) = shapes
        axis, begin, end = self.bounds(shape)
        return shapes, [(*shape[:axis], end - begin, *shape[axis + 1 :])]

    def move(self, m: MovementBuilder[Any], *xs: Any) -> Any:
        (x,) = xs
        axis, begin, end = self.bounds(x.shape)
        return m.slice(x, *box_of(x.shape, (slice(None),) * axis + (slice(begin, end),)))

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        axis, begin, end = self.bounds(x.shape)
        return x[(slice(None),) * axis + (slice(begin, end),)]

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _ = values
        axis, begin, end = self.bounds(x.shape)
        lead = (None,) * axis
        return F.slice_scatter(dy, shape=x.shape, begin=(*lead, begin), end=(*lead, end))

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [
            Sample([(2, 3)], lambda x: x[:, 1:], axis=1, begin=-2, end=None),
            Sample([(4, 3)], lambda x: x[1:-1], axis=-2, begin=1, end=-1),
            Sample([(2, 3)], lambda x: x[:, 1:1], axis=1, begin=1, end=1),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = (
            "slice_axis: begin=0, end=9 do not fit axis 1 of an input of shape (2, 3); "
            "they must be in order and from -3 to 3"
        )
        return [(((2, 3),), {"axis": 1, "begin": 0, "end": 9}, text)]


@register("hybrid.slice_like")
class SliceLike(View):
    """The first elements along each axis (or along ``axes``), as many as ``shape_like`` has."""

    INPUTS = ("data", "shape_like")
    SAME_DTYPE = False
    axes: Axes = attribute((), "the axes to cut; all by default")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        shape, like = shapes
        if not self.axes and len(shape) != len(like):
            raise ShapeError(
                f"slice_like: data {shape} and shape_like {like} must have as many dimensions, or give axes"
            )
        out = list(shape)
        for a in self.axes or range(len(shape)):
            axis = normalize_axis("slice_like", a, len(shape), "axes has")
            out[axis] = like[normalize_axis("slice_like", a, len(like), "axes has")]
            if out[axis] > shape[axis]:
                raise ShapeError(f"slice_like: along axis {axis} shape_like {like} is longer than data {shape}")
        return shapes, [tuple(out)]

    def eager(self, *arrays: Any) -> Any:
        x, like = arrays
        out = self.infer_shape([x.shape, like.shape])[1][0]
        return x[tuple(slice(0, n) for n in out)]

    def decomposes(self) -> bool:
        return True

    def decompose(self, F: Any, *inputs: Any) -> Any:
        out = self.infer_shape([x.shape for x in inputs])[1][0]
        return F.slice(inputs[0], begin=(0,) * len(out), end=out)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _, _ = values
        return F.slice_scatter(dy, shape=x.shape, begin=(0,) * len(x.shape), end=dy.shape), None

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [
            Sample([(2, 3, 4), (1, 2, 2)], lambda x, _: x[:1, :2, :2]),
            Sample([(2, 3, 4), (1, 2)], lambda x, _: x[:1, :2], axes=(0, 1)),
            Sample([(2, 3, 4), (9, 9, 3)], lambda x, _: x[..., :3], axes=-1),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        return [
            (((2, 3), (2, 4)), {}, "slice_like: along axis 1 shape_like (2, 4) is longer than data (2, 3)"),
            (
                ((2, 3), (2,)),
                {},
                "slice_like: data (2, 3) and shape_like (2,) must have as many dimensions, or give axes",
            ),
        ]


@register("hybrid.flip", "reverse")
class Flip(View):
    """The elements in reverse order along ``axis``."""

    KEEPS_SHAPE = True

    axis: Axis = attribute(doc="the axis or axes")

    def check(self) -> None:
        if self.axis is None:
            raise AttributeValueError("reverse: attribute axis must be an integer or a tuple of integers")

    def axes(self, rank: int) -> tuple[int, ...]:
        """The reversed axes, counted from 0."""
        return tuple(normalize_axis("reverse", a, rank) for a in axis_tuple(self.axis))

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        self.axes(len(shapes[0]))
        return shapes, [shapes[0]]

    def move(self, m: MovementBuilder[Any], *xs: Any) -> Any:
        (x,) = xs
        axes = self.axes(len(x.shape))
        return m.slice(
            x, *box_of(x.shape, tuple(slice(None, None, -1 if i in axes else 1) for i in range(len(x.shape))))
        )

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        return np.flip(x, self.axes(x.ndim))

    def gradient(self, F: Any, *values: Any) -> Any:
        return F.flip(values[0], axis=self.axis)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [
            Sample([(2, 3)], lambda x: x[:, ::-1], axis=1),
            Sample([(2, 3, 4)], lambda x: x[::-1, :, ::-1], axis=(0, -1)),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = "flip: axis 2 is out of range for an input of 2 dimensions; it must be from -2 to 1"
        return [(((2, 3),), {"axis": 2}, text.replace("flip", "reverse"))]

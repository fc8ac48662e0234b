"""Operators that give an array another shape and leave its elements in row-major order."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hybridc.dialects.movement import MovementBuilder
from hybridc.dialects.operator import Bad, Movement, Opaque, Sample, attribute, no_gradient, register
from hybridc.dialects.operator_attribute import Axes, Axis, DType, Shape
from hybridc.errors import ShapeError


def normalize_axis(title: str, axis: int, rank: int, what: str = "axis") -> int:
    """The axis counted from 0, or a :class:`ShapeError` that says what is allowed."""
    if not -rank <= axis < rank:
        raise ShapeError(
            f"{title}: {what} {axis} is out of range for an input of {rank} dimensions; "
            f"it must be from {-rank} to {rank - 1}"
        )
    return axis % rank


def axis_tuple(axis: Axis) -> tuple[int, ...]:
    """The axes as a tuple: none, one or several."""
    if axis is None:
        return ()
    return (axis,) if isinstance(axis, int) else axis


class _Infer:
    """Resolves a shape with MXNet's special numbers against the shape of the input."""

    def __init__(self, shape: Shape, wanted: Shape) -> None:
        self.shape = shape
        self.wanted = list(wanted)
        self.out: list[int] = []
        self.taken = 0

    def fail(self, why: str) -> ShapeError:
        return ShapeError(f"Reshape: shape={tuple(self.wanted)} does not fit an input of shape {self.shape}: {why}")

    def take(self) -> int:
        """The next dimension of the input."""
        if self.taken >= len(self.shape):
            raise self.fail(f"it asks for dimension {self.taken}, the input has {len(self.shape)} dimensions")
        self.taken += 1
        return self.shape[self.taken - 1]

    def split(self, first: int, second: int) -> None:
        """``-4, first, second``: one dimension becomes two."""
        size = self.take()
        if first == -1 and second == -1:
            raise self.fail("after -4 only one of the two numbers may be -1")
        known = second if first == -1 else first
        other = size // known if known else 0
        if first == -1:
            first = other
        elif second == -1:
            second = other
        if first * second != size:
            raise self.fail(f"-4 cannot split a dimension of {size} into {first} and {second}")
        self.out += [first, second]

    def run(self) -> Shape:
        wanted = iter(self.wanted)
        unknown = -1
        for number in wanted:
            if number > 0:
                self.out.append(number)
                self.taken += 1
            elif number == 0:
                self.out.append(self.take())
            elif number == -1:
                if unknown >= 0:
                    raise self.fail("only one dimension may be -1")
                unknown = len(self.out)
                self.out.append(-1)
                self.taken += 1
            elif number == -2:
                self.out += self.shape[self.taken :]
                self.taken = len(self.shape)
            elif number == -3:
                self.out.append(self.take() * self.take())
            elif number == -4:
                pair = next(wanted, None), next(wanted, None)
                if pair[0] is None or pair[1] is None:
                    raise self.fail("-4 must be followed by two numbers")
                self.split(*pair)  # pyright: ignore[reportArgumentType]
            else:
                raise self.fail(f"{number} has no meaning; the special numbers are 0, -1, -2, -3, -4")
        return self.fill(unknown)

    def fill(self, unknown: int) -> Shape:
        """Put the number that makes the sizes equal where -1 stands."""
        size = math.prod(self.shape)
        if unknown >= 0:
            rest = math.prod(n for i, n in enumerate(self.out) if i != unknown)
            self.out[unknown] = size // rest if rest else 0
        if math.prod(self.out) != size:
            raise self.fail(f"it would be {tuple(self.out)}, but the input has {size} elements")
        return tuple(self.out)


@functools.lru_cache(4096)
def resolve_shape(shape: Shape, wanted: Shape, reverse: bool = False) -> Shape:
    """The shape that ``wanted`` means for an input of ``shape``.

    0 copies a dimension, -1 is inferred, -2 copies all that are left, -3 merges two, -4 splits one into the
    two numbers that follow. ``reverse`` matches from the right.
    """
    if not reverse:
        return _Infer(shape, wanted).run()
    backwards = list(wanted[::-1])
    for i, number in enumerate(wanted):  # "-4, a, b" must still be read in this order
        if number == -4 and i + 2 < len(wanted):
            j = len(wanted) - 1 - i
            backwards[j - 2 : j + 1] = [-4, wanted[i + 2], wanted[i + 1]]
    return _Infer(shape[::-1], tuple(backwards)).run()[::-1]


class View(Movement):
    """A movement whose NumPy result is a view of the input."""

    def is_view(self) -> bool:
        return True


class RowMajor(View):
    """A view whose elements follow each other as those of the input do: only the shape is another."""

    REARRANGES = True
    LAYOUT = "row-major"

    def complete_shapes(self, shapes: list[Shape | None], outputs: list[Shape | None]) -> list[Shape | None]:
        """One unknown size of the input follows from the number of elements of the result."""
        (shape,), (out,) = shapes, outputs
        if shape is None or out is None or -1 in out or shape.count(-1) != 1:
            return shapes
        others, elements = -math.prod(shape), math.prod(out)
        if not others or elements % others:
            return shapes
        return [tuple(elements // others if n == -1 else n for n in shape)]

    def move(self, m: MovementBuilder[Any], *xs: Any) -> Any:
        return m.reshape(xs[0], self.infer_shape([xs[0].shape])[1][0])

    def eager_out(self, outs: Sequence[Any], *arrays: Any) -> None:
        np.copyto(outs[0].reshape(arrays[0].shape), arrays[0])  # of an array that is not row-major: one copy, not two

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _ = values
        return F.reshape_to(dy, shape=x.shape)


@register("hybrid.reshape", "Reshape")
class Reshape(RowMajor):
    """The same elements, in row-major order, in another shape.

    In ``shape``, 0 copies the input's dimension, -1 is inferred, -2 copies all remaining dimensions, -3
    merges two, and -4 splits one into the two numbers that follow it. ``target_shape`` is an older form, in which one
    0 is inferred; it counts if ``shape`` is empty.
    """

    shape: Shape = attribute((), "the new shape, which may contain 0, -1, -2, -3 and -4")
    reverse: bool = attribute(False, "match the special numbers from the right")
    target_shape: Axes = attribute((), "an older form of shape: one 0 is inferred")
    keep_highest: bool = attribute(False, "of target_shape: the first dimension is the input's")

    def result_shape(self, shape: Shape) -> Shape:
        """The shape of the result for an input of ``shape``."""
        if self.shape or not self.target_shape:
            return resolve_shape(shape, self.shape, self.reverse)
        target = (*shape[:1], *self.target_shape[1:]) if self.keep_highest else self.target_shape
        free = [i for i, n in enumerate(target) if n == 0 and not (i == 0 and self.keep_highest)]
        if len(free) == 1:
            rest = math.prod(n for i, n in enumerate(target) if i != free[0])
            target = tuple(math.prod(shape) // max(rest, 1) if i == free[0] else n for i, n in enumerate(target))
        if math.prod(target) != math.prod(shape):
            raise ShapeError(
                f"Reshape: target_shape={self.target_shape} does not fit an input of shape {shape}: it would be "
                f"{target}, but the input has {math.prod(shape)} elements"
            )
        return target

    def infers_partly(self) -> bool:
        return bool(self.shape) and all(n > 0 for n in self.shape)

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        if -1 in shapes[0] and self.infers_partly():
            return shapes, [self.shape]
        return shapes, [self.result_shape(shapes[0])]

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        return x.reshape(self.result_shape(x.shape))

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def to(*shape: int) -> Any:
            def reshape(x: Any) -> Any:
                return x.reshape(shape)

            return reshape

        return [
            Sample([(2, 6)], to(3, 4), shape=(3, 4)),
            Sample([(2, 3, 4)], to(2, 12), shape=(0, -1)),
            Sample([(2, 3, 4)], to(1, 2, 3, 4), shape=(-4, 1, 2, -2)),
            Sample([(2, 3, 4)], to(6, 4), shape=(-3, 4)),
            Sample([(2, 3, 4)], to(2, 1, 3, 4), shape=(2, -4, -1, 3, 4)),
            Sample([(10, 5, 4)], to(50, 4), shape=(-1, 0), reverse=True),
            Sample([(0, 3)], to(0, 3), shape=(-1, 3)),
            Sample([(1,)], to(1, 1, 1), shape="(1, 1, -1)"),
            Sample([(2, 3, 4)], to(2, 12), target_shape=(2, 0)),
            Sample([(2, 3, 4)], to(2, 4, 3), target_shape=(0, 0, 3), keep_highest=True),
            Sample([(2, 3, 4)], to(2, 12), shape=(0, -1), target_shape=(0, 0)),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        start = "Reshape: shape={} does not fit an input of shape (2, 3): "
        return [
            (
                ((2, 3),),
                {"shape": (4, 2)},
                start.format("(4, 2)") + "it would be (4, 2), but the input has 6 elements",
            ),
            (((2, 3),), {"shape": (-1, -1)}, start.format("(-1, -1)") + "only one dimension may be -1"),
            (
                ((2, 3),),
                {"shape": (2, 3, 0)},
                start.format("(2, 3, 0)") + "it asks for dimension 2, the input has 2 dimensions",
            ),
            (
                ((2, 3),),
                {"target_shape": (4, 0)},
                "Reshape: target_shape=(4, 0) does not fit an input of shape (2, 3): it would be (4, 1), but the input "
                "has 6 elements",
            ),
        ]


@register("hybrid.reshape_to")
class ReshapeTo(RowMajor):
    """The same elements, in row-major order, in exactly this shape: no number is special."""

    LINEAR = True

    shape: Shape = attribute(doc="the new shape")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        if math.prod(shapes[0]) != math.prod(self.shape):
            raise ShapeError(
                f"reshape_to: an input of shape {shapes[0]} has {math.prod(shapes[0])} elements, "
                f"shape={self.shape} has {math.prod(self.shape)}"
            )
        return shapes, [self.shape]

    def eager(self, *arrays: Any) -> Any:
        return arrays[0].reshape(self.shape)

    def for_nnvm(self, F: Any, *inputs: Any) -> Any:
        return F.reshape(*inputs, shape=self.shape)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [
            Sample([(2, 6)], lambda x: x.reshape(4, 3), shape=(4, 3)),
            Sample([(3, 0)], lambda x: x.reshape(0, 5), shape=(0, 5)),
        ]


@register("hybrid.reshape_like")
class ReshapeLike(View):
    """The elements of lhs in the shape of rhs; begin and end limit what is replaced."""

    INPUTS = ("lhs", "rhs")
    SAME_DTYPE = False
    lhs_begin: int | None = attribute(None, "first dimension of lhs to replace")
    lhs_end: int | None = attribute(None, "end of the dimensions of lhs to replace")
    rhs_begin: int | None = attribute(None, "first dimension of rhs to take")
    rhs_end: int | None = attribute(None, "end of the dimensions of rhs to take")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        lhs, rhs = shapes
        begin, end, _ = slice(self.lhs_begin, self.lhs_end).indices(len(lhs))
        out = lhs[:begin] + rhs[self.rhs_begin : self.rhs_end] + lhs[end:]
        if math.prod(out) != math.prod(lhs):
            raise ShapeError(
                f"reshape_like: lhs of shape {lhs} has {math.prod(lhs)} elements and cannot take the shape {out} of rhs"
            )
        return shapes, [out]

    def eager(self, *arrays: Any) -> Any:
        lhs, rhs = arrays
        return lhs.reshape(self.infer_shape([lhs.shape, rhs.shape])[1][0])

    def decomposes(self) -> bool:
        return True

    def decompose(self, F: Any, *inputs: Any) -> Any:
        shapes = [x.shape for x in inputs]
        return F.reshape_to(inputs[0], shape=self.infer_shape(shapes)[1][0])

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, lhs, _, _ = values
        return F.reshape_to(dy, shape=lhs.shape), None

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [
            Sample([(6,), (2, 3)], lambda x, _: x.reshape(2, 3)),
            Sample(
                [(30, 7), (15, 2, 4)],
                lambda x, _: x.reshape(15, 2, 7),
                lhs_begin=0,
                lhs_end=1,
                rhs_begin=0,
                rhs_end=2,
            ),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        return [
            (
                ((5,), (2, 3)),
                {},
                "reshape_like: lhs of shape (5,) has 5 elements and cannot take the shape (2, 3) of rhs",
            )
        ]


@register("hybrid.expand_dims")
class ExpandDims(RowMajor):
    """A new axis of size 1 at position ``axis``."""

    LAYOUT = "same"
    axis: int = attribute(doc="position of the new axis, negative from the end of the result")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        (shape,) = shapes
        rank = len(shape) + 1
        if not -rank <= self.axis < rank:
            raise ShapeError(
                f"expand_dims: axis {self.axis} is out of range for an input of shape {shape}; "
                f"it must be from {-rank} to {rank - 1}"
            )
        axis = self.axis % rank
        return shapes, [(*shape[:axis], 1, *shape[axis:])]

    def complete_shapes(self, shapes: list[Shape | None], outputs: list[Shape | None]) -> list[Shape | None]:
        (shape,), (out,) = shapes, outputs
        if shape is not None or not out or not -len(out) <= self.axis < len(out):
            return super().complete_shapes(shapes, outputs)
        axis = self.axis % len(out)
        return [(*out[:axis], *out[axis + 1 :])]

    def eager(self, *arrays: Any) -> Any:
        return np.expand_dims(arrays[0], self.axis)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [
            Sample([(2, 3)], lambda x: x[:, None], axis=1),
            Sample([(2, 3)], lambda x: x[..., None], axis=-1),
            Sample([(0,)], lambda x: x[None], axis=0),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = "expand_dims: axis 4 is out of range for an input of shape (2, 3); it must be from -3 to 2"
        return [(((2, 3),), {"axis": 4}, text)]


@register("hybrid.squeeze")
class Squeeze(RowMajor):
    """Without the axes of size 1, or without the named ones; if none is left the shape is (1,)."""

    LAYOUT = "same"
    axis: Axis = attribute(None, "the axes to drop; all of size 1 by default")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        (shape,) = shapes
        axes = {normalize_axis("squeeze", a, len(shape)) for a in axis_tuple(self.axis)}
        for a in axes:
            if shape[a] != 1:
                raise ShapeError(f"squeeze: axis {a} of an input of shape {shape} has size {shape[a]}, not 1")
        if self.axis is None:
            axes = {i for i, n in enumerate(shape) if n == 1}
        return shapes, [tuple(n for i, n in enumerate(shape) if i not in axes) or (1,)]

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        return x.reshape(self.infer_shape([x.shape])[1][0])

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [
            Sample([(1, 2, 1)], lambda x: x[0, :, 0]),
            Sample([(1, 2, 1)], lambda x: x[..., 0], axis=-1),
            Sample([(1, 1)], lambda x: x[0]),
            Sample([(1, 1, 3)], lambda x: x[0, 0], axis=(0, 1)),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        return [(((1, 2),), {"axis": 1}, "squeeze: axis 1 of an input of shape (1, 2) has size 2, not 1")]


@register("hybrid.flatten", "Flatten")
class Flatten(RowMajor):
    """All axes but the first merged into one: ``(n, a, b)`` becomes ``(n, a * b)``."""

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        (shape,) = shapes
        return shapes, [(shape[0], math.prod(shape[1:])) if shape else (1, 1)]

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        return x.reshape(self.infer_shape([x.shape])[1][0])

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [
            Sample([(2, 3, 4)], lambda x: x.reshape(2, 12)),
            Sample([(3,)], lambda x: x.reshape(3, 1)),
            Sample([(0, 3, 2)], lambda x: x.reshape(0, 6)),
        ]


class _FromShape(Opaque):
    """Integers that follow from the input's shape alone."""

    gradient = no_gradient

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [np.dtype("int64")]


@register("hybrid.shape_array")
class ShapeArray(_FromShape):
    """The input's shape as an int64 array."""

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        return shapes, [(len(shapes[0]),)]

    def eager(self, *arrays: Any) -> Any:
        return np.array(arrays[0].shape, np.int64)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [Sample([(2, 3)], lambda _: np.array([2, 3]), grad=False)]


@register("hybrid.size_array")
class SizeArray(_FromShape):
    """The input's number of elements as an int64 array of one element."""

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        return shapes, [(1,)]

    def eager(self, *arrays: Any) -> Any:
        return np.array([arrays[0].size], np.int64)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [Sample([(2, 3)], lambda _: np.array([6]), grad=False)]

"""Operators that join arrays, cut them into pieces, or repeat them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from hybridc.dialects.array.shape import normalize_axis
from hybridc.dialects.array.shape_rules import filled_shapes
from hybridc.dialects.array.slicing import part_of
from hybridc.dialects.movement import MovementBuilder
from hybridc.dialects.operator import Bad, Movement, Sample, attribute, register
from hybridc.dialects.operator_attribute import Axes, Shape, parse_shape
from hybridc.errors import AttributeValueError, ShapeError
from hybridc.sparse_storage import CsrStorage


def box(axis: int, begin: int, end: int) -> dict[str, Any]:
    """``begin`` and ``end`` of a slice along one axis, as attributes of ``slice``."""
    lead = (None,) * axis
    return {"begin": (*lead, begin), "end": (*lead, end)}


@register("hybrid.concat", "Concat")
class Concat(Movement):
    """The inputs one after the other along an axis."""

    REARRANGES = True
    NNVM_COUNT = "num_args"
    VARIADIC = True
    # COMPAT(mxnet): negative axes count from the end; MXNet 1.9.1 fails on them.
    dim: int = attribute(1, "the axis")
    num_args: int | None = attribute(None, "how many inputs there are; counted, so it need not be given")

    def complete_shapes(self, shapes: list[Shape | None], outputs: list[Shape | None]) -> list[Shape | None]:
        """All have the sizes of the result, except along the axis."""
        out = outputs[0]
        if out is None or not -len(out) <= self.dim < len(out):
            return shapes
        axis = self.dim % len(out)
        sizes = (*out[:axis], -1, *out[axis + 1 :])
        return [
            sizes if s is None else s if len(s) != len(out) else tuple(map(max, s, sizes))  # what is unknown is -1
            for s in shapes
        ]

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        first = shapes[0]
        axis = normalize_axis("Concat", self.dim, len(first), "dim")
        if any(len(s) != len(first) for s in shapes):
            raise self._misfit(axis, shapes)
        sizes = [max(sizes) for sizes in zip(*shapes, strict=True)]  # what is unknown is -1
        filled = [
            tuple(sizes[i] if n == -1 and i != axis else n for i, n in enumerate(s)) if -1 in s else s for s in shapes
        ]
        if any(n != sizes[i] and i != axis for s in filled for i, n in enumerate(s)):
            raise self._misfit(axis, shapes)
        joined = [s[axis] for s in filled]
        sizes[axis] = -1 if -1 in joined else sum(joined)
        return filled, [tuple(sizes)]

    def _misfit(self, axis: int, shapes: list[Shape]) -> ShapeError:
        got = ", ".join(map(str, shapes))
        return ShapeError(f"{self.title()}: the inputs must have equal shapes except along axis {axis}, got {got}")

    def move(self, m: MovementBuilder[Any], *xs: Any) -> Any:
        return m.concat(xs, self.dim % len(xs[0].shape))

    def eager(self, *arrays: Any) -> Any:
        return np.concatenate(arrays, axis=self.dim)

    def eager_out(self, outs: Sequence[Any], *arrays: Any) -> None:
        np.concatenate(arrays, axis=self.dim, out=outs[0])

    def infer_storage_type(self, inputs: Sequence[Any]) -> Sequence[str] | None:
        of_rows = self.dim % len(inputs[0].shape) == 0 and all(isinstance(x, CsrStorage) for x in inputs)
        return ("csr",) if of_rows else None

    def eager_sparse(self, *arrays: Any) -> Any:
        return CsrStorage.joined(arrays)

    def joined_axis(self, rank: int) -> int | None:
        return self.dim % rank

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, *xs = values[:-1]
        axis = self.dim % len(dy.shape)
        grads: list[Any] = []
        begin = 0
        for x in xs:
            end = begin + x.shape[axis]
            grads.append(F.slice(dy, **box(axis, begin, end)))
            begin = end
        return tuple(grads)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [
            Sample([(2, 3), (2, 1)], lambda x, y: np.hstack([x, y])),
            Sample([(2, 3), (0, 3), (1, 3)], lambda x, y, z: np.vstack([x, y, z]), dim=0),
            Sample([(2, 3), (2, 3)], lambda x, y: np.hstack([x, y]), dim=-1, num_args=2),
            Sample([(2, 3)], lambda x: x),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = "Concat: the inputs must have equal shapes except along axis 0, got (2, 3), (2, 4)"
        return [(((2, 3), (2, 4)), {"dim": 0}, text)]


@register("hybrid.rnn_param_concat", "_rnn_param_concat")
class RnnParamConcat(Concat):
    """``Concat`` of the parameters of an RNN, of which some, of equal size, may be unknown"""

    NNVM = "_rnn_param_concat"

    def complete_shapes(self, shapes: list[Shape | None], outputs: list[Shape | None]) -> list[Shape | None]:
        """The unknown sizes along the axis are equal parts of what the others leave of the result's.

        There are two in a layer of both directions.
        """
        (out,) = outputs
        open_ = [i for i, s in enumerate(shapes) if s is None or -1 in s]
        if out is None or -1 in out or not open_:
            return shapes
        axis = normalize_axis(self.title(), self.dim, len(out), "dim")
        rest = out[axis] - sum(s[axis] for s in shapes if s is not None and -1 not in s)
        if rest % len(open_):
            return shapes
        size = rest // len(open_)
        return [(*out[:axis], size, *out[axis + 1 :]) if i in open_ else s for i, s in enumerate(shapes)]

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [Sample([(4,), (2,)], lambda x, y: np.concatenate([x, y]), dim=0)]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = "rnn_param_concat: the inputs must have equal shapes except along axis 1, got (2, 3), (3, 3)"
        return [(((2, 3), (3, 3)), {}, text)]


@register("hybrid.stack")
class Stack(Movement):
    """The inputs, which have one shape, along a new axis."""

    REARRANGES = True
    NNVM_COUNT = "num_args"
    VARIADIC = True
    axis: int = attribute(0, "position of the new axis")
    num_args: int | None = attribute(None, "how many inputs there are; counted, so it need not be given")

    def complete_shapes(self, shapes: list[Shape | None], outputs: list[Shape | None]) -> list[Shape | None]:
        """All have one shape: that of the result, without the new axis."""
        out = outputs[0]
        if out is not None and -len(out) <= self.axis < len(out):
            axis = self.axis % len(out)
            out = out[:axis] + out[axis + 1 :]
            shapes = [out if s is None else s for s in shapes]
        return shapes

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        shapes = filled_shapes(shapes)
        first = shapes[0]
        if any(s != first for s in shapes):
            raise ShapeError(f"stack: the inputs must have one shape, got {', '.join(map(str, shapes))}")
        axis = normalize_axis("stack", self.axis, len(first) + 1)
        return shapes, [(*first[:axis], len(shapes), *first[axis:])]

    def move(self, m: MovementBuilder[Any], *xs: Any) -> Any:
        shape = xs[0].shape
        axis = self.axis % (len(shape) + 1)
        return m.concat([m.reshape(x, (*shape[:axis], 1, *shape[axis:])) for x in xs], axis)

    def eager(self, *arrays: Any) -> Any:
        return np.stack(arrays, axis=self.axis)

    def eager_out(self, outs: Sequence[Any], *arrays: Any) -> None:
        np.stack(arrays, axis=self.axis, out=outs[0])

    def joined_axis(self, rank: int) -> int | None:
        return self.axis % rank

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, *xs = values[:-1]
        axis = self.axis % len(dy.shape)
        parts = [F.slice(dy, **box(axis, i, i + 1)) for i in range(len(xs))]
        return tuple(F.reshape_to(p, shape=x.shape) for p, x in zip(parts, xs, strict=True))

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [
            Sample([(2, 3), (2, 3)], lambda x, y: np.stack([x, y])),
            Sample([(2, 3), (2, 3)], lambda x, y: np.stack([x, y], -1), axis=-1),
            Sample([(4,)], lambda x: x[:, None], axis=1),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        return [(((2, 3), (3, 2)), {}, "stack: the inputs must have one shape, got (2, 3), (3, 2)")]


class _SplitOperator(Movement):
    """Pieces along ``axis`` between the bounds that a subclass gives."""

    axis: int = 1
    squeeze_axis: bool = False

    def bounds(self, size: int) -> list[int]:
        """The indices at which slices begin, and at which the last ends."""
        raise ShapeError(f"{self.title()}: {size}")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        (shape,) = shapes
        axis = normalize_axis(self.title(), self.axis, len(shape))
        out: list[Shape] = []
        if shape[axis] < 0:  # an unknown size has unknown pieces
            piece = () if self.squeeze_axis else (-1,)
            return shapes, [(*shape[:axis], *piece, *shape[axis + 1 :])] * self.num_outputs()
        bounds = self.bounds(shape[axis])
        for begin, end in pairwise(bounds):
            size = max(end - begin, 0)
            if self.squeeze_axis and size != 1:
                raise ShapeError(
                    f"{self.title()}: squeeze_axis needs slices of size 1, axis {axis} of {shape} gives {size}"
                )
            out.append((*shape[:axis], *(() if self.squeeze_axis else (size,)), *shape[axis + 1 :]))
        return shapes, out

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        shapes = self.infer_shape([x.shape])[1]
        axis = self.axis % x.ndim
        lead = (slice(None),) * axis
        bounds = self.bounds(x.shape[axis])
        pairs = pairwise(bounds)
        pieces = tuple(x[(*lead, slice(b, e))].reshape(s) for (b, e), s in zip(pairs, shapes, strict=True))
        return pieces[0] if len(pieces) == 1 else pieces

    def decomposes(self) -> bool:
        return True

    def decompose(self, F: Any, *inputs: Any) -> Any:
        (x,) = inputs
        axis = self.axis % len(x.shape)
        bounds = self.bounds(x.shape[axis])
        pieces = [F.slice_axis(x, axis=axis, begin=b, end=max(b, e)) for b, e in pairwise(bounds)]
        if not self.squeeze_axis:
            return tuple(pieces)
        shapes = self.infer_shape([x.shape])[1]  # of a vector's pieces (), which squeeze does not give
        return tuple(F.reshape_to(p, shape=s) for p, s in zip(pieces, shapes, strict=True))

    def row(self, shape: Shape, output: int) -> tuple[int, int] | None:
        axis = self.axis % len(shape)
        return (axis, self.bounds(shape[axis])[output]) if self.squeeze_axis and len(shape) > 1 else None

    def gradient(self, F: Any, *values: Any) -> Any:
        n = self.num_outputs()
        dys, x = values[:n], values[n]
        axis = self.axis % len(x.shape)
        if self.squeeze_axis:
            dys = [F.expand_dims(dy, axis=axis) for dy in dys]
        return F.concat(*dys, dim=axis)


@register("hybrid.split", "SliceChannel")
class Split(_SplitOperator):
    """``num_outputs`` equal pieces along an axis; with ``squeeze_axis``, pieces of size 1 lose it."""

    num_outputs_: int = attribute(doc="how many pieces", low=1)
    axis: int = attribute(1, "the axis")
    squeeze_axis: bool = attribute(False, "drop the axis, along which each piece must have size 1")

    def num_outputs(self) -> int:
        return self.num_outputs_

    def output_names(self) -> tuple[str, ...]:
        return tuple(f"output{i}" for i in range(self.num_outputs_))

    def bounds(self, size: int) -> list[int]:
        if size % self.num_outputs_:
            raise ShapeError(f"SliceChannel: num_outputs={self.num_outputs_} does not divide an axis of size {size}")
        step = size // self.num_outputs_
        return [i * step for i in range(self.num_outputs_ + 1)]

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [
            Sample([(2, 6)], lambda x: (x[:, :2], x[:, 2:4], x[:, 4:]), num_outputs=3),
            Sample([(2, 3)], lambda x: (x[0], x[1]), num_outputs=2, axis=-2, squeeze_axis=True),
            Sample([(2,)], lambda x: (x[0], x[1]), num_outputs=2, axis=0, squeeze_axis=True),
            Sample([(2, 3)], lambda x: x, num_outputs=1),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        return [
            (((2, 3),), {"num_outputs": 2}, "SliceChannel: num_outputs=2 does not divide an axis of size 3"),
            (
                ((2, 4),),
                {"num_outputs": 2, "squeeze_axis": True},
                "SliceChannel: squeeze_axis needs slices of size 1, axis 1 of (2, 4) gives 2",
            ),
        ]


@register("hybrid.split_v2", "_split_v2")
class SplitV2(_SplitOperator):
    """Pieces along an axis: so many equal ones, or cut before each of the given indices."""

    NNVM = "_split_v2"
    NNVM_ATTRIBUTES: ClassVar[dict[str, str]] = {"indices_or_sections": ""}
    NNVM_PARAMETERS = ("indices", "axis", "squeeze_axis", "sections")
    INPUTS = ("ary",)
    INPUT_DOCS: ClassVar = {"ary": "the array that is cut"}
    indices_or_sections: object = attribute(doc="number of equal pieces, or the indices where to cut")
    axis: int = attribute(0, "the axis")
    squeeze_axis: bool = attribute(False, "drop the axis, along which each piece must have size 1")

    def check(self) -> None:
        given = parse_shape(self.indices_or_sections)
        self.indices = given if isinstance(self.indices_or_sections, tuple | str) else None
        self.sections = len(given) + 1 if self.indices is not None else given[0]
        if self.sections < 1:
            raise AttributeValueError(f"split_v2: indices_or_sections={given[0]} must be at least 1")

    def num_outputs(self) -> int:
        return self.sections

    def bounds(self, size: int) -> list[int]:
        if self.indices is not None:
            return [0, *(part_of(size, slice(i, None))[0] for i in self.indices), size]
        if size % self.sections:
            raise ShapeError(f"split_v2: {self.sections} sections do not divide an axis of size {size}")
        step = size // self.sections
        return [i * step for i in range(self.sections + 1)]

    def to_nnvm(self) -> dict[str, Any]:
        cuts = [] if self.indices is None else [0, *self.indices]  # it wants the beginning of each piece
        sections = self.sections if self.indices is None else 0
        return {"indices": cuts, "sections": sections, "axis": self.axis, "squeeze_axis": self.squeeze_axis}

    @classmethod
    def from_nnvm(cls, attrs: Mapping[str, str]) -> Any:
        given: dict[str, Any] = dict(attrs)
        cuts, sections = parse_shape(given.pop("indices", "()")), int(given.pop("sections", "0"))
        given["indices_or_sections"] = sections or cuts[1:]
        return super().from_nnvm(given)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [
            Sample([(5, 2)], lambda x: (x[:1], x[1:3], x[3:]), indices_or_sections=(1, 3)),
            Sample(
                [(2, 3)],
                lambda x: (x[:, 0], x[:, 1], x[:, 2]),
                indices_or_sections=3,
                axis=1,
                squeeze_axis=True,
            ),
            Sample([(4,)], lambda x: (x[:0], x[:2], x[2:]), indices_or_sections=(0, 2)),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        return [(((3,),), {"indices_or_sections": 2}, "split_v2: 2 sections do not divide an axis of size 3")]


@register("hybrid.tile")
class Tile(Movement):
    """The whole array repeated ``reps[i]`` times along each axis; missing axes are put in front."""

    reps: Axes = attribute(doc="how often along each axis")

    def check(self) -> None:
        if any(n < 0 for n in self.reps):
            raise AttributeValueError(f"tile: reps={self.reps} must not be negative")

    def parts(self, shape: Shape) -> tuple[Shape, Shape]:
        """Shape and repetitions with equally many axes."""
        rank = max(len(shape), len(self.reps))
        return (1,) * (rank - len(shape)) + shape, (1,) * (rank - len(self.reps)) + self.reps

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        shape, reps = self.parts(shapes[0])
        return shapes, [tuple(n * r for n, r in zip(shape, reps, strict=True))]

    def move(self, m: MovementBuilder[Any], *xs: Any) -> Any:
        (x,) = xs
        shape, reps = self.parts(x.shape)
        apart = m.reshape(x, tuple(n for size in shape for n in (1, size)))
        spread = m.broadcast(apart, tuple(n for pair in zip(reps, shape, strict=True) for n in pair))
        return m.reshape(spread, self.infer_shape([x.shape])[1][0])

    def eager(self, *arrays: Any) -> Any:
        return np.tile(arrays[0], self.reps)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _ = values
        shape, reps = self.parts(x.shape)
        if 0 in reps:
            return F.zeros_like(x)
        split = tuple(n for pair in zip(reps, shape, strict=True) for n in pair)
        summed = F.sum(F.reshape_to(dy, shape=split), axis=tuple(range(0, len(split), 2)))
        return F.reshape_to(summed, shape=x.shape)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [
            Sample([(2, 3)], lambda x: np.hstack([x, x]), reps=2),
            Sample([(2, 3)], lambda x: np.stack([np.hstack([x, x])] * 2), reps=(2, 1, 2)),
            Sample([(2, 3, 1)], lambda x: np.concatenate([x, x, x], 2), reps=(3,)),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        return [(((2,),), {"reps": -1}, "tile: reps=(-1,) must not be negative")]


@register("hybrid.repeat")
class Repeat(Movement):
    """Each element repeated, along an axis or, without one, in the flattened array."""

    repeats: int = attribute(doc="how often", low=0)
    axis: int | None = attribute(None, "the axis; the flattened array if None")

    def parts(self, shape: Shape) -> tuple[Shape, int]:
        """The shape and the axis along which to repeat."""
        if self.axis is None:
            return (int(np.prod(shape)),), 0
        return shape, normalize_axis("repeat", self.axis, len(shape))

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        shape, axis = self.parts(shapes[0])
        return shapes, [(*shape[:axis], shape[axis] * self.repeats, *shape[axis + 1 :])]

    def move(self, m: MovementBuilder[Any], *xs: Any) -> Any:
        (x,) = xs
        shape, axis = self.parts(x.shape)
        apart = m.reshape(x, (*shape[: axis + 1], 1, *shape[axis + 1 :]))
        spread = m.broadcast(apart, (*shape[: axis + 1], self.repeats, *shape[axis + 1 :]))
        return m.reshape(spread, self.infer_shape([x.shape])[1][0])

    def eager(self, *arrays: Any) -> Any:
        return np.repeat(arrays[0], self.repeats, self.axis)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _ = values
        if not self.repeats:
            return F.zeros_like(x)
        shape, axis = self.parts(x.shape)
        split = (*shape[: axis + 1], self.repeats, *shape[axis + 1 :])
        return F.reshape_to(F.sum(F.reshape_to(dy, shape=split), axis=axis + 1), shape=x.shape)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [
            Sample([(2, 3)], lambda x: x.reshape(-1)[np.arange(12) // 2], repeats=2),
            Sample([(2, 3)], lambda x: x[:, np.arange(6) // 2], repeats=2, axis=-1),
            Sample([(2, 3)], lambda x: x[np.arange(6) // 3], repeats=3, axis=0),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = "repeat: axis 2 is out of range for an input of 2 dimensions; it must be from -2 to 1"
        return [(((2, 3),), {"repeats": 2, "axis": 2}, text)]

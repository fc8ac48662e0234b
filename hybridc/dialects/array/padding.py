"""Padding: an array with a border."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hybridc.dialects.array.joining import box
from hybridc.dialects.movement import MovementBuilder
from hybridc.dialects.operator import Bad, Movement, Sample, attribute, register
from hybridc.dialects.operator_attribute import Axes, Shape
from hybridc.errors import AttributeValueError, ShapeError


@register("hybrid.pad", "Pad")
class Pad(Movement):
    """The array with a border: a constant, the edge's values, or a reflection about the edge."""

    # COMPAT(mxnet): any number of dimensions, and all can be padded; MXNet has 4 and 5 without the first two.
    mode: str = attribute(doc="what the border contains", enum=("constant", "edge", "reflect"))
    pad_width: Axes = attribute(doc="(before, after) for each axis, one after the other")
    constant_value: float = attribute(0.0, "the value of a constant border")

    def check(self) -> None:
        if any(n < 0 for n in self.pad_width):
            raise AttributeValueError(f"Pad: pad_width={self.pad_width} must not be negative")

    def widths(self, shape: Shape) -> list[tuple[int, int]]:
        """(before, after) of each axis."""
        if len(self.pad_width) != 2 * len(shape):
            raise ShapeError(
                f"Pad: pad_width={self.pad_width} must have {2 * len(shape)} numbers, (before, after) for "
                f"each axis of the input's shape {shape}"
            )
        return list(zip(self.pad_width[::2], self.pad_width[1::2], strict=True))

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        (shape,) = shapes
        widths = self.widths(shape)
        for axis, (n, pair) in enumerate(zip(shape, widths, strict=True)):
            least = {"constant": 0, "edge": min(max(pair), 1), "reflect": max(pair) + 1 if max(pair) else 0}
            if n < least[self.mode]:
                raise ShapeError(
                    f"Pad: mode {self.mode!r} with a border of {max(pair)} needs at least {least[self.mode]} "
                    f"elements along axis {axis}, the input's shape is {shape}"
                )
        return shapes, [tuple(b + n + a for n, (b, a) in zip(shape, widths, strict=True))]

    def move(self, m: MovementBuilder[Any], *xs: Any) -> Any:
        (x,) = xs
        (shape,) = self.infer_shape([x.shape])[1]
        before = tuple(b for b, _ in self.widths(x.shape))
        if self.mode == "constant":
            return m.insert(x, m.full(shape, x.dtype, self.constant_value), before, (1,) * len(shape))

        def source(b: Any, i: Any, first: int, last: int) -> Any:
            """The index in the input: that of the edge, or mirrored about it."""
            i = i - first
            if self.mode == "edge":
                return b.min(b.max(i, 0), last)
            return last - b.abs(last - b.abs(i))

        def element(b: Any, *index: Any) -> Any:
            given = zip(index, before, x.shape, strict=True)
            return b.load(x, *[source(b, i, first, n - 1) for i, first, n in given])

        return m.generate(shape, x.dtype, element)

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        (shape,) = self.infer_shape([x.shape])[1]
        widths = self.widths(x.shape)
        if self.mode != "constant":
            return np.pad(x, widths, mode="edge" if self.mode == "edge" else "reflect")
        out = np.full(shape, np.array(self.constant_value).astype(x.dtype), x.dtype)
        out[tuple(slice(b, b + n) for n, (b, _) in zip(x.shape, widths, strict=True))] = x
        return out

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _ = values
        widths = self.widths(x.shape)
        if self.mode == "constant":
            begin = tuple(b for b, _ in widths)
            return F.slice(dy, begin=begin, end=tuple(b + n for b, n in zip(begin, x.shape, strict=True)))
        for axis, (before, after) in enumerate(widths):
            if before or after:
                dy = self.fold(F, dy, axis, before, after)
        return dy

    def fold(self, F: Any, dy: Any, axis: int, before: int, after: int) -> Any:
        """The gradient with the two borders along one axis added to where their values came from."""
        size = dy.shape[axis]
        n = size - before - after
        dx = F.slice(dy, **box(axis, before, before + n))
        borders = [(before, box(axis, 0, before), (0, 1), (1, before + 1))]
        borders += [(after, box(axis, size - after, size), (n - 1, n), (n - 1 - after, n - 1))]
        for width, border, edge, mirror in borders:
            if not width:
                continue
            part = F.slice(dy, **border)
            if self.mode == "edge":
                part, place = F.sum(part, axis=axis, keepdims=True), edge
            else:
                part, place = F.flip(part, axis=axis), mirror
            dx = dx + F.slice_scatter(part, shape=dx.shape, **box(axis, *place))
        return dx

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        width = (0, 0, 0, 0, 1, 1, 2, 0)
        pairs = ((0, 0), (0, 0), (1, 1), (2, 0))
        return [
            Sample(
                [(2, 1, 2, 3)],
                lambda x: np.pad(x, pairs, constant_values=5),
                mode="constant",
                pad_width=width,
                constant_value=5,
            ),
            Sample([(2, 1, 2, 3)], lambda x: np.pad(x, pairs, "edge"), mode="edge", pad_width=width),
            Sample([(2, 1, 2, 3)], lambda x: np.pad(x, pairs, "reflect"), mode="reflect", pad_width=width),
            Sample(
                [(3, 4)],
                lambda x: np.pad(x, ((2, 1), (1, 3)), "reflect"),
                mode="reflect",
                pad_width=(2, 1, 1, 3),
            ),
            Sample([(2,)], lambda x: np.pad(x, (1, 2)), mode="constant", pad_width=(1, 2)),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        return [
            (
                ((2, 3),),
                {"mode": "wrap", "pad_width": (0, 0, 1, 1)},
                "Pad: attribute mode takes one of 'constant', 'edge', 'reflect', got 'wrap'",
            ),
            (
                ((2, 3),),
                {"mode": "edge", "pad_width": (1, 1)},
                "Pad: pad_width=(1, 1) must have 4 numbers, (before, after) for each axis of the input's shape (2, 3)",
            ),
            (
                ((2,),),
                {"mode": "reflect", "pad_width": (2, 0)},
                "Pad: mode 'reflect' with a border of 2 needs at least 3 elements along axis 0, "
                "the input's shape is (2,)",
            ),
        ]

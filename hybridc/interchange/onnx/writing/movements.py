"""The movements as ONNX nodes: what an operator's ``move`` says becomes Reshape, Slice, Gather and the like."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hybridc.dialects.array.shape_rules import broadcast_shapes
from hybridc.dialects.operator_attribute import Shape
from hybridc.ground.sizes import are_same, is_size, row_major
from hybridc.interchange.onnx.writing.graph_writer import GraphWriter
from hybridc.interchange.onnx.writing.onnx_value import INT64, OnnxValue

_MOST = np.iinfo(np.int64)
# So many equal elements are written as they are.
_FEW = 16


class OnnxMoves:
    """The builder ``m`` of movements on the values of a graph, and the loads of its elements."""

    def __init__(self, writer: GraphWriter) -> None:
        self.writer = writer

    def reshape(self, x: OnnxValue, shape: Shape) -> OnnxValue:
        """The same elements in another shape: at most one size is left to be computed by the engine."""
        if are_same(x.shape, shape):
            return x
        if x.known is not None and not any(map(is_size, shape)):
            return self.writer.constant(x.known.reshape(shape))
        shape = tuple(map(self.writer.known_size, shape))
        free = [i for i, n in enumerate(shape) if is_size(n)]
        target = [-1 if len(free) == 1 and i == free[0] else n for i, n in enumerate(shape)]
        empty = 0 in [n for n in shape if not is_size(n)]
        target = list(shape) if empty else target
        allow = 1 if empty and self.writer.opset >= 14 else None
        return self.writer.node("Reshape", [x, self.writer.integers(target)], shape, x.dtype, allowzero=allow)

    def transpose(self, x: OnnxValue, order: Sequence[int]) -> OnnxValue:
        """The axes permuted."""
        if tuple(order) == tuple(range(x.ndim)):
            return x
        shape = tuple(x.shape[i] for i in order)
        if x.known is not None:
            return self.writer.constant(x.known.transpose(order))
        return self.writer.node("Transpose", [x], shape, x.dtype, perm=[int(i) for i in order])

    def slice(self, x: OnnxValue, begin: Sequence[int], step: Sequence[int], shape: Shape) -> OnnxValue:
        """A strided slice of ``shape`` from ``begin`` on; steps may be negative."""
        cut = [i for i in range(x.ndim) if not self._is_whole(x.shape[i], begin[i], step[i], shape[i])]
        if not cut:
            return x
        starts = [begin[i] for i in cut]
        ends = [self._end(begin[i], step[i], shape[i]) for i in cut]
        steps = [int(step[i]) for i in cut]
        lists = [self.writer.integers(numbers) for numbers in (starts, ends, cut, steps)]
        return self.writer.node("Slice", [x, *lists], shape, x.dtype)

    @staticmethod
    def _is_whole(size: int, begin: int, step: int, count: int) -> bool:
        return not is_size(begin) and begin == 0 and step == 1 and are_same((size,), (count,))

    @staticmethod
    def _end(begin: int, step: int, count: int) -> int:
        """The end of a slice: one before the first index is the least number."""
        if not is_size(count) and count == 0:
            return begin
        end = begin + step * count
        return end if step > 0 or end >= 0 else int(_MOST.min)

    def broadcast(self, x: OnnxValue, shape: Shape) -> OnnxValue:
        """NumPy's broadcasting."""
        if are_same(x.shape, shape):
            return x
        if x.known is not None and not any(map(is_size, shape)) and 0 < math.prod(shape) <= _FEW:
            return self.writer.constant(np.broadcast_to(x.known, shape).copy())
        return self.writer.node("Expand", [x, self.writer.integers(shape)], shape, x.dtype)

    def full(self, shape: Shape, dtype: Any, value: Any) -> OnnxValue:
        """An array filled with a constant."""
        number = self.writer.constant(np.asarray(value).astype(dtype))
        return number if not shape else self.broadcast(number, shape)

    def insert(self, x: OnnxValue, into: OnnxValue, begin: Sequence[int], step: Sequence[int]) -> OnnxValue:
        """``into``, with ``x`` written to the slice from ``begin`` on: axis by axis, what surrounds it is beside it."""
        if all(n == 1 for n in step):
            return self._beside(x, into, begin)
        indices = [
            self._along(self._places(b, s, n), axis, x.ndim)
            for axis, (b, s, n) in enumerate(zip(begin, step, x.shape, strict=True))
        ]
        shape = (*x.shape, 1)
        columns = [self.reshape(self.broadcast(i, x.shape), shape) for i in indices]
        index = self.concat(columns, x.ndim) if len(columns) > 1 else columns[0]
        return self.writer.node("ScatterND", [into, index, x], into.shape, x.dtype)

    def _beside(self, x: OnnxValue, into: OnnxValue, begin: Sequence[int]) -> OnnxValue:
        """Pieces of ``into`` around ``x``, from the last axis to the first."""
        rank = x.ndim
        ones = (1,) * rank
        for axis in reversed(range(rank)):
            size, first, count = into.shape[axis], begin[axis], x.shape[axis]
            after = size - first - count
            # Axes before this one are still those of x, axes after it are whole.
            box_begin = [*begin[:axis], 0, *[0] * (rank - axis - 1)]
            box: list[Any] = [*x.shape[:axis], first, *into.shape[axis + 1 :]]
            pieces: list[OnnxValue] = []
            if is_size(first) or first:
                pieces.append(self.slice(into, box_begin, ones, tuple(box)))
            pieces.append(x)
            if is_size(after) or after:
                box[axis], box_begin[axis] = after, first + count
                pieces.append(self.slice(into, box_begin, ones, tuple(box)))
            x = self.concat(pieces, axis) if len(pieces) > 1 else x
        return x

    def concat(self, xs: Sequence[OnnxValue], axis: int) -> OnnxValue:
        """Concatenation along an axis."""
        if len(xs) == 1:
            return xs[0]
        shape = list(xs[0].shape)
        axis = axis % len(shape)
        shape[axis] = sum(x.shape[axis] for x in xs)
        return self.writer.node("Concat", list(xs), tuple(shape), xs[0].dtype, axis=axis)

    def combine(self, name: str, x: OnnxValue, axis: int) -> OnnxValue:
        """A ``max`` or ``min`` along an axis, which keeps size 1."""
        return self.reduce({"max": "ReduceMax", "min": "ReduceMin"}[name], x, [axis])

    def reduce(self, operator: str, x: OnnxValue, axes: Sequence[int], keep: bool = True) -> OnnxValue:
        """A reduction along axes; ReduceSum takes them as an input since opset 13, the others since 18."""
        axes = sorted(a % x.ndim for a in axes)
        kept = [1 if i in axes else n for i, n in enumerate(x.shape)]
        shape = tuple(kept if keep else [n for i, n in enumerate(x.shape) if i not in axes])
        if operator == "ReduceSum" or self.writer.opset >= 18:
            inputs = [x, self.writer.integers(axes)]
            return self.writer.node(operator, inputs, shape, x.dtype, keepdims=int(keep))
        return self.writer.node(operator, [x], shape, x.dtype, keepdims=int(keep), axes=axes)

    def generate(self, shape: Shape, dtype: Any, element: Callable[..., Any]) -> OnnxValue:
        """Each element is ``element(b, *its indices)``; the indices are int64."""
        rank = len(shape)
        indices = [self._along(self._places(0, 1, n), axis, rank) for axis, n in enumerate(shape)]
        made: Any = element(self.writer.builder, *indices)
        value = self.writer.builder.as_value(made, dtype)
        if value.known is not None and not any(map(is_size, shape)) and 0 not in shape:
            return self.writer.constant(np.broadcast_to(value.known, shape))
        return self.broadcast(value, shape)

    def _places(self, begin: int, step: int, count: int) -> OnnxValue:
        """``begin``, ``begin + step``, …: as many as ``count``."""
        if not is_size(begin) and not is_size(self.writer.known_size(count)):
            return self.writer.constant(np.arange(int(count), dtype=np.int64) * step + begin)
        numbers = [self.writer.integer_scalar(n) for n in (begin, begin + step * count, step)]
        return self.writer.node("Range", numbers, (count,), INT64)

    def _along(self, places: OnnxValue, axis: int, rank: int) -> OnnxValue:
        return self.reshape(places, (*[1] * axis, places.shape[0], *[1] * (rank - axis - 1)))

    def load(self, x: OnnxValue, index: Sequence[Any]) -> OnnxValue:
        """The elements at indices that broadcast: a Gather along one axis, or of the flat array."""
        b = self.writer.builder
        indices = [b.as_value(i, INT64) if not is_size(i) else self.writer.integer_scalar(i) for i in index]
        if not indices:
            return x
        shape = broadcast_shapes("load", [str(i) for i in range(len(indices))], [i.shape for i in indices])
        if len(indices) == 1:
            return self.writer.node("Gather", [x, indices[0]], shape, x.dtype, axis=0)
        moved = self._own_axes(x, indices)
        if moved is not None:
            return moved
        flat: Any = None
        for place, stride in zip(indices, row_major(x.shape), strict=True):
            part = place * stride if is_size(stride) or stride != 1 else place
            flat = part if flat is None else flat + part
        count = 1
        for n in x.shape:
            count = count * n
        return self.writer.node("Gather", [self.reshape(x, (count,)), flat], shape, x.dtype, axis=0)

    def _own_axes(self, x: OnnxValue, indices: Sequence[OnnxValue]) -> OnnxValue | None:
        """A load in which each index but one runs over its own axis, in order; None for others."""
        shape = x.shape
        odd = [k for k, i in enumerate(indices) if not self._runs(i, k, len(indices), shape[k])]
        if not odd:
            return x
        if len(odd) > 1 or any(i.ndim not in (0, len(indices)) for i in indices):
            return None
        (axis,) = odd
        place = indices[axis]
        if place.ndim and any(is_size(n) or n != 1 for k, n in enumerate(place.shape) if k != axis):
            return None
        count = (place.shape[axis],) if place.ndim else (1,)
        result = (*shape[:axis], *count, *shape[axis + 1 :])
        return self.writer.node("Gather", [x, self.reshape(place, count)], result, x.dtype, axis=axis)

    def _runs(self, place: OnnxValue, axis: int, rank: int, size: int) -> bool:
        """Whether an index runs along its axis, from the first element to the last."""
        if place.known is None or place.ndim != rank or is_size(size) or place.known.size != size:
            return False
        return place.shape[axis] == size and bool((place.known.reshape(-1) == np.arange(size)).all())

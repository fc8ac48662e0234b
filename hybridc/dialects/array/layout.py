"""Operators that permute axes, broadcast, or take diagonals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hybridc.dialects.array.shape import View, axis_tuple, normalize_axis
from hybridc.dialects.movement import MovementBuilder
from hybridc.dialects.operator import Bad, Composite, Movement, Sample, attribute, register
from hybridc.dialects.operator_attribute import Axes, Axis, Shape
from hybridc.errors import AttributeValueError, BroadcastError, ShapeError


@register("hybrid.transpose")
class Transpose(View):
    """The axes in another order; reversed if none is given."""

    REARRANGES = True
    axes: Axes = attribute((), "the input's axes in their new order")

    def order(self, rank: int) -> tuple[int, ...]:
        """The permutation for an input of ``rank`` dimensions."""
        if not self.axes:
            return tuple(range(rank))[::-1]
        # COMPAT(mxnet): negative axes count from the end; MXNet rejects them.
        order = tuple(normalize_axis("transpose", a, rank, "axes has") for a in self.axes)
        if sorted(order) != list(range(rank)):
            raise ShapeError(f"transpose: axes={self.axes} must name each of the {rank} axes of the input exactly once")
        return order

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        (shape,) = shapes
        return shapes, [tuple(shape[a] for a in self.order(len(shape)))]

    def complete_shapes(self, shapes: list[Shape | None], outputs: list[Shape | None]) -> list[Shape | None]:
        """The sizes of the result, in the input's order."""
        (shape,), result = shapes, outputs[0]
        if result is None or (shape is not None and -1 not in shape):
            return shapes
        order = self.order(len(result))
        return [tuple(result[order.index(i)] for i in range(len(result)))]

    def move(self, m: MovementBuilder[Any], *xs: Any) -> Any:
        return m.transpose(xs[0], self.order(len(xs[0].shape)))

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        return x.transpose(self.order(x.ndim)) if self.axes else x.T

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _ = values
        order = self.order(len(x.shape))
        return F.transpose(dy, axes=tuple(order.index(i) for i in range(len(order))))

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [
            Sample([(2, 3)], lambda x: x.T),
            Sample([(2, 3, 4)], lambda x: np.transpose(x, (1, 2, 0)), axes=(1, 2, 0)),
            Sample([(2, 3, 4)], lambda x: np.transpose(x, (0, 2, 1)), axes=(0, -1, 1)),
            Sample([(0, 3)], lambda x: x.T),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = "transpose: axes=(0, 0) must name each of the 2 axes of the input exactly once"
        return [(((2, 3),), {"axes": (0, 0)}, text)]


@register("hybrid.swapaxes", "SwapAxis")
class SwapAxes(View):
    """Two axes exchanged."""

    REARRANGES = True
    dim1: int = attribute(0, "the first axis")
    dim2: int = attribute(0, "the second axis")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        shape = list(shapes[0])
        a = normalize_axis("SwapAxis", self.dim1, len(shape), "dim1")
        b = normalize_axis("SwapAxis", self.dim2, len(shape), "dim2")
        shape[a], shape[b] = shape[b], shape[a]
        return shapes, [tuple(shape)]

    def move(self, m: MovementBuilder[Any], *xs: Any) -> Any:
        (x,) = xs
        order = list(range(len(x.shape)))
        order[self.dim1], order[self.dim2] = order[self.dim2], order[self.dim1]
        return m.transpose(x, order)

    def eager(self, *arrays: Any) -> Any:
        return arrays[0].swapaxes(self.dim1, self.dim2)

    def gradient(self, F: Any, *values: Any) -> Any:
        return F.swapaxes(values[0], self.dim1, self.dim2)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [Sample([(2, 3, 4)], lambda x: np.swapaxes(x, 0, 2), dim1=0, dim2=-1)]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = "SwapAxis: dim2 2 is out of range for an input of 2 dimensions; it must be from -2 to 1"
        return [(((2, 3),), {"dim1": 0, "dim2": 2}, text)]


class _Broadcast(View):
    """Axes of size 1 are repeated to the shape that :meth:`target` gives."""

    def target(self, shapes: list[Shape]) -> Shape:
        raise ShapeError(f"{self.title()} has no target shape")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        shape, target = shapes[0], self.target(shapes)
        pairs = zip(shape[::-1], target[::-1], strict=False)
        if len(shape) > len(target) or any(n not in (1, m) for n, m in pairs):
            raise BroadcastError(
                f"{self.title()}: an input of shape {shape} does not broadcast to {target}; "
                "each of its axes must have size 1 or the size it is to get"
            )
        return shapes, [target]

    def move(self, m: MovementBuilder[Any], *xs: Any) -> Any:
        return m.broadcast(xs[0], self.infer_shape([x.shape for x in xs])[1][0])

    def eager(self, *arrays: Any) -> Any:
        target = self.infer_shape([a.shape for a in arrays])[1][0]
        return np.broadcast_to(arrays[0], target)

    def gradient(self, F: Any, *values: Any) -> Any:
        # The caller sums over the axes that were broadcast.
        return values[0] if len(self.INPUTS) == 1 else (values[0], None)


@register("hybrid.broadcast_to")
class BroadcastTo(_Broadcast):
    """Axes of size 1 repeated to ``shape``; a 0 there keeps the input's size."""

    # COMPAT(mxnet): the input may have fewer axes than shape, as in NumPy; MXNet wants as many.
    shape: Shape = attribute(doc="the shape to broadcast to")

    def target(self, shapes: list[Shape]) -> Shape:
        shape = shapes[0]
        lead = len(self.shape) - len(shape)
        return tuple(shape[i - lead] if n == 0 and 0 <= i - lead < len(shape) else n for i, n in enumerate(self.shape))

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [
            Sample([(1, 3)], lambda x: np.repeat(x, 2, 0), shape=(2, 0)),
            Sample([(2, 1, 1)], lambda x: np.tile(x, (1, 3, 4)), shape=(2, 3, 4)),
            Sample([(3,)], lambda x: np.stack([x, x]), shape=(2, 3)),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = (
            "broadcast_to: an input of shape (2, 3) does not broadcast to (2, 2); "
            "each of its axes must have size 1 or the size it is to get"
        )
        return [(((2, 3),), {"shape": (2, 2)}, text)]


@register("hybrid.broadcast_like")
class BroadcastLike(_Broadcast):
    """lhs broadcast to the shape of rhs, or only its axes ``lhs_axes`` to the sizes of ``rhs_axes``."""

    INPUTS = ("lhs", "rhs")
    SAME_DTYPE = False
    lhs_axes: Axis = attribute(None, "axes of lhs to broadcast; all by default")
    rhs_axes: Axis = attribute(None, "axes of rhs that give their sizes")

    def check(self) -> None:
        if () in (self.lhs_axes, self.rhs_axes):
            raise ShapeError("broadcast_like: lhs_axes and rhs_axes must name an axis, or be left out for all axes")
        if len(axis_tuple(self.lhs_axes)) != len(axis_tuple(self.rhs_axes)):
            raise AttributeValueError(
                f"broadcast_like: lhs_axes={self.lhs_axes} and rhs_axes={self.rhs_axes} must be equally many"
            )

    def target(self, shapes: list[Shape]) -> Shape:
        lhs, rhs = shapes
        if self.lhs_axes is None or self.rhs_axes is None:
            return rhs
        out = list(lhs)
        for a, b in zip(axis_tuple(self.lhs_axes), axis_tuple(self.rhs_axes), strict=True):
            a = normalize_axis("broadcast_like", a, len(lhs), "lhs_axes has")
            out[a] = rhs[normalize_axis("broadcast_like", b, len(rhs), "rhs_axes has")]
        return tuple(out)

    def decomposes(self) -> bool:
        return True

    def decompose(self, F: Any, *inputs: Any) -> Any:
        # Not broadcast_to, for which a size 0 is the input's.
        x, target = inputs[0], self.target([x.shape for x in inputs])
        shape = (1,) * (len(target) - len(x.shape)) + x.shape
        x = x if x.shape == shape else F.reshape_to(x, shape=shape)
        axes = tuple(i for i, n in enumerate(target) if n != shape[i])
        return F.broadcast_axis(x, axis=axes, size=tuple(target[i] for i in axes))

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [
            Sample([(1, 3), (2, 3)], lambda x, _: np.repeat(x, 2, 0)),
            Sample([(1, 3), (5, 6, 7)], lambda x, _: np.repeat(x, 7, 0), lhs_axes=(0,), rhs_axes=(-1,)),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = "broadcast_like: lhs_axes=0 and rhs_axes=(0, 1) must be equally many"
        empty = "broadcast_like: lhs_axes and rhs_axes must name an axis, or be left out for all axes"
        return [
            (((1, 3), (2, 3)), {"lhs_axes": 0, "rhs_axes": (0, 1)}, text),
            (((1, 3), (2, 3)), {"lhs_axes": (), "rhs_axes": ()}, empty),
        ]


@register("hybrid.broadcast_axis", "broadcast_axes")
class BroadcastAxis(_Broadcast):
    """The named axes, which must have size 1, repeated to ``size``."""

    axis: Axis = attribute((), "the axes to broadcast")
    size: Axis = attribute((), "their sizes")

    def check(self) -> None:
        if len(axis_tuple(self.axis)) != len(axis_tuple(self.size)):
            raise ShapeError(f"broadcast_axis: axis={self.axis} and size={self.size} must be equally many")

    def target(self, shapes: list[Shape]) -> Shape:
        out = list(shapes[0])
        for a, n in zip(axis_tuple(self.axis), axis_tuple(self.size), strict=True):
            out[normalize_axis("broadcast_axis", a, len(out))] = n
        return tuple(out)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [
            Sample([(1, 3, 1)], lambda x: np.tile(x, (2, 1, 4)), axis=(0, 2), size=(2, 4)),
            Sample([(2, 1)], lambda x: np.tile(x, (1, 3)), axis=1, size=3),
        ]


class _Blocks(Composite):
    """Moves blocks of pixels between the spatial axes and the channels of ``(n, c, h, w)``."""

    block_size: int = attribute(doc="edge length of a block", low=1)

    def parts(self, shape: Shape) -> tuple[Shape, tuple[int, ...]]:
        """The six-axis shape in between and the order of its axes."""
        raise ShapeError(f"{self.title()}: {shape}")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        (shape,) = shapes
        if len(shape) != 4:
            raise ShapeError(f"{self.title()}: the input must be (batch, channel, height, width), got {shape}")
        inner, order = self.parts(shape)
        full = tuple(n or self.block_size**2 for n in shape)  # which divides a size of 0, but not those beside it
        if math.prod(self.parts(full)[0]) != math.prod(full):
            raise ShapeError(f"{self.title()}: block_size={self.block_size} does not divide the input's {shape}")
        if 0 in shape[1:]:
            raise ShapeError(f"{self.title()}: channels, height and width must not be 0, got {shape}")
        moved = [inner[a] for a in order]
        return shapes, [self.merged(moved)]

    def merged(self, moved: list[int]) -> Shape:
        """The four-axis shape of the result."""
        raise ShapeError(f"{self.title()}: {moved}")

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        out = self.infer_shape([x.shape])[1][0]
        inner, order = self.parts(x.shape)
        return x.reshape(inner).transpose(order).copy().reshape(out)

    def decompose(self, F: Any, *inputs: Any) -> Any:
        (x,) = inputs
        out = self.infer_shape([x.shape])[1][0]
        inner, order = self.parts(x.shape)
        return F.reshape_to(F.transpose(F.reshape_to(x, shape=inner), axes=order), shape=out)


@register("hybrid.depth_to_space")
class DepthToSpace(_Blocks):
    """Channels become blocks of pixels: ``(n, c b b, h, w)`` to ``(n, c, h b, w b)``."""

    def parts(self, shape: Shape) -> tuple[Shape, tuple[int, ...]]:
        n, c, h, w = shape
        b = self.block_size
        return (n, b, b, c // (b * b), h, w), (0, 3, 4, 1, 5, 2)

    def merged(self, moved: list[int]) -> Shape:
        n, c, h, b, w, _ = moved
        return (n, c, h * b, w * b)

    def gradient(self, F: Any, *values: Any) -> Any:
        return F.space_to_depth(values[0], self.block_size)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def reference(x: Any) -> Any:
            out = np.zeros((x.shape[0], x.shape[1] // 4, x.shape[2] * 2, x.shape[3] * 2))
            for i in range(2):
                for j in range(2):
                    k = (i * 2 + j) * out.shape[1]
                    out[:, :, i::2, j::2] = x[:, k : k + out.shape[1]]
            return out

        return [
            Sample([(2, 8, 2, 3)], reference, block_size=2),
            Sample([(1, 4, 1, 1)], reference, block_size=2),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = "depth_to_space: block_size=2 does not divide the input's "
        empty = "depth_to_space: channels, height and width must not be 0, got (1, 4, 0, 2)"
        return [
            *[(((n, 3, 2, 2),), {"block_size": 2}, f"{text}{(n, 3, 2, 2)}") for n in (1, 0)],
            (((1, 4, 0, 2),), {"block_size": 2}, empty),
        ]


@register("hybrid.space_to_depth")
class SpaceToDepth(_Blocks):
    """Blocks of pixels become channels: ``(n, c, h b, w b)`` to ``(n, c b b, h, w)``.

    Examples
    --------
    >>> x = mx.nd.array([[[[0, 1, 2, 3], [4, 5, 6, 7]]]])
    >>> mx.nd.space_to_depth(x, block_size=2).tolist()
    [[[[0.0, 2.0]], [[1.0, 3.0]], [[4.0, 6.0]], [[5.0, 7.0]]]]
    """

    def parts(self, shape: Shape) -> tuple[Shape, tuple[int, ...]]:
        n, c, h, w = shape
        b = self.block_size
        return (n, c, h // b, b, w // b, b), (0, 3, 5, 1, 2, 4)

    def merged(self, moved: list[int]) -> Shape:
        n, b, _, c, h, w = moved
        return (n, b * b * c, h, w)

    def gradient(self, F: Any, *values: Any) -> Any:
        return F.depth_to_space(values[0], self.block_size)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def reference(x: Any) -> Any:
            return np.concatenate([x[:, :, i::2, j::2] for i in range(2) for j in range(2)], 1)

        return [Sample([(2, 3, 4, 6)], reference, block_size=2)]


def _diagonal_length(shape: Shape, k: int, a: int, b: int) -> int:
    return max(min(shape[a], shape[b] - k) if k >= 0 else min(shape[a] + k, shape[b]), 0)


def _planes(rank: int, axis1: int, axis2: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The order of axes with these two at the end, and the order that undoes it."""
    a, b = axis1 % rank, axis2 % rank
    order = (*(i for i in range(rank) if i not in (a, b)), a, b)
    return order, tuple(order.index(i) for i in range(rank))


def _diagonal(lead: int, columns: int, k: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """First index and step of the k-th diagonal in flattened matrices of so many columns."""
    return (*(0,) * lead, k if k >= 0 else -k * columns), (*(1,) * lead, columns + 1)


def _on_diagonal(m: MovementBuilder[Any], x: Any, shape: Shape, k: int) -> Any:
    """Zeros of ``shape`` with ``x`` on the k-th diagonal of the last two axes."""
    *rest, rows, columns = shape
    flat = m.full((*rest, rows * columns), x.dtype, 0)
    return m.reshape(m.insert(x, flat, *_diagonal(len(rest), columns, k)), shape)


@register("hybrid.diag")
class Diag(Movement):
    """The k-th diagonal over two axes, which move to the end; of a vector, the matrix that has it there."""

    k: int = attribute(0, "the diagonal: 0 is the main one, positive above it, negative below")
    axis1: int = attribute(0, "the first axis")
    axis2: int = attribute(1, "the second axis")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        (shape,) = shapes
        if len(shape) < 2:
            n = math.prod(shape) + abs(self.k)
            return shapes, [(n, n)]
        a = normalize_axis("diag", self.axis1, len(shape), "axis1")
        b = normalize_axis("diag", self.axis2, len(shape), "axis2")
        if a == b:
            raise ShapeError(f"diag: axis1 and axis2 must differ, both are {a}")
        if not -shape[a] <= self.k <= shape[b]:
            raise ShapeError(f"diag: diagonal k={self.k} does not exist in a matrix of {shape[a]} by {shape[b]}")
        rest = tuple(n for i, n in enumerate(shape) if i not in (a, b))
        return shapes, [(*rest, _diagonal_length(shape, self.k, a, b))]

    def move(self, m: MovementBuilder[Any], *xs: Any) -> Any:
        (x,) = xs
        (out,) = self.infer_shape([x.shape])[1]
        if len(x.shape) < 2:
            line = m.reshape(x, (math.prod(x.shape),))
            return _on_diagonal(m, line, out, self.k)
        order, _ = _planes(len(x.shape), self.axis1, self.axis2)
        x = m.transpose(x, order)
        *rest, rows, columns = x.shape
        flat = m.reshape(x, (*rest, rows * columns))
        return m.slice(flat, *_diagonal(len(rest), columns, self.k), out)

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        self.infer_shape([x.shape])
        if x.ndim < 2:
            return np.diag(x.reshape(-1), self.k)
        return np.diagonal(x, self.k, self.axis1, self.axis2)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _ = values
        if len(x.shape) < 2:
            return F.diag(dy, k=self.k)
        return F.diag_scatter(dy, shape=x.shape, k=self.k, axis1=self.axis1, axis2=self.axis2)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [
            Sample([(3, 4)], np.diag),
            Sample([(3, 4)], lambda x: np.diag(x, -1), k=-1),
            Sample([(3,)], lambda x: np.diag(x, 2), k=2),
            Sample([(2, 3, 4)], lambda x: np.diagonal(x, 1, 1, 2), k=1, axis1=1, axis2=-1),
            Sample([(2, 3)], lambda _: np.zeros(0), k=3),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = "diag: diagonal k=-3 does not exist in a matrix of 2 by 3"
        return [
            (((2, 3),), {"axis1": 1}, "diag: axis1 and axis2 must differ, both are 1"),
            (((2, 3),), {"k": -3}, text),
        ]


@register("hybrid.diag_scatter")
class DiagScatter(Movement):
    """Zeros of ``shape`` with the input as their k-th diagonal: the gradient of ``diag``."""

    shape: Shape = attribute(doc="shape of the result")
    k: int = attribute(0, "the diagonal")
    axis1: int = attribute(0, "the first axis")
    axis2: int = attribute(1, "the second axis")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        (expected,) = Diag.bind(k=self.k, axis1=self.axis1, axis2=self.axis2).infer_shape([self.shape])[1]
        if len(self.shape) < 2 or shapes[0] != expected:
            raise ShapeError(
                f"diag_scatter: diagonal {self.k} of shape {self.shape} has shape {expected}, got {shapes[0]}"
            )
        return shapes, [self.shape]

    def move(self, m: MovementBuilder[Any], *xs: Any) -> Any:
        order, back = _planes(len(self.shape), self.axis1, self.axis2)
        return m.transpose(_on_diagonal(m, xs[0], tuple(self.shape[a] for a in order), self.k), back)

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        self.infer_shape([x.shape])
        out = np.zeros(self.shape, x.dtype)
        planes = np.moveaxis(out, (self.axis1, self.axis2), (-2, -1))
        n = x.shape[-1]
        np.einsum("...ii->...i", planes[..., max(-self.k, 0) :, max(self.k, 0) :][..., :n, :n])[...] = x
        return out

    def gradient(self, F: Any, *values: Any) -> Any:
        return F.diag(values[0], k=self.k, axis1=self.axis1, axis2=self.axis2)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [Sample([(2,)], lambda x: np.eye(3, 2, -1) * x, shape=(3, 2), k=-1)]

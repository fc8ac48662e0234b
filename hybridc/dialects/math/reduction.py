"""Reductions over axes: sums, products, extremes, means, norms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from hybridc.dialects.array.shape import axis_tuple
from hybridc.dialects.math.elementwise import meaning
from hybridc.dialects.numpy_rules import COUNTS, INEXACT
from hybridc.dialects.operator import AxisRules, Bad, Composite, Reduction, Sample, attribute, register
from hybridc.dialects.operator_attribute import Axis, Shape
from hybridc.dialects.scalar import NUMPY
from hybridc.dialects.sparse.sparse_sums import summed
from hybridc.dtypes import ACCUMULATED, FLOAT32, HALVES
from hybridc.errors import ShapeError

# Called as (x, axis, dtype, out, keepdims): the fast positional form, which NumPy's type stubs lack.
add_reduce: Any = np.add.reduce
max_reduce: Any = np.maximum.reduce


# Terms that compiled code adds one by one, at most: the error grows with their number, to 2e-4 of the sum in single
# precision.
LONG_COLUMN = 4096
# Rows that an eager sum adds to one: NumPy adds the elements of a row in a tree, but a column naively, however long.
_FOLD = 8


def sum_over(x: Any, axis: Any, keepdims: bool = True, dtype: Any = None) -> Any:
    """The sum over axes (NumPy's argument) in floating point, with an error that does not grow with their sizes.

    Rows are added eight to one, and again, as long as there are more: that takes no longer than to add all to one.
    """
    axes = range(x.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    slow = [a % x.ndim for a in axes if x.strides[a] != x.itemsize]
    made = x
    while math.prod(made.shape[a] for a in slow) > _FOLD:
        longest = max(slow, key=made.shape.__getitem__)
        n = made.shape[longest]
        if n <= _FOLD:
            made = add_reduce(made, longest, dtype, None, True)
            continue
        before, rows = (slice(None),) * longest, n // _FOLD
        whole = made[(*before, slice(rows * _FOLD))]
        folded = whole.reshape(*made.shape[:longest], _FOLD, rows, *made.shape[longest + 1 :])
        rest = made[(*before, slice(rows * _FOLD, None))]
        made = add_reduce(folded, longest, dtype, None, False)
        if n % _FOLD:
            first = made[(*before, slice(1))]
            np.add(first, add_reduce(rest, longest, dtype, None, True), out=first)
    return add_reduce(made, axis, dtype, None, keepdims)


def reduce(ufunc: Any, x: Any, axis: Any, keepdims: bool) -> Any:
    """``ufunc`` over the axes, in the dtype of ``x``; half precision is accumulated in single."""
    if ufunc is np.add and x.size > _FOLD and x.dtype.kind not in "iub":
        y = sum_over(x, axis, keepdims, FLOAT32 if x.dtype in HALVES else x.dtype).astype(x.dtype, copy=False)
    elif x.dtype in HALVES:
        y = ufunc.reduce(x, axis, FLOAT32, None, keepdims).astype(x.dtype)
    else:
        y = ufunc.reduce(x, axis, x.dtype, None, keepdims)
    return y if type(y) is np.ndarray else y.reshape(() if keepdims else 1)


def keep(F: Any, y: Any, x: Any, axes: Sequence[int]) -> Any:
    """The result ``y`` of a reduction of ``x`` with its reduced axes restored as axes of size 1."""
    shape = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
    return y if y.shape == shape else F.reshape_to(y, shape=shape)


def spread(F: Any, y: Any, x: Any) -> Any:
    """``y`` broadcast to the shape of ``x``."""
    if y.shape == x.shape:
        return y
    return F.zeros_like(x) if 0 in x.shape else F.broadcast_to(y, shape=x.shape)


def count(x: Any, axes: Sequence[int]) -> int:
    """Number of elements that are reduced to one."""
    n = 1
    for a in axes:
        n *= x.shape[a]
    return n


def combined(F: Any, combine: str, x: Any, axes: tuple[int, ...]) -> Any:
    """``F.sum(x, axes, keepdims=True)``, or another combination, where no axes means none: ``axis=()`` means all."""
    return getattr(F, combine)(x, axes, True) if axes else x


class Sampled(AxisRules):
    """Reductions whose samples follow from a NumPy function, ``REFERENCE``."""

    def over(self, ufunc: Any, x: Any) -> Any:
        """``ufunc`` over this operator's axes."""
        return reduce(ufunc, x, self.axes(x.ndim) if self.exclude else self.numpy_axis, self.keepdims)

    REFERENCE: ClassVar[Any] = None
    LOW: ClassVar[float] = -2.0

    @classmethod
    def samples(cls) -> list[Sample]:
        if cls.REFERENCE is None:
            return []
        f: Any = cls.REFERENCE

        def sample(shape: Shape, axis: Any, **attrs: Any) -> Sample:
            def reference(x: Any) -> Any:
                every = tuple(range(len(shape)))
                over = every if axis is None else axis
                if attrs.get("exclude"):
                    over = tuple(set(every) - set(axis_tuple(axis)))
                y = f(x, axis=over, keepdims=attrs.get("keepdims", False))
                return y if np.ndim(y) else np.reshape(y, (1,))

            return Sample([shape], reference, axis=axis, low=cls.LOW, **attrs)

        return [
            sample((3, 5), None),
            sample((3, 5), -1),
            sample((2, 3, 4), (0, 2)),
            sample((2, 3, 4), 1, keepdims=True),
            sample((2, 3, 4), 1, exclude=True),
            sample((2, 3), (0, 1), exclude=True),
            sample((2, 1, 7), None, keepdims=True),
            sample((0, 3), 1),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        if cls.REFERENCE is None:
            return []
        text = "axis 2 is out of range for an input of 2 dimensions; it must be from -2 to 1"
        twice = "axis (0, -2) names an axis twice; name each once"
        return [
            (((2, 3),), {"axis": 2}, f"{cls.title()}: {text}"),
            (((2, 3),), {"axis": (0, -2)}, f"{cls.title()}: {twice}"),
        ]


class OverAxes(Sampled):
    """The base of reductions: ``axis``, ``keepdims`` and ``exclude``."""

    axis: Axis = attribute(None, "the axes to reduce, all by default; negative ones count from the end")
    keepdims: bool = attribute(False, "keep the reduced axes, with size 1")
    exclude: bool = attribute(False, "reduce all axes but the given ones")


class Primitive(OverAxes, Reduction):
    """A reduction by one combining function."""

    def eager(self, *arrays: Any) -> Any:
        return self.over(self.combine(), arrays[0])


# --- primitives -------------------------------------------------------------------------------------------


@register("hybrid.sum", "sum_axis")
class Sum(Primitive):
    """The sum of the elements along axes"""

    NUMPY = COUNTS
    LINEAR = True
    COMBINE = "add"
    REFERENCE = meaning(np.sum)

    def infer_storage_type(self, inputs: Sequence[Any]) -> Sequence[str] | None:
        return ("default",)

    def eager_sparse(self, *arrays: Any) -> Any:
        (x,) = arrays
        return summed(x, self.axes(x.ndim)).reshape(self.infer_shape([x.shape])[1][0])

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _ = values
        return spread(F, keep(F, dy, x, self.axes(len(x.shape))), x)


@register("hybrid.prod")
class Prod(Primitive):
    """The product of the elements along axes; its gradient is nan where an element is 0"""

    NUMPY = COUNTS
    COMBINE = "mul"
    REFERENCE = meaning(np.prod)
    LOW = 0.5

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, y = values
        return keep(F, dy * y, x, self.axes(len(x.shape))) / x


class Extreme(Primitive):
    """The maximum or minimum; equal elements each get the whole gradient."""

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        shapes, outs = super().infer_shape(shapes)
        if 0 in shapes[0] and 0 not in outs[0]:
            raise ShapeError(f"{self.title()}: no element to choose from in an input of shape {shapes[0]}")
        return shapes, outs

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, y = values
        axes = self.axes(len(x.shape))
        return F.equal(x, keep(F, y, x, axes)) * keep(F, dy, x, axes)


@register("hybrid.max", "max_axis")
class Max(Extreme):
    """The greatest element along axes; nan if any is nan"""

    COMBINE = "max"
    REFERENCE = meaning(np.max)


@register("hybrid.min", "min_axis")
class Min(Extreme):
    """The least element along axes; nan if any is nan"""

    COMBINE = "min"
    REFERENCE = meaning(np.min)


# --- composites -------------------------------------------------------------------------------------------


@register("hybrid.mean")
class Mean(OverAxes, Composite):
    """The mean of the elements along axes"""

    NUMPY = INEXACT
    NNVM_ONLY = ("dtype=None",)  # as np.mean(x) calls the method, with out=None
    # COMPAT(mxnet): there the sum of integers overflows, and their number: the mean of 300 times 200 in uint8 is 2.
    COMPUTES_IN = ACCUMULATED  # the sum may overflow although the mean does not
    REFERENCE = meaning(np.mean)

    def decompose(self, F: Any, *inputs: Any) -> Any:
        (x,) = inputs
        axes = self.axes(len(x.shape))
        return self.drop(F, combined(F, "sum", x, axes) / count(x, axes), x)

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        y = self.over(np.add, x)
        n = x.size // max(y.size, 1)
        if y.dtype.kind != "f":
            return np.asarray(NUMPY.quotient(y, n), y.dtype)
        return np.divide(y, n or np.nan, out=y)

    def infer_storage_type(self, inputs: Sequence[Any]) -> Sequence[str] | None:
        return ("default",) if inputs[0].dtype.kind == "f" else None

    def eager_sparse(self, *arrays: Any) -> Any:
        (x,) = arrays
        axes = self.axes(x.ndim)
        return (summed(x, axes) / max(count(x, axes), 1)).reshape(self.infer_shape([x.shape])[1][0])

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _ = values
        axes = self.axes(len(x.shape))
        return spread(F, keep(F, dy, x, axes) / max(count(x, axes), 1), x)


@register("hybrid.sum_to")
class SumTo(Composite):
    """The sum over the axes along which ``shape`` would broadcast to the input's shape"""

    shape: Shape = attribute(doc="the shape of the result")

    def split(self, shape: Shape) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The leading axes that are dropped, and the axes that keep size 1."""
        lead = len(shape) - len(self.shape)
        stays = [i + lead for i, n in enumerate(self.shape) if n == 1 and shape[i + lead] != 1]
        return tuple(range(lead)), tuple(stays)

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        (shape,) = shapes
        lead = len(shape) - len(self.shape)
        if lead < 0 or any(n not in (1, m) for n, m in zip(self.shape, shape[lead:], strict=True)):
            raise ShapeError(
                f"sum_to: shape {self.shape} does not broadcast to the input's shape {shape}; "
                "its sizes, aligned at the end, must be 1 or the input's"
            )
        return shapes, [self.shape]

    def decompose(self, F: Any, *inputs: Any) -> Any:
        (x,) = inputs
        lead, stays = self.split(x.shape)
        axes = (*lead, *stays)
        if axes:
            x = F.sum(x, axes, True)
        return x if x.shape == self.shape else F.reshape_to(x, shape=self.shape)

    def check(self) -> None:
        # Cached axes by shape of the input.
        self.known: dict[Shape, tuple[tuple[int, ...], bool]] = {}

    def know(self, shape: Shape) -> tuple[tuple[int, ...], bool]:
        """The axes to sum over, and whether they are kept: where only leading ones vanish they are not."""
        self.infer_shape([shape])
        lead, stays = self.split(shape)
        if len(self.known) > 64:
            self.known.clear()
        found = self.known[shape] = ((*lead, *stays), bool(stays))
        return found

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        axes, kept = self.known.get(x.shape) or self.know(x.shape)
        y = reduce(np.add, x, axes, kept)
        return y if y.shape == self.shape else y.reshape(self.shape)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _ = values
        return spread(F, dy, x)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample([(3, 5)], lambda x: x.sum(0), shape=(5,)),
            Sample([(3, 5)], lambda x: x.sum(1, keepdims=True), shape=(3, 1)),
            Sample([(2, 3, 5)], lambda x: x.sum((0, 2))[:, None], shape=(3, 1)),
            Sample([(2, 0)], lambda x: x.sum(1, keepdims=True), shape=(2, 1)),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = "sum_to: shape (2,) does not broadcast to the input's shape (2, 3); "
        return [(((2, 3),), {"shape": (2,)}, text + "its sizes, aligned at the end, must be 1 or the input's")]

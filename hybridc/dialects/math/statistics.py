"""Sums and products without nan, norms, moments, and the sum of many arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hybridc.dialects.math.elementwise import meaning
from hybridc.dialects.math.reduction import Mean, OverAxes, Sampled, combined, count, keep
from hybridc.dialects.math.unary import Unary
from hybridc.dialects.numpy_rules import COUNTS, INEXACT
from hybridc.dialects.operator import Bad, Composite, Sample, attribute, register
from hybridc.dialects.operator_attribute import Axis, DType, Shape
from hybridc.dialects.scalar import NUMPY
from hybridc.dialects.sparse.sparse_elements import at_common_places
from hybridc.dialects.sparse.sparse_sums import summed
from hybridc.dtypes import accumulated, is_float
from hybridc.errors import ShapeError
from hybridc.sparse_storage import converted, stype_of


def _sum_of_squares(x: Any, axis: Any, keepdims: bool) -> Any:
    return np.sum(x * x, axis=axis, keepdims=keepdims)


@register("hybrid.nansum")
class NanSum(OverAxes, Composite):
    """The sum of the elements that are not nan"""

    NUMPY = COUNTS
    REFERENCE = meaning(np.nansum)

    def decompose(self, F: Any, *inputs: Any) -> Any:
        x = _without_nan(F, inputs[0], 0)
        return self.drop(F, combined(F, "sum", x, self.axes(len(x.shape))), x)

    def eager(self, *arrays: Any) -> Any:
        return self.over(np.add, _replace_nan(arrays[0], 0))

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _ = values
        return F.equal(x, x) * keep(F, dy, x, self.axes(len(x.shape)))

    @classmethod
    def samples(cls) -> list[Sample]:
        x = np.array([[np.nan, 1.0, 2.0], [3.0, np.nan, 0.5]])
        return [*super().samples(), Sample([x], lambda x: cls.REFERENCE(x, 1), grad=False, axis=1)]


@register("hybrid.nanprod")
class NanProd(OverAxes, Composite):
    """The product of the elements that are not nan"""

    NUMPY = COUNTS
    REFERENCE = meaning(np.nanprod)
    LOW = 0.5

    def decompose(self, F: Any, *inputs: Any) -> Any:
        x = _without_nan(F, inputs[0], 1)
        return self.drop(F, combined(F, "prod", x, self.axes(len(x.shape))), x)

    def eager(self, *arrays: Any) -> Any:
        return self.over(np.multiply, _replace_nan(arrays[0], 1))

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, y = values
        each = keep(F, dy * y, x, self.axes(len(x.shape))) / _without_nan(F, x, 1)
        return F.equal(x, x) * each

    @classmethod
    def samples(cls) -> list[Sample]:
        x = np.array([[np.nan, 1.0, 2.0], [3.0, np.nan, 0.5]])
        return [*super().samples(), Sample([x], lambda x: cls.REFERENCE(x, 1), grad=False, axis=1)]


def _without_nan(F: Any, x: Any, value: float) -> Any:
    return F.nan_to(x, value=value) if is_float(np.dtype(x.dtype)) else x


def _replace_nan(x: Any, value: float) -> Any:
    return NUMPY.select(x != x, x.dtype.type(value), x) if x.dtype.kind == "f" else x


@register("hybrid.nan_to")
class NanTo(Unary):
    """x with ``value`` in place of nan"""

    value: float = attribute(0.0, "what replaces nan")

    def scalar(self, b: Any, x: Any) -> Any:
        return b.select(b.isnan(x), self.value, x)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _ = values
        return dy * F.equal(x, x)

    @classmethod
    def samples(cls) -> list[Sample]:
        x = np.array([[np.nan, 1.0, np.inf], [3.0, np.nan, 0.5]])
        return [
            Sample([x], lambda x: np.nan_to_num(x, nan=2.5, posinf=np.inf), grad=False, value=2.5),
            Sample([(3, 5)], lambda x: x),
        ]


@register("hybrid.square_sum", "_square_sum")
class SquareSum(OverAxes, Composite):
    """The sum of the squared elements along axes"""

    NNVM = "_square_sum"
    REFERENCE = meaning(_sum_of_squares)

    def decompose(self, F: Any, *inputs: Any) -> Any:
        (x,) = inputs
        return self.drop(F, combined(F, "sum", x * x, self.axes(len(x.shape))), x)

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        return self.over(np.add, x * x)

    def infer_storage_type(self, inputs: Sequence[Any]) -> Sequence[str] | None:
        return ("default",)

    def eager_sparse(self, *arrays: Any) -> Any:
        (x,) = arrays
        squares = x.with_data(x.data * x.data)
        return summed(squares, self.axes(x.ndim)).reshape(self.infer_shape([x.shape])[1][0])

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _ = values
        return x * (keep(F, dy, x, self.axes(len(x.shape))) * 2)


@register("hybrid.norm")
class Norm(Sampled, Composite):
    """The sum of absolute values (ord=1) or the square root of the sum of squares (ord=2) along axes"""

    NUMPY = INEXACT
    ord: int = attribute(2, "1 or 2", low=1, high=2)
    axis: Axis = attribute(None, "the axes to reduce, all by default; negative ones count from the end")
    out_dtype: DType | None = attribute(None, "the dtype of the result, the input's by default")
    keepdims: bool = attribute(False, "keep the reduced axes, with size 1")

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [self.out_dtype or dtypes[0]]

    def decompose(self, F: Any, *inputs: Any) -> Any:
        (x,) = inputs
        out = np.dtype(x.dtype) if self.out_dtype is None else self.out_dtype
        # COMPAT(mxnet): there squares of integers overflow, and the norm of 20, 25 and 30 is 30.
        inner = accumulated(out)
        x = x if x.dtype == inner else F.cast(x, inner)  # squares may overflow
        axes = self.axes(len(x.shape))
        if self.ord == 1:
            y = self.drop(F, combined(F, "sum", F.abs(x), axes), x)
        else:
            y = self.drop(F, F.sqrt(combined(F, "sum", x * x, axes)), x)
        return y if y.dtype == out else F.cast(y, out)

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        out = x.dtype if self.out_dtype is None else self.out_dtype
        x = x.astype(accumulated(out), copy=False)
        y = self.over(np.add, np.abs(x)) if self.ord == 1 else np.sqrt(self.over(np.add, x * x))
        return y.astype(out, copy=False)

    def infer_storage_type(self, inputs: Sequence[Any]) -> Sequence[str] | None:
        return ("default",)

    def eager_sparse(self, *arrays: Any) -> Any:
        (x,) = arrays
        out = self.infer_type([x.dtype])[1][0]
        values = x.data.astype(accumulated(out), copy=False)
        sums = summed(x.with_data(np.abs(values) if self.ord == 1 else values * values), self.axes(x.ndim))
        y = sums if self.ord == 1 else np.sqrt(sums)
        return y.reshape(self.infer_shape([x.shape])[1][0]).astype(out, copy=False)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, y = values
        dy, y = (v if v.dtype == x.dtype else F.cast(v, x.dtype) for v in (dy, y))
        axes = self.axes(len(x.shape))
        if self.ord == 1:
            return F.sign(x) * keep(F, dy, x, axes)
        return x * keep(F, dy / y, x, axes)

    @classmethod
    def samples(cls) -> list[Sample]:
        def reference(x: Any, order: int, axis: Any, kept: bool) -> Any:
            y = np.sum(np.abs(x) ** order, axis=axis, keepdims=kept) ** (1 / order)
            return y if np.ndim(y) else np.reshape(y, (1,))

        def sample(shape: Shape, order: int, axis: Any, kept: bool = False) -> Sample:
            return Sample([shape], lambda x: reference(x, order, axis, kept), ord=order, axis=axis, keepdims=kept)

        return [
            sample((3, 5), 2, None),
            sample((3, 5), 1, -1),
            sample((2, 3, 4), 2, (0, 2), True),
            sample((2, 3, 4), 1, (1, 2)),
            sample((3, 5), 2, 1),
        ]


@register("hybrid.moments")
class Moments(Composite):
    """The mean and the variance of the elements along axes"""

    axes: Axis = attribute(None, "the axes to reduce, all by default")
    keepdims: bool = attribute(False, "keep the reduced axes, with size 1")

    def num_outputs(self) -> int:
        return 2

    def check(self) -> None:
        self.mean: Any = Mean.bind(axis=self.axes, keepdims=self.keepdims)
        self.kept_mean: Any = Mean.bind(axis=self.axes, keepdims=True)

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        out = self.mean.infer_shape(shapes)[1]
        return shapes, out * 2

    def decompose(self, F: Any, *inputs: Any) -> Any:
        (x,) = inputs
        inner = accumulated(np.dtype(x.dtype))
        # COMPAT(mxnet): there sums, counts and squares of integers overflow.
        if inner != x.dtype and inner.kind == "i":  # squares, and what is below the mean, may not fit
            return tuple(F.cast(y, x.dtype) for y in self.decompose(F, F.cast(x, inner)))
        mean = F.mean(x, self.axes, True)
        off = x - mean
        shape = self.infer_shape([x.shape])[1][0]
        return F.reshape_to(mean, shape=shape), F.reshape_to(F.mean(off * off, self.axes, True), shape=shape)

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        inner = accumulated(x.dtype)
        if inner != x.dtype and inner.kind == "i":
            return tuple(y.astype(x.dtype) for y in self.eager(x.astype(inner)))
        mean = self.kept_mean.evaluate(x)
        off = x - mean
        off *= off
        variance = self.mean.evaluate(off)
        return mean.reshape(variance.shape), variance

    def gradient(self, F: Any, *values: Any) -> Any:
        dmean, dvariance, x, mean, _ = values
        axes = self.mean.axes(len(x.shape))
        n = max(count(x, axes), 1)
        off = x - keep(F, mean, x, axes)
        return off * keep(F, dvariance * (2 / n), x, axes) + keep(F, dmean / n, x, axes)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample([(3, 5)], lambda x: (np.mean(x, 0), np.var(x, 0)), axes=0),
            Sample([(2, 3, 4)], lambda x: (np.mean(x, (0, 2)), np.var(x, (0, 2))), axes=(0, 2)),
            Sample(
                [(2, 3)],
                lambda x: (np.mean(x, 1, keepdims=True), np.var(x, 1, keepdims=True)),
                axes=(-1,),
                keepdims=True,
            ),
        ]


@register("hybrid.add_n", "ElementWiseSum", "_add_n")
class AddN(Composite):
    """The sum of all inputs, which have one shape"""

    NNVM = "add_n"
    NNVM_COUNT = "num_args"
    INPUTS = ("args",)
    VARIADIC = True

    def complete_shapes(self, shapes: list[Shape | None], outputs: list[Shape | None]) -> list[Shape | None]:
        """All have one shape."""
        known = next((s for s in (*outputs, *shapes) if s is not None), None)
        return [known if s is None else s for s in shapes]

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        if not shapes:
            raise ShapeError("ElementWiseSum: it needs at least one input, got none")
        known = next((s for s in shapes if -1 not in s), shapes[0])
        for i, shape in enumerate(shapes):
            if len(shape) != len(known) or any(a not in (-1, b) for a, b in zip(shape, known, strict=True)):
                raise ShapeError(
                    f"ElementWiseSum: all inputs must have one shape, but input {i} has shape {shape} "
                    f"and another {known}; use + for inputs that broadcast"
                )
        return [known] * len(shapes), [known]

    def decompose(self, F: Any, *inputs: Any) -> Any:
        first, *others = inputs
        total = first if others else F.identity(first)
        for x in others:
            total = total + x
        return total

    def eager(self, *arrays: Any) -> Any:
        shapes = [x.shape for x in arrays]
        if shapes[1:] != shapes[:-1] or not shapes:
            self.infer_shape(shapes)
        first, *others = arrays
        if not others:
            return first.copy()
        total = np.add(first, others[0])
        for x in others[1:]:
            np.add(total, x, out=total)
        return total

    def infer_storage_type(self, inputs: Sequence[Any]) -> Sequence[str] | None:
        stypes = {stype_of(x) for x in inputs}
        return (stypes.pop(),) if len(stypes) == 1 else ("default",)

    def eager_sparse(self, *arrays: Any) -> Any:
        if self.infer_storage_type(arrays) == ("default",):
            return self.eager(*(converted(x, "default") for x in arrays))
        values, made = at_common_places(arrays)
        return made(self.eager(*values))

    def gradient(self, F: Any, *values: Any) -> Any:
        return [values[0]] * (len(values) - 2)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample([(3, 5)], lambda x: x),
            Sample([(3, 5), (3, 5), (3, 5)], lambda x, y, z: x + y + z),
            Sample([(0, 2), (0, 2)], lambda x, y: x + y),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = "ElementWiseSum: all inputs must have one shape, but input 1 has shape (3,) and another (2, 3); "
        return [(((2, 3), (3,)), {}, text + "use + for inputs that broadcast")]

"""Casts, copies, clipping, fills and predicates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hybridc.dialects.math.elementwise import meaning
from hybridc.dialects.math.unary import Unary, unary
from hybridc.dialects.numpy_rules import COMPARES, PROMOTES
from hybridc.dialects.operator import Bad, Composite, Elementwise, Sample, attribute, register
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.dtypes import is_float, is_half, kind_of
from hybridc.errors import AttributeValueError, MXNetError, ShapeError
from hybridc.sparse_storage import converted, stype_of

_SINGLE = np.dtype("float32")


@register("hybrid.clip")
class Clip(Unary):
    """x limited to the range from a_min to a_max"""

    a_min: float = attribute(doc="the least result")
    a_max: float = attribute(doc="the greatest result")

    def scalar(self, b: Any, x: Any) -> Any:
        return b.min(b.like(x, self.a_max), b.max(b.like(x, self.a_min), x))  # see Maximum: -0.0 stays

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        if x.dtype.kind != "f":
            return super().eager(x)
        y = np.maximum(self.a_min, x)
        return np.minimum(self.a_max, y, out=y if y.ndim else None)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, y = values
        return dy * F.equal(x, y)

    @classmethod
    def samples(cls) -> list[Sample]:
        shapes: list[tuple[int, ...]] = [(3, 5), (0, 2), (7,)]
        return [
            Sample([s], lambda x: np.where(x < -1, -1, np.where(x > 0.5, 0.5, x)), a_min=-1, a_max=0.5) for s in shapes
        ]


# --- casts ------------------------------------------------------------------------------------------------


@register("hybrid.cast", "Cast")
class Cast(Elementwise):
    """x in another dtype; floats are cut towards zero on their way to integers"""

    SAME_DTYPE = False
    INPLACE = ()

    dtype: DType = attribute(doc="the dtype of the result")

    def check(self) -> None:
        if kind_of(self.dtype) not in "fiub":
            raise AttributeValueError(
                f"Cast: attribute dtype takes a floating-point, integer or bool dtype, got '{self.dtype}'"
            )

    def scalar(self, b: Any, x: Any) -> Any:
        return b.cast(x, self.dtype)

    def eager(self, *arrays: Any) -> Any:
        return arrays[0].astype(self.dtype)

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [self.dtype]

    def gradient(self, F: Any, *values: Any) -> Any:
        return values[0]

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample([(3, 5)], lambda x: x, dtype="float64"),
            Sample([(3, 5)], lambda x: x, grad=False, dtype="float32"),
            Sample([(0, 2)], lambda x: x, grad=False, dtype="float16"),
            Sample([(7, 2)], lambda x: np.sign(x) * np.floor(np.abs(x)), grad=False, dtype="int32"),
        ]


@register("hybrid.amp_cast")
class AmpCast(Composite):
    """x in another floating-point dtype; what is not floating-point stays as it is"""

    AMP = True
    KEEPS_SHAPE = True
    dtype: DType = attribute(doc="the floating-point dtype of the result")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        return shapes, list(shapes)

    def decompose(self, F: Any, *inputs: Any) -> Any:
        (x,) = inputs
        return F.cast(x, self.infer_type([np.dtype(x.dtype)])[1][0])

    def eager(self, *arrays: Any) -> Any:
        return arrays[0].astype(self.infer_type([arrays[0].dtype])[1][0])

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [self.dtype if is_float(dtypes[0]) else dtypes[0]]

    def gradient(self, F: Any, *values: Any) -> Any:
        return values[0]

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample([(3, 5)], lambda x: x, dtype="float64"),
            Sample([(3, 5)], lambda x: np.trunc(x), dtypes=("int32", "int64"), grad=False, dtype="float16"),
        ]


@register("hybrid.amp_multicast")
class AmpMulticast(Composite):
    """All inputs in the widest floating-point dtype among them, or the narrowest with ``cast_narrow``

    This is about half precision and float32: inputs of other dtypes stay as they are.
    """

    AMP = True
    VARIADIC = True
    SAME_DTYPE = False
    num_outputs_: int = attribute(doc="how many inputs there are", low=1)
    cast_narrow: bool = attribute(False, "cast to the narrowest dtype")

    def num_outputs(self) -> int:
        return self.num_outputs_

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        if len(shapes) != self.num_outputs_:
            raise MXNetError(f"amp_multicast: num_outputs={self.num_outputs_}, but it got {len(shapes)} inputs")
        return shapes, list(shapes)

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        scale = {d for d in dtypes if d == _SINGLE or is_half(d)}
        halves = scale - {_SINGLE}
        narrow = self.cast_narrow or _SINGLE not in scale
        common = next(iter(halves)) if narrow and len(halves) == 1 else _SINGLE
        return dtypes, [common if d in scale else d for d in dtypes]

    def decompose(self, F: Any, *inputs: Any) -> Any:
        self.infer_shape([x.shape for x in inputs])
        dtypes = self.infer_type([np.dtype(x.dtype) for x in inputs])[1]
        return tuple(F.cast(x, dtype) for x, dtype in zip(inputs, dtypes, strict=True))

    def eager(self, *arrays: Any) -> Any:
        self.infer_shape([x.shape for x in arrays])
        return tuple(
            x.astype(dtype) for x, dtype in zip(arrays, self.infer_type([x.dtype for x in arrays])[1], strict=True)
        )

    def gradient(self, F: Any, *values: Any) -> Any:
        return values[: self.num_outputs_]

    @classmethod
    def samples(cls) -> list[Sample]:
        counts = np.array([1, 2])
        return [
            Sample([(2, 3), (4,), counts], lambda x, y, n: (x, y, n), num_outputs=3),
            Sample([(2, 3)], lambda x: x, num_outputs=1, cast_narrow=True),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        return [(((2,), (2,)), {"num_outputs": 3}, "amp_multicast: num_outputs=3, but it got 2 inputs")]


# --- copies -----------------------------------------------------------------------------------------------


class Copy(Unary):
    """A copy of the input."""

    NUMPY = PROMOTES
    REFERENCE = meaning(lambda x: x)

    def scalar(self, b: Any, x: Any) -> Any:
        return x

    def eager(self, *arrays: Any) -> Any:
        return arrays[0].copy()


@register("hybrid.identity", "_copy", "_identity")
class Identity(Copy):
    """A copy of x"""

    NNVM = "_copy"
    NNVM_ALIASES = ("_copyto", "_CrossDeviceCopy")

    def gradient(self, F: Any, *values: Any) -> Any:
        return values[0]

    def simplify(self, F: Any, inputs: Sequence[Any]) -> Any:
        return inputs[0]


@register("hybrid.identity_with_attr_like_rhs", "_identity_with_attr_like_rhs")
class IdentityWithAttrLikeRhs(Composite):
    """A copy of lhs, whose shape and dtype are those of rhs"""

    INPUTS = ("lhs", "rhs")
    NNVM = "_identity_with_attr_like_rhs"

    def complete_shapes(self, shapes: list[Shape | None], outputs: list[Shape | None]) -> list[Shape | None]:
        """All shapes are equal."""
        known = next((s for s in (*shapes, *outputs) if s is not None), None)
        return [known if s is None else s for s in shapes]

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        lhs, rhs = shapes
        if lhs != rhs:
            raise ShapeError(f"_identity_with_attr_like_rhs: lhs has shape {lhs}, rhs {rhs}; they must be equal")
        return shapes, [lhs]

    def decompose(self, F: Any, *inputs: Any) -> Any:
        self.infer_shape([x.shape for x in inputs])
        return F.identity(inputs[0])

    @classmethod
    def samples(cls) -> list[Sample]:
        return [Sample([(2, 3), (2, 3)], lambda x, _: x)]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = "_identity_with_attr_like_rhs: lhs has shape (2,), rhs (3,); they must be equal"
        return [(((2,), (3,)), {}, text)]


@register("hybrid.cast_storage")
class CastStorage(Copy):
    """A copy of x in another storage: sparse as ``'csr'`` or ``'row_sparse'``, or dense, ``'default'``

    In a compiled graph all arrays are dense.
    """

    stype: str = attribute(doc="the storage of the result", enum=("csr", "default", "row_sparse"))

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        if self.stype == "csr" and len(shapes[0]) != 2:
            raise ShapeError(f"cast_storage: csr storage is for matrices, got shape {shapes[0]}")
        return super().infer_shape(shapes)

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        self.infer_shape([x.shape])
        return converted(x, self.stype) if self.stype != stype_of(x) else x.copy()

    def infer_storage_type(self, inputs: Sequence[Any]) -> Sequence[str] | None:
        return (self.stype,)

    def eager_sparse(self, *arrays: Any) -> Any:
        return self.eager(*arrays)

    def gradient(self, F: Any, *values: Any) -> Any:
        return values[0]

    @classmethod
    def samples(cls) -> list[Sample]:
        return [Sample([(3, 5)], lambda x: x, stype="default")]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        return [(((2, 3, 4),), {"stype": "csr"}, "cast_storage: csr storage is for matrices, got shape (2, 3, 4)")]


@register("hybrid.block_grad", "BlockGrad", "stop_gradient")
class BlockGrad(Copy):
    """A copy of x through which no gradient flows back"""

    STEPS = True

    def gradient(self, F: Any, *values: Any) -> Any:
        return None


@register("hybrid.make_loss")
class MakeLoss(Copy):
    """A copy of x that is a loss: its gradient is 1, whatever the gradient of the output"""

    STEPS = True

    def gradient(self, F: Any, *values: Any) -> Any:
        return F.ones_like(values[1])


# --- fills ------------------------------------------------------------------------------------------------


class Like(Unary):
    """One number everywhere, in the shape and dtype of x."""

    dtype: DType | None = attribute(None, "accepted as in MXNet, without effect: the result has the dtype of x")


ZerosLike = unary(
    "hybrid.zeros_like",
    "Zeros in the shape and dtype of x",
    meaning(lambda x: np.zeros(x.shape)),
    lambda b, x: 0,
    base=Like,
    alias="_zeros_like",
    eager=lambda x: np.zeros(x.shape, x.dtype),
)
OnesLike = unary(
    "hybrid.ones_like",
    "Ones in the shape and dtype of x",
    meaning(lambda x: np.ones(x.shape)),
    lambda b, x: 1,
    base=Like,
    alias="_ones_like",
    eager=lambda x: np.ones(x.shape, x.dtype),
)


@register("hybrid.full_like")
class FullLike(Unary):
    """One value everywhere, in the shape and dtype of x"""

    fill_value: float = attribute(doc="the value")

    def scalar(self, b: Any, *xs: Any) -> Any:
        return self.fill_value

    def eager(self, *arrays: Any) -> Any:
        return np.full(arrays[0].shape, self.fill_value, arrays[0].dtype)

    def for_nnvm(self, F: Any, *inputs: Any) -> Any:
        (x,) = inputs
        return F.ones_like(x) * self.fill_value

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample([(3, 5)], lambda x: np.full(x.shape, 2.5), grad=False, fill_value=2.5),
            Sample([(0, 2)], lambda x: x, grad=False, fill_value=1),
        ]


# --- tests ------------------------------------------------------------------------------------------------


class Predicate(Unary):
    """1 where something holds and 0 elsewhere, in the input's dtype."""

    STEPS = True
    NUMPY = COMPARES

    @classmethod
    def samples(cls) -> list[Sample]:
        if cls.REFERENCE is None:
            return []
        special = np.array([[np.nan, np.inf, -np.inf], [0.0, 1.0, -2.5]])
        return [Sample([x], cls.REFERENCE, grad=False) for x in (special, (0, 2))]


IsNan = unary(
    "hybrid.isnan",
    "1 where x is not a number, else 0",
    meaning(lambda x: x != x),
    lambda b, x: b.isnan(x),
    base=Predicate,
    alias="contrib.isnan",
    class_name="IsNan",
    for_nnvm=lambda F, x: F.not_equal(x, x),
)
IsInf = unary(
    "hybrid.isinf",
    "1 where x is infinite, else 0",
    meaning(lambda x: np.abs(x) == np.inf),
    lambda b, x: b.isinf(x),
    base=Predicate,
    alias="contrib.isinf",
    class_name="IsInf",
    for_nnvm=lambda F, x: F.equal(F.abs(x), math.inf),
)
IsFinite = unary(
    "hybrid.isfinite",
    "1 where x is neither infinite nor nan, else 0",
    meaning(lambda x: np.abs(x) < np.inf),
    lambda b, x: b.isfinite(x),
    base=Predicate,
    alias="contrib.isfinite",
    class_name="IsFinite",
    for_nnvm=lambda F, x: F.lesser(F.abs(x), math.inf),
)
LogicalNot = unary(
    "hybrid.logical_not", "1 where x is 0, else 0", meaning(lambda x: x == 0), lambda b, x: x == 0, base=Predicate
)

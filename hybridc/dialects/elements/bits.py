"""Operators of integers: bits, shifts, common divisors and multiples."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from hybridc.dialects.array.shape_rules import broadcast_shapes
from hybridc.dialects.math.elementwise import Binary, meaning
from hybridc.dialects.math.unary import Unary
from hybridc.dialects.numpy_rules import BITS, PROMOTES
from hybridc.dialects.operator import Bad, Opaque, Operator, Sample, define, no_gradient, register
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.errors import DTypeError

# Floats, as samples cast these to each dtype.
_WHOLE = np.array([[0.0, 1, 2, 12], [7, 6, 100, 127]])


def require_integers(op: Operator, dtypes: list[DType], booleans: bool) -> None:
    """Raise unless all inputs are integers, or booleans where these are allowed."""
    wrong = next((d for d in dtypes if d.kind not in ("iub" if booleans else "iu")), None)
    if wrong is not None:
        raise DTypeError(f"{op.title()}: inputs must be integers, got {wrong}; use .astype('int64') on it")


class IntegerBinary(Binary):
    """An operator of two integers, or of two booleans if ``BOOLEANS``; it has no gradient."""

    BOOLEANS: ClassVar[bool] = False
    NUMPY = BITS
    gradient = no_gradient

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        require_integers(self, dtypes, self.BOOLEANS)
        return super().infer_type(dtypes)

    @classmethod
    def samples(cls) -> list[Sample]:
        if cls.REFERENCE is None:
            return []
        inputs: list[list[Any]] = [[_WHOLE, _WHOLE[:, ::-1]], [_WHOLE, np.array([3.0, 4, 2, 5])], [(0, 2), (2,)]]
        return [Sample(xs, cls.REFERENCE, grad=False, dtypes=("int32", "int64", "uint8")) for xs in inputs]


def of_integers(function: Callable[[int, int], int]) -> Any:
    """A function of two of Python's integers as the meaning of an operator."""

    def of_floats(x: float, y: float) -> float:
        return function(int(x), int(y))

    return meaning(np.vectorize(of_floats, otypes=[float]))


def _bitwise(name: str, doc: str, function: Callable[[int, int], int]) -> type[IntegerBinary]:
    """The operator that is the step of the same name."""

    def scalar(b: Any, x: Any, y: Any) -> Any:
        return getattr(b, name)(x, y)

    return define(
        IntegerBinary,
        f"hybrid.{name}",
        doc,
        NNVM=f"_npi_{name}",
        NNVM_SCALAR=(f"_npi_{name}_scalar", f"_npi_{name}_scalar"),
        REFERENCE=of_integers(function),
        BOOLEANS=True,
        scalar=staticmethod(scalar),
    )


BitwiseAnd = _bitwise("bitwise_and", "The bits that lhs and rhs both have", int.__and__)
BitwiseOr = _bitwise("bitwise_or", "The bits that lhs or rhs has", int.__or__)
BitwiseXor = _bitwise("bitwise_xor", "The bits that lhs or rhs alone has", int.__xor__)


class Divisors(Opaque):
    """A function of two broadcasting integers by their common divisors, which takes a loop for each element."""

    INPUTS = ("lhs", "rhs")
    UFUNC: ClassVar[Any] = None
    REFERENCE: ClassVar[Any] = None
    gradient = no_gradient

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        return shapes, [broadcast_shapes(self.title(), self.INPUTS, shapes)]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        require_integers(self, dtypes, False)
        return super().infer_type(dtypes)

    def eager(self, *arrays: Any) -> Any:
        self.infer_type([x.dtype for x in arrays])
        return self.UFUNC(*arrays)

    @classmethod
    def samples(cls) -> list[Sample]:
        inputs: list[list[Any]] = [[_WHOLE, _WHOLE[:, ::-1]], [_WHOLE, np.array([3.0, 4, 2, 5])], [(0, 2), (2,)]]
        return [Sample(xs, cls.REFERENCE, grad=False, dtypes=("int32", "int64")) for xs in inputs]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = f"{cls.title()}: inputs must be integers, got float32; use .astype('int64') on it"
        return [(((2, 3), (3,)), {}, text)]


@register("hybrid.lcm")
class Lcm(Divisors):
    """The least common multiple of lhs and rhs"""

    NNVM = "_npi_lcm"
    NNVM_SCALAR = ("_npi_lcm_scalar", "_npi_lcm_scalar")
    UFUNC = np.lcm
    REFERENCE = of_integers(math.lcm)


@register("hybrid.gcd")
class Gcd(Divisors):
    """The greatest common divisor of lhs and rhs"""

    UFUNC = np.gcd
    REFERENCE = of_integers(math.gcd)


class Shift(IntegerBinary):
    """A shift of an integer's bits."""

    NUMPY = PROMOTES

    @classmethod
    def samples(cls) -> list[Sample]:
        counts = np.array([0.0, 1, 3, 2])
        return [Sample([x, counts], cls.REFERENCE, grad=False, dtypes=("int32", "int64")) for x in (_WHOLE, -_WHOLE)]


@register("hybrid.left_shift")
class LeftShift(Shift):
    """lhs * 2**rhs modulo the range of the dtype; 0 where rhs is negative or the number of bits or more"""

    REFERENCE = meaning(lambda x, y: x * 2.0**y)

    def scalar(self, b: Any, x: Any, y: Any) -> Any:
        return b.left_shift(x, y)


@register("hybrid.right_shift")
class RightShift(Shift):
    """floor(lhs / 2**rhs); that of the largest shift where rhs is negative or the number of bits or more"""

    REFERENCE = meaning(lambda x, y: np.floor(x / 2.0**y))

    def scalar(self, b: Any, x: Any, y: Any) -> Any:
        return b.right_shift(x, y)


@register("hybrid.bitwise_not")
class BitwiseNot(Unary):
    """The bits that x lacks: -1 - x; of booleans the others"""

    NNVM = "_npi_bitwise_not"
    NUMPY = PROMOTES
    STEPS = True
    gradient = no_gradient

    def scalar(self, b: Any, x: Any) -> Any:
        return b.bitwise_not(x)

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        require_integers(self, dtypes, True)
        return super().infer_type(dtypes)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [Sample([x], lambda x: -1 - x, grad=False, dtypes=("int32", "int64")) for x in (_WHOLE, -_WHOLE, (0, 3))]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = "bitwise_not: inputs must be integers, got float32; use .astype('int64') on it"
        return [(((2, 3),), {}, text)]

"""Binary arithmetic, comparison and logic, with broadcasting."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from hybridc.dialects.array.shape_rules import filled_shapes
from hybridc.dialects.numpy_rules import COMPARES, INEXACT
from hybridc.dialects.operator import Bad, Elementwise, Reference, Sample, define, register
from hybridc.dialects.operator_attribute import Shape
from hybridc.dialects.scalar import NUMPY
from hybridc.dtypes import is_float
from hybridc.errors import ShapeError


def meaning(function: Reference) -> Any:
    """A NumPy function as the class field ``REFERENCE`` of an operator."""
    made: Any = function
    return staticmethod(made)


def by_element(function: Reference) -> Any:
    """As :func:`meaning`, a function of Python's numbers: another source than the NumPy functions that are checked."""
    return meaning(np.vectorize(function, otypes=[float]))


class Binary(Elementwise):
    """A scalar function of two broadcasting inputs.

    ``REFERENCE`` is its meaning in NumPy, ``LOW`` and ``HIGH`` bound where the samples are taken.
    """

    INPUTS = ("lhs", "rhs")
    NNVM_ONLY = ("axis",)  # as programs write it
    REFERENCE: ClassVar[Any] = None
    LOW: ClassVar[float] = -2.0
    HIGH: ClassVar[float] = 2.0

    @classmethod
    def samples(cls) -> list[Sample]:
        if cls.REFERENCE is None:
            return []
        shapes: list[list[tuple[int, ...]]] = [
            [(3, 5), (3, 5)],
            [(3, 1, 5), (4, 1)],
            [(7,), (2, 1)],
            [(0, 3), (1, 3)],
        ]
        return [Sample(s, cls.REFERENCE, low=cls.LOW, high=cls.HIGH) for s in shapes]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = f"{cls.title()}: shapes do not broadcast: lhs (2, 3), rhs (2, 4); axis 1 has sizes [3, 4], "
        return [(((2, 3), (2, 4)), {}, text + "which must be equal or 1")]


@register("hybrid.add", "broadcast_add", "broadcast_plus", "_add", "_plus", "_Plus")
class Add(Binary):
    """lhs + rhs"""

    LINEAR = True
    TAKES_BOTH = True

    NNVM = "broadcast_add"
    NNVM_SCALAR = ("_plus_scalar", "_plus_scalar", "_scatter_plus_scalar")
    REFERENCE = meaning(lambda x, y: x + y)

    def scalar(self, b: Any, x: Any, y: Any) -> Any:
        return x + y

    def gradient(self, F: Any, *values: Any) -> Any:
        dy = values[0]
        return dy, dy

    def simplify(self, F: Any, inputs: Sequence[Any]) -> Any:
        # -0.0 + 0.0 is 0.0, so only -0.0 changes no float.
        signs = [math.copysign(1, x.constant) for x in inputs if x.constant is not None]
        exact = not is_float(np.dtype(inputs[0].dtype)) or -1 in signs
        return other_than(inputs, 0, commutes=True) if exact else None


@register("hybrid.subtract", "broadcast_sub", "broadcast_minus", "_sub", "_minus", "_Minus")
class Subtract(Binary):
    """lhs - rhs"""

    TAKES_BOTH = True

    NNVM = "broadcast_sub"
    NNVM_SCALAR = ("_minus_scalar", "_rminus_scalar", "_scatter_minus_scalar")
    REFERENCE = meaning(lambda x, y: x - y)

    def scalar(self, b: Any, x: Any, y: Any) -> Any:
        return x - y

    def gradient(self, F: Any, *values: Any) -> Any:
        dy = values[0]
        return dy, lambda: -dy

    def simplify(self, F: Any, inputs: Sequence[Any]) -> Any:
        # x - -0.0 is 0.0 for x = -0.0.
        y = inputs[1].constant
        return None if y is None or math.copysign(1, y) < 0 else other_than(inputs, 0)


@register("hybrid.multiply", "broadcast_mul", "_mul", "_Mul")
class Multiply(Binary):
    """lhs * rhs"""

    ABSORBING = (0, 1)

    NNVM = "broadcast_mul"
    NNVM_SCALAR = ("_mul_scalar", "_mul_scalar")
    REFERENCE = meaning(lambda x, y: x * y)

    def scalar(self, b: Any, x: Any, y: Any) -> Any:
        return x * y

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, y, _ = values
        return lambda: dy * y, lambda: dy * x

    def simplify(self, F: Any, inputs: Sequence[Any]) -> Any:
        return other_than(inputs, 1, commutes=True)


@register("hybrid.divide", "broadcast_div", "true_divide", "_div", "_Div")
class Divide(Binary):
    """lhs / rhs; the quotient of integers is cut towards zero, by 0 it is 0"""

    ABSORBING = (0,)

    NNVM = "broadcast_div"
    NNVM_SCALAR = ("_div_scalar", "_rdiv_scalar")
    NUMPY = INEXACT
    REFERENCE = meaning(lambda x, y: x / y)
    LOW = 0.5

    def scalar(self, b: Any, x: Any, y: Any) -> Any:
        # COMPAT(mxnet): there a division of integers by 0 ends the process.
        return b.quotient(x, y)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, _, y, z = values
        return lambda: dy / y, lambda: -dy * z / y

    def simplify(self, F: Any, inputs: Sequence[Any]) -> Any:
        return other_than(inputs, 1)


@register("hybrid.modulo", "broadcast_mod", "_mod", "_Mod")
class Modulo(Binary):
    """lhs - floor(lhs / rhs) * rhs: the remainder with the sign of the divisor, 0 where the divisor is 0"""

    NNVM = "broadcast_mod"
    NNVM_SCALAR = ("_mod_scalar", "_rmod_scalar")
    REFERENCE = meaning(lambda x, y: x - np.floor(x / y) * y)
    LOW = 0.5

    def scalar(self, b: Any, x: Any, y: Any) -> Any:
        rest = x % y
        # A remainder of 0 has the sign that C's fmod gives: of a negative dividend and divisor, or of a dividend of 0.
        zero = b.select(y < 0, b.select(x < 0, -0.0, 0), b.select(x == 0, x, 0))
        return b.select(y == 0, 0, b.select(rest == 0, zero, rest))

    def eager(self, *arrays: Any) -> Any:
        x, y = arrays
        result = np.mod(x, y)
        if result.all() and y.all():
            return result
        zero = np.where(y < 0, np.where(x < 0, -0.0, 0), np.where(x == 0, x, 0)).astype(result.dtype)
        return NUMPY.select(y == 0, x.dtype.type(0), NUMPY.select(result == 0, zero, result))

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, y, _ = values
        return dy, lambda: -dy * F.floor(x / y)


@register("hybrid.power", "broadcast_power", "_power", "_Power", "pow")
class Power(Binary):
    """lhs ** rhs; of integers modulo their range, and cut towards zero where rhs is negative"""

    NNVM = "broadcast_power"
    NNVM_SCALAR = ("_power_scalar", "_rpower_scalar")
    REFERENCE = meaning(lambda x, y: x**y)
    LOW = 0.5

    def scalar(self, b: Any, x: Any, y: Any) -> Any:
        # COMPAT(mxnet): there powers of integers are computed in floats, and undefined beyond their range.
        return b.pow(x, y)

    def eager(self, *arrays: Any) -> Any:
        x, y = arrays
        if y.ndim == 0 and y in (1, 2):
            return np.square(x) if y == 2 else x.copy()
        return NUMPY.pow(x, y)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, y, z = values
        return lambda: dy * y * F.power(x, y - 1), lambda: dy * z * F.log(x)

    def simplify(self, F: Any, inputs: Sequence[Any]) -> Any:
        x, exponent = inputs[0], inputs[1].constant
        if exponent == 1:
            return x
        return F.square(x) if exponent == 2 else None


@register("hybrid.maximum", "broadcast_maximum", "_maximum", "_Maximum")
class Maximum(Binary):
    """The greater of lhs and rhs; nan if either is nan"""

    NNVM = "broadcast_maximum"
    NNVM_SCALAR = ("_maximum_scalar", "_maximum_scalar")
    REFERENCE = by_element(max)

    # COMPAT(mxnet): of 0.0 and -0.0 there the second; here, too, but in code of LLVM 0.0 is greater, as in IEEE 754.
    # So for minimum and clip.
    def scalar(self, b: Any, x: Any, y: Any) -> Any:
        return b.max(x, y)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, y, _ = values
        if x.shape == ():  # at equality the gradient goes to lhs, but not to a number
            return lambda: dy * F.greater(x, y), lambda: dy * F.lesser_equal(x, y)
        return lambda: dy * F.greater_equal(x, y), lambda: dy * F.lesser(x, y)


@register("hybrid.minimum", "broadcast_minimum", "_minimum", "_Minimum")
class Minimum(Binary):
    """The lesser of lhs and rhs; nan if either is nan"""

    NNVM = "broadcast_minimum"
    NNVM_SCALAR = ("_minimum_scalar", "_minimum_scalar")
    REFERENCE = by_element(min)

    def scalar(self, b: Any, x: Any, y: Any) -> Any:
        return b.min(x, y)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, y, _ = values
        if x.shape == ():  # at equality the gradient goes to lhs, but not to a number
            return lambda: dy * F.lesser(x, y), lambda: dy * F.greater_equal(x, y)
        return lambda: dy * F.lesser_equal(x, y), lambda: dy * F.greater(x, y)


@register("hybrid.hypot", "broadcast_hypot", "_hypot", "_Hypot")
class Hypot(Binary):
    """sqrt(lhs**2 + rhs**2) without overflow"""

    NNVM = "broadcast_hypot"
    NNVM_SCALAR = ("_hypot_scalar", "_hypot_scalar")
    NUMPY = INEXACT
    REFERENCE = meaning(lambda x, y: np.sqrt(x * x + y * y))

    def scalar(self, b: Any, x: Any, y: Any) -> Any:
        return b.hypot(x, y)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, y, z = values
        return lambda: dy * (x / z), lambda: dy * (y / z)


class SameShape(Binary):
    """A binary operator that does not broadcast."""

    BROADCASTS = False

    def complete_shapes(self, shapes: list[Shape | None], outputs: list[Shape | None]) -> list[Shape | None]:
        """Inputs and result have one shape, of which each may know other sizes."""
        known = [s for s in (*outputs, *shapes) if s is not None]
        if not known or any(len(s) != len(known[0]) for s in known):
            return shapes
        sizes = tuple([max(each) for each in zip(*known, strict=True)])  # what is unknown is -1
        return [s if s is not None and -1 not in s else sizes for s in shapes]

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        shapes, out = super().infer_shape(filled_shapes(shapes) if -1 in (*shapes[0], *shapes[1]) else shapes)
        if shapes[0] != shapes[1]:
            raise ShapeError(
                f"{self.title()}: lhs has shape {shapes[0]} and rhs {shapes[1]}, which must be equal; "
                f"use broadcast_{self.title().removeprefix('elemwise_')} for inputs that broadcast"
            )
        return shapes, out

    def eager(self, *arrays: Any) -> Any:
        if arrays[0].shape != arrays[1].shape:
            self.infer_shape([x.shape for x in arrays])
        return super().eager(*arrays)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [s for s in super().samples() if s.inputs[0] == s.inputs[1]]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = f"{cls.title()}: lhs has shape (2, 3) and rhs (1, 3), which must be equal; use broadcast_"
        text += f"{cls.title().removeprefix('elemwise_')} for inputs that broadcast"
        return [(((2, 3), (1, 3)), {}, text)]


@register("hybrid.elemwise_add")
class ElemwiseAdd(SameShape, Add):
    """lhs + rhs for inputs of one shape"""

    NNVM_ALIASES = ("_grad_add",)


@register("hybrid.elemwise_sub")
class ElemwiseSubtract(SameShape, Subtract):
    """lhs - rhs for inputs of one shape"""


@register("hybrid.elemwise_mul")
class ElemwiseMultiply(SameShape, Multiply):
    """lhs * rhs for inputs of one shape"""


@register("hybrid.elemwise_div")
class ElemwiseDivide(SameShape, Divide):
    """lhs / rhs for inputs of one shape"""

    NNVM_ALIASES = ("_scatter_elemwise_div",)


class Comparison(Binary):
    """1 where a relation holds and 0 elsewhere, in the inputs' dtype; it has no gradient."""

    NUMPY = COMPARES

    @classmethod
    def samples(cls) -> list[Sample]:
        if cls.REFERENCE is None:
            return []
        few = np.array([[0.0, 1.0, 2.0], [2.0, -1.0, 0.0]])
        inputs: list[list[Any]] = [[(3, 5), (3, 1)], [few, few[:, ::-1]], [(0, 2), (2,)]]
        return [Sample(xs, cls.REFERENCE, grad=False, dtypes=("float32", "float64", "int32")) for xs in inputs]


def _comparison(
    name: str, relation: str, reference: Reference, scalar: Callable[[Any, Any, Any], Any], exchanged: str = ""
) -> type[Comparison]:
    """The comparison that is 1 where a relation holds; with its operands exchanged it is ``exchanged``, or itself."""
    function = name.partition(".")[2]
    return define(
        Comparison,
        name,
        f"1 where {relation}, else 0",
        f"broadcast_{function}",
        f"_{function}",
        f"_{function.title()}",
        NNVM=f"broadcast_{function}",
        NNVM_SCALAR=(f"_{function}_scalar", f"_{exchanged or function}_scalar"),
        REFERENCE=by_element(reference),
        scalar=staticmethod(scalar),
    )


Equal = _comparison("hybrid.equal", "lhs == rhs", operator.eq, lambda b, x, y: x == y)
NotEqual = _comparison("hybrid.not_equal", "lhs != rhs", operator.ne, lambda b, x, y: x != y)
Lesser = _comparison("hybrid.lesser", "lhs < rhs", operator.lt, lambda b, x, y: x < y, "greater")
LesserEqual = _comparison("hybrid.lesser_equal", "lhs <= rhs", operator.le, lambda b, x, y: x <= y, "greater_equal")
Greater = _comparison("hybrid.greater", "lhs > rhs", operator.gt, lambda b, x, y: x > y, "lesser")
GreaterEqual = _comparison("hybrid.greater_equal", "lhs >= rhs", operator.ge, lambda b, x, y: x >= y, "lesser_equal")
LogicalAnd = _comparison(
    "hybrid.logical_and",
    "lhs and rhs are both not 0",
    lambda x, y: x != 0 and y != 0,
    lambda b, x, y: (x != 0) & (y != 0),
)
LogicalOr = _comparison(
    "hybrid.logical_or",
    "lhs or rhs is not 0",
    lambda x, y: x != 0 or y != 0,
    lambda b, x, y: (x != 0) | (y != 0),
)
LogicalXor = _comparison(
    "hybrid.logical_xor",
    "exactly one of lhs and rhs is not 0",
    lambda x, y: (x != 0) != (y != 0),
    lambda b, x, y: b.logical_xor(x != 0, y != 0),
)


def other_than(inputs: Sequence[Any], neutral: float, commutes: bool = False) -> Any:
    """The input beside a neutral constant, if the result equals it; else None."""
    x, y = inputs
    if y.constant is not None and y.constant == neutral and y.shape in ((), (1,) * len(x.shape)):
        return x
    if commutes and x.constant is not None and x.constant == neutral and x.shape in ((), (1,) * len(y.shape)):
        return y
    return None

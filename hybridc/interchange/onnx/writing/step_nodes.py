"""Scalar steps as ONNX nodes: one each, or a few.

:class:`OnnxSteps` is a builder of scalar bodies whose values are those of a graph. A step has the dtypes that NumPy's
loop has; steps of known arrays are computed at once. :data:`RULES` has a function for each step that ONNX has no
operator for, and :data:`OPERATORS` the operators of the others.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hybridc.dialects.array.shape_rules import broadcast_shapes
from hybridc.dialects.scalar import loop_dtypes, number_like, numpy_step
from hybridc.dialects.scalar.table import STEPS
from hybridc.ground.sizes import is_size
from hybridc.interchange.onnx.writing.graph_writer import GraphWriter, refuse
from hybridc.interchange.onnx.writing.onnx_value import BOOL, INT64, OnnxValue

Rule = Callable[..., Any]
RULES: dict[str, Rule] = {}

# Operators with the meaning of a step of numbers, and those of steps of booleans.
OPERATORS = {
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "max": "Max", "min": "Min", "abs": "Abs", "neg": "Neg",
    "reciprocal": "Reciprocal", "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "logistic": "Sigmoid", "erf": "Erf",
    "sin": "Sin", "cos": "Cos", "tan": "Tan", "asin": "Asin", "acos": "Acos", "atan": "Atan", "sinh": "Sinh",
    "cosh": "Cosh", "tanh": "Tanh", "asinh": "Asinh", "acosh": "Acosh", "atanh": "Atanh", "floor": "Floor",
    "ceil": "Ceil", "rint": "Round", "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual",
    "eq": "Equal", "isnan": "IsNaN", "logical_and": "And", "logical_or": "Or", "logical_xor": "Xor",
}  # fmt: skip
OF_BOOLEANS = {
    "add": "Or", "mul": "And", "max": "Or", "min": "And", "quotient": "And", "bitwise_and": "And", "bitwise_or": "Or",
    "bitwise_xor": "Xor", "eq": "Equal", "logical_and": "And", "logical_or": "Or", "logical_xor": "Xor",
}  # fmt: skip
# Steps that leave whole numbers as they are.
OF_FRACTIONS = frozenset({"floor", "ceil", "rint", "trunc"})


def rule(*steps: str) -> Callable[[Rule], Rule]:
    """Decorator: the function ``(b, *operands)`` writes these steps; operands have the dtypes of NumPy's loop."""

    def enter(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(steps, function))
        return function

    return enter


class OnnxSteps:
    """The scalar vocabulary on the values of a graph, with loads at computed indices."""

    def __init__(self, writer: GraphWriter) -> None:
        self.writer = writer

    def __getattr__(self, step: str) -> Any:
        if step not in STEPS:
            raise AttributeError(step)
        return functools.partial(self.step, step)

    def step(self, step: str, *operands: Any) -> Any:
        """The result of a step."""
        operands = tuple(self.writer.integer_scalar(x) if is_size(x) else x for x in operands)
        if step == "cast":
            return self.as_value(*operands)
        if step == "like":
            return self.constant(number_like(operands[1], operands[0].dtype))
        if step == "select":
            return self._select(*operands)
        if all(not isinstance(x, OnnxValue) or x.known is not None for x in operands):
            return self._computed(step, operands)
        *wanted, result = loop_dtypes(step, tuple(map(_kind, operands)))
        values = [self.as_value(x, dtype) for x, dtype in zip(operands, wanted, strict=True)]
        if wanted[0] == BOOL and step in OF_BOOLEANS:
            return self.apply(OF_BOOLEANS[step], values, result)
        if step in OF_FRACTIONS and result.kind in "iub":
            return values[0]
        if step in RULES:
            return self.writer.cast(RULES[step](self, *values), result)
        if step in OPERATORS:
            return self.apply(OPERATORS[step], values, result)
        composed = STEPS[step].composed
        if composed is None:
            raise refuse(f"the scalar step {step}", f"it has no operator of this meaning for {wanted[0]}")
        return self.writer.cast(composed(self, *values), result)

    def _computed(self, step: str, operands: Sequence[Any]) -> Any:
        with np.errstate(all="ignore"):
            return self.constant(numpy_step(step, *[x.known if isinstance(x, OnnxValue) else x for x in operands]))

    def _select(self, condition: Any, x: Any, y: Any) -> Any:
        dtype = np.result_type(*[v.dtype if isinstance(v, OnnxValue) else v for v in (x, y)])
        if isinstance(x, OnnxValue) and isinstance(y, OnnxValue) and x.dtype == y.dtype:
            dtype = x.dtype
        values = [self.as_value(condition, BOOL), self.as_value(x, dtype), self.as_value(y, dtype)]
        if all(v.known is not None for v in values):
            return self._computed("select", values)
        return self.apply("Where", values, dtype)

    def constant(self, number: Any) -> OnnxValue:
        """A known value."""
        return self.writer.constant(number)

    def as_value(self, x: Any, dtype: Any) -> OnnxValue:
        """An operand in a dtype; Python's numbers become constants."""
        if isinstance(x, OnnxValue):
            return self.writer.cast(x, dtype)
        with np.errstate(all="ignore"):
            return self.constant(np.asarray(x).astype(dtype))

    def apply(self, operator: str, values: Sequence[OnnxValue], dtype: Any, **attributes: Any) -> OnnxValue:
        """A node whose inputs broadcast."""
        names = [str(i) for i in range(len(values))]
        shape = broadcast_shapes(operator, names, [v.shape for v in values]) if len(values) > 1 else values[0].shape
        return self.writer.node(operator, values, shape, dtype, **attributes)

    def load(self, x: OnnxValue, *index: Any) -> OnnxValue:
        """The elements of ``x`` at indices, one for each axis, that are in range and broadcast."""
        return self.writer.moves.load(x, index)


def _kind(x: Any) -> Any:
    """The dtype of an operand, or the type of a Python number, which adapts to the others."""
    kind: Any = x.__class__
    return x.dtype if kind is OnnxValue else float if issubclass(kind, float) else kind


# --- rules ------------------------------------------------------------------------------------------------------------


@rule("square")
def _square(_: Any, x: Any) -> Any:
    return x * x


@rule("reciprocal")
def _reciprocal(b: Any, x: Any) -> Any:
    return b.apply("Reciprocal", [x], x.dtype) if x.dtype.kind not in "iu" else b.quotient(b.like(x, 1), x)


@rule("ne")
def _not_equal(b: Any, x: Any, y: Any) -> Any:
    return b.apply("Not", [x == y], BOOL)


@rule("neg")
def _negative(b: Any, x: Any) -> Any:
    return b.apply("Neg", [x], x.dtype) if x.dtype.kind != "u" else b.like(x, 0) - x


@rule("logical_not")
def _logical_not(b: Any, x: Any) -> Any:
    return b.apply("Not", [x], BOOL) if x.dtype == BOOL else x == b.like(x, 0)


@rule("isinf")
def _isinf(b: Any, x: Any) -> Any:
    return b.abs(x) == float("inf")


@rule("isfinite")
def _isfinite(b: Any, x: Any) -> Any:
    return b.abs(x) < float("inf")


def _by_zero(b: Any, y: Any) -> tuple[Any, Any]:
    """Whether a divisor is 0, and the divisor with 1 in its place."""
    zero = y == b.like(y, 0)
    return zero, b.select(zero, b.like(y, 1), y)


@rule("quotient")
def _quotient(b: Any, x: Any, y: Any) -> Any:
    if x.dtype.kind not in "iu":
        return b.apply("Div", [x, y], x.dtype)
    zero, divisor = _by_zero(b, y)
    return b.select(zero, b.like(x, 0), b.apply("Div", [x, divisor], x.dtype))


@rule("rem")
def _remainder(b: Any, x: Any, y: Any) -> Any:
    if x.dtype.kind not in "iu":
        return STEPS["rem"].composed(b, x, y)  # pyright: ignore[reportOptionalCall]
    zero, divisor = _by_zero(b, y)
    return b.select(zero, b.like(x, 0), b.apply("Mod", [x, divisor], x.dtype))


@rule("fmod")
def _c_remainder(b: Any, x: Any, y: Any) -> Any:
    if x.dtype.kind not in "iu":
        return b.apply("Mod", [x, y], x.dtype, fmod=1)
    zero, divisor = _by_zero(b, y)
    return b.select(zero, b.like(x, 0), b.apply("Mod", [x, divisor], x.dtype, fmod=1))


@rule("pow")
def _power(b: Any, x: Any, y: Any) -> Any:
    if x.dtype.kind not in "iu":
        return b.apply("Pow", [x, y], x.dtype)
    one, zero = b.like(x, 1), b.like(x, 0)
    positive = b.apply("Pow", [x, b.max(y, zero)], x.dtype)
    if x.dtype.kind == "u":
        return positive
    odd = b.apply("Mod", [y, b.like(y, 2)], y.dtype) == one
    inverse = b.select(b.abs(x) == one, b.select(odd, x, one), zero)
    return b.select(y < zero, inverse, positive)


@rule("sign")
def _sign(b: Any, x: Any) -> Any:
    return b.select(x > 0, 1, b.select(x < 0, -1, b.abs(x))) if x.dtype.kind == "f" else b.apply("Sign", [x], x.dtype)


@rule("copysign")
def _copysign(b: Any, x: Any, y: Any) -> Any:
    negative = (y < 0) | (b.reciprocal(y) < 0)
    return b.select(negative, -b.abs(x), b.abs(x))


@rule("exp2")
def _exp2(b: Any, x: Any) -> Any:
    return b.apply("Pow", [b.like(x, 2), x], x.dtype)


@rule("expm1")
def _expm1(b: Any, x: Any) -> Any:
    """``tanh(x / 2) * (exp(x) + 1)``, which loses no digits near 0."""
    return b.tanh(x * 0.5) * (b.exp(x) + 1.0)


@rule("log1p")
def _log1p(b: Any, x: Any) -> Any:
    """Near 0 the logarithm is corrected by what the sum lost: ``log(u) * x / (u - 1)``."""
    total = x + 1.0
    lost = total - 1.0
    near = b.log(total) * (x / b.select(lost == 0, 1.0, lost))
    return b.select(b.abs(x) < 0.5, b.select(lost == 0, x, near), b.log(total))


@rule("log2")
def _log2(b: Any, x: Any) -> Any:
    return b.log(x) * (1 / math.log(2))


@rule("log10")
def _log10(b: Any, x: Any) -> Any:
    return b.log(x) * (1 / math.log(10))


@rule("cbrt")
def _cbrt(b: Any, x: Any) -> Any:
    return b.copysign(b.pow(b.abs(x), 1 / 3), x)


@rule("trunc")
def _trunc(b: Any, x: Any) -> Any:
    return b.select(x < 0, b.ceil(x), b.floor(x))


@rule("atan2")
def _atan2(b: Any, y: Any, x: Any) -> Any:
    """The arc tangent of the quotient, in the half plane of the point."""
    origin = (x == 0) & (y == 0)
    angle = b.atan(y / b.select(x == 0, 1.0, x))
    upright = b.select(origin, 0.0, b.copysign(b.like(x, math.pi / 2), y))
    opposite = b.copysign(b.like(x, math.pi), y)
    return b.select(x > 0, angle, b.select(x < 0, angle + opposite, upright))


def _bitwise(operator: str) -> Rule:
    def write(b: Any, x: Any, y: Any) -> Any:
        if b.writer.opset < 18:
            raise refuse(operator, "opset 18 is the first that has it; give a newer opset")
        return b.apply(operator, [x, y], x.dtype)

    return write


RULES.update(bitwise_and=_bitwise("BitwiseAnd"), bitwise_or=_bitwise("BitwiseOr"), bitwise_xor=_bitwise("BitwiseXor"))


@rule("bitwise_not")
def _bitwise_not(b: Any, x: Any) -> Any:
    return b.apply("Not", [x], BOOL) if x.dtype == BOOL else b.like(x, 0) - x - b.like(x, 1)


_POWERS = np.array([1 << n for n in range(63)], np.int64)


def _power_of_two(b: Any, x: Any, count: Any) -> tuple[Any, Any]:
    """Whether a shift is by less than all bits, and the number it multiplies or divides by, in 64 bits."""
    bits = 8 * x.dtype.itemsize
    wide = b.cast(count, INT64)
    inside = (wide >= 0) & (wide < min(bits, 63))
    table = b.constant(_POWERS)
    index = b.select(inside, wide, b.constant(np.int64(0)))
    return inside, b.writer.node("Gather", [table, index], index.shape, INT64, axis=0)


@rule("left_shift")
def _left_shift(b: Any, x: Any, count: Any) -> Any:
    inside, factor = _power_of_two(b, x, count)
    return b.cast(b.select(inside, b.cast(x, INT64) * factor, 0), x.dtype)


@rule("right_shift")
def _right_shift(b: Any, x: Any, count: Any) -> Any:
    inside, divisor = _power_of_two(b, x, count)
    wide = b.cast(x, INT64)
    floor = b.apply("Div", [wide - b.apply("Mod", [wide, divisor], INT64), divisor], INT64)
    return b.cast(b.select(inside, floor, b.select(wide < 0, -1, 0)), x.dtype)

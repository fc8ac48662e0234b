"""Formulas over values of the IR: ``x * y + 1`` writes operations of ``arith`` and ``math``.

A formula takes :class:`Value` and gives one. It has no branches but :func:`select`, so that a loop which calls it can
be vectorised; but for the few that call :meth:`FormulaWriter.repeat` or :meth:`FormulaWriter.choose`. No operation
carries fast-math flags: what is written is what is computed, and where one rounding is meant for a product and a sum,
the formula says :func:`fma`. Each target has a :class:`FormulaWriter` of its own.
"""

from __future__ import annotations

import functools
import math as numbers
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, IntegerType, f32, f64, i1, i32, i64
from xdsl.ir import Attribute, Operation

from hybridc.dialects.scalar import Arithmetic
from hybridc.dialects.scalar.table import STEPS
from hybridc.ground.records import dataclass
from hybridc.ir.structured_builder import operation_class, operation_properties

_PLAIN: dict[str, Attribute] = {"fastmath": arith.FastMathFlagsAttr("none")}
_WRAPS: dict[str, Attribute] = {"overflowFlags": arith.IntegerOverflowAttr("none")}


@dataclass(frozen=True)
class Format:
    """A type of floating-point numbers, with the integers that have as many bits."""

    name: str
    real: Attribute
    whole: IntegerType
    fraction: int  # bits of the mantissa that are stored
    bias: int  # what is added to the exponent

    @property
    def shifter(self) -> float:
        """1.5 * 2**fraction: a small number added to it is rounded to an integer, which stands in the lowest bits."""
        return 1.5 * 2.0**self.fraction

    @property
    def smallest(self) -> float:
        """The smallest number with a full mantissa."""
        return 2.0 ** (1 - self.bias)

    def bits(self, x: float) -> int:
        """The representation of a positive number."""
        mantissa, exponent = numbers.frexp(x)
        return ((exponent - 1 + self.bias) << self.fraction) + int((2 * mantissa - 1) * 2.0**self.fraction)


SINGLE = Format("f32", f32, i32, 23, 127)
DOUBLE = Format("f64", f64, i64, 52, 1023)
FORMATS = {f.real: f for f in (SINGLE, DOUBLE)}


class Value(Arithmetic):
    """A number inside a function that is being written; ``&`` and ``|`` are on bits."""

    def __init__(self, builder: FormulaWriter, value: Any, kind: Attribute) -> None:
        self.builder: FormulaWriter = builder
        self.value = value  # as the builder has it: of the IR, or of LLVM's
        self.kind = kind

    @property
    def format(self) -> Format:
        """The type of a float."""
        return FORMATS[self.kind]

    def like(self, x: Operand) -> Value:
        """A number as a value of this one's type."""
        return x if isinstance(x, Value) else self.builder.constant(x, self.kind)

    # Bits of integers, and truth values

    def __and__(self, other: Operand) -> Value:
        return self.builder.write(arith.AndIOp, [self, self.like(other)], self.kind)

    def __or__(self, other: Operand) -> Value:
        return self.builder.write(arith.OrIOp, [self, self.like(other)], self.kind)

    def __xor__(self, other: Operand) -> Value:
        return self.builder.write(arith.XOrIOp, [self, self.like(other)], self.kind)

    def __lshift__(self, other: int) -> Value:
        return self.builder.write(arith.ShLIOp, [self, self.like(other)], self.kind, _WRAPS)

    def __rshift__(self, other: int) -> Value:
        """Zeros come in from above."""
        return self.builder.write(arith.ShRUIOp, [self, self.like(other)], self.kind)

    # Other types

    def bits(self) -> Value:
        """A float's representation."""
        return self.builder.write(arith.BitcastOp, [self], self.format.whole)

    def as_float(self) -> Value:
        """The float that an integer represents."""
        kind = next(f.real for f in FORMATS.values() if f.whole == self.kind)
        return self.builder.write(arith.BitcastOp, [self], kind)

    def to(self, target: Format) -> Value:
        """The same number in another format, rounded to it."""
        if self.format == target:
            return self
        if target.fraction > self.format.fraction:
            return self.builder.write(arith.ExtFOp, [self], target.real)
        return self.builder.write(arith.TruncFOp, [self], target.real)

    def narrow(self) -> Value:
        """The lower half of a 64-bit integer."""
        return self.builder.write(arith.TruncIOp, [self], i32)


Operand = Value | float


Values = Sequence[Value]


class FormulaWriter(ABC):
    """Writes the operations of a formula; numbers are made once."""

    def __init__(self) -> None:
        self.constants: dict[tuple[str, Attribute], Value] = {}

    @abstractmethod
    def write(
        self, cls: type[Operation], operands: Values, kind: Attribute, properties: dict[str, Attribute] | None = None
    ) -> Value:
        """The result of a new operation."""

    @abstractmethod
    def repeat(self, starts: Values, condition: Callable[[Values], Value], body: Callable[[Values], Values]) -> Values:
        """The values for which a condition fails first: the starts, or what ``body`` has made of them again and again.

        The only branches besides those of :meth:`choose`.
        """

    def choose(self, condition: Value, then: Callable[[], Values], otherwise: Callable[[], Values]) -> Values:
        """The values of one of two branches; where there are no branches, both are computed."""
        return [select(condition, x, y) for x, y in zip(then(), otherwise(), strict=True)]

    def step(self, step: str, *operands: Operand) -> Value:
        """A step of scalar bodies that is one operation; comparisons are false for a nan, but for ``!=``."""
        known = next(x for x in operands if isinstance(x, Value))
        real = known.kind in FORMATS
        row = STEPS[step]
        form = row.floats if real else row.signed
        assert form is not None
        kind = i1 if row.predicate else known.kind
        values = [known.like(x) for x in operands]
        return self.write(operation_class(form.name), values, kind, operation_properties(form.name))

    def constant(self, x: float, kind: Attribute) -> Value:
        """A constant of a type."""
        key = (repr(x), kind)
        if key not in self.constants:
            self.constants[key] = self.write(arith.ConstantOp, [], kind, {"value": _attribute(*key)})
        return self.constants[key]


@functools.lru_cache(4096)
def _attribute(text: str, kind: Attribute) -> Attribute:
    """A number as an attribute; by its text, in which 0 and -0 differ."""
    if kind == f32:
        return FloatAttr(float(np.float32(text)), f32)
    if kind == f64:
        return FloatAttr(float(text), f64)
    width = cast("IntegerType", kind).width.data
    half = 1 << width - 1
    return IntegerAttr((int(text) + half) % (2 * half) - half, width)


# Operations that Python has no sign for


def fma(x: Value, y: Operand, z: Operand) -> Value:
    """x * y + z with one rounding."""
    return x.builder.write(math.FmaOp, [x, x.like(y), x.like(z)], x.kind, _PLAIN)


def select(condition: Value, x: Operand, y: Operand) -> Value:
    """x where the condition holds, y elsewhere; one of the two is a value."""
    known = next(v for v in (x, y) if isinstance(v, Value))
    return known.builder.write(arith.SelectOp, [condition, known.like(x), known.like(y)], known.kind)


def least(x: Value, limit: float) -> Value:
    """The smaller of x and a number; a nan stays. One instruction on x86, which a minimum of two values is not."""
    return select(x > limit, limit, x)


def greatest(x: Value, limit: float) -> Value:
    """The greater of x and a number; a nan stays."""
    return select(x < limit, limit, x)


def sqrt(x: Value) -> Value:
    """The square root, rightly rounded."""
    return x.builder.write(math.SqrtOp, [x], x.kind, _PLAIN)


def rint(x: Value) -> Value:
    """The nearest integer, the even one of two."""
    return x.builder.write(math.RoundEvenOp, [x], x.kind, _PLAIN)


def copysign(x: Value, sign: Operand) -> Value:
    """x with another's sign."""
    return x.builder.write(math.CopySignOp, [x, x.like(sign)], x.kind, _PLAIN)


def polynomial(x: Value, coefficients: Sequence[float]) -> Value:
    """sum of coefficients[k] * x**k, by Horner's rule."""
    highest = x.like(coefficients[-1])
    return functools.reduce(lambda sum, c: fma(sum, x, c), reversed(coefficients[:-1]), highest)


def product(x: Value, y: Value) -> tuple[Value, Value]:
    """x * y exactly, as its rounded value and the rounding error."""
    rounded = x * y
    return rounded, fma(x, y, -rounded)


def total(x: Value, y: Value) -> tuple[Value, Value]:
    """x + y exactly, as its rounded value and the rounding error; for any x and y."""
    rounded = x + y
    other = rounded - x
    return rounded, (x - (rounded - other)) + (y - other)

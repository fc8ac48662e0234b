# Written by python -m hybridc.stubs; do not edit.
# pyright: reportUnusedImport=false
"""The steps of scalar bodies, typed: what ``b`` is in ``def scalar(self, b: mx.op.Steps, x: mx.op.Value)``."""

from typing import Protocol, TypeAlias

import numpy.typing as npt

from hybridc.dialects.scalar import Scalar

Value: TypeAlias = Scalar
Operand: TypeAlias = Scalar | float

class Steps(Protocol):
    """The builder of a scalar body. Operands are values or Python numbers, which take the dtype of the others."""

    def add(self, x: Operand, y: Operand, /) -> Value:
        """``x + y``."""
        ...

    def sub(self, x: Operand, y: Operand, /) -> Value:
        """``x - y``."""
        ...

    def mul(self, x: Operand, y: Operand, /) -> Value:
        """``x * y``."""
        ...

    def div(self, x: Operand, y: Operand, /) -> Value:
        """``x / y``; of integers too it is a float."""
        ...

    def quotient(self, x: Operand, y: Operand, /) -> Value:
        """``x / y``; of integers exact, truncated, and 0 where y is 0."""
        ...

    def rem(self, x: Operand, y: Operand, /) -> Value:
        """The remainder with the sign of y, as Python's ``%``."""
        ...

    def fmod(self, x: Operand, y: Operand, /) -> Value:
        """The remainder with the sign of x, as C's."""
        ...

    def pow(self, x: Operand, y: Operand, /) -> Value:
        """``x ** y``; of integers exact modulo their range."""
        ...

    def neg(self, x: Operand, /) -> Value:
        """``-x``."""
        ...

    def abs(self, x: Operand, /) -> Value:
        """The magnitude."""
        ...

    def sign(self, x: Operand, /) -> Value:
        """-1, 0 or 1."""
        ...

    def max(self, x: Operand, y: Operand, /) -> Value:
        """The greater; nan if one is."""
        ...

    def min(self, x: Operand, y: Operand, /) -> Value:
        """The less; nan if one is."""
        ...

    def hypot(self, x: Operand, y: Operand, /) -> Value:
        """``sqrt(x ** 2 + y ** 2)`` without overflow."""
        ...

    def copysign(self, x: Operand, y: Operand, /) -> Value:
        """``x`` with the sign of ``y``."""
        ...

    def square(self, x: Operand, /) -> Value:
        """``x * x``."""
        ...

    def reciprocal(self, x: Operand, /) -> Value:
        """``1 / x``."""
        ...

    def exp(self, x: Operand, /) -> Value:
        """``e ** x``."""
        ...

    def exp2(self, x: Operand, /) -> Value:
        """``2 ** x``."""
        ...

    def expm1(self, x: Operand, /) -> Value:
        """``e ** x - 1``, exact near 0."""
        ...

    def log(self, x: Operand, /) -> Value:
        """The natural logarithm."""
        ...

    def log1p(self, x: Operand, /) -> Value:
        """``log(1 + x)``, exact near 0."""
        ...

    def log2(self, x: Operand, /) -> Value:
        """The logarithm to the base 2."""
        ...

    def log10(self, x: Operand, /) -> Value:
        """The logarithm to the base 10."""
        ...

    def sqrt(self, x: Operand, /) -> Value:
        """The square root."""
        ...

    def cbrt(self, x: Operand, /) -> Value:
        """The cube root, also of negative numbers."""
        ...

    def logistic(self, x: Operand, /) -> Value:
        """``1 / (1 + exp(-x))``; half precision computes in single."""
        ...

    def sin(self, x: Operand, /) -> Value:
        """The sine."""
        ...

    def cos(self, x: Operand, /) -> Value:
        """The cosine."""
        ...

    def tan(self, x: Operand, /) -> Value:
        """The tangent."""
        ...

    def asin(self, x: Operand, /) -> Value:
        """The inverse of the sine."""
        ...

    def acos(self, x: Operand, /) -> Value:
        """The inverse of the cosine."""
        ...

    def atan(self, x: Operand, /) -> Value:
        """The inverse of the tangent."""
        ...

    def atan2(self, y: Operand, x: Operand, /) -> Value:
        """The angle of the point (x, y)."""
        ...

    def sinh(self, x: Operand, /) -> Value:
        """The hyperbolic sine."""
        ...

    def cosh(self, x: Operand, /) -> Value:
        """The hyperbolic cosine."""
        ...

    def tanh(self, x: Operand, /) -> Value:
        """The hyperbolic tangent."""
        ...

    def asinh(self, x: Operand, /) -> Value:
        """The inverse of sinh."""
        ...

    def acosh(self, x: Operand, /) -> Value:
        """The inverse of cosh."""
        ...

    def atanh(self, x: Operand, /) -> Value:
        """The inverse of tanh."""
        ...

    def floor(self, x: Operand, /) -> Value:
        """The greatest integer that is not above x."""
        ...

    def ceil(self, x: Operand, /) -> Value:
        """The least integer that is not below x."""
        ...

    def trunc(self, x: Operand, /) -> Value:
        """The integer part."""
        ...

    def rint(self, x: Operand, /) -> Value:
        """The nearest integer, halves to even."""
        ...

    def bitwise_and(self, x: Operand, y: Operand, /) -> Value:
        """The bits that both have."""
        ...

    def bitwise_or(self, x: Operand, y: Operand, /) -> Value:
        """The bits that one has."""
        ...

    def bitwise_xor(self, x: Operand, y: Operand, /) -> Value:
        """The bits that one alone has."""
        ...

    def bitwise_not(self, x: Operand, /) -> Value:
        """The bits that x lacks."""
        ...

    def left_shift(self, x: Operand, count: Operand, /) -> Value:
        """``x * 2 ** count`` of integers; 0 by all bits."""
        ...

    def right_shift(self, x: Operand, count: Operand, /) -> Value:
        """``x / 2 ** count`` of integers, the floor."""
        ...

    def erf(self, x: Operand, /) -> Value:
        """The error function."""
        ...

    def erfinv(self, x: Operand, /) -> Value:
        """The inverse of erf."""
        ...

    def gamma(self, x: Operand, /) -> Value:
        """The gamma function."""
        ...

    def lgamma(self, x: Operand, /) -> Value:
        """The logarithm of the magnitude of gamma."""
        ...

    def digamma(self, x: Operand, /) -> Value:
        """The derivative of lgamma."""
        ...

    def lt(self, x: Operand, y: Operand, /) -> Value:
        """``x < y``."""
        ...

    def le(self, x: Operand, y: Operand, /) -> Value:
        """``x <= y``."""
        ...

    def gt(self, x: Operand, y: Operand, /) -> Value:
        """``x > y``."""
        ...

    def ge(self, x: Operand, y: Operand, /) -> Value:
        """``x >= y``."""
        ...

    def eq(self, x: Operand, y: Operand, /) -> Value:
        """``x == y``."""
        ...

    def ne(self, x: Operand, y: Operand, /) -> Value:
        """``x != y``."""
        ...

    def isnan(self, x: Operand, /) -> Value:
        """Whether x is nan."""
        ...

    def isinf(self, x: Operand, /) -> Value:
        """Whether x is inf or -inf."""
        ...

    def isfinite(self, x: Operand, /) -> Value:
        """Whether x is neither nan nor inf."""
        ...

    def logical_and(self, x: Operand, y: Operand, /) -> Value:
        """Whether both are true."""
        ...

    def logical_or(self, x: Operand, y: Operand, /) -> Value:
        """Whether one is true."""
        ...

    def logical_xor(self, x: Operand, y: Operand, /) -> Value:
        """Whether one alone is true."""
        ...

    def logical_not(self, x: Operand, /) -> Value:
        """Whether x is 0 or false."""
        ...

    def select(self, condition: Value, x: Operand, y: Operand, /) -> Value:
        """``x`` where the condition is true, else ``y``."""
        ...

    def cast(self, x: Value, dtype: npt.DTypeLike, /) -> Value:
        """``x`` in another dtype."""
        ...

    def like(self, x: Value, value: float, /) -> Value:
        """A number in the dtype of ``x``, saturated to its range."""
        ...

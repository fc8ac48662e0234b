"""Functions that Triton's language lacks, as functions of the module that a kernel is in.

They are the formulas of :mod:`hybridc.lower.mathlib`, but where the language has the function itself, or something
that a formula for a GPU can begin with.
"""

from __future__ import annotations

import math as numbers

from xdsl.dialects import math
from xdsl.ir import Operation

from hybridc.dialects.mlir.arith import RemFOp
from hybridc.lower import mathlib
from hybridc.lower.mathlib.value import DOUBLE, Value, Values, fma, select

_LOG2E = 1.44269502162933349609375  # as single precision has it
_LOG2E_LOW = 1.9259629911266174681e-8  # and what is missing


def _of(cls: type[Operation], x: Value) -> Value:
    return x.builder.write(cls, [x], x.kind, {})


def exp_by_exp2(x: Value) -> Value:
    """2**(x log2(e)), with what the product's rounding has lost put right; for single precision.

    Results that are subnormal come of a greater one, as the processor's own function makes them 0.
    """
    x = select(x > 89.0, 89.0, select(x < -104.0, -104.0, x))
    exponent = x * _LOG2E
    lost = fma(x, _LOG2E_LOW, fma(x, _LOG2E, -exponent))
    small = exponent < -125.0
    power = _of(math.Exp2Op, select(small, exponent + 64.0, exponent))
    result = power * fma(lost, numbers.log(2), 1.0)
    return select(small, result * 2.0**-64, result)


def sin_over_cos(x: Value) -> Value:
    """sin(x) / cos(x)."""
    return _of(math.SinOp, x) / _of(math.CosOp, x)


def trunc(x: Value) -> Value:
    """The integer between 0 and x that is nearest to x."""
    return select(x < 0.0, _of(math.CeilOp, x), _of(math.FloorOp, x))


def roundeven(x: Value) -> Value:
    """The nearest integer, the even one of two: a sum with a value whose last binary place is 1 is rounded so."""
    one_apart = 2.0**x.format.fraction
    size = abs(x)
    rounded = with_sign_of((size + one_apart) - one_apart, x)
    return select(size < one_apart, rounded, x)


def with_sign_of(x: Value, sign: Value) -> Value:
    """x with another's sign."""
    highest = 1 << x.format.whole.width.data - 1
    return ((x.bits() & highest - 1) | (sign.bits() & highest)).as_float()


def remainder(x: Value, y: Value) -> Value:
    """The remainder of a division whose quotient is cut, exactly; it has the sign of x."""
    a, b = abs(x).to(DOUBLE), abs(y).to(DOUBLE)

    def goes_on(values: Values) -> Value:
        return (values[0] >= b) & (b > 0.0) & (values[0] < numbers.inf)

    (rest,) = x.builder.repeat([a], goes_on, lambda values: [_part_of_remainder(values[0], b)])
    result = with_sign_of(rest.to(x.format), x)
    defined = (abs(x) < numbers.inf) & (abs(y) != 0.0)
    return select(defined, select(y != y, y, result), numbers.nan)


def _part_of_remainder(a: Value, b: Value) -> Value:
    """The remainder of a by b 2**k, for the least k for which the quotient is a number of double precision."""
    bits = DOUBLE.fraction
    small = b < DOUBLE.smallest
    exponent = (select(small, b * 2.0**64, b).bits() >> bits) - select(small, b.bits().like(64), 0)
    k = (a.bits() >> bits) - exponent - bits
    k = select(k > 0, k, 0)
    half = k >> 1
    for power in (half, k - half):
        b = b * ((power + DOUBLE.bias) << bits).as_float()
    quotient = _of(math.FloorOp, a / b)
    rest = fma(quotient, -b, a)
    return select(rest < 0.0, rest + b, rest)  # the quotient may have been rounded up


FORMULAS: dict[type[Operation], mathlib.Formula] = {
    **mathlib.FORMULAS,
    math.ExpOp: exp_by_exp2,
    math.TanOp: sin_over_cos,
    math.TruncOp: trunc,
    math.RoundEvenOp: roundeven,
    math.CopySignOp: with_sign_of,
    RemFOp: remainder,
}

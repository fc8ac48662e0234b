"""log to several bases, log1p, and the inverse hyperbolic functions.

A positive number is 2**e (1 + f) with 1 + f between sqrt(1/2) and sqrt(2), and log(1 + f) = f Q(f): exact in the first
order, so that nothing is lost beside 1.
"""

from __future__ import annotations

import math

from hybridc.dialects.scalar import coefficients as table
from hybridc.lower.mathlib.value import SINGLE, Format, Operand, Value, copysign, fma, polynomial, select, sqrt

INFINITY, NAN = math.inf, math.nan

_LOG = {"f32": table.LOG_F32, "f64": table.LOG_F64}


def _split(x: Value) -> tuple[Value, Value]:
    """The exponent e of a positive number, with its bias, as an integer; and 1 + f. Not for subnormal numbers."""
    kind = x.format
    lowest = kind.bits(math.sqrt(0.5))
    moved = x.bits() + (kind.bits(1.0) - lowest)
    mantissa = ((moved & ((1 << kind.fraction) - 1)) + lowest).as_float()
    return moved >> kind.fraction, mantissa


def _as_float(e: Value, kind: Format) -> Value:
    """An exponent without its bias, as a float: by the number to which it is added in the lowest bits."""
    return (e + kind.bits(kind.shifter)).as_float() - (kind.shifter + kind.bias)


def exponent_and_mantissa(x: Value) -> tuple[Value, Value]:
    """e and 1 + f: x = 2**e (1 + f), for positive finite numbers that are not subnormal."""
    e, mantissa = _split(x)
    return _as_float(e, x.format), mantissa


def split_exponent(x: Value) -> tuple[Value, Value]:
    """e and f: x = 2**e (1 + f), for positive finite numbers."""
    kind = x.format
    tiny = x < kind.smallest
    up = kind.fraction + 1
    e, mantissa = exponent_and_mantissa(select(tiny, x * 2.0**up, x))
    return select(tiny, e - float(up), e), mantissa - 1.0


def _with_limits(result: Value, x: Value, zero: Operand) -> Value:
    """A logarithm of x: infinite for an infinite x, for the number ``zero`` minus infinity, below it a nan."""
    result = select(x < INFINITY, result, x)
    return select(x > zero, result, select(x == zero, x.like(-INFINITY), NAN))


def log(x: Value) -> Value:
    """The natural logarithm."""
    e, f = split_exponent(x)
    return _with_limits(fma(f, polynomial(f, _LOG[x.format.name]), e * math.log(2)), x, 0.0)


def log2(x: Value) -> Value:
    """The logarithm to base 2; exact for powers of 2."""
    e, f = split_exponent(x)
    if x.format == SINGLE:
        return _with_limits(fma(f, polynomial(f, table.LOG2_F32), e), x, 0.0)
    return _with_limits(fma(f * polynomial(f, table.LOG_F64), 1 / math.log(2), e), x, 0.0)


def log10(x: Value) -> Value:
    """The logarithm to base 10."""
    e, f = split_exponent(x)
    if x.format == SINGLE:
        return _with_limits(fma(f, polynomial(f, table.LOG10_F32), e * math.log10(2)), x, 0.0)
    return _with_limits(fma(f * polynomial(f, table.LOG_F64), 1 / math.log(10), e * math.log10(2)), x, 0.0)


def log1p(x: Value) -> Value:
    """log(1 + x): f is made of x itself, not of the rounded 1 + x."""
    kind = x.format
    e, _ = _split(x + 1.0)
    # 4 * 2**-e, which is in range for every e; the products with it are exact.
    scale = ((x.builder.constant(2 * kind.bias + 2, kind.whole) - e) << kind.fraction).as_float()
    f = fma(x * scale, 0.25, fma(scale, 0.25, -1.0))
    result = fma(f, polynomial(f, _LOG[kind.name]), _as_float(e, kind) * math.log(2))
    return _with_limits(copysign(result, x), x, -1.0)


# The inverse hyperbolic functions: in double precision by log1p, so that nothing is lost beside 0; in single precision
# by odd polynomials there.

_HUGE = 2.0**28  # whose square does not feel a 1


def _asinh_up_to_one(x: Value, z: Value) -> Value:
    """For a single with 0 <= x <= 1, and its square: x + x**3 P(x**2)."""
    return fma(x * z, polynomial(z, table.ASINH_F32), x)


def _log_of_sum(x: Value, square: Value) -> Value:
    """log(x + sqrt(square)) where that is not near to 0, and x alone counts if it is huge."""
    root = select(x > _HUGE, x, sqrt(square))
    return log(fma(x, 0.5, root * 0.5)) + math.log(2)


def asinh(x: Value) -> Value:
    """log(x + sqrt(x**2 + 1))."""
    a = abs(x)
    if x.format == SINGLE:
        square = a * a
        far = _log_of_sum(a, fma(a, a, 1.0))
        return copysign(select(a < 1.0, _asinh_up_to_one(a, square), far), x)
    huge = a > _HUGE
    square = a * a
    rest = select(huge, a - 1.0, a + square / (sqrt(square + 1.0) + 1.0))
    return copysign(log1p(rest) + select(huge, a.like(math.log(2)), 0.0), x)


def acosh(x: Value) -> Value:
    """log(x + sqrt(x**2 - 1)); in single precision up to 3 as 2 asinh(sqrt((x - 1) / 2))."""
    if x.format == SINGLE:
        z = (x - 1.0) * 0.5
        near = _asinh_up_to_one(sqrt(z), z) * 2.0
        return select(x >= 1.0, select(x < 3.0, near, _log_of_sum(x, fma(x, x, -1.0))), NAN)
    huge = x > _HUGE
    t = x - 1.0
    rest = select(huge, t, t + sqrt(t * (t + 2.0)))
    result = log1p(rest) + select(huge, t.like(math.log(2)), 0.0)
    return select(x >= 1.0, result, NAN)


def atanh(x: Value) -> Value:
    """log((1 + x) / (1 - x)) / 2; in single precision up to 1/2 as x + x**3 P(x**2)."""
    a = abs(x)
    if x.format == SINGLE:
        z = a * a
        near = fma(a * z, polynomial(z, table.ATANH_F32), a)
        return copysign(select(a < 0.5, near, log((1.0 + a) / (1.0 - a)) * 0.5), x)
    return copysign(log1p(a * 2.0 / (1.0 - a)) * 0.5, x)

"""Powers and roots."""

from __future__ import annotations

import math

from hybridc.dialects.scalar import coefficients as table
from hybridc.lower.mathlib.exponential import exp, halves_of_power, shifted_integer
from hybridc.lower.mathlib.logarithm import exponent_and_mantissa, log, split_exponent
from hybridc.lower.mathlib.value import (
    DOUBLE,
    SINGLE,
    Value,
    Values,
    copysign,
    fma,
    greatest,
    least,
    polynomial,
    product,
    rint,
    select,
    sqrt,
)

# log2(e) as double precision has it, and what is missing.
LOG2E, LOG2E_LOW = 1.4426950408889634, 2.0355273740931033e-17
INFINITY, NAN = math.inf, math.nan


def _log2(x: Value) -> tuple[Value, Value]:
    """log2 of a double that is not negative, in two parts: some 60 bits.

    log(1 + f) = 2 atanh(s) with s = f / (2 + f); of its series all but the first term is small.
    """
    e, f = split_exponent(x)
    below = f + 2.0
    s = f / below
    s_low = (fma(-s, below, f) - s * (f - (below - 2.0))) / below
    z = s * s
    rest = fma(z * s, polynomial(z, table.ATANH_F64), s_low) * 2.0
    high, low = product(s * 2.0, x.like(LOG2E))
    low = low + fma(s * 2.0, LOG2E_LOW, rest * LOG2E)
    rounded = e + high
    low = ((e - rounded) + high) + low
    result = rounded + low
    low = (rounded - result) + low
    result = select(x < INFINITY, result, x)
    return select(x == 0.0, -INFINITY, result), low


def _exp2(high: Value, low: Value) -> Value:
    """2**(high + low), by :func:`exp`'s polynomial."""
    low = select(abs(high) < 2048.0, low, 0.0)
    high = greatest(least(high, 1025.0), -2046.0)
    n, shifted = shifted_integer(high)
    r = fma(high - n, math.log(2), low * math.log(2))
    s, t = halves_of_power(shifted)
    return fma(fma(r * r, polynomial(r, table.EXP_F64), r), s, s) * t


def _size(x: Value, y: Value) -> Value:
    """abs(x)**y, in double precision."""
    high, low = _log2(abs(x))
    exponent, rest = product(y, high)
    return _exp2(exponent, fma(y, low, rest))


def _size_of_single(x: Value, y: Value) -> Value:
    """abs(x)**y for doubles that are numbers of single precision, to the digits that this needs."""
    a = abs(x)
    e, mantissa = exponent_and_mantissa(a)
    f = mantissa - 1.0
    log2 = fma(f, polynomial(f, table.POWER_LOG2_F64), e)
    log2 = select(a < INFINITY, log2, a)
    power = y * select(a == 0.0, -INFINITY, log2)
    power = greatest(least(power, 200.0), -200.0)
    shifter = DOUBLE.shifter + DOUBLE.bias
    shifted = power + shifter
    scale = (shifted.bits() << DOUBLE.fraction).as_float()
    return polynomial(power - (shifted - shifter), table.POWER_EXP2_F64) * scale


def powf(x: Value, y: Value) -> Value:
    """x**y, with C's answers for zeros, infinities and nans."""
    if x.format == SINGLE:
        wide, exponent = x.to(DOUBLE), y.to(DOUBLE)
        size = _size_of_single(wide, exponent).to(SINGLE)
    else:
        size = _size(x, y)
    whole = y == rint(y)
    half = y * 0.5
    odd = whole & (half != rint(half))
    result = select(odd, copysign(size, x), size)
    # A negative number, neither zero nor infinite, has no power that is not whole.
    negative = (x < 0.0) & (x > -INFINITY)
    result = select(negative, select(whole, result, NAN), result)
    one = (x == 1.0) | (y == 0.0) | ((x == -1.0) & (abs(y) == INFINITY))
    return select(one, 1.0, result)


def cbrt(x: Value) -> Value:
    """The cubic root; in double precision by a logarithm, and one step of Newton's."""
    if x.format == SINGLE:
        return _cbrt_of_single(x)
    a = abs(x)
    root = exp(log(a) * (1 / 3))
    better = root - (root - a / (root * root)) * (1 / 3)
    limit = (a == 0.0) | (a == INFINITY)
    return copysign(select(limit, a, better), x)


# Its bits less a third of those of x are 1 / cbrt(x), within 3.6 percent.
_THIRD_AND_MORE = 0x54A24000


def _cbrt_of_single(x: Value) -> Value:
    """c = x y**2 with y = 1 / cbrt(x), and one step of Newton's for c.

    y is guessed from the exponent and found by two steps of y (1 - h)**(-1/3) with h = 1 - x y**3, whose series ends
    after the square. Small numbers are multiplied by a cube, so that nothing on the way is subnormal.
    """
    size = abs(x)
    small = size < 2.0**-60
    a = select(small, size * 2.0**60, size)
    third = (a.bits() >> 16) * 0x5556
    y = (x.builder.constant(_THIRD_AND_MORE, third.kind) - third).as_float()
    for _ in range(2):
        h = fma(-(a * y * y), y, 1.0)
        y = fma(y * h, fma(h, 2 / 9, 1 / 3), y)
    c = a * y * y
    c = fma(fma(c * c, c, -a) * y, y * (-1 / 3), c)
    c = select(small, c * 2.0**-20, c)
    return copysign(select(a < INFINITY, c, a), x)


def short_power(x: Value, exponent: float) -> Value | None:
    """x**exponent where that is a product or a root, for the exponents that people write."""
    if exponent == 1.0:
        return x
    if exponent == 2.0:
        return x * x
    if exponent == 3.0:
        return x * x * x
    if exponent == -1.0:
        return 1.0 / x
    if abs(exponent) != 0.5:
        return None
    root = sqrt(x + 0.0)  # of -0, too, a power is positive
    infinite = x == -INFINITY
    return select(infinite, INFINITY, root) if exponent > 0 else select(infinite, 0.0, 1.0 / root)


def ipowi(x: Value, y: Value) -> Value:
    """x**y for integers, modulo 2**bits; y is unsigned. By repeated squaring."""

    def squared(values: Values) -> Values:
        result, square, left = values
        return select((left & 1) != 0, result * square, result), square * square, left >> 1

    return x.builder.repeat([x.like(1), x, y], lambda values: values[2] != 0, squared)[0]

"""sin, cos, tan, and their inverses.

The argument is counted in quarter turns: x 2/pi = k + f with abs(f) <= 5/8. For a great x only some bits of 2/pi
matter: those above make multiples of 4 quarter turns, those below too little. So 2/pi is taken from where it begins to
matter for x, as two or three doubles. Numbers of single precision have few enough exponents to choose by ``select``
among :data:`_WINDOWS`; all of them are reduced so, without a branch.
"""

from __future__ import annotations

import math
from fractions import Fraction

from hybridc.dialects.scalar import coefficients as table
from hybridc.lower.mathlib.value import (
    DOUBLE,
    SINGLE,
    Format,
    Value,
    Values,
    copysign,
    fma,
    polynomial,
    product,
    rint,
    select,
    sqrt,
    total,
)

EVERYTHING = -(2**11)  # no multiple of 4 comes of this power of 2


def two_over_pi(lowest: int, parts: int, up: int = 0) -> tuple[float, ...]:
    """2/pi * 2**up as a sum of doubles, for numbers that are multiples of 2**lowest.

    The leading bits, whose product with such a number is a multiple of 4, are left out.
    """
    rest = Fraction(table.TWO_OVER_PI_BITS, 1 << table.TWO_OVER_PI_LENGTH)
    rest = rest % Fraction(2) ** (2 - lowest) * 2**up
    doubles: list[float] = []
    for _ in range(parts):
        part = float(rest)
        # If the second part were negative, too, the sum of its product with -0 and a -0 would be 0.
        doubles.append(math.nextafter(part, 0.0) if part > rest and lowest == EVERYTHING else part)
        rest -= Fraction(doubles[-1])
    return tuple(doubles)


_STEP = 26  # exponents for which one window will do: the product with its first part has less than 51 bits
_FIRST = 50  # below 2**50, all bits of 2/pi matter
_WINDOWS = [(2.0**e, two_over_pi(e - 23, 2)) for e in range(_FIRST, 128, _STEP)]


def _quarters_of_single(x: Value) -> tuple[Value, Value]:
    """For a double that is a float32 exactly: the reduced angle, and the quadrant."""
    size = abs(x)
    high, low = (x.like(c) for c in two_over_pi(EVERYTHING, 2))
    for start, window in _WINDOWS:
        inside = size >= start
        high, low = select(inside, window[0], high), select(inside, window[1], low)
    shifted = fma(x, high, DOUBLE.shifter)
    f = fma(x, low, fma(x, high, -(shifted - DOUBLE.shifter)))
    return f * (math.pi / 2), shifted.bits()


_UP = 128  # powers of 2, so that the parts of 2/pi for the greatest numbers are not subnormal


def _window_of_double(x: Value) -> Values:
    """x, and the parts of 2/pi that matter for it; those of great numbers are looked for only where there is one."""
    size = abs(x)

    def parts_of(scale: float, windows: list[tuple[float, tuple[float, ...]]]) -> Values:
        parts = [x.like(c * scale) for c in two_over_pi(EVERYTHING, 3)]
        for start, window in windows:
            inside = size >= start
            parts = [select(inside, c, part) for c, part in zip(window, parts, strict=True)]
        return [x * (1 / scale), *parts]

    great = [(2.0**e, two_over_pi(e - 52, 3, _UP)) for e in range(_FIRST, 1024, _STEP)]
    return x.builder.choose(size >= 2.0**_FIRST, lambda: parts_of(2.0**_UP, great), lambda: parts_of(1.0, []))


def _modulo_four(x: Value) -> Value:
    return fma(rint(x * 0.25), -4.0, x)


def _quarters_of_double(x: Value) -> tuple[Value, Value]:
    """The reduced angle, and the quadrant."""
    size = abs(x)
    x, high, middle, low = _window_of_double(x)
    first, first_rest = product(x, high)
    second, second_rest = product(x, middle)
    turns, missing = total(_modulo_four(first), _modulo_four(first_rest))
    turns, missing_too = total(turns, _modulo_four(second))
    shifted = turns + DOUBLE.shifter
    f = (turns - (shifted - DOUBLE.shifter)) + (missing + missing_too + fma(x, low, second_rest))
    return select(size < 2.0**-30, x, f * (math.pi / 2)), shifted.bits()  # which says what a zero's sign is


def _sin_and_cos(r: Value, digits: Format) -> tuple[Value, Value]:
    """For abs(r) <= 5/8 pi/2, to the digits of a format."""
    sines, cosines = (table.SIN_F32, table.COS_F32) if digits == SINGLE else (table.SIN_F64, table.COS_F64)
    z = r * r
    sine = r * fma(z, polynomial(z, sines), 1.0)  # so that -0 stays what it is
    return sine, fma(z * z, polynomial(z, cosines), fma(z, -0.5, 1.0))


def _turned(x: Value, ahead: int) -> Value:
    """The sine of x and some quarter turns."""
    kind = x.format
    if kind == SINGLE:
        r, quarters = _quarters_of_single(x.to(DOUBLE))
        r, quarters = r.to(SINGLE), quarters.narrow()
    else:
        r, quarters = _quarters_of_double(x)
    quarters = quarters + ahead
    sine, cosine = _sin_and_cos(r, kind)
    result = select((quarters & 1) != 0, cosine, sine)
    return (result.bits() ^ (quarters & 2) << kind.whole.width.data - 2).as_float()


def sin(x: Value) -> Value:
    """The sine."""
    return _turned(x, 0)


def cos(x: Value) -> Value:
    """The cosine: the sine a quarter turn ahead."""
    return _turned(x, 1)


def tan(x: Value) -> Value:
    """sin(x) / cos(x): of single precision, both are computed in double precision, and rounded."""
    kind = x.format
    if kind == SINGLE:
        r, quarters = _quarters_of_single(x.to(DOUBLE))
        quarters = quarters.narrow()
    else:
        r, quarters = _quarters_of_double(x)
    sine, cosine = (part.to(kind) for part in _sin_and_cos(r, kind))
    odd = (quarters & 1) != 0
    return select(odd, cosine, sine) / select(odd, -sine, cosine)


# The inverse functions: odd ones as t + t**3 P(t**2).

_HALF_PI = {"f32": table.HALF_PI_F32, "f64": table.HALF_PI_F64}
_ASIN = {"f32": table.ASIN_F32, "f64": table.ASIN_F64}
_ATAN = {"f32": table.ATAN_F32, "f64": table.ATAN_F64}


def _right_angle_less(x: Value) -> Value:
    high, low = _HALF_PI[x.format.name]
    return (high - x) + low


def _straight_angle_less(x: Value) -> Value:
    high, low = _HALF_PI[x.format.name]
    return (2 * high - x) + 2 * low


def _asin_part(x: Value) -> tuple[Value, Value]:
    """Whether abs(x) > 1/2, and the arc sine of: sqrt((1 - abs(x)) / 2) if so, abs(x) if not. A nan if abs(x) > 1."""
    a = abs(x)
    great = a > 0.5
    z = select(great, fma(a, -0.5, 0.5), a * a)
    s = select(great, sqrt(z), a)
    return great, fma(s * z, polynomial(z, _ASIN[x.format.name]), s)


def asin(x: Value) -> Value:
    """The angle, from -pi/2 to pi/2, whose sine is x."""
    great, part = _asin_part(x)
    return copysign(select(great, _right_angle_less(part * 2.0), part), x)


def acos(x: Value) -> Value:
    """The angle, from 0 to pi, whose cosine is x."""
    great, part = _asin_part(x)
    far = part * 2.0
    return select(great, select(x < 0.0, _straight_angle_less(far), far), _right_angle_less(copysign(part, x)))


def _atan_up_to_one(t: Value) -> Value:
    z = t * t
    return fma(t * z, polynomial(z, _ATAN[t.format.name]), t)


def atan(x: Value) -> Value:
    """The angle, from -pi/2 to pi/2, whose tangent is x."""
    a = abs(x)
    steep = a > 1.0
    angle = _atan_up_to_one(select(steep, 1.0 / a, a))
    return copysign(select(steep, _right_angle_less(angle), angle), x)


def atan2(y: Value, x: Value) -> Value:
    """The angle, from -pi to pi, of the point (x, y); signs of zeros count."""
    across, up = abs(x), abs(y)
    steep = up > across
    short, long = select(steep, across, up), select(steep, up, across)
    t = short / long
    t = select(short == long, 1.0, t)  # both may be infinite
    t = select((short + long) == 0.0, 0.0, t)  # not beside a nan
    angle = _atan_up_to_one(t)
    angle = select(steep, _right_angle_less(angle), angle)
    angle = select(copysign(x.like(1.0), x) < 0.0, _straight_angle_less(angle), angle)
    return copysign(angle, y)

"""exp and functions made of it: exp2, expm1, the logistic function, sinh, cosh, tanh, erf.

The argument is split as x = n ln2 + r with abs(r) <= ln2 / 2, so that exp(x) = 2**n exp(r). The power of two is
multiplied in two halves: then a result which is subnormal or overflows needs no treatment of its own, since the last
product rounds it.
"""

from __future__ import annotations

import math

from hybridc.dialects.scalar import coefficients as table
from hybridc.ground.records import dataclass
from hybridc.lower.mathlib.value import (
    SINGLE,
    Format,
    Value,
    copysign,
    fma,
    greatest,
    least,
    polynomial,
    select,
)


@dataclass(frozen=True)
class _Constants:
    """Constants of a format; ln2 is split so that multiples of its first part by exponents are exact."""

    exp: tuple[float, ...]
    highest: float  # above, exp is infinite; the exponents are still in range
    lowest: float  # here half of the power of two is represented as 0
    minus_one: float  # below, expm1 is -1
    no_part: float  # above, 1 / exp is 0; the exponents are still in range
    ln2: tuple[float, float]
    sinh: tuple[float, ...]
    cosh: tuple[float, ...]
    above: float  # above, sinh is infinite; the exponents are still in range
    steep: float  # above, tanh is 1


_OF_FORMAT = {
    "f32": _Constants(
        exp=table.EXP_F32,
        highest=89.0,
        lowest=-176.0,
        minus_one=-20.0,
        no_part=106.0,
        ln2=table.LN2_F32,
        sinh=table.SINH_F32,
        cosh=table.COSH_F32,
        above=89.6,
        steep=table.TANH_ONE,
    ),
    "f64": _Constants(
        exp=table.EXP_F64,
        highest=710.0,
        lowest=-1418.0,
        minus_one=-40.0,
        no_part=750.0,
        ln2=table.LN2_F64,
        sinh=table.SINH_F64,
        cosh=table.COSH_F64,
        above=710.6,
        steep=22.0,
    ),
}


def _shifter(kind: Format) -> float:
    """The summand that moves an integer, with the biases of two exponents, into the lowest bits."""
    return kind.shifter + 2 * kind.bias


def shifted_integer(x: Value) -> tuple[Value, Value]:
    """The integer n nearest to x, and x in the form from which :func:`halves_of_power` takes 2**n."""
    shifted = x + _shifter(x.format)
    return shifted - _shifter(x.format), shifted


def halves_of_power(shifted: Value) -> tuple[Value, Value]:
    """Two powers of two whose product is 2**n; 0 for the lowest n."""
    kind = shifted.format
    both = shifted.bits()
    half = both >> 1
    return (half << kind.fraction).as_float(), ((both - half) << kind.fraction).as_float()


def _split(x: Value) -> tuple[Value, Value, Value]:
    """exp(r) - 1, and the two halves of 2**n."""
    kind, constants = x.format, _OF_FORMAT[x.format.name]
    high, low = constants.ln2
    shifted = fma(x, 1 / math.log(2), _shifter(kind))
    n = shifted - _shifter(kind)
    r = fma(n, -low, fma(n, -high, x))
    return fma(r * r, polynomial(r, constants.exp), r), *halves_of_power(shifted)


def exp(x: Value) -> Value:
    """e**x = (p s + s) t with p = exp(r) - 1 and s t = 2**n."""
    constants = _OF_FORMAT[x.format.name]
    p, s, t = _split(greatest(least(x, constants.highest), constants.lowest))
    return fma(p, s, s) * t


def exp2(x: Value) -> Value:
    """2**x = (p s + s) t with s t = 2**n for the integer n nearest to x, and p = 2**(x - n) - 1."""
    kind = x.format
    inside = greatest(least(x, kind.bias + 3.0), -2.0 * kind.bias)
    n, shifted = shifted_integer(inside)
    r = (inside - n) * math.log(2)
    p = fma(r * r, polynomial(r, _OF_FORMAT[kind.name].exp), r)
    s, t = halves_of_power(shifted)
    return fma(p, s, s) * t


def expm1(x: Value) -> Value:
    """e**x - 1 = (p s + (s - 1/t)) t: no digits are lost where x is small."""
    constants = _OF_FORMAT[x.format.name]
    p, s, t = _split(greatest(least(x, constants.highest), constants.minus_one))
    return copysign(fma(p, s, s - _inverse(t)) * t, x)


def _inverse(power: Value) -> Value:
    """1 over a power of two."""
    kind = power.format
    return (power.builder.constant(2 * kind.bias << kind.fraction, kind.whole) - power.bits()).as_float()


def logistic(x: Value) -> Value:
    """1 / (1 + e**-x) = (1/t) / (1/t + (p s + s)) with e**-x = (p s + s) t.

    So nothing becomes infinite where the result is subnormal.
    """
    constants = _OF_FORMAT[x.format.name]
    p, s, t = _split(greatest(least(-x, constants.no_part), constants.minus_one))
    inverse = _inverse(t)
    return inverse / (inverse + fma(p, s, s))


def _hyperbolic(x: Value) -> tuple[Value, Value]:
    """sinh(x) / 2 and cosh(x) / 2, for x >= 0.

    With x = n ln2 + r: sinh(x) = cosh(r) (2**n - 2**-n) / 2 + sinh(r) (2**n + 2**-n) / 2, and cosh(x) likewise.
    """
    kind, constants = x.format, _OF_FORMAT[x.format.name]
    high, low = constants.ln2
    shifter = kind.shifter + kind.bias - 2
    shifted = fma(x, 1 / math.log(2), shifter)
    n = shifted - shifter
    r = fma(n, -low, fma(n, -high, x))
    exponent = shifted.bits() << kind.fraction  # of 2**n / 4
    rest = x.builder.constant(2 * (kind.bias - 2) << kind.fraction, kind.whole) - exponent
    grows, shrinks = exponent.as_float(), select(rest > 0, rest, 0).as_float()
    z = r * r
    sinh_r, cosh_less_one = fma(z * r, polynomial(z, constants.sinh), r), z * polynomial(z, constants.cosh)
    odd, even = grows - shrinks, grows + shrinks
    return odd + fma(cosh_less_one, odd, sinh_r * even), even + fma(cosh_less_one, even, sinh_r * odd)


def sinh(x: Value) -> Value:
    """(e**x - e**-x) / 2."""
    half, _ = _hyperbolic(least(abs(x), _OF_FORMAT[x.format.name].above))
    return copysign(half * 2.0, x)


def cosh(x: Value) -> Value:
    """(e**x + e**-x) / 2."""
    _, half = _hyperbolic(least(abs(x), _OF_FORMAT[x.format.name].above))
    return half * 2.0


def tanh(x: Value) -> Value:
    """sinh(x) / cosh(x)."""
    if x.format == SINGLE:
        return _tanh_of_single(x)
    sinh_x, cosh_x = _hyperbolic(least(abs(x), _OF_FORMAT[x.format.name].steep))
    return copysign(sinh_x / cosh_x, x)


def _tanh_of_single(x: Value) -> Value:
    """h / (h + 1) with h = (exp(2a) - 1) / 2: an error of h counts the less the nearer the result is to 1.

    With 2a = n ln2 + 2r: h = p 2**n + (2**n - 1) / 2, where p = (exp(2r) - 1) / 2.
    """
    a = least(abs(x), _OF_FORMAT[x.format.name].steep)
    shifter = SINGLE.shifter + SINGLE.bias
    shifted = fma(a, 2 / math.log(2), shifter)
    r = fma(shifted - shifter, -math.log(2) / 2, a)
    scale = (shifted.bits() << SINGLE.fraction).as_float()
    p = fma(r * r, polynomial(r, table.TANH_F32), r)
    h = fma(p, scale, fma(scale, 0.5, -0.5))
    return copysign(h / (h + 1.0), x)


def erf(x: Value) -> Value:
    """2 / sqrt(pi) times the integral of exp(-t**2) from 0 to x."""
    return _erf_of_single(x) if x.format == SINGLE else _erf_of_double(x)


def _erf_of_single(x: Value) -> Value:
    """x + x P(x**2) up to some 1.2, above a polynomial of abs(x): as it is near to 1, it need not be exact there."""
    a = least(abs(x), table.ERF_ONE)
    near = fma(a, polynomial(a * a, table.ERF_NEAR_F32), a)
    far = polynomial(a - table.ERF_MIDDLE_F32, table.ERF_FAR_F32)
    return copysign(select(a < table.ERF_EDGE_F32, near, far), x)


def _erf_of_double(x: Value) -> Value:
    """x P(x**2) up to 1, above 1 - exp(R(abs(x)))."""
    a = least(abs(x), 6.0)
    near = a * polynomial(a * a, table.ERF_NEAR_F64)
    far = 1.0 - exp(polynomial(a - 3.5, table.ERF_FAR_F64))
    return copysign(select(a < 1.0, near, far), x)

"""The two dtypes of eight bits, as the bytes that they are: made single precision, and made of it.

Processors lack them, but some cards have them. Every number of theirs is one of half precision, which the other
conversion goes by: what is subnormal in eight bits is a half or a normal number there, and costs no more than others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType, f8E4M3FN, f8E5M2, f16, f32, i8
from xdsl.ir import Attribute, Operation

from hybridc.lower.mathlib.value import SINGLE, Value, select

_SHORT = IntegerType(16)
_INFINITY = 0x7F800000


@dataclass(frozen=True)
class Eight:
    """A type of eight bits: what its bits mean, and what becomes of numbers that are too large.

    ``limit`` is the first number that is rounded to none of its own: to ``beyond``; what is no number becomes ``nan``.
    Numbers of half precision whose upper bits are these are less by ``scale``.
    """

    real: Attribute
    fraction: int
    bias: int
    limit: float
    beyond: int
    nan: int
    scale: float


_E4M3FN = Eight(f8E4M3FN, 3, 7, 464 * (1 + 2**-23), 0x7F, 0x7F, 2.0**8)
_E5M2 = Eight(f8E5M2, 2, 15, 61440, 0x7C, 0x7E, 1.0)
EIGHTS = {e.real: e for e in (_E4M3FN, _E5M2)}


def conversion(op: Operation) -> Callable[[Value], Value] | None:
    """The formula of an operation that makes single precision of eight bits, or eight bits of it."""
    if isinstance(op, arith.ExtFOp) and op.input.type in EIGHTS:
        return widened
    return _NARROWED.get(op.result.type) if isinstance(op, arith.TruncFOp) else None


def widened(x: Value) -> Value:
    """A number of eight bits in single precision, by way of half."""
    eight, w = EIGHTS[x.ssa.type], x.writer
    bits = w.write(arith.ExtUIOp, [w.write(arith.BitcastOp, [x], i8)], _SHORT)
    if eight is _E5M2:
        return w.write(arith.ExtFOp, [w.write(arith.BitcastOp, [bits << 8], f16)], f32)
    size = bits & 0x7F
    half = w.write(arith.BitcastOp, [((bits & 0x80) << 8) | (size << 7)], f16)
    number = w.write(arith.ExtFOp, [half], f32) * eight.scale
    return select(size.equal(0x7F), number.like(float("nan")), number)


def e4m3fn(x: Value) -> Value:
    """A number of single precision in eight bits: the nearest, of two the even one; none beyond 464."""
    return _narrowed(x, _E4M3FN)


def e5m2(x: Value) -> Value:
    """A number of single precision in eight bits: the nearest, of two the even one; infinity from 61440 on."""
    return _narrowed(x, _E5M2)


_NARROWED: dict[Attribute, Callable[[Value], Value]] = {f8E4M3FN: e4m3fn, f8E5M2: e5m2}


def _narrowed(x: Value, eight: Eight) -> Value:
    """The nearest of the numbers of eight bits.

    What is added below the last place rounds. What is subnormal stands in the lowest bits of a sum with a number whose
    last place is that of the subnormals.
    """
    w, cut = x.writer, SINGLE.fraction - eight.fraction
    bits = x.bits()
    size = bits & 0x7FFFFFFF
    odd = (size >> cut) & 1
    rounding = ((eight.bias - SINGLE.bias) << SINGLE.fraction) + (1 << cut - 1) - 1
    normal = (size + rounding + odd) >> cut
    least = 2.0 ** (24 - eight.bias - eight.fraction)
    subnormal = (abs(x) + least).bits() - SINGLE.bits(least)
    finite = select(size < SINGLE.bits(2.0 ** (1 - eight.bias)), subnormal, normal)
    other = eight.nan if eight.nan == eight.beyond else select(size > _INFINITY, size.like(eight.nan), eight.beyond)
    whole = select(size < SINGLE.bits(eight.limit), finite, other) | ((bits >> 24) & 0x80)
    return w.write(arith.BitcastOp, [w.write(arith.TruncIOp, [whole], i8)], eight.real)

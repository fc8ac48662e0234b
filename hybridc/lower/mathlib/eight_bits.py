"""Floats of eight bits, for processors that have none: made single precision from their bits, and rounded to them.

All numbers of such a float are numbers of half precision, which processors convert. So what is subnormal in eight bits
costs no more than other numbers.
"""

from __future__ import annotations

from math import frexp

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType, f16, f32, i8
from xdsl.ir import Attribute

from hybridc.dialects.mlir.hybrid import FLOATS, SIGNLESS
from hybridc.dtypes import FLOAT16, TYPES, ElementType
from hybridc.ground.records import dataclass
from hybridc.lower.mathlib.value import SINGLE, Value, select

_HALF, _SHORT = TYPES[FLOAT16], IntegerType(16)
_BITS, _MAGNITUDE, _SIGN = 8, 0x7F, 0x80  # how many, and which of them are the magnitude and the sign


@dataclass(frozen=True)
class Narrow:
    """The conversions of a float without infinities, whose only code of NaN is the largest."""

    known: ElementType

    def widened(self, x: Value) -> Value:
        """A number of eight bits in single precision."""
        w, cut = x.builder, _HALF.digits - self.known.digits
        bits = w.write(arith.ExtUIOp, [w.write(arith.BitcastOp, [x], i8)], _SHORT)
        size = bits & _MAGNITUDE
        half = w.write(arith.BitcastOp, [((bits & _SIGN) << _BITS) | (size << cut)], f16)
        single = w.write(arith.ExtFOp, [half], f32) * 2.0 ** (_HALF.bias - self.known.bias)
        return select(size == _MAGNITUDE, single.like(float("nan")), single)

    def rounded(self, x: Value) -> Value:
        """The nearest number of eight bits, the even one of two; NaN for what is too large.

        A normal number is rounded by what is added below its last place. A subnormal one stands in the lowest bits of
        its sum with a number whose last place is that of the subnormals.
        """
        known, w, cut = self.known, x.builder, SINGLE.fraction + 1 - self.known.digits
        bits = x.bits()
        size = bits & 0x7FFFFFFF
        rounding = ((known.bias - SINGLE.bias) << SINGLE.fraction) + (1 << cut - 1) - 1
        normal = (size + rounding + ((size >> cut) & 1)) >> cut
        step = known.smallest * known.epsilon * 2.0**SINGLE.fraction
        subnormal = (abs(x) + step).bits() - SINGLE.bits(step)
        finite = select(size < SINGLE.bits(known.smallest), subnormal, normal)
        middle = known.largest + 2.0 ** (frexp(known.largest)[1] - known.digits - 1)  # it is rounded down, to even
        code = select(size > SINGLE.bits(middle), size.like(_MAGNITUDE), finite) | ((bits >> 24) & _SIGN)
        return w.write(arith.BitcastOp, [w.write(arith.TruncIOp, [code], i8)], SIGNLESS[known.ir])


EIGHT_BITS: dict[type[Attribute], Narrow] = {kind: Narrow(t) for kind, t in FLOATS.items() if t.bits == _BITS}

"""Half-precision conversions for processors without instructions for them.

LLVM calls two functions of compiler-rt there, which a process may lack; they are added to the module.
"""

from __future__ import annotations


def half_functions() -> str:
    """The conversion functions that LLVM calls (half to single and back), as LLVM IR."""
    return _EXTEND + _TRUNCATE


# Half's bits shifted left by 13 are single's but for the bias, which a multiplication corrects, subnormal or not.
_EXTEND = f"""
define weak hidden float @__extendhfsf2(half %x) nounwind {{
  %short = bitcast half %x to i16
  %bits = zext i16 %short to i32
  %size = and i32 %bits, {0x7FFF}
  %moved = shl i32 %size, 13
  %unscaled = bitcast i32 %moved to float
  %scaled = fmul float %unscaled, 0x46F0000000000000
  %finite = bitcast float %scaled to i32
  %other = or i32 %moved, {0x7F800000}
  %is_finite = icmp ult i32 %size, {0x7C00}
  %result = select i1 %is_finite, i32 %finite, i32 %other
  %sign = and i32 %bits, {0x8000}
  %high = shl i32 %sign, 16
  %whole = or i32 %result, %high
  %single = bitcast i32 %whole to float
  ret float %single
}}
"""

# Rounded to even by an addition below the last place. A subnormal is in the lowest bits of a sum with 1/2.
_TRUNCATE = f"""
define weak hidden half @__truncsfhf2(float %x) nounwind {{
  %bits = bitcast float %x to i32
  %size = and i32 %bits, {0x7FFFFFFF}
  %cut = lshr i32 %size, 13
  %odd = and i32 %cut, 1
  %biased = add i32 %size, {((15 - 127) << 23) + 0xFFF}
  %rounded = add i32 %biased, %odd
  %normal = lshr i32 %rounded, 13
  %absolute = bitcast i32 %size to float
  %summed = fadd float %absolute, 5.0e-01
  %shifted = bitcast float %summed to i32
  %subnormal = sub i32 %shifted, {0x3F000000}
  %is_small = icmp ult i32 %size, {0x38800000}
  %finite = select i1 %is_small, i32 %subnormal, i32 %normal
  %is_nan = icmp ugt i32 %size, {0x7F800000}
  %other = select i1 %is_nan, i32 {0x7E00}, i32 {0x7C00}
  %is_great = icmp uge i32 %size, {0x47800000}
  %result = select i1 %is_great, i32 %other, i32 %finite
  %shift = lshr i32 %bits, 16
  %sign = and i32 %shift, {0x8000}
  %whole = or i32 %result, %sign
  %short = trunc i32 %whole to i16
  %half = bitcast i16 %short to half
  ret half %half
}}
"""

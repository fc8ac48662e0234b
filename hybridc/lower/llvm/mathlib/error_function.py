"""erf."""

from __future__ import annotations

from hybridc.lower.llvm.mathlib import coefficients as table
from hybridc.lower.llvm.mathlib.exponential import exp
from hybridc.lower.llvm.mathlib.value import SINGLE, Value, copysign, fma, greatest, least, polynomial, select


def erf(x: Value) -> Value:
    """2 / sqrt(pi) times the integral of exp(-t**2) from 0 to x.

    In single precision x P(x**2) / Q(x**2). In double precision x P(x**2) up to 1, above 1 - exp(R(abs(x))).
    """
    if x.format == SINGLE:
        x = greatest(least(x, table.ERF_ONE), -table.ERF_ONE)
        z = x * x
        return x * polynomial(z, table.ERF_F32) / polynomial(z, table.ERF_BELOW_F32)
    a = least(abs(x), 6.0)
    near = a * polynomial(a * a, table.ERF_NEAR_F64)
    far = 1.0 - exp(polynomial(a - 3.5, table.ERF_FAR_F64))
    return copysign(select(a < 1.0, near, far), x)

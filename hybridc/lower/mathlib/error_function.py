"""erf."""

from __future__ import annotations

from hybridc.lower.mathlib import coefficients as table
from hybridc.lower.mathlib.exponential import exp
from hybridc.lower.mathlib.value import SINGLE, Value, copysign, fma, least, polynomial, select


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

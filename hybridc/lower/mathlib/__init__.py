"""Functions that processors lack, as formulas of ``arith`` and the ``math`` that they have.

Single precision is within 2.5 units in the last place over the whole range, with subnormal numbers, infinities, nans
and signed zeros; double precision within 1e-14 of the value. ``benchmarks/accuracy.py`` measures both.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import math
from xdsl.ir import Operation

from hybridc.lower.mathlib import exponential, logarithm, power, trigonometric
from hybridc.lower.mathlib.value import Value

Formula = Callable[..., Value]


FORMULAS: dict[type[Operation], Formula] = {
    math.ExpOp: exponential.exp,
    math.ExpM1Op: exponential.expm1,
    math.SinhOp: exponential.sinh,
    math.CoshOp: exponential.cosh,
    math.TanhOp: exponential.tanh,
    math.LogOp: logarithm.log,
    math.Log2Op: logarithm.log2,
    math.Log10Op: logarithm.log10,
    math.Log1pOp: logarithm.log1p,
    math.AsinhOp: logarithm.asinh,
    math.AcoshOp: logarithm.acosh,
    math.AtanhOp: logarithm.atanh,
    math.SinOp: trigonometric.sin,
    math.CosOp: trigonometric.cos,
    math.TanOp: trigonometric.tan,
    math.AsinOp: trigonometric.asin,
    math.AcosOp: trigonometric.acos,
    math.AtanOp: trigonometric.atan,
    math.Atan2Op: trigonometric.atan2,
    math.PowFOp: power.powf,
    math.IPowIOp: power.ipowi,
    math.CbrtOp: power.cbrt,
    math.ErfOp: exponential.erf,
}

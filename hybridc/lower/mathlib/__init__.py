"""Functions that processors lack, as formulas of ``arith`` and the ``math`` that they have.

Single precision is within 2.5 units in the last place over the whole range, with subnormal numbers, infinities, nans
and signed zeros; double precision within 1e-14 of the value. ``benchmarks/accuracy.py`` measures both.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Operation

from hybridc.dialects.scalar.table import OPERATIONS
from hybridc.ir.structured_builder import operation_class
from hybridc.lower.mathlib import exponential, logarithm, power, trigonometric
from hybridc.lower.mathlib.value import Value

Formula = Callable[..., Value]

_MODULES = {"exponential": exponential, "logarithm": logarithm, "power": power, "trigonometric": trigonometric}

# The formula of each operation that has one: in the table, its module; there, the function of its name.
FORMULAS: dict[type[Operation], Formula] = {
    operation_class(o.name): getattr(_MODULES[o.formula], o.short_name) for o in OPERATIONS.values() if o.formula
}

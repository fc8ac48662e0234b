"""Scalar operations and numbers as every target reads them: the sign of integers, what a dtype holds, neutral elements.

Upstream integers have no sign; the operations that care for one carry it in their names.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from xdsl.dialects import arith
from xdsl.ir import Operation

from hybridc.dtypes import STORED, is_float
from hybridc.ir.kernel import Number

DType = np.dtype[Any]

CASTS = frozenset(
    f"arith.{n}" for n in ("extf", "truncf", "sitofp", "uitofp", "fptosi", "fptoui", "extsi", "extui", "trunci")
)
_UNSIGNED = frozenset(f"arith.{n}" for n in ("divui", "remui", "maxui", "minui", "shrui", "uitofp", "extui"))
_SIGNED = frozenset(f"arith.{n}" for n in ("divsi", "remsi", "maxsi", "minsi", "shrsi", "sitofp", "extsi"))

# The element that combined with another gives that other, where it is no limit of the dtype.
_NEUTRAL = {"add": 0, "mul": 1, "or": 0, "and": -1, "xor": 0}


def sign(op: Operation) -> str | None:
    """How an operation reads integers: ``i`` signed, ``u`` unsigned, None if that makes no difference."""
    if isinstance(op, arith.CmpiOp):
        name = arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]
        return None if name in ("eq", "ne") else "u" if name[0] == "u" else "i"
    return "u" if op.name in _UNSIGNED else "i" if op.name in _SIGNED or op.name == "math.absi" else None


def signed_as(dtype: DType, kind: str | None) -> DType:
    """The integer dtype of the same size with that sign; other dtypes have none."""
    if kind is None or dtype.kind not in "iu":
        return dtype
    return np.dtype(f"{'u' if kind == 'u' else ''}int{dtype.itemsize * 8}")


def number_as(value: Number, dtype: DType) -> Number:
    """A number as the dtype holds it: integers wrap, floats are as short as they can be written."""
    if dtype.kind == "b":
        return bool(value)
    if dtype in STORED:  # they write themselves with few digits, whatever they are
        return float(dtype.type(value))
    if dtype.kind == "f":
        return float(str(dtype.type(value)))
    return np.asarray(int(value) & (2**64 - 1), np.uint64).astype(dtype).item()


def neutral(combine: str, dtype: DType) -> Number:
    """From which number a reduction by ``add``, ``mul``, ``max``, ``min``, ``or``, ``and`` or ``xor`` begins."""
    if combine in _NEUTRAL:
        return number_as(_NEUTRAL[combine], dtype)
    greatest = combine == "min"
    if is_float(dtype):
        return math.inf if greatest else -math.inf
    if dtype.kind == "b":
        return greatest
    limits = np.iinfo(dtype)
    return int(limits.max if greatest else limits.min)

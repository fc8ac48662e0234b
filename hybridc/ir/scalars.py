"""Scalar operations and constants, as all targets read them.

The signedness of integer operations, the values that a dtype holds, the neutral elements of reductions. Upstream
integers are signless; the operations for which it matters carry the sign in their names.
"""

from __future__ import annotations

import math

import numpy as np

from hybridc.dialects.scalar.table import OPERATIONS
from hybridc.dtypes import STORED, DType, is_float
from hybridc.errors import UnsupportedError

Number = int | float

FLOAT_CASTS = ("arith.extf", "arith.truncf")
CASTS = frozenset(
    f"arith.{n}" for n in ("extf", "truncf", "sitofp", "uitofp", "fptosi", "fptoui", "extsi", "extui", "trunci")
)

# The neutral elements that are not the least or the greatest value of the dtype.
_NEUTRAL = {"add": 0, "mul": 1, "or": 0, "and": -1, "xor": 0}


def signedness(op: str) -> str | None:
    """The signedness of an operation, named with its predicate: ``i`` signed, ``u`` unsigned, None if either."""
    known = OPERATIONS.get(op)
    return known.reads or None if known is not None else None


def signed_as(dtype: DType, kind: str | None) -> DType:
    """The integer dtype of the same size with that signedness; other dtypes as they are."""
    if kind is None or dtype.kind not in "iu":
        return dtype
    return np.dtype(f"{'u' if kind == 'u' else ''}int{dtype.itemsize * 8}")


def constant_as(value: Number, dtype: DType) -> Number:
    """A constant as the dtype holds it: integers wrap, floats have the shortest decimal text that reads back."""
    if dtype.kind == "b":
        return bool(value)
    if dtype in STORED:  # their text is short already
        return float(dtype.type(value))
    if dtype.kind == "f":
        return float(str(dtype.type(value)))
    return np.asarray(int(value) & (2**64 - 1), np.uint64).astype(dtype).item()


def neutral(combine: str, dtype: DType) -> Number:
    """The neutral element of a reduction by ``add``, ``mul``, ``max``, ``min``, ``or``, ``and`` or ``xor``."""
    if combine in _NEUTRAL:
        return constant_as(_NEUTRAL[combine], dtype)
    greatest = combine == "min"
    if is_float(dtype):
        return math.inf if greatest else -math.inf
    if dtype.kind == "b":
        return greatest
    limits = np.iinfo(dtype)
    return int(limits.max if greatest else limits.min)


def combining(op: str) -> str:
    """The combining function of an operation: ``add``, ``mul``, ``max``, ``min``, ``or``, ``and`` or ``xor``."""
    known = OPERATIONS.get(op)
    if known is None or not known.combines:
        names = sorted(o.name for o in OPERATIONS.values() if o.combines)
        raise UnsupportedError(f"reduction by {op} is not supported; use one of {', '.join(names)}")
    return known.combines


def neutral_of(op: str, dtype: DType) -> Number:
    """The neutral element of a reduction by an operation, as the dtype holds it."""
    return constant_as(neutral(combining(op), signed_as(dtype, signedness(op))), dtype)

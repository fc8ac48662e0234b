"""Operations of ``arith`` and ``math`` as functions of arrays, by the names that NumPy has for them."""

from __future__ import annotations

import numpy as np

from hybridc.dialects import special
from hybridc.dialects.scalar.table import OPERATIONS
from hybridc.dtypes import DType
from hybridc.errors import UnsupportedError
from hybridc.ir import scalars
from hybridc.ir.scalars import Number

SIGN = "sign"  # an operation of no dialect

# What a reduction by a ufunc does.
_COMBINES = {o.numpy: o.combines for o in OPERATIONS.values() if o.combines}


def ufunc(op: str, lines: str = "") -> str:
    """The function that computes an operation, as source; ``lines`` are the user's, for an error."""
    known = OPERATIONS.get(op)
    if known is None or not known.numpy:
        raise UnsupportedError(f"the numpy target has no function for {op}" + (f" ({lines})" if lines else ""))
    return known.numpy


def neutral_of_ufunc(function: str, dtype: DType) -> Number:
    """The element from which a reduction by a function begins."""
    return scalars.neutral(_COMBINES[function], dtype)


def fold(function: str, numbers: list[Number], dtype: DType, result: DType) -> Number:
    """The result of a function of scalars, computed in a dtype; ``copy`` only converts."""
    arrays = [np.asarray(n, dtype) for n in numbers]
    with np.errstate(all="ignore"):
        if function == "copy":
            return arrays[0].astype(result).item()
        if function.startswith("np."):
            return getattr(np, function[3:])(*arrays).item()
    return getattr(special, function.partition(".")[2])(*arrays).item()

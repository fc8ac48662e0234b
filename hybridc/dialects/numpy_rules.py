"""What an operator does with the dtypes of ``mx.np`` arrays: data of its class.

Arrays of ``mx.nd`` must agree in their dtype, which the result has. Arrays of ``mx.np`` are promoted to a common one,
and a class's rule says what more is done: the operator itself, its gradient and its lowering are the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from hybridc.dtypes import FLOAT32, FLOAT64, DType, is_float
from hybridc.ground.records import dataclass

BOOL, INT32, INT64 = np.dtype(np.bool_), np.dtype(np.int32), np.dtype(np.int64)


def promoted(first: DType, second: DType) -> DType:
    """The dtype in which elements of two dtypes are combined.

    Floats beside integers keep their dtype, also in half precision; of int8 and uint8 it is int32, as MXNet has no
    integers of 16 bits.
    """
    if first == second:
        return first
    floats = is_float(first), is_float(second)
    if floats == (True, True) and first.itemsize == second.itemsize:
        return FLOAT32  # float16 and bfloat16
    if floats[0] != floats[1]:
        return first if floats[0] else second
    if BOOL in (first, second):
        return second if first == BOOL else first
    if first.itemsize == second.itemsize == 1:
        return INT32
    return first if first.itemsize > second.itemsize else second


def common(dtypes: Iterable[DType]) -> DType:
    """The promoted dtype of several."""
    found: DType | None = None
    for dtype in dtypes:
        found = dtype if found is None else promoted(found, dtype)
    return FLOAT32 if found is None else found


def fits(n: int, dtype: DType) -> bool:
    """Whether an integer is in the range of a dtype of integers."""
    return dtype.kind not in "iu" or np.iinfo(dtype).min <= n <= np.iinfo(dtype).max


@dataclass(frozen=True)
class NumpyRule:
    """A rule for dtypes.

    ``inexact``: integers and booleans are computed in float32, MXNet's default. ``counts``: booleans are computed in
    int64. ``bits``: booleans beside a number stay booleans, as the number's truth is meant. ``result`` is the dtype of
    the result, if that is not the one that is computed in.
    """

    inexact: bool = False
    counts: bool = False
    bits: bool = False
    result: DType | None = None

    def computed(self, dtypes: Iterable[DType], numbers: Iterable[Any] = ()) -> DType:
        """The dtype that inputs are cast to: arrays of these dtypes, and Python's numbers, which only add a kind."""
        dtype, scalars = common(dtypes), list(numbers)
        if not is_float(dtype):
            # COMPAT(mxnet): there 2.5 beside an array of integers is cut to 2, and sin, exp, std, … of integers are
            # integers.
            if any(isinstance(n, float | np.floating) for n in scalars):
                return FLOAT64 if self.result == BOOL else FLOAT32
            whole = [int(n) for n in scalars]
            if whole and dtype == BOOL and not self.bits:
                dtype = INT64
            if self.result == BOOL and not all(fits(n, dtype) for n in whole):  # compared, not wrapped
                dtype = INT64 if all(fits(n, INT64) for n in whole) else FLOAT64
            if self.inexact:
                return FLOAT32
        return INT64 if self.counts and dtype == BOOL else dtype


PROMOTES = NumpyRule()
INEXACT = NumpyRule(inexact=True)
COUNTS = NumpyRule(counts=True)
COMPARES = NumpyRule(result=BOOL)
BITS = NumpyRule(bits=True)

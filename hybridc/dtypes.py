"""Element types beside NumPy's own, and the dtypes in which each is computed.

NumPy knows ``bfloat16`` once ml_dtypes is imported, but calls its kind "V", as of bytes: whether a dtype is
floating-point is asked here.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

DType = np.dtype[Any]

FLOAT16, FLOAT32 = np.dtype(np.float16), np.dtype(np.float32)


def _added(name: str, size: int) -> DType:
    """A dtype of ml_dtypes, or where that is not installed one that no array has."""
    try:
        made: DType = np.dtype(getattr(importlib.import_module("ml_dtypes"), name))
    except ImportError:
        return np.dtype(f"V{size}")
    return made


BFLOAT16 = _added("bfloat16", 2)
#: The names of those that no array has here.
ABSENT = frozenset({"bfloat16"} - {BFLOAT16.name})
# Floats whose sums, products and functions are computed in float32, and rounded at the end.
HALVES = frozenset({FLOAT16, BFLOAT16})
# Of these, the floats in which nothing is computed: every operator computes in float32, and rounds its results once.
STORED = frozenset({BFLOAT16})
_DIGITS = {BFLOAT16: 8}  # binary ones, with the first


def is_float(dtype: DType) -> bool:
    """Whether a dtype is of floating-point numbers."""
    return dtype.kind == "f" or dtype in STORED


def is_half(dtype: Any) -> bool:
    """Whether sums, products and functions of numbers are computed in float32."""
    return np.dtype(dtype) in HALVES


def kind_of(dtype: DType) -> str:
    """The kind of a dtype, as NumPy names kinds: ``f``, ``i``, ``u``, ``b`` and others."""
    return "f" if dtype in STORED else dtype.kind


def wide(dtype: DType) -> DType:
    """The dtype in which sums, products and functions of numbers are computed."""
    return FLOAT32 if dtype in HALVES else dtype


def accumulated(dtype: DType) -> DType:
    """The dtype in which means and norms of numbers are computed: sums and counts fit it."""
    return np.dtype("int64") if dtype.kind in "iu" and dtype.itemsize < np.dtype("int64").itemsize else wide(dtype)


def exact_integers(dtype: DType) -> int:
    """Up to which number a dtype has all integers."""
    if dtype in STORED:
        return int(2 ** _DIGITS[dtype])
    return int(2 ** (np.finfo(dtype).nmant + 1) if dtype.kind == "f" else 2 ** (8 * dtype.itemsize - 1))


def lowest(dtype: DType) -> float:
    """The least finite number of a float dtype."""
    if dtype in STORED:  # with the exponents of float32
        return -(2 - 2.0 ** (1 - _DIGITS[dtype])) * 2.0**127
    return float(np.finfo(dtype).min)


def computed(dtype: DType) -> DType:
    """The dtype in which every operation on numbers is computed."""
    return FLOAT32 if dtype in STORED else dtype

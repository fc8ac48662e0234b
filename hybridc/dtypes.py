"""Which element types there are beside NumPy's own, and in what numbers of each are computed.

NumPy knows ``bfloat16`` once ml_dtypes is imported, but calls its kind "V", as of bytes: whether a dtype is
floating-point is asked here.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

DType = np.dtype[Any]

FLOAT16, FLOAT32 = np.dtype(np.float16), np.dtype(np.float32)


def _bfloat16() -> DType:
    """The dtype, or where ml_dtypes is not installed one that no array has."""
    try:
        made: DType = np.dtype(importlib.import_module("ml_dtypes").bfloat16)
    except ImportError:
        return np.dtype("V2")
    return made


BFLOAT16 = _bfloat16()
# Floats whose sums, products and functions are computed in float32, and rounded at the end.
HALVES = frozenset({FLOAT16, BFLOAT16})
# Of these, the floats in which nothing is computed: every operator computes in float32, and rounds its results once.
STORED = frozenset({BFLOAT16})


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


def computed(dtype: DType) -> DType:
    """The dtype in which every operation on numbers is computed."""
    return FLOAT32 if dtype in STORED else dtype

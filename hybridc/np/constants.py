"""Constants and dtypes of ``mx.np``."""

from __future__ import annotations

import numpy as onp

from hybridc.dtypes import FLOAT32

__all__ = [
    "Inf",
    "Infinity",
    "NAN",
    "NINF",
    "NZERO",
    "NaN",
    "PINF",
    "PZERO",
    "bool",
    "bool_",
    "default_dtype",
    "dtype",
    "e",
    "euler_gamma",
    "finfo",
    "float16",
    "float32",
    "float64",
    "floating",
    "generic",
    "iinfo",
    "inf",
    "int16",
    "int32",
    "int64",
    "int8",
    "integer",
    "nan",
    "newaxis",
    "number",
    "pi",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
]

pi, e, euler_gamma = onp.pi, onp.e, onp.euler_gamma
inf = PINF = Inf = Infinity = onp.inf
NINF = -onp.inf
nan = NAN = NaN = onp.nan
PZERO, NZERO = 0.0, -0.0  # zeros with a sign
newaxis = None

float16, float32, float64 = onp.float16, onp.float32, onp.float64
int8, int16, int32, int64 = onp.int8, onp.int16, onp.int32, onp.int64
uint8, uint16, uint32, uint64 = onp.uint8, onp.uint16, onp.uint32, onp.uint64
bool = bool_ = onp.bool_
dtype, finfo, iinfo, generic, integer, floating, number = (
    onp.dtype, onp.finfo, onp.iinfo, onp.generic, onp.integer, onp.floating, onp.number,
)  # fmt: skip
#: The dtype of arrays that are made without one.
default_dtype = FLOAT32

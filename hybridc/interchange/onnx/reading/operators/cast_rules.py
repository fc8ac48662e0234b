"""Casts between dtypes, also those that hybridc lacks: their values are known, as NumPy arrays."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false
# Inputs are arrays or symbols.

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from onnx import TensorProto

from hybridc import np as mnp
from hybridc.errors import OnnxUnsupportedError
from hybridc.interchange.onnx.reading.onnx_rules import OnnxCall, onnx_op
from hybridc.interchange.onnx.reading.tensor_values import dtype_of_element, element_of
from hybridc.interchange.onnx.reading.walk_values import WIDER, has_dtype, is_known, is_traced, lifted, lowered, numbers

# Floats that saturate, unless the node says otherwise.
_EIGHT_BITS = frozenset(
    {TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E4M3FNUZ, TensorProto.FLOAT8E5M2, TensorProto.FLOAT8E5M2FNUZ}
)
_ALWAYS = frozenset(
    getattr(TensorProto, n) for n in ("FLOAT4E2M1", "FLOAT6E2M3", "FLOAT6E3M2") if hasattr(TensorProto, n)
)
_POWERS = getattr(TensorProto, "FLOAT8E8M0", 24)


@onnx_op("Cast", raw=True)
def cast(call: OnnxCall, x: Any) -> Any:
    return cast_to(x, call["to"], call["saturate"] != 0, call["round_mode"] or "up")


@onnx_op("CastLike", raw=True)
def cast_like(call: OnnxCall, x: Any, like: Any) -> Any:
    return cast_to(x, element_of(like.dtype), call["saturate"] != 0, call["round_mode"] or "up")


def cast_to(x: Any, element: int, saturates: bool = True, rounds: str = "up") -> Any:
    """A value in another dtype, by ONNX's number of it."""
    dtype = dtype_of_element(element, "Cast")
    if is_known(x):
        return _cast_numbers(x, element, saturates, rounds)
    if not has_dtype(np.empty(0, dtype)):
        if is_traced(x):
            raise OnnxUnsupportedError(f"arrays of dtype {dtype} cannot be compiled; leave this network unhybridized")
        return _cast_numbers(lowered(x), element, saturates, rounds)
    if dtype.kind == "b":
        return x != 0
    if dtype in WIDER and is_traced(x):
        return _wrapped(x, dtype)
    return lifted(x).astype(dtype)


def _wrapped(x: Any, dtype: np.dtype[Any]) -> Any:
    """The low bits of integers as numbers of a dtype that is not compiled, in the wider one."""
    wide, low, count = WIDER[dtype], int(np.iinfo(dtype).min), 1 << 8 * dtype.itemsize
    return (mnp.mod(x.astype("int64") - low, count) + low).astype(wide)


def _cast_numbers(x: Any, element: int, saturates: bool, rounds: str) -> Any:
    x = np.asarray(x)
    dtype = dtype_of_element(element, "Cast")
    if x.dtype == dtype:
        return x
    if x.dtype.kind in "OU":
        return _parsed(x, dtype)
    if element == TensorProto.STRING:
        return _texts(x)
    with np.errstate(all="ignore"):
        if element == _POWERS:
            return _power_of_two(x.astype(np.float32), saturates, rounds)
        if (element in _EIGHT_BITS and saturates) or element in _ALWAYS:
            return _saturated(x, dtype)
        if (dtype.kind in "iu" and x.dtype.kind == "V") or dtype.name in ("int4", "uint4", "int2", "uint2"):
            return _small_integers(x, dtype)
        return x.astype(dtype)


def _saturated(x: Any, dtype: np.dtype[Any]) -> Any:
    """What is too large becomes the largest number of the dtype."""
    largest = float(ml_dtypes.finfo(dtype).max)
    values = x.astype(np.float32)
    return np.clip(values, -largest, largest).astype(x.dtype if x.dtype.kind == "f" else np.float32).astype(dtype)


def _small_integers(x: Any, dtype: np.dtype[Any]) -> Any:
    """Integers of a few bits: of larger ones the low bits stay."""
    if x.dtype.kind not in "iub" and x.dtype.name not in ("int4", "uint4", "int2", "uint2"):
        x = np.trunc(x.astype(np.float32))
    return x.astype(np.int64).astype(dtype)


def _power_of_two(x: Any, saturates: bool, rounds: str) -> Any:
    """The exponents of positive numbers, as float8e8m0."""
    dtype = np.dtype(ml_dtypes.float8_e8m0fnu)
    bits = np.abs(x).view(np.uint32)
    exponent, rest = (bits >> 23).astype(np.int64), bits & 0x7FFFFF
    if rounds == "up":
        exponent += rest > 0
    elif rounds == "nearest":
        exponent += rest >= 0x400000
    exponent = np.where(np.isnan(x), 255, np.minimum(exponent, 254) if saturates else exponent)
    return np.minimum(exponent, 255).astype(np.uint8).view(dtype)


def _parsed(x: Any, dtype: np.dtype[Any]) -> Any:
    """Numbers that are written as text."""
    if dtype.kind == "O":
        return x
    values = [float(text) for text in x.ravel()]
    return np.array([int(v) if dtype.kind in "iub" else v for v in values]).reshape(x.shape).astype(dtype)


def _texts(x: Any) -> Any:
    """Numbers as text."""
    if x.dtype.kind not in "fiub":
        x = x.astype(np.float32)
    return np.array([str(v) for v in x.ravel()], dtype=object).reshape(x.shape)


@onnx_op("BitCast", raw=True)
def bit_cast(call: OnnxCall, x: Any) -> Any:
    """The same bits, read as another dtype."""
    dtype = dtype_of_element(call["to"], "BitCast")
    return numbers(x, "an array whose bits are read as another dtype").view(dtype)

"""Quantized layers as engines know them: QuantizeLinear, DequantizeLinear, and layers on real numbers between them.

The integers of 32 bits that a layer gives, and their range, are written beside the real numbers that they stand for;
where only these are used, the integers go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hybridc.dialects.nn.activation import Relu
from hybridc.dialects.nn.pooling import Pooling
from hybridc.dialects.quantized.layers import (
    QuantizedAct,
    QuantizedConv,
    QuantizedFullyConnected,
    QuantizedPooling,
)
from hybridc.dialects.quantized.quantize import Dequantize, QuantizeV2, Requantize
from hybridc.dialects.quantized.ranges import LEVELS
from hybridc.dtypes import FLOAT32
from hybridc.interchange.onnx.writing.onnx_value import OnnxValue
from hybridc.interchange.onnx.writing.translate import Translator, translation


def _unit(t: Translator, low: OnnxValue, high: OnnxValue, dtype: Any) -> OnnxValue:
    """The number for which the integer 1 stands, as a value without axes."""
    ends = [t.moves.reshape(t.steps.abs(x), ()) for x in (low, high)]
    return t.steps.max(t.steps.max(*ends), 1e-30) * (1 / LEVELS[np.dtype(dtype).name])


def _real(t: Translator, q: OnnxValue, low: OnnxValue, high: OnnxValue) -> OnnxValue:
    """The real numbers for which integers stand."""
    if q.real is not None:
        return q.real
    return t.writer.node("DequantizeLinear", [q, _unit(t, low, high, q.dtype)], q.shape, FLOAT32)


def _integers(t: Translator, op: Any, x: OnnxValue) -> Any:
    """Real numbers as integers with the range of calibration; None without one."""
    known = op.calibrated()
    if known is None:
        return None
    dtype = np.dtype(op.chosen(op.out_type))
    low, high = known
    reach = max(abs(low), abs(high))
    scale = t.constant(np.float32(max(reach, 1e-30) / LEVELS[dtype.name]))
    q = t.writer.node("QuantizeLinear", [x, scale, t.constant(np.zeros((), dtype))], x.shape, dtype)
    ends = (low, high) if dtype == np.uint8 else (-reach, reach)
    return (q, *[t.constant(np.full(1, end, np.float32)) for end in ends])


@translation(QuantizeV2)
def quantize(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """QuantizeLinear; a half is rounded to even, not away from 0."""
    (x,) = inputs
    return _integers(t, op, t.writer.cast(x, FLOAT32)) if x.dtype.kind not in "iu" else None


@translation(Requantize)
def requantize(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """QuantizeLinear of the real numbers."""
    return _integers(t, op, _real(t, *inputs)) if op.calibrated() is not None else None


@translation(Dequantize)
def dequantize(t: Translator, _: Any, inputs: Sequence[OnnxValue]) -> Any:
    """DequantizeLinear."""
    return _real(t, *inputs)


@translation(QuantizedConv, QuantizedFullyConnected)
def quantized_layer(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """The layer on real numbers."""
    given = dict(zip(op.input_names(), inputs, strict=True))
    names = ("data", "weight") if op.no_bias else ("data", "weight", "bias")
    reals = [_real(t, given[n], given[f"min_{n}"], given[f"max_{n}"]) for n in names]
    one = _unit(t, given["min_data"], given["max_data"], given["data"].dtype)
    one = one * _unit(t, given["min_weight"], given["max_weight"], np.int8)
    reals[2:] = [t.steps.rint(bias / one) * one for bias in reals[2:]]  # integers of 32 bits are added
    (y,) = t.write(op.layer(), reals)
    q = t.writer.cast(t.steps.rint(y / one), np.int32)
    q.real = y
    reach = t.moves.reshape(one * LEVELS["int32"], (1,))
    return q, -reach, reach


@translation(QuantizedAct, QuantizedPooling)
def of_same_range(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """What chooses among numbers, on real ones; means decompose, whose halves are rounded away from 0."""
    q, low, high = inputs
    if type(op) is QuantizedPooling and op.pool_type != "max":
        return None
    plain = Relu.bind() if type(op) is QuantizedAct else Pooling.bind(**op.attrs)
    (y,) = t.write(plain, [_real(t, q, low, high)])
    zero = t.constant(np.zeros((), q.dtype))
    found = t.writer.node("QuantizeLinear", [y, _unit(t, low, high, q.dtype), zero], y.shape, q.dtype)
    return (found, *[t.moves.reshape(t.writer.cast(end, FLOAT32), (1,)) for end in (low, high)])

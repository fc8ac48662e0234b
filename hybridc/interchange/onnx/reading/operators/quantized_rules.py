"""Numbers as small integers with a scale: quantization, and products of integers."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false
# Inputs are arrays or symbols.

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from hybridc import np as mnp
from hybridc.interchange.onnx.reading.onnx_rules import OnnxCall, onnx_op
from hybridc.interchange.onnx.reading.operators.cast_rules import cast_to
from hybridc.interchange.onnx.reading.operators.images.window_rules import general_convolution, pads_of, spatial
from hybridc.interchange.onnx.reading.tensor_values import dtype_of_element, element_of
from hybridc.interchange.onnx.reading.walk_values import lifted

# The smallest and the largest integers of so many bits.
_RANGES = {"int4": (-8, 7), "uint4": (0, 15), "int2": (-2, 1), "uint2": (0, 3)}


def _range(dtype: np.dtype[Any]) -> tuple[int, int] | None:
    """The smallest and the largest number of an integer dtype; None for others."""
    if dtype.kind in "iu":
        return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    return _RANGES.get(dtype.name)


def _spread(p: Any, x: Any, axis: int, block: int) -> Any:
    """Scales or zero points that broadcast with the data: one, one for each index of an axis, or for each block."""
    p = lifted(p)
    rank = len(x.shape)
    if len(p.shape) == 0 or (p.shape == (1,) and rank != 1):
        return p.reshape(())
    if len(p.shape) == 1:
        return p if rank == 1 else p.reshape((-1,) + (1,) * (rank - axis % rank - 1))
    if block:
        p = mnp.repeat(p, block, axis=axis)
        return p[tuple(slice(0, n) for n in x.shape)]
    return p


@onnx_op("QuantizeLinear", raw=True, known=(2,), constants=(1,))
def quantize_linear(call: OnnxCall, x: Any, scale: Any, zero: Any = None) -> Any:
    """``saturate(round(x / scale) + zero)``."""
    element = element_of(zero.dtype) if zero is not None else call["output_dtype"] or TensorProto.UINT8
    x = lifted(x)
    axis, block = 1 if call["axis"] is None else call["axis"], call["block_size"] or 0
    ratio = x.astype("float32") / _spread(cast_to(scale, TensorProto.FLOAT), x, axis, block)
    limits = _range(dtype_of_element(element, "QuantizeLinear"))
    if limits is None:
        return cast_to(ratio, element, bool(call["saturate"]))
    y = mnp.rint(ratio)
    if zero is not None:
        y = y + _spread(cast_to(zero, TensorProto.FLOAT), x, axis, block)
    return cast_to(mnp.clip(y, *limits), element)


@onnx_op("DequantizeLinear", raw=True, constants=(1, 2))
def dequantize_linear(call: OnnxCall, x: Any, scale: Any, zero: Any = None) -> Any:
    """``(x - zero) * scale``."""
    axis, block = 1 if call["axis"] is None else call["axis"], call["block_size"] or 0
    target = call["output_dtype"] or element_of(scale.dtype)
    y = lifted(cast_to(x, TensorProto.FLOAT))
    if zero is not None:
        y = y - _spread(cast_to(zero, TensorProto.FLOAT), y, axis, block)
    return cast_to(y * _spread(cast_to(scale, TensorProto.FLOAT), y, axis, block), target)


def _centered(x: Any, zero: Any, axis: int | None = None) -> Any:
    """Integers as int32, without their zero point, which may be one for each index of an axis."""
    x = x.astype("int32")
    if zero is None:
        return x
    zero = zero.astype("int32")
    if len(zero.shape) == 1 and zero.shape[0] > 1 and axis is not None:
        zero = zero.reshape((-1,) + (1,) * (len(x.shape) - axis - 1))
    return x - (zero.reshape(()) if zero.size == 1 else zero)


@onnx_op("MatMulInteger")
def matmul_integer(_: OnnxCall, a: Any, b: Any, a_zero: Any = None, b_zero: Any = None) -> Any:
    return mnp.matmul(_centered(a, a_zero, len(a.shape) - 2), _centered(b, b_zero))


@onnx_op("ConvInteger")
def convolution_integer(call: OnnxCall, x: Any, w: Any, x_zero: Any = None, w_zero: Any = None) -> Any:
    return _convolved(call, _centered(x, x_zero), _centered(w, w_zero, 0))


def _convolved(call: OnnxCall, x: Any, w: Any) -> Any:
    rank = len(x.shape) - 2
    strides, dilations = spatial(call, "strides", rank), spatial(call, "dilations", rank)
    pads = pads_of(call, x.shape[2:], w.shape[2:], strides, dilations)
    return general_convolution(x, w, None, pads, strides, dilations, call["group"])


def _requantized(total: Any, ratio: Any, zero: Any, dtype: Any) -> Any:
    """Sums of products as small integers again."""
    low, high = _range(np.dtype(dtype)) or (0, 255)
    scaled = mnp.rint(total.astype("float64") * ratio.astype("float64"))
    return mnp.clip(scaled + zero.astype("float64"), low, high).astype(dtype)


@onnx_op("QLinearMatMul", raw=True)
def qlinear_matmul(_: OnnxCall, *inputs: Any) -> Any:
    """A product of quantized matrices, quantized."""
    element = element_of(inputs[7].dtype)
    numbers = [lifted(cast_to(x, TensorProto.FLOAT)) for x in inputs]
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = numbers
    total = mnp.matmul((a - _rows(a_zero)).astype("float64"), (b - b_zero).astype("float64"))
    ratio = _rows(a_scale) * b_scale / y_scale
    dtype = dtype_of_element(element, "QLinearMatMul")
    limits = _range(dtype)
    y = total * ratio.astype("float64")
    if limits is None:
        return cast_to(y.astype("float32"), element)
    return cast_to(mnp.clip(mnp.rint(y) + y_zero.astype("float64"), *limits), element)


def _rows(x: Any) -> Any:
    """Scales of rows, as a column."""
    return mnp.expand_dims(x, -1) if len(x.shape) == 1 and x.shape[0] > 1 else x


@onnx_op("QLinearConv")
def qlinear_convolution(
    call: OnnxCall,
    x: Any,
    x_scale: Any,
    x_zero: Any,
    w: Any,
    w_scale: Any,
    w_zero: Any,
    y_scale: Any,
    y_zero: Any,
    b: Any = None,
) -> Any:
    """A convolution of quantized data, quantized."""
    total = _convolved(call, _centered(x, x_zero), _centered(w, w_zero, 0))
    shape = (-1, *[1] * (len(x.shape) - 2))
    total = total if b is None else total + b.reshape(shape)
    ratio = (
        x_scale.reshape(())
        * (w_scale.reshape(shape) if w_scale.size > 1 else w_scale.reshape(()))
        / y_scale.reshape(())
    )
    return _requantized(total, ratio, y_zero.reshape(()), y_zero.dtype)

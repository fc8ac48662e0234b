"""Layers of networks: convolution, pooling, normalization, softmax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hybridc.dialects.nn.activation import Elu, Gelu, HardSigmoid, Leaky, Relu, Selu, Softrelu, Softsign
from hybridc.dialects.nn.batch_norm import BatchNorm, BatchNormV1, SyncBatchNorm
from hybridc.dialects.nn.convolution import Convolution, Deconvolution
from hybridc.dialects.nn.image_sizes import BilinearResize2D
from hybridc.dialects.nn.normalization import LRN, InstanceNorm, LayerNorm
from hybridc.dialects.nn.pooling import Pooling
from hybridc.dialects.nn.softmax import LogSoftmax, Softmax
from hybridc.ground.sizes import is_size
from hybridc.interchange.onnx.writing.onnx_value import OnnxValue
from hybridc.interchange.onnx.writing.translate import Result, Translator, has_no_elements, translation


def channels_first(t: Translator, x: OnnxValue, last: bool) -> OnnxValue:
    """An array with the channels in its second axis, given whether they are in the last one."""
    return t.moves.transpose(x, (0, x.ndim - 1, *range(1, x.ndim - 1))) if last else x


def channels_last(t: Translator, x: OnnxValue, last: bool) -> OnnxValue:
    """The inverse."""
    return t.moves.transpose(x, (0, *range(2, x.ndim), 1)) if last else x


@translation(Convolution)
def convolution(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """Conv, between transposes if the channels are last."""
    if has_no_elements(inputs[0].shape):
        return None
    data, weight = (channels_first(t, x, op.last) for x in inputs[:2])
    shape = t.results_of(op, inputs)[0].shape
    shape = (shape[0], shape[-1], *shape[1:-1]) if op.last else shape
    g = op.geometry
    y = t.writer.node(
        "Conv",
        [data, weight, *inputs[2:]],
        shape,
        data.dtype,
        kernel_shape=list(g.kernel),
        strides=list(g.stride),
        dilations=list(g.dilate),
        pads=[*g.pad, *g.pad],
        group=op.num_group,
    )
    return channels_last(t, y, op.last)


@translation(Deconvolution)
def deconvolution(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """ConvTranspose; what the result has more at its end is its output padding."""
    data, weight = (channels_first(t, x, op.last) for x in inputs[:2])
    geometry, sizes = op.fitted(data.shape[2:])
    least = geometry.originals(data.shape[2:], (0,) * geometry.rank)
    more = [int(n - m) for n, m in zip(sizes, least, strict=True)]
    # Engines take no padding of a whole stride or dilation.
    limits = zip(more, geometry.stride, geometry.dilate, strict=True)
    if has_no_elements(data.shape) or any(not 0 <= n < max(s, d) for n, s, d in limits):
        return None
    y = t.writer.node(
        "ConvTranspose",
        [data, weight, *inputs[2:]],
        (data.shape[0], op.num_filter, *sizes),
        data.dtype,
        kernel_shape=list(geometry.kernel),
        strides=list(geometry.stride),
        dilations=list(geometry.dilate),
        pads=[*geometry.pad, *geometry.pad],
        output_padding=more if any(more) else None,
        group=op.num_group,
    )
    return channels_last(t, y, op.last)


@translation(Pooling)
def pooling(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """Maxima and means of windows; other kinds, and means that count part of the padding, decompose."""
    (x,) = inputs
    found = op.geometry(x.shape)
    if op.pool_type not in ("max", "avg") or has_no_elements(x.shape):
        return None
    if found.whole or op.global_pool:
        return t.moves.reduce("ReduceMax" if op.pool_type == "max" else "ReduceMean", x, found.axes)
    ends = _ends(op, found)
    if ends is None or any(p >= k for p, k in zip((*found.pad, *ends), found.kernel * 2, strict=True)):
        return None
    padded = op.count_include_pad is not False
    if op.pool_type == "avg" and padded and tuple(ends) != tuple(found.pad):
        return None
    last = found.axes[0] == 1
    data = channels_first(t, x, last)
    y = t.writer.node(
        "MaxPool" if op.pool_type == "max" else "AveragePool",
        [data],
        (*data.shape[:2], *found.windows),
        x.dtype,
        kernel_shape=list(found.kernel),
        strides=list(found.stride),
        pads=[*found.pad, *ends],
        count_include_pad=int(padded) if op.pool_type == "avg" else None,
    )
    return channels_last(t, y, last)


def _ends(op: Any, found: Any) -> list[int] | None:
    """The padding at the ends of axes with which there are as many windows; None if it varies with the size."""
    if op.pooling_convention == "valid":
        return list(found.pad)
    ends: list[int] = []
    for size, kernel, stride, pad, count in zip(*found[1:6], strict=True):
        end = (count - 1) * stride + kernel - size - pad
        if is_size(end):
            return None
        ends.append(max(end, 0))
    return ends


@translation(BilinearResize2D)
def bilinear_resize(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """Resize to sizes that are known, or computed."""
    data, result = inputs[0], t.results_of(op, inputs)[0]
    return t.node(
        "Resize",
        [data, None, None, t.writer.integers(result.shape)],
        result,
        mode="linear",
        coordinate_transformation_mode="align_corners" if op.align_corners else "half_pixel",
    )


@translation(BatchNorm, BatchNormV1, SyncBatchNorm)
def batch_norm(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """With the moving statistics; training, and its outputs, decompose."""
    data, gamma, beta, mean, variance = inputs
    if op.mutated or op.output_mean_var or data.ndim < 2 or has_no_elements(data.shape):
        return None
    axis = op._channel_axis(data.shape)
    order = [0, axis, *[i for i in range(1, data.ndim) if i != axis]] if axis else [1, 0, *range(2, data.ndim)]
    scale = t.constant(np.ones(gamma.shape, gamma.dtype)) if op.fix_gamma else gamma
    moved = t.writer.cast(t.moves.transpose(data, order), gamma.dtype)  # engines take no other dtype beside it
    y = t.node("BatchNormalization", [moved, scale, beta, mean, variance], moved, epsilon=float(op.eps))
    return t.moves.transpose(y, [int(i) for i in np.argsort(order)])


@translation(LayerNorm)
def layer_norm(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """Along the last axis, since opset 17."""
    data = inputs[0]
    if t.opset < 17 or op.output_mean_var or op.axis % data.ndim != data.ndim - 1 or has_no_elements(data.shape):
        return None
    return t.node("LayerNormalization", inputs, data, axis=-1, epsilon=float(op.eps))


@translation(InstanceNorm)
def instance_norm(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """Of images."""
    data = inputs[0]
    return t.node("InstanceNormalization", inputs, data, epsilon=float(op.eps)) if data.ndim > 2 else None


@translation(LRN)
def lrn(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """Of images, over an odd number of channels."""
    (x,) = inputs
    if x.ndim != 4 or op.nsize % 2 == 0:
        return None
    return t.node("LRN", [x], x, alpha=float(op.alpha), beta=float(op.beta), bias=float(op.knorm), size=op.nsize)


@translation(Softmax, LogSoftmax)
def softmax(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """Without lengths."""
    x = inputs[0]
    if len(inputs) > 1 or has_no_elements(x.shape) or x.dtype.kind in "iub":
        return None
    result: Result = t.results_of(op, inputs)[0]
    x = x if op.temperature in (None, 1.0) else x / float(op.temperature)
    operator = "Softmax" if type(op) is Softmax else "LogSoftmax"
    return t.writer.cast(t.node(operator, [x], x, axis=op.axis % x.ndim), result.dtype)


def _activation(operator: str, **attributes: str) -> Any:
    """The translation of an elementwise operator of floats, by the names of its attributes there."""

    def write(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
        (x,) = inputs
        if x.dtype.kind in "iub":
            return None
        return t.node(operator, [x], x, **{name: float(getattr(op, ours)) for name, ours in attributes.items()})

    return write


translation(Relu)(_activation("Relu"))
translation(Softrelu)(_activation("Softplus"))
translation(Softsign)(_activation("Softsign"))
translation(Leaky)(_activation("LeakyRelu", alpha="slope"))
translation(Elu)(_activation("Elu", alpha="slope"))
translation(HardSigmoid)(_activation("HardSigmoid", alpha="alpha", beta="beta"))
translation(Selu)(_activation("Selu"))


@translation(Gelu)
def gelu(t: Translator, _: Any, inputs: Sequence[OnnxValue]) -> Any:
    """Since opset 20."""
    (x,) = inputs
    return t.node("Gelu", [x], x) if t.opset >= 20 and x.dtype.kind not in "iub" else None

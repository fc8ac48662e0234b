"""Layers of networks: products of matrices, and normalizations."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false
# Inputs are arrays or symbols.

from __future__ import annotations

from typing import Any

import numpy as np

from hybridc import np as mnp
from hybridc import npx
from hybridc.dtypes import is_float
from hybridc.interchange.onnx.reading.onnx_rules import OnnxCall, onnx_op
from hybridc.interchange.onnx.reading.tensor_values import dtype_of_element


@onnx_op("MatMul")
def matmul(_: OnnxCall, a: Any, b: Any) -> Any:
    return mnp.matmul(a, b)


@onnx_op("Gemm")
def gemm(call: OnnxCall, a: Any, b: Any, c: Any = None) -> Any:
    """``alpha * a' @ b' + beta * c``."""
    a = mnp.transpose(a) if call["transA"] else a
    if call["alpha"] == 1 and is_float(np.dtype(a.dtype)):
        b = b if call["transB"] else mnp.transpose(b)
        if c is not None and call["beta"] == 1 and c.shape == b.shape[:1]:
            return npx.fully_connected(a, b, c, num_hidden=b.shape[0], flatten=False)
        y = npx.fully_connected(a, b, num_hidden=b.shape[0], no_bias=True, flatten=False)
    else:
        y = mnp.matmul(a, mnp.transpose(b) if call["transB"] else b)
        y = y if call["alpha"] == 1 else scaled(y, call["alpha"])
    return y if c is None else y + (c if call["beta"] == 1 else scaled(c, call["beta"]))


def scaled(x: Any, factor: float) -> Any:
    """A multiple, in the same dtype."""
    return (x * factor).astype(x.dtype)


@onnx_op("BatchNormalization", states=(3, 4))
def batch_normalization(call: OnnxCall, x: Any, scale: Any, bias: Any, mean: Any, var: Any) -> Any:
    """By the running statistics, or in training by the batch's, which also move the running ones."""
    keep = call["momentum"]
    if not call["training_mode"]:
        return npx.batch_norm(x, scale, bias, mean, var, eps=call["epsilon"], momentum=keep, fix_gamma=False)
    axes, shape = (0, *range(2, len(x.shape))), (1, -1, *[1] * (len(x.shape) - 2))
    own = mnp.mean(x, axis=axes), mnp.var(x, axis=axes)
    centre, spread, scale, bias = (mnp.reshape(p, shape) for p in (*own, scale, bias))
    y = (x - centre) * (scale / mnp.sqrt(spread + call["epsilon"])) + bias
    moved = (old * keep + new * (1 - keep) for old, new in zip((mean, var), own))
    return y.astype(x.dtype), *(m.astype(mean.dtype) for m in moved)


@onnx_op("InstanceNormalization")
def instance_normalization(call: OnnxCall, x: Any, scale: Any, bias: Any) -> Any:
    axes, shape = tuple(range(2, len(x.shape))), (1, -1, *[1] * (len(x.shape) - 2))
    mean, var = mnp.mean(x, axis=axes, keepdims=True), mnp.var(x, axis=axes, keepdims=True)
    y = (x - mean) / mnp.sqrt(var + call["epsilon"])
    return (y * scale.reshape(shape) + bias.reshape(shape)).astype(x.dtype)


@onnx_op("GroupNormalization")
def group_normalization(call: OnnxCall, x: Any, scale: Any, bias: Any) -> Any:
    """Before operator set 21 scale and bias are of groups, then of channels."""
    groups = call["num_groups"]
    parts = mnp.reshape(x, (x.shape[0], groups, -1)).astype("float32")
    mean, var = mnp.mean(parts, axis=2, keepdims=True), mnp.var(parts, axis=2, keepdims=True)
    y = (parts - mean) / mnp.sqrt(var + call["epsilon"])
    if call.version < 21:
        return (y * scale.reshape((1, -1, 1)) + bias.reshape((1, -1, 1))).reshape(x.shape).astype(x.dtype)
    shape = (1, -1, *[1] * (len(x.shape) - 2))
    return mnp.reshape(y, x.shape).astype(x.dtype) * scale.reshape(shape) + bias.reshape(shape)


@onnx_op("LayerNormalization")
def layer_normalization(call: OnnxCall, x: Any, scale: Any, bias: Any = None) -> Any:
    """Over all axes from one on; also the means and the inverse deviations."""
    axis = call["axis"] % len(x.shape)
    if (
        axis == len(x.shape) - 1
        and bias is not None
        and scale.shape == bias.shape == x.shape[-1:]
        and not call.wants(1)
        and not call.wants(2)
    ):
        return npx.layer_norm(x, scale, bias, axis=-1, eps=call["epsilon"])
    stash = dtype_of_element(call["stash_type"], "LayerNormalization")
    axes, wide = tuple(range(axis, len(x.shape))), x.astype(stash)
    mean = mnp.mean(wide, axis=axes, keepdims=True)
    inverse = 1 / mnp.sqrt(mnp.mean(mnp.square(wide - mean), axis=axes, keepdims=True) + call["epsilon"])
    y = ((wide - mean) * inverse).astype(x.dtype) * scale
    return (y if bias is None else y + bias), mean, inverse


@onnx_op("RMSNormalization")
def rms_normalization(call: OnnxCall, x: Any, scale: Any) -> Any:
    axis = call["axis"] % len(x.shape)
    axes = tuple(range(axis, len(x.shape)))
    wide = x.astype(dtype_of_element(call["stash_type"], "RMSNormalization"))
    root = mnp.sqrt(mnp.mean(mnp.square(wide), axis=axes, keepdims=True) + call["epsilon"])
    return (wide / root).astype(x.dtype) * scale


@onnx_op("LRN")
def local_response_normalization(call: OnnxCall, x: Any) -> Any:
    """By the squares of so many channels around each."""
    size, channels = call["size"], x.shape[1]
    before, after = (min(n, channels) for n in ((size - 1) // 2, size - 1 - (size - 1) // 2))
    rest = x.shape[2:]
    square = mnp.square(x)
    border = [mnp.zeros((x.shape[0], n, *rest), dtype=x.dtype) for n in (before, after)]
    wide = mnp.concatenate([border[0], square, border[1]], 1)
    total = sum((wide[:, i : i + channels] for i in range(1, before + after + 1)), wide[:, :channels])
    return x / mnp.power(call["bias"] + call["alpha"] / size * total, call["beta"])


@onnx_op("MeanVarianceNormalization")
def mean_variance_normalization(call: OnnxCall, x: Any) -> Any:
    axes = tuple(call["axes"] or (0, 2, 3))
    mean = mnp.mean(x, axis=axes, keepdims=True)
    deviation = mnp.sqrt(mnp.mean(mnp.square(x - mean), axis=axes, keepdims=True))
    return (x - mean) / (deviation + 1e-9)

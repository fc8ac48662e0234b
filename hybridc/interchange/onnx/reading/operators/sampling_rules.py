"""Random numbers, from hybridc's generator: ``mx.random.seed`` decides them, and a node's own seed is not used."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false
# Inputs are arrays or symbols.

from __future__ import annotations

from typing import Any

import numpy as np

from hybridc import np as mnp
from hybridc.interchange.onnx.reading.onnx_rules import OnnxCall, onnx_op
from hybridc.interchange.onnx.reading.size_limits import check_size
from hybridc.interchange.onnx.reading.tensor_values import dtype_of_element


def _dtype(call: OnnxCall, like: Any = None) -> Any:
    if call["dtype"] is not None:
        return dtype_of_element(call["dtype"], call.node.title)
    return np.dtype(np.float32) if like is None else like.dtype


def _samples(call: OnnxCall, shape: tuple[int, ...], dtype: Any) -> Any:
    check_size(shape)
    if "Uniform" in call.node.op:
        return mnp.random.uniform(call["low"], call["high"], size=shape).astype(dtype)
    return mnp.random.normal(call["mean"], call["scale"], size=shape).astype(dtype)


@onnx_op("RandomUniform", "RandomNormal", pure=False)
def random_of(call: OnnxCall) -> Any:
    return _samples(call, tuple(call["shape"]), _dtype(call))


@onnx_op("RandomUniformLike", "RandomNormalLike", pure=False)
def random_like(call: OnnxCall, x: Any) -> Any:
    return _samples(call, x.shape, _dtype(call, x))


@onnx_op("Bernoulli", pure=False)
def bernoulli(call: OnnxCall, p: Any) -> Any:
    """1 with the probabilities that the elements are."""
    return (mnp.random.uniform(0, 1, size=p.shape) < p).astype(_dtype(call, p))


@onnx_op("Multinomial", pure=False)
def multinomial(call: OnnxCall, x: Any) -> Any:
    """Classes drawn by their unnormalised log probabilities."""
    dtype = dtype_of_element(call["dtype"], "Multinomial")
    noise = mnp.random.uniform(1e-20, 1, size=(x.shape[0], call["sample_size"], x.shape[1]))
    return mnp.argmax(mnp.expand_dims(x, 1) - mnp.log(-mnp.log(noise)), axis=-1).astype(dtype)


@onnx_op("Dropout", pure=False, known=(1, 2))
def dropout(call: OnnxCall, x: Any, ratio: Any = None, training: Any = None) -> Any:
    """The data itself, or in training mode without some elements, the others being larger."""
    share = (0.5 if call["ratio"] is None else call["ratio"]) if ratio is None else float(ratio.reshape(()))
    kind = "bool" if call.version >= 10 else x.dtype
    if training is None or not bool(training.reshape(())) or not share:
        return (x, mnp.ones_like(x, dtype=kind)) if call.wants(1) else x
    kept = mnp.random.uniform(0, 1, size=x.shape) >= share
    return mnp.where(kept, x / (1 - share), mnp.zeros_like(x)), kept.astype(kind)

"""Signals: Fourier transforms as products with matrices, and what belongs to them."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false
# Inputs are arrays or symbols.

from __future__ import annotations

from typing import Any

import numpy as np

from hybridc import np as mnp
from hybridc.interchange.onnx.reading.model_graph import Array
from hybridc.interchange.onnx.reading.onnx_rules import OnnxCall, onnx_op
from hybridc.interchange.onnx.reading.operators.move_rules import taken
from hybridc.interchange.onnx.reading.size_limits import check_size
from hybridc.interchange.onnx.reading.tensor_values import dtype_of_element


def _matrix(size: int, count: int, inverse: bool) -> tuple[Array, Array]:
    """The real and the imaginary part of the matrix of a transform, whose first ``count`` rows are wanted."""
    angle = 2 * np.pi * (np.arange(count)[:, None] * np.arange(size) % size) / size
    scale = size if inverse else 1
    return np.cos(angle) / scale, (1 if inverse else -1) * np.sin(angle) / scale


def _transformed(x: Any, axis: int, length: int, inverse: bool, onesided: bool) -> Any:
    """The transform along an axis of data whose last axis is the real and the imaginary part, or the real alone."""
    check_size((length, length))
    have = x.shape[axis]
    if have > length:
        x = x[(slice(None),) * axis + (slice(0, length),)]
    elif have < length:
        shape = (*x.shape[:axis], length - have, *x.shape[axis + 1 :])
        x = mnp.concatenate([x, mnp.zeros(shape, dtype=x.dtype)], axis)
    if onesided and inverse:
        raise ValueError("an inverse transform of one side is made by irfft of the data")
    count = length // 2 + 1 if onesided else length
    cos, sin = (mnp.array(m, dtype=x.dtype) for m in _matrix(length, count, inverse))
    rows = mnp.moveaxis(x, axis, -2)
    real, imaginary = rows[..., 0], rows[..., 1] if x.shape[-1] == 2 else None
    parts = [mnp.matmul(real, mnp.transpose(cos)), mnp.matmul(real, mnp.transpose(sin))]
    if imaginary is not None:
        parts = [
            parts[0] - mnp.matmul(imaginary, mnp.transpose(sin)),
            parts[1] + mnp.matmul(imaginary, mnp.transpose(cos)),
        ]
    return mnp.moveaxis(mnp.stack(parts, -1), -2, axis)


def _from_one_side(x: Any, axis: int, length: int) -> Any:
    """The real signal whose spectrum has this one side."""
    check_size((length, length))
    rows = mnp.moveaxis(x, axis, -2)
    count = length // 2 + 1
    if rows.shape[-2] > count:
        rows = rows[..., :count, :]
    angle = 2 * np.pi * (np.arange(rows.shape[-2])[:, None] * np.arange(length) % length) / length
    twice = np.full((rows.shape[-2], 1), 2.0)
    twice[0] = 1
    if length % 2 == 0 and rows.shape[-2] == count:
        twice[-1] = 1
    cos, sin = (mnp.array(m, dtype=x.dtype) for m in (np.cos(angle) * twice / length, -np.sin(angle) * twice / length))
    y = mnp.matmul(rows[..., 0], cos) + mnp.matmul(rows[..., 1], sin)
    return mnp.moveaxis(mnp.expand_dims(y, -1), -2, axis)


@onnx_op("DFT", known=(1, 2))
def dft(call: OnnxCall, x: Any, length: Any = None, axis: Any = None) -> Any:
    along = (
        call["axis"] if axis is None and call.version < 20 else -2 if axis is None else int(axis.reshape(()))
    ) % len(x.shape)
    one_sided_back = bool(call["onesided"] and call["inverse"])
    default = 2 * (x.shape[along] - 1) if one_sided_back else x.shape[along]
    count = default if length is None else int(length.reshape(()))
    if one_sided_back:
        return _from_one_side(x, along, count)
    return _transformed(x, along, count, bool(call["inverse"]), bool(call["onesided"]))


@onnx_op("STFT", known=(1, 3))
def stft(call: OnnxCall, x: Any, step: Any, window: Any = None, length: Any = None) -> Any:
    """Transforms of windows of a signal, which follow one another by a step."""
    size = int(length.reshape(())) if length is not None else window.shape[0]
    hop = int(step.reshape(()))
    count = (x.shape[1] - size) // hop + 1
    places = np.arange(count)[:, None] * hop + np.arange(size)
    frames = taken(x if len(x.shape) == 3 else mnp.expand_dims(x, -1), places, 1)
    if window is not None:
        frames = frames * window.reshape((-1, 1))
    return _transformed(frames, 2, size, False, bool(call["onesided"]))


@onnx_op("MelWeightMatrix", host=True, known=(0, 1, 2, 3, 4))
def mel_weight_matrix(call: OnnxCall, bins: Any, length: Any, rate: Any, low: Any, high: Any) -> Any:
    """Triangles on the mel scale, by which a spectrum becomes bands."""
    count, size = int(bins), int(length) // 2 + 1
    check_size((size, count + 2))
    ends = [2595 * np.log10(1 + float(f) / 700) for f in (low, high)]
    mel = ends[0] + np.arange(count + 2) * ((ends[1] - ends[0]) / (count + 2))
    edges = np.floor((int(length) + 1) * (700 * (10 ** (mel / 2595) - 1)) / int(rate)).astype(np.int64)
    made = np.zeros((size, count), np.float64)
    for i in range(count):
        first, peak, last = edges[i : i + 3]
        if peak == first:
            made[peak, i] = 1
        else:
            made[first : peak + 1, i] = (np.arange(first, peak + 1) - first) / (peak - first)
        if last > peak:
            made[peak:last, i] = (last - np.arange(peak, last)) / (last - peak)
    return made.astype(dtype_of_element(call["output_datatype"], "MelWeightMatrix"))

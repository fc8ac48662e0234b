"""Operators that gather and scatter elements by indices."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false
# Inputs are arrays or symbols.

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hybridc import np as mnp
from hybridc import npx
from hybridc.array.dispatch import is_symbol
from hybridc.interchange.onnx.reading.onnx_rules import OnnxCall, onnx_op
from hybridc.interchange.onnx.reading.size_limits import check_size
from hybridc.interchange.onnx.reading.walk_values import numbers


def from_start(index: Any, size: int) -> Any:
    """Indices that count from the end, as those from the start."""
    return mnp.where(index < 0, index + size, index)


def checked(call: OnnxCall, index: Any, size: int) -> None:
    """Raise for an index, whose number is known, that names no element."""
    if not is_symbol(index) and index.size:
        values = numbers(index, "")
        if values.min() < -size or values.max() >= size:
            raise call.refuse(f"an index from {values.min()} to {values.max()} does not fit an axis of {size}")


@onnx_op("Gather")
def gather(call: OnnxCall, data: Any, indices: Any) -> Any:
    axis = call["axis"] % len(data.shape)
    checked(call, indices, data.shape[axis])
    return mnp.take(data, from_start(indices, data.shape[axis]), axis=axis, mode="clip")


@onnx_op("GatherElements")
def gather_elements(call: OnnxCall, data: Any, indices: Any) -> Any:
    axis = call["axis"] % len(data.shape)
    checked(call, indices, data.shape[axis])
    kept = tuple(slice(0, n) if i != axis else slice(None) for i, n in enumerate(indices.shape))
    return mnp.take_along_axis(data[kept], from_start(indices, data.shape[axis]), axis)


@onnx_op("GatherND")
def gather_nd(call: OnnxCall, data: Any, indices: Any) -> Any:
    """Each row of indices selects a part of the data, the leading axes being common to both."""
    places = _with_batches(indices, data.shape, call["batch_dims"])
    shape = (*places.shape[1:], *data.shape[places.shape[0] :])
    return mnp.reshape(npx.gather_nd(data, places), shape)


def _with_batches(indices: Any, shape: tuple[int, ...], batches: int = 0) -> Any:
    """Indices of gather_nd: the parts of an index along the first axis, those of the batch included."""
    parts = [from_start(indices[..., i], shape[batches + i]) for i in range(indices.shape[-1])]
    outer = indices.shape[:-1]
    for axis in range(batches):
        places = np.arange(outer[axis]).reshape((-1,) + (1,) * (len(outer) - axis - 1))
        parts.insert(axis, mnp.array(np.broadcast_to(places, outer), dtype="int64"))
    return mnp.stack([p.astype("int64") for p in parts], 0)


@onnx_op("ScatterND")
def scatter_nd(call: OnnxCall, data: Any, indices: Any, updates: Any) -> Any:
    places = _with_batches(indices, data.shape)
    flat, sizes = _flattened(places, data.shape[: places.shape[0]])
    rest = data.shape[places.shape[0] :]
    rows = mnp.reshape(updates, (flat.size, *rest))
    done = _scattered(call, mnp.reshape(data, (math.prod(sizes), *rest)), mnp.reshape(flat, (-1,)), rows)
    return mnp.reshape(done, data.shape)


def _flattened(places: Any, sizes: tuple[int, ...]) -> tuple[Any, tuple[int, ...]]:
    """Indices along several axes as indices along all of them as one."""
    flat = mnp.zeros(places.shape[1:], dtype="int64")
    for i, size in enumerate(sizes):
        flat = flat * size + places[i]
    return flat, sizes


@onnx_op("ScatterElements", "Scatter")
def scatter_elements(call: OnnxCall, data: Any, indices: Any, updates: Any) -> Any:
    axis = call["axis"] % len(data.shape)
    checked(call, indices, data.shape[axis])
    flat = mnp.zeros(indices.shape, dtype="int64")
    for i, size in enumerate(data.shape):
        own = np.arange(indices.shape[i]).reshape((-1,) + (1,) * (len(data.shape) - i - 1))
        along = from_start(indices, size).astype("int64") if i == axis else mnp.array(own, dtype="int64")
        flat = flat * size + along
    done = _scattered(call, mnp.reshape(data, (-1,)), mnp.reshape(flat, (-1,)), mnp.reshape(updates, (-1,)))
    return mnp.reshape(done, data.shape)


def _scattered(call: OnnxCall, data: Any, index: Any, rows: Any) -> Any:
    """The rows put at indices of the first axis, or combined with what is there."""
    if not index.size:
        return data
    how = call["reduction"] or "none"
    if how == "none":
        return npx.scatter_set_nd(data, rows, mnp.expand_dims(index, 0), shape=data.shape)
    if how == "add":
        return data + npx.scatter_add_nd(rows, mnp.expand_dims(index, 0), shape=data.shape)
    combine = {"mul": mnp.multiply, "max": mnp.maximum, "min": mnp.minimum}[how]
    for i in range(index.shape[0]):
        place = index[i : i + 1]
        row = combine(mnp.take(data, place, axis=0, mode="clip"), rows[i : i + 1])
        data = npx.scatter_set_nd(data, row, mnp.expand_dims(place, 0), shape=data.shape)
    return data


@onnx_op("TensorScatter")
def tensor_scatter(call: OnnxCall, data: Any, updates: Any, first: Any = None) -> Any:
    """Updates of a cache along an axis, from an index of each example on."""
    axis, size = call["axis"] % len(data.shape), data.shape[call["axis"]]
    count = updates.shape[axis]
    steps = mnp.array(np.arange(count), dtype="int64")
    start = mnp.zeros((data.shape[0],), dtype="int64") if first is None else first.astype("int64")
    places = mnp.expand_dims(start, 1) + steps
    places = mnp.mod(places, size) if call["mode"] == "circular" else places
    rows = mnp.moveaxis(data, axis, 1)
    batch = mnp.array(np.broadcast_to(np.arange(data.shape[0])[:, None], (data.shape[0], count)), dtype="int64")
    done = npx.scatter_set_nd(rows, mnp.moveaxis(updates, axis, 1), mnp.stack([batch, places], 0), shape=rows.shape)
    return mnp.moveaxis(done, 1, axis)


@onnx_op("OneHot", known=(1,))
def one_hot(call: OnnxCall, indices: Any, depth: Any, values: Any) -> Any:
    count = int(depth.reshape(()))
    axis = call["axis"] % (len(indices.shape) + 1)
    check_size((*indices.shape, count))
    places = mnp.expand_dims(mnp.mod(indices, count).astype("int64"), axis)
    inside = mnp.expand_dims((indices >= -count) & (indices < count), axis)
    own = np.arange(count).reshape((-1,) + (1,) * (len(indices.shape) - axis))
    hot = mnp.equal(places, mnp.array(own, dtype="int64")) & inside
    return mnp.where(hot, values[1], values[0])


@onnx_op("ArrayFeatureExtractor", domain="ai.onnx.ml")
def array_feature_extractor(_: OnnxCall, x: Any, indices: Any) -> Any:
    return mnp.take(x, mnp.reshape(indices, (-1,)), axis=len(x.shape) - 1, mode="clip")


@onnx_op("Binarizer", domain="ai.onnx.ml")
def binarizer(call: OnnxCall, x: Any) -> Any:
    return mnp.greater(x, call["threshold"]).astype(x.dtype)

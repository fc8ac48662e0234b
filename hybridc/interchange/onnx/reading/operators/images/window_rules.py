"""Operators on windows of images: convolutions and pooling."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false
# Inputs are arrays or symbols.

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hybridc import np as mnp
from hybridc import npx
from hybridc.dtypes import is_float
from hybridc.interchange.onnx.reading.onnx_rules import OnnxCall, onnx_op
from hybridc.interchange.onnx.reading.operators.move_rules import padded, taken
from hybridc.interchange.onnx.reading.size_limits import check_size

Pads = list[tuple[int, int]]


def spatial(call: OnnxCall, name: str, rank: int, default: int = 1) -> tuple[int, ...]:
    """An attribute that has a number for each axis of an image."""
    values = call[name]
    if not values:
        return (default,) * rank
    if len(values) != rank:
        raise call.refuse(f"{name}={list(values)} must have {rank} numbers, one for each axis of the image")
    return tuple(values)


def pads_of(
    call: OnnxCall, sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> Pads:
    """What is added before and after each axis of an image, by numbers or by a rule."""
    how, rank = call["auto_pad"] or "NOTSET", len(sizes)
    if how == "NOTSET":
        pads = call["pads"] or (0,) * 2 * rank
        if len(pads) != 2 * rank:
            raise call.refuse(f"pads={list(pads)} must have {2 * rank} numbers")
        return list(zip(pads[:rank], pads[rank:]))
    if how == "VALID":
        return [(0, 0)] * rank
    found: Pads = []
    for n, k, s, d in zip(sizes, kernel, strides, dilations):
        total = max(0, (-(-n // s) - 1) * s + d * (k - 1) + 1 - n)
        found.append((total // 2, total - total // 2) if how == "SAME_UPPER" else (total - total // 2, total // 2))
    return found


def with_pads(x: Any, pads: Pads, number: Any = 0) -> tuple[Any, tuple[int, ...]]:
    """Data, and the pads that are equal on both sides of each axis; others are put around the data."""
    if all(a == b for a, b in pads):
        return x, tuple(a for a, _ in pads)
    return padded(x, [(0, 0), (0, 0), *pads], "constant", number), (0,) * len(pads)


@onnx_op("Conv")
def convolution(call: OnnxCall, x: Any, w: Any, b: Any = None) -> Any:
    rank, kernel = len(x.shape) - 2, w.shape[2:]
    if len(w.shape) != len(x.shape):
        raise call.refuse(f"data of the shape {x.shape} and kernels of the shape {w.shape} must have equally many axes")
    strides, dilations = spatial(call, "strides", rank), spatial(call, "dilations", rank)
    pads = pads_of(call, x.shape[2:], kernel, strides, dilations)
    if rank > 3 or not is_float(np.dtype(x.dtype)):
        return general_convolution(x, w, b, pads, strides, dilations, call["group"])
    x, pad = with_pads(x, pads)
    options = {"kernel": kernel, "stride": strides, "dilate": dilations, "pad": pad, "num_group": call["group"]}
    inputs = (x, w) if b is None else (x, w, b)
    return npx.convolution(*inputs, num_filter=w.shape[0], no_bias=b is None, **options)


def general_convolution(
    x: Any, w: Any, b: Any, pads: Pads, strides: Sequence[int], dilations: Sequence[int], groups: int
) -> Any:
    """A convolution as a product of windows and kernels: for integers, and for more than three axes."""
    parts = windows_of(padded(x, [(0, 0), (0, 0), *pads], "constant"), w.shape[2:], strides, dilations)
    rank = len(w.shape) - 2
    n, c, places = parts.shape[0], parts.shape[1], parts.shape[2 : 2 + rank]
    parts = mnp.moveaxis(parts.reshape((n, groups, c // groups, math.prod(places), -1)), 3, 2)
    parts = parts.reshape((n, groups, math.prod(places), -1))
    kernels = w.reshape((groups, w.shape[0] // groups, -1))
    y = mnp.matmul(mnp.expand_dims(kernels, 0), mnp.swapaxes(parts, 2, 3)).reshape((n, w.shape[0], *places))
    return y if b is None else y + b.reshape((1, -1, *[1] * rank))


def windows_of(x: Any, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> Any:
    """The elements of each window of an image: its axes follow those of the places."""
    rank = len(kernel)
    counts = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(x.shape[2:], kernel, strides, dilations)]
    check_size((*x.shape[:2], *counts, *kernel))
    for i, (k, s, d, count) in enumerate(zip(kernel, strides, dilations, counts)):
        places = np.arange(count)[:, None] * s + np.arange(k) * d
        x = mnp.moveaxis(taken(x, places, 2 + i), 3 + i, -1)
    assert len(x.shape) == 2 + 2 * rank
    return x


@onnx_op("ConvTranspose")
def transposed_convolution(call: OnnxCall, x: Any, w: Any, b: Any = None) -> Any:
    """The result's size follows from the pads, or the pads from the size that is asked for."""
    rank, kernel, groups = len(x.shape) - 2, w.shape[2:], call["group"]
    strides, dilations = spatial(call, "strides", rank), spatial(call, "dilations", rank)
    extra, how = spatial(call, "output_padding", rank, 0), call["auto_pad"] or "NOTSET"
    full = [s * (n - 1) + d * (k - 1) + 1 for n, s, d, k in zip(x.shape[2:], strides, dilations, kernel)]
    if call["output_shape"] or how.startswith("SAME"):
        wanted = call["output_shape"] or [n * s for n, s in zip(x.shape[2:], strides)]
        sizes = list(wanted)[-rank:]
        totals = [max(0, f + e - n) for f, e, n in zip(full, extra, sizes)]
        begins = [t // 2 if how == "SAME_UPPER" else t - t // 2 for t in totals]
    else:
        pads = pads_of(call, x.shape[2:], kernel, strides, dilations)
        begins = [a for a, _ in pads]
        sizes = [f + e - a - c for f, e, (a, c) in zip(full, extra, pads)]
    check_size((x.shape[0], w.shape[1] * groups, *full))
    options: dict[str, Any] = {"kernel": kernel, "stride": strides, "dilate": dilations, "num_group": groups}
    y = npx.deconvolution(x, w, num_filter=w.shape[1] * groups, no_bias=True, **options)
    ends = [(0, max(0, a + n - f)) for a, n, f in zip(begins, sizes, full)]
    y = padded(y, [(0, 0), (0, 0), *ends], "constant")
    y = y[(slice(None), slice(None), *(slice(a, a + n) for a, n in zip(begins, sizes)))]
    return y if b is None else y + b.reshape((1, -1, *[1] * rank))


def _pool_geometry(call: OnnxCall, x: Any) -> tuple[Any, Any, Any, Pads]:
    rank = len(x.shape) - 2
    kernel, strides = spatial(call, "kernel_shape", rank), spatial(call, "strides", rank)
    dilations = spatial(call, "dilations", rank)
    pads = pads_of(call, x.shape[2:], kernel, strides, dilations)
    if call["ceil_mode"]:
        for i, (n, k, s, d) in enumerate(zip(x.shape[2:], kernel, strides, dilations)):
            a, b = pads[i]
            extent = d * (k - 1) + 1
            count = -(-(n + a + b - extent) // s) + 1
            if (count - 1) * s >= n + a:  # a window that begins behind the data counts for nothing
                count -= 1
            pads[i] = a, max(b, (count - 1) * s + extent - n - a)
    return kernel, strides, dilations, pads


@onnx_op("MaxPool")
def max_pool(call: OnnxCall, x: Any) -> Any:
    """The largest elements of windows, and where in the data they are."""
    kernel, strides, dilations, pads = _pool_geometry(call, x)
    if (
        not call.wants(1)
        and all(d == 1 for d in dilations)
        and len(kernel) <= 3
        and is_float(np.dtype(x.dtype))
        and all(max(p) < k for p, k in zip(pads, kernel))
    ):
        data, pad = with_pads(x, pads, -np.inf)
        return npx.pooling(data, kernel=kernel, stride=strides, pad=pad, pool_type="max")
    return _max_of_windows(call, x, kernel, strides, dilations, pads)


def _max_of_windows(call: OnnxCall, x: Any, kernel: Any, strides: Any, dilations: Any, pads: Pads) -> Any:
    lowest = -np.inf if is_float(np.dtype(x.dtype)) else np.iinfo(x.dtype).min
    parts = windows_of(padded(x, [(0, 0), (0, 0), *pads], "constant", lowest), kernel, strides, dilations)
    rank = len(kernel)
    flat = parts.reshape((*parts.shape[: 2 + rank], -1))
    best = mnp.max(flat, axis=-1)
    if not call.wants(1):
        return best
    order = "F" if call["storage_order"] else "C"
    spots = np.arange(math.prod(x.shape)).reshape(x.shape)
    if order == "F":
        inner = np.arange(math.prod(x.shape[2:])).reshape(x.shape[2:], order="F")
        spots = inner + np.arange(x.shape[0] * x.shape[1]).reshape(x.shape[:2] + (1,) * rank) * inner.size
    around = np.pad(spots, [(0, 0), (0, 0), *pads])
    index = _numpy_windows(around, kernel, strides, dilations).reshape(flat.shape)
    first = mnp.expand_dims(mnp.argmax(flat, axis=-1).astype("int64"), -1)
    return best, mnp.squeeze(mnp.take_along_axis(mnp.array(index, dtype="int64"), first, -1), -1)


def _numpy_windows(x: Any, kernel: Any, strides: Any, dilations: Any) -> Any:
    for i, (k, s, d) in enumerate(zip(kernel, strides, dilations)):
        count = (x.shape[2 + i] - d * (k - 1) - 1) // s + 1
        places = np.arange(count)[:, None] * s + np.arange(k) * d
        x = np.moveaxis(np.take(x, places, axis=2 + i), 3 + i, -1)
    return x


@onnx_op("AveragePool")
def average_pool(call: OnnxCall, x: Any) -> Any:
    """Means of windows, which count the pads or do not."""
    kernel, strides, dilations, pads = _pool_geometry(call, x)
    rank = len(kernel)
    if all(d == 1 for d in dilations) and not any(map(max, pads)) and rank <= 3 and is_float(np.dtype(x.dtype)):
        return npx.pooling(x, kernel=kernel, stride=strides, pool_type="avg")
    declared = pads_of(call, x.shape[2:], kernel, strides, dilations)
    ones = np.ones((1, 1, *x.shape[2:]))
    counted = np.pad(ones, [(0, 0), (0, 0), *declared], constant_values=1 if call["count_include_pad"] else 0)
    more = [(0, 0), (0, 0), *((0, b - d) for (_, b), (_, d) in zip(pads, declared))]
    counts = _numpy_windows(np.pad(counted, more), kernel, strides, dilations).sum(tuple(range(-rank, 0)))
    parts = windows_of(padded(x, [(0, 0), (0, 0), *pads], "constant"), kernel, strides, dilations)
    return mnp.sum(parts, axis=tuple(range(-rank, 0))) / mnp.array(counts, dtype=x.dtype)


@onnx_op("LpPool")
def lp_pool(call: OnnxCall, x: Any) -> Any:
    kernel, strides, dilations, pads = _pool_geometry(call, x)
    parts = windows_of(padded(x, [(0, 0), (0, 0), *pads], "constant"), kernel, strides, dilations)
    return _norm(parts, call["p"], tuple(range(-len(kernel), 0)), False)


def _norm(x: Any, p: float, axes: tuple[int, ...], keepdims: bool) -> Any:
    if p == 2:
        return mnp.sqrt(mnp.sum(mnp.square(x), axis=axes, keepdims=keepdims))
    total = mnp.sum(mnp.power(mnp.abs(x), p), axis=axes, keepdims=keepdims)
    return total if p == 1 else mnp.power(total, 1 / p)


@onnx_op("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(call: OnnxCall, x: Any) -> Any:
    axes = tuple(range(2, len(x.shape)))
    if call.node.op == "GlobalLpPool":
        return _norm(x, call["p"], axes, True)
    return (mnp.mean if call.node.op == "GlobalAveragePool" else mnp.max)(x, axis=axes, keepdims=True)


@onnx_op("MaxUnpool", known=(2,))
def max_unpool(call: OnnxCall, x: Any, indices: Any, shape: Any = None) -> Any:
    """The elements where they were before MaxPool, and 0 elsewhere."""
    rank = len(x.shape) - 2
    kernel, strides = spatial(call, "kernel_shape", rank), spatial(call, "strides", rank)
    pads = pads_of(call, x.shape[2:], kernel, strides, (1,) * rank)
    own = [s * (n - 1) + k - sum(p) for n, s, k, p in zip(x.shape[2:], strides, kernel, pads)]
    sizes = (*x.shape[:2], *own)
    check_size(sizes)
    flat = npx.scatter_nd(x.reshape((-1,)), mnp.reshape(indices, (1, -1)), shape=(math.prod(sizes),))
    y = flat.reshape(sizes)
    if shape is None:
        return y
    return padded(y, [(0, int(n) - m) for n, m in zip(shape, sizes)], "constant")


@onnx_op("Col2Im", known=(1, 2))
def column_to_image(call: OnnxCall, x: Any, image: Any, block: Any) -> Any:
    """Windows added up where they overlap."""
    sizes, kernel = [int(n) for n in image], [int(n) for n in block]
    rank = len(sizes)
    strides, dilations = spatial(call, "strides", rank), spatial(call, "dilations", rank)
    pads = pads_of(call, sizes, kernel, strides, dilations)
    full = [n + a + b for n, (a, b) in zip(sizes, pads)]
    check_size((*x.shape[:2], *full))
    spots = _numpy_windows(np.arange(math.prod(full)).reshape(1, 1, *full), kernel, strides, dilations)[0, 0]
    index = np.moveaxis(spots.reshape(x.shape[2], -1), 0, 1).reshape(1, -1)
    channels = x.shape[1] // math.prod(kernel)
    columns = mnp.moveaxis(x.reshape((x.shape[0], channels, -1)), 2, 0)
    added = npx.scatter_add_nd(columns, mnp.array(index, dtype="int64"), shape=(math.prod(full), x.shape[0], channels))
    y = mnp.moveaxis(added, 0, 2).reshape((x.shape[0], channels, *full))
    return y[(slice(None), slice(None), *(slice(a, a + n) for n, (a, _) in zip(sizes, pads)))]

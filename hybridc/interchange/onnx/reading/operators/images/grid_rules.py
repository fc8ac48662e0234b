"""Images at places that other arrays say: grids, regions of interest, deformed windows."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false
# Inputs are arrays or symbols.

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from hybridc import np as mnp
from hybridc import npx
from hybridc.interchange.onnx.reading.onnx_rules import OnnxCall, onnx_op
from hybridc.interchange.onnx.reading.operators.images.window_rules import pads_of, spatial
from hybridc.interchange.onnx.reading.operators.move_rules import taken
from hybridc.interchange.onnx.reading.size_limits import check_size


@onnx_op("GridSample")
def grid_sample(call: OnnxCall, x: Any, grid: Any) -> Any:
    """The data at places from -1 to 1 along each axis of the image."""
    sizes = x.shape[2:]
    aligned, border, mode = bool(call["align_corners"]), call["padding_mode"], call["mode"].removeprefix("bi")
    places: list[Any] = []
    for i, n in enumerate(sizes):
        at = grid[..., len(sizes) - 1 - i].astype("float32")
        places.append((at + 1) / 2 * (n - 1) if aligned else ((at + 1) * n - 1) / 2)
    if mode == "nearest":
        return _gathered(x, [mnp.rint(_inside(p, n, border, aligned)) for p, n in zip(places, sizes)])
    if mode == "linear":
        places = [_inside(p, n, border, aligned) for p, n in zip(places, sizes)]
    reach = 1 if mode == "linear" else 2
    y: Any = 0
    first = [mnp.floor(p) for p in places]
    for steps in itertools.product(range(1 - reach, reach + 1), repeat=len(sizes)):
        weight: Any = 1
        for p, f, step in zip(places, first, steps):
            weight = weight * (_cubic(mnp.abs(p - f - step)) if mode == "cubic" else 1 - mnp.abs(p - f - step))
        corner = [f + step for f, step in zip(first, steps)]
        if mode == "cubic":
            corner = [_inside(c, n, border, aligned) for c, n in zip(corner, sizes)]
        y = y + _gathered(x, corner) * mnp.expand_dims(weight, 1).astype(x.dtype)
    return y


def _cubic(d: Any, a: float = -0.75) -> Any:
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return mnp.where(d <= 1, near, far)


def _inside(p: Any, size: int, border: str, aligned: bool) -> Any:
    """Places outside of an axis, moved inside as the border says."""
    if border == "border":
        return mnp.clip(p, 0, size - 1)
    if border != "reflection":
        return p
    low, high = (0.0, size - 1.0) if aligned else (-0.5, size - 0.5)
    length = high - low
    if length == 0:
        return mnp.zeros_like(p)
    away = mnp.abs(p - low)
    rest = away - mnp.floor(away / (2 * length)) * 2 * length
    folded = mnp.where(rest > length, 2 * length - rest, rest) + low
    return mnp.clip(folded, 0, size - 1)


def _gathered(x: Any, places: list[Any]) -> Any:
    """Elements of each example's channels at places, which are whole numbers; zeros outside."""
    inside: Any = None
    index: list[Any] = []
    for p, n in zip(places, x.shape[2:]):
        holds = (p >= 0) & (p <= n - 1)
        inside = holds if inside is None else inside & holds
        index.append(mnp.clip(p, 0, n - 1).astype("int64"))
    shape = index[0].shape
    own = np.arange(x.shape[0]).reshape((-1,) + (1,) * (len(shape) - 1))
    batch = mnp.array(np.broadcast_to(own, shape), dtype="int64")
    found = npx.gather_nd(mnp.moveaxis(x, 1, -1), mnp.stack([batch, *index], 0))
    found = mnp.moveaxis(found, -1, 1)
    return mnp.where(mnp.expand_dims(inside, 1), found, mnp.zeros_like(found))


@onnx_op("RoiAlign", known=(1, 2))
def roi_align(call: OnnxCall, x: Any, rois: Any, batch: Any) -> Any:
    """The mean or the maximum of places in each part of regions."""
    height, width = call["output_height"], call["output_width"]
    scale, shift = (
        call["spatial_scale"],
        0.5 if (call["coordinate_transformation_mode"] or "output_half_pixel") == "half_pixel" else 0.0,
    )
    check_size((len(rois), x.shape[1], height, width, max(1, call["sampling_ratio"]) ** 2))
    made: list[Any] = []
    for roi, example in zip(np.asarray(rois, np.float64), batch):
        x1, y1, x2, y2 = roi * scale - shift
        w, h = (x2 - x1, y2 - y1) if shift else (max(x2 - x1, 1.0), max(y2 - y1, 1.0))
        ny = call["sampling_ratio"] or max(1, int(np.ceil(h / height)))
        nx = call["sampling_ratio"] or max(1, int(np.ceil(w / width)))
        ys = y1 + (np.arange(height * ny) + 0.5) * h / height / ny
        xs = x1 + (np.arange(width * nx) + 0.5) * w / width / nx
        made.append(_pooled_region(x[int(example)], ys, xs, (height, ny, width, nx), call["mode"]))
    return mnp.stack(made, 0) if made else mnp.zeros((0, x.shape[1], height, width), dtype=x.dtype)


def _pooled_region(x: Any, ys: Any, xs: Any, parts: tuple[int, int, int, int], mode: str) -> Any:
    height, ny, width, nx = parts
    corners: list[Any] = []
    taps = [_linear_taps(p, n) for p, n in zip((ys, xs), x.shape[1:])]
    for (yi, yw), (xi, xw) in itertools.product(zip(*taps[0]), zip(*taps[1])):
        rows = taken(x, yi, 1)
        found = taken(rows, xi, 2)
        corners.append(found * mnp.array(yw[:, None] * xw, dtype=x.dtype))
    shape = (x.shape[0], height, ny, width, nx)
    if mode == "max":
        largest = corners[0]
        for c in corners[1:]:
            largest = mnp.maximum(largest, c)
        return mnp.max(largest.reshape(shape), axis=(2, 4))
    return mnp.mean(mnp.reshape(sum(corners[1:], corners[0]), shape), axis=(2, 4))


def _linear_taps(places: Any, size: int) -> tuple[list[Any], list[Any]]:
    """Two indices for each place, and their weights; 0 for places outside."""
    outside = (places < -1) | (places > size)
    p = np.clip(places, 0, None)
    low = np.minimum(np.floor(p), size - 1).astype(np.int64)
    high = np.minimum(low + 1, size - 1)
    rest = np.where(low >= size - 1, 0.0, p - low)
    return [low, high], [np.where(outside, 0, 1 - rest), np.where(outside, 0, rest)]


@onnx_op("DeformConv")
def deformable_convolution(call: OnnxCall, x: Any, w: Any, offset: Any, b: Any = None, mask: Any = None) -> Any:
    """A convolution whose windows' elements lie elsewhere, by an offset for each."""
    rank, kernel = len(x.shape) - 2, w.shape[2:]
    strides, dilations = spatial(call, "strides", rank), spatial(call, "dilations", rank)
    pads = pads_of(call, x.shape[2:], kernel, strides, dilations)
    groups, count = call["offset_group"], int(np.prod(kernel))
    n, c, places = x.shape[0], x.shape[1], offset.shape[2:]
    shifts = offset.reshape((n, groups, count, rank, *places))
    parts: list[Any] = []
    for g in range(groups):
        data = x[:, g * c // groups : (g + 1) * c // groups]
        taps = [
            _deformed(data, shifts[:, g, k], np.unravel_index(k, kernel), (strides, dilations, pads))
            for k in range(count)
        ]
        if mask is not None:
            weights = mask.reshape((n, groups, count, *places))
            taps = [t * mnp.expand_dims(weights[:, g, k], 1) for k, t in enumerate(taps)]
        parts.append(mnp.stack(taps, 2))
    columns = mnp.concatenate(parts, 1)
    size = int(np.prod(places))
    columns = columns.reshape((n, call["group"], c // call["group"] * count, size))
    y = mnp.matmul(mnp.expand_dims(w.reshape((call["group"], w.shape[0] // call["group"], -1)), 0), columns)
    y = y.reshape((n, w.shape[0], *places))
    return y if b is None else y + b.reshape((1, -1, *[1] * rank))


def _deformed(x: Any, shift: Any, tap: Any, geometry: Any) -> Any:
    """The elements under one place of the kernel."""
    strides, dilations, pads = geometry
    places: list[Any] = []
    for i, (s, d, (a, _)) in enumerate(zip(strides, dilations, pads)):
        size = shift.shape[2 + i]
        own = (np.arange(size) * s - a + int(tap[i]) * d).reshape((-1,) + (1,) * (len(strides) - i - 1))
        places.append(shift[:, i] + mnp.array(own, dtype=x.dtype))
    first = [mnp.floor(p) for p in places]
    y: Any = 0
    for steps in itertools.product((0, 1), repeat=len(places)):
        weight: Any = 1
        for p, f, step in zip(places, first, steps):
            weight = weight * (1 - mnp.abs(p - f - step))
        y = y + _gathered(x, [f + step for f, step in zip(first, steps)]) * mnp.expand_dims(weight, 1)
    return y


@onnx_op("MaxRoiPool")
def max_roi_pool(call: OnnxCall, x: Any, rois: Any) -> Any:
    return npx.roi_pooling(x, rois, pooled_size=call["pooled_shape"], spatial_scale=call["spatial_scale"])

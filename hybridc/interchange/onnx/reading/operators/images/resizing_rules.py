"""Images of other sizes: each axis is interpolated on its own, by weights that follow from the sizes."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false
# Inputs are arrays or symbols.

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hybridc import np as mnp
from hybridc.interchange.onnx.reading.model_graph import Array
from hybridc.interchange.onnx.reading.onnx_rules import OnnxCall, onnx_op
from hybridc.interchange.onnx.reading.operators.move_rules import taken
from hybridc.interchange.onnx.reading.size_limits import check_size


@onnx_op("Upsample", known=(1,))
def upsample(call: OnnxCall, x: Any, scales: Any = None) -> Any:
    """As Resize, whose older name it is."""
    factors = [float(s) for s in (call["scales"] if scales is None else scales)]
    sizes = [math.floor(n * s) for n, s in zip(x.shape, factors)]
    check_size(sizes)
    for axis, (size, scale) in enumerate(zip(sizes, factors)):
        if scale != 1:
            places = np.arange(size) / scale
            x = _interpolated(x, axis, places, "linear" if "linear" in call["mode"] else "floor", {})
    return x


@onnx_op("Resize", known=(1, 2, 3))
def resize(call: OnnxCall, x: Any, roi: Any = None, scales: Any = None, sizes: Any = None) -> Any:
    """By scales or to sizes, on some axes; beyond a region of interest is a number."""
    if call.version < 11:
        roi, scales = None, roi
    rank = len(x.shape)
    axes = [a % rank for a in call["axes"]] if call["axes"] else list(range(rank))
    old = [x.shape[a] for a in axes]
    mode = call["coordinate_transformation_mode"] or "asymmetric"
    if scales is not None and scales.size:
        factors = [float(s) for s in scales]
        wanted = (
            [math.floor(n * s) for n, s in zip(old, factors)]
            if mode != "tf_crop_and_resize"
            else _cropped(roi, old, factors)
        )
    else:
        wanted, factors = _fitted(call, old, [int(n) for n in sizes])
    check_size([*(n for i, n in enumerate(x.shape) if i not in axes), *wanted])
    for i, axis in enumerate(axes):
        window = (float(roi[i]), float(roi[i + len(axes)])) if mode == "tf_crop_and_resize" else (0.0, 1.0)
        if mode != "tf_crop_and_resize" and factors[i] == 1 and wanted[i] == old[i]:
            continue
        places = _places(mode, wanted[i], old[i], factors[i], window)
        how = call["nearest_mode"] or "floor" if call["mode"] == "nearest" else call["mode"]
        x = _interpolated(x, axis, places, how, _options(call, factors[i], mode == "tf_crop_and_resize"))
    return x


def _cropped(roi: Any, old: list[int], factors: list[float]) -> list[int]:
    return [
        math.floor(n * (float(roi[i + len(old)]) - float(roi[i])) * s) for i, (n, s) in enumerate(zip(old, factors))
    ]


def _fitted(call: OnnxCall, old: list[int], sizes: list[int]) -> tuple[list[int], list[float]]:
    """The sizes, and the scales that they are; with a policy all scales are one."""
    factors = [m / n for m, n in zip(sizes, old)]
    policy = call["keep_aspect_ratio_policy"] or "stretch"
    if policy == "stretch":
        return sizes, factors
    scale = min(factors) if policy == "not_larger" else max(factors)
    return [math.floor(scale * n + 0.5) for n in old], [scale] * len(old)


def _places(mode: str, size: int, old: int, scale: float, window: tuple[float, float]) -> Array:
    """Where each element of the result lies in the data."""
    index = np.arange(size, dtype=np.float64)
    match mode:
        case "half_pixel":
            return (index + 0.5) / scale - 0.5
        case "pytorch_half_pixel":
            return (index + 0.5) / scale - 0.5 if size > 1 else np.zeros(size)
        case "align_corners":
            return index * (old - 1) / (scale * old - 1) if size > 1 else np.zeros(size)
        case "asymmetric":
            return index / scale
        case "tf_half_pixel_for_nn":
            return (index + 0.5) / scale
        case "half_pixel_symmetric":
            offset = old / 2 * (1 - size / (scale * old))
            return offset + (index + 0.5) / scale - 0.5
        case "tf_crop_and_resize":
            begin, end = window
            if size > 1:
                return begin * (old - 1) + index * (end - begin) * (old - 1) / (size - 1)
            return np.full(size, 0.5 * (begin + end) * (old - 1))
        case _:
            raise ValueError(f"coordinate_transformation_mode={mode!r} is not known")


def _options(call: OnnxCall, scale: float, extrapolates: bool) -> dict[str, Any]:
    return {
        "scale": scale if call["antialias"] and scale < 1 else 1.0,
        "cubic": -0.75 if call["cubic_coeff_a"] is None else call["cubic_coeff_a"],
        "excludes": bool(call["exclude_outside"]),
        "outside": (call["extrapolation_value"] or 0.0) if extrapolates else None,
    }


def _interpolated(x: Any, axis: int, places: Array, how: str, options: dict[str, Any]) -> Any:
    """An axis at other places, by the weights of the elements around each."""
    index, weights = _taps(places, how, options, x.shape[axis])
    outside = options.get("outside")
    shape = (-1,) + (1,) * (len(x.shape) - axis - 1)
    y: Any = 0
    for k in range(index.shape[1]):
        part = taken(x, index[:, k], axis)
        y = part if index.shape[1] == 1 else y + part * mnp.array(weights[:, k].reshape(shape), dtype=x.dtype)
    if outside is not None:
        inside = ((places >= 0) & (places <= x.shape[axis] - 1)).reshape(shape)
        y = mnp.where(mnp.array(inside, dtype="bool"), y, mnp.full_like(y, outside))
    return y


def _taps(places: Array, how: str, options: dict[str, Any], size: int) -> tuple[Array, Array]:
    """The indices of the elements that each place takes, and their weights."""
    if how not in ("linear", "cubic"):
        return _nearest(places, how, size)[:, None], np.ones((len(places), 1))
    scale = options.get("scale", 1.0)
    reach = math.ceil((1 if how == "linear" else 2) / scale)
    index = np.floor(places).astype(np.int64)[:, None] + np.arange(1 - reach, reach + 1)
    distance = np.abs(places[:, None] - index) * scale
    weights = np.maximum(0, 1 - distance) if how == "linear" else _cubic(distance, options["cubic"])
    if options.get("excludes"):
        weights = np.where((index < 0) | (index >= size), 0, weights)
    if options.get("excludes") or scale != 1:
        weights = weights / weights.sum(1, keepdims=True)
    return np.clip(index, 0, size - 1), weights


def _cubic(d: Array, a: float) -> Array:
    """The weight of an element at a distance, of the cubic interpolation with this coefficient."""
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


def _nearest(places: Array, how: str, size: int) -> Array:
    match how:
        case "round_prefer_floor":
            found = np.ceil(places - 0.5)
        case "round_prefer_ceil":
            found = np.floor(places + 0.5)
        case "ceil":
            found = np.ceil(places)
        case _:
            found = np.floor(places)
    return np.clip(found, 0, size - 1).astype(np.int64)

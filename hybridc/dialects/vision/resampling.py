"""Images in other sizes, with the pixels that OpenCV gives: arrays of NumPy, HWC or several of them, NHWC.

The centre of pixel i is at i + 0.5, nothing is smoothed before it is made smaller (but by ``AREA``), and at the border
the last pixel goes on. Rows and columns are resampled one after the other: each output pixel is a sum of a few input
pixels times weights. For uint8 the weights are integers, in fractions of 2**11, as in OpenCV.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

NEAREST, LINEAR, CUBIC, AREA, LANCZOS = range(5)  # OpenCV's numbers
_BITS = 11  # of the weights for uint8, in OpenCV
_CUBIC_TAPS, _LANES = 4, 8  # pixels that a cubic sum has; bytes that OpenCV's vectors make at once
_CUBIC = -0.75  # the slope of the cubic kernel at 1 in OpenCV; others have -0.5
_HALF_LANCZOS = 4  # the kernel is a sinc times a wider sinc, both 0 at that distance


class _Taps(NamedTuple):
    """For each output pixel along an axis (rows), the input pixels and their weights (columns)."""

    indices: Array
    weights: Array


def resample(image: Array, height: int, width: int, method: int) -> Array:
    """Images in another size, in the dtype they have."""
    rows, columns = image.shape[-3:-1]
    if (rows, columns) == (height, width):
        return image.copy()
    if not image.size:
        return np.zeros((*image.shape[:-3], height, width, image.shape[-1]), image.dtype)
    if method == NEAREST:
        return np.take(np.take(image, _nearest(rows, height), -3), _nearest(columns, width), -2)
    method = method_of(method, rows, columns, height, width)
    if method == AREA and height <= rows and width <= columns:
        return _averaged(image, height, width)
    make = {LINEAR: _linear, CUBIC: _cubic, LANCZOS: _lanczos, AREA: _area_enlarged}[method]
    down, across = make(rows, height), make(columns, width)
    if method == LINEAR:  # along columns, bytes are blended there, too: OpenCV's weights in integers need not sum to 1
        down, across = down if image.dtype == np.uint8 else _ended(down), _ended(across)
    return _blended(image, down, across)


def method_of(method: int, rows: int, columns: int, height: int, width: int) -> int:
    """The method that OpenCV uses: linear halving of both sides is the average of four pixels."""
    return AREA if method == LINEAR and (rows, columns) == (2 * height, 2 * width) else method


def _blended(image: Array, down: _Taps, across: _Taps) -> Array:
    """Columns, then rows, as sums of input pixels."""
    if image.dtype != np.uint8:
        kind = np.float64 if image.dtype.itemsize > 4 or image.dtype == np.int32 else np.float32
        return _as(_sums(_sums(image.astype(kind), across, -2), down, -3), image.dtype)
    used, rows = np.unique(down.indices, return_inverse=True)
    wide = _sums(np.take(image, used, -3).astype(np.int32), _in_integers(across), -2)
    down = _in_integers(_Taps(rows.reshape(down.indices.shape), down.weights))
    if down.weights.shape[1] == 2:  # linear: OpenCV drops bits before and after each product, to stay within 16
        weights = down.weights[..., None, None]
        terms = [(np.take(wide, down.indices[:, i], -3) >> 4) * weights[:, i] >> 16 for i in range(2)]
        return np.clip((terms[0] + terms[1] + 2) >> 2, 0, 255).astype(np.uint8)
    total = _sums(wide.astype(np.int64), down, -3)
    made = np.clip((total + (1 << 2 * _BITS - 1)) >> 2 * _BITS, 0, 255).astype(np.uint8)
    if down.weights.shape[1] == _CUBIC_TAPS:
        _round_in_lanes(made, wide, down)
    return made


def _round_in_lanes(made: Array, wide: Array, down: _Taps) -> None:
    """Cubic sums as OpenCV's vectors make them: in float32, halves to even; what is left of a row rounds halves up."""
    lanes = math.prod(made.shape[-2:]) // _LANES * _LANES
    weights = down.weights.astype(np.float32) * np.float32(2.0 ** (-2 * _BITS))
    total = np.rint(_sums(wide.astype(np.float32), _Taps(down.indices, weights), -3))
    flat = (*made.shape[:-2], -1)
    made.reshape(flat)[..., :lanes] = np.clip(total, 0, 255).astype(np.uint8).reshape(flat)[..., :lanes]


def _in_integers(taps: _Taps) -> _Taps:
    scaled = np.rint(taps.weights.astype(np.float32) * np.float32(1 << _BITS))
    return _Taps(taps.indices, scaled.astype(np.int32))


def _sums(x: Array, taps: _Taps, axis: int) -> Array:
    """Weighted sums of input pixels along an axis."""
    shape = (-1, *(1,) * (-axis - 1))
    total: Any = None
    for i in range(taps.indices.shape[1]):
        term = np.take(x, taps.indices[:, i], axis) * taps.weights[:, i].reshape(shape).astype(x.dtype)
        total = term if total is None else total + term
    return total


def _as(values: Array, dtype: np.dtype[Any]) -> Array:
    """Values in a dtype: integers are rounded, and those out of its range become the nearest."""
    if dtype.kind not in "iu":
        return values.astype(dtype)
    info = np.iinfo(dtype)
    return np.clip(np.rint(values), info.min, info.max).astype(dtype)


# --- which input pixels, and how much of each ---------------------------------------------------------------------


def _nearest(old: int, new: int) -> Array:
    scale = 1.0 / (new / old)
    return np.minimum(np.floor(np.arange(new) * scale).astype(np.intp), old - 1)


def _places(old: int, new: int) -> tuple[Array, Array]:
    """Of each output pixel, the input pixel before its centre, and how far its centre is beyond that one's."""
    scale = 1.0 / (new / old)
    centres = ((np.arange(new) + 0.5) * scale - 0.5).astype(np.float32)
    before = np.floor(centres)
    return before.astype(np.intp), centres - before


def _around(before: Array, weights: Array, old: int) -> _Taps:
    """Taps at the pixels around a place, as many before it as after; those beyond the border are the last pixel."""
    half: int = weights.shape[1] // 2
    return _Taps(np.clip(before[:, None] + np.arange(1 - half, 1 + half), 0, old - 1), weights)


def _linear(old: int, new: int) -> _Taps:
    before, t = _places(old, new)
    return _around(before, np.stack([1 - t, t], 1), old)


def _ended(taps: _Taps) -> _Taps:
    """Linear taps of which the first has all the weight where both are the same pixel, one of the border."""
    weights = taps.weights.copy()
    weights[taps.indices[:, 0] == taps.indices[:, 1]] = 1, 0
    return _Taps(taps.indices, weights)


def _area_enlarged(old: int, new: int) -> _Taps:
    """Where an image grows, OpenCV's ``AREA`` is the nearest pixel, blended where an output pixel lies on two."""
    scale = 1.0 / (new / old)
    before = np.floor(np.arange(new) * scale).astype(np.intp)
    t = ((np.arange(new) + 1) - (before + 1) * (new / old)).astype(np.float32)
    t = np.where(t <= 0, np.float32(0), t - np.floor(t))
    return _around(before, np.stack([1 - t, t], 1), old)


def _cubic(old: int, new: int) -> _Taps:
    before, t = _places(old, new)
    a = np.float32(_CUBIC)

    def near(x: Array) -> Array:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: Array) -> Array:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    first, second, third = far(t + 1), near(t), near(1 - t)
    return _around(before, np.stack([first, second, third, 1 - first - second - third], 1), old)


def _lanczos(old: int, new: int) -> _Taps:
    before, t = _places(old, new)
    distance = t[:, None].astype(np.float64) - np.arange(1 - _HALF_LANCZOS, 1 + _HALF_LANCZOS)
    weights = (np.sinc(distance) * np.sinc(distance / _HALF_LANCZOS)).astype(np.float32)
    return _around(before, weights / weights.sum(1, keepdims=True), old)


# --- averages of areas --------------------------------------------------------------------------------------------


def _averaged(image: Array, height: int, width: int) -> Array:
    """Each output pixel is the average of the area of the input that it covers."""
    *several, rows, columns, channels = image.shape
    whole = rows % height == 0 and columns % width == 0
    if not whole:
        kind = np.float64 if image.dtype.itemsize > 4 else np.float32
        values = _overlaps(_overlaps(image.astype(kind), columns, width, -2), rows, height, -3)
        return _as(values, image.dtype)
    down, across = rows // height, columns // width
    blocks = image.reshape(*several, height, down, width, across, channels)
    if image.dtype.kind not in "iu":
        return blocks.mean((-4, -2), dtype=np.float64).astype(image.dtype)
    total = blocks.sum((-4, -2), dtype=np.int64)
    if (down, across) == (2, 2) and channels != 2:  # halves are rounded up by OpenCV's code for this, else to even
        return ((total + 2) >> 2).astype(image.dtype)
    return _as(total.astype(np.float32) * np.float32(1 / (down * across)), image.dtype)


def _overlaps(x: Array, old: int, new: int, axis: int) -> Array:
    """Along one axis, the sum of the input pixels that each output pixel overlaps, times the share of its size."""
    scale = 1.0 / (new / old)
    starts = np.arange(new) * scale
    size = np.minimum(scale, old - starts)
    ends = starts + scale
    first = np.floor(starts).astype(np.intp)
    count = int(np.max(np.ceil(ends - 1e-9).astype(np.intp) - first))
    indices = first[:, None] + np.arange(count)
    overlap = np.minimum(indices + 1, ends[:, None]) - np.maximum(indices, starts[:, None])
    weights = np.where((overlap > 1e-3) & (indices < old), overlap, 0) / size[:, None]
    return _sums(x, _Taps(np.minimum(indices, old - 1), weights.astype(np.float32)), axis)

"""Changes of the colours of images HWC or NHWC, as ``mx.nd.image`` makes them: integers are cut off and limited."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hybridc.dtypes import is_float
from hybridc.image.augmenters import BRIGHTNESS, EIGENVALUES, EIGENVECTORS

Array = npt.NDArray[Any]


def _limited(values: Array, dtype: np.dtype[Any]) -> Array:
    """Values in the dtype of the image."""
    if is_float(dtype):
        return values.astype(dtype)
    info = np.iinfo(dtype)
    return np.clip(values, info.min, info.max).astype(dtype)


def _gray(x: Array) -> Array:
    """The brightness of each pixel, with an axis for one channel."""
    return x.astype(np.float32) if x.shape[-1] == 1 else (x * BRIGHTNESS).sum(-1, keepdims=True, dtype=np.float32)


def brightened(x: Array, factor: float) -> Array:
    """All colours times a factor."""
    return _limited(x * np.float32(factor), x.dtype)


def contrasted(x: Array, factor: float) -> Array:
    """The difference of all colours from the mean brightness times a factor."""
    mean = _gray(x).mean(dtype=np.float64).astype(np.float32)
    return _limited(x * np.float32(factor) + np.float32(1 - factor) * mean, x.dtype)


def saturated(x: Array, factor: float) -> Array:
    """The difference of all colours from their gray times a factor."""
    if x.shape[-1] == 1:
        return x.copy()
    # COMPAT(mxnet): there the gray is the blue channel's share alone.
    return _limited(_gray(x) * np.float32(1 - factor) + x * np.float32(factor), x.dtype)


def grayed(x: Array) -> Array:
    """The gray of all colours, in all channels."""
    return _limited(np.broadcast_to(_gray(x), x.shape), x.dtype)


def lighted(x: Array, alpha: Array) -> Array:
    """All colours plus ``alpha`` (three numbers) along the principal components of ImageNet's colours."""
    if x.shape[-1] == 1:
        return x.copy()
    return _limited(x + ((EIGENVECTORS * EIGENVALUES) @ alpha).astype(np.float32), x.dtype)


def hue_turned(x: Array, turns: float) -> Array:
    """The hue of all colours turned, by whole turns; their lightness and their spread stay."""
    if x.shape[-1] == 1:
        return x.copy()
    channels = np.moveaxis(x.astype(np.float32), -1, 0)
    red, green, blue = (np.asarray(channel) for channel in channels)
    most, least = np.maximum(np.maximum(red, green), blue), np.minimum(np.minimum(red, green), blue)
    spread = most - least
    safe = np.where(spread == 0, np.float32(1), spread)
    of_green_or_blue = np.where(most == green, (blue - red) / safe + 2, (red - green) / safe + 4)
    sixths = np.where(most == red, (green - blue) / safe, of_green_or_blue)
    values = _of_hue(sixths + np.float32(6 * turns), (most + least) / 2, spread / 2)
    # COMPAT(mxnet): there numbers are cut off, and hues that do not turn become darker.
    return _limited(values if is_float(x.dtype) else np.rint(values), x.dtype)


def _of_hue(sixths: Array, middle: Array, reach: Array) -> Array:
    """RGB of a hue in sixths of the circle, around ``middle`` by at most ``reach``."""

    def channel(offset: int) -> Array:
        k = (offset + 2 * sixths) % 12
        return middle - reach * np.clip(np.minimum(k - 3, 9 - k), -1, 1)

    return np.stack([channel(0), channel(8), channel(4)], -1)

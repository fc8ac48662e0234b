"""Affine maps of images, and shifts of hue, lightness and saturation, as OpenCV does them on bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hybridc.dialects.vision.resampling import NEAREST

Array = npt.NDArray[Any]

_HUES = 180  # OpenCV's hue of a byte is half the angle


def warped(image: Array, matrix: Array, size: tuple[int, int], method: int, fill: float) -> Array:
    """The image HWC of (width, height) ``size`` whose pixel ``matrix @ (x, y, 1)`` is pixel (x, y) of ``image``.

    Pixels between others are linear in them, unless ``method`` is nearest; those from outside are ``fill``.
    """
    width, height = size
    to_x, to_y = np.meshgrid(np.arange(width, dtype=np.float64), np.arange(height, dtype=np.float64))
    inverse = np.linalg.inv(np.vstack([matrix, [0, 0, 1]]))
    x, y = (inverse[i, 0] * to_x + inverse[i, 1] * to_y + inverse[i, 2] for i in range(2))
    if method == NEAREST:
        return _pixels(image, np.rint(y).astype(np.intp), np.rint(x).astype(np.intp), fill)
    top, left = np.floor(y).astype(np.intp), np.floor(x).astype(np.intp)
    made = np.zeros((height, width, image.shape[2]))
    for row, of_row in ((top, top + 1 - y), (top + 1, y - top)):
        for column, of_column in ((left, left + 1 - x), (left + 1, x - left)):
            made += _pixels(image, row, column, fill) * (of_row * of_column)[..., None]
    return np.clip(np.rint(made), 0, 255).astype(image.dtype)


def _pixels(image: Array, row: Array, column: Array, fill: float) -> Array:
    h, w = image.shape[:2]
    inside = (row >= 0) & (row < h) & (column >= 0) & (column < w)
    found = image[np.clip(row, 0, h - 1), np.clip(column, 0, w - 1)]
    return np.where(inside[..., None], found, np.asarray(fill, image.dtype))


def shifted_colours(image: Array, hue: int, lightness: int, saturation: int) -> Array:
    """An RGB image of bytes whose hue (0 to 180), lightness and saturation (0 to 255) are so much larger, clipped."""
    values: Array = image.astype(np.float32) / np.float32(255)
    most: Array = values.max(axis=2)
    least: Array = values.min(axis=2)
    total: Array = most + least
    range_: Array = most - least
    safe = np.where(range_ == 0, 1, range_)
    red, green, blue = np.moveaxis(values, 2, 0)
    angle = np.select(
        [most == red, most == green], [(green - blue) / safe, 2 + (blue - red) / safe], 4 + (red - green) / safe
    )
    angle = np.where(range_ == 0, 0, angle * 30 % _HUES)
    vivid = np.where(range_ == 0, 0, range_ / np.maximum(np.where(total < 1, total, 2 - total), 1e-12))
    h = np.clip(np.rint(angle) + hue, 0, _HUES) % _HUES / 30
    light = np.clip(np.rint(total / 2 * 255) + lightness, 0, 255) / 255
    vivid = np.clip(np.rint(vivid * 255) + saturation, 0, 255) / 255
    return _of_hue(h, light, vivid)


def _of_hue(sextant: Array, light: Array, vivid: Array) -> Array:
    """Bytes of RGB, of hue in sixths of the circle, lightness and saturation from 0 to 1."""
    reach = vivid * np.minimum(light, 1 - light)
    channels = [
        light - reach * np.clip(np.minimum(k - 3, 9 - k), -1, 1)
        for k in ((offset + 2 * sextant) % 12 for offset in (0, 8, 4))
    ]
    return np.clip(np.rint(np.stack(channels, axis=2) * 255), 0, 255).astype(np.uint8)

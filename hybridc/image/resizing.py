"""Images in other sizes, parts of them, borders around them, and turned: functions of ``mx.image``.

Random numbers are those of Python's ``random`` and ``numpy.random``, in MXNet's order: equal seeds give equal crops.
"""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hybridc import nd
from hybridc.array.ndarray import NDArray, constant_values
from hybridc.array.numpy_array import in_class_of
from hybridc.dialects.vision.resampling import AREA, CUBIC, LANCZOS, LINEAR, NEAREST, resample
from hybridc.dtypes import is_float
from hybridc.errors import AttributeValueError, CheckError, MXNetError, ShapeError
from hybridc.image.reading import delivered, pixels

Array = npt.NDArray[Any]
Box = tuple[int, int, int, int]  # x, y, width, height

_BY_SIZE, _ANY = 9, 10  # MXNet's own numbers beside OpenCV's
_METHODS = (NEAREST, LINEAR, CUBIC, AREA, LANCZOS)
_TRIALS = 10  # of a random part of the image that fits, as in MXNet
# Modes of numpy.pad by OpenCV's numbers of borders; MXNet's documentation has them in another order.
_BORDERS = {0: "constant", 1: "edge", 2: "symmetric", 3: "wrap", 4: "reflect"}
_ISOLATED = 16  # OpenCV's flag for parts of larger images


def imresize(src: Any, w: int, h: int, interp: int = 1, out: NDArray | None = None) -> NDArray:
    """An image in another size, with OpenCV's pixels.

    Parameters
    ----------
    src:
        An image HWC: an NDArray, or an array of NumPy, of any dtype of numbers.
    w, h:
        The new width and height, in pixels, 1 at least.
    interp:
        The interpolation: 0 (nearest), 1 (linear), 2 (cubic), 3 (average of areas), 4 (Lanczos), 9 (cubic for
        larger, area for smaller, else linear) or 10 (any of the first five, at random).
    out:
        An array of the result's shape and dtype into which it is written; None makes a new one.

    Examples
    --------
    >>> image = mx.nd.arange(24, dtype="float32").reshape((2, 4, 3))
    >>> mx.image.imresize(image, w=2, h=1).shape
    (1, 2, 3)
    """
    return delivered(resized(pixels(src, "imresize"), int(w), int(h), interp), out, "imresize", src)


def resized(image: Array, w: int, h: int, interp: int, rng: Any = random) -> Array:
    """As :func:`imresize`, of arrays of NumPy."""
    if w < 1 or h < 1:
        raise AttributeValueError(f"imresize: the new size must be 1 x 1 at least, got width {w} and height {h}")
    method = interpolation_method(interp, (*image.shape[:2], h, w), rng)
    if not is_float(image.dtype) and image.dtype.kind not in "iu":
        raise MXNetError(f"imresize: expected an image of numbers, got {image.dtype}")
    return resample(image, h, w, method)


def interpolation_method(interp: int, sizes: Sequence[int] = (), rng: Any = random) -> int:
    """One of OpenCV's five methods; ``sizes`` are the old height and width, and the new ones."""
    if interp == _BY_SIZE:
        if not sizes:
            return CUBIC
        old_h, old_w, new_h, new_w = sizes
        if new_h > old_h and new_w > old_w:
            return CUBIC
        return AREA if new_h < old_h and new_w < old_w else LINEAR
    if interp == _ANY:
        return rng.randint(0, 4)
    if interp not in _METHODS:
        raise AttributeValueError(
            f"unknown interpolation {interp!r}: 0 to 4, 9 and 10 are known; see mx.image.imresize"
        )
    return int(interp)


def scale_down(src_size: tuple[int, int], size: tuple[int, int]) -> tuple[int, int]:
    """The largest width and height of the shape of ``size`` that fit into ``src_size``, and are not larger than it.

    Parameters
    ----------
    src_size:
        The width and height in which to fit, in pixels.
    size:
        The wanted width and height.

    Examples
    --------
    >>> mx.image.scale_down((6, 4), (8, 4))
    (6, 3)
    """
    w, h = size
    src_w, src_h = src_size
    if src_h < h:
        w, h = float(w * src_h) / h, src_h
    if src_w < w:
        w, h = src_w, float(h * src_w) / w
    return int(w), int(h)


def resize_short(src: Any, size: int, interp: int = 2) -> NDArray:
    """An image whose shorter side is ``size``, and whose shape is the same but for rounding.

    Parameters
    ----------
    src:
        An image HWC: an NDArray, or an array of NumPy, of any dtype of numbers.
    size:
        The new length of the shorter side, in pixels.
    interp:
        The interpolation; see ``mx.image.imresize``.

    Examples
    --------
    >>> mx.image.resize_short(mx.nd.zeros((40, 60, 3)), 20).shape
    (20, 30, 3)
    """
    image = pixels(src, "resize_short")
    h, w = image.shape[:2]
    new_h, new_w = (size * h // w, size) if h > w else (size, size * w // h)
    return in_class_of(src, NDArray(resized(image, new_w, new_h, interp)))


def fixed_crop(
    src: Any, x0: int, y0: int, w: int, h: int, size: tuple[int, int] | None = None, interp: int = 2
) -> NDArray:
    """The part of an image from column ``x0`` and row ``y0`` on; in another ``size`` (width, height) if given.

    Parameters
    ----------
    src:
        An image HWC: an NDArray, or an array of NumPy, of any dtype of numbers.
    x0, y0:
        The column and the row of the part's first pixel, from 0.
    w, h:
        Width and height of the part, in pixels; what is beyond the image is cut off. A part without pixels is an
        AttributeValueError.
    size:
        The width and height to which the part is resized; None leaves it.
    interp:
        The interpolation; see ``mx.image.imresize``.

    Examples
    --------
    >>> image = mx.nd.arange(24, dtype="float32").reshape((2, 4, 3))
    >>> mx.image.fixed_crop(image, x0=1, y0=0, w=2, h=2)[:, :, 0].tolist()
    [[3.0, 6.0], [15.0, 18.0]]
    """
    return in_class_of(src, NDArray(_cropped(pixels(src, "fixed_crop"), (x0, y0, w, h), size, interp, random)))


def _cropped(image: Array, box: Box, size: Sequence[int] | None, interp: int, rng: Any) -> Array:
    x0, y0, w, h = box
    part = image[y0 : y0 + h, x0 : x0 + w]
    if min(x0, y0) < 0 or not part.size:
        raise AttributeValueError(
            f"crop: x {x0}, y {y0}, width {w} and height {h} are no part of an image of height {image.shape[0]} and "
            f"width {image.shape[1]}"
        )
    if size is None or (w, h) == tuple(size):
        return part.copy()
    return resized(part, size[0], size[1], interp, rng)


def center_crop(src: Any, size: tuple[int, int], interp: int = 2) -> tuple[NDArray, Box]:
    """The middle of an image in a size (width, height), and where it was; it is enlarged if the image is smaller.

    Parameters
    ----------
    src:
        An image HWC: an NDArray, or an array of NumPy, of any dtype of numbers.
    size:
        The width and height of the result, in pixels.
    interp:
        The interpolation; see ``mx.image.imresize``. It matters where the image is smaller than ``size``.

    Examples
    --------
    >>> image = mx.nd.arange(24, dtype="float32").reshape((2, 4, 3))
    >>> part, box = mx.image.center_crop(image, (2, 2))
    >>> part.shape, box
    ((2, 2, 3), (1, 0, 2, 2))
    """
    image, box = center_part(pixels(src, "center_crop"), size, interp)
    return in_class_of(src, NDArray(image)), box


def center_part(image: Array, size: tuple[int, int], interp: int, rng: Any = random) -> tuple[Array, Box]:
    """As :func:`center_crop`, of arrays of NumPy."""
    h, w = image.shape[:2]
    new_w, new_h = scale_down((w, h), size)
    box = int((w - new_w) / 2), int((h - new_h) / 2), new_w, new_h
    return _cropped(image, box, size, interp, rng), box


def random_crop(src: Any, size: tuple[int, int], interp: int = 2) -> tuple[NDArray, Box]:
    """A random part of an image in a size (width, height), and where it was; it is enlarged if the image is smaller.

    Parameters
    ----------
    src:
        An image HWC: an NDArray, or an array of NumPy, of any dtype of numbers.
    size:
        The width and height of the result, in pixels.
    interp:
        The interpolation; see ``mx.image.imresize``. It matters where the image is smaller than ``size``.
    """
    image, box = random_part(pixels(src, "random_crop"), size, interp)
    return in_class_of(src, NDArray(image)), box


def random_part(image: Array, size: tuple[int, int], interp: int, rng: Any = random) -> tuple[Array, Box]:
    """As :func:`random_crop`, of arrays of NumPy."""
    h, w = image.shape[:2]
    new_w, new_h = scale_down((w, h), size)
    box = rng.randint(0, w - new_w), rng.randint(0, h - new_h), new_w, new_h
    return _cropped(image, box, size, interp, rng), box


def random_size_crop(
    src: Any, size: tuple[int, int], area: Any, ratio: tuple[float, float], interp: int = 2, **kwargs: Any
) -> tuple[NDArray, Box]:
    """A part of an image of random size and shape, in a size (width, height), and where it was.

    If ten draws give none that fits, it is the middle, as by :func:`center_crop`.

    Parameters
    ----------
    src:
        An image HWC: an NDArray, or an array of NumPy, of any dtype of numbers.
    size:
        The width and height of the result, in pixels.
    area:
        The range of the part's share of the image's area, or the least share; then 1 is the largest.
    ratio:
        The range of the part's ratio of width to height.
    interp:
        The interpolation; see ``mx.image.imresize``.
    """
    if "min_area" in kwargs:
        warnings.warn("`min_area` is deprecated. Please use `area` instead.", DeprecationWarning, stacklevel=2)
        area = kwargs.pop("min_area")
    if kwargs:
        raise CheckError(f"random_size_crop: unexpected keyword arguments {', '.join(kwargs)}")
    image, box = random_sized_part(pixels(src, "random_size_crop"), size, area, ratio, interp)
    return in_class_of(src, NDArray(image)), box


def random_sized_part(
    image: Array, size: tuple[int, int], area: Any, ratio: tuple[float, float], interp: int, rng: Any = random
) -> tuple[Array, Box]:
    """As :func:`random_size_crop`, of arrays of NumPy."""
    h, w = image.shape[:2]
    least, most = (area, 1.0) if isinstance(area, int | float) else area
    for _ in range(_TRIALS):
        wanted = rng.uniform(least, most) * h * w
        shape = math.exp(rng.uniform(math.log(ratio[0]), math.log(ratio[1])))
        new_w, new_h = round(math.sqrt(wanted * shape)), round(math.sqrt(wanted / shape))
        if 0 < new_w <= w and 0 < new_h <= h:
            box = rng.randint(0, w - new_w), rng.randint(0, h - new_h), new_w, new_h
            return _cropped(image, box, size, interp, rng), box
    return center_part(image, size, interp, rng)


def color_normalize(src: Any, mean: Any, std: Any = None) -> NDArray:
    """``(src - mean) / std``; each is a number or has one for each channel, and None leaves it out.

    Parameters
    ----------
    src:
        An image HWC; integers are computed as float32.
    mean, std:
        A number, or an array that broadcasts over HWC, such as one for each channel; None leaves it out.

    Examples
    --------
    >>> image = mx.nd.arange(24, dtype="float32").reshape((2, 4, 3))
    >>> mx.image.color_normalize(image[0, 0], mean=mx.nd.array([0, 1, 2]), std=2).tolist()
    [0.0, 0.0, 0.0]
    >>> mx.image.color_normalize(image[1, 3], mean=mx.nd.array([1, 2, 3]), std=mx.nd.array([1, 2, 4])).tolist()
    [20.0, 10.0, 5.0]
    """
    # COMPAT(mxnet): there `src` itself is changed, and must be of floats.
    values = floats(src, "color_normalize")
    if mean is not None:
        values = values - _factor(mean, values)
    return in_class_of(src, NDArray(values if std is None else values / _factor(std, values)))


def floats(src: Any, name: str) -> Array:
    """The values of an array; integers as float32."""
    values = constant_values(src, name)
    return values if is_float(values.dtype) else values.astype(np.float32)


def _factor(given: Any, values: Array) -> Array:
    factor = given if isinstance(given, NDArray) else nd.array(given, dtype=values.dtype)
    return constant_values(factor, "color_normalize").astype(values.dtype)


def copyMakeBorder(
    src: Any,
    top: int,
    bot: int,
    left: int,
    right: int,
    type: int = 0,
    value: float = 0,
    values: Any = (),
    out: NDArray | None = None,
) -> NDArray:
    """An image with a border.

    Parameters
    ----------
    src:
        An image HWC: an NDArray, or an array of NumPy, of any dtype of numbers.
    top, bot, left, right:
        The width of the border on each side, in pixels; none is negative.
    type:
        0 (of one colour), 1 (the last pixel goes on), 2 (mirrored), 3 (the image starts over) or 4 (mirrored at the
        last pixel).
    value:
        The colour's number in all channels, where ``values`` is empty; for ``type=0``.
    values:
        The colour: a number for each channel, or one for all; for ``type=0``.
    out:
        An array of the result's shape and dtype into which it is written; None makes a new one.

    Examples
    --------
    >>> image = mx.nd.array([[[1], [2]]], dtype="uint8")
    >>> mx.image.copyMakeBorder(image, 1, 0, 1, 1, value=9)[:, :, 0].tolist()
    [[9, 9, 9, 9], [9, 1, 2, 9]]
    >>> mx.image.copyMakeBorder(image, 0, 0, 2, 2, type=3)[:, :, 0].tolist()
    [[1, 2, 1, 2, 1, 2]]
    """
    image = pixels(src, "copyMakeBorder")
    if min(top, bot, left, right) < 0:
        raise AttributeValueError(f"copyMakeBorder: a margin is negative: {top}, {bot}, {left}, {right}")
    mode = _BORDERS.get(type & ~_ISOLATED)
    if mode is None:
        raise AttributeValueError(f"copyMakeBorder: type must be one of 0 to 4, got {type}")
    pad: Any = np.pad
    made: Array = pad(image, ((top, bot), (left, right), (0, 0)), mode=mode)
    if mode == "constant":
        inside = np.zeros(made.shape[:2], bool)
        inside[top : top + image.shape[0], left : left + image.shape[1]] = True
        made[~inside] = _colour(value, values, image)
    return delivered(made, out, "copyMakeBorder", src)


def _colour(value: float, values: Any, image: Array) -> Array:
    """The colour of a border, in the dtype of the image."""
    channels = image.shape[2]
    given = np.asarray(values, np.float64).ravel()
    if not np.ndim(values) or not given.size:
        given = np.full(channels, given[0] if given.size else value, np.float64)
    if given.size < channels:
        raise AttributeValueError(f"copyMakeBorder: {given.size} values for {channels} channels: {given.tolist()}")
    colour = given[:channels]
    if image.dtype.kind in "iu":
        info = np.iinfo(image.dtype)
        colour = np.clip(np.rint(colour), info.min, info.max)
    return colour.astype(image.dtype)


# --- rotation -----------------------------------------------------------------------------------------------------


def imrotate(src: Any, rotation_degrees: Any, zoom_in: bool = False, zoom_out: bool = False) -> NDArray:
    """An image CHW, or a batch NCHW, of float32, turned around its centre; what was outside is 0.

    Pixels are interpolated linearly. Another dtype is a TypeError: use ``ToTensor()`` before.

    Parameters
    ----------
    src:
        The image or the images.
    rotation_degrees:
        The angle in degrees, counterclockwise: a number, or for a batch an array of one for each image.
    zoom_in:
        Enlarge the image until nothing of the outside is left.
    zoom_out:
        Make it smaller until no corner is lost; not with ``zoom_in``.

    Examples
    --------
    >>> image = mx.nd.array([[[0, 0, 0], [1, 2, 3], [0, 0, 0]]])
    >>> mx.image.imrotate(image, 90).round().tolist()
    [[[0.0, 3.0, 0.0], [0.0, 2.0, 0.0], [0.0, 1.0, 0.0]]]
    """
    if zoom_in and zoom_out:
        raise ValueError("`zoom_in` and `zoom_out` cannot be both True")
    images = constant_values(src, "imrotate")
    if images.dtype != np.float32:
        raise TypeError(f"imrotate: only float32 images can be turned, got {images.dtype}; use ToTensor() before")
    single = isinstance(rotation_degrees, int | float | np.number)
    if images.ndim not in (3, 4):
        raise ValueError(f"imrotate: expected CHW or NCHW, got shape {images.shape}")
    if images.ndim == 3 and not single:
        raise TypeError("imrotate: for a single image the angle must be a number")
    batch = images[None] if images.ndim == 3 else images
    given = constant_values(rotation_degrees, "imrotate")
    degrees = np.broadcast_to(given, len(batch)) if single else given.ravel()
    if len(degrees) != len(batch):
        raise ValueError(f"imrotate: {len(batch)} images need as many angles, got {len(degrees)}")
    turned = (
        np.stack([_turned(x, float(a), zoom_in, zoom_out) for x, a in zip(batch, degrees)]) if len(batch) else batch
    )
    return in_class_of(src, NDArray(turned[0] if images.ndim == 3 else turned))


def _turned(image: Array, degrees: float, zoom_in: bool, zoom_out: bool) -> Array:
    """One image CHW."""
    _, h, w = image.shape
    angle = math.radians(degrees)
    middle_y, middle_x = (h - 1) / 2, (w - 1) / 2
    y, x = np.mgrid[0:h, 0:w].astype(np.float64)
    y, x = y - middle_y, x - middle_x
    zoom = _zoom(h, w, abs(angle), zoom_in) if zoom_in or zoom_out else 1.0
    from_x = (x * math.cos(angle) - y * math.sin(angle)) * zoom + middle_x
    from_y = (x * math.sin(angle) + y * math.cos(angle)) * zoom + middle_y
    return _sampled(image, from_y, from_x)


def _zoom(h: int, w: int, angle: float, zoom_in: bool) -> float:
    """By what the distance of each pixel from the centre is multiplied, to see where it comes from."""
    diagonal, corner = math.hypot(h, w), math.atan2(h, w)
    right = max(abs(diagonal * math.cos(corner + angle)), abs(diagonal * math.cos(corner - angle)))
    top = max(abs(diagonal * math.sin(corner + angle)), abs(diagonal * math.sin(corner - angle)))
    return min(w / right, h / top) if zoom_in else max(right / w, top / h)


def _sampled(image: Array, y: Array, x: Array) -> Array:
    """Linear interpolation at places of an image CHW; it is 0 outside."""
    _, h, w = image.shape
    top, left = np.floor(y).astype(np.intp), np.floor(x).astype(np.intp)
    made = np.zeros(image.shape, np.float64)
    for row, of_row in ((top, top + 1 - y), (top + 1, y - top)):
        for column, of_column in ((left, left + 1 - x), (left + 1, x - left)):
            inside = (row >= 0) & (row < h) & (column >= 0) & (column < w)
            made += image[:, np.clip(row, 0, h - 1), np.clip(column, 0, w - 1)] * (of_row * of_column * inside)
    return made.astype(image.dtype)


def random_rotate(src: Any, angle_limits: Sequence[float], zoom_in: bool = False, zoom_out: bool = False) -> NDArray:
    """As :func:`imrotate`, by random angles, one for each image, from the first limit to the second.

    Parameters
    ----------
    src:
        As for :func:`imrotate`.
    angle_limits:
        The least and the largest angle, in degrees.
    zoom_in, zoom_out:
        As for :func:`imrotate`.
    """
    low, high = angle_limits
    if np.ndim(src) == 3:
        return imrotate(src, float(np.random.uniform(low, high)), zoom_in, zoom_out)
    if np.ndim(src) != 4:
        raise ShapeError(f"random_rotate: expected CHW or NCHW, got shape {np.shape(src)}")
    return imrotate(src, np.random.uniform(low, high, size=len(src)), zoom_in, zoom_out)

"""Decoding and encoding of image files: by OpenCV where it is installed, as in MXNet, else by Pillow.

Both give the same pixels, but for JPEG, where versions of libjpeg differ by a few levels.
"""

from __future__ import annotations

import importlib
import io
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from hybridc.errors import MXNetError

Array = npt.NDArray[Any]

GRAY, COLOUR, UNCHANGED = 0, 1, -1  # as OpenCV's imdecode numbers them
_JPEG, _PNG = (".jpg", ".jpeg"), (".png",)
_PNG_LEVELS = 9  # zlib's levels of compression
_MISSING = "no library for images is installed: pip install 'hybridc[image]' (Pillow), or opencv-python-headless"


def decode(data: bytes | memoryview, flag: int, where: str) -> Array:
    """The pixels of an image file: HWC of uint8 and RGB (``COLOUR``), HW1 of uint8 (``GRAY``), or ``UNCHANGED``.

    ``UNCHANGED`` keeps channels (HW for one, else RGB or RGBA) and 16 bits. ``where`` names the image in errors.
    """
    if flag not in (GRAY, COLOUR, UNCHANGED):
        raise MXNetError(f"{where}: flag must be 0 (gray), 1 (colour) or -1 (as it is), got {flag}")
    if not len(data):
        raise MXNetError(f"{where}: the image has no bytes")
    cv2 = _opencv()
    made = _by_opencv(cv2, data, flag, where) if cv2 is not None else _by_pillow(data, flag, where)
    if made is None:
        raise _undecodable(where, "OpenCV", data, "")
    return made[:, :, None] if flag == GRAY and made.ndim == 2 else made


def encode(image: Array, img_fmt: str, quality: int) -> bytes:
    """The bytes of an image file; ``image`` is HW, HW1, HWC of RGB or RGBA.

    ``quality`` is 1 to 100 for JPEG, and for PNG the level of compression, 0 to 9.
    """
    if image.ndim not in (2, 3) or 0 in image.shape or (image.ndim == 3 and image.shape[2] not in (1, 3, 4)):
        raise MXNetError(f"cannot encode an array of shape {image.shape}: expected HW, or HWC of 1, 3 or 4 channels")
    kind = img_fmt.lower()
    if image.dtype != np.uint8 and not (image.dtype == np.uint16 and kind in _PNG):
        raise MXNetError(f"cannot encode an array of {image.dtype} as {img_fmt}: expected uint8; use .astype('uint8')")
    image = np.ascontiguousarray(image[:, :, 0] if image.ndim == 3 and image.shape[2] == 1 else image)
    cv2 = _opencv()
    return _encode_by_opencv(cv2, image, kind, quality) if cv2 is not None else _encode_by_pillow(image, kind, quality)


def swapped(image: Array) -> Array:
    """RGB as BGR, RGBA as BGRA, and back; others as they are."""
    if image.ndim < 3 or image.shape[2] < 3:
        return image
    return np.ascontiguousarray(image[:, :, [2, 1, 0, *range(3, image.shape[2])]])


# --- OpenCV ----------------------------------------------------------------------------------------------------


def _opencv() -> Any:
    """OpenCV's module, or None."""
    try:
        return importlib.import_module("cv2")
    except ImportError:
        return None


def _by_opencv(cv2: Any, data: bytes | memoryview, flag: int, where: str) -> Array | None:
    kinds = {GRAY: cv2.IMREAD_GRAYSCALE, COLOUR: cv2.IMREAD_COLOR, UNCHANGED: cv2.IMREAD_UNCHANGED}
    # MXNet's version of OpenCV does not turn images as their EXIF says.
    turned = 0 if flag == UNCHANGED else cv2.IMREAD_IGNORE_ORIENTATION
    try:
        made = cv2.imdecode(np.frombuffer(data, np.uint8), kinds[flag] | turned)
    except cv2.error as error:  # more pixels than its limit, or than there is memory for
        raise _undecodable(where, "OpenCV", data, str(error.err)) from error
    return None if made is None else swapped(made)


def _encode_by_opencv(cv2: Any, image: Array, kind: str, quality: int) -> bytes:
    options = [cv2.IMWRITE_JPEG_QUALITY, quality] if kind in _JPEG else []
    options = [cv2.IMWRITE_PNG_COMPRESSION, min(quality, _PNG_LEVELS)] if kind in _PNG else options
    try:
        done, made = cv2.imencode(kind, swapped(image), options)
    except cv2.error as error:
        raise MXNetError(f"cannot encode an image as {kind!r}: {error}") from error
    if not done:
        raise MXNetError(f"cannot encode an array of shape {image.shape} and {image.dtype} as {kind!r}")
    return made.tobytes()


# --- Pillow ----------------------------------------------------------------------------------------------------


def _pillow() -> Any:
    """Pillow's module of images."""
    try:
        return importlib.import_module("PIL.Image")
    except ImportError:
        raise MXNetError(_MISSING) from None


def _by_pillow(data: bytes | memoryview, flag: int, where: str) -> Array:
    pillow = _pillow()
    unknown = pillow.UnidentifiedImageError
    try:
        with pillow.open(io.BytesIO(data)) as image:
            if flag == GRAY and image.format == "JPEG":
                image.draft("L", image.size)  # the brightness that the file holds, instead of one made of colours
            image.load()
            return _pixels(image, flag)
    except MemoryError:
        raise
    except Exception as error:  # Pillow's decoders raise nearly every kind of error for damaged files
        said = str(error) or type(error).__name__
        raise _undecodable(where, "Pillow", data, "" if isinstance(error, unknown) else said) from error


def _pixels(image: Any, flag: int) -> Array:
    """The pixels of an image of Pillow's."""
    mode, weights = str(image.mode), _LIBPNG_WEIGHTS if image.format == "PNG" else _OPENCV_WEIGHTS
    if mode.startswith("I") or mode == "F":  # 16 bits
        deep = np.asarray(image)
        if flag == UNCHANGED:
            return deep.astype(np.uint16)
        gray = (deep >> 8).astype(np.uint8) if deep.dtype.kind in "iu" else np.clip(deep, 0, 255).astype(np.uint8)
        return gray if flag == GRAY else np.repeat(gray[:, :, None], 3, axis=2)
    if mode == "CMYK":  # written inverted, as by Adobe's programs; Pillow turns it back
        c, m, y, k = (np.asarray(band).astype(np.int32) for band in image.split())
        light = 255 - k
        rgb = np.stack([light - (ink * light >> 8) for ink in (c, m, y)], -1)
        return _gray(rgb, *weights) if flag == GRAY else rgb.astype(np.uint8)
    if mode in ("1", "L", "LA"):
        gray = np.array(image if mode == "L" else image.convert("L"))
        if flag == UNCHANGED and mode == "LA":
            return np.array(image.convert("RGBA"))
        return gray if flag != COLOUR else np.repeat(gray[:, :, None], 3, axis=2)
    if flag == UNCHANGED and ("A" in mode or "transparency" in image.info):
        return np.array(image.convert("RGBA"))
    if mode in ("RGBA", "RGBX", "P", "PA"):
        image = image.convert("RGBA").convert("RGB")
    rgb = np.array(image.convert("RGB"))
    return _gray(rgb, *weights) if flag == GRAY else rgb


# 0.299, 0.587, 0.114 in fractions of a power of 2, its exponent, and what is added before the shift.
_LIBPNG_WEIGHTS = ((9797, 19234, 3737), 15, 0)
_OPENCV_WEIGHTS = ((4899, 9617, 1868), 14, 1 << 13)


def _gray(rgb: Array, weights: tuple[int, int, int], bits: int, half: int) -> Array:
    """The brightness of colours, rounded as libpng or OpenCV does."""
    return ((rgb.astype(np.int32) @ np.array(weights, np.int32) + half) >> bits).astype(np.uint8)


def _encode_by_pillow(image: Array, kind: str, quality: int) -> bytes:
    pillow = _pillow()
    name = {**dict.fromkeys(_JPEG, "JPEG"), **dict.fromkeys(_PNG, "PNG")}.get(kind)
    pillow.init()
    name = name or cast("dict[str, str]", pillow.EXTENSION).get(kind)
    if name is None:
        raise MXNetError(f"cannot encode an image as {kind!r}; '.jpg' and '.png' are known to every library")
    options: dict[str, Any] = {"quality": max(1, min(quality, 100))} if name == "JPEG" else {}
    options = {"compress_level": max(0, min(quality, _PNG_LEVELS))} if name == "PNG" else options
    if name == "JPEG" and image.ndim == 3:
        image = image[:, :, :3]
    file = io.BytesIO()
    try:
        pillow.fromarray(image).save(file, format=name, **options)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise MXNetError(
            f"cannot encode an array of shape {image.shape}, {image.dtype}, as {kind!r}: {error}"
        ) from error
    return file.getvalue()


def _undecodable(where: str, library: str, data: bytes | memoryview, said: str) -> MXNetError:
    """The error for an image that a library does not decode, with what it says."""
    return MXNetError(
        f"{where} is no image that {library} can decode, or it is damaged: {_begin(data)}{said and f'; {said}'}"
    )


def _begin(data: bytes | memoryview) -> str:
    return f"{len(data)} bytes, which begin with {bytes(data[:8]).hex(' ')}"

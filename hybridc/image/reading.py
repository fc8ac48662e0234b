"""Images from files and bytes: ``mx.image.imread`` and ``imdecode``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from hybridc.array.ndarray import NDArray, constant_values, values_of
from hybridc.array.numpy_array import in_class_of
from hybridc.errors import MXNetError, ShapeError
from hybridc.image import codec

Array = npt.NDArray[Any]


def imread(filename: str | os.PathLike[str], flag: int = 1, to_rgb: bool = True, out: NDArray | None = None) -> NDArray:
    """The image in a file: an array HWC of uint8.

    Parameters
    ----------
    filename:
        The path of the file; an MXNetError says why it cannot be read.
    flag, to_rgb, out:
        As for :func:`imdecode`.
    """
    try:
        data = Path(filename).read_bytes()
    except (OSError, ValueError) as error:  # the name may have a character that no file has
        raise MXNetError(f"imread: cannot read {filename}: {getattr(error, 'strerror', None) or error}") from error
    return _decoded(data, flag, to_rgb, out, f"imread: {filename}")


def imdecode(buf: Any, flag: int = 1, to_rgb: bool = True, out: NDArray | None = None) -> NDArray:
    """The image in the bytes of a file: an array HWC of uint8.

    Parameters
    ----------
    buf:
        The bytes, or an array of uint8 of them. What is no image is an MXNetError.
    flag:
        1 for three channels, 0 for one of gray.
    to_rgb:
        Whether colours are RGB; else BGR, as OpenCV has them.
    out:
        An array of the result's shape and dtype into which it is written; None makes a new one.
    """
    if isinstance(buf, NDArray):
        data = values_of(buf).tobytes()
    elif isinstance(buf, np.ndarray):
        data = buf.tobytes()
    elif isinstance(buf, bytes | bytearray | memoryview):
        data = bytes(cast("bytes", buf))
    else:
        raise ValueError(f"imdecode: buf must be the bytes of an image file, got {type(buf).__name__}")
    return _decoded(data, flag, to_rgb, out, "imdecode: buf")


def _decoded(data: bytes, flag: int, to_rgb: bool, out: NDArray | None, where: str) -> NDArray:
    if flag not in (codec.GRAY, codec.COLOUR):
        raise MXNetError(f"{where}: flag must be 0 (gray) or 1 (colour), got {flag}")
    image = codec.decode(data, flag, where)
    return delivered(image if to_rgb else codec.swapped(image), out, where)


def delivered(image: Array, out: NDArray | None, name: str, source: Any = None) -> NDArray:
    """The image as an array, or in ``out``; ``source`` is the array of which it was made, if it was one."""
    if out is None:
        return in_class_of(source, NDArray(image))
    if out.shape != image.shape or np.dtype(out.dtype) != image.dtype:
        raise ShapeError(
            f"{name}: the result is {image.dtype} of shape {image.shape}, but out is {np.dtype(out.dtype)} of shape "
            f"{out.shape}"
        )
    out[:] = NDArray(image)
    return out


def pixels(src: Any, name: str) -> Array:
    """The values of an image HWC, which may be an NDArray or an array of NumPy."""
    image = constant_values(src, name)
    if image.ndim != 3 or 0 in image.shape:
        raise ShapeError(f"{name}: expected an image of shape (height, width, channels), got shape {image.shape}")
    return image

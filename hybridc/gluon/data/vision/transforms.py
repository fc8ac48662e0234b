"""Transforms of images: arrays of height, width and channels (HWC), or batches of them (NHWC)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hybridc import random
from hybridc.array.ndarray import NDArray, values_of
from hybridc.dtypes import is_float
from hybridc.errors import MXNetError
from hybridc.gluon.block import Block
from hybridc.ground.absent import absent as _absent

Array = npt.NDArray[Any]


class _Transform(Block):
    """A block without parameters that works on the NumPy array; ``forward`` is its public way in."""

    def forward(self, *args: Any) -> NDArray:
        """Transform one array."""
        (x,) = args
        # COMPAT(mxnet): NumPy arrays are taken too, as data sets often give them.
        return NDArray(self.apply_to(values_of(x) if isinstance(x, NDArray) else np.asarray(x)))

    def apply_to(self, x: Array) -> Array:
        """The transform of a NumPy array; must not write to it."""
        return x


class Compose(Block):
    """Transforms one after the other."""

    def __init__(self, transforms: Iterable[Callable[[Any], Any]]) -> None:
        super().__init__()
        # COMPAT(mxnet): plain functions are taken too.
        self._transforms = tuple(transforms)

    def forward(self, *args: Any) -> Any:
        """Apply them all."""
        (x,) = args
        for transform in self._transforms:
            x = transform(x)
        return x

    def __len__(self) -> int:
        return len(self._transforms)

    def __getitem__(self, index: int) -> Callable[[Any], Any]:
        return self._transforms[index]


class Cast(_Transform):
    """The same values in another dtype."""

    def __init__(self, dtype: npt.DTypeLike = "float32") -> None:
        super().__init__()
        self._dtype = np.dtype(dtype)

    def apply_to(self, x: Array) -> Array:
        return x.astype(self._dtype)


class ToTensor(_Transform):
    """HWC of 0 to 255 becomes CHW of float32 in [0, 1); also NHWC to NCHW."""

    def apply_to(self, x: Array) -> Array:
        if x.ndim not in (3, 4):
            raise MXNetError(f"ToTensor: expected HWC or NHWC, got shape {x.shape}")
        return np.ascontiguousarray(np.moveaxis(x, -1, -3), dtype=np.float32) / np.float32(255)


class Normalize(_Transform):
    """``(x - mean) / std`` of CHW or NCHW; ``mean`` and ``std`` are numbers, or one for each channel."""

    def __init__(self, mean: Any = 0.0, std: Any = 1.0) -> None:
        super().__init__()
        self._mean = _per_channel(mean)
        self._std = _per_channel(std)

    def apply_to(self, x: Array) -> Array:
        if x.ndim not in (3, 4) or not is_float(x.dtype):
            raise MXNetError(
                f"Normalize: expected floating point CHW or NCHW, got {x.dtype} of shape {x.shape}; put "
                f"ToTensor() before it"
            )
        for values in (self._mean, self._std):
            if len(values) not in (1, x.shape[-3]):
                raise MXNetError(f"Normalize: {len(values)} numbers do not fit {x.shape[-3]} channels")
        return (x - self._mean.astype(x.dtype)) / self._std.astype(x.dtype)


class CenterCrop(_Transform):
    """The middle of an image; ``size`` is a number or (width, height). What is too small is enlarged."""

    def __init__(self, size: int | Sequence[int], interpolation: int = 1) -> None:
        super().__init__()
        self._size = _width_height(size)
        self._interpolation = _interpolation(interpolation)

    def apply_to(self, x: Array) -> Array:
        _check_image(x, "CenterCrop")
        width, height = self._size
        # As MXNet: the largest part of the image of that shape, scaled if it is smaller than wanted.
        rows, columns = x.shape[-3:-1]
        scale = min(1.0, rows / height, columns / width)
        h, w = int(height * scale), int(width * scale)
        top, left = (rows - h) // 2, (columns - w) // 2
        part = x[..., top : top + h, left : left + w, :]
        return part.copy() if (h, w) == (height, width) else resize(part, width, height, self._interpolation)


class Resize(_Transform):
    """The image in another size, a number or (width, height), by linear (1) or nearest (0) interpolation.

    A number with ``keep_ratio`` is the size of the shorter side.
    """

    def __init__(self, size: int | Sequence[int], keep_ratio: bool = False, interpolation: int = 1) -> None:
        super().__init__()
        self._size = size
        self._keep_ratio = keep_ratio
        self._interpolation = _interpolation(interpolation)

    def apply_to(self, x: Array) -> Array:
        _check_image(x, "Resize")
        width, height = _width_height(self._size)
        if self._keep_ratio and isinstance(self._size, int):
            rows, columns = x.shape[-3:-1]
            shorter = min(rows, columns)
            width, height = columns * self._size // shorter, rows * self._size // shorter
        return resize(x, width, height, self._interpolation)


class RandomResizedCrop(_Transform):
    """A random part of the image, of ``scale`` of its area and ``ratio`` width to height, in a given size."""

    def __init__(
        self,
        size: int | Sequence[int],
        scale: tuple[float, float] = (0.08, 1.0),
        ratio: tuple[float, float] = (3.0 / 4.0, 4.0 / 3.0),
        interpolation: int = 1,
    ) -> None:
        super().__init__()
        self._size = _width_height(size)
        self._scale = scale
        self._ratio = ratio
        self._interpolation = _interpolation(interpolation)

    def apply_to(self, x: Array) -> Array:
        _check_image(x, "RandomResizedCrop")
        rng = random.generator(random.next_key())
        rows, columns = x.shape[-3:-1]
        for _ in range(10):
            area = rng.uniform(*self._scale) * rows * columns
            ratio = math.exp(rng.uniform(math.log(self._ratio[0]), math.log(self._ratio[1])))
            w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < w <= columns and 0 < h <= rows:
                top, left = int(rng.random() * (rows - h + 1)), int(rng.random() * (columns - w + 1))
                return resize(x[..., top : top + h, left : left + w, :], *self._size, self._interpolation)
        return CenterCrop(self._size).apply_to(x)


class _RandomFlip(_Transform):
    """With a chance of one half, the image turned over along ``axis``."""

    axis = -2

    def apply_to(self, x: Array) -> Array:
        _check_image(x, type(self).__name__)
        if random.generator(random.next_key()).random() < 0.5:
            return x
        return np.ascontiguousarray(np.flip(x, self.axis))


class RandomFlipLeftRight(_RandomFlip):
    """With a chance of one half, the image's mirror image."""


class RandomFlipTopBottom(_RandomFlip):
    """With a chance of one half, the image upside down."""

    axis = -3


def resize(x: Array, width: int, height: int, interpolation: int = 1) -> Array:
    """HWC or NHWC in another size; pixels are areas, so their centres are half a pixel in."""
    rows, columns = x.shape[-3:-1]
    if (height, width) == (rows, columns):
        return x.copy()
    if interpolation == 0:
        nearest = x[..., np.arange(height) * rows // height, :, :]
        return np.ascontiguousarray(nearest[..., np.arange(width) * columns // width, :])
    values = _blend(_blend(x.astype(np.float64), height, -3), width, -2)
    if not is_float(x.dtype):
        values = np.rint(values)
    return values.astype(x.dtype)


def _blend(x: Array, size: int, axis: int) -> Array:
    """Linear interpolation along one axis."""
    old = x.shape[axis]
    centres = np.clip((np.arange(size) + 0.5) * old / size - 0.5, 0, old - 1)
    below = np.floor(centres).astype(np.int64)
    above = np.minimum(below + 1, old - 1)
    shape = [1] * x.ndim
    shape[axis] = size
    weight = (centres - below).reshape(shape)
    return np.take(x, below, axis) * (1 - weight) + np.take(x, above, axis) * weight


def _per_channel(values: Any) -> Array:
    array = np.atleast_1d(np.asarray(values, dtype=np.float32))
    return array.reshape(-1, 1, 1)


def _width_height(size: int | Sequence[int]) -> tuple[int, int]:
    width, height = (size, size) if isinstance(size, int) else size
    if width < 1 or height < 1:
        raise ValueError(f"size must be positive, got {size}")
    return width, height


def _interpolation(kind: int) -> int:
    if kind not in (0, 1):
        raise ValueError(f"interpolation must be 0 (nearest) or 1 (linear), got {kind}")
    return kind


def _check_image(x: Array, name: str) -> None:
    if x.ndim not in (3, 4) or 0 in x.shape:
        raise MXNetError(f"{name}: expected an image, HWC or NHWC, got shape {x.shape}")


def __getattr__(name: str) -> Any:
    raise _absent("mx.gluon.data.vision.transforms", name, "transform", globals())

"""Transforms of images: arrays of height, width and channels (HWC), or batches of them (NHWC)."""

from __future__ import annotations

import random as python_random
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from hybridc import autograd, random
from hybridc.array.ndarray import NDArray, values_of
from hybridc.dtypes import is_float
from hybridc.errors import MXNetError
from hybridc.gluon.block import Block, HybridBlock
from hybridc.ground.absent import absent as _absent
from hybridc.image import colours, resizing

Array = npt.NDArray[Any]


class _Transform(Block):
    """A block without parameters that works on the NumPy array; ``forward`` is its public way in."""

    # COMPAT(mxnet): there most are hybrid blocks; here those that resize, crop or draw random numbers take arrays only.
    def forward(self, *args: Any) -> NDArray:
        """Transform one array."""
        (x,) = args
        # COMPAT(mxnet): NumPy arrays are taken too, as data sets often give them.
        return NDArray(self.apply_to(values_of(x) if isinstance(x, NDArray) else np.asarray(x)))

    def apply_to(self, x: Array) -> Array:
        """The transform of a NumPy array; must not write to it."""
        return x


class _HybridTransform(HybridBlock):
    """A transform that networks may have too: ``in_operators`` gives what can be traced and differentiated."""

    def __call__(self, *args: Any) -> Any:
        """Transform one array."""
        (x,) = args
        return super().__call__(NDArray(cast("Array", x)) if isinstance(x, np.ndarray) else x)

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Transform one array, or a symbol."""
        self.check(x.shape, np.dtype(x.dtype))
        if isinstance(x, NDArray) and not autograd.is_recording():
            return NDArray(self.apply_to(values_of(x)))
        return self.in_operators(F, x)

    def check(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        """Raise for arrays that it cannot transform."""

    def apply_to(self, x: Array) -> Array:
        """The transform of a NumPy array; must not write to it."""
        raise NotImplementedError

    def in_operators(self, F: Any, x: Any) -> Any:
        """The transform of an array or a symbol, by functions of ``F``."""
        raise NotImplementedError


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


class HybridCompose(Compose):
    """As :class:`Compose`; MXNet wants hybrid blocks for it, and compiles them as one."""


class Cast(_HybridTransform):
    """The same values in another dtype."""

    def __init__(self, dtype: npt.DTypeLike = "float32") -> None:
        super().__init__()
        self._dtype = np.dtype(dtype)

    def apply_to(self, x: Array) -> Array:
        return x.astype(self._dtype)

    def in_operators(self, F: Any, x: Any) -> Any:
        return F.cast(x, dtype=str(self._dtype))


class ToTensor(_HybridTransform):
    """HWC of 0 to 255 becomes CHW of float32 in [0, 1); also NHWC to NCHW."""

    def check(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        if len(shape) not in (3, 4):
            raise MXNetError(f"ToTensor: expected HWC or NHWC, got shape {shape}")

    def apply_to(self, x: Array) -> Array:
        return np.ascontiguousarray(np.moveaxis(x, -1, -3), dtype=np.float32) / np.float32(255)

    def in_operators(self, F: Any, x: Any) -> Any:
        order = (2, 0, 1) if len(x.shape) == 3 else (0, 3, 1, 2)
        return F.transpose(F.cast(x, dtype="float32"), axes=order) / 255


class Normalize(_HybridTransform):
    """``(x - mean) / std`` of CHW or NCHW; ``mean`` and ``std`` are numbers, or one for each channel."""

    def __init__(self, mean: Any = 0.0, std: Any = 1.0) -> None:
        super().__init__()
        self._mean = _per_channel(mean)
        self._std = _per_channel(std)

    def check(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        if len(shape) not in (3, 4) or not is_float(dtype):
            raise MXNetError(
                f"Normalize: expected floating point CHW or NCHW, got {dtype} of shape {shape}; "
                f"put ToTensor() before it"
            )
        for values in (self._mean, self._std):
            if len(values) not in (1, shape[-3]):
                raise MXNetError(f"Normalize: {len(values)} numbers do not fit {shape[-3]} channels")

    def in_operators(self, F: Any, x: Any) -> Any:
        mean, std = (NDArray(values.astype(x.dtype)) for values in (self._mean, self._std))
        return F.broadcast_div(F.broadcast_sub(x, mean), std)

    def apply_to(self, x: Array) -> Array:
        return (x - self._mean.astype(x.dtype)) / self._std.astype(x.dtype)


class CenterCrop(_Transform):
    """The middle of an image; ``size`` is a number or (width, height). What is too small is enlarged."""

    def __init__(self, size: int | Sequence[int], interpolation: int = 1) -> None:
        super().__init__()
        self._size = _width_height(size)
        self._interpolation = _interpolation(interpolation)

    def apply_to(self, x: Array) -> Array:
        return _each(x, self, lambda image: resizing.center_part(image, self._size, self._interpolation, _numbers())[0])


class Resize(_Transform):
    """The image in another size, a number or (width, height); ``interpolation`` as in ``mx.image.imresize``.

    A number with ``keep_ratio`` is the size of the shorter side.
    """

    def __init__(self, size: int | Sequence[int], keep_ratio: bool = False, interpolation: int = 1) -> None:
        super().__init__()
        self._size = size
        self._keep_ratio = keep_ratio
        self._interpolation = _interpolation(interpolation)
        _width_height(size)

    def apply_to(self, x: Array) -> Array:
        _check_image(x, "Resize")
        width, height = _width_height(self._size)
        if self._keep_ratio and isinstance(self._size, int):
            rows, columns = x.shape[-3:-1]
            shorter = min(rows, columns)
            width, height = columns * self._size // shorter, rows * self._size // shorter
        return _each(x, self, lambda image: resizing.resized(image, width, height, self._interpolation, _numbers()))


class CropResize(_Transform):
    """The part of the image from column ``x`` and row ``y`` on; in another ``size``, a number or (width, height)."""

    def __init__(
        self,
        x: int,
        y: int,
        width: int,
        height: int,
        size: int | Sequence[int] | None = None,
        interpolation: int | None = None,
    ) -> None:
        super().__init__()
        self._box = (x, y, width, height)
        self._size = _width_height(size) if size else None
        self._interpolation = _interpolation(1 if interpolation is None else interpolation)

    def apply_to(self, x: Array) -> Array:
        _check_image(x, "CropResize")
        left, top, width, height = self._box
        if min(left, top) < 0 or width < 1 or height < 1 or top + height > x.shape[-3] or left + width > x.shape[-2]:
            raise MXNetError(
                f"CropResize: x {left}, y {top}, width {width}, height {height} are no part of an image of height "
                f"{x.shape[-3]} and width {x.shape[-2]}"
            )
        part = x[..., top : top + height, left : left + width, :]
        if self._size is None:
            return part.copy()
        w, h = self._size
        return _each(part, self, lambda image: resizing.resized(image, w, h, self._interpolation, _numbers()))


class RandomCrop(_Transform):
    """A random part of the image in a size, a number or (width, height); what is too small is enlarged.

    ``pad`` is a margin on all sides, or what ``numpy.pad`` takes for HWC, of the colour ``pad_value``; it comes first.
    """

    def __init__(
        self, size: int | Sequence[int], pad: Any = None, pad_value: float = 0, interpolation: int = 1
    ) -> None:
        super().__init__()
        self._size = _width_height(size)
        self._pad: Any = ((pad, pad), (pad, pad), (0, 0)) if isinstance(pad, int) else pad
        self._pad_value = pad_value
        self._interpolation = _interpolation(interpolation)

    def apply_to(self, x: Array) -> Array:
        _check_image(x, "RandomCrop")
        if self._pad:
            margins = [(0, 0)] * (x.ndim - 3) + [tuple(side) for side in self._pad]
            x = np.pad(x, margins, constant_values=self._pad_value)
        rng = _numbers()
        return _each(x, self, lambda image: resizing.random_part(image, self._size, self._interpolation, rng)[0])


class RandomResizedCrop(_Transform):
    """A random part of the image, of ``scale`` of its area and ``ratio`` width to height, in a given size."""

    def __init__(
        self,
        size: int | Sequence[int],
        scale: Any = (0.08, 1.0),
        ratio: tuple[float, float] = (3.0 / 4.0, 4.0 / 3.0),
        interpolation: int = 1,
    ) -> None:
        super().__init__()
        self._args = (_width_height(size), scale, ratio, _interpolation(interpolation))

    def apply_to(self, x: Array) -> Array:
        rng = _numbers()
        return _each(x, self, lambda image: resizing.random_sized_part(image, *self._args, rng)[0])


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


# --- colours ------------------------------------------------------------------------------------------------------


class _RandomColour(_Transform):
    """``change(image, factor)`` with a random factor of a range around 1."""

    change: Callable[[Array, float], Array]

    def __init__(self, amount: float) -> None:
        super().__init__()
        self._args = _around_one(amount)

    def apply_to(self, x: Array) -> Array:
        _check_colours(x, type(self).__name__)
        return type(self).change(x, _numbers().uniform(*self._args))


class RandomBrightness(_RandomColour):
    """All colours times a random number, from ``1 - brightness`` to ``1 + brightness``."""

    change = staticmethod(colours.brightened)

    def __init__(self, brightness: float) -> None:
        super().__init__(brightness)


class RandomContrast(_RandomColour):
    """Differences from the mean brightness times a random number, from ``1 - contrast`` to ``1 + contrast``."""

    change = staticmethod(colours.contrasted)

    def __init__(self, contrast: float) -> None:
        super().__init__(contrast)


class RandomSaturation(_RandomColour):
    """Differences of colours from gray times a random number, from ``1 - saturation`` to ``1 + saturation``."""

    change = staticmethod(colours.saturated)

    def __init__(self, saturation: float) -> None:
        super().__init__(saturation)


class RandomHue(_RandomColour):
    """All hues turned by a random part of a whole turn, from ``-hue`` to ``hue``; colours are from 0 to 255."""

    change = staticmethod(colours.hue_turned)

    def __init__(self, hue: float) -> None:
        super().__init__(hue)


class RandomColorJitter(_Transform):
    """Random brightness, contrast, saturation and hue, in random order; 0 leaves one out."""

    def __init__(self, brightness: float = 0, contrast: float = 0, saturation: float = 0, hue: float = 0) -> None:
        super().__init__()
        amounts = (
            (colours.brightened, brightness),
            (colours.contrasted, contrast),
            (colours.saturated, saturation),
            (colours.hue_turned, hue),
        )
        self._changes = [(change, _around_one(amount)) for change, amount in amounts if amount]

    def apply_to(self, x: Array) -> Array:
        _check_colours(x, "RandomColorJitter")
        rng = _numbers()
        for change, limits in rng.sample(self._changes, len(self._changes)):
            x = change(x, rng.uniform(*limits))
        return x


class RandomLighting(_Transform):
    """AlexNet's noise: along the principal components of colours, of the standard deviation ``alpha``."""

    def __init__(self, alpha: float) -> None:
        super().__init__()
        self._alpha = alpha

    def apply_to(self, x: Array) -> Array:
        _check_colours(x, "RandomLighting")
        return colours.lighted(x, random.generator(random.next_key()).normal(0, self._alpha, 3))


class RandomGray(_Transform):
    """With a chance of ``p``, the image in gray, in as many channels."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self._p = p

    def apply_to(self, x: Array) -> Array:
        _check_colours(x, "RandomGray")
        return colours.grayed(x) if _numbers().random() < self._p else x


# --- rotation, and chance -----------------------------------------------------------------------------------------


class Rotate(_Transform):
    """An image CHW, or a batch NCHW, of float32 turned around its centre, as by ``mx.image.imrotate``."""

    def __init__(self, rotation_degrees: float, zoom_in: bool = False, zoom_out: bool = False) -> None:
        super().__init__()
        self._args = (rotation_degrees, zoom_in, zoom_out)

    def apply_to(self, x: Array) -> Array:
        return values_of(resizing.imrotate(x, *self._args))


class RandomRotation(_Transform):
    """An image CHW, or a batch NCHW, of float32 turned by random angles, with a chance of ``rotate_with_proba``."""

    def __init__(
        self,
        angle_limits: tuple[float, float],
        zoom_in: bool = False,
        zoom_out: bool = False,
        rotate_with_proba: float = 1.0,
    ) -> None:
        super().__init__()
        lower, upper = angle_limits
        if lower >= upper:
            raise ValueError(f"`angle_limits` must be an ordered tuple, got {angle_limits}")
        if not 0 <= rotate_with_proba <= 1:
            raise ValueError(f"Probability of rotating the image should be between 0 and 1, got {rotate_with_proba}")
        self._limits = (lower, upper)
        self._zoom = (zoom_in, zoom_out)
        self._p = rotate_with_proba

    def apply_to(self, x: Array) -> Array:
        rng = _numbers()
        if rng.random() > self._p:
            return x
        angles = [rng.uniform(*self._limits) for _ in range(len(x) if x.ndim == 4 else 1)]
        return values_of(resizing.imrotate(x, np.array(angles) if x.ndim == 4 else angles[0], *self._zoom))


class RandomApply(Block):
    """A transform, or a list of them, with a chance of ``p``; else the image as it is."""

    def __init__(self, transforms: Any, p: float = 0.5) -> None:
        super().__init__()
        self.transforms = Compose(cast("list[Any]", transforms)) if isinstance(transforms, list | tuple) else transforms
        self.p = p

    def forward(self, *args: Any) -> Any:
        """Transform one array, or not."""
        (x,) = args
        return x if self.p < _numbers().random() else self.transforms(x)


class HybridRandomApply(RandomApply):
    """As :class:`RandomApply`; MXNet wants a hybrid block for it."""


def _numbers() -> python_random.Random:
    """Random numbers of ``mx.random``, of which a data loader gives each batch its own."""
    seed, counter = (int(word) for word in random.next_key())
    return python_random.Random(seed << 64 | counter)


def _around_one(amount: float) -> tuple[float, float]:
    if amount < 0:
        raise ValueError(f"the range of a random change must not be negative, got {amount}")
    return max(0, 1 - amount), 1 + amount


def _each(x: Array, transform: _Transform, function: Callable[[Array], Array]) -> Array:
    """A function of each image HWC of a batch, or of the one."""
    _check_image(x, type(transform).__name__)
    return function(x) if x.ndim == 3 else np.stack([function(image) for image in x])


def _per_channel(values: Any) -> Array:
    array = np.atleast_1d(np.asarray(values, dtype=np.float32))
    return array.reshape(-1, 1, 1)


def _width_height(size: int | Sequence[int]) -> tuple[int, int]:
    width, height = (size, size) if isinstance(size, int) else size
    if width < 1 or height < 1:
        raise ValueError(f"size must be positive, got {size}")
    return width, height


def _interpolation(kind: int) -> int:
    resizing.interpolation_method(kind)
    return kind


def _check_image(x: Array, name: str) -> None:
    if x.ndim not in (3, 4) or 0 in x.shape:
        raise MXNetError(f"{name}: expected an image, HWC or NHWC, got shape {x.shape}")


def _check_colours(x: Array, name: str) -> None:
    _check_image(x, name)
    if x.shape[-1] not in (1, 3):
        raise MXNetError(f"{name}: expected 1 or 3 channels in the last axis (before ToTensor), got shape {x.shape}")


def __getattr__(name: str) -> Any:
    raise _absent("mx.gluon.data.vision.transforms", name, "transform", globals())

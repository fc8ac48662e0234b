"""Transforms of images: arrays of height, width and channels (HWC), or batches of them (NHWC)."""

from __future__ import annotations

import random as python_random
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from hybridc import random
from hybridc.array.ndarray import NDArray, constant_values, values_of
from hybridc.array.numpy_array import as_default, in_class_of
from hybridc.errors import AttributeValueError, MXNetError
from hybridc.gluon.block import Block, HybridBlock
from hybridc.gluon.nn import HybridSequential
from hybridc.gluon.nn import Sequential as Sequential
from hybridc.ground.absent import absent as _absent
from hybridc.ground.location import user_depth
from hybridc.image import resizing

Array = npt.NDArray[Any]


class _Transform(Block):
    """A block without parameters that works on the NumPy array; ``forward`` is its public way in."""

    def forward(self, *args: Any) -> NDArray:
        """Transform one array."""
        (x,) = args
        # COMPAT(mxnet): NumPy arrays are taken too, as data sets often give them.
        return in_class_of(x, NDArray(self.apply_to(constant_values(x, type(self).__name__))))

    def apply_to(self, x: Array) -> Array:
        """The transform of ``x``, a NumPy array, to which it must not write."""
        return x


class _HybridTransform(HybridBlock):
    """A transform that is an operator of ``mx.nd.image``: networks may have it too, and export it."""

    def __call__(self, *args: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Transform one array, of NumPy too."""
        (x,) = args
        return super().__call__(as_default(NDArray(cast("Array", x))) if isinstance(x, np.ndarray) else x)


class Compose(Block):
    """Transforms one after the other.

    Parameters
    ----------
    transforms:
        The transformations, in their order.

    Examples
    --------
    >>> transforms = gluon.data.vision.transforms
    >>> both = transforms.Compose([transforms.Resize(4), transforms.ToTensor()])
    >>> both(mx.nd.zeros((8, 6, 3), dtype="uint8")).shape
    (3, 4, 4)
    """

    def __init__(self, transforms: Iterable[Callable[[Any], Any]]) -> None:
        super().__init__()
        # COMPAT(mxnet): plain functions are taken too. MXNet compiles hybrid transforms that follow each other; here
        # hybridize() does, or HybridCompose, since images of a data set may differ in size.
        self._transforms = tuple(transforms)
        for transform in self._transforms:
            if isinstance(transform, Block):
                self.register_child(transform)

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

    def __repr__(self) -> str:
        return self._repr({str(i): transform for i, transform in enumerate(self._transforms)})


class HybridCompose(HybridSequential):
    """Hybrid transforms one after the other, compiled as one.

    Parameters
    ----------
    transforms:
        The transformations, in their order.
    """

    def __init__(self, transforms: Iterable[HybridBlock]) -> None:
        super().__init__()
        self.add(*transforms)
        self.hybridize()

    def __call__(self, *args: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Transform one array, of NumPy too."""
        (x,) = args
        return super().__call__(as_default(NDArray(cast("Array", x))) if isinstance(x, np.ndarray) else x)


class Cast(_HybridTransform):
    """The same values in another dtype.

    Parameters
    ----------
    dtype:
        The dtype of the result.
    """

    def __init__(self, dtype: npt.DTypeLike = "float32") -> None:
        super().__init__()
        self._dtype = np.dtype(dtype)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The array in the dtype."""
        return F.cast(x, dtype=str(self._dtype))


class ToTensor(_HybridTransform):
    """HWC of 0 to 255 becomes CHW of float32 in [0, 1); also NHWC to NCHW.

    Examples
    --------
    >>> transforms = gluon.data.vision.transforms
    >>> image = mx.nd.full((4, 6, 3), 255, dtype="uint8")
    >>> y = transforms.ToTensor()(image)
    >>> y.shape, y[0, 0, 0].asscalar().item()
    ((3, 4, 6), 1.0)
    """

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The tensor."""
        shape = getattr(x, "shape", ())
        if len(shape) > 2 and shape[-3] in (1, 3) and shape[-1] not in (1, 3, 4):
            warnings.warn(
                f"ToTensor takes images whose channels are last, (H, W, C); of {tuple(shape)} it makes "
                f"{(*shape[:-3], shape[-1], *shape[-3:-1])}. Leave it out for images (C, H, W), or transpose them",
                stacklevel=user_depth(),
            )
        return F.image.to_tensor(x)


class Normalize(_HybridTransform):
    """``(x - mean) / std`` of CHW or NCHW; ``mean`` and ``std`` are numbers, or one for each channel.

    Examples
    --------
    >>> transforms = gluon.data.vision.transforms
    >>> x = mx.nd.ones((3, 2, 2))
    >>> transforms.Normalize(mean=0.5, std=0.25)(x)[0].tolist()
    [[2.0, 2.0], [2.0, 2.0]]
    """

    def __init__(self, mean: Any = 0.0, std: Any = 1.0) -> None:
        super().__init__()
        self._mean, self._std = (_numbers_of(values) for values in (mean, std))

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The normalized array."""
        return F.image.normalize(x, mean=self._mean, std=self._std)


class Resize(_HybridTransform):
    """The image in another size, a number or (width, height); ``interpolation`` as in ``mx.nd.image.resize``.

    A number with ``keep_ratio`` is the size of the shorter side.

    Parameters
    ----------
    size:
        The size of the result, a number or (width, height).
    """

    def __init__(self, size: int | Sequence[int], keep_ratio: bool = False, interpolation: int = 1) -> None:
        super().__init__()
        self._size = size if isinstance(size, int) else tuple(size)
        self._keep_ratio = keep_ratio
        self._interpolation = _method(interpolation)
        _width_height(size)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The image in the new size."""
        return F.image.resize(x, size=self._size, keep_ratio=self._keep_ratio, interp=self._interpolation)


class CropResize(_HybridTransform):
    """The part of the image from column ``x`` and row ``y`` on; in another ``size``, a number or (width, height).

    Parameters
    ----------
    x:
        The left edge.
    y:
        The upper edge.
    width:
        The width.
    height:
        The height.
    size:
        The size of the result, a number or (width, height).
    interpolation:
        How pixels are interpolated: 0 nearest, 1 bilinear, 2 area, 3 cubic, 4 Lanczos.
    """

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
        self._interpolation = _method(1 if interpolation is None else interpolation)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The part."""
        left, top, width, height = self._box
        part = F.image.crop(x, x=left, y=top, width=width, height=height)
        return part if self._size is None else F.image.resize(part, size=self._size, interp=self._interpolation)


class CenterCrop(_Transform):
    """The middle of an image; ``size`` is a number or (width, height). What is too small is enlarged.

    Parameters
    ----------
    size:
        The size of the result, a number or (width, height).
    interpolation:
        How pixels are interpolated: 0 nearest, 1 bilinear, 2 area, 3 cubic, 4 Lanczos.

    Examples
    --------
    >>> transforms = gluon.data.vision.transforms
    >>> transforms.CenterCrop((2, 1))(mx.nd.zeros((8, 6, 3))).shape
    (1, 2, 3)
    """

    def __init__(self, size: int | Sequence[int], interpolation: int = 1) -> None:
        super().__init__()
        self._size = _width_height(size)
        self._interpolation = _interpolation(interpolation)

    def apply_to(self, x: Array) -> Array:
        return _each(x, self, lambda image: resizing.center_part(image, self._size, self._interpolation, _numbers())[0])


class RandomCrop(_Transform):
    """A random part of the image in a size, a number or (width, height); what is too small is enlarged.

    ``pad`` is a margin on all sides, or what ``numpy.pad`` takes for HWC, of the colour ``pad_value``; it comes first.

    Parameters
    ----------
    size:
        The size of the result, a number or (width, height).
    interpolation:
        How pixels are interpolated: 0 nearest, 1 bilinear, 2 area, 3 cubic, 4 Lanczos.
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
    """A random part of the image, of ``scale`` of its area and ``ratio`` width to height, in a given size.

    Parameters
    ----------
    size:
        The size of the result, a number or (width, height).
    interpolation:
        How pixels are interpolated: 0 nearest, 1 bilinear, 2 area, 3 cubic, 4 Lanczos.
    """

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


class RandomFlipLeftRight(_HybridTransform):
    """With a chance of one half, the image's mirror image."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The image, flipped or not."""
        return F.image.random_flip_left_right(x)


class RandomFlipTopBottom(_HybridTransform):
    """With a chance of one half, the image upside down."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The image, flipped or not."""
        return F.image.random_flip_top_bottom(x)


# --- colours ------------------------------------------------------------------------------------------------------


class _RandomColour(_HybridTransform):
    """A change by a random factor of a range around 1."""

    operator = ""  # of ``mx.nd.image``

    def __init__(self, amount: float) -> None:
        super().__init__()
        self._args = _around_one(amount)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The changed image."""
        return getattr(F.image, self.operator)(x, *self._args)


class RandomBrightness(_RandomColour):
    """All colours times a random number, from ``1 - brightness`` to ``1 + brightness``."""

    operator = "random_brightness"

    def __init__(self, brightness: float) -> None:
        super().__init__(brightness)


class RandomContrast(_RandomColour):
    """Differences from the mean brightness times a random number, from ``1 - contrast`` to ``1 + contrast``."""

    operator = "random_contrast"

    def __init__(self, contrast: float) -> None:
        super().__init__(contrast)


class RandomSaturation(_RandomColour):
    """Differences of colours from gray times a random number, from ``1 - saturation`` to ``1 + saturation``."""

    operator = "random_saturation"

    def __init__(self, saturation: float) -> None:
        super().__init__(saturation)


class RandomHue(_RandomColour):
    """All hues turned by a random part of a whole turn, from ``-hue`` to ``hue``; colours are from 0 to 255."""

    operator = "random_hue"

    def __init__(self, hue: float) -> None:
        super().__init__(hue)


class RandomColorJitter(_HybridTransform):
    """Random brightness, contrast, saturation and hue, in random order; 0 leaves one out.

    Parameters
    ----------
    brightness:
        The most by which the brightness changes, as a share.
    contrast:
        Likewise of the contrast.
    saturation:
        Likewise of the saturation.
    hue:
        Likewise of the hue.
    """

    def __init__(self, brightness: float = 0, contrast: float = 0, saturation: float = 0, hue: float = 0) -> None:
        super().__init__()
        self._args = (brightness, contrast, saturation, hue)
        for amount in self._args:
            _around_one(amount)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The changed image."""
        return F.image.random_color_jitter(x, *self._args)


class RandomLighting(_HybridTransform):
    """AlexNet's noise: along the principal components of colours, of the standard deviation ``alpha``."""

    def __init__(self, alpha: float) -> None:
        super().__init__()
        self._alpha = alpha

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The image with noise."""
        return F.image.random_lighting(x, self._alpha)


class RandomGray(_HybridTransform):
    """With a chance of ``p``, the image in gray, in as many channels."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self._p = p

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The image, gray or not: the same as with a saturation of 0."""
        gray = F.image.random_saturation(x, 0, 0)
        return F.where(F.broadcast_like(F.random.uniform(shape=(1,)) < self._p, x), gray, x)


# --- rotation, and chance -----------------------------------------------------------------------------------------


class Rotate(_Transform):
    """An image CHW, or a batch NCHW, of float32 turned around its centre, as by ``mx.image.imrotate``.

    Parameters
    ----------
    rotation_degrees:
        The degrees.
    zoom_in:
        Whether the image is enlarged until no empty corner is seen.
    zoom_out:
        Whether it is made smaller until all of it is seen.
    """

    def __init__(self, rotation_degrees: float, zoom_in: bool = False, zoom_out: bool = False) -> None:
        super().__init__()
        self._args = (rotation_degrees, zoom_in, zoom_out)

    def apply_to(self, x: Array) -> Array:
        return values_of(resizing.imrotate(x, *self._args))


class RandomRotation(_Transform):
    """An image CHW, or a batch NCHW, of float32 turned by random angles, with a chance of ``rotate_with_proba``.

    Parameters
    ----------
    angle_limits:
        The least and the most degrees.
    zoom_in:
        Whether the image is enlarged until no empty corner is seen.
    zoom_out:
        Whether it is made smaller until all of it is seen.
    """

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
    """A transform, or a list of them, with a chance of ``p``; else the image as it is.

    Parameters
    ----------
    transforms:
        The transformation.
    p:
        Its probability.
    """

    def __init__(self, transforms: Any, p: float = 0.5) -> None:
        super().__init__()
        self.transforms = Compose(cast("list[Any]", transforms)) if isinstance(transforms, list | tuple) else transforms
        self.p = p

    def forward(self, *args: Any) -> Any:
        """Transform one array, or not."""
        (x,) = args
        return x if self.p < _numbers().random() else self.transforms(x)


class HybridRandomApply(_HybridTransform):
    """As :class:`RandomApply`, of hybrid transforms that keep the shape and the dtype, as a hybrid block.

    Parameters
    ----------
    transforms:
        The transformation.
    p:
        Its probability.
    """

    def __init__(self, transforms: Any, p: float = 0.5) -> None:
        super().__init__()
        self.transforms = (
            HybridCompose(cast("list[Any]", transforms)) if isinstance(transforms, list | tuple) else transforms
        )
        self.p = p

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The array, transformed or not."""
        drawn = F.broadcast_like(F.random.uniform(shape=(1,)) < self.p, x)
        return F.where(drawn, self.transforms(x), x)


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


def _numbers_of(values: Any) -> tuple[float, ...]:
    """A number, or one for each channel."""
    array: Array = np.ravel(np.asarray(values, np.float64))
    return tuple(array.tolist())


def _width_height(size: int | Sequence[int]) -> tuple[int, int]:
    given: Any = size
    sizes: Any = (given, given) if isinstance(given, int | np.integer) else tuple(given)
    if len(sizes) != 2 or not all(isinstance(n, int | np.integer) for n in sizes):
        raise AttributeValueError(f"size must be an integer, or two of them, got {size!r}")
    width, height = sizes
    if width < 1 or height < 1:
        raise ValueError(f"size must be positive, got {size}")
    return width, height


def _method(kind: int) -> int:
    if kind not in range(5):
        raise ValueError(
            f"interpolation must be 0 (nearest), 1 (bilinear), 2 (bicubic), 3 (area) or 4 (Lanczos), got {kind!r}"
        )
    return kind


def _interpolation(kind: int) -> int:
    resizing.interpolation_method(kind)
    return kind


def _check_image(x: Array, name: str) -> None:
    if x.ndim not in (3, 4) or 0 in x.shape:
        raise MXNetError(f"{name}: expected an image, HWC or NHWC, got shape {x.shape}")


if not TYPE_CHECKING:  # what there is not is an error of the type checker

    def __getattr__(name: str) -> Any:
        raise _absent("mx.gluon.data.vision.transforms", name, "transform", globals())

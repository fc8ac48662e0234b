"""Augmenters of images, which ``ImageIter`` calls one after the other: classes of ``mx.image``.

They take and give an image HWC; those that compute with colours give floats. Random numbers are those of Python's
``random`` and ``numpy.random``, in MXNet's order.
"""

from __future__ import annotations

import json
import random
import warnings
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from hybridc.array.ndarray import NDArray, constant_values
from hybridc.array.numpy_array import in_class_of
from hybridc.dialects.vision.image_random import EIGENVALUES, EIGENVECTORS, LIGHTNESS
from hybridc.errors import CheckError
from hybridc.image.reading import pixels
from hybridc.image.resizing import (
    center_crop,
    color_normalize,
    floats,
    imresize,
    random_crop,
    random_size_crop,
    resize_short,
)

Array = npt.NDArray[Any]

# Shares of red, green and blue in the brightness of a colour.
BRIGHTNESS = np.array(LIGHTNESS, np.float32)
# From RGB to YIQ, the colours of television in America, and back: there the hue is an angle.
_TO_YIQ = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.321], [0.211, -0.523, 0.311]])
_FROM_YIQ = np.array([[1.0, 0.956, 0.621], [1.0, -0.272, -0.647], [1.0, -1.107, 1.705]])
_GRAY = np.array([[0.21] * 3, [0.72] * 3, [0.07] * 3], np.float32)  # gray of colours, in all channels
# Of ImageNet: mean and standard deviation of the channels.
IMAGENET_MEAN, IMAGENET_STD = np.array([123.68, 116.28, 103.53]), np.array([58.395, 57.12, 57.375])


class Augmenter:
    """A function of images with its arguments, which ``dumps`` writes down."""

    def __init__(self, **kwargs: Any) -> None:
        self._kwargs = {name: _plain(value) for name, value in kwargs.items()}

    def dumps(self) -> Any:
        """The augmenter as JSON: a list of its name and its arguments.

        Examples
        --------
        >>> mx.image.ResizeAug(256).dumps()
        '["resizeaug", {"size": 256, "interp": 2}]'
        """
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    def __call__(self, src: Any) -> Any:
        """The image augmented.

        Parameters
        ----------
        src:
            An image HWC: an NDArray, or an array of NumPy.
        """
        raise NotImplementedError("Must override implementation.")


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | NDArray) else value


class SequentialAug(Augmenter):
    """Augmenters one after the other.

    Parameters
    ----------
    ts:
        The augmenters, in their order.
    """

    def __init__(self, ts: Sequence[Augmenter]) -> None:
        super().__init__()
        self.ts = ts

    def dumps(self) -> Any:
        """A list of its name and what its augmenters give."""
        return [type(self).__name__.lower(), [t.dumps() for t in self.ts]]

    def __call__(self, src: Any) -> Any:
        """The image augmented."""
        for t in self.ts:
            src = t(src)
        return src


class RandomOrderAug(SequentialAug):
    """Augmenters one after the other, each time in another order.

    Parameters
    ----------
    ts:
        The augmenters; each call shuffles them anew.
    """

    def __init__(self, ts: Sequence[Augmenter]) -> None:
        super().__init__(list(ts))

    def __call__(self, src: Any) -> Any:
        """The image augmented."""
        random.shuffle(cast("list[Any]", self.ts))
        return super().__call__(src)


class ResizeAug(Augmenter):
    """The image with a shorter side of ``size``.

    Parameters
    ----------
    size:
        The length of the shorter side, in pixels.
    interp:
        The interpolation; see ``mx.image.imresize``.
    """

    def __init__(self, size: int, interp: int = 2) -> None:
        super().__init__(size=size, interp=interp)
        self.size = size
        self.interp = interp

    def __call__(self, src: Any) -> NDArray:
        """The image augmented."""
        return resize_short(src, self.size, self.interp)


class SizedAug(Augmenter):
    """An augmenter whose images have one ``size``, (width, height).

    Parameters
    ----------
    size:
        The width and height of the result, in pixels.
    interp:
        The interpolation; see ``mx.image.imresize``.
    """

    def __init__(self, size: tuple[int, int], interp: int = 2) -> None:
        super().__init__(size=size, interp=interp)
        self.size = size
        self.interp = interp


class ForceResizeAug(SizedAug):
    """The image in a ``size`` (width, height), whatever its shape."""

    def __call__(self, src: Any) -> NDArray:
        """The image augmented."""
        return imresize(src, *self.size, interp=self.interp)


class RandomCropAug(SizedAug):
    """A random part of the image in a ``size`` (width, height)."""

    def __call__(self, src: Any) -> NDArray:
        """The image augmented."""
        return random_crop(src, self.size, self.interp)[0]


class RandomSizedCropAug(Augmenter):
    """A part of the image of random size and shape, in a ``size``; see ``mx.image.random_size_crop``.

    Parameters
    ----------
    size:
        The width and height of the result, in pixels.
    area:
        The range of the part's share of the image's area, or the least share.
    ratio:
        The range of the part's ratio of width to height.
    interp:
        The interpolation; see ``mx.image.imresize``.
    """

    def __init__(
        self, size: tuple[int, int], area: Any, ratio: tuple[float, float], interp: int = 2, **kwargs: Any
    ) -> None:
        super().__init__(size=size, area=area, ratio=ratio, interp=interp)
        if "min_area" in kwargs:
            warnings.warn("`min_area` is deprecated. Please use `area` instead.", DeprecationWarning, stacklevel=2)
            area = kwargs.pop("min_area")
        if kwargs:
            raise CheckError(f"RandomSizedCropAug: unexpected keyword arguments {', '.join(kwargs)}")
        self.size = size
        self.area = area
        self.ratio = ratio
        self.interp = interp

    def __call__(self, src: Any) -> NDArray:
        """The image augmented."""
        return random_size_crop(src, self.size, self.area, self.ratio, self.interp)[0]


class CenterCropAug(SizedAug):
    """The middle of the image in a ``size`` (width, height)."""

    def __call__(self, src: Any) -> NDArray:
        """The image augmented."""
        return center_crop(src, self.size, self.interp)[0]


class BrightnessJitterAug(Augmenter):
    """The image times a random number around 1.

    Parameters
    ----------
    brightness:
        The factor is drawn between ``1 - brightness`` and ``1 + brightness``.
    """

    def __init__(self, brightness: float) -> None:
        super().__init__(brightness=brightness)
        self.brightness = brightness

    def __call__(self, src: Any) -> NDArray:
        """The image augmented."""
        image = floats(src, type(self).__name__)
        return in_class_of(src, NDArray(image * (1.0 + random.uniform(-self.brightness, self.brightness))))


class ContrastJitterAug(Augmenter):
    """The image blended with its mean brightness, by a random share.

    Parameters
    ----------
    contrast:
        The image's share is drawn between ``1 - contrast`` and ``1 + contrast``, the mean's is what is left to 1.
    """

    def __init__(self, contrast: float) -> None:
        super().__init__(contrast=contrast)
        self.contrast = contrast

    def __call__(self, src: Any) -> NDArray:
        """The image augmented."""
        image = floats(src, type(self).__name__)
        alpha = 1.0 + random.uniform(-self.contrast, self.contrast)
        mean = _brightness(image).mean(dtype=np.float32).astype(image.dtype)
        return in_class_of(src, NDArray(_blend(image, mean, alpha)))


class SaturationJitterAug(Augmenter):
    """The image blended with its gray, by a random share.

    Parameters
    ----------
    saturation:
        The image's share is drawn between ``1 - saturation`` and ``1 + saturation``, gray's is what is left to 1.
    """

    def __init__(self, saturation: float) -> None:
        super().__init__(saturation=saturation)
        self.saturation = saturation

    def __call__(self, src: Any) -> NDArray:
        """The image augmented."""
        image = floats(src, type(self).__name__)
        alpha = 1.0 + random.uniform(-self.saturation, self.saturation)
        return in_class_of(src, NDArray(_blend(image, _brightness(image), alpha)))


def _brightness(image: Array) -> Array:
    return (image * BRIGHTNESS.astype(image.dtype)).sum(2, keepdims=True)


def _blend(image: Array, other: Array, alpha: float) -> Array:
    return image * alpha + other * (1.0 - alpha)


class HueJitterAug(Augmenter):
    """The image with its hues turned by a random angle of at most ``hue`` half turns.

    Parameters
    ----------
    hue:
        The largest angle, in half turns: 1 draws from all hues, 0 changes nothing.
    """

    def __init__(self, hue: float) -> None:
        super().__init__(hue=hue)
        self.hue = hue

    def __call__(self, src: Any) -> NDArray:
        """The image augmented."""
        angle = random.uniform(-self.hue, self.hue) * np.pi
        cos, sin = np.cos(angle), np.sin(angle)
        turn = np.array([[1.0, 0.0, 0.0], [0.0, cos, -sin], [0.0, sin, cos]])
        image = floats(src, type(self).__name__)
        return in_class_of(src, NDArray(image @ (_FROM_YIQ @ turn @ _TO_YIQ).T.astype(image.dtype)))


class ColorJitterAug(RandomOrderAug):
    """Random brightness, contrast and saturation, in random order; 0 leaves one out.

    Parameters
    ----------
    brightness:
        As for :class:`BrightnessJitterAug`.
    contrast:
        As for :class:`ContrastJitterAug`.
    saturation:
        As for :class:`SaturationJitterAug`.
    """

    def __init__(self, brightness: float, contrast: float, saturation: float) -> None:
        kinds = (BrightnessJitterAug, brightness), (ContrastJitterAug, contrast), (SaturationJitterAug, saturation)
        super().__init__([kind(amount) for kind, amount in kinds if amount > 0])


class LightingAug(Augmenter):
    """The image with random noise along the principal components of colours, as in AlexNet.

    Parameters
    ----------
    alphastd:
        The standard deviation of the three random factors, one of each component.
    eigval:
        The three eigenvalues of the covariance of colours, of shape (3,).
    eigvec:
        Their eigenvectors, as columns of an array (3, 3).
    """

    def __init__(self, alphastd: float, eigval: Any, eigvec: Any) -> None:
        super().__init__(alphastd=alphastd, eigval=eigval, eigvec=eigvec)
        self.alphastd = alphastd
        self.eigval = eigval
        self.eigvec = eigvec

    def __call__(self, src: Any) -> NDArray:
        """The image augmented."""
        image = floats(src, type(self).__name__)
        alpha = np.random.normal(0, self.alphastd, size=(3,))
        colour = np.dot(np.asarray(self.eigvec) * alpha, np.asarray(self.eigval))
        return in_class_of(src, NDArray(image + colour.astype(image.dtype)))


class ColorNormalizeAug(Augmenter):
    """``(image - mean) / std``.

    Parameters
    ----------
    mean:
        What is subtracted: a number for each channel, or None for nothing.
    std:
        What is divided by: a number for each channel, or None for nothing.
    """

    def __init__(self, mean: Any, std: Any) -> None:
        super().__init__(mean=mean, std=std)
        self.mean = mean if mean is None or isinstance(mean, NDArray) else NDArray(np.asarray(mean, np.float32))
        self.std = std if std is None or isinstance(std, NDArray) else NDArray(np.asarray(std, np.float32))

    def __call__(self, src: Any) -> NDArray:
        """The image augmented."""
        return color_normalize(src, self.mean, self.std)


class RandomGrayAug(Augmenter):
    """The image in gray, with a chance of ``p``.

    Parameters
    ----------
    p:
        The chance, 0 to 1.
    """

    def __init__(self, p: float) -> None:
        super().__init__(p=p)
        self.p = p

    def __call__(self, src: Any) -> Any:
        """The image augmented."""
        if random.random() >= self.p:
            return src
        image = floats(src, type(self).__name__)
        return in_class_of(src, NDArray(image @ _GRAY.astype(image.dtype)))


class HorizontalFlipAug(Augmenter):
    """The image's mirror image, with a chance of ``p``.

    Parameters
    ----------
    p:
        The chance, 0 to 1.

    Examples
    --------
    >>> image = mx.nd.arange(24, dtype="float32").reshape((2, 4, 3))
    >>> mx.image.HorizontalFlipAug(1.0)(image)[0, :, 0].tolist()
    [9.0, 6.0, 3.0, 0.0]
    """

    def __init__(self, p: float) -> None:
        super().__init__(p=p)
        self.p = p

    def __call__(self, src: Any) -> Any:
        """The image augmented."""
        if random.random() >= self.p:
            return src
        return in_class_of(src, NDArray(np.ascontiguousarray(pixels(src, "HorizontalFlipAug")[:, ::-1])))


class CastAug(Augmenter):
    """The image in another dtype.

    Parameters
    ----------
    typ:
        The name of the dtype; values are cast as NumPy casts them.

    Examples
    --------
    >>> image = mx.nd.arange(24, dtype="float32").reshape((2, 4, 3))
    >>> mx.image.CastAug("float16")(image).dtype
    <class 'numpy.float16'>
    """

    def __init__(self, typ: str = "float32") -> None:
        super().__init__(type=typ)
        self.typ = typ

    def __call__(self, src: Any) -> NDArray:
        """The image augmented."""
        return in_class_of(src, NDArray(constant_values(src, type(self).__name__).astype(self.typ)))


def CreateAugmenter(
    data_shape: Sequence[int],
    resize: int = 0,
    rand_crop: bool = False,
    rand_resize: bool = False,
    rand_mirror: bool = False,
    mean: Any = None,
    std: Any = None,
    brightness: float = 0,
    contrast: float = 0,
    saturation: float = 0,
    hue: float = 0,
    pca_noise: float = 0,
    rand_gray: float = 0,
    inter_method: int = 2,
) -> list[Any]:
    """The augmenters that ``ImageIter`` uses; their results have ``data_shape`` but as HWC, and are float32.

    Parameters
    ----------
    data_shape:
        (channels, height, width) of the result.
    resize:
        The shorter side, at first; 0 leaves it.
    rand_crop, rand_resize:
        A random part instead of the middle; also of random size and shape.
    rand_mirror:
        Whether half of the images, at random, are mirrored left to right.
    mean, std:
        What is subtracted, and divided by, at the end: one number for each channel, or True for ImageNet's.
    brightness, contrast, saturation:
        As for :class:`ColorJitterAug`; 0 leaves one out.
    hue:
        As for :class:`HueJitterAug`; 0 leaves it out.
    pca_noise:
        ``alphastd`` of :class:`LightingAug`, with ImageNet's components; 0 leaves it out.
    rand_gray:
        The chance that an image becomes gray; 0 leaves it out.
    inter_method:
        See ``mx.image.imresize``.

    Examples
    --------
    >>> augmenters = mx.image.CreateAugmenter((3, 224, 224), resize=256, rand_mirror=True, mean=True, std=True)
    >>> [type(each).__name__ for each in augmenters]
    ['ResizeAug', 'CenterCropAug', 'HorizontalFlipAug', 'CastAug', 'ColorNormalizeAug']
    """
    made: list[Any] = [ResizeAug(resize, inter_method)] if resize > 0 else []
    size = (data_shape[2], data_shape[1])
    if rand_resize:
        if not rand_crop:
            raise CheckError("CreateAugmenter: rand_resize=True needs rand_crop=True")
        made.append(RandomSizedCropAug(size, 0.08, (3.0 / 4.0, 4.0 / 3.0), inter_method))
    else:
        made.append((RandomCropAug if rand_crop else CenterCropAug)(size, inter_method))
    if rand_mirror:
        made.append(HorizontalFlipAug(0.5))
    made.append(CastAug())
    mean, std = _float32(mean, IMAGENET_MEAN), _float32(std, IMAGENET_STD)
    return made + colour_augmenters(mean, std, brightness, contrast, saturation, hue, pca_noise, rand_gray)


def colour_augmenters(
    mean: Any, std: Any, brightness: float, contrast: float, saturation: float, hue: float, noise: float, gray: float
) -> list[Any]:
    """The augmenters of colours, for all tasks alike."""
    made: list[Any] = []
    if brightness or contrast or saturation:
        made.append(ColorJitterAug(brightness, contrast, saturation))
    if hue:
        made.append(HueJitterAug(hue))
    if noise > 0:
        made.append(LightingAug(noise, EIGENVALUES, EIGENVECTORS))
    if gray > 0:
        made.append(RandomGrayAug(gray))
    mean, std = _channels("mean", mean, IMAGENET_MEAN), _channels("std", std, IMAGENET_STD)
    if mean is not None or std is not None:
        made.append(ColorNormalizeAug(mean, std))
    return made


def _float32(given: Any, default: Array) -> Any:
    """ImageNet's figures for True, in the dtype in which MXNet's JSON has them here."""
    return default.astype(np.float32) if given is True else given


def _channels(name: str, given: Any, default: Array) -> Any:
    if given is True:
        return default
    if given is not None and (np.ndim(given) != 1 or len(given) not in (1, 3)):
        raise CheckError(f"{name} must be True, or an array of 1 or 3 numbers, got {given!r}")
    return given

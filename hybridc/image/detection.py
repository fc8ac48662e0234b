"""Augmenters of images with boxes, and batches of them: ``mx.image.detection``.

The boxes of an image are rows of an array: class, left, top, right and bottom, as shares of the image's width and
height. Random numbers are those of Python's ``random``, in MXNet's order.
"""

from __future__ import annotations

import importlib
import json
import logging
import math
import random
import warnings
from collections.abc import Generator, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from hybridc.array.ndarray import NDArray, values_of
from hybridc.array.numpy_array import in_class_of
from hybridc.errors import CheckError, MXNetError
from hybridc.image.augmenters import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    Augmenter,
    CastAug,
    ForceResizeAug,
    ResizeAug,
    colour_augmenters,
)
from hybridc.image.image_iter import ImageIter
from hybridc.image.reading import pixels
from hybridc.image.resizing import copyMakeBorder, fixed_crop
from hybridc.io.data_iter import DataDesc

Array = npt.NDArray[Any]

_LEAST_PIXELS = 2  # of a crop and of a box that counts, as in MXNet
_LEFT, _TOP, _RIGHT, _BOTTOM = 1, 2, 3, 4  # columns of a row
_NO_BOX = -1.0  # fills up the labels of an image


class DetAugmenter:
    """A function of an image and its boxes, with arguments that ``dumps`` writes down."""

    def __init__(self, **kwargs: Any) -> None:
        self._kwargs = {k: v.tolist() if isinstance(v, np.ndarray | NDArray) else v for k, v in kwargs.items()}

    def dumps(self) -> Any:
        """The augmenter as JSON: a list of its name and its arguments."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    def __call__(self, src: Any, label: Any) -> tuple[Any, Any]:
        """Image and boxes augmented.

        Parameters
        ----------
        src:
            An image HWC.
        label:
            The boxes: rows of class, left, top, right and bottom, of which the last four are shares of the image's
            width and height.
        """
        raise NotImplementedError("Must override implementation.")


class DetBorrowAug(DetAugmenter):
    """An augmenter of images that leaves the boxes as they are.

    Parameters
    ----------
    augmenter:
        An :class:`Augmenter` that moves no pixels, such as one of colours.
    """

    def __init__(self, augmenter: Augmenter) -> None:
        if not isinstance(augmenter, Augmenter):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"DetBorrowAug: expected an Augmenter, got {type(augmenter).__name__}")
        super().__init__(augmenter=augmenter.dumps())
        self.augmenter = augmenter

    def dumps(self) -> Any:
        """A list of its name and what the augmenter gives."""
        return [type(self).__name__.lower(), self.augmenter.dumps()]

    def __call__(self, src: Any, label: Any) -> tuple[Any, Any]:
        """Image and boxes augmented."""
        return self.augmenter(src), label


class DetRandomSelectAug(DetAugmenter):
    """One of several augmenters at random, or with a chance of ``skip_prob`` none.

    Parameters
    ----------
    aug_list:
        A :class:`DetAugmenter`, or a list of several.
    skip_prob:
        The chance, 0 to 1, that none is called.
    """

    def __init__(self, aug_list: Any, skip_prob: float = 0) -> None:
        super().__init__(skip_prob=skip_prob)
        self.aug_list = list(cast("list[Any]", aug_list)) if isinstance(aug_list, list | tuple) else [aug_list]
        for each in self.aug_list:
            if not isinstance(each, DetAugmenter):
                raise ValueError(f"DetRandomSelectAug: expected DetAugmenters, got {type(each).__name__}")
        self.skip_prob = skip_prob if self.aug_list else 1

    def dumps(self) -> Any:
        """A list of its name and what its augmenters give."""
        return [type(self).__name__.lower(), [x.dumps() for x in self.aug_list]]

    def __call__(self, src: Any, label: Any) -> tuple[Any, Any]:
        """Image and boxes augmented."""
        if random.random() < self.skip_prob:
            return src, label
        random.shuffle(self.aug_list)
        return self.aug_list[0](src, label)


class DetHorizontalFlipAug(DetAugmenter):
    """Image and boxes mirrored, with a chance of ``p``.

    Parameters
    ----------
    p:
        The chance, 0 to 1.

    Examples
    --------
    >>> boxes = np.array([[0, 0.25, 0.5, 0.5, 1.0]])
    >>> image, flipped = mx.image.DetHorizontalFlipAug(1.0)(mx.nd.zeros((4, 4, 3)), boxes)
    >>> flipped.tolist()
    [[0.0, 0.5, 0.5, 0.75, 1.0]]
    """

    def __init__(self, p: float) -> None:
        super().__init__(p=p)
        self.p = p

    def __call__(self, src: Any, label: Any) -> tuple[Any, Any]:
        """Image and boxes augmented."""
        if random.random() >= self.p:
            return src, label
        flipped = np.array(label)
        flipped[:, [_LEFT, _RIGHT]] = 1.0 - flipped[:, [_RIGHT, _LEFT]]
        mirrored = np.ascontiguousarray(pixels(src, "DetHorizontalFlipAug")[:, ::-1])
        return in_class_of(src, NDArray(mirrored)), flipped


def _pair(value: Any) -> tuple[float, float]:
    """A range; of a number, only that."""
    low, high = cast("list[float]", value) if isinstance(value, list | tuple) else (value, value)
    return low, high


class DetRandomCropAug(DetAugmenter):
    """A random part of the image that covers enough of its objects.

    Parameters
    ----------
    min_object_covered:
        The share of each object that must be inside, of those that are not outside altogether.
    aspect_ratio_range, area_range:
        Of width to height, and of its area to the image's.
    min_eject_coverage:
        Objects of which no larger share is inside are left out.
    max_attempts:
        Of finding one; after them the image stays as it is.
    """

    def __init__(
        self,
        min_object_covered: float = 0.1,
        aspect_ratio_range: Any = (0.75, 1.33),
        area_range: Any = (0.05, 1.0),
        min_eject_coverage: float = 0.3,
        max_attempts: int = 50,
    ) -> None:
        self.aspect_ratio_range = _pair(aspect_ratio_range)
        self.area_range = _pair(area_range)
        super().__init__(
            min_object_covered=min_object_covered,
            aspect_ratio_range=self.aspect_ratio_range,
            area_range=self.area_range,
            min_eject_coverage=min_eject_coverage,
            max_attempts=max_attempts,
        )
        self.min_object_covered = min_object_covered
        self.min_eject_coverage = min_eject_coverage
        self.max_attempts = max_attempts
        self.enabled = _usable("DetRandomCropAug", self.aspect_ratio_range, self.area_range, 0)

    def __call__(self, src: Any, label: Any) -> tuple[Any, Any]:
        """Image and boxes augmented."""
        height, width = src.shape[:2]
        for _ in range(self.max_attempts if self.enabled else 0):
            found = self._proposal(np.asarray(label), height, width)
            if found is not None:
                x, y, w, h, boxes = found
                return fixed_crop(src, x, y, w, h, None), boxes
        return src, label

    def _proposal(self, label: Array, height: int, width: int) -> tuple[int, int, int, int, Array] | None:
        """A random part, and the boxes in it; None if it is none that will do."""
        low, high = self.area_range[0] * height * width, self.area_range[1] * height * width
        ratio = random.uniform(*self.aspect_ratio_range)
        h, most = round(math.sqrt(low / ratio)), round(math.sqrt(high / ratio))
        if round(most * ratio) > width:
            most = int((width + 0.4999999) / ratio)
        most = min(most, height)
        h = min(h, most)
        if h < most:
            h = random.randint(h, most)
        if round(h * ratio) * h < low:
            h += 1
        if round(h * ratio) * h > high:
            h -= 1
        w = round(h * ratio)
        if not (low <= w * h <= high and w <= width and h <= height):
            return None
        y, x = random.randint(0, max(0, height - h)), random.randint(0, max(0, width - w))
        share = (x / width, y / height, (x + w) / width, (y + h) / height)
        if w * h < _LEAST_PIXELS or not self._covers(label, share, height * width):
            return None
        boxes = self._inside(label, x / width, y / height, w / width, h / height)
        return (x, y, w, h, boxes) if len(boxes) else None

    def _covers(self, label: Array, part: tuple[float, float, float, float], size: int) -> bool:
        """Whether a part of an image of ``size`` pixels covers enough of each object that it touches, if any."""
        areas = _areas(label)
        large = areas * size > _LEAST_PIXELS
        inside = label[large].copy()
        inside[:, [_LEFT, _TOP]] = np.maximum(inside[:, [_LEFT, _TOP]], part[:2])
        inside[:, [_RIGHT, _BOTTOM]] = np.minimum(inside[:, [_RIGHT, _BOTTOM]], part[2:])
        covered = _areas(inside) / areas[large]
        covered = covered[covered > 0]
        return bool(covered.size) and float(covered.min()) > self.min_object_covered

    def _inside(self, label: Array, x: float, y: float, w: float, h: float) -> Array:
        """The boxes as shares of a part of the image, without those of which too little is inside."""
        boxes = label.copy()
        boxes[:, [_LEFT, _RIGHT]] = (boxes[:, [_LEFT, _RIGHT]] - x) / w
        boxes[:, [_TOP, _BOTTOM]] = (boxes[:, [_TOP, _BOTTOM]] - y) / h
        boxes[:, _LEFT : _BOTTOM + 1] = np.clip(boxes[:, _LEFT : _BOTTOM + 1], 0, 1)
        areas = _areas(label)
        covered = np.divide(_areas(boxes) * w * h, areas, out=np.zeros_like(areas), where=areas > 0)
        return boxes[_proper(boxes) & (covered > self.min_eject_coverage)]


def _areas(label: Array) -> Array:
    """Of each box, as a share of the image's."""
    sizes = np.maximum(0, label[:, [_RIGHT, _BOTTOM]] - label[:, [_LEFT, _TOP]])
    return sizes[:, 0] * sizes[:, 1]


def _proper(label: Array) -> Array:
    """Which boxes have an area."""
    return (label[:, _RIGHT] > label[:, _LEFT]) & (label[:, _BOTTOM] > label[:, _TOP])


def _usable(name: str, ratios: tuple[float, float], areas: tuple[float, float], least: float) -> bool:
    """Whether ranges are some; else a warning, and the augmenter does nothing, as in MXNet."""
    if areas[1] <= least or areas[0] > areas[1]:
        warnings.warn(f"Skip {name} due to invalid area_range: {areas}", stacklevel=3)
        return False
    if ratios[0] > ratios[1] or ratios[0] <= 0:
        warnings.warn(f"Skip {name} due to invalid aspect_ratio_range: {ratios}", stacklevel=3)
        return False
    return True


class DetRandomPadAug(DetAugmenter):
    """The image at a random place of a larger one of the colour ``pad_val``.

    Parameters
    ----------
    aspect_ratio_range:
        The range of the larger one's ratio of width to height, or the only ratio.
    area_range:
        The range of the larger one's area as a multiple of the image's; its end is above 1.
    max_attempts:
        How many sizes are tried; after them the image stays as it is.
    pad_val:
        The colour around the image, a number for each channel.
    """

    def __init__(
        self,
        aspect_ratio_range: Any = (0.75, 1.33),
        area_range: Any = (1.0, 3.0),
        max_attempts: int = 50,
        pad_val: Any = (128, 128, 128),
    ) -> None:
        self.aspect_ratio_range = _pair(aspect_ratio_range)
        self.area_range = _pair(area_range)
        super().__init__(
            aspect_ratio_range=self.aspect_ratio_range,
            area_range=self.area_range,
            max_attempts=max_attempts,
            pad_val=pad_val,
        )
        self.pad_val = pad_val
        self.max_attempts = max_attempts
        self.enabled = _usable("DetRandomPadAug", self.aspect_ratio_range, self.area_range, 1.0)

    def __call__(self, src: Any, label: Any) -> tuple[Any, Any]:
        """Image and boxes augmented."""
        height, width = src.shape[:2]
        for _ in range(self.max_attempts if self.enabled else 0):
            found = self._proposal(height, width)
            if found is None:
                continue
            x, y, w, h = found
            boxes = np.array(label)
            boxes[:, [_LEFT, _RIGHT]] = (boxes[:, [_LEFT, _RIGHT]] * width + x) / w
            boxes[:, [_TOP, _BOTTOM]] = (boxes[:, [_TOP, _BOTTOM]] * height + y) / h
            return copyMakeBorder(src, y, h - y - height, x, w - x - width, values=self.pad_val), boxes
        return src, label

    def _proposal(self, height: int, width: int) -> tuple[int, int, int, int] | None:
        """Place of the image in a larger one, and the size of that; None if it is hardly larger."""
        ratio = random.uniform(*self.aspect_ratio_range)
        h = round(math.sqrt(self.area_range[0] * height * width / ratio))
        most = round(math.sqrt(self.area_range[1] * height * width / ratio))
        if round(h * ratio) < width:
            h = int((width + 0.499999) / ratio)
        h = min(max(h, height), most)
        if h < most:
            h = random.randint(h, most)
        w = round(h * ratio)
        if h - height < _LEAST_PIXELS or w - width < _LEAST_PIXELS:
            return None
        y, x = random.randint(0, h - height), random.randint(0, w - width)
        return x, y, w, h


def CreateMultiRandCropAugmenter(
    min_object_covered: Any = 0.1,
    aspect_ratio_range: Any = (0.75, 1.33),
    area_range: Any = (0.05, 1.0),
    min_eject_coverage: Any = 0.3,
    max_attempts: Any = 50,
    skip_prob: float = 0,
) -> DetRandomSelectAug:
    """One of several :class:`DetRandomCropAug` at random.

    Each argument but the last is one for all, or a list of one for each; lists of different lengths are a CheckError.

    Parameters
    ----------
    min_object_covered, aspect_ratio_range, area_range, min_eject_coverage, max_attempts:
        As for :class:`DetRandomCropAug`.
    skip_prob:
        The chance, 0 to 1, that the image is not cropped.
    """
    given = [min_object_covered, aspect_ratio_range, area_range, min_eject_coverage, max_attempts]
    lists: list[list[Any]] = [cast("list[Any]", x) if isinstance(x, list) else [x] for x in given]
    count = max(map(len, lists))
    if any(len(x) not in (1, count) for x in lists):
        raise CheckError(f"CreateMultiRandCropAugmenter: lists of different lengths: {[len(x) for x in lists]}")
    aligned = [x if len(x) == count else x * count for x in lists]
    return DetRandomSelectAug([DetRandomCropAug(*arguments) for arguments in zip(*aligned)], skip_prob)


def CreateDetAugmenter(
    data_shape: Sequence[int],
    resize: int = 0,
    rand_crop: float = 0,
    rand_pad: float = 0,
    rand_gray: float = 0,
    rand_mirror: bool = False,
    mean: Any = None,
    std: Any = None,
    brightness: float = 0,
    contrast: float = 0,
    saturation: float = 0,
    pca_noise: float = 0,
    hue: float = 0,
    inter_method: int = 2,
    min_object_covered: Any = 0.1,
    aspect_ratio_range: Any = (0.75, 1.33),
    area_range: Any = (0.05, 3.0),
    min_eject_coverage: Any = 0.3,
    max_attempts: Any = 50,
    pad_val: Any = (127, 127, 127),
) -> list[Any]:
    """The augmenters that ``ImageDetIter`` uses; their results have ``data_shape`` but as HWC, and are float32.

    Parameters
    ----------
    data_shape:
        (channels, height, width) of the result.
    resize:
        The shorter side, at first; 0 leaves it.
    rand_crop, rand_pad:
        The chance of a random crop, and that of a random border.
    rand_gray:
        The chance that an image becomes gray; 0 leaves it out.
    rand_mirror:
        Whether half of the images, at random, are mirrored left to right.
    mean, std:
        What is subtracted, and divided by, at the end: one number for each channel, or True for ImageNet's.
    brightness, contrast, saturation:
        As for :class:`ColorJitterAug`; 0 leaves one out.
    pca_noise:
        ``alphastd`` of :class:`LightingAug`, with ImageNet's components; 0 leaves it out.
    hue:
        As for :class:`HueJitterAug`; 0 leaves it out.
    inter_method:
        The interpolation; see ``mx.image.imresize``.
    min_object_covered, aspect_ratio_range, area_range, min_eject_coverage:
        As for :class:`DetRandomCropAug`. The ratios are those of borders, too, whose areas go from 1 to the end of
        ``area_range``.
    max_attempts:
        How many crops, or borders, are tried.
    pad_val:
        The colour of borders, a number for each channel.
    """
    made: list[Any] = [DetBorrowAug(ResizeAug(resize, inter_method))] if resize > 0 else []
    if rand_crop > 0:
        of_crops = (min_object_covered, aspect_ratio_range, area_range, min_eject_coverage, max_attempts)
        made.append(CreateMultiRandCropAugmenter(*of_crops, skip_prob=1 - rand_crop))
    if rand_mirror:
        made.append(DetHorizontalFlipAug(0.5))
    if rand_pad > 0:
        pad = DetRandomPadAug(aspect_ratio_range, (1.0, area_range[1]), max_attempts, pad_val)
        made.append(DetRandomSelectAug([pad], 1 - rand_pad))
    made.append(DetBorrowAug(ForceResizeAug((data_shape[2], data_shape[1]), inter_method)))
    made.append(DetBorrowAug(CastAug()))
    colours = colour_augmenters(mean, std, brightness, contrast, saturation, hue, pca_noise, rand_gray)
    return made + [DetBorrowAug(x) for x in colours]


class ImageDetIter(ImageIter):
    """Batches of images with boxes: labels of shape (batch, most boxes of an image, width of a row), filled with -1.

    The label of an image is a list of numbers: how many come before the first box (2 at least), how many a box has
    (5 at least), and the rows. Other arguments go to ``CreateDetAugmenter``.

    Parameters
    ----------
    aug_list:
        Functions of an image HWC and its boxes that give both; by default ``CreateDetAugmenter(data_shape,
        **kwargs)``.
    label_name:
        The name of the labels in ``provide_label``.
    """

    def __init__(
        self,
        batch_size: int,
        data_shape: Sequence[int],
        path_imgrec: str | None = None,
        path_imglist: str | None = None,
        path_root: str | None = None,
        path_imgidx: str | None = None,
        shuffle: bool = False,
        part_index: int = 0,
        num_parts: int = 1,
        aug_list: Any = None,
        imglist: Any = None,
        data_name: str = "data",
        label_name: str = "label",
        last_batch_handle: str = "pad",
        tail: str = "discard",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            batch_size,
            data_shape,
            path_imgrec=path_imgrec,
            path_imglist=path_imglist,
            path_root=path_root,
            path_imgidx=path_imgidx,
            shuffle=shuffle,
            part_index=part_index,
            num_parts=num_parts,
            aug_list=[],
            imglist=imglist,
            data_name=data_name,
            label_name=label_name,
            last_batch_handle=last_batch_handle,
            tail=tail,
        )
        self.auglist = CreateDetAugmenter(self.data_shape, **kwargs) if aug_list is None else aug_list
        self.label_shape = self._estimate_label_shape()
        self.provide_label = [DataDesc(label_name, (batch_size, *self.label_shape))]

    def _check_valid_label(self, label: Array) -> None:
        """RuntimeError unless an image has a box."""
        if label.ndim != 2 or label.shape[1] <= _BOTTOM:
            raise RuntimeError(f"Label with shape (1+, 5+) required, {label.shape} received.")
        if not ((label[:, 0] >= 0) & _proper(label)).any():
            raise RuntimeError("Invalid label occurs.")

    def _estimate_label_shape(self) -> tuple[int, int]:
        """The most boxes that an image has, and the width of a row."""
        count = width = 0
        self.reset()
        while True:
            try:
                label, _ = self.next_sample()
            except StopIteration:
                break
            boxes = self._parse_label(label)
            count, width = max(count, boxes.shape[0]), boxes.shape[1]
        self.reset()
        return count, width

    def _parse_label(self, label: Any) -> Array:
        """The rows of a label whose boxes have an area."""
        raw: Array = np.ravel(values_of(label) if isinstance(label, NDArray) else label)
        where = f"ImageDetIter: {self._where()}"
        if raw.size < 2 + 1 + _BOTTOM:
            raise MXNetError(f"{where}: a label has 7 numbers at least, got {raw.size}: {raw.tolist()}")
        before, width = int(raw[0]), int(raw[1])
        if before < 0 or width <= _BOTTOM or (raw.size - before) % width:
            raise MXNetError(
                f"{where}: the label begins with {before} and {width}: so many numbers before the first box, and so "
                f"many for each; {raw.size} numbers do not fit that"
            )
        boxes = raw[before:].reshape(-1, width)
        valid = _proper(boxes)
        if not valid.any():
            raise MXNetError(f"{where}: no box has an area: {boxes.tolist()}")
        return boxes[valid]

    def reshape(self, data_shape: Any = None, label_shape: Any = None) -> None:
        """Give images or labels another shape; the augmenters stay as they are.

        Parameters
        ----------
        data_shape:
            (3, height, width), or None to leave it.
        label_shape:
            (boxes, width of a row), or None to leave it.
        """
        if data_shape is not None:
            self.check_data_shape(data_shape)
            self.data_shape = tuple(data_shape)
            self.provide_data = [DataDesc(self.provide_data[0][0], (self.batch_size, *data_shape))]
        if label_shape is not None:
            self.check_label_shape(label_shape)
            self.label_shape = tuple(label_shape)
            self.provide_label = [DataDesc(self.provide_label[0][0], (self.batch_size, *label_shape))]

    def check_label_shape(self, label_shape: Any) -> None:
        """ValueError unless the labels of all images fit into a shape (boxes, width of a row).

        Parameters
        ----------
        label_shape:
            At least as many boxes as now, and rows as wide.
        """
        if len(label_shape) != 2:
            raise ValueError(f"label_shape should have length 2, got {tuple(label_shape)}")
        if label_shape[0] < self.label_shape[0]:
            raise ValueError(
                f"Attempts to reduce label count from {self.label_shape[0]} to {label_shape[0]}, not allowed."
            )
        if label_shape[1] != self.label_shape[1]:
            raise ValueError(f"label_shape object width inconsistent: {self.label_shape[1]} vs {label_shape[1]}.")

    def sync_label_shape(self, it: ImageDetIter, verbose: bool = False) -> ImageDetIter:
        """Give this iterator and another, of the same kind of boxes, the larger of their numbers of boxes; the other.

        Parameters
        ----------
        it:
            The other iterator; rows of another width are a CheckError.
        verbose:
            Whether a change is logged.
        """
        if not isinstance(it, ImageDetIter):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise CheckError(f"sync_label_shape: expected an ImageDetIter, got {type(it).__name__}")
        if self.label_shape[1] != it.label_shape[1]:
            raise CheckError(f"object width mismatch: {self.label_shape[1]} and {it.label_shape[1]}")
        most = max(self.label_shape[0], it.label_shape[0])
        for each in (self, it):
            if each.label_shape[0] < most:
                each.reshape(None, (most, each.label_shape[1]))
                if verbose:
                    logging.getLogger().info("Resized label_shape to (%d, %d).", most, each.label_shape[1])
        return it

    def augmentation_transform(self, data: Any, label: Any = None) -> Any:
        """Image and boxes after all augmenters.

        Parameters
        ----------
        data:
            An image HWC.
        label:
            The boxes: rows of class, left, top, right and bottom, of which the last four are shares of the image's
            width and height.
        """
        for augmenter in self.auglist:
            data, label = augmenter(data, label)
        return data, label

    def _empty(self) -> tuple[Array, Array]:
        data, labels = super()._empty()
        labels[:] = _NO_BOX
        return data, labels

    def _batchify(self, batch_data: Array, batch_label: Array, start: int = 0) -> int:
        i = start
        while i < self.batch_size:
            try:
                label, image = self.next_sample()
            except StopIteration:
                if not i:
                    raise
                break
            augmented = self._augmented(label, image)
            if augmented is None:
                continue
            data, boxes = augmented
            self._put(batch_data, i, data)
            batch_label[i] = _NO_BOX
            batch_label[i, : len(boxes)] = boxes
            i += 1
        return i

    def _augmented(self, label: Any, image: Any) -> tuple[Any, Array] | None:
        """Image and boxes; None, with a note in the log, if it is none with boxes."""
        data = self.imdecode(image)
        try:
            self.check_valid_image([data])
            augmented, boxes = self.augmentation_transform(data, self._parse_label(label))
            self._check_valid_label(boxes)
        except RuntimeError as error:
            logging.getLogger().debug("Invalid image, skipping:  %s", error)
            return None
        return augmented, boxes

    def draw_next(
        self,
        color: Any = None,
        thickness: int = 2,
        mean: Any = None,
        std: Any = None,
        clip: bool = True,
        waitKey: int | None = None,
        window_name: str = "draw_next",
        id2labels: Any = None,
    ) -> Generator[Array]:
        """Each image with its boxes and their names drawn, as BGR of uint8.

        Parameters
        ----------
        color:
            (red, green, blue) of the lines, each 0 to 255; None draws a random one for each box.
        thickness:
            The width of lines, in pixels.
        mean, std:
            Those that the augmenters took out, which are put back; True for ImageNet's.
        clip:
            Whether values are limited to 0 to 255.
        waitKey:
            How many milliseconds OpenCV shows each image in a window, 0 for until a key is pressed; None shows
            none.
        window_name:
            The title of that window.
        id2labels:
            A dict of the names of classes by their numbers; None writes none.
        """
        draw: Any = importlib.import_module("PIL.ImageDraw")
        pillow: Any = importlib.import_module("PIL.Image")
        while True:
            try:
                label, s = self.next_sample()
            except StopIteration:
                return
            augmented = self._augmented(label, s)
            if augmented is None:
                continue
            image = np.array(augmented[0].asnumpy(), np.float32)
            image = image if std is None else image * (IMAGENET_STD if std is True else std)
            image = image if mean is None else image + (IMAGENET_MEAN if mean is True else mean)
            canvas = pillow.fromarray((np.clip(image, 0, 255) if clip else image).astype(np.uint8))
            pen = draw.Draw(canvas)
            for row in augmented[1]:
                if row[_LEFT] < 0:
                    continue
                sizes = np.array([canvas.width, canvas.height] * 2)
                left, top, right, bottom = (row[_LEFT : _BOTTOM + 1] * sizes).astype(int).tolist()
                chosen = tuple(color) if color else tuple(np.random.randint(0, 256, 3).tolist())
                pen.rectangle((left, top, max(left, right), max(top, bottom)), outline=chosen, width=thickness)
                if id2labels is not None and int(row[0]) in id2labels:
                    pen.text((left + 5, top + 5), str(id2labels[int(row[0])]), fill=(255, 255, 255))
            drawn = np.asarray(canvas)[:, :, ::-1].copy()
            if waitKey is not None:
                cv2: Any = importlib.import_module("cv2")
                cv2.imshow(window_name, drawn)
                cv2.waitKey(waitKey)
            yield drawn

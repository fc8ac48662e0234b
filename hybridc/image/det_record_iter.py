"""ImageDetRecordIter: batches of images with boxes from a record file; ``mx.io`` has it."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from hybridc import recordio
from hybridc.errors import AttributeValueError, MXNetError, ShapeError
from hybridc.image.distortions import shifted_colours
from hybridc.image.record_iter import RecordBatches, check_options
from hybridc.image.resizing import copyMakeBorder, resized
from hybridc.io.data_iter import DataDesc

Array = npt.NDArray[Any]

__all__ = ["ImageDetRecordIter"]

_FRONT = 4  # numbers before a label: channels, height and width of the image in the batch, and how many follow
_HEAD = 2  # numbers at the beginning of a label: how many there are before the objects, and how many an object has
_LEFT, _TOP, _RIGHT, _BOTTOM = 1, 2, 3, 4  # columns of an object
# MXNet's other options, and the values that leave them out.
_OTHERS = {"aug_seq": "det_aug_default"}


class _CropSampler(NamedTuple):
    """What a random part of an image must be: side, shape, and what it has of a box. Ranges are pairs."""

    scales: tuple[float, float]
    ratios: tuple[float, float]
    overlaps: tuple[float, float]
    sample_coverages: tuple[float, float]
    object_coverages: tuple[float, float]
    trials: int


class ImageDetRecordIter(RecordBatches):
    """Batches of images NCHW and their boxes, of a record file whose labels are those of ``ImageDetIter``.

    A label is a row: channels, height and width of the image, how many numbers follow, and these: those of the record,
    as many as objects are left of it; ``label_pad_value`` fills up the rest.

    Parameters
    ----------
    path_imgrec:
        The record file.
    data_shape:
        (3 or 1, height, width) of an image after augmentation.
    batch_size:
        How many images a batch has, 1 at least.
    path_imglist:
        A list file with other labels for the records' ids; empty for none.
    label_width, label_pad_width:
        How many numbers each record has, if all have the same count; how many a row has room for, by default the most
        of all records.
    preprocess_threads, prefetch_buffer:
        Threads, and batches that they prepare ahead.
    num_parts, part_index:
        Only the images of one of several parts of equal size: those of a rank.
    shuffle, seed:
        Whether the order of images is random; it and all random changes follow from the seed.
    round_batch:
        Whether the last batch is filled up with the first images, with which the next epoch then does not begin;
        else with zeros. ``pad`` of the batch says how many.
    dtype:
        The dtype of the images; None is float32.
    resize, resize_mode:
        The shorter side before all else; at the end ``"force"`` makes the image fill its place, ``"shrink"`` makes it
        smaller if it does not fit, ``"fit"`` makes it as large as fits, of the same shape, with zeros beside it.
    rand_crop_prob, num_crop_sampler:
        The chance of a random part, and how many samplers try to find one, in random order. A sampler has an entry in
        each of the following, or there is one for all.
    min_crop_scales, max_crop_scales, min_crop_aspect_ratios, max_crop_aspect_ratios, max_crop_trials:
        The side of a part, as a share of the image's; width by height; how often it is tried.
    min_crop_overlaps, max_crop_overlaps:
        What a part shares with some box, as a share of both together.
    min_crop_sample_coverages, max_crop_sample_coverages:
        The same as a share of the part.
    min_crop_object_coverages, max_crop_object_coverages:
        The same as a share of the box.
    crop_emit_mode, emit_overlap_thresh:
        Which boxes a part keeps: ``"center"``, those whose centre is in it; ``"overlap"``, those of which a larger
        share is.
    random_contrast_prob, max_random_contrast:
        The chance of colours times a number around 1.
    max_random_hue, max_random_saturation, max_random_illumination:
        The largest of these changes, of 180, 255 and 255.
    random_hue_prob, random_saturation_prob, random_illumination_prob:
        Chances of changes of hue, saturation and lightness.
    rand_mirror_prob, rand_pad_prob, max_pad_scale, fill_value:
        Chances of a mirrored image, and of a margin of a colour around one, which is up to so many times larger.
    inter_method:
        The interpolation; see ``mx.image.imresize``.
    mean_r, mean_g, mean_b, std_r, std_g, std_b, scale:
        ``(image - mean) / std * scale``; a deviation of 0 does nothing.
    mean_img:
        A file with the mean of all images, to be subtracted instead; it is written where it does not exist.
    path_imgidx:
        The index of the record file, whose order is that of the images; empty for none.
    data_name, label_name:
        The names of images and labels in ``provide_data`` and ``provide_label``.
    tail:
        What becomes of images that do not come out even: ``"pad"`` takes the first images once more, ``"discard"``
        leaves them out, ``"keep"`` gives the first parts one more.
    """

    def __init__(
        self,
        path_imgrec: str = "./data/imgrec.rec",
        data_shape: Sequence[int] = (),
        batch_size: int = 0,
        path_imglist: str = "",
        label_width: int = -1,
        preprocess_threads: int = 4,
        num_parts: int = 1,
        part_index: int = 0,
        label_pad_width: int = 0,
        label_pad_value: float = -1,
        shuffle: bool = False,
        seed: int = 0,
        round_batch: bool = True,
        prefetch_buffer: int = 4,
        dtype: str | None = None,
        resize: int = -1,
        rand_crop_prob: float = 0,
        min_crop_scales: Any = (0,),
        max_crop_scales: Any = (1,),
        min_crop_aspect_ratios: Any = (1,),
        max_crop_aspect_ratios: Any = (1,),
        min_crop_overlaps: Any = (0,),
        max_crop_overlaps: Any = (1,),
        min_crop_sample_coverages: Any = (0,),
        max_crop_sample_coverages: Any = (1,),
        min_crop_object_coverages: Any = (0,),
        max_crop_object_coverages: Any = (1,),
        num_crop_sampler: int = 1,
        crop_emit_mode: str = "center",
        emit_overlap_thresh: float = 0.3,
        max_crop_trials: Any = (25,),
        rand_pad_prob: float = 0,
        max_pad_scale: float = 1,
        max_random_contrast: float = 0,
        random_contrast_prob: float = 0,
        max_random_hue: int = 0,
        random_hue_prob: float = 0,
        max_random_saturation: int = 0,
        random_saturation_prob: float = 0,
        max_random_illumination: int = 0,
        random_illumination_prob: float = 0,
        rand_mirror_prob: float = 0,
        fill_value: int = 127,
        inter_method: int = 1,
        resize_mode: str = "force",
        mean_r: float = 0,
        mean_g: float = 0,
        mean_b: float = 0,
        std_r: float = 0,
        std_g: float = 0,
        std_b: float = 0,
        scale: float = 1,
        mean_img: str = "",
        path_imgidx: str = "",
        data_name: str = "data",
        label_name: str = "softmax_label",
        tail: str = "pad",
        **others: Any,
    ) -> None:
        check_options(others, "ImageDetRecordIter", _OTHERS)
        super().__init__(
            path_imgrec, path_imgidx, path_imglist, data_shape, batch_size, dtype, num_parts, part_index, tail, shuffle,
            seed, round_batch, preprocess_threads, prefetch_buffer,
        )  # fmt: skip
        for name, value, known in (
            ("resize_mode", resize_mode, ("force", "shrink", "fit")),
            ("crop_emit_mode", crop_emit_mode, ("center", "overlap")),
        ):
            if value not in known:
                raise AttributeValueError(f"ImageDetRecordIter: {name} must be one of {known}, got {value!r}")
        self.label_width = label_width
        self._seed = seed
        width = self._most_labels(num_parts, part_index)
        if 0 < label_pad_width < width:
            raise MXNetError(
                f"ImageDetRecordIter: label_pad_width: {label_pad_width} smaller than estimated width: {width}"
            )
        self._row = _FRONT + max(width, label_pad_width)
        self._filler = label_pad_value
        self.provide_data = [DataDesc(data_name, (batch_size, *data_shape), self.dtype.type)]
        self.provide_label = [DataDesc(label_name, (batch_size, self._row))]
        ranges = [
            (min_crop_scales, max_crop_scales), (min_crop_aspect_ratios, max_crop_aspect_ratios),
            (min_crop_overlaps, max_crop_overlaps), (min_crop_sample_coverages, max_crop_sample_coverages),
            (min_crop_object_coverages, max_crop_object_coverages),
        ]  # fmt: skip
        columns = [_for_each(low, num_crop_sampler) for pair in ranges for low in pair]
        trials = _for_each(max_crop_trials, num_crop_sampler)
        self._samplers = [
            _CropSampler._make([*_pairs([column[i] for column in columns]), int(trials[i])])
            for i in range(num_crop_sampler)
        ]
        self._resize, self._mode, self._method, self._fill_value = resize, resize_mode, inter_method, fill_value
        self._chances = (rand_mirror_prob, rand_pad_prob, rand_crop_prob, random_contrast_prob)
        self._hls = (
            (random_hue_prob, max_random_hue), (random_illumination_prob, max_random_illumination),
            (random_saturation_prob, max_random_saturation),
        )  # fmt: skip
        self._pad_scale, self._contrast = max_pad_scale, max_random_contrast
        self._emit = emit_overlap_thresh if crop_emit_mode == "overlap" else None
        channels = data_shape[0]
        self.mean = np.array([mean_r, mean_g, mean_b][:channels], np.float32)
        self._factor = np.array([scale / (std or 1) for std in (std_r, std_g, std_b)][:channels], np.float32)
        self.use_mean_image(mean_img)
        self.begin(0)

    def _most_labels(self, num_parts: int, part_index: int) -> int:
        """How many numbers the longest label of all records has; every label is looked at."""
        most = 0
        for place in self._places:
            header, _ = recordio.unpack(self._file.read_at(place))
            label: Array = np.ravel(header.label if self._labels is None else self._labels[header.id][0])
            most = max(most, label.size)
            if self.label_width > 0 and label.size != self.label_width:
                raise ShapeError(
                    f"ImageDetRecordIter: rec file provide {label.size}-dimensional label but label_width is set to "
                    f"{self.label_width}"
                )
        return most

    def image_of(self, place: int, number: int) -> tuple[Array, Array]:
        """The image CHW of a record, augmented, and its row of labels."""
        h, w, values, row = self._placed(place, number)
        mean = np.broadcast_to(self.mean, values.shape)
        values[:h, :w] = (values[:h, :w] - mean[:h, :w]) * self._factor
        return self.as_data(values), row

    def values_of(self, place: int, number: int) -> tuple[Array, Array]:
        """The image HWC of a record, augmented, before the mean is subtracted, and its row of labels."""
        _, _, values, row = self._placed(place, number)
        return values, row

    def _placed(self, place: int, number: int) -> tuple[int, int, Array, Array]:
        """Height and width of an augmented image, the image HWC with zeros around it, and its row of labels."""
        where, label, image = self.record(place)
        counts = label[:2] if label.size > _HEAD and np.isfinite(label[:2]).all() else (0, 0)
        head, width = int(counts[0]), int(counts[1])
        if head < _HEAD or width <= _BOTTOM or (label.size - head) % width:
            raise ShapeError(
                f"{where}: a label begins with the count of numbers before the objects and that of an object's "
                f"numbers, 5 at least, and objects follow; got {label.size} numbers: {label[:8].tolist()}"
            )
        objects = label[head:].reshape(-1, width).copy()
        image, objects = self._augmented(image, objects, random.Random(self._seed << 64 | number))
        h, w = image.shape[:2]
        whole = np.zeros((*self.data_shape[1:], self.data_shape[0]), np.float32)
        whole[:h, :w] = image
        row = np.full(self._row, self._filler, np.float32)
        kept = np.concatenate([label[:head], objects.ravel()])
        row[:_FRONT] = self.data_shape[0], h, w, kept.size
        row[_FRONT : _FRONT + kept.size] = kept
        return h, w, whole, row

    # --- augmentation --------------------------------------------------------------------------------------

    def _augmented(self, image: Array, objects: Array, rng: random.Random) -> tuple[Array, Array]:
        mirror, pad, crop, contrast = (chance > 0 and rng.random() < chance for chance in self._chances)
        if self._resize > 0:
            h, w = image.shape[:2]
            size = (self._resize, self._resize * h // w) if h > w else (self._resize * w // h, self._resize)
            image = resized(image, *size, self._method, rng)
        shifts = [
            int(rng.uniform(-most, most)) if chance > 0 and rng.random() < chance else 0 for chance, most in self._hls
        ]
        if any(shifts) and image.shape[2] == 3:
            image = shifted_colours(image, *shifts)
        if contrast:
            factor = 1 + rng.uniform(-self._contrast, self._contrast)
            image = np.clip(image * factor, 0, 255).astype(np.uint8)
        if mirror:
            image = np.ascontiguousarray(image[:, ::-1])
            objects[:, [_LEFT, _RIGHT]] = 1 - objects[:, [_RIGHT, _LEFT]]
        if pad and self._pad_scale > 1:
            image, objects = self._padded(image, objects, rng)
        if crop:
            image, objects = self._cropped(image, objects, rng)
        h, w = image.shape[:2]
        size = _fitting(h, w, self.data_shape[1], self.data_shape[2], self._mode)
        return (image if size == (w, h) else resized(image, *size, self._method, rng)), objects

    def _padded(self, image: Array, objects: Array, rng: random.Random) -> tuple[Array, Array]:
        """The image at a random place of a larger one."""
        h, w = image.shape[:2]
        factor = rng.uniform(1, self._pad_scale)
        height, width = int(h * factor), int(w * factor)
        top, left = rng.randint(0, height - h), rng.randint(0, width - w)
        margins = (top, height - h - top, left, width - w - left)
        image = copyMakeBorder(image, *margins, value=self._fill_value).asnative()
        objects[:, [_LEFT, _RIGHT]] = (objects[:, [_LEFT, _RIGHT]] * w + left) / width
        objects[:, [_TOP, _BOTTOM]] = (objects[:, [_TOP, _BOTTOM]] * h + top) / height
        return image, objects

    def _cropped(self, image: Array, objects: Array, rng: random.Random) -> tuple[Array, Array]:
        """A random part of the image, of the first sampler that finds one; else the image."""
        h, w = image.shape[:2]
        for sampler in rng.sample(self._samplers, len(self._samplers)):
            for _ in range(sampler.trials):
                part = _random_part(sampler, w, h, rng)
                kept = None if part is None else self._kept(sampler, (part / [w, h, w, h]).astype(np.float32), objects)
                if part is not None and kept is not None and len(kept):
                    left, top, right, bottom = part
                    return np.ascontiguousarray(image[top:bottom, left:right]), kept
        return image, objects

    def _kept(self, sampler: _CropSampler, part: Array, objects: Array) -> Array | None:
        """The objects of a part, as shares of it; None if it shares too little with all of them."""
        boxes = objects[:, _LEFT : _BOTTOM + 1]
        inside = np.concatenate([np.maximum(boxes[:, :2], part[:2]), np.minimum(boxes[:, 2:], part[2:])], axis=1)
        common, areas = _areas(inside), np.maximum(_areas(boxes), 1e-12)
        area = float(_areas(part[None])[0])
        shares = (
            (sampler.overlaps, common / (areas + area - common)),
            (sampler.sample_coverages, common / area),
            (sampler.object_coverages, common / areas),
        )
        wanted = np.logical_and.reduce([(share >= low) & (share <= high) for (low, high), share in shares])
        if not wanted.any():
            return None
        if self._emit is None:
            centres = (boxes[:, :2] + boxes[:, 2:]) / 2
            keep = ((centres >= part[:2]) & (centres <= part[2:])).all(axis=1)
        else:
            keep = common / areas > self._emit
        size = part[2:] - part[:2]
        found = objects[keep]
        corners = (found[:, _LEFT : _BOTTOM + 1].reshape(-1, 2, 2) - part[:2]) / size
        found[:, _LEFT : _BOTTOM + 1] = np.clip(corners, 0, 1).reshape(-1, 4)
        return found


def _random_part(sampler: _CropSampler, w: int, h: int, rng: random.Random) -> Array | None:
    """Left, top, right and bottom of a part of an image of this width and height, in pixels."""
    scale = rng.uniform(*sampler.scales)
    if scale <= 0:
        return None
    low, high = (ratio * h / w for ratio in sampler.ratios)
    low, high = max(low, scale * scale), min(high, 1 / (scale * scale))
    if low > high:
        return None
    shape = math.sqrt(rng.uniform(low, high))
    width, height = max(1, round(scale * shape * w)), max(1, round(scale / shape * h))
    left, top = rng.randint(0, max(0, w - width)), rng.randint(0, max(0, h - height))
    return np.array([left, top, min(w, left + width), min(h, top + height)])


def _areas(boxes: Array) -> Array:
    sizes = np.maximum(0, boxes[:, 2:] - boxes[:, :2])
    return sizes[:, 0] * sizes[:, 1]


def _fitting(h: int, w: int, height: int, width: int, mode: str) -> tuple[int, int]:
    """Width and height of an image of size (h, w) for a place of another size."""
    if mode == "force":
        return width, height
    factor = min(np.float32(width) / np.float32(w), np.float32(height) / np.float32(h))
    if mode == "shrink" and factor >= 1:
        return w, h
    return max(1, int(np.float32(w) * factor)), max(1, int(np.float32(h) * factor))


def _pairs(values: Sequence[float]) -> Any:
    """The ranges of a sampler."""
    return list(zip(values[::2], values[1::2], strict=True))


def _for_each(values: Any, count: int) -> list[float]:
    """A number for each sampler, of a number, or several."""
    found = [float(x) for x in cast("list[Any]", values if isinstance(values, list | tuple) else [values])]
    found = found * count if len(found) == 1 else found
    if len(found) != count:
        raise AttributeValueError(f"ImageDetRecordIter: {len(found)} values for num_crop_sampler={count}: {values}")
    return found

"""ImageRecordIter: batches of images from a record file, decoded by threads ahead of their use; ``mx.io`` has it."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hybridc import nd, recordio
from hybridc.array.ndarray import NDArray
from hybridc.communication.data_parts import adjacent_part
from hybridc.dialects.vision.image_random import EIGENVALUES, EIGENVECTORS
from hybridc.errors import AttributeValueError, MXNetError, ShapeError, UnsupportedError
from hybridc.ground.limits import thread_pool
from hybridc.image import codec
from hybridc.image.augmenters import BRIGHTNESS
from hybridc.image.distortions import shifted_colours, warped
from hybridc.image.image_iter import read_list
from hybridc.image.resizing import (
    center_part,
    copyMakeBorder,
    interpolation_method,
    random_part,
    random_sized_part,
    resized,
)
from hybridc.io.data_iter import DataBatch, DataDesc
from hybridc.io.file_iters import MXDataIter

__all__ = [
    "ImageRecordInt8Iter", "ImageRecordIter", "ImageRecordIter_v1", "ImageRecordUInt8Iter", "ImageRecordUInt8Iter_v1",
]  # fmt: skip

Array = npt.NDArray[Any]

_KINDS = ("float32", "float64", "float16", "uint8", "int8", "int32", "int64")
_LARGEST = 1e10  # MXNet's limit of a side, which is none
# MXNet's other options, and the values that leave them out.
_OTHERS = {
    "aug_seq": "aug_default",
}
# Those that say how MXNet's own threads and memory work, and those of a fourth channel.
IGNORED = {"verbose", "device_id", "ctx", "shuffle_chunk_size", "shuffle_chunk_seed", "mean_a", "std_a"}


class Affine(NamedTuple):
    """Ranges of the random affine map of an image; ``rotate`` is a fixed angle in degrees, if it is positive."""

    rotate: int
    max_rotate_angle: int
    max_shear_ratio: float
    scale: tuple[float, float]
    ratio: tuple[float, float]
    side: tuple[float, float]

    def is_identity(self) -> bool:
        """Whether it leaves each image as it is."""
        return self.rotate <= 0 and self[1:] == (0, 0, (1, 1), (1, 1), (0, _LARGEST))

    def matrix(self, w: int, h: int, rng: random.Random) -> tuple[Array, tuple[int, int]]:
        """The map of an image of this width and height, and width and height of the result."""
        shear = rng.uniform(-self.max_shear_ratio, self.max_shear_ratio)
        angle = math.radians(
            self.rotate if self.rotate > 0 else rng.randint(-self.max_rotate_angle, self.max_rotate_angle)
        )
        scale, ratio = rng.uniform(*self.scale), rng.uniform(*self.ratio)
        cos, sin = math.cos(angle), math.sin(angle)
        height_scale = 2 * scale / (1 + ratio)
        width_scale = ratio * height_scale
        linear = np.array(
            [
                [height_scale * cos - shear * sin * width_scale, height_scale * sin + shear * cos * width_scale],
                [-sin * width_scale, cos * width_scale],
            ]
        )
        least, most = self.side
        size = np.array([max(least, min(most, scale * w)), max(least, min(most, scale * h))])
        shift = (size - linear @ [w, h]) / 2
        return np.hstack([linear, shift[:, None]]), (max(1, int(size[0])), max(1, int(size[1])))


class _Loading(NamedTuple):
    """A batch that threads prepare."""

    images: list[Future[Any]]
    pad: int
    #: The place of its first image, and how many images were asked for before it.
    start: int
    asked: int


class RecordBatches(MXDataIter):
    """Batches of images NCHW from a record file, decoded by threads ahead of their use.

    A subclass defines :meth:`image_of`; its constructor describes the batches, and calls :meth:`begin` at its end.
    """

    def __init__(
        self,
        path_imgrec: str,
        path_imgidx: str,
        path_imglist: str,
        data_shape: Sequence[int],
        batch_size: int,
        dtype: Any,
        num_parts: int,
        part_index: int,
        tail: str,
        shuffle: bool,
        seed: int,
        round_batch: bool,
        preprocess_threads: int,
        prefetch_buffer: int,
    ) -> None:
        super().__init__(batch_size)
        name = type(self).__name__
        if len(data_shape) != 3 or data_shape[0] not in (1, 3) or batch_size < 1:
            raise ShapeError(
                f"{name}: data_shape must be (3 or 1, height, width) and batch_size positive, got "
                f"{tuple(data_shape)} and {batch_size}"
            )
        if dtype not in (None, *_KINDS):
            raise MXNetError(f"{name}: dtype must be one of {', '.join(_KINDS)}, got {dtype!r}")
        self.data_shape = tuple(data_shape)
        self.dtype = np.dtype(dtype or "float32")
        self._file = recordio.MXRecordIO(path_imgrec, "r")
        self._labels = read_list(path_imglist, "float32") if path_imglist else None
        places = recordio.places(path_imgrec, path_imgidx)
        # COMPAT(mxnet): parts of equal size; there the last ones are smaller, and other ranks wait for it for ever.
        self._places = np.array([places[i] for i in adjacent_part(name, len(places), num_parts, part_index, tail)])
        if not len(self._places):
            raise MXNetError(f"{name}: {path_imgrec} has no records for part {part_index} of {num_parts}")
        self._round = round_batch
        self._shuffle = np.random.RandomState(seed) if shuffle else None
        self._count = 0  # of images that were asked for
        self._threads = thread_pool(max(1, preprocess_threads), name)
        self._ahead = max(1, prefetch_buffer)
        self.mean: Array = np.zeros(1, np.float32)
        self._next = 0  # the place of the next image
        self._over = 0  # images of the next epoch that the last batch has
        self._under_way: deque[_Loading] = deque()
        self.provide_data: list[DataDesc] = []
        self.provide_label: list[DataDesc] = []

    def __del__(self) -> None:
        threads = getattr(self, "_threads", None)
        if threads is not None:
            threads.shutdown(wait=False, cancel_futures=True)

    def image_of(self, place: int, number: int) -> tuple[Array, Array]:
        """The image CHW of a record, and its labels.

        Parameters
        ----------
        place:
            The offset of the record in the file, in bytes.
        number:
            How many images were asked for before: what random changes follow from, beside the seed.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define image_of")

    def record(self, place: int) -> tuple[str, Array, Array]:
        """What to call a record in errors, its labels, those of the list if there is one, and its image HWC."""
        where = f"{type(self).__name__}: {self._file.uri}, record at byte {place}"
        header, data = recordio.unpack(self._file.read_at(place))
        label: Array = np.ravel(header.label)
        if self._labels is not None:
            if header.id not in self._labels:
                raise MXNetError(f"{where}: the list has no line for its id {header.id}")
            label = self._labels[header.id][0].ravel()
        flag = codec.COLOUR if self.data_shape[0] == 3 else codec.GRAY
        return where, label, codec.decode(data, flag, where)

    def use_mean_image(self, path: str) -> None:
        """Subtract the array ``mean_img`` of a file from each image; where there is no file, write it.

        It is the mean of this iterator's images, random changes included.
        """
        # COMPAT(mxnet): there it is the mean of images that mean_r and scale have changed, and is subtracted first.
        if path and not Path(path).exists():
            total = np.zeros(self.data_shape, np.float64)
            for number, place in enumerate(self._places.tolist()):
                total += self.values_of(place, number)[0].transpose(2, 0, 1)
            nd.save(path, {"mean_img": nd.array(total / len(self._places))})
        if path:
            found: Any = nd.load(path)
            mean: Any = dict(found).get("mean_img") if hasattr(found, "keys") else None
            if mean is None or mean.shape != self.data_shape:
                raise ShapeError(
                    f"{type(self).__name__}: mean_img={path!r} must have an array 'mean_img' of shape "
                    f"{self.data_shape}, got {None if mean is None else mean.shape}"
                )
            self.mean = mean.asnumpy().transpose(1, 2, 0)

    def values_of(self, place: int, number: int) -> tuple[Array, Array]:
        """The image HWC of a record, augmented, before the mean is subtracted, and its labels.

        Parameters
        ----------
        place, number:
            As for :meth:`image_of`.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define values_of")

    def as_data(self, image: Array) -> Array:
        """An image HWC as CHW in the dtype of batches."""
        if self.dtype.kind in "iu":
            info = np.iinfo(self.dtype)
            image = np.clip(np.rint(image), info.min, info.max)
        return image.astype(self.dtype).transpose(2, 0, 1)

    def begin(self, start: int) -> None:
        """Begin an epoch with the image ``start``."""
        self._forget()
        if self._shuffle is not None:
            self._places = self._places.copy()
            self._shuffle.shuffle(self._places)
        self._next = start
        self._fill()

    def _forget(self) -> None:
        for loading in self._under_way:
            for image in loading.images:
                image.cancel()
        self._under_way.clear()

    def _fill(self) -> None:
        while len(self._under_way) < self._ahead and self._next < len(self._places):
            start, count = self._next, self._count
            places: list[int] = self._places[start : start + self.batch_size].tolist()
            self._next += len(places)
            pad = self.batch_size - len(places)
            if pad and self._round:
                places += np.resize(self._places, pad).tolist()
            images = [self._threads.submit(self.image_of, place, count + i) for i, place in enumerate(places)]
            self._count += len(places)
            self._under_way.append(_Loading(images, pad, start, count))
            self._over = pad if self._round else 0

    def state(self) -> dict[str, Any]:
        start, count = self._next, self._count
        if self._under_way:
            _, _, start, count = self._under_way[0]
        shuffle = None if self._shuffle is None else self._shuffle.get_state(legacy=False)
        return {"places": self._places, "next": start, "count": count, "over": self._over, "shuffle": shuffle}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self._forget()
        if not np.array_equal(np.sort(state["places"]), np.sort(self._places)):
            raise MXNetError(
                f"{type(self).__name__}.load_state: the state is of other records than those of {self._file.uri}, or "
                f"of another part; a run goes on with the data that it began with"
            )
        self._places, self._next, self._count = state["places"], state["next"], state["count"]
        self._over = state["over"]
        if self._shuffle is not None:
            self._shuffle.set_state(state["shuffle"])
        self._fill()

    def reset(self) -> None:
        """Begin the next epoch: after the images that filled up the last one, if the order is the same."""
        # COMPAT(mxnet): there a shuffled epoch leaves as many images out, and `pad` may be that of another batch.
        ended = not self._under_way and self._next >= len(self._places) and self._shuffle is None
        self.begin(self._over % len(self._places) if ended else 0)

    def read(self) -> DataBatch | None:
        """The next batch, or None at the end."""
        if not self._under_way:
            return None
        images, pad, *_ = self._under_way.popleft()
        self._fill()
        data = np.zeros((self.batch_size, *self.data_shape), self.dtype)
        shape = self.provide_label[0].shape
        labels = np.zeros((*shape, 1) if len(shape) == 1 else shape, np.float32)
        for i, each in enumerate(images):
            data[i], labels[i] = each.result()
        return DataBatch([NDArray(data)], [NDArray(labels.reshape(shape))], pad=pad)


class ImageRecordIter(RecordBatches):
    """Batches of images NCHW and their labels; each image has random numbers of its own, whatever the threads do.

    Parameters
    ----------
    path_imgrec, path_imgidx, path_imglist:
        A record file, and if there are, its index, and a list file with other labels for the records' ids.
    data_shape:
        (3 or 1, height, width) of an image after augmentation.
    batch_size:
        How many images a batch has, 1 at least.
    label_width:
        How many numbers the label of a record has; others are a ShapeError.
    preprocess_threads, prefetch_buffer:
        Threads, and batches that they prepare ahead.
    num_parts, part_index:
        Only the images of one of several parts of equal size: those of a rank.
    seed, seed_aug, shuffle:
        The order of images, if they are shuffled, and all random changes follow from the seeds.
    round_batch:
        Whether the last batch is filled up with the first images, with which the next epoch then does not begin; else
        with zeros. ``pad`` of the batch says how many.
    dtype:
        Of the images; float32 by default.
    resize, pad, fill_value:
        The shorter side, and a margin of a colour, before a part of the image is taken.
    rand_crop, random_resized_crop:
        A random part instead of the middle; of random size (``min_random_area`` to ``max_random_area``) and shape
        (``min_aspect_ratio`` to ``max_aspect_ratio``), too.
    max_aspect_ratio, min_aspect_ratio:
        The range of width to height of a random part; with ``min_aspect_ratio=None`` it is from ``1 -
        max_aspect_ratio`` to ``1 + max_aspect_ratio``.
    max_random_area, min_random_area:
        The range of the area of a random part, as a share of the image's.
    brightness, contrast, saturation, pca_noise:
        Random changes of colours: by factors around 1, and AlexNet's noise.
    inter_method:
        The interpolation; see ``mx.image.imresize``.
    mirror, rand_mirror:
        All images mirrored; half of them, at random.
    mean_r, mean_g, mean_b, std_r, std_g, std_b, scale:
        ``(image - mean) * scale / std``, for each channel.
    max_random_contrast, max_random_illumination:
        A random factor around 1, and a random number, after the mean is subtracted.
    max_rotate_angle, rotate, max_shear_ratio, min_random_scale, max_random_scale, min_img_size, max_img_size:
        A random affine map before a part is taken: the angle in degrees, random or fixed, the shear, the factor of the
        size, and the least and largest side. ``max_aspect_ratio`` holds for it, unless ``random_resized_crop`` is set.
    min_crop_size, max_crop_size:
        A square part of a random side, which is then resized.
    random_h, random_s, random_l:
        The largest random change of hue (of 180), saturation and lightness (of 255).
    mean_img:
        A file with the mean of all images, to be subtracted instead; it is written where it does not exist.
    data_name, label_name:
        The names of images and labels in ``provide_data`` and ``provide_label``.
    tail:
        What becomes of images that do not come out even: ``"pad"`` takes the first images once more, ``"discard"``
        leaves them out, ``"keep"`` gives the first parts one more, for evaluation.
    """

    def __init__(
        self,
        path_imgrec: str = "",
        data_shape: Sequence[int] = (),
        batch_size: int = 0,
        path_imglist: str = "",
        path_imgidx: str = "",
        label_width: int = 1,
        preprocess_threads: int = 4,
        num_parts: int = 1,
        part_index: int = 0,
        seed_aug: int | None = None,
        shuffle: bool = False,
        seed: int = 0,
        round_batch: bool = True,
        prefetch_buffer: int = 4,
        dtype: str | None = None,
        resize: int = -1,
        rand_crop: bool = False,
        random_resized_crop: bool = False,
        max_aspect_ratio: float = 0,
        min_aspect_ratio: float | None = None,
        max_random_area: float = 1,
        min_random_area: float = 1,
        brightness: float = 0,
        contrast: float = 0,
        saturation: float = 0,
        pca_noise: float = 0,
        fill_value: int = 255,
        inter_method: int = 1,
        pad: int = 0,
        mirror: bool = False,
        rand_mirror: bool = False,
        mean_r: float = 0,
        mean_g: float = 0,
        mean_b: float = 0,
        std_r: float = 1,
        std_g: float = 1,
        std_b: float = 1,
        scale: float = 1,
        max_random_contrast: float = 0,
        max_random_illumination: float = 0,
        max_rotate_angle: int = 0,
        rotate: int = -1,
        max_shear_ratio: float = 0,
        max_crop_size: int = -1,
        min_crop_size: int = -1,
        max_random_scale: float = 1,
        min_random_scale: float = 1,
        max_img_size: float = _LARGEST,
        min_img_size: float = 0,
        random_h: int = 0,
        random_s: int = 0,
        random_l: int = 0,
        mean_img: str = "",
        data_name: str = "data",
        label_name: str = "softmax_label",
        tail: str = "pad",
        **others: Any,
    ) -> None:
        check_options(others, "ImageRecordIter", _OTHERS)
        super().__init__(
            path_imgrec, path_imgidx, path_imglist, data_shape, batch_size, dtype, num_parts, part_index, tail, shuffle,
            seed, round_batch, preprocess_threads, prefetch_buffer,
        )  # fmt: skip
        self.label_width = label_width
        labels = (batch_size, label_width) if label_width > 1 else (batch_size,)
        self.provide_data = [DataDesc(data_name, (batch_size, *data_shape), self.dtype.type)]
        self.provide_label = [DataDesc(label_name, labels)]
        self._size = (self.data_shape[2], self.data_shape[1])
        self._resize = resize
        self._margin = (pad, fill_value)
        self._crop = (rand_crop, random_resized_crop)
        ratio = max(1e-3, 1 - max_aspect_ratio) if min_aspect_ratio is None else min_aspect_ratio
        self._ratio = (ratio, 1 + max_aspect_ratio if min_aspect_ratio is None else max_aspect_ratio)
        self._area = (min_random_area, max_random_area)
        self._method = inter_method
        self._mirror = (mirror, rand_mirror)
        self._jitter = (brightness, contrast, saturation, pca_noise)
        self._hls = (random_h, random_l, random_s)
        square = (min_crop_size, max_crop_size)
        if square != (-1, -1) and not 0 < min_crop_size <= max_crop_size:
            raise AttributeValueError(f"ImageRecordIter: min_crop_size and max_crop_size must be a range, got {square}")
        self._square = None if random_resized_crop or max_crop_size < 0 else square
        stretch = (1.0, 1.0) if random_resized_crop else self._ratio
        sizes = (1.0, 1.0) if random_resized_crop else (min_random_scale, max_random_scale)
        self._affine = Affine(rotate, max_rotate_angle, max_shear_ratio, sizes, stretch, (min_img_size, max_img_size))
        self.mean = np.array([mean_r, mean_g, mean_b][: data_shape[0]], np.float32)
        self._factor = np.array([scale / std for std in (std_r, std_g, std_b)][: data_shape[0]], np.float32)
        self._light = (max_random_contrast, max_random_illumination)
        self._seed = seed if seed_aug is None else seed_aug
        self.use_mean_image(mean_img)
        self.begin(0)

    def image_of(self, place: int, number: int) -> tuple[Array, Array]:
        """The image CHW of a record, augmented, and its labels."""
        values, label = self.values_of(place, number)
        values = values - self.mean
        contrast, illumination = self._light
        if contrast or illumination:
            rng = random.Random(self._seed << 64 | 1 << 63 | number)  # values_of has the stream of the number
            values = values * (1 + rng.uniform(-contrast, contrast)) + rng.uniform(-illumination, illumination)
        return self.as_data(values * self._factor), label

    def values_of(self, place: int, number: int) -> tuple[Array, Array]:
        """The image HWC of a record, augmented, before the mean is subtracted, and its labels."""
        where, label, image = self.record(place)
        if label.size != self.label_width:
            raise ShapeError(f"{where}: it has {label.size} labels, but label_width is {self.label_width}")
        return self._augmented(image, random.Random(self._seed << 64 | number)), label

    def _augmented(self, image: Array, rng: random.Random) -> Array:
        if self._resize > 0:
            h, w = image.shape[:2]
            size = (self._resize, self._resize * h // w) if h > w else (self._resize * w // h, self._resize)
            image = resized(image, *size, self._method, rng)
        margin, colour = self._margin
        if not self._affine.is_identity():
            matrix, size = self._affine.matrix(image.shape[1], image.shape[0], rng)
            image = warped(image, matrix, size, interpolation_method(self._method, (), rng), colour)
        if margin > 0:
            image = copyMakeBorder(image, margin, margin, margin, margin, value=colour).asnative()
        anywhere, any_size = self._crop
        if self._square is not None:
            side = rng.randint(*self._square)
            if side > min(image.shape[:2]):
                raise ShapeError(f"ImageRecordIter: crop size {side} is larger than an image of {image.shape[:2]}")
            image, _ = (random_part if anywhere else center_part)(image, (side, side), self._method, rng)
            image = resized(image, *self._size, self._method, rng)
        elif not any_size:
            image = resized(image, *_enlarged(image.shape[1], image.shape[0], *self._size), self._method, rng)
        if any_size:
            image, _ = random_sized_part(image, self._size, self._area, self._ratio, self._method, rng)
        else:
            image, _ = (random_part if anywhere else center_part)(image, self._size, self._method, rng)
        always, maybe = self._mirror
        if always or (maybe and rng.random() < 0.5):
            image = image[:, ::-1]
        if any(self._hls) and image.shape[2] == 3:
            image = shifted_colours(image, *[int(rng.uniform(-most, most)) for most in self._hls])
        return self._coloured(image.astype(np.float32), rng)

    def _coloured(self, image: Array, rng: random.Random) -> Array:
        brightness, contrast, saturation, noise = self._jitter
        coloured = image.shape[2] == 3
        if brightness:
            image = image * (1 + rng.uniform(-brightness, brightness))
        if contrast:
            factor = 1 + rng.uniform(-contrast, contrast)
            image = image * factor + (1 - factor) * (image @ BRIGHTNESS if coloured else image).mean()
        if saturation and coloured:
            factor = 1 + rng.uniform(-saturation, saturation)
            image = image * factor + (1 - factor) * (image @ BRIGHTNESS)[..., None]
        if noise and coloured:
            image = image + (EIGENVECTORS * EIGENVALUES) @ np.array([rng.gauss(0, noise) for _ in range(3)])
        return np.clip(image, 0, 255).astype(np.float32)


class ImageRecordUInt8Iter(ImageRecordIter):
    """``ImageRecordIter(dtype="uint8", …)``; deprecated."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "dtype": "uint8"})


class ImageRecordInt8Iter(ImageRecordIter):
    """``ImageRecordIter(dtype="int8", …)``; deprecated."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "dtype": "int8"})


class ImageRecordIter_v1(ImageRecordIter):
    """The same as :class:`ImageRecordIter`, under MXNet's old name."""


class ImageRecordUInt8Iter_v1(ImageRecordUInt8Iter):
    """The same as :class:`ImageRecordUInt8Iter`, under MXNet's old name."""


def _enlarged(width: int, height: int, w: int, h: int) -> tuple[int, int]:
    """The least width and height of the same shape that are not smaller than ``w`` and ``h``, nor than they are."""
    if width >= w and height >= h:
        return width, height
    return (w, height * w // width) if w * height > h * width else (width * h // height, h)


def check_options(given: dict[str, Any], owner: str, known: Mapping[str, Any]) -> None:
    """Raise for options with other values than these ones, and for names that are none."""
    for name, value in given.items():
        if name in IGNORED:
            continue
        if name not in known:
            raise MXNetError(f"{owner} has no option {name!r}")
        if value != known[name]:
            raise UnsupportedError(f"{owner}: {name}={value!r} is not offered; leave it out for {known[name]!r}")

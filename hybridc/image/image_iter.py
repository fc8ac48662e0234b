"""ImageIter: batches of augmented images, from record files or image files."""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from hybridc import recordio
from hybridc.array.ndarray import NDArray, values_of
from hybridc.array.numpy_array import as_default, in_class_of
from hybridc.communication.data_parts import adjacent_part
from hybridc.errors import AttributeValueError, CheckError, MXNetError, ShapeError
from hybridc.image import codec
from hybridc.image.augmenters import CreateAugmenter
from hybridc.io.data_iter import DataBatch, DataDesc, DataIter

Array = npt.NDArray[Any]

_LABELS = ("int32", "float32", "int64", "float64")


class ImageIter(DataIter):
    """Batches of images NCHW of float32, and their labels.

    Parameters
    ----------
    batch_size:
        How many images a batch has.
    data_shape:
        (3, height, width) of an image after augmentation.
    label_width:
        How many numbers the label of an image has.
    path_imgrec, path_imgidx:
        A record file, and its index, which ``shuffle`` and ``num_parts`` need.
    path_imglist:
        A text with a line for each image: key, labels, path, with tabs between them; with ``path_imgrec``, labels for
        the records with these keys.
    path_root:
        The folder in which the paths are.
    shuffle:
        Whether each ``reset`` shuffles the images, by Python's ``random``.
    num_parts, part_index:
        Only the images of one of several parts of equal size.
    aug_list:
        Functions of an image HWC, called one after the other; by default ``CreateAugmenter(data_shape, **kwargs)``.
    imglist:
        The same as a list: ``[label, path]`` or ``[label, label, …, path]``.
    data_name, label_name:
        The names of images and labels in ``provide_data`` and ``provide_label``.
    dtype:
        That of the labels as they are read, ``"int32"``, ``"float32"``, ``"int64"`` or ``"float64"``; batches have
        float32.
    last_batch_handle:
        What becomes of images that are too few for a batch: ``"pad"`` fills it up from the first ones, ``"discard"``
        drops them, ``"roll_over"`` keeps them for the first batch after ``reset``.
    tail:
        What becomes of images that do not come out even: ``"discard"`` leaves them out, ``"pad"`` takes the first
        images once more, ``"keep"`` gives the first parts one more, for evaluation.
    """

    POSITION = ("cur", "seq", "_allow_read", "_cache")

    def __init__(
        self,
        batch_size: int,
        data_shape: Sequence[int],
        label_width: int = 1,
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
        label_name: str = "softmax_label",
        dtype: str = "float32",
        last_batch_handle: str = "pad",
        tail: str = "discard",
        **kwargs: Any,
    ) -> None:
        super().__init__(batch_size)
        if not path_imgrec and not path_imglist and not isinstance(imglist, list):
            raise CheckError("ImageIter: one of path_imgrec, path_imglist and imglist must say where the images are")
        if dtype not in _LABELS:
            raise CheckError(f"ImageIter: dtype, that of labels, must be one of {', '.join(_LABELS)}, got {dtype!r}")
        if last_batch_handle not in ("pad", "discard", "roll_over"):
            raise ValueError(f"last_batch_handle must be 'pad', 'discard' or 'roll_over', got {last_batch_handle!r}")
        self.path_root = path_root
        self.imgrec: Any = None
        self.imgidx: list[Any] | None = None
        if path_imgrec and path_imgidx:
            self.imgrec = recordio.MXIndexedRecordIO(path_imgidx, path_imgrec, "r")
            self.imgidx = list(self.imgrec.keys)
        elif path_imgrec:
            self.imgrec = recordio.MXRecordIO(path_imgrec, "r")
        self.imglist: dict[Any, tuple[Array, str]] | None = None
        if path_imglist:
            self.imglist = read_list(path_imglist, dtype)
        elif isinstance(imglist, list):
            self.imglist = {str(i): listed(x, dtype) for i, x in enumerate(cast("list[Any]", imglist), 1)}
        self.data_shape = tuple(data_shape)
        self.check_data_shape(self.data_shape)
        self.label_width = label_width
        self.provide_data: list[Any] = [DataDesc(data_name, (batch_size, *self.data_shape))]
        self.provide_label: list[Any] = [
            DataDesc(label_name, (batch_size, label_width) if label_width > 1 else (batch_size,))
        ]
        self.shuffle = shuffle
        self.seq = self._sequence(shuffle, num_parts, part_index, tail)
        self.num_image = None if self.seq is None else len(self.seq)
        self.auglist: list[Any] = CreateAugmenter(self.data_shape, **kwargs) if aug_list is None else aug_list
        self.cur = 0
        self.last_batch_handle = last_batch_handle
        self._allow_read = True
        self._cache: tuple[Array, Array, int] | None = None  # a batch that rolls over, and how much of it is filled
        self.reset()

    def _sequence(self, shuffle: bool, num_parts: int, part_index: int, tail: str) -> list[Any] | None:
        """The keys in order, or None for a record file that is read from its start."""
        if self.imgrec is None:
            keys = list(self.imglist or ())
        elif self.imgidx is not None:
            keys = self.imgidx
        elif shuffle or num_parts > 1:
            raise CheckError("ImageIter: shuffle and num_parts need path_imgidx, the index of the record file")
        else:
            return None
        if num_parts > 1:
            keys = [keys[i] for i in adjacent_part("ImageIter", len(keys), num_parts, part_index, tail)]
        if not keys:
            raise MXNetError("ImageIter: there are no images")
        return keys

    def reset(self) -> None:
        """Start over."""
        if self.seq is not None and self.shuffle:
            self.seq = [*self.seq]
            random.shuffle(self.seq)
        if self.last_batch_handle != "roll_over" or self._cache is None:
            self._rewind()

    def state(self) -> dict[str, Any]:
        return {**super().state(), "record": None if self.imgrec is None else self.imgrec.position}

    def load_state(self, state: Mapping[str, Any]) -> None:
        state = {**state}
        record = state.pop("record", None)
        super().load_state(state)
        if record is not None:
            self.imgrec.position = record

    def hard_reset(self) -> None:
        """Start over, without what rolls over."""
        self._cache = None
        self.reset()

    def _rewind(self) -> None:
        if self.imgrec is not None:
            self.imgrec.reset()
        self.cur = 0
        self._allow_read = True

    def next_sample(self) -> tuple[Any, bytes]:
        """The label and the file's bytes of the next image; StopIteration at the end."""
        if not self._allow_read:
            raise StopIteration
        if self.seq is None:
            return self._next_record()
        if self.cur >= len(self.seq):
            if self.last_batch_handle != "discard":
                self.cur = 0
            raise StopIteration
        key = self.seq[self.cur]
        self.cur += 1
        if self.imgrec is None:
            label, name = (self.imglist or {})[key]
            return label, self.read_image(name)
        header, image = recordio.unpack(self.imgrec.read_idx(key))
        if self.imglist is None:
            return header.label, image
        if key not in self.imglist:
            raise MXNetError(f"ImageIter: the list of images has no line for the record with the key {key!r}")
        return self.imglist[key][0], image

    def _next_record(self) -> tuple[Any, bytes]:
        record = self.imgrec.read()
        if record is None:
            if self.last_batch_handle != "discard":
                self.imgrec.reset()
            raise StopIteration
        self.cur += 1
        header, image = recordio.unpack(record)
        return header.label, image

    def next(self) -> DataBatch:
        """The next batch; StopIteration at the end."""
        data, labels, filled = self._cache or (*self._empty(), 0)
        if self._cache is None:
            filled = self._batchify(data, labels)
        pad = self.batch_size - filled
        if pad:
            if self.last_batch_handle == "discard":
                raise StopIteration
            if self.last_batch_handle == "roll_over" and self._cache is None:
                self._cache = (data, labels, filled)
                raise StopIteration
            self._batchify(data, labels, filled)
            self._cache = None
            self._allow_read = self.last_batch_handle != "pad"
        return DataBatch([as_default(NDArray(data))], [as_default(NDArray(labels))], pad=pad)

    def _empty(self) -> tuple[Array, Array]:
        shape: tuple[int, ...] = self.provide_label[0].shape
        return np.zeros((self.batch_size, *self.data_shape), np.float32), np.zeros(shape, np.float32)

    def _batchify(self, batch_data: Array, batch_label: Array, start: int = 0) -> int:
        """Fill a batch from its row ``start`` on; how many rows are filled then."""
        i = start
        while i < self.batch_size:
            try:
                label, image = self.next_sample()
            except StopIteration:
                if not i:
                    raise
                break
            data = self.imdecode(image)
            try:
                self.check_valid_image([data])
            except RuntimeError as error:
                logging.getLogger().debug("Invalid image, skipping:  %s", error)
                continue
            self._put(batch_data, i, self.augmentation_transform(data))
            self._put_label(batch_label, i, label)
            i += 1
        return i

    def _put(self, batch: Array, i: int, data: Any) -> None:
        made = self.postprocess_data(data)
        values = values_of(made) if isinstance(made, NDArray) else np.asarray(made)
        if values.shape != batch.shape[1:]:
            raise ShapeError(
                f"{type(self).__name__}: {self._where()}: after augmentation the image has shape {values.shape} (CHW), "
                f"but data_shape is {batch.shape[1:]}"
            )
        batch[i] = values

    def _put_label(self, batch: Array, i: int, label: Any) -> None:
        values = np.asarray(values_of(label) if isinstance(label, NDArray) else label)
        if values.size != batch[i].size:
            raise ShapeError(
                f"ImageIter: {self._where()}: it has {values.size} labels, but label_width is {self.label_width}"
            )
        batch[i] = values.reshape(batch[i].shape)

    def _where(self) -> str:
        """The image that was read last."""
        if self.seq is None:
            return f"record {self.cur - 1}"
        key = self.seq[self.cur - 1]
        return f"image {self.imglist[key][1]}" if self.imglist and key in self.imglist else f"record {key!r}"

    def check_data_shape(self, data_shape: Any) -> None:
        """ValueError unless ``data_shape`` is one of images CHW of three channels."""
        if len(data_shape) != 3:
            raise ValueError(f"data_shape should have length 3, with dimensions CxHxW, got {tuple(data_shape)}")
        if data_shape[0] != 3:
            raise ValueError(f"This iterator expects inputs to have 3 channels, got {tuple(data_shape)}")

    def check_valid_image(self, data: Any) -> None:
        """RuntimeError unless the first of the list ``data`` is an image; those that raise it are left out."""
        if not data[0].shape:
            raise RuntimeError("Data shape is wrong")

    def imdecode(self, s: Any) -> NDArray:
        """The image in the bytes ``s`` of a file; an error names the image."""
        return as_default(NDArray(codec.decode(s, codec.COLOUR, f"{type(self).__name__}: {self._where()}")))

    def read_image(self, fname: str) -> bytes:
        """The bytes of the image file ``fname`` in the folder ``path_root``."""
        path = Path(self.path_root or "", fname)
        try:
            return path.read_bytes()
        except (OSError, ValueError) as error:  # the name may have a character that no file has
            why = getattr(error, "strerror", None) or error
            raise MXNetError(f"ImageIter: cannot read {path}: {why}; see path_root") from error

    def augmentation_transform(self, data: Any) -> Any:
        """The image HWC ``data`` after all augmenters."""
        for augmenter in self.auglist:
            data = augmenter(data)
        return data

    def postprocess_data(self, datum: Any) -> Any:
        """The image CHW of an image HWC, ``datum``."""
        values = values_of(datum) if isinstance(datum, NDArray) else np.asarray(datum)
        return in_class_of(datum, NDArray(values.transpose(2, 0, 1)))


def read_list(path: str | os.PathLike[str], dtype: str) -> dict[Any, tuple[Array, str]]:
    """Labels and paths by key, of a list file."""
    try:
        lines = Path(path).read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise MXNetError(f"cannot read the list of images {path}: {error}") from error
    made: dict[Any, tuple[Array, str]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            key, *labels, name = line.strip().split("\t")
            made[int(key)] = (np.array([float(x) for x in labels]).astype(dtype), name)
        except ValueError as error:
            raise MXNetError(
                f"{path}, line {number}: expected a key, labels and a path with tabs between them, got {line!r}"
            ) from error
    return made


def listed(item: Any, dtype: str) -> tuple[Array, str]:
    """Label and path of an element of a list."""
    if not isinstance(item, list | tuple) or len(cast("list[Any]", item)) < 2:
        raise AttributeValueError(f"imglist: expected [label, path], got {item!r}")
    *labels, name = cast("list[Any]", item)
    if not isinstance(name, str | os.PathLike):
        raise AttributeValueError(f"imglist: expected [label, path], got {item!r}")
    label = labels if len(labels) > 1 or isinstance(labels[0], int | float | np.number) else labels[0]
    return np.asarray(label).astype(dtype), os.fspath(cast("str", name))

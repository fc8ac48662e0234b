"""Iterators that read files: tables of numbers, sparse tables of LibSVM, and MNIST's images."""

from __future__ import annotations

import gzip
import logging
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from struct import Struct
from typing import Any

import numpy as np
import numpy.typing as npt

from hybridc.array.ndarray import NDArray, wrap
from hybridc.communication.data_parts import adjacent_part
from hybridc.errors import AttributeValueError, MXNetError, ShapeError
from hybridc.io.data_iter import DataBatch, DataDesc, DataIter
from hybridc.sparse_storage import CsrStorage

Array = npt.NDArray[Any]

_IDX_HEAD, _IDX_SIZE = Struct(">HBB"), Struct(">I")  # of MNIST's files: zero, type, count of dimensions; each dimension
_UINT8 = 8  # the type of their numbers
_PIXELS = 256.0  # by which MNISTIter divides them
# Options of MXNet's iterators that say how its threads and memory work.
_IGNORED = {"prefetch_buffer", "ctx", "verbose", "silent", "input_shape"}


class MXDataIter(DataIter):
    """The base of iterators that read files. A subclass defines ``read``.

    Parameters
    ----------
    batch_size:
        How many samples a batch has.
    """

    current_batch: Any = None

    def __init__(self, batch_size: int = 0) -> None:
        super().__init__(batch_size)
        self._same_again = False

    def read(self) -> DataBatch | None:
        """The next batch, or None at the end."""
        raise NotImplementedError(f"{type(self).__name__} does not define read")

    def debug_skip_load(self) -> None:
        """Give the first batch again and again, to measure a network without its reading."""
        self._same_again = True
        logging.getLogger().info("Set debug_skip_load to be true, will simply return first batch")

    def iter_next(self) -> bool:
        """Go on to the next batch; False at the end."""
        if not self._same_again or self.current_batch is None:
            batch = self.read()
            if batch is None:
                return False
            self.current_batch = batch
        return True

    def next(self) -> DataBatch:
        """The next batch; StopIteration at the end."""
        if not self.iter_next():
            raise StopIteration
        return self.current_batch

    def getdata(self) -> Any:
        """The data of this batch: one array."""
        return self.current_batch.data[0]

    def getlabel(self) -> Any:
        """The labels of this batch: one array."""
        return self.current_batch.label[0]

    def getindex(self) -> Any:
        """The numbers of the samples of this batch."""
        return self.current_batch.index

    def getpad(self) -> int:
        """How many samples at the end of this batch only fill it up."""
        return self.current_batch.pad


class _RowIter(MXDataIter):
    """Batches of rows that are in memory. With ``round_batch`` the first rows fill up the last batch of an epoch.

    The next epoch then begins after them. Else those of the batch before stay there.
    """

    POSITION = ("_at", "_rows")

    def __init__(
        self,
        data: Array | CsrStorage,
        label: Array,
        batch_size: int,
        round_batch: bool,
        data_name: str,
        label_name: str,
    ) -> None:
        super().__init__(batch_size)
        if batch_size < 1 or not len(data):
            raise MXNetError(f"{type(self).__name__}: {len(data)} rows make no batches of {batch_size}")
        if len(label) != len(data):
            raise ShapeError(f"{type(self).__name__}: there are {len(data)} rows of data, but {len(label)} of labels")
        self._data, self._label, self._round = data, label, round_batch
        self._at = 0
        self._rows = np.arange(batch_size) % len(data)
        self.provide_data = [DataDesc(data_name, (batch_size, *data.shape[1:]), data.dtype.type)]
        self.provide_label = [DataDesc(label_name, (batch_size, *label.shape[1:]), label.dtype.type)]

    def reset(self) -> None:
        """Start over; after a whole epoch, behind the rows that filled it up."""
        # COMPAT(mxnet): in the middle of an epoch it starts at row 0; there, behind what was read ahead.
        past = self._at - len(self._data)
        self._at = past % len(self._data) if self._round and past > 0 else 0

    def read(self) -> DataBatch | None:
        """The next batch, or None at the end."""
        count = len(self._data)
        if self._at >= count:
            return None
        rows = np.arange(self._at, self._at + self.batch_size)
        pad = max(0, int(rows[-1]) + 1 - count)
        rows = rows % count if self._round else np.where(rows < count, rows, self._rows)
        self._rows = rows
        self._at += self.batch_size
        data = self._data.take_rows(rows) if isinstance(self._data, CsrStorage) else self._data[rows]
        arrays = [wrap(data)], [NDArray(self._label[rows])]
        return DataBatch(*arrays, pad=pad, index=rows.astype(np.uint64))


class CSVIter(_RowIter):
    """Batches of the rows of a text of numbers with commas between them.

    Parameters
    ----------
    data_csv, label_csv:
        A file, or a folder of which all files are read; without labels they are 0.
    data_shape, label_shape:
        The shape that a row gets.
    batch_size:
        How many samples a batch has, 1 at least.
    round_batch:
        Whether the first rows fill up the last batch, and the next epoch begins after them; ``pad`` says how many.
    dtype:
        float32 (by default), int32 or int64.
    data_name, label_name:
        The names of data and labels in ``provide_data`` and ``provide_label``.
    num_parts, part_index, tail:
        Only the rows of one of several parts: see :class:`LibSVMIter`.

    Examples
    --------
    >>> np.savetxt("numbers.csv", [[1, 2], [3, 4], [5, 6]], delimiter=",")
    >>> for batch in mx.io.CSVIter("numbers.csv", (2,), batch_size=2):
    ...     print(batch.data[0].tolist(), batch.pad)
    [[1.0, 2.0], [3.0, 4.0]] 0
    [[5.0, 6.0], [1.0, 2.0]] 1
    """

    def __init__(
        self,
        data_csv: str,
        data_shape: Sequence[int],
        label_csv: str = "NULL",
        label_shape: Sequence[int] = (1,),
        batch_size: int = 0,
        round_batch: bool = True,
        dtype: Any = None,
        data_name: str = "data",
        label_name: str = "softmax_label",
        num_parts: int = 1,
        part_index: int = 0,
        tail: str = "pad",
        **others: Any,
    ) -> None:
        _check_options("CSVIter", others)
        kind = np.dtype("float32" if dtype in (None, "None") else dtype)
        if kind.name not in ("float32", "int32", "int64"):
            raise AttributeValueError(f"CSVIter: dtype must be float32, int32 or int64, got {kind.name}")
        data = _table(data_csv, data_shape, kind)
        if label_csv in ("NULL", "", None):
            label = np.zeros((len(data), *label_shape), kind)
        else:
            label = _table(label_csv, label_shape, kind)
        if len(label) != len(data):
            raise ShapeError(f"CSVIter: there are {len(data)} rows of data, but {len(label)} of labels")
        label = label[:, 0] if tuple(label_shape) == (1,) else label
        if num_parts != 1:
            # COMPAT(mxnet): there it has no parts.
            part = adjacent_part("CSVIter", len(data), num_parts, part_index, tail)
            data, label = data[part], label[part]
        super().__init__(data, label, batch_size, round_batch, data_name, label_name)


class LibSVMIter(_RowIter):
    """Batches of the rows of a text of LibSVM: ``label index:value index:value …``, indices from 0.

    The data are csr matrices.

    Parameters
    ----------
    data_libsvm, label_libsvm:
        A file, or a folder of which all files are read. Without ``label_libsvm`` the labels are the first numbers in
        the lines of ``data_libsvm``.
    data_shape, label_shape:
        ``(n,)``: how many indices there are.
    num_parts, part_index:
        Only the rows of one of several parts of equal size: those of a rank.
    batch_size:
        How many samples a batch has, 1 at least.
    round_batch:
        True: the first rows fill up the last batch, and the next epoch begins after them. False is an
        AttributeValueError.
    dtype:
        float32, or None for that; others are an AttributeValueError.
    data_name, label_name:
        The names of data and labels in ``provide_data`` and ``provide_label``.
    tail:
        What becomes of rows that do not come out even: ``"pad"`` takes the first rows once more, ``"discard"`` leaves
        them out, ``"keep"`` gives the first parts one more, for evaluation.
    """

    def __init__(
        self,
        data_libsvm: str,
        data_shape: Sequence[int],
        label_libsvm: str = "NULL",
        label_shape: Sequence[int] = (1,),
        num_parts: int = 1,
        part_index: int = 0,
        batch_size: int = 0,
        round_batch: bool = True,
        dtype: Any = None,
        data_name: str = "data",
        label_name: str = "softmax_label",
        tail: str = "pad",
        **others: Any,
    ) -> None:
        _check_options("LibSVMIter", others)
        if dtype not in (None, "None", "float32", np.float32):
            raise AttributeValueError(f"LibSVMIter: dtype must be float32, got {dtype!r}")
        if not round_batch:
            raise AttributeValueError("LibSVMIter: round_batch must be True")
        label, data = _sparse_table(data_libsvm, data_shape)
        if label_libsvm not in ("NULL", "", None):
            label = _sparse_table(label_libsvm, label_shape)[1].dense()
        if len(label) != len(data):
            raise ShapeError(f"LibSVMIter: there are {len(data)} rows of data, but {len(label)} of labels")
        part = adjacent_part("LibSVMIter", len(data), num_parts, part_index, tail)
        super().__init__(data.take_rows(part), label[part], batch_size, True, data_name, label_name)


class MNISTIter(MXDataIter):
    """Batches of images (n, 1, 28, 28) between 0 and 1, and their labels, of MNIST's files, which may be gzipped.

    Samples that are too few for a batch are left out.

    Parameters
    ----------
    image, label:
        The paths of the files of images and of labels.
    batch_size:
        How many samples a batch has, 1 at least.
    shuffle:
        Whether the images are shuffled, once for all epochs.
    flat:
        Whether images are rows of 784 numbers: batches (n, 784).
    seed:
        The seed of that order.
    silent:
        Whether the log does not tell how many images there are.
    num_parts, part_index:
        Only the images of one of several parts of equal size: those of a rank.
    dtype:
        float32, or None for that; others are an AttributeValueError.
    data_name, label_name:
        The names of data and labels in ``provide_data`` and ``provide_label``.
    tail:
        What becomes of images that do not come out even: see :class:`LibSVMIter`; with ``"keep"`` the last parts have
        one more.
    """

    POSITION = ("_at",)

    def __init__(
        self,
        image: str = "./train-images-idx3-ubyte",
        label: str = "./train-labels-idx1-ubyte",
        batch_size: int = 128,
        shuffle: bool = True,
        flat: bool = False,
        seed: int = 0,
        silent: bool = False,
        num_parts: int = 1,
        part_index: int = 0,
        dtype: Any = None,
        data_name: str = "data",
        label_name: str = "softmax_label",
        tail: str = "pad",
        **others: Any,
    ) -> None:
        super().__init__(batch_size)
        _check_options("MNISTIter", others)
        if dtype not in (None, "None", "float32", np.float32):
            raise AttributeValueError(f"MNISTIter: dtype must be float32, got {dtype!r}")
        images, labels = _idx(image, 3), _idx(label, 1)
        if len(images) != len(labels):
            raise ShapeError(f"MNISTIter: {image} has {len(images)} images, but {label} has {len(labels)} labels")
        # COMPAT(mxnet): parts of equal size; there ranks may have a batch more than others, which wait for it for ever.
        part = adjacent_part("MNISTIter", len(images), num_parts, part_index, tail)
        if tail == "keep":  # which of the parts are larger is MXNet's choice
            part = slice(len(images) * part_index // num_parts, len(images) * (part_index + 1) // num_parts)
        images, labels = images[part], labels[part]
        if batch_size < 1 or len(images) < batch_size:
            raise MXNetError(f"MNISTIter: {len(images)} images make no batches of {batch_size}")
        if shuffle:
            # COMPAT(mxnet): another order than its random numbers give.
            order = np.random.RandomState(seed).permutation(len(images))
            images, labels = images[order], labels[order]
        self._images = images.reshape(len(images), -1) if flat else images[:, None]
        self._labels = labels
        self._at = 0
        self.provide_data = [DataDesc(data_name, (batch_size, *self._images.shape[1:]), np.float32)]
        self.provide_label = [DataDesc(label_name, (batch_size,), np.float32)]
        if not silent:
            shape = self.provide_data[0].shape
            logging.getLogger().info("MNISTIter: load %d images, shuffle=%d, shape=%s", len(images), shuffle, shape)

    def reset(self) -> None:
        """Start over."""
        self._at = 0

    def read(self) -> DataBatch | None:
        """The next batch, or None at the end."""
        rows = slice(self._at, self._at + self.batch_size)
        if rows.stop > len(self._images):
            return None
        self._at = rows.stop
        data = self._images[rows].astype(np.float32) / np.float32(_PIXELS)
        label = self._labels[rows].astype(np.float32)
        index = np.zeros(self.batch_size, np.uint64)  # as in MXNet, all 0
        return DataBatch([NDArray(data)], [NDArray(label)], pad=0, index=index)


def _check_options(name: str, others: dict[str, Any]) -> None:
    unknown = [each for each in others if each not in _IGNORED]
    if unknown:
        warnings.warn(f"{name}: there are no options {', '.join(unknown)}; they are ignored", stacklevel=3)


def _files(path: str) -> list[Path]:
    """The file, or all files of a folder."""
    where = Path(path)
    return sorted(each for each in where.iterdir() if each.is_file()) if where.is_dir() else [where]


def _read(path: str | Path, reader: Callable[[Path], Any]) -> Any:
    try:
        return reader(Path(path))
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise MXNetError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error


def _table(path: str, shape: Sequence[int], kind: np.dtype[Any]) -> Array:
    """The rows of a text of numbers, each of this shape."""
    size = int(np.prod(shape, dtype=np.int64))
    parts: list[Array] = []
    for file in _files(path):
        text: str = _read(file, Path.read_text)
        if not text.strip():
            continue
        try:
            rows = np.loadtxt(text.splitlines(), kind, delimiter=",", ndmin=2, comments=None)
        except ValueError as error:
            raise MXNetError(f"{file} is not a table of {kind} with commas: {error}") from error
        if rows.shape[1] != size:
            raise ShapeError(
                f"{file}: The data size in CSV do not match size of shape: specified shape={tuple(shape)}, "
                f"the csv row-length={rows.shape[1]}"
            )
        parts.append(rows)
    if not parts:
        raise MXNetError(f"{path} has no rows")
    return np.concatenate(parts).reshape(-1, *shape)


def _sparse_table(path: str, shape: Sequence[int]) -> tuple[Array, CsrStorage]:
    """The labels and the rows of a text of LibSVM; of values at one place the last counts."""
    if len(shape) != 1:
        raise ShapeError(f"LibSVMIter: a shape has one dimension, got {tuple(shape)}")
    labels: list[float] = []
    data: list[float] = []
    indices: list[int] = []
    ends = [0]
    for file in _files(path):
        text: str = _read(file, Path.read_text)
        for number, line in enumerate(text.splitlines(), 1):
            words = line.partition("#")[0].split()
            if not words:
                continue
            row: dict[int, float] = {}
            try:
                labels.append(float(words[0]))
                for word in words[1:]:
                    index, _, value = word.partition(":")
                    row[range(shape[0])[int(index)]] = float(value or 1)
            except (ValueError, IndexError) as error:
                raise MXNetError(
                    f"{file}, line {number}: expected a label and pairs index:value with indices below {shape[0]}, "
                    f"got {line!r}: {error}"
                ) from error
            columns = sorted(row)
            indices += columns
            data += [row[column] for column in columns]
            ends.append(len(indices))
    if not labels:
        raise MXNetError(f"{path} has no rows")
    places = np.array(indices, np.int64), np.array(ends, np.int64)
    rows = CsrStorage((len(labels), shape[0]), np.array(data, np.float32), *places)
    return np.array(labels, np.float32), rows


def _idx(path: str, ndim: int) -> Array:
    """The array of a file of MNIST."""
    data: bytes = _read(path, Path.read_bytes)
    if data[:2] == b"\x1f\x8b":
        data = _read(path, lambda file: gzip.decompress(file.read_bytes()))
    start = _IDX_HEAD.size + ndim * _IDX_SIZE.size
    if len(data) < start or _IDX_HEAD.unpack_from(data) != (0, _UINT8, ndim):
        raise MXNetError(f"{path} is not a file of MNIST with {ndim} dimensions: it begins with {data[:4].hex()}")
    shape = [_IDX_SIZE.unpack_from(data, _IDX_HEAD.size + i * _IDX_SIZE.size)[0] for i in range(ndim)]
    if len(data) - start != np.prod(shape, dtype=np.int64):
        raise MXNetError(f"{path} is damaged: {len(data) - start} bytes for an array of shape {tuple(shape)}")
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)

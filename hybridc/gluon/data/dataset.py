"""Data sets: anything with ``__len__`` and ``__getitem__``, and what can be made of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import numpy as np

from hybridc.array.ndarray import NDArray, constant_values
from hybridc.array.numpy_array import as_default
from hybridc.dtypes import kind_of
from hybridc.errors import CheckError
from hybridc.gluon.data.sampler import Sampler, SequentialSampler
from hybridc.ground.display.arguments_text import counted, typed, value_text
from hybridc.recordio import MXIndexedRecordIO


class Dataset:
    """A collection with ``__len__`` and ``__getitem__``, which subclasses define.

    Examples
    --------
    >>> class Squares(gluon.data.Dataset):
    ...     def __len__(self):
    ...         return 4
    ...
    ...     def __getitem__(self, idx):
    ...         return np.float32(idx), np.float32(idx**2)
    >>> for x, y in gluon.data.DataLoader(Squares(), 2):
    ...     print(x.tolist(), y.tolist())
    [0.0, 1.0] [0.0, 1.0]
    [2.0, 3.0] [4.0, 9.0]
    """

    def __getitem__(self, idx: int) -> Any:
        raise TypeError(f"{type(self).__name__} does not define __getitem__")

    def __len__(self) -> int:
        raise TypeError(f"{type(self).__name__} does not define __len__")

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        item = self._item()
        return f"{type(self).__name__.lstrip('_')}({length_text(self)}{f' of {item}' if item else ''})"

    def _item(self) -> str:
        """What an item is, as far as that is known without loading one."""
        return ""

    def filter(self, fn: Callable[[Any], Any]) -> Dataset:
        """The items for which ``fn(item)`` is true; every item is looked at once, now.

        Parameters
        ----------
        fn:
            A function of an item.

        Examples
        --------
        >>> numbers = gluon.data.SimpleDataset([1, 2, 3, 4])
        >>> list(numbers.filter(lambda x: x % 2 == 0))
        [2, 4]
        """
        return _SampledDataset(self, [i for i, item in enumerate(self) if fn(item)])

    def shard(self, num_shards: int, index: int) -> Dataset:
        """The part ``index`` of ``num_shards`` parts of adjacent items; the first ones may have one more.

        Parameters
        ----------
        num_shards:
            How many parts there are.
        index:
            Which part this is, from 0; another is a ValueError.

        Examples
        --------
        >>> numbers = gluon.data.SimpleDataset([1, 2, 3, 4, 5])
        >>> list(numbers.shard(2, 0)), list(numbers.shard(2, 1))
        ([1, 2, 3], [4, 5])
        """
        if not 0 <= index < num_shards:
            raise ValueError(f"shard: index must be from 0 to num_shards - 1, got {index} of {num_shards}")
        size, rest = divmod(len(self), num_shards)
        start = size * index + min(index, rest)
        return self.sample(SequentialSampler(size + (index < rest), start))

    def take(self, count: int | None) -> Dataset:
        """The first ``count`` items; all if there are fewer, or for None."""
        available = len(self)
        return self.sample(SequentialSampler(available if count is None else min(count, available)))

    def sample(self, sampler: Sampler) -> Dataset:
        """The items that a ``sampler`` gives, in its order; a TypeError unless it is a :class:`Sampler`."""
        if not isinstance(sampler, Sampler):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"Invalid sampler type: {type(sampler).__name__}. Expected gluon.data.Sampler instead.")
        return _SampledDataset(self, list(sampler))

    def transform(self, fn: Callable[..., Any], lazy: bool = True) -> Dataset:
        """A data set of what a function gives for the items.

        Parameters
        ----------
        fn:
            A function: ``fn(item)``, or ``fn(*item)`` for items that are tuples.
        lazy:
            Whether it is called at each access of an item; else once for all items, now.

        Examples
        --------
        >>> pairs = gluon.data.SimpleDataset([(1, 2), (3, 4)])
        >>> list(pairs.transform(lambda a, b: a + b))
        [3, 7]
        """
        mapped = _LazyTransformDataset(self, fn)
        return mapped if lazy else SimpleDataset(list(mapped))

    def transform_first(self, fn: Callable[[Any], Any], lazy: bool = True) -> Dataset:
        """As :meth:`transform`, but only of the first element of each item: the data, not the label.

        Parameters
        ----------
        fn:
            A function of the first element.
        lazy:
            As for :meth:`transform`.

        Examples
        --------
        >>> pairs = gluon.data.SimpleDataset([(1, "a"), (2, "b")])
        >>> list(pairs.transform_first(lambda x: 10 * x))
        [(10, 'a'), (20, 'b')]
        """
        return self.transform(_TransformFirstClosure(fn), lazy)


class SimpleDataset(Dataset):
    """A list, an array, or anything else with ``__len__`` and ``__getitem__``, as a data set.

    Parameters
    ----------
    data:
        A list, or anything with a length and numbered elements.
    """

    def __init__(self, data: Any) -> None:
        self._data = data

    def _item(self) -> str:
        return _element(self._data)

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, idx: int) -> Any:
        return self._data[idx]


class ArrayDataset(Dataset):
    """Arrays or lists of equal length: items are tuples of their elements, or of one array its elements.

    Examples
    --------
    >>> data = gluon.data.ArrayDataset([[1, 2], [3, 4]], [0, 1])
    >>> len(data), data[1]
    (2, ([3, 4], 1))
    """

    def __init__(self, *args: Any) -> None:
        if not args:
            raise CheckError("ArrayDataset needs at least 1 array")
        self._length = len(args[0])
        for i, data in enumerate(args):
            if len(data) != self._length:
                raise CheckError(
                    f"All arrays must have the same length; array[0] has length {self._length} while "
                    f"array[{i}] has {len(data)}."
                )
        # Elements of vectors (labels, usually) are NumPy numbers, as in MXNet.
        self._data: list[Any] = [a.asnumpy() if isinstance(a, NDArray) and len(a.shape) == 1 else a for a in args]

    def _item(self) -> str:
        parts = [_element(data) or "anything" for data in self._data]
        return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"

    def __getitem__(self, idx: int) -> Any:
        if len(self._data) == 1:
            return self._data[0][idx]
        return tuple(data[idx] for data in self._data)

    def __len__(self) -> int:
        return self._length

    def batch(self, indices: Sequence[int]) -> Any:
        """The batch that the default ``batchify_fn`` makes of the items ``indices``.

        It is None if some data is not an array. Rows are gathered at once instead of one by one.
        """
        arrays: list[Any] = [constant_values(a, "a batch") if isinstance(a, NDArray) else a for a in self._data]
        if not all(type(a) is np.ndarray and kind_of(a.dtype) in "fiub" for a in arrays):
            return None
        rows = np.asarray(indices)
        if rows.dtype.kind not in "iu":
            return None
        batches = [as_default(NDArray(np.take(a, rows, axis=0))) for a in arrays]
        return batches[0] if len(batches) == 1 else batches


class RecordFileDataset(Dataset):
    """The records of a file, as bytes; its index is beside it: ``"a.rec"`` and ``"a.idx"``.

    Parameters
    ----------
    filename:
        The record file; its index file has the same name with the ending .idx.
    """

    def __init__(self, filename: str | os.PathLike[str]) -> None:
        self.filename = os.fspath(filename)
        self.idx_file = os.path.splitext(self.filename)[0] + ".idx"
        self._record = MXIndexedRecordIO(self.idx_file, self.filename, "r")

    def _item(self) -> str:
        return f"bytes, {self.filename!r}"

    def __getitem__(self, idx: int) -> Any:
        return self._record.read_idx(self._record.keys[idx])

    def __len__(self) -> int:
        return len(self._record.keys)


class _DownloadedDataset(Dataset):  # pyright: ignore[reportUnusedClass]
    """Data and labels in memory: ``_get_data`` of a derived class reads ``_data`` and ``_label`` from ``_root``."""

    def __init__(self, root: str | os.PathLike[str], transform: Callable[[Any, Any], Any] | None) -> None:
        self._transform = transform
        self._data: Any = None
        self._label: Any = None
        self._root: Any = os.path.expanduser(root)
        os.makedirs(self._root, exist_ok=True)
        self._get_data()

    def _item(self) -> str:
        pair = f"({_element(self._data) or 'anything'}, {_element(self._label) or 'anything'})"
        return pair if self._transform is None else f"{value_text(self._transform)}{pair}"

    def __getitem__(self, idx: int) -> Any:
        data, label = self._data[idx], self._label[idx]
        return (data, label) if self._transform is None else self._transform(data, label)

    def __len__(self) -> int:
        return len(self._label)

    def _get_data(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define _get_data, which sets _data and _label")


class _SampledDataset(Dataset):
    """Some items of another data set."""

    def __init__(self, dataset: Dataset, indices: Sequence[int]) -> None:
        self._dataset = dataset
        self._indices = indices

    def _item(self) -> str:
        return repr(self._dataset)

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, idx: int) -> Any:
        return self._dataset[self._indices[idx]]


class _LazyTransformDataset(Dataset):
    """A function of each item of another data set."""

    def __init__(self, dataset: Dataset, fn: Callable[..., Any]) -> None:
        self._dataset = dataset
        self._fn = fn

    def _item(self) -> str:
        return f"{value_text(self._fn)} of {self._dataset!r}"

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, idx: int) -> Any:
        item = self._dataset[idx]
        if isinstance(item, tuple):
            return self._fn(*cast("tuple[Any, ...]", item))
        return self._fn(item)


class _TransformFirstClosure:
    """Applies a function to the first of its arguments; a class, so that data sets can be pickled."""

    def __init__(self, fn: Callable[[Any], Any]) -> None:
        self._fn = fn

    def __repr__(self) -> str:
        return f"{value_text(self._fn)} of the first"

    def __call__(self, first: Any, *rest: Any) -> Any:
        return (self._fn(first), *rest) if rest else self._fn(first)


def length_text(collection: Any) -> str:
    """``1,000 items``, for what has a length."""
    try:
        return counted(len(collection), "item")
    except Exception:  # a class of the user's may have none, or need what is not there
        return "items"


def _element(data: Any) -> str:
    """What an element of an array or a list is, by the first one; "" if it would have to be loaded."""
    shape: Any = getattr(data, "shape", None)
    if shape is not None and hasattr(data, "dtype"):
        return typed(data.dtype, shape[1:]) if len(shape) > 1 else typed(data.dtype, ()).removesuffix("[]")
    return type(cast("Any", data[0])).__name__ if isinstance(data, list | tuple) and data else ""

"""Iterators over batches of arrays, and what they give."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from hybridc.array.ndarray import NDArray, constant_values, wrap
from hybridc.errors import ArgumentTypeError, CheckError, MXNetError, UnsupportedError
from hybridc.ground.display.arguments_text import typed
from hybridc.ground.limits import thread_pool
from hybridc.nd.creation import array

Array = npt.NDArray[Any]


class _NameAndShape(NamedTuple):
    """What two descriptions are compared by."""

    name: str
    shape: tuple[int, ...]


class DataDesc(_NameAndShape):
    """Name, shape, dtype and layout of an input: a tuple of the first two, with the others as attributes.

    Parameters
    ----------
    name:
        The name of the input.
    shape:
        The shape of a batch of it, a tuple.
    dtype:
        The dtype, as NumPy takes it.
    layout:
        A letter for each dimension, such as ``"NCHW"`` or ``"NT"``, of which N is that of samples; None says that
        samples are first.

    Examples
    --------
    >>> desc = mx.io.DataDesc("data", (32, 3, 224, 224))
    >>> desc.name, desc.shape, desc.layout
    ('data', (32, 3, 224, 224), 'NCHW')
    >>> mx.io.DataDesc.get_batch_axis("TNC")
    1
    """

    dtype: Any
    layout: str | None

    def __new__(cls, name: str, shape: Any, dtype: Any = np.float32, layout: str | None = "NCHW") -> DataDesc:
        made: Any = super().__new__(cls, name, shape)
        made.dtype = dtype
        made.layout = layout
        return made

    def __repr__(self) -> str:
        return f"DataDesc[{self.name},{self.shape},{self.dtype},{self.layout}]"

    @staticmethod
    def get_batch_axis(layout: str | None) -> int:
        """Where the samples are in a ``layout``: at its N, or first if there is none."""
        return 0 if layout is None else layout.find("N")

    @staticmethod
    def get_list(shapes: Iterable[Any], types: Iterable[Any] | None) -> list[DataDesc]:
        """Descriptions of pairs of names and shapes, and pairs of names and dtypes.

        Parameters
        ----------
        shapes:
            Pairs (name, shape).
        types:
            Pairs (name, dtype); None stands for float32.
        """
        if types is None:
            return [DataDesc(x[0], x[1]) for x in shapes]
        known = dict(types)
        return [DataDesc(x[0], x[1], known[x[0]]) for x in shapes]


class DataBatch:
    """The arrays of a batch, and how many samples at its end only fill it up (``pad``).

    Parameters
    ----------
    data:
        A list of NDArrays, one for each input of ``provide_data``; anything but a list is a CheckError.
    label:
        A list of NDArrays, one for each of ``provide_label``; None without labels.
    pad:
        How many samples at the end only fill the batch up; None or 0 for none.
    index:
        The numbers of the samples in the data set, or None.
    bucket_key:
        Which network the batch is for, in a ``BucketingModule``; None elsewhere.
    provide_data, provide_label:
        Lists of :class:`DataDesc` of this batch, where batches of an iterator differ; None where they are the
        iterator's.
    """

    def __init__(
        self,
        data: Any,
        label: Any = None,
        pad: int | None = None,
        index: Any = None,
        bucket_key: Any = None,
        provide_data: Any = None,
        provide_label: Any = None,
    ) -> None:
        for name, given in (("data", data), ("label", label)):
            if given is not None and not isinstance(given, list | tuple):
                raise CheckError(f"DataBatch: {name} must be a list of NDArrays, got {type(given).__name__}")
        self.data = data
        self.label = label
        self.pad = pad
        self.index = index
        self.bucket_key = bucket_key
        self.provide_data = provide_data
        self.provide_label = provide_label

    def __str__(self) -> str:
        labels = [x.shape for x in self.label] if self.label else None
        return f"{type(self).__name__}: data shapes: {[x.shape for x in self.data]} label shapes: {labels}"


class DataIter:
    """An iterator over batches. A subclass defines ``reset``, and ``next`` or ``iter_next`` and what it calls.

    For :meth:`state` a subclass lists in ``POSITION`` the names of the attributes that say where the iteration is, and
    replaces their values instead of changing them; or it defines ``state`` and ``load_state``.

    Parameters
    ----------
    batch_size:
        How many samples a batch has.
    """

    POSITION: ClassVar[tuple[str, ...]] = ()

    def __init__(self, batch_size: int = 0) -> None:
        self.batch_size = batch_size

    def state(self) -> dict[str, Any]:
        """Where the iteration is, after the batches that it gave: plain data, for a checkpoint."""
        if not self.POSITION:
            raise UnsupportedError(
                f"{type(self).__name__} does not say where it is: define state() and load_state(state), or POSITION"
            )
        return {name: getattr(self, name) for name in self.POSITION}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on where :meth:`state` was taken, of an iterator that was made with the same arguments.

        Parameters
        ----------
        state:
            What :meth:`state` gave. That of an iterator of another kind is an MXNetError.
        """
        if set(state) != set(self.POSITION):
            raise MXNetError(f"{type(self).__name__}.load_state: the state is of another iterator: it has {[*state]}")
        for name, value in state.items():
            setattr(self, name, value)

    def __iter__(self) -> DataIter:
        return self

    def reset(self) -> None:
        """Start over."""

    def next(self) -> DataBatch:
        """The next batch; StopIteration at the end."""
        if not self.iter_next():
            raise StopIteration
        return DataBatch(self.getdata(), self.getlabel(), self.getpad(), self.getindex())

    def __next__(self) -> DataBatch:
        return self.next()

    def iter_next(self) -> bool:
        """Go on to the next batch; False at the end."""
        raise TypeError(f"{type(self).__name__} defines neither next nor iter_next")

    def getdata(self) -> Any:
        """The data of this batch."""

    def getlabel(self) -> Any:
        """The labels of this batch."""

    def getindex(self) -> Any:
        """The numbers of the samples of this batch, or None."""
        return None

    def getpad(self) -> int | None:
        """How many samples at the end of this batch only fill it up."""


class _BatchIter(DataIter):
    """An iterator whose ``current_batch`` others made."""

    current_batch: Any = None

    def getdata(self) -> Any:
        """The data of this batch."""
        return self.current_batch.data

    def getlabel(self) -> Any:
        """The labels of this batch."""
        return self.current_batch.label

    def getindex(self) -> Any:
        """The numbers of the samples of this batch, or None."""
        return self.current_batch.index

    def getpad(self) -> Any:
        """How many samples at the end of this batch only fill it up."""
        return self.current_batch.pad


class ResizeIter(_BatchIter):
    """Exactly ``size`` batches of another iterator, which starts over when it is at its end.

    Parameters
    ----------
    data_iter:
        The other iterator.
    size:
        How many batches an epoch has.
    reset_internal:
        Whether ``reset`` lets the other iterator start over, too.

    Examples
    --------
    >>> batches = mx.io.NDArrayIter(np.arange(5), batch_size=2)
    >>> len(list(mx.io.ResizeIter(batches, 4)))
    4
    """

    def __init__(self, data_iter: Any, size: int, reset_internal: bool = True) -> None:
        super().__init__(data_iter.batch_size)
        self.data_iter = data_iter
        self.size = size
        self.reset_internal = reset_internal
        self.cur = 0
        self.provide_data = data_iter.provide_data
        self.provide_label = data_iter.provide_label
        if hasattr(data_iter, "default_bucket_key"):
            self.default_bucket_key = data_iter.default_bucket_key

    def state(self) -> dict[str, Any]:
        return {"cur": self.cur, "data_iter": self.data_iter.state()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self.cur = state["cur"]
        self.data_iter.load_state(state["data_iter"])

    def reset(self) -> None:
        """Count from 0; with ``reset_internal`` the other iterator starts over, too."""
        self.cur = 0
        if self.reset_internal:
            self.data_iter.reset()

    def iter_next(self) -> bool:
        """Go on to the next batch; False after ``size`` of them."""
        if self.cur == self.size:
            return False
        try:
            self.current_batch = self.data_iter.next()
        except StopIteration:
            self.data_iter.reset()
            self.current_batch = self.data_iter.next()
        self.cur += 1
        return True


class PrefetchingIter(_BatchIter):
    """The batches of one or several iterators, side by side, each loaded ahead by a thread.

    Iterators with different numbers of samples are a CheckError at the end of the shorter one.

    Parameters
    ----------
    iters:
        An iterator, or a list of several; a batch has the data of all of them, and the labels.
    rename_data, rename_label:
        A list with a dict for each iterator, of new names by old ones; None leaves the names.

    Examples
    --------
    >>> batches = mx.io.NDArrayIter(np.arange(4), np.arange(4) % 2, batch_size=2)
    >>> for batch in mx.io.PrefetchingIter(batches):
    ...     print(batch.data[0].tolist(), batch.label[0].tolist())
    [0.0, 1.0] [0.0, 1.0]
    [2.0, 3.0] [0.0, 1.0]
    """

    def __init__(self, iters: Any, rename_data: Any = None, rename_label: Any = None) -> None:
        super().__init__()
        self.iters: list[Any] = cast("list[Any]", iters) if isinstance(iters, list) else [iters]
        if not self.iters:
            raise CheckError("PrefetchingIter needs one iterator at least")
        self.n_iter = len(self.iters)
        self.rename_data = rename_data
        self.rename_label = rename_label
        self.batch_size = self.provide_data[0][1][0]
        self._threads = thread_pool(self.n_iter, "PrefetchingIter")
        self._under_way: list[Future[Any]] = []
        self._fetch()

    def _fetch(self) -> None:
        # Before threads go on: where the iterators are, of those that can say it.
        self._states = [each.state() if _has_state(each) else None for each in self.iters]
        self._under_way = [self._threads.submit(_next_or_none, each) for each in self.iters]

    def state(self) -> dict[str, Any]:
        for each, state in zip(self.iters, self._states, strict=True):
            if state is None:
                each.state()  # raises
        return {"iters": self._states}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self._wait()
        for each, own in zip(self.iters, state["iters"], strict=True):
            each.load_state(own)
        self._fetch()

    def _wait(self) -> None:
        for each in self._under_way:
            each.exception()  # waits; an error of a batch that is discarded is ignored

    def __del__(self) -> None:
        threads = getattr(self, "_threads", None)
        if threads is not None:
            threads.shutdown(wait=False)

    @property
    def provide_data(self) -> list[Any]:
        """The descriptions of the data."""
        return _renamed([each.provide_data for each in self.iters], self.rename_data)

    @property
    def provide_label(self) -> list[Any]:
        """The descriptions of the labels."""
        return _renamed([each.provide_label for each in self.iters], self.rename_label)

    def reset(self) -> None:
        """Start over."""
        self._wait()
        for each in self.iters:
            each.reset()
        self._fetch()

    def iter_next(self) -> bool:
        """Go on to the next batch; False at the end."""
        batches = [each.result() for each in self._under_way]
        ended = [batch is None for batch in batches]
        if all(ended):
            return False
        if any(ended) or len({batch.pad for batch in batches}) > 1:
            raise CheckError("PrefetchingIter: the iterators have different numbers of samples")
        self.current_batch = DataBatch(
            [x for batch in batches for x in batch.data],
            [x for batch in batches for x in batch.label],
            batches[0].pad,
            batches[0].index,
            provide_data=self.provide_data,
            provide_label=self.provide_label,
        )
        self._fetch()
        return True

    def next(self) -> DataBatch:
        """The next batch; StopIteration at the end."""
        if not self.iter_next():
            raise StopIteration
        return self.current_batch


def _has_state(data_iter: Any) -> bool:
    if isinstance(data_iter, DataIter):
        return bool(data_iter.POSITION) or type(data_iter).state is not DataIter.state
    return hasattr(data_iter, "state")


def _next_or_none(data_iter: Any) -> Any:
    try:
        return data_iter.next()
    except StopIteration:
        return None


def _renamed(described: list[Any], names: Any) -> list[Any]:
    if names is None:
        return [x for each in described for x in each]
    made: list[Any] = []
    for each, new in zip(described, names):
        for x in each:
            x = x if isinstance(x, DataDesc) else DataDesc(*x)
            made.append(DataDesc(new.get(x.name, x.name), x.shape, x.dtype, x.layout))
    return made


class NDArrayIter(DataIter):
    """Batches of arrays: NDArrays, NumPy arrays, lists of them, or dicts of them by name.

    Parameters
    ----------
    data:
        An array, a list of arrays, or a dict of arrays by name, of as many samples each; a csr matrix gives csr
        batches.
    label:
        The labels, in the same ways; None for none.
    batch_size:
        How many samples a batch has, 1 at least.
    shuffle:
        Whether each ``reset`` shuffles the samples, by ``numpy.random``.
    last_batch_handle:
        What becomes of samples that are too few for a batch: ``"pad"`` fills it up from the first ones, ``"discard"``
        drops them, ``"roll_over"`` keeps them for the beginning of the next epoch.
    data_name, label_name:
        The name of the data, and that of the labels, where they are one array; of a list the arrays are
        "_0_data", "_1_data", …, and a dict has its own names.
    layout:
        Where the samples are: at the N.

    Examples
    --------
    >>> batches = mx.io.NDArrayIter(np.arange(10).reshape(5, 2), np.arange(5), batch_size=2)
    >>> for batch in batches:
    ...     print(batch.data[0].shape, batch.label[0].tolist(), batch.pad)
    (2, 2) [0.0, 1.0] 0
    (2, 2) [2.0, 3.0] 0
    (2, 2) [4.0, 0.0] 1
    """

    POSITION = ("cursor", "idx", "_order", "_left")

    def __init__(
        self,
        data: Any,
        label: Any = None,
        batch_size: int = 1,
        shuffle: bool = False,
        last_batch_handle: str = "pad",
        data_name: str = "data",
        label_name: str = "softmax_label",
        layout: str = "NCHW",
    ) -> None:
        super().__init__(batch_size)
        if last_batch_handle not in ("pad", "discard", "roll_over"):
            raise ValueError(f"last_batch_handle must be 'pad', 'discard' or 'roll_over', got {last_batch_handle!r}")
        if "N" not in layout:
            raise ValueError(f"layout must have an N for the samples, got {layout!r}")
        self.layout = layout
        self._axis = layout.find("N")
        self.data = named_arrays(data, False, data_name)
        self.label = named_arrays(label, True, label_name)
        counts = {name: x.shape[self._axis] for name, x in (*self.data, *self.label)}
        self.num_data = next(iter(counts.values()))
        if len(set(counts.values())) > 1:
            text = f"NDArrayIter: the arrays have different numbers of samples: {counts}"
            if min(counts.values()) < self.num_data:
                raise MXNetError(f"{text}; each must have as many as the first one")
            # COMPAT(mxnet): there they are left out without a word.
            warnings.warn(f"{text}; those beyond the {self.num_data} of the first one are not used", stacklevel=2)
        if not self.num_data or batch_size < 1:
            raise MXNetError(f"NDArrayIter: {self.num_data} samples make no batches of {batch_size}")
        self.shuffle = shuffle
        self.last_batch_handle = last_batch_handle
        self.num_source = len(self.data) + len(self.label)
        self.idx = np.arange(self.num_data)
        self._order = self.idx.copy()  # of the samples
        self._left = self.idx[:0]  # the samples that roll over
        self.cursor = -batch_size
        self.reset()

    def __repr__(self) -> str:
        arrays = [f"{name}={typed(x.dtype, x.shape)}" for name, x in (*self.data, *self.label)]
        return f"{type(self).__name__}({', '.join([*arrays, f'batch_size={self.batch_size}'])})"

    @property
    def provide_data(self) -> list[DataDesc]:
        """The descriptions of the data."""
        return self._described(self.data)

    @property
    def provide_label(self) -> list[DataDesc]:
        """The descriptions of the labels."""
        return self._described(self.label)

    def _described(self, arrays: list[tuple[str, NDArray]]) -> list[DataDesc]:
        made: list[DataDesc] = []
        for name, x in arrays:
            shape = (*x.shape[: self._axis], self.batch_size, *x.shape[self._axis + 1 :])
            made.append(DataDesc(name, shape, x.dtype, self.layout))
        return made

    def hard_reset(self) -> None:
        """Start over, without what rolls over."""
        self._shuffle()
        self.cursor = -self.batch_size
        self._left = self._left[:0]

    def reset(self) -> None:
        """Start over; with ``roll_over``, with what was left of the last epoch."""
        left = self.last_batch_handle == "roll_over" and 0 < self.num_data - self.cursor < self.batch_size
        self._left = self._order[self.cursor :].copy() if left else self._left[:0]
        self._shuffle()
        self.cursor = -self.batch_size - (len(self._left) if left else 0)

    def _shuffle(self) -> None:
        if self.shuffle:
            self.idx = self.idx.copy()
            np.random.shuffle(self.idx)
            # COMPAT(mxnet): there the arrays are reordered; here `data` and `label` stay as they are.
            self._order = self._order[self.idx]

    def iter_next(self) -> bool:
        """Go on to the next batch; False at the end."""
        self.cursor += self.batch_size
        return self.cursor < self.num_data

    def next(self) -> DataBatch:
        """The next batch; StopIteration at the end."""
        if not self.iter_next() or len(self._rows()) < self.batch_size:
            raise StopIteration
        return DataBatch(data=self.getdata(), label=self.getlabel(), pad=self.getpad(), index=None)

    def _rows(self) -> Array:
        """The samples of this batch."""
        if self.cursor >= self.num_data:
            raise CheckError("NDArrayIter is at its end; reset() starts over")
        end = self.cursor + self.batch_size
        if self.cursor < 0:
            return np.concatenate([self._left, self._order[:end]])
        rows = self._order[self.cursor : end]
        if self.last_batch_handle == "pad" and end > self.num_data:
            rows = np.concatenate([rows, np.resize(self._order, end - self.num_data)])
        return rows

    def _gathered(self, arrays: list[tuple[str, NDArray]]) -> list[NDArray]:
        rows = self._rows()
        return [self._taken(x, rows) for _, x in arrays]

    def _taken(self, x: NDArray, rows: Array) -> NDArray:
        """Some samples of an array; of a csr matrix these are rows."""
        if x.stype == "csr":
            buffer: Any = x._data
            return wrap(buffer.take_rows(rows))
        return NDArray(np.take(constant_values(x, "NDArrayIter"), rows, axis=self._axis))

    def getdata(self) -> list[NDArray]:
        """The data of this batch."""
        return self._gathered(self.data)

    def getlabel(self) -> list[NDArray]:
        """The labels of this batch."""
        return self._gathered(self.label)

    def getpad(self) -> int:
        """How many samples of this batch fill it up, or of the first one after a roll over, are of the last epoch."""
        if self.last_batch_handle == "pad":
            return max(0, self.cursor + self.batch_size - self.num_data)
        return max(0, -self.cursor) if self.last_batch_handle == "roll_over" else 0


def named_arrays(data: Any, allow_empty: bool, default_name: str) -> list[tuple[str, NDArray]]:
    """Names and arrays, sorted by name: of an array, a list of arrays, or a dict of them."""
    if data is None and allow_empty:
        return []
    if isinstance(data, NDArray | np.ndarray):
        data = [data]
    if isinstance(data, list):
        given = cast("Sequence[Any]", data)
        data = {default_name: given[0]} if len(given) == 1 else {f"_{i}_{default_name}": x for i, x in enumerate(given)}
    if not isinstance(data, Mapping) or not (data or allow_empty):
        raise ArgumentTypeError(
            f"NDArrayIter: {default_name} must be an array, a list of arrays, or a dict of them, got "
            f"{type(cast('Any', data)).__name__}"
        )
    named = cast("Mapping[str, Any]", data)
    return sorted(((k, _as_array(k, x)) for k, x in named.items()), key=lambda pair: pair[0])


def _as_array(name: str, x: Any) -> NDArray:
    if isinstance(x, NDArray):
        return x
    try:
        return array(x)
    except (TypeError, ValueError, MXNetError) as error:
        raise ArgumentTypeError(
            f"NDArrayIter: Invalid type '{type(x).__name__}' for {name}, should be NDArray, numpy.ndarray: {error}"
        ) from error

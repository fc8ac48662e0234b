"""Functions that make a batch of a list of samples, for the loader's ``batchify_fn``.

MXNet 1.9.1 has the default only; the others are those of MXNet 2 (``Tuple`` is GluonNLP's name of ``Group``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from hybridc.array.ndarray import NDArray, constant_values
from hybridc.array.numpy_array import as_default
from hybridc.dtypes import kind_of
from hybridc.errors import MXNetError

Array = npt.NDArray[Any]


class Stack:
    """Samples of one shape along a new first axis.

    Examples
    --------
    >>> gluon.data.batchify.Stack()([[1, 2], [3, 4]]).tolist()
    [[1, 2], [3, 4]]
    """

    def __call__(self, data: Sequence[Any]) -> NDArray:
        """The batch of the samples ``data``, a list of arrays or numbers."""
        arrays = [_array(sample) for sample in data]
        shapes = sorted({a.shape for a in arrays})
        if len(shapes) > 1:
            raise MXNetError(
                f"cannot stack samples of different shapes {', '.join(map(str, shapes))}; make them equal in "
                f"a transform, or use batchify_fn=gluon.data.batchify.Pad(); "
                "a list of whole arrays is no data set, gluon.data.ArrayDataset(x, y) pairs their elements"
            )
        return as_default(NDArray(_batchable(np.stack(arrays))))


class Pad:
    """Samples along a new first axis, filled up to the largest size of each axis.

    Parameters
    ----------
    val:
        What they are filled up with.
    dtype:
        The dtype of the batch; None is one that holds those of all samples.
    round_to:
        What sizes are made multiples of; None leaves them.

    Examples
    --------
    >>> gluon.data.batchify.Pad(val=-1)([[1, 2, 3], [4]]).tolist()
    [[1, 2, 3], [4, -1, -1]]
    """

    def __init__(self, val: float = 0, dtype: npt.DTypeLike | None = None, round_to: int | None = None) -> None:
        self._val = val
        self._dtype = dtype
        self._round_to = round_to

    def __call__(self, data: Sequence[Any]) -> NDArray:
        """The batch of the samples ``data``, a list of arrays of equally many axes."""
        arrays = [_array(sample) for sample in data]
        dimensions = {a.ndim for a in arrays}
        if len(dimensions) != 1:
            raise MXNetError(f"Pad: samples have different numbers of dimensions {sorted(dimensions)}")
        step = self._round_to or 1
        sizes = [-(-max(axis) // step) * step for axis in zip(*(a.shape for a in arrays))]
        dtype = np.result_type(*arrays) if self._dtype is None else np.dtype(self._dtype)
        batch = np.full((len(arrays), *sizes), self._val, dtype=dtype)
        for i, array in enumerate(arrays):
            batch[(i, *(slice(n) for n in array.shape))] = array
        return as_default(NDArray(_batchable(batch)))


class Group:
    """One function for each element of the samples, which are tuples: ``Group(Pad(), Stack())``.

    Parameters
    ----------
    fn:
        The function of the first elements; or a list of the functions of all.

    Examples
    --------
    >>> batchify = gluon.data.batchify.Group(gluon.data.batchify.Pad(), gluon.data.batchify.Stack())
    >>> data, labels = batchify([([1, 2], 0), ([3], 1)])
    >>> data.tolist(), labels.tolist()
    ([[1, 2], [3, 0]], [0, 1])
    """

    def __init__(self, fn: Any, *args: Callable[[Sequence[Any]], Any]) -> None:
        first = cast("list[Any]", fn if isinstance(fn, (list, tuple)) else [fn])
        self._fns: list[Callable[[Sequence[Any]], Any]] = [*first, *args]

    def __call__(self, data: Sequence[Any]) -> tuple[Any, ...]:
        """The batches of the samples ``data``, a list of tuples: a tuple."""
        if len(data[0]) != len(self._fns):
            raise MXNetError(f"Group has {len(self._fns)} functions, but the samples have {len(data[0])} elements")
        return tuple(fn([sample[i] for sample in data]) for i, fn in enumerate(self._fns))


Tuple = Group


class AsList:
    """The samples as they are, in a list."""

    def __call__(self, data: Sequence[Any]) -> list[Any]:
        """The list of the samples ``data``."""
        return list(data)


def default_batchify_fn(data: Sequence[Any]) -> Any:
    """Stack samples; of samples that are tuples, a list of the batches of their elements.

    Parameters
    ----------
    data:
        A list of samples of equal shapes: arrays, numbers, or tuples of them.
    """
    if isinstance(data[0], tuple):
        return [default_batchify_fn(elements) for elements in zip(*data)]
    return Stack()(data)


def _array(sample: Any) -> Array:
    try:
        return constant_values(sample, "a batch")
    except ValueError as error:
        raise MXNetError(f"cannot make an array of the sample {sample!r}: {error}") from error


def _batchable(batch: Array) -> Array:
    if kind_of(batch.dtype) not in "fiub":
        raise MXNetError(
            f"cannot batch samples of dtype {batch.dtype}; numbers are expected. Keep other things in a list "
            f"with batchify_fn=gluon.data.batchify.Group(Stack(), AsList())"
        )
    return batch

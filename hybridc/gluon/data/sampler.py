"""Samplers: the order in which a loader takes the items of a data set."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np


class Sampler:
    """Gives indices; subclasses define ``__iter__`` and ``__len__``."""

    def __iter__(self) -> Iterator[Any]:
        raise TypeError(f"{type(self).__name__} does not define __iter__")

    def __len__(self) -> int:
        raise TypeError(f"{type(self).__name__} does not define __len__")


class SequentialSampler(Sampler):
    """``start, start + 1, …``: ``length`` indices."""

    def __init__(self, length: int, start: int = 0) -> None:
        self._length = length
        self._start = start

    def __iter__(self) -> Iterator[int]:
        return iter(range(self._start, self._start + self._length))

    def __len__(self) -> int:
        return self._length


class RandomSampler(Sampler):
    """``0 … length - 1`` in a random order, as ``numpy.random.seed`` determines it."""

    def __init__(self, length: int) -> None:
        self._length = length

    def __iter__(self) -> Iterator[int]:
        # NumPy's global generator and this very call, as in MXNet: programs that seed it get MXNet's order.
        order = np.arange(self._length)
        np.random.shuffle(order)
        return iter(order.tolist())

    def __len__(self) -> int:
        return self._length


class FilterSampler(Sampler):
    """The indices of the items for which ``fn`` is true."""

    def __init__(self, fn: Callable[[Any], Any], dataset: Any) -> None:
        self._indices = [i for i in range(len(dataset)) if fn(dataset[i])]

    def __iter__(self) -> Iterator[int]:
        return iter(self._indices)

    def __len__(self) -> int:
        return len(self._indices)


class BatchSampler(Sampler):
    """Lists of ``batch_size`` indices of another sampler.

    What is left over at the end is a smaller batch (``last_batch='keep'``), dropped (``'discard'``), or the
    beginning of the next epoch (``'rollover'``).
    """

    def __init__(self, sampler: Iterable[Any], batch_size: int, last_batch: str = "keep") -> None:
        if last_batch not in ("keep", "discard", "rollover"):
            raise ValueError(f"last_batch must be one of 'keep', 'discard', or 'rollover', but got {last_batch}")
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        self._sampler: Any = sampler
        self._batch_size = batch_size
        self._last_batch = last_batch
        self._rolled: list[Any] = []

    def __iter__(self) -> Iterator[list[Any]]:
        batch, self._rolled = self._rolled, []
        for index in self._sampler:
            batch.append(index)
            if len(batch) == self._batch_size:
                yield batch
                batch = []
        if not batch:
            return
        if self._last_batch == "keep":
            yield batch
        elif self._last_batch == "rollover":
            self._rolled = batch

    def __len__(self) -> int:
        items = len(self._sampler)
        if self._last_batch == "keep":
            return -(-items // self._batch_size)
        return (items + len(self._rolled)) // self._batch_size

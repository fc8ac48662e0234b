"""Samplers: the order in which a loader takes the items of a data set."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from hybridc import random
from hybridc.communication import communicator
from hybridc.communication.data_parts import check_part, total_count
from hybridc.errors import MXNetError
from hybridc.ground.display.arguments_text import called, settings


class Sampler:
    """Gives indices; subclasses define ``__iter__`` and ``__len__``."""

    def __iter__(self) -> Iterator[Any]:
        raise TypeError(f"{type(self).__name__} does not define __iter__")

    def __len__(self) -> int:
        raise TypeError(f"{type(self).__name__} does not define __len__")

    def __repr__(self) -> str:
        return called(self, settings(self))


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


class DistributedSampler(Sampler):
    """The indices of one of several ranks, which share ``0 … length - 1``; each epoch in another order.

    All ranks have the same order, of which rank ``r`` takes the places ``r``, ``r + num_parts``, …: so the batches of a
    step are, together, the batch of one rank that had ``num_parts`` times the batch size.

    An epoch begins with each iteration. :meth:`state` is what a checkpoint needs: after :meth:`load_state` the next
    iteration goes on where that one was.

    Parameters
    ----------
    length:
        How many items there are, or the data set itself.
    num_parts, part_index:
        How many ranks there are, and which this is; by default those that the launcher started.
    shuffle:
        Whether the order is random: it follows from ``seed`` and the epoch alone.
    tail:
        What becomes of items that do not come out even: ``"pad"`` repeats the first ones of the epoch, ``"discard"``
        leaves the last ones of the epoch out, ``"keep"`` gives the first ranks one more, for evaluation: training by
        ranks that have unequally many batches would wait for ever.
    seed:
        The seed of the order, equal on all ranks.
    """

    def __init__(
        self,
        length: Any,
        num_parts: int | None = None,
        part_index: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        tail: str = "pad",
    ) -> None:
        if (num_parts is None) != (part_index is None):
            raise MXNetError(
                f"DistributedSampler: num_parts={num_parts}, part_index={part_index}; give both, or neither for those "
                f"that the launcher started"
            )
        if num_parts is None or part_index is None:
            ranks = communicator()
            num_parts, part_index = ranks.size, ranks.rank
        check_part("DistributedSampler", num_parts, part_index, tail)
        self._length = length if isinstance(length, int) else len(length)
        self._parts, self._part = num_parts, part_index
        self._shuffle, self._seed, self._tail = shuffle, seed, tail
        self._total = total_count(self._length, num_parts, tail)
        if not self._total:
            raise MXNetError(
                f"DistributedSampler: {self._length} items make no part for each of {num_parts} ranks; "
                f"{'use fewer ranks, or tail=' + repr('pad') if self._length else 'the data set is empty'}"
            )
        self._epoch = 0
        self._position = 0  # of all ranks: how many indices of this epoch were given
        self._resumes = True  # the next iteration is that of this epoch

    @property
    def epoch(self) -> int:
        """The epoch of the next index."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration be that of ``epoch``; of the present one, it goes on where a checkpoint was."""
        if epoch != self._epoch or not self._resumes:
            self._epoch, self._position = epoch, 0
        self._resumes = True

    def __iter__(self) -> Iterator[int]:
        if not self._resumes and self._position:  # the last iteration was not finished
            self._epoch, self._position = self._epoch + 1, 0
        self._resumes = False
        return self._indices(self.order(self._epoch), self._epoch, self._position // self._parts)

    def _indices(self, mine: list[int], epoch: int, start: int) -> Iterator[int]:
        for number in range(start, len(mine)):
            self._epoch, self._position = epoch, min((number + 1) * self._parts, self._total)
            if number + 1 == len(mine):
                self._epoch, self._position = epoch + 1, 0
            yield mine[number]

    def order(self, epoch: int) -> list[int]:
        """The indices of this rank in an ``epoch``."""
        if self._shuffle:
            every = random.generator(np.array([self._seed & (2**64 - 1), epoch], np.uint64)).permutation(self._length)
        else:
            every = np.arange(self._length)
        return np.resize(every, self._total)[self._part :: self._parts].tolist()

    def __len__(self) -> int:
        return len(range(self._part, self._total, self._parts))

    def state(self) -> dict[str, Any]:
        """Where the iteration is: the epoch, how many indices of it all ranks were given, and what the order is of.

        It is the same on all ranks that were given equally many. Under a DataLoader that loads ahead, take the loader's
        ``state()``.
        """
        return {
            "epoch": self._epoch,
            "position": self._position,
            "seed": self._seed,
            "length": self._length,
            "shuffle": self._shuffle,
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Let the next iteration go on where :meth:`state` was taken, by as many ranks or others.

        By others, if the position does not come out even, a few items are given a second time.
        """
        for name, mine in (("length", self._length), ("shuffle", self._shuffle)):
            if state[name] != mine:
                raise MXNetError(
                    f"DistributedSampler.load_state: the state is of {name}={state[name]!r}, but this sampler has "
                    f"{name}={mine!r}; a run goes on with the data that it began with"
                )
        self._epoch, self._position, self._seed = state["epoch"], min(state["position"], self._total), state["seed"]
        self._resumes = True


class FilterSampler(Sampler):
    """The indices of the items for which ``fn`` is true.

    Parameters
    ----------
    dataset:
        The data set.
    """

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

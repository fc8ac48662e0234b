"""Which part of the optimizer's state each rank has, when it is sharded (ZeRO, stage 1).

Weights lie one after the other in buckets, as their gradients do. Of each bucket a rank owns a part: it gets the sum of
the gradients of that part, has the states of it, updates it, and gives it to the others. An elementwise update can be
cut anywhere, so the parts are equal; one with norms of whole weights is cut between weights.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, cast

import numpy as np

from hybridc.array.ndarray import NDArray, values_of
from hybridc.communication import Communicator
from hybridc.communication.gradient_buckets import grouped
from hybridc.ground.records import dataclass


@dataclass
class ShardedBucket:
    """Weights of one dtype, by their numbers, and how many elements of all of them each rank has."""

    dtype: np.dtype[Any]
    members: list[int] = field(default_factory=lambda: list[int]())
    counts: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """The size in bytes."""
        return sum(self.counts) * self.dtype.itemsize


class OptimizerShards:
    """The parts of weights with these shapes and dtypes; those of this rank are ``pieces``.

    A piece is the begin and the end of a range of a weight's elements in row-major order. Without ``elementwise`` it is
    the whole weight, or nothing.
    """

    def __init__(self, weights: Sequence[NDArray], communicator: Communicator, elementwise: bool) -> None:
        self.shapes = [w.shape for w in weights]
        self.elementwise = elementwise
        self._communicator = communicator
        self.buckets = _buckets(weights)
        loads = [0] * communicator.size
        self._ranges: dict[int, list[tuple[int, int]]] = {}  # of each weight, by rank
        for bucket in self.buckets:
            if not elementwise:
                self._by_weight(bucket, loads)
            else:
                total, ranks = sum(self._volume(i) for i in bucket.members), communicator.size
                bucket.counts = tuple([total // ranks + (r < total % ranks) for r in range(ranks)])
            self._cut(bucket)

    @property
    def pieces(self) -> list[tuple[int, int]]:
        """The range of each weight that this rank has."""
        return [self._ranges[i][self._communicator.rank] for i in range(len(self.shapes))]

    def piece(self, number: int, array: NDArray) -> NDArray:
        """This rank's part of a weight, or of an array of its shape; of the same shape if it is all."""
        begin, end = self.pieces[number]
        if not self.elementwise and end > begin:
            return array
        return array.reshape((-1,))[begin:end]

    def cut(self, number: int, state: Any) -> Any:
        """This rank's part of the state of a weight, which may be the part already."""

        def part(array: NDArray) -> NDArray:
            return self.piece(number, array).copy() if array.shape == self.shapes[number] else array

        return _mapped(state, part)

    def gathered(self, states: Mapping[int, Any], indices: Sequence[int]) -> dict[int, Any]:
        """The whole states of the weights, whose numbers in ``states`` are ``indices``; all ranks call this."""
        return {**states, **{index: self._whole(number, states[index]) for number, index in enumerate(indices)}}

    def _whole(self, number: int, state: Any) -> Any:
        shape, ranges = self.shapes[number], self._ranges[number]

        def whole(part: NDArray) -> NDArray:
            begin, end = ranges[self._communicator.rank]
            if part.size != end - begin:
                return part  # it does not belong to elements
            found = np.empty(math.prod(shape), part._data.dtype)
            found[begin:end] = values_of(part).reshape(-1)
            self._communicator.allgather(found, [e - b for b, e in ranges])
            return NDArray(found.reshape(shape))

        return _mapped(state, whole)

    def _volume(self, number: int) -> int:
        return math.prod(self.shapes[number])

    def _by_weight(self, bucket: ShardedBucket, loads: list[int]) -> None:
        """Give whole weights to the ranks that have least so far, the largest first."""
        owner: dict[int, int] = {}
        for i in sorted(bucket.members, key=self._volume, reverse=True):
            owner[i] = loads.index(min(loads))
            loads[owner[i]] += self._volume(i) * bucket.dtype.itemsize
        bucket.members.sort(key=owner.__getitem__)
        bucket.counts = tuple(
            [sum(self._volume(i) for i in bucket.members if owner[i] == rank) for rank in range(len(loads))]
        )

    def _cut(self, bucket: ShardedBucket) -> None:
        """Set the ranges of the members of a bucket."""
        ends = list(itertools.accumulate(bucket.counts, initial=0))
        start = 0
        for i in bucket.members:
            volume = self._volume(i)
            clipped = [min(max(end - start, 0), volume) for end in ends]
            self._ranges[i] = list(itertools.pairwise(clipped))
            start += volume


def _buckets(weights: Sequence[NDArray]) -> list[ShardedBucket]:
    """The weights from the last to the first, as backwards compute their gradients."""
    order = list(reversed(range(len(weights))))
    sizes = [(weights[i]._data.dtype, weights[i]._data.nbytes) for i in order]
    return [ShardedBucket(sizes[group[0]][0], [order[n] for n in group]) for group in grouped(sizes)]


def _mapped(state: Any, function: Callable[[NDArray], NDArray]) -> Any:
    """A state with a function applied to its arrays."""
    if isinstance(state, list | tuple):
        made = [_mapped(each, function) for each in cast("Sequence[Any]", state)]
        return tuple(made) if isinstance(state, tuple) else made
    return function(state) if isinstance(state, NDArray) else state

"""Gradients in buckets: contiguous memory that is summed over ranks while further gradients are still to come.

Gradients of one dtype lie one after the other in one array, the last parameter's first: backward computes them in this
order. Slices of that array are the buckets; the first is small, so that the summation starts early. A gradient array
may be a view of its bucket, and then nothing is copied.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hybridc.communication.communicator import Array, Begun, Collective, Communicator, begin, part_of
from hybridc.communication.compression import CompressedSum, Residuals, Rounding
from hybridc.ground.buffers import ALIGNMENT
from hybridc.ground.records import dataclass

# Bytes of the first bucket of a dtype, and of those after it; as in PyTorch's DistributedDataParallel.
FIRST_BYTES, BYTES = 1 << 20, 25 << 20

Kind = tuple[tuple[int, ...], Any]  # the shape and dtype of an array


@dataclass(frozen=True)
class Bucket:
    """Arrays that are summed together: their numbers in order, and the elements of the flat array of their dtype."""

    indices: tuple[int, ...]
    dtype: np.dtype[Any]
    start: int
    stop: int


@dataclass(frozen=True)
class BucketPlan:
    """Which arrays are in which buckets, in the order in which they are ready, and where each array begins.

    ``starts[i]`` is the first element of array ``i`` in the flat array of its dtype, which has ``sizes[dtype]``
    elements. Arrays begin at cache lines; the elements between are 0.
    """

    buckets: tuple[Bucket, ...]
    starts: tuple[int, ...]
    sizes: dict[np.dtype[Any], int]


def grouped(sizes: Sequence[tuple[Any, int]], first: int = FIRST_BYTES, others: int = BYTES) -> list[list[int]]:
    """The rule of all buckets: numbers of items, given as pairs of a kind and bytes, in groups of one kind.

    Items come in the order in which they are ready, groups in that of their last items. The first group of a kind has
    at most ``first`` bytes, the others ``others``; a larger item is one of its own.
    """
    groups: list[list[int]] = []
    open_: dict[Any, tuple[list[int], int, int]] = {}  # the group of a kind, its bytes and their limit
    for number, (kind, size) in enumerate(sizes):
        group, filled, limit = open_.get(kind, ([], 0, first))
        if group and filled + size > limit:
            group, filled, limit = [], 0, others
        if not group:
            groups.append(group)
        group.append(number)
        open_[kind] = group, filled + size, limit
    return sorted(groups, key=lambda group: group[-1])


def plan_buckets(kinds: Sequence[Kind], first_bytes: int = FIRST_BYTES, other_bytes: int = BYTES) -> BucketPlan:
    """Distribute arrays, the last one first, over buckets of at most so many bytes; a larger array has its own."""
    order = list(reversed(range(len(kinds))))
    dtypes = [np.dtype(dtype) for _, dtype in kinds]
    lines = [max(1, ALIGNMENT // dtype.itemsize) for dtype in dtypes]
    counts = [n * -(-math.prod(shape) // n) for n, (shape, _) in zip(lines, kinds, strict=True)]
    sizes = [(dtypes[i], counts[i] * dtypes[i].itemsize) for i in order]
    starts, ends = [0] * len(kinds), dict.fromkeys(dtypes, 0)
    buckets: list[Bucket] = []
    for group in grouped(sizes, first_bytes, other_bytes):
        members = [order[number] for number in group]
        dtype = dtypes[members[0]]
        begin = ends[dtype]
        for i in members:
            starts[i] = ends[dtype]
            ends[dtype] += counts[i]
        buckets.append(Bucket(tuple(members), dtype, begin, ends[dtype]))
    return BucketPlan(tuple(buckets), tuple(starts), ends)


class GradientBuckets:
    """Arrays of given shapes and dtypes whose sums over ranks are computed in buckets, in the same memory at each step.

    ``views[i]`` is array ``i``. :meth:`start` starts the buckets in order, each when ``fill`` has written its arrays,
    and :meth:`completed` awaits them in the same order. All ranks call the same. What compression leaves out goes into
    ``residuals`` under names that begin with ``name``. ``zeros(size, dtype)`` makes the flat arrays: on a device, if
    there is one for all.
    """

    def __init__(
        self,
        kinds: Sequence[Kind],
        ranks: Communicator,
        compression: Rounding | None = None,
        first_bytes: int = FIRST_BYTES,
        other_bytes: int = BYTES,
        residuals: Residuals | None = None,
        name: str = "",
        zeros: Callable[[int, np.dtype[Any]], Any] | None = None,
    ) -> None:
        self.kinds = [(tuple(shape), np.dtype(dtype)) for shape, dtype in kinds]
        self.plan = plan_buckets(self.kinds, first_bytes, other_bytes)
        self._ranks = ranks
        self._flat = {dtype: (zeros or _zeros)(size, dtype) for dtype, size in self.plan.sizes.items()}
        self.views = [
            part_of(self._flat[dtype], start, shape)
            for (shape, dtype), start in zip(self.kinds, self.plan.starts, strict=True)
        ]
        residuals = Residuals() if residuals is None else residuals
        self._reductions = [
            self._reduction(bucket, compression, residuals, f"{name} bucket {number}")
            for number, bucket in enumerate(self.plan.buckets)
        ]
        self._begun: list[tuple[Bucket, Begun]] = []

    def _reduction(
        self, bucket: Bucket, compression: Rounding | None, residuals: Residuals, name: str
    ) -> Callable[[], Begun]:
        """A function that starts the all-reduce of a bucket."""
        part = part_of(self._flat[bucket.dtype], bucket.start, (bucket.stop - bucket.start,))
        if compression is None or not compression.takes(bucket.dtype):
            return functools.partial(begin, self._ranks, part, Collective("allreduce"))
        rounded = residuals.add(name, CompressedSum(part.size, bucket.dtype, compression, self._ranks))
        return functools.partial(begin, self._ranks, part, lambda _ranks, array: rounded.allreduce(array))

    def start(self, fill: Callable[[int, Array], None] | None = None) -> None:
        """Start the sums: of each bucket after ``fill(i, views[i])`` for its arrays, while the next is filled."""
        self.finish()
        for bucket, reduction in zip(self.plan.buckets, self._reductions, strict=True):
            if fill is not None:
                for i in bucket.indices:
                    fill(i, self.views[i])
            self._begun.append((bucket, reduction()))

    def completed(self) -> Iterator[tuple[int, ...]]:
        """The numbers of the arrays of each bucket, when ``views`` has their sums."""
        while self._begun:
            bucket, begun = self._begun.pop(0)
            begun.wait()
            yield bucket.indices

    def finish(self) -> None:
        """Await all that was started."""
        for _ in self.completed():
            pass


def _zeros(size: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Zeros that begin at a cache line."""
    memory = np.zeros(size * dtype.itemsize + ALIGNMENT, np.uint8)
    begin = -memory.ctypes.data % ALIGNMENT
    return memory[begin : begin + size * dtype.itemsize].view(dtype)

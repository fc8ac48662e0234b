"""Samplers that MXNet keeps in contrib."""

from __future__ import annotations

from collections.abc import Iterator

from hybridc.errors import CheckError
from hybridc.gluon.data.sampler import Sampler

__all__ = ["IntervalSampler"]


class IntervalSampler(Sampler):
    """Every ``interval``-th index below ``length``; with ``rollover`` then those that were left out, likewise.

    ``IntervalSampler(7, 3)`` gives 0, 3, 6, 1, 4, 2, 5.
    """

    def __init__(self, length: int, interval: int, rollover: bool = True) -> None:
        if interval > length:
            raise CheckError(f"Interval {interval} must be smaller than or equal to length {length}")
        self._length = length
        self._interval = interval
        self._rollover = rollover

    def __iter__(self) -> Iterator[int]:
        for start in range(self._interval if self._rollover else 1):
            yield from range(start, self._length, self._interval)

    def __len__(self) -> int:
        # COMPAT(mxnet): without rollover it is the number of indices that it gives; there it is always length.
        return self._length if self._rollover else -(-self._length // self._interval)

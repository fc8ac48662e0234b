"""The key-value store of several ranks: each has all values, gradients are summed over all of them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hybridc.array.ndarray import NDArray, assign
from hybridc.communication import communicator
from hybridc.communication.agreement import require_equal
from hybridc.communication.communicator import labelled
from hybridc.ground.watches import written
from hybridc.kvstore.base import KVStoreBase
from hybridc.kvstore.kvstore import KVStore
from hybridc.kvstore.rank_sums import RankSums
from hybridc.optimizer import Updater
from hybridc.optimizer.plain_settings import scalars_of, settings_of

__all__ = ["DistributedKVStore"]

_NAMED = 8  # keys that an error names


@KVStoreBase.register
class DistributedKVStore(KVStore):
    """``create("dist_sync")`` and the like: all ranks make the store, and call its methods with the same keys in turn.

    ``init`` and ``broadcast`` give all ranks the value of rank 0. ``push`` sums arrays over the devices of each rank
    and over ranks. There is no server: an optimizer runs on each rank, with the same sums, so that values stay equal.
    Many keys in one call are summed in buckets; one call for each key works, and is slower.
    """

    def __init__(self, kind: str = "dist_sync") -> None:
        super().__init__(kind)
        self.rank_sums = RankSums(communicator(), kind)

    @property
    def rank(self) -> int:
        """The number of this rank, from 0."""
        return self.rank_sums.ranks.rank

    @property
    def num_workers(self) -> int:
        """How many ranks there are."""
        return self.rank_sums.ranks.size

    def init(self, key: Any, value: Any) -> None:
        """Keep copies of the values that rank 0 gives, under new keys."""
        pairs = list(self._pairs("init", key, value))
        self.rank_sums.check_devices(array for _, arrays in pairs for array in arrays)
        described = {str(k): f"{arrays[0].shape} {np.dtype(arrays[0].dtype)}" for k, arrays in pairs}
        require_equal("the values that init gets", described, self.rank_sums.ranks)
        super().init(key, value)
        broadcast_arrays([self._values[k] for k, _ in pairs], self.rank_sums)

    def push(self, key: Any, value: Any, priority: int = 0) -> None:
        """Give each key the sum of its arrays over devices and ranks: its value, or the gradient of an update of it."""
        groups = self._groups(key, value)
        keys = list(groups)
        stored = [self._value("push", each) for each in keys]
        for each, x in zip(keys, stored, strict=True):
            for array in groups[each]:
                self._check_shape("push", each, x, array)
        for indices, totals in self.rank_sums.totals(keys, list(groups.values()), self._pushed(keys)):
            moved = [totals[i].as_in_context(stored[i].context) for i in indices]
            with self._same_random(indices[0]):
                self._take([keys[i] for i in indices], moved, [stored[i] for i in indices])

    def _pushed(self, keys: Sequence[Any]) -> str:
        """A description of a push that is equal on all ranks."""
        named = ", ".join(map(str, keys[:_NAMED])) + (f" and {len(keys) - _NAMED} more" if len(keys) > _NAMED else "")
        updater = self._updater
        settings = f" with {scalars_of(updater.optimizer)}" if isinstance(updater, Updater) else ""
        return f"push of the keys {named} to kvstore {self.type!r}{settings}"

    def _same_random(self, place: int) -> contextlib.AbstractContextManager[None]:
        """Within the ``with`` block all ranks draw the same random numbers for their updates."""
        if not isinstance(self._updater, Updater):
            return contextlib.nullcontext()
        optimizer = self._updater.optimizer
        return self.rank_sums.same_random(optimizer, optimizer.num_update, place)

    def set_optimizer(self, optimizer: Any) -> None:
        """Let the optimizer update the values from now on, on each rank; all must give one with the same settings."""
        require_equal("the optimizer", settings_of(optimizer), self.rank_sums.ranks)
        super().set_optimizer(optimizer)

    def set_gradient_compression(self, compression_params: Mapping[str, Any]) -> None:
        """Round what goes to other ranks; what rounding leaves out is added to the next sum.

        Sums over the devices of a rank are not rounded.
        """
        self.rank_sums.compress(compression_params)

    def _barrier(self) -> None:
        """Wait for all ranks."""
        with labelled("KVStore.barrier"):
            self.rank_sums.ranks.barrier()


def broadcast_arrays(arrays: Sequence[NDArray], sums: RankSums) -> None:
    """Give arrays the values that they have on rank 0."""
    sums.check_devices(arrays)
    if sums.ranks.size == 1:
        return
    with labelled("broadcast of parameters"):
        _broadcast(arrays, sums)


def _broadcast(arrays: Sequence[NDArray], sums: RankSums) -> None:
    for array in arrays:
        if not array.size:
            continue
        data = array._data
        if array.stype != "default":
            array._data = sums.ranks.broadcast_object(data)
            continue
        if type(data) is np.ndarray and data.flags.c_contiguous and data.flags.writeable:
            sums.ranks.broadcast(data)
            written(data)
            continue
        values = np.ascontiguousarray(array.asnumpy())
        sums.ranks.broadcast(values)
        assign(NDArray(values), array)

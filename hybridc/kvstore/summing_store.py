"""Stores under the names of MXNet's plugins for other libraries: they sum and copy over ranks, and keep nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hybridc.array.ndarray import NDArray, assign
from hybridc.communication import communicator
from hybridc.kvstore.base import KVStoreBase, check_capability, listed
from hybridc.kvstore.distributed import broadcast_arrays
from hybridc.kvstore.rank_sums import RankSums

__all__ = ["BytePS", "Horovod"]


@KVStoreBase.register
class Horovod(KVStoreBase):
    """``create("horovod")``: ``broadcast`` and ``pushpull`` over ranks; the optimizer runs outside.

    It is the communication of ``"dist_sync"``; the library Horovod is not used.
    """

    def __init__(self) -> None:
        self.rank_sums = RankSums(communicator())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.type!r})"

    @property
    def type(self) -> str:
        """The name of this kind of store."""
        return type(self).__name__.lower()

    @property
    def rank(self) -> int:
        """The number of this rank, from 0."""
        return self.rank_sums.ranks.rank

    @property
    def local_rank(self) -> int:
        """The number of this rank among those on this machine."""
        return self.rank_sums.ranks.local_rank

    @property
    def num_workers(self) -> int:
        """How many ranks there are."""
        return self.rank_sums.ranks.size

    def is_capable(self, capability: str) -> bool:
        """False for the ``capability`` "optimizer"; a ValueError for others."""
        check_capability(capability)
        return False

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        """Copy the ``value`` that rank 0 has into the arrays of ``out``, whatever ``key`` and ``priority`` are."""
        sent = value.detach().copy()
        broadcast_arrays([sent], self.rank_sums)
        for each in listed(out):
            assign(sent, each)

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """Write the sums over devices and ranks into ``out``, or into ``value`` if that is None.

        ``key`` may be a list, and the others lists of as many; their sums go in buckets, whatever ``priority`` is.
        """
        many = isinstance(key, list | tuple)
        keys: list[Any] = list(key) if many else [key]  # pyright: ignore[reportUnknownArgumentType]
        values, outs = (value, out) if many else ([value], None if out is None else [out])
        groups: list[list[NDArray]] = [listed(each) for each in values]
        targets = groups if outs is None else [listed(each) for each in outs]
        call = f"pushpull of {len(keys)} keys to kvstore {self.type!r}"
        for indices, totals in self.rank_sums.totals(keys, groups, call):
            for i in indices:
                for each in targets[i]:
                    assign(totals[i], each)

    def set_gradient_compression(self, compression_params: Mapping[str, Any]) -> None:
        """As of :class:`DistributedKVStore`, with its ``compression_params``."""
        self.rank_sums.compress(compression_params)


@KVStoreBase.register
class BytePS(Horovod):
    """``create("byteps")``: the same under the name of another of MXNet's plugins."""

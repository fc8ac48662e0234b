"""What collectives cost on a cluster: seconds of each algorithm by its messages, and the cheapest.

A message of n bytes takes ``latency + n / bandwidth``; adding n bytes to others takes ``n / summing``. Every rank sends
and receives at once, and no two messages share a link (a full-bisection network).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

from hybridc.communication.communicator import summed_at_once
from hybridc.errors import AttributeValueError
from hybridc.ground.records import dataclass


@dataclass(frozen=True)
class Network:
    """Links of one kind: bytes per second of payload in each direction, and seconds that an empty message takes."""

    bandwidth: float
    latency: float

    def message(self, size: float) -> float:
        """Seconds of one message of ``size`` bytes."""
        return self.latency + size / self.bandwidth


@dataclass(frozen=True)
class LinkedRanks:
    """Ranks with a link each: the costs of their collectives by algorithm; ``summing`` is bytes added per second."""

    ranks: int
    network: Network
    summing: float

    @property
    def _doublings(self) -> int:
        return int(math.log2(self.ranks))

    def _folded(self, size: float, exchanged: float) -> float:
        """``exchanged`` seconds of an algorithm for 2^k ranks; the others send to a partner before, and get after."""
        if self.ranks == 1 << self._doublings:
            return exchanged
        return exchanged + 2 * self.network.message(size) + size / self.summing

    def ring(self, size: float) -> float:
        """2 (p - 1) messages of n / p bytes, half of which are added."""
        part = size / self.ranks
        return (self.ranks - 1) * (2 * self.network.message(part) + part / self.summing)

    def halving(self, size: float) -> float:
        """Recursive halving and doubling: the bytes of the ring in 2 log2 p messages."""
        p = 1 << self._doublings
        moved = size * (p - 1) / p
        seconds = 2 * (self._doublings * self.network.latency + moved / self.network.bandwidth) + moved / self.summing
        return self._folded(size, seconds)

    def doubling(self, size: float) -> float:
        """Recursive doubling: log2 p messages of n bytes, all of which are added."""
        return self._folded(size, self._doublings * (self.network.message(size) + size / self.summing))

    def scatter_ring(self, size: float) -> float:
        """Reduce-scatter of n bytes on a ring: p - 1 messages of n / p bytes, which are added."""
        part = size / self.ranks
        return (self.ranks - 1) * (self.network.message(part) + part / self.summing)

    def gather_ring(self, size: float) -> float:
        """All-gather of n bytes on a ring: p - 1 messages of n / p bytes."""
        return (self.ranks - 1) * self.network.message(size / self.ranks)

    def scatter_halving(self, size: float) -> float:
        """Reduce-scatter of n bytes by recursive halving: log2 p messages of n / 2, n / 4, ... bytes."""
        p = 1 << self._doublings
        moved = size * (p - 1) / p
        seconds = self._doublings * self.network.latency + moved / self.network.bandwidth + moved / self.summing
        # The ranks over 2^k send all to a partner before, and get their part after.
        extra = self.network.message(size) + size / self.summing + self.network.message(size / self.ranks)
        return seconds if p == self.ranks else seconds + extra

    def gather_halving(self, size: float) -> float:
        """All-gather of n bytes by recursive doubling: log2 p messages of n / p, 2 n / p, ... bytes."""
        p = 1 << self._doublings
        seconds = self._doublings * self.network.latency + size * (p - 1) / p / self.network.bandwidth
        extra = self.network.message(size / self.ranks) + self.network.message(size)
        return seconds if p == self.ranks else seconds + extra


# The algorithms by name: all-reduce, reduce-scatter, all-gather. Recursive doubling has no parts to scatter.
ALGORITHMS: dict[str, tuple[Callable[[LinkedRanks, float], float], ...]] = {
    "ring": (LinkedRanks.ring, LinkedRanks.scatter_ring, LinkedRanks.gather_ring),
    "halving": (LinkedRanks.halving, LinkedRanks.scatter_halving, LinkedRanks.gather_halving),
    "doubling": (LinkedRanks.doubling,),
}
_ALL_REDUCE, _REDUCE_SCATTER, _ALL_GATHER = range(3)  # in the values above


@dataclass(frozen=True)
class Cluster:
    """Machines of ``per_machine`` ranks each, joined by ``network`` with one link per machine.

    With several ranks per machine a collective is hierarchical: reduce-scatter in each machine over ``local``, among
    the machines for each part, all-gather in each machine. ``algorithms`` are those of which the cheapest is taken.
    """

    ranks: int
    network: Network
    local: Network
    summing: float
    per_machine: int = 1
    algorithms: tuple[str, ...] = tuple(ALGORITHMS)

    def __post_init__(self) -> None:
        if self.per_machine < 1 or self.ranks < 1:
            text = f"ranks and ranks per machine must be at least 1, got {self.ranks} and {self.per_machine}"
            raise AttributeValueError(text)
        if self.ranks > self.per_machine and self.ranks % self.per_machine:
            raise AttributeValueError(f"{self.ranks} ranks are no whole machines of {self.per_machine} ranks each")
        if unknown := [name for name in self.algorithms if name not in ALGORITHMS]:
            raise AttributeValueError(f"algorithm must be one of {', '.join(ALGORITHMS)}, got {', '.join(unknown)}")
        if not any(len(ALGORITHMS[name]) > 1 for name in self.algorithms):
            raise AttributeValueError("algorithms must include ring or halving, by which sharded sums are made")

    def with_ranks(self, ranks: int) -> Cluster:
        """The same with another number of ranks."""
        return dataclasses.replace(self, ranks=ranks)

    def all_reduce(self, size: float) -> tuple[float, str]:
        """Seconds of an all-reduce of ``size`` bytes, and the algorithm among machines."""
        inside, among = self._groups()
        part = size / inside.ranks
        pieces = math.ceil(part / summed_at_once(among.ranks)) or 1
        local = self._cheapest(inside, _REDUCE_SCATTER, size)[0] + self._cheapest(inside, _ALL_GATHER, size)[0]
        seconds, name = self._cheapest(self._shared(among, inside.ranks), _ALL_REDUCE, part / pieces)
        return local + pieces * seconds, name

    def reduce_scatter(self, size: float) -> tuple[float, str]:
        """Seconds of a reduce-scatter of ``size`` bytes, and the algorithm among machines."""
        return self._scattered(_REDUCE_SCATTER, size)

    def all_gather(self, size: float) -> tuple[float, str]:
        """Seconds of an all-gather to ``size`` bytes, and the algorithm among machines."""
        return self._scattered(_ALL_GATHER, size)

    def _scattered(self, collective: int, size: float) -> tuple[float, str]:
        inside, among = self._groups()
        local = self._cheapest(inside, collective, size)[0]
        seconds, name = self._cheapest(self._shared(among, inside.ranks), collective, size / inside.ranks)
        return local + seconds, name

    def _groups(self) -> tuple[LinkedRanks, LinkedRanks]:
        """The ranks of a machine, and those of all machines that have the same part."""
        inside = min(self.per_machine, self.ranks)
        return (
            LinkedRanks(inside, self.local, self.summing),
            LinkedRanks(self.ranks // inside, self.network, self.summing),
        )

    @staticmethod
    def _shared(group: LinkedRanks, count: int) -> LinkedRanks:
        """A group that shares its links with others like it, ``count`` in all."""
        network = dataclasses.replace(group.network, bandwidth=group.network.bandwidth / count)
        return dataclasses.replace(group, network=network)

    def _cheapest(self, group: LinkedRanks, collective: int, size: float) -> tuple[float, str]:
        costs = [ALGORITHMS[name] for name in self.algorithms]
        return min(
            (cost[collective](group, size), name)
            for name, cost in zip(self.algorithms, costs, strict=True)
            if len(cost) > collective
        )

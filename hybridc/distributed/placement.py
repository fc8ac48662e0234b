"""Which rank writes what: what is equal on all ranks is written once, the rest by each.

Parameters and states of optimizers are equal on all ranks, as a rule. Running statistics are not, nor are parameters
between two synchronisations of local SGD, and a sharded optimizer has each state on one rank only. So the ranks compare
what they have.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from hybridc.communication import Communicator
from hybridc.ground.records import dataclass

Array = npt.NDArray[Any]

_MOST = np.iinfo(np.uint64).max
_WORD = 8  # bytes of a digest
# An odd number with its ones spread evenly, the golden ratio times 2^64: by it the digests of several arrays are mixed.
_MIX = 0x9E3779B97F4A7C15


@dataclass
class StateItem:
    """Something of the training that may be equal on all ranks: a description in JSON, and its arrays."""

    value: Any
    arrays: list[Array]

    @property
    def nbytes(self) -> int:
        """The bytes of the arrays."""
        return sum(array.nbytes for array in self.arrays)


def placed_items(ranks: Communicator, items: Mapping[str, StateItem]) -> dict[str, bool]:
    """The items that this rank writes, and of each whether all ranks that have it have the same.

    What is the same is spread over the ranks, so that they write about as many bytes each. All ranks call this.
    """
    if ranks.size == 1:
        return dict.fromkeys(items, True)
    keys = _all_keys(ranks, items)
    least = np.full((3, len(keys)), _MOST, np.uint64)  # digest, the first rank that has it, whether all have
    most = np.zeros((2, len(keys)), np.uint64)  # digest, bytes
    for i, key in enumerate(keys):
        item = items.get(key)
        if item is None:
            least[2, i] = 0
        else:
            least[:, i] = (digest := digest_of(item.arrays)), ranks.rank, 1
            most[:, i] = digest, item.nbytes
    ranks.allreduce(least, "min")
    ranks.allreduce(most, "max")
    mine: dict[str, bool] = {}
    loads = [(0, rank) for rank in range(ranks.size)]
    for i in sorted(range(len(keys)), key=lambda i: (-int(most[1, i]), i)):
        if least[0, i] != most[0, i]:
            if keys[i] in items:
                mine[keys[i]] = False
            continue
        writer = int(least[1, i])
        if least[2, i]:
            load, writer = loads[0]
            heapq.heapreplace(loads, (load + int(most[1, i]), writer))
        if writer == ranks.rank:
            mine[keys[i]] = True
    return mine


def _all_keys(ranks: Communicator, items: Mapping[str, StateItem]) -> list[str]:
    """The keys of all ranks, in the same order on each."""
    first = ranks.broadcast_object([*items])
    known = {*first}
    others = ranks.gather_objects([key for key in items if key not in known])
    return [*first, *dict.fromkeys(key for each in others for key in each)]


def digest_of(arrays: list[Array]) -> int:
    """64 bits by which ranks see that they have the same values; as fast as memory is read."""
    digest = len(arrays)
    for array in arrays:
        kind = hashlib.sha256(f"{array.dtype} {array.shape}".encode()).digest()[:_WORD]
        digest = digest * _MIX + int.from_bytes(kind, "little")
        raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        whole = raw.size // _WORD * _WORD
        words = raw[:whole].view(np.uint64)
        total = int(np.add.reduce(words, dtype=np.uint64)) + int.from_bytes(raw[whole:].tobytes(), "little")
        mixed = int(np.bitwise_xor.reduce(words)) if words.size else 0
        digest = (digest * _MIX + total + mixed * 3) & int(_MOST)
    return digest

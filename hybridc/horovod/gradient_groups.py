"""How gradients are divided and grouped, for DistributedTrainer and DistributedOptimizer."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TypeVar

from hybridc.horovod.rank_sets import ProcessSet

T = TypeVar("T")


def takes_part(process_set: ProcessSet) -> bool:
    """Whether this rank has others to share gradients with."""
    return process_set.size() > 1 and process_set.included()


def positive(factor: float) -> float:
    """The predivide factor, which must be positive."""
    if not factor > 0:
        raise ValueError(f"gradient_predivide_factor must be positive, got {factor!r}")
    return float(factor)


def split_list(items: Sequence[T], count: int) -> list[list[T]]:
    """At most ``count`` lists of adjacent items, as even as they come out."""
    size, rest = divmod(len(items), count)
    ends = [number * size + min(number, rest) for number in range(count + 1)]
    return [list(items[a:b]) for a, b in itertools.pairwise(ends) if b > a]

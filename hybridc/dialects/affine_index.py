"""Affine indices: how a loop nest walks along a dimension of an array."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple


class AffineIndex(NamedTuple):
    """An affine index: the sum of loops, or of axes, times factors, and an offset."""

    terms: tuple[tuple[int, int], ...]
    offset: int = 0

    def renamed(self, names: Callable[[int], int]) -> AffineIndex:
        """The same with renumbered loops."""
        return AffineIndex(tuple((names(i), factor) for i, factor in self.terms), self.offset)

    def ends(self, sizes: Sequence[int] | Mapping[int, int]) -> tuple[int, int]:
        """The least and the greatest index, given the loops' trip counts."""
        low = self.offset + sum(factor * (sizes[i] - 1) for i, factor in self.terms if factor < 0)
        return low, self.offset + sum(factor * (sizes[i] - 1) for i, factor in self.terms if factor > 0)


Place = int | AffineIndex  # the index along a dimension: a loop, or an affine sum

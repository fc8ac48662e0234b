"""A tile of a product in registers: some rows by as many columns as two registers hold.

A row of a *panel*, the part of the right matrix with these columns, times one number of each row of the left matrix is
added to the tile, term after term.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import AnyFloat, f32, f64
from xdsl.ir import SSAValue

from hybridc.dialects.attribute import DType
from hybridc.lower.llvm.gemm_phase import Arguments, Index
from hybridc.lower.llvm.gemm_vectors import Registers, Vectors

# Registers side by side in a tile.
ABREAST = 2
# Rows of a low tile: as many sums as a processor adds to before the first of them is there again.
LOW = 4


@dataclass(frozen=True)
class Form:
    """What the code of tiles depends on."""

    dtype: DType
    vectors: Registers

    @property
    def key(self) -> str:
        """The form as a part of a function's key."""
        return f"{self.dtype.name} {self.vectors}"

    @property
    def element(self) -> AnyFloat:
        """The type of an element."""
        return f32 if self.dtype.itemsize == 4 else f64

    @property
    def lanes(self) -> int:
        """Elements of a register."""
        return self.vectors.lanes(self.dtype)

    @property
    def width(self) -> int:
        """Columns of a panel."""
        return ABREAST * self.lanes

    @property
    def heights(self) -> tuple[int, int]:
        """Rows of tiles: as many as leave registers for a row of the panel and a number; fewer for the last rows."""
        return (self.vectors.count - ABREAST - 2) // ABREAST // 6 * 6, LOW

    def rows_of_high_tiles(self, count: Index) -> Index:
        """How many of so many rows are in high tiles. One or two that are left are in low ones with those before."""
        high, low = self.heights
        tiles, left = count // high, count % high
        if high < 2 * low:
            few = left.least(1) - (left + high - low + 1) // high  # 1 for one or two rows
            tiles = (tiles - few).most(0)
        return tiles * high


@dataclass(frozen=True)
class Panel:
    """Where a panel lies: from ``start`` of an array, its rows ``step`` elements from each other."""

    array: SSAValue
    start: Index
    step: Index | int


@dataclass(frozen=True)
class Tiles:
    """Writes the sums of tiles of so many ``rows`` and ``terms``."""

    given: Arguments
    v: Vectors
    rows: int
    terms: Index

    def sums(self, left: SSAValue, numbers: Callable[[Index], Sequence[Index]], panel: Panel) -> list[SSAValue]:
        """The registers of a tile, row by row: ``numbers`` says where each row of the left matrix has a term."""

        def term(i: Index, sums: Sequence[SSAValue]) -> list[SSAValue]:
            at = panel.start + i * panel.step
            right = [self.v.load(panel.array, at + j * self.v.lanes) for j in range(ABREAST)]
            places = numbers(i)
            found: list[SSAValue] = []
            for number, place in enumerate(places):
                x = self.v.everywhere(self.given.b.load(left, place.value))
                found += [self.v.fma(x, right[j], sums[ABREAST * number + j]) for j in range(ABREAST)]
            return found

        return self.given.loop(0, self.terms, term, starts=[self.v.zero] * (ABREAST * self.rows))

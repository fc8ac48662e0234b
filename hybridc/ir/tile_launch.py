"""Launches of tile programs by a machine whose programs work on whole tiles, and that machine."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from hybridc.ir.tile_program import TileProgram

DType = np.dtype[Any]

# Offsets below this fit into 32 bits.
NARROW = 1 << 31


@dataclass(frozen=True)
class TileMachine:
    """A processor on which many programs run at a time, each on tiles that its warps hold in registers.

    The figures are an H100's; what was measured there is said beside it.
    """

    processors: int = 132
    vector: int = 16  # elements: arrays whose sizes are multiples of it are moved by whole vectors
    warp_elements: int = 256  # that one warp works on at a time
    warps: int = 16  # of a program, at most: not every GPU runs 32
    elements: int = 1024  # of each value that a program holds: of elementwise ops
    row_elements: int = 2048  # of rows, and of blocks that are reduced
    longest_row: int = 1 << 15  # elements of a row that a program holds: of twice as many registers spill
    held: int = 3 << 16  # bytes of all such rows at a time: three quarters of a processor's registers
    side: int = 32  # of a tile of which some values follow memory along one side, some along the other
    columns: int = 64  # that a block has if it is reduced across memory: what two rows of a cache's lines hold
    rows: int = 4  # that a block has if it is reduced along memory
    few_rows: int = 32  # so few, if they are longer than ``long_row``, do not keep a GPU busy with one program each
    long_row: int = 4096
    piece_blocks: int = 4  # of a piece, at least: fewer would take as long to begin and to combine
    pieces: int = 256  # of a reduction, at most: one block holds all of their results
    combined: int = 4096  # elements of such a block, at most

    @property
    def programs(self) -> int:
        """Programs that keep all processors busy: each runs a few, to wait for memory by turns."""
        return 4 * self.processors

    def warps_for(self, elements: int) -> int:
        """The warps that work on a tile of so many elements."""
        return min(self.warps, max(1, power_of_two(elements // self.warp_elements)))

    def warps_to_hold(self, elements: int) -> tuple[int, ...]:
        """The numbers of warps for a block of rows, the best first.

        Of more than 32 elements for each thread registers spill.
        """
        warps = self.warps_for(elements)
        return (warps,) if elements <= 32 * 32 * warps else (2 * warps, warps)


@dataclass(frozen=True)
class TileConfig:
    """One way to launch a tile program: how large its blocks are, by their parameters, and the warps of a program."""

    blocks: tuple[tuple[str, int], ...]
    warps: int


@dataclass(frozen=True, eq=False)
class TileLaunch:
    """A tile program with what it is given.

    ``buffers`` are the kernel's names of what the program's buffers are: ``x`` and a number for an argument, ``y`` for
    a result, ``w`` for local memory; ``dtypes`` are theirs. ``sizes`` are those of its axes, ``piece`` is how many
    elements along the dimension that is walked in pieces each has. Of ``configs``, at most four, the first is expected
    to be the fastest. Offsets are ``wide`` if they need 64 bits.
    """

    what: str
    program: TileProgram
    buffers: tuple[str, ...]
    dtypes: tuple[DType, ...]
    sizes: tuple[int, ...]
    configs: tuple[TileConfig, ...]
    piece: int | None = None
    wide: bool = False

    def extent(self, axes: tuple[int, ...]) -> int:
        """How many elements axes have."""
        return math.prod(self.sizes[a] for a in axes)

    @property
    def pieces(self) -> int:
        """How many programs share a dimension that is walked in pieces."""
        assert self.piece is not None
        (walked,) = (tile.axes for tile in self.program.tiles if tile.walk == "piece")
        return max(1, -(-self.extent(walked) // self.piece))


def power_of_two(n: int) -> int:
    """The least power of two that is not less: what blocks are as large as."""
    return 1 << max(0, n - 1).bit_length()

"""Launches of tile programs whose statements are about whole tiles."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from hybridc.ir.tile_program import TileProgram

DType = np.dtype[Any]


@dataclass(frozen=True)
class TileConfig:
    """One way to launch a tile program: how large its blocks are, by their parameters, and the warps of a program.

    ``stages`` of loops overlap; ``shared`` are the bytes of shared memory that this is expected to take, if that is
    much.
    """

    blocks: tuple[tuple[str, int], ...]
    warps: int
    stages: int = 2
    shared: int = 0


@dataclass(frozen=True, eq=False)
class TileLaunch:
    """A tile program with what it is given.

    ``buffers`` are the kernel's names of what the program's buffers are: ``x`` and a number for an argument, ``y`` for
    a result, ``w`` for local memory; ``dtypes`` are theirs. ``sizes`` are those of its axes, ``piece`` is how many
    elements along the dimension that is walked in pieces each has. Of ``configs``, at most four, the first is expected
    to be the fastest. Offsets are ``wide`` if they need 64 bits. ``suffix`` ends the name of one of several functions.
    """

    what: str
    program: TileProgram
    buffers: tuple[str, ...]
    dtypes: tuple[DType, ...]
    sizes: tuple[int, ...]
    configs: tuple[TileConfig, ...]
    piece: int | None = None
    wide: bool = False
    suffix: str = ""

    def extent(self, axes: tuple[int, ...]) -> int:
        """How many elements axes have."""
        return math.prod(self.sizes[a] for a in axes)

    @property
    def pieces(self) -> int:
        """How many programs share a dimension that is walked in pieces."""
        assert self.piece is not None
        (walked,) = (tile.axes for tile in self.program.tiles if tile.walk == "piece")
        return max(1, -(-self.extent(walked) // self.piece))

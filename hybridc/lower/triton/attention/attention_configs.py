"""How programs share an attention: blocks of rows and keys, warps, stages of loads in flight."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hybridc.ground.machine import GPU
from hybridc.ir.attention.attention_kernel import Attention
from hybridc.ir.structured import dtype_of
from hybridc.transforms.kernels.tile_machine import power_of_two

# The least size of a block that tensor cores multiply.
_LEAST = 16


@dataclass(frozen=True)
class AttentionTile:
    """A config: the rows and the keys of a block. A program has one of the two, and reads the other in steps."""

    rows: int
    keys: int
    warps: int
    stages: int


def _tiles(text: str) -> list[AttentionTile]:
    return [AttentionTile(*map(int, each.split("x"))) for each in text.split()]


# Rows x keys x warps x stages, by the bytes of what is multiplied, and of the longest row. Of a backward the first
# config of each spills on no GPU.
TILES = {
    2: {
        128: _tiles("128x64x4x3 64x64x4x3 128x128x8x3 32x64x4x3 16x64x4x3"),
        256: _tiles("128x64x8x3 64x64x4x3 128x128x8x2 32x64x4x3 16x64x4x3"),
        512: _tiles("64x32x8x2 32x32x4x2 16x32x4x2"),
    },
    4: {
        256: _tiles("64x64x8x2 64x32x4x2 32x64x8x2 32x32x4x2 16x32x4x2"),
        512: _tiles("64x32x8x2 32x32x4x2 16x32x4x2"),
    },
    8: {512: _tiles("32x16x8x2 16x16x4x2")},
}
BACKWARD_BY_ROWS = {
    2: {
        128: _tiles("128x64x8x3 64x64x4x2 128x32x4x3 32x64x4x3 16x64x4x3"),
        256: _tiles("128x32x8x2 128x64x8x2 64x64x4x2 32x32x4x2 16x32x4x2"),
        512: _tiles("64x32x8x2 32x32x8x2 16x32x4x2"),
    },
    4: {256: _tiles("64x32x8x2 32x32x4x2 16x32x4x2"), 512: _tiles("32x32x8x2 16x32x4x2 16x16x4x2")},
    8: {512: _tiles("16x16x4x1")},
}
BACKWARD_BY_KEYS = {
    2: {
        128: _tiles("32x128x8x2 64x128x8x3 64x64x4x3 32x64x4x3 32x16x4x3"),
        256: _tiles("32x64x8x2 64x128x8x2 64x64x8x2 32x32x4x2 32x16x4x2"),
        512: _tiles("32x32x8x2 16x64x8x2 32x16x4x2"),
    },
    4: {256: _tiles("32x64x8x2 32x32x8x2 32x16x4x2"), 512: _tiles("32x32x8x2 16x32x8x2 32x16x8x2")},
    8: {512: _tiles("16x16x4x1")},
}


def choice(
    attention: Attention, tables: Mapping[int, Mapping[int, Sequence[AttentionTile]]], by_rows: bool
) -> Sequence[AttentionTile]:
    """At most four configs, the one expected to be fastest first: large blocks, unless too few programs are left.

    All of them do without masks where the first does.
    """
    fitting = [tiles for most, tiles in tables[attention.itemsize].items() if attention.row <= most]
    if not fitting:
        return ()
    m, n = attention.extent(attention.rows), attention.extent(attention.keys)
    found = [AttentionTile(min(t.rows, padded(m)), min(t.keys, padded(n)), t.warps, t.stages) for t in fitting[0]]
    found = [t for t in found if shared_bytes(attention, t, by_rows) <= GPU.shared] or found[-1:]
    programs = {t: attention.extent(attention.batch) * math.ceil(m / t.rows if by_rows else n / t.keys) for t in found}
    order = sorted(programs, key=lambda t: -min(GPU.multiprocessors, programs[t]))
    first, whole_rows = order[0], attention.softmax is not None  # rows of an attention are masked in the end only
    fits = [t for t in order if n % first.keys or not n % t.keys]
    return [t for t in fits if whole_rows or m % first.rows or not m % t.rows][:4]


def shared_bytes(attention: Attention, tile: AttentionTile, by_rows: bool) -> int:
    """Bytes of shared memory: what a program has, and, for each stage, what it walks, and arrays that follow both."""
    terms = sum(padded(c.width) * c.dtype.itemsize for c in attention.given)
    walked = terms
    if attention.softmax is not None:
        walked += sum(padded(c.width) * c.dtype.itemsize for c in attention.made)
    reads = {r.value: r.axes for s in attention.middle.ops for r in s.reads if r.value in attention.kernel.arguments}
    both = {*attention.rows}, {*attention.keys}
    beside = sum(dtype_of(v).itemsize for v, axes in reads.items() if all(side & {*axes} for side in both))
    own, other = (tile.rows, tile.keys) if by_rows else (tile.keys, tile.rows)
    return own * terms + tile.stages * other * (walked + own * beside)


def padded(n: int) -> int:
    """The least power of two that is not less, of a block's size."""
    return max(_LEAST, power_of_two(n))

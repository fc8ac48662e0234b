"""The code of attention and its backward: how large tiles are, and how many warps and stages they take."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from hybridc.ground.machine import GPU
from hybridc.ground.records import dataclass
from hybridc.ir.attention import Attention, attention_of
from hybridc.ir.kernels.kernel import Kernel
from hybridc.ir.tiles.block_code import BlockCode
from hybridc.ir.tiles.tile_program import TileConfig
from hybridc.transforms.schedules.blocks.kernel_memory import Strides
from hybridc.transforms.schedules.blocks.schedule_attention import schedule_attention
from hybridc.transforms.schedules.blocks.tile_machine import multiplied_side


@dataclass(frozen=True)
class AttentionTile:
    """A config: the rows and the keys of a block. A program has one of the two, and reads the other in steps."""

    rows: int
    keys: int
    warps: int
    stages: int


def _tiles(text: str) -> list[AttentionTile]:
    return [AttentionTile(*map(int, tile.split("x"))) for tile in text.split()]


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


def code_of_attention(
    kernel: Kernel, strides: Mapping[int, Strides], tiles: Sequence[AttentionTile] = ()
) -> BlockCode | None:
    """The launch of a kernel that is an attention, or the two of its backward.

    None if it is neither, or its rows are too long for a program. ``strides``, in elements, are those of arguments,
    then results, that may be no plain arrays. ``tiles`` are, if given, how programs share the work of each launch,
    instead of what is expected to be fastest.
    """
    attention = attention_of(kernel)
    if attention is None:
        return None
    tables = (TILES,) if attention.softmax is not None else (BACKWARD_BY_ROWS, BACKWARD_BY_KEYS)
    configs: list[list[TileConfig]] = []
    for i, table in enumerate(tables):
        configs.append([])
        for tile in tiles or choice(attention, table, i == 0):
            shared = 0 if attention.softmax is not None else shared_bytes(attention, tile, i == 0)
            configs[-1].append(TileConfig((("bm", tile.rows), ("bk", tile.keys)), tile.warps, tile.stages, shared))
    if not all(configs):
        return None
    launches, memory = schedule_attention(attention, strides, configs)
    return memory.code(launches)


def choice(
    attention: Attention, table: Mapping[int, Mapping[int, Sequence[AttentionTile]]], by_rows: bool
) -> Sequence[AttentionTile]:
    """At most four configs, the one expected to be fastest first: large blocks, unless too few programs are left.

    All of them do without masks where the first does.
    """
    fitting = next((tiles for most, tiles in table[attention.itemsize].items() if attention.row <= most), ())
    m, n = attention.extent(attention.rows), attention.extent(attention.keys)
    most = multiplied_side(m), multiplied_side(n)
    candidates = [replace(t, rows=min(t.rows, most[0]), keys=min(t.keys, most[1])) for t in fitting]
    candidates = [t for t in candidates if shared_bytes(attention, t, by_rows) <= GPU.shared] or candidates[-1:]
    batch = attention.extent(attention.batch)
    programs = {t: batch * math.ceil(m / t.rows if by_rows else n / t.keys) for t in candidates}
    order = sorted(programs, key=lambda t: -min(GPU.multiprocessors, programs[t]))
    whole_rows = attention.softmax is not None  # rows of an attention are masked in the end only
    fits = [t for t in order if n % order[0].keys or not n % t.keys]
    return [t for t in fits if whole_rows or m % order[0].rows or not m % t.rows][:4]


def shared_bytes(attention: Attention, tile: AttentionTile, by_rows: bool) -> int:
    """Bytes of shared memory: what a program has, and, for each stage, what it walks, and arrays that follow both."""
    terms = sum(multiplied_side(c.width) * c.dtype.itemsize for c in attention.producers)
    walked = terms
    if attention.softmax is not None:
        walked += sum(multiplied_side(c.width) * c.dtype.itemsize for c in attention.consumers)
    reads = {r.value: r.axes for s in attention.middle.ops for r in s.reads if r.value in attention.kernel.arguments}
    both = {*attention.rows}, {*attention.keys}
    beside = sum(v.dtype.itemsize for v, axes in reads.items() if all(side & {*axes} for side in both))
    own, other = (tile.rows, tile.keys) if by_rows else (tile.keys, tile.rows)
    return own * terms + tile.stages * other * (walked + own * beside)

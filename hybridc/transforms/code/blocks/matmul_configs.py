"""The tile sizes of a matmul: at most four configs, the one expected to be the fastest first.

A program computes a block of ``m`` x ``n`` elements in steps of ``k`` terms. Its time is that of the slowest of
multiplying, reading both operands, and waiting for what is read, which stages and other programs on the same
multiprocessor hide, by the figures of :mod:`hybridc.ground.machine`.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

from hybridc.dialects.operator_attribute import DType
from hybridc.ground.machine import GPU
from hybridc.ground.records import dataclass
from hybridc.transforms.schedules.blocks.tile_machine import power_of_two

# Elements of a block that keep a multiprocessor's units busy; smaller tile read more for each multiplication.
FULL = {2: 128 * 128, 4: 128 * 128, 8: 64 * 64}
MOST, PARTS = 4, (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
NARROW_TERMS = 32


@dataclass(frozen=True)
class MatmulTile:
    """One config: a program's rows, columns and terms at a time; ``group`` rows of tile run together."""

    m: int
    n: int
    k: int
    warps: int
    stages: int
    group: int = 8

    def shared(self, size: int) -> int:
        """The bytes of operands, whose elements have so many, that are in flight."""
        return self.stages * (self.m + self.n) * self.k * size


def _tiles(text: str) -> tuple[MatmulTile, ...]:
    """Tiles, each followed by the one with rows for columns."""
    tiles = (MatmulTile(*map(int, sizes.split("x"))) for sizes in text.split())
    return tuple(dict.fromkeys(t for tile in tiles for t in (tile, replace(tile, m=tile.n, n=tile.m))))


# Rows x columns x terms x warps x stages, by the bytes of what is multiplied. More elements for each warp would spill.
CANDIDATES: dict[int, tuple[MatmulTile, ...]] = {
    2: _tiles(
        "128x256x64x8x3 128x128x64x8x4 128x128x32x4x4 128x64x64x4x4 64x64x64x4x4 32x128x64x4x4 32x64x64x4x4 "
        "16x128x64x4x4 16x64x128x4x4 32x32x64x4x4 16x32x128x2x4 16x16x128x2x4"
    ),
    4: _tiles(
        "128x128x16x8x3 128x64x16x8x3 64x64x16x4x4 64x64x32x8x3 32x64x32x4x4 32x32x32x4x4 16x64x32x4x4 16x32x64x4x3 "
        "16x16x64x4x3"
    ),
    8: _tiles("64x64x16x4x3 64x32x16x4x3 32x32x32x4x3 16x32x32x4x3 16x16x32x4x3"),
}
# Fewer terms tensor cores do not multiply.
LEAST_TERMS = {2: 16, 4: 16, 8: 16}
# Tensor cores for single precision: as many bytes at a time.
TENSOR_SINGLE = tuple(replace(tile, k=tile.k // 2) for tile in CANDIDATES[2])


def choose(
    m: int, n: int, k: int, batches: int, dtype: DType, tensor: bool = False, narrow: bool = False
) -> tuple[list[MatmulTile], int]:
    """The configs of a matmul, and into how many parts its terms are cut (split-K).

    ``tensor`` says that single precision may be rounded to what tensor cores multiply, ``narrow`` that elements are
    loaded one by one, so that a thread cannot have many loads in flight.
    """
    size = dtype.itemsize
    costs: list[tuple[float, int, int]] = []
    tensor = tensor and size == 4
    speed = GPU.tensor_flops if tensor else GPU.flops[size]
    most = min(NARROW_TERMS if narrow else 128, max(LEAST_TERMS[size], power_of_two(k)))
    candidates = [replace(t, k=min(t.k, most)) for t in (TENSOR_SINGLE if tensor else CANDIDATES[size])]
    candidates = [t for t in candidates if t.shared(size) <= GPU.shared]
    for (i, tile), parts in itertools.product(enumerate(candidates), PARTS):
        if parts == 1 or _may_part(tile, parts, m, n, k, batches):
            costs.append((_time(tile, parts, (m, n, k, batches), size, speed), parts, i))
    parts = min(costs)[1]
    order = [candidates[i] for _, p, i in sorted(costs) if p == parts]
    return _for_any_gpu(_alike(order, (m, n, k)), size), parts


def choose_vector(n: int, k: int, batches: int, along: bool) -> tuple[list[MatmulTile], int]:
    """The configs to multiply a matrix with one vector, whose ``n`` sums have ``k`` terms each.

    ``along`` says that terms follow each other in memory. Nothing is read twice, so blocks only have to be long there,
    and enough to be busy with. How many parts there are does not depend on it.
    """
    sizes = [(16, 256), (4, 512), (8, 512), (1, 2048)] if along else [(32, 64), (64, 32), (128, 16), (16, 128)]
    fitting = {(min(power_of_two(n), b), min(max(16, power_of_two(k)), t)): None for b, t in sizes}
    programs = math.ceil(n / 32) * batches
    most = min(k // 1024, GPU.multiprocessors // programs)
    return [MatmulTile(1, b, t, 4, 3, 1) for b, t in fitting], max((p for p in PARTS if p <= most), default=1)


def choose_sum(m: int, n: int) -> MatmulTile:
    """The blocks of a program that adds up parts."""
    columns = min(power_of_two(n), 256)
    return MatmulTile(min(power_of_two(m), 1024 // columns), columns, 1, 4, 1)


def _may_part(tile: MatmulTile, parts: int, m: int, n: int, k: int, batches: int) -> bool:
    """Whether cutting the terms is worth a look: few programs, and several steps left to each."""
    programs = math.ceil(m / tile.m) * math.ceil(n / tile.n) * batches
    return programs < 2 * GPU.multiprocessors and k >= 4 * parts * tile.k


def _time(tile: MatmulTile, parts: int, sizes: tuple[int, int, int, int], size: int, speed: float) -> float:
    """Nanoseconds of a matmul with this config."""
    m, n, k, batches = sizes
    programs = math.ceil(m / tile.m) * math.ceil(n / tile.n) * batches * parts
    steps = math.ceil(k / tile.k / parts)
    area = tile.m * tile.n
    busy = min(1.0, math.sqrt(area / FULL[size]))
    multiply = 2 * area * tile.k / (speed * busy)
    read = (tile.m + tile.n) * tile.k * size / GPU.read
    resident = min(math.ceil(programs / GPU.multiprocessors), GPU.threads // (GPU.warp * tile.warps), 4)
    wait = GPU.latency / (tile.stages - 1) / resident
    rounds = math.ceil(programs / GPU.multiprocessors)
    # What is hidden is not hidden entirely: of configs that only wait, the one with the least to do is the fastest.
    step = max(multiply, read, wait) + (multiply + read + wait) / 10
    time = rounds * (steps * step + GPU.latency / resident)
    if parts > 1:
        time += GPU.launch + 8 * parts * m * n * batches / GPU.memory
    return time


def _for_any_gpu(order: list[MatmulTile], size: int) -> list[MatmulTile]:
    """The first of some configs, one of which is for GPUs with little shared memory."""
    small = [t for t in order if t.shared(size) <= GPU.least_shared]
    chosen = order[:MOST]
    return chosen if not small or small[0] in chosen else [*order[: MOST - 1], small[0]]


def _alike(order: list[MatmulTile], sizes: tuple[int, int, int]) -> list[MatmulTile]:
    """Of configs, best first, those that need masks along no axis along which the best needs none."""
    best = order[0]
    whole = [n % b == 0 for n, b in zip(sizes, (best.m, best.n, best.k), strict=True)]
    return [
        tile
        for tile in order
        if all(not w or n % b == 0 for w, n, b in zip(whole, sizes, (tile.m, tile.n, tile.k), strict=True))
    ]

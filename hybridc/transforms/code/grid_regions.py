"""Kernels with several contractions as one parallel region: each tile of the grid runs the loop nests in order.

A nest at a tile is a kernel of its own, for which there is code already. What nests make for each other at a tile lies
in the thread's scratch memory; tiles follow from sizes alone, so results are the same for any number of threads.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from hybridc.dialects.mlir.hybrid_rt import aligned
from hybridc.dialects.operator_attribute import Shape
from hybridc.ground.machine import NOMINAL
from hybridc.ground.sizes import row_major
from hybridc.ir.costs import PARTS, WORTH_PACKING, WORTH_READING, sharing
from hybridc.ir.kernels.grid_kernel import GridIndex, Step, TileKernel, contractions_apart, index_kernel, tile_of
from hybridc.ir.kernels.kernel import Kernel, KernelValue, LoopNest
from hybridc.ir.planned import Position
from hybridc.transforms.code.parallel_regions import GridRegion, ParallelRegion, ParallelRegions, Strides, TileRegion

# Bytes that loop nests make for each other at a tile: as much as the third cache holds. Tiles that are cut smaller have
# at least so many rows, as a contraction's other operand is packed again for each.
CACHED, FEWEST = NOMINAL.third, WORTH_PACKING


class TileKernelCache(Protocol):
    """The kernels that compute the loop nests at a tile, and their code."""

    def tiles(
        self, kernel: Kernel, nests: Sequence[LoopNest], tile: Shape
    ) -> tuple[list[TileKernel], TileKernelCache]: ...

    def of(
        self, kernel: Kernel, strides: Mapping[int, Strides], inplace: Sequence[tuple[int, int]] = ()
    ) -> ParallelRegions: ...

    def inplace(self, kernel: Kernel, strided: Sequence[int]) -> list[tuple[int, int]]: ...


def grid_regions(kernel: Kernel, strides: Mapping[int, Strides], kernel_cache: TileKernelCache) -> ParallelRegions:
    """The parallel region of a kernel with a grid; ``strides`` of those that may not be contiguous."""
    most, fewest = (NOMINAL.second, WORTH_READING) if _packs_nothing(kernel) else (CACHED, FEWEST)
    tile, nests = tile_of(kernel, most, fewest, PARTS), contractions_apart(kernel.nests)
    tiles, own = kernel_cache.tiles(kernel, nests, tile)
    writer = _GridWriter(kernel, strides, own, tile, nests)
    for nest in tiles:
        writer.add(nest)
    return ParallelRegions([*writer.before, writer.region()] if math.prod(writer.sizes) else [], writer.locals)


def _packs_nothing(kernel: Kernel) -> bool:
    """Whether contractions with constant matrices are around the others, whose operands are panels then."""
    reads = [r for nest in kernel.nests if nest.contraction is not None for r in nest.contraction.reads]
    return any(r.value.matrix is not None for r in reads)


class _GridWriter:
    def __init__(
        self,
        kernel: Kernel,
        strides: Mapping[int, Strides],
        kernel_cache: TileKernelCache,
        tile: Shape,
        nests: Sequence[LoopNest],
    ) -> None:
        self.kernel, self.kernel_cache, self.tile = kernel, kernel_cache, tile
        domain = kernel.nests[0].domain
        self.sizes = tuple(domain[a] // n for a, n in zip(kernel.grid[0], tile, strict=True))
        values = [*kernel.arguments, *kernel.results]
        self.numbers: dict[KernelValue | GridIndex, int] = {v: i for i, v in reversed([*enumerate(values)])}
        self.strides: dict[KernelValue | GridIndex, Strides] = {
            v: strides.get(i, row_major(v.shape)) for i, v in enumerate(values)
        }
        self.before: list[ParallelRegion | GridRegion] = []  # they fill the arrays of indices, which are locals
        self.locals: list[int] = []
        self.buffers: dict[tuple[int, tuple[int, ...]], int] = {}  # by the kernel's, and steps
        self.inner: dict[KernelValue | GridIndex, int] = {}  # where values of a tile lie in scratch
        self.readers = Counter(v for nest in nests for v in {r.value for s in nest.ops for r in s.reads})
        self.end = 0
        self.parts: list[TileRegion] = []

    def add(self, nest: TileKernel) -> None:
        """Compute one loop nest, after the ones before it."""
        kernel = nest.kernel
        for index in nest.arguments:
            if isinstance(index, GridIndex) and index not in self.numbers:
                self._index(index)
        values = [*nest.arguments, *nest.results]
        strides = {i: self.strides[v] for i, v in enumerate(values) if v in self.strides}
        over = self._over(nest, kernel, strides)
        parallel = self.kernel_cache.of(kernel, strides, [*over.items()])
        places = [self._place(v, steps) for v, steps in zip(nest.arguments, nest.steps, strict=False)]
        for i, (value, steps) in enumerate(zip(nest.results, nest.steps[len(nest.arguments) :], strict=True)):
            source = next((a for a, r in over.items() if r == i), None)
            if source is not None:
                self.inner[value] = self.inner[nest.arguments[source]]
            elif value not in self.numbers:
                size = aligned(kernel.results[i].bytes)
                self.inner[value], self.end = self.end, self.end + size
            places.append(self._place(value, steps))
        for size in parallel.locals:
            places.append(Position(0, self.end))
            self.end += aligned(size)
        for region in parallel.regions:
            assert isinstance(region, ParallelRegion), "a nest at a tile has no grid"
            self.parts.append(TileRegion(region, tuple(places[b] for b in region.buffers), 0))

    def _over(self, nest: TileKernel, kernel: Kernel, strides: Mapping[int, Strides]) -> dict[int, int]:
        """Pairs of an argument, which no later loop nest reads, and a result, both in scratch, that may be one."""
        pairs: dict[int, int] = {}
        for i, j in self.kernel_cache.inplace(kernel, sorted(strides)):
            argument, result = nest.arguments[i], nest.results[j]
            inside = argument in self.inner and result not in self.numbers
            alone = isinstance(argument, KernelValue) and self.readers[argument] == 1
            if inside and alone and i not in pairs and j not in pairs.values():
                pairs[i] = j
        return pairs

    def _index(self, index: GridIndex) -> None:
        """Make an array of indices before the first tile."""
        buffer = self.numbers[index] = len(self.kernel.arguments) + len(self.kernel.results) + len(self.locals)
        self.strides[index] = (1,)
        regions = self.kernel_cache.of(index_kernel(index.size), {}).regions
        self.before += [replace(region, buffers=(buffer,)) for region in regions]
        self.locals.append(8 * index.size)

    def _place(self, value: KernelValue | GridIndex, steps: Sequence[Step | None]) -> Position:
        if value in self.inner:
            return Position(0, self.inner[value])
        size = 8 if isinstance(value, GridIndex) else value.dtype.itemsize
        steps_of_dims = zip(steps, self.tile, strict=True)
        apart = tuple(0 if s is None else self.strides[value][s.dim] * s.factor * n * size for s, n in steps_of_dims)
        key = (self.numbers[value], apart)
        return Position(1 + self.buffers.setdefault(key, len(self.buffers)))

    def region(self) -> GridRegion:
        """The parallel region of all loop nests."""
        own = max((aligned(p.region.scratch) for p in self.parts), default=0)
        parts = tuple(TileRegion(p.region, p.buffers, self.end) for p in self.parts)
        extent = math.prod(self.sizes)
        work = extent * sum(p.region.work for p in parts)
        grain, least = sharing(work, extent)
        steps, buffers = tuple(s for _, s in self.buffers), tuple(b for b, _ in self.buffers)
        return GridRegion(self.sizes, steps, parts, buffers, extent, grain, self.end + own, work, least)

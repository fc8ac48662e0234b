"""Kernels with several contractions as one parallel region: each tile of the grid computes one nest after the other.

A nest at a tile is a kernel of its own, for which there is code already. What nests make for each other at a tile lies
in the thread's scratch memory; tiles follow from sizes alone, so results are the same for any number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

from xdsl.ir import SSAValue

from hybridc.dialects.mlir.hybrid_rt import aligned
from hybridc.ground.machine import NOMINAL
from hybridc.ir.costs import sharing
from hybridc.ir.grid_kernel import TileKernel, shared_axes, tile_kernels, tile_of
from hybridc.ir.kernel import Kernel, analyse
from hybridc.ir.native_plan import Position
from hybridc.ir.strides import row_major
from hybridc.ir.structured import Shape, dtype_of, shape_of
from hybridc.lower.llvm.loops.copy_loops import Strides
from hybridc.lower.llvm.loops.parallel_regions import GridPhase, ParallelRegion, ParallelRegions, TilePhase

# Bytes that nests make for each other at a tile: as much as the third cache holds. Tiles that are cut smaller have at
# least so many rows, with which packing a contraction's other operand, as long as multiplying ten, pays.
CACHED, FEWEST = NOMINAL.third, 64


class TileKernelCache(Protocol):
    """What makes the code of the nests at a tile."""

    def of(
        self, kernel: Kernel, strides: Mapping[int, Strides], inplace: Sequence[tuple[int, int]] = ()
    ) -> ParallelRegions: ...

    def inplace(self, kernel: Kernel, strided: Sequence[int]) -> list[tuple[int, int]]: ...


def grid_regions(kernel: Kernel, strides: Mapping[int, Strides], kernel_cache: TileKernelCache) -> ParallelRegions:
    """The parallel region of a kernel with a grid; ``strides`` of those that may be no plain arrays."""
    tile = tile_of(kernel, shared_axes(kernel), CACHED, FEWEST)
    writer = _GridWriter(kernel, strides, kernel_cache, tile)
    for nest in tile_kernels(kernel, tile):
        writer.add(nest)
    return ParallelRegions([writer.region()] if math.prod(writer.sizes) else [])


class _GridWriter:
    def __init__(
        self, kernel: Kernel, strides: Mapping[int, Strides], kernel_cache: TileKernelCache, tile: Shape
    ) -> None:
        self.kernel_cache, self.tile = kernel_cache, tile
        domain = kernel.nests[0].domain
        self.sizes = tuple(domain[a] // n for a, n in zip(kernel.grid[0], tile, strict=True))
        values = [*kernel.arguments, *kernel.results]
        self.numbers = {v: i for i, v in reversed([*enumerate(values)])}
        self.strides = {v: strides.get(i, row_major(shape_of(v))) for i, v in enumerate(values)}
        self.buffers: dict[tuple[int, tuple[int, ...]], int] = {}  # by the kernel's, and steps
        self.inner: dict[SSAValue, int] = {}  # where values of a tile lie in scratch
        self.readers: dict[SSAValue, list[int]] = {}
        for nest in kernel.nests:
            for value in {r.value for s in nest.ops for r in s.reads}:
                self.readers.setdefault(value, []).append(nest.number)
        self.end = 0
        self.parts: list[TilePhase] = []

    def add(self, nest: TileKernel) -> None:
        """Compute a nest after those before."""
        kernel = analyse(nest.function)
        values = [*nest.arguments, *nest.results]
        strides = {i: self.strides[v] for i, v in enumerate(values) if v in self.strides}
        over = self._over(nest, kernel, strides)
        made = self.kernel_cache.of(kernel, strides, [*over.items()])
        places = [self._place(v, dims) for v, dims in zip(nest.arguments, nest.dims, strict=False)]
        for i, (value, dims) in enumerate(zip(nest.results, nest.dims[len(nest.arguments) :], strict=True)):
            source = next((a for a, r in over.items() if r == i), None)
            if source is not None:
                self.inner[value] = self.inner[nest.arguments[source]]
            elif value not in self.numbers:
                size = math.prod(shape_of(kernel.results[i])) * dtype_of(value).itemsize
                self.inner[value], self.end = self.end, self.end + aligned(size)
            places.append(self._place(value, dims))
        for size in made.locals:
            places.append(Position(0, self.end))
            self.end += aligned(size)
        for region in made.regions:
            assert isinstance(region, ParallelRegion), "a nest at a tile has no grid"
            self.parts.append(TilePhase(region, tuple(places[b] for b in region.buffers), 0))

    def _over(self, nest: TileKernel, kernel: Kernel, strides: Mapping[int, Strides]) -> dict[int, int]:
        """Pairs of an argument, which no later nest reads, and a result that are both in scratch and may be one."""
        found: dict[int, int] = {}
        for i, j in self.kernel_cache.inplace(kernel, sorted(strides)):
            argument, result = nest.arguments[i], nest.results[j]
            inside = argument in self.inner and result not in self.numbers
            if inside and len(self.readers[argument]) == 1 and i not in found and j not in found.values():
                found[i] = j
        return found

    def _place(self, value: SSAValue, dims: Sequence[int | None]) -> Position:
        if value in self.inner:
            return Position(0, self.inner[value])
        size = dtype_of(value).itemsize
        steps = [0 if d is None else self.strides[value][d] * n * size for d, n in zip(dims, self.tile, strict=True)]
        key = (self.numbers[value], tuple(steps))
        return Position(1 + self.buffers.setdefault(key, len(self.buffers)))

    def region(self) -> GridPhase:
        """The parallel region of all nests."""
        own = max((aligned(p.region.scratch) for p in self.parts), default=0)
        parts = tuple(TilePhase(p.region, p.buffers, self.end) for p in self.parts)
        extent = math.prod(self.sizes)
        work = extent * sum(p.region.work for p in parts)
        grain, least = sharing(work, extent)
        steps, buffers = tuple(s for _, s in self.buffers), tuple(b for b, _ in self.buffers)
        return GridPhase(self.sizes, steps, parts, buffers, extent, grain, self.end + own, work, least)

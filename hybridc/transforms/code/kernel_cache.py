"""The code of a module's kernels: chosen once for equal calls (:mod:`~hybridc.transforms.code.alternatives`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hybridc.dialects.handwritten import ArraySpec, LoopKernel
from hybridc.dialects.operator_attribute import Shape
from hybridc.ir.kernels.grid_kernel import TileKernel, tile_kernels
from hybridc.ir.kernels.kernel import Kernel, LoopNest
from hybridc.ir.planned import SlotView
from hybridc.transforms.code.alternatives import CodeRequest, choose_code
from hybridc.transforms.code.choose_matmul import is_contraction_kernel
from hybridc.transforms.code.kernel_builder import loop_kernel_region
from hybridc.transforms.code.loop_target import LoopTarget
from hybridc.transforms.code.parallel_regions import KernelLoops, ParallelRegions, Strides, move_region
from hybridc.transforms.schedules.schedule_moves import copy_of, schedule_copy, schedule_fill


def code_of(
    kernel: Kernel, target: LoopTarget, strides: Mapping[int, Strides], inplace: Sequence[tuple[int, int]] = ()
) -> ParallelRegions:
    """The parallel regions of a kernel; ``strides``, in elements, are those of non-contiguous arguments and results."""
    return KernelCache(target).of(kernel, strides, inplace)


class KernelCache:
    """The compiled kernels of a module: each has its regions made once for equal calls.

    What does not depend on sizes is reused when these change. ``ahead``: the
    target compiles kernels from when their code is known on.
    """

    def __init__(self, target: LoopTarget) -> None:
        self.target = target
        self.ahead = False
        self._started: list[Any] = []
        self._loops: dict[Any, KernelLoops] = {}
        self._fitting: dict[Any, KernelLoops] = {}  # those that were checked for the current sizes
        self._made: dict[Any, ParallelRegions] = {}
        self._tiles: dict[object, tuple[list[Any], list[TileKernel], KernelCache]] = {}

    @property
    def threads(self) -> int:
        """The threads that share parallel regions."""
        return self.target.threads

    def resized(self, kernels: Collection[Kernel]) -> None:
        """Forget what depends on sizes but for these kernels: others have other sizes from now on."""
        now = set(kernels)
        self._made = {key: regions for key, regions in self._made.items() if key[0] in now}
        self._fitting.clear()
        self._started.clear()

    def of(
        self, kernel: Kernel, strides: Mapping[int, Strides], inplace: Sequence[tuple[int, int]] = ()
    ) -> ParallelRegions:
        """The parallel regions of a kernel.

        ``strides``, in elements, are those of non-contiguous arguments and results; ``inplace`` are pairs of
        an argument and the result that overwrites it.
        """
        key = (kernel, tuple(sorted(strides.items())), tuple(inplace))
        if key not in self._made:
            self._made[key] = choose_code(CodeRequest(kernel, strides, tuple(inplace), self))
        return self._made[key]

    def by_hand(self, kernel: LoopKernel, arrays: Sequence[ArraySpec]) -> ParallelRegions:
        """The region of a handwritten kernel, given its inputs and results."""
        return ParallelRegions([loop_kernel_region(kernel, arrays, self.target)])

    def copy(self, source: SlotView) -> ParallelRegions:
        """The region that copies a view into a contiguous array."""
        schedule = schedule_copy(copy_of(source.dtype, source.shape, source.strides), None)
        return ParallelRegions([move_region(schedule, (0, 1), self.target.printer)])

    def fill(self, size: int) -> ParallelRegions:
        """The region that sets all bits of so many bytes."""
        schedule = schedule_fill(np.dtype(np.int8), (size,), (1,), -1)
        return ParallelRegions([move_region(schedule, (0,), self.target.printer)])

    def loops_of(self, kernel: Kernel, strided: frozenset[int], inplace: tuple[tuple[int, int], ...]) -> KernelLoops:
        """The functions of a kernel without contractions."""
        key = (kernel.identity, strided, inplace)
        if key not in self._fitting:
            known = self._loops.get(key)
            if known is None or not known.fits(kernel):
                known = self._loops[key] = KernelLoops(kernel, strided, inplace, self.target.printer)
            self._fitting[key] = known
        return self._fitting[key]

    def tiles(self, kernel: Kernel, nests: Sequence[LoopNest], tile: Shape) -> tuple[list[TileKernel], KernelCache]:
        """The nests at a tile with so many points along each axis, and their code; kept while they would be equal."""
        facts = _tile_facts(kernel, tile)
        known = self._tiles.get(kernel.identity)
        if known is None or known[0] != facts:
            known = (facts, tile_kernels(kernel, nests, tile), KernelCache(replace(self.target, threads=1)))
            self._tiles[kernel.identity] = known
        return known[1:]

    def inplace(self, kernel: Kernel, strided: Sequence[int]) -> list[tuple[int, int]]:
        """Pairs of an argument and the result that may overwrite it."""
        return (
            []
            if not kernel.arguments or is_contraction_kernel(kernel) or kernel.grid
            else self.loops_of(kernel, frozenset(strided), ()).inplace_pairs
        )

    def memory(self, kernel: Kernel, strides: Mapping[int, Strides]) -> tuple[int, list[int]]:
        """Bytes of scratch of all threads, and of each buffer that they share."""
        regions = self.of(kernel, strides)
        if self.ahead and not self.inplace(kernel, [*strides]):  # whatever the memory plan, this will be called
            self._started += self.target.compile_ahead(regions.functions)
        return regions.scratch_of(self.threads), regions.locals


def _tile_facts(kernel: Kernel, tile: Shape) -> list[Any]:
    """What the kernels at a tile follow from: sizes that the tile has, indices of all reads, and constants."""
    facts: list[Any] = [tile]
    for nest, grid in zip(kernel.nests, kernel.grid, strict=True):
        rank = len(nest.domain)
        facts.append([n for a, n in enumerate(nest.domain) if a not in grid])
        for kernel_op in nest.ops:
            facts.append([n for a, n in kernel_op.extents.items() if a >= rank])
            facts.append([(r.value.shape, r.index) for r in kernel_op.reads if r.index])
            facts += [v.shape for v in kernel_op.tables]
            facts += [nest.domain] if kernel_op.indexed else []
            facts.append(kernel_op.body.key)
    return facts

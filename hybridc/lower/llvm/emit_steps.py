"""Emit a planned function as a native plan: a table of steps for the executor, and Python before and after it."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from hybridc.dialects.handwritten import ArraySpec, LoopKernel
from hybridc.dialects.mlir.hybrid_rt import aligned
from hybridc.ir.planned import NOT_LOADED, Grid, GridPart, NativeRegion, Position, SlotView
from hybridc.lower.emit_planned import PlanEmitter
from hybridc.lower.llvm.kernel_cache import KernelCache
from hybridc.lower.llvm.loops.kernel_builder import loop_kernel_region
from hybridc.lower.llvm.loops.parallel_regions import (
    GridRegion,
    ParallelRegion,
    ParallelRegions,
    copy_region,
    fill_region,
)
from hybridc.lower.llvm.native_source import NativeSource
from hybridc.options import OPTIONS


def emit(
    module: ModuleOp, name: str, threads: int, poison: bool = OPTIONS.poison, kernel_cache: KernelCache | None = None
) -> NativeSource:
    """The native plan of the planned function ``name``; with ``poison``, dead memory is filled with NaN.

    ``kernel_cache`` has the module's kernels, if they were compiled before.
    """
    emitter = _StepEmitter(module, name, KernelCache(threads) if kernel_cache is None else kernel_cache, poison)
    emitter.walk()
    return emitter.program


class _StepEmitter(PlanEmitter):
    TARGET = "llvm"

    def __init__(self, module: ModuleOp, name: str, kernel_cache: KernelCache, poison: bool) -> None:
        self.program = NativeSource(name, "", 0, threads=kernel_cache.threads)
        super().__init__(module, self.program, kernel_cache, poison)

    def launched(self, lines: int, steps: int) -> None:
        functions = [f for s in self.program.steps[steps:] if isinstance(s, tuple) for f in s[0]]
        self.program.calls.append(("\n".join(self.lines[lines:]), functions))

    def run(self, made: ParallelRegions, places: Sequence[Position], scratch: Position | None, name: str) -> None:
        each = aligned(made.scratch) * bool(made.scratch)
        for region in made.regions:
            if region.extent > 0:
                self._step(region, tuple(places[i] for i in region.buffers), scratch, each, name)

    def _step(
        self,
        region: ParallelRegion | GridRegion,
        buffers: tuple[Position, ...],
        scratch: Position | None,
        each: int,
        name: str,
    ) -> None:
        made = NativeRegion(NOT_LOADED, buffers, b"", region.extent, region.grain, scratch, each, name, region.least)
        self.program.work += region.work
        where = ", ".join(f"{b.slot}+{b.offset}" for b in buffers)
        line = f"    [0, {region.extent}) by {region.grain}, buffers ({where})"
        if isinstance(region, ParallelRegion):
            self.program.steps.append((region.functions, replace(made, numbers=_cells(region))))
            self.lines.append(f"{line}, numbers ({', '.join(map(str, region.numbers))})")
            return
        parts = [GridPart(NOT_LOADED, p.buffers, _cells(p.region), p.region.extent, p.scratch) for p in region.parts]
        grid = Grid(region.sizes, region.steps, tuple(parts))
        self.program.steps.append((region.functions, replace(made, grid=grid)))
        self.lines.append(f"{line}, a grid of {' x '.join(map(str, region.sizes))} tiles:")
        for part in region.parts:
            given = ", ".join(map(str, part.region.numbers))
            self.lines.append(f"        [0, {part.region.extent}), numbers ({given})")

    def described(self, kernel: LoopKernel, arrays: Sequence[ArraySpec]) -> ParallelRegions:
        return ParallelRegions([loop_kernel_region(kernel, arrays, self.program.threads)])

    def copy(self, source: SlotView) -> ParallelRegions:
        return ParallelRegions([copy_region(source.dtype, source.shape, source.strides, 0, 1)])

    def fill(self, size: int) -> ParallelRegions:
        return ParallelRegions([fill_region(np.dtype(np.int8), (size,), (1,), -1, 0)])


def _cells(region: ParallelRegion) -> bytes:
    return b"".join(_cell(n) for n in region.numbers)


def _cell(number: float) -> bytes:
    return struct.pack("<q", number) if isinstance(number, int) else struct.pack("<d", number)

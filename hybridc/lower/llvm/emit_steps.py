"""Emit a planned function as a native plan: a table of steps for the executor, and Python before and after it."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from hybridc.dialects.handwritten import ArraySpec, LoopKernel
from hybridc.dialects.mlir.graph_notes import PREPARATION
from hybridc.dialects.mlir.hybrid_rt import AliasOp, LaunchOp, aligned
from hybridc.dialects.operator import Operator
from hybridc.ir.planned import ARENA, NOT_LOADED, Grid, GridPart, NativeRegion, PlainArray, Position, SlotView
from hybridc.ir.structured import arrays_of, lasting_parameters
from hybridc.ir.values import functions
from hybridc.lower.emit_planned import PlanEmitter, comment, place_of
from hybridc.lower.llvm.joined_loop import joined_function, joins, packed_numbers
from hybridc.lower.llvm.native_loops import NativeLoop, is_native
from hybridc.lower.llvm.native_source import NativeSource
from hybridc.lower.llvm.prepared_origins import PreparedOrigins
from hybridc.options import OPTIONS
from hybridc.transforms.code.kernel_cache import KernelCache
from hybridc.transforms.code.parallel_regions import GridRegion, ParallelRegion, ParallelRegions

if TYPE_CHECKING:
    from hybridc.ground.location import Location


def emit_native_plan(
    module: ModuleOp, name: str, kernel_cache: KernelCache, poison: bool = OPTIONS.poison
) -> NativeSource:
    """The native plan of the planned function ``name``; with ``poison``, dead memory is filled with NaN.

    ``kernel_cache`` has the module's kernels.
    """
    emitter = _StepEmitter(module, name, kernel_cache, poison)
    emitter.walk()
    return emitter.program


class _StepEmitter(PlanEmitter):
    TARGET = "llvm"

    def __init__(self, module: ModuleOp, name: str, kernel_cache: KernelCache, poison: bool) -> None:
        self.program = NativeSource(name, "", 0, threads=kernel_cache.threads)
        self._of_loops = (0, 0)  # the memory of loops, which run one after the other: where it begins and ends
        super().__init__(module, self.program, kernel_cache, poison)
        self._cache = kernel_cache
        self._origins = PreparedOrigins(self.program, self.views)
        alone = sum(f.sym_visibility is None for f in functions(module)) == 1  # without a backward
        lasting = {*lasting_parameters(self.function)} if alone else set[SSAValue]()
        self._lasting = {1 + i for i, a in enumerate(self.function.body.block.args) if a in lasting}

    def launched(self, lines: int, steps: int) -> None:
        functions = [f for s in self.program.steps[steps:] if isinstance(s, tuple) for f in s[0]]
        self.program.calls.append(("\n".join(self.lines[lines:]), functions))

    def launch(self, op: LaunchOp) -> None:
        first = len(self.program.steps)
        super().launch(op)
        if PREPARATION.of(op):
            self._origins.launched(op, range(first, len(self.program.steps)))

    def _alias(self, op: AliasOp) -> None:
        first = len(self.program.steps)
        super()._alias(op)
        if len(self.program.steps) > first:
            self._origins.copied(op.result, range(first, len(self.program.steps)))

    def run(self, code: ParallelRegions, places: Sequence[Position], scratch: Position | None, name: str) -> None:
        thread_scratch = aligned(code.scratch) * bool(code.scratch)
        for region in code.regions:
            if region.extent > 0:
                self._step(region, tuple(places[i] for i in region.buffers), scratch, thread_scratch, name)

    def _step(
        self,
        region: ParallelRegion | GridRegion,
        buffers: tuple[Position, ...],
        scratch: Position | None,
        thread_scratch: int,
        name: str,
    ) -> None:
        native_region = NativeRegion(
            NOT_LOADED, buffers, b"", region.extent, region.grain, scratch, thread_scratch, name, region.least
        )
        self.program.work += region.work
        where = ", ".join(f"{b.slot}+{b.offset}" for b in buffers)
        line = f"    [0, {region.extent}) by {region.grain}, buffers ({where})"
        if isinstance(region, ParallelRegion):
            self.program.steps.append((region.functions, replace(native_region, numbers=_cells(region))))
            self.lines.append(f"{line}, numbers ({', '.join(map(str, region.numbers))})")
            return
        parts = [GridPart(NOT_LOADED, p.buffers, _cells(p.region), p.region.extent, p.scratch) for p in region.parts]
        grid = Grid(region.sizes, region.steps, tuple(parts))
        self.program.steps.append((region.functions, replace(native_region, grid=grid)))
        self.lines.append(f"{line}, a grid of {' x '.join(map(str, region.sizes))} tiles:")
        for part in region.parts:
            numbers = ", ".join(map(str, part.region.numbers))
            self.lines.append(f"        [0, {part.region.extent}), numbers ({numbers})")

    def loop(self, op: LaunchOp, name: str, operator: Operator, where: Location | None) -> bool:
        ins, outs = arrays_of(op.ins), arrays_of(op.outs)
        loops = operator.compiled_loops(ins)
        if not loops or not all(map(is_native, loops)):
            return False
        name = self.program.launches[-1] = name.removeprefix("host_")
        line, step = len(self.lines), len(self.program.steps) - self.program.preparation
        inputs, results = self.plain(op.ins), [self.views[v] for v in op.outs]
        written = [view if view.is_plain else self.plain_like(view) for view in results]
        arrays = [PlainArray(x.shape, x.dtype) for x in (*ins, *outs)]
        counts: list[int | None] = []
        for loop in loops:
            native_loop = NativeLoop(loop, arrays[: len(ins)], arrays[len(ins) :])
            counts.append(native_loop.flops)
            ends = list(itertools.accumulate((aligned(v.size) for v in native_loop.kept), initial=native_loop.size))
            memory = self._memory_of_loops(ends[-1])
            places = [memory, *map(place_of, inputs), *map(place_of, written)]
            places += self._prepared(native_loop, places) or [Position(ARENA, memory.offset + n) for n in ends[:-1]]
            if joins(native_loop.loop, native_loop.work):
                about = f"{native_loop.about} in one function"
                called = [joined_function(native_loop.loop, len(places), native_loop.functions)]
                region = NativeRegion(NOT_LOADED, tuple(places), packed_numbers(native_loop.loop), name=name)
            else:
                about, called = native_loop.about, native_loop.functions
                region = NativeRegion(NOT_LOADED, tuple(places), name=name, loop=native_loop.loop)
            self.program.steps.append((tuple(called), region))
            self.program.work += native_loop.work
            buffers = ", ".join(f"{b.slot}+{b.offset}" for b in places)
            self.lines.append(f"{name}: {about}, buffers ({buffers}){comment(where)}")
            self.lines += [f"    {text}" for source in native_loop.sources for text in source.splitlines()]
            steps = ", then ".join(", ".join(program.launches) for program in reversed(loop.programs))
            self.program.loops.append(f"{name}, {about}: {steps}")
        self.loop_flops = None if None in counts else sum(filter(None, counts))
        self.launched(line, step + self.program.preparation)
        for view, plain in zip(results, written, strict=True):
            if view is not plain:
                self.copied(plain, view)
        return True

    def _prepared(self, native_loop: NativeLoop, places: Sequence[Position]) -> list[Position]:
        """Move what a loop prepares of parameters into this program's preparation; the slots of these values."""
        first = self.kept_slot + len(self.program.kept)
        kept = [Position(first + i) for i in range(len(native_loop.kept))]
        hoisted = native_loop.hoist([*places, *kept], self._lasting)
        if not hoisted:
            return []
        self.program.kept += native_loop.prepared(places, self.program.preparation)
        self.program.steps[self.program.preparation : self.program.preparation] = hoisted
        self.program.preparation += len(hoisted)
        self.hoisted += len(hoisted)
        before = self.program.preparation - len(hoisted)
        self.program.notes = [
            n if n.first < before else replace(n, first=n.first + len(hoisted)) for n in self.program.notes
        ]
        return kept

    def _memory_of_loops(self, size: int) -> Position:
        """So many bytes; what the loops before had, unless there is something behind it now."""
        begin, end = self._of_loops
        if end != self.program.arena:
            begin = end = self.program.arena = aligned(self.program.arena)
        self.program.arena = max(end, begin + aligned(size))
        self._of_loops = (begin, self.program.arena)
        return Position(ARENA, begin)

    def described(self, kernel: LoopKernel, arrays: Sequence[ArraySpec]) -> ParallelRegions:
        return self._cache.by_hand(kernel, arrays)

    def copy(self, source: SlotView) -> ParallelRegions:
        return self._cache.copy(source)

    def fill(self, size: int) -> ParallelRegions:
        return self._cache.fill(size)


def _cells(region: ParallelRegion) -> bytes:
    return b"".join(_cell(n) for n in region.numbers)


def _cell(value: float) -> bytes:
    return struct.pack("<q", value) if isinstance(value, int) else struct.pack("<d", value)

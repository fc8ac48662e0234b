"""Emit a planned function as a native plan: a table of steps for the executor, and Python before and after it."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from hybridc.dialects.handwritten import ArraySpec, LoopKernel
from hybridc.dialects.mlir.hybrid_rt import aligned
from hybridc.ir.native_plan import NOT_LOADED, Grid, GridPart, Phase, Position
from hybridc.ir.planned import SlotView
from hybridc.lower.emit_planned import PlanEmitter
from hybridc.lower.llvm.kernel_code import Codes
from hybridc.lower.llvm.loops.kernel_builder import loop_kernel_phase
from hybridc.lower.llvm.loops.kernel_phases import GridPhase, KernelPhase, KernelPhases, copy_phase, fill_phase
from hybridc.lower.llvm.native_source import NativeSource
from hybridc.options import OPTIONS


def emit(
    module: ModuleOp, name: str, threads: int, poison: bool = OPTIONS.poison, codes: Codes | None = None
) -> NativeSource:
    """The native plan of the planned function ``name``; with ``poison``, dead memory is filled with NaN.

    ``codes`` have the module's kernels compiled, if they were needed before.
    """
    emitter = _StepEmitter(module, name, Codes(threads) if codes is None else codes, poison)
    emitter.walk()
    return emitter.program


class _StepEmitter(PlanEmitter):
    TARGET = "llvm"

    def __init__(self, module: ModuleOp, name: str, codes: Codes, poison: bool) -> None:
        self.program = NativeSource(name, "", 0, threads=codes.threads)
        super().__init__(module, self.program, codes, poison)

    def launched(self, lines: int, steps: int) -> None:
        functions = [f for s in self.program.steps[steps:] if isinstance(s, tuple) for f in s[0]]
        self.program.calls.append(("\n".join(self.lines[lines:]), functions))

    def run(self, made: KernelPhases, places: Sequence[Position], scratch: Position | None, name: str) -> None:
        each = aligned(made.scratch) * bool(made.scratch)
        for phase in made.phases:
            if phase.extent > 0:
                self._step(phase, tuple(places[i] for i in phase.buffers), scratch, each, name)

    def _step(
        self,
        phase: KernelPhase | GridPhase,
        buffers: tuple[Position, ...],
        scratch: Position | None,
        each: int,
        name: str,
    ) -> None:
        made = Phase(NOT_LOADED, buffers, b"", phase.extent, phase.grain, scratch, each, name, phase.least)
        self.program.work += phase.work
        where = ", ".join(f"{b.slot}+{b.offset}" for b in buffers)
        line = f"    [0, {phase.extent}) by {phase.grain}, buffers ({where})"
        if isinstance(phase, KernelPhase):
            self.program.steps.append(((phase.function,), replace(made, numbers=_cells(phase))))
            self.lines.append(f"{line}, numbers ({', '.join(map(str, phase.numbers))})")
            return
        parts = [GridPart(NOT_LOADED, p.buffers, _cells(p.phase), p.phase.extent, p.scratch) for p in phase.parts]
        grid = Grid(phase.sizes, phase.steps, tuple(parts))
        self.program.steps.append((tuple([p.phase.function for p in phase.parts]), replace(made, grid=grid)))
        self.lines.append(f"{line}, a grid of {' x '.join(map(str, phase.sizes))} tiles:")
        for part in phase.parts:
            given = ", ".join(map(str, part.phase.numbers))
            self.lines.append(f"        [0, {part.phase.extent}), numbers ({given})")

    def described(self, kernel: LoopKernel, arrays: Sequence[ArraySpec]) -> KernelPhases:
        return KernelPhases([loop_kernel_phase(kernel, arrays, self.program.threads)])

    def copy(self, source: SlotView) -> KernelPhases:
        return KernelPhases([copy_phase(source.dtype, source.shape, source.strides, 0, 1)])

    def fill(self, size: int) -> KernelPhases:
        return KernelPhases([fill_phase(np.dtype(np.int8), size, -1, 0)])


def _cells(phase: KernelPhase) -> bytes:
    return b"".join(_cell(n) for n in phase.numbers)


def _cell(number: float) -> bytes:
    return struct.pack("<q", number) if isinstance(number, int) else struct.pack("<d", number)

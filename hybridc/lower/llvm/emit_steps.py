"""A planned program as a native plan: a table of steps for the executor, and what Python does before and after it."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from hybridc.dialects.handwritten import ArraySpec, LoopKernel
from hybridc.dialects.mlir.hybrid_rt import aligned
from hybridc.ir.native_plan import NOT_LOADED, Phase, Position
from hybridc.ir.planned import SlotView
from hybridc.lower.emit_planned import PlanEmitter
from hybridc.lower.llvm.kernel_code import Codes
from hybridc.lower.llvm.loops.kernel_builder import loop_kernel_phase
from hybridc.lower.llvm.loops.kernel_phases import KernelPhase, KernelPhases, copy_phase, fill_phase
from hybridc.lower.llvm.native_source import NativeSource
from hybridc.options import OPTIONS


def emit(
    module: ModuleOp, name: str, threads: int, poison: bool = OPTIONS.poison, codes: Codes | None = None
) -> NativeSource:
    """The native plan of the planned function ``name``; with ``poison``, memory that holds nothing holds NaN.

    ``codes`` are those of the module's kernels, if they were asked for before.
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
        functions = [s[0] for s in self.program.steps[steps:] if isinstance(s, tuple)]
        self.program.calls.append(("\n".join(self.lines[lines:]), functions))

    def run(self, made: KernelPhases, places: Sequence[Position], scratch: Position | None, name: str) -> None:
        each = aligned(made.scratch) * bool(made.scratch)
        for phase in made.phases:
            if phase.extent > 0:
                self._step(phase, tuple(places[i] for i in phase.buffers), scratch, each, name)

    def _step(
        self, phase: KernelPhase, buffers: tuple[Position, ...], scratch: Position | None, each: int, name: str
    ) -> None:
        numbers = b"".join(_cell(n) for n in phase.numbers)
        made = Phase(NOT_LOADED, buffers, numbers, phase.extent, phase.grain, scratch, each, name, phase.least)
        self.program.steps.append((phase.function, made))
        self.program.work += phase.work
        where = ", ".join(f"{b.slot}+{b.offset}" for b in buffers)
        given = ", ".join(map(str, phase.numbers))
        self.lines.append(f"    [0, {phase.extent}) by {phase.grain}, buffers ({where}), numbers ({given})")

    def described(self, kernel: LoopKernel, arrays: Sequence[ArraySpec]) -> KernelPhases:
        return KernelPhases([loop_kernel_phase(kernel, arrays, self.program.threads)])

    def copy(self, source: SlotView) -> KernelPhases:
        return KernelPhases([copy_phase(source.dtype, source.shape, source.strides, 0, 1)])

    def fill(self, size: int) -> KernelPhases:
        return KernelPhases([fill_phase(np.dtype(np.int8), size, -1, 0)])


def _cell(number: float) -> bytes:
    return struct.pack("<q", number) if isinstance(number, int) else struct.pack("<d", number)

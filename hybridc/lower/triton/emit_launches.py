"""A planned program as launches of Triton functions, and the calls of the host amid them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from hybridc.dialects.handwritten import ArraySpec, TritonKernel
from hybridc.ir.native_plan import Position
from hybridc.ir.planned import SlotView
from hybridc.lower.emit_planned import PlanEmitter
from hybridc.lower.triton.codes import TritonCodes
from hybridc.lower.triton.handwritten_launch import launch
from hybridc.lower.triton.launches import Alternative, Launch, TritonProgram
from hybridc.lower.triton.texts import copy_phase, fill_phase
from hybridc.lower.triton.triton_function import LibraryWay, TritonPhase, TritonPhases
from hybridc.options import OPTIONS


def emit(module: ModuleOp, name: str, poison: bool = OPTIONS.poison, codes: TritonCodes | None = None) -> TritonProgram:
    """The launches of the planned function ``name``; with ``poison``, memory that holds nothing holds NaN.

    ``codes`` are those of the module's kernels, if they were asked for before.
    """
    emitter = _LaunchEmitter(module, name, TritonCodes() if codes is None else codes, poison)
    emitter.walk()
    emitter.program.source += "\n" + emitter.program.code()
    return emitter.program


class _LaunchEmitter(PlanEmitter):
    TARGET = "triton"

    def __init__(self, module: ModuleOp, name: str, codes: TritonCodes, poison: bool) -> None:
        self.program = TritonProgram(name, "", 0)
        super().__init__(module, self.program, codes, poison)

    def launched(self, lines: int, steps: int) -> None:
        functions = [s.function for s in self.program.steps[steps:] if isinstance(s, Launch)]
        self.program.calls.append(("\n".join(self.lines[lines:]), functions))

    def run(self, made: TritonPhases, places: Sequence[Position], scratch: Position | None, name: str) -> None:
        start = len(self.program.steps)
        for phase in made.phases:
            if 0 not in phase.configs[0].grid:
                self._step(phase, _launch(phase, places, name))
        if made.library is not None:
            self._alternative(start, made.library, places, name)

    def _step(self, phase: TritonPhase, launch: Launch) -> None:
        self.program.steps.append(launch)
        where = ", ".join(f"{b.slot}+{b.offset}" for b in launch.buffers)
        given = ", ".join(map(str, phase.numbers))
        self.lines.append(f"    {phase.function.name}: buffers ({where}), numbers ({given}), {phase.configs[0]}")

    def _alternative(self, start: int, way: LibraryWay, places: Sequence[Position], name: str) -> None:
        """Note a library's way; none if what follows reads an argument that the product would be written over."""
        first, second, result = [places[i] for i in way.product.buffers]
        after = tuple(_launch(phase, places, name) for phase in way.after)
        if after and result in places[: way.product.buffers[2]]:
            return
        count = len(self.program.steps) - start
        self.program.alternatives.append(Alternative(start, count, way.product, (first, second, result), after))

    def described(self, kernel: TritonKernel, arrays: Sequence[ArraySpec]) -> TritonPhases:
        return TritonPhases([launch(kernel, [a.dtype for a in arrays])])

    def copy(self, source: SlotView) -> TritonPhases:
        return TritonPhases([copy_phase(source.dtype, source.shape, source.strides, 0, 1)])

    def fill(self, size: int) -> TritonPhases:
        return TritonPhases([fill_phase(np.dtype(np.int8), size, "-1", 0)])


def _launch(phase: TritonPhase, places: Sequence[Position], name: str) -> Launch:
    return Launch(phase.function, tuple(places[i] for i in phase.buffers), phase.numbers, phase.configs, name)

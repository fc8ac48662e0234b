"""A planned program as launches of Triton functions, and the calls of the host amid them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from hybridc.dialects.interfaces import AddsRows, ArraySpec, DrawsUniform, HasGPUKernel
from hybridc.dialects.mlir.hybrid import dtype_of, shape_of
from hybridc.dialects.mlir.hybrid_rt import LaunchOp, aligned
from hybridc.dialects.operator import Operator
from hybridc.ir.host import numbers_of
from hybridc.ir.launch_check import check_launch, written_over
from hybridc.ir.native_plan import Position
from hybridc.ir.planned import ARENA, SlotView
from hybridc.ir.values import volume
from hybridc.lower.emit_planned import PlanEmitter, comment, place_of
from hybridc.lower.poison import Bytes
from hybridc.lower.triton.codes import TritonCodes
from hybridc.lower.triton.expressions.draws import uniform_phase
from hybridc.lower.triton.launches import Alternative, Launch, TritonProgram
from hybridc.lower.triton.scatter import row_sums_phase
from hybridc.lower.triton.texts import copy_phase, fill_phase
from hybridc.lower.triton.triton_function import LibraryWay, TritonPhase
from hybridc.lower.triton.user_kernel import launch
from hybridc.options import OPTIONS


def emit(module: ModuleOp, name: str, poison: bool = OPTIONS.poison, codes: TritonCodes | None = None) -> TritonProgram:
    """The launches of the planned function ``name``; with ``poison``, memory that holds nothing holds NaN.

    ``codes`` are those of the module's kernels, if they were asked for before.
    """
    return _LaunchEmitter(module, name, TritonCodes() if codes is None else codes, poison).run()


class _LaunchEmitter(PlanEmitter):
    def __init__(self, module: ModuleOp, name: str, codes: TritonCodes, poison: bool) -> None:
        self.program = TritonProgram(name, "", 0)
        super().__init__(module, self.program, poison)
        self.codes = codes

    def run(self) -> TritonProgram:
        self.walk()
        self.program.source += "\n" + self.program.code()
        return self.program

    def launched(self, lines: int, steps: int) -> None:
        functions = [s.function for s in self.program.steps[steps:] if isinstance(s, Launch)]
        self.program.calls.append(("\n".join(self.lines[lines:]), functions))

    def kernel(self, op: LaunchOp, function: func.FuncOp) -> None:
        kernel = self.codes.kernel(function)
        given = [self.views[v] for v in (*op.ins, *op.outs)]
        strides = {i: given[i].strides for i in numbers_of(function, "hybrid.strided")}
        views = [i for i, v in enumerate(given) if not v.is_plain and i not in strides]
        assert not views, f"{kernel.name} is given views as plain arrays: {views}"
        made = self.codes.of(kernel, strides)
        places = [place_of(v) for v in given]
        offset = 0 if op.scratch is None else self.views[op.scratch].offset
        for size in made.locals:
            places.append(Position(ARENA, offset))
            offset += aligned(size)
        given_bytes = 0 if op.scratch is None else volume(self.views[op.scratch].shape)
        needed = sum(map(aligned, made.locals))
        over = written_over(op.ins, op.outs)
        check_launch(kernel.name, given_bytes, needed, over, lambda: self.codes.inplace(kernel, sorted(strides)))
        self.lines.append(f"{kernel.name}{comment(*kernel.locations)}")
        start = len(self.program.steps)
        for phase in made.phases:
            self._phase(phase, places, kernel.name)
        if made.library is not None:
            self._alternative(start, made.library, places, kernel.name)

    def _alternative(self, start: int, way: LibraryWay, places: Sequence[Position], name: str) -> None:
        """Note a library's way; none if what follows reads an argument that the product would be written over."""
        first, second, result = [places[i] for i in way.product.buffers]
        after = tuple(_launch(phase, places, name) for phase in way.after)
        if after and result in places[: way.product.buffers[2]]:
            return
        count = len(self.program.steps) - start
        self.program.alternatives.append(Alternative(start, count, way.product, (first, second, result), after))

    def computed(self, operator: Operator, ins: Sequence[SSAValue], outs: Sequence[SSAValue]) -> TritonPhase | None:
        if isinstance(operator, HasGPUKernel):
            specs = [[ArraySpec(shape_of(v), dtype_of(v)) for v in values] for values in (ins, outs)]
            return launch(operator.gpu(*specs), [spec.dtype for values in specs for spec in values])
        if isinstance(operator, AddsRows) and (sums := operator.row_sums()) is not None:
            data, indices = ins
            return row_sums_phase(sums, volume(shape_of(indices)), dtype_of(data), dtype_of(indices))
        if isinstance(operator, DrawsUniform):
            return uniform_phase(volume(shape_of(outs[0])), dtype_of(outs[0]), operator.draw_number())
        return None

    def compute(self, made: TritonPhase, places: list[Position], name: str) -> None:
        self._phase(made, places, name)

    def copy(self, source: SlotView, target: SlotView) -> None:
        phase = copy_phase(source.dtype, source.shape, source.strides, 0, 1)
        self._phase(phase, [place_of(source), place_of(target)], "copy")

    def fill(self, slot: int, place: Bytes) -> None:
        begin, end = place
        self._phase(fill_phase(np.dtype(np.int8), end - begin, "-1", 0), [Position(slot, begin)], "poison")

    def _phase(self, phase: TritonPhase, places: Sequence[Position], name: str) -> None:
        if 0 in phase.configs[0].grid:
            return
        launch = _launch(phase, places, name)
        self.program.steps.append(launch)
        where = ", ".join(f"{b.slot}+{b.offset}" for b in launch.buffers)
        given = ", ".join(map(str, phase.numbers))
        self.lines.append(f"    {phase.function.name}: buffers ({where}), numbers ({given}), {phase.configs[0]}")


def _launch(phase: TritonPhase, places: Sequence[Position], name: str) -> Launch:
    return Launch(phase.function, tuple(places[i] for i in phase.buffers), phase.numbers, phase.configs, name)

"""A planned program as a native plan: a table of steps for the executor, and what Python does before and after it."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from hybridc.dialects.interfaces import AddsRows, DrawsUniform
from hybridc.dialects.mlir.hybrid import dtype_of, shape_of
from hybridc.dialects.mlir.hybrid_rt import LaunchOp, aligned
from hybridc.dialects.operator import Operator
from hybridc.ir.host import numbers_of
from hybridc.ir.launch_check import check_launch
from hybridc.ir.native_plan import Phase, Position
from hybridc.ir.planned import ARENA, SlotView
from hybridc.ir.values import volume
from hybridc.lower.emit_planned import PlanEmitter, comment, place_of
from hybridc.lower.llvm.kernel_code import Codes
from hybridc.lower.llvm.loops.kernel_phases import KernelPhase, copy_phase, fill_phase
from hybridc.lower.llvm.loops.philox_loops import uniform_phase
from hybridc.lower.llvm.loops.scatter_loops import row_sums_phase
from hybridc.lower.llvm.native_source import NativeSource
from hybridc.lower.poison import Bytes
from hybridc.options import OPTIONS


def emit(
    module: ModuleOp, name: str, threads: int, poison: bool = OPTIONS.poison, codes: Codes | None = None
) -> NativeSource:
    """The native plan of the planned function ``name``; with ``poison``, memory that holds nothing holds NaN.

    ``codes`` are those of the module's kernels, if they were asked for before.
    """
    return _StepEmitter(module, name, Codes(threads) if codes is None else codes, poison).run()


class _StepEmitter(PlanEmitter):
    def __init__(self, module: ModuleOp, name: str, codes: Codes, poison: bool) -> None:
        self.program = NativeSource(name, "", 0, threads=codes.threads)
        super().__init__(module, self.program, poison)
        self.codes = codes

    def run(self) -> NativeSource:
        self.walk()
        return self.program

    def launched(self, lines: int, steps: int) -> None:
        functions = [s[0] for s in self.program.steps[steps:] if isinstance(s, tuple)]
        self.program.calls.append(("\n".join(self.lines[lines:]), functions))

    def kernel(self, op: LaunchOp, function: func.FuncOp) -> None:
        kernel = self.codes.kernel(function)
        name = kernel.name
        reads, writes, memory = op.groups
        ins, outs = [self.views[v] for v in reads], [self.views[v] for v in writes]
        strides = {i: [*ins, *outs][i].strides for i in numbers_of(function, "hybrid.strided")}
        over = [
            (i, j)
            for i, a in enumerate(ins)
            for j, b in enumerate(outs)
            if (a.slot, a.offset) == (b.slot, b.offset) and volume(a.shape)
        ]
        views = [i for i, v in enumerate([*ins, *outs]) if not v.is_plain and i not in strides]
        assert not views, f"{name} is given views as plain arrays: {views}"
        made = self.codes.of(kernel, strides, over)
        scratch = self.views[memory] if memory is not None else None
        each = aligned(made.scratch) * bool(made.scratch)
        places = [place_of(v) for v in (*ins, *outs)]
        offset = (0 if scratch is None else scratch.offset) + self.program.threads * each
        for size in made.locals:
            places.append(Position(ARENA, offset))
            offset += aligned(size)
        needed = offset if scratch is None else offset - scratch.offset
        given_bytes = 0 if scratch is None else volume(scratch.shape)
        check_launch(name, given_bytes, needed, over, lambda: self.codes.inplace(kernel, sorted(strides)))
        where = None if scratch is None else Position(ARENA, scratch.offset)
        self.lines.append(f"{name}{comment(*self.codes.lines(kernel))}")
        for phase in made.phases:
            self._phase(phase, [places[i] for i in phase.buffers], where, each, name)

    def computed(self, operator: Operator, ins: Sequence[SSAValue], outs: Sequence[SSAValue]) -> KernelPhase | None:
        if isinstance(operator, AddsRows) and (sums := operator.row_sums()) is not None:
            data, indices = ins
            count = volume(shape_of(indices))
            return row_sums_phase(sums, count, dtype_of(data), dtype_of(indices), self.program.threads)
        if isinstance(operator, DrawsUniform):
            return uniform_phase(volume(shape_of(outs[0])), dtype_of(outs[0]), operator.draw_number())
        return None

    def compute(self, made: KernelPhase, places: list[Position], name: str) -> None:
        self._phase(made, places, None, 0, name)

    def copy(self, source: SlotView, target: SlotView) -> None:
        phase = copy_phase(source.dtype, source.shape, source.strides, 0, 1)
        self._phase(phase, [place_of(source), place_of(target)], None, 0, "copy")

    def fill(self, slot: int, place: Bytes) -> None:
        begin, end = place
        phase = fill_phase(np.dtype(np.int8), end - begin, -1, 0)
        self._phase(phase, [Position(slot, begin)], None, 0, "poison")

    def _phase(
        self, phase: KernelPhase, buffers: list[Position], scratch: Position | None, each: int, name: str
    ) -> None:
        if phase.extent <= 0:
            return
        numbers = b"".join(_cell(n) for n in phase.numbers)
        made = Phase(
            cast(Any, None), tuple(buffers), numbers, phase.extent, phase.grain, scratch, each, name, phase.least
        )
        self.program.steps.append((phase.function, made))
        self.program.work += phase.work
        places = ", ".join(f"{b.slot}+{b.offset}" for b in buffers)
        given = ", ".join(map(str, phase.numbers))
        self.lines.append(f"    [0, {phase.extent}) by {phase.grain}, buffers ({places}), numbers ({given})")


def _cell(number: float) -> bytes:
    return struct.pack("<q", number) if isinstance(number, int) else struct.pack("<d", number)

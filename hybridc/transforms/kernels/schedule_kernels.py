"""The schedule of a loop nest as a tile program: every statement that its plan decides about is written out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from xdsl.ir import SSAValue

from hybridc.dialects.math.reduction import LONG_COLUMN
from hybridc.ir.kernel import KernelOp, Read
from hybridc.ir.loop_nest_plan import LoopNestPlan, Sweep
from hybridc.ir.strides import row_major
from hybridc.ir.structured import shape_of
from hybridc.ir.tile_program import (
    Address,
    Axes,
    Factor,
    TileBuffer,
    TileProgram,
    TileReduce,
    TileScratch,
    TileStore,
    TileSweep,
    verify,
)
from hybridc.options import OPTIONS
from hybridc.transforms.kernels.tile_statements import BodyStatements, kind_of, start_of

# Terms of a sum that are added in their order, and rounded before.
SHORT = 8
# Elements of a sum over one axis that are accumulated before their sum is added to those of other blocks; and blocks
# whose sums are accumulated before (pairwise summation).
BLOCK, BLOCKS = LONG_COLUMN, 64


@dataclass(frozen=True)
class LoopNestMemory:
    """The memory that a nest is given.

    ``values`` are the values of each buffer, in order (several if one is written over another), ``parts`` the values
    whose partial results are in the buffers that follow, ``strided`` those whose strides are given.
    """

    values: tuple[tuple[SSAValue, ...], ...]
    parts: tuple[SSAValue, ...] = ()
    strided: tuple[SSAValue, ...] = ()


def schedule(plan: LoopNestPlan, memory: LoopNestMemory) -> TileProgram:
    """The tile program of a planned nest."""
    program = _TileScheduler(plan, memory=memory).run()
    if OPTIONS.verify:
        verify(program)
    return program


@dataclass(eq=False)
class _TileScheduler(BodyStatements):
    memory: LoopNestMemory = field(default_factory=lambda: LoopNestMemory(()))
    places: dict[SSAValue, Address] = field(default_factory=dict[SSAValue, Address])  # of what the nest makes
    buffers: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    steps: dict[SSAValue, tuple[Factor, ...]] = field(default_factory=dict[SSAValue, tuple[Factor, ...]])

    def run(self) -> TileProgram:
        """The program."""
        plan = self.plan
        given = [TileBuffer(f"b{i}", kind_of(group[0])) for i, group in enumerate(self.memory.values)]
        given += [TileBuffer(f"p{i}", kind_of(v), pieces=True) for i, v in enumerate(self.memory.parts)]
        self.program = TileProgram(
            tuple(given),
            tuple([None if a in plan.dynamic else n for a, n in enumerate(plan.sizes)]),
            plan.parallel,
            (),
            tuple(TileScratch(f"t{i}", kind_of(v), self._kept_axes(v)) for i, v in enumerate(plan.scratch)),
            sum(len(shape_of(v)) for v in self.memory.strided),
            plan.shared,
            plan.tiled,
            plan.inner,
        )
        self._place()
        sweeps: list[TileSweep] = []
        for sweep in plan.sweeps:
            self._sweep(sweep)
            if sweeps and self.before and not sweeps[-1].axes:
                self.before = [*sweeps.pop().statements, *self.before]
            sweeps += [TileSweep((), tuple(self.before))] if self.before else []
            sweeps += [TileSweep(sweep.axes, tuple(self.statements), self._blocks())] if self.statements else []
        return replace(self.program, sweeps=tuple(sweeps))

    # --- memory --------------------------------------------------------------------------------------------

    def _place(self) -> None:
        """Say where values are."""
        first = 0
        given: dict[SSAValue, tuple[Factor, ...]] = {}
        for value in self.memory.strided:
            rank = len(shape_of(value))
            given[value] = tuple(Factor(stride=first + i) for i in range(rank))
            first += rank
        for i, group in enumerate(self.memory.values):
            for value in group:
                self.buffers[value] = f"b{i}"
                known = tuple(Factor(n) for n in row_major(shape_of(value)))
                self.steps[value] = given.get(value, known)
                if value in self.plan.op_of:
                    self.places[value] = self._element_at(value, self.plan.op_of[value].axes)
        for i, value in enumerate(self.memory.parts):
            axes = self.plan.axes(self.plan.op_of[value].axes)
            self.places[value] = self.program.row_major(f"p{i}", axes)
        for i, value in enumerate(self.plan.scratch):
            self.places[value] = self.program.row_major(f"t{i}", self._kept_axes(value))

    def _kept_axes(self, value: SSAValue) -> Axes:
        return tuple(a for a in self.plan.axes(self.plan.op_of[value].axes) if a in self.plan.inner)

    def buffer(self, value: SSAValue) -> str:
        return self.buffers[value]

    def strides(self, value: SSAValue) -> tuple[Factor, ...]:
        return self.steps[value]

    def address(self, read: Read) -> Address:
        if read.value in self.plan.op_of:
            return self.places[read.value]
        return self._element_at(read.value, read.axes)

    def _element_at(self, value: SSAValue, axes: Axes) -> Address:
        """The element of an argument or result whose dimensions follow these axes of the nest."""
        merged = self.plan.axes(axes)
        if value not in self.memory.strided:
            return self.program.row_major(self.buffers[value], merged)
        return Address(self.buffers[value], tuple(zip(merged, self.steps[value], strict=True)))

    # --- sweeps --------------------------------------------------------------------------------------------

    def _blocks(self) -> tuple[int, ...]:
        """The blocks in which the innermost loop adds up, if it adds up many terms."""
        if self.plan.shared or not any(isinstance(s, TileReduce) and s.carried for s in self.statements):
            return ()
        size = self.program.sizes[self.axes[-1]]
        if size is None or size > BLOCK * BLOCKS:
            return (BLOCK * BLOCKS, BLOCK)
        return (BLOCK,) if size > BLOCK else ()

    def _sweep(self, sweep: Sweep) -> None:
        self.before, self.statements, self.axes = [], [], sweep.axes
        known = dict(self.known)
        for kernel_op in sweep.ops:
            self._kernel_op(kernel_op)
        if self.plan.tiled is None:  # all sweeps over a tile are about the same element
            made = {v: name for v, name in self.known.items() if name not in self.varying}
            self.known = {**known, **made}
            self.loaded = {key: name for key, name in self.loaded.items() if name not in self.varying}

    def _kernel_op(self, kernel_op: KernelOp) -> None:
        if kernel_op.combine is not None:
            self._reduction(kernel_op, kernel_op.combine.name)
            return
        name = self.known[kernel_op.result] = self.body(kernel_op)
        if kernel_op.result in self.places:
            self.write(TileStore(name, self.places[kernel_op.result]), bool(self.axes))

    def _reduction(self, kernel_op: KernelOp, combine: str) -> None:
        plan, axes = self.plan, self.axes
        reduced = plan.axes(kernel_op.reduced)
        over = tuple(a for a in axes if a in reduced)
        carried = next((i for i, a in enumerate(reversed(axes)) if a not in reduced), len(axes))
        into = self.places.get(kernel_op.result)
        partial = kernel_op.result in self.memory.parts
        accumulates = partial or carried < len(over)
        if not carried and into is None:
            return
        element = self.element(kernel_op)
        short = not plan.dynamic & {*reduced} and plan.extent(reduced) <= SHORT
        rest = (over, kind_of(kernel_op.result), carried, into, accumulates, short)
        name = self.add(TileReduce, combine, element, start_of(kernel_op), *rest, varies=bool(axes))
        if not accumulates and {*axes} <= {*over}:
            self.varying.discard(name)
            self.known[kernel_op.result] = name

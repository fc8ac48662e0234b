"""The schedule of a kernel's loop nests for a machine whose programs work on whole tiles.

* *elements*: nothing is reduced; a program makes a block of the results, flat or, where memory is followed along two
  axes, in two dimensions.
* *rows*: a program holds whole rows in registers; all sweeps over them happen there. Column reductions are added up
  over the rows of a program, as partial results.
* *sums*: one sweep whose reductions all go along the same axes: programs share these axes, too, and give partial
  results. Of two reductions one may be of the other's result, if they are an online reduction
  (:mod:`hybridc.ir.online_reductions`).
* *combine*: the partial results of a reduction are combined, in their order: results do not depend on chance.
* A nest that is none of these is split (:mod:`~hybridc.transforms.kernels.split_nest`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from types import MappingProxyType

from hybridc.ground.records import dataclass
from hybridc.ir.kernels.kernel import Axes, Kernel, KernelOp, KernelValue, LoopNest, readers_of
from hybridc.ir.loop_nest_plan import LoopNestPlan, loop_nests_of, plan_loop_nest, read_elsewhere
from hybridc.ir.online_reductions import OnlinePair
from hybridc.ir.tiles.tile_program import TileConfig, TileDim, TileLaunch, TileSweep
from hybridc.transforms.kernels.split_nest import (
    Groups,
    by_empty_axes,
    by_reduced_axes,
    by_sweeps,
    online_pairs,
    reads_pointwise,
    split_into_nests,
)
from hybridc.transforms.schedules.blocks.kernel_memory import KernelMemory, PartialResults, Strides
from hybridc.transforms.schedules.blocks.rows_in_registers import held_bytes
from hybridc.transforms.schedules.blocks.tile_blocks import TileStatements
from hybridc.transforms.schedules.blocks.tile_machine import MACHINE, TileMachine, power_of_two

# Rows of so many elements are few: what is one for each of them is seldom loaded, also where all elements are counted.
LONGEST = 1 << 25


def schedule_blocks(
    kernel: Kernel, strides: Mapping[int, Strides], initial: Mapping[KernelValue, int] = MappingProxyType({})
) -> tuple[list[TileLaunch], KernelMemory]:
    """The launches that make the results of a kernel, but for constant ones, and the buffers of its values.

    ``strides``, in elements, are of arguments, then results, that may not be contiguous. Values that are ``initial``
    lie in the memory of the results with these indices when the kernel begins.
    """
    memory = KernelMemory(kernel, strides)
    memory.names |= {value: f"y{i}" for value, i in initial.items()}
    return _BlockScheduler(kernel, memory, MACHINE).run(), memory


@dataclass(eq=False)
class _BlockScheduler:
    kernel: Kernel
    memory: KernelMemory
    machine: TileMachine
    launches: list[TileLaunch] = field(default_factory=list[TileLaunch])

    def run(self) -> list[TileLaunch]:
        """The launches, in order."""
        nests = loop_nests_of(self.kernel)
        readers = readers_of(nests)
        for nest in nests:
            for kernel_op in nest.ops:
                if read_elsewhere(readers, nest, kernel_op.result):
                    self.memory.materialize(kernel_op.result)
            self._nest(nest)
        return self.launches

    # --- the choice ----------------------------------------------------------------------------------------

    def _nest(self, nest: LoopNest) -> None:
        plan = plan_loop_nest(self.kernel, nest, frozenset(self.memory.strides), self.memory.names.__contains__)
        if not plan.sweeps:
            return
        kernel_ops = list(plan.op_of.values())
        sums = [s for s in kernel_ops if s.combine is not None]
        reduced = list(dict.fromkeys(plan.axes(s.reduced) for s in sums))
        read = {r.value for s in kernel_ops for r in s.reads}
        pointwise = reads_pointwise(kernel_ops)
        if groups := by_empty_axes(plan, self.memory):
            self._split(plan, groups)
        elif not sums and pointwise:
            self._elements(plan)
        elif pointwise and self._holds_rows(plan, sums):
            self._rows(plan)
        elif pairs := online_pairs(plan, kernel_ops):
            self._sums(plan, reduced[0], pairs)
        elif not pointwise or any(s.result in read for s in sums):
            self._split(plan, by_sweeps(plan, self.memory))
        elif len(reduced) == 1:
            self._sums(plan, reduced[0])
        else:
            self._split(plan, by_reduced_axes(plan))

    def _holds_rows(self, plan: LoopNestPlan, sums: Sequence[KernelOp]) -> bool:
        """Whether a program holds all that a row needs, and rows are enough for all programs or short."""
        machine, inner = self.machine, self._padded(plan, plan.inner)
        if inner > machine.longest_row or inner * held_bytes(plan) > machine.row_bytes:
            return False
        across = [s for s in sums if plan.is_column_reduction(s)]
        if len(across) == len(sums) or not all({*plan.parallel} <= {*plan.axes(s.reduced)} for s in across):
            return False
        return plan.extent(plan.parallel) >= machine.few_rows or inner <= machine.long_row

    def _split(self, plan: LoopNestPlan, groups: Groups) -> None:
        for nest in split_into_nests(plan, groups, self.memory):
            self._nest(nest)

    # --- elements ------------------------------------------------------------------------------------------

    def _elements(self, plan: LoopNestPlan) -> None:
        if plan.extent((*plan.parallel, *plan.inner)) == 0:
            return
        machine, axes = self.machine, (*plan.parallel, *plan.inner)
        if plan.tiled is not None:
            tall, wide = machine.side, 2 * machine.side
            sides = ((tall, tall), (wide, tall), (tall, wide), (wide, wide))
            dims = self._dim(plan, plan.parallel[-1:], "ROWS", wide), self._dim(plan, plan.inner, "COLUMNS", wide)
            configs = [self._config(ROWS=rows, COLUMNS=columns) for rows, columns in sides]
        elif self._has_row_scalars(plan):
            n, length = machine.elements, plan.extent(plan.inner)
            blocks = [b for b in (n, 2 * n, n // 2, 4 * n) if b <= length]
            dims = (self._dim(plan, plan.inner, "BLOCK", max(blocks)),)
            configs = [self._config(BLOCK=b) for b in blocks]
        else:
            total = plan.extent(axes)
            n = min(machine.elements, max(32, power_of_two(total)))
            blocks = [b for b in (n, 2 * n, n // 2, 4 * n) if b == n or total > machine.programs * b // 2]
            dims = (self._dim(plan, axes, "BLOCK", max(blocks)),)
            configs = [self._config(BLOCK=b) for b in blocks]
        text = self._statements(plan)
        text.ops(list(plan.op_of.values()))
        self._add("elements", text, dims, (TileSweep((), text.take()),), configs)

    def _has_row_scalars(self, plan: LoopNestPlan) -> bool:
        """Whether some values are one for each row, of rows that are long, and begin where vectors do.

        A program with elements of several rows loads such a value once for each element.
        """
        length, least = plan.extent(plan.inner), self.machine.elements
        if length % self.machine.vector or not least <= length < LONGEST:
            return False
        followed = [plan.axes(r.axes) for s in plan.op_of.values() for r in s.reads if r.value.constant is None]
        stored = [plan.axes(s.axes) for s in plan.op_of.values() if s.result in self.memory.names]
        inner = {*plan.inner}
        return any(axes and not inner & {*axes} for axes in followed) and all(inner <= {*axes} for axes in stored)

    # --- rows ----------------------------------------------------------------------------------------------

    def _rows(self, plan: LoopNestPlan) -> None:
        plan = replace(plan, dynamic=plan.dynamic - {*plan.inner})
        points = plan.extent(plan.parallel)
        inner, limit = self._padded(plan, plan.inner), self.machine.row_elements
        rows = max(1, min(power_of_two(points), limit // inner))
        choices = [rows] + [r for r in (2 * rows, rows // 2) if 1 <= r <= points and r * inner <= 4 * limit]
        kernel_ops = list(plan.op_of.values())
        across = [s for s in kernel_ops if s.combine is not None and plan.is_column_reduction(s)]
        if points == 0 and not across:
            return
        configs = [TileConfig((("ROWS", r),), w) for r in choices for w in self.machine.warps_to_hold(r * inner)]
        dims = [self._dim(plan, plan.parallel, "ROWS", max(choices), "piece" if across else "grid")]
        dims += [
            self._dim(plan, (a,), power_of_two(plan.sizes[a]), power_of_two(plan.sizes[a]), "whole") for a in plan.inner
        ]
        text = self._statements(plan)
        if not across:
            text.ops(kernel_ops)
            self._add("rows", text, dims, (TileSweep((), text.take()),), configs)
            return
        pieces, piece = self._pieces(points, max(choices), 1)
        parts = [self._part(s, pieces) for s in across]
        self._add("rows", text, dims, text.accumulated(kernel_ops, parts, plan.parallel, ()), configs, piece)
        self._combine(plan, parts)

    # --- sums ----------------------------------------------------------------------------------------------

    def _sums(self, plan: LoopNestPlan, over: Axes, pairs: Sequence[OnlinePair] = ()) -> None:
        kept = tuple(a for a in range(len(plan.sizes)) if a not in over)
        machine, terms, outputs = self.machine, plan.extent(over), plan.extent(kept)
        if outputs == 0:
            return
        vector = plan.merged[plan.nest.vector] if plan.nest.vector is not None else 0
        columns = min(power_of_two(outputs), machine.rows if vector in over else machine.columns)
        rows = max(1, min(power_of_two(terms), machine.row_elements // columns))
        pieces, piece = self._pieces(terms, rows, -(-outputs // columns))
        dims = self._dim(plan, over, "ROWS", piece, "piece"), self._dim(plan, kept, "COLUMNS", columns)
        kernel_ops = list(plan.op_of.values())
        for kernel_op in kernel_ops:
            if kernel_op.combine is not None:
                self.memory.materialize(kernel_op.result)
        parts = {s: self._part(s, pieces) for s in kernel_ops if s.combine is not None}
        text = self._statements(plan)
        sweeps = text.accumulated(kernel_ops, list(parts.values()), over, pairs)
        self._add("sums", text, dims, sweeps, [self._config(ROWS=rows, COLUMNS=columns)], piece)
        for pair in pairs if pieces > 1 else ():
            self._join(plan, pair, (parts.pop(pair.first), parts.pop(pair.second)), terms, piece)
        self._combine(plan, list(parts.values()))

    def _pieces(self, terms: int, block: int, programs: int) -> tuple[int, int]:
        """How many pieces a reduction is cut into, and how long they are: a multiple of a block."""
        machine, blocks = self.machine, max(1, -(-terms // block))
        wanted = min(-(-blocks // machine.piece_blocks), machine.pieces, max(1, machine.programs // programs))
        piece = -(-blocks // wanted) * block
        return max(1, -(-terms // piece)), piece

    def _part(self, kernel_op: KernelOp, pieces: int) -> PartialResults:
        """The buffer of the partial results of a reduction: the result itself, if there is only one."""
        if pieces == 1:
            return PartialResults(kernel_op, self.memory.names[kernel_op.result], 1)
        elements = pieces * kernel_op.result.size
        return PartialResults(kernel_op, self.memory.local(elements, kernel_op.result), pieces)

    # --- partial results -----------------------------------------------------------------------------------

    def _combine(self, plan: LoopNestPlan, parts: Iterable[PartialResults]) -> None:
        """The launches that combine partial results."""
        for part in parts:
            if part.pieces > 1:
                text = self._statements(self._of_parts(plan, part))
                text.combined(part)
                self._combined(text, part)

    def _join(
        self, plan: LoopNestPlan, pair: OnlinePair, parts: tuple[PartialResults, PartialResults], terms: int, piece: int
    ) -> None:
        """The launch that combines the partial results of an online reduction, each of ``piece`` of the ``terms``."""
        text = self._statements(self._of_parts(plan, parts[0]))
        text.joined(pair, parts, terms, piece)
        self._combined(text, parts[0])

    def _of_parts(self, plan: LoopNestPlan, part: PartialResults) -> LoopNestPlan:
        """The plan for the iteration space of partial results: which one, and the index in the result."""
        sizes = (part.pieces, part.kernel_op.result.size)
        return replace(plan, sizes=sizes, dynamic=frozenset())

    def _combined(self, text: TileStatements, part: PartialResults) -> None:
        pieces, size = text.plan.sizes
        rows = power_of_two(pieces)
        columns = min(power_of_two(size), max(1, self.machine.combined // rows))
        dims = self._dim(text.plan, (0,), rows, rows, "whole"), self._dim(text.plan, (1,), "COLUMNS", columns)
        config = TileConfig((("COLUMNS", columns),), self.machine.warps_for(rows * columns))
        self._add("combine", text, dims, (TileSweep((), text.take()),), [config])

    # --- programs ------------------------------------------------------------------------------------------

    def _statements(self, plan: LoopNestPlan) -> TileStatements:
        return TileStatements(plan, values=self.memory.names, stepped=self.memory.strides)

    def _dim(self, plan: LoopNestPlan, axes: Axes, block: int | str, least: int, walk: str = "grid") -> TileDim:
        """A dimension of tiles; ``least`` is what divides its length if no tile reaches beyond the end."""
        count = plan.extent(axes)
        return TileDim(axes, block, walk, bool(plan.dynamic & {*axes}) or count % least != 0 or count == 0)

    def _padded(self, plan: LoopNestPlan, axes: Axes) -> int:
        """Elements of blocks that hold all of these axes."""
        return math.prod(power_of_two(plan.sizes[a]) for a in axes)

    def _config(self, **blocks: int) -> TileConfig:
        return TileConfig(tuple(blocks.items()), self.machine.warps_for(math.prod(blocks.values())))

    def _add(
        self,
        what: str,
        text: TileStatements,
        dims: Sequence[TileDim],
        sweeps: Sequence[TileSweep],
        configs: Sequence[TileConfig],
        piece: int | None = None,
    ) -> None:
        text.far = max(text.far, text.plan.extent(range(len(text.plan.sizes))))
        self.launches.append(text.launch(what, self.memory, dims, sweeps, configs, piece))

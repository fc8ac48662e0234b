"""The schedule of a matmul and its epilogue for a machine whose programs work on whole tiles.

A program has a tile of the result: ``bm`` rows and ``bn`` columns of one batch, and loops over the terms, ``bk`` at a
time. Where programs share the terms, each leaves its sums in memory, as partial results, and a second launch adds these
in their order: results do not depend on chance. A vector times a matrix has no rows: products of different terms stay
apart until all are there. Sizes and strides are constants of the program, so that it is known which accesses may be
wide.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from hybridc.dtypes import DType
from hybridc.ground.records import dataclass
from hybridc.ir.loop_nest_plan import LoopNestPlan
from hybridc.ir.tiles.tile_program import (
    Address,
    Axes,
    Dims,
    Factor,
    TileCarry,
    TileConfig,
    TileDim,
    TileLaunch,
    TileLoad,
    TileReduce,
    TileStore,
    TileSweep,
    TileUpdate,
)
from hybridc.transforms.schedules.blocks.fused_matmul import FusedMatmul, MatmulOperand
from hybridc.transforms.schedules.blocks.kernel_memory import KernelMemory
from hybridc.transforms.schedules.blocks.tile_blocks import TileStatements


def schedule_matmul(
    matmul: FusedMatmul, memory: KernelMemory, configs: Sequence[TileConfig], parts: int, of_sum: TileConfig
) -> list[TileLaunch]:
    """The launches of a matmul, in any of these ``configs``, of whose terms programs have as many ``parts``, at most.

    Their blocks are called ``bm`` (not of a vector), ``bn`` and ``bk``. What adds up parts is launched as ``of_sum``.
    """
    scheduler = _MatmulScheduler(matmul, memory, configs)
    if parts == 1:
        return [scheduler.whole()]
    part = scheduler.part(parts)
    return [part, scheduler.sum_of_parts(part.pieces, of_sum)]


@dataclass(eq=False)
class _MatmulScheduler:
    matmul: FusedMatmul
    memory: KernelMemory
    configs: Sequence[TileConfig]

    def __post_init__(self) -> None:
        matmul = self.matmul
        first, sizes = len(matmul.plan.sizes), matmul.terms or (1,)
        self.terms: Axes = tuple(range(first, first + len(sizes)))
        self.plan = replace(matmul.plan, sizes=(*matmul.plan.sizes, *sizes))
        self.kind = matmul.kernel_op.result.kind
        self.kept = (*matmul.batch, *matmul.rows, *matmul.columns)
        # The dimensions of tiles are rows and columns, if there are any, and last terms.
        self.sides = [(block, axes) for block, axes in (("bm", matmul.rows), ("bn", matmul.columns)) if axes]
        self.last = len(self.sides)
        self.vector = matmul.m == 1
        self.partial, self.partials = "", 0  # the buffer of partial results, and how many there are

    # --- the launches --------------------------------------------------------------------------------------

    def whole(self) -> TileLaunch:
        """All terms, and what follows them."""
        text = self._statements(self.plan)
        total, sweeps = self._sum(text, 0 if self.vector else self.matmul.start)
        self._results(text, total, self.vector)
        return self._launch("matmul", text, [*sweeps, TileSweep((), text.take())], self._terms("loop"), self.configs)

    def part(self, parts: int) -> TileLaunch:
        """Sums of a part of the terms, as a buffer of partial results."""
        matmul = self.matmul
        most = max(dict(c.blocks)["bk"] for c in self.configs)
        piece = max(1, math.ceil(matmul.k / (parts * most))) * most
        pieces = max(1, math.ceil(matmul.k / piece))
        text = self._statements(self.plan)
        total, sweeps = self._sum(text, 0)
        self.partials = pieces * matmul.outputs
        self.partial = self.memory.local(self.partials, matmul.kernel_op.result)
        buffer = text.named(self.partial, matmul.kernel_op.result, True, self.partials)
        text.write(TileStore(total, text.space.row_major(buffer, self.kept), text.on))
        sweeps.append(TileSweep((), text.take()))
        return self._launch(f"part of {pieces} of a matmul", text, sweeps, self._terms("piece"), self.configs, piece)

    def sum_of_parts(self, parts: int, config: TileConfig) -> TileLaunch:
        """The sums of all parts, one after the other, and what follows them."""
        matmul = self.matmul
        part = (len(matmul.plan.sizes),)
        text = self._statements(replace(matmul.plan, sizes=(*matmul.plan.sizes, parts)))
        text.on = tuple(range(len(self.sides)))
        total = text.add(TileCarry, 0.0, self.kept, self.kind, text.on)
        sweeps = [TileSweep((), text.take())]
        buffer = text.named(self.partial, matmul.kernel_op.result, False, self.partials)
        addend = text.add(TileLoad, text.space.row_major(buffer, (*part, *self.kept)), self.kind, text.on)
        text.write(TileUpdate(total, text.map("arith.addf", total, addend, kind=self.kind)))
        sweeps.append(TileSweep(part, text.take()))
        self._results(text, total, True)
        sweeps.append(TileSweep((), text.take()))
        dim = TileDim(part, 1, "loop", False)
        return self._launch(f"sum of {parts} parts of a matmul", text, sweeps, dim, [config])

    # --- statements ----------------------------------------------------------------------------------------

    def _statements(self, plan: LoopNestPlan) -> TileStatements:
        return TileStatements(plan, values=self.memory.names, stepped=self.matmul.strides)

    def _sum(self, text: TileStatements, start: float) -> tuple[str, list[TileSweep]]:
        """The loop over terms and what is before it, and the name of the sums."""
        matmul, last = self.matmul, self.last
        text.on = tuple(range(last + 1)) if self.vector else (0, 1)
        axes = (*matmul.rows, *matmul.columns, *(self.terms if self.vector else ()))
        total = text.add(TileCarry, float(start), axes, self.kind, text.on)
        sweeps = [TileSweep((), text.take())]
        if self.vector:
            factors = [self._operand(text, x, text.on, matmul.wide) for x in (matmul.left, matmul.right)]
            product = text.map("arith.mulf", *factors, kind=self.kind)
            text.write(TileUpdate(total, text.map("arith.addf", total, product, kind=self.kind)))
        else:
            left = self._operand(text, matmul.left, (0, last), matmul.dtype)
            right = self._operand(text, matmul.right, (last, 1), matmul.dtype)
            contracted = text.contracted(left, right, self.terms, (matmul.dtype, matmul.wide), total)
            text.write(TileUpdate(total, contracted))
        sweeps.append(TileSweep(self.terms, text.take()))
        if self.vector:
            total = text.add(TileReduce, "arith.addf", total, 0.0, self.terms, self.kind, 0)
        return total, sweeps

    def _operand(self, text: TileStatements, operand: MatmulOperand, on: Dims, dtype: DType) -> str:
        """A tile of an operand, with zeros beyond its rows, or columns, and terms."""
        matmul, blocks = self.matmul, [dict(c.blocks) for c in self.configs]
        size = matmul.batches * operand.kept * operand.terms
        own = operand.own
        buffer = text.buffer(operand.value) if own is None else text.named(own, operand.value, elements=size)
        terms = [(a, Factor(s)) for a, s in operand.axes.items()]
        terms += [(a, Factor(s)) for a, s in zip(self.terms, operand.loops or (0,), strict=True)]
        follows = {a for a, _ in terms}
        limits: list[int | None] = []
        for i in on:
            block, axes = self.sides[i] if i < self.last else ("bk", self.terms)
            end = operand.terms if i == self.last else operand.kept
            limits.append(end if follows & {*axes} and any(end % b[block] for b in blocks) else None)
        kept, text.on = text.on, on
        factor = text.factor(Address(buffer, tuple(terms)), operand.value.dtype, matmul.dtype, limits)
        text.on = kept
        return text.converted(factor, matmul.dtype, dtype)

    def _results(self, text: TileStatements, total: str, starts: bool) -> None:
        """The epilogue of the sums, which do not include their initial value if that ``starts`` here."""
        matmul = self.matmul
        if starts and matmul.start != 0:
            total = text.map("arith.addf", total, text.constant(float(matmul.start), self.kind), kind=self.kind)
        text.known[matmul.kernel_op.result] = total
        if matmul.kernel_op.result in matmul.kernel.results:
            text.store(matmul.kernel_op)
        text.ops([s for s in matmul.plan.nest.ops if s is not matmul.kernel_op])

    # --- programs ------------------------------------------------------------------------------------------

    def _terms(self, walk: str) -> TileDim:
        masked = any(self.matmul.k % dict(c.blocks)["bk"] for c in self.configs)
        return TileDim(self.terms, "bk", walk, masked)

    def _launch(
        self,
        what: str,
        text: TileStatements,
        sweeps: Sequence[TileSweep],
        walked: TileDim,
        configs: Sequence[TileConfig],
        piece: int | None = None,
    ) -> TileLaunch:
        matmul, blocks = self.matmul, [dict(c.blocks) for c in configs]
        dims = [
            TileDim(axes, block, "grid", any(text.plan.extent(axes) % b[block] for b in blocks))
            for block, axes in self.sides
        ]
        sizes = f"{matmul.m}x{matmul.n}, {matmul.k} terms{f', {matmul.batches} times' * (matmul.batches > 1)}"
        return text.launch(f"{what} ({sizes})", self.memory, [*dims, walked], sweeps, configs, piece)

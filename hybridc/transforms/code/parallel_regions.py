"""The parallel regions of a kernel: functions over a range that threads share, with their buffers and scalars.

They are those of loop nests, and of what moves elements. A function's key identifies its code. Kernels that differ in
sizes along their first axis share code: those sizes are scalar arguments.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from hybridc.dialects.mlir.hybrid_rt import aligned
from hybridc.ground.cached import cached_property
from hybridc.ground.records import dataclass
from hybridc.ground.sizes import row_major
from hybridc.ir.costs import LONG, OF_CORE, PARTS, element_times, sharing
from hybridc.ir.kernels.kernel import Kernel, KernelOp, KernelValue, LoopNest, readers_of
from hybridc.ir.loop_nest_plan import (
    LoopNestPlan,
    inplace_pairs,
    loop_nests_of,
    plan_loop_nest,
    read_elsewhere,
    scratch_bytes,
)
from hybridc.ir.planned import Position, Strides
from hybridc.transforms.code.loop_target import Function, Printer
from hybridc.transforms.schedules.schedule_kernels import BLOCK, LoopNestMemory, schedule
from hybridc.transforms.schedules.schedule_moves import (
    MoveSchedule,
    ProgramForm,
    combination_of,
    copy_of,
    program_of,
    schedule_copy,
    schedule_fill,
)

# Pieces of a column reduction: at most so many, or more of ``LONG`` points each; or
# as many as a core's cache holds, but at least ``PARTS``; with so many points, if there are enough, that the setup and
# the combination of a chunk do not count.
PIECES, POINTS = 64, 16


@dataclass(frozen=True)
class ParallelRegion:
    """A native function with its arguments.

    ``buffers`` are indices of the kernel's arguments, then its results, then its locals. Threads cut [0, extent) at
    multiples of ``grain``, but leave fewer than ``least`` iterations to one of them. ``scratch`` is in bytes per
    thread; ``work`` is an estimate of its time, in nanoseconds. ``algorithm`` names that of a contraction.
    """

    function: Function
    buffers: tuple[int, ...]
    numbers: tuple[int | float, ...]
    extent: int
    grain: int
    scratch: int = 0
    work: float = 0.0
    least: int = 0
    algorithm: str = ""

    @property
    def functions(self) -> tuple[Function, ...]:
        """Its function."""
        return (self.function,)


@dataclass(frozen=True)
class TileRegion:
    """A parallel region of a tile, whose own scratch begins at ``scratch`` bytes of the thread's.

    Slot 0 of its ``buffers`` is the thread's scratch, then come the buffers of the grid, from the tile on.
    """

    region: ParallelRegion
    buffers: tuple[Position, ...]
    scratch: int


@dataclass(frozen=True)
class GridRegion:
    """Parallel regions that run one after the other at each tile of a grid.

    There are ``sizes`` tiles along each axis; ``steps`` are the bytes between them, for each of the ``buffers``.
    """

    sizes: tuple[int, ...]
    steps: tuple[tuple[int, ...], ...]
    parts: tuple[TileRegion, ...]
    buffers: tuple[int, ...]
    extent: int
    grain: int
    scratch: int = 0
    work: float = 0.0
    least: int = 0

    @property
    def functions(self) -> tuple[Function, ...]:
        """The functions of its parts."""
        return tuple([part.region.function for part in self.parts])


@dataclass
class ParallelRegions:
    """All parallel regions of a kernel, and the bytes of each of its local buffers."""

    regions: list[ParallelRegion | GridRegion] = field(default_factory=lambda: list[ParallelRegion | GridRegion]())
    locals: list[int] = field(default_factory=lambda: list[int]())

    @property
    def functions(self) -> list[Function]:
        """The functions of all regions, in order."""
        return [f for r in self.regions for f in r.functions]

    @property
    def scratch(self) -> int:
        """Scratch bytes per thread."""
        return max((p.scratch for p in self.regions), default=0)

    def scratch_of(self, threads: int) -> int:
        """Scratch bytes of all threads that may take part; over a grid these are no more than it has tiles."""
        taking = (min(threads, p.extent) if isinstance(p, GridRegion) else threads for p in self.regions if p.scratch)
        return max(taking, default=0) * aligned(self.scratch)


class KernelLoops:
    """The functions of a kernel without contractions, for all sizes with the same loop structure.

    ``strided`` are indices of arguments, then results, that may be non-contiguous; ``inplace`` are the pairs of an
    argument and the result that overwrites it. ``printer`` makes the native function of a tile program.
    """

    def __init__(
        self,
        kernel: Kernel,
        strided: frozenset[int],
        inplace: Sequence[tuple[int, int]],
        printer: Printer,
    ) -> None:
        self._kernel = kernel
        self._printer = printer
        self._arguments, self._results = kernel.arguments, kernel.results
        values = [*self._arguments, *self._results]
        self._strided = frozenset(values[i] for i in strided)
        self._over = {self._arguments[i]: self._results[j] for i, j in inplace}
        self._number: dict[KernelValue, int] = {v: i for i, v in enumerate(self._arguments)}
        for i, v in enumerate(self._results, len(self._arguments)):
            self._number.setdefault(v, i)
        self._locals: list[KernelValue] = []  # the value, or partial results, in each local buffer
        self._alone = _alone(kernel)
        nests = loop_nests_of(kernel)
        self._readers = readers_of(nests)
        self._functions = [function for nest in nests if (function := self._nest(kernel, nest)) is not None]

    @cached_property
    def inplace_pairs(self) -> list[tuple[int, int]]:
        """Pairs of an argument and the result that may overwrite it."""
        return inplace_pairs(self._kernel, self._strided)

    def fits(self, kernel: Kernel) -> bool:
        """Whether the kernel, at its current sizes, has the same loop structure."""
        return _alone(kernel) == self._alone and all(self._plan(kernel, f) is not None for f in self._functions)

    def _plan(self, kernel: Kernel, functions: _LoopNestFunctions) -> LoopNestPlan | None:
        return functions.plan.at(functions.plan.nest.part_of(kernel))

    def at(self, kernel: Kernel, strides: Mapping[int, Strides]) -> ParallelRegions:
        """The parallel regions at the kernel's current sizes, which must fit."""
        values = [*kernel.arguments, *kernel.results]
        known = {values[i]: s for i, s in strides.items()}
        parallel = ParallelRegions([], [kernel.values[v].bytes for v in self._locals])
        first = len(values)
        for function in self._functions:
            plan = self._plan(kernel, function)
            assert plan is not None, f"{kernel.name} is walked in another way"
            parts = [plan.op_of[value] for value in function.parts]
            extent, piece = _extent(plan, parts)
            parallel.regions.append(function.at(kernel, plan, extent, piece, known))
            for kernel_op, local in zip(parts, function.locals, strict=True):
                parallel.locals[local - first] *= extent
                buffers = local, self._number[kernel_op.result]
                parallel.regions.append(combine_region(kernel_op, buffers, extent, self._printer))
        self._put_results(kernel, parallel)
        return parallel

    def _put_results(self, kernel: Kernel, parallel: ParallelRegions) -> None:
        """Fill results that are constant, and copy those that have no region of their own."""
        for i, v in enumerate(kernel.results, len(kernel.arguments)):
            value, shape = v.constant, v.shape
            if value is not None:
                fill = schedule_fill(v.dtype, shape, row_major(shape), value)
                parallel.regions.append(move_region(fill, (i,), self._printer))
            elif self._number[v] != i:
                copy = schedule_copy(copy_of(v.dtype, shape, row_major(shape)), None)
                parallel.regions.append(move_region(copy, (self._number[v], i), self._printer))

    def _local(self, value: KernelValue) -> int:
        """A buffer local to the kernel."""
        self._locals.append(value)
        return len(self._arguments) + len(self._results) + len(self._locals) - 1

    def _outside(self, nest: LoopNest, value: KernelValue) -> bool:
        """Whether a value of a loop nest goes to memory; values for other loop nests get a local buffer."""
        if value not in self._number and read_elsewhere(self._readers, nest, value):
            self._number[value] = self._local(value)
        return value in self._number

    def _nest(self, kernel: Kernel, nest: LoopNest) -> _LoopNestFunctions | None:
        """The functions of a loop nest; None if it is empty."""
        for kernel_op in nest.ops:
            self._outside(nest, kernel_op.result)
        plan = plan_loop_nest(kernel, nest, self._strided, functools.partial(self._outside, nest))
        if not plan.sweeps:
            return None
        parts = tuple([s.result for s in plan.op_of.values() if s.combine is not None and plan.is_column_reduction(s)])
        buffers = self._buffers(plan, {*parts})
        used = tuple(self._number[group[0]] for group in buffers.values)
        locals_ = tuple([self._local(value) for value in parts])
        return _LoopNestFunctions(plan, buffers, used, parts, locals_, self._printer)

    def _buffers(self, plan: LoopNestPlan, parts: set[KernelValue]) -> LoopNestMemory:
        """The buffers that a loop nest reads and writes."""
        read = [r.value for s in plan.op_of.values() for r in s.reads if r.value.constant is None]
        read += [v for s in plan.op_of.values() for v in s.indirect]
        values = [v for v in dict.fromkeys((*read, *plan.op_of)) if v in self._number and v not in parts]
        over, buffered = self._over, set(values)
        behind = {over[v] for v in values if over.get(v) in buffered}
        groups: list[tuple[KernelValue, ...]] = []
        for v in values:
            if v in behind:
                continue
            groups.append((v, over[v]) if v in over and over[v] in behind else (v,))
        return LoopNestMemory(
            tuple(groups), tuple(s for s in plan.op_of if s in parts), tuple(v for v in values if v in self._strided)
        )


def _alone(kernel: Kernel) -> list[tuple[bool, ...]]:
    """The axes of size 1, on which the loop structure depends."""
    return [tuple([n == 1 for n in nest.domain]) for nest in kernel.nests]


class _LoopNestFunctions:
    """The functions of a loop nest, one for each set of sizes and contiguous rows that the code has as constants.

    ``plan`` is its schedule at some sizes; ``used`` are the indices of its buffers, and ``locals`` those that hold
    partial results: of the reductions that make ``parts``.
    """

    def __init__(
        self,
        plan: LoopNestPlan,
        buffers: LoopNestMemory,
        used: tuple[int, ...],
        parts: tuple[KernelValue, ...],
        locals_: tuple[int, ...],
        printer: Printer,
    ) -> None:
        self.plan = plan
        self._printer = printer
        self.parts = parts
        self.locals = locals_
        self._buffers = buffers
        self._used = (*used, *locals_)
        self._dynamic = sorted(plan.dynamic)
        self._times = element_times(plan.op_of.values(), plan.op_of)
        self._made: dict[Any, Function] = {}

    def at(
        self, kernel: Kernel, plan: LoopNestPlan, extent: int, piece: int, strides: Mapping[KernelValue, Strides]
    ) -> ParallelRegion:
        """The parallel region of a schedule: threads share ``extent`` iterations, or chunks of ``piece``."""
        numbers = [plan.sizes[a] for a in self._dynamic]
        rows = frozenset(v for v in self._buffers.strided if strides[v][-1:] == (1,))
        numbers += [n for v in self._buffers.strided for n in (strides[v][:-1] if v in rows else strides[v])]
        numbers += plan.body_sizes().values()
        numbers += [piece] if self.parts else []
        work = _work(plan, self._times)
        grain, least = sharing(work, extent, 64 if plan.shared and not self.parts else 1)
        scratch = sum(-(-scratch_bytes(plan, v) // 64) * 64 for v in plan.scratch)
        function = self._function(kernel, plan, rows)
        return ParallelRegion(function, self._used, tuple(numbers), extent, grain, scratch, work, least)

    def _function(self, kernel: Kernel, plan: LoopNestPlan, rows: frozenset[KernelValue]) -> Function:
        indirect = [v for s in plan.op_of.values() for v in s.indirect]
        known = (known_sizes(plan), rows, *[v.shape[1:] for v in indirect])
        function = self._made.get(known)
        if function is None:
            groups = tuple([tuple([kernel.values[v] for v in group]) for group in self._buffers.values])
            memory = replace(self._buffers, values=groups, rows=rows)
            function = self._made[known] = self._printer(schedule(plan, memory))
        return function


def _extent(plan: LoopNestPlan, parts: Sequence[KernelOp]) -> tuple[int, int]:
    """Number of iterations, or chunks, that threads share, and the iterations of a chunk."""
    whole = plan.range
    if not parts:
        return whole, 1
    if plan.shared:
        return -(-whole // BLOCK), BLOCK
    most = max(s.result.bytes for s in parts)
    wanted = min(max(PIECES, whole // LONG), OF_CORE // max(1, most), whole // POINTS)
    pieces = max(1, min(whole, max(PARTS, wanted)))
    piece = max(1, -(-whole // pieces))
    return -(-whole // piece), piece


def combine_region(kernel_op: KernelOp, buffers: tuple[int, int], count: int, printer: Printer) -> ParallelRegion:
    """The region that combines ``count`` partial results of a reduction."""
    return move_region(combination_of(kernel_op, count), buffers, printer)


def move_region(schedule: MoveSchedule, buffers: tuple[int, ...], printer: Printer) -> ParallelRegion:
    """The region of a schedule that moves, fills or combines arrays, which are ``buffers`` of the kernel."""
    grain, least = sharing(schedule.work, schedule.extent, schedule.multiple)
    function = _function(printer, schedule.form)
    return ParallelRegion(function, buffers, schedule.numbers, schedule.extent, grain, 0, schedule.work, least)


@functools.lru_cache(512)
def _function(printer: Printer, form: ProgramForm) -> Function:
    """The native function of a form's program."""
    return printer(program_of(form))


def _work(plan: LoopNestPlan, times: Iterable[tuple[set[int], float]]) -> float:
    """An estimate of a loop nest's time on one thread, in nanoseconds."""
    return sum((math.prod([plan.nest.domain[a] for a in axes]) * time for axes, time in times), 0.0)


# --- keys -------------------------------------------------------------------------------------------------


def known_sizes(plan: LoopNestPlan) -> tuple[int | None, ...]:
    """The sizes of the coalesced axes that are constants in the code; None for scalar arguments."""
    return tuple([None if a in plan.dynamic else n for a, n in enumerate(plan.sizes)])

"""One nest of a kernel as a function of loops over memory: ``scf``, ``arith``, ``math`` and ``memref``.

The function does some of the nest's points, from ``lo`` to ``hi`` (see :mod:`~hybridc.ir.nest_plan`). What
reduces across points is computed in *pieces*: each has its part of the result in memory of its own, and a second
function combines them in order, so that results do not depend on how threads share the work.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Attribute, Block, Operation, SSAValue

from hybridc.dialects.mlir.hybrid_rt import ALIGNMENT
from hybridc.ir.kernel import Axes, Read, Stage, number_of
from hybridc.ir.nest_plan import NestPlan, Sweep, loop_axes
from hybridc.ir.scalar_builder import number_attribute, signless
from hybridc.ir.structured import dtype_of, shape_of
from hybridc.lower.llvm.loops.loop_builder import BYTES, INDEX, LoopBuilder, array_type
from hybridc.lower.llvm.loops.loop_functions import (
    REORDER,
    combine,
    fill,
    first_and_last,
    phase_module,
    start_of,
    walk_tile,
)

# Elements of a sum over one axis that are added up before their sum is added to those of other blocks; and blocks whose
# sums are added up before.
BLOCK, BLOCKS = 4096, 64
# Terms of a sum that are added in their order, and rounded before.
SHORT = 8
# Products may be added without rounding between. Differences are rounded: what is equal still differs by zero.
CONTRACT = arith.FastMathFlagsAttr([FastMathFlag.ALLOW_CONTRACT])
_CONTRACTED = (arith.AddfOp, arith.MulfOp)


@dataclass(eq=False)
class Memory:
    """Where a value is: a buffer, with the strides of its merged axes (the number of the argument, if not known)."""

    buffer: SSAValue
    axes: Axes
    strides: tuple[SSAValue, ...] = ()


@dataclass(frozen=True)
class NestArguments:
    """What a nest's function is given.

    ``values`` are the values of each memory argument, in order (several if one is written over another), ``parts`` the
    values whose parts follow, ``strided`` those whose strides are among the numbers.
    """

    values: tuple[tuple[SSAValue, ...], ...]
    parts: tuple[SSAValue, ...] = ()
    strided: tuple[SSAValue, ...] = ()


@dataclass(eq=False)
class NestLoops:
    """Writes the function of a nest."""

    plan: NestPlan
    buffers: NestArguments
    block: Block = field(default_factory=Block)

    def __post_init__(self) -> None:
        values, parts = self.buffers.values, self.buffers.parts
        kinds: list[Attribute] = [array_type(signless(dtype_of(group[0]))) for group in values]
        kinds += [array_type(signless(dtype_of(v))) for v in parts]
        dynamic = sorted(self.plan.dynamic)
        numbers = len(dynamic) + sum(len(shape_of(v)) for v in self.buffers.strided)
        numbers += bool(parts)  # points of a piece
        self.block = Block(arg_types=[*kinds, *[INDEX] * numbers, INDEX, INDEX, BYTES])
        args = list(self.block.args)
        self.low, self.high, self.scratch = args[-3:]
        self.build = LoopBuilder(self.block)
        left = iter(args[len(kinds) :])
        given = {a: next(left) for a in dynamic}
        self.sizes = [given[a] if a in given else self.build.index(n) for a, n in enumerate(self.plan.sizes)]
        strides = {v: tuple(next(left) for _ in shape_of(v)) for v in self.buffers.strided}
        self.piece = next(left) if parts else None
        self.memory: dict[SSAValue, Memory] = {}
        self.steps: dict[SSAValue, tuple[SSAValue, ...]] = {}  # the strides of each value's own axes
        for arg, group in zip(args, values, strict=False):
            for value in group:
                axes = self._memory_axes(value)
                self.memory[value] = Memory(arg, axes, strides.get(value) or self._row_major(axes))
                shape = shape_of(value)
                known = tuple(self.build.index(math.prod(shape[i + 1 :])) for i in range(len(shape)))
                self.steps[value] = strides.get(value) or known
        self.parts = dict(zip(parts, args[len(values) :], strict=False))
        self.known: dict[SSAValue, SSAValue] = {}  # elements of stages at the place where the loops are now
        self.given: dict[tuple[SSAValue, Axes], SSAValue] = {}  # and of what is given, by the axes that it follows
        self.index: dict[int, SSAValue] = {}  # the index along each merged axis

    def module(self) -> ModuleOp:
        """The module with the function ``phase``."""
        self._keep()
        if self.plan.shared:
            self._pieces(self._shared) if self.parts else self._shared(self.low, self.high, None)
        elif self.plan.tiled is not None:
            self._tiles(self.low, self.high)
        elif self.parts:
            self._pieces(self._points)
        else:
            self._points(self.low, self.high, None)
        return phase_module(self.block)

    # --- where values are ----------------------------------------------------------------------------------

    def _memory_axes(self, value: SSAValue) -> Axes:
        """The merged axes of a value's dimensions."""
        stage = self.plan.stage_of.get(value)
        if stage is not None:
            return self.plan.axes(stage.axes)
        reads = (r for s in self.plan.nest.stages for r in s.reads)
        return self.plan.axes(next((r.axes for r in reads if r.value is value), ()))  # none if it is read anywhere

    def _row_major(self, axes: Axes) -> tuple[SSAValue, ...]:
        return tuple(self.build.times(*[self.sizes[a] for a in axes[i + 1 :]]) for i in range(len(axes)))

    def _keep(self) -> None:
        """Give each value that is kept its part of the scratch."""
        b = self.build
        offset, line = b.index(0), b.index(ALIGNMENT)
        for value in self.plan.kept:
            stage = self.plan.stage_of[value]
            axes = tuple(a for a in self.plan.axes(stage.axes) if a in self.plan.inner)
            size = b.times(*[self.sizes[a] for a in axes])
            array = b.view(self.scratch, offset, size, signless(dtype_of(value)))
            self.memory[value] = Memory(array, axes, self._row_major(axes))
            lines, _ = b.split(b.plus(b.times(size, b.index(dtype_of(value).itemsize)), b.index(ALIGNMENT - 1)), line)
            offset = b.plus(offset, b.times(lines, line))

    def _place(self, memory: Memory) -> SSAValue:
        """The index of the element at the place where the loops are."""
        steps = zip(memory.axes, memory.strides, strict=True)
        return self.build.plus(*[self.build.times(self.index[a], stride) for a, stride in steps])

    # --- points --------------------------------------------------------------------------------------------

    def _pieces(self, walk: Any) -> None:
        """For each piece from ``lo`` to ``hi``: parts of its own, and its points."""
        b = self.build
        whole = b.times(*[self.sizes[a] for a in (self.plan.points or self.plan.inner)])

        def piece(number: SSAValue, _: list[SSAValue]) -> list[SSAValue]:
            assert self.piece is not None
            first = b.times(number, self.piece)
            for value, buffer in self.parts.items():
                stage = self.plan.stage_of[value]
                axes = self.plan.axes(stage.axes)
                size = b.times(*[self.sizes[a] for a in axes])
                start = b.times(number, size)
                fill(self.build, buffer, start, b.plus(start, size), start_of(self.build, stage))
                self.memory[value] = Memory(buffer, axes, self._row_major(axes))
                self.offsets[value] = start
            walk(first, b.least(b.plus(first, self.piece), whole), number)
            return []

        self.offsets: dict[SSAValue, SSAValue] = {}
        b.loop(self.low, self.high, b.index(1), piece)

    def _points(self, low: SSAValue, high: SSAValue, _: SSAValue | None) -> None:
        self.build.loop(low, high, self.build.index(1), lambda point, _: self._point(point))

    def _tiles(self, low: SSAValue, high: SSAValue) -> None:
        """Tiles along the last of the points and the inner axis; the range counts the former's."""
        b = self.build
        *outer, rows = self.plan.points
        (inner,) = self.plan.inner

        def tile(point: SSAValue, _: list[SSAValue]) -> list[SSAValue]:
            rest, first, last = first_and_last(b, point, self.sizes[rows])
            for axis in reversed(outer[1:]):
                rest, self.index[axis] = b.split(rest, self.sizes[axis])
            if outer:
                self.index[outer[0]] = rest
            walk_tile(b, first, last, self.sizes[inner], element)
            return []

        def element(row: SSAValue, column: SSAValue) -> None:
            self.index[rows], self.index[inner] = row, column
            self.known, self.given = {}, {}
            for sweep in self.plan.sweeps:
                self._elements(sweep)

        b.loop(low, high, b.index(1), tile)

    def _point(self, point: SSAValue) -> list[SSAValue]:
        b = self.build
        rest = point
        for axis in reversed(self.plan.points[1:]):
            rest, self.index[axis] = b.split(rest, self.sizes[axis])
        if self.plan.points:
            self.index[self.plan.points[0]] = rest
        self.known = {}
        self.given = {v: e for v, e in self.given.items() if self.build.level(e) < self.build.depth}
        for sweep in self.plan.sweeps:
            self._sweep(sweep)
        return []

    def _shared(self, low: SSAValue, high: SSAValue, _: SSAValue | None) -> None:
        """All of the nest along its one axis, a part of which is done here."""
        self.known = {}
        for sweep in self.plan.sweeps:
            self._sweep(sweep, (low, high))

    # --- sweeps --------------------------------------------------------------------------------------------

    def _sweep(self, sweep: Sweep, bounds: tuple[SSAValue, SSAValue] | None = None) -> None:
        before = dict(self.known)
        reductions = [s for s in sweep.stages if s.combine is not None]
        for stage in reductions:
            if self._begins_in_memory(sweep, stage):
                self._begin(stage)
        self._loops(sweep, 0, bounds)
        made = {v: e for v, e in self.known.items() if self.build.level(e) <= self.build.depth}
        self.known = {**before, **made}
        self.given = {v: e for v, e in self.given.items() if self.build.level(e) <= self.build.depth}

    def _begin(self, stage: Stage) -> None:
        """Fill what a reduction adds to at this point: runs of elements that are next to each other."""
        b, memory = self.build, self.memory[stage.result]
        run = len(memory.axes)
        while run and memory.axes[run - 1] in self.plan.inner and stage.result not in self.buffers.strided:
            run -= 1
        size = b.times(*[self.sizes[a] for a in memory.axes[run:]])
        steps = list(zip(memory.axes, memory.strides, strict=True))[:run]
        outer = [(a, step) for a, step in steps if a in self.plan.inner]

        def filled(left: list[tuple[int, SSAValue]], first: SSAValue) -> None:
            if not left:
                fill(b, memory.buffer, first, b.plus(first, size), start_of(b, stage))
                return
            (axis, step), *rest = left

            def body(index: SSAValue, _: list[SSAValue]) -> list[SSAValue]:
                filled(rest, b.plus(first, b.times(index, step)))
                return []

            b.loop(b.index(0), self.sizes[axis], b.index(1), body)

        filled(outer, b.plus(*[b.times(self.index[a], step) for a, step in steps if a in self.plan.points]))

    def _carried(self, sweep: Sweep, stage: Stage) -> int:
        """Along how many of the innermost loops of a sweep a reduction is carried as a number."""
        reduced = {*self.plan.axes(stage.reduced)}
        count = 0
        for axis in reversed(sweep.axes):
            if axis not in reduced:
                break
            count += 1
        return count

    def _begins_in_memory(self, sweep: Sweep, stage: Stage) -> bool:
        """Whether a reduction adds to what memory holds, which must begin with its neutral element."""
        if stage.result in self.parts:
            return False  # its pieces have begun
        reduced = [a for a in self.plan.axes(stage.reduced) if a in self.plan.inner]
        return self._carried(sweep, stage) < len(reduced)

    def _loops(self, sweep: Sweep, level: int, bounds: tuple[SSAValue, SSAValue] | None) -> None:
        """The loops of a sweep from ``level`` on, with the reductions that they carry as numbers."""
        if level == len(sweep.axes):
            self._elements(sweep)
            return
        b = self.build
        left = len(sweep.axes) - level
        begun = [s for s in sweep.stages if s.combine is not None and self._carried(sweep, s) == left]
        inside = [s for s in sweep.stages if s.combine is not None and self._carried(sweep, s) >= left]
        for stage in begun:
            self.known[stage.result] = start_of(self.build, stage)
        low, high = bounds or (b.index(0), self.sizes[sweep.axes[level]])
        axis = sweep.axes[level]

        def body(index: SSAValue, carried: list[SSAValue]) -> list[SSAValue]:
            self.index[axis] = index
            for stage, value in zip(inside, carried, strict=True):
                self.known[stage.result] = value
            self._loops(sweep, level + 1, None)
            return [self.known[s.result] for s in inside]

        starts = [self.known[s.result] for s in inside]
        if left == 1 and bounds is None and inside and self._is_long(axis):
            few = axis not in self.plan.dynamic and self.plan.sizes[axis] <= BLOCK * BLOCKS
            ends = self._blocked(low, high, inside, starts, body, BLOCK if few else BLOCK * BLOCKS)
        else:
            ends = b.loop(low, high, b.index(1), body, starts)
        for stage, end in zip(inside, ends, strict=True):
            self.known[stage.result] = end
        for stage in begun:
            self._finish(sweep, stage)

    def _is_long(self, axis: int) -> bool:
        return axis in self.plan.dynamic or self.plan.sizes[axis] > BLOCK

    def _blocked(
        self, low: SSAValue, high: SSAValue, stages: list[Stage], starts: list[SSAValue], body: Any, size: int
    ) -> list[SSAValue]:
        """A loop in blocks of so many elements, whose results are combined: long sums keep their precision."""
        b = self.build

        def block(first: SSAValue, carried: list[SSAValue]) -> list[SSAValue]:
            last, neutral = b.least(b.plus(first, b.index(size)), high), [start_of(self.build, s) for s in stages]
            if size > BLOCK:
                ends = self._blocked(first, last, stages, neutral, body, size // BLOCKS)
            else:
                ends = b.loop(first, last, b.index(1), body, neutral)
            return [combine(self.build, s, c, e) for s, c, e in zip(stages, carried, ends, strict=True)]

        return b.loop(low, high, b.index(size), block, starts)

    def _finish(self, sweep: Sweep, stage: Stage) -> None:
        """What becomes of a number that loops have carried."""
        value = self.known[stage.result]
        memory = self.memory.get(stage.result)
        if memory is None:
            return
        at = self._place_of(stage.result, memory)
        if stage.result in self.parts or self._begins_in_memory(sweep, stage):
            value = combine(self.build, stage, self.build.load(memory.buffer, at, self.build.depth), value)
            del self.known[stage.result]
        self.build.store(value, memory.buffer, at)

    def _place_of(self, value: SSAValue, memory: Memory) -> SSAValue:
        place = self._place(memory)
        return self.build.plus(self.offsets[value], place) if value in self.parts else place

    # --- elements ------------------------------------------------------------------------------------------

    def _elements(self, sweep: Sweep) -> None:
        """One element of each stage."""
        for stage in sweep.stages:
            if stage.combine is None:
                self._store(stage, self._element(stage))
                continue
            memory = self.memory.get(stage.result)
            if self._carried(sweep, stage):
                self.known[stage.result] = self._reduced(stage, self.known[stage.result])
            elif memory is not None:
                at = self._place_of(stage.result, memory)
                held = self.build.load(memory.buffer, at, self.build.depth)
                self.build.store(self._reduced(stage, held), memory.buffer, at)

    def _store(self, stage: Stage, element: SSAValue) -> None:
        self.known[stage.result] = element
        memory = self.memory.get(stage.result)
        if memory is not None:
            self.build.store(element, memory.buffer, self._place(memory))

    def _element(self, stage: Stage) -> SSAValue:
        """The element of a map, from its reads."""
        return self._body(stage, None)

    def _reduced(self, stage: Stage, held: SSAValue) -> SSAValue:
        """What is held, combined with the next element."""
        return self._body(stage, held)

    def _read(self, read: Read) -> SSAValue:
        value = read.value
        number = number_of(value)
        if number is not None:
            dtype = dtype_of(value)
            return self.build.constant(number_attribute(number, dtype), signless(dtype))
        if value in self.known:
            return self.known[value]
        if value in self.plan.again:
            return self._element(self.plan.stage_of[value])
        memory = self.memory[value]
        if value in self.plan.stage_of:  # memory changes: it is read where the loops are
            element = self.known[value] = self.build.load(memory.buffer, self._place(memory), self.build.depth)
            return element
        axes = self.plan.axes(read.axes)
        if (value, axes) not in self.given:
            strides = memory.strides if value in self.buffers.strided else self._row_major(axes)
            self.given[value, axes] = self.build.load(memory.buffer, self._place(Memory(memory.buffer, axes, strides)))
        return self.given[value, axes]

    def _body(self, stage: Stage, held: SSAValue | None) -> SSAValue:
        """The scalar operations of a stage on the elements here."""
        block = stage.op.regions[0].block
        values: dict[SSAValue, SSAValue] = {}
        for arg, read in zip(block.args, stage.reads, strict=False):
            if any(True for _ in arg.uses):
                values[arg] = self._read(read)
        out = block.args[-1]
        if held is not None:
            values[out] = held
        elif any(True for _ in out.uses):
            values[out] = start_of(self.build, stage)
        end = block.last_op
        assert end is not None
        for op in block.ops:
            if op is end:
                break
            values[op.results[0]] = self._operation(stage, op, values)
        return values[end.operands[0]]

    def _operation(self, stage: Stage, op: Operation, values: dict[SSAValue, SSAValue]) -> SSAValue:
        if isinstance(op, arith.ConstantOp):
            return self.build.constant(op.value, op.results[0].type)
        if isinstance(op, linalg.IndexOp):
            return self.index[self.plan.merged[loop_axes(stage)[op.dim.value.data]]]
        if isinstance(op, tensor.ExtractOp):
            steps = zip(op.indices, self.steps[op.tensor], strict=True)
            at = self.build.plus(*[self.build.times(values[i], step) for i, step in steps])
            return self.build.load(self.memory[op.tensor].buffer, at)
        properties = dict(op.properties)
        if op is stage.combine:
            if "fastmath" in properties and not self._is_short(stage):
                properties["fastmath"] = REORDER
        elif isinstance(op, _CONTRACTED):
            properties["fastmath"] = CONTRACT
        return self.build.pure(type(op), [values[v] for v in op.operands], op.results[0].type, properties)

    def _is_short(self, stage: Stage) -> bool:
        """Whether a reduction has so few terms that LLVM makes vectors of several points, not of the terms.

        They are added exactly as those of the last points are: results do not depend on where a range is cut.
        """
        reduced = self.plan.axes(stage.reduced)
        return not self.plan.dynamic & {*reduced} and self.plan.extent(reduced) <= SHORT

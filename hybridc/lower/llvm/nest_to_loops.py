"""One nest of a kernel as a function of loops over memory: ``scf``, ``arith``, ``math`` and ``memref``.

The function does some of the nest's points, from ``lo`` to ``hi`` (see :mod:`~hybridc.lower.llvm.nest_plan`). What
reduces across points is computed in *pieces*: each has its part of the result in memory of its own, and a second
function combines them in order, so that results do not depend on how threads share the work.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects import arith, func, tensor
from xdsl.dialects.builtin import FunctionType, ModuleOp, UnitAttr
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from hybridc.dialects.hybrid_rt import ALIGNMENT
from hybridc.lower.hybrid_to_linalg_body import number_attribute, signless
from hybridc.lower.kernel import Axes, Read, Stage, number_of
from hybridc.lower.llvm.loop_builder import BYTES, INDEX, LoopBuilder, array_type
from hybridc.lower.llvm.nest_plan import TILE, NestPlan, Sweep, loop_axes
from hybridc.lower.structured import dtype_of, shape_of

# Elements of a sum over one axis that are added up before their sum is added to the others'.
BLOCK = 4096
# Terms of a sum that are added in their order, and rounded before.
SHORT = 8
# Products may be added without rounding between. Differences are rounded: what is equal still differs by zero.
CONTRACT = arith.FastMathFlagsAttr([FastMathFlag.ALLOW_CONTRACT])
REORDER = arith.FastMathFlagsAttr([FastMathFlag.REASSOC, FastMathFlag.NO_SIGNED_ZEROS, FastMathFlag.ALLOW_CONTRACT])
_CONTRACTED = (arith.AddfOp, arith.MulfOp)


@dataclass(eq=False)
class Memory:
    """Where a value is: a buffer, with the strides of its merged axes (the number of the argument, if not known)."""

    buffer: SSAValue
    axes: Axes
    strides: tuple[SSAValue, ...] = ()


@dataclass(frozen=True)
class Buffers:
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
    buffers: Buffers
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
                self._fill(buffer, start, b.plus(start, size), self._start(stage))
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
                memory = self.memory[stage.result]
                size = self.build.times(*[self.sizes[a] for a in memory.axes if a in self.plan.inner])
                first = self._base(memory)
                self._fill(memory.buffer, first, self.build.plus(first, size), self._start(stage))
        self._loops(sweep, 0, bounds)
        made = {v: e for v, e in self.known.items() if self.build.level(e) <= self.build.depth}
        self.known = {**before, **made}
        self.given = {v: e for v, e in self.given.items() if self.build.level(e) <= self.build.depth}

    def _base(self, memory: Memory) -> SSAValue:
        """Where the elements of a value begin at this point."""
        outer = [(a, s) for a, s in zip(memory.axes, memory.strides, strict=True) if a in self.plan.points]
        return self.build.plus(*[self.build.times(self.index[a], s) for a, s in outer])

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
            self.known[stage.result] = self._start(stage)
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
            ends = self._blocked(low, high, inside, starts, body)
        else:
            ends = b.loop(low, high, b.index(1), body, starts)
        for stage, end in zip(inside, ends, strict=True):
            self.known[stage.result] = end
        for stage in begun:
            self._finish(sweep, stage)

    def _is_long(self, axis: int) -> bool:
        return axis in self.plan.dynamic or self.plan.sizes[axis] > BLOCK

    def _blocked(
        self, low: SSAValue, high: SSAValue, stages: list[Stage], starts: list[SSAValue], body: Any
    ) -> list[SSAValue]:
        """A loop in blocks, whose results are combined: long sums keep their precision."""
        b = self.build

        def block(first: SSAValue, carried: list[SSAValue]) -> list[SSAValue]:
            last = b.least(b.plus(first, b.index(BLOCK)), high)
            ends = b.loop(first, last, b.index(1), body, [self._start(s) for s in stages])
            return [self._combine(s, c, e) for s, c, e in zip(stages, carried, ends, strict=True)]

        return b.loop(low, high, b.index(BLOCK), block, starts)

    def _finish(self, sweep: Sweep, stage: Stage) -> None:
        """What becomes of a number that loops have carried."""
        value = self.known[stage.result]
        memory = self.memory.get(stage.result)
        if memory is None:
            return
        at = self._place_of(stage.result, memory)
        if stage.result in self.parts or self._begins_in_memory(sweep, stage):
            value = self._combine(stage, self.build.load(memory.buffer, at, self.build.depth), value)
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
            values[out] = self._start(stage)
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

    def _combine(self, stage: Stage, a: SSAValue, b: SSAValue) -> SSAValue:
        return combine(self.build, stage, a, b)

    def _start(self, stage: Stage) -> SSAValue:
        """The neutral element of a reduction."""
        return start_of(self.build, stage)

    def _fill(self, buffer: SSAValue, low: SSAValue, high: SSAValue, value: SSAValue) -> None:
        fill(self.build, buffer, low, high, value)


# --- functions of their own -------------------------------------------------------------------------------


def phase_module(block: Block) -> ModuleOp:
    """The module of one function over a range, from its block."""
    block.add_op(func.ReturnOp())
    kind = FunctionType.from_lists([a.type for a in block.args], [])
    function = func.FuncOp("phase", kind, Region(block))
    function.attributes["hybrid.phase"] = UnitAttr()
    return ModuleOp([function])


def start_of(build: LoopBuilder, stage: Stage) -> SSAValue:
    """What a reduction of nothing gives."""
    number = number_of(stage.op.operands[-1])
    assert number is not None, "a reduction begins with a number"
    dtype = dtype_of(stage.result)
    return build.constant(number_attribute(number, dtype), signless(dtype))


def combine(build: LoopBuilder, stage: Stage, a: SSAValue, b: SSAValue) -> SSAValue:
    """Two parts of a reduction as one."""
    op = stage.combine
    assert op is not None
    properties = dict(op.properties)
    if "fastmath" in properties:
        properties["fastmath"] = REORDER
    return build.pure(type(op), [a, b], op.results[0].type, properties)


def first_and_last(b: LoopBuilder, point: SSAValue, size: SSAValue) -> tuple[SSAValue, SSAValue, SSAValue]:
    """Of a range that counts tiles along an axis: what counts the axes before it, and which rows the tile has."""
    count, _ = b.split(b.plus(size, b.index(TILE - 1)), b.index(TILE))
    rest, tile = b.split(point, count)
    first = b.times(tile, b.index(TILE))
    return rest, first, b.least(b.plus(first, b.index(TILE)), size)


def walk_tile(
    b: LoopBuilder, first: SSAValue, last: SSAValue, columns: SSAValue, element: Callable[[SSAValue, SSAValue], None]
) -> None:
    """Rows from ``first`` to ``last`` of all columns, in tiles: ``element`` gets the indices of each element."""
    whole = b.times(b.split(columns, b.index(TILE))[0], b.index(TILE))

    def rows(start: SSAValue | None) -> None:
        def row(index: SSAValue, _: list[SSAValue]) -> list[SSAValue]:
            def column(at: SSAValue, _: list[SSAValue]) -> list[SSAValue]:
                element(index, at if start is None else b.plus(start, at))
                return []

            low, high = (whole, columns) if start is None else (b.index(0), b.index(TILE))
            return b.loop(low, high, b.index(1), column)

        b.loop(first, last, b.index(1), row)

    def tile(start: SSAValue, _: list[SSAValue]) -> list[SSAValue]:
        rows(start)
        return []

    b.loop(b.index(0), whole, b.index(TILE), tile)
    rows(None)


def fill(build: LoopBuilder, buffer: SSAValue, low: SSAValue, high: SSAValue, value: SSAValue) -> None:
    """One number everywhere in a range of a buffer."""

    def body(index: SSAValue, _: list[SSAValue]) -> list[SSAValue]:
        build.store(value, buffer, index)
        return []

    build.loop(low, high, build.index(1), body)


def combine_parts(stage: Stage) -> ModuleOp:
    """The function that combines parts (first buffer) into a result (second); numbers: parts, size of the result."""
    kind = array_type(signless(dtype_of(stage.result)))
    block = Block(arg_types=[kind, kind, INDEX, INDEX, INDEX, INDEX, BYTES])
    parts, result, count, size, low, high, _ = block.args
    b = LoopBuilder(block)
    fill(b, result, low, high, start_of(b, stage))

    def part(number: SSAValue, _: list[SSAValue]) -> list[SSAValue]:
        first = b.times(number, size)

        def element(index: SSAValue, _: list[SSAValue]) -> list[SSAValue]:
            given = b.load(parts, b.plus(first, index))
            held = b.load(result, index, b.depth)
            b.store(combine(b, stage, held, given), result, index)
            return []

        b.loop(low, high, b.index(1), element)
        return []

    b.loop(b.index(0), count, b.index(1), part)
    return phase_module(block)


def fill_number(dtype: Any, number: Any) -> ModuleOp:
    """The function that fills a buffer with one number."""
    kind = signless(dtype)
    block = Block(arg_types=[array_type(kind), INDEX, INDEX, BYTES])
    buffer, low, high, _ = block.args
    b = LoopBuilder(block)
    fill(b, buffer, low, high, b.constant(number_attribute(number, dtype), kind))
    return phase_module(block)

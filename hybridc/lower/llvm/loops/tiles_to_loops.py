"""Write a tile program as loops over memory, in LLVM IR.

The function computes the indices ``lo`` to ``hi`` of the parallel axes. Column reductions are computed in
*pieces*: each has partial results in memory of its own, and a second function combines them in order, so that
results do not depend on how threads share the work.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, DenseIntOrFPElementsAttr, FloatAttr, IntegerAttr, VectorType
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Attribute

from hybridc.errors import UnsupportedError
from hybridc.ground.buffers import ALIGNMENT
from hybridc.ir.structured_builder import ELEMENT_TYPES, kind_dtype, operation_class, operation_properties
from hybridc.ir.tiles import tile_program as tiles
from hybridc.ir.tiles.tile_program import Address, Factor, Number, Statement, TileProgram, TileSweep
from hybridc.lower.llvm.codegen.function_text import LLVMValue, ModuleText
from hybridc.lower.llvm.gemm.gemm_region import Vectors
from hybridc.lower.llvm.loops.loop_builder import BYTES, INDEX, LoopBuilder, array_type
from hybridc.lower.llvm.loops.loop_functions import REORDER, fill, first_and_last, walk_tile

# Fast-math: a*b + c may be contracted. Differences are rounded: those of equal values are zero.
CONTRACT = arith.FastMathFlagsAttr([FastMathFlag.ALLOW_CONTRACT])
_CONTRACTED = ("arith.addf", "arith.mulf")
# Partial results are halved at most so often: there are no more than two to this power.
_LEVELS = 32


def write_loops(program: TileProgram, module: ModuleText, symbol: str) -> None:
    """Write the function of a tile program into a module of LLVM IR, exported under a symbol."""
    LoopEmitter(program, module).write(symbol)


@dataclass(eq=False)
class LoopEmitter:
    """Emits the function of a tile program."""

    program: TileProgram
    module: ModuleText

    def __post_init__(self) -> None:
        program = self.program
        kinds: list[Attribute] = [array_type(ELEMENT_TYPES[b.kind]) for b in program.buffers]
        numbers = len(program.dynamic) + program.strides
        numbers += bool(program.pieces)  # parallel indices per piece
        self.build = b = LoopBuilder(self.module, [*kinds, *[INDEX] * numbers, INDEX, INDEX, BYTES])
        args = b.arguments
        self.low, self.high, scratch = args[-3:]
        left = iter(args[len(kinds) :])
        arg_of = {a: next(left) for a in program.dynamic}
        self.sizes = [arg_of[a] if n is None else b.index(n) for a, n in enumerate(program.sizes)]
        self.strides = [next(left) for _ in range(program.strides)]
        self.piece = next(left) if program.pieces else None
        self.buffers: dict[str, LLVMValue] = {
            buffer.name: arg for buffer, arg in zip(program.buffers, args, strict=False)
        }
        self.offsets: dict[str, LLVMValue] = {}  # the offset of a piece's partial results
        self.written = {s.address.buffer for w in program.sweeps for s in w.walk() if isinstance(s, tiles.TileStore)}
        self.written |= {s.into.buffer for s in program.reductions if s.into is not None}
        # Where statements run in loops of their own, in their order, so do loads: an index may be valid there alone.
        self.in_order = any(isinstance(s, tiles.TileLoop) for w in program.sweeps for s in w.walk())
        self.known: dict[str, LLVMValue] = {}
        self.lanes = 1  # of the values of statements
        self.index: dict[int, LLVMValue] = {}  # the index along each axis
        self._cut(scratch)

    def write(self, symbol: str) -> None:
        """Write the function into the module, under a symbol."""
        program = self.program
        if program.shared:
            self._pieces(self._shared) if program.pieces else self._shared(self.low, self.high)
        elif program.tiled is not None:
            self._tiles(self.low, self.high)
        elif program.pieces:
            self._pieces(self._points)
        elif program.apart:
            for sweep in program.sweeps:
                self._points(self.low, self.high, [sweep])
        else:
            self._points(self.low, self.high)
        self.build.write_region(symbol)

    # --- memory --------------------------------------------------------------------------------------------

    def _cut(self, scratch: LLVMValue) -> None:
        """Give each scratch array its offset in the scratch memory."""
        b = self.build
        offset, line = b.index(0), b.index(ALIGNMENT)
        for array in self.program.scratch:
            size = b.times(*[self.sizes[a] for a in array.axes])
            element = ELEMENT_TYPES[array.kind]
            self.buffers[array.name] = b.view(scratch, offset, element)
            bytes_ = b.times(size, b.index(kind_dtype(array.kind).itemsize))
            lines, _ = b.split(b.plus(bytes_, b.index(ALIGNMENT - 1)), line)
            offset = b.plus(offset, b.times(lines, line))

    def _factor(self, factor: Factor) -> list[LLVMValue]:
        factors = [self.sizes[a] for a in factor.sizes]
        factors += [self.strides[factor.stride]] if factor.stride is not None else []
        return [self.build.index(factor.constant), *factors] if factor.constant != 1 else factors

    def _at(self, address: Address) -> LLVMValue:
        """The offset of an element in its buffer."""
        b = self.build
        terms = [b.times(self.index[a], b.times(*self._factor(f))) for a, f in address.terms]
        terms += [b.times(*self._factor(f)) for f in address.offset]
        terms += [self.offsets[address.buffer]] if address.buffer in self.offsets else []
        return b.plus(*terms)

    def _computed(self, terms: Sequence[tuple[str, Factor]]) -> LLVMValue:
        """The offset of an element at computed indices, each times its factor."""
        b = self.build
        return b.plus(*[b.times(self.known[v], b.times(*self._factor(f))) for v, f in terms])

    # --- parallel axes -------------------------------------------------------------------------------------

    def _pieces(self, walk: Callable[[LLVMValue, LLVMValue], None]) -> None:
        """For each piece from ``lo`` to ``hi``: its partial results, and its indices."""
        b, program = self.build, self.program
        whole = b.times(*[self.sizes[a] for a in (program.parallel or program.inner)])
        partial = {s.into.buffer: s for s in program.reductions if s.into is not None}

        def piece(index: LLVMValue, _: list[LLVMValue]) -> list[LLVMValue]:
            assert self.piece is not None
            first = b.times(index, self.piece)
            for buffer in program.pieces:
                reduce = partial[buffer.name]
                assert reduce.into is not None
                size = b.times(*[self.sizes[a] for a in reduce.into.axes])
                start = b.times(index, size)
                fill(b, self.buffers[buffer.name], start, b.plus(start, size), self._start(reduce))
                self.offsets[buffer.name] = start
            walk(first, b.least(b.plus(first, self.piece), whole))
            return []

        b.loop(self.low, self.high, b.index(1), piece)

    def _points(self, low: LLVMValue, high: LLVMValue, sweeps: Sequence[TileSweep] | None = None) -> None:
        """The parallel indices from ``low`` to ``high``, at each of which ``sweeps`` run, by default all."""
        body = self.program.sweeps if sweeps is None else sweeps
        self.build.loop(low, high, self.build.index(1), lambda point, _: self._point(point, body))

    def _tiles(self, low: LLVMValue, high: LLVMValue) -> None:
        """Tiles of the last parallel axis and the inner axis; the range counts the former's."""
        b = self.build
        *outer, rows = self.program.parallel
        (inner,) = self.program.inner

        def tile(point: LLVMValue, _: list[LLVMValue]) -> list[LLVMValue]:
            rest, first, last = first_and_last(b, point, self.sizes[rows])
            for axis in reversed(outer[1:]):
                rest, self.index[axis] = b.split(rest, self.sizes[axis])
            if outer:
                self.index[outer[0]] = rest
            walk_tile(b, first, last, self.sizes[inner], element)
            return []

        def element(row: LLVMValue, column: LLVMValue) -> None:
            self.index[rows], self.index[inner] = row, column
            self.known = {}
            for sweep in self.program.sweeps:
                self._statements(sweep)

        b.loop(low, high, b.index(1), tile)

    def _point(self, point: LLVMValue, sweeps: Sequence[TileSweep]) -> list[LLVMValue]:
        b = self.build
        rest = point
        for axis in reversed(self.program.parallel[1:]):
            rest, self.index[axis] = b.split(rest, self.sizes[axis])
        if self.program.parallel:
            self.index[self.program.parallel[0]] = rest
        for sweep in sweeps:
            self._sweep(sweep)
        return []

    def _shared(self, low: LLVMValue, high: LLVMValue) -> None:
        """A program of one axis, of which this call computes a range."""
        for sweep in self.program.sweeps:
            self._sweep(sweep, (low, high))

    # --- sweeps --------------------------------------------------------------------------------------------

    def _sweep(self, sweep: TileSweep, bounds: tuple[LLVMValue, LLVMValue] | None = None) -> None:
        if sweep.squares:
            self._squares(sweep)
            return
        for reduce in _reductions(sweep):
            if reduce.accumulates and reduce.into is not None and reduce.into.buffer not in self.offsets:
                self._begin(reduce, reduce.into)
        self._loops(sweep, 0, bounds)

    def _begin(self, reduce: tiles.TileReduce, into: Address) -> None:
        """Initialise a reduction's accumulator at this point."""
        b = self.build
        *outer, innermost = [a for a in into.axes if a in self.program.inner]

        def filled(left: Sequence[int]) -> None:
            if not left:
                self._fill_row(reduce, into, innermost)
                return

            def body(index: LLVMValue, _: list[LLVMValue]) -> list[LLVMValue]:
                self.index[left[0]] = index
                filled(left[1:])
                return []

            b.loop(b.index(0), self.sizes[left[0]], b.index(1), body)

        filled(outer)

    def _fill_row(self, reduce: tiles.TileReduce, into: Address, axis: int) -> None:
        b = self.build

        def body(index: LLVMValue, _: list[LLVMValue]) -> list[LLVMValue]:
            self.index[axis] = index
            b.store_element(self._start(reduce), self.buffers[into.buffer], self._at(into))
            return []

        b.loop(b.index(0), self.sizes[axis], b.index(1), body)

    def _loops(self, sweep: TileSweep, level: int, bounds: tuple[LLVMValue, LLVMValue] | None) -> None:
        """The loops of a sweep from ``level`` on, with scalar reductions as carried values."""
        if level == len(sweep.axes):
            self._statements(sweep)
            return
        b = self.build
        left = len(sweep.axes) - level
        begun = [s for s in _reductions(sweep) if s.carried == left]
        inside = [s for s in _reductions(sweep) if s.carried >= left]
        for reduce in begun:
            self.known[reduce.name] = self._start(reduce)
        axis = sweep.axes[level]
        low, high = bounds or (self._bounds(sweep) if left == 1 else (b.index(0), self.sizes[axis]))

        def body(index: LLVMValue, carried: list[LLVMValue]) -> list[LLVMValue]:
            self.index[axis] = index
            self.known.update(zip((s.name for s in inside), carried, strict=True))
            self._loops(sweep, level + 1, None)
            return [self.known[s.name] for s in inside]

        starts = [self.known[s.name] for s in inside]
        if left == 1 and sweep.blocks:
            ends = self._blocked(low, high, inside, starts, body, sweep.blocks)
        else:
            ends = b.loop(low, high, b.index(sweep.lanes if left == 1 else 1), body, starts)
        self.known.update(zip((s.name for s in inside), ends, strict=True))
        for reduce in begun:
            self._finish(reduce)

    def _bounds(self, sweep: TileSweep) -> tuple[LLVMValue, LLVMValue]:
        """Between what the innermost loop of a sweep runs."""
        if sweep.bounds is None:
            return self.build.index(0), self.sizes[sweep.axes[-1]]
        low, high = sweep.bounds
        return self.build.index(0) if low is None else self.known[low], self.known[high]

    def _squares(self, sweep: TileSweep) -> None:
        """Move elements in squares that are transposed in registers."""
        b, (down, along), (load, store) = self.build, sweep.axes, sweep.statements
        assert isinstance(load, tiles.TileLoad)
        assert isinstance(store, tiles.TileStore)
        v = Vectors(b, cast(AnyFloat, ELEMENT_TYPES[load.kind]), sweep.squares)
        low, high = self._bounds(sweep)
        lanes = b.index(sweep.squares)

        def clamped(index: LLVMValue, end: LLVMValue) -> LLVMValue:
            return b.least(index, b.pure(arith.SubiOp, [end, lanes], INDEX))

        def line(first: LLVMValue, column: LLVMValue, j: int) -> LLVMValue:
            self.index[down], self.index[along] = b.plus(first, b.index(j)), column
            return b.load_vector(self.buffers[load.address.buffer], self._at(load.address), v.kind)

        def square(column: LLVMValue, first: LLVMValue) -> list[LLVMValue]:
            column = clamped(column, high)
            lines = [line(first, column, j) for j in range(sweep.squares)]
            for j, values in enumerate(v.transposed(lines)):
                self.index[down], self.index[along] = first, b.plus(column, b.index(j))
                b.store_vector(values, self.buffers[store.address.buffer], self._at(store.address))
            return []

        def rows(row: LLVMValue, _: list[LLVMValue]) -> list[LLVMValue]:
            first = clamped(row, self.sizes[down])
            b.loop(low, high, lanes, lambda column, _: square(column, first))
            return []

        b.loop(b.index(0), self.sizes[down], lanes, rows)

    def _blocked(
        self,
        low: LLVMValue,
        high: LLVMValue,
        reduced: list[tiles.TileReduce],
        starts: list[LLVMValue],
        body: Any,
        blocks: tuple[int, ...],
    ) -> list[LLVMValue]:
        """A loop in blocks of so many elements, whose results are combined: pairwise summation for precision."""
        b = self.build
        size, *smaller = blocks

        def block(first: LLVMValue, carried: list[LLVMValue]) -> list[LLVMValue]:
            last, neutral = b.least(b.plus(first, b.index(size)), high), [self._start(s) for s in reduced]
            if smaller:
                ends = self._blocked(first, last, reduced, neutral, body, tuple(smaller))
            else:
                ends = b.loop(first, last, b.index(1), body, neutral)
            return [self._combine(s, c, e, False) for s, c, e in zip(reduced, carried, ends, strict=True)]

        return b.loop(low, high, b.index(size), block, starts)

    def _finish(self, reduce: tiles.TileReduce) -> None:
        """Store the carried value of a reduction."""
        if reduce.into is None:
            return
        if reduce.accumulates:
            self._accumulate(reduce, self.known[reduce.name], False)
        else:
            self.build.store_element(self.known[reduce.name], self.buffers[reduce.into.buffer], self._at(reduce.into))

    def _accumulate(self, reduce: tiles.TileReduce, value: LLVMValue, ordered: bool) -> None:
        assert reduce.into is not None
        buffer, at = self.buffers[reduce.into.buffer], self._at(reduce.into)
        sofar = self.build.load_element(buffer, at, self.build.depth)
        self.build.store_element(self._combine(reduce, sofar, value, ordered), buffer, at)

    # --- statements ----------------------------------------------------------------------------------------

    def _statements(self, sweep: TileSweep) -> None:
        """The statements for one element, or for the lanes of a vector, and the sweeps in it."""
        self.lanes = sweep.lanes
        for statement in sweep.statements:
            self._statement(statement)
        for inner in sweep.sweeps:
            self._sweep(inner)

    def _statement(self, s: Statement) -> None:
        b = self.build
        match s:
            case tiles.TileMap():
                operands = [self.known[v] for v in s.operands]
                self.known[s.name] = b.pure(operation_class(s.op), operands, self._type(s.kind), self._properties(s.op))
            case tiles.TileLoad():
                # Memory that the program writes is loaded inside the loops.
                level = b.depth if s.address.buffer in self.written else None
                self.known[s.name] = self._load(s, level)
            case tiles.TileStore() if self.lanes > 1:
                b.store_vector(self.known[s.value], self.buffers[s.address.buffer], self._at(s.address))
            case tiles.TileStore():
                b.store_element(self.known[s.value], self.buffers[s.address.buffer], self._at(s.address))
            case tiles.TileConstant():
                self.known[s.name] = emit_constant(b, s.constant, s.kind, self.lanes)
            case tiles.TileReduce() if s.carried:
                self.known[s.name] = self._combine(s, self.known[s.name], self.known[s.operand], s.ordered)
            case tiles.TileReduce():
                self._accumulate(s, self.known[s.operand], s.ordered)
            case tiles.TileIndex():
                self.known[s.name] = self.index[s.axis]
            case tiles.TileNumber():
                value = b.times(*self._factor(s.factor))
                is_index = s.kind == "index"
                self.known[s.name] = value if is_index else b.pure(arith.IndexCastOp, [value], ELEMENT_TYPES[s.kind])
            case tiles.TileCombine():
                self._halve(s)
            case tiles.TileGather():
                level = b.depth if self.in_order else None
                self.known[s.name] = b.load_element(self.buffers[s.buffer], self._computed(s.terms), level)
            case tiles.TileScatter():
                b.store_element(self.known[s.value], self.buffers[s.buffer], self._computed(s.terms))
            case tiles.TileLoop():
                self._loop(s)
            case tiles.TileRange():
                self.known[s.name] = self.high if s.end else self.low
            case _:
                raise UnsupportedError(
                    f"tiles-to-loops: {type(s).__name__} is a statement on whole tiles, not on elements"
                )

    def _loop(self, s: tiles.TileLoop) -> None:
        """A loop whose statements run in their order."""
        b = self.build

        def body(index: LLVMValue, carried: list[LLVMValue]) -> list[LLVMValue]:
            self.known[s.index] = index
            self.known.update(zip((c.name for c in s.carried), carried, strict=True))
            for statement in s.statements:
                self._statement(statement)
            return [self.known[c.next] for c in s.carried]

        starts = [self.known[c.start] for c in s.carried]
        ends = b.loop(self.known[s.low], self.known[s.high], b.index(1), body, starts)
        self.known.update(zip((c.result for c in s.carried), ends, strict=True))

    def _properties(self, op: str) -> dict[str, Attribute]:
        return operation_properties(op) if self.program.exact else properties_of(op)

    def _type(self, kind: str) -> Attribute:
        """The type of a value of a statement."""
        return ELEMENT_TYPES[kind] if self.lanes == 1 else vector_type(kind, self.lanes)

    def _load(self, s: tiles.TileLoad, level: int | None) -> LLVMValue:
        buffer, at = self.buffers[s.address.buffer], self._at(s.address)
        if self.lanes > 1:
            return self.build.load_vector(buffer, at, vector_type(s.kind, self.lanes))
        return self.build.load_element(buffer, at, level)

    def _halve(self, s: tiles.TileCombine) -> None:
        """Combine the second half of partial results with the first, until one is left; that one with the result."""
        b, (axis,) = self.build, self.program.inner
        parts, into, count, size = self.buffers[s.parts], self.buffers[s.into], self.known[s.count], self.sizes[axis]
        zero, one = b.index(0), b.index(1)
        fill(b, into, self.low, self.high, emit_constant(b, s.start, s.kind))

        def add(target: LLVMValue, at: LLVMValue, part: LLVMValue) -> None:
            """Combine a partial result with what begins at an index of a buffer."""
            first = b.times(part, size)

            def element(index: LLVMValue, _: list[LLVMValue]) -> list[LLVMValue]:
                operand = b.load_element(parts, b.plus(first, index), b.depth)
                to = b.plus(at, index)
                total = self._combine(s, b.load_element(target, to, b.depth), operand, False)
                b.store_element(total, target, to)
                return []

            b.loop(self.low, self.high, one, element)

        def level(_: LLVMValue, carried: list[LLVMValue]) -> list[LLVMValue]:
            (left,) = carried
            half, _ = b.split(b.plus(left, one), b.index(2))

            def pair(part: LLVMValue, _: list[LLVMValue]) -> list[LLVMValue]:
                add(parts, b.times(b.pure(arith.SubiOp, [part, half], INDEX), size), part)
                return []

            b.loop(half, left, one, pair)
            return [half]

        def last(part: LLVMValue, _: list[LLVMValue]) -> list[LLVMValue]:
            add(into, zero, part)
            return []

        b.loop(zero, b.least(count, b.index(_LEVELS)), one, level, [count])
        b.loop(zero, b.least(count, one), one, last)

    def _start(self, reduce: tiles.TileReduce) -> LLVMValue:
        return emit_constant(self.build, reduce.start, reduce.kind)

    def _combine(
        self, reduce: tiles.TileReduce | tiles.TileCombine, a: LLVMValue, b: LLVMValue, ordered: bool
    ) -> LLVMValue:
        """Combine two partial results of a reduction.

        LLVM vectorises an ordered sum of a few terms over several points, not over the terms: the last
        points are summed in the same order, so results do not depend on where a range is cut.
        """
        properties = operation_properties(reduce.op)
        if "fastmath" in properties and not ordered:
            properties["fastmath"] = REORDER
        return self.build.pure(operation_class(reduce.op), [a, b], ELEMENT_TYPES[reduce.kind], properties)


def properties_of(op: str) -> dict[str, Attribute]:
    """The properties of a map's operation."""
    properties = operation_properties(op)
    return {**properties, "fastmath": CONTRACT} if op in _CONTRACTED else properties


def _reductions(sweep: TileSweep) -> list[tiles.TileReduce]:
    return [s for s in sweep.statements if isinstance(s, tiles.TileReduce)]


@functools.lru_cache(64)
def vector_type(kind: str, lanes: int) -> VectorType[Any]:
    """The type of vectors of an element type."""
    return VectorType(ELEMENT_TYPES[kind], [lanes])


def emit_constant(build: LoopBuilder, value: Number, kind: str, lanes: int = 1) -> LLVMValue:
    """A number of an element type, or a vector with it in all lanes."""
    element: Any = ELEMENT_TYPES[kind]
    if lanes > 1:
        vector = vector_type(kind, lanes)
        return build.constant(DenseIntOrFPElementsAttr.from_list(vector, [value] * lanes), vector)
    attribute = FloatAttr(float(value), element) if "f" in kind else IntegerAttr(int(value), element)
    return build.constant(attribute, element)

"""Write a tile program as loops over memory, in LLVM IR.

The function computes the indices ``lo`` to ``hi`` of the parallel axes. Column reductions are computed in
*pieces*: each has partial results in memory of its own, and a second function combines them in order, so that
results do not depend on how threads share the work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith
from xdsl.dialects.utils import FastMathFlag

from hybridc.ground.buffers import ALIGNMENT
from hybridc.ground.machine import SQUARE
from hybridc.ir.structured_builder import ELEMENT_TYPES, kind_dtype, operation_class, operation_properties
from hybridc.ir.tiles import tile_program as tiles
from hybridc.lower.llvm.codegen.function_text import LLVMValue, ModuleText
from hybridc.lower.llvm.gemm.vector_registers import Vectors
from hybridc.lower.llvm.loops.loop_builder import Index
from hybridc.lower.llvm.loops.program_writer import PIECE, Place, ProgramWriter

# Fast-math of reductions whose terms may be combined in any order.
REORDER = arith.FastMathFlagsAttr([FastMathFlag.REASSOC, FastMathFlag.NO_SIGNED_ZEROS, FastMathFlag.ALLOW_CONTRACT])
# Partial results are halved at most so often: there are no more than two to this power.
_LEVELS = 32


class LoopWriter(ProgramWriter):
    """Writes a tile program as loops over memory."""

    def __init__(self, program: tiles.TileProgram, module: ModuleText) -> None:
        super().__init__(program, module)
        self.offsets: dict[str, Index] = {}  # the offset of a piece's partial results
        self.written = {s.address.buffer for w in program.sweeps for s in w.walk() if isinstance(s, tiles.TileStore)}
        self.written |= {s.into.buffer for s in program.reductions if s.into is not None}
        # Where statements run in loops of their own, in their order, so do loads: an index may be valid there alone.
        self.in_order = any(isinstance(s, tiles.TileLoop) for w in program.sweeps for s in w.walk())
        self.index: dict[int, Index] = {}  # the index along each axis
        self._cut()

    def write_body(self) -> None:
        program, low, high = self.program, self.b.low, self.b.high
        if program.shared:
            self._pieces(self._shared) if program.pieces else self._shared(low, high)
        elif program.tiled is not None:
            self._tiles()
        elif program.pieces:
            self._pieces(self._points)
        elif program.apart:
            for sweep in program.sweeps:
                self._points(low, high, [sweep])
        else:
            self._points(low, high)

    # --- memory --------------------------------------------------------------------------------------------

    def _cut(self) -> None:
        """Give each scratch array its offset in the scratch memory."""
        b = self.b
        offset = b.index(0)
        for array in self.program.scratch:
            size = b.times(*[self.sizes[a] for a in array.axes])
            self.arrays[array.name] = b.view(offset, ELEMENT_TYPES[array.kind])
            lines, _ = (size * kind_dtype(array.kind).itemsize + (ALIGNMENT - 1)).split(ALIGNMENT)
            offset = offset + lines * ALIGNMENT

    def _at(self, address: tiles.Address) -> Index:
        """The offset of an element in its buffer."""
        terms = [self.index[a] * self.factor(f) for a, f in address.terms]
        terms += [self.factor(f) for f in address.offset]
        terms += [self.offsets[address.buffer]] if address.buffer in self.offsets else []
        return self.b.plus(*terms)

    def _place(self, address: tiles.Address) -> Place:
        return self.arrays[address.buffer], self._at(address)

    def _index_of(self, name: str) -> Index:
        """A value that is an index."""
        return Index(self.b, self.known[name])

    def _computed(self, terms: Sequence[tuple[str, tiles.Factor]]) -> Index:
        """The offset of an element at computed indices, each times its factor."""
        return self.b.plus(*[self._index_of(v) * self.factor(f) for v, f in terms])

    # --- parallel axes -------------------------------------------------------------------------------------

    def _pieces(self, write: Callable[[Index, Index], None]) -> None:
        """For each piece from ``lo`` to ``hi``: its partial results, and its indices."""
        b, program = self.b, self.program
        whole = b.times(*[self.sizes[a] for a in (program.parallel or program.inner)])
        partial = {s.into.buffer: s for s in program.reductions if s.into is not None}
        with b.count(b.low, b.high) as index:
            first = index * self.blocks[PIECE]
            for buffer in program.pieces:
                reduce = partial[buffer.name]
                assert reduce.into is not None
                size = b.times(*[self.sizes[a] for a in reduce.into.axes])
                start = self.offsets[buffer.name] = index * size
                self._fill(self.arrays[buffer.name], start, start + size, reduce)
            write(first, (first + self.blocks[PIECE]).least(whole))

    def _fill(self, array: LLVMValue, low: Index, high: Index, reduce: tiles.TileReduce | tiles.TileCombine) -> None:
        """Fill a range of an array with what a reduction starts with."""
        with self.b.count(low, high) as index:
            self.b.store_at(self._start(reduce), array, index)

    def _points(self, low: Index, high: Index, sweeps: Sequence[tiles.TileSweep] | None = None) -> None:
        """The parallel indices from ``low`` to ``high``, at each of which ``sweeps`` run, by default all.

        They are walked row by row, so that nothing is divided in a row by a size that the code is given.
        """
        b, parallel = self.b, self.program.parallel
        divided = max((i for i, axis in enumerate(parallel) if i and self.program.sizes[axis] is None), default=0)
        if not divided:
            self._row((), low, high, sweeps)
            return
        size = b.times(*[self.sizes[a] for a in parallel[divided:]])
        with b.count(low // size.most(1), high.ceildiv(size.most(1))) as row:
            self._put_indices(parallel[:divided], row)
            first = row * size
            self._row(parallel[:divided], (low - first).most(0), (high - first).least(size), sweeps)

    def _row(self, outer: tiles.Axes, low: Index, high: Index, sweeps: Sequence[tiles.TileSweep] | None) -> None:
        """The indices from ``low`` to ``high`` of the parallel axes that are not ``outer``, at which sweeps run."""
        with self.b.count(low, high) as point:
            self._put_indices(self.program.parallel[len(outer) :], point)
            for sweep in self.program.sweeps if sweeps is None else sweeps:
                self._sweep(sweep)

    def _put_indices(self, axes: tiles.Axes, index: Index) -> None:
        """Put the index along each of these axes, of one that counts all of them; the last axis is the fastest."""
        for axis in reversed(axes[1:]):
            index, self.index[axis] = index.split(self.sizes[axis])
        if axes:
            self.index[axes[0]] = index

    def _tiles(self) -> None:
        """Tiles of the last parallel axis and the inner axis; the range counts the former's."""
        b, (*outer, down), (along,) = self.b, self.program.parallel, self.program.inner
        with b.count(b.low, b.high) as point:
            tiles, _ = (self.sizes[down] + (SQUARE - 1)).split(SQUARE)
            rest, tile = point.split(tiles)
            first = tile * SQUARE
            last = (first + SQUARE).least(self.sizes[down])
            self._put_indices(tuple(outer), rest)
            whole = self.sizes[along].split(SQUARE)[0] * SQUARE

            def rows(low: Index | int, high: Index | int, begin: Index | int) -> None:
                with b.count(first, last) as row, b.count(low, high) as column:
                    self.index[down], self.index[along] = row, column + begin
                    self.known = {}
                    for sweep in self.program.sweeps:
                        self._statements(sweep)

            with b.count(0, whole, SQUARE) as start:
                rows(0, SQUARE, start)
            rows(whole, self.sizes[along], 0)

    def _shared(self, low: Index, high: Index) -> None:
        """A program of one axis, of which this call computes a range."""
        for sweep in self.program.sweeps:
            self._sweep(sweep, (low, high))

    # --- sweeps --------------------------------------------------------------------------------------------

    def _sweep(self, sweep: tiles.TileSweep, bounds: tuple[Index, Index] | None = None) -> None:
        if sweep.squares:
            self._squares(sweep)
            return
        for reduce in _reductions(sweep):
            if reduce.accumulates and reduce.into is not None and reduce.into.buffer not in self.offsets:
                self._begin(reduce, reduce.into, [a for a in reduce.into.axes if a in self.program.inner])
        self._loops(sweep, 0, bounds)

    def _begin(self, reduce: tiles.TileReduce, into: tiles.Address, axes: Sequence[int]) -> None:
        """Initialise a reduction's accumulator along axes at this point."""
        if not axes:
            self.b.store_at(self._start(reduce), *self._place(into))
            return
        with self.b.count(0, self.sizes[axes[0]]) as self.index[axes[0]]:
            self._begin(reduce, into, axes[1:])

    def _loops(self, sweep: tiles.TileSweep, level: int, bounds: tuple[Index, Index] | None) -> None:
        """The loops of a sweep from ``level`` on, with scalar reductions as carried values."""
        if level == len(sweep.axes):
            self._statements(sweep)
            return
        left = len(sweep.axes) - level
        begun = [s for s in _reductions(sweep) if s.carried == left]
        inside = [s for s in _reductions(sweep) if s.carried >= left]
        for reduce in begun:
            self.known[reduce.name] = self._start(reduce)
        axis = sweep.axes[level]
        low, high = bounds or (self._bounds(sweep) if left == 1 else (self.b.index(0), self.sizes[axis]))

        def iteration(index: Index, carried: list[LLVMValue]) -> list[LLVMValue]:
            self.index[axis] = index
            self.known.update(zip((s.name for s in inside), carried, strict=True))
            self._loops(sweep, level + 1, None)
            return [self.known[s.name] for s in inside]

        starts = [self.known[s.name] for s in inside]
        steps = (*sweep.blocks, sweep.lanes) if left == 1 else (1,)
        ends = self._blocks(low, high, steps, inside, starts, iteration)
        self.known.update(zip((s.name for s in inside), ends, strict=True))
        for reduce in begun:
            self._finish(reduce)

    def _bounds(self, sweep: tiles.TileSweep) -> tuple[Index, Index]:
        """Between what the innermost loop of a sweep runs."""
        if sweep.bounds is None:
            return self.b.index(0), self.sizes[sweep.axes[-1]]
        low, high = sweep.bounds
        return self.b.index(0) if low is None else self._index_of(low), self._index_of(high)

    def _squares(self, sweep: tiles.TileSweep) -> None:
        """Move elements in squares that are transposed in registers."""
        b, (down, along), (load, store), lanes = self.b, sweep.axes, sweep.statements, sweep.squares
        assert isinstance(load, tiles.TileLoad)
        assert isinstance(store, tiles.TileStore)
        v = Vectors(b, ELEMENT_TYPES[load.kind], lanes)
        low, high = self._bounds(sweep)

        def place(address: tiles.Address, row: Index, column: Index) -> Place:
            self.index[down], self.index[along] = row, column
            return self._place(address)

        with b.count(0, self.sizes[down], lanes) as row:
            row = row.least(self.sizes[down] - lanes)
            with b.count(low, high, lanes) as column:
                column = column.least(high - lanes)
                lines = [v.load(*place(load.address, row + j, column)) for j in range(lanes)]
                for j, values in enumerate(v.transposed(lines)):
                    b.store_at(values, *place(store.address, row, column + j))

    def _blocks(
        self,
        low: Index,
        high: Index,
        steps: Sequence[int],
        reduced: Sequence[tiles.TileReduce],
        starts: Sequence[LLVMValue],
        iteration: Callable[[Index, list[LLVMValue]], list[LLVMValue]],
    ) -> list[LLVMValue]:
        """A loop; with several steps one over blocks, whose results are combined: pairwise summation for precision."""
        step, *smaller = steps
        with self.b.carry(low, high, starts, step) as (index, loop):
            if smaller:
                last, neutral = (index + step).least(high), [self._start(s) for s in reduced]
                ends = self._blocks(index, last, smaller, reduced, neutral, iteration)
                results = zip(reduced, loop.carried, ends, strict=True)
                loop.next = [self._combine(s, sofar, end, False) for s, sofar, end in results]
            else:
                loop.next = iteration(index, loop.carried)
        return loop.carried

    def _finish(self, reduce: tiles.TileReduce) -> None:
        """Store the carried value of a reduction."""
        if reduce.into is None:
            return
        if reduce.accumulates:
            self._accumulate(reduce, self.known[reduce.name], False)
        else:
            self.b.store_at(self.known[reduce.name], *self._place(reduce.into))

    def _accumulate(self, reduce: tiles.TileReduce, value: LLVMValue, ordered: bool) -> None:
        assert reduce.into is not None
        array, at = self._place(reduce.into)
        sofar = self.b.load_at(array, at, level=self.b.depth)
        self.b.store_at(self._combine(reduce, sofar, value, ordered), array, at)

    # --- statements ----------------------------------------------------------------------------------------

    def _statements(self, sweep: tiles.TileSweep) -> None:
        """The statements for one element, or for the lanes of a vector, and the sweeps in it."""
        self.lanes = sweep.lanes
        for statement in sweep.statements:
            self._statement(statement)
        for inner in sweep.sweeps:
            self._sweep(inner)

    def _statement(self, s: tiles.Statement) -> None:
        b = self.b
        match s:
            case tiles.TileLoad():
                # Memory that the program writes is loaded inside the loops.
                level = b.depth if s.address.buffer in self.written else None
                self.known[s.name] = b.load_at(*self._place(s.address), self.kind(s.kind), level)
            case tiles.TileReduce() if s.carried:
                self.known[s.name] = self._combine(s, self.known[s.name], self.known[s.operand], s.ordered)
            case tiles.TileReduce():
                self._accumulate(s, self.known[s.operand], s.ordered)
            case tiles.TileIndex():
                self.known[s.name] = self.index[s.axis].value
            case tiles.TileNumber():
                value = self.factor(s.factor)
                self.known[s.name] = value.value if s.kind == "index" else value.integer(ELEMENT_TYPES[s.kind])
            case tiles.TileCombine():
                self._halve(s)
            case tiles.TileGather():
                level = b.depth if self.in_order else None
                self.known[s.name] = b.load_at(self.arrays[s.buffer], self._computed(s.terms), level=level)
            case tiles.TileScatter():
                b.store_at(self.known[s.value], self.arrays[s.buffer], self._computed(s.terms))
            case tiles.TileLoop():
                self._loop(s)
            case tiles.TileRange():
                self.known[s.name] = (b.high if s.end else b.low).value
            case _:
                self.write_element(s, self._place)

    def _loop(self, s: tiles.TileLoop) -> None:
        """A loop whose statements run in their order."""
        starts = [self.known[c.start] for c in s.carried]
        with self.b.carry(self._index_of(s.low), self._index_of(s.high), starts) as (index, loop):
            self.known[s.index] = index.value
            self.known.update(zip((c.name for c in s.carried), loop.carried, strict=True))
            for statement in s.statements:
                self._statement(statement)
            loop.next = [self.known[c.next] for c in s.carried]
        self.known.update(zip((c.result for c in s.carried), loop.carried, strict=True))

    def _halve(self, s: tiles.TileCombine) -> None:
        """Combine the second half of partial results with the first, until one is left; that one with the result."""
        b, (axis,) = self.b, self.program.inner
        parts, into, count, size = self.arrays[s.parts], self.arrays[s.into], self._index_of(s.count), self.sizes[axis]
        self._fill(into, b.low, b.high, s)

        def add(target: LLVMValue, at: Index, part: Index) -> None:
            """Combine a partial result with what begins at an index of a buffer."""
            first = part * size
            with b.count(b.low, b.high) as index:
                operand = b.load_at(parts, first + index, level=b.depth)
                to = at + index
                total = self._combine(s, b.load_at(target, to, level=b.depth), operand, False)
                b.store_at(total, target, to)

        with b.carry(0, count.least(_LEVELS), [count.value]) as (_, loop):
            left = Index(b, loop.carried[0])
            half, _ = (left + 1).split(2)
            with b.count(half, left) as part:
                add(parts, (part - half) * size, part)
            loop.next = [half.value]
        with b.count(0, count.least(1)) as part:
            add(into, b.index(0), part)

    def _start(self, reduce: tiles.TileReduce | tiles.TileCombine) -> LLVMValue:
        return self.b.number(reduce.start, ELEMENT_TYPES[reduce.kind])

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
        return self.b.pure(operation_class(reduce.op), [a, b], ELEMENT_TYPES[reduce.kind], properties)


def _reductions(sweep: tiles.TileSweep) -> list[tiles.TileReduce]:
    return [s for s in sweep.statements if isinstance(s, tiles.TileReduce)]

"""Lower a tile program of a matmul to loops over vectors.

Its statements are about tiles of rows, columns and terms
(:mod:`~hybridc.transforms.schedules.schedule_register_tiles`):

* a load that is stored to scratch packs an operand: by rows, by squares that are transposed in registers, or element by
  element, whichever its strides allow;
* a contraction is computed part by part, each in registers: outer products, or dot products if terms are taken by the
  vector;
* lines of rows are worked on one by one; terms in segments, of which each carries the sums on;
* what follows a contraction is computed of its sums, vector by vector; if these are stored to scratch and loaded again,
  of columns, which are transposed in registers;
* of a tile of the grid that reaches beyond the last column, results go through scratch (*spill*).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import i1

from hybridc.ir.structured_builder import ELEMENT_TYPES, kind_dtype, operation_properties
from hybridc.ir.tiles.tile_program import (
    Address,
    Statement,
    TileContract,
    TileDim,
    TileLoad,
    TileProgram,
    TileStore,
    TileSweep,
)
from hybridc.lower.llvm.codegen.function_text import LLVMValue, ModuleText
from hybridc.lower.llvm.gemm.vector_registers import Vectors
from hybridc.lower.llvm.loops.loop_builder import INDEX, Index, array_type
from hybridc.lower.llvm.loops.program_writer import Place, ProgramWriter
from hybridc.transforms.schedules.matmul_shape import SQUARE, TOTAL, MatmulShape


class MatmulWriter(ProgramWriter):
    """Writes the tile program of a matmul."""

    def __init__(self, program: TileProgram, module: ModuleText) -> None:
        super().__init__(program, module)
        self.shape = MatmulShape(program)
        self.element = ELEMENT_TYPES[program.buffers[0].kind]
        self.v = Vectors(self.b, self.element, self.shape.lanes)
        self.scratch = {array.name: array for array in program.scratch}
        self.index: dict[int, Index] = {}  # along axes around the matmul; of others, that of the tile's first element
        self.count: dict[int, Index] = {}  # how many elements the tile has
        self.line = (self.b.low, self.b.high)  # the first line of the tile, and how many it has
        self.k = self.sizes[self.shape.terms]
        self.spill = self._view(0)
        self._cut()

    # --- memory --------------------------------------------------------------------------------------------

    def _view(self, elements: int) -> LLVMValue:
        offset = elements * kind_dtype(self.program.buffers[0].kind).itemsize
        return self.b.view(self.b.index(offset), self.element)

    def _cut(self) -> None:
        """Assign offsets to the scratch arrays; only the last one may have a size that is not known here."""
        first = self.shape.spill
        for array in self.program.scratch:
            self.arrays[array.name] = self._view(first)
            if array is not self.program.scratch[-1]:
                first += math.prod(self.shape.held(axis, ()) for axis in array.axes)

    def stride(self, address: Address, axis: int) -> Index:
        """The stride of an address along an axis."""
        return self.factor(dict(address.terms)[axis])

    def at(self, address: Address, index: Mapping[int, Index | int]) -> Index:
        """The offset of an element: at these indices in the tile."""
        terms = [self.factor(f) * index[axis] for axis, f in address.terms if axis in index]
        first = self.b.plus(*[self.index[axis] * self.factor(f) for axis, f in address.terms if axis in self.index])
        return self.b.plus(first, *terms)

    # --- tiles of the grid ---------------------------------------------------------------------------------

    def write_body(self) -> None:
        b, rows = self.b, self.shape.rows
        for axis, dim in self.shape.dims.items():
            if dim.walk == "whole":
                self.count[axis] = self.sizes[axis]
        shared = next((dim for dim in self.program.tiles if dim.walk == "range"), None)
        if shared is None:
            with b.count(b.low, b.high) as tile:
                self._tile(tile)
            return
        block = self._block(shared)
        with b.count(0, (b.high - b.low).ceildiv(block)) as index:
            first = b.low + index * block
            count = (b.high - first).least(block)
            if shared is self.shape.lines:
                self.line = (first, count)
            else:
                self.index[rows], self.count[rows] = first, count
            self._sweeps()

    def _tile(self, tile: Index) -> None:
        """The tile with an index; along the last of the parallel axes it is counted first."""
        first, *others = self.program.parallel
        for axis in (*reversed(others), first):
            dim = self.shape.dims.get(axis)
            block = None if dim is None else self._block(dim)
            count = self.sizes[axis] if block is None else self.sizes[axis].ceildiv(block)
            index = tile if axis == first else tile % count
            tile = tile if axis == first else tile // count
            self.index[axis] = index if block is None else index * block
            if block is not None and dim is not None and not dim.masked:
                self.index[axis] = (index * block).least(self.sizes[axis] - block)
            if block is not None:
                self.count[axis] = (self.sizes[axis] - self.index[axis]).least(block)
        self._sweeps()

    def _block(self, dim: TileDim) -> Index | int:
        return dim.block if isinstance(dim.block, int) else self.blocks[dim.block]

    def _sweeps(self) -> None:
        for sweep in self.program.sweeps:
            if not sweep.axes:
                self._sweep(sweep)
                continue
            (axis,) = sweep.axes
            with self.b.count(0, self.sizes[axis]) as self.index[axis]:
                self._sweep(sweep)

    # --- statements ----------------------------------------------------------------------------------------

    def _sweep(self, sweep: TileSweep) -> None:
        """The statements of a sweep, by the larger parts of rows if these have any."""
        if self.shape.lines is not None:
            first, count = self.line
            with self.b.count(0, count) as line:
                self._line(sweep, first + line)
            return
        parts = self.shape.dims[self.shape.rows].parts
        if len(parts) == 1 or not any(isinstance(s, TileContract) for s in sweep.statements):
            self._statements(sweep)
            return
        (size,), rows = parts[0], self.shape.rows
        first, count = self.index[rows], self.count[rows]
        with self.b.count(0, count, size) as row:
            self.index[rows], self.count[rows] = first + row, (count - row).least(size)
            self._statements(sweep)
        self.index[rows], self.count[rows] = first, count

    def _line(self, sweep: TileSweep, line: Index) -> None:
        """The statements of a sweep for one line."""
        assert self.shape.lines is not None
        first, *others = self.shape.lines.axes
        for axis in reversed(others):
            self.index[axis], line = line % self.sizes[axis], line // self.sizes[axis]
        self.index[first] = line
        self._statements(sweep)

    def _statements(self, sweep: TileSweep) -> None:
        loads = {s.name: s.address for s in sweep.statements if isinstance(s, TileLoad)}
        place = next((i for i, s in enumerate(sweep.statements) if isinstance(s, TileContract)), None)
        if place is not None:
            contract, after = sweep.statements[place], sweep.statements[place + 1 :]
            assert isinstance(contract, TileContract)
            first = after[0]
            in_scratch = isinstance(first, TileStore) and first.address.buffer in self.scratch
            self._contract(contract, loads, after[:1] if in_scratch else after)
            if in_scratch:
                self._turn(after[1:])
            return
        for s in sweep.statements:
            if isinstance(s, TileStore):
                copy = self._pack if s.address.axes[0] == self.shape.terms else self._interleave
                copy(loads[s.value], s.address)

    # --- copies --------------------------------------------------------------------------------------------

    def _is_one(self, stride: Index) -> Index:
        """1 if a stride is 1, else 0."""
        one, zero = self.b.index(1).value, self.b.index(0).value
        flag = self.b.pure(arith.CmpiOp, [stride.value, one], i1, operation_properties("arith.cmpi eq"))
        return Index(self.b, self.b.pure(arith.SelectOp, [flag, one, zero], INDEX))

    def _pack(self, source: Address, target: Address) -> None:
        """Pack a panel, term after term; one that reaches beyond the last column repeats it."""
        b, shape, v, lanes, width = self.b, self.shape, self.v, self.shape.lanes, self.shape.width
        panel, array = self.arrays[target.buffer], self.arrays[source.buffer]
        start, columns = self.at(source, {}), self.count[shape.columns]
        by_term, by_column = self.stride(source, shape.terms), self.stride(source, shape.columns)
        along_rows, along_columns = self._is_one(by_column), self._is_one(by_term)
        full = columns // width
        by_rows = full * along_rows * self.k
        by_squares = full * (along_columns - along_columns * along_rows) * (self.k // lanes * lanes)
        with b.count(0, by_rows) as term:
            for lane in range(0, width, lanes):
                b.store_at(v.load(array, start + term * by_term + lane), panel, term * width + lane)
        with b.count(0, by_squares, lanes) as term, b.count(0, width, lanes) as lane:
            places = [start + term + by_column * (lane + i) for i in range(lanes)]
            for i, column in enumerate(v.transposed([v.load(array, at) for at in places])):
                b.store_at(column, panel, (term + i) * width + lane)
        # The remainder of whole vectors: the last terms, or all of a partial panel.
        with b.count(by_rows + by_squares, self.k) as term, b.count(0, width) as column:
            value = b.load_at(array, start + term * by_term + column.least(columns - 1) * by_column)
            b.store_at(value, panel, term * width + column)

    def _interleave(self, source: Address, target: Address) -> None:
        """Pack rows: those of a tile of registers side by side, term after term."""
        b, shape, array, block = self.b, self.shape, self.arrays[source.buffer], self.arrays[target.buffer]
        by_row, by_term = self.stride(source, shape.rows), self.stride(source, shape.terms)
        # The terms that are copied for a whole tile at a time, and those that are transposed in squares.
        beside, square = self.k * self._is_one(by_row), self.k * self._is_one(by_term)

        def rows(row: Index, height: int) -> None:
            starts, to = [self.at(source, {shape.rows: at}) for at in self._below(row, height)], row * self.k
            if height == shape.heights[0]:
                # One of the two loops runs, as either rows or terms are contiguous.
                with b.count(0, beside) as term:
                    v = Vectors(b, self.element, height)
                    b.store_at(v.load(array, starts[0] + term * by_term), block, to + term * height)
                last = self.k - SQUARE  # the last square may overlap the one before
                with b.count(0, square, SQUARE) as term:
                    self._squares(array, starts, block, to, term.least(last))
                return
            with b.count(0, self.k) as term:
                for i, start in enumerate(starts):
                    b.store_at(b.load_at(array, start + term * by_term), block, to + term * height + i)

        self._by_tiles(rows)

    def _squares(self, array: LLVMValue, starts: Sequence[Index], block: LLVMValue, to: Index, term: Index) -> None:
        """Transpose some terms, which are contiguous, of all rows; the last square may repeat its last row."""
        v = Vectors(self.b, self.element, SQUARE)
        for group in range(0, len(starts), SQUARE):
            rows = [v.load(array, start + term) for start in starts[group : group + SQUARE]]
            columns = v.transposed(rows + rows[-1:] * (SQUARE - len(rows)))
            for i, numbers in enumerate(columns):
                kept = v.shuffle(numbers, numbers, range(len(rows))) if len(rows) < SQUARE else numbers
                self.b.store_at(kept, block, to + (term + i) * len(starts) + group)

    def _turn(self, statements: Sequence[Statement]) -> None:
        """Statements about sums in scratch, in squares that are transposed; columns beyond the last repeat it there."""
        b, shape, v, lanes, width = self.b, self.shape, self.v, self.shape.lanes, self.shape.width
        load, *after = statements
        assert isinstance(load, TileLoad)
        sums = self.arrays[load.address.buffer]
        count, columns = self.count[shape.rows], self.count[shape.columns]
        done = count // lanes * lanes

        def write(value: LLVMValue, row: Index, column: Index) -> None:
            place = {shape.rows: row, shape.columns: column}
            self.write_epilogue(after, TOTAL, value, (shape.rows,), functools.partial(self._place, place))

        with b.count(0, done, lanes) as row, b.count(0, columns, lanes) as lane:
            self.lanes = lanes
            rows = [v.load(sums, (row + i) * width + lane) for i in range(lanes)]
            for i, values in enumerate(v.transposed(rows)):
                write(values, row, (lane + i).least(columns - 1))
        with b.count(done, count) as row, b.count(0, columns) as column:
            self.lanes = 1
            write(b.load_at(sums, row * width + column, level=b.depth), row, column)

    def _place(self, index: Mapping[int, Index | int], address: Address) -> Place:
        return self.arrays[address.buffer], self.at(address, index)

    # --- contractions --------------------------------------------------------------------------------------

    def _by_tiles(self, write: Callable[[Index, int], None]) -> None:
        """The tiles of registers of all rows: high ones, then low ones for the last rows."""
        dim, count, (high, *lower) = self.shape.dims[self.shape.rows], self.count[self.shape.rows], self.shape.heights
        done = self._rows_of_high_tiles(count, high, lower[0]) if lower else self.b.index(0)
        low = lower[0] if lower else high
        if lower:
            with self.b.count(0, done, high) as row:
                write(row, high)
        # If rows beyond the last are not masked, the last tile ends with it, and computes some rows twice.
        last = count - low
        with self.b.count(done, count, low) as row:
            write(row if dim.masked else row.least(last), low)

    def _rows_of_high_tiles(self, count: Index, high: int, low: int) -> Index:
        """How many of ``count`` rows are in high tiles. One or two that are left share low ones with those before."""
        tiles, left = count // high, count % high
        if high < 2 * low:
            few = left.least(1) - (left + high - low + 1) // high  # 1 for one or two rows
            tiles = (tiles - few).most(0)
        return tiles * high

    def _below(self, row: Index, height: int) -> list[Index]:
        """The rows of a tile. Those of a masked low one beyond the last repeat it.

        In larger parts the high ones do so, too, although they have no such rows: LLVM keeps an address for each row
        then, which takes 5 % less time than to add up strides.
        """
        rows, dim = [row + i for i in range(height)], self.shape.dims[self.shape.rows]
        if not dim.masked or (height == self.shape.heights[0] and len(dim.parts) == 1):
            return rows
        return [r.least(self.count[self.shape.rows] - 1) for r in rows]

    def _contract(self, contract: TileContract, loads: Mapping[str, Address], after: Sequence[Statement]) -> None:
        """All rows of the tile: the sums, and the statements that are about them."""
        shape, last = self.shape, after[-1]
        left, right = loads[contract.left], loads[contract.right]
        assert isinstance(last, TileStore)

        def rows(row: Index, height: int) -> None:
            if shape.dots:
                self._store_dots(self._dots(left, right, row, height), last.address, row, height)
                return
            sums = self._sums(left, right, row, height)
            if shape.dims[shape.columns].masked and last.address.buffer not in self.scratch:
                self._store_columns(sums, last.address, row)
            else:
                self._finish(contract.name, sums, after, row, height)

        self._by_tiles(rows)

    def _sums(self, left: Address, right: Address, row: Index, height: int) -> list[LLVMValue]:
        """Outer products of ``height`` rows, added up in registers: vector after vector, row by row."""
        shape, v = self.shape, self.v
        abreast = shape.width // shape.lanes
        x_array, y_array = self.arrays[left.buffer], self.arrays[right.buffer]
        rows = self._below(row, height)

        def places(term: Index) -> list[Index]:
            if left.buffer in self.scratch:
                at = row * self.k + term * height
                return [at + i for i in range(height)]
            return [self.at(left, {shape.rows: r, shape.terms: term}) for r in rows]

        def added(term: Index, sums: list[LLVMValue]) -> list[LLVMValue]:
            at = term * shape.width if right.buffer in self.scratch else self.at(right, {shape.terms: term})
            ys = [v.load(y_array, at + j * shape.lanes) for j in range(abreast)]
            totals: list[LLVMValue] = []
            for row_of_tile, place in enumerate(places(term)):
                x = v.everywhere(self.b.load_at(x_array, place))
                totals += [v.fma(x, ys[j], sums[abreast * row_of_tile + j]) for j in range(abreast)]
            return totals

        return self._over_segments(shape.segments, [v.zero] * (abreast * height), added)

    def _over_segments(
        self, axes: Sequence[int], sums: list[LLVMValue], added: Callable[[Index, list[LLVMValue]], list[LLVMValue]]
    ) -> list[LLVMValue]:
        """The sums with the terms of all segments along axes, each ``added`` to those before."""
        with self.b.carry(0, self.sizes[axes[0]] if axes else self.k, sums) as (index, loop):
            if axes:
                self.index[axes[0]] = index
                loop.next = self._over_segments(axes[1:], loop.carried, added)
                del self.index[axes[0]]
            else:
                loop.next = added(index, loop.carried)
        return loop.carried

    def _finish(
        self, name: str, sums: Sequence[LLVMValue], after: Sequence[Statement], row: Index, height: int
    ) -> None:
        """Statements about the sums of this name, which end with stores of whole columns."""
        shape, self.lanes = self.shape, self.shape.lanes
        abreast, rows = shape.width // shape.lanes, self._below(row, height)
        for index, value in enumerate(sums):
            down, right = divmod(index, abreast)
            element = {shape.rows: rows[down], shape.columns: right * shape.lanes}

            def place(address: Address, index: int = index, element: Mapping[int, Index | int] = element) -> Place:
                if address.buffer in self.scratch:
                    return self.arrays[address.buffer], row * shape.width + index * shape.lanes
                return self._place(element, address)

            self.write_epilogue(after, name, value, (shape.columns,), place)

    def _store_columns(self, sums: Sequence[LLVMValue], target: Address, row: Index) -> None:
        """Store a tile; one that reaches beyond the last column goes to scratch, and its first columns are copied."""
        shape, b, result = self.shape, self.b, self.arrays[target.buffer]
        columns, start = self.count[shape.columns], self.at(target, {shape.rows: row})
        down_by, abreast = self.stride(target, shape.rows), shape.width // shape.lanes
        full = columns // shape.width
        rest = b.index(1) - full
        to = b.pure(arith.SelectOp, [rest.integer(i1), self.spill, result], array_type(self.element))
        first, step = start * full, down_by * full + rest * shape.width
        for index, value in enumerate(sums):
            down, right = divmod(index, abreast)
            b.store_at(value, to, first + step * down + right * shape.lanes)
        with b.count(0, rest * (len(sums) // abreast)) as i, b.count(0, columns) as j:
            value = b.load_at(self.spill, i * shape.width + j, level=b.depth)
            b.store_at(value, result, start + i * down_by + j)

    def _dots(self, left: Address, right: Address, row: Index, height: int) -> LLVMValue:
        """A vector of dot products, row by row; columns beyond the last one repeat it."""
        shape, v, last = self.shape, self.v, self.sizes[self.shape.columns] - 1
        rows = [self.at(left, {shape.rows: row + i}) for i in range(height)]
        first = self.index.pop(shape.columns)
        columns = [self.at(right, {shape.columns: (first + j).least(last)}) for j in range(shape.width)]
        self.index[shape.columns] = first
        with self.b.carry(0, self.k, [v.zero] * shape.lanes, shape.lanes) as (term, loop):
            xs = [v.load(self.arrays[left.buffer], start + term) for start in rows]
            ys = [v.load(self.arrays[right.buffer], start + term) for start in columns]
            pairs = [(x, y) for x in xs for y in ys]
            loop.next = [v.fma(x, y, z) for (x, y), z in zip(pairs, loop.carried, strict=True)]
        return v.sums(loop.carried)

    def _store_dots(self, tile: LLVMValue, target: Address, row: Index, height: int) -> None:
        """Store a vector of dot products."""
        shape, b, v, result = self.shape, self.b, self.v, self.arrays[target.buffer]
        start, step = self.at(target, {shape.rows: row}), self.stride(target, shape.rows)
        width, count = shape.width, self.count[shape.columns]
        full = count // width
        with b.count(0, full):
            for i in range(height):
                b.store_at(v.shuffle(tile, tile, range(i * width, (i + 1) * width)), result, start + step * i)
        with b.count(full, 1):
            b.store_at(tile, self.spill, b.index(0))
            with b.count(0, count) as j:
                for i in range(height):
                    value = b.load_at(self.spill, j + i * width, level=b.depth)
                    b.store_at(value, result, start + step * i + j)

"""Matmul in register tiles (micro-kernel), with panels that each thread packs into scratch, or that are prepacked.

The range of the parallel region is the *panels* of all matrices of the batch: as many columns as two vectors hold. A
panel of the right matrix is packed row after row into scratch; the last one is padded with its last column. A tile
of the result, some rows of a panel, is then accumulated in registers: outer products of a row of the panel and a column
of the tile's rows.

Where the left matrix is the smaller one, the operands are exchanged: its rows become the columns of panels, the right
matrix is read in place, and the transposed result is transposed back when it is stored.

Compiling this code takes a while, so one function serves all matmuls of a dtype: the algorithm of packing and
the strides are scalar arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, ModuleOp, f32, f64, i1
from xdsl.ir import SSAValue

from hybridc.dialects.operator_attribute import DType
from hybridc.ground.machine import CHUNKS
from hybridc.ir.contraction_shape import COLUMN, Loop, Matrices
from hybridc.ir.costs import SAME_SET, grain_of, is_shared, matmul_time
from hybridc.lower.llvm.codegen.native_function import NativeFunction
from hybridc.lower.llvm.gemm.gemm_region import (
    Arguments,
    Index,
    Registers,
    Vectors,
    Walk,
    few_forms,
    region,
    registers,
    time_of,
)
from hybridc.lower.llvm.loops.parallel_regions import ParallelRegion

# The least rows for which a panel is packed, where there are more.
_ROWS = 48
# The same where the result is transposed, as long as each thread has some: packing takes a few percent of the
# time then.
_ROWS_TO_TURN = 256
# Fixed scalar arguments of a region that packs panels.
_FIXED = 10


def panel_width(dtype: DType, vectors: Registers) -> int:
    """Columns of a panel."""
    return Form(dtype, vectors).width


def panel_columns(columns: int, dtype: DType, vectors: Registers) -> int:
    """Columns of all panels, with padding."""
    width = panel_width(dtype, vectors)
    return math.ceil(columns / width) * width


def tile_region(given: Matrices, dtype: DType, buffers: tuple[int, ...], threads: int) -> ParallelRegion | None:
    """The parallel region of register tiles; None if it does not support these arrays."""
    vectors = registers()
    if vectors is None or given.over or given.k == 0 or given.m < LOW:
        return None
    form = Form(dtype, vectors)
    return column_region(
        "tiles",
        form,
        given,
        buffers,
        threads,
        rows=_ROWS,
        fixed=lambda x, panels: (*_fixed(x, panels), x.c[0]),
        scratch=(form.heights[0] + given.k) * form.width * dtype.itemsize,
        write=lambda arguments, walk: _TileWriter(form, walk, arguments, form.heights[0]).write(),
        # Also without batch loops, as compiling another function takes longer than these do.
        once=[Loop(1, 0, 0, 0)],
    )


def turned_region(given: Matrices, dtype: DType, buffers: tuple[int, ...], threads: int) -> ParallelRegion | None:
    """The parallel region of register tiles with exchanged operands; None if it does not support these arrays.

    The left matrix is packed into panels, and the right one is read in place, if its columns are contiguous.
    """
    vectors, given, (left, right, *others) = registers(), given.exchanged(), buffers
    if vectors is None or given.over or given.k == 0 or (given.a[1] != 1 and given.k > 1):
        return None
    form = Form(dtype, vectors)
    parts = _parts(given, form, threads)
    rows, kept = math.ceil(given.m / parts / form.lanes) * form.lanes, form.rows_to_turn + LOW
    return column_region(
        "turned",
        form,
        given,
        (right, left, *others),
        threads,
        rows=given.m,
        parts=parts,
        fixed=lambda x, panels: (*_fixed(x, panels), x.c[1], rows, parts),
        scratch=(kept + given.k) * form.width * dtype.itemsize,
        write=lambda arguments, walk: _TurnedWriter(form, walk, arguments, kept).write(),
        once=[Loop(1, 0, 0, 0)],
    )


def _fixed(given: Matrices, panels: int) -> tuple[int, ...]:
    """Fixed scalar arguments of a region that packs panels."""
    along_rows, along_columns = given.b[1] == 1, given.b[0] == 1 != given.b[1]
    return (given.m, given.n, given.k, *given.a, *given.b, along_rows, along_columns, panels)


def _parts(given: Matrices, form: Form, threads: int) -> int:
    """The number of blocks of rows, each with its own copy of the panel: a multiple of the threads, if possible."""
    units = math.ceil(given.n / form.width) * given.batches
    if not is_shared(time_of(given, form.dtype)):
        return 1
    least = max(_ROWS, min(_ROWS_TO_TURN, given.m * units // threads))
    parts, step = min(CHUNKS * threads // units, given.m // least), threads // math.gcd(threads, units)
    return max(1, parts // step * step if parts >= step else parts)


class _TileWriter:
    """Emits the body of the region."""

    def __init__(self, form: Form, walk: Walk, given: Arguments, rows: int) -> None:
        self.form, self.given, b = form, given, given.b
        self.v = Vectors(b, form.element, form.lanes)
        self.walk, fixed = walk, given.numbers[:_FIXED]
        self.m, self.n, self.k, self.a_row, self.a_term, self.b_term, self.b_column, *fixed = fixed
        self.along_rows, self.along_columns, self.panels = fixed
        self.c_step = given.numbers[_FIXED]  # row stride of the result, or column stride if it is transposed
        spill = rows * form.width
        size = b.index(0)
        # Rows that are not stored directly are in scratch before the panel.
        self.spill = b.view(given.scratch, b.index(0), size, form.element)
        self.panel = b.view(given.scratch, b.index(spill * form.dtype.itemsize), size, form.element)

    def write(self) -> None:
        """For each panel: pack it, then multiply."""
        self.given.loop(self.given.lo, self.given.hi, lambda i, _: self.one(i))

    def one(self, number: Index) -> None:
        """One panel, with all rows."""
        a, b, c = self.walk.offsets(number // self.panels)
        first = number % self.panels * self.form.width
        columns = (self.n - first).least(self.form.width)
        self.pack(b + first * self.b_column, columns)
        self.tiles(a, c + first, columns)

    # --- packing -------------------------------------------------------------------------------------------

    def pack(self, start: Index, columns: Index) -> None:
        """Pack the panel into scratch."""
        full = columns // self.form.width
        by_rows = full * self.along_rows * self.k
        by_squares = full * self.along_columns * (self.k // self.form.lanes * self.form.lanes)
        self.given.loop(0, by_rows, lambda term, _: self.pack_row(start, term))
        self.given.loop(0, by_squares, lambda term, _: self.pack_square(start, term), step=self.form.lanes)
        # The remainder of whole vectors: the last terms, or all of a partial panel.
        self.given.loop(by_rows + by_squares, self.k, lambda term, _: self.pack_slowly(start, term, columns))

    def pack_row(self, start: Index, term: Index) -> None:
        """Copy a row of the panel."""
        for lane in range(0, self.form.width, self.form.lanes):
            value = self.v.load(self.given.arrays[1], start + term * self.b_term + lane)
            self.v.store(value, self.panel, term * self.form.width + lane)

    def pack_square(self, start: Index, term: Index) -> None:
        """Transpose a square of as many rows as a vector has elements, from contiguous columns."""

        def square(lane: Index, _: Sequence[SSAValue]) -> None:
            places = [start + term + self.b_column * (lane + i) for i in range(self.form.lanes)]
            rows = self.v.transposed([self.v.load(self.given.arrays[1], at) for at in places])
            for i, row in enumerate(rows):
                self.v.store(row, self.panel, (term + i) * self.form.width + lane)

        self.given.loop(0, self.form.width, square, step=self.form.lanes)

    def pack_slowly(self, start: Index, term: Index, columns: Index) -> None:
        """Copy a row element by element; columns beyond the last one repeat it."""
        b, last = self.given.b, columns - 1

        def copy(i: Index, _: Sequence[SSAValue]) -> None:
            value = b.load(self.given.arrays[1], (start + term * self.b_term + i.least(last) * self.b_column).value)
            b.store(value, self.panel, (term * self.form.width + i).value)

        self.given.loop(0, self.form.width, copy)

    # --- tiles ---------------------------------------------------------------------------------------------

    def tiles(self, a: Index, c: Index, columns: Index) -> None:
        """All rows."""
        high, low = self.form.heights
        done = self.form.rows_of_high_tiles(self.m)
        self.given.loop(0, done, self.tile(high, a, c, columns), step=high)
        # The last tile ends with the last row: rows that it shares with the one before are computed twice.
        last = self.m - low
        tile = self.tile(low, a, c, columns)
        self.given.loop(done, self.m, lambda row, _: tile(row.least(last), ()), step=low)

    def tile(self, height: int, a: Index, c: Index, columns: Index) -> Callable[[Index, Sequence[SSAValue]], None]:
        """A function that emits the tile of ``height`` rows at a row."""
        tiles = Tiles(self.given, self.v, height, self.k)
        panel = Panel(self.panel, self.m.of(0), self.form.width)

        def write(row: Index, _: Sequence[SSAValue]) -> None:
            starts = [a + (row + i) * self.a_row for i in range(height)]
            sums = tiles.sums(self.given.arrays[0], lambda term: [x + term * self.a_term for x in starts], panel)
            self.store_tile(sums, c + row * self.c_step, columns)

        return write

    def store_tile(self, sums: Sequence[SSAValue], start: Index, columns: Index) -> None:
        """Store a tile; a partial one is stored to scratch, and its first columns copied."""
        b, result, full = self.given.b, self.given.arrays[2], columns // self.form.width
        rest = start.of(1) - full
        flag = rest.integer(i1)
        to = b.pure(arith.SelectOp, [flag, self.spill, result], result.type)
        first, step = start * full, self.c_step * full + rest * self.form.width
        for number, value in enumerate(sums):
            down, right = divmod(number, ABREAST)
            self.v.store(value, to, first + step * down + right * self.form.lanes)

        def row(i: Index, _: Sequence[SSAValue]) -> None:
            def copy(j: Index, _: Sequence[SSAValue]) -> None:
                value = b.load(self.spill, (i * self.form.width + j).value, level=b.depth)
                b.store(value, result, (start + i * self.c_step + j).value)

            self.given.loop(0, columns, copy)

        self.given.loop(0, rest * (len(sums) // ABREAST), row)


class _TurnedWriter(_TileWriter):
    """Emits the body of the region where the columns of the result are contiguous, not its rows.

    The range is the panels, times blocks of rows. Some rows at a time are accumulated tile by tile in scratch, and
    transposed when they are stored.
    """

    def one(self, number: Index) -> None:
        """One panel, with a block of rows: that of the next panel comes from the cache."""
        rows, parts = self.given.numbers[_FIXED + 1 : _FIXED + 3]
        around, first = number // self.panels, number % self.panels * self.form.width
        a, b, c = self.walk.offsets(around // parts)
        columns, start = (self.n - first).least(self.form.width), c + first * self.c_step
        low = around % parts * rows
        high = (low + rows).least(self.m)
        self.pack(b + first * self.b_column, columns)

        def some(row: Index, _: Sequence[SSAValue]) -> None:
            count = (high - row).least(self.form.rows_to_turn)
            self.sum_up(a + row * self.a_row, count)
            self.turn(start + row, count, columns)

        self.given.loop(low, high, some, step=self.form.rows_to_turn)

    def sum_up(self, a: Index, count: Index) -> None:
        """Accumulate ``count`` rows in scratch."""
        (high, low), panel = self.form.heights, Panel(self.panel, count.of(0), self.form.width)
        done = self.form.rows_of_high_tiles(count)

        def tile(row: Index, height: int) -> None:
            # Rows of a low tile beyond the last one repeat it.
            rows = [(row + i).least(count - 1) for i in range(height)]
            starts = [a + r * self.a_row for r in rows]
            tiles = Tiles(self.given, self.v, height, self.k)
            sums = tiles.sums(self.given.arrays[0], lambda term: [x + term for x in starts], panel)
            for i, value in enumerate(sums):
                self.v.store(value, self.spill, row * self.form.width + i * self.form.lanes)

        self.given.loop(0, done, lambda row, _: tile(row, high), step=high)
        self.given.loop(done, count, lambda row, _: tile(row, low), step=low)

    def turn(self, start: Index, count: Index, columns: Index) -> None:
        """Store ``count`` rows from scratch, transposed in squares; columns beyond the last repeat it, in its place."""
        b, lanes, width, last = self.given.b, self.form.lanes, self.form.width, columns - 1
        done = count // lanes * lanes

        def square(row: Index, lane: Index) -> None:
            rows = [self.v.load(self.spill, (row + i) * width + lane) for i in range(lanes)]
            for i, column in enumerate(self.v.transposed(rows)):
                self.v.store(column, self.given.arrays[2], start + row + (lane + i).least(last) * self.c_step)

        def copy(row: Index, column: Index) -> None:
            value = b.load(self.spill, (row * width + column).value, level=b.depth)
            b.store(value, self.given.arrays[2], (start + row + column * self.c_step).value)

        def squares(row: Index, _: Sequence[SSAValue]) -> None:
            self.given.loop(0, columns, lambda lane, _: square(row, lane), step=lanes)

        def copies(row: Index, _: Sequence[SSAValue]) -> None:
            self.given.loop(0, columns, lambda column, _: copy(row, column))

        self.given.loop(0, done, squares, step=lanes)
        self.given.loop(done, count, copies)


# --- a register tile --------------------------------------------------------------------------------------------------
# For each term, a row of a *panel* (the right matrix in these columns) times one element of each row of the left matrix
# is added to the tile: an outer product.

# Vectors side by side in a tile.
ABREAST = 2
# Rows of a low tile: as many accumulators as hide the latency of a multiply-add.
LOW = 4


@dataclass(frozen=True)
class Form:
    """The variant of the code of tiles."""

    dtype: DType
    vectors: Registers

    @property
    def key(self) -> str:
        """The variant in a function's key."""
        return f"{self.dtype.name} {self.vectors}"

    @property
    def element(self) -> AnyFloat:
        """The element type."""
        return f32 if self.dtype.itemsize == 4 else f64

    @property
    def lanes(self) -> int:
        """Elements of a vector."""
        return self.vectors.lanes(self.dtype)

    @property
    def width(self) -> int:
        """Columns of a panel."""
        return ABREAST * self.lanes

    @property
    def heights(self) -> tuple[int, int]:
        """Rows of tiles: as many as leave registers for a row of the panel and an element; fewer for the last rows."""
        return (self.vectors.count - ABREAST - 2) // ABREAST // 6 * 6, LOW

    @property
    def rows_to_turn(self) -> int:
        """Rows that are both whole high tiles and whole squares."""
        return math.lcm(self.heights[0], self.lanes)

    def rows_of_high_tiles(self, count: Index) -> Index:
        """How many of ``count`` rows are in high tiles. One or two that are left share low ones with those before."""
        high, low = self.heights
        tiles, left = count // high, count % high
        if high < 2 * low:
            few = left.least(1) - (left + high - low + 1) // high  # 1 for one or two rows
            tiles = (tiles - few).most(0)
        return tiles * high


@dataclass(frozen=True)
class Panel:
    """A panel in memory: it begins at ``start`` of an array, with row stride ``step``."""

    array: SSAValue
    start: Index
    step: Index | int


@dataclass(frozen=True)
class Tiles:
    """Emits the accumulation of tiles of ``rows`` rows over ``terms`` terms."""

    given: Arguments
    v: Vectors
    rows: int
    terms: Index

    def sums(self, left: SSAValue, numbers: Callable[[Index], Sequence[Index]], panel: Panel) -> list[SSAValue]:
        """The accumulators of a tile, row by row; ``numbers`` gives the offset of each left row at a term."""

        def term(i: Index, sums: Sequence[SSAValue]) -> list[SSAValue]:
            at = panel.start + i * panel.step
            right = [self.v.load(panel.array, at + j * self.v.lanes) for j in range(ABREAST)]
            places = numbers(i)
            found: list[SSAValue] = []
            for number, place in enumerate(places):
                x = self.v.everywhere(self.given.b.load(left, place.value))
                found += [self.v.fma(x, right[j], sums[ABREAST * number + j]) for j in range(ABREAST)]
            return found

        return self.given.loop(0, self.terms, term, starts=[self.v.zero] * (ABREAST * self.rows))


# --- prepacked panels: threads share the rows -------------------------------------------------------------------------
# The range of the parallel region is the rows of the result. A block of rows is multiplied with one panel after the
# other, tile by tile, so that the block and a panel stay in the L2 cache. Where that pays, the block is *packed* first:
# the rows of a tile are interleaved in scratch, term after term, where one address reaches all of them.

# Tiles of a block of rows.
_TILES = 8
# The least columns for which packing pays: it takes as long as multiplying with ten.
_COLUMNS = 128
# Rows and terms of the squares that packing transposes.
_SQUARE = 4
# Fixed scalar arguments of the region.
_NUMBERS = 10


def row_region(given: Matrices, dtype: DType, buffers: tuple[int, ...], threads: int) -> ParallelRegion | None:
    """The parallel region over rows, for a prepacked right matrix; None if it is not prepacked."""
    vectors = registers()
    if vectors is None or not is_prepacked(given, Form(dtype, vectors).width):
        return None
    form = Form(dtype, vectors)
    (panels,) = given.around or (Loop(1, None, 0, 0),)
    packed, rows = _packs(given, panels.size, form), _TILES * form.heights[0]
    elements = (min(rows, given.m) + LOW - 1) * given.k * packed  # low tiles may extend beyond the last row
    # The terms that are copied for a whole tile at a time, and those that are transposed in squares.
    beside, square = [given.k * (stride == 1) for stride in given.a]
    numbers = (given.k, rows, *given.a, beside, square, panels.steps[1], given.c[0], panels.steps[2], panels.size)
    return ParallelRegion(
        NativeFunction(f"product-rows {form.key}{' packed' * packed}", lambda: _build(form, packed)),
        buffers,
        tuple(map(int, numbers)),
        extent=given.m,
        grain=_grain(given.m, rows, threads, time_of(given, dtype)),
        scratch=elements * dtype.itemsize,
        work=matmul_time(given.flops),
        algorithm="rows",
    )


def _packs(given: Matrices, panels: int, form: Form) -> bool:
    """Whether blocks of the left matrix are packed: for many columns, and if rows conflict in the cache."""
    row, term = given.a
    apart = (term if row == 1 else row) * form.dtype.itemsize
    return 1 in given.a and given.k >= _SQUARE and (panels * form.width >= _COLUMNS or apart % SAME_SET == 0)


def is_prepacked(given: Matrices, width: int) -> bool:
    """Whether the right matrix is prepacked in panels of so many columns."""
    if given.over or given.k == 0 or [x.kind for x in given.around] not in ([], [COLUMN]):
        return False
    return given.n == width and given.b == (width, 1)


def _grain(extent: int, rows: int, threads: int, time: float) -> int:
    """The grain: all rows, or equal parts for the threads, of at least a block each."""
    if threads == 1 or not is_shared(time):
        return extent
    parts = threads * max(1, min(CHUNKS, extent // (threads * rows)))
    return -(-extent // (4 * parts)) * 4


def _build(form: Form, packed: bool) -> ModuleOp:
    return region([form.element] * 3, _NUMBERS, lambda given: _RowWriter(form, packed, given).write())


class _RowWriter:
    """Emits the body of the region."""

    def __init__(self, form: Form, packed: bool, given: Arguments) -> None:
        self.form, self.packed, self.given, b = form, packed, given, given.b
        self.v = Vectors(b, form.element, form.lanes)
        self.k, self.rows, self.a_row, self.a_term, self.beside, self.square, *numbers = given.numbers
        self.b_panel, self.c_row, self.c_panel, self.panels = numbers
        self.block = b.view(given.scratch, b.index(0), b.index(0), form.element)

    def write(self) -> None:
        """For each block of rows, all panels."""
        rest = self.given.hi - self.given.lo

        def block(number: Index, _: Sequence[SSAValue]) -> None:
            first = self.given.lo + number * self.rows
            count = (self.given.hi - first).least(self.rows)
            if self.packed:
                self.by_tiles(count, lambda row, height: self.pack(first, row, height, count))
            self.given.loop(0, self.panels, lambda panel, _: self.multiply(panel, first, count))

        self.given.loop(0, rest.ceildiv(self.rows), block)

    def by_tiles(self, count: Index, write: Callable[[Index, int], None]) -> None:
        """The tiles of ``count`` rows: high ones, then low ones for the last rows."""
        high, low = self.form.heights
        done = self.form.rows_of_high_tiles(count)
        self.given.loop(0, done, lambda row, _: write(row, high), step=high)
        self.given.loop(done, count, lambda row, _: write(row, low), step=low)

    # --- the left matrix -----------------------------------------------------------------------------------

    def pack(self, first: Index, row: Index, height: int, count: Index) -> None:
        """Copy a tile's rows to scratch, interleaved."""
        starts, to = [(first + at) * self.a_row for at in self.below(row, height, count)], row * self.k
        if height == self.form.heights[0]:
            # One of the two loops runs, as either rows or terms are contiguous.
            self.given.loop(0, self.beside, lambda term, _: self.pack_column(starts, to, term))
            last = self.k - _SQUARE  # the last square may overlap the one before
            self.given.loop(0, self.square, lambda i, _: self.pack_squares(starts, to, i.least(last)), step=_SQUARE)
        else:
            self.given.loop(0, self.k, lambda term, _: self.pack_term(starts, to, term))

    def pack_column(self, starts: Sequence[Index], to: Index, term: Index) -> None:
        """Copy a term of all rows, which are contiguous."""
        v = Vectors(self.given.b, self.form.element, len(starts))
        loaded = v.load(self.given.arrays[0], starts[0] + term * self.a_term)
        v.store(loaded, self.block, to + term * len(starts))

    def pack_squares(self, starts: Sequence[Index], to: Index, term: Index) -> None:
        """Transpose some terms, which are contiguous, of all rows; the last square may repeat its last row."""
        v = Vectors(self.given.b, self.form.element, _SQUARE)
        for group in range(0, len(starts), _SQUARE):
            rows = [v.load(self.given.arrays[0], start + term) for start in starts[group : group + _SQUARE]]
            turned = v.transposed(rows + rows[-1:] * (_SQUARE - len(rows)))
            for i, numbers in enumerate(turned):
                kept = v.shuffle(numbers, numbers, range(len(rows))) if len(rows) < _SQUARE else numbers
                v.store(kept, self.block, to + (term + i) * len(starts) + group)

    def pack_term(self, starts: Sequence[Index], to: Index, term: Index) -> None:
        """Copy a term of all rows, at any stride."""
        for i, start in enumerate(starts):
            value = self.given.b.load(self.given.arrays[0], (start + term * self.a_term).value)
            self.given.b.store(value, self.block, (to + term * len(starts) + i).value)

    def below(self, row: Index, height: int, count: Index) -> list[Index]:
        """The rows of a tile. Those of a low one beyond the last repeat it."""
        rows = [row + i for i in range(height)]
        return rows if height == self.form.heights[0] else [r.least(count - 1) for r in rows]

    # --- multiplication ------------------------------------------------------------------------------------

    def multiply(self, number: Index, first: Index, count: Index) -> None:
        """The tiles of a panel, for ``count`` rows from ``first`` on."""
        panel = Panel(self.given.arrays[1], number * self.b_panel, self.form.width)
        result = first * self.c_row + number * self.c_panel

        def tile(row: Index, height: int) -> None:
            rows = self.below(row, height, count)

            def scattered(term: Index) -> list[Index]:
                return [(first + r) * self.a_row + term * self.a_term for r in rows]

            def packed(term: Index) -> list[Index]:
                at = row * self.k + term * height
                return [at + i for i in range(height)]

            left, numbers = (self.block, packed) if self.packed else (self.given.arrays[0], scattered)
            for i, value in enumerate(Tiles(self.given, self.v, height, self.k).sums(left, numbers, panel)):
                down, right = divmod(i, ABREAST)
                at = result + rows[down] * self.c_row + right * self.form.lanes
                self.v.store(value, self.given.arrays[2], at)

        self.by_tiles(count, tile)


# --- groups of columns ------------------------------------------------------------------------------------------------

# Emits the body of a region from its arguments, of which the last scalars are those of the loops.
Write = Callable[[Arguments, Walk], None]


def column_region(
    algorithm: str,
    form: Form,
    given: Matrices,
    buffers: tuple[int, ...],
    threads: int,
    *,
    rows: int,
    fixed: Callable[[Matrices, int], Sequence[int]],
    scratch: int,
    write: Write,
    parts: int = 1,
    once: Sequence[Loop] = (),
) -> ParallelRegion:
    """The parallel region over groups of ``form.width`` columns.

    If groups are few, rows are blocked too, by at least ``rows``, as a batch loop; or the region itself
    shares each group in ``parts``. ``fixed`` are the first scalar arguments: of the matrices, and the number of groups;
    ``once`` is a batch loop of size 1, for matmuls without one.
    """
    groups = math.ceil(given.n / form.width)
    time = time_of(given, form.dtype)
    if is_shared(time):
        given = given.in_blocks(CHUNKS * threads // (groups * given.batches), rows)
    around = few_forms(given.around or once)
    numbers = [int(n) for n in fixed(given, groups)]
    extent = groups * given.batches * parts

    def body(arguments: Arguments) -> None:
        write(arguments, Walk.read(around, arguments.numbers[len(numbers) :]))

    def build() -> ModuleOp:
        return region([form.element] * 3, len(numbers) + Walk.count(around), body)

    return ParallelRegion(
        NativeFunction(f"product-{algorithm} {form.key} around {len(around)}", build),
        buffers,
        (*numbers, *Walk.values(around)),
        extent=extent,
        grain=grain_of(extent, time),
        scratch=scratch,
        work=matmul_time(given.flops),
        algorithm=algorithm,
    )

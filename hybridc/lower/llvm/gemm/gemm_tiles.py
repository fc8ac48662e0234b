"""A product of matrices in tiles that stay in registers, with panels that each thread lays out for itself.

The range of the phase is the *panels* of all matrices that are walked around: as many columns as two registers hold. A
panel of the right matrix is laid out row after row in scratch; the last one is filled up with its last column. A tile
of the result, some rows of a panel, is then summed up in registers: a row of the panel times one number for each row of
the tile.

Where the left matrix is the smaller one, the operands are exchanged: its rows become the columns of panels, the right
matrix is read as it lies, and the transpose of the result is turned when it is stored.

LLVM takes a while for this code, so that one function serves all products of a dtype: which way panels are read, and by
which strides, are numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, ModuleOp, f32, f64, i1
from xdsl.ir import SSAValue

from hybridc.dialects.attribute import DType
from hybridc.ir.product_shape import COLUMN, Loop, Matrices
from hybridc.lower.llvm.codegen.native_function import NativeFunction
from hybridc.lower.llvm.gemm.gemm_phase import (
    EFFORT_TO_SHARE,
    FLOP_NS,
    PARTS,
    Arguments,
    Index,
    Registers,
    Vectors,
    Walk,
    effort_of,
    few_forms,
    grain_of,
    phase,
    registers,
)
from hybridc.lower.llvm.loops.kernel_phases import KernelPhase

# Rows for which a panel is laid out, at least, where there are more.
_ROWS = 48
# The same where the result is turned, as long as each thread has some: laying a panel out takes a few percent of the
# time then.
_ROWS_TO_TURN = 256
# Numbers of a phase that packs panels.
_FIXED = 10


def panel_width(dtype: DType, vectors: Registers) -> int:
    """Columns of a panel."""
    return Form(dtype, vectors).width


def panel_columns(columns: int, dtype: DType, vectors: Registers) -> int:
    """Columns of all panels, which are filled up, for so many of a matrix."""
    width = panel_width(dtype, vectors)
    return math.ceil(columns / width) * width


def tile_phase(given: Matrices, dtype: DType, buffers: tuple[int, ...], threads: int) -> KernelPhase | None:
    """The phase that multiplies tile by tile; None if it cannot."""
    vectors = registers()
    if vectors is None or given.over or given.k == 0 or given.m < LOW:
        return None
    form = Form(dtype, vectors)
    return column_phase(
        "tiles",
        form,
        given,
        buffers,
        threads,
        rows=_ROWS,
        fixed=lambda x, panels: (*_fixed(x, panels), x.c[0]),
        scratch=(form.heights[0] + given.k) * form.width * dtype.itemsize,
        write=lambda arguments, walk: _TileWriter(form, walk, arguments, form.heights[0]).write(),
        # Also without loops around, as the function's compilation takes longer than these do.
        once=[Loop(1, 0, 0, 0)],
    )


def turned_phase(given: Matrices, dtype: DType, buffers: tuple[int, ...], threads: int) -> KernelPhase | None:
    """The phase that multiplies the operands in the other order, tile by tile; None if it cannot.

    The left matrix is laid out in panels, and the right one is read as it lies, if its columns follow memory.
    """
    vectors, given, (left, right, *others) = registers(), given.exchanged(), buffers
    if vectors is None or given.over or given.k == 0 or (given.a[1] != 1 and given.k > 1):
        return None
    form = Form(dtype, vectors)
    parts = _parts(given, form, threads)
    rows, kept = math.ceil(given.m / parts / form.lanes) * form.lanes, form.rows_to_turn + LOW
    return column_phase(
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
    """The numbers of a phase that packs panels."""
    along_rows, along_columns = given.b[1] == 1, given.b[0] == 1 != given.b[1]
    return (given.m, given.n, given.k, *given.a, *given.b, along_rows, along_columns, panels)


def _parts(given: Matrices, form: Form, threads: int) -> int:
    """In how many parts rows are shared, each with a panel of its own: equally many for each thread, if possible."""
    units = math.ceil(given.n / form.width) * given.batches
    if effort_of(given, form.dtype) < EFFORT_TO_SHARE:
        return 1
    least = max(_ROWS, min(_ROWS_TO_TURN, given.m * units // threads))
    parts, step = min(PARTS * threads // units, given.m // least), threads // math.gcd(threads, units)
    return max(1, parts // step * step if parts >= step else parts)


class _TileWriter:
    """Writes the body of the phase."""

    def __init__(self, form: Form, walk: Walk, given: Arguments, rows: int) -> None:
        self.form, self.given, b = form, given, given.b
        self.v = Vectors(b, form.element, form.lanes)
        self.walk, fixed = walk, given.numbers[:_FIXED]
        self.m, self.n, self.k, self.a_row, self.a_term, self.b_term, self.b_column, *fixed = fixed
        self.along_rows, self.along_columns, self.panels = fixed
        self.c_step = given.numbers[_FIXED]  # from row to row of the result, or from column to column if it is turned
        spill = rows * form.width
        size = b.index(0)
        # Rows that are not stored where they belong lie in front of the panel.
        self.spill = b.view(given.scratch, b.index(0), size, form.element)
        self.panel = b.view(given.scratch, b.index(spill * form.dtype.itemsize), size, form.element)

    def write(self) -> None:
        """Each panel is packed, then multiplied."""
        self.given.loop(self.given.lo, self.given.hi, lambda i, _: self.one(i))

    def one(self, number: Index) -> None:
        """One of the panels, with all rows."""
        a, b, c = self.walk.offsets(number // self.panels)
        first = number % self.panels * self.form.width
        columns = (self.n - first).least(self.form.width)
        self.pack(b + first * self.b_column, columns)
        self.tiles(a, c + first, columns)

    # --- the panel -----------------------------------------------------------------------------------------

    def pack(self, start: Index, columns: Index) -> None:
        """Lay the panel out in scratch."""
        full = columns // self.form.width
        by_rows = full * self.along_rows * self.k
        by_squares = full * self.along_columns * (self.k // self.form.lanes * self.form.lanes)
        self.given.loop(0, by_rows, lambda term, _: self.pack_row(start, term))
        self.given.loop(0, by_squares, lambda term, _: self.pack_square(start, term), step=self.form.lanes)
        # What no vector covers: the last terms, or all of a panel that is not full.
        self.given.loop(by_rows + by_squares, self.k, lambda term, _: self.pack_slowly(start, term, columns))

    def pack_row(self, start: Index, term: Index) -> None:
        """Copy a row of the panel."""
        for lane in range(0, self.form.width, self.form.lanes):
            value = self.v.load(self.given.arrays[1], start + term * self.b_term + lane)
            self.v.store(value, self.panel, term * self.form.width + lane)

    def pack_square(self, start: Index, term: Index) -> None:
        """Copy as many rows as a register has elements, from columns that follow memory."""

        def square(lane: Index, _: Sequence[SSAValue]) -> None:
            places = [start + term + self.b_column * (lane + i) for i in range(self.form.lanes)]
            rows = self.v.transposed([self.v.load(self.given.arrays[1], at) for at in places])
            for i, row in enumerate(rows):
                self.v.store(row, self.panel, (term + i) * self.form.width + lane)

        self.given.loop(0, self.form.width, square, step=self.form.lanes)

    def pack_slowly(self, start: Index, term: Index, columns: Index) -> None:
        """Copy a row element by element; behind the last column it comes again."""
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
        # The last tile ends with the last row: what it has in common with the one before is computed again.
        last = self.m - low
        tile = self.tile(low, a, c, columns)
        self.given.loop(done, self.m, lambda row, _: tile(row.least(last), ()), step=low)

    def tile(self, height: int, a: Index, c: Index, columns: Index) -> Callable[[Index, Sequence[SSAValue]], None]:
        """What computes so many rows of the panel from one row on."""
        tiles = Tiles(self.given, self.v, height, self.k)
        panel = Panel(self.panel, self.m.of(0), self.form.width)

        def write(row: Index, _: Sequence[SSAValue]) -> None:
            starts = [a + (row + i) * self.a_row for i in range(height)]
            sums = tiles.sums(self.given.arrays[0], lambda term: [x + term * self.a_term for x in starts], panel)
            self.store_tile(sums, c + row * self.c_step, columns)

        return write

    def store_tile(self, sums: Sequence[SSAValue], start: Index, columns: Index) -> None:
        """Store a tile; one that is only partly wanted is stored in scratch, and its first columns copied."""
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
    """Writes the body of the phase where the columns of the result follow memory, not its rows.

    The range is the panels, times parts of the rows. Some rows at a time are summed up tile by tile in scratch, and
    turned when they are stored.
    """

    def one(self, number: Index) -> None:
        """One of the panels, with a part of the rows: those of another panel come next, from a cache."""
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
        """Put so many rows in scratch."""
        (high, low), panel = self.form.heights, Panel(self.panel, count.of(0), self.form.width)
        done = self.form.rows_of_high_tiles(count)

        def tile(row: Index, height: int) -> None:
            # What would be behind the last row of a low tile is that row again.
            rows = [(row + i).least(count - 1) for i in range(height)]
            starts = [a + r * self.a_row for r in rows]
            tiles = Tiles(self.given, self.v, height, self.k)
            sums = tiles.sums(self.given.arrays[0], lambda term: [x + term for x in starts], panel)
            for i, value in enumerate(sums):
                self.v.store(value, self.spill, row * self.form.width + i * self.form.lanes)

        self.given.loop(0, done, lambda row, _: tile(row, high), step=high)
        self.given.loop(done, count, lambda row, _: tile(row, low), step=low)

    def turn(self, start: Index, count: Index, columns: Index) -> None:
        """Store so many rows from scratch, in squares; columns behind the last are the last again, in its place."""
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


# --- a tile in registers ----------------------------------------------------------------------------------------------
# A row of a *panel*, the part of the right matrix with these columns, times one number of each row of the left matrix
# is added to the tile, term after term.

# Registers side by side in a tile.
ABREAST = 2
# Rows of a low tile: as many sums as a processor adds to before the first of them is there again.
LOW = 4


@dataclass(frozen=True)
class Form:
    """What the code of tiles depends on."""

    dtype: DType
    vectors: Registers

    @property
    def key(self) -> str:
        """The form as a part of a function's key."""
        return f"{self.dtype.name} {self.vectors}"

    @property
    def element(self) -> AnyFloat:
        """The type of an element."""
        return f32 if self.dtype.itemsize == 4 else f64

    @property
    def lanes(self) -> int:
        """Elements of a register."""
        return self.vectors.lanes(self.dtype)

    @property
    def width(self) -> int:
        """Columns of a panel."""
        return ABREAST * self.lanes

    @property
    def heights(self) -> tuple[int, int]:
        """Rows of tiles: as many as leave registers for a row of the panel and a number; fewer for the last rows."""
        return (self.vectors.count - ABREAST - 2) // ABREAST // 6 * 6, LOW

    @property
    def rows_to_turn(self) -> int:
        """Rows that are whole high tiles, and squares."""
        return math.lcm(self.heights[0], self.lanes)

    def rows_of_high_tiles(self, count: Index) -> Index:
        """How many of so many rows are in high tiles. One or two that are left are in low ones with those before."""
        high, low = self.heights
        tiles, left = count // high, count % high
        if high < 2 * low:
            few = left.least(1) - (left + high - low + 1) // high  # 1 for one or two rows
            tiles = (tiles - few).most(0)
        return tiles * high


@dataclass(frozen=True)
class Panel:
    """Where a panel lies: from ``start`` of an array, its rows ``step`` elements from each other."""

    array: SSAValue
    start: Index
    step: Index | int


@dataclass(frozen=True)
class Tiles:
    """Writes the sums of tiles of so many ``rows`` and ``terms``."""

    given: Arguments
    v: Vectors
    rows: int
    terms: Index

    def sums(self, left: SSAValue, numbers: Callable[[Index], Sequence[Index]], panel: Panel) -> list[SSAValue]:
        """The registers of a tile, row by row: ``numbers`` says where each row of the left matrix has a term."""

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


# --- products with prepacked panels: threads share the rows -----------------------------------------------------------
# The range of the phase is the rows of the result. A block of rows is multiplied with one panel after the other, tile
# by tile, so that the block and a panel stay in the second-level cache. Where that pays, a block is *packed* before:
# the rows of a tile lie beside each other in scratch, term after term, where one address reaches all of them.

# Tiles of a block of rows, one below the other.
_TILES = 8
# Columns for which packing pays: it takes about as long as multiplying with ten of them.
_COLUMNS = 128
# Bytes from one row to the next, or from one term to the next, that lie in the same place of the first cache.
_SAME_PLACE = 2048
# Rows and terms of the squares that are turned when they are packed.
_SQUARE = 4
# Numbers of the phase.
_NUMBERS = 10


def row_phase(given: Matrices, dtype: DType, buffers: tuple[int, ...], threads: int) -> KernelPhase | None:
    """The phase that multiplies rows with panels; None if the right matrix does not lie in panels."""
    vectors = registers()
    if vectors is None or not lies_in_panels(given, Form(dtype, vectors).width):
        return None
    form = Form(dtype, vectors)
    (panels,) = given.around or (Loop(1, None, 0, 0),)
    packed, rows = _packs(given, panels.size, form), _TILES * form.heights[0]
    elements = (min(rows, given.m) + LOW - 1) * given.k * packed  # low tiles may reach beyond the last row
    # The terms that are copied for a whole tile at a time, and those that are copied in squares.
    beside, square = [given.k * (stride == 1) for stride in given.a]
    numbers = (given.k, rows, *given.a, beside, square, panels.steps[1], given.c[0], panels.steps[2], panels.size)
    return KernelPhase(
        NativeFunction(f"product-rows {form.key}{' packed' * packed}", lambda: _build(form, packed)),
        buffers,
        tuple(map(int, numbers)),
        extent=given.m,
        grain=_grain(given.m, rows, threads, effort_of(given, dtype)),
        scratch=elements * dtype.itemsize,
        work=FLOP_NS * given.flops,
        way="rows",
    )


def _packs(given: Matrices, panels: int, form: Form) -> bool:
    """Whether blocks of the left matrix are packed: for many columns, and if rows drive each other out of a cache."""
    row, term = given.a
    apart = (term if row == 1 else row) * form.dtype.itemsize
    return 1 in given.a and given.k >= _SQUARE and (panels * form.width >= _COLUMNS or apart % _SAME_PLACE == 0)


def lies_in_panels(given: Matrices, width: int) -> bool:
    """Whether the right matrix lies in panels of so many columns."""
    if given.over or given.k == 0 or [x.kind for x in given.around] not in ([], [COLUMN]):
        return False
    return given.n == width and given.b == (width, 1)


def _grain(extent: int, rows: int, threads: int, effort: int) -> int:
    """All rows, or equally many parts for each thread: at least a block each, if there are as many rows."""
    if threads == 1 or effort < EFFORT_TO_SHARE:
        return extent
    parts = threads * max(1, min(PARTS, extent // (threads * rows)))
    return -(-extent // (4 * parts)) * 4


def _build(form: Form, packed: bool) -> ModuleOp:
    return phase([form.element] * 3, _NUMBERS, lambda given: _RowWriter(form, packed, given).write())


class _RowWriter:
    """Writes the body of the phase."""

    def __init__(self, form: Form, packed: bool, given: Arguments) -> None:
        self.form, self.packed, self.given, b = form, packed, given, given.b
        self.v = Vectors(b, form.element, form.lanes)
        self.k, self.rows, self.a_row, self.a_term, self.beside, self.square, *numbers = given.numbers
        self.b_panel, self.c_row, self.c_panel, self.panels = numbers
        self.block = b.view(given.scratch, b.index(0), b.index(0), form.element)

    def write(self) -> None:
        """Each block of rows, with all panels."""
        rest = self.given.hi - self.given.lo

        def block(number: Index, _: Sequence[SSAValue]) -> None:
            first = self.given.lo + number * self.rows
            count = (self.given.hi - first).least(self.rows)
            if self.packed:
                self.by_tiles(count, lambda row, height: self.pack(first, row, height, count))
            self.given.loop(0, self.panels, lambda panel, _: self.multiply(panel, first, count))

        self.given.loop(0, rest.ceildiv(self.rows), block)

    def by_tiles(self, count: Index, write: Callable[[Index, int], None]) -> None:
        """The tiles of so many rows: high ones, then low ones for the last rows."""
        high, low = self.form.heights
        done = self.form.rows_of_high_tiles(count)
        self.given.loop(0, done, lambda row, _: write(row, high), step=high)
        self.given.loop(done, count, lambda row, _: write(row, low), step=low)

    # --- the left matrix -----------------------------------------------------------------------------------

    def pack(self, first: Index, row: Index, height: int, count: Index) -> None:
        """Copy a tile's rows to scratch, where it has as many elements as if it had no rows but these."""
        starts, to = [(first + at) * self.a_row for at in self.below(row, height, count)], row * self.k
        if height == self.form.heights[0]:
            # One of the two loops runs, as either rows or terms are beside each other.
            self.given.loop(0, self.beside, lambda term, _: self.pack_column(starts, to, term))
            last = self.k - _SQUARE  # the last square may share terms with the one before
            self.given.loop(0, self.square, lambda i, _: self.pack_squares(starts, to, i.least(last)), step=_SQUARE)
        else:
            self.given.loop(0, self.k, lambda term, _: self.pack_term(starts, to, term))

    def pack_column(self, starts: Sequence[Index], to: Index, term: Index) -> None:
        """Copy a term of all rows, which are beside each other."""
        v = Vectors(self.given.b, self.form.element, len(starts))
        loaded = v.load(self.given.arrays[0], starts[0] + term * self.a_term)
        v.store(loaded, self.block, to + term * len(starts))

    def pack_squares(self, starts: Sequence[Index], to: Index, term: Index) -> None:
        """Copy some terms, which are beside each other, of all rows; the last square may have its last row again."""
        v = Vectors(self.given.b, self.form.element, _SQUARE)
        for group in range(0, len(starts), _SQUARE):
            rows = [v.load(self.given.arrays[0], start + term) for start in starts[group : group + _SQUARE]]
            turned = v.transposed(rows + rows[-1:] * (_SQUARE - len(rows)))
            for i, numbers in enumerate(turned):
                kept = v.shuffle(numbers, numbers, range(len(rows))) if len(rows) < _SQUARE else numbers
                v.store(kept, self.block, to + (term + i) * len(starts) + group)

    def pack_term(self, starts: Sequence[Index], to: Index, term: Index) -> None:
        """Copy a term of all rows, wherever they are."""
        for i, start in enumerate(starts):
            value = self.given.b.load(self.given.arrays[0], (start + term * self.a_term).value)
            self.given.b.store(value, self.block, (to + term * len(starts) + i).value)

    def below(self, row: Index, height: int, count: Index) -> list[Index]:
        """The rows of a tile. What would be behind the last row of a low one is that row again."""
        rows = [row + i for i in range(height)]
        return rows if height == self.form.heights[0] else [r.least(count - 1) for r in rows]

    # --- products ------------------------------------------------------------------------------------------

    def multiply(self, number: Index, first: Index, count: Index) -> None:
        """The tiles of a panel, for so many rows from ``first`` on."""
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

# Writes the body of a phase: of its arguments, whose last numbers are those of the walk.
Write = Callable[[Arguments, Walk], None]


def column_phase(
    way: str,
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
) -> KernelPhase:
    """The phase that multiplies group by group of ``form.width`` columns.

    Where groups are few, rows are in blocks, of at least ``rows``, that are walked around, too; or the phase itself
    shares each group in ``parts``. ``fixed`` are the numbers of the phase, of the matrices and the number of groups;
    ``once`` is walked around where nothing else is.
    """
    groups = math.ceil(given.n / form.width)
    effort = effort_of(given, form.dtype)
    if effort >= EFFORT_TO_SHARE:
        given = given.in_blocks(PARTS * threads // (groups * given.batches), rows)
    around = few_forms(given.around or once)
    numbers = [int(n) for n in fixed(given, groups)]
    extent = groups * given.batches * parts

    def body(arguments: Arguments) -> None:
        write(arguments, Walk.read(around, arguments.numbers[len(numbers) :]))

    def build() -> ModuleOp:
        return phase([form.element] * 3, len(numbers) + Walk.count(around), body)

    return KernelPhase(
        NativeFunction(f"product-{way} {form.key} around {len(around)}", build),
        buffers,
        (*numbers, *Walk.values(around)),
        extent=extent,
        grain=grain_of(extent, effort),
        scratch=scratch,
        work=FLOP_NS * given.flops,
        way=way,
    )

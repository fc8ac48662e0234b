"""A product of matrices in tiles that stay in registers, with panels that each thread lays out for itself.

The range of the phase is the *panels* of all matrices that are walked around: as many columns as two registers hold. A
panel of the right matrix is laid out row after row in scratch; the last one is filled up with its last column. A tile
of the result, some rows of a panel, is then summed up in registers: a row of the panel times one number for each row of
the tile.

LLVM takes a while for this code, so that one function serves all products of a dtype: which way panels are read, and by
which strides, are numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import i1
from xdsl.ir import SSAValue

from hybridc.dialects.attribute import DType
from hybridc.ir.product_shape import Loop, Matrices
from hybridc.lower.llvm.gemm_columns import column_phase
from hybridc.lower.llvm.gemm_phase import Arguments, Index, Walk
from hybridc.lower.llvm.gemm_tile import ABREAST, Form, Panel, Tiles
from hybridc.lower.llvm.gemm_vectors import Registers, Vectors, registers
from hybridc.lower.llvm.kernel_phases import KernelPhase

# Rows for which a panel is laid out, at least, where there are more.
_ROWS = 48
# Numbers of the phase before those of the walk.
_FIXED = 11


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
    if vectors is None or given.over or given.k == 0:
        return None
    form = Form(dtype, vectors)
    if given.m < form.heights[1]:
        return None
    along_rows, along_columns = given.b[1] == 1, given.b[0] == 1 != given.b[1]
    return column_phase(
        "tiles",
        form,
        given,
        buffers,
        threads,
        rows=_ROWS,
        fixed=lambda x, panels: (x.m, x.n, x.k, *x.a, *x.b, along_rows, along_columns, x.c, panels),
        scratch=(form.heights[0] + given.k) * form.width * dtype.itemsize,
        write=lambda arguments, walk: _Writer(form, walk, arguments).write(),
        # Also without loops around, as the function's compilation takes longer than these do.
        once=[Loop(1, 0, 0, 0)],
    )


class _Writer:
    """Writes the body of the phase."""

    def __init__(self, form: Form, walk: Walk, given: Arguments) -> None:
        self.form, self.given, b = form, given, given.b
        self.v = Vectors(b, form.element, form.lanes)
        self.walk, fixed = walk, given.numbers[:_FIXED]
        self.m, self.n, self.k, self.a_row, self.a_term, self.b_term, self.b_column, *fixed = fixed
        self.along_rows, self.along_columns, self.c_row, self.panels = fixed
        spill = form.heights[0] * form.width
        size = b.index(0)
        # A tile that is only partly stored lies in front of the panel.
        self.spill = b.view(given.scratch, b.index(0), size, form.element)
        self.panel = b.view(given.scratch, b.index(spill * form.dtype.itemsize), size, form.element)

    def write(self) -> None:
        """Each panel is packed, then multiplied."""

        def one(i: Index, _: Sequence[SSAValue]) -> None:
            a, b, c = self.walk.offsets(i // self.panels)
            first = i % self.panels * self.form.width
            columns = (self.n - first).least(self.form.width)
            self.pack(b + first * self.b_column, columns)
            self.tiles(a, c + first, columns)

        self.given.loop(self.given.lo, self.given.hi, one)

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
            self.store_tile(sums, c + row * self.c_row, columns)

        return write

    def store_tile(self, sums: Sequence[SSAValue], start: Index, columns: Index) -> None:
        """Store a tile; one that is only partly wanted is stored in scratch, and its first columns copied."""
        b, result, full = self.given.b, self.given.arrays[2], columns // self.form.width
        rest = start.of(1) - full
        flag = rest.integer(i1)
        to = b.pure(arith.SelectOp, [flag, self.spill, result], result.type)
        first, step = start * full, self.c_row * full + rest * self.form.width
        for number, value in enumerate(sums):
            down, right = divmod(number, ABREAST)
            self.v.store(value, to, first + step * down + right * self.form.lanes)

        def row(i: Index, _: Sequence[SSAValue]) -> None:
            def copy(j: Index, _: Sequence[SSAValue]) -> None:
                value = b.load(self.spill, (i * self.form.width + j).value, level=b.depth)
                b.store(value, result, (start + i * self.c_row + j).value)

            self.given.loop(0, columns, copy)

        self.given.loop(0, rest * (len(sums) // ABREAST), row)

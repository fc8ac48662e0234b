"""A product of matrices whose right one lies in panels already: threads share its rows.

The range of the phase is the rows of the result. A block of rows is multiplied with one panel after the other, tile by
tile, so that the block and a panel stay in the second-level cache. Where that pays, a block is *packed* before: the
rows of a tile lie beside each other in scratch, term after term, where one address reaches all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from hybridc.dialects.attribute import DType
from hybridc.ir.product_shape import COLUMN, Loop, Matrices
from hybridc.lower.llvm.codegen import NativeFunction
from hybridc.lower.llvm.gemm_phase import EFFORT_TO_SHARE, FLOP_NS, PARTS, Arguments, Index, effort_of, phase
from hybridc.lower.llvm.gemm_tile import ABREAST, LOW, Form, Panel, Tiles
from hybridc.lower.llvm.gemm_vectors import Vectors, registers
from hybridc.lower.llvm.kernel_phases import KernelPhase

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
    numbers = (given.k, rows, *given.a, beside, square, panels.steps[1], given.c, panels.steps[2], panels.size)
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
    return phase([form.element] * 3, _NUMBERS, lambda given: _Writer(form, packed, given).write())


class _Writer:
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

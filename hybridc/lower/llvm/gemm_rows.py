"""A product of matrices whose right one lies in panels already: threads share its rows.

The range of the phase is the rows of the result. A block of rows is multiplied with one panel after the other, tile by
tile, so that the block and a panel stay in the second-level cache. Rows or terms that are so far from each other in
memory that they drive each other out of the first cache are copied to scratch before, at a better distance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp, i1
from xdsl.ir import SSAValue

from hybridc.dialects.attribute import DType
from hybridc.lower.llvm.codegen import NativeFunction
from hybridc.lower.llvm.gemm_phase import EFFORT_TO_SHARE, FLOP_NS, PARTS, Arguments, Index, effort_of, phase
from hybridc.lower.llvm.gemm_tile import ABREAST, Form, Panel, Tiles
from hybridc.lower.llvm.gemm_vectors import Vectors, registers
from hybridc.lower.llvm.kernel_phases import KernelPhase
from hybridc.lower.product_shape import COLUMN, Loop, Matrices

# Tiles of a block of rows, one below the other.
_TILES = 8
# Bytes from one row to the next, or from one term to the next, that lie in the same place of the first cache.
_SAME_PLACE = 2048
# Numbers of the phase.
_NUMBERS = 14


def row_phase(given: Matrices, dtype: DType, buffers: tuple[int, ...], threads: int) -> KernelPhase | None:
    """The phase that multiplies rows with panels; None if the right matrix does not lie in panels."""
    vectors = registers()
    if vectors is None or not lies_in_panels(given, Form(dtype, vectors).width):
        return None
    form = Form(dtype, vectors)
    (panels,) = given.around or (Loop(1, None, 0, 0),)
    rows = _TILES * form.heights[0]
    left = _left(given, rows, form)
    right = (given.b[0], panels.steps[1])
    return KernelPhase(
        NativeFunction(f"product-rows {dtype.name} {vectors}", lambda: _build(form)),
        buffers,
        tuple(map(int, (given.k, rows, *left.numbers, *right, given.c, panels.steps[2], panels.size))),
        extent=given.m,
        grain=_grain(given.m, rows, threads, effort_of(given, dtype)),
        scratch=left.elements * dtype.itemsize,
        work=FLOP_NS * given.flops,
        way="rows",
    )


@dataclass(frozen=True)
class _Left:
    """How the left matrix is read: by how much a block begins after the last, a row, a term; and whether as a copy.

    A copy consists of ``lines`` that are contiguous in the matrix, too, ``step`` elements from each other there and
    ``pitch`` in the copy: rows of terms, or, ``across``, terms of rows.
    """

    block: int
    row: int
    term: int
    copied: bool = False
    across: bool = False
    step: int = 0
    pitch: int = 0
    elements: int = 0

    @property
    def numbers(self) -> tuple[int, ...]:
        """Those that the phase is given."""
        return (self.block, self.row, self.term, self.copied, self.across, self.step, self.pitch)


def _left(given: Matrices, rows: int, form: Form) -> _Left:
    """Read the left matrix in its place, or copied if lines that are read at a time drive each other out of a cache."""
    row, term = given.a
    across = row == 1 != term
    step = term if across else row
    near = step * form.dtype.itemsize % _SAME_PLACE or given.m < form.heights[0] or 1 not in given.a
    if near:
        return _Left(row, row, term)
    rows = min(rows, given.m)
    pitch = (rows if across else given.k) + form.lanes
    elements = pitch * (given.k if across else rows)
    strides = (1, pitch) if across else (pitch, 1)
    return _Left(row, *strides, True, across, step, pitch, elements)


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


def _build(form: Form) -> ModuleOp:
    return phase([form.element] * 3, _NUMBERS, lambda given: _Writer(form, given).write())


class _Writer:
    """Writes the body of the phase."""

    def __init__(self, form: Form, given: Arguments) -> None:
        self.form, self.given, b = form, given, given.b
        self.v = Vectors(b, form.element, form.lanes)
        self.k, self.rows, *left, self.b_term, self.b_panel, self.c_row, self.c_panel, self.panels = given.numbers
        self.left_block, self.left_row, self.left_term, self.copied, self.across, self.step, self.pitch = left
        self.copy = b.view(given.scratch, b.index(0), b.index(0), form.element)
        array = given.arrays[0]
        self.left = b.pure(arith.SelectOp, [self.copied.integer(i1), self.copy, array], array.type)

    def write(self) -> None:
        """Each block of rows, with all panels."""
        rest = self.given.hi - self.given.lo

        def block(number: Index, _: Sequence[SSAValue]) -> None:
            first = self.given.lo + number * self.rows
            count = (self.given.hi - first).least(self.rows)
            self.copy_block(first, count)
            self.given.loop(0, self.panels, lambda panel, _: self.tiles(panel, first, count))

        self.given.loop(0, rest.ceildiv(self.rows), block)

    def copy_block(self, first: Index, count: Index) -> None:
        """Copy so many rows of the left matrix to scratch, line by line, if they are to be copied."""
        b, start = self.given.b, first * self.left_block
        lines, length = count + (self.k - count) * self.across, self.k + (count - self.k) * self.across

        def line(number: Index, _: Sequence[SSAValue]) -> None:
            source, target = start + number * self.step, number * self.pitch

            def element(i: Index, _: Sequence[SSAValue]) -> None:
                b.store(b.load(self.given.arrays[0], (source + i).value), self.copy, (target + i).value)

            self.given.loop(0, length, element)

        self.given.loop(0, lines * self.copied, line)

    def tiles(self, number: Index, first: Index, count: Index) -> None:
        """The tiles of a panel, for so many rows from ``first`` on."""
        tiles = Tiles(self.given, self.v, self.k)
        panel = Panel(self.given.arrays[1], number * self.b_panel, self.b_term)
        start = first * self.left_block - first * self.left_block * self.copied
        result = first * self.c_row + number * self.c_panel
        high, low = self.form.heights
        done, last = count // high * high, count - 1

        def tile(rows: Sequence[Index]) -> None:
            sums = tiles.sums(self.left, [start + row * self.left_row for row in rows], self.left_term, panel)
            for i, value in enumerate(sums):
                down, right = divmod(i, ABREAST)
                at = result + rows[down] * self.c_row + right * self.form.lanes
                self.v.store(value, self.given.arrays[2], at)

        self.given.loop(0, done, lambda row, _: tile([row + i for i in range(high)]), step=high)
        # What would be behind the last row is that row again.
        self.given.loop(done, count, lambda row, _: tile([(row + i).least(last) for i in range(low)]), step=low)

"""A product of matrices in tiles that stay in registers: for products too small or too oddly shaped for BLAS.

The range of the phase is the *panels* of all matrices that are walked around: as many columns as two registers hold. A
panel of the right matrix is laid out row after row in scratch, the last one filled up with zeros; then each tile of the
result, some rows of a panel, is summed up in registers: a row of the panel times one number for each row of the tile.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import FloatAttr, ModuleOp, f32, f64
from xdsl.ir import SSAValue

from hybridc.dialects.attribute import DType
from hybridc.lower.llvm.codegen import NativeFunction
from hybridc.lower.llvm.gemm_phase import FLOPS_OF_A_PART, Arguments, Index, ProductPhase, Walk, phase
from hybridc.lower.llvm.gemm_shape import Loop, Matrices
from hybridc.lower.llvm.gemm_vectors import Registers, Vectors, registers

# Registers side by side in a tile.
_ABREAST = 2
# Numbers of the phase before those of the walk.
_FIXED = 9


@dataclass(frozen=True)
class _Form:
    """What the code depends on: the registers, and how panels are read.

    ``right`` says whether the right matrix is read along its ``rows`` or its ``columns`` or neither.
    """

    dtype: DType
    vectors: Registers
    right: str

    @property
    def lanes(self) -> int:
        """Elements of a register."""
        return self.vectors.lanes(self.dtype)

    @property
    def width(self) -> int:
        """Columns of a panel."""
        return _ABREAST * self.lanes

    @property
    def heights(self) -> list[int]:
        """Rows of tiles: as many as leave registers for a row of the panel and a number, and then the smaller ones."""
        most = (self.vectors.count - _ABREAST - 2) // _ABREAST
        return [most // 6 * 6, *(h for h in (8, 4, 2, 1) if h < most // 6 * 6)]


def tile_phase(given: Matrices, dtype: DType, buffers: tuple[int, ...]) -> ProductPhase | None:
    """The phase that multiplies tile by tile; None if this processor or these sums are not for it."""
    vectors = registers()
    if vectors is None or given.over or given.k == 0:
        return None
    right = "rows" if given.b[1] == 1 else "columns" if given.b[0] == 1 else "scattered"
    form = _Form(dtype, vectors, right)
    panels = math.ceil(given.n / form.width)
    batches = math.prod(loop.size for loop in given.around)
    flops = 2 * given.m * given.n * given.k * batches
    key = f"product-tiles {dtype.name} {vectors} {right} around {Walk.key(given.around)}"
    return ProductPhase(
        NativeFunction(key, lambda: _build(form, given.around)),
        buffers,
        (given.m, given.n, given.k, *given.a, *given.b, given.c, panels, *Walk.values(given.around)),
        extent=panels * batches,
        grain=max(1, FLOPS_OF_A_PART * panels * batches // flops),
        scratch=(form.heights[0] + given.k) * form.width * dtype.itemsize,
        flops=flops,
        way="tiles",
    )


def _build(form: _Form, around: tuple[Loop, ...]) -> ModuleOp:
    element = f32 if form.dtype == np.float32 else f64
    numbers = _FIXED + Walk.count(around)
    return phase([element] * 3, numbers, lambda given: _Writer(form, around, given).write())


class _Writer:
    """Writes the body of the phase."""

    def __init__(self, form: _Form, around: tuple[Loop, ...], given: Arguments) -> None:
        self.form, self.given, b = form, given, given.b
        element = f32 if form.dtype == np.float32 else f64
        self.v = Vectors(b, element, form.lanes)
        self.m, self.n, self.k, self.a_row, self.a_term, b_term, b_column, self.c_row, self.panels = given.numbers[
            :_FIXED
        ]
        one = self.m.of(1)
        self.b_term = one if form.right == "columns" else b_term
        self.b_column = one if form.right == "rows" else b_column
        self.walk = Walk.read(around, given.numbers[_FIXED:])
        spill = form.heights[0] * form.width
        size = b.index(0)
        # A tile that is only partly stored lies in front of the panel.
        self.spill = b.view(given.scratch, b.index(0), size, element)
        self.panel = b.view(given.scratch, b.index(spill * form.dtype.itemsize), size, element)

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
        packed = full * self.k
        if self.form.right == "rows":
            self.given.loop(0, packed, lambda term, _: self.pack_row(start, term))
        elif self.form.right == "columns":
            packed = full * (self.k // self.form.lanes * self.form.lanes)
            self.given.loop(0, packed, lambda term, _: self.pack_square(start, term), step=self.form.lanes)
        else:
            packed = self.k.of(0)
        # What no vector covers: the last terms, or all of a panel that is not full.
        self.given.loop(packed, self.k, lambda term, _: self.pack_slowly(start, term, columns))

    def pack_row(self, start: Index, term: Index) -> None:
        """Copy a row of the panel."""
        for lane in range(0, self.form.width, self.form.lanes):
            value = self.v.load(self.given.arrays[1], start + term * self.b_term + lane)
            self.v.store(value, self.panel, term * self.form.width + lane)

    def pack_square(self, start: Index, term: Index) -> None:
        """Copy as many rows as a register has elements, from columns that follow memory."""
        for lane in range(0, self.form.width, self.form.lanes):
            places = [start + (self.b_column * (lane + i) + term) for i in range(self.form.lanes)]
            rows = self.v.transposed([self.v.load(self.given.arrays[1], at) for at in places])
            for i, row in enumerate(rows):
                self.v.store(row, self.panel, (term + i) * self.form.width + lane)

    def pack_slowly(self, start: Index, term: Index, columns: Index) -> None:
        """Copy a row element by element, and fill it up."""
        b, zero = self.given.b, self.given.b.constant(FloatAttr(0.0, self.v.element), self.v.element)
        to = term * self.form.width

        def copy(i: Index, _: Sequence[SSAValue]) -> None:
            value = b.load(self.given.arrays[1], (start + term * self.b_term + i * self.b_column).value)
            b.store(value, self.panel, (to + i).value)

        self.given.loop(0, columns, copy)
        self.given.loop(columns, self.form.width, lambda i, _: b.store(zero, self.panel, (to + i).value))

    # --- tiles ---------------------------------------------------------------------------------------------

    def tiles(self, a: Index, c: Index, columns: Index) -> None:
        """All rows, in tiles as high as they can be."""
        done = self.m.of(0)
        for height in self.form.heights:
            end = done + (self.m - done) // height * height
            self.given.loop(done, end, self.tile(height, a, c, columns), step=height)
            done = end

    def tile(
        self, height: int, a: Index, c: Index, columns: Index
    ) -> Callable[[Index, Sequence[SSAValue]], Sequence[SSAValue] | None]:
        """What computes so many rows of the panel from one row on."""
        lanes, v = self.form.lanes, self.v

        def write(row: Index, _: Sequence[SSAValue]) -> None:
            starts = [a + (row + i) * self.a_row for i in range(height)]

            def term(i: Index, sums: Sequence[SSAValue]) -> list[SSAValue]:
                right = [v.load(self.panel, i * self.form.width + lane * lanes) for lane in range(_ABREAST)]
                found: list[SSAValue] = []
                for number, start in enumerate(starts):
                    at = start + i * self.a_term
                    left = v.everywhere(self.given.b.load(self.given.arrays[0], at.value))
                    found += [v.fma(left, right[j], sums[_ABREAST * number + j]) for j in range(_ABREAST)]
                return found

            sums = self.given.loop(0, self.k, term, starts=[v.zero] * (_ABREAST * height))
            self.store_tile(sums, c + row * self.c_row, columns)

        return write

    def store_tile(self, sums: Sequence[SSAValue], start: Index, columns: Index) -> None:
        """Store so many columns of a tile."""

        def whole(_: Index, __: Sequence[SSAValue]) -> None:
            self.store(sums, self.given.arrays[2], start, self.c_row)

        def partly(_: Index, __: Sequence[SSAValue]) -> None:
            self.store_partly(sums, start, columns)

        full = columns // self.form.width
        self.given.loop(0, full, whole)
        self.given.loop(full, 1, partly)

    def store(self, sums: Sequence[SSAValue], array: SSAValue, start: Index, step: Index) -> None:
        """Store a whole tile."""
        for number, value in enumerate(sums):
            row, lane = divmod(number, _ABREAST)
            self.v.store(value, array, start + step * row + lane * self.form.lanes)

    def store_partly(self, sums: Sequence[SSAValue], start: Index, columns: Index) -> None:
        """Store the first columns of a tile."""
        b, width = self.given.b, start.of(self.form.width)
        self.store(sums, self.spill, start.of(0), width)

        def row(i: Index, _: Sequence[SSAValue]) -> None:
            def copy(j: Index, _: Sequence[SSAValue]) -> None:
                value = b.load(self.spill, (i * width + j).value, level=b.depth)
                b.store(value, self.given.arrays[2], (start + i * self.c_row + j).value)

            self.given.loop(0, columns, copy)

        self.given.loop(0, len(sums) // _ABREAST, row)

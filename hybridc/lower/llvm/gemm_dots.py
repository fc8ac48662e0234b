"""A product of few rows with columns that follow memory, as weights are stored: each element is a dot product.

The range of the phase is groups of columns of all matrices that are walked around. A tile, some rows by a group, has a
register of partial sums for each element; in the end these are added up together, which gives a register of results.
Where a group reaches beyond the last column, that one is computed again in its place and not stored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import ModuleOp, f32, f64
from xdsl.ir import SSAValue

from hybridc.dialects.attribute import DType
from hybridc.lower.llvm.codegen import NativeFunction
from hybridc.lower.llvm.gemm_phase import (
    EFFORT_TO_SHARE,
    PARTS,
    Arguments,
    Index,
    ProductPhase,
    Walk,
    effort_of,
    few_forms,
    grain_of,
    phase,
)
from hybridc.lower.llvm.gemm_shape import Loop, Matrices
from hybridc.lower.llvm.gemm_vectors import Registers, Vectors, registers

# Rows of a tile, at most.
_HEIGHT = 4
# Rows that a group of columns is multiplied with, at least, where there are more.
_ROWS = 16
# Numbers of the phase before those of the walk.
_FIXED = 7


@dataclass(frozen=True)
class _Form:
    """What the code depends on: a tile has as many elements as a register, in so many rows."""

    dtype: DType
    vectors: Registers
    height: int

    @property
    def lanes(self) -> int:
        """Elements of a register."""
        return self.vectors.lanes(self.dtype)

    @property
    def width(self) -> int:
        """Columns of a group."""
        return self.lanes // self.height


def dot_phase(given: Matrices, dtype: DType, buffers: tuple[int, ...], threads: int) -> ProductPhase | None:
    """The phase that computes dot products; None if the terms of a sum are no whole registers in memory."""
    vectors = registers()
    if vectors is None or given.over or (given.a[1], given.b[0]) != (1, 1) or given.k % vectors.lanes(dtype):
        return None
    height = min(_HEIGHT, vectors.lanes(dtype))
    while height > given.m:
        height //= 2
    form = _Form(dtype, vectors, height)
    groups = math.ceil(given.n / form.width)
    effort = effort_of(given, dtype)
    if effort >= EFFORT_TO_SHARE:
        given = given.in_blocks(PARTS * threads // (groups * given.batches), _ROWS)
    around = few_forms(given.around)
    extent = groups * given.batches
    key = f"product-dots {dtype.name} {vectors} {height} around {len(around)}"
    return ProductPhase(
        NativeFunction(key, lambda: _build(form, around)),
        buffers,
        (given.m, given.n, given.k, given.a[0], given.b[1], given.c, groups, *Walk.values(around)),
        extent=extent,
        grain=grain_of(extent, effort),
        scratch=vectors.bytes,
        flops=given.flops,
        way="dots",
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
        self.m, self.n, self.k, self.a_row, self.b_column, self.c_row, self.groups = given.numbers[:_FIXED]
        self.walk = Walk.read(around, given.numbers[_FIXED:])
        self.spill = b.view(given.scratch, b.index(0), b.index(form.lanes), element)

    def write(self) -> None:
        """Each group of columns, with all rows."""

        def group(i: Index, _: Sequence[SSAValue]) -> None:
            a, b, c = self.walk.offsets(i // self.groups)
            first = i % self.groups * self.form.width
            columns = [b + (first + j).least(self.n - 1) * self.b_column for j in range(self.form.width)]
            count = (self.n - first).least(self.form.width)
            tile = self.tile(a, columns, c + first, count)
            # The last tile ends with the last row: what it has in common with the one before is computed again.
            last, height = self.m - self.form.height, self.form.height
            self.given.loop(0, self.m, lambda row, _: tile(row.least(last)), step=height)

        self.given.loop(self.given.lo, self.given.hi, group)

    def tile(self, a: Index, columns: Sequence[Index], c: Index, count: Index) -> Callable[[Index], None]:
        """What computes the rows of a tile from one row on."""
        left, right = self.given.arrays[:2]

        def write(row: Index) -> None:
            rows = [a + (row + i) * self.a_row for i in range(self.form.height)]

            def add(at: Index, sums: Sequence[SSAValue]) -> list[SSAValue]:
                xs = [self.v.load(left, start + at) for start in rows]
                ys = [self.v.load(right, start + at) for start in columns]
                pairs = [(x, y) for x in xs for y in ys]
                return [self.v.fma(x, y, z) for (x, y), z in zip(pairs, sums, strict=True)]

            starts = [self.v.zero] * self.form.lanes
            sums = self.given.loop(0, self.k, add, step=self.form.lanes, starts=starts)
            self.store(self.v.sums(sums), c + row * self.c_row, count)

        return write

    def store(self, tile: SSAValue, start: Index, count: Index) -> None:
        """Store so many columns of a tile."""
        b, width, height = self.given.b, self.form.width, self.form.height

        def whole(_: Index, __: Sequence[SSAValue]) -> None:
            for i in range(height):
                part = self.v.shuffle(tile, tile, range(i * width, (i + 1) * width))
                self.v.store(part, self.given.arrays[2], start + self.c_row * i)

        def partly(_: Index, __: Sequence[SSAValue]) -> None:
            self.v.store(tile, self.spill, start.of(0))

            def copy(j: Index, _: Sequence[SSAValue]) -> None:
                for i in range(height):
                    value = b.load(self.spill, (j + i * width).value, level=b.depth)
                    b.store(value, self.given.arrays[2], (start + self.c_row * i + j).value)

            self.given.loop(0, count, copy)

        full = count // width
        self.given.loop(0, full, whole)
        self.given.loop(full, 1, partly)

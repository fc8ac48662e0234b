"""Matmul of few rows with contiguous columns, as weights are stored: each element is a dot product.

The range of the parallel region is groups of columns, of all matrices of the batch. A tile, some rows by a group, has a
vector of partial sums for each element; in the end these are reduced together to a vector of results.
Columns of a group beyond the last one repeat that one, and are not stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from hybridc.dialects.operator_attribute import DType
from hybridc.ir.contraction_shape import Matrices
from hybridc.lower.llvm.gemm.gemm_region import Arguments, Index, Vectors, Walk, registers
from hybridc.lower.llvm.gemm.gemm_tiles import Form, column_region
from hybridc.lower.llvm.loops.parallel_regions import ParallelRegion

# The most rows of a tile.
_HEIGHT = 4
# The least rows that a group of columns is multiplied with, where there are more.
_ROWS = 16
# Fixed scalar arguments, before those of the loops.
_FIXED = 7


@dataclass(frozen=True)
class _Form(Form):
    """The variant of the code: a tile has as many elements as a vector, in so many rows."""

    height: int = 1

    @property
    def key(self) -> str:
        """The variant in a function's key."""
        return f"{super().key} {self.height}"

    @property
    def width(self) -> int:
        """Columns of a group."""
        return self.lanes // self.height


def dot_region(given: Matrices, dtype: DType, buffers: tuple[int, ...], threads: int) -> ParallelRegion | None:
    """The parallel region of dot products; None if rows are not contiguous whole vectors."""
    vectors = registers()
    if vectors is None or given.over or (given.a[1], given.b[0]) != (1, 1) or given.k % vectors.lanes(dtype):
        return None
    height = min(_HEIGHT, vectors.lanes(dtype))
    while height > given.m:
        height //= 2
    form = _Form(dtype, vectors, height)
    return column_region(
        "dots",
        form,
        given,
        buffers,
        threads,
        rows=_ROWS,
        fixed=lambda x, groups: (x.m, x.n, x.k, x.a[0], x.b[1], x.c[0], groups),
        scratch=vectors.bytes,
        write=lambda arguments, walk: _DotWriter(form, walk, arguments).write(),
    )


class _DotWriter:
    """Emits the body of the region."""

    def __init__(self, form: _Form, walk: Walk, given: Arguments) -> None:
        self.form, self.walk, self.given, b = form, walk, given, given.b
        self.v = Vectors(b, form.element, form.lanes)
        self.m, self.n, self.k, self.a_row, self.b_column, self.c_row, self.groups = given.numbers[:_FIXED]
        self.spill = b.view(given.scratch, b.index(0), b.index(form.lanes), form.element)

    def write(self) -> None:
        """For each group of columns, all rows."""

        def group(i: Index, _: Sequence[SSAValue]) -> None:
            a, b, c = self.walk.offsets(i // self.groups)
            first = i % self.groups * self.form.width
            columns = [b + (first + j).least(self.n - 1) * self.b_column for j in range(self.form.width)]
            count = (self.n - first).least(self.form.width)
            tile = self.tile(a, columns, c + first, count)
            # The last tile ends with the last row: rows that it shares with the one before are computed twice.
            last, height = self.m - self.form.height, self.form.height
            self.given.loop(0, self.m, lambda row, _: tile(row.least(last)), step=height)

        self.given.loop(self.given.lo, self.given.hi, group)

    def tile(self, a: Index, columns: Sequence[Index], c: Index, count: Index) -> Callable[[Index], None]:
        """A function that emits the tile at a row."""
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
        """Store ``count`` columns of a tile."""
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

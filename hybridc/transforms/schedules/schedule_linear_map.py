"""The schedule of a linear map: straight-line code, of vectors where they fit, for each point of the other axes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from hybridc.dtypes import element_kind
from hybridc.ground.records import dataclass
from hybridc.ir.contraction_shape import LinearMap, Loop, Matrix, coalesced_loops
from hybridc.ir.costs import SAME_SET, copy_time
from hybridc.ir.planned import Strides
from hybridc.ir.tiles.tile_program import Address, Factor, TileBuffer, TileProgram, TileSweep
from hybridc.transforms.schedules.loop_machine import Registers
from hybridc.transforms.schedules.program_builder import ProgramBuilder
from hybridc.transforms.schedules.schedule_moves import MoveSchedule

# Values by their indices along the axes of the matrices.
Values = Mapping[tuple[int, ...], str]


def schedule_linear_map(linear_map: LinearMap, strides: Sequence[Strides], vectors: Registers | None) -> MoveSchedule:
    """The schedule of a linear map; ``strides``, in elements, are those of what it reads, and of its result."""
    kernel_op, dtype = linear_map.kernel_op, linear_map.kernel_op.result.dtype
    source = linear_map.read.along(strides[0])
    target = dict(zip(kernel_op.axes, strides[1], strict=True))
    size = kernel_op.extents
    rows = {m.row for m in linear_map.matrices}
    others = [a for a in kernel_op.axes if a not in rows]
    loops = coalesced_loops([Loop(size[a], source[a], 0, target[a]) for a in sorted(others, key=lambda a: -target[a])])
    lanes = 1 if vectors is None else vectors.lanes(dtype)
    if not loops or loops[-1].steps != (1, 0, 1) or loops[-1].size % lanes:
        lanes, loops = 1, [*loops, Loop(1, 1, 0, 1)]
    *around, along = loops
    around = around or [Loop(1, 0, 0, 0)]
    matrices = tuple(_numbers(m.numbers) for m in linear_map.matrices)
    steps = [n for m in linear_map.matrices for n in (source[m.column], target[m.row])]
    numbers = (*(x.size for x in around), along.size, *steps, *(n for x in around for n in (x.a or 0, x.c or 0)))
    extent = math.prod(loop.size for loop in around)
    read = math.prod(m.numbers.shape[1] for m in linear_map.matrices) * extent * along.size
    work = copy_time((read + kernel_op.result.size) * dtype.itemsize)
    apart = any(target[m.row] * dtype.itemsize >= SAME_SET for m in linear_map.matrices)
    form = LinearMapForm(matrices, element_kind(dtype), lanes, len(around), apart)
    return MoveSchedule(form, numbers, extent, work)


def _numbers(matrix: Matrix) -> tuple[tuple[float, ...], ...]:
    """The numbers of a matrix, by rows."""
    return tuple(tuple(map(float, row)) for row in matrix.tolist())


@dataclass(frozen=True)
class LinearMapForm:
    """Multiplying with ``matrices``, in vectors of so many ``lanes``, with so many loops ``around``.

    Arguments are, for each matrix, the step from one element that it is multiplied with to the next and that of
    results; and the steps of each loop in both arrays. Rows of the first matrix that are ``apart`` have a loop over all
    points each: where the results of a point are far from each other, they are in the same part of a cache, which then
    holds those of a row, but not all.
    """

    matrices: tuple[tuple[tuple[float, ...], ...], ...]
    kind: str
    lanes: int
    around: int
    apart: bool

    def program(self) -> TileProgram:
        """The program."""
        b = ProgramBuilder([TileBuffer(name, self.kind) for name in ("b0", "b1")], self.around + 1)
        steps = [(b.argument(), b.argument()) for _ in self.matrices]
        loops = [(b.argument(), b.argument()) for _ in range(self.around)]
        first, *others = [np.array(matrix) for matrix in self.matrices]
        parts = [first[row : row + 1] for row in range(len(first))] if self.apart else [first]
        sweeps: list[TileSweep] = []
        for row, part in enumerate(parts):
            self._elements(b, [part, *others], steps, loops, row)
            sweeps.append(TileSweep((self.around,), b.take(), lanes=self.lanes))
        return b.program(tuple(range(self.around)), sweeps, apart=self.apart, exact=True)

    def _elements(
        self,
        b: ProgramBuilder,
        matrices: Sequence[Matrix],
        steps: Sequence[tuple[Factor, Factor]],
        loops: Sequence[tuple[Factor, Factor]],
        row: int,
    ) -> None:
        """The results of one vector of elements, from a row of the first matrix on."""

        def address(array: int, at: Sequence[int]) -> Address:
            terms = [*((axis, loop[array]) for axis, loop in enumerate(loops)), (self.around, Factor())]
            offset = [Factor(n, stride=step[array].stride) for n, step in zip(at, steps, strict=True) if n]
            return Address(f"b{array}", tuple(terms), tuple(offset))

        counts = [m.shape[1] for m in matrices]
        values: Values = {at: b.load(address(0, at), self.kind) for at in np.ndindex(*counts)}
        for axis, matrix in enumerate(matrices):
            values = _Products(b, self.kind, matrix).along(values, axis)
        for at, value in values.items():
            b.store(value, address(1, (at[0] + row, *at[1:])))


@dataclass(frozen=True)
class _Products:
    """Writes the products of a matrix and columns of values."""

    b: ProgramBuilder
    kind: str
    matrix: Matrix

    def along(self, values: Values, axis: int) -> Values:
        """The values with one of their indices mapped by the matrix."""
        mapped: dict[tuple[int, ...], str] = {}
        for at in values:
            if at[axis] == 0:
                column = [values[(*at[:axis], i, *at[axis + 1 :])] for i in range(self.matrix.shape[1])]
                for row, value in enumerate(self._column(column)):
                    mapped[(*at[:axis], row, *at[axis + 1 :])] = value
        return mapped

    def _column(self, column: Sequence[str]) -> list[str]:
        """The matrix times a column. Rows that are equal but for the signs of some numbers share the sums of both."""
        rows: dict[int, str] = {}
        for row, numbers in enumerate(self.matrix):
            if row in rows:
                continue
            twin = next(_twins(self.matrix, row), None)
            if twin is None:
                rows[row] = self._sum(numbers, column)
                continue
            same = numbers == self.matrix[twin]
            even, odd = [self._sum(np.where(part, numbers, 0), column) for part in (same, ~same)]
            rows[row], rows[twin] = self._map("arith.addf", even, odd), self._map("arith.subf", even, odd)
        return [rows[row] for row in range(len(self.matrix))]

    def _sum(self, numbers: Matrix, column: Sequence[str]) -> str:
        """The sum of the products of numbers and values."""
        # One whose factor is 1 begins, as it costs nothing.
        order = sorted((i for i, n in enumerate(numbers) if n), key=lambda i: numbers[i] != 1)
        total: str | None = None
        for i in order:
            factor, value = float(numbers[i]), column[i]
            if total is None:
                total = value if factor == 1 else self._map("arith.mulf", value, self.b.constant(factor, self.kind))
            elif factor in (1.0, -1.0):
                total = self._map("arith.addf" if factor == 1 else "arith.subf", total, value)
            else:
                total = self._map("math.fma", value, self.b.constant(factor, self.kind), total)
        return self.b.constant(0.0, self.kind) if total is None else total

    def _map(self, op: str, *operands: str) -> str:
        return self.b.map(op, *operands, kind=self.kind)


def _twins(matrix: Matrix, row: int) -> Iterator[int]:
    """Later rows whose numbers differ from those of a row in signs only, of some but not of all."""
    for other in range(row + 1, len(matrix)):
        same, opposite = matrix[other] == matrix[row], matrix[other] == -matrix[row]
        if (same | opposite).all() and (same & (matrix[row] != 0)).any() and (~same).any():
            yield other

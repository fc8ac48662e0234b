"""The parallel region of a linear map: straight-line code of vectors, for each point of the other axes."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import f32, f64

from hybridc.ir.contraction_shape import LinearMap, Loop, Matrix, coalesced_loops
from hybridc.ir.costs import SAME_SET, copy_time, sharing
from hybridc.ir.planned import Strides
from hybridc.ir.structured import dtype_of, shape_of
from hybridc.lower.llvm.codegen.function_text import LLVMValue
from hybridc.lower.llvm.codegen.native_function import NativeFunction
from hybridc.lower.llvm.gemm.gemm_region import Arguments, Index, RegionBuilder, Vectors, Walk, region, registers
from hybridc.lower.llvm.loops.parallel_regions import ParallelRegion

_ELEMENTS = {np.dtype(np.float32): f32, np.dtype(np.float64): f64}


def linear_map_region(given: LinearMap, strides: Sequence[Strides]) -> ParallelRegion:
    """The region of a linear map; ``strides``, in elements, are those of what it reads, and of its result."""
    kernel_op, dtype = given.kernel_op, dtype_of(given.kernel_op.result)
    source = given.read.along(strides[0])
    target = dict(zip(kernel_op.axes, strides[1], strict=True))
    size = kernel_op.extents
    own = {m.row for m in given.matrices}
    kept = [a for a in kernel_op.axes if a not in own]
    loops = coalesced_loops([Loop(size[a], source[a], 0, target[a]) for a in sorted(kept, key=lambda a: -target[a])])
    lanes = vector_lanes(dtype)
    if not loops or loops[-1].steps != (1, 0, 1) or loops[-1].size % lanes:
        lanes, loops = 1, [*loops, Loop(1, 1, 0, 1)]
    *around, along = loops
    around = around or [Loop(1, 0, 0, 0)]
    matrices = [m.numbers for m in given.matrices]
    steps = [n for m in given.matrices for n in (source[m.column], target[m.row])]
    numbers = (along.size, *steps, *Walk.values(around))
    extent = math.prod(loop.size for loop in around)
    read = math.prod(m.numbers.shape[1] for m in given.matrices) * extent * along.size
    work = copy_time((read + math.prod(shape_of(kernel_op.result))) * dtype.itemsize)
    grain, least = sharing(work, extent)
    apart = any(target[m.row] * dtype.itemsize >= SAME_SET for m in given.matrices)
    form = _Form(matrices, dtype, lanes, len(around), apart)
    function = NativeFunction(form.key(), form.builder(around))
    return ParallelRegion(function, (0, 1), numbers, extent, grain, 0, work, least, "linear map")


def vector_lanes(dtype: np.dtype[Any]) -> int:
    """Elements of a vector; 1 where vectors do not pay."""
    vectors = registers()
    return 1 if vectors is None else vectors.lanes(dtype)


@dataclass(frozen=True)
class _Form:
    """What the code depends on, besides numbers that it is given.

    Rows of the first matrix that are ``apart`` have a loop over all points each: where the results of a point are far
    from each other, they are in the same part of a cache, which then holds those of a row, but not all.
    """

    matrices: Sequence[Matrix]
    dtype: np.dtype[Any]
    lanes: int
    loops: int
    apart: bool

    def key(self) -> str:
        """The key of the code."""
        text = " ".join(str(m.tolist()) for m in self.matrices)
        numbers = hashlib.sha256(text.encode()).hexdigest()
        return f"linear map {numbers} {self.dtype.name} {self.lanes} {self.loops}{' apart' * self.apart}"

    def builder(self, around: Sequence[Loop]) -> RegionBuilder:
        """What writes the code."""
        element, count = _ELEMENTS[self.dtype], 1 + 2 * len(self.matrices)
        first, *others = self.matrices
        firsts = [first[row : row + 1] for row in range(len(first))] if self.apart else [first]

        def write(given: Arguments) -> None:
            v = Vectors(given.b, element, self.lanes)
            size, *steps = given.numbers[:count]
            walk = Walk.read(around, given.numbers[count:])
            for row, rows in enumerate(firsts):

                def point(number: Index, _: Sequence[LLVMValue], row: int = row, rows: Matrix = rows) -> None:
                    source, _unused, target = walk.offsets(number)
                    target += steps[1] * row
                    given.loop(
                        0,
                        size,
                        lambda i, _: _elements(given, v, [rows, *others], (source + i, target + i), steps),
                        step=self.lanes,
                    )

                given.loop(given.lo, given.hi, point)

        return region([element] * 2, count + Walk.count(around), write)


def _elements(
    given: Arguments, v: Vectors, matrices: Sequence[Matrix], start: tuple[Index, Index], steps: Sequence[Index]
) -> None:
    """The results of one vector of elements; ``start`` are the offsets of the first one read, and of the first result.

    ``steps`` are, for each matrix, those from one element that it is multiplied with to the next, and of results.
    """
    source, target = start
    counts = [m.shape[1] for m in matrices]
    values: Values = {at: v.load(given.arrays[0], _moved(source, at, steps[::2])) for at in np.ndindex(*counts)}
    for number, matrix in enumerate(matrices):
        values = _mapped(v, matrix, values, number)
    for at, value in values.items():
        v.store(value, given.arrays[1], _moved(target, at, steps[1::2]))


def _moved(start: Index, at: Sequence[int], steps: Sequence[Index]) -> Index:
    """The offset of an element, so many steps from another."""
    for count, step in zip(at, steps, strict=True):
        start = start + step * count
    return start


Values = Mapping[tuple[int, ...], LLVMValue]


def _mapped(v: Vectors, matrix: Matrix, values: Values, number: int) -> dict[tuple[int, ...], LLVMValue]:
    """The values with one of their indices mapped by a matrix."""
    found: dict[tuple[int, ...], LLVMValue] = {}
    for at in values:
        if at[number] == 0:
            column = [values[(*at[:number], i, *at[number + 1 :])] for i in range(matrix.shape[1])]
            for row, value in enumerate(_products(v, matrix, column)):
                found[(*at[:number], row, *at[number + 1 :])] = value
    return found


def _products(v: Vectors, matrix: Matrix, column: Sequence[LLVMValue]) -> list[LLVMValue]:
    """A matrix times a column. Rows that are equal but for the signs of some numbers share the sums of both parts."""
    found: dict[int, LLVMValue] = {}
    for row, numbers in enumerate(matrix):
        if row in found:
            continue
        twin = next(_twins(matrix, row), None)
        if twin is None:
            found[row] = _sum(v, numbers, column)
            continue
        same = numbers == matrix[twin]
        even, odd = _sum(v, np.where(same, numbers, 0), column), _sum(v, np.where(same, 0, numbers), column)
        found[row], found[twin] = v.plus(even, odd), v.minus(even, odd)
    return [found[row] for row in range(len(matrix))]


def _twins(matrix: Matrix, row: int) -> Iterator[int]:
    """Later rows whose numbers differ from those of a row in signs only, of some but not of all."""
    for other in range(row + 1, len(matrix)):
        same, opposite = matrix[other] == matrix[row], matrix[other] == -matrix[row]
        if (same | opposite).all() and (same & (matrix[row] != 0)).any() and (~same).any():
            yield other


def _sum(v: Vectors, numbers: Matrix, column: Sequence[LLVMValue]) -> LLVMValue:
    """The sum of the products of numbers and values."""
    # One whose factor is 1 begins, as it costs nothing.
    order = sorted((i for i, n in enumerate(numbers) if n), key=lambda i: numbers[i] != 1)
    total: LLVMValue | None = None
    for i in order:
        number = float(numbers[i])
        step: Callable[[LLVMValue, LLVMValue], LLVMValue] | None = {1.0: v.plus, -1.0: v.minus}.get(number)
        if total is None:
            total = column[i] if number == 1 else v.product(column[i], v.number(number))
        elif step is not None:
            total = step(total, column[i])
        else:
            total = v.fma(column[i], v.number(number), total)
    return v.zero if total is None else total

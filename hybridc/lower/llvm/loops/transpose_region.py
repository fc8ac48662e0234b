"""The parallel region of a kernel that only transposes, perhaps into the inside of a border: squares in registers.

The array is read along its contiguous axis, and the result written along its own. The range of the parallel region is
strips along the first of these, some squares wide, for all outer indices. For wide strips the hardware prefetches the
rows: a 1024 x 1024 matrix takes a third less with sixteen squares than with one. The last squares of a strip or a
column end with it, and may repeat elements.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp, f32, f64, i1
from xdsl.ir import SSAValue

from hybridc.dialects.operator_attribute import DType
from hybridc.ground.sizes import row_major
from hybridc.ir.costs import copy_time, sharing
from hybridc.ir.kernel import Kernel
from hybridc.ir.planned import Strides
from hybridc.ir.structured import Shape, dtype_of, shape_of
from hybridc.ir.structured_builder import operation_properties
from hybridc.lower.llvm.codegen.native_function import NativeFunction
from hybridc.lower.llvm.gemm.gemm_region import Arguments, Index, Vectors, region, registers
from hybridc.lower.llvm.loops.loop_builder import INDEX
from hybridc.lower.llvm.loops.moved_elements import MovedArray, moved_array
from hybridc.lower.llvm.loops.parallel_regions import ParallelRegion, copy_region
from hybridc.transforms.kernels.schedule_register_tiles import Registers

# The most squares of a strip.
_SQUARES = 16
# The least outer loops that code has; matmuls, too, have loops of size 1 so that one function serves many.
_LEAST = 2
_ELEMENTS = {np.dtype(np.float32): f32, np.dtype(np.float64): f64}


class _Axis(NamedTuple):
    """An axis of the result: its size, the steps in the array and in the result, and where the array is read."""

    size: int
    source: int
    target: int
    low: int
    high: int


def transpose_region(kernel: Kernel, strides: Mapping[int, Strides]) -> ParallelRegion | None:
    """The parallel region of a kernel that only transposes; None if it does more, or squares do not fit.

    ``strides``, in elements, are those of its argument or its result that is not contiguous.
    """
    vectors, moved = registers(), moved_array(kernel.ops[0]) if len(kernel.ops) == 1 else None
    if vectors is None or moved is None or len(kernel.arguments) != 1 or len(kernel.results) != 1:
        return None
    dtype = dtype_of(kernel.ops[0].result)
    found = _axes(kernel, moved, strides) if dtype in _ELEMENTS else None
    if found is None:
        return None
    axes, first = found
    return _region(dtype, vectors, axes, first, moved.outside)


def rearranging_region(dtype: DType, shape: Shape, strides: Strides, source: int, target: int) -> ParallelRegion:
    """The region that copies a strided array into a contiguous one: by squares, if it is transposed and they fit."""
    vectors = registers()
    axes = [_Axis(n, step, to, 0, n) for n, step, to in zip(shape, strides, row_major(shape), strict=True) if n != 1]
    made = _region(dtype, vectors, axes, 0, 0.0) if vectors is not None and dtype in _ELEMENTS else None
    if made is None:
        return copy_region(dtype, shape, strides, source, target)
    return replace(made, buffers=(source, target))


def _region(
    dtype: DType, vectors: Registers, axes: Sequence[_Axis], first: int, outside: float
) -> ParallelRegion | None:
    """The region of a transposition; None if it is none, or squares do not fit."""
    lanes = vectors.lanes(dtype)
    along = next((a for a in axes if a.source == 1), None)
    down = next((a for a in axes if a.target == 1), None)
    if along is None or down is None or along is down or not all(a.size for a in axes):
        return None
    if along.high - along.low < lanes or down.size < lanes or (down.low, down.high) != (0, down.size):
        return None
    outer = [a for a in axes if a is not along and a is not down]
    outer = [*[_Axis(1, 0, 0, 0, 1)] * (_LEAST - len(outer)), *outer]
    squares = math.ceil(along.size / lanes)
    width = lanes * math.ceil(squares / math.ceil(squares / _SQUARES))
    strips = math.ceil(along.size / width)
    extent = math.prod(a.size for a in outer) * strips
    work = copy_time(2 * math.prod(a.size for a in axes) * dtype.itemsize)
    grain, least = sharing(work, extent)
    numbers = (width, strips, first, along.size, along.low, along.high, down.size, down.source, along.target)
    numbers += tuple(n for a in outer for n in a)
    code = _Transposition(dtype, vectors, len(outer), outside)
    function = NativeFunction(f"transpose {code}", code.module)
    return ParallelRegion(function, (0, 1), numbers, extent, grain, 0, work, least)


def _axes(kernel: Kernel, moved: MovedArray, strides: Mapping[int, Strides]) -> tuple[list[_Axis], int] | None:
    """The axes of the result, and the array's offset where all are 0; None if one does not index both arrays once."""
    (kernel_op,), result = kernel.ops, kernel.results[0]
    if moved.value is not kernel.arguments[0] or kernel_op.result is not result:
        return None
    places = {place.axis: i for i, place in enumerate(moved.places)}
    if len(places) != len(moved.places) or {*places} != {*kernel_op.axes}:
        return None
    source = strides.get(0) or row_major(shape_of(moved.value))
    target = strides.get(1) or row_major(shape_of(result))
    first = sum(place.offset * step for place, step in zip(moved.places, source, strict=True))
    sizes = kernel_op.extents
    return [
        _Axis(sizes[a], source[places[a]], step, *moved.bounds[a])
        for a, step in zip(kernel_op.axes, target, strict=True)
    ], first


@dataclass(frozen=True)
class _Transposition:
    """What code follows from."""

    dtype: DType
    vectors: Registers
    outer: int
    outside: float

    def module(self) -> ModuleOp:
        """The module with the function."""
        element = _ELEMENTS[self.dtype]
        return region([element] * 2, 9 + 5 * self.outer, self._write)

    def _write(self, given: Arguments) -> None:
        v = Vectors(given.b, _ELEMENTS[self.dtype], self.vectors.lanes(self.dtype))
        width, strips, base, size, low, high, rows, source_step, target_step, *numbers = given.numbers
        outer = [numbers[5 * i : 5 * i + 5] for i in range(self.outer)]
        filler = v.number(self.outside)

        def strip(i: Index, _: Sequence[SSAValue]) -> None:
            first = i % strips * width
            last, source, target, inside, point = (first + width).least(size), base, i.of(0), i.of(1), i // strips
            for number, (count, step, to, begin, end) in reversed([*enumerate(outer)]):
                index = point % count if number else point
                point = point // count if number else point
                source, target = source + index * step, target + index * to
                inside = inside * _within(index, begin, end)
            begin = low.most(first).least(last)
            end = begin + (high.least(last).most(begin) - begin) * inside
            fill(first, begin, target)
            given.loop(0, rows, lambda row, _: squares(begin, end, row.least(rows - v.lanes), source, target), v.lanes)
            fill(end, last, target)

        def fill(begin: Index, end: Index, target: Index) -> None:
            def line(at: Index, _: Sequence[SSAValue]) -> None:
                def vector(row: Index, _: Sequence[SSAValue]) -> None:
                    v.store(filler, given.arrays[1], target + at * target_step + row.least(rows - v.lanes))

                given.loop(0, rows, vector, step=v.lanes)

            given.loop(begin, end, line)

        def squares(begin: Index, end: Index, row: Index, source: Index, target: Index) -> None:
            def square(at: Index, _: Sequence[SSAValue]) -> None:
                at = at.least(high - v.lanes)
                loaded = [v.load(given.arrays[0], source + at + source_step * (row + j)) for j in range(v.lanes)]
                for j, turned in enumerate(v.transposed(loaded)):
                    v.store(turned, given.arrays[1], target + row + (at + j) * target_step)

            given.loop(begin, end, square, step=v.lanes)

        given.loop(given.lo, given.hi, strip)


def _within(index: Index, low: Index, high: Index) -> Index:
    """1 if an index is at least ``low`` and less than ``high``, else 0."""
    b = index.b
    operands = [(index - low).value, (high - low).value]
    flag = b.pure(arith.CmpiOp, operands, i1, operation_properties("arith.cmpi ult"))
    return Index(b, b.pure(arith.SelectOp, [flag, b.index(1), b.index(0)], INDEX))

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

import numpy as np
from xdsl.dialects.builtin import f32, f64

from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.ground.sizes import row_major
from hybridc.ir.costs import copy_time, sharing
from hybridc.ir.kernel import Kernel, Number
from hybridc.ir.planned import Strides
from hybridc.ir.structured import dtype_of, shape_of
from hybridc.lower.llvm.codegen.function_text import LLVMValue
from hybridc.lower.llvm.codegen.native_function import NativeFunction
from hybridc.lower.llvm.gemm.gemm_region import Arguments, Index, RegionBuilder, Vectors, region, registers
from hybridc.lower.llvm.loops.moved_elements import moved_array
from hybridc.lower.llvm.loops.parallel_regions import (
    ONE,
    MovedAxis,
    ParallelRegion,
    coalesced_axes,
    copied_axes,
    copy_region,
    move_region,
    within,
)
from hybridc.transforms.schedules.schedule_register_tiles import Registers

# The most squares of a strip.
_SQUARES = 16
# The least elements of a row that is moved by code for all sizes: those of fewer are moved by code with constant sizes.
_RUN = 8
# The least outer loops that code has; matmuls, too, have loops of size 1 so that one function serves many.
_LEAST = 2
_ELEMENTS = {np.dtype(np.float32): f32, np.dtype(np.float64): f64}


def transpose_region(kernel: Kernel, strides: Mapping[int, Strides]) -> ParallelRegion | None:
    """The parallel region of a kernel that only transposes; None if it does more, or squares do not fit.

    ``strides``, in elements, are those of its argument or its result that is not contiguous.
    """
    given = _moved(kernel, strides)
    return None if given is None else _region(*given)


def moved_region(kernel: Kernel, strides: Mapping[int, Strides]) -> ParallelRegion | None:
    """As :func:`transpose_region`, or row by row if squares do not fit; None if the rows are too short."""
    given = _moved(kernel, strides)
    made = None if given is None else _region(*given)
    if made is None and given is not None and coalesced_axes(given[1])[-1].size >= _RUN:
        return move_region(*given)
    return made


def rearranging_region(dtype: DType, shape: Shape, strides: Strides, source: int, target: int) -> ParallelRegion:
    """The region that copies a strided array into a contiguous one: by squares, if it is transposed and they fit."""
    made = _region(dtype, copied_axes(shape, strides), 0, 0)
    if made is None:
        return copy_region(dtype, shape, strides, source, target)
    return replace(made, buffers=(source, target))


def _region(dtype: DType, axes: Sequence[MovedAxis], first: int, outside: Number) -> ParallelRegion | None:
    """The region of a transposition; None if it is none, or squares do not fit."""
    vectors = registers()
    if vectors is None or dtype not in _ELEMENTS:
        return None
    lanes, axes = vectors.lanes(dtype), [a for a in axes if a.size != 1 or not a.is_whole]
    along = next((a for a in axes if a.source == 1), None)
    down = next((a for a in axes if a.target == 1), None)
    if along is None or down is None or along is down or not all(a.size for a in axes):
        return None
    if along.high - along.low < lanes or down.size < lanes or (down.low, down.high) != (0, down.size):
        return None
    outer = [a for a in axes if a is not along and a is not down]
    outer = [*[ONE] * (_LEAST - len(outer)), *outer]
    squares = math.ceil(along.size / lanes)
    width = lanes * math.ceil(squares / math.ceil(squares / _SQUARES))
    strips = math.ceil(along.size / width)
    extent = math.prod(a.size for a in outer) * strips
    work = copy_time(2 * math.prod(a.size for a in axes) * dtype.itemsize)
    grain, least = sharing(work, extent)
    numbers = (width, strips, first, along.size, along.low, along.high, down.size, down.source, along.target)
    numbers += tuple(n for a in outer for n in a)
    code = _Transposition(dtype, vectors, len(outer), float(outside))
    function = NativeFunction(f"transpose {code}", code.builder())
    return ParallelRegion(function, (0, 1), numbers, extent, grain, 0, work, least)


def _moved(kernel: Kernel, strides: Mapping[int, Strides]) -> tuple[DType, list[MovedAxis], int, Number] | None:
    """What a kernel moves that does nothing else: axes of the result, the offset where all are 0, what is outside."""
    moved = moved_array(kernel.ops[0]) if len(kernel.ops) == 1 else None
    if moved is None or len(kernel.arguments) != 1 or len(kernel.results) != 1:
        return None
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
    axes = [
        MovedAxis(sizes[a], source[places[a]], step, *moved.bounds[a])
        for a, step in zip(kernel_op.axes, target, strict=True)
    ]
    return dtype_of(result), axes, first, moved.outside


@dataclass(frozen=True)
class _Transposition:
    """What code follows from."""

    dtype: DType
    vectors: Registers
    outer: int
    outside: float

    def builder(self) -> RegionBuilder:
        """What writes the function."""
        element = _ELEMENTS[self.dtype]
        return region([element] * 2, 9 + 5 * self.outer, self._write)

    def _write(self, given: Arguments) -> None:
        v = Vectors(given.b, _ELEMENTS[self.dtype], self.vectors.lanes(self.dtype))
        width, strips, base, size, low, high, rows, source_step, target_step, *numbers = given.numbers
        outer = [numbers[5 * i : 5 * i + 5] for i in range(self.outer)]
        filler = v.number(self.outside)

        def strip(i: Index, _: Sequence[LLVMValue]) -> None:
            first = i % strips * width
            last, source, target, inside, point = (first + width).least(size), base, i.of(0), i.of(1), i // strips
            for number, (count, step, to, begin, end) in reversed([*enumerate(outer)]):
                index = point % count if number else point
                point = point // count if number else point
                source, target = source + index * step, target + index * to
                inside = inside * within(index, begin, end)
            begin = low.most(first).least(last)
            end = begin + (high.least(last).most(begin) - begin) * inside
            fill(first, begin, target)
            given.loop(0, rows, lambda row, _: squares(begin, end, row.least(rows - v.lanes), source, target), v.lanes)
            fill(end, last, target)

        def fill(begin: Index, end: Index, target: Index) -> None:
            def line(at: Index, _: Sequence[LLVMValue]) -> None:
                def vector(row: Index, _: Sequence[LLVMValue]) -> None:
                    v.store(filler, given.arrays[1], target + at * target_step + row.least(rows - v.lanes))

                given.loop(0, rows, vector, step=v.lanes)

            given.loop(begin, end, line)

        def squares(begin: Index, end: Index, row: Index, source: Index, target: Index) -> None:
            def square(at: Index, _: Sequence[LLVMValue]) -> None:
                at = at.least(high - v.lanes)
                loaded = [v.load(given.arrays[0], source + at + source_step * (row + j)) for j in range(v.lanes)]
                for j, turned in enumerate(v.transposed(loaded)):
                    v.store(turned, given.arrays[1], target + row + (at + j) * target_step)

            given.loop(begin, end, square, step=v.lanes)

        given.loop(given.lo, given.hi, strip)

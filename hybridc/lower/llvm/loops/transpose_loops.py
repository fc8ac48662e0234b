"""A transpose kernel: squares that are transposed in registers.

The range of the parallel region is strips of the source, some squares wide, for all outer indices. For wide strips
the hardware prefetches the rows: a 1024 x 1024 matrix takes a third less with sixteen squares than with one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import ModuleOp, f32, f64
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import SSAValue

from hybridc.dialects.operator_attribute import DType
from hybridc.ir.contraction_shape import Loop, few_forms
from hybridc.ir.costs import copy_time, sharing
from hybridc.ir.kernel import Kernel, KernelOp
from hybridc.ir.strides import row_major
from hybridc.ir.structured import dtype_of, shape_of
from hybridc.lower.llvm.codegen.native_function import NativeFunction
from hybridc.lower.llvm.gemm.gemm_region import Arguments, Index, Vectors, Walk, region, registers
from hybridc.lower.llvm.loops.parallel_regions import ParallelRegion
from hybridc.transforms.kernels.schedule_matmuls import Registers

# The most squares of a strip.
_SQUARES = 16
# Fixed scalar arguments, before those of the loops: the width of a strip, strips per row, the source's rows, and the
# non-unit strides of both arrays.
_FIXED = 5
_ELEMENTS = {np.dtype(np.float32): f32, np.dtype(np.float64): f64}


def transpose_region(kernel: Kernel) -> ParallelRegion | None:
    """The parallel region of a kernel that only transposes; None if it does more, or squares do not fit."""
    vectors = registers()
    kernel_op = kernel.ops[0] if len(kernel.ops) == 1 else None
    if vectors is None or kernel_op is None or not _only_moves(kernel_op):
        return None
    dtype, (read,) = dtype_of(kernel_op.result), kernel_op.reads
    if dtype not in _ELEMENTS or read.axes[-1:] == kernel_op.axes[-1:] or {*read.axes} != {*kernel_op.axes}:
        return None
    source = dict(zip(read.axes, row_major(shape_of(read.value)), strict=True))
    target = dict(zip(kernel_op.axes, row_major(shape_of(kernel_op.result)), strict=True))
    size = dict(zip(kernel_op.axes, shape_of(kernel_op.result), strict=True))
    along, down, lanes = read.axes[-1], kernel_op.axes[-1], vectors.lanes(dtype)
    if not all(size.values()) or size[along] % lanes or size[down] % lanes:
        return None
    others = [Loop(size[a], source[a], 0, target[a]) for a in kernel_op.axes if a not in (along, down)]
    around = few_forms(others or [Loop(1, 0, 0, 0)])
    squares = size[along] // lanes
    strip = lanes * max(n for n in range(1, _SQUARES + 1) if squares % n == 0)
    extent = math.prod(loop.size for loop in around) * size[along] // strip
    work = copy_time(2 * math.prod(size.values()) * dtype.itemsize)
    grain, least = sharing(work, extent)
    numbers = (strip, size[along] // strip, size[down], source[down], target[along], *Walk.values(around))
    function = NativeFunction(f"transpose {dtype.name} {vectors} {len(around)}", lambda: _build(dtype, vectors, around))
    return ParallelRegion(function, (0, 1), numbers, extent, grain, 0, work, least)


def _only_moves(kernel_op: KernelOp) -> bool:
    """Whether an op only moves elements."""
    block = kernel_op.op.regions[0].block
    end = block.last_op
    alone = kernel_op.kind == "elementwise" and len(kernel_op.reads) == 1 and end is block.first_op
    return alone and isinstance(end, linalg.YieldOp) and end.operands[0] is block.args[0]


def _build(dtype: DType, vectors: Registers, around: Sequence[Loop]) -> ModuleOp:
    element = _ELEMENTS[dtype]

    def write(given: Arguments) -> None:
        v = Vectors(given.b, element, vectors.lanes(dtype))
        width, strips, rows, source_step, target_step = given.numbers[:_FIXED]
        walk = Walk.read(around, given.numbers[_FIXED:])

        def strip(i: Index, _: Sequence[SSAValue]) -> None:
            first = i % strips * width
            at = walk.offsets(i // strips)
            source, target = at[0] + first, at[2] + first * target_step
            given.loop(0, rows, lambda row, _: squares(source + row * source_step, target + row), step=v.lanes)

        def squares(source: Index, target: Index) -> None:
            def square(at: Index, _: Sequence[SSAValue]) -> None:
                loaded = [v.load(given.arrays[0], source + at + source_step * j) for j in range(v.lanes)]
                for j, turned in enumerate(v.transposed(loaded)):
                    v.store(turned, given.arrays[1], target + (at + j) * target_step)

            given.loop(0, width, square, step=v.lanes)

        given.loop(given.lo, given.hi, strip)

    return region([element] * 2, _FIXED + Walk.count(around), write)

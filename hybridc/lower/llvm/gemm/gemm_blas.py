"""Matmul by BLAS: one native function for all sizes, which calls gemm on tiles of rows or columns.

The range of the parallel region is *tiles* of all matrices of the batch: some rows of the left matrix, or columns of
the right one. Each is one BLAS call, whose rounding depends on its sizes. So tiles follow from
the sizes alone, and results are the same for any number of threads, however busy the machine is.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, f32, f64, i8, i32

from hybridc.dialects.operator_attribute import DType
from hybridc.ground.machine import NOMINAL
from hybridc.ir.contraction_shape import Loop, Matrices, few_forms, time_of
from hybridc.ir.costs import HIDE_PACKING, grain_of, matmul_time
from hybridc.lower.llvm.codegen.function_text import LLVMValue
from hybridc.lower.llvm.codegen.native_function import NativeFunction
from hybridc.lower.llvm.gemm import native_blas
from hybridc.lower.llvm.gemm.gemm_region import (
    Arguments,
    Index,
    RegionBuilder,
    Walk,
    region,
)
from hybridc.lower.llvm.loops.parallel_regions import ParallelRegion

ROW_MAJOR, PLAIN, TRANSPOSED = 101, 111, 112  # constants of CBLAS

# Fixed scalar arguments of the region, before those of the loops.
_FIXED = 15
# Rows or columns of a tile, about, for each of which BLAS packs the other matrix again: 1 to 3 % of its time. For so
# small a batch each matrix has at least two tiles, which begin at multiples of a block.
_TILE, _FEW, _BLOCK = HIDE_PACKING, 8, 16


@dataclass(frozen=True)
class _Operand:
    """A matrix for BLAS: whether it is transposed, and its leading dimension."""

    order: int
    leading: int


def blas_region(given: Matrices, dtype: DType, buffers: tuple[int, ...]) -> ParallelRegion | None:
    """The parallel region that calls BLAS; None if BLAS does not support these arrays."""
    name = native_blas.GEMM.get(dtype)
    a = _operand((given.m, given.k), given.a)
    b = _operand((given.k, given.n), given.b)
    c = _operand((given.m, given.n), given.c)
    if name is None or name not in native_blas.addresses():
        return None
    if a is None or b is None or c is None or c.order != PLAIN:
        return None
    if max(given.m, given.n, given.k, a.leading, b.leading, c.leading) > native_blas.LARGEST or given.k == 0:
        return None
    around, over = few_forms(given.around), given.over
    batches = given.batches
    cut_columns = given.n > given.m
    span = given.n if cut_columns else given.m
    steps = (0, given.b[1], 1) if cut_columns else (given.a[0], 0, given.c[0])
    # A size is a constant plus a multiple of the tile's size.
    sizes = (given.m, 0, 0, 1) if cut_columns else (0, 1, given.n, 0)
    # How BLAS adds depends on the tile that it is given.
    large = time_of(given, dtype, NOMINAL) >= NOMINAL.shared
    tile = _tile(span, batches, large)
    fixed = (a.order, b.order, *sizes, given.k, a.leading, b.leading, c.leading, *steps, span, tile)
    extent = math.ceil(span / tile) * batches
    numbers = (*fixed, *Walk.values(around), *Walk.values(over))
    key = f"matmul-blas {dtype.name} around {len(around)} over {Walk.key(over)}"

    return ParallelRegion(
        NativeFunction(key, _builder(dtype, name, around, over)),
        buffers,
        numbers,
        extent=extent,
        grain=grain_of(extent, time_of(given, dtype)),
        scratch=0,
        work=matmul_time(given.flops),
        algorithm="blas",
    )


def _operand(sizes: tuple[int, int], strides: tuple[int, int]) -> _Operand | None:
    """A matrix as BLAS reads it, if one of its axes is contiguous."""
    (rows, columns), (down, right) = sizes, strides
    if columns <= 1 or right == 1:
        leading = down if rows > 1 else max(columns, 1)
        if leading >= max(columns, 1):
            return _Operand(PLAIN, leading)
    if rows <= 1 or down == 1:
        leading = right if columns > 1 else max(rows, 1)
        if leading >= max(rows, 1):
            return _Operand(TRANSPOSED, leading)
    return None


def _tile(span: int, batches: int, large: bool) -> int:
    """Rows or columns of a tile."""
    tiles = max(2, span // _TILE) if large and batches < _FEW else span // _TILE
    return math.ceil(span / max(1, tiles) / _BLOCK) * _BLOCK


def _builder(dtype: DType, name: str, around: tuple[Loop, ...], over: tuple[Loop, ...]) -> RegionBuilder:
    element = f32 if dtype == np.float32 else f64
    numbers = _FIXED + Walk.count(around) + Walk.count(over)

    def write(given: Arguments) -> None:
        _write(given, name, element, dtype.itemsize, around, over)

    # Arrays are bytes here, so that a tile can be passed to BLAS as a view at its offset.
    return region([i8, i8, i8], numbers, write)


def _write(
    given: Arguments, name: str, element: AnyFloat, size: int, around: tuple[Loop, ...], over: tuple[Loop, ...]
) -> None:
    b = given.b
    order_a, order_b, m, m_part, n, n_part, k, lda, ldb, ldc, *steps, span, tile = given.numbers[:_FIXED]
    after = _FIXED + Walk.count(around)
    outer, inner = Walk.read(around, given.numbers[_FIXED:after]), Walk.read(over, given.numbers[after:])
    zero, one = (b.constant(FloatAttr(x, element), element) for x in (0.0, 1.0))

    tiles = span.ceildiv(tile)

    def multiplied(number: Index, _: Sequence[LLVMValue]) -> None:
        batch, first = number // tiles, number % tiles * tile
        count = (span - first).least(tile)
        at = [x + first * step for x, step in zip(outer.offsets(batch), steps, strict=True)]
        if not over:
            multiply(at, count, zero)
            return
        terms = functools.reduce(operator.mul, inner.sizes)

        def term(i: Index, sofar: Sequence[LLVMValue]) -> Sequence[LLVMValue]:
            multiply([x + y for x, y in zip(at, inner.offsets(i), strict=True)], count, sofar[0])
            return [one]  # beta is 1 after the first

        given.loop(0, terms, term, starts=[zero])

    def multiply(at: Sequence[Index], count: Index, beta: LLVMValue) -> None:
        """One call of BLAS; each size is fixed, or the tile's."""
        arrays = [b.view(x, (i * size).value, element) for x, i in zip(given.arrays, at, strict=True)]
        sizes = (order_a, order_b, m + m_part * count, n + n_part * count, k)
        flags = [x.integer(i32) for x in sizes]
        a_row, b_row, c_row = [x.integer(i32) for x in (lda, ldb, ldc)]
        order = b.constant(IntegerAttr(ROW_MAJOR, i32), i32)
        operands = [order, *flags, one, arrays[0], a_row, arrays[1], b_row, beta, arrays[2], c_row]
        b.call_external(name, operands)

    given.loop(given.lo, given.hi, multiplied)

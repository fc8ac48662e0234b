"""The schedule of a matmul as calls of BLAS, whose code is one for all sizes.

The range of the parallel region is *tiles* of all matrices of the batch: some rows of the left matrix, or columns of
the right one. Each is one BLAS call, whose rounding depends on its sizes. So tiles follow from the sizes alone, and
results are the same for any number of threads, however busy the machine is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from hybridc.dialects.operator_attribute import DType
from hybridc.ground.machine import NOMINAL
from hybridc.ground.records import dataclass
from hybridc.ir.contraction_shape import Loop, Matrices, few_forms, time_of
from hybridc.ir.costs import HIDE_PACKING, grain_of, matmul_time

# As CBLAS names the orders of a matrix; the largest size or leading dimension that fits its interface.
PLAIN, TRANSPOSED, LARGEST = 111, 112, 2**31 - 1
# Rows or columns of a tile, about, for each of which BLAS packs the other matrix again: 1 to 3 % of its time. For so
# small a batch each matrix has at least two tiles, which begin at multiples of a block.
_TILE, _FEW, _BLOCK = HIDE_PACKING, 8, 16


@dataclass(frozen=True)
class BlasCall:
    """Calls of a BLAS: code for matrices of a dtype, in a batch with loops ``around``, summed ``over`` further loops.

    Of a loop the code depends on which of the three arrays it indexes. Arguments are the orders of the left and the
    right matrix; their rows and columns, each a number plus a multiple of the tile's; the terms; three leading
    dimensions; the steps from one row or column of the tile to the next in each array; how many of these there are, and
    how many a tile has; then of each loop its size and the strides of the arrays that it indexes.
    """

    dtype: DType
    around: tuple[tuple[bool, bool, bool], ...]
    over: tuple[tuple[bool, bool, bool], ...]


@dataclass(frozen=True)
class BlasSchedule:
    """Calls of BLAS with the numbers that their code is given; threads share ``extent`` tiles."""

    call: BlasCall
    numbers: tuple[int, ...]
    extent: int
    grain: int
    work: float


@dataclass(frozen=True)
class _BlasOperand:
    """A matrix for BLAS: whether it is transposed, and its leading dimension."""

    order: int
    leading: int


def schedule_blas(matrices: Matrices, dtype: DType) -> BlasSchedule | None:
    """The schedule of a matmul by BLAS; None if BLAS does not support these arrays."""
    m, n, k = matrices.m, matrices.n, matrices.k
    a, b, c = _operand((m, k), matrices.a), _operand((k, n), matrices.b), _operand((m, n), matrices.c)
    if a is None or b is None or c is None or c.order != PLAIN:
        return None
    if max(m, n, k, a.leading, b.leading, c.leading) > LARGEST or k == 0:
        return None
    around, over = few_forms(matrices.around), matrices.over
    cut_columns = n > m
    span = n if cut_columns else m
    steps = (0, matrices.b[1], 1) if cut_columns else (matrices.a[0], 0, matrices.c[0])
    # A size is a constant plus a multiple of the tile's size.
    sizes = (m, 0, 0, 1) if cut_columns else (0, 1, n, 0)
    # How BLAS adds depends on the tile that it is given.
    large = time_of(matrices, dtype, NOMINAL) >= NOMINAL.shared
    tile = _tile(span, matrices.batches, large)
    fixed = (a.order, b.order, *sizes, k, a.leading, b.leading, c.leading, *steps, span, tile)
    extent = math.ceil(span / tile) * matrices.batches
    numbers = (*fixed, *_numbers(around), *_numbers(over))
    call = BlasCall(dtype, tuple(loop.kind for loop in around), tuple(loop.kind for loop in over))
    return BlasSchedule(call, numbers, extent, grain_of(extent, time_of(matrices, dtype)), matmul_time(matrices.flops))


def _numbers(loops: Sequence[Loop]) -> tuple[int, ...]:
    """The arguments of loops."""
    return tuple(n for x in loops for n in (x.size, *(s for s in (x.a, x.b, x.c) if s is not None)))


def _operand(sizes: tuple[int, int], strides: tuple[int, int]) -> _BlasOperand | None:
    """A matrix as BLAS reads it, if one of its axes is contiguous."""
    (rows, columns), (down, right) = sizes, strides
    if columns <= 1 or right == 1:
        leading = down if rows > 1 else max(columns, 1)
        if leading >= max(columns, 1):
            return _BlasOperand(PLAIN, leading)
    if rows <= 1 or down == 1:
        leading = right if columns > 1 else max(rows, 1)
        if leading >= max(rows, 1):
            return _BlasOperand(TRANSPOSED, leading)
    return None


def _tile(span: int, batches: int, large: bool) -> int:
    """Rows or columns of a tile."""
    tiles = max(2, span // _TILE) if large and batches < _FEW else span // _TILE
    return math.ceil(span / max(1, tiles) / _BLOCK) * _BLOCK

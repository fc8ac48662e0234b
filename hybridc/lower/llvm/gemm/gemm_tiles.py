"""The parallel regions of matmuls by tiles of vector registers, or by dot products.

The range of a region is the panels of all matrices of the batch: as many columns as two vectors hold, or a vector of
dot products. With prepacked panels it is the rows, which then meet one panel after the other.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from hybridc.dialects.operator_attribute import DType
from hybridc.ground.machine import CHUNKS
from hybridc.ir.contraction_shape import COLUMN, Loop, Matrices
from hybridc.ir.costs import SAME_SET, grain_of, is_shared, matmul_time
from hybridc.lower.llvm.codegen.native_function import NativeFunction
from hybridc.lower.llvm.gemm.gemm_region import few_forms, registers, time_of
from hybridc.lower.llvm.gemm.tiles_to_matmul import SQUARE, matmul_loops_module, scratch_bytes
from hybridc.lower.llvm.loops.parallel_regions import ParallelRegion, program_key
from hybridc.transforms.kernels.schedule_contractions import (
    DOTS,
    LOW,
    MatmulProgram,
    Registers,
    RegisterTile,
    dot_program,
    exchanged_program,
    matmul_loops,
    prepacked_program,
    tile_program,
)

# The least rows for which a panel is packed, where there are more.
ROWS = 48
# The same where the result is transposed, as long as each thread has some: packing takes a few percent of the
# time then.
ROWS_TO_TURN = 256
# The least rows that a group of columns of dot products is multiplied with, where there are more.
ROWS_OF_DOTS = 16
# The least columns for which packing rows pays: it takes as long as multiplying with ten.
COLUMNS = 128
# A batch loop of size 1. Matmuls without one have it, as to compile another function takes longer than these do.
ONCE = (Loop(1, 0, 0, 0),)


def panel_width(dtype: DType, vectors: Registers) -> int:
    """Columns of a panel."""
    return RegisterTile(dtype, vectors).width


def panel_columns(columns: int, dtype: DType, vectors: Registers) -> int:
    """Columns of all panels, with padding."""
    width = panel_width(dtype, vectors)
    return math.ceil(columns / width) * width


def is_prepacked(given: Matrices, width: int) -> bool:
    """Whether the right matrix is prepacked in panels of so many columns."""
    if given.over or given.k == 0 or [x.kind for x in given.around] not in ([], [COLUMN]):
        return False
    return given.n == width and given.b == (width, 1)


def tile_region(given: Matrices, dtype: DType, buffers: tuple[int, ...], threads: int) -> ParallelRegion | None:
    """The parallel region of register tiles; None if it does not support these arrays."""
    vectors = registers()
    if vectors is None or given.over or given.k == 0 or given.m < LOW:
        return None
    tile = RegisterTile(dtype, vectors)
    given = _in_blocks(given, tile.width, dtype, threads, ROWS)
    around = few_forms(given.around or ONCE)
    return _column_region("tiles", tile_program(tile, len(around)), given, around, dtype, buffers, tile.width)


def turned_region(given: Matrices, dtype: DType, buffers: tuple[int, ...], threads: int) -> ParallelRegion | None:
    """The parallel region of register tiles with exchanged operands; None if it does not support these arrays.

    The left matrix is packed into panels, and the right one is read in place, if its columns are contiguous.
    """
    vectors, given, (left, right, *others) = registers(), given.exchanged(), buffers
    if vectors is None or given.over or given.k == 0 or (given.a[1] != 1 and given.k > 1):
        return None
    tile = RegisterTile(dtype, vectors)
    parts = _parts(given, tile, threads)
    rows = math.ceil(given.m / parts / tile.lanes) * tile.lanes
    given = _in_blocks(given, tile.width, dtype, threads, given.m)
    around = few_forms(given.around or ONCE)
    program = exchanged_program(tile, len(around))
    return _column_region("turned", program, given, around, dtype, (right, left, *others), tile.width, rows)


def dot_region(given: Matrices, dtype: DType, buffers: tuple[int, ...], threads: int) -> ParallelRegion | None:
    """The parallel region of dot products; None if rows are not contiguous whole vectors."""
    vectors = registers()
    if vectors is None or given.over or (given.a[1], given.b[0]) != (1, 1) or given.k % vectors.lanes(dtype):
        return None
    tile = RegisterTile(dtype, vectors)
    height = min(DOTS, tile.lanes)
    while height > given.m:
        height //= 2
    width = tile.lanes // height
    given = _in_blocks(given, width, dtype, threads, ROWS_OF_DOTS)
    around = few_forms(given.around)
    return _column_region("dots", dot_program(tile, height, len(around)), given, around, dtype, buffers, width)


def row_region(given: Matrices, dtype: DType, buffers: tuple[int, ...], threads: int) -> ParallelRegion | None:
    """The parallel region over rows, for a prepacked right matrix; None if it is not prepacked."""
    vectors = registers()
    if vectors is None or not is_prepacked(given, panel_width(dtype, vectors)):
        return None
    tile = RegisterTile(dtype, vectors)
    (panels,) = given.around or (Loop(1, None, 0, 0),)
    made = prepacked_program(tile, _packs(given, panels.size, tile))
    return ParallelRegion(
        _function(made),
        buffers,
        made.numbers(loops := matmul_loops(given, (panels,))),
        extent=given.m,
        grain=_grain(given.m, tile.block, threads, time_of(given, dtype)),
        scratch=scratch_bytes(made.program, _sizes(loops)),
        work=matmul_time(given.flops),
        algorithm="rows",
    )


def _column_region(
    algorithm: str,
    made: MatmulProgram,
    given: Matrices,
    around: Sequence[Loop],
    dtype: DType,
    buffers: tuple[int, ...],
    width: int,
    rows: int | None = None,
) -> ParallelRegion:
    """The parallel region over groups of ``width`` columns, and blocks of ``rows``."""
    loops, time = matmul_loops(given, around), time_of(given, dtype)
    extent = math.ceil(given.n / width) * given.batches * (1 if rows is None else math.ceil(given.m / rows))
    return ParallelRegion(
        _function(made),
        buffers,
        made.numbers(loops, *(() if rows is None else (rows,))),
        extent=extent,
        grain=grain_of(extent, time),
        scratch=scratch_bytes(made.program, _sizes(loops)),
        work=matmul_time(given.flops),
        algorithm=algorithm,
    )


@functools.lru_cache(256)
def _function(made: MatmulProgram) -> NativeFunction:
    """The native function of a program."""
    return NativeFunction(program_key(made.program), lambda: matmul_loops_module(made.program), made.program)


def _sizes(loops: Sequence[Loop]) -> dict[int, int]:
    return {axis: loop.size for axis, loop in enumerate(loops)}


def _in_blocks(given: Matrices, width: int, dtype: DType, threads: int, rows: int) -> Matrices:
    """The matmul with blocks of at least so many rows as a batch loop, where threads share few groups of columns."""
    if not is_shared(time_of(given, dtype)):
        return given
    return given.in_blocks(CHUNKS * threads // (math.ceil(given.n / width) * given.batches), rows)


def _parts(given: Matrices, tile: RegisterTile, threads: int) -> int:
    """The number of blocks of rows, each with its own copy of the panel: a multiple of the threads, if possible."""
    units = math.ceil(given.n / tile.width) * given.batches
    if not is_shared(time_of(given, tile.dtype)):
        return 1
    least = max(ROWS, min(ROWS_TO_TURN, given.m * units // threads))
    parts, step = min(CHUNKS * threads // units, given.m // least), threads // math.gcd(threads, units)
    return max(1, parts // step * step if parts >= step else parts)


def _packs(given: Matrices, panels: int, tile: RegisterTile) -> bool:
    """Whether blocks of the left matrix are packed: for many columns, and if rows conflict in the cache."""
    row, term = given.a
    apart = (term if row == 1 else row) * tile.dtype.itemsize
    return 1 in given.a and given.k >= SQUARE and (panels * tile.width >= COLUMNS or apart % SAME_SET == 0)


def _grain(extent: int, rows: int, threads: int, time: float) -> int:
    """The grain: all rows, or equal parts for the threads, of at least a block each."""
    if threads == 1 or not is_shared(time):
        return extent
    parts = threads * max(1, min(CHUNKS, extent // (threads * rows)))
    return -(-extent // (4 * parts)) * 4

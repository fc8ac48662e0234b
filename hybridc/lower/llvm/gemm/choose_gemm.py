"""Which algorithm computes a contraction: BLAS, register tiles, dot products, or plain loops."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.ground.machine import NOMINAL
from hybridc.ground.sizes import row_major
from hybridc.ir.contraction_shape import (
    BATCH,
    ROW,
    ContractionLoops,
    Matrices,
    Strides,
    accesses_after,
    contraction_of,
    matrices_of,
)
from hybridc.ir.costs import BEGUN, OF_CORE, SAME_SET, WALKED, grain_of, matmul_time
from hybridc.ir.kernel import Axes, Kernel, Read
from hybridc.ir.structured import dtype_of, shape_of
from hybridc.lower.llvm.codegen.native_function import NativeFunction
from hybridc.lower.llvm.gemm import native_blas
from hybridc.lower.llvm.gemm.gemm_blas import blas_region
from hybridc.lower.llvm.gemm.gemm_region import registers
from hybridc.lower.llvm.gemm.tiles_to_matmul import matmul_region, matmul_scratch_bytes
from hybridc.lower.llvm.loops.parallel_regions import ParallelRegion, Printer, print_loops, program_key
from hybridc.transforms.schedules.schedule_contractions import Epilogue, epilogue_of, schedule_loops
from hybridc.transforms.schedules.schedule_register_tiles import (
    MatmulProgram,
    MatmulSchedule,
    RegisterTile,
    is_prepacked,
    schedule_dots,
    schedule_exchanged,
    schedule_in_place,
    schedule_prepacked,
    schedule_tiles,
)

# For at most so few columns dot products pay, or so few rows, if there are so many terms for
# each row that the horizontal sums do not count: by vector bytes, as 32-byte registers hold few accumulators. With
# few terms BLAS is the fastest.
FEW_COLUMNS, FEW_TERMS = 16, 16
FEW_ROWS, TERMS_FOR_A_ROW = {16: 64, 32: 16, 64: 16}, {16: 8, 32: 16, 64: 8}
# Packing a panel pays from so many rows on, as long as the left matrix, which is read again for each panel, comes
# from a cache fast enough: at most so many elements, and a row stride of its terms small enough not to
# conflict in the cache. A panel, with a line for each term, has to fit the second cache. With the last one padded to so
# many times the columns, tiles only pay where columns are contiguous.
FEWEST_ROWS, NEAR, MOST_TERMS, FILLED = 4, SAME_SET, NOMINAL.second // NOMINAL.line, 1.2
CACHED = {np.dtype(np.float32): NOMINAL.third // 4, np.dtype(np.float64): OF_CORE // 8}
# Packing a panel takes as long as multiplying so many rows with it. Tiles with exchanged operands, which pack the
# other one, pay where they take at most this part of the time. Dot products take so many times as long as tiles
# without packing.
ROWS_TO_PACK, WORTH_TURNING, EFFORT_OF_DOTS = 10, 0.95, 1.4
# The cost of an operation in plain loops relative to one in a register tile.
PLAIN = 5
# With vectors of so many bytes, packing into scratch is as fast as prepacked panels;
# with shorter ones, it takes about an eighth longer.
FAST_FROM_SCRATCH = 64


# The attribute of matmuls of prepacked panels.
PANELS = "hybrid.panels"


def is_of_panels(kernel: Kernel) -> bool:
    """Whether a kernel is a matmul of prepacked panels, with or without an epilogue."""
    return PANELS in kernel.function.attributes


def is_contraction_kernel(kernel: Kernel) -> bool:
    """Whether a kernel is a single contraction, with or without an epilogue."""
    return len(kernel.nests) == 1 and kernel.nests[0].contraction is not None


def takes_epilogue(kernel: Kernel) -> bool:
    """Whether a matmul without prepacked operands is faster with what follows it as an epilogue than before it."""
    contraction = contraction_of(kernel)
    matrices = matrices_of(contraction)
    dtypes = {dtype_of(v) for v in (*kernel.arguments, *kernel.results)}
    vectors = registers()
    if matrices is None or vectors is None or len(dtypes) > 1 or dtypes.isdisjoint(native_blas.GEMM):
        return False
    (dtype,) = dtypes
    tile = RegisterTile(dtype, vectors)
    if matrices.over or matrices.n < tile.lanes or matrices.m < FEWEST_ROWS or not 0 < matrices.k <= MOST_TERMS:
        return False
    if not _is_cached(matrices, dtype):
        return False
    # Not if the fastest of the others with a walk over its result is faster. (In whole numbers, as sizes may be free.)
    size, tenths = matrices.m * matrices.n, int(10 * EFFORT_OF_DOTS)
    efforts = [(matrices, tile.fitting(matrices.n)), (matrices.exchanged(), tile)]
    walked = 10 * (WALKED * size + BEGUN)
    return any((10 * _effort_of_tiles(*each) - tenths * size) * matrices.k <= walked for each in efforts)


@dataclass(frozen=True)
class Panels:
    """The layout of a prepacked right operand: the index of the kernel's argument, and its read.

    ``column`` is the operand's dimension of columns, which are split by panels; ``terms`` are the axes of the others,
    in the order of memory of the left operand. ``shape`` is that of the panels: their number, the sizes of the terms,
    their columns; the last one may have some beyond those of the operand. ``rows`` rows are multiplied with it, with a
    stride of ``apart`` elements. No other algorithm does so ``in_place`` where rows lie in lines, or terms in segments.

    Where the last axis is one of a batch, as of a convolution channel by channel, there are no panels: the operand is
    transposed, so that this axis is its last one, too, and ``shape`` has no number of panels.
    """

    argument: int
    read: Read
    column: int
    terms: Axes
    shape: Shape
    rows: int
    apart: int
    in_place: bool

    @property
    def columns(self) -> int:
        """The operand's columns."""
        return shape_of(self.read.value)[self.column]

    @property
    def is_parted(self) -> bool:
        """Whether the columns are split by panels."""
        return len(self.shape) > len(self.terms) + 1

    @property
    def is_whole(self) -> bool:
        """Whether the panels have no columns beyond the operand's."""
        return not self.is_parted or self.columns == self.shape[0] * self.shape[-1]

    @property
    def depth(self) -> int:
        """The number of terms."""
        return math.prod(self.shape[-1 - len(self.terms) : -1])

    @property
    def parted(self) -> Shape:
        """The operand's shape with its columns split by panels, if these have no others."""
        sizes = shape_of(self.read.value)
        if not self.is_parted or not self.is_whole:
            return sizes
        return (*sizes[: self.column], self.shape[0], self.shape[-1], *sizes[self.column + 1 :])

    @property
    def places(self) -> list[int]:
        """The panels' dimension of each dimension of the operand; of its columns that of those in a panel."""
        first = int(self.is_parted)
        return [first + self.terms.index(a) if a in self.terms else len(self.shape) - 1 for a in self.read.axes]

    def pay(self, prepared: bool = False) -> bool:
        """Whether tiles with prepacked panels pay for so many rows and terms; prepared ones do for any rows."""
        enough = prepared or self.rows >= FEWEST_ROWS
        return self.in_place or (FEW_TERMS <= self.depth <= MOST_TERMS and enough)

    def pay_alone(self) -> bool:
        """Whether prepacking pays for one matmul, as packing into scratch is slower."""
        vectors, dtype = registers(), dtype_of(self.read.value)
        if self.in_place or vectors is None or vectors.bytes < FAST_FROM_SCRATCH:
            return True
        if self.rows * self.depth > CACHED[dtype]:
            return True
        return self.apart > NEAR // dtype.itemsize


def prepacked_of(kernel: Kernel) -> Panels | None:
    """The panels of the right operand of a matmul, if its columns fill them."""
    vectors = registers()
    if not is_contraction_kernel(kernel) or len(kernel.ops) > 1 or vectors is None or len(kernel.arguments) != 2:
        return None
    (kernel_op,) = kernel.ops
    dtypes = {dtype_of(v) for v in (*kernel.arguments, kernel_op.result)}
    contraction = contraction_of(kernel)
    if any(loop.kind == BATCH and loop.c == 1 for loop in contraction.kept):
        return _transposed_of(kernel)
    matrices = matrices_of(contraction) if len(dtypes) == 1 else None
    if matrices is None or dtypes.isdisjoint(native_blas.GEMM) or any(x.kind != ROW for x in matrices.around):
        return None
    left, right = kernel_op.reads[:: -1 if matrices.swapped else 1]
    in_place = bool(matrices.around or matrices.over)
    tile = RegisterTile(dtypes.pop(), vectors).fitting(matrices.n)
    if not in_place and matrices.n % tile.width:
        return None
    panels = (math.ceil(matrices.n / tile.width), tile.width)
    return _panels(kernel, left, right, panels, matrices.m * matrices.batches, matrices.a[1], in_place)


def _transposed_of(kernel: Kernel) -> Panels | None:
    """The right operand of a contraction channel by channel, if its channels are not last and the left one's are."""
    (kernel_op,) = kernel.ops
    left, right = kernel_op.reads
    last = kernel_op.axes[-1:]
    if right.index:
        left, right = right, left
    if not last or last[0] not in left.axes or right.axes[-1:] == last or left.axes[-1:] != last:
        return None
    return _panels(kernel, left, right, (), kernel.grid_size, 0, True) if last[0] in right.axes else None


def _panels(
    kernel: Kernel, left: Read, right: Read, panels: Shape, rows: int, apart: int, in_place: bool
) -> Panels | None:
    """The layout of a right operand in so many panels of so many columns."""
    (kernel_op,) = kernel.ops
    columns = [i for i, axis in enumerate(right.axes) if axis in kernel_op.axes]
    if right.index or len(columns) != 1:
        return None
    steps, extents = left.along(row_major(shape_of(left.value))), kernel_op.extents
    terms = tuple(sorted((a for a in right.axes if a in kernel_op.reduced), key=lambda a: -steps[a]))
    count, width = (panels[:1], panels[1]) if panels else ((), extents[kernel_op.axes[-1]])
    shape = (*count, *(extents[a] for a in terms), width)
    number = kernel.arguments.index(right.value)
    return Panels(number, right, columns[0], terms, shape, rows, apart, in_place)


def regions_of_matmul(
    kernel: Kernel,
    threads: int,
    strides: Sequence[Strides] | None = None,
    algorithms: Sequence[str] = (),
    printer: Printer = print_loops,
) -> list[ParallelRegion]:
    """The parallel regions of a contraction, in order; none if the result is empty, or no algorithm has its epilogue.

    ``strides``, in elements, are those of the kernel's arguments and then its results; by default all are contiguous.
    The first possible one of ``algorithms`` is taken; by default the one that is expected to be fastest. ``printer``
    makes the native function of a tile program of plain loops.
    """
    contraction = contraction_of(kernel, strides)
    if contraction.outputs == 0:
        return []
    kernel_op = kernel.nests[0].contraction
    assert kernel_op is not None, "a kernel of a contraction"
    values = [*kernel.arguments, *kernel.results]
    left, right, result, *more = [values.index(r.value) for r in (*kernel_op.reads, *accesses_after(kernel))]
    dtypes = {dtype_of(v) for v in (*(r.value for r in kernel_op.reads), kernel_op.result)}
    matrices = matrices_of(contraction)
    epilogue = epilogue_of(kernel)
    if epilogue is not None:
        if matrices is None or len(dtypes) > 1 or any(column not in (0, 1) for _, column in matrices.more):
            return []
        buffers = (right, left, result, *more) if matrices.swapped else (left, right, result, *more)
        (dtype,) = dtypes
        for algorithm in _before_epilogues(matrices, dtype):
            made = _tiled_region(algorithm, matrices, dtype, buffers, threads, epilogue)
            if made is not None:
                return [made]
        return []
    if len(dtypes) == 1 and matrices is not None:
        buffers = (right, left, result) if matrices.swapped else (left, right, result)
        made = matrices_region(matrices, dtypes.pop(), buffers, threads, algorithms)
        if made is not None:
            return [made]
    return [_loop_region(kernel, contraction, (left, right, result), printer)]


def _loop_region(
    kernel: Kernel, contraction: ContractionLoops, buffers: tuple[int, ...], printer: Printer
) -> ParallelRegion:
    """The parallel region of plain loops."""
    (kernel_op,), (nest,) = kernel.ops, kernel.nests
    made = schedule_loops(contraction, kernel_op, nest)
    time = PLAIN * matmul_time(contraction.flops)
    return ParallelRegion(
        printer(made.program),
        buffers,
        made.numbers,
        extent=made.extent,
        grain=grain_of(made.extent, time),
        work=time,
        algorithm="loops",
    )


def matrices_region(
    given: Matrices, dtype: DType, buffers: tuple[int, ...], threads: int, algorithms: Sequence[str] = ()
) -> ParallelRegion | None:
    """The parallel region of a matmul by the algorithm expected to be fastest, or the first possible one of some."""
    if dtype not in native_blas.GEMM:
        return None
    for algorithm in algorithms or _preferred(given, dtype):
        if algorithm == "blas":
            made = blas_region(given, dtype, buffers)
        else:
            made = _tiled_region(algorithm, given, dtype, buffers, threads)
        if made is not None:
            return made
    return None


# The schedules in vector registers whose sums are there when an epilogue needs them, by the algorithm.
_WITH_EPILOGUE: Mapping[str, Callable[[Matrices, RegisterTile, int, Epilogue | None], MatmulSchedule | None]] = {
    "tiles": schedule_tiles,
    "turned": schedule_exchanged,
    "rows": schedule_prepacked,
    "in place": schedule_in_place,
}


def _tiled_region(
    algorithm: str,
    given: Matrices,
    dtype: DType,
    buffers: tuple[int, ...],
    threads: int,
    epilogue: Epilogue | None = None,
) -> ParallelRegion | None:
    """The parallel region of an algorithm in vector registers; None if it does not support these arrays."""
    vectors = registers()
    if vectors is None:
        return None
    tile = RegisterTile(dtype, vectors)
    if algorithm in _WITH_EPILOGUE:
        made = _WITH_EPILOGUE[algorithm](given, tile, threads, epilogue)
    else:
        assert epilogue is None, f"{algorithm} has no epilogue"
        made = schedule_dots(given, tile, threads)
    if made is None:
        return None
    left, right, *rest = buffers
    return ParallelRegion(
        _matmul_function(made.matmul),
        (right, left, *rest) if made.exchanged else buffers,
        made.numbers,
        extent=made.extent,
        grain=made.grain,
        scratch=matmul_scratch_bytes(made.matmul.program, [loop.size for loop in made.loops]),
        work=matmul_time(given.flops),
        algorithm=algorithm,
    )


@functools.lru_cache(256)
def _matmul_function(made: MatmulProgram) -> NativeFunction:
    """The native function of a matmul's program."""
    return NativeFunction(program_key(made.program), matmul_region(made.program), made.program)


def _preferred(given: Matrices, dtype: DType) -> Sequence[str]:
    """The algorithms for a matmul, the fastest first: as ``benchmarks/gemm.py`` measures."""
    vectors = registers()
    if vectors is not None and (given.around or given.over):
        tile = RegisterTile(dtype, vectors).fitting(given.n)
        if is_prepacked(given, tile.width) and (given.over or any(x.kind == ROW for x in given.around)):
            return ("rows",)
    if given.over or (vectors is not None and _is_panel(given, RegisterTile(dtype, vectors))):
        return ("in place", "blas")
    if not FEW_TERMS <= given.k <= MOST_TERMS or vectors is None:
        return ("blas", "tiles")
    tile = RegisterTile(dtype, vectors)
    if is_prepacked(given, tile.fitting(given.n).width):
        return (*_of_panels(given), "tiles", "blas")
    filled = tile.padded(given.n) > FILLED * given.n
    few_rows = given.m <= FEW_ROWS[vectors.bytes] and given.m * TERMS_FOR_A_ROW[vectors.bytes] <= given.k
    tiles = given.m >= FEWEST_ROWS and _is_cached(given, dtype) and not filled
    plain, exchanged = [_effort_of_tiles(x, tile) for x in (given, given.exchanged())]
    turned = tiles and given.b[0] == 1 and exchanged < WORTH_TURNING * plain
    if turned and exchanged < EFFORT_OF_DOTS * given.m * given.n:
        few_rows = False
    if given.a[1] == given.b[0] == 1 and (few_rows or given.n <= FEW_COLUMNS or filled):
        return ("dots", "tiles", "blas") if given.m >= FEWEST_ROWS else ("dots", "blas", "tiles")
    if turned:
        return ("turned", "tiles", "blas")
    return ("tiles", "blas") if tiles else ("blas", "tiles")


def _before_epilogues(given: Matrices, dtype: DType) -> tuple[str, ...]:
    """The algorithms for a matmul with an epilogue, the fastest first."""
    vectors = registers()
    if vectors is None:
        return ()
    tile = RegisterTile(dtype, vectors)
    if is_prepacked(given, tile.fitting(given.n).width):
        return _of_panels(given)
    if _effort_of_tiles(given.exchanged(), tile) < WORTH_TURNING * _effort_of_tiles(given, tile):
        return ("turned", "tiles")
    return ("tiles", "turned")


def _of_panels(given: Matrices) -> tuple[str, ...]:
    """The algorithms for prepacked panels: of few rows threads share the panels."""
    rows = given.m * math.prod(x.size for x in given.around if x.kind == ROW)
    return ("in place", "rows") if rows < FEWEST_ROWS else ("rows",)


def _is_panel(given: Matrices, tile: RegisterTile) -> bool:
    """Whether the right matrix of each batch is what would be packed: the columns of a tile, term after term."""
    batches = any(x.kind == BATCH for x in given.around)
    return batches and given.n == tile.fitting(given.n).width and given.b == (given.n, 1)


def _effort_of_tiles(given: Matrices, tile: RegisterTile) -> int:
    """The cost of register tiles with packing and memory traffic, in multiply-adds per term."""
    columns = tile.padded(given.n)
    again = 0 if _is_cached(given, tile.dtype) else given.m * (columns // tile.width - 1)
    return columns * (given.m + ROWS_TO_PACK) + again


def _is_cached(given: Matrices, dtype: DType) -> bool:
    """Whether the left matrix, which tiles read again for each panel, stays in a cache."""
    return given.m * given.k <= CACHED[dtype] and given.a[1] * dtype.itemsize <= NEAR

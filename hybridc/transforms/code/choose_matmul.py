"""Which algorithm computes a contraction: BLAS, register tiles, dot products, or plain loops."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import numpy as np

from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.ground.machine import NOMINAL
from hybridc.ground.records import dataclass
from hybridc.ground.sizes import row_major
from hybridc.ir.contraction_shape import (
    BATCH,
    ROW,
    ContractionLoops,
    Matrices,
    Strides,
    accesses_after,
    any_matrices_of,
    contraction_of,
    matrices_of,
)
from hybridc.ir.costs import BEGUN, OF_CORE, SAME_SET, WALKED, grain_of, matmul_time
from hybridc.ir.kernels.kernel import Axes, Kernel, Read
from hybridc.transforms.code.loop_target import Function, LoopTarget, Printer
from hybridc.transforms.code.parallel_regions import ParallelRegion
from hybridc.transforms.schedules.loop_machine import LoopMachine, Registers
from hybridc.transforms.schedules.matmul_shape import matmul_scratch_bytes
from hybridc.transforms.schedules.schedule_blas import BlasCall, schedule_blas
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


# The dtypes that matmuls are of.
MULTIPLIED = frozenset({np.dtype(np.float32), np.dtype(np.float64)})


def is_contraction_kernel(kernel: Kernel) -> bool:
    """Whether a kernel is a single contraction, with or without an epilogue."""
    return len(kernel.nests) == 1 and kernel.nests[0].contraction is not None


def takes_epilogue(kernel: Kernel, vectors: Registers) -> bool:
    """Whether a matmul without prepacked operands is faster with what follows it as an epilogue than before it."""
    contraction = contraction_of(kernel)
    matrices = matrices_of(contraction)
    dtypes = {v.dtype for v in (*kernel.arguments, *kernel.results)}
    if matrices is None or len(dtypes) > 1 or dtypes.isdisjoint(MULTIPLIED):
        return False
    (dtype,) = dtypes
    tile = RegisterTile(dtype, vectors)
    if matrices.over or matrices.n < tile.lanes or matrices.m < FEWEST_ROWS or not 0 < matrices.k <= MOST_TERMS:
        return False
    if not _is_cached(matrices, dtype):
        return False
    # Not if the fastest of the others with a walk over its result is faster. (In whole numbers, as sizes may be free.)
    size, tenths = matrices.m * matrices.n, int(10 * EFFORT_OF_DOTS)
    ways = [(matrices, tile.fitting(matrices.n)), (matrices.exchanged(), tile)]
    walked = 10 * (WALKED * size + BEGUN)
    return any((10 * _effort_of_tiles(*way) - tenths * size) * matrices.k <= walked for way in ways)


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
        return self.read.value.shape[self.column]

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
        sizes = self.read.value.shape
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

    def pay_alone(self, vectors: Registers) -> bool:
        """Whether prepacking pays for one matmul, as packing into scratch is slower."""
        dtype = self.read.value.dtype
        if self.in_place or vectors.bytes < FAST_FROM_SCRATCH:
            return True
        if self.rows * self.depth > CACHED[dtype]:
            return True
        return self.apart > NEAR // dtype.itemsize


def prepacked_of(kernel: Kernel, vectors: Registers) -> Panels | None:
    """The panels of the right operand of a matmul, if its columns fill them."""
    if not is_contraction_kernel(kernel) or len(kernel.ops) > 1 or len(kernel.arguments) != 2:
        return None
    (kernel_op,) = kernel.ops
    dtypes = {v.dtype for v in (*kernel.arguments, kernel_op.result)}
    contraction = contraction_of(kernel)
    if any(loop.kind == BATCH and loop.c == 1 for loop in contraction.kept):
        return _transposed_of(kernel)
    matrices = any_matrices_of(contraction) if len(dtypes) == 1 else None
    if matrices is None or dtypes.isdisjoint(MULTIPLIED) or any(x.kind != ROW for x in matrices.around):
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
    steps, extents = left.along(row_major(left.value.shape)), kernel_op.extents
    terms = tuple(sorted((a for a in right.axes if a in kernel_op.reduced), key=lambda a: -steps[a]))
    count, width = (panels[:1], panels[1]) if panels else ((), extents[kernel_op.axes[-1]])
    shape = (*count, *(extents[a] for a in terms), width)
    argument = kernel.arguments.index(right.value)
    return Panels(argument, right, columns[0], terms, shape, rows, apart, in_place)


@dataclass(frozen=True, eq=False)
class Algorithm:
    """A way to compute a matmul: the name that reports have of it, and its schedule in vector registers.

    The sums of one that ``takes_epilogue`` are whole when they leave registers. BLAS has no schedule.
    """

    name: str
    schedule: Callable[[Matrices, RegisterTile, int, Epilogue | None], MatmulSchedule | None] | None
    takes_epilogue: bool = True


def _schedule_dots(
    matrices: Matrices, tile: RegisterTile, threads: int, _: Epilogue | None = None
) -> MatmulSchedule | None:
    return schedule_dots(matrices, tile, threads)


TILES = Algorithm("tiles", schedule_tiles)
EXCHANGED = Algorithm("turned", schedule_exchanged)
PREPACKED = Algorithm("rows", schedule_prepacked)
IN_PLACE = Algorithm("in place", schedule_in_place)
DOTS = Algorithm("dots", _schedule_dots, takes_epilogue=False)
BLAS = Algorithm("blas", None, takes_epilogue=False)
ALGORITHMS = {a.name: a for a in (TILES, EXCHANGED, PREPACKED, IN_PLACE, DOTS, BLAS)}


def regions_of_matmul(
    kernel: Kernel,
    target: LoopTarget,
    strides: Sequence[Strides] | None = None,
    algorithms: Sequence[str] = (),
) -> list[ParallelRegion]:
    """The parallel regions of a contraction, in order; none if the result is empty, or no algorithm has its epilogue.

    ``strides``, in elements, are those of the kernel's arguments and then its results; by default all are contiguous.
    The first possible one of ``algorithms`` is taken; by default the one that is expected to be fastest.
    """
    contraction = contraction_of(kernel, strides)
    if contraction.outputs == 0:
        return []
    kernel_op = kernel.nests[0].contraction
    assert kernel_op is not None, "a kernel of a contraction"
    values = [*kernel.arguments, *kernel.results]
    left, right, result, *more = [values.index(r.value) for r in (*kernel_op.reads, *accesses_after(kernel))]
    dtypes = {v.dtype for v in (*(r.value for r in kernel_op.reads), kernel_op.result)}
    matrices = matrices_of(contraction)
    epilogue = epilogue_of(kernel)
    chosen = [ALGORITHMS[name] for name in algorithms]
    if matrices is not None and len(dtypes) == 1:
        (dtype,) = dtypes
        factors = (right, left) if matrices.swapped else (left, right)
        request = MatmulRequest(matrices, dtype, (*factors, result, *more), target)
        if epilogue is None:
            region = request.region(chosen)
        elif all(column in (0, 1) for _, column in matrices.more):
            region = request.region(_before_epilogues(matrices, dtype, target.machine), epilogue)
        else:
            region = None
        if region is not None:
            return [region]
    return [] if epilogue is not None else [_loop_region(kernel, contraction, (left, right, result), target.printer)]


def _loop_region(
    kernel: Kernel, contraction: ContractionLoops, buffers: tuple[int, ...], printer: Printer
) -> ParallelRegion:
    """The parallel region of plain loops."""
    (kernel_op,), (nest,) = kernel.ops, kernel.nests
    schedule = schedule_loops(contraction, kernel_op, nest)
    time = PLAIN * matmul_time(contraction.flops)
    return ParallelRegion(
        printer(schedule.program),
        buffers,
        schedule.numbers,
        extent=schedule.extent,
        grain=grain_of(schedule.extent, time),
        work=time,
        algorithm="loops",
    )


@dataclass(frozen=True)
class MatmulRequest:
    """A matmul of a dtype that is to be coded for a target: its arrays are ``buffers`` of the kernel."""

    matrices: Matrices
    dtype: DType
    buffers: tuple[int, ...]
    target: LoopTarget

    def region(self, algorithms: Sequence[Algorithm] = (), epilogue: Epilogue | None = None) -> ParallelRegion | None:
        """The region by the first possible one of some algorithms, by default the one expected to be fastest."""
        if self.dtype not in MULTIPLIED and epilogue is None:
            return None
        for algorithm in algorithms or _preferred(self.matrices, self.dtype, self.target.machine):
            region = self._by_blas() if algorithm.schedule is None else self._in_registers(algorithm, epilogue)
            if region is not None:
                return region
        return None

    def _by_blas(self) -> ParallelRegion | None:
        """The region that calls BLAS; None if there is none, or it does not support these arrays."""
        if not self.target.machine.blas():
            return None
        schedule = schedule_blas(self.matrices, self.dtype)
        if schedule is None:
            return None
        function = _function(self.target.printer, schedule.call)
        return ParallelRegion(
            function,
            self.buffers,
            schedule.numbers,
            extent=schedule.extent,
            grain=schedule.grain,
            work=schedule.work,
            algorithm=BLAS.name,
        )

    def _in_registers(self, algorithm: Algorithm, epilogue: Epilogue | None) -> ParallelRegion | None:
        """The region of an algorithm in vector registers; None if it does not support these arrays."""
        vectors = self.target.machine.vectors
        if vectors is None or algorithm.schedule is None:
            return None
        assert epilogue is None or algorithm.takes_epilogue, f"{algorithm.name} has no epilogue"
        schedule = algorithm.schedule(self.matrices, RegisterTile(self.dtype, vectors), self.target.threads, epilogue)
        if schedule is None:
            return None
        left, right, *rest = self.buffers
        sizes = [loop.size for loop in schedule.loops]
        return ParallelRegion(
            _function(self.target.printer, schedule.matmul),
            (right, left, *rest) if schedule.exchanged else self.buffers,
            schedule.numbers,
            extent=schedule.extent,
            grain=schedule.grain,
            scratch=matmul_scratch_bytes(schedule.matmul.program, sizes),
            work=matmul_time(self.matrices.flops),
            algorithm=algorithm.name,
        )


@functools.lru_cache(256)
def _function(printer: Printer, code: MatmulProgram | BlasCall) -> Function:
    """The native function of a matmul's code."""
    return printer(code if isinstance(code, BlasCall) else code.program)


def _preferred(matrices: Matrices, dtype: DType, machine: LoopMachine) -> Sequence[Algorithm]:
    """The algorithms for a matmul, the fastest first: as ``benchmarks/gemm.py`` measures."""
    vectors = machine.vectors
    if vectors is not None and (matrices.around or matrices.over):
        tile = RegisterTile(dtype, vectors).fitting(matrices.n)
        rows = matrices.over or any(x.kind == ROW for x in matrices.around)
        if is_prepacked(matrices, tile.width) and rows:
            return (PREPACKED,)
    if matrices.over or (vectors is not None and _is_panel(matrices, RegisterTile(dtype, vectors))):
        return (IN_PLACE, BLAS)
    if not FEW_TERMS <= matrices.k <= MOST_TERMS or vectors is None:
        return (BLAS, TILES)
    tile = RegisterTile(dtype, vectors)
    if is_prepacked(matrices, tile.fitting(matrices.n).width):
        return (*_of_panels(matrices), TILES, BLAS)
    filled = tile.padded(matrices.n) > FILLED * matrices.n
    few_rows = matrices.m <= FEW_ROWS[vectors.bytes] and matrices.m * TERMS_FOR_A_ROW[vectors.bytes] <= matrices.k
    tiles = matrices.m >= FEWEST_ROWS and _is_cached(matrices, dtype) and not filled
    plain, exchanged = [_effort_of_tiles(x, tile) for x in (matrices, matrices.exchanged())]
    exchange = tiles and matrices.b[0] == 1 and exchanged < WORTH_TURNING * plain
    if exchange and exchanged < EFFORT_OF_DOTS * matrices.m * matrices.n:
        few_rows = False
    if matrices.a[1] == matrices.b[0] == 1 and (few_rows or matrices.n <= FEW_COLUMNS or filled):
        return (DOTS, TILES, BLAS) if matrices.m >= FEWEST_ROWS else (DOTS, BLAS, TILES)
    if exchange:
        return (EXCHANGED, TILES, BLAS)
    return (TILES, BLAS) if tiles else (BLAS, TILES)


def _before_epilogues(matrices: Matrices, dtype: DType, machine: LoopMachine) -> Sequence[Algorithm]:
    """The algorithms for a matmul with an epilogue, the fastest first."""
    assert machine.vectors is not None, "epilogues are joined where there are registers for sums"
    tile = RegisterTile(dtype, machine.vectors)
    if is_prepacked(matrices, tile.fitting(matrices.n).width):
        return _of_panels(matrices)
    if _effort_of_tiles(matrices.exchanged(), tile) < WORTH_TURNING * _effort_of_tiles(matrices, tile):
        return (EXCHANGED, TILES)
    return (TILES, EXCHANGED)


def _of_panels(matrices: Matrices) -> tuple[Algorithm, ...]:
    """The algorithms for prepacked panels: of few rows threads share the panels."""
    rows = matrices.m * math.prod(x.size for x in matrices.around if x.kind == ROW)
    return (IN_PLACE, PREPACKED) if rows < FEWEST_ROWS else (PREPACKED,)


def _is_panel(matrices: Matrices, tile: RegisterTile) -> bool:
    """Whether the right matrix of each batch is what would be packed: the columns of a tile, term after term."""
    batches = any(x.kind == BATCH for x in matrices.around)
    return batches and matrices.n == tile.fitting(matrices.n).width and matrices.b == (matrices.n, 1)


def _effort_of_tiles(matrices: Matrices, tile: RegisterTile) -> int:
    """The cost of register tiles with packing and memory traffic, in multiply-adds per term."""
    columns = tile.padded(matrices.n)
    read_again = 0 if _is_cached(matrices, tile.dtype) else matrices.m * (columns // tile.width - 1)
    return columns * (matrices.m + ROWS_TO_PACK) + read_again


def _is_cached(matrices: Matrices, dtype: DType) -> bool:
    """Whether the left matrix, which tiles read again for each panel, stays in a cache."""
    return matrices.m * matrices.k <= CACHED[dtype] and matrices.a[1] * dtype.itemsize <= NEAR

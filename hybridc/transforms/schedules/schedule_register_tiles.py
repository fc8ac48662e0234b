"""The schedule of a matmul in vector registers as a tile program: panels, register tiles, dot products.

Registers hold a tile of the result, some rows by two vectors of columns. For each term, a row of the right matrix times
one element of each row of the left one is added to it: an outer product. The right matrix is packed: the columns of a
tile, a *panel*, term after term. Where the left matrix is the smaller one, the operands are exchanged: its rows become
the columns of panels, the right matrix is read in place, and what is computed, the transposed result, is transposed
back. Few rows whose terms follow memory in both operands are dot products: a vector of partial sums for each element.

Threads share the panels of all matrices of the batch. With prepacked panels they share the rows, which then meet one
panel after the other. Where rows lie in *lines*, as in images, these are shared, and where terms lie in segments of
memory, loops over these are outside that over terms: so a convolution is computed in place. To compile the code takes
longer than most matmuls; so one function serves all sizes and strides.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from hybridc.dialects.operator_attribute import DType
from hybridc.ground.machine import CHUNKS
from hybridc.ground.records import dataclass
from hybridc.ir.contraction_shape import COLUMN, ROW, Loop, Matrices, few_forms, time_of
from hybridc.ir.costs import HIDE_PACKING, SAME_SET, grain_of, is_shared
from hybridc.ir.tiles.tile_program import (
    Address,
    Axes,
    Factor,
    Statement,
    TileBuffer,
    TileContract,
    TileDim,
    TileLoad,
    TileProgram,
    TileScratch,
    TileStore,
    TileSweep,
)
from hybridc.ir.tiles.tile_spec import verify
from hybridc.options import OPTIONS
from hybridc.transforms.schedules.loop_machine import Registers
from hybridc.transforms.schedules.matmul_shape import SQUARE, TOTAL
from hybridc.transforms.schedules.schedule_contractions import Epilogue, StrideArguments

# Vectors side by side in a tile.
ABREAST = 2
# Rows of a low tile: as many accumulators as hide the latency of a multiply-add.
LOW = 4
# The most rows of a tile of dot products.
DOTS = 4
# High tiles in a block of rows that meets one prepacked panel after the other: it and a panel stay in the second cache.
TILES = 8
# The least rows for which a panel is packed, where there are more, or ``HIDE_PACKING`` where the result is transposed,
# as long as each thread has some.
ROWS = 48
# The least rows that a group of columns of dot products is multiplied with, where there are more.
ROWS_OF_DOTS = 16
# The least columns for which packing rows pays: it takes as long as multiplying with ten.
COLUMNS = 128
# A batch loop of size 1. Matmuls without one have it, as to compile another function takes longer than these do.
ONCE = (Loop(1, 0, 0, 0),)


@dataclass(frozen=True)
class RegisterTile:
    """The tile that vector registers hold of a result, with so many vectors ``abreast``."""

    dtype: DType
    vectors: Registers
    abreast: int = ABREAST

    @property
    def kind(self) -> str:
        """The element type."""
        return f"f{8 * self.dtype.itemsize}"

    @property
    def lanes(self) -> int:
        """Elements of a vector."""
        return self.vectors.lanes(self.dtype)

    @property
    def width(self) -> int:
        """Columns of a panel."""
        return self.abreast * self.lanes

    def fitting(self, columns: int) -> RegisterTile:
        """The tile for panels that waste the least: with one vector, if the last one would have few columns else."""
        narrow = replace(self, abreast=1)
        return narrow if narrow.padded(columns) < self.padded(columns) else self

    def padded(self, columns: int) -> int:
        """The columns of all panels, with those that fill the last one."""
        return -(-columns // self.width) * self.width

    @property
    def heights(self) -> tuple[int, int]:
        """Rows of tiles: as many as leave registers for a row of the panel and an element; fewer for the last rows."""
        return (self.vectors.count - self.abreast - 2) // self.abreast // 6 * 6, LOW

    @property
    def squares(self) -> int:
        """Rows that are both whole high tiles and whole squares of vectors, which are transposed in registers."""
        return math.lcm(self.heights[0], self.lanes)

    @property
    def block(self) -> int:
        """Rows that meet one prepacked panel after the other."""
        return TILES * self.heights[0]


@dataclass(frozen=True)
class MatmulSchedule:
    """A tile program with its code's arguments: the sizes of ``loops``, which are its axes, strides and parameters.

    Threads share ``extent`` iterations, at least ``grain`` at a time. ``exchanged``: the operands are.
    """

    matmul: MatmulProgram
    numbers: tuple[int, ...]
    loops: tuple[Loop, ...]
    extent: int
    grain: int
    exchanged: bool = False


def schedule_tiles(
    matrices: Matrices, tile: RegisterTile, threads: int, epilogue: Epilogue | None = None
) -> MatmulSchedule | None:
    """The schedule in register tiles; None if these do not support the arrays."""
    tile = tile.fitting(matrices.n) if epilogue is not None and matrices.n < tile.width else tile
    if matrices.over or matrices.k == 0 or matrices.m < LOW or (epilogue is not None and matrices.n < tile.width):
        return None
    matrices = _in_blocks(matrices, tile.width, tile.dtype, threads, ROWS)
    around = few_forms(matrices.around or ONCE)
    placed = _placed(epilogue, matmul_loops(matrices, around), len(around) + 1)
    return _of_columns(tile_program(tile, len(around), placed), matrices, around, tile, tile.width)


def schedule_exchanged(
    matrices: Matrices, tile: RegisterTile, threads: int, epilogue: Epilogue | None = None
) -> MatmulSchedule | None:
    """The schedule in register tiles with exchanged operands; None if these do not support the arrays.

    The left matrix is packed into panels, and the right one is read in place, if its columns are contiguous.
    """
    matrices = matrices.exchanged()
    if matrices.over or matrices.k == 0 or (matrices.a[1] != 1 and matrices.k > 1):
        return None
    parts = _parts(matrices, tile, threads)
    rows = math.ceil(matrices.m / parts / tile.lanes) * tile.lanes
    around = few_forms(matrices.around or ONCE)
    placed = _placed(epilogue, matmul_loops(matrices, around), len(around))
    return _of_columns(exchanged_program(tile, len(around), placed), matrices, around, tile, tile.width, rows)


def schedule_dots(matrices: Matrices, tile: RegisterTile, threads: int) -> MatmulSchedule | None:
    """The schedule as dot products; None if rows are not contiguous whole vectors."""
    if matrices.over or (matrices.a[1], matrices.b[0]) != (1, 1) or matrices.k % tile.lanes:
        return None
    height = min(DOTS, tile.lanes)
    while height > matrices.m:
        height //= 2
    width = tile.lanes // height
    matrices = _in_blocks(matrices, width, tile.dtype, threads, ROWS_OF_DOTS)
    around = few_forms(matrices.around)
    return _of_columns(dot_program(tile, height, len(around)), matrices, around, tile, width)


def schedule_in_place(
    matrices: Matrices, tile: RegisterTile, threads: int, epilogue: Epilogue | None = None
) -> MatmulSchedule | None:
    """The schedule in register tiles that packs nothing; None if the right matrix has no rows of whole tiles."""
    tile = tile.fitting(matrices.n) if matrices.n < tile.width else tile
    if matrices.b[1] != 1 or matrices.n < tile.width or matrices.k == 0:
        return None
    matrices = _in_blocks(matrices, tile.width, tile.dtype, threads, ROWS)
    around = few_forms(matrices.around or ONCE)
    loops = matmul_loops(matrices, around)
    program = in_place_program(tile, len(around), len(matrices.over), _placed(epilogue, loops, len(around) + 1))
    return _of_columns(program, matrices, around, tile, tile.width)


def schedule_prepacked(
    matrices: Matrices, tile: RegisterTile, threads: int, epilogue: Epilogue | None = None
) -> MatmulSchedule | None:
    """The schedule over rows, or lines of them, for a prepacked right matrix; None if it is not prepacked."""
    tile = tile.fitting(matrices.n)
    if not is_prepacked(matrices, tile.width):
        return None
    panels = next((x for x in matrices.around if x.kind == COLUMN), Loop(1, None, 0, 0))
    lines = tuple(x for x in matrices.around if x.kind == ROW)
    if lines or matrices.over:
        return _of_lines(matrices, panels, lines, tile, threads, epilogue)
    loops = matmul_loops(matrices, (panels,))
    program = prepacked_program(tile, _packs(matrices, panels.size, tile), _placed(epilogue, loops, 2))
    grain = _grain(matrices.m, tile.block, threads, time_of(matrices, tile.dtype))
    return MatmulSchedule(program, program.numbers(loops), loops, matrices.m, grain)


def is_prepacked(matrices: Matrices, width: int) -> bool:
    """Whether the right matrix is prepacked in panels of so many columns."""
    kinds = [x.kind for x in matrices.around]
    if matrices.k == 0 or kinds.count(COLUMN) > 1 or not {*kinds} <= {ROW, COLUMN}:
        return False
    return matrices.n == width and matrices.b == (width, 1)


def _of_lines(
    matrices: Matrices,
    panels: Loop,
    lines: Sequence[Loop],
    tile: RegisterTile,
    threads: int,
    epilogue: Epilogue | None,
) -> MatmulSchedule:
    """The schedule over lines of rows: all loops of the result's rows but one."""
    rows, columns, terms = matmul_loops(matrices, ())
    rows, *lines = _without_conflict(rows, lines, tile)
    lines = (*[Loop(1, 0, None, 0)] * (2 - len(lines)), *lines)
    loops = (panels, *lines, rows, columns, *matrices.over, terms)
    program = line_program(tile, len(lines), len(matrices.over), _placed(epilogue, loops, 2 + len(lines)))
    extent, block = math.prod(loop.size for loop in lines), max(1, tile.block // rows.size)
    grain = max(1, _grain(extent * rows.size, tile.block, threads, time_of(matrices, tile.dtype)) // rows.size)
    return MatmulSchedule(program, program.numbers(loops, block), loops, extent, grain)


def _without_conflict(rows: Loop, lines: Sequence[Loop], tile: RegisterTile) -> Sequence[Loop]:
    """The loop of rows, then those of lines; if rows conflict in the cache, a loop that does not takes their place."""
    conflicts = [loop.steps[0] * tile.dtype.itemsize % SAME_SET == 0 for loop in (rows, *lines)]
    other = next((i for i, loop in enumerate(lines) if loop.size >= LOW and not conflicts[1 + i]), None)
    if not conflicts[0] or other is None:
        return rows, *lines
    return lines[other], *lines[:other], rows, *lines[other + 1 :]


def _placed(epilogue: Epilogue | None, loops: Sequence[Loop], along: int) -> PlacedEpilogue | None:
    """An epilogue with the axes that its arrays follow, of a program's loops; this one is contiguous in them."""
    if epilogue is None:
        return None
    arrays = range(2, 2 + len(epilogue.kinds))
    if any(loops[along].step(i) not in (0, 1) for i in arrays):
        raise ValueError(f"an epilogue whose arrays have other columns than contiguous ones: {loops[along]}")
    kept = [a for a, loop in enumerate(loops) if loop.c is not None]
    follows = tuple([frozenset([a for a in kept if loops[a].step(i)]) for i in arrays])
    return PlacedEpilogue(epilogue, follows)


def _of_columns(
    program: MatmulProgram,
    matrices: Matrices,
    around: Sequence[Loop],
    tile: RegisterTile,
    width: int,
    rows: int | None = None,
) -> MatmulSchedule:
    """The schedule over groups of ``width`` columns, and blocks of ``rows``, if the operands are exchanged."""
    *first, terms = matmul_loops(matrices, around)
    loops = (*first, *matrices.over, terms)
    blocks, parameters = (1, ()) if rows is None else (math.ceil(matrices.m / rows), (rows,))
    extent = math.ceil(matrices.n / width) * matrices.batches * blocks
    grain = grain_of(extent, time_of(matrices, tile.dtype))
    return MatmulSchedule(program, program.numbers(loops, *parameters), loops, extent, grain, rows is not None)


def _in_blocks(matrices: Matrices, width: int, dtype: DType, threads: int, rows: int) -> Matrices:
    """The matmul with blocks of at least so many rows as a batch loop, where threads share few groups of columns."""
    if not is_shared(time_of(matrices, dtype)):
        return matrices
    return matrices.in_blocks(CHUNKS * threads // (math.ceil(matrices.n / width) * matrices.batches), rows)


def _parts(matrices: Matrices, tile: RegisterTile, threads: int) -> int:
    """The number of blocks of rows, each with its own copy of the panel: a multiple of the threads, if possible."""
    units = math.ceil(matrices.n / tile.width) * matrices.batches
    if not is_shared(time_of(matrices, tile.dtype)):
        return 1
    least = max(ROWS, min(HIDE_PACKING, matrices.m * units // threads))
    parts, step = min(CHUNKS * threads // units, matrices.m // least), threads // math.gcd(threads, units)
    return max(1, parts // step * step if parts >= step else parts)


def _packs(matrices: Matrices, panels: int, tile: RegisterTile) -> bool:
    """Whether blocks of the left matrix are packed: for many columns, and if rows conflict in the cache."""
    row, term = matrices.a
    apart = (term if row == 1 else row) * tile.dtype.itemsize
    return 1 in matrices.a and matrices.k >= SQUARE and (panels * tile.width >= COLUMNS or apart % SAME_SET == 0)


def _grain(extent: int, rows: int, threads: int, time: float) -> int:
    """The grain: all rows, or equal parts for the threads, of at least a block each."""
    if threads == 1 or not is_shared(time):
        return extent
    parts = threads * max(1, min(CHUNKS, extent // (threads * rows)))
    return -(-extent // (4 * parts)) * 4


# --- programs ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class MatmulProgram:
    """The tile program of matmuls of all sizes, and the strides that are its code's arguments."""

    program: TileProgram
    strides: StrideArguments

    def numbers(self, loops: Sequence[Loop], *parameters: int) -> tuple[int, ...]:
        """The sizes, strides and parameters that are its code's arguments."""
        return (*self.strides.numbers(self.program, loops), *parameters)


@dataclass(frozen=True)
class PlacedEpilogue:
    """An epilogue with the axes of a program that each of its arrays follows; along one these are contiguous."""

    epilogue: Epilogue
    follows: tuple[frozenset[int], ...]


def matmul_loops(matrices: Matrices, around: Sequence[Loop]) -> tuple[Loop, ...]:
    """The loops of a matmul: ``around`` it, its rows, columns, terms."""
    by_row, by_column = tuple([row for row, _ in matrices.more]), tuple([column for _, column in matrices.more])
    rows, columns = (
        Loop(matrices.m, matrices.a[0], None, matrices.c[0], by_row),
        Loop(matrices.n, None, matrices.b[1], matrices.c[1], by_column),
    )
    return (*around, rows, columns, Loop(matrices.k, matrices.a[1], matrices.b[0], None))


@functools.lru_cache(256)
def tile_program(tile: RegisterTile, batches: int, epilogue: PlacedEpilogue | None = None) -> MatmulProgram:
    """Tiles of registers; each tile of the grid is a panel, which it packs in scratch.

    With an epilogue the last one ends with the last column, and computes some again.
    """
    b = _MatmulBuilder(tile, batches)
    b.dim(b.rows, f"n{b.rows}", "whole", (tile.heights,))
    b.dim(b.columns, tile.width, "grid", ((tile.lanes,),), masked=epilogue is None)
    b.dim(b.terms, f"n{b.terms}", "whole", ((1,),))
    panel = b.hold(b.terms, b.columns)
    b.sweep(b.copy(b.address(1), panel))
    b.sweep(b.finish(b.contract(b.address(0), panel), epilogue))
    return b.made(b.batch, b.columns)


@functools.lru_cache(256)
def exchanged_program(tile: RegisterTile, batches: int, epilogue: PlacedEpilogue | None = None) -> MatmulProgram:
    """Tiles of registers with the operands exchanged, whose transposed result is transposed in scratch.

    The grid has panels, and blocks of rows, each with its own copy of the panel.
    """
    b = _MatmulBuilder(tile, batches)
    b.dim(b.rows, "ROWS", "grid", ((tile.squares,), tile.heights), masked=True)
    b.dim(b.columns, tile.width, "grid", ((tile.lanes,),), masked=True)
    b.dim(b.terms, f"n{b.terms}", "whole", ((1,),))
    sums, panel = b.hold(b.rows, b.columns), b.hold(b.terms, b.columns)
    b.sweep(b.copy(b.address(1), panel))
    products = b.contract(b.address(0, contiguous=b.terms), panel, "products")
    b.sweep([*b.store(products, sums), *b.finish([TileLoad(TOTAL, sums, b.kind)], epilogue, along=b.rows)])
    return b.made(b.batch, b.rows, b.columns)


@functools.lru_cache(256)
def prepacked_program(tile: RegisterTile, packed: bool, epilogue: PlacedEpilogue | None = None) -> MatmulProgram:
    """Tiles of registers with prepacked panels: an axis around the matmul.

    Threads share the rows. If a block of rows is ``packed``, too, those of a tile are interleaved, term after term.
    """
    b = _MatmulBuilder(tile, 1)
    b.dim(b.rows, tile.block, "range", (tile.heights,), masked=True)
    b.dim(b.columns, tile.width, "whole", ((tile.lanes,),))
    b.dim(b.terms, f"n{b.terms}", "whole", ((1,),))
    b.sizes[b.columns] = tile.width
    left, (panels,) = b.address(0, without=b.batch), b.batch
    if packed:
        block = b.hold(b.rows, b.terms, b.rows)
        b.sweep(b.copy(left, block))
        left = block
    right = b.address(1, contiguous=b.columns, known={b.terms: tile.width})
    b.sweep(b.finish(b.contract(left, right), epilogue), panels)
    return b.made(b.rows)


@functools.lru_cache(256)
def in_place_program(
    tile: RegisterTile, batches: int, segments: int, epilogue: PlacedEpilogue | None = None
) -> MatmulProgram:
    """Tiles of registers, of both operands in place; the terms are in segments, over so many more axes than one.

    The last tile of columns ends with the last column, and computes some again.
    """
    b = _MatmulBuilder(tile, batches, segments)
    b.dim(b.rows, f"n{b.rows}", "whole", (tile.heights,), masked=True)
    b.dim(b.columns, tile.width, "grid", ((tile.lanes,),))
    for axis in (*b.segments, b.terms):
        b.dim(axis, f"n{axis}", "whole", ((1,),))
    b.sweep(b.finish(b.contract(b.address(0), b.address(1, contiguous=b.columns)), epilogue))
    return b.made(b.batch, b.columns)


@functools.lru_cache(256)
def line_program(
    tile: RegisterTile, lines: int, segments: int, epilogue: PlacedEpilogue | None = None
) -> MatmulProgram:
    """Tiles of registers with prepacked panels: an axis around the matmul.

    Threads share lines of rows, over so many axes. The terms are in segments, over so many more axes than one.
    """
    b = _MatmulBuilder(tile, 1 + lines, segments)
    shared, (panels,) = b.batch[1:], b.batch[:1]
    b.dims.append(TileDim(shared, "LINES", "range", True, parts=((1,),)))
    b.dim(b.rows, f"n{b.rows}", "whole", (tile.heights,), masked=True)
    b.dim(b.columns, tile.width, "whole", ((tile.lanes,),))
    for axis in (*b.segments, b.terms):
        b.dim(axis, f"n{axis}", "whole", ((1,),))
    b.sizes[b.columns] = tile.width
    right = b.address(1, contiguous=b.columns, without=shared, known={b.terms: tile.width})
    left = b.address(0, without=(panels,))
    b.sweep(b.finish(b.contract(left, right), epilogue), panels)
    return b.made(shared)


@functools.cache
def dot_program(tile: RegisterTile, height: int, batches: int) -> MatmulProgram:
    """Dot products: tiles of as many elements as a vector has, in so many rows."""
    b = _MatmulBuilder(tile, batches)
    b.dim(b.rows, f"n{b.rows}", "whole", ((height,),))
    b.dim(b.columns, tile.lanes // height, "grid", masked=True)
    b.dim(b.terms, f"n{b.terms}", "whole", ((tile.lanes,),))
    total = b.contract(b.address(0, contiguous=b.terms), b.address(1, contiguous=b.terms))
    b.sweep(b.store(total, b.address(2, contiguous=b.columns)))
    return b.made(b.batch, b.columns)


class _MatmulBuilder:
    """Builds the program of a matmul over axes of so many batch loops, rows, columns, segments of terms, and terms."""

    def __init__(self, tile: RegisterTile, batches: int, segments: int = 0) -> None:
        self.kind = tile.kind
        self.batch = tuple(range(batches))
        self.rows, self.columns, *self.segments, self.terms = range(batches, batches + 3 + segments)
        self.sizes: list[int | None] = [None] * (batches + 3 + segments)
        self.dims: list[TileDim] = []
        self.scratch: list[TileScratch] = []
        self.sweeps: list[TileSweep] = []
        self.strides = StrideArguments()
        self.kinds = [self.kind] * 3  # of the arrays
        self.count = 0

    def dim(
        self, axis: int, block: int | str, walk: str, parts: tuple[tuple[int, ...], ...] = (), masked: bool = False
    ) -> None:
        """Add a dimension of tiles."""
        self.dims.append(TileDim((axis,), block, walk, masked, parts=parts))

    def hold(self, *axes: int) -> Address:
        """The address in a scratch array, laid out in this order of axes."""
        name = f"t{len(self.scratch)}"
        self.scratch.append(TileScratch(name, self.kind, axes))
        return Address(name, tuple((axis, Factor()) for axis in dict.fromkeys(axes)))

    def address(
        self, array: int, contiguous: int = -1, without: Collection[int] = (), known: Mapping[int, int] | None = None
    ) -> Address:
        """The address of an element of the left matrix, the right one, the result, or an array of the epilogue."""
        terms = (*self.segments, self.terms)
        own = ((self.rows, *terms), (self.columns, *terms), (self.rows, self.columns))[min(array, 2)]
        axes = tuple([a for a in (*self.batch, *own) if a not in without])
        return self.strides.address(array, axes, {contiguous: 1, **(known or {})})

    def load(self, address: Address) -> TileLoad:
        """A load statement."""
        return TileLoad(self._name(), address, self.kind)

    def copy(self, source: Address, target: Address) -> list[Statement]:
        """A load and a store."""
        return self.store([self.load(source)], target)

    def contract(self, left: Address, right: Address, name: str = TOTAL) -> list[Statement]:
        """Loads of both operands, and the contraction."""
        x, y = self.load(left), self.load(right)
        return [x, y, TileContract(name, x.name, y.name, (*self.segments, self.terms), self.kind)]

    def finish(
        self, total: list[Statement], placed: PlacedEpilogue | None, along: int | None = None
    ) -> list[Statement]:
        """Statements that end with ``TOTAL``, and its store, or an epilogue.

        Arrays are contiguous along columns, or another axis.
        """
        along = self.columns if along is None else along
        if placed is None:
            return self.store(total, self.address(2, contiguous=along))
        kept = {*self.batch, self.rows, self.columns}
        addresses = [
            self.address(array, contiguous=along if along in follows else -1, without=kept - follows)
            for array, follows in enumerate(placed.follows, 2)
        ]
        self.kinds[2:] = placed.epilogue.kinds
        return [*total, *placed.epilogue.at(addresses)]

    def store(self, statements: Sequence[Statement], target: Address) -> list[Statement]:
        """The statements, and a store of the last one's value."""
        last = statements[-1]
        assert isinstance(last, TileLoad | TileContract)
        return [*statements, TileStore(last.name, target)]

    def sweep(self, statements: Sequence[Statement], *axes: int) -> None:
        """Add a sweep."""
        self.sweeps.append(TileSweep(axes, tuple(statements)))

    def made(self, *parallel: int | Axes) -> MatmulProgram:
        """The program; threads share these axes."""
        shared = tuple(a for axes in parallel for a in ((axes,) if isinstance(axes, int) else axes))
        program = TileProgram(
            tuple(TileBuffer(f"b{i}", kind) for i, kind in enumerate(self.kinds)),
            tuple(self.sizes),
            shared,
            tuple(self.sweeps),
            tuple(self.scratch),
            len(self.strides.arguments),
            tiles=tuple(self.dims),
        )
        if OPTIONS.verify:
            verify(program)
        return MatmulProgram(program, self.strides)

    def _name(self) -> str:
        self.count += 1
        return str(self.count - 1)

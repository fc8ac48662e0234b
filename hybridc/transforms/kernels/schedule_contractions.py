"""The schedule of a contraction as a tile program: loops, tiles of vector registers, or dot products.

Its axes are the contraction's coalesced loops. Sizes and strides are given to the code, as to compile it takes longer
than most contractions; only strides of 0 and 1 that vectors need are part of it. So one function serves all sizes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.ir import SSAValue

from hybridc.dialects.operator_attribute import DType
from hybridc.ir.contraction_shape import ContractionLoops, Loop, Matrices
from hybridc.ir.kernel import KernelOp, LoopNest, Read
from hybridc.ir.loop_nest_plan import LoopNestPlan
from hybridc.ir.tile_program import (
    Address,
    Axes,
    Factor,
    Statement,
    TileBuffer,
    TileContract,
    TileDim,
    TileLoad,
    TileProgram,
    TileReduce,
    TileScratch,
    TileStore,
    TileSweep,
    verify,
)
from hybridc.options import OPTIONS
from hybridc.transforms.kernels.tile_statements import BodyStatements, kind_of, start_of


@dataclass(frozen=True)
class ContractionSchedule:
    """A tile program with the sizes and strides that its code is given; threads share ``extent`` indices."""

    program: TileProgram
    numbers: tuple[int, ...]
    extent: int


# --- plain loops ------------------------------------------------------------------------------------------------------


def schedule_loops(contraction: ContractionLoops, kernel_op: KernelOp, nest: LoopNest) -> ContractionSchedule:
    """A contraction of any types and strides as loops around the op's own body.

    All loops of the result but one are parallel. That one and the reduction loops compute either a row of the result,
    to which each term adds a multiple of a row of one operand, or element by element, each a sum along the last loop.
    """
    order = _loop_order(contraction)
    rank = len(order.parallel)
    parallel, last, summed = tuple(range(rank)), rank, tuple(range(rank + 1, len(order.loops)))
    walk = (*summed, last) if order.rows else (last, *summed)
    innermost = order.loops[walk[-1]].steps
    strides = _Strides(order.loops, {(i, walk[-1]): step for i, step in enumerate(innermost) if step in (0, 1)})
    left, right, result = [strides.address(i) for i in range(3)]
    inner = (last, *summed)
    plan = LoopNestPlan(nest, (), {}, parallel, inner, False, frozenset(range(len(order.loops))))
    body = _ContractionBody(plan, axes=walk, addresses=dict(zip(kernel_op.reads, (left, right), strict=True)))
    assert kernel_op.combine is not None
    term = body.element(kernel_op)
    carried = 0 if order.rows else len(summed)
    rest = (summed, kind_of(kernel_op.result), carried, result, order.rows)
    body.add(TileReduce, kernel_op.combine.name, term, start_of(kernel_op), *rest)
    values = [*(r.value for r in kernel_op.reads), kernel_op.result]
    sweeps = [TileSweep((), tuple(body.before))] if body.before else []
    program = TileProgram(
        tuple(TileBuffer(f"b{i}", kind_of(v)) for i, v in enumerate(values)),
        (None,) * len(order.loops),
        parallel,
        (*sweeps, TileSweep(walk, tuple(body.statements))),
        strides=len(strides.given),
        inner=inner,
    )
    if OPTIONS.verify:
        verify(program)
    extent = math.prod(loop.size for loop in order.parallel)
    return ContractionSchedule(program, _numbers(program, order.loops, strides.given), extent)


def _numbers(program: TileProgram, loops: Sequence[Loop], strides: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """The sizes and strides that the code of a program is given."""
    return (*(loops[a].size for a in program.dynamic), *(loops[axis].steps[array] for array, axis in strides))


@dataclass(frozen=True)
class _LoopOrder:
    """The loops that threads share, one more of the result, and the reduction loops.

    ``rows``: the reduction loops are outside that one loop of the result.
    """

    parallel: tuple[Loop, ...]
    last: Loop
    summed: tuple[Loop, ...]
    rows: bool

    @property
    def loops(self) -> tuple[Loop, ...]:
        """All loops: the axes of the program."""
        return (*self.parallel, self.last, *self.summed)


def _loop_order(contraction: ContractionLoops) -> _LoopOrder:
    """Rows of the result, if one operand has contiguous rows and no reduction loop is contiguous in both."""
    kept, summed = list(contraction.kept), list(contraction.summed)
    row = next((x for x in reversed(kept) if x.steps[2] == 1 and all(s in (0, 1) for s in x.steps)), None)
    along = next((x for x in summed if x.steps[0] == x.steps[1] == 1), None)
    if row is not None and (along is None or row.size > along.size):
        kept.remove(row)
        return _LoopOrder(tuple(kept), row, tuple(summed), rows=True)
    if along is None:
        along = min(summed, key=lambda x: abs(x.steps[0]) + abs(x.steps[1]), default=Loop(1, 0, 0, None))
    summed = [*(x for x in summed if x is not along), along]
    last = kept.pop() if kept else Loop(1, None, None, 0)
    return _LoopOrder(tuple(kept), last, tuple(summed), rows=False)


@dataclass
class _Strides:
    """The strides that code is given: for each its array and axis, but those that are ``known``: 0 or 1."""

    loops: Sequence[Loop]
    known: Mapping[tuple[int, int], int]
    given: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])

    def address(self, array: int) -> Address:
        """The address of an element of the left operand, the right one, or the result."""
        found = [(axis, f) for axis, loop in enumerate(self.loops) if (f := self._factor(array, axis, loop))]
        return Address(f"b{array}", tuple(found))

    def _factor(self, array: int, axis: int, loop: Loop) -> Factor | None:
        known = self.known.get((array, axis))
        if not loop.kind[array] or known == 0:
            return None
        if known == 1:
            return Factor()
        self.given.append((array, axis))
        return Factor(stride=len(self.given) - 1)


@dataclass(eq=False)
class _ContractionBody(BodyStatements):
    """The statements of one term of a contraction, whose operands are at given addresses: none at computed indices."""

    addresses: dict[Read, Address] = field(default_factory=dict[Read, Address])

    def address(self, read: Read) -> Address:
        return self.addresses[read]

    def buffer(self, value: SSAValue) -> str:
        raise LookupError(f"a contraction reads {value} at computed indices")

    def strides(self, value: SSAValue) -> tuple[Factor, ...]:
        raise LookupError(f"a contraction reads {value} at computed indices")


# --- vector registers -------------------------------------------------------------------------------------------------
# Registers hold a tile of the result, some rows by two vectors of columns. For each term, a row of the right matrix
# times one element of each row of the left one is added to it: an outer product. The right matrix is packed: the
# columns of a tile, a *panel*, term after term. Where the left matrix is the smaller one, the operands are exchanged:
# its rows become the columns of panels, the right matrix is read in place, and what is computed, the transposed result,
# is transposed back.
#
# Few rows whose terms follow memory in both operands are dot products: a vector of partial sums for each element.

# Vectors side by side in a tile.
ABREAST = 2
# Rows of a low tile: as many accumulators as hide the latency of a multiply-add.
LOW = 4
# The most rows of a tile of dot products.
DOTS = 4
# High tiles in a block of rows that meets one prepacked panel after the other: it and a panel stay in the second cache.
TILES = 8


@dataclass(frozen=True)
class Registers:
    """The vector registers of a processor with fused multiply-add: their bytes, their number."""

    bytes: int
    count: int

    def lanes(self, dtype: DType) -> int:
        """Elements of a vector."""
        return self.bytes // dtype.itemsize


@dataclass(frozen=True)
class RegisterTile:
    """The tile that vector registers hold of a result."""

    dtype: DType
    vectors: Registers

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
        return ABREAST * self.lanes

    @property
    def heights(self) -> tuple[int, int]:
        """Rows of tiles: as many as leave registers for a row of the panel and an element; fewer for the last rows."""
        return (self.vectors.count - ABREAST - 2) // ABREAST // 6 * 6, LOW

    @property
    def squares(self) -> int:
        """Rows that are both whole high tiles and whole squares of vectors, which are transposed in registers."""
        return math.lcm(self.heights[0], self.lanes)

    @property
    def block(self) -> int:
        """Rows that meet one prepacked panel after the other."""
        return TILES * self.heights[0]


@dataclass(frozen=True, eq=False)
class MatmulProgram:
    """The tile program of matmuls of all sizes; for each stride that it is given its array and axis."""

    program: TileProgram
    strides: tuple[tuple[int, int], ...]

    def numbers(self, loops: Sequence[Loop], *parameters: int) -> tuple[int, ...]:
        """The sizes, strides and parameters that its code is given."""
        return (*_numbers(self.program, loops, self.strides), *parameters)


def matmul_loops(given: Matrices, around: Sequence[Loop]) -> tuple[Loop, ...]:
    """The loops of a matmul: ``around`` it, its rows, columns, terms."""
    rows = Loop(given.m, given.a[0], None, given.c[0])
    return (*around, rows, Loop(given.n, None, *(given.b[1], given.c[1])), Loop(given.k, given.a[1], given.b[0], None))


@functools.cache
def tile_program(tile: RegisterTile, batches: int) -> MatmulProgram:
    """Tiles of registers; each tile of the grid is a panel, which it packs in scratch."""
    b = _MatmulBuilder(tile, batches)
    b.dim(b.rows, f"n{b.rows}", "whole", (tile.heights,))
    b.dim(b.columns, tile.width, "grid", ((tile.lanes,),), masked=True)
    b.dim(b.terms, f"n{b.terms}", "whole", ((1,),))
    panel = b.hold(b.terms, b.columns)
    b.sweep(b.copy(b.address(1), panel))
    b.sweep(b.store(b.contract(b.address(0), panel), b.address(2, contiguous=b.columns)))
    return b.made(b.batch, b.columns)


@functools.cache
def exchanged_program(tile: RegisterTile, batches: int) -> MatmulProgram:
    """Tiles of registers with the operands exchanged, whose transposed result is transposed in scratch.

    The grid has panels, and blocks of rows, each with its own copy of the panel.
    """
    b = _MatmulBuilder(tile, batches)
    b.dim(b.rows, "ROWS", "grid", ((tile.squares,), tile.heights), masked=True)
    b.dim(b.columns, tile.width, "grid", ((tile.lanes,),), masked=True)
    b.dim(b.terms, f"n{b.terms}", "whole", ((1,),))
    sums, panel = b.hold(b.rows, b.columns), b.hold(b.terms, b.columns)
    b.sweep(b.copy(b.address(1), panel))
    total = b.contract(b.address(0, contiguous=b.terms), panel)
    b.sweep([*b.store(total, sums), *b.copy(sums, b.address(2, contiguous=b.rows))])
    return b.made(b.batch, b.rows, b.columns)


@functools.cache
def prepacked_program(tile: RegisterTile, packed: bool) -> MatmulProgram:
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
    b.sweep(b.store(b.contract(left, right), b.address(2, contiguous=b.columns)), panels)
    return b.made(b.rows)


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
    """Builds the program of a matmul over axes of so many batch loops, rows, columns and terms."""

    def __init__(self, tile: RegisterTile, batches: int) -> None:
        self.kind = tile.kind
        self.batch = tuple(range(batches))
        self.rows, self.columns, self.terms = range(batches, batches + 3)
        self.sizes: list[int | None] = [None] * (batches + 3)
        self.dims: list[TileDim] = []
        self.scratch: list[TileScratch] = []
        self.sweeps: list[TileSweep] = []
        self.strides: list[tuple[int, int]] = []
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
        self, array: int, contiguous: int = -1, without: Axes = (), known: Mapping[int, int] | None = None
    ) -> Address:
        """The address of an element of the left matrix, the right one, or the result."""
        own = {0: (self.rows, self.terms), 1: (self.columns, self.terms), 2: (self.rows, self.columns)}[array]
        terms: list[tuple[int, Factor]] = []
        for axis in (*(a for a in self.batch if a not in without), *own):
            number = 1 if axis == contiguous else (known or {}).get(axis)
            if number is None:
                self.strides.append((array, axis))
            terms.append((axis, Factor(stride=len(self.strides) - 1) if number is None else Factor(number)))
        return Address(f"b{array}", tuple(terms))

    def load(self, address: Address) -> TileLoad:
        """A load statement."""
        return TileLoad(self._name(), address, self.kind)

    def copy(self, source: Address, target: Address) -> list[Statement]:
        """A load and a store."""
        return self.store([self.load(source)], target)

    def contract(self, left: Address, right: Address) -> list[Statement]:
        """Loads of both operands, and the contraction."""
        x, y = self.load(left), self.load(right)
        return [x, y, TileContract(self._name(), x.name, y.name, (self.terms,), self.kind)]

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
            tuple(TileBuffer(f"b{i}", self.kind) for i in range(3)),
            tuple(self.sizes),
            shared,
            tuple(self.sweeps),
            tuple(self.scratch),
            len(self.strides),
            tiles=tuple(self.dims),
        )
        if OPTIONS.verify:
            verify(program)
        return MatmulProgram(program, tuple(self.strides))

    def _name(self) -> str:
        self.count += 1
        return str(self.count - 1)

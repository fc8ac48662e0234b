"""The schedule of a kernel for a machine whose statements are functions of whole arrays, as tile programs.

A contraction is a program of its own, on whole arrays. All other statements of a loop nest are one sweep over tiles:
blocks along one of the parallel axes, at each index of those before it, and all of the axes after it. A small nest is
one tile, and its axes are not merged: to see an array in another shape takes a call. A reduction along the parallel
axes gives partial results, one for each index (or block) of the outermost axis, so that results do not depend on how
threads share the work; or, if these would be many, all tiles add to the result, by turns.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import field, replace

from hybridc.dialects.math.reduction import LONG_COLUMN
from hybridc.dialects.operator_attribute import Shape
from hybridc.dtypes import DType, is_float
from hybridc.ground.machine import CHUNKS, NOMINAL
from hybridc.ground.records import dataclass
from hybridc.ir.costs import ONE_TILE
from hybridc.ir.kernels.kernel import Axes, Kernel, KernelOp, KernelValue, LoopNest, Read
from hybridc.ir.loop_nest_plan import LoopNestPlan, plan_tiles
from hybridc.ir.scalars import constant_as
from hybridc.ir.structured_builder import conversion, kind_dtype, signless
from hybridc.ir.tiles.tile_program import (
    Address,
    Effect,
    Factor,
    Statement,
    TileBuffer,
    TileContract,
    TileDim,
    TileGather,
    TileLoad,
    TileMap,
    TileProgram,
    TileReduce,
    TileStore,
    TileSweep,
    axes_of_values,
    buffers_of,
    needed,
    operands_of,
)
from hybridc.ir.tiles.tile_spec import verify
from hybridc.options import OPTIONS
from hybridc.transforms.schedules.schedule_kernels import BodyStatements


@dataclass(frozen=True)
class ArrayMachine:
    """A processor that is driven by calls of functions on arrays, of about a microsecond each."""

    # Elements of a tile: larger ones spill the caches, smaller ones drown in the cost of calls.
    tile_elements: int = ONE_TILE
    # The same where threads share a kernel: they hand over Python's lock at each call, which takes as long as the
    # arithmetic of a smaller tile. Four arrays of single precision fill the third cache.
    shared_tile_elements: int = NOMINAL.third // 4 // 4
    # Bytes that all arrays of such a tile may have: the more arrays, the smaller the tiles that stay in that cache.
    # Kernels of backwards, with five to twelve arrays, are 5 to 25 % faster for it; a fourth to three fourths of the
    # cache do equally well.
    shared_tile_bytes: int = NOMINAL.third // 4 * 3
    # Below three tiles for each of two threads, a second one costs as much as it saves by Python's lock.
    parallel_elements: int = 6 * ONE_TILE
    # Chunks a loop is split into for each thread.
    chunks: int = CHUNKS
    # Partial results may have so many elements for each that is reduced; else tiles add to the result by turns.
    partial_share: float = 1 / 8


MACHINE = ArrayMachine()


@dataclass(frozen=True, eq=False)
class ArrayNest:
    """The programs of a loop nest over ``domain``: of its contraction, and of the rest.

    Its tiles are shared by ``threads``, in so many ``chunks`` at most.
    """

    domain: Shape
    contraction: TileProgram | None
    rest: TileProgram | None
    threads: int = 1
    chunks: int = 1

    @property
    def programs(self) -> list[TileProgram]:
        """All of them, in order."""
        return [p for p in (self.contraction, self.rest) if p is not None]


class ArrayMemory:
    """The arrays of a kernel: arguments ``x0``…, results ``y0``…, and ``w0``…, which are there while it runs.

    ``orders`` are the axes of values that lie in memory in another order than their own. ``pieces`` names, for each
    buffer of partial results, the array that they are combined into. ``strided`` arrays may be no plain ones.
    ``copies`` are results that are other arrays.
    """

    def __init__(self, kernel: Kernel, strided: Set[int]) -> None:
        self.shapes: dict[str, Shape] = {}
        self.dtypes: dict[str, DType] = {}
        self.names: dict[KernelValue, str] = {}
        self.orders: dict[KernelValue, Axes] = {}
        self.first_stride: dict[str, int] = {}
        self.pieces: dict[str, str] = {}
        self.copies: list[tuple[str, str]] = []
        values = [*kernel.arguments, *kernel.results]
        self.strided = frozenset(values[i] for i in strided)
        for i, v in enumerate(kernel.arguments):
            self.names[v] = self._array(f"x{i}", v.dtype, v.shape)
        for i, v in enumerate(kernel.results):
            name = self._array(f"y{i}", v.dtype, v.shape)
            if v.constant is None and v in self.names:
                self.copies.append((name, self.names[v]))
            elif v.constant is None:
                self.names[v] = name

    def _array(self, name: str, dtype: DType, shape: Shape) -> str:
        self.first_stride[name] = sum(map(len, self.shapes.values()))
        self.shapes[name], self.dtypes[name] = shape, dtype
        return name

    def local(self, dtype: DType, shape: Shape) -> str:
        """An array of the kernel's own."""
        return self._array(f"w{sum(name[0] == 'w' for name in self.shapes)}", dtype, shape)

    def parts(self, name: str) -> str:
        """The buffer of the partial results of an array."""
        buffer = f"p{name[1:]}" if name[0] == "y" else f"p_{name}"
        self.pieces[buffer] = name
        return buffer


def schedule_arrays(
    kernel: Kernel,
    threads: int,
    strided: Set[int] = frozenset(),
    updates: Sequence[int] = (),
    machine: ArrayMachine | None = None,
) -> tuple[list[ArrayNest], ArrayMemory]:
    """The programs of a kernel, and its arrays.

    ``strided`` are the arguments, then results, that may not be contiguous. Results with the indices ``updates`` may
    hold something before they are written: they may lie over an argument.
    """
    memory = ArrayMemory(kernel, strided)
    scheduler = _ArrayScheduler(kernel, memory, threads, updates, machine or MACHINE)
    return [scheduler.nest(index) for index in range(len(kernel.nests))], memory


@dataclass(eq=False)
class _ArrayScheduler:
    kernel: Kernel
    memory: ArrayMemory
    threads: int
    updates: Sequence[int]
    machine: ArrayMachine

    def __post_init__(self) -> None:
        nests = enumerate(self.kernel.nests)
        kernel_ops = [(n, s, kernel_op) for n, nest in nests for s, kernel_op in enumerate(nest.ops)]
        self.last_read = {r.value: (n, s) for n, s, kernel_op in kernel_ops for r in kernel_op.reads}
        self.wanted = {*self.last_read, *self.kernel.results}

    def nest(self, index: int) -> ArrayNest:
        """The programs of a loop nest."""
        nest = self.kernel.nests[index]
        contracted: TileProgram | None = None
        contraction = (
            nest.contraction if nest.contraction is not None and nest.contraction.result in self.wanted else None
        )
        if contraction is not None:
            contracted = self._contraction(nest, contraction)
        for kernel_op in nest.ops:
            if kernel_op.result in self.wanted and self.last_read.get(kernel_op.result, (index, 0))[0] != index:
                self._keep(kernel_op)
        rest = replace(nest, ops=tuple(s for s in nest.ops if s.kind != "contraction" and s.result in self.wanted))
        if not rest.ops:
            return ArrayNest(nest.domain, contracted, None)
        apart = plan_tiles(self.kernel, rest, self.memory.strided, merge=False)
        program = _ArrayStatements(apart, memory=self.memory).program()
        cost = _Cost.of(program, contraction is None)
        long = any(_is_long_column(s, nest.domain) for s in rest.ops)
        total, machine = math.prod(nest.domain), self.machine
        threads = self.threads if total >= machine.parallel_elements else 1
        elements = self._tile_elements(cost, total, threads)
        if nest.grid == 0 or (
            not long and (total <= 2 * machine.tile_elements or (threads == 1 and total <= elements))
        ):
            return ArrayNest(nest.domain, contracted, program)
        plan = plan_tiles(self.kernel, rest, self.memory.strided, merge=True)
        loop, block = self._block(plan, rest, elements, long)
        sizes = plan.sizes
        pieces = -(-sizes[0] // block) if loop == 0 else sizes[0]
        partial = pieces * sum(s.result.size for s in rest.ops if s.kind == "column")
        direct = partial > machine.partial_share * total
        if direct and cost.once:
            return ArrayNest(nest.domain, contracted, program)
        threads = threads if sizes[0] >= threads and not direct else 1
        statements = _ArrayStatements(plan, memory=self.memory, loop=loop, block=block, direct=direct)
        return ArrayNest(nest.domain, contracted, statements.program(), threads, threads * machine.chunks)

    def _tile_elements(self, cost: _Cost, total: int, threads: int) -> int:
        """The largest tile: a thread's whole share where no cache would help."""
        machine = self.machine
        if cost.once:
            return -(-total // (threads * machine.chunks if threads > 1 else 1))
        if threads == 1:
            return machine.tile_elements
        share = total // (2 * threads)  # two tiles for each thread at least
        most = min(machine.shared_tile_elements, share, machine.shared_tile_bytes // max(1, cost.bytes))
        return max(machine.tile_elements, most)

    def _block(self, plan: LoopNestPlan, nest: LoopNest, elements: int, long: bool) -> tuple[int, int]:
        """The axis that is cut into blocks, and how large these are."""
        sizes, outer = plan.sizes, len(plan.parallel)
        if any(s.kind == "column" and len(s.axes) + len(s.reduced) < len(nest.domain) for s in nest.ops):
            outer = 1  # inner loops would repeat what does not depend on them, and add it again
        loop = 0
        while loop < outer - 1 and math.prod(sizes[loop + 1 :]) > elements:
            loop += 1
        block = max(1, elements // max(1, math.prod(sizes[loop + 1 :])))
        return loop, _near_divisor(sizes[loop], min(block, LONG_COLUMN) if long else block)

    # --- memory --------------------------------------------------------------------------------------------

    def _keep(self, kernel_op: KernelOp) -> str:
        """The array of a result that other loop nests read."""
        value = kernel_op.result
        if value not in self.memory.names:
            self.memory.names[value] = self.memory.local(value.dtype, value.shape)
        return self.memory.names[value]

    def _heir(self, nest: LoopNest, contraction: KernelOp) -> KernelOp | None:
        """The op in whose result's memory a contraction may be computed, since it reads the contraction last."""
        at = nest.ops.index(contraction)
        last = self.last_read.get(contraction.result, (nest.position, -1))
        strided, results = self.memory.strided, self.kernel.results
        for later, other in enumerate(nest.ops[at + 1 :], at + 1):
            name = self.memory.names.get(other.result, "")
            if (
                other.kind != "elementwise"
                or name[:1] != "y"
                or other.result in strided
                or int(name[1:]) in self.updates
            ):
                continue
            same = results[int(name[1:])].dtype == contraction.result.dtype
            if same and {*other.axes} == {*contraction.axes} and last <= (nest.position, later):
                return other
        return None

    # --- contractions --------------------------------------------------------------------------------------

    def _contraction(self, nest: LoopNest, contraction: KernelOp) -> TileProgram:
        """The program of a contraction, in the dtype of the sum."""
        known = {**dict(enumerate(nest.domain)), **contraction.extents}
        everywhere = tuple(range(max(known, default=-1) + 1))
        space = tuple(known.get(a, 1) for a in everywhere)
        plan = LoopNestPlan(nest, space, {a: a for a in everywhere}, (), everywhere, False, frozenset())
        writer = _ArrayStatements(plan, memory=self.memory)
        dtype = contraction.result.dtype
        operands = [self._operand(writer, read, dtype) for read in contraction.reads]
        axes = contraction.axes
        if contraction.result not in self.memory.names:
            heir = self._heir(nest, contraction)
            if heir is not None:
                self.memory.names[contraction.result] = self.memory.names[heir.result]
                axes = self.memory.orders[contraction.result] = heir.axes
            else:
                self._keep(contraction)
        over = tuple(sorted(contraction.reduced))
        name = writer.add(TileContract, *operands, over, contraction.result.kind)
        writer.write(TileStore(name, writer.element_at(contraction.result, axes)))
        return writer.tiled(writer.statements)

    def _operand(self, writer: _ArrayStatements, read: Read, dtype: DType) -> str:
        """A factor; one of another dtype, or that is a scalar constant, is converted into an array of its own."""
        kind, constant = str(signless(dtype)), read.value.constant
        if constant is None and read.value.dtype == dtype:
            return writer.read(read)
        if constant is None:
            op = conversion(read.value.dtype, dtype)
            factor = writer.add(TileMap, op, (writer.read(read),), kind)
        else:
            factor = writer.constant(constant_as(constant, dtype), kind)
        # What is read at sums of axes is converted once for each index of all of them.
        shape = tuple(writer.plan.sizes[a] for a in read.axes) if read.index else read.value.shape
        address = writer.space.row_major(self.memory.local(dtype, shape), read.axes)
        writer.write(TileStore(factor, address))
        return writer.add(TileLoad, address, kind)


@dataclass(eq=False)
class _ArrayStatements(BodyStatements):
    """Writes ops as statements on tiles: one tile, or along axis ``loop`` so many as have ``block`` elements.

    Reductions along the parallel axes go ``direct`` into their results, or are partial results.
    """

    memory: ArrayMemory = field(kw_only=True)
    loop: int | None = None
    block: int = 1
    direct: bool = False

    def __post_init__(self) -> None:
        self.space = TileProgram((), self.plan.sizes, (), ())

    def program(self) -> TileProgram:
        """The program of all ops."""
        for kernel_op in self.plan.op_of.values():
            self._kernel_op(kernel_op)
        return self.tiled(self.statements)

    def tiled(self, statements: Sequence[Statement]) -> TileProgram:
        """Statements, but for those that nobody needs, as one sweep over the tiles."""
        kept = needed(statements)
        used = dict.fromkeys(b for s in kept for b in buffers_of(s))
        buffers = tuple(self._described(name) for name in used)
        strides = sum(map(len, self.memory.shapes.values())) if any(map(_has_stride, kept)) else 0
        first = 0 if self.loop is None else self.loop + 1
        tiles = [TileDim((a,), n, "whole", False) for a, n in enumerate(self.plan.sizes) if a >= first]
        if self.loop is not None:
            uneven = self.plan.sizes[self.loop] % self.block != 0
            tiles.insert(0, TileDim((self.loop,), self.block, "grid", uneven))
        sweep = TileSweep((), kept)
        parallel = tuple(range(first))
        program = TileProgram(buffers, self.plan.sizes, parallel, (sweep,), strides=strides, tiles=tuple(tiles))
        if OPTIONS.verify:
            verify(program)
        return program

    def _described(self, name: str) -> TileBuffer:
        pieces = name in self.memory.pieces
        dtype = self.memory.dtypes[self.memory.pieces.get(name, name)]
        return TileBuffer(name, str(signless(dtype)), pieces)

    # --- memory --------------------------------------------------------------------------------------------

    def buffer(self, value: KernelValue) -> str:
        return self.memory.names[value]

    def strides(self, value: KernelValue) -> tuple[Factor, ...]:
        first = self.memory.first_stride[self.memory.names[value]]
        return tuple(Factor(stride=first + i) for i in range(len(value.shape)))

    def address(self, read: Read) -> Address:
        return self.element_at(read.value, self.memory.orders.get(read.value, read.axes))

    def element_at(self, value: KernelValue, axes: Axes) -> Address:
        """The element of a value whose dimensions follow axes of the loop nest."""
        merged = self.plan.axes(axes)
        if value in self.memory.strided:
            return Address(self.buffer(value), tuple(zip(merged, self.strides(value), strict=True)))
        return self.space.row_major(self.buffer(value), merged)

    # --- ops -----------------------------------------------------------------------------------------------

    def write(self, statement: Statement, varies: bool = True) -> None:
        self.statements.append(statement)

    def _kernel_op(self, kernel_op: KernelOp) -> None:
        value = kernel_op.result
        if kernel_op.combine is not None and kernel_op.kind == "column" and self.loop is not None:
            self._partial(kernel_op, kernel_op.combine.op, self.loop)
            return
        if kernel_op.combine is None:
            self.known[value] = self.body(kernel_op)
        else:
            over = self.plan.axes(kernel_op.reduced)
            self.known[value] = self._reduced(kernel_op, kernel_op.combine.op, over, None, False)
        if value in self.memory.names:
            self.write(TileStore(self.known[value], self.element_at(value, kernel_op.axes)))

    def _partial(self, kernel_op: KernelOp, combine: str, loop: int) -> None:
        """The partial result of a tile in a reduction along parallel axes."""
        result = self.memory.names[kernel_op.result]
        axes, over = self.plan.axes(kernel_op.axes), self.plan.axes(kernel_op.reduced)
        if self.direct:
            self._reduced(kernel_op, combine, over, self.element_at(kernel_op.result, kernel_op.axes), True)
            return
        into = self.space.row_major(self.memory.parts(result), axes)
        self._reduced(kernel_op, combine, over, into, any(0 < a <= loop for a in over))

    def _reduced(self, kernel_op: KernelOp, combine: str, over: Axes, into: Address | None, accumulates: bool) -> str:
        kind = kernel_op.result.kind
        return self.add(
            TileReduce, combine, self.element(kernel_op), kernel_op.initial(), over, kind, 0, into, accumulates
        )


def _has_stride(statement: Statement) -> bool:
    match statement:
        case TileLoad() | TileStore():
            address = statement.address
            return any(f.stride is not None for f in (*(f for _, f in address.terms), *address.offset))
        case TileGather():
            return True
        case _:
            return False


def _is_long_column(kernel_op: KernelOp, domain: Shape) -> bool:
    """Whether an op is a floating-point sum over outer axes with more elements than should be added in sequence."""
    is_sum = kernel_op.combine is not None and kernel_op.combine.op == "arith.addf"
    floating = is_sum and kernel_op.kind == "column" and is_float(kernel_op.result.dtype)
    is_column = floating and len(domain) - 1 not in kernel_op.reduced
    return is_column and math.prod(domain[a] for a in kernel_op.reduced) > LONG_COLUMN


def _near_divisor(size: int, wanted: int) -> int:
    """A block near ``wanted`` that divides ``size`` if there is one at least half as large."""
    if wanted >= size:
        return size
    for block in range(wanted, max(1, wanted // 2), -1):
        if size % block == 0:
            return block
    return wanted


# --- what a tile takes ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Cost:
    """Whether every array is gone through ``once``, so that no cache would help; and the ``bytes`` of all at an index.

    Only arrays count that have all axes.
    """

    once: bool
    bytes: int

    @classmethod
    def of(cls, program: TileProgram, alone: bool) -> _Cost:
        """That of a program; if it is not ``alone``, something was made of the arrays before."""
        (sweep,) = program.sweeps
        rank = len(program.sizes)
        full = {name for name, axes in axes_of_values(sweep.statements).items() if len(axes) == rank}
        makers = {s.name: s for s in sweep.statements if not isinstance(s, Effect)}
        reads = Counter(v for s in sweep.statements if not isinstance(s, TileStore) for v in operands_of(s))
        joined = {v for v in reads if reads[v] == 1 and _sums_product(sweep.statements, makers, v)}
        touched: Counter[str] = Counter()
        for s in sweep.statements:
            for v in operands_of(s):
                if v in full - joined and not isinstance(s, TileStore):
                    touched[_array(makers[v])] += 1
            if isinstance(s, TileMap | TileGather) and s.name in full - joined:
                touched[s.name] += 1
        stored: set[str] = set()
        for s in sweep.statements:
            if isinstance(s, TileStore) and s.value in full:
                touched[_array(makers[s.value])] += s.value in stored or isinstance(makers[s.value], TileLoad)
                stored.add(s.value)
        once = alone and max(touched.values(), default=0) <= 1
        return cls(once, _bytes(sweep.statements, makers, full))


def _array(statement: Statement) -> str:
    """The name of a value's memory: for a load, its array."""
    assert not isinstance(statement, Effect)
    return statement.address.buffer if isinstance(statement, TileLoad) else statement.name


def _sums_product(statements: Sequence[Statement], makers: Mapping[str, Statement], name: str) -> bool:
    """Whether a value is a product that is added up only: a function does both."""
    value = makers[name]
    sums = (s for s in statements if isinstance(s, TileReduce) and s.operand == name and s.op == "arith.addf")
    stored = any(isinstance(s, TileStore) and s.value == name for s in statements)
    return isinstance(value, TileMap) and value.op == "arith.mulf" and next(sums, None) is not None and not stored


def _bytes(statements: Sequence[Statement], makers: Mapping[str, Statement], full: Set[str]) -> int:
    """The bytes of all arrays at one index: arguments, results, and memory of each kind for values in between.

    Values may lie in the memory of results while these are not made, but not where an argument may be that is read yet.
    """
    arrays: dict[str, int] = {}
    last = {v: i for i, s in enumerate(statements) for v in operands_of(s)}
    stored = {s.value for s in statements if isinstance(s, TileStore)}
    own = {v for v in full if isinstance(makers[v], TileMap | TileGather)}
    spare = Counter(_kind(makers[v]) for v in own & stored)
    read = max((last[v] for v in full & {*last} if isinstance(makers[v], TileLoad)), default=0)
    live: Counter[str] = Counter()
    most: Counter[str] = Counter()
    for i, s in enumerate(statements):
        live.subtract(_kind(makers[v]) for v in {*operands_of(s)} & own - stored if last[v] == i)
        if isinstance(s, TileLoad) and s.name in full:
            arrays[s.address.buffer] = _size(s.kind)
        elif isinstance(s, TileStore) and s.value in full:
            arrays[s.address.buffer] = _size(_kind(makers[s.value]))
        elif isinstance(s, TileMap | TileGather) and s.name in own:
            (spare.subtract if s.name in stored else live.update)([s.kind])
            most[s.kind] = max(most[s.kind], live[s.kind] - (spare[s.kind] if i >= read else 0))
    return sum(arrays.values()) + sum(count * _size(kind) for kind, count in most.items())


def _kind(statement: Statement) -> str:
    assert not isinstance(statement, Effect)
    return statement.kind


def _size(kind: str) -> int:
    return kind_dtype(kind).itemsize

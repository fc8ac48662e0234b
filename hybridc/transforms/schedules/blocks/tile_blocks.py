"""Linalg ops as statements on tiles: elementwise ops, reductions inside a tile, and those that loops carry."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field

from hybridc.dtypes import DType, element_kind
from hybridc.ground.records import dataclass
from hybridc.ground.sizes import reach, row_major
from hybridc.ir.kernels.kernel import KernelOp, KernelValue, Read
from hybridc.ir.online_reductions import OnlinePair
from hybridc.ir.scalars import neutral_of
from hybridc.ir.structured_builder import conversion
from hybridc.ir.tiles.tile_program import (
    Address,
    Axes,
    Factor,
    Number,
    Statement,
    TileBuffer,
    TileCarry,
    TileConfig,
    TileContract,
    TileCount,
    TileDim,
    TileIndex,
    TileLaunch,
    TileLoad,
    TileMap,
    TileProgram,
    TileReduce,
    TileStore,
    TileSweep,
    TileUpdate,
)
from hybridc.ir.tiles.tile_spec import verify
from hybridc.options import OPTIONS
from hybridc.transforms.schedules.blocks.kernel_memory import KernelMemory, PartialResults, Strides
from hybridc.transforms.schedules.blocks.rough_maps import with_rough_maps
from hybridc.transforms.schedules.blocks.rows_in_registers import in_order_of_need
from hybridc.transforms.schedules.blocks.tile_machine import MACHINE, NARROW
from hybridc.transforms.schedules.schedule_kernels import BodyStatements


@dataclass(eq=False)
class TileStatements(BodyStatements):
    """Writes linalg ops as statements on tiles.

    ``values`` are in these buffers of the kernel; ``stepped`` are the strides of those that may not be contiguous.
    """

    values: Mapping[KernelValue, str] = field(default_factory=dict[KernelValue, str])
    stepped: Mapping[KernelValue, Strides] = field(default_factory=dict[KernelValue, Strides])
    buffers: dict[str, str] = field(default_factory=dict[str, str])  # of the kernel, as the program calls them
    called: dict[str, TileBuffer] = field(default_factory=dict[str, TileBuffer])
    far: int = 0  # the largest offset in them, or more

    def __post_init__(self) -> None:
        sizes = [None if a in self.plan.dynamic else n for a, n in enumerate(self.plan.sizes)]
        self.space = TileProgram((), tuple(sizes), (), ())

    # --- memory --------------------------------------------------------------------------------------------

    def named(self, buffer: str, like: KernelValue, pieces: bool = False, elements: int = 0) -> str:
        """The program's name of a buffer of the kernel; it is numbered as the program comes to it.

        It has as many ``elements``, or is ``like`` a value also in this.
        """
        if buffer not in self.buffers:
            self.buffers[buffer] = f"{buffer[0]}{sum(name[0] == buffer[0] for name in self.buffers.values())}"
            self.called[buffer] = TileBuffer(self.buffers[buffer], like.kind, pieces)
            shape = like.shape
            size = reach(shape, self.stepped[like]) if like in self.stepped else math.prod(shape)
            self.far = max(self.far, elements or size)
        return self.buffers[buffer]

    def buffer(self, value: KernelValue) -> str:
        return self.named(self.values[value], value)

    def strides(self, value: KernelValue) -> tuple[Factor, ...]:
        return tuple(Factor(n) for n in self.stepped.get(value) or row_major(value.shape))

    def address(self, read: Read) -> Address:
        return self.element_at(read.value, read.axes)

    def element_at(self, value: KernelValue, axes: Axes) -> Address:
        """The element of a value whose dimensions follow axes of the loop nest."""
        merged = self.plan.axes(axes)
        if value not in self.stepped:
            return self.space.row_major(self.buffer(value), merged)
        last = {self.plan.merged[a]: stride for a, stride in zip(axes, self.strides(value), strict=True)}
        return Address(self.buffer(value), tuple((a, last[a]) for a in merged))

    # --- linalg ops ----------------------------------------------------------------------------------------

    def kernel_op(self, kernel_op: KernelOp) -> str:
        """Write an op, all of whose elements that a reduction needs are in the tile; the name of its result."""
        if kernel_op.combine is None:
            self.known[kernel_op.result] = self.body(kernel_op)
        else:
            start = kernel_op.initial()
            self.known[kernel_op.result] = self.reduced(
                kernel_op, self.element(kernel_op), self.plan.axes(kernel_op.reduced), start
            )
        return self.known[kernel_op.result]

    def ops(self, kernel_ops: Sequence[KernelOp]) -> None:
        """Write ops, and store the results that are in memory."""
        for kernel_op in in_order_of_need(kernel_ops):
            self._made(kernel_op)

    def _made(self, kernel_op: KernelOp) -> None:
        self.kernel_op(kernel_op)
        if kernel_op.result in self.values:
            self.store(kernel_op)

    def store(self, kernel_op: KernelOp) -> None:
        """Store the result of an op into memory."""
        self.write(TileStore(self.known[kernel_op.result], self.element_at(kernel_op.result, kernel_op.axes), self.on))

    def reduced(self, kernel_op: KernelOp, value: str, over: Axes, start: Number, filled: bool = False) -> str:
        """The name of a value combined over axes; it may be ``filled`` with what counts for nothing."""
        assert kernel_op.combine is not None
        kind = kernel_op.result.kind
        return self.add(TileReduce, kernel_op.combine.op, value, start, over, kind, 0, None, False, False, filled)

    def map(self, op: str, *operands: str, kind: str) -> str:
        """The name of an operation's result."""
        return self.once(TileMap, op, operands, kind)

    def take(self) -> tuple[Statement, ...]:
        """The statements so far, in order; what was loaded is forgotten."""
        statements = tuple(self.statements)
        self.statements, self.loaded, self.known = [], {}, {}
        return statements

    def write(self, statement: Statement, varies: bool = True) -> None:
        self.statements.append(statement)

    def launch(
        self,
        what: str,
        memory: KernelMemory,
        dims: Sequence[TileDim],
        sweeps: Sequence[TileSweep],
        configs: Sequence[TileConfig],
        piece: int | None = None,
        suffix: str = "",
    ) -> TileLaunch:
        """The launch of the program of these sweeps, whose tiles have these dimensions."""
        sizes, buffers = self.space.sizes, tuple(self.called.values())
        inner = tuple(a for d in dims if d.walk in ("whole", "loop") for a in d.axes)
        parallel = tuple(a for a in range(len(sizes)) if a not in inner)
        group = next((name for name, _ in configs[0].blocks if name == "group"), None)
        written = with_rough_maps(sweeps)
        program = TileProgram(buffers, sizes, parallel, written, inner=inner, tiles=tuple(dims), group=group)
        if OPTIONS.verify:
            verify(program)
        dtypes = tuple(memory.dtypes[name] for name in self.buffers)
        fields = (tuple(self.buffers), dtypes, self.plan.sizes, tuple(configs))
        return TileLaunch(what, program, *fields, piece, self.far >= NARROW, suffix, self._has_tail(dims, configs))

    def _has_tail(self, dims: Sequence[TileDim], configs: Sequence[TileConfig]) -> bool:
        """Whether blocks of one dimension that are not full are a case of their own.

        Whether an element is there could be asked for several at once only if they are known to be whole vectors.
        """
        if len(dims) > 1 or dims[0].walk != "grid" or not dims[0].masked:
            return False
        count, least = self.plan.extent(dims[0].axes), min(c.blocks[0][1] for c in configs)
        return count >= least and count % MACHINE.vector != 0

    # --- contractions --------------------------------------------------------------------------------------

    def factor(self, address: Address, source: DType, target: DType, limits: Sequence[int | None]) -> str:
        """A tile of an array that is multiplied as ``target``, with zeros from the limits along its dimensions on."""
        ends = tuple(limits) if any(end is not None for end in limits) else ()
        tile = self.once(TileLoad, address, element_kind(source), self.on, ends, 0.0)
        return self.converted(tile, source, target)

    def converted(self, value: str, source: DType, target: DType) -> str:
        """The name of a value as another dtype."""
        if source == target:
            return value
        return self.map(conversion(source, target), value, kind=element_kind(target))

    def contracted(
        self, left: str, right: str, over: Axes, dtypes: tuple[DType, DType], accumulator: str | None = None
    ) -> str:
        """The name of the sum, in the second of the ``dtypes``, of products of values of the first."""
        kind, wide = map(element_kind, dtypes)
        return self.add(TileContract, left, right, over, wide, accumulator, OPTIONS.tf32 and kind == "f32")

    # --- reductions that loops carry -----------------------------------------------------------------------

    def accumulated(
        self, kernel_ops: Sequence[KernelOp], parts: Sequence[PartialResults], over: Axes, pairs: Sequence[OnlinePair]
    ) -> tuple[TileSweep, ...]:
        """A loop over the tiles of a piece along axes, and what is before and after it.

        Of the reductions in ``parts`` the loop carries the result so far; ``pairs`` of them are online reductions.
        """
        carried = {p.kernel_op.result: self._carry(p.kernel_op) for p in parts}
        counts = {pair: self.add(TileCarry, 0, (), "index") for pair in pairs if not pair.powers}
        before = TileSweep((), self.take())
        started = {pair.first: pair for pair in pairs}
        inside = {s for pair in pairs for s in (*pair.between, pair.second)}
        for kernel_op in in_order_of_need(kernel_ops):
            if kernel_op in inside:
                continue
            if kernel_op.result not in carried:
                self._made(kernel_op)
                continue
            element = self.element(kernel_op)
            if kernel_op in started:
                pair = started[kernel_op]
                sofar = carried[pair.first.result], carried[pair.second.result]
                if pair.powers:
                    self.add_powers(pair, element, sofar)
                else:
                    self._add_squares(pair, element, sofar, counts[pair], over)
                continue
            part = self._part(kernel_op, element)
            self._update(carried[kernel_op.result], self._combined(kernel_op, carried[kernel_op.result], part))
        loop = TileSweep(over, self.take())
        for pair in pairs:
            if all(p.pieces == 1 for p in parts) and pair.powers:
                first, second = (carried[s.result] for s in (pair.first, pair.second))
                carried[pair.second.result] = self._scaled(pair, second, first, first)
        for part in parts:
            self._finish(part, carried[part.kernel_op.result])
        return before, loop, TileSweep((), self.take())

    def _carry(self, kernel_op: KernelOp) -> str:
        return self.add(TileCarry, _nothing(kernel_op), self.plan.axes(kernel_op.axes), kernel_op.result.kind)

    def _update(self, carried: str, value: str) -> None:
        self.write(TileUpdate(carried, value))

    def _part(self, kernel_op: KernelOp, element: str, filled: bool = False) -> str:
        """The values that are added to a reduction here."""
        return self.reduced(kernel_op, element, self.plan.axes(kernel_op.reduced), _nothing(kernel_op), filled)

    def _combined(self, kernel_op: KernelOp, a: str, b: str) -> str:
        assert kernel_op.combine is not None
        return self.add(TileMap, kernel_op.combine.op, (a, b), kernel_op.result.kind)

    def _finish(self, part: PartialResults, name: str) -> None:
        """Store a partial result, or all of the result."""
        kernel_op = part.kernel_op
        if part.pieces == 1:
            start = kernel_op.initial()
            if start != _nothing(kernel_op):
                name = self._combined(kernel_op, name, self.constant(start, kernel_op.result.kind))
            self.write(TileStore(name, self.element_at(kernel_op.result, kernel_op.axes)))
            return
        buffer = self.named(part.buffer, kernel_op.result, pieces=True)
        self.write(TileStore(name, self.space.row_major(buffer, self.plan.axes(kernel_op.axes))))

    # --- online reductions ---------------------------------------------------------------------------------
    #
    # Of powers the greatest value so far is carried, and the sum of powers of values less that. A row of which nothing
    # counts yet has minus infinity as its greatest value, of which powers are taken less zero; in the end the sum is
    # multiplied with the power of the greatest value less itself, which is one, or NaN where the definition gives NaN.
    # Of squares the sum is carried, and that of squared distances from the mean so far.

    def add_powers(self, pair: OnlinePair, value: str, sofar: tuple[str, str], filled: bool = False) -> tuple[str, str]:
        """Write how a tile of what the first reduces is added to both: the factor by which sums fade, and its powers.

        Beyond the last elements, a value that is ``filled`` is minus infinity.
        """
        (peak, total), kind = sofar, pair.second.result.kind
        higher = self._combined(pair.first, peak, self._part(pair.first, value, filled))
        base = self._base(pair, higher)
        factor = self._power(pair, peak, base)
        faded = self.map("arith.mulf", total, factor, kind=kind)
        power = self._power(pair, value, base)
        part = self._part(pair.second, power, filled)
        self._update(total, self.map("arith.addf", faded, part, kind=kind))
        self._update(peak, higher)
        return factor, power

    def _add_squares(self, pair: OnlinePair, value: str, sofar: tuple[str, str], count: str, over: Axes) -> None:
        """Write the same for squares; ``count`` is how many elements came before."""
        (whole, total), kind = sofar, pair.second.result.kind
        counted = self.add(TileCount, over)
        more, before = (self.map("arith.sitofp", self._integer(n), kind=kind) for n in (counted, count))
        part = self._part(pair.first, value)
        mean = self._mean(part, more, kind)
        off = self.map("arith.subf", value, mean, kind=kind)
        squares = self._part(pair.second, self.map("arith.mulf", off, off, kind=kind))
        gap = self.map("arith.subf", mean, self._mean(whole, before, kind), kind=kind)
        share = self._mean(self.map("arith.mulf", before, more, kind=kind), self._sum(before, more, kind), kind)
        distance = self.map("arith.mulf", self.map("arith.mulf", gap, gap, kind=kind), share, kind=kind)
        self._update(total, self._sum(total, self._sum(squares, distance, kind), kind))
        self._update(whole, self._sum(whole, part, kind))
        self._update(count, self.map("arith.addi", count, counted, kind="index"))

    def _integer(self, index: str) -> str:
        return self.map("arith.index_cast", index, kind="i64")

    def _sum(self, a: str, b: str, kind: str) -> str:
        return self.map("arith.addf", a, b, kind=kind)

    def _mean(self, total: str, count: str, kind: str) -> str:
        """A sum of so many, perhaps of none."""
        return self.map(
            "arith.divf", total, self.map("arith.maxnumf", count, self.constant(1.0, kind), kind=kind), kind=kind
        )

    def _base(self, pair: OnlinePair, peak: str) -> str:
        """The value to subtract from exponents: the peak, or 0 if that is minus infinity, which less itself is NaN."""
        kind = pair.first.result.kind
        lowest = self.map("arith.cmpf oeq", peak, self.constant(-math.inf, kind), kind="i1")
        return self.map("arith.select", lowest, self.constant(0.0, kind), peak, kind=kind)

    def _power(self, pair: OnlinePair, value: str, peak: str) -> str:
        """The power of a value less a peak."""
        known = dict(self.known)
        self.known |= {pair.value: value, pair.first.result: peak}
        for kernel_op in pair.between:
            self.known[kernel_op.result] = self.body(kernel_op)
        power = self.known[pair.second.reads[0].value]
        self.known = known
        return power

    def _scaled(self, pair: OnlinePair, total: str, value: str, peak: str) -> str:
        return self.map("arith.mulf", total, self._power(pair, value, peak), kind=pair.second.result.kind)

    # --- partial results -----------------------------------------------------------------------------------

    def combined(self, part: PartialResults) -> None:
        """Write how the partial results of a reduction, along axis 0, are combined."""
        self.write(
            TileStore(self._whole(part.kernel_op, self._loaded(part), part.kernel_op.initial()), self._result(part))
        )

    def joined(self, pair: OnlinePair, parts: tuple[PartialResults, PartialResults], terms: int, piece: int) -> None:
        """Write the same for those of a pair, of which each has ``piece`` of the ``terms``."""
        kind = pair.second.result.kind
        first, second = (self._loaded(part) for part in parts)
        whole = self._whole(pair.first, first, _nothing(pair.first))
        if pair.powers:
            part = self._scaled(pair, second, first, self._base(pair, whole))
        else:
            count = self.map("arith.sitofp", self._terms(terms, piece), kind=kind)
            mean = self.map("arith.divf", whole, self.constant(float(terms), kind), kind=kind)
            gap = self.map("arith.subf", self._mean(first, count, kind), mean, kind=kind)
            distance = self.map("arith.mulf", self.map("arith.mulf", gap, gap, kind=kind), count, kind=kind)
            part = self._sum(second, distance, kind)
        total = self._whole(pair.second, part, _nothing(pair.second))
        if pair.powers:
            total = self._scaled(pair, total, whole, whole)
        for name, partial in zip((whole, total), parts, strict=True):
            self.write(TileStore(name, self._result(partial)))

    def _loaded(self, part: PartialResults) -> str:
        buffer = self.named(part.buffer, part.kernel_op.result)
        return self.add(TileLoad, self.space.row_major(buffer, (0, 1)), part.kernel_op.result.kind)

    def _whole(self, kernel_op: KernelOp, name: str, start: Number) -> str:
        return self.reduced(kernel_op, name, (0,), start)

    def _result(self, part: PartialResults) -> Address:
        return self.space.row_major(self.buffer(part.kernel_op.result), (1,))

    def _terms(self, terms: int, piece: int) -> str:
        """How many terms a piece has; the last may have none."""
        index = self._integer(self.add(TileIndex, 0))
        full = self.constant(piece, "i64")
        left = self.map(
            "arith.subi", self.constant(terms, "i64"), self.map("arith.muli", index, full, kind="i64"), kind="i64"
        )
        left = self.map("arith.maxsi", left, self.constant(0, "i64"), kind="i64")
        return self.map("arith.minsi", left, full, kind="i64")


def _nothing(kernel_op: KernelOp) -> Number:
    """The identity of a reduction."""
    assert kernel_op.combine is not None
    return neutral_of(kernel_op.combine.op, kernel_op.result.dtype)

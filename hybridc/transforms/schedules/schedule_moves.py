"""Schedules of what only moves elements: copies, fills, moves into the inside of a border, transpositions.

A schedule is a tile program for all sizes, and the sizes, strides and other numbers that its code is given: so one
function serves all arrays with as many axes. Elements are moved as integers of their size.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.dtypes import element_kind
from hybridc.ground.machine import SQUARE, machine
from hybridc.ground.records import dataclass
from hybridc.ground.sizes import row_major
from hybridc.ir.costs import copy_time
from hybridc.ir.kernels.kernel import Kernel, KernelOp
from hybridc.ir.planned import Strides
from hybridc.ir.scalars import Number, constant_as
from hybridc.ir.tiles.tile_program import Address, Factor, Statement, TileBuffer, TileCombine, TileProgram, TileSweep
from hybridc.transforms.schedules.loop_machine import Registers
from hybridc.transforms.schedules.moved_elements import moved_array
from hybridc.transforms.schedules.program_builder import ProgramBuilder

# The elements of a row of a contiguous array; the least axes that code of fills has, and that of moves.
ROW, _FILLED, _MOVED = 4096, 3, 4
# The least elements of a row that is moved by code for all sizes: those of fewer are moved by code with constant sizes.
_RUN = 8
# The most squares of a strip, which are transposed in registers: for wide strips the hardware prefetches the rows. A
# 1024 x 1024 matrix takes a third less with sixteen squares than with one.
_SQUARES = 16
# The least outer loops of a transposition.
_LEAST = 2
_TRANSPOSED = (np.dtype(np.float32), np.dtype(np.float64))


class ProgramForm(Protocol):
    """What a tile program follows from; equal forms have one program."""

    def program(self) -> TileProgram:
        """The program."""
        ...


@functools.lru_cache(256)
def program_of(form: ProgramForm) -> TileProgram:
    """The program of a form, made once."""
    return form.program()


@dataclass(frozen=True)
class MoveSchedule:
    """A tile program with the numbers that its code is given; threads share ``extent`` indices.

    ``work`` is an estimate of its time in nanoseconds; threads get multiples of ``multiple`` indices.
    """

    form: ProgramForm
    numbers: tuple[int, ...]
    extent: int
    work: float
    multiple: int = 1


class MovedAxis(NamedTuple):
    """An axis of an array that another is moved into: its size, the steps in that one and in it, and what is moved.

    The other is read where the index is at least ``low`` and less than ``high``: beyond is a border.
    """

    size: int
    source: int
    target: int
    low: int
    high: int

    @property
    def is_whole(self) -> bool:
        """Whether it has no border."""
        return (self.low, self.high) == (0, self.size)


ONE = MovedAxis(1, 0, 0, 0, 1)


@dataclass(frozen=True)
class Move:
    """What is moved: the ``axes`` of the target, and the offset in the source where all indices are 0.

    ``outside`` is what elements of the border are.
    """

    dtype: DType
    axes: tuple[MovedAxis, ...]
    first: int = 0
    outside: Number = 0


def move_of(kernel: Kernel, strides: Mapping[int, Strides]) -> Move | None:
    """What a kernel moves that does nothing else; None if it does more.

    ``strides``, in elements, are those of its argument or its result that is not contiguous.
    """
    moved = moved_array(kernel.ops[0]) if len(kernel.ops) == 1 else None
    if moved is None or len(kernel.arguments) != 1 or len(kernel.results) != 1:
        return None
    (kernel_op,), result = kernel.ops, kernel.results[0]
    if moved.value != kernel.arguments[0] or kernel_op.result != result:
        return None
    dims = {place.axis: i for i, place in enumerate(moved.places)}
    if len(dims) != len(moved.places) or {*dims} != {*kernel_op.axes}:
        return None
    source = strides.get(0) or row_major(moved.value.shape)
    target = strides.get(1) or row_major(result.shape)
    first = sum(place.offset * step for place, step in zip(moved.places, source, strict=True))
    sizes = kernel_op.extents
    axes = [
        MovedAxis(sizes[a], source[dims[a]], step, *moved.bounds[a])
        for a, step in zip(kernel_op.axes, target, strict=True)
    ]
    return Move(result.dtype, tuple(axes), first, moved.outside)


def copy_of(dtype: DType, shape: Shape, strides: Strides) -> Move:
    """The move of a strided array into a contiguous one."""
    axes = [MovedAxis(n, step, to, 0, n) for n, step, to in zip(shape, strides, row_major(shape), strict=True)]
    return Move(dtype, tuple(axes))


def schedule_move(move: Move, vectors: Registers | None) -> MoveSchedule | None:
    """The schedule of a kernel that only moves; None if code with constant sizes is faster, as rows are short."""
    schedule = schedule_transposition(move, vectors)
    if schedule is None and coalesced_axes(move.axes)[-1].size >= _RUN:
        return _schedule_rows(move)
    return schedule


def schedule_copy(move: Move, vectors: Registers | None) -> MoveSchedule:
    """The schedule of a copy into a contiguous array: by squares in registers, by rows, or by tiles."""
    return schedule_transposition(move, vectors) or _schedule_rows(move) or _schedule_tiles(move)


def coalesced_axes(axes: Sequence[MovedAxis]) -> list[MovedAxis]:
    """The same walk over both arrays with as few axes as possible, at least one."""
    coalesced: list[MovedAxis] = []
    for a in axes:
        if a == ONE._replace(source=a.source, target=a.target):
            continue
        outer = coalesced[-1] if coalesced else a
        if coalesced and a.is_whole and (outer.source, outer.target) == (a.source * a.size, a.target * a.size):
            whole = MovedAxis(outer.size * a.size, a.source, a.target, outer.low * a.size, outer.high * a.size)
            coalesced[-1] = whole
        else:
            coalesced.append(a)
    return coalesced or [MovedAxis(1, 1, 1, 0, 1)]


def _end(axes: Sequence[MovedAxis]) -> int:
    """Where the last element of the target ends."""
    return sum((a.size - 1) * a.target for a in axes) + 1


def _in_rows(axes: list[MovedAxis], end: int) -> list[MovedAxis]:
    """Two axes if there is one: rows that threads can share, of which the last may be shorter."""
    (first, *rest), rows = axes, -(-end // ROW)
    if rest:
        return axes
    return [MovedAxis(rows, ROW * first.source, ROW, 0, rows), MovedAxis(ROW, first.source, 1, 0, ROW)]


def _rows(axes: Sequence[MovedAxis]) -> int | None:
    """The axis along which the source is contiguous, if it is another than the last, and both are long."""
    *outer, last = axes
    return next((i for i, a in enumerate(outer) if a.source == 1 and min(a.size, last.size) >= SQUARE), None)


def _bits(value: Number, dtype: DType) -> int:
    """The bits of a constant, as a signed integer of its size."""
    return int(np.array(constant_as(value, dtype), dtype).view(f"i{dtype.itemsize}"))


def _integers(names: str, width: int) -> list[TileBuffer]:
    """Buffers of integers of so many bytes."""
    return [TileBuffer(name, f"i{8 * width}") for name in names.split()]


# --- fills ------------------------------------------------------------------------------------------------------------


def schedule_fill(dtype: DType, shape: Shape, strides: Strides, value: Number) -> MoveSchedule:
    """The schedule of filling a strided array with a constant, whose bits are an argument of the code."""
    axes = coalesced_axes([MovedAxis(n, step, step, 0, n) for n, step in zip(shape, strides, strict=True)])
    end = _end(axes)
    if axes[-1].target != 1:
        axes = [*axes, ONE._replace(target=1)]
    axes = _in_rows(axes, end)
    axes = [axes[0], *[ONE] * (_FILLED - len(axes)), *axes[1:]]
    sizes, steps = [a.size for a in axes], [a.target for a in axes[:-1]]
    work = copy_time(math.prod(shape) * dtype.itemsize)
    form = FillForm(dtype.itemsize, len(axes))
    return MoveSchedule(form, (*sizes, _bits(value, dtype), end, *steps), sizes[0], work)


@dataclass(frozen=True)
class FillForm:
    """Filling an array of this rank, contiguous along its last axis, with elements of ``width`` bytes.

    Arguments are the bits of the element, where the last row ends, and the strides but for the last.
    """

    width: int
    rank: int

    def program(self) -> TileProgram:
        """The program."""
        b = ProgramBuilder(_integers("b0", self.width), self.rank)
        value, end = b.number(b.argument(), f"i{8 * self.width}"), b.number(b.argument())
        begin = b.take()
        *outer, last = range(self.rank)
        terms = [(axis, b.argument()) for axis in outer]
        length = b.least(b.size(last), b.minus(end, b.offset(terms)))
        before = b.take()
        b.store(value, Address("b0", (*terms, (last, Factor()))))
        row = TileSweep((last,), b.take(), bounds=(None, length))
        return b.program((0,), [TileSweep((), begin), TileSweep(tuple(outer[1:]), before, sweeps=(row,))])


# --- rows -------------------------------------------------------------------------------------------------------------


def _schedule_rows(move: Move) -> MoveSchedule | None:
    """The schedule of a move row by row.

    None if the last axis is not contiguous in the target, or another one is in the source, so that tiles are faster.
    """
    axes, width = coalesced_axes(move.axes), move.dtype.itemsize
    last = axes[-1]
    if last.target != 1 or _rows(axes) is not None:
        return None
    end, bordered, contiguous = _end(axes), not all(a.is_whole for a in axes), last.source == 1
    axes = axes if bordered else _in_rows(axes, end)
    axes = [*axes[:-1], *[ONE] * (_MOVED - len(axes)), axes[-1]]
    form = RowsForm(width, len(axes), contiguous, bordered)
    work = copy_time(math.prod(a.size for a in move.axes) * width, not contiguous)
    steps = [n for a in axes for n in (a.source, a.target, *((a.low, a.high) if bordered else ()))]
    numbers = (*(a.size for a in axes), _bits(move.outside, move.dtype), move.first, end, *steps)
    return MoveSchedule(form, numbers, axes[0].size * axes[1].size, work)


class _AxisArguments(NamedTuple):
    """The arguments of code for a moved axis."""

    source: Factor
    target: Factor
    low: Factor | None
    high: Factor | None


@dataclass(frozen=True)
class RowsForm:
    """Moving elements of ``width`` bytes, into an array of this rank, row by row.

    ``contiguous``: the source is so along the last axis. Arguments are the bits of the border's elements, the offset of
    the first element, where the target ends, and of each axis its steps, and its bounds if there is a border.
    """

    width: int
    rank: int
    contiguous: bool
    bordered: bool

    def program(self) -> TileProgram:
        """The program."""
        kind = f"i{8 * self.width}"
        b = ProgramBuilder(_integers("b0 b1", self.width), self.rank)
        bits, first, end = b.argument(), b.argument(), b.argument()
        axes = [self._axis(b) for _ in range(self.rank)]
        *outer, last = range(self.rank)
        terms = [(axis, axes[axis].target) for axis in outer]
        size = b.least(b.size(last), b.minus(b.number(end), b.offset(terms)))
        target = Address("b1", (*terms, (last, Factor())))
        along = Factor() if self.contiguous else axes[last].source
        source = Address("b0", (*[(axis, axes[axis].source) for axis in outer], (last, along)), (first,))
        if not self.bordered:
            before = b.take()
            b.store(b.load(source, kind), target)
            return self._program(b, before, [TileSweep((last,), b.take(), bounds=(None, size))])
        value = b.number(bits, kind)
        low, high = [b.least(b.most(n, b.constant(0)), size) for n in self._bounds(b, axes[last])]
        bounds = [(axis, *self._factors(axes[axis])) for axis in outer]
        high = b.select(b.within(bounds), b.most(high, low), low)
        before = b.take()
        b.store(value, target)
        fill = b.take()
        b.store(b.load(source, kind), target)
        inside = TileSweep((last,), b.take(), bounds=(low, high))
        sweeps = [TileSweep((last,), fill, bounds=(None, low)), inside, TileSweep((last,), fill, bounds=(high, size))]
        return self._program(b, before, sweeps)

    def _axis(self, b: ProgramBuilder) -> _AxisArguments:
        steps = b.argument(), b.argument()
        return _AxisArguments(*steps, *([b.argument(), b.argument()] if self.bordered else [None, None]))

    def _factors(self, axis: _AxisArguments) -> tuple[Factor, Factor]:
        assert axis.low is not None
        assert axis.high is not None
        return axis.low, axis.high

    def _bounds(self, b: ProgramBuilder, axis: _AxisArguments) -> list[str]:
        return [b.number(factor) for factor in self._factors(axis)]

    def _program(self, b: ProgramBuilder, before: tuple[Statement, ...], rows: Sequence[TileSweep]) -> TileProgram:
        """The program: threads share the first two axes; ``rows`` are sweeps over the last one."""
        return b.program((0, 1), [TileSweep(tuple(range(2, self.rank - 1)), before, sweeps=tuple(rows))])


# --- tiles ------------------------------------------------------------------------------------------------------------


def _schedule_tiles(move: Move) -> MoveSchedule:
    """The schedule of a copy in tiles of the two axes along which one of the arrays is contiguous."""
    *outer, last = coalesced_axes(move.axes)
    index = _rows([*outer, last])
    assert index is not None, "the source is contiguous along another axis than the target"
    rows = outer.pop(index)
    axes = [*outer, rows, last]
    extent = math.prod(a.size for a in outer) * -(-rows.size // SQUARE)
    work = copy_time(math.prod(a.size for a in axes) * move.dtype.itemsize, strided=True)
    steps = [n for a in outer for n in (a.source, a.target)]
    numbers = (*(a.size for a in axes), *steps, rows.target, last.source)
    return MoveSchedule(TilesForm(move.dtype.itemsize, len(axes)), numbers, extent, work)


@dataclass(frozen=True)
class TilesForm:
    """Copying elements of ``width`` bytes in tiles of the last two axes, one of which is contiguous in each array.

    Arguments are the steps in the source and in the target along the outer axes, and along the last two the other one.
    """

    width: int
    rank: int

    def program(self) -> TileProgram:
        """The program."""
        b = ProgramBuilder(_integers("b0 b1", self.width), self.rank)
        *outer, rows, last = range(self.rank)
        steps = [(b.argument(), b.argument()) for _ in outer]
        down, along = b.argument(), b.argument()
        source = [*((a, step[0]) for a, step in zip(outer, steps, strict=True)), (rows, Factor()), (last, along)]
        target = [*((a, step[1]) for a, step in zip(outer, steps, strict=True)), (rows, down), (last, Factor())]
        b.store(b.load(Address("b0", tuple(source)), f"i{8 * self.width}"), Address("b1", tuple(target)))
        return b.program((*outer, rows), [TileSweep((last,), b.take())], tiled=rows)


# --- transpositions ---------------------------------------------------------------------------------------------------


def schedule_transposition(move: Move, vectors: Registers | None) -> MoveSchedule | None:
    """The schedule of a transposition by squares in registers; None if it is none, or squares do not fit.

    The source is read along its contiguous axis, and the target written along its own. Threads share strips along the
    first of these, some squares wide, for all outer indices.
    """
    if vectors is None or move.dtype not in _TRANSPOSED:
        return None
    lanes, axes = vectors.lanes(move.dtype), [a for a in move.axes if a.size != 1 or not a.is_whole]
    along = next((a for a in axes if a.source == 1), None)
    down = next((a for a in axes if a.target == 1), None)
    if along is None or down is None or along is down or not all(a.size for a in axes):
        return None
    inside = along.high - along.low
    if inside < lanes or down.size < lanes or (down.low, down.high) != (0, down.size):
        return None
    outer = [a for a in axes if a is not along and a is not down]
    outer = [*[ONE] * (_LEAST - len(outer)), *outer]
    squares = math.ceil(inside / lanes)
    width = lanes * math.ceil(squares / math.ceil(squares / _SQUARES))
    strips = math.ceil(inside / width)
    work = copy_time(2 * math.prod(a.size for a in axes) * move.dtype.itemsize)
    sizes = (*(a.size for a in outer), strips, along.size, down.size)
    steps = [n for a in outer for n in a[1:]]
    numbers = (*sizes, width, move.first, along.low, along.high, down.source, along.target, *steps)
    form = TranspositionForm(element_kind(move.dtype), lanes, len(outer), float(move.outside))
    return MoveSchedule(form, numbers, math.prod(sizes[:-2]), work)


@dataclass(frozen=True)
class TranspositionForm:
    """Transposing in squares of ``lanes``, with so many ``outer`` axes, inside a border of a constant.

    Arguments are the width of a strip, the offset of the first element, the bounds along the axis of strips, the steps
    between rows of the source and of the target, and of each outer axis its steps and bounds.
    """

    kind: str
    lanes: int
    outer: int
    outside: float

    def program(self) -> TileProgram:
        """The program."""
        outer = range(self.outer)
        strip, along, down = range(self.outer, self.outer + 3)
        b = ProgramBuilder([TileBuffer(name, self.kind) for name in ("b0", "b1")], self.outer + 3)
        width, first, low, high, source_step, target_step = [b.argument() for _ in range(6)]
        axes = [_AxisArguments(*[b.argument() for _ in range(4)]) for _ in outer]
        bounds = [(a, axis.low, axis.high) for a, axis in enumerate(axes) if axis.low and axis.high]
        begin = b.plus(b.number(low), b.offset([(strip, width)]))
        last = b.least(b.plus(begin, b.number(width)), b.number(high))
        end = b.select(b.within(bounds), last, begin)
        at, zero = b.position(strip), b.constant(0)
        is_last = b.map("arith.cmpi eq", b.plus(at, b.constant(1)), b.size(strip), kind="i1")
        before = b.select(b.map("arith.cmpi eq", at, zero, kind="i1"), zero, begin)
        after = b.select(is_last, b.size(along), last)
        outside = b.constant(self.outside, self.kind)
        head = TileSweep((), b.take())
        target = Address(
            "b1", (*[(a, axis.target) for a, axis in enumerate(axes)], (along, target_step), (down, Factor()))
        )
        terms = [(a, axis.source) for a, axis in enumerate(axes)]
        source = Address("b0", (*terms, (down, source_step), (along, Factor())), (first,))
        b.store(outside, target)
        line = (TileSweep((down,), b.take()),)
        b.store(b.load(source, self.kind), target)
        squares = TileSweep((down, along), b.take(), bounds=(begin, end), squares=self.lanes)
        border = [TileSweep((along,), (), bounds=between, sweeps=line) for between in ((before, begin), (end, after))]
        return b.program((*outer, strip), [head, border[0], squares, border[1]])


# --- partial results --------------------------------------------------------------------------------------------------


def combination_of(kernel_op: KernelOp, count: int) -> MoveSchedule:
    """The schedule of combining ``count`` partial results of a reduction."""
    result, combine = kernel_op.result, kernel_op.combine
    assert combine is not None, "a reduction"
    size = result.size
    work = size * count * machine().costs.operation
    return schedule_combination(combine.op, kernel_op.initial(), result.dtype, size, count, work)


def schedule_combination(op: str, start: Number, dtype: DType, size: int, count: int, work: float) -> MoveSchedule:
    """The schedule of combining ``count`` partial results of ``size`` elements each."""
    return MoveSchedule(CombinationForm(op, start, element_kind(dtype)), (size, count), size, work, 64)


@dataclass(frozen=True)
class CombinationForm:
    """Combining partial results (first buffer, overwritten) into a result (second); an argument counts them."""

    op: str
    start: Number
    kind: str

    def program(self) -> TileProgram:
        """The program."""
        b = ProgramBuilder([TileBuffer(name, self.kind) for name in ("b0", "b1")], 1)
        combine = TileCombine(self.op, "b0", b.number(b.argument()), "b1", self.start, self.kind)
        return b.program((), [TileSweep((), (*b.take(), combine))], shared=True)

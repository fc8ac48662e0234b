"""The parallel regions of a kernel: functions over a range that threads share, with their buffers and scalars.

They are those of loop nests, and of copies, transpositions and fills. A function's key identifies its code. Kernels
that differ in sizes along their first axis share code: those sizes are scalar arguments.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType, i1
from xdsl.ir import Attribute, Operation, SSAValue

from hybridc.dialects.mlir.hybrid_rt import aligned
from hybridc.dialects.operator_attribute import Shape
from hybridc.ground import __version__
from hybridc.ground.cached import cached_property
from hybridc.ground.machine import machine
from hybridc.ground.sizes import row_major
from hybridc.ir.costs import OF_CORE, PARTS, SQUARE, copy_time, element_times, sharing
from hybridc.ir.kernel import Kernel, KernelOp, LoopNest, Number, constant_as, number_of
from hybridc.ir.loop_nest_plan import (
    LoopNestPlan,
    inplace_pairs,
    loop_nests_of,
    plan_loop_nest,
    read_elsewhere,
    scratch_bytes,
)
from hybridc.ir.planned import Position
from hybridc.ir.structured import dtype_of, shape_of
from hybridc.ir.structured_builder import operation_properties, signless
from hybridc.ir.tile_program import TileProgram
from hybridc.lower.llvm.codegen.function_text import LLVMValue, ModuleText
from hybridc.lower.llvm.codegen.native_function import NativeFunction
from hybridc.lower.llvm.gemm.gemm_region import Arguments, Index, RegionBuilder, region
from hybridc.lower.llvm.loops.loop_builder import BYTES, INDEX, LoopBuilder, array_type
from hybridc.lower.llvm.loops.loop_functions import combine_parts, fill, first_and_last, walk_tile
from hybridc.lower.llvm.loops.tiles_to_loops import write_loops
from hybridc.transforms.schedules.schedule_kernels import BLOCK, LoopNestMemory, schedule

# Pieces of a column reduction: at most so many, or more of so many points each, as long sums lose precision; or
# as many as a core's cache holds, but at least ``PARTS``; with so many points, if there are enough, that the setup and
# the combination of a chunk do not count.
PIECES, LONG, POINTS = 64, 512, 16


@dataclass(frozen=True)
class ParallelRegion:
    """A native function with its arguments.

    ``buffers`` are indices of the kernel's arguments, then its results, then its locals. Threads cut [0, extent) at
    multiples of ``grain``, but leave fewer than ``least`` iterations to one of them. ``scratch`` is in bytes per
    thread; ``work`` is an estimate of its time, in nanoseconds. ``algorithm`` names that of a contraction.
    """

    function: NativeFunction
    buffers: tuple[int, ...]
    numbers: tuple[int | float, ...]
    extent: int
    grain: int
    scratch: int = 0
    work: float = 0.0
    least: int = 0
    algorithm: str = ""

    @property
    def functions(self) -> tuple[NativeFunction, ...]:
        """Its function."""
        return (self.function,)


@dataclass(frozen=True)
class TileRegion:
    """A parallel region of a tile, whose own scratch begins at ``scratch`` bytes of the thread's.

    Slot 0 of its ``buffers`` is the thread's scratch, then come the buffers of the grid, from the tile on.
    """

    region: ParallelRegion
    buffers: tuple[Position, ...]
    scratch: int


@dataclass(frozen=True)
class GridRegion:
    """Parallel regions that run one after the other at each tile of a grid.

    There are ``sizes`` tiles along each axis; ``steps`` are the bytes between them, for each of the ``buffers``.
    """

    sizes: tuple[int, ...]
    steps: tuple[tuple[int, ...], ...]
    parts: tuple[TileRegion, ...]
    buffers: tuple[int, ...]
    extent: int
    grain: int
    scratch: int = 0
    work: float = 0.0
    least: int = 0

    @property
    def functions(self) -> tuple[NativeFunction, ...]:
        """The functions of its parts."""
        return tuple([part.region.function for part in self.parts])


@dataclass
class ParallelRegions:
    """All parallel regions of a kernel, and the bytes of each of its local buffers."""

    regions: list[ParallelRegion | GridRegion] = field(default_factory=lambda: list[ParallelRegion | GridRegion]())
    locals: list[int] = field(default_factory=lambda: list[int]())

    @property
    def functions(self) -> list[NativeFunction]:
        """The functions of all regions, in order."""
        return [f for r in self.regions for f in r.functions]

    @property
    def scratch(self) -> int:
        """Scratch bytes per thread."""
        return max((p.scratch for p in self.regions), default=0)

    def scratch_of(self, threads: int) -> int:
        """Scratch bytes of all threads that may take part; over a grid these are no more than it has tiles."""
        taking = (min(threads, p.extent) if isinstance(p, GridRegion) else threads for p in self.regions if p.scratch)
        return max(taking, default=0) * aligned(self.scratch)


Printer = Callable[[TileProgram], NativeFunction]


def print_loops(program: TileProgram) -> NativeFunction:
    """The native function of a tile program, through loops and LLVM."""
    return NativeFunction(program_key(program), functools.partial(write_loops, program), program)


def program_key(program: TileProgram) -> str:
    """The key of a tile program's code: its text."""
    return _hash("tile program", str(program))


def regions_of(
    kernel: Kernel, strides: Mapping[int, Strides] | None = None, inplace: Sequence[tuple[int, int]] = ()
) -> ParallelRegions:
    """The parallel regions of a kernel without contractions.

    ``strides``, in elements, are those of non-contiguous arguments and results; ``inplace`` are the
    pairs of an argument and the result that overwrites it.
    """
    given = strides or {}
    return KernelLoops(kernel, frozenset(given), inplace).at(kernel, given)


class KernelLoops:
    """The functions of a kernel without contractions, for all sizes with the same loop structure.

    ``strided`` are indices of arguments, then results, that may be non-contiguous; ``inplace`` are the pairs of an
    argument and the result that overwrites it. ``printer`` makes the native function of a tile program.
    """

    def __init__(
        self,
        kernel: Kernel,
        strided: frozenset[int],
        inplace: Sequence[tuple[int, int]],
        printer: Printer = print_loops,
    ) -> None:
        self._kernel = kernel
        self._printer = printer
        self._arguments, self._results = kernel.arguments, kernel.results
        values = [*self._arguments, *self._results]
        self._strided = frozenset(values[i] for i in strided)
        self._over = {self._arguments[i]: self._results[j] for i, j in inplace}
        self._number: dict[SSAValue, int] = {v: i for i, v in enumerate(self._arguments)}
        for i, v in enumerate(self._results, len(self._arguments)):
            self._number.setdefault(v, i)
        self._locals: list[SSAValue] = []  # the value, or partial results, in each local buffer
        self._alone = _alone(kernel)
        self._nests = loop_nests_of(kernel)
        self._functions = [made for nest in self._nests if (made := self._nest(kernel, nest)) is not None]

    @cached_property
    def inplace_pairs(self) -> list[tuple[int, int]]:
        """Pairs of an argument and the result that may overwrite it."""
        return inplace_pairs(self._kernel, self._strided)

    def fits(self, kernel: Kernel) -> bool:
        """Whether the kernel, at its current sizes, has the same loop structure."""
        return _alone(kernel) == self._alone and all(self._plan(kernel, f) is not None for f in self._functions)

    def _plan(self, kernel: Kernel, functions: _LoopNestFunctions) -> LoopNestPlan | None:
        nest = functions.plan.nest
        return functions.plan.at(nest.at(kernel.nests[nest.position].domain))

    def at(self, kernel: Kernel, strides: Mapping[int, Strides]) -> ParallelRegions:
        """The parallel regions at the kernel's current sizes, which must fit."""
        values = [*self._arguments, *self._results]
        known = {values[i]: s for i, s in strides.items()}
        made = ParallelRegions([], [_bytes(v) for v in self._locals])
        first = len(values)
        for function in self._functions:
            plan = self._plan(kernel, function)
            assert plan is not None, f"{kernel.name} is walked in another way"
            extent, piece = _extent(plan, function.parts)
            made.regions.append(function.at(plan, extent, piece, known))
            given = zip(function.parts, function.combining, function.locals, strict=True)
            for kernel_op, combining, local in given:
                made.locals[local - first] *= extent
                made.regions.append(
                    combine_region(kernel_op, combining, (local, self._number[kernel_op.result]), extent)
                )
        self._put_results(made)
        return made

    def _put_results(self, made: ParallelRegions) -> None:
        """Fill results that are constant, and copy those that have no region of their own."""
        for i, v in enumerate(self._results, len(self._arguments)):
            number, shape = number_of(v), shape_of(v)
            if number is not None:
                made.regions.append(fill_region(dtype_of(v), shape, row_major(shape), number, i))
            elif self._number[v] != i:
                made.regions.append(copy_region(dtype_of(v), shape, row_major(shape), self._number[v], i))

    def _local(self, value: SSAValue) -> int:
        """A buffer local to the kernel."""
        self._locals.append(value)
        return len(self._arguments) + len(self._results) + len(self._locals) - 1

    def _outside(self, nest: LoopNest, value: SSAValue) -> bool:
        """Whether a value of a loop nest goes to memory; values for other loop nests get a local buffer."""
        if value not in self._number and read_elsewhere(self._nests, nest, value):
            self._number[value] = self._local(value)
        return value in self._number

    def _nest(self, kernel: Kernel, nest: LoopNest) -> _LoopNestFunctions | None:
        """The functions of a loop nest; None if it is empty."""
        for kernel_op in nest.ops:
            self._outside(nest, kernel_op.result)
        plan = plan_loop_nest(kernel, nest, self._strided, functools.partial(self._outside, nest))
        if not plan.sweeps:
            return None
        parts = [s for s in plan.op_of.values() if s.combine is not None and plan.is_column_reduction(s)]
        buffers = self._buffers(plan, {s.result for s in parts})
        used = tuple(self._number[group[0]] for group in buffers.values)
        locals_ = tuple(self._local(s.result) for s in parts)
        return _LoopNestFunctions(plan, buffers, used, tuple(parts), locals_, self._printer)

    def _buffers(self, plan: LoopNestPlan, parts: set[SSAValue]) -> LoopNestMemory:
        """The buffers that a loop nest reads and writes."""
        read = [r.value for s in plan.op_of.values() for r in s.reads if number_of(r.value) is None]
        read += [v for s in plan.op_of.values() for v in s.indirect]
        values = [v for v in dict.fromkeys((*read, *plan.op_of)) if v in self._number and v not in parts]
        over = self._over
        behind = {result for argument, result in over.items() if argument in values and result in values}
        groups: list[tuple[SSAValue, ...]] = []
        for v in values:
            if v in behind:
                continue
            groups.append((v, over[v]) if v in over and over[v] in behind else (v,))
        return LoopNestMemory(
            tuple(groups), tuple(s for s in plan.op_of if s in parts), tuple(v for v in values if v in self._strided)
        )


def _alone(kernel: Kernel) -> list[tuple[bool, ...]]:
    """The axes of size 1, on which the loop structure depends."""
    return [tuple([n == 1 for n in nest.domain]) for nest in kernel.nests]


class _LoopNestFunctions:
    """The functions of a loop nest, one for each set of sizes and contiguous rows that the code has as constants.

    ``plan`` is its schedule at some sizes; ``used`` are the indices of its buffers, and ``locals`` those that hold
    partial results: of the reductions ``parts``.
    """

    def __init__(
        self,
        plan: LoopNestPlan,
        buffers: LoopNestMemory,
        used: tuple[int, ...],
        parts: tuple[KernelOp, ...],
        locals_: tuple[int, ...],
        printer: Printer,
    ) -> None:
        self.plan = plan
        self._printer = printer
        self.parts = parts
        self.combining = [combine_function(kernel_op) for kernel_op in parts]
        self.locals = locals_
        self._buffers = buffers
        self._used = (*used, *locals_)
        self._dynamic = sorted(plan.dynamic)
        self._indirect = [v for s in plan.op_of.values() for v in s.indirect]
        self._times = element_times(plan.op_of.values(), plan.op_of)
        self._made: dict[Any, NativeFunction] = {}

    def at(self, plan: LoopNestPlan, extent: int, piece: int, strides: Mapping[SSAValue, Strides]) -> ParallelRegion:
        """The parallel region of a schedule: threads share ``extent`` iterations, or chunks of ``piece``."""
        numbers = [plan.sizes[a] for a in self._dynamic]
        rows = frozenset(v for v in self._buffers.strided if strides[v][-1:] == (1,))
        numbers += [n for v in self._buffers.strided for n in (strides[v][:-1] if v in rows else strides[v])]
        numbers += [piece] if self.parts else []
        work = _work(plan, self._times)
        grain, least = sharing(work, extent, 64 if plan.shared and not self.parts else 1)
        scratch = sum(-(-scratch_bytes(plan, v) // 64) * 64 for v in plan.scratch)
        function = self._function(plan, rows)
        return ParallelRegion(function, self._used, tuple(numbers), extent, grain, scratch, work, least)

    def _function(self, plan: LoopNestPlan, rows: frozenset[SSAValue]) -> NativeFunction:
        known = (known_sizes(plan), rows, *[shape_of(v)[1:] for v in self._indirect])
        made = self._made.get(known)
        if made is None:
            made = self._made[known] = self._printer(schedule(plan, replace(self._buffers, rows=rows)))
        return made


def _extent(plan: LoopNestPlan, parts: Sequence[KernelOp]) -> tuple[int, int]:
    """Number of iterations, or chunks, that threads share, and the iterations of a chunk."""
    whole = plan.range
    if not parts:
        return whole, 1
    if plan.shared:
        return -(-whole // BLOCK), BLOCK
    most = max(_bytes(s.result) for s in parts)
    wanted = min(max(PIECES, whole // LONG), OF_CORE // max(1, most), whole // POINTS)
    pieces = max(1, min(whole, max(PARTS, wanted)))
    piece = max(1, -(-whole // pieces))
    return -(-whole // piece), piece


def combine_function(kernel_op: KernelOp) -> NativeFunction:
    """The function that combines partial results of a reduction."""
    op = kernel_op.combine
    assert op is not None
    key = _hash("combine", _operation(op), dtype_of(kernel_op.result).name, number_of(kernel_op.op.operands[-1]))
    return NativeFunction(key, functools.partial(combine_parts, kernel_op))


def combine_region(
    kernel_op: KernelOp, function: NativeFunction, buffers: tuple[int, int], count: int
) -> ParallelRegion:
    """The region that combines ``count`` partial results of a reduction."""
    size = math.prod(shape_of(kernel_op.result))
    work = size * count * machine().costs.operation
    grain, least = sharing(work, size, 64)
    levels = max(0, count - 1).bit_length()
    return ParallelRegion(function, buffers, (count, levels, size), size, grain, 0, work, least)


def fill_region(dtype: np.dtype[Any], shape: Shape, strides: Strides, number: Number, target: int) -> ParallelRegion:
    """The region that fills a strided array with a constant.

    All of a size of elements and up to three axes share a function: the constant's bits are a scalar argument.
    """
    walked = coalesced_axes([MovedAxis(n, step, step, 0, n) for n, step in zip(shape, strides, strict=True)])
    end = _end(walked)
    if walked[-1].target != 1:
        walked = [*walked, ONE._replace(target=1)]
    walked = _in_rows(walked, end)
    walked = [walked[0], *[ONE] * (_FILLED - len(walked)), *walked[1:]]
    rank, width = len(walked), dtype.itemsize
    function = NativeFunction(_hash("fill", width, rank), functools.partial(write_fill, width, rank))
    work = copy_time(math.prod(shape) * width)
    grain, least = sharing(work, walked[0].size)
    numbers = (_bits(number, dtype), end, *(a.size for a in walked), *(a.target for a in walked[:-1]))
    return ParallelRegion(function, (target,), numbers, walked[0].size, grain, 0, work, least)


def copy_region(dtype: np.dtype[Any], shape: Shape, strides: Strides, source: int, target: int) -> ParallelRegion:
    """The region that copies a strided array into a contiguous one."""
    axes = copied_axes(shape, strides)
    return replace(move_region(dtype, axes) or _tiled_copy(dtype, axes), buffers=(source, target))


def move_region(
    dtype: np.dtype[Any], axes: Sequence[MovedAxis], first: int = 0, outside: Number = 0
) -> ParallelRegion | None:
    """The region that moves an array (first buffer) into another one (second), perhaps inside a border of a constant.

    ``first`` is the offset of the element that is read where all indices are 0. None if the last axis is not contiguous
    in the second, or another one is in the first, so that tiles are faster.
    """
    walked = coalesced_axes(axes)
    last = walked[-1]
    if last.target != 1 or _rows(walked) is not None:
        return None
    end, bordered, contiguous = _end(walked), not all(a.is_whole for a in walked), last.source == 1
    walked = walked if bordered else _in_rows(walked, end)
    walked = [*walked[:-1], *[ONE] * (_MOVED - len(walked)), walked[-1]]
    code = _Move(dtype.itemsize, len(walked), contiguous, bordered)
    extent = walked[0].size * walked[1].size
    work = copy_time(math.prod(a.size for a in axes) * dtype.itemsize, not contiguous)
    grain, least = sharing(work, extent)
    numbers = (_bits(outside, dtype), first, end, *(n for a in walked for n in a[: code.each]))
    function = NativeFunction(f"move {code}", code.builder())
    return ParallelRegion(function, (0, 1), numbers, extent, grain, 0, work, least)


def _tiled_copy(dtype: np.dtype[Any], axes: Sequence[MovedAxis]) -> ParallelRegion:
    """The region that copies in tiles of the two axes along which one of the arrays is contiguous."""
    *outer, last = coalesced_axes(axes)
    number = _rows([*outer, last])
    assert number is not None, "the source is contiguous along another axis than the target"
    rows = outer.pop(number)
    walked, rank = [*outer, rows, last], len(outer) + 2
    function = NativeFunction(_hash("copy", dtype.name, rank), functools.partial(write_copy, dtype, rank))
    extent = math.prod(a.size for a in outer) * -(-rows.size // SQUARE)
    work = copy_time(math.prod(a.size for a in walked) * dtype.itemsize, strided=True)
    grain, least = sharing(work, extent)
    numbers = tuple(n for each in zip(*walked, strict=True) for n in each)[: 3 * rank]
    return ParallelRegion(function, (0, 1), numbers, extent, grain, 0, work, least)


def _bits(number: Number, dtype: np.dtype[Any]) -> int:
    """The bits of a constant, as a signed integer of its size."""
    return int(np.array(constant_as(number, dtype), dtype).view(f"i{dtype.itemsize}"))


def _bytes(value: SSAValue) -> int:
    return math.prod(shape_of(value)) * dtype_of(value).itemsize


def _work(plan: LoopNestPlan, times: Iterable[tuple[set[int], float]]) -> float:
    """An estimate of a loop nest's time on one thread, in nanoseconds."""
    return sum((math.prod([plan.nest.domain[a] for a in axes]) * time for axes, time in times), 0.0)


# --- keys -------------------------------------------------------------------------------------------------


def _hash(*parts: Any) -> str:
    return hashlib.sha256(repr((__version__, *parts)).encode()).hexdigest()


@functools.lru_cache(4096)
def _text(attribute: Attribute) -> str:
    return str(attribute)


def _operation(op: Operation) -> tuple[Any, ...]:
    return (op.name, *(_text(v.type) for v in op.results), *((k, _text(a)) for k, a in op.properties.items()))


def known_sizes(plan: LoopNestPlan) -> tuple[int | None, ...]:
    """The sizes of the coalesced axes that are constants in the code; None for scalar arguments."""
    return tuple([None if a in plan.dynamic else n for a, n in enumerate(plan.sizes)])


# --- copies and fills -------------------------------------------------------------------------------------------------


Strides = tuple[int, ...]

# The elements of a row of a contiguous array; the least axes that code of fills has, and that of moves.
ROW, _FILLED, _MOVED = 4096, 3, 4


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


def copied_axes(shape: Shape, strides: Strides) -> list[MovedAxis]:
    """The axes of a strided array that is copied into a contiguous one."""
    return [MovedAxis(n, step, to, 0, n) for n, step, to in zip(shape, strides, row_major(shape), strict=True)]


def coalesced_axes(axes: Sequence[MovedAxis]) -> list[MovedAxis]:
    """The same walk over both arrays with as few axes as possible, at least one."""
    found: list[MovedAxis] = []
    for a in axes:
        if a == ONE._replace(source=a.source, target=a.target):
            continue
        outer = found[-1] if found else a
        if found and a.is_whole and (outer.source, outer.target) == (a.source * a.size, a.target * a.size):
            found[-1] = MovedAxis(outer.size * a.size, a.source, a.target, outer.low * a.size, outer.high * a.size)
        else:
            found.append(a)
    return found or [MovedAxis(1, 1, 1, 0, 1)]


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


_Here = tuple[Index, Index, Index]  # offsets in the source and in the target; 1 inside the border, else 0


@dataclass(frozen=True)
class _Move:
    """What code that moves elements of ``width`` bytes, into an array of this rank, follows from.

    ``contiguous``: the source is so along the last axis. Scalars are the bits of the border's elements, the offset of
    the first element, where the target ends, and of each axis size and steps, and bounds if there is a border.
    """

    width: int
    rank: int
    contiguous: bool
    bordered: bool

    @property
    def each(self) -> int:
        """The scalars of an axis."""
        return 5 if self.bordered else 3

    def builder(self) -> RegionBuilder:
        """What writes the function, whose range are the first two axes."""
        return region([IntegerType(8 * self.width)] * 2, 3 + self.rank * self.each, self._write)

    def _write(self, given: Arguments) -> None:
        bits, first, end, *numbers = given.numbers
        b, (source, target), value = given.b, given.arrays, bits.integer(IntegerType(8 * self.width))
        axes = [numbers[i * self.each : (i + 1) * self.each] for i in range(self.rank)]

        def along(axis: int, index: Index, here: _Here) -> _Here:
            _, step, to, *bounds = axes[axis]
            inside = here[2] * within(index, *bounds) if bounds else here[2]
            return here[0] + index * step, here[1] + index * to, inside

        def walk(axis: int, here: _Here) -> None:
            if axis == self.rank - 1:
                row(*here)
            else:
                given.loop(0, axes[axis][0], lambda i, _: walk(axis + 1, along(axis, i, here)))

        def row(at: Index, to: Index, inside: Index) -> None:
            size, step, _, *bounds = axes[-1]
            size = size.least(end - to)
            low, high = [n.most(0).least(size) for n in bounds] or [size.of(0), size]
            if bounds:
                high = low + (high.most(low) - low) * inside
                fill(b, target, to.value, (to + low).value, value)
                fill(b, target, (to + high).value, (to + size).value, value)

            def element(i: Index, _: list[LLVMValue]) -> None:
                moved = b.load_element(source, (at + (i if self.contiguous else i * step)).value, b.depth)
                b.store_element(moved, target, (to + i).value)

            given.loop(low, high, element)

        def shared(point: Index, _: list[LLVMValue]) -> None:
            count = axes[1][0]
            walk(2, along(1, point % count, along(0, point // count, (first, first.of(0), first.of(1)))))

        given.loop(given.lo, given.hi, shared)


def within(index: Index, low: Index, high: Index) -> Index:
    """1 if an index is at least ``low`` and less than ``high``, else 0."""
    b = index.b
    operands = [(index - low).value, (high - low).value]
    flag = b.pure(arith.CmpiOp, operands, i1, operation_properties("arith.cmpi ult"))
    return Index(b, b.pure(arith.SelectOp, [flag, b.index(1), b.index(0)], INDEX))


def write_copy(dtype: np.dtype[Any], rank: int, module: ModuleText, symbol: str) -> None:
    """Write the function that copies a strided array (first buffer) to a contiguous one, in tiles of its last two axes.

    Its scalars are the sizes, then the strides of the source, then those of the target, of each axis. The source is
    contiguous along the last axis but one.
    """
    kind = array_type(signless(dtype))
    b = LoopBuilder(module, [kind, kind, *[INDEX] * (3 * rank), INDEX, INDEX, BYTES])
    source, target, *numbers, low, high, _ = b.arguments
    split: list[list[LLVMValue]] = [list(numbers[i * rank : (i + 1) * rank]) for i in range(3)]
    sizes, given, made = split
    made[-1] = given[-2] = b.index(1)

    def copy(index: list[LLVMValue]) -> None:
        at = [b.plus(*[b.times(i, s) for i, s in zip(index, strides, strict=True)]) for strides in (given, made)]
        b.store_element(b.load_element(source, at[0]), target, at[1])

    def point(index: LLVMValue, _: list[LLVMValue]) -> list[LLVMValue]:
        rest, first, last = first_and_last(b, index, sizes[-2])
        outer: list[LLVMValue] = []
        for axis in reversed(range(1, rank - 2)):
            rest, at = b.split(rest, sizes[axis])
            outer.insert(0, at)
        outer = [rest, *outer] if rank > 2 else []
        walk_tile(b, first, last, sizes[-1], lambda row, column: copy([*outer, row, column]))
        return []

    b.loop(low, high, b.index(1), point)
    b.write_region(symbol)


def write_fill(width: int, rank: int, module: ModuleText, symbol: str) -> None:
    """Write the function that fills a strided array with elements of ``width`` bytes, contiguous along the last axis.

    Its scalars are the bits of the element, where the last row ends, the sizes, and the strides but for the last.
    """
    kind = IntegerType(8 * width)
    b = LoopBuilder(module, [array_type(kind), *[INDEX] * (2 * rank + 1), INDEX, INDEX, BYTES])
    array, bits, end, *numbers, low, high, _ = b.arguments
    sizes, steps = numbers[:rank], numbers[rank:]
    value, zero, one = b.pure(arith.IndexCastOp, [bits], kind), b.index(0), b.index(1)

    def walk(axis: int, first: LLVMValue) -> None:
        if axis == rank - 1:
            left = b.pure(arith.SubiOp, [end, first], INDEX)
            fill(b, array, first, b.plus(first, b.least(sizes[axis], left)), value)
            return

        def point(index: LLVMValue, _: list[LLVMValue]) -> list[LLVMValue]:
            walk(axis + 1, b.plus(first, b.times(index, steps[axis])))
            return []

        b.loop(*((zero, sizes[axis]) if axis else (low, high)), one, point)

    walk(0, zero)
    b.write_region(symbol)

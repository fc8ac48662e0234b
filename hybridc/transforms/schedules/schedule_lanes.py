"""The schedule of contractions group by group as a tile program: depthwise and grouped convolutions.

A loop that indexes all three arrays leaves nothing for a matmul to share between its iterations, so these, and a loop
of the result within them, are the lanes of vectors. Several results and several terms are unrolled: a vector that
was loaded serves all of them that read it, and the results stay in registers over all terms. Where there are few
results and many terms, as for the gradient of a weight, the terms are cut into a number of pieces that follows from
sizes alone. An operand without contiguous lanes is copied first.

Convolutions of one channel, and the gradients of their weights, have vectors of filters instead: terms are in segments
too short for tiles of a matmul, or columns too few.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hybridc.ground.machine import NOMINAL
from hybridc.ground.records import dataclass
from hybridc.ground.sizes import AffineIndex, is_size, row_major
from hybridc.ir.contraction_shape import (
    Loop,
    accesses_after,
    coalesced_loops,
    contraction_loops,
    matrices_of_loops,
    multiplied,
)
from hybridc.ir.costs import LONG, PARTS, matmul_time
from hybridc.ir.kernels.kernel import Axes, Kernel, KernelOp, Read
from hybridc.ir.planned import Strides
from hybridc.ir.tiles.tile_program import (
    Address,
    Factor,
    Statement,
    TileBuffer,
    TileContract,
    TileDim,
    TileLoad,
    TileProgram,
    TileStore,
    TileSweep,
)
from hybridc.ir.tiles.tile_spec import verify
from hybridc.options import OPTIONS
from hybridc.transforms.schedules.loop_machine import Registers
from hybridc.transforms.schedules.matmul_shape import TOTAL
from hybridc.transforms.schedules.schedule_contractions import Epilogue, epilogue_of
from hybridc.transforms.schedules.schedule_moves import MoveSchedule, combination_of, copy_of, schedule_copy

_DTYPES = (np.dtype(np.float32), np.dtype(np.float64))
# Multiply-adds of straight-line code; the longest loop that is unrolled as a whole; how many iterations of another one.
_STRAIGHT, _WHOLE, _SOME = 100, 8, 2
# Strides of so small a ratio are multiples of one in the code, so that equal loads are seen to be equal.
_RATIO = 16
# Multiply-adds for each element of an operand that is copied first, at least.
_WORTH_COPYING = 4
# Registers that hold no results but operands; the most pieces that terms are cut into for the sake of the caches.
_OPERANDS, _MOST_PIECES = 4, 64
# How many times as long as in a matmul a multiply-add takes, of which more operands come from memory.
_SLOWER = 2

Along = Mapping[int, int]


class Lane(NamedTuple):
    """How an operand's lanes lie that are not contiguous: one of ``size`` elements for all lanes of a group.

    Which one follows from the ``axis``, if there are several. Where the lanes are all of one group, ``size`` is 0.
    """

    axis: int | None
    size: int


class CopiedArray(NamedTuple):
    """A copy to a contiguous array of a shape, from an array with these strides."""

    shape: Strides
    strides: Strides


class Lanes(NamedTuple):
    """The axes that lanes follow: one that indexes all arrays, and perhaps one of the result, of ``width``, within it.

    Where the latter alone fills vectors, it is the only one, as a ``group``.

    ``operands`` says how their lanes lie, None if they are contiguous; ``along`` are the strides along each axis of the
    operands, of the result, and of the other arrays of an epilogue.
    ``copies`` says for each array how it is copied, so that these are its strides; None if it is used as it is.
    """

    group: int
    inner: int | None
    width: int
    operands: tuple[Lane | None, Lane | None]
    along: tuple[Along, ...]
    copies: tuple[CopiedArray | None, CopiedArray | None, CopiedArray | None]

    @property
    def axes(self) -> Axes:
        """The axes of the lanes, outermost first."""
        return (self.group,) if self.inner is None else (self.group, self.inner)

    @property
    def copied(self) -> int:
        """How many elements are copied."""
        return sum(math.prod(copy.shape) for copy in self.copies if copy is not None)


@dataclass(frozen=True, eq=False)
class LaneSchedule:
    """The schedule of a contraction group by group: a tile program, and the numbers that its code is given.

    Threads share ``extent`` indices; ``work`` is an estimate of its time in nanoseconds. ``operands`` are copied before
    it, and its ``result`` afterwards, where these are not None. If there are several ``pieces``, it makes so many
    partial results, one after the other, of which a ``combination`` makes the result first.
    """

    program: TileProgram
    numbers: tuple[int, ...]
    extent: int
    work: float
    operands: tuple[MoveSchedule | None, ...]
    result: MoveSchedule | None
    pieces: int
    combination: MoveSchedule | None


def schedule_lanes(kernel: Kernel, strides: Sequence[Strides], vectors: Registers | None) -> LaneSchedule | None:
    """The schedule of a contraction group by group; None if it is none, or vectors do not fit.

    ``strides``, in elements, are those of the kernel's arguments and results.
    """
    loops = _loops_of(kernel, strides, vectors)
    if loops is None or vectors is None:
        return None
    program = _LaneProgram(loops)
    around = math.prod(-(-loops.sizes[a] // loops.tile[a]) for a in loops.around)
    dtypes = (loops.dtype, loops.dtype, loops.stored)
    *operands, result = [
        None if copy is None else schedule_copy(copy_of(dtype, *copy), vectors)
        for copy, dtype in zip(loops.lanes.copies, dtypes, strict=True)
    ]
    return LaneSchedule(
        program.program(),
        program.numbers(),
        extent=loops.pieces * around,
        work=_SLOWER * matmul_time(2 * math.prod(loops.sizes.values())),
        operands=tuple(operands),
        result=result,
        pieces=loops.pieces,
        combination=None if loops.pieces == 1 else combination_of(loops.kernel_op, loops.pieces),
    )


def keeps_sums_in_registers(kernel: Kernel, vectors: Registers | None) -> bool:
    """Whether what is computed of a convolution's sums can be computed group by group, in registers."""
    (kernel_op,) = kernel.ops
    if not any(read.index for read in kernel_op.reads):
        return False
    left, right = [{*r.axes} for r in kernel_op.reads]
    # Lanes are of the last axis, or of it and the one before: their sizes are the same at all others.
    last = next((i for i in (1, 2) if {*kernel_op.axes[-i:]} & left & right), 0)
    if not last or any(is_size(n) for n in kernel_op.result.shape[-last:]):
        return False
    loops = _loops_of(kernel, [row_major(v.shape) for v in (*kernel.arguments, *kernel.results)], vectors)
    # Operands may be copied before, but no result after.
    return loops is not None and loops.pieces == 1 and loops.lanes.copies[2] is None


def _loops_of(kernel: Kernel, strides: Sequence[Strides], vectors: Registers | None) -> _LaneLoops | None:
    """The loops of a contraction group by group; None if it is none, or vectors do not fit."""
    kernel_op = kernel.nests[0].contraction
    assert kernel_op is not None, "a kernel of a contraction"
    dtype = kernel_op.result.dtype
    if vectors is None or dtype not in _DTYPES or multiplied(kernel_op) != (dtype, dtype):
        return None
    values = [*kernel.arguments, *kernel.results]
    used = [*kernel_op.reads, *accesses_after(kernel)]
    if kernel_op.start != 0 or not all(kernel_op.extents.values()) or len({r.value for r in used[:3]} & {*values}) < 3:
        return None
    places = [strides[values.index(r.value)] for r in used]
    lanes = _lanes_of(kernel_op, places[:3], vectors.lanes(dtype))
    if lanes is None:
        return None
    more = [read.along(place) for read, place in zip(used[3:], places[3:], strict=True)]
    # An epilogue stores its results in their places, and reads vectors, or one element for all lanes.
    if more and (lanes.copies[2] is not None or not all(_are_vectors(steps, lanes, kernel_op) for steps in more)):
        return None
    lanes = lanes._replace(along=(*lanes.along, *more))
    return _LaneLoops(kernel_op, lanes, used, vectors, epilogue_of(kernel))


# --- lanes ------------------------------------------------------------------------------------------------------------


def _lanes_of(kernel_op: KernelOp, strides: Sequence[Strides], lanes: int) -> Lanes | None:
    """The lanes for which the fewest elements are copied."""
    return min(_possible_lanes(kernel_op, strides, lanes), key=lambda x: x.copied, default=None)


def _possible_lanes(kernel_op: KernelOp, strides: Sequence[Strides], lanes: int) -> list[Lanes]:
    """All lanes that pay."""
    left, right = [{*r.axes} for r in kernel_op.reads]
    sizes = kernel_op.extents
    only = [
        {a for a in own - other if sizes[a] > 1 and a in kernel_op.axes}
        for own, other in ((left, right), (right, left))
    ]
    alone = sorted(only[0] | only[1])
    groups = [a for a in kernel_op.axes if a in left & right and sizes[a] > 1]
    arranged: list[Lanes | None] = []
    if not groups and _is_short(kernel_op, strides, lanes):
        arranged = [_arranged(kernel_op, strides, a, None) for a in alone if sizes[a] >= lanes]
    for group in groups:
        for inner in (None, *alone):
            layout = _group_lanes(kernel_op, strides, group, inner, lanes)
            # A matmul of its own in each group reads one operand as it is, or there is a better way.
            if layout is not None and (None in layout.copies[:2] or not all(only)):
                arranged.append(layout)
    most = math.prod(sizes.values())
    return [x for x in arranged if x is not None and x.copied * _WORTH_COPYING <= most]


def _group_lanes(
    kernel_op: KernelOp, strides: Sequence[Strides], group: int, inner: int | None, lanes: int
) -> Lanes | None:
    """The lanes along a group, and another axis within it; of that one alone if it fills vectors."""
    sizes = kernel_op.extents
    width = 1 if inner is None else sizes[inner]
    if lanes % width == 0 and sizes[group] * width >= lanes:
        return _arranged(kernel_op, strides, group, inner)
    if inner is not None and width >= lanes and _has_far_terms(kernel_op, strides):
        return _arranged(kernel_op, strides, inner, None)
    return None


class _LaneOperand(NamedTuple):
    """An operand as lanes read it: how they lie, the strides along each axis, and how it is copied before."""

    lane: Lane | None
    along: Along
    copy: CopiedArray | None = None


def _arranged(kernel_op: KernelOp, strides: Sequence[Strides], group: int, inner: int | None) -> Lanes | None:
    """The arrays with such lanes, copied where they must be; None where a copy is not possible."""
    sizes = kernel_op.extents
    a, b = [
        _arranged_operand(read, place, sizes, group, inner)
        for read, place in zip(kernel_op.reads, strides, strict=False)
    ]
    if a is None or b is None:
        return None
    result, whole = dict(zip(kernel_op.axes, strides[2], strict=True)), None
    last = (group,) if inner is None else (group, inner)
    if not _is_contiguous(result, last, sizes):
        if strides[2] != row_major(kernel_op.result.shape):
            return None
        order = [*(axis for axis in kernel_op.axes if axis not in last), *last]
        result = dict(zip(order, row_major(tuple([sizes[axis] for axis in order])), strict=True))
        whole = CopiedArray(kernel_op.result.shape, tuple(result[axis] for axis in kernel_op.axes))
    width = 1 if inner is None else sizes[inner]
    return Lanes(group, inner, width, (a.lane, b.lane), (a.along, b.along, result), (a.copy, b.copy, whole))


def _arranged_operand(
    read: Read, strides: Strides, sizes: Mapping[int, int], group: int, inner: int | None
) -> _LaneOperand | None:
    """An operand with such lanes, copied if it must be; None where that is not possible."""
    steps = read.along(strides)
    if group not in read.axes:
        return _LaneOperand(Lane(None, 0), steps)
    own = (group, inner) if inner is not None and inner in read.axes else (group,)
    is_full = inner is None or len(own) == 2
    lane = None if is_full else _lane(steps, sizes, group)
    if lane is not None or (is_full and _is_contiguous(steps, own, sizes)):
        return _LaneOperand(lane, steps)
    order = _order(read, own)
    if order is None:
        return None
    shape = read.value.shape
    copy = CopiedArray(tuple(shape[i] for i in order), tuple(strides[i] for i in order))
    to = dict(zip(order, row_major(copy.shape), strict=True))
    return _LaneOperand(None if is_full else Lane(None, 1), read.along([to[i] for i in range(len(order))]), copy)


def _is_short(kernel_op: KernelOp, strides: Sequence[Strides], lanes: int) -> bool:
    """Whether tiles of a matmul do not fit, as for a convolution of one channel, and for the gradient of its weight."""
    places = [read.along(place) for read, place in zip(kernel_op.reads, strides, strict=False)]
    places.append(dict(zip(kernel_op.axes, strides[2], strict=True)))
    matrices = matrices_of_loops(*contraction_loops(kernel_op.extents, places))
    return matrices is not None and matrices.is_short(lanes)


def _are_vectors(steps: Along, lanes: Lanes, kernel_op: KernelOp) -> bool:
    """Whether an array has contiguous elements for the lanes, or one for all of them."""
    own = {a: steps.get(a, 0) for a in lanes.axes}
    return not any(own.values()) or _is_contiguous(own, lanes.axes, kernel_op.extents)


def _has_far_terms(kernel_op: KernelOp, strides: Sequence[Strides]) -> bool:
    """Whether the terms of an operand are no line in memory, as those of a matmul are."""
    sizes = kernel_op.extents
    left, right = [read.along(place) for read, place in zip(kernel_op.reads, strides, strict=False)]
    loops = [Loop(sizes[a], left.get(a), right.get(a), None) for a in kernel_op.reduced if sizes[a] > 1]
    return len(coalesced_loops(sorted(loops, key=lambda x: -abs(x.a or 0)))) > 1


def _is_contiguous(steps: Along, axes: Sequence[int], sizes: Mapping[int, int]) -> bool:
    """Whether elements along these axes follow each other."""
    return all(steps[a] == n for a, n in zip(axes, row_major(tuple([sizes[a] for a in axes])), strict=True))


def _lane(steps: Along, sizes: Mapping[int, int], group: int) -> Lane | None:
    """How the lanes of an operand lie that has the same element, or as many as a short loop, for all of a group."""
    if steps[group] == 1:
        return Lane(None, 1)
    axes = [a for a, step in steps.items() if step == 1 and sizes[a] == steps[group] <= _WHOLE]
    return Lane(axes[0], steps[group]) if len(axes) == 1 else None


def _order(read: Read, last: Sequence[int]) -> list[int] | None:
    """The dimensions of a value with those last that these axes index; None where sums of axes index them."""
    of = {place if isinstance(place, int) else _alone(place): i for i, place in enumerate(read.places)}
    if any(a not in of for a in last) or any(sum(a == b for b in read.axes) != 1 for a in last):
        return None
    ends = [of[a] for a in last]
    return [*(i for i in range(len(read.places)) if i not in ends), *ends]


def _alone(index: AffineIndex) -> int | None:
    """The axis that an index is."""
    return index.terms[0][0] if len(index.terms) == 1 and index.terms[0][1] == 1 else None


# --- loops ------------------------------------------------------------------------------------------------------------


class _LaneLoops:
    """The loops of a contraction with some lanes: what registers hold, what is unrolled, and the pieces.

    The kernel accesses ``used``: operands, the result, and what else its epilogue does.
    """

    def __init__(
        self, kernel_op: KernelOp, lanes: Lanes, used: Sequence[Read], vectors: Registers, epilogue: Epilogue | None
    ) -> None:
        self.kernel_op, self.lanes, self.epilogue = kernel_op, lanes, epilogue
        self.sizes = kernel_op.extents
        self.dtype, self.stored = kernel_op.result.dtype, used[2].value.dtype
        self.kinds = [r.value.kind for r in used]
        self.width = vectors.lanes(self.dtype)
        # Two vectors beside each other share what is the same in all of their lanes.
        size, beside = self.sizes[lanes.group], (2, 1) if Lane(None, 0) in lanes.operands else (1,)
        self.beside = min(
            (n for n in beside if n * self.width <= size or n == 1), key=lambda n: -(-size // (n * self.width)) * n
        )
        self.tile = self._tile(vectors.count - _OPERANDS)
        self.unrolled, self.loops = self._terms()
        self.some = _SOME if self.loops and self._straight() * _SOME <= _STRAIGHT else 1
        self.pieces, self.piece = self._pieces()

    @property
    def around(self) -> list[int]:
        """The axes around the result's tile, the farthest elements first."""
        axes = [a for a in self.kernel_op.axes if a not in self.lanes.axes and self.tile.get(a, 1) < self.sizes[a]]
        return sorted(axes, key=lambda a: -abs(self.steps(a)[2]))

    @property
    def at_once(self) -> list[int]:
        """The axes of which straight-line code has several indices."""
        tiled = [a for a, count in self.tile.items() if count > 1]
        return [*tiled, *self.unrolled, *(self.loops[-1:] if self.some > 1 else [])]

    def steps(self, axis: int) -> Strides:
        """The strides along an axis in each array."""
        return tuple([along.get(axis, 0) for along in self.lanes.along])

    def moves(self, axis: int) -> Strides:
        """The steps of an unrolled loop: along the lanes those of vectors."""
        steps = self.steps(axis)
        return tuple([step * self.width for step in steps]) if axis == self.lanes.group else steps

    def _must(self) -> set[int]:
        """The axes that choose a lane: they are unrolled as a whole."""
        return {lane.axis for lane in self.lanes.operands if lane is not None and lane.axis is not None}

    def _near(self, axes: Iterable[int]) -> list[int]:
        """Axes in the order in which they are unrolled: those that must be, then the nearest in the operands."""
        must = self._must()
        return sorted(axes, key=lambda a: (a not in must, max(map(abs, self.steps(a)[:2]))))

    def _tile(self, room: int) -> dict[int, int]:
        """How many results along each axis registers hold: of the axes that are nearest to each other in memory."""
        tile: dict[int, int] = {} if self.beside == 1 else {self.lanes.group: self.beside}
        for axis in self._near(a for a in self.kernel_op.axes if a not in self.lanes.axes and self.sizes[a] > 1):
            size = self.sizes[axis]
            tile[axis] = size if axis in self._must() else _even(size, max(1, room // math.prod(tile.values())))
        return tile

    def _terms(self) -> tuple[list[int], list[int]]:
        """The axes of terms that are unrolled as a whole, and the others, the innermost last."""
        must, whole, loops = self._must(), list[int](), list[int]()
        count = math.prod(self.tile.values())
        for axis in self._near(a for a in self.kernel_op.reduced if self.sizes[a] > 1):
            size = self.sizes[axis]
            near = not loops or self._shares(axis)
            if axis in must or (near and size <= _WHOLE and count * size <= _STRAIGHT):
                whole.append(axis)
                count *= size
            else:
                loops.insert(0, axis)
        return whole, loops

    def _shares(self, axis: int) -> bool:
        """Whether several of the results in registers read the same elements along an axis of terms."""
        last = self.sizes[axis] - 1
        return any(
            0 < step <= (count - 1) * other and other <= last * step
            for tiled, count in self.tile.items()
            for step, other in zip(self.steps(axis)[:2], self.moves(tiled)[:2], strict=True)
        )

    def _straight(self) -> int:
        return math.prod(self.tile.values()) * math.prod(self.sizes[a] for a in self.unrolled)

    def _pieces(self) -> tuple[int, int]:
        """How many pieces the loops over terms are cut into, all but the innermost, and the iterations of a piece."""
        rows = math.prod(self.sizes[a] for a in self.loops[:-1])
        terms = rows * math.prod(self.sizes[a] for a in self.loops[-1:])
        outputs = math.prod(self.sizes[a] for a in self.kernel_op.axes)
        if terms < LONG or outputs > terms * PARTS or self.epilogue is not None or not self._is_dense(outputs):
            return 1, rows
        read = self.dtype.itemsize * max(r.value.size for r in self.kernel_op.reads)
        wanted = max(PARTS, terms // LONG, min(_MOST_PIECES, read // (NOMINAL.second // 4)))
        piece = max(1, rows // min(rows, wanted))
        return -(-rows // piece), piece

    def _is_dense(self, outputs: int) -> bool:
        """Whether no other elements are between those of the result: partial results are one after the other."""
        return sum((self.sizes[a] - 1) * abs(step) for a, step in self.lanes.along[2].items()) + 1 == outputs


def _even(size: int, most: int) -> int:
    """How many of ``size`` results registers hold, at most ``most``, so that few are computed twice."""
    counts = range(1, min(most, size) + 1)
    return min(counts, key=lambda n: (-(-size // n) * n - size + size / n / 2, -n))


# --- programs ---------------------------------------------------------------------------------------------------------


class _LaneProgram:
    """Writes the program of loops: its axes are ``order``, those of the kernel that have several indices.

    The code is given the ``arguments``: strides, of axes that are unrolled as multiples of a few.
    """

    def __init__(self, loops: _LaneLoops) -> None:
        self.loops, self.lanes = loops, loops.lanes
        self.around = loops.around
        self.whole = [a for a in loops.tile if a not in self.around and a != self.lanes.group]
        self.order = [*self.around, *self.whole, *self.lanes.axes, *loops.unrolled, *loops.loops]
        self.arguments: list[int] = []
        self.is_pieces = loops.pieces > 1
        self.addresses = [self._address(i) for i in range(len(loops.kinds))]

    def numbers(self) -> tuple[int, ...]:
        """What the code is given: sizes, strides, and how many iterations a piece has."""
        sizes = [self.loops.sizes[a] for a, size in zip(self.order, self._sizes(), strict=True) if size is None]
        return (*sizes, *self.arguments, *([self.loops.piece] if self.is_pieces else []))

    def program(self) -> TileProgram:
        """The program."""
        parallel = [*(self.loops.loops[:-1] if self.is_pieces else []), *self.around]
        program = TileProgram(
            self._buffers(),
            self._sizes(),
            self._axes(parallel),
            (TileSweep((), self._statements()),),
            strides=len(self.arguments),
            tiles=(*self._results(), *self._terms()),
        )
        if OPTIONS.verify:
            verify(program)
        return program

    def _buffers(self) -> tuple[TileBuffer, ...]:
        """The buffers; partial results are of the sums' kind."""
        buffers = [TileBuffer(a.buffer, kind) for a, kind in zip(self.addresses, self.loops.kinds, strict=True)]
        if self.is_pieces:
            buffers[2] = TileBuffer(buffers[2].name, buffers[0].kind, pieces=True)
        return tuple(buffers)

    def _axes(self, axes: Iterable[int]) -> Axes:
        """The program's axes of some of the kernel's."""
        return tuple(self.order.index(a) for a in axes)

    def _sizes(self) -> tuple[int | None, ...]:
        """The sizes of the axes that straight-line code, or a vector, has all indices of."""
        known = {*self.whole, *self.lanes.axes[1:], *self.loops.unrolled}
        return tuple(self.loops.sizes[a] if a in known else None for a in self.order)

    def _results(self) -> list[TileDim]:
        """The dimensions of results: of lanes, then of those in registers."""
        loops, lanes = self.loops, self._axes(self.lanes.axes)
        block = f"n{lanes[0]}" + (f"*{self.lanes.width}" if self.lanes.width > 1 else "")
        parts = ((loops.width * loops.beside,),)
        dims = [TileDim(lanes, block, "whole", masked=False, parts=parts, lanes=loops.width)]
        tile = {a: count for a, count in loops.tile.items() if a != self.lanes.group}
        walks = {a: "grid" if a in self.around else "whole" for a in tile}
        return dims + [TileDim(self._axes([a]), count, walks[a], masked=False) for a, count in tile.items()]

    def _terms(self) -> list[TileDim]:
        """The dimensions of terms: unrolled ones, loops that may be cut into pieces, and the innermost one."""
        loops = self.loops
        dims = [TileDim(self._axes([a]), loops.sizes[a], "whole", masked=False) for a in loops.unrolled]
        outer, inner = self._axes(loops.loops[:-1]), self._axes(loops.loops[-1:])
        if outer:
            block, walk = ("PIECE", "grid") if self.is_pieces else ("*".join(f"n{a}" for a in outer), "whole")
            dims.append(TileDim(outer, block, walk, self.is_pieces, parts=((1,),)))
        if inner:
            parts = ((loops.some, 1) if loops.some > 1 else (1,),)
            dims.append(TileDim(inner, f"n{inner[0]}", "whole", masked=False, parts=parts))
        return dims

    def _statements(self) -> tuple[Statement, ...]:
        """The loads of both operands, the contraction, and its epilogue."""
        left, right, *rest = self.addresses
        kind, epilogue = self.loops.kinds[0], self.loops.epilogue
        over = self._axes([*self.loops.loops, *reversed(self.loops.unrolled)])
        sums = [TileLoad("0", left, kind), TileLoad("1", right, kind), TileContract(TOTAL, "0", "1", over, kind)]
        return (*sums, *([TileStore(TOTAL, rest[0])] if epilogue is None else epilogue.at(rest)))

    # --- addresses -----------------------------------------------------------------------------------------

    def _address(self, array: int) -> Address:
        """The address of an element of an operand, the result, or another array of the epilogue."""
        lane = self.lanes.operands[array] if array < 2 else None
        known = {*self.lanes.axes, None if lane is None else lane.axis}
        near = [a for a in self.loops.at_once if a not in known]
        walked = {*self.around, *(self.loops.loops if array < 2 else [])} - {*near}
        strides = _NearStrides(self, [self.loops.steps(a)[array] for a in near])
        terms: list[tuple[int, Factor]] = []
        for place, axis in enumerate(self.order):
            step = self.loops.steps(axis)[array]
            if axis in walked:  # the stride may be 0: so one function serves arrays with any of these axes
                terms.append((place, Factor(stride=self.argument(step))))
            elif step != 0:
                terms.append((place, Factor(step) if axis in known else strides.factor(step)))
        return Address(f"{'p' if array == 2 and self.is_pieces else 'b'}{array}", tuple(terms))

    def argument(self, stride: int) -> int:
        """The index of a further stride that the code is given."""
        self.arguments.append(stride)
        return len(self.arguments) - 1


class _NearStrides:
    """The strides of unrolled axes, as multiples of a few where the ratios are small."""

    def __init__(self, program: _LaneProgram, strides: Sequence[int]) -> None:
        self._program = program
        self._bases: list[int] = []
        self._arguments: dict[int, int] = {}  # of each base
        for stride in sorted({*map(abs, strides)} - {0}):
            self._include(stride)

    def factor(self, stride: int) -> Factor:
        """A stride as a multiple of the base of which it is the smallest one."""
        base = min((base for base in self._bases if stride % base == 0), key=lambda base: abs(stride // base))
        if base not in self._arguments:
            self._arguments[base] = self._program.argument(base)
        return Factor(stride // base, stride=self._arguments[base])

    def _include(self, stride: int) -> None:
        for i, base in enumerate(self._bases):
            common = math.gcd(base, stride)
            if stride // common <= _RATIO and base // common <= _RATIO:
                self._bases[i] = common
                return
        self._bases.append(stride)

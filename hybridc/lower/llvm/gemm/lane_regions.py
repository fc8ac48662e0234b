"""Contractions group by group, of which vectors hold several groups: depthwise and grouped convolutions.

A loop that indexes all three arrays leaves nothing for a matmul to share between its iterations, so these, and a loop
of the result within them, are the lanes of vectors. Several results and several terms are unrolled: a vector that
was loaded serves all of them that read it, and the results stay in registers over all terms. Where there are few
results and many terms, as for the gradient of a weight, the terms are cut into a number of pieces that follows from
sizes alone. An operand without contiguous lanes is copied first.

Convolutions of one channel, and the gradients of their weights, have vectors of filters instead: terms are in segments
too short for tiles of a matmul, or columns too few.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from xdsl.dialects.builtin import AnyFloat, f32, f64

from hybridc.dialects.operator_attribute import DType
from hybridc.ground.machine import NOMINAL
from hybridc.ground.sizes import AffineIndex, is_size, row_major
from hybridc.ir.contraction_shape import (
    Loop,
    accesses_after,
    coalesced_loops,
    contraction_loops,
    matrices_of_loops,
    multiplied,
)
from hybridc.ir.costs import PARTS, matmul_time, sharing
from hybridc.ir.kernel import Axes, Kernel, KernelOp, Read, number_of
from hybridc.ir.planned import Strides
from hybridc.ir.structured import dtype_of, shape_of
from hybridc.ir.structured_builder import ELEMENT_TYPES
from hybridc.ir.tiles.tile_program import Address, TileStore
from hybridc.lower.llvm.codegen.function_text import LLVMValue
from hybridc.lower.llvm.codegen.native_function import NativeFunction
from hybridc.lower.llvm.gemm.gemm_region import Arguments, Index, RegionBuilder, Vectors, region, registers
from hybridc.lower.llvm.gemm.vector_statements import VectorStatements, Where
from hybridc.lower.llvm.loops.parallel_regions import (
    LONG,
    ParallelRegion,
    ParallelRegions,
    combine_region,
    move_region,
)
from hybridc.transforms.schedules.schedule_contractions import TOTAL, Epilogue, epilogue_of
from hybridc.transforms.schedules.schedule_kernels import kind_of
from hybridc.transforms.schedules.schedule_moves import copy_of, schedule_copy

_ELEMENTS: Mapping[Any, AnyFloat] = {np.dtype(np.float32): f32, np.dtype(np.float64): f64}
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
    """How an operand's lanes lie: ``None`` contiguous; or one of ``size`` elements for all lanes of a group.

    Which one follows from the ``axis``, if there are several. Where the lanes are all of one group, ``size`` is 0.
    """

    axis: int | None
    size: int


class Lanes(NamedTuple):
    """The axes that lanes follow: one that indexes all arrays, and perhaps one of the result, of ``width``, within it.

    Where the latter alone fills vectors, it is the only one, as a ``group``.

    ``operands`` says how their lanes lie, ``along`` are the strides along each axis of the operands, of the result, and
    of the other arrays of an epilogue.
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


class CopiedArray(NamedTuple):
    """A copy to a contiguous array of a shape, from an array with these strides."""

    shape: Strides
    strides: Strides


def _copied(dtype: DType, array: CopiedArray, buffers: tuple[int, int]) -> ParallelRegion:
    """The region that copies an array into a contiguous one."""
    return move_region(schedule_copy(copy_of(dtype, array.shape, array.strides), registers()), buffers)


@dataclass(frozen=True)
class Unrolled:
    """A loop in straight-line code.

    ``steps`` are those in the arrays, as a stride's number and a factor; None in an array that it does not move in.
    """

    axis: int
    count: int
    steps: tuple[tuple[int, int] | None, ...]


@dataclass(frozen=True)
class LaneCode:
    """What code follows from beside the lanes: the unrolled loops of the result and of the terms, and those around.

    ``around`` says for each loop around the result how many iterations of it are unrolled. The last of ``terms``
    unrolls the innermost of the ``loops`` over terms, if ``some`` is more than 1. ``strides`` counts those of unrolled
    loops in each array. A vector holds so many ``groups``, and ``step`` are those of all vectors that are unrolled.
    ``kinds`` are the element types of the arrays, and ``follows`` says which of the result and what else an epilogue
    accesses have elements for each lane.
    """

    dtype: str
    lanes: int
    groups: int
    step: int
    operands: tuple[Lane | None, Lane | None]
    results: tuple[Unrolled, ...]
    terms: tuple[Unrolled, ...]
    around: tuple[int, ...]
    loops: int
    some: int
    strides: tuple[int, ...]
    kinds: tuple[str, ...]
    follows: tuple[bool, ...]
    epilogue: Epilogue | None

    @property
    def numbers(self) -> int:
        """The number of scalar arguments."""
        return _FIXED + sum(self.strides) + (1 + len(self.kinds)) * (len(self.around) + self.loops)


# What follows sums that are results.
_STORE = (TileStore(TOTAL, Address("e0", ())),)
# Scalar arguments before the strides of unrolled loops and the loops: groups, iterations of terms and those of a piece,
# and the elements of the result from one piece to the next.
_FIXED = 4


def lane_regions(kernel: Kernel, strides: Sequence[Strides]) -> ParallelRegions | None:
    """The parallel regions of a contraction group by group; None if it is none, or vectors do not fit.

    ``strides``, in elements, are those of the kernel's arguments and results.
    """
    kernel_op = kernel.nests[0].contraction
    assert kernel_op is not None, "a kernel of a contraction"
    vectors, dtype = registers(), dtype_of(kernel_op.result)
    if vectors is None or dtype not in _ELEMENTS or multiplied(kernel_op) != (dtype, dtype):
        return None
    values = [*kernel.arguments, *kernel.results]
    used = [*kernel_op.reads, *accesses_after(kernel)]
    if (
        number_of(kernel_op.op.operands[-1]) != 0
        or not all(kernel_op.extents.values())
        or len({r.value for r in used[:3]} & {*values}) < 3
    ):
        return None
    places = [values.index(r.value) for r in used]
    lanes = _lanes_of(kernel_op, [strides[i] for i in places[:3]], vectors.lanes(dtype))
    if lanes is None:
        return None
    more = [read.along(strides[i]) for read, i in zip(used[3:], places[3:], strict=True)]
    # An epilogue stores its results in their places, and reads vectors, or one element for all lanes.
    if more and (lanes.copies[2] is not None or not all(_are_vectors(steps, lanes, kernel_op) for steps in more)):
        return None
    lanes = lanes._replace(along=(*lanes.along, *more))
    kinds = tuple([kind_of(r.value) for r in used])
    writer = _Writer(kernel_op, lanes, vectors.lanes(dtype), vectors.count, kinds, epilogue_of(kernel))
    return writer.regions(places, len(values), dtype_of(used[2].value))


def keeps_sums_in_registers(kernel: Kernel) -> bool:
    """Whether what is computed of a convolution's sums can be computed group by group, in registers."""
    (kernel_op,) = kernel.ops
    if not any(read.index for read in kernel_op.reads):
        return False
    left, right = [{*r.axes} for r in kernel_op.reads]
    # Lanes are of the last axis, or of it and the one before: their sizes are the same at all others.
    last = next((i for i in (1, 2) if {*kernel_op.axes[-i:]} & left & right), 0)
    if not last or any(is_size(n) for n in shape_of(kernel_op.result)[-last:]):
        return False
    values = [*kernel.arguments, *kernel.results]
    made = lane_regions(kernel, [row_major(shape_of(v)) for v in values])
    if made is None:
        return False
    end = made.regions[-1]  # operands may be copied before, but no result after
    return (
        isinstance(end, ParallelRegion) and end.algorithm == "lanes" and values.index(kernel_op.result) in end.buffers
    )


# --- lanes ------------------------------------------------------------------------------------------------------------


def _lanes_of(kernel_op: KernelOp, strides: Sequence[Strides], lanes: int) -> Lanes | None:
    """The lanes for which the fewest elements are copied."""
    left, right = [{*r.axes} for r in kernel_op.reads]
    sizes = kernel_op.extents
    only = [
        {a for a in own - other if sizes[a] > 1 and a in kernel_op.axes}
        for own, other in ((left, right), (right, left))
    ]
    possible: list[Lanes] = []
    if not any(a in left & right and sizes[a] > 1 for a in kernel_op.axes) and _is_short(kernel_op, strides, lanes):
        found = [_arranged(kernel_op, strides, a, None) for a in sorted(only[0] | only[1]) if sizes[a] >= lanes]
        possible = [x for x in found if x is not None and x.copied * _WORTH_COPYING <= math.prod(sizes.values())]
    for group in kernel_op.axes:
        if group not in left & right or sizes[group] == 1:
            continue
        for inner in (None, *sorted(only[0] | only[1])):
            width = 1 if inner is None else sizes[inner]
            found = None
            if lanes % width == 0 and sizes[group] * width >= lanes:
                found = _arranged(kernel_op, strides, group, inner)
            elif inner is not None and width >= lanes and _has_far_terms(kernel_op, strides):
                found = _arranged(kernel_op, strides, inner, None)
            if found is not None:
                # A matmul of its own in each group reads one operand as it is, or there is a better way.
                free = None in found.copies[:2] or not all(only)
                if free and found.copied * _WORTH_COPYING <= math.prod(sizes.values()):
                    possible.append(found)
    return min(possible, key=lambda x: x.copied, default=None)


def _arranged(kernel_op: KernelOp, strides: Sequence[Strides], group: int, inner: int | None) -> Lanes | None:
    """The arrays with such lanes, copied where they must be; None where a copy is not possible."""
    sizes = kernel_op.extents
    width = 1 if inner is None else sizes[inner]
    operands: list[Lane | None] = []
    along: list[Along] = []
    copies: list[CopiedArray | None] = []
    for read, given in zip(kernel_op.reads, strides, strict=False):
        steps = read.along(given)
        if group not in read.axes:
            operands.append(Lane(None, 0))
            along.append(steps)
            copies.append(None)
            continue
        own = (group, inner) if inner is not None and inner in read.axes else (group,)
        lane = None if inner is None or inner in read.axes else _lane(steps, sizes, group)
        copy = None
        if lane is None and not (_is_contiguous(steps, own, sizes) and (inner is None or len(own) == 2)):
            order = _order(read, own)
            if order is None:
                return None
            shape = shape_of(read.value)
            copy = CopiedArray(tuple(shape[i] for i in order), tuple(given[i] for i in order))
            made = dict(zip(order, row_major(copy.shape), strict=True))
            steps = read.along([made[i] for i in range(len(order))])
            lane = None if inner is None or len(own) == 2 else Lane(None, 1)
        operands.append(lane)
        along.append(steps)
        copies.append(copy)
    result, whole = dict(zip(kernel_op.axes, strides[2], strict=True)), None
    last = (group,) if inner is None else (group, inner)
    if not _is_contiguous(result, last, sizes):
        if strides[2] != row_major(shape_of(kernel_op.result)):
            return None
        order = [*(a for a in kernel_op.axes if a not in last), *last]
        result = dict(zip(order, row_major(tuple([sizes[a] for a in order])), strict=True))
        whole = CopiedArray(shape_of(kernel_op.result), tuple(result[a] for a in kernel_op.axes))
    (a, b), (x, y), (p, q) = operands, along, copies
    return Lanes(group, inner, width, (a, b), (x, y, result), (p, q, whole))


def _is_short(kernel_op: KernelOp, strides: Sequence[Strides], lanes: int) -> bool:
    """Whether tiles of a matmul do not fit, as for a convolution of one channel, and for the gradient of its weight."""
    places = [read.along(given) for read, given in zip(kernel_op.reads, strides, strict=False)]
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
    left, right = [read.along(given) for read, given in zip(kernel_op.reads, strides, strict=False)]
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


class _Writer:
    """Makes the regions of a contraction with some lanes."""

    def __init__(
        self,
        kernel_op: KernelOp,
        lanes: Lanes,
        width: int,
        registers: int,
        kinds: tuple[str, ...],
        epilogue: Epilogue | None,
    ) -> None:
        self.kernel_op, self.lanes, self.width = kernel_op, lanes, width
        self.kinds, self.epilogue = kinds, epilogue
        self.sizes = kernel_op.extents
        self.dtype = dtype_of(kernel_op.result)
        room = registers - _OPERANDS
        # Two vectors beside each other share what is the same in all of their lanes.
        size, beside = self.sizes[lanes.group], (2, 1) if Lane(None, 0) in lanes.operands else (1,)
        self.beside = min((n for n in beside if n * width <= size or n == 1), key=lambda n: -(-size // (n * width)) * n)
        self.tile = self._tile(room)
        self.unrolled, self.loops = self._terms()
        self.some = _SOME if self.loops and self._straight() * _SOME <= _STRAIGHT else 1
        self.pieces, self.piece = self._pieces()

    def _steps(self, axis: int) -> Strides:
        return tuple([along.get(axis, 0) for along in self.lanes.along])

    def _must(self) -> set[int]:
        """The axes that choose a lane: they are unrolled as a whole."""
        return {lane.axis for lane in self.lanes.operands if lane is not None and lane.axis is not None}

    def _tile(self, room: int) -> dict[int, int]:
        """How many results along each axis registers hold: of the axes that are nearest to each other in memory."""
        found: dict[int, int] = {} if self.beside == 1 else {self.lanes.group: self.beside}
        kept = [a for a in self.kernel_op.axes if a not in self.lanes.axes and self.sizes[a] > 1]
        must = self._must()
        for axis in sorted(kept, key=lambda a: (a not in must, max(map(abs, self._steps(a)[:2])))):
            most = self.sizes[axis] if axis in must else max(1, room // math.prod(found.values()))
            count = min(
                range(1, min(most, self.sizes[axis]) + 1),
                key=lambda n: (-(-self.sizes[axis] // n) * n - self.sizes[axis] + self.sizes[axis] / n / 2, -n),
            )
            found[axis] = self.sizes[axis] if axis in must else count
        return found

    def _terms(self) -> tuple[list[int], list[int]]:
        """The axes of terms that are unrolled as a whole, and the others, the innermost last."""
        must, whole, loops = self._must(), list[int](), list[int]()
        count = math.prod(self.tile.values())
        reduced = [a for a in self.kernel_op.reduced if self.sizes[a] > 1]
        for axis in sorted(reduced, key=lambda a: (a not in must, max(map(abs, self._steps(a)[:2])))):
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
            for step, other in zip(self._steps(axis)[:2], self._moves(tiled)[:2], strict=True)
        )

    def _moves(self, axis: int) -> Strides:
        """The steps of an unrolled loop: along the lanes those of vectors."""
        steps = self._steps(axis)
        return tuple([step * self.width for step in steps]) if axis == self.lanes.group else steps

    def _straight(self) -> int:
        return math.prod(self.tile.values()) * math.prod(self.sizes[a] for a in self.unrolled)

    def _pieces(self) -> tuple[int, int]:
        """How many pieces the loops over terms are cut into, all but the innermost, and the iterations of a piece."""
        rows = math.prod(self.sizes[a] for a in self.loops[:-1])
        terms = rows * math.prod(self.sizes[a] for a in self.loops[-1:])
        outputs = math.prod(self.sizes[a] for a in self.kernel_op.axes)
        if terms < LONG or outputs > terms * PARTS or self.epilogue is not None:
            return 1, rows
        read = self.dtype.itemsize * max(math.prod(shape_of(r.value)) for r in self.kernel_op.reads)
        wanted = max(PARTS, terms // LONG, min(_MOST_PIECES, read // (NOMINAL.second // 4)))
        piece = max(1, rows // min(rows, wanted))
        return -(-rows // piece), piece

    def regions(self, places: Sequence[int], first: int, stored: DType) -> ParallelRegions:
        """The parallel regions; arrays are the buffers ``places``, and locals begin at ``first``.

        ``stored`` is the dtype of the result, in which an epilogue may store the sums.
        """
        made, buffers = ParallelRegions(), list(places)

        def local(size: int, dtype: DType) -> int:
            made.locals.append(size * dtype.itemsize)
            return first + len(made.locals) - 1

        copies = self.lanes.copies
        for i, copy in enumerate(copies[:2]):
            if copy is not None:
                buffers[i] = local(math.prod(copy.shape), self.dtype)
                made.regions.append(_copied(self.dtype, copy, (places[i], buffers[i])))
        outputs = math.prod(shape_of(self.kernel_op.result))
        arranged = places[2] if copies[2] is None else local(outputs, stored)
        buffers[2] = arranged if self.pieces == 1 else local(outputs * self.pieces, self.dtype)
        made.regions.append(self._main(tuple(buffers)))
        if self.pieces > 1:
            made.regions.append(combine_region(self.kernel_op, (buffers[2], arranged), self.pieces))
        if copies[2] is not None:
            made.regions.append(_copied(stored, copies[2], (arranged, places[2])))
        return made

    def _main(self, buffers: tuple[int, ...]) -> ParallelRegion:
        strides = [_Strides() for _ in self.kinds]
        order = [*self.tile, *self.unrolled, *(self.loops[-1:] if self.some > 1 else [])]
        for i, known in enumerate(strides):
            lane = self.lanes.operands[i] if i < 2 else None
            known.find([abs(self._moves(a)[i]) for a in order if lane is None or a != lane.axis])

        def unrolled(axis: int, count: int) -> Unrolled:
            lanes = (*self.lanes.operands, *[None] * (len(self.kinds) - 2))
            own = [
                None if lane is not None and lane.axis == axis else known.of(step)
                for lane, known, step in zip(lanes, strides, self._moves(axis), strict=True)
            ]
            return Unrolled(axis, count, tuple(own))

        around = [a for a in self.kernel_op.axes if a not in self.lanes.axes and self.tile.get(a, 1) < self.sizes[a]]
        around.sort(key=lambda a: -abs(self._steps(a)[2]))
        terms = [unrolled(a, self.sizes[a]) for a in self.unrolled]
        if self.some > 1:
            terms.append(unrolled(self.loops[-1], self.some))
        groups = self.width // self.lanes.width
        code = LaneCode(
            self.dtype.name, self.width, groups, groups * self.beside, self.lanes.operands,
            tuple(unrolled(a, n) for a, n in self.tile.items() if n > 1), tuple(terms),
            tuple(self.tile.get(a, 1) for a in around), len(self.loops), self.some,
            tuple(len(known.bases) for known in strides), self.kinds,
            tuple(self.lanes.group in along and along[self.lanes.group] > 0 for along in self.lanes.along[2:]),
            self.epilogue,
        )  # fmt: skip
        rows = math.prod(self.sizes[a] for a in self.loops[:-1])
        outputs = math.prod(shape_of(self.kernel_op.result))
        numbers = [self.sizes[self.lanes.group], rows, self.piece, outputs]
        numbers += [n for known in strides for n in known.bases]
        numbers += [n for a in (*around, *self.loops) for n in (self.sizes[a], *self._steps(a))]
        extent = self.pieces * math.prod(-(-self.sizes[a] // self.tile.get(a, 1)) for a in around)
        work = _SLOWER * matmul_time(2 * math.prod(self.sizes.values()))
        grain, least = sharing(work, extent)
        key = hashlib.sha256(repr(code).encode()).hexdigest()
        function = NativeFunction(f"lanes {key}", _builder(code))
        return ParallelRegion(function, buffers, tuple(numbers), extent, grain, 0, work, least, "lanes")


class _Strides:
    """Strides of unrolled loops, as multiples of a few where the ratios are small."""

    def __init__(self) -> None:
        self.bases: list[int] = []

    def find(self, strides: Sequence[int]) -> None:
        """Find the bases of all strides but 0."""
        for stride in sorted({*strides} - {0}):
            for i, base in enumerate(self.bases):
                common = math.gcd(base, stride)
                if stride // common <= _RATIO and base // common <= _RATIO:
                    self.bases[i] = common
                    break
            else:
                self.bases.append(stride)

    def of(self, stride: int) -> tuple[int, int]:
        """The number of a base, and the factor."""
        if stride == 0:
            return 0, 0
        found = [(i, stride // base) for i, base in enumerate(self.bases) if stride % base == 0]
        return min(found, key=lambda x: abs(x[1]))


# --- code -------------------------------------------------------------------------------------------------------------


def _builder(code: LaneCode) -> RegionBuilder:
    element = _ELEMENTS[np.dtype(code.dtype)]

    def write(given: Arguments) -> None:
        _Code(given, code, element).write()

    return region([ELEMENT_TYPES[kind] for kind in code.kinds], code.numbers, write)


class _Loop(NamedTuple):
    size: Index
    steps: list[Index]


class _Code:
    """Emits the body of the region."""

    def __init__(self, given: Arguments, code: LaneCode, element: AnyFloat) -> None:
        self.given, self.code, self.v = given, code, Vectors(given.b, element, code.lanes)
        self.element = element
        self.vectors = VectorStatements(given.b, code.lanes)
        numbers = iter(given.numbers)
        self.groups, self.rows, self.piece, self.apart = [next(numbers) for _ in range(_FIXED)]
        self.bases = [[next(numbers) for _ in range(n)] for n in code.strides]
        arrays = range(len(code.kinds))
        loops = [_Loop(next(numbers), [next(numbers) for _ in arrays]) for _ in range(len(code.around) + code.loops)]
        self.around, self.loops = loops[: len(code.around)], loops[len(code.around) :]
        self.points = list(np.ndindex(*(u.count for u in code.results)))

    def write(self) -> None:
        given, code = self.given, self.code

        def iteration(point: Index, _: Sequence[LLVMValue]) -> None:
            at = [given.lo.of(0)] * len(code.kinds)
            for loop, count in zip(reversed(self.around), reversed(code.around), strict=True):
                tiles = loop.size.ceildiv(count) if count > 1 else loop.size
                index = point % tiles
                index = (index * count).least(loop.size - count) if count > 1 else index
                at = [x + index * s for x, s in zip(at, loop.steps, strict=True)]
                point = point // tiles
            first = point * self.piece
            last = (first + self.piece).least(self.rows)
            at[2] = at[2] + point * self.apart

            def lanes(group: Index, _: Sequence[LLVMValue]) -> None:
                start = group.least(self.groups - code.step)
                wide = start * (code.lanes // code.groups)
                own = [wide if lane is None else start * lane.size for lane in code.operands]
                own += [wide if follows else start.of(0) for follows in code.follows]
                self.results([x + y for x, y in zip(at, own, strict=True)], first, last)

            given.loop(0, self.groups, lanes, step=code.step)

        given.loop(given.lo, given.hi, iteration)

    def results(self, at: Sequence[Index], first: Index, last: Index) -> None:
        """One vector of each result in registers, over the rows of terms."""
        values: Sequence[LLVMValue] = [self.v.zero] * len(self.points)
        if len(self.loops) > 1:

            def row(index: Index, carried: list[LLVMValue]) -> Sequence[LLVMValue]:
                found = list(at)
                for number, loop in reversed([*enumerate(self.loops[:-1])]):
                    own = index % loop.size if number else index
                    found = [x + own * s for x, s in zip(found, loop.steps, strict=True)]
                    index = index // loop.size if number else index
                return self.along(found, carried)

            values = self.given.loop(first, last, row, starts=values)
        else:
            values = self.along(at, values)
        for point, value in zip(self.points, values, strict=True):

            def where(address: Address, point: tuple[int, ...] = point) -> Where:
                array = 2 + int(address.buffer[1:])
                place = self._moved(at[array], array, self._offset(array, point, ()))
                return self.given.arrays[array], place, self.code.follows[array - 2]

            after = _STORE if self.code.epilogue is None else self.code.epilogue.statements
            self.vectors.write(after, value, where)

    def along(self, at: Sequence[Index], values: Sequence[LLVMValue]) -> Sequence[LLVMValue]:
        """Add the terms along the innermost loop."""
        if not self.loops:
            return self.straight(at, values, self.code.terms)
        loop, some = self.loops[-1], self.code.some
        whole = loop.size - loop.size % some if some > 1 else loop.size

        def body(terms: Sequence[Unrolled]) -> Callable[[Index, list[LLVMValue]], Sequence[LLVMValue]]:
            def each(index: Index, carried: list[LLVMValue]) -> Sequence[LLVMValue]:
                return self.straight([x + index * s for x, s in zip(at, loop.steps, strict=True)], carried, terms)

            return each

        values = self.given.loop(0, whole, body(self.code.terms), step=some, starts=values)
        if some > 1:
            values = self.given.loop(whole, loop.size, body(self.code.terms[:-1]), starts=values)
        return values

    def straight(self, at: Sequence[Index], values: Sequence[LLVMValue], terms: Sequence[Unrolled]) -> list[LLVMValue]:
        """Add all terms that are unrolled."""
        found, loaded = list(values), dict[Any, LLVMValue]()

        def operand(array: int, point: tuple[int, ...], term: tuple[int, ...]) -> LLVMValue:
            offset, chosen = self._offset(array, point, term), self._chosen(array, terms, point, term)
            key = (array, offset, chosen)
            if key not in loaded:
                loaded[key] = self._load(array, at[array], offset, chosen, loaded)
            return loaded[key]

        for term in np.ndindex(*(u.count for u in reversed(terms))):
            term = term[::-1]
            for i, point in enumerate(self.points):
                found[i] = self.v.fma(operand(0, point, term), operand(1, point, term), found[i])
        return found

    def _load(
        self, array: int, at: Index, offset: tuple[int, ...], chosen: int, loaded: dict[Any, LLVMValue]
    ) -> LLVMValue:
        """An operand's vector: contiguous, or elements of the groups for all of their lanes."""
        lane, given, code = self.code.operands[array], self.given.arrays[array], self.code
        place = self._moved(at, array, offset)
        if lane is None:
            return self.v.load(given, place)
        if code.groups == 1 or lane.size == 0:
            return self.v.everywhere(self.given.b.load_element(given, (place + chosen).value))
        key = (array, offset, None)
        if key not in loaded:
            loaded[key] = Vectors(self.given.b, self.element, code.groups * lane.size).load(given, place)
        width = code.lanes // code.groups
        return self.v.shuffle(loaded[key], loaded[key], [i // width * lane.size + chosen for i in range(code.lanes)])

    def _offset(self, array: int, point: tuple[int, ...], term: tuple[int, ...]) -> tuple[int, ...]:
        """The multiples of each base at an index of the unrolled loops."""
        found = [0] * self.code.strides[array]
        for loop, index in itertools.chain(
            zip(self.code.results, point, strict=True), zip(self.code.terms, term, strict=False)
        ):
            step = loop.steps[array]
            if step is not None and step[1]:
                found[step[0]] += step[1] * index
        return tuple(found)

    def _chosen(self, array: int, terms: Sequence[Unrolled], point: tuple[int, ...], term: tuple[int, ...]) -> int:
        """Which of the elements of a group an operand's lanes hold."""
        lane = self.code.operands[array]
        if lane is None or lane.axis is None:
            return 0
        loops = itertools.chain(zip(self.code.results, point, strict=True), zip(terms, term, strict=True))
        return next(index for loop, index in loops if loop.axis == lane.axis)

    def _moved(self, at: Index, array: int, offset: tuple[int, ...]) -> Index:
        for base, count in zip(self.bases[array], offset, strict=True):
            at = at + base * count if count else at
        return at

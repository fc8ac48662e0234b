"""A kernel with several contractions, cut along its grid: one tile of each of its loop nests is a kernel, too.

``hybrid.grid`` of such a kernel lists, for each of its nests, the axes that are its grid, in one order for all. What
nests make for each other is made and read at the same point of the grid, so a tile of it needs no other one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from typing import Any, cast

import numpy as np

from hybridc.dialects.operator_attribute import Shape
from hybridc.dtypes import element_kind
from hybridc.ground.records import dataclass
from hybridc.ground.sizes import Place
from hybridc.ir.costs import PARTS, WORTH_READING
from hybridc.ir.kernels.kernel import (
    INDEX,
    Axes,
    BodyArgument,
    BodyOp,
    BodyValue,
    Kernel,
    KernelOp,
    KernelValue,
    LoopNest,
    Read,
    ScalarBody,
    grid_of,
)

_INDEX = np.dtype(np.int64)


# --- the grid ---------------------------------------------------------------------------------------------------------


def grid_axes(kernel: Kernel) -> tuple[Axes, ...]:
    """For each loop nest the axes along which no point needs what a nest makes at another one.

    First those that all operands of contractions follow, such as batches and heads.
    """
    names = _AxisNames(kernel)
    nests = [{names.of(nest, a): a for a, n in enumerate(nest.domain) if n != 1} for nest in kernel.nests]
    common = [name for name in nests[-1] if all(name in axes for axes in nests)]
    pairs = [*zip(kernel.nests, nests, strict=True)]
    parallel = [name for name in common if all(_is_parallel(kernel, nest, axes[name]) for nest, axes in pairs)]
    batch = [name for name in parallel if all(_follow(nest, axes[name]) for nest, axes in pairs)]
    order = [*batch, *(name for name in parallel if name not in batch)]
    return tuple([tuple([axes[name] for name in order]) for axes in nests])


class _AxisNames:
    """One name for all axes that follow one dimension of a value which one loop nest makes and others read."""

    def __init__(self, kernel: Kernel) -> None:
        self.same: dict[tuple[int, int], tuple[int, int]] = {}
        makers = {s.result: (nest, s.axes) for nest in kernel.nests for s in nest.ops}
        for nest in kernel.nests:
            for read in (r for s in nest.ops for r in s.reads if r.value in makers):
                maker, axes = makers[read.value]
                for own, other in zip(read.places, axes, strict=True):
                    if not isinstance(own, int):
                        continue
                    one, two = self.of(nest, own), self.of(maker, other)
                    self.same |= {} if one == two else {one: two}

    def of(self, nest: LoopNest, axis: int) -> tuple[int, int]:
        """The name of an axis."""
        name = (nest.position, axis)
        while name in self.same:
            name = self.same[name]
        return name


def _is_parallel(kernel: Kernel, nest: LoopNest, axis: int) -> bool:
    """Whether an axis carries no dependence in a loop nest, and indexes the same dimension of a value in all reads."""
    outside = {*kernel.results, *(r.value for n in kernel.nests if n is not nest for s in n.ops for r in s.reads)}
    if any(axis in s.reduced or (s.result in outside and axis not in s.axes) for s in nest.ops):
        return False
    if any(v not in {r.value for r in s.reads} for s in nest.ops for v in s.indirect):
        return False
    steps: dict[KernelValue, set[Any]] = {}
    for read in (r for s in nest.ops for r in s.reads):
        if sum(axis in terms for terms in map(_terms, read.places)) > 1:
            return False
        steps.setdefault(read.value, set()).update(followed(read.places, (axis,)))
    return all(len(dims) == 1 for dims in steps.values())


def _follow(nest: LoopNest, axis: int) -> bool:
    """Whether an axis indexes both operands of the contraction of a loop nest, or there is none."""
    return nest.contraction is None or all(axis in r.axes for r in nest.contraction.reads)


@dataclass(frozen=True)
class Step:
    """The dimension of a value that follows an axis of the grid: by so many elements for each point."""

    dim: int
    factor: int = 1


def followed(places: Sequence[Place], grid: Axes) -> tuple[Step | None, ...]:
    """For each axis of the grid the dimension of a value that follows it; ``places`` are the indices along these."""
    terms = [*enumerate(map(_terms, places))]
    return tuple([next((Step(dim, factors[a]) for dim, factors in terms if a in factors), None) for a in grid])


def _terms(place: Place) -> dict[int, int]:
    """The axes in an index, and their factors."""
    return {place: 1} if isinstance(place, int) else dict(place.terms)


# --- tiles ------------------------------------------------------------------------------------------------------------


def tile_of(kernel: Kernel, most: int, fewest: int, tiles: int = 1, batch: int = 0) -> Shape:
    """A tile that divides the grid, whose inner values take at most so many bytes, if it can be cut so small.

    Along axes that all contractions follow a tile has one point, or more as long as they take no more than ``batch``
    bytes. Along others it is cut also where there would be fewer ``tiles``, but not to fewer points than ``fewest``.
    """
    sizes = [kernel.nests[0].domain[a] for a in kernel.grid[0]]
    pairs = [*zip(kernel.nests, kernel.grid, strict=True)]
    shared = [not all(_follow(nest, axes[i]) for nest, axes in pairs) for i in range(len(sizes))]
    tile = [n if shared[i] else 1 for i, n in enumerate(sizes)]
    per_point = sum(v.bytes for v in inner_values(kernel)) // math.prod(sizes)

    def fits(candidate: Sequence[int]) -> bool:
        return math.prod(candidate) * per_point <= most and math.prod(sizes) >= tiles * math.prod(candidate)

    for i, n in enumerate(tile):
        if not fits(tile):
            cuts = [d for d in _divisors(n) if d * math.prod(tile[i + 1 :]) >= fewest]
            tile[i] = max([d for d in cuts if fits([*tile[:i], d, *tile[i + 1 :]])], default=min(cuts, default=n))
    for i in reversed([i for i in range(len(tile)) if not shared[i]]):
        rest = math.prod(tile) * per_point
        tile[i] = max(d for d in _divisors(sizes[i]) if d == 1 or d * rest <= batch)
        if tile[i] < sizes[i]:
            break
    return tuple(tile)


def is_worth_tiling(points: int) -> bool:
    """Whether a grid of so many points has enough tiles for threads to share, where a tile packs no operand."""
    return points >= PARTS * WORTH_READING


def _divisors(size: int) -> list[int]:
    return [d for d in range(1, size + 1) if size % d == 0]


def inner_values(kernel: Kernel) -> list[KernelValue]:
    """The values that loop nests make for each other alone."""
    outside = set(kernel.results)
    read = [{r.value for s in nest.ops for r in s.reads} for nest in kernel.nests]
    results = [(i, s.result) for i, nest in enumerate(kernel.nests) for s in nest.ops]
    return [v for i, v in results if v not in outside and any(v in read[j] for j in range(len(read)) if j != i)]


def contractions_apart(nests: Iterable[LoopNest]) -> list[LoopNest]:
    """Loop nests split so that each contraction stands alone, apart from its epilogue."""
    apart: list[LoopNest] = []
    for nest in nests:
        first = nest.contraction
        parts = [[s for s in nest.ops if s is first], [s for s in nest.ops if s is not first]]
        apart += [replace(nest, ops=tuple(ops)) for ops in parts if ops]
    return apart


@dataclass(frozen=True)
class GridIndex:
    """The indices along an axis of the grid, as an array; each tile kernel gets its part of it."""

    axis: int
    size: int
    place: int = field(compare=False)  # the axis of the loop nest


@dataclass(frozen=True, eq=False)
class TileKernel:
    """One tile of a loop nest, as a ``kernel`` of its own.

    Its ``arguments`` and ``results`` are those values of the whole kernel; ``steps`` say, for each of them, which
    dimension follows each axis of the grid, if one does.
    """

    kernel: Kernel
    arguments: tuple[KernelValue | GridIndex, ...]
    results: tuple[KernelValue, ...]
    steps: tuple[tuple[Step | None, ...], ...]

    @property
    def dims(self) -> tuple[tuple[int | None, ...], ...]:
        """The dimensions alone."""
        return tuple([tuple([None if s is None else s.dim for s in steps]) for steps in self.steps])


def tile_kernels(kernel: Kernel, nests: Sequence[LoopNest], tile: Shape) -> list[TileKernel]:
    """The loop nests of a kernel, or parts of these, at a tile of its grid with so many points along each axis."""
    return [_TileCopy(kernel, nests, index, tile).tile() for index in range(len(nests))]


def index_kernel(size: int) -> Kernel:
    """The kernel that makes the array of all indices along an axis of so many points."""
    indices, kind = KernelValue(0, _INDEX, (size,)), element_kind(_INDEX)
    index = BodyOp(INDEX, (), "index", loop=0)
    cast = BodyOp("arith.index_cast", (index,), kind)
    body = ScalarBody((BodyArgument(0, kind, unused=True),), (index, cast), cast)
    kernel_op = KernelOp("elementwise", body, (), indices, (0,), (0,), operator="arange")
    return Kernel("k_arange", [], [indices], (LoopNest((size,), (kernel_op,), 1),))


class _TileCopy:
    """Copies the ops of a loop nest for a tile."""

    def __init__(self, kernel: Kernel, nests: Sequence[LoopNest], index: int, tile: Shape) -> None:
        self.kernel, self.nest, self.index = kernel, nests[index], index
        self.others = [n for n in nests if n is not self.nest]
        self.grid = kernel.grid[self.nest.position]
        self.domain = list(self.nest.domain)
        for axis, size in zip(self.grid, tile, strict=True):
            self.domain[axis] = size
        rank = len(self.domain)
        summed = {a: n for s in self.nest.ops if s.reduced for a, n in s.extents.items() if a >= rank}
        self.sizes = {**summed, **dict(enumerate(self.domain))}
        self.values: dict[KernelValue | GridIndex, KernelValue] = {}

    def tile(self) -> TileKernel:
        """The kernel."""
        kernel_ops = self.nest.ops
        own = {s.result for s in kernel_ops}
        outer = [r for s in kernel_ops for r in s.reads if r.value not in own and not r.value.is_constant]
        reads: dict[KernelValue | GridIndex, tuple[Place, ...]] = {r.value: r.places for r in outer}
        for kernel_op in kernel_ops:
            reads |= {v: () for v in kernel_op.tables if v not in reads}  # whole, at any tile
            reads |= {index: (index.place,) for index in self._indices(kernel_op)}
        for value, places in reads.items():
            self._copy(value, places)
        copies = tuple([self._kernel_op(kernel_op) for kernel_op in kernel_ops])
        elsewhere = {r.value for n in self.others for s in n.ops for r in s.reads}
        left = {s.result: s.axes for s in kernel_ops if s.result in elsewhere or s.result in self.kernel.results}
        domain, name = tuple(self.domain), f"{self.kernel.name}_{self.index + 1}"
        nest = LoopNest(domain, copies, grid_of(domain, copies), self.nest.varying)
        arguments, results = [[self.values[v] for v in values] for values in (reads, left)]
        steps = tuple([followed(places, self.grid) for places in (*reads.values(), *left.values())])
        return TileKernel(Kernel(name, arguments, results, (nest,)), tuple(reads), tuple(left), steps)

    def _indices(self, kernel_op: KernelOp) -> list[GridIndex]:
        """The arrays of indices that a body reads: along axes of which a tile has a part, which begins anywhere."""
        cut = [a for a in sorted(kernel_op.indexed) if self.domain[a] != self.nest.domain[a]]
        return [GridIndex(self.grid.index(a), self.nest.domain[a], a) for a in cut]

    def _kernel_op(self, kernel_op: KernelOp) -> KernelOp:
        for read in kernel_op.reads:
            if read.value not in self.values:
                self._copy(read.value, read.places)
        self._copy(kernel_op.result, kernel_op.axes)
        reads = [replace(r, value=self.values[r.value]) for r in kernel_op.reads]
        body = kernel_op.body
        for index in self._indices(kernel_op):
            body = _reading_index(body, kernel_op.loops.index(index.place), len(reads))
            reads.append(Read(self.values[index], (index.place,)))
        tables = tuple([self.values[v] for v in kernel_op.tables])
        result = self.values[kernel_op.result]
        combine = None if kernel_op.combine is None else cast(BodyOp, body.result)
        return replace(kernel_op, body=body, reads=tuple(reads), tables=tables, result=result, combine=combine)

    def _copy(self, value: KernelValue | GridIndex, places: Sequence[Place]) -> None:
        """The part of a value for the tile; a place says what a dimension follows."""
        position = len(self.values)
        if isinstance(value, GridIndex):
            self.values[value] = KernelValue(position, _INDEX, (self.domain[value.place],))
            return
        pairs = zip(places, value.shape, strict=True) if places else ()
        shape = [self.sizes.get(p, n) if isinstance(p, int) else p.ends(self.sizes)[1] + 1 for p, n in pairs]
        shape = tuple(shape) if places else value.shape
        self.values[value] = value.moved(position, shape)


def _reading_index(body: ScalarBody, loop: int, position: int) -> ScalarBody:
    """A body that reads, as its argument ``position``, what was the index of a loop."""
    argument = BodyArgument(position, element_kind(_INDEX))
    *before, last = body.arguments
    assert last.position == position, "the initial value comes last"
    renamed: dict[BodyValue, BodyValue] = {last: replace(last, position=position + 1)}
    steps: list[BodyOp] = []
    for step in body.steps:
        if step.op == INDEX and step.loop == loop:
            copy = BodyOp("arith.index_cast", (argument,), "index")
        else:
            copy = replace(step, operands=tuple([renamed.get(v, v) for v in step.operands]))
        renamed[step] = copy
        steps.append(copy)
    arguments = (*before, argument, cast(BodyArgument, renamed[last]))
    return ScalarBody(arguments, tuple(steps), renamed.get(body.result, body.result))

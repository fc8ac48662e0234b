"""A kernel with several contractions, cut along its grid: one tile of each of its loop nests is a kernel, too.

``hybrid.grid`` of such a kernel lists, for each of its nests, the axes that are its grid, in one order for all. What
nests make for each other is made and read at the same point of the grid, so a tile of it needs no other one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from xdsl.dialects import arith, func
from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    DenseArrayBase,
    FunctionType,
    IndexType,
    TensorType,
    i32,
    i64,
)
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.rewriter import Rewriter

from hybridc.dialects.operator_attribute import Shape
from hybridc.ground.sizes import Place
from hybridc.ir.costs import PARTS, WORTH_READING
from hybridc.ir.kernel import Axes, Kernel, KernelOp, LoopNest
from hybridc.ir.kernel_notes import AXES, DOMAINS, LOOP_NEST
from hybridc.ir.loop_nest_plan import loop_axes
from hybridc.ir.structured import dtype_of, is_scaffold, note_dtypes, shape_of
from hybridc.ir.structured_builder import Builder, Element, ScalarBuilder, Tensor

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
    steps: dict[SSAValue, set[Any]] = {}
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
    per_point = sum(math.prod(shape_of(v)) * dtype_of(v).itemsize for v in inner_values(kernel)) // math.prod(sizes)

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


def is_worth_tiling(kernel: Kernel) -> bool:
    """Whether there are enough tiles for threads to share, where a tile packs no operand."""
    return kernel.grid_size >= PARTS * WORTH_READING


def _divisors(size: int) -> list[int]:
    return [d for d in range(1, size + 1) if size % d == 0]


def inner_values(kernel: Kernel) -> list[SSAValue]:
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


@dataclass(frozen=True, eq=False)
class TileKernel:
    """One tile of a loop nest, as a kernel of its own.

    Its ``arguments`` and ``results`` are those values of the whole kernel; ``steps`` say, for each of them, which
    dimension follows each axis of the grid, if one does.
    """

    function: func.FuncOp
    arguments: tuple[SSAValue | GridIndex, ...]
    results: tuple[SSAValue, ...]
    steps: tuple[tuple[Step | None, ...], ...]

    @property
    def dims(self) -> tuple[tuple[int | None, ...], ...]:
        """The dimensions alone."""
        return tuple([tuple([None if s is None else s.dim for s in steps]) for steps in self.steps])


def tile_kernels(kernel: Kernel, nests: Sequence[LoopNest], tile: Shape) -> list[TileKernel]:
    """The loop nests of a kernel, or parts of these, at a tile of its grid with so many points along each axis."""
    return [_TileCopy(kernel, nests, index, tile).made() for index in range(len(nests))]


def index_kernel(size: int) -> func.FuncOp:
    """The kernel that makes the array of all indices along an axis of so many points."""
    builder = Builder(Block())
    builder.operator = "arange"
    indices = builder.generic([], Tensor((size,), _INDEX, builder), _index).value
    AXES.put(cast(Operation, indices.owner), [0])
    builder.block.add_op(func.ReturnOp(indices))
    kind = FunctionType.from_lists([], [indices.type])
    function = func.FuncOp("k_arange", kind, Region(builder.block), visibility="private")
    DOMAINS.put(function, [(size,)])
    return function


def _index(b: ScalarBuilder, sofar: Element) -> Element:
    """The body of an array of indices."""
    return b.convert(b.index_of(0), sofar.dtype)


class _TileCopy:
    """Copies the operations of a loop nest for a tile."""

    def __init__(self, kernel: Kernel, nests: Sequence[LoopNest], index: int, tile: Shape) -> None:
        self.kernel, self.nest, self.index = kernel, nests[index], index
        self.others = [n for n in nests if n is not self.nest]
        self.grid = kernel.grid[self.nest.position]
        self.domain = list(self.nest.domain)
        for axis, size in zip(self.grid, tile, strict=True):
            self.domain[axis] = size
        rank = len(self.domain)
        self.summed = {a: n for s in self.nest.ops if s.reduced for a, n in s.extents.items() if a >= rank}
        self.block = Block()
        self.values: dict[SSAValue | GridIndex, SSAValue] = {}

    def made(self) -> TileKernel:
        """The kernel."""
        kernel_ops = self.nest.ops
        own = {s.result for s in kernel_ops}
        outer = [r for s in kernel_ops for r in s.reads if r.value not in own and not _is_scaffold(r.value)]
        reads: dict[SSAValue | GridIndex, tuple[Place, ...]] = {r.value: r.places for r in outer}
        for value, places in reads.items():
            kind = self._type(cast(SSAValue, value), places)
            self.values[value] = self.block.insert_arg(kind, len(self.block.args))
        for kernel_op in kernel_ops:
            self._kernel_op(kernel_op)
        reads |= {v: (self.grid[v.axis],) for v in self.values if isinstance(v, GridIndex)}
        elsewhere = {r.value for n in self.others for s in n.ops for r in s.reads}
        left = {s.result: s.axes for s in kernel_ops if s.result in elsewhere or s.result in self.kernel.results}
        results = [self.values[v] for v in left]
        self.block.add_op(func.ReturnOp(*results))
        kinds = [[v.type for v in values] for values in (self.block.args, results)]
        name = f"{self.kernel.name}_{self.index + 1}"
        function = func.FuncOp(name, FunctionType.from_lists(*kinds), Region(self.block), visibility="private")
        DOMAINS.put(function, [self.domain])
        dtypes = [_INDEX if isinstance(v, GridIndex) else dtype_of(v) for v in reads]
        note_dtypes(function, [*dtypes, *map(dtype_of, left)])
        steps = tuple(followed(places, self.grid) for places in (*reads.values(), *left.values()))
        return TileKernel(function, tuple(reads), tuple(left), steps)

    def _kernel_op(self, kernel_op: KernelOp) -> None:
        for read in kernel_op.reads:
            if read.value not in self.values:
                self._scaffold(read.value, self._type(read.value, read.places))
        begins = self._type(kernel_op.result, kernel_op.axes)
        operands = [self.values[r.value] for r in kernel_op.reads]
        copy = _copy(kernel_op.op, [*operands, self._scaffold(kernel_op.op.operands[-1], begins)], begins)
        LOOP_NEST.drop(copy)
        self.block.add_op(copy)
        self.values[kernel_op.result] = copy.results[0]
        axes = loop_axes(kernel_op)
        for op in [op for op in copy.regions[0].block.ops if isinstance(op, linalg.IndexOp)]:
            axis = axes[op.dim.value.data]
            if self.domain[axis] != self.nest.domain[axis]:
                self._read_index(cast(linalg.GenericOp, copy), op, axis)

    def _read_index(self, copy: linalg.GenericOp, op: linalg.IndexOp, axis: int) -> None:
        """Let a body read the index of a loop: in a tile it does not begin with zero."""
        index = GridIndex(self.grid.index(axis), self.nest.domain[axis])
        if index not in self.values:
            self.values[index] = self.block.insert_arg(TensorType(i64, [self.domain[axis]]), len(self.block.args))
        body, count = copy.regions[0].block, len(copy.inputs)
        argument = body.insert_arg(i64, count)
        maps = list(copy.indexing_maps)
        rank = maps[-1].data.num_dims
        maps.insert(count, AffineMapAttr(AffineMap(rank, 0, (AffineExpr.dimension(op.dim.value.data),))))
        copy.properties["indexing_maps"] = ArrayAttr(maps)
        copy.operands = [*copy.inputs, self.values[index], *copy.outputs]
        copy.properties["operandSegmentSizes"] = DenseArrayBase.from_list(i32, [count + 1, 1])
        Rewriter.replace_op(op, arith.IndexCastOp(argument, IndexType()))

    def _scaffold(self, value: SSAValue, kind: Attribute) -> SSAValue:
        """A copy of an initial or constant tensor, with this type."""
        op = cast(Operation, value.owner)
        operands = [self._scaffold(v, kind if isinstance(v.type, TensorType) else v.type) for v in op.operands]
        copy = _copy(op, operands, kind)
        self.block.add_op(copy)
        self.values[value] = copy.results[0]
        return copy.results[0]

    def _type(self, value: SSAValue, places: Sequence[Place]) -> TensorType[Attribute]:
        """The type of a value's part for the tile."""
        sizes = {**self.summed, **dict(enumerate(self.domain))}
        pairs = zip(places, shape_of(value), strict=True)
        shape = [sizes.get(p, n) if isinstance(p, int) else p.ends(sizes)[1] + 1 for p, n in pairs]
        return TensorType(cast("TensorType[Attribute]", value.type).get_element_type(), shape)


def _copy(op: Operation, operands: Sequence[SSAValue], kind: Attribute) -> Operation:
    """The same operation of other operands and with another type of its result."""
    copy = type(op).create(
        operands=operands,
        result_types=[kind],
        properties=dict(op.properties),
        attributes=dict(op.attributes),
        regions=[r.clone() for r in op.regions],
    )
    copy.location = op.location
    return copy


def _is_scaffold(value: SSAValue) -> bool:
    return isinstance(value.owner, Operation) and is_scaffold(value.owner)

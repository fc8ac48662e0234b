"""A kernel with several contractions, cut along its grid: what each of its nests computes at one tile is a kernel, too.

``hybrid.grid`` of such a kernel lists, for each of its nests, the axes that are its grid, in one order for all. What
nests make for each other is made and read at the same point of the grid, so a tile of it needs no other one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, FunctionType, TensorType, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from hybridc.ir.kernel import Axes, Kernel, KernelOp, LoopNest, number_of
from hybridc.ir.structured import Shape, dtype_of, note_dtypes, shape_of


@dataclass(frozen=True, eq=False)
class TileKernel:
    """A nest at one tile of the grid, as a kernel.

    Its ``arguments`` and ``results`` are those values of the whole kernel; ``dims`` say, for each of them, which
    dimension follows each axis of the grid, if one does.
    """

    function: func.FuncOp
    arguments: tuple[SSAValue, ...]
    results: tuple[SSAValue, ...]
    dims: tuple[tuple[int | None, ...], ...]


def inner_values(kernel: Kernel) -> list[SSAValue]:
    """What nests make for each other alone."""
    outside = set(kernel.results)
    read = [{r.value for s in nest.ops for r in s.reads} for nest in kernel.nests]
    made = [(i, s.result) for i, nest in enumerate(kernel.nests) for s in nest.ops]
    return [v for i, v in made if v not in outside and any(v in read[j] for j in range(len(read)) if j != i)]


def tile_kernels(kernel: Kernel, tile: Shape) -> list[TileKernel]:
    """The nests of a kernel at a tile of its grid, which has so many points along each of its axes."""
    return [_TileCopy(kernel, nest, axes, tile).made() for nest, axes in zip(kernel.nests, kernel.grid, strict=True)]


def followed(axes: Axes, grid: Axes) -> tuple[int | None, ...]:
    """For each axis of the grid the dimension of a value that follows it; ``axes`` are those of its dimensions."""
    return tuple([axes.index(a) if a in axes else None for a in grid])


class _TileCopy:
    """Copies the operations of a nest for a tile."""

    def __init__(self, kernel: Kernel, nest: LoopNest, grid: Axes, tile: Shape) -> None:
        self.kernel, self.nest, self.grid = kernel, nest, grid
        self.domain = list(nest.domain)
        for axis, size in zip(grid, tile, strict=True):
            self.domain[axis] = size
        self.block = Block()
        self.values: dict[SSAValue, SSAValue] = {}

    def made(self) -> TileKernel:
        """The kernel."""
        kernel_ops = self.nest.ops
        own = {s.result for s in kernel_ops}
        reads = {
            r.value: r.axes for s in kernel_ops for r in s.reads if r.value not in own and number_of(r.value) is None
        }
        for value, axes in reads.items():
            self.values[value] = self.block.insert_arg(self._type(value, axes), len(self.block.args))
        for kernel_op in kernel_ops:
            self._kernel_op(kernel_op)
        elsewhere = {r.value for n in self.kernel.nests if n is not self.nest for s in n.ops for r in s.reads}
        left = {s.result: s.axes for s in kernel_ops if s.result in elsewhere or s.result in self.kernel.results}
        results = [self.values[v] for v in left]
        self.block.add_op(func.ReturnOp(*results))
        kinds = [[v.type for v in given] for given in (self.block.args, results)]
        name = f"{self.kernel.name}.{self.nest.number}"
        function = func.FuncOp(name, FunctionType.from_lists(*kinds), Region(self.block), visibility="private")
        function.attributes["hybrid.domains"] = ArrayAttr([DenseArrayBase.from_list(i64, self.domain)])
        note_dtypes(function, [dtype_of(v) for v in (*reads, *left)])
        dims = tuple(followed(axes, self.grid) for axes in (*reads.values(), *left.values()))
        return TileKernel(function, tuple(reads), tuple(left), dims)

    def _kernel_op(self, kernel_op: KernelOp) -> None:
        for read in kernel_op.reads:
            if read.value not in self.values:
                self._scaffold(read.value, self._type(read.value, read.axes))
        begins = self._type(kernel_op.result, kernel_op.axes)
        operands = [self.values[r.value] for r in kernel_op.reads]
        copy = _copy(kernel_op.op, [*operands, self._scaffold(kernel_op.op.operands[-1], begins)], begins)
        copy.attributes.pop("hybrid.loop_nest", None)
        self.block.add_op(copy)
        self.values[kernel_op.result] = copy.results[0]

    def _scaffold(self, value: SSAValue, kind: Attribute) -> SSAValue:
        """What an operation begins with, or a number everywhere, in a tensor of this type."""
        op = cast(Operation, value.owner)
        operands = [self._scaffold(v, kind if isinstance(v.type, TensorType) else v.type) for v in op.operands]
        copy = _copy(op, operands, kind)
        self.block.add_op(copy)
        self.values[value] = copy.results[0]
        return copy.results[0]

    def _type(self, value: SSAValue, axes: Axes) -> TensorType[Attribute]:
        """The type of a value's part for the tile."""
        rank = len(self.domain)
        shape = [self.domain[a] if a < rank else n for a, n in zip(axes, shape_of(value), strict=True)]
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


def shared_axes(kernel: Kernel) -> list[bool]:
    """For each axis of the grid whether some contraction has an operand that is the same for all points along it."""
    pairs = [
        (p, grid) for nest, grid in zip(kernel.nests, kernel.grid, strict=True) if (p := nest.contraction) is not None
    ]
    return [
        any(grid[i] not in r.axes for contraction, grid in pairs for r in contraction.reads)
        for i in range(len(kernel.grid[0]))
    ]


def tile_of(kernel: Kernel, shared: Sequence[bool], most: int, fewest: int) -> Shape:
    """The tile whose inner values take at most so many bytes, if the grid can be cut into equal ones so small.

    Along axes that are not ``shared`` a tile has one point. Where it is cut, a tile has at least ``fewest`` points.
    """
    sizes = [kernel.nests[0].domain[a] for a in kernel.grid[0]]
    tile = [n if shared[i] else 1 for i, n in enumerate(sizes)]
    each = sum(math.prod(shape_of(v)) * dtype_of(v).itemsize for v in inner_values(kernel)) // math.prod(sizes)
    for i, n in enumerate(tile):
        possible = [d for d in range(1, n + 1) if n % d == 0]
        rest = math.prod(tile[i + 1 :])
        fitting = [d for d in possible if d * rest * each <= most]
        if math.prod(tile) * each <= most:
            break
        cut = max(fitting, default=1)
        if cut * rest >= fewest:
            tile[i] = cut
    return tuple(tile)

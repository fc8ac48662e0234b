"""Copies of strided arrays into contiguous ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue

from hybridc.ir.costs import SQUARE
from hybridc.ir.scalar_builder import signless
from hybridc.ir.structured import Shape
from hybridc.lower.llvm.loops.loop_builder import BYTES, INDEX, LoopBuilder, array_type
from hybridc.lower.llvm.loops.loop_functions import first_and_last, region_module, walk_tile

Strides = tuple[int, ...]


def merged(shape: Shape, strides: Strides) -> tuple[Shape, Strides]:
    """Coalesce axes: the same walk over memory with as few axes as possible, at least one."""
    sizes: list[int] = []
    steps: list[int] = []
    for size, stride in zip(shape, strides, strict=True):
        if size == 1:
            continue
        if sizes and steps[-1] == stride * size:
            sizes[-1] *= size
            steps[-1] = stride
        else:
            sizes.append(size)
            steps.append(stride)
    return (tuple(sizes), tuple(steps)) if sizes else ((1,), (1,))


@dataclass(frozen=True)
class CopyLoops:
    """A copy along coalesced axes: their sizes, and the strides of both arrays; the target's last axis is contiguous.

    If it is ``tiled``, the source is contiguous along the last axis but one.
    """

    sizes: Shape
    source: Strides
    target: Strides
    tiled: bool

    @property
    def range(self) -> int:
        """The extent of the region: all axes but the last, by tiles; or the only axis."""
        if len(self.sizes) == 1:
            return self.sizes[0]
        *outer, rows, _ = self.sizes
        return math.prod(outer) * (-(-rows // SQUARE) if self.tiled else rows)


def plan_copy(shape: Shape, strides: Strides) -> CopyLoops:
    """The loops that copy a strided array into a contiguous one."""
    sizes, source = merged(shape, strides)
    target = tuple(math.prod(sizes[i + 1 :]) for i in range(len(sizes)))
    rank = len(sizes)
    rows = next((i for i in range(rank - 1) if source[i] == 1 and min(sizes[i], sizes[-1]) >= SQUARE), None)
    if rows is None:
        return CopyLoops(sizes, source, target, False)
    order = [*(i for i in range(rank - 1) if i != rows), rows, rank - 1]
    ordered = [tuple(x[i] for i in order) for x in (sizes, source, target)]
    return CopyLoops(ordered[0], ordered[1], ordered[2], True)


def copy_module(dtype: np.dtype[Any], rank: int, contiguous: bool, tiled: bool) -> ModuleOp:
    """The function that copies a strided array (first buffer) to a contiguous one.

    Its scalars are the sizes, then the strides of the source, then those of the target, of each axis. ``contiguous``:
    the last axis of the source has stride 1.
    """
    kind = array_type(signless(dtype))
    block = Block(arg_types=[kind, kind, *[INDEX] * (3 * rank), INDEX, INDEX, BYTES])
    source, target, *numbers, low, high, _ = block.args
    split: list[list[SSAValue]] = [list(numbers[i * rank : (i + 1) * rank]) for i in range(3)]
    sizes, given, made = split
    b = LoopBuilder(block)
    made[-1] = b.index(1)
    if contiguous:
        given[-1] = b.index(1)
    if tiled:
        given[-2] = b.index(1)

    def copy(index: list[SSAValue]) -> None:
        at = [b.plus(*[b.times(i, s) for i, s in zip(index, strides, strict=True)]) for strides in (given, made)]
        b.store(b.load(source, at[0]), target, at[1])

    def along(outer: list[SSAValue], begin: SSAValue, end: SSAValue) -> None:
        def element(index: SSAValue, _: list[SSAValue]) -> list[SSAValue]:
            copy([*outer, index])
            return []

        b.loop(begin, end, b.index(1), element)

    def outer_indices(rest: SSAValue, count: int) -> list[SSAValue]:
        found: list[SSAValue] = []
        for axis in reversed(range(1, count)):
            rest, index = b.split(rest, sizes[axis])
            found.insert(0, index)
        return [rest, *found] if count else []

    def point(index: SSAValue, _: list[SSAValue]) -> list[SSAValue]:
        if not tiled:
            along(outer_indices(index, rank - 1), b.index(0), sizes[-1])
            return []
        rest, first, last = first_and_last(b, index, sizes[-2])
        outer = outer_indices(rest, rank - 2)
        walk_tile(b, first, last, sizes[-1], lambda row, column: copy([*outer, row, column]))
        return []

    if rank == 1:
        along([], low, high)
    else:
        b.loop(low, high, b.index(1), point)
    return region_module(block)

"""Copies of arrays, also of views: the elements of a strided array put one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue

from hybridc.lower.hybrid_to_linalg_body import signless
from hybridc.lower.llvm.loop_builder import BYTES, INDEX, LoopBuilder, array_type
from hybridc.lower.llvm.nest_to_loops import phase_module
from hybridc.lower.structured import Shape

Strides = tuple[int, ...]


def merged(shape: Shape, strides: Strides) -> tuple[Shape, Strides]:
    """The same walk over memory along as few axes as it can be said with, at least one."""
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


def copy_module(dtype: np.dtype[Any], rank: int, contiguous: bool) -> ModuleOp:
    """The function that copies from a strided array (first buffer) to a plain one; numbers: sizes, then strides.

    The range is that of all axes but the last; of the only axis, if there is one. ``contiguous`` elements of the last
    axis lie one after the other.
    """
    kind = array_type(signless(dtype))
    block = Block(arg_types=[kind, kind, *[INDEX] * (2 * rank), INDEX, INDEX, BYTES])
    source, target, *numbers, low, high, _ = block.args
    sizes, strides = list(numbers[:rank]), list(numbers[rank:])
    b = LoopBuilder(block)
    if contiguous:
        strides[-1] = b.index(1)

    def row(first: SSAValue, at: SSAValue, begin: SSAValue, end: SSAValue) -> None:
        def element(index: SSAValue, _: list[SSAValue]) -> list[SSAValue]:
            value = b.load(source, b.plus(first, b.times(index, strides[-1])))
            b.store(value, target, b.plus(at, index))
            return []

        b.loop(begin, end, b.index(1), element)

    if rank == 1:
        row(b.index(0), b.index(0), low, high)
        return phase_module(block)

    def point(index: SSAValue, _: list[SSAValue]) -> list[SSAValue]:
        rest, first = index, b.index(0)
        for axis in reversed(range(1, rank - 1)):
            rest, inner = b.split(rest, sizes[axis])
            first = b.plus(first, b.times(inner, strides[axis]))
        row(b.plus(first, b.times(rest, strides[0])), b.times(index, sizes[-1]), b.index(0), sizes[-1])
        return []

    b.loop(low, high, b.index(1), point)
    return phase_module(block)

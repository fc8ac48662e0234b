"""Linalg ops that only move elements of an array, perhaps inside a border of a constant: what they read where."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import IntegerAttr
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import BlockArgument, SSAValue

from hybridc.ir.kernel import KernelOp, Number, number_of
from hybridc.ir.loop_nest_plan import loop_axes
from hybridc.ir.structured import shape_of

Bounds = tuple[int, int]  # from the first on, to before the second


class Place(NamedTuple):
    """An index along a dimension: that of an axis plus an offset."""

    axis: int
    offset: int


@dataclass(frozen=True)
class MovedArray:
    """What is moved: the ``value`` read at ``places`` where all axes are within ``bounds``, ``outside`` elsewhere."""

    value: SSAValue
    places: tuple[Place, ...]
    bounds: Mapping[int, Bounds]
    outside: Number


def moved_array(kernel_op: KernelOp) -> MovedArray | None:
    """What an op moves; None if it does anything else."""
    block = kernel_op.op.regions[0].block
    end = block.last_op
    if kernel_op.kind != "elementwise" or not isinstance(end, linalg.YieldOp):
        return None
    sizes, wanted = kernel_op.extents, end.operands[0]
    whole = {a: (0, sizes[a]) for a in kernel_op.axes}
    if isinstance(wanted, BlockArgument):
        if wanted.index >= len(kernel_op.reads) or end is not block.first_op:
            return None
        read = kernel_op.reads[wanted.index]
        return None if read.index else MovedArray(read.value, tuple([Place(a, 0) for a in read.axes]), whole, 0.0)
    chosen = wanted.owner
    if not isinstance(chosen, arith.SelectOp):
        return None
    read, outside = chosen.lhs.owner, number_of(chosen.rhs)
    bounds = dict(whole)
    if not isinstance(read, tensor.ExtractOp) or outside is None or not _within(kernel_op, chosen.cond, bounds):
        return None
    clamps = [_clamped(kernel_op, i) for i in read.indices]
    places: list[Place] = []
    for clamp, size in zip(clamps, shape_of(read.tensor), strict=True):
        if clamp is None:
            return None
        place, least, most = clamp
        first, last = bounds[place.axis][0] + place.offset, bounds[place.axis][1] - 1 + place.offset
        if first < max(0, least) or last > min(size - 1, most):
            return None
        places.append(place)
    return MovedArray(read.tensor, tuple(places), bounds, outside)


_Clamped = tuple[Place, float, float]  # a place, and the bounds that it is clamped to


def _clamped(kernel_op: KernelOp, value: SSAValue) -> _Clamped | None:
    """An index as that of an axis plus an offset, and what it is clamped to."""
    op: Any = value.owner
    match op:
        case linalg.IndexOp():
            return Place(loop_axes(kernel_op)[op.dim.value.data], 0), -math.inf, math.inf
        case arith.IndexCastOp():
            return _clamped(kernel_op, op.operands[0])
        case arith.AddiOp() | arith.SubiOp() | arith.MaxSIOp() | arith.MinSIOp():
            integer, clamped = _integer(op.operands[1]), _clamped(kernel_op, op.operands[0])
        case _:
            return None
    if integer is None or clamped is None:
        return None
    (axis, offset), least, most = clamped
    match op:
        case arith.MaxSIOp():
            return clamped[0], max(least, integer), max(most, integer)
        case arith.MinSIOp():
            return clamped[0], min(least, integer), min(most, integer)
        case _:
            by = integer if isinstance(op, arith.AddiOp) else -integer
            return Place(axis, offset + by), least + by, most + by


def _within(kernel_op: KernelOp, condition: SSAValue, bounds: dict[int, Bounds]) -> bool:
    """Narrow the bounds to where a condition holds; False if it is no conjunction of bounds."""
    op = condition.owner
    if isinstance(op, arith.AndIOp):
        return all(_within(kernel_op, operand, bounds) for operand in op.operands)
    if not isinstance(op, arith.CmpiOp):
        return False
    clamped, integer = _clamped(kernel_op, op.lhs), _integer(op.rhs)
    if clamped is None or integer is None or clamped[1:] != (-math.inf, math.inf):
        return False
    (axis, offset), (low, high) = clamped[0], bounds[clamped[0].axis]
    match arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]:
        case "sge":
            bounds[axis] = (max(low, integer - offset), high)
        case "slt":
            bounds[axis] = (low, min(high, integer - offset))
        case _:
            return False
    return True


def _integer(value: SSAValue) -> int | None:
    """A constant integer."""
    op = value.owner
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
        return op.value.value.data
    return None

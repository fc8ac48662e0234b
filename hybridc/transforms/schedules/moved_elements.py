"""Linalg ops that only move elements of an array, perhaps inside a border of a constant: what they read where."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from hybridc.ground.records import dataclass
from hybridc.ir.kernels.kernel import EXTRACT, INDEX, BodyArgument, BodyOp, BodyValue, KernelOp, KernelValue, number_in
from hybridc.ir.scalars import Number

Bounds = tuple[int, int]  # from the first on, to before the second


class Place(NamedTuple):
    """An index along a dimension: that of an axis plus an offset."""

    axis: int
    offset: int


@dataclass(frozen=True)
class MovedArray:
    """What is moved: the ``value`` read at ``places`` where all axes are within ``bounds``, ``outside`` elsewhere."""

    value: KernelValue
    places: tuple[Place, ...]
    bounds: Mapping[int, Bounds]
    outside: Number


def moved_array(kernel_op: KernelOp) -> MovedArray | None:
    """What an op moves; None if it does anything else."""
    body = kernel_op.body
    if kernel_op.kind != "elementwise":
        return None
    sizes, wanted = kernel_op.extents, body.result
    whole = {a: (0, sizes[a]) for a in kernel_op.axes}
    if isinstance(wanted, BodyArgument):
        if wanted.position >= len(kernel_op.reads) or body.steps:
            return None
        read = kernel_op.reads[wanted.position]
        return None if read.index else MovedArray(read.value, tuple([Place(a, 0) for a in read.axes]), whole, 0.0)
    if wanted.op != "arith.select":
        return None
    condition, chosen, otherwise = wanted.operands
    outside, bounds = number_in(otherwise), dict(whole)
    if outside is None or not isinstance(chosen, BodyOp) or chosen.op != EXTRACT:
        return None
    if not _within(kernel_op, condition, bounds):
        return None
    table = kernel_op.tables[chosen.table]
    places: list[Place] = []
    for clamp, size in zip([_clamped(kernel_op, i) for i in chosen.operands], table.shape, strict=True):
        if clamp is None:
            return None
        place, least, most = clamp
        first, last = bounds[place.axis][0] + place.offset, bounds[place.axis][1] - 1 + place.offset
        if first < max(0, least) or last > min(size - 1, most):
            return None
        places.append(place)
    return MovedArray(table, tuple(places), bounds, outside)


_Clamped = tuple[Place, float, float]  # a place, and the bounds that it is clamped to


def _clamped(kernel_op: KernelOp, value: BodyValue) -> _Clamped | None:
    """An index as that of an axis plus an offset, and what it is clamped to."""
    if not isinstance(value, BodyOp):
        return None
    if value.op == INDEX:
        return Place(kernel_op.loops[value.loop], 0), -math.inf, math.inf
    if value.op == "arith.index_cast":
        return _clamped(kernel_op, value.operands[0])
    if value.op not in ("arith.addi", "arith.subi", "arith.maxsi", "arith.minsi"):
        return None
    integer, clamped = number_in(value.operands[1]), _clamped(kernel_op, value.operands[0])
    if not isinstance(integer, int) or clamped is None:
        return None
    (axis, offset), least, most = clamped
    match value.op:
        case "arith.maxsi":
            return clamped[0], max(least, integer), max(most, integer)
        case "arith.minsi":
            return clamped[0], min(least, integer), min(most, integer)
        case _:
            by = integer if value.op == "arith.addi" else -integer
            return Place(axis, offset + by), least + by, most + by


def _within(kernel_op: KernelOp, condition: BodyValue, bounds: dict[int, Bounds]) -> bool:
    """Narrow the bounds to where a condition holds; False if it is no conjunction of bounds."""
    if not isinstance(condition, BodyOp):
        return False
    if condition.op == "arith.andi":
        return all(_within(kernel_op, operand, bounds) for operand in condition.operands)
    if condition.op not in ("arith.cmpi sge", "arith.cmpi slt"):
        return False
    clamped, integer = _clamped(kernel_op, condition.operands[0]), number_in(condition.operands[1])
    if clamped is None or not isinstance(integer, int) or clamped[1:] != (-math.inf, math.inf):
        return False
    (axis, offset), (low, high) = clamped[0], bounds[clamped[0].axis]
    if condition.op == "arith.cmpi sge":
        bounds[axis] = (max(low, integer - offset), high)
    else:
        bounds[axis] = (low, min(high, integer - offset))
    return True

"""The cost model: what loops and matmuls take, and the decisions that follow from it.

The thresholds at the top may change digits of results, so they follow from the nominal machine. The functions below
estimate times on the machine that was measured, by which threads share parallel regions; results do not depend on it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Operation

from hybridc.dialects.scalar.table import OPERATIONS, OperationCost
from hybridc.ground.machine import NOMINAL, Machine, machine
from hybridc.ir.kernels.kernel import KernelOp

_SINGLE = 4  # bytes of an element in single precision, for which thresholds are

# Operations that take no longer than to read an element: so many are rather computed twice than their result kept.
RECOMPUTED = int(_SINGLE * NOMINAL.costs.byte / NOMINAL.costs.operation)
# Operations that take no longer than to write an element and to read it again: a backward rather computes these.
REMATERIALIZED = int(2 * _SINGLE * NOMINAL.costs.byte / NOMINAL.costs.operation)
# Operations that take a hundred times as long as to write an element and to read it again: a kernel with a longer body
# would save less than a percent, and cost registers and time to compile, which grow with it.
LARGEST = 100 * REMATERIALIZED
# Multiply-adds of a matmul that take no longer than to write an element and to read it again; than to begin a region.
WALKED = int(2 * _SINGLE * NOMINAL.costs.byte / (2 * NOMINAL.costs.flop))
BEGUN = int(NOMINAL.costs.region / (2 * NOMINAL.costs.flop))
# Elements of an iteration space that is walked as one tile: an array of them fills the second cache.
ONE_TILE = NOMINAL.second // _SINGLE
# Elements of an array that fills half of the first cache: it stays there while others are read.
SMALL = NOMINAL.first // 2 // _SINGLE
# A reader of so many times as many elements hardly notices that it computes a value again: 6 % of its work.
MANY = 16
# Rows with which a matmul hides that its other operand is packed, as long as multiplying ten: 4 % of its time; and
# those for which it pays at all: 16 %.
HIDE_PACKING, WORTH_PACKING = 256, 64
# Rows with which a matmul hides that its other operand, packed before, comes from a far cache: to read an element takes
# as long as four products.
WORTH_READING = 16
# Parts that are enough for most processors' threads. How many a result is made of must not depend on the threads.
PARTS = 8
# Terms of a part of a sum from which on it has more of them, as long sums lose precision.
LONG = 512
# Bytes of the third cache that a core has for itself, if four share it.
OF_CORE = NOMINAL.third // 4
# Bytes of a row from which on rows share a part of the first cache: half of one of its eight ways.
SAME_SET = NOMINAL.first // 8 // 2
# How many times as long an element takes that does not follow the one before in memory: a part of its line, of which
# half is used by the rows beside it.
STRIDED = NOMINAL.line // _SINGLE // 2


def operation_cost(op: str) -> OperationCost:
    """The cost of an operation by the table of scalar steps; what is not in it is plain, or a function of ``math``."""
    if op in OPERATIONS:
        return OPERATIONS[op].cost
    return OperationCost.FUNCTION if op.startswith("math.") else OperationCost.PLAIN


def operation_time(op: str) -> float:
    """Nanoseconds of an operation for each element."""
    costs = machine().costs
    cost = operation_cost(op)
    if cost in (OperationCost.FUNCTION, OperationCost.INSTRUCTION):
        return costs.function
    return costs.division if cost is OperationCost.DIVISION else costs.operation


def body_size(op: Operation) -> int:
    """The size of a linalg op's body in operations of the nominal machine, functions expanded; 1 at least."""
    nominal = NOMINAL.costs
    size = 1.0
    for step in op.regions[0].block.ops if op.regions else ():
        if operation_cost(step.name) is OperationCost.FUNCTION:
            size += nominal.function / nominal.operation
        elif not isinstance(step, arith.ConstantOp | linalg.YieldOp):
            size += 1
    return int(size)


def element_times(kernel_ops: Iterable[KernelOp], inside: Iterable[Any]) -> list[tuple[set[int], float]]:
    """For each linalg op its axes, and the nanoseconds of an element; values ``inside`` the loops are in registers."""
    byte, near = machine().costs.byte, {*inside}
    times: list[tuple[set[int], float]] = []
    for kernel_op in kernel_ops:
        read = sum(r.value.dtype.itemsize for r in kernel_op.reads if r.value not in near)
        read += sum(v.dtype.itemsize for v in kernel_op.indirect)
        computed = sum(operation_time(step.op) for step in kernel_op.steps)
        times.append(({*kernel_op.axes, *kernel_op.reduced}, computed + read * byte))
    return times


def copy_time(bytes_: int, strided: bool = False) -> float:
    """Nanoseconds to read so many bytes, or to write them."""
    return bytes_ * machine().costs.byte * (STRIDED if strided else 1)


def matmul_time(flops: int, bytes_: int = 0, computer: Machine | None = None) -> float:
    """Nanoseconds of matmuls with so many flops, whose arrays have so many bytes."""
    costs = (computer or machine()).costs
    return flops * costs.flop + bytes_ * costs.far_byte


def is_shared(work: float) -> bool:
    """Whether it pays that threads share what takes so many nanoseconds."""
    return work >= machine().shared


def grain_of(extent: int, work: float) -> int:
    """How much of a range a thread takes at a time: all of it, or as much as is worth a thread's while."""
    return max(1, int(machine().grain * extent / work)) if is_shared(work) else extent


def sharing(work: float, extent: int, multiple: int = 1, setup: float = 0.0) -> tuple[int, int]:
    """The grain of a parallel region that takes so many nanoseconds, and the least iterations that threads share.

    ``setup`` is what each range of iterations takes however short it is.
    """
    per_iteration = max(work, 1e-3) / max(1, extent)
    grain = math.ceil((machine().grain + setup) / per_iteration)
    return -(-grain // multiple) * multiple, math.ceil((machine().shared + setup) / per_iteration)

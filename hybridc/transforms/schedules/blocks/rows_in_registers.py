"""Rows in registers: in which order a program makes their values, and how many of them it has to hold at a time.

A reduction of rows waits for all threads of a program. What is made before it and needed after it is held meanwhile: as
many scalars for each thread as it has elements.
"""

from __future__ import annotations

from collections.abc import Sequence

from hybridc.ir.kernels.kernel import KernelOp, KernelValue
from hybridc.ir.loop_nest_plan import LoopNestPlan

# Bytes of a register, which holds one half-precision scalar, too, once it is computed with.
_REGISTER = 4


def in_order_of_need(kernel_ops: Sequence[KernelOp]) -> list[KernelOp]:
    """The ops, each before the reductions that need it, and else after them: little is held while they wait."""
    turn = _turns(kernel_ops)
    return sorted(kernel_ops, key=turn.__getitem__)


def held_bytes(plan: LoopNestPlan) -> int:
    """Bytes for each element of a row that a program holds at a time, at most.

    All that is read between two reductions is there at once, as its loads do not wait for each other. Column reductions
    are carried from row to row.
    """
    turn = _turns(list(plan.op_of.values()))
    carried, size, used = 0, dict[KernelValue, int](), dict[KernelValue, list[int]]()
    for kernel_op, now in turn.items():
        for value, axes in [*((r.value, r.axes) for r in kernel_op.reads), (kernel_op.result, kernel_op.axes)]:
            if value.constant is not None or not {*plan.axes(axes)} >= {*plan.inner}:
                continue
            computed = value in plan.op_of
            size[value] = max(_REGISTER * computed, value.dtype.itemsize)
            if value == kernel_op.result and plan.is_column_reduction(kernel_op):
                carried += size[value]
            else:
                used.setdefault(value, []).append(now)
    most = 0
    for now in {*turn.values()}:
        before = {v for v in used if min(used[v]) < now <= max(used[v])}
        loaded = {v for v in used if min(used[v]) == now and v not in plan.op_of}
        after = {v for v in used if min(used[v]) <= now < max(used[v])}
        most = max(most, *(sum(size[v] for v in live) for live in (before | loaded, after)))
    return carried + most


def _turns(kernel_ops: Sequence[KernelOp]) -> dict[KernelOp, int]:
    """For each op the number of reductions, one of the other's result, come before it when it waits for its reader.

    ``kernel_ops`` come after their producers.
    """
    producers = {s.result: s for s in kernel_ops}
    needs = {s: [producers[r.value] for r in s.reads if r.value in producers] for s in kernel_ops}
    depth: dict[KernelOp, int] = {}
    for kernel_op in kernel_ops:
        depth[kernel_op] = max((depth[s] + (s.combine is not None) for s in needs[kernel_op]), default=0)
    end = max(depth.values(), default=0)
    turn = {s: depth[s] if s.combine is not None else end for s in kernel_ops}
    for kernel_op in reversed(kernel_ops):
        for needed in needs[kernel_op]:
            turn[needed] = min(turn[needed], turn[kernel_op])
    return turn

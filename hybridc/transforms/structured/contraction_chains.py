"""Producers and consumers of contractions: chains of elementwise ops and row reductions."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from xdsl.dialects import arith
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Operation, SSAValue

from hybridc.ir.structured import indirect_operands, shape_of
from hybridc.ir.values import volume
from hybridc.transforms.structured.fuse_kernels import depends_on
from hybridc.transforms.structured.loop_groups import is_contraction, operation_loops

# Ops between two contractions, at most: twice what an attention has there, with its masks. Without a bound, the search
# behind all contractions of a network that carries a state from step to step would be quadratic in its steps.
LONGEST = 64


def contractions_behind(
    value: SSAValue, reductions: bool = False, known: Iterable[SSAValue] = ()
) -> list[tuple[Operation, list[Operation]]]:
    """The contractions that a value of the same size is computed from, each with the elementwise operations after it.

    ``reductions`` may be among them. What is ``known`` is not looked at. Nothing, if more than ``LONGEST`` ops are met.
    """
    seen: dict[Operation, None] = {}
    contractions: dict[Operation, None] = {}
    work, stop = [value], set(known)
    while work:
        operand = work.pop()
        op = operand.owner
        loops = operation_loops(op) if isinstance(op, Operation) and operand not in stop else None
        if loops is None or loops.op in seen:
            continue
        if loops.is_contraction:
            if is_contraction(loops.op) and volume(shape_of(operand)) == volume(shape_of(value)):
                contractions[loops.op] = None
        elif reductions or not loops.reduced:
            seen[loops.op] = None
            if len(seen) > LONGEST:
                return []
            work += [*loops.op.operands[:-1]]
    chains: list[tuple[Operation, list[Operation]]] = []
    order = in_block_order(seen) if contractions else []
    for contraction in contractions:
        computed, middle = {contraction.results[0]}, list[Operation]()
        for op in order:
            if any(v in computed for v in op.operands):
                computed.add(op.results[0])
                middle.append(op)
        chains.append((contraction, middle))
    return chains


def in_block_order(ops: Iterable[Operation]) -> list[Operation]:
    """Operations of one block in its order, by a walk in both directions from one of them until all are met."""
    missing = set(ops)
    ordered = deque[Operation]()
    before = after = next(iter(missing), None)
    if after is not None:
        before = after.prev_op
    while missing and not (before is None and after is None):
        if after is not None:
            if after in missing:
                missing.remove(after)
                ordered.append(after)
            after = after.next_op
        if before is not None:
            if before in missing:
                missing.remove(before)
                ordered.appendleft(before)
            before = before.prev_op
    return [*ordered]


def operations_after(last: Operation, others: Iterable[Operation]) -> list[Operation]:
    """The elementwise operations that follow a contraction one by one and need nothing else that the kernel makes."""
    chain = [last]
    while True:
        value = chain[-1].results[0]
        users = dict.fromkeys(use.operation for use in value.uses)
        maps = [op for op in users if (loops := operation_loops(op)) is not None and not loops.is_contraction]
        if len(maps) != 1 or not _continues(maps[0], value):
            return chain[1:]
        beside = [v for v in maps[0].operands[:-1] if v is not value]
        if depends_on(beside, {*chain, *others}):
            return chain[1:]
        chain.append(maps[0])


def _continues(op: Operation, value: SSAValue) -> bool:
    """Whether an operation computes each element of its result from a value's element at the same indices."""
    loops = operation_loops(op)
    if loops is None or loops.reduced or indirect_operands(op):
        return False
    places = {place for read, place in loops.reads if read is value}
    return len(places) == 1 and sorted(places.pop()) == sorted(loops.result) == list(range(len(loops.sizes)))


def steps_of(op: Operation) -> list[Operation]:
    """The operations of a body that compute."""
    return [s for s in op.regions[0].block.ops if not isinstance(s, arith.ConstantOp | linalg.YieldOp)]


def reduces(op: Operation) -> bool:
    """Whether a linalg op sums, or the like."""
    loops = operation_loops(op)
    return loops is not None and bool(loops.reduced)

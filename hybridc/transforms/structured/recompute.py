"""Copies of ops that will be a kernel, with the elementwise ops before them that are rather recomputed there.

These are ops whose result nobody else reads, and such whose result has many times the elements of all that it is made
of: a mask made of the indices along two axes is recomputed in each kernel that reads it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Block, Operation, SSAValue

from hybridc.dialects.mlir.erase import erase_op
from hybridc.ir.costs import MANY
from hybridc.ir.structured import dtype_of, indirect_operands, number_of, shape_of
from hybridc.ir.structured_builder import Builder, Tensor
from hybridc.ir.values import volume
from hybridc.transforms.structured.loop_groups import is_contraction, operation_loops


def itself(value: SSAValue) -> SSAValue:
    """The value."""
    return value


class KernelCopies:
    """Copies of operations that will be a kernel. ``of`` maps a value to the one that is read instead."""

    def __init__(self, leaf: Callable[[SSAValue], SSAValue] = itself) -> None:
        self.block = Block()
        self.of: dict[SSAValue, SSAValue] = {}
        self.leaf = leaf  # the value that stands for one that is not copied

    def add(self, op: Operation, nest: list[Operation]) -> Operation:
        """Copy an operation into a loop nest, after elementwise producers that are rematerialised there.

        Those of one dimension are copied for each that reads them: it may be another axis.
        """
        apart: dict[int, SSAValue] = {}
        indirect = {v: self.leaf(v) for v in indirect_operands(op)}
        for index, value in enumerate(op.operands[:-1]):
            if value in self.of or value in indirect or number_of(value) is not None:
                continue
            start = None if is_contraction(op) else counted_from(value)
            if start is not None:
                apart[index] = self._counter(value, start, nest)
            elif not is_contraction(op) and _is_computed_again(value):
                known = dict(self.of)
                copy = self.add(cast(Operation, value.owner), nest)
                if len(shape_of(value)) == 1:
                    self.of, apart[index] = known, copy.results[0]
            else:
                self.of[value] = self.leaf(value)
        copy = op.clone(self.of | indirect)
        copy.location = op.location
        self.of.update(zip(op.results, copy.results, strict=True))
        for index, value in apart.items():
            copy.operands[index] = value
        self.block.add_op(copy)
        nest.append(copy)
        return copy

    def nest(self, ops: Iterable[Operation]) -> list[Operation]:
        """The copies of operations, and what is rematerialised for them, as a new loop nest."""
        nest: list[Operation] = []
        for op in ops:
            self.add(op, nest)
        return nest

    def made(self, value: SSAValue) -> Operation:
        """The operation that makes the copy of a value."""
        return cast(Operation, self.of[value].owner)

    def drop(self) -> None:
        """Erase the copies that are in no kernel."""
        for op in reversed(list(self.block.ops)):
            erase_op(op)

    def _counter(self, like: SSAValue, start: int, nest: list[Operation]) -> SSAValue:
        """The integers from ``start`` on, as an operation of its own for each that reads them."""
        builder = Builder(self.block)
        builder.operator = "arange"
        counter = builder.generic([], Tensor(shape_of(like), dtype_of(like), builder), functools.partial(_count, start))
        nest.append(cast(Operation, counter.value.owner))
        return counter.value


def _count(start: int, b: Any, sofar: Any) -> Any:
    """The body of a counter."""
    index = b.index_of(0)
    return b.convert(index if start == 0 else index + b.constant(start, index.dtype), sofar.dtype)


def counted_from(value: SSAValue) -> int | None:
    """The integer from which a constant of one dimension counts; None if it is no such array."""
    op, shape = value.owner, shape_of(value)
    if not isinstance(op, arith.ConstantOp) or len(shape) != 1 or shape[0] < 2:
        return None
    elements = op.value
    if not isinstance(elements, DenseIntOrFPElementsAttr) or elements.is_splat():
        return None
    numbers: list[Any] = list(elements.get_values())
    start = int(numbers[0]) if abs(numbers[0]) < 2**31 else 0
    return start if numbers == list(range(start, start + shape[0])) else None


def _is_computed_again(value: SSAValue) -> bool:
    """Whether a kernel computes an operand itself: elementwise, and read by it alone or made of much less."""
    op = value.owner
    loops = operation_loops(op) if isinstance(op, Operation) else None
    if loops is None or loops.reduced or indirect_operands(loops.op):
        return False
    read = sum(volume(shape_of(v)) for v, _ in loops.reads if number_of(v) is None and counted_from(v) is None)
    size = volume(shape_of(value))
    return (value.has_one_use() and read <= size) or _leaves(value) * MANY <= size


def _leaves(value: SSAValue) -> int:
    """Number of elements of all arrays from which elementwise operations compute a value."""
    sizes: dict[SSAValue, int] = {}
    seen: set[SSAValue] = set()
    work = [value]
    while work:
        source = work.pop()
        if source in seen:
            continue
        seen.add(source)
        op = source.owner
        loops = operation_loops(op) if isinstance(op, Operation) else None
        if loops is not None and not loops.reduced and not indirect_operands(loops.op):
            work += [v for v, _ in loops.reads]
        elif number_of(source) is None and counted_from(source) is None:
            sizes[source] = volume(shape_of(source))
    return sum(sizes.values())

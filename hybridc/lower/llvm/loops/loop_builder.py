"""A builder of nested loops that hoists: each operation goes to the outermost loop in which it can be computed.

A *level* is the body of one of the open loops; level 0 is the entry block. An operation goes to the
deepest level among those of its operands, and equal pure operations are made once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, cast

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import DYNAMIC_INDEX, IndexType, IntegerAttr, MemRefType, i8
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from hybridc.dialects.mlir.new_op import new_op

INDEX = IndexType()


@functools.lru_cache(256)
def array_type(element: Attribute) -> MemRefType[Any]:
    """The type of a buffer: contiguous elements, of dynamic size."""
    return MemRefType(element, [DYNAMIC_INDEX])


BYTES = array_type(i8)


@functools.lru_cache(4096)
def _index(value: int) -> IntegerAttr[IndexType]:
    return IntegerAttr(value, INDEX)


class LoopBuilder:
    """Builds the body of a function; knows the level of every value."""

    def __init__(self, block: Block) -> None:
        self._blocks = [block]
        self._levels: dict[SSAValue, int] = {}
        self._made: dict[Any, SSAValue] = {}
        self._keys: list[list[Any]] = [[]]  # those of what was made, by level
        self._constants: dict[Any, SSAValue] = {}
        self._indices: dict[int, SSAValue] = {}  # the constants among indices, whose attributes take long to compare

    @property
    def depth(self) -> int:
        """The level of the innermost open loop."""
        return len(self._blocks) - 1

    def level(self, *values: SSAValue) -> int:
        """The deepest level of these values; unknown ones are at level 0."""
        return max((self._levels.get(v, 0) for v in values), default=0)

    # --- operations ----------------------------------------------------------------------------------------

    def add(
        self,
        cls: type[Operation],
        operands: Sequence[SSAValue],
        kinds: Sequence[Attribute] = (),
        properties: dict[str, Attribute] | None = None,
        level: int | None = None,
    ) -> Operation:
        """Append an operation to a level, by default that of its operands."""
        op = new_op(cls, operands, kinds, properties)
        at = self.level(*operands) if level is None else level
        self._blocks[at].add_op(op)
        for result in op.results:
            self._levels[result] = at
        return op

    def pure(
        self,
        cls: type[Operation],
        operands: Sequence[SSAValue],
        kind: Attribute,
        properties: dict[str, Attribute] | None = None,
    ) -> SSAValue:
        """The result of an operation without effects; made once for equal operands."""
        result = None if kind is INDEX else kind
        key = (cls, tuple(operands), result, tuple(properties.items()) if properties else ())
        known = self._made.get(key)
        if known is None:
            known = self._made[key] = self.add(cls, operands, [kind], properties).results[0]
            self._keys[self._levels[known]].append(key)
        return known

    def constant(self, attribute: Attribute, kind: Attribute) -> SSAValue:
        """A constant."""
        key = (attribute, kind)
        known = self._constants.get(key)
        if known is None:
            made = new_op(arith.ConstantOp, (), [kind], {"value": attribute})
            first = self._blocks[0].first_op
            if first is None:
                self._blocks[0].add_op(made)
            else:
                self._blocks[0].insert_op_before(made, first)
            known = self._constants[key] = made.results[0]
        return known

    # --- indices -------------------------------------------------------------------------------------------

    def index(self, value: int) -> SSAValue:
        """A constant index."""
        known = self._indices.get(value)
        if known is None:
            known = self._indices[value] = self.constant(_index(value), INDEX)
        return known

    def plus(self, *terms: SSAValue) -> SSAValue:
        """The sum of indices, those of outer levels first."""
        zero = self._indices.get(0)
        ordered = sorted((t for t in terms if t is not zero), key=self.level)
        if not ordered:
            return self.index(0)
        return functools.reduce(lambda a, b: self.pure(arith.AddiOp, [a, b], INDEX), ordered)

    def times(self, *factors: SSAValue) -> SSAValue:
        """The product of indices, those of outer levels first."""
        one = self._indices.get(1)
        ordered = sorted((f for f in factors if f is not one), key=self.level)
        if not ordered:
            return self.index(1)
        return functools.reduce(lambda a, b: self.pure(arith.MuliOp, [a, b], INDEX), ordered)

    def least(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """The minimum of two indices."""
        return self.pure(arith.MinSIOp, [a, b], INDEX)

    def split(self, value: SSAValue, size: SSAValue) -> tuple[SSAValue, SSAValue]:
        """Quotient and remainder of a non-negative index."""
        quotient = self.pure(arith.DivUIOp, [value, size], INDEX)
        return quotient, self.pure(arith.SubiOp, [value, self.times(quotient, size)], INDEX)

    # --- memory --------------------------------------------------------------------------------------------

    def load(self, array: SSAValue, at: SSAValue, level: int | None = None) -> SSAValue:
        """A load; at the level of its index, unless another is given."""
        kind = cast("MemRefType[Any]", array.type).element_type
        return self.add(memref.LoadOp, [array, at], [kind], level=level).results[0]

    def store(self, value: SSAValue, array: SSAValue, at: SSAValue, level: int | None = None) -> None:
        """A store; in the innermost open loop, unless another level is given."""
        self.add(memref.StoreOp, [value, array, at], level=self.depth if level is None else level)

    def view(self, scratch: SSAValue, offset: SSAValue, size: SSAValue, element: Attribute) -> SSAValue:
        """A view of scratch at an offset in bytes."""
        return self.pure(memref.ViewOp, [scratch, offset, size], array_type(element))

    # --- loops ---------------------------------------------------------------------------------------------

    def loop(
        self,
        low: SSAValue,
        high: SSAValue,
        step: SSAValue,
        body: Callable[[SSAValue, list[SSAValue]], Sequence[SSAValue]],
        starts: Sequence[SSAValue] = (),
    ) -> list[SSAValue]:
        """A loop in the innermost one; ``body`` gets the index and the carried values, and returns the next ones."""
        block = Block(arg_types=[INDEX, *[s.type for s in starts]])
        self._blocks.append(block)
        self._keys.append([])
        for arg in block.args:
            self._levels[arg] = self.depth
        carried = body(block.args[0], list(block.args[1:]))
        block.add_op(new_op(scf.YieldOp, carried))
        self._blocks.pop()
        for key in self._keys.pop():  # of the values inside
            del self._made[key]
        loop = new_op(scf.ForOp, [low, high, step, *starts], [s.type for s in starts], regions=[Region(block)])
        self._blocks[-1].add_op(loop)
        for result in loop.results:
            self._levels[result] = self.depth
        return list(loop.results)

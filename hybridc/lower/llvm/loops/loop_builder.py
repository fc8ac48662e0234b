"""A builder of nested loops that hoists: each operation goes to the outermost loop in which it can be computed.

A *level* is the body of one of the open loops; level 0 is the function's. An operation goes to the
deepest level among those of its operands, and equal pure operations are made once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import DYNAMIC_INDEX, IndexType, MemRefType, VectorType, i8
from xdsl.ir import Attribute

from hybridc.lower.llvm.codegen.function_text import (
    FunctionText,
    LLVMValue,
    ModuleText,
    OpenBody,
    constant_of,
    type_text,
)
from hybridc.lower.llvm.codegen.instructions import (
    HALF_TYPES,
    Op,
    load_cell,
    load_lanes,
    store_cell,
    store_lanes,
    view_bytes,
    write_operation,
)

INDEX = IndexType()


@functools.lru_cache(256)
def array_type(element: Attribute) -> MemRefType[Any]:
    """The type of a buffer: contiguous elements, of dynamic size."""
    return MemRefType(element, [DYNAMIC_INDEX])


BYTES = array_type(i8)


class LoopBuilder(FunctionText):
    """Writes the body of a parallel region of these arguments; knows the level of every value."""

    def __init__(self, module: ModuleText, kinds: Sequence[Attribute]) -> None:
        super().__init__(module, [type_text(kind) for kind in kinds])
        self._levels: list[OpenBody] = [self.open]
        self._keys: list[list[Any]] = [[]]  # of the pure values that are known at each level
        self._level_of: dict[str, int] = {}  # of values by name
        self._elements: dict[str, Attribute] = {}  # of arrays by name
        for argument, kind in zip(self.arguments, kinds, strict=True):
            if isinstance(kind, MemRefType):
                self._elements[argument.name] = cast("MemRefType[Any]", kind).element_type
        self._pure: dict[Any, LLVMValue] = {}
        self._constants: dict[Any, LLVMValue] = {}

    @property
    def depth(self) -> int:
        """The level of the innermost open loop."""
        return len(self._levels) - 1

    def level(self, *values: LLVMValue) -> int:
        """The deepest level of these values; constants and arguments are at level 0."""
        return max([self._level_of.get(v.name, 0) for v in values], default=0)

    def write_region(self, symbol: str) -> None:
        """Write the function as a parallel region into its module."""
        self.open = self._levels[0]
        self.write("ret void")
        self.module.write_region(self, symbol)

    # --- operations ----------------------------------------------------------------------------------------

    def add(
        self,
        op: Op,
        operands: Sequence[LLVMValue],
        kind: Attribute | None = None,
        properties: Mapping[str, Attribute] | None = None,
        level: int | None = None,
    ) -> LLVMValue | None:
        """Write an operation at a level, by default that of its operands; its result, of type ``kind``, or None."""
        at = self.level(*operands) if level is None else level
        self.open = self._levels[at]
        value = write_operation(self, op, operands, kind, properties or {})
        if value is not None:
            self._level_of[value.name] = at
        return value

    def pure(
        self,
        op: Op,
        operands: Sequence[LLVMValue],
        kind: Attribute,
        properties: Mapping[str, Attribute] | None = None,
    ) -> LLVMValue:
        """The result of an operation without effects; made once for equal operands."""
        key = (op, *operands, None if kind is INDEX else kind, *(properties.items() if properties else ()))
        known = self._pure.get(key)
        if known is None:
            known = self._pure[key] = self.result(op, operands, kind, properties)
            self._keys[self.level(known)].append(key)
        return known

    def result(
        self,
        op: Op,
        operands: Sequence[LLVMValue],
        kind: Attribute,
        properties: Mapping[str, Attribute] | None = None,
        level: int | None = None,
    ) -> LLVMValue:
        """As :meth:`add`, of an operation with a result."""
        value = self.add(op, operands, kind, properties, level)
        assert value is not None, f"{op} has no result"
        return value

    def constant(self, attribute: Attribute, kind: Attribute) -> LLVMValue:
        """A constant."""
        key = (attribute, kind)
        known = self._constants.get(key)
        if known is None:
            known = self._constants[key] = constant_of(attribute, kind)
            if type(kind) in HALF_TYPES:
                self.kinds[known] = kind
        return known

    def call_external(self, name: str, operands: Sequence[LLVMValue]) -> None:
        """Call a function of another library, without a result, in the innermost open loop."""
        self.module.declare(name, "void", [x.type for x in operands])
        self.open = self._levels[-1]
        self.call(name, operands, "void")

    # --- indices -------------------------------------------------------------------------------------------

    def index(self, value: int) -> LLVMValue:
        """A constant index."""
        return LLVMValue("i64", str(value))

    def plus(self, *terms: LLVMValue) -> LLVMValue:
        """The sum of indices, those of outer levels first."""
        ordered = sorted((t for t in terms if t.name != "0"), key=self.level)
        if not ordered:
            return self.index(0)
        return functools.reduce(lambda a, b: self.pure(arith.AddiOp, [a, b], INDEX), ordered)

    def times(self, *factors: LLVMValue) -> LLVMValue:
        """The product of indices, those of outer levels first."""
        ordered = sorted((f for f in factors if f.name != "1"), key=self.level)
        if not ordered:
            return self.index(1)
        return functools.reduce(lambda a, b: self.pure(arith.MuliOp, [a, b], INDEX), ordered)

    def least(self, a: LLVMValue, b: LLVMValue) -> LLVMValue:
        """The minimum of two indices."""
        return self.pure(arith.MinSIOp, [a, b], INDEX)

    def split(self, value: LLVMValue, size: LLVMValue) -> tuple[LLVMValue, LLVMValue]:
        """Quotient and remainder of a non-negative index."""
        quotient = self.pure(arith.DivUIOp, [value, size], INDEX)
        return quotient, self.pure(arith.SubiOp, [value, self.times(quotient, size)], INDEX)

    # --- memory --------------------------------------------------------------------------------------------

    def load_element(self, array: LLVMValue, at: LLVMValue, level: int | None = None) -> LLVMValue:
        """A load; at the level of its index, unless another is given."""
        return self.result(load_cell, [array, at], self._elements[array.name], level=level)

    def store_element(self, value: LLVMValue, array: LLVMValue, at: LLVMValue, level: int | None = None) -> None:
        """A store; in the innermost open loop, unless another level is given."""
        self.add(store_cell, [value, array, at], level=self.depth if level is None else level)

    def load_vector(self, array: LLVMValue, at: LLVMValue, kind: VectorType[Any]) -> LLVMValue:
        """A load of contiguous elements, at the level of their index."""
        return self.result(load_lanes, [array, at], kind)

    def store_vector(self, value: LLVMValue, array: LLVMValue, at: LLVMValue) -> None:
        """A store to contiguous elements, in the innermost open loop."""
        self.add(store_lanes, [value, array, at], level=self.depth)

    def view(self, scratch: LLVMValue, offset: LLVMValue, element: Attribute) -> LLVMValue:
        """A view of scratch at an offset in bytes."""
        array = self.pure(view_bytes, [scratch, offset], array_type(element))
        self._elements[array.name] = element
        return array

    # --- loops ---------------------------------------------------------------------------------------------

    def loop(
        self,
        low: LLVMValue,
        high: LLVMValue,
        step: LLVMValue,
        body: Callable[[LLVMValue, list[LLVMValue]], Sequence[LLVMValue]],
        starts: Sequence[LLVMValue] = (),
    ) -> list[LLVMValue]:
        """As for any function; the values of a loop are at its level."""

        def inside(index: LLVMValue, carried: list[LLVMValue]) -> Sequence[LLVMValue]:
            level = self.open
            self._levels.append(level)
            self._keys.append([])
            self._level_of.update(dict.fromkeys([v.name for v in (index, *carried)], self.depth))
            ends = body(index, carried)
            self._levels.pop()
            for key in self._keys.pop():
                del self._pure[key]
            self.open = level
            return ends

        self.open = self._levels[-1]
        results = super().loop(low, high, step, inside, starts)
        self._level_of.update(dict.fromkeys([v.name for v in results], self.depth))
        return results

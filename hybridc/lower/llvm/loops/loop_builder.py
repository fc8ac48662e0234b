"""A builder of nested loops that hoists: each operation goes to the outermost loop in which it can be computed.

A *level* is the body of one of the open loops; level 0 is the function's. An operation goes to the
deepest level among those of its operands, and equal pure operations are made once.
"""

from __future__ import annotations

import contextlib
import functools
from collections import defaultdict
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    VectorType,
)
from xdsl.ir import Attribute, Operation

from hybridc.lower.llvm.codegen.function_text import (
    CarryingLoop,
    FunctionText,
    LLVMValue,
    ModuleText,
    OpenBody,
    constant_of,
)
from hybridc.lower.llvm.codegen.instructions import (
    HALF_TYPES,
    Op,
    load_at,
    splat,
    store_at,
    view_bytes,
    write_operation,
)

INDEX = IndexType()


@functools.lru_cache(256)
def array_type(element: Attribute) -> MemRefType[Any]:
    """The type of a buffer: contiguous elements, of dynamic size."""
    return MemRefType(element, [DYNAMIC_INDEX])


@functools.lru_cache(256)
def vector_type(element: Attribute, lanes: int) -> VectorType[Any]:
    """The type of a vector."""
    return VectorType(element, [lanes])


@dataclass(slots=True, eq=False)
class Index:
    """An index value with operators; arithmetic on it emits operations."""

    b: LoopBuilder
    value: LLVMValue

    def __add__(self, other: Index | int) -> Index:
        return self if other == 0 else self.b.plus(self, other)

    def __sub__(self, other: Index | int) -> Index:
        return self._pure(arith.SubiOp, other)

    def __mul__(self, other: Index | int) -> Index:
        if isinstance(other, int) and other in (0, 1):
            return self if other else self.b.index(0)
        return self.b.times(self, other)

    def __floordiv__(self, other: Index | int) -> Index:
        return self._pure(arith.DivUIOp, other)

    def __mod__(self, other: Index | int) -> Index:
        return self._pure(arith.RemUIOp, other)

    def ceildiv(self, other: Index | int) -> Index:
        """Division rounded up."""
        return (self + other - 1) // other

    def split(self, size: Index | int) -> tuple[Index, Index]:
        """Quotient and remainder, of an index that is not negative."""
        quotient = self // size
        return quotient, self - self.b.times(quotient, size)

    def least(self, other: Index | int) -> Index:
        """The minimum."""
        return self._pure(arith.MinSIOp, other)

    def most(self, other: Index | int) -> Index:
        """The maximum."""
        return self._pure(arith.MaxSIOp, other)

    def integer(self, kind: Attribute) -> LLVMValue:
        """The index as an integer of another type."""
        return self.b.pure(arith.IndexCastOp, [self.value], kind)

    def _pure(self, cls: type[Operation], other: Index | int) -> Index:
        return Index(self.b, self.b.pure(cls, [self.value, self.b.index(other).value], INDEX))


class LoopBuilder(FunctionText):
    """Writes the body of a parallel region over arrays of these elements; knows the level of every value.

    Its arguments are the arrays, so many scalars, the range ``low, high``, and scratch memory.
    """

    def __init__(self, module: ModuleText, elements: Sequence[Attribute], scalars: int) -> None:
        super().__init__(module, [*["ptr"] * len(elements), *["i64"] * (scalars + 2), "ptr"])
        self.arrays, self.scratch = self.arguments[: len(elements)], self.arguments[-1]
        *self._scalars, self._low, self._high = self.arguments[len(elements) : -1]
        self._levels: list[OpenBody] = [self.open]
        self._keys: list[list[Any]] = [[]]  # of the pure values that are known at each level
        self._level_of: defaultdict[str, int] = defaultdict(int)  # of values by name
        self._elements = {array.name: element for array, element in zip(self.arrays, elements, strict=True)}
        self._pure: dict[Any, LLVMValue] = {}
        self._constants: dict[Any, LLVMValue] = {}

    @property
    def scalars(self) -> list[Index]:
        """The scalar arguments."""
        return [Index(self, x) for x in self._scalars]

    @property
    def low(self) -> Index:
        """The first element of the range."""
        return Index(self, self._low)

    @property
    def high(self) -> Index:
        """The end of the range."""
        return Index(self, self._high)

    @property
    def depth(self) -> int:
        """The level of the innermost open loop."""
        return len(self._levels) - 1

    def level(self, *values: LLVMValue) -> int:
        """The deepest level of these values; constants and arguments are at level 0."""
        return max([self._level_of[v.name] for v in values], default=0)

    def write_region(self, symbol: str) -> None:
        """Write the function as a parallel region into its module."""
        self.open = self._levels[0]
        self.write("ret void")
        self.module.write_region(self, symbol)

    # --- operations ----------------------------------------------------------------------------------------

    def result(
        self,
        op: Op,
        operands: Sequence[LLVMValue],
        kind: Attribute,
        properties: Mapping[str, Attribute] | None = None,
        level: int | None = None,
    ) -> LLVMValue:
        """Write an operation at a level, by default that of its operands; its result, of type ``kind``."""
        at = self.level(*operands) if level is None else level
        self.open = self._levels[at]
        value = write_operation(self, op, operands, kind, properties or {})
        assert value is not None, f"{op} has no result"
        self._level_of[value.name] = at
        return value

    def pure(
        self,
        op: Op,
        operands: Sequence[LLVMValue],
        kind: Attribute,
        properties: Mapping[str, Attribute] | None = None,
        name: object = None,
    ) -> LLVMValue:
        """The result of an operation without effects; made once for equal operands.

        A ``name`` tells it from all with other properties or another type: to compare these takes longer.
        """
        if name is None:
            name = op if kind is INDEX else (op, kind, *(properties.items() if properties else ()))
        key = (name, *operands)
        known = self._pure.get(key)
        if known is None:
            known = self._pure[key] = self.result(op, operands, kind, properties)
            self._keys[self.level(known)].append(key)
        return known

    def constant(self, attribute: Attribute, kind: Attribute) -> LLVMValue:
        """A constant."""
        key = (attribute, kind)
        known = self._constants.get(key)
        if known is None:
            known = self._constants[key] = constant_of(attribute, kind)
            if type(kind) in HALF_TYPES:
                self.kinds[known] = kind
        return known

    def number(self, value: float, kind: Attribute) -> LLVMValue:
        """A number of a type; one of vectors has it in all lanes."""
        type_ = cast("Any", kind)
        if isinstance(kind, VectorType):
            lanes = [value] * type_.get_shape()[0]
            return self.constant(DenseIntOrFPElementsAttr.from_list(type_, lanes), type_)
        whole = isinstance(kind, IntegerType | IndexType)
        return self.constant(IntegerAttr(int(value), type_) if whole else FloatAttr(float(value), type_), kind)

    def everywhere(self, scalar: LLVMValue, kind: Attribute) -> LLVMValue:
        """A vector with a scalar in all lanes."""
        return self.pure(splat, [scalar], kind)

    def call_external(self, name: str, operands: Sequence[LLVMValue]) -> None:
        """Call a function of another library, without a result, in the innermost open loop."""
        self.module.declare(name, "void", [x.type for x in operands])
        self.open = self._levels[-1]
        self.call(name, operands, "void")

    # --- indices -------------------------------------------------------------------------------------------

    def index(self, value: Index | int) -> Index:
        """An index, or a constant one."""
        return Index(self, LLVMValue("i64", str(value))) if isinstance(value, int) else value

    def plus(self, *terms: Index | int) -> Index:
        """The sum of indices, those of outer levels first."""
        return self._combined(arith.AddiOp, 0, terms)

    def times(self, *factors: Index | int) -> Index:
        """The product of indices, those of outer levels first."""
        return self._combined(arith.MuliOp, 1, factors)

    def _combined(self, op: type[Operation], neutral: int, terms: Sequence[Index | int]) -> Index:
        values = [LLVMValue("i64", str(x)) if isinstance(x, int) else x.value for x in terms]
        nothing = str(neutral)
        ordered = [x for x in values if x.name != nothing]
        if not ordered:
            return self.index(neutral)
        if len(ordered) > 1:
            levels = self._level_of
            ordered.sort(key=lambda x: levels[x.name])
        total = ordered[0]
        for term in ordered[1:]:
            total = self.pure(op, (total, term), INDEX)
        return Index(self, total)

    # --- memory --------------------------------------------------------------------------------------------

    def load_at(
        self, array: LLVMValue, at: Index, kind: Attribute | None = None, level: int | None = None
    ) -> LLVMValue:
        """Load an element, or a value of this type: at the level of the index, unless another is given."""
        return self.result(load_at, [array, at.value], kind or self._elements[array.name], level=level)

    def store_at(self, value: LLVMValue, array: LLVMValue, at: Index) -> None:
        """Store an element, or the elements of a vector, in the innermost open loop."""
        self.open = self._levels[-1]
        store_at(self, [value, array, at.value], None, {})

    def view(self, offset: Index, element: Attribute, memory: LLVMValue | None = None) -> LLVMValue:
        """A view of scratch, or of other memory, at an offset in bytes."""
        array = self.pure(view_bytes, [memory or self.scratch, offset.value], array_type(element))
        self._elements[array.name] = element
        return array

    # --- loops ---------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def count(self, low: Index | int, high: Index | int, step: int = 1) -> Generator[Index]:
        """A loop that carries nothing: its index."""
        with self.carry(low, high, (), step) as (index, _):
            yield index

    @contextlib.contextmanager
    def carry(
        self, low: Index | int, high: Index | int, starts: Sequence[LLVMValue], step: int = 1
    ) -> Generator[tuple[Index, CarryingLoop]]:
        """A loop that carries values: its index, and the loop. What is computed in it is at its level."""
        begin, end, by = [self.index(x).value for x in (low, high, step)]
        self.open = self._levels[-1]
        with self.count_up(begin, end, by, starts) as (index, loop):
            level = self.open
            self._levels.append(level)
            self._keys.append([])
            self._level_of.update(dict.fromkeys([v.name for v in (index, *loop.carried)], self.depth))
            yield Index(self, index), loop
            self._levels.pop()
            for key in self._keys.pop():
                del self._pure[key]
            self.open = level
        self._level_of.update(dict.fromkeys([v.name for v in loop.carried], self.depth))

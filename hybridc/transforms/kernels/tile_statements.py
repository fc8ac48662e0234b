"""Lower scalar bodies of linalg ops to statements of a tile program."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, cast

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Attribute, Operation, SSAValue

from hybridc.ir.kernel import KernelOp, Number, Read, constant_as, number_of
from hybridc.ir.loop_nest_plan import LoopNestPlan, loop_axes
from hybridc.ir.scalar_builder import operation_name, signless
from hybridc.ir.structured import AffineIndex, DType, dtype_of
from hybridc.ir.tile_program import (
    Address,
    Axes,
    Dims,
    Factor,
    Statement,
    TileConstant,
    TileGather,
    TileIndex,
    TileLoad,
    TileMap,
)


@dataclass(eq=False)
class BodyStatements(ABC):
    """Emits the statements of a loop nest's ops at the current indices; subclasses give buffers, strides, addresses.

    Values known or loaded at these indices are reused. A statement that is invariant in the loops' ``axes`` is hoisted
    ``before`` them.
    """

    plan: LoopNestPlan
    known: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])  # values at these indices
    loaded: dict[Any, str] = field(default_factory=dict[Any, str])
    statements: list[Statement] = field(default_factory=list[Statement])
    before: list[Statement] = field(default_factory=list[Statement])
    varying: set[str] = field(default_factory=set[str])  # names that vary along the axes of their loops
    axes: Axes = ()
    on: Dims = ()  # the dimensions that tiles lie on, if not on all
    rough: bool = False  # exponentials need be no more exact than half precision
    count: int = 0

    @abstractmethod
    def buffer(self, value: SSAValue) -> str:
        """The name of the buffer of a value."""

    @abstractmethod
    def strides(self, value: SSAValue) -> tuple[Factor, ...]:
        """The strides of a value's dimensions."""

    @abstractmethod
    def address(self, read: Read) -> Address:
        """The address of an element that is read."""

    # --- statements ----------------------------------------------------------------------------------------

    def add(self, cls: Any, *fields: Any, varies: bool = True) -> str:
        """Emit a statement that defines a value; its name."""
        name = str(self.count)
        self.count += 1
        self.write(cls(name, *fields), varies)
        if varies:
            self.varying.add(name)
        return name

    def write(self, statement: Statement, varies: bool = True) -> None:
        """Append a statement to the loops, or hoist it before them."""
        (self.statements if varies else self.before).append(statement)

    def once(self, cls: Any, *fields: Any, varies: bool = True) -> str:
        """The name of a pure statement, which is emitted once."""
        key = (cls, *fields)
        if key not in self.loaded:
            self.loaded[key] = self.add(cls, *fields, varies=varies)
        return self.loaded[key]

    def constant(self, number: Number, kind: str) -> str:
        """The name of a constant."""
        key = ("constant", repr(number), kind)
        if key not in self.loaded:
            self.loaded[key] = self.add(TileConstant, number, kind, varies=False)
        return self.loaded[key]

    # --- elements ------------------------------------------------------------------------------------------

    def read(self, read: Read) -> str:
        """The name of a loaded element."""
        value, plan = read.value, self.plan
        number = number_of(value)
        if number is not None:
            return self.constant(constant_as(number, dtype_of(value)), kind_of(value))
        if value in self.known:
            return self.known[value]
        if value in plan.rematerialized:
            return self.body(plan.op_of[value])
        address = self.affine_address(value, read.index) if read.index else self.address(read)
        key = (value, address, self.on)  # a value written in place has the address of another
        if key not in self.loaded:
            varies = bool({*address.axes} & {*self.axes})
            self.loaded[key] = self.add(TileLoad, address, kind_of(value), self.on, varies=varies)
        if value in plan.op_of:
            self.known[value] = self.loaded[key]
        return self.loaded[key]

    def affine_address(self, value: SSAValue, index: tuple[AffineIndex, ...]) -> Address:
        """The address of an affine read."""
        terms: list[tuple[int, Factor]] = []
        offset: list[Factor] = []
        for (factors, first), stride in zip(index, self.strides(value), strict=True):
            terms += [(self.plan.merged[a], replace(stride, number=f * stride.number)) for a, f in factors]
            offset += [replace(stride, number=first * stride.number)] if first else []
        return Address(self.buffer(value), tuple(terms), tuple(offset))

    def element(self, kernel_op: KernelOp) -> str:
        """The element that a reduction combines with its accumulator."""
        assert kernel_op.combine is not None
        out = kernel_op.op.regions[0].block.args[-1]
        (operand,) = (v for v in kernel_op.combine.operands if v is not out)
        return self.body(kernel_op, operand)

    def body(self, kernel_op: KernelOp, wanted: SSAValue | None = None) -> str:
        """Emit the body of an op; the name of what it yields, or of ``wanted``, a value inside it."""
        block = kernel_op.op.regions[0].block
        values: dict[SSAValue, str] = {}
        for arg, read in zip(block.args, kernel_op.reads, strict=False):
            if arg.first_use is not None:
                values[arg] = self.read(read)
        out, end = block.args[-1], block.last_op
        assert end is not None
        if (
            kernel_op.combine is None and out.first_use is not None
        ):  # the initial value is the result of an empty reduction
            values[out] = self.constant(start_of(kernel_op), kind_of(kernel_op.result))
        for op in block.ops:
            if op is not end and op is not kernel_op.combine:
                values[op.results[0]] = self._operation(kernel_op, op, values)
        return self._value(end.operands[0] if wanted is None else wanted, values)

    def _value(self, value: SSAValue, values: dict[SSAValue, str]) -> str:
        """The name of a value of a body; a constant may be outside of it."""
        if value not in values:
            owner = value.owner
            assert isinstance(owner, arith.ConstantOp), f"{value} is no constant"
            values[value] = self.constant(_literal(owner.value), _kind_name(value.type))
        return values[value]

    def _operation(self, kernel_op: KernelOp, op: Operation, values: dict[SSAValue, str]) -> str:
        kind = _kind_name(op.results[0].type)
        match op:
            case arith.ConstantOp():
                return self.constant(_literal(op.value), kind)
            case linalg.IndexOp():
                axis = self.plan.merged[loop_axes(kernel_op)[op.dim.value.data]]
                return self.once(TileIndex, axis, "index", self.on, varies=axis in self.axes)
            case tensor.ExtractOp():
                terms = tuple(zip((self._value(i, values) for i in op.indices), self.strides(op.tensor), strict=True))
                varies = any(name in self.varying for name, _ in terms)
                return self.once(TileGather, self.buffer(op.tensor), terms, kind, varies=varies)
            case _:
                operands = tuple(self._value(v, values) for v in op.operands)
                varies = any(v in self.varying for v in operands)
                name = operation_name(op)
                return self.once(TileMap, name, operands, kind, self.rough and name == "math.exp", varies=varies)


def start_of(kernel_op: KernelOp) -> Number:
    """The initial value of a reduction, as its result's dtype holds it."""
    number = number_of(kernel_op.op.operands[-1])
    assert number is not None, "a reduction begins with a number"
    return constant_as(number, dtype_of(kernel_op.result))


def kind_of(value: SSAValue) -> str:
    """The name of a value's element type."""
    return kind_of_dtype(dtype_of(value))


@functools.lru_cache(64)
def kind_of_dtype(dtype: DType) -> str:
    """The name of an element type."""
    return str(signless(dtype))


def _literal(value: Any) -> Number:
    if isinstance(value, DenseIntOrFPElementsAttr):
        return cast(Number, value.get_values()[0])
    return bool(value.value.data) if str(value.type) == "i1" else value.value.data


@functools.lru_cache(64)
def _kind_name(element: Attribute) -> str:
    return str(element)

"""A builder of functions in the llvm dialect by translation of others: a value map and an insertion block."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from xdsl.dialects import llvm, scf
from xdsl.dialects.builtin import (
    BFloat16Type,
    DenseArrayBase,
    Float8E4M3FNType,
    Float8E5M2Type,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    VectorType,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import PassFailedException

from hybridc.lower.llvm.codegen.intrinsics import mangled

POINTER = llvm.LLVMPointerType()
NO_FLAGS = llvm.FastMathAttr(None)

_INBOUNDS: dict[str, Attribute] = {
    "noWrapFlags": IntegerAttr(3, 32),  # MLIR's flags for inbounds
    "rawConstantIndices": DenseArrayBase.from_list(i32, [llvm.GEP_USE_SSA_VAL]),
    "inbounds": UnitAttr(),
}
_ORDINARY = IntegerAttr(0, i64)  # neither atomic nor ordered
_NONE = DenseArrayBase.from_list(i32, [])


def native_type(t: Attribute) -> Attribute:
    """The LLVM type of a value: ``index`` is i64, a buffer is a pointer, storage-only floats are integers.

    LLVM would convert a ``bfloat`` in a register to single precision, and call a library function to convert it back.
    """
    if isinstance(t, IndexType):
        return i64
    if isinstance(t, MemRefType):
        return POINTER
    if isinstance(t, VectorType):
        vector = cast(VectorType[Any], t)
        return VectorType(native_type(vector.element_type), vector.shape)
    if isinstance(t, BFloat16Type):
        return i16
    return i8 if isinstance(t, Float8E4M3FNType | Float8E5M2Type) else t


Rules = Mapping[type[Operation], Callable[["Rebuild", Any], None]]


class Rebuild:
    """Translates a function: the value map, and the insertion block."""

    def __init__(self, rules: Rules, block: Block | None = None) -> None:
        self.values: dict[SSAValue, SSAValue] = {}
        self.rules = rules
        self.block = block or Block()
        self.blocks = [self.block]

    def run(self, source: Block, inputs: Sequence[Attribute]) -> Region:
        """The translated body of a function of one block."""
        for i, (old, kind) in enumerate(zip(source.args, inputs)):
            self.values[old] = self.block.insert_arg(kind, i)
        self.region(source)
        return Region(self.blocks)

    def region(self, source: Block) -> list[SSAValue]:
        """Translate the operations of a block; its yielded values."""
        for op in source.ops:
            if isinstance(op, (scf.YieldOp, scf.ConditionOp)):
                return self.of(op.operands)
            rule = self.rules.get(type(op))
            if rule is None:
                raise PassFailedException(f"{op.name} has no lowering to the llvm dialect")
            rule(self, op)
        return []

    def of(self, values: Iterable[SSAValue]) -> list[SSAValue]:
        """The translations of values."""
        return [self.values[v] for v in values]

    def add(
        self,
        kind: type[Operation],
        operands: Sequence[SSAValue],
        types: Sequence[Attribute],
        properties: dict[str, Attribute] | None = None,
        successors: Sequence[Block] = (),
    ) -> Operation:
        """Append an operation."""
        made = kind.create(operands=operands, result_types=types, properties=properties or {}, successors=successors)
        self.block.add_op(made)
        return made

    def value(
        self,
        kind: type[Operation],
        operands: Sequence[SSAValue],
        result: Attribute,
        properties: dict[str, Attribute] | None = None,
    ) -> SSAValue:
        """Append an operation with one result."""
        return self.add(kind, operands, (result,), properties).results[0]

    def integer(self, value: int, kind: IntegerType = i64) -> SSAValue:
        """A constant integer."""
        return self.value(llvm.ConstantOp, (), kind, {"value": integer_attribute(value, kind)})

    def intrinsic(
        self, name: str, operands: Sequence[SSAValue], result: Attribute, flags: llvm.FastMathAttr = NO_FLAGS
    ) -> SSAValue:
        """A call of an intrinsic, mangled with the type of its first operand."""
        properties = _called(mangled(name, operands[0].type), len(operands), flags)
        return self.value(llvm.CallIntrinsicOp, operands, result, dict(properties))

    def call(self, name: str, operands: Sequence[SSAValue], results: Sequence[Attribute]) -> Operation:
        """A call of a function of this module."""
        properties: dict[str, Attribute] = {
            "callee": SymbolRefAttr(name),
            "fastmathFlags": NO_FLAGS,
            "CConv": llvm.CallingConventionAttr("ccc"),
            "TailCallKind": llvm.TailCallKindAttr(llvm.TailCallKind.NONE),
            "op_bundle_sizes": _NONE,
            "operandSegmentSizes": integers(len(operands), 0),
        }
        return self.add(llvm.CallOp, operands, results, properties)

    def address(self, pointer: SSAValue, index: SSAValue, element: Attribute) -> SSAValue:
        """The address of an element."""
        return self.value(llvm.GEPOp, (pointer, index), POINTER, {**_INBOUNDS, "elem_type": element})

    def load(self, address: SSAValue, kind: Attribute, alignment: int | None = None) -> SSAValue:
        """A load."""
        return self.value(llvm.LoadOp, (address,), kind, _access(alignment))

    def store(self, value: SSAValue, address: SSAValue, alignment: int | None = None) -> None:
        """A store."""
        self.add(llvm.StoreOp, (value, address), (), _access(alignment))

    def stack(self, count: int, element: Attribute, alignment: int) -> SSAValue:
        """A stack array, allocated once in the entry block."""
        size = llvm.ConstantOp.create(result_types=(i64,), properties={"value": IntegerAttr(count, i64)})
        properties: dict[str, Attribute] = {"alignment": IntegerAttr(alignment, i64), "elem_type": element}
        memory = llvm.AllocaOp.create(operands=size.results, result_types=(POINTER,), properties=properties)
        first, made = self.blocks[0], (size, memory)
        if first.first_op is None:
            first.add_ops(made)
        else:
            first.insert_ops_before(made, first.first_op)
        return memory.results[0]

    def fresh(self, types: Sequence[Attribute] = ()) -> Block:
        """A new block, not yet inserted."""
        return Block(arg_types=types)

    def begin(self, block: Block) -> None:
        """Insert a block, and continue in it."""
        self.blocks.append(block)
        self.block = block

    def jump(self, target: Block, arguments: Sequence[SSAValue] = ()) -> Operation:
        """An unconditional branch."""
        return self.add(llvm.BrOp, arguments, (), successors=(target,))

    def branch(
        self,
        condition: SSAValue,
        then: Block,
        otherwise: Block,
        arguments: Sequence[SSAValue] = (),
        others: Sequence[SSAValue] = (),
    ) -> None:
        """A conditional branch."""
        sizes = integers(1, len(arguments), len(others))
        operands = (condition, *arguments, *others)
        self.add(llvm.CondBrOp, operands, (), {"operandSegmentSizes": sizes}, (then, otherwise))


# Attributes are cached: making them takes longer than making the operations that have them.


@functools.lru_cache(4096)
def integer_attribute(value: int, kind: IntegerType) -> IntegerAttr[IntegerType]:
    """An integer attribute."""
    return IntegerAttr(value, kind)


@functools.lru_cache(256)
def integers(*values: int) -> DenseArrayBase[IntegerType]:
    """A dense array of 32-bit integers."""
    return DenseArrayBase.from_list(i32, values)


@functools.lru_cache(1024)
def _called(name: str, count: int, flags: llvm.FastMathAttr) -> Mapping[str, Attribute]:
    return {
        "intrin": StringAttr(name),
        "fastmathFlags": flags,
        "op_bundle_sizes": _NONE,
        "operandSegmentSizes": integers(count, 0),
    }


def _access(alignment: int | None) -> dict[str, Attribute]:
    if alignment is None:
        return {"ordering": _ORDINARY}
    return {"ordering": _ORDINARY, "alignment": integer_attribute(alignment, i64)}

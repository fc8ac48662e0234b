"""Lower loops over memory (scf, arith, math, memref, vector) to xDSL's llvm dialect, each function in one walk.

The *parallel region* (the function with the unit attribute ``hybrid.region``) takes memrefs, then scalars, then the
range ``lo, hi`` and its thread's scratch memory. It becomes two functions: ``region.body`` with the same arguments and
noalias pointers, and the exported ``region(buffers, scalars, lo, hi, scratch)``, which loads the pointers and the
8-byte scalars and calls it. Every native function has this signature, so one executor runs them all.

``index`` is i64 and never wraps. A boolean is a byte in memory. Addresses are one index into a pointer.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects import arith, func, llvm, math, memref, scf, vector
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    VectorType,
    bf16,
    f16,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.dialects.utils import FastMathAttrBase, FastMathFlag
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from hybridc.dialects.mlir.arith import RemFOp
from hybridc.dialects.mlir.hybrid import FLOATS
from hybridc.dialects.mlir.new_op import new_op
from hybridc.dtypes import STORED
from hybridc.ground.buffers import ALIGNMENT
from hybridc.lower.llvm.codegen.llvm_ir import (
    CARRIED,
    ENCLOSES,
    INNERMOST,
    LOOP,
    OUTER,
    ROUNDS,
    SUMS,
    FPToSIOp,
    UIToFPOp,
    bits_of,
    mangled,
)

# --- the builder: a map of translated values, and an insertion block --------------------------------------------------


POINTER = llvm.LLVMPointerType()
NO_FLAGS = llvm.FastMathAttr(None)

_INBOUNDS: dict[str, Attribute] = {
    "noWrapFlags": IntegerAttr(3, 32),  # MLIR's flags for inbounds
    "rawConstantIndices": DenseArrayBase.from_list(i32, [llvm.GEP_USE_SSA_VAL]),
    "inbounds": UnitAttr(),
}
_ORDINARY = IntegerAttr(0, i64)  # neither atomic nor ordered
_NONE = DenseArrayBase.from_list(i32, [])


# The integers whose bits storage-only floats are.
_BITS: dict[type[Attribute], Attribute] = {k: IntegerType(t.bits) for k, t in FLOATS.items() if t.dtype in STORED}


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
    return _BITS.get(type(t), t)


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
        made = new_op(kind, operands, types, properties, successors=successors)
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


# --- the pass ---------------------------------------------------------------------------------------------------------


REGION = "region"
REGION_ATTRIBUTE = "hybrid.region"

_VOID = llvm.LLVMVoidType()
_ABI = llvm.LLVMFunctionType([POINTER, POINTER, i64, i64, POINTER], _VOID)
_EXTERNAL, _INTERNAL = llvm.LinkageAttr("external"), llvm.LinkageAttr("internal")


@dataclass(frozen=True)
class LoopsToLLVM(ModulePass):
    """Lower functions of scf, arith, math, memref and vector to the llvm dialect."""

    name = "loops-to-llvm"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in [f for f in op.ops if isinstance(f, func.FuncOp)]:
            for made in _function(function):
                op.body.block.insert_op_before(made, function)
            function.detach()
            function.erase()


def _function(function: func.FuncOp) -> list[llvm.FuncOp]:
    """The llvm functions of a function: itself, and for a parallel region also its exported entry."""
    name = function.sym_name.data
    inputs = [native_type(t) for t in function.function_type.inputs]
    outputs = [native_type(t) for t in function.function_type.outputs]
    if len(outputs) > 1:
        raise PassFailedException(f"function {name} has {len(outputs)} results; native functions have at most one")
    kind = llvm.LLVMFunctionType(inputs, outputs[0] if outputs else _VOID)
    if not function.body.blocks:
        return [llvm.FuncOp(name, kind, linkage=_EXTERNAL)]
    body = Rebuild(RULES).run(function.body.block, inputs)
    if REGION_ATTRIBUTE not in function.attributes:
        return [_private(name, kind, body, "alwaysinline")]
    made = _private(f"{REGION}.body", kind, body, "noinline")
    alone = DictionaryAttr({"llvm.noalias": UnitAttr()})
    made.properties["arg_attrs"] = ArrayAttr([alone if t == POINTER else DictionaryAttr({}) for t in inputs])
    return [made, _entry(kind)]


def _private(name: str, kind: llvm.LLVMFunctionType, body: Region, inlining: str) -> llvm.FuncOp:
    made = llvm.FuncOp(name, kind, linkage=_INTERNAL, body=body)
    made.properties["passthrough"] = ArrayAttr([StringAttr(inlining), StringAttr("nounwind")])
    return made


def _entry(kind: llvm.LLVMFunctionType) -> llvm.FuncOp:
    """The exported entry with the common signature: loads the arguments from their tables."""
    block = Block(arg_types=_ABI.inputs.data)
    buffers, numbers, lo, hi, scratch = block.args
    *given, _, _, _ = kind.inputs.data
    count = sum(t == POINTER for t in given)
    build = Rebuild(RULES, block)
    arguments: list[SSAValue] = []
    for i, t in enumerate(given):
        table, cell = (buffers, i) if i < count else (numbers, i - count)
        arguments.append(build.load(build.address(table, build.integer(cell), i64), t))
    build.call(f"{REGION}.body", (*arguments, lo, hi, scratch), ())
    build.add(llvm.ReturnOp, (), ())
    return llvm.FuncOp(REGION, _ABI, linkage=_EXTERNAL, body=Region([block]))


# --- the lowering of each operation -----------------------------------------------------------------------------------

Rule = Callable[[Rebuild, Any], None]

_SHORT = 16  # the most iterations of a loop that LLVM may unroll as a whole
_FEW = 6  # so few operations are bound by the latency of the carried value
_NO_WRAP = IntegerAttr(llvm.OverflowAttr((llvm.OverflowFlag.NO_SIGNED_WRAP,)).to_int(), 32)
_FLAGS: dict[Attribute, llvm.FastMathAttr] = {}


def _flags(op: Operation) -> llvm.FastMathAttr:
    """The fast-math flags of an operation."""
    given = op.properties.get("fastmath")
    if given is None:
        return NO_FLAGS
    if (known := _FLAGS.get(given)) is None:
        known = _FLAGS[given] = llvm.FastMathAttr(cast(FastMathAttrBase, given).data)
    return known


def _float(kind: type[Operation]) -> Rule:
    def rule(b: Rebuild, op: Operation) -> None:
        result = op.results[0]
        b.values[result] = b.value(kind, b.of(op.operands), result.type, {"fastmathFlags": _flags(op)})

    return rule


def _wrapping(kind: type[Operation]) -> Rule:
    """An integer operation; indices get nsw, other integers their own flags."""

    def rule(b: Rebuild, op: Any) -> None:
        result: SSAValue = op.result
        given = op.properties.get("overflowFlags")
        properties: dict[str, Attribute] = {}
        if isinstance(result.type, IndexType):
            properties["overflowFlags"] = _NO_WRAP
        elif given is not None and given.data:
            flags = llvm.OverflowAttr([llvm.OverflowFlag(f.value) for f in given.data])
            properties["overflowFlags"] = IntegerAttr(flags.to_int(), 32)
        b.values[result] = b.value(kind, b.of(op.operands), native_type(result.type), properties)

    return rule


def _plain(kind: type[Operation]) -> Rule:
    """The operation of the same meaning in the llvm dialect."""

    def rule(b: Rebuild, op: Operation) -> None:
        result = op.results[0]
        b.values[result] = b.value(kind, b.of(op.operands), native_type(result.type))

    return rule


def _intrinsic(name: str) -> Rule:
    def rule(b: Rebuild, op: Operation) -> None:
        result = op.results[0]
        b.values[result] = b.intrinsic(name, b.of(op.operands), native_type(result.type), _flags(op))

    return rule


def _absi(b: Rebuild, op: math.AbsIOp) -> None:
    operand = b.values[op.operands[0]]
    overflows_to_itself = b.integer(0, i1)
    b.values[op.results[0]] = b.intrinsic("llvm.abs", (operand, overflows_to_itself), operand.type)


def _constant(b: Rebuild, op: arith.ConstantOp) -> None:
    kind = native_type(op.result.type)
    value: Attribute = op.value
    if type(op.result.type) in _BITS:
        dtype = FLOATS[type(op.result.type)].dtype
        value = integer_attribute(bits_of(cast(FloatAttr[Any], value).value.data, dtype), kind)
    if isinstance(op.result.type, IndexType):
        value = integer_attribute(cast(IntegerAttr[Any], value).value.data, i64)
    b.values[op.result] = b.value(llvm.ConstantOp, (), kind, {"value": value})


def _cmpi(b: Rebuild, op: arith.CmpiOp) -> None:
    predicate: dict[str, Attribute] = {"predicate": op.predicate}  # the same encoding
    b.values[op.result] = b.value(llvm.ICmpOp, b.of(op.operands), op.result.type, predicate)


def _cmpf(b: Rebuild, op: arith.CmpfOp) -> None:
    properties: dict[str, Attribute] = {"predicate": op.predicate, "fastmathFlags": _flags(op)}
    b.values[op.result] = b.value(llvm.FCmpOp, b.of(op.operands), op.result.type, properties)


def _bitcast(b: Rebuild, op: arith.BitcastOp | vector.BitcastOp) -> None:
    source, result = b.values[op.operands[0]], op.results[0]
    kind = native_type(result.type)
    b.values[result] = source if source.type == kind else b.value(llvm.BitcastOp, (source,), kind)


def _truncf(b: Rebuild, op: arith.TruncFOp) -> None:
    source, kind = b.values[op.input], op.result.type
    if source.type == f64 and kind in (f16, bf16):
        source = _round_to_odd(b, source)
    b.values[op.result] = _brain(b, source) if kind == bf16 else b.value(llvm.FPTruncOp, (source,), kind)


def _extf(b: Rebuild, op: arith.ExtFOp) -> None:
    source, kind = b.values[op.input], op.result.type
    if op.input.type == bf16:  # the upper half of an f32
        bits = b.value(llvm.ZExtOp, (source,), i32)
        bits = b.value(llvm.ShlOp, (bits, b.integer(16, i32)), i32)
        source = b.value(llvm.BitcastOp, (bits,), f32)
    b.values[op.result] = source if source.type == kind else b.value(llvm.FPExtOp, (source,), kind)


def _to_integer(b: Rebuild, op: arith.FPToSIOp | arith.FPToUIOp) -> None:
    """Float to integer, truncating; values that do not fit into 32 or 64 bits are INT_MIN, whose low bits are taken.

    That is what x86's instructions give, and so NumPy. In LLVM it is poison, and differs
    where the float is a constant. For u64 the conversion is signed, with 2**63 subtracted from larger floats.
    """
    source, kind = b.values[op.input], op.result.type
    unsigned, width = isinstance(op, arith.FPToUIOp), _element_of(kind).width.data
    if _element_of(source.type) == f16:  # whose range fits
        source = b.value(llvm.FPExtOp, (source,), _like(source.type, f32))
    bits = 32 if width + unsigned <= 32 else 64
    wide, least = _like(source.type, i32 if bits == 32 else i64), -(2 ** (bits - 1))
    limit = _number(b, -float(least), source.type)
    if not (unsigned and width == 64):
        chosen = _cut(b, source, limit, wide, least)
        b.values[op.result] = chosen if wide == kind else b.value(llvm.TruncOp, (chosen,), kind)
        return
    far = _compare(b, "oge", source, limit)
    moved = b.value(llvm.FSubOp, (source, limit), source.type)
    chosen = _cut(b, b.value(llvm.SelectOp, (far, moved, source), source.type), limit, wide, least)
    upper = b.value(llvm.SelectOp, (far, _number(b, least, wide), _number(b, 0, wide)), wide)
    b.values[op.result] = b.value(llvm.XOrOp, (chosen, upper), wide)


def _cut(b: Rebuild, source: SSAValue, limit: SSAValue, wide: Attribute, least: int) -> SSAValue:
    """Float to signed integer, INT_MIN where its magnitude reaches the limit."""
    within = _compare(b, "olt", b.intrinsic("llvm.fabs", (source,), source.type), limit)
    return b.value(llvm.SelectOp, (within, b.value(FPToSIOp, (source,), wide), _number(b, least, wide)), wide)


def _element_of(kind: Attribute) -> Any:
    """The type of a vector's elements, or of a scalar."""
    return cast("VectorType[Any]", kind).element_type if isinstance(kind, VectorType) else kind


def _like(kind: Attribute, element: Attribute) -> Attribute:
    """A type of other elements: of a vector as long as one, or of a scalar."""
    return VectorType(element, cast("VectorType[Any]", kind).shape) if isinstance(kind, VectorType) else element


def _number(b: Rebuild, value: float, kind: Any) -> SSAValue:
    """A constant of a type; in all lanes of a vector."""
    attribute: Attribute
    if isinstance(kind, VectorType):
        of_lanes: Any = cast("VectorType[Any]", kind)
        attribute = DenseIntOrFPElementsAttr.from_list(of_lanes, [value] * of_lanes.element_count())
    else:
        attribute = FloatAttr(value, kind) if isinstance(value, float) else IntegerAttr(value, kind)
    return b.value(llvm.ConstantOp, (), cast(Attribute, kind), {"value": attribute})


def _brain(b: Rebuild, single: SSAValue) -> SSAValue:
    """The bits of an f32 rounded to bf16: to even, by an addition to the lower half; NaNs stay NaNs.

    Few processors have an instruction for it, and LLVM would call a library function that is not linked.
    """
    bits = b.value(llvm.BitcastOp, (single,), i32)
    high = b.value(llvm.LShrOp, (bits, b.integer(16, i32)), i32)
    odd = b.value(llvm.AndOp, (high, b.integer(1, i32)), i32)
    summed = b.value(llvm.AddOp, (b.value(llvm.AddOp, (bits, b.integer(0x7FFF, i32)), i32), odd), i32)
    rounded = b.value(llvm.LShrOp, (summed, b.integer(16, i32)), i32)
    quiet = b.value(llvm.OrOp, (high, b.integer(0x40, i32)), i32)
    chosen = b.value(llvm.SelectOp, (_compare(b, "uno", single, single), quiet, rounded), i32)
    return b.value(llvm.TruncOp, (chosen,), i16)


def _round_to_odd(b: Rebuild, wide: SSAValue) -> SSAValue:
    """f64 to f32, rounded to odd: then rounding to f16 is exact.

    Few processors convert f64 to f16 directly, and LLVM would call a library function that is not linked.
    """
    near = b.value(llvm.FPTruncOp, (wide,), f32)
    exact = b.value(llvm.FPExtOp, (near,), f64)
    bits = b.value(llvm.BitcastOp, (near,), i32)
    beyond = _compare(b, "ogt", b.intrinsic("llvm.fabs", (exact,), f64), b.intrinsic("llvm.fabs", (wide,), f64))
    cut = b.value(llvm.SubOp, (bits, b.value(llvm.ZExtOp, (beyond,), i32)), i32)
    odd = b.value(llvm.OrOp, (cut, b.integer(1, i32)), i32)
    chosen = b.value(llvm.SelectOp, (_compare(b, "one", exact, wide), odd, bits), i32)
    return b.value(llvm.BitcastOp, (chosen,), f32)


def _compare(b: Rebuild, predicate: str, left: SSAValue, right: SSAValue) -> SSAValue:
    number = integer_attribute(llvm.FCmpPredicateFlag(predicate).to_int(), i64)
    flags: dict[str, Attribute] = {"predicate": number, "fastmathFlags": NO_FLAGS}
    return b.value(llvm.FCmpOp, (left, right), _like(left.type, i1), flags)


def _index_cast(b: Rebuild, op: arith.IndexCastOp) -> None:
    source, kind = b.values[op.input], cast(IntegerType, native_type(op.result.type))
    have, want = cast(IntegerType, source.type).width.data, kind.width.data
    if have != want:
        source = b.value(llvm.SExtOp if have < want else llvm.TruncOp, (source,), kind)
    b.values[op.result] = source


# Memory


def _element(b: Rebuild, base: SSAValue, indices: Sequence[SSAValue]) -> tuple[SSAValue, Attribute]:
    """The address of an element, and its type in memory."""
    kind = cast(MemRefType[Attribute], base.type).element_type
    stored = i8 if kind == i1 else native_type(kind)
    pointer = b.values[base]
    if not indices:
        return pointer, stored
    if len(indices) > 1:
        raise PassFailedException(f"a memref of rank {len(indices)} is not flat, expected rank 0 or 1: {base.type}")
    return b.address(pointer, b.values[indices[0]], stored), stored


def _load(b: Rebuild, op: memref.LoadOp) -> None:
    address, stored = _element(b, op.memref, op.indices)
    value = b.load(address, stored)
    b.values[op.res] = b.value(llvm.TruncOp, (value,), i1) if op.res.type == i1 else value


def _store(b: Rebuild, op: memref.StoreOp) -> None:
    address, _ = _element(b, op.memref, op.indices)
    value = b.values[op.value]
    b.store(b.value(llvm.ZExtOp, (value,), i8) if value.type == i1 else value, address)


def _view(b: Rebuild, op: memref.ViewOp) -> None:
    b.values[op.result] = b.address(b.values[op.source], b.values[op.byte_shift], i8)


def _alloca(b: Rebuild, op: memref.AllocaOp) -> None:
    kind = op.memref.type
    if not kind.has_static_shape():
        raise PassFailedException(f"memref.alloca needs a static shape, got {kind}")
    count = 1
    for size in kind.get_shape():
        count *= size
    stored = i8 if kind.element_type == i1 else native_type(kind.element_type)
    b.values[op.memref] = b.stack(count, stored, ALIGNMENT)


def _vector_load(b: Rebuild, op: vector.LoadOp) -> None:
    address, stored = _element(b, op.base, op.indices)
    b.values[op.result] = b.load(address, op.result.type, _bytes(stored))


def _vector_store(b: Rebuild, op: vector.StoreOp) -> None:
    address, stored = _element(b, op.base, op.indices)
    b.store(b.values[op.vector], address, _bytes(stored))


def _bytes(kind: Attribute) -> int:
    """The alignment of an access: that of an element."""
    return cast(Any, kind).bitwidth // 8


def _broadcast(b: Rebuild, op: vector.BroadcastOp) -> None:
    source, kind = b.values[op.source], native_type(op.vector.type)
    count = cast(VectorType[Any], kind).get_shape()[0]
    nothing = b.value(llvm.UndefOp, (), kind)
    first = b.value(llvm.InsertElementOp, (nothing, source, b.integer(0)), kind)
    mask: dict[str, Attribute] = {"mask": integers(*[0] * count)}
    b.values[op.vector] = b.value(llvm.ShuffleVectorOp, (first, nothing), kind, mask)


def _shuffle(b: Rebuild, op: vector.ShuffleOp) -> None:
    mask: dict[str, Attribute] = {"mask": integers(*map(int, op.mask.get_values()))}
    b.values[op.result] = b.value(llvm.ShuffleVectorOp, b.of((op.v1, op.v2)), op.result.type, mask)


_REDUCE = {
    **{kind: f"llvm.vector.reduce.{kind}" for kind in ("and", "or", "xor")},
    "add": "llvm.vector.reduce.add",
    "mul": "llvm.vector.reduce.mul",
    "minsi": "llvm.vector.reduce.smin",
    "maxsi": "llvm.vector.reduce.smax",
    "minui": "llvm.vector.reduce.umin",
    "maxui": "llvm.vector.reduce.umax",
    "maximumf": "llvm.vector.reduce.fmaximum",
    "minimumf": "llvm.vector.reduce.fminimum",
    "maxnumf": "llvm.vector.reduce.fmax",
    "minnumf": "llvm.vector.reduce.fmin",
}


def _reduction(b: Rebuild, op: vector.ReductionOp) -> None:
    """A horizontal reduction; sums and products of floats begin with the accumulator."""
    kind, operand = op.kind.data.value, b.values[op.vector]
    result: Attribute = op.dest.type
    if type(result) is IntegerType or kind not in ("add", "mul"):
        if op.acc is not None:
            raise PassFailedException(
                f"vector.reduction <{kind}> of {op.vector.type} with an accumulator has no LLVM intrinsic"
            )
        b.values[op.dest] = b.intrinsic(_REDUCE[kind], (operand,), result, _flags(op))
        return
    neutral = FloatAttr(0.0 if kind == "add" else 1.0, cast(Any, result))
    start = b.value(llvm.ConstantOp, (), result, {"value": neutral}) if op.acc is None else b.values[op.acc]
    made = llvm.VectorReduceFAddOp if kind == "add" else llvm.VectorReduceFMulOp
    b.values[op.dest] = b.value(made, (start, operand), result, {"fastmathFlags": _flags(op)})


# Control flow


def _for(b: Rebuild, op: scf.ForOp) -> None:
    lower, upper, step = b.of((op.lb, op.ub, op.step))
    carried = b.of(op.iter_args)
    head, body, done = b.fresh([lower.type, *[v.type for v in carried]]), b.fresh(), b.fresh()
    b.jump(head, (lower, *carried))
    b.begin(head)
    counter = head.args[0]
    b.branch(b.value(llvm.ICmpOp, (counter, upper), i1, {"predicate": _LESS}), body, done)
    b.begin(body)
    b.values.update(zip(op.body.block.args, head.args))
    yielded = b.region(op.body.block)
    following = b.value(llvm.AddOp, (counter, step), counter.type, {"overflowFlags": _NO_WRAP})
    back = b.jump(head, (following, *yielded))
    back.attributes[LOOP] = _kind(op)
    rounds = _rounds(op)
    if rounds is not None:
        back.attributes[ROUNDS] = IntegerAttr(rounds, i64)
    if _encloses_loops(op):
        back.attributes[ENCLOSES] = UnitAttr()
    b.begin(done)
    b.values.update(zip(op.results, head.args[1:]))


def _kind(op: scf.ForOp) -> StringAttr:
    """The loop metadata."""
    inside = [each for each in op.body.block.ops if each.regions]
    if inside:
        return SUMS if any(map(_adds_in_any_order, inside)) else OUTER
    work = sum(type(result.type) is not IndexType for each in op.body.block.ops for result in each.results)
    return CARRIED if op.iter_args and work <= _FEW else INNERMOST


def _rounds(op: scf.ForOp) -> int | None:
    """The trip count, if the bounds are constants."""
    low, high, step = (_constant_of(v) for v in (op.lb, op.ub, op.step))
    return None if low is None or high is None or not step else -(-(high - low) // step)


def _encloses_loops(op: scf.ForOp) -> bool:
    """Whether loops are left inside when LLVM has unrolled the short ones."""
    for each in op.body.block.ops:
        if isinstance(each, scf.ForOp):
            rounds = _rounds(each)
            if rounds is None or rounds > _SHORT or _encloses_loops(each):
                return True
    return False


def _constant_of(value: SSAValue) -> int | None:
    made = value.owner
    known = made.value if isinstance(made, arith.ConstantOp) else None
    return cast("IntegerAttr[Any]", known).value.data if isinstance(known, IntegerAttr) else None


def _adds_in_any_order(op: Operation) -> bool:
    """Whether a loop carries values by reassociable operations."""
    if not isinstance(op, scf.ForOp) or not op.iter_args:
        return False
    flags = (each.properties.get("fastmath") for each in op.body.block.ops)
    return any(isinstance(f, FastMathAttrBase) and FastMathFlag.REASSOC in f.data for f in flags)


_LESS = IntegerAttr(llvm.ICmpPredicateFlag.SLT.to_int(), i64)


def _if(b: Rebuild, op: scf.IfOp) -> None:
    then, done = b.fresh(), b.fresh([native_type(r.type) for r in op.results])
    otherwise = b.fresh() if op.false_region.blocks else done
    b.branch(b.values[op.cond], then, otherwise)
    b.begin(then)
    b.jump(done, b.region(op.true_region.block))
    if op.false_region.blocks:
        b.begin(otherwise)
        b.jump(done, b.region(op.false_region.block))
    b.begin(done)
    b.values.update(zip(op.results, done.args))


def _while(b: Rebuild, op: scf.WhileOp) -> None:
    before, after = op.before_region.block, op.after_region.block
    head = b.fresh([native_type(a.type) for a in before.args])
    body, done = [b.fresh([native_type(r.type) for r in op.results]) for _ in range(2)]
    b.jump(head, b.of(op.arguments))
    b.begin(head)
    b.values.update(zip(before.args, head.args))
    condition, *passed = b.region(before)
    b.branch(condition, body, done, passed, passed)
    b.begin(body)
    b.values.update(zip(after.args, body.args))
    b.jump(head, b.region(after))
    b.begin(done)
    b.values.update(zip(op.results, done.args))


def _call(b: Rebuild, op: func.CallOp) -> None:
    made = b.call(op.callee.string_value(), b.of(op.arguments), [native_type(r.type) for r in op.results])
    b.values.update(zip(op.results, made.results))


def _return(b: Rebuild, op: func.ReturnOp) -> None:
    b.add(llvm.ReturnOp, b.of(op.operands), ())


RULES: dict[type[Operation], Rule] = {
    arith.ConstantOp: _constant,
    arith.AddfOp: _float(llvm.FAddOp),
    arith.SubfOp: _float(llvm.FSubOp),
    arith.MulfOp: _float(llvm.FMulOp),
    arith.DivfOp: _float(llvm.FDivOp),
    arith.NegfOp: _float(llvm.FNegOp),
    RemFOp: _float(llvm.FRemOp),
    arith.MaximumfOp: _intrinsic("llvm.maximum"),
    arith.MinimumfOp: _intrinsic("llvm.minimum"),
    arith.MaxnumfOp: _intrinsic("llvm.maxnum"),
    arith.MinnumfOp: _intrinsic("llvm.minnum"),
    arith.AddiOp: _wrapping(llvm.AddOp),
    arith.SubiOp: _wrapping(llvm.SubOp),
    arith.MuliOp: _wrapping(llvm.MulOp),
    arith.ShLIOp: _wrapping(llvm.ShlOp),
    arith.ShRSIOp: _plain(llvm.AShrOp),
    arith.ShRUIOp: _plain(llvm.LShrOp),
    arith.DivSIOp: _plain(llvm.SDivOp),
    arith.DivUIOp: _plain(llvm.UDivOp),
    arith.RemSIOp: _plain(llvm.SRemOp),
    arith.RemUIOp: _plain(llvm.URemOp),
    arith.AndIOp: _plain(llvm.AndOp),
    arith.OrIOp: _plain(llvm.OrOp),
    arith.XOrIOp: _plain(llvm.XOrOp),
    arith.MaxSIOp: _intrinsic("llvm.smax"),
    arith.MinSIOp: _intrinsic("llvm.smin"),
    arith.MaxUIOp: _intrinsic("llvm.umax"),
    arith.MinUIOp: _intrinsic("llvm.umin"),
    arith.CmpiOp: _cmpi,
    arith.CmpfOp: _cmpf,
    arith.SelectOp: _plain(llvm.SelectOp),
    arith.BitcastOp: _bitcast,
    arith.IndexCastOp: _index_cast,
    arith.ExtFOp: _extf,
    arith.TruncFOp: _truncf,
    arith.ExtSIOp: _plain(llvm.SExtOp),
    arith.ExtUIOp: _plain(llvm.ZExtOp),
    arith.TruncIOp: _plain(llvm.TruncOp),
    arith.SIToFPOp: _plain(llvm.SIToFPOp),
    arith.UIToFPOp: _plain(UIToFPOp),
    arith.FPToSIOp: _to_integer,
    arith.FPToUIOp: _to_integer,
    math.AbsFOp: _intrinsic("llvm.fabs"),
    math.AbsIOp: _absi,
    math.CopySignOp: _intrinsic("llvm.copysign"),
    math.FmaOp: _float(llvm.FMAOp),
    math.FloorOp: _intrinsic("llvm.floor"),
    math.CeilOp: _intrinsic("llvm.ceil"),
    math.TruncOp: _intrinsic("llvm.trunc"),
    math.RoundEvenOp: _intrinsic("llvm.roundeven"),
    math.SqrtOp: _intrinsic("llvm.sqrt"),
    memref.LoadOp: _load,
    memref.StoreOp: _store,
    memref.ViewOp: _view,
    memref.AllocaOp: _alloca,
    vector.LoadOp: _vector_load,
    vector.StoreOp: _vector_store,
    vector.BroadcastOp: _broadcast,
    vector.ShuffleOp: _shuffle,
    vector.BitcastOp: _bitcast,
    vector.FMAOp: _float(llvm.FMAOp),
    vector.ReductionOp: _reduction,
    scf.ForOp: _for,
    scf.IfOp: _if,
    scf.WhileOp: _while,
    func.CallOp: _call,
    func.ReturnOp: _return,
}

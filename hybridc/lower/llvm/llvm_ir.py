"""The llvm dialect as text that LLVM reads.

Written here because xDSL's own way (through llvmlite's IR builder) lacks flags on calls, conversions, bf16 and function
attributes, and takes three times as long. Constants are written where they are used; values are numbered.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Any, cast

from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    ArrayAttr,
    BFloat16Type,
    DenseIntOrFPElementsAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    StringAttr,
    VectorType,
)
from xdsl.dialects.utils import FastMathAttrBase
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.exceptions import LLVMTranslationException

from hybridc.lower.llvm.intrinsics import mangled
from hybridc.lower.llvm.llvm_ops import ELEMENT_BITS, FPToSIOp, FPToUIOp, UIToFPOp


def llvm_ir(modules: Iterable[tuple[ModuleOp, str]], vector_bits: int = 128) -> str:
    """The functions of these modules as one module of LLVM.

    What a module exports gets the name given with it. Functions of several modules that read alike are written once.
    Loops that say what they work on use vectors of so many bits.
    """
    text = _Text(vector_bits)
    for module, symbol in modules:
        _Module(module, symbol, text).write()
    return "\n".join([*text.functions, *text.declarations.values(), *text.metadata, ""])


class _Text:
    """The module that is written."""

    def __init__(self, vector_bits: int) -> None:
        self.vector_bits = vector_bits
        self.functions: list[str] = []
        self.private: dict[tuple[str, str], str] = {}  # name and text of a function → what it is called here
        self.declarations: dict[str, str] = {}
        self.metadata: list[str] = []

    def add(self, name: str, head: str, body: str) -> str:
        """Write a function that nobody outside calls, unless there is one that reads alike; its name."""
        known = self.private.get((name, head + body))
        if known is None:
            known = self.private[name, head + body] = f"{name}.{len(self.private)}"
            self.functions.append(head.replace(f"@{name}(", f"@{known}(", 1) + body)
        return known

    def declare(self, op: llvm.FuncOp) -> None:
        """A function that somebody else has."""
        name = op.sym_name.data
        inputs = ", ".join(_type(t) for t in op.function_type.inputs)
        self.declarations[name] = f"declare {_type(op.function_type.output)} @{name}({inputs})"

    def loop(self, bits: int) -> str:
        """The name of what LLVM is told about a loop: full vectors, one at a time."""
        number = len(self.metadata)
        width, count = (
            f'!{{!"llvm.loop.{key}", i32 {n}}}'
            for key, n in (("vectorize.width", self.vector_bits // bits), ("interleave.count", 1))
        )
        self.metadata += [
            f"!{number} = distinct !{{!{number}, !{number + 1}, !{number + 2}}}",
            f"!{number + 1} = {width}",
            f"!{number + 2} = {count}",
        ]
        return f"!{number}"


class _Module:
    """A module of the llvm dialect whose functions are written, each after those that it calls."""

    def __init__(self, module: ModuleOp, symbol: str, text: _Text) -> None:
        self.functions: dict[str, llvm.FuncOp] = {}
        for op in module.ops:
            if not isinstance(op, llvm.FuncOp):
                raise LLVMTranslationException(f"{op.name} is no function")
            self.functions[op.sym_name.data] = op
        self.symbol = symbol
        self.text = text
        self.names: dict[str, str] = {}

    def write(self) -> None:
        """Write all that is needed for what the module exports."""
        for name, op in self.functions.items():
            if op.body.blocks and op.linkage.linkage.data == "external":
                self.name(name)

    def name(self, name: str) -> str:
        """What a function is called in the text; it is written when somebody asks first."""
        if (known := self.names.get(name)) is None:
            known = self.names[name] = self._write(name)
        return known

    def _write(self, name: str) -> str:
        op = self.functions[name]
        if not op.body.blocks:  # somebody else's
            self.text.declare(op)
            return name
        function = _Function(op, self)
        if op.linkage.linkage.data == "external":
            self.text.functions.append(function.head(self.symbol) + function.body())
            return self.symbol
        head = function.head(name)
        return self.text.add(name, head, function.body())


class _Function:
    """One function while it is written."""

    def __init__(self, op: llvm.FuncOp, module: _Module) -> None:
        self.op = op
        self.module = module
        self.names: dict[SSAValue, str] = {}
        self.blocks: dict[Block, str] = {}
        self.incoming: dict[Block, list[tuple[str, list[str]]]] = {}
        self.lines: list[str] = []

    def head(self, name: str) -> str:
        """The line before the body."""
        op = self.op
        kind = op.function_type
        attributes = op.arg_attrs.data if op.arg_attrs is not None else [None] * len(kind.inputs.data)
        arguments: list[str] = []
        for value, given in zip(op.body.blocks[0].args, attributes):
            self.names[value] = f"%{len(self.names)}"
            marks = "".join(f"{mark.removeprefix('llvm.')} " for mark in (given.data if given else ()))
            arguments.append(f"{_type(value.type)} {marks}{self.names[value]}")
        linkage = "" if op.linkage.linkage.data == "external" else f"{op.linkage.linkage.data} "
        through = op.passthrough.data if isinstance(op.passthrough, ArrayAttr) else ()
        flags = "".join(f" {_attribute(a)}" for a in through)
        width = f'"prefer-vector-width"="{self.module.text.vector_bits}"'
        return f"define {linkage}{_type(kind.output)} @{name}({', '.join(arguments)}){flags} {width} {{\n"

    def body(self) -> str:
        """The lines after the head, which has named the arguments."""
        for i, block in enumerate(self.op.body.blocks):
            self.blocks[block] = f"b{i}"
            for value in block.args if i else ():
                self.names[value] = f"%{len(self.names)}"
            for op in block.ops:
                self._name(op)
        for block in self.op.body.blocks:
            self._leave(block)
        for i, block in enumerate(self.op.body.blocks):
            self.lines.append(f"{self.blocks[block]}:")
            if i:
                self._phis(block)
            for op in block.ops:
                write = _WRITE.get(type(op))
                if write is None:
                    raise LLVMTranslationException(f"{op.name} cannot be written as LLVM IR")
                if (line := write(self, op)) is not None:
                    self.lines.append(line)
        return "\n".join([*self.lines, "}", ""])

    def _name(self, op: Operation) -> None:
        """Results get numbers; constants are their own names."""
        if isinstance(op, llvm.ConstantOp):
            self.names[op.result] = _constant(op.value, op.result.type)
        elif isinstance(op, llvm.UndefOp):
            self.names[op.res] = "undef"
        elif isinstance(op, llvm.ZeroOp):
            self.names[op.res] = "zeroinitializer"
        elif isinstance(op, llvm.AddressOfOp):
            self.names[op.result] = f"@{op.global_name.string_value()}"
        else:
            for result in op.results:
                self.names[result] = f"%{len(self.names)}"

    def _leave(self, block: Block) -> None:
        """Note what the blocks after this one get from it."""
        last = block.last_op
        if isinstance(last, llvm.BrOp):
            self._edge(block, last.successor, last.arguments)
        elif isinstance(last, llvm.CondBrOp):
            self._edge(block, last.then_block, last.then_arguments)
            self._edge(block, last.else_block, last.else_arguments)

    def _edge(self, source: Block, target: Block, values: Iterable[SSAValue]) -> None:
        names = [self.names[v] for v in values]
        self.incoming.setdefault(target, []).append((self.blocks[source], names))

    def _phis(self, block: Block) -> None:
        edges = self.incoming.get(block, [])
        for i, value in enumerate(block.args):
            cases = ", ".join(f"[ {names[i]}, %{label} ]" for label, names in edges)
            self.lines.append(f"  {self.names[value]} = phi {_type(value.type)} {cases}")

    def typed(self, value: SSAValue) -> str:
        """A value with its type before it."""
        return f"{_type(value.type)} {self.names[value]}"

    def result(self, op: Operation) -> str:
        """How a line begins that makes the only result."""
        return f"  {self.names[op.results[0]]} = "

    def call(self, op: Operation, name: str, operands: Iterable[SSAValue], flags: str = "") -> str:
        """A call of a function by its full name."""
        kind = _type(op.results[0].type) if op.results else "void"
        head = self.result(op) if op.results else "  "
        return f"{head}call {flags}{kind} @{name}({', '.join(self.typed(v) for v in operands)})"


def _constant(value: Attribute, kind: Attribute) -> str:
    if isinstance(value, IntegerAttr):
        return _integer(value.value.data, cast(Any, kind))
    if isinstance(value, FloatAttr):
        return _float(value.value.data, kind)
    if isinstance(value, DenseIntOrFPElementsAttr):
        vector = cast(VectorType[Any], kind)
        element: Any = vector.element_type
        write: Callable[[Any, Any], str] = _integer if type(element) is IntegerType else _float
        values = value.get_values()
        if len(values) == 1:
            values = values * vector.get_shape()[0]
        return f"<{', '.join(f'{_type(element)} {write(v, element)}' for v in values)}>"
    raise LLVMTranslationException(f"no constant: {value}")


def _integer(value: int, kind: IntegerType) -> str:
    return str(value & 1) if kind.width.data == 1 else str(value)


def _float(value: float, kind: Attribute) -> str:
    """The bits in hexadecimal; LLVM writes an f32 (which the attribute has rounded) as the double that equals it."""
    if isinstance(kind, (Float32Type, Float64Type)):
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    if isinstance(kind, Float16Type):
        return f"0xH{struct.unpack('<H', struct.pack('<e', value))[0]:04X}"
    if isinstance(kind, BFloat16Type):
        bits = struct.unpack("<I", struct.pack("<f", value))[0]
        return f"0xR{bits + (0x7FFF + (bits >> 16 & 1)) * (value == value) >> 16:04X}"  # the nearest; a NaN stays one
    raise LLVMTranslationException(f"no float: {kind}")


_TYPES: dict[Attribute, str] = {}


def _type(kind: Attribute) -> str:
    if (known := _TYPES.get(kind)) is None:
        known = _TYPES[kind] = _spell(kind)
    return known


_NAMES: dict[type[Attribute], str] = {
    Float16Type: "half",
    BFloat16Type: "bfloat",
    Float32Type: "float",
    Float64Type: "double",
    llvm.LLVMPointerType: "ptr",
    llvm.LLVMVoidType: "void",
}


def _spell(kind: Attribute) -> str:
    if isinstance(kind, IntegerType):
        return f"i{cast(Any, kind).width.data}"
    if isinstance(kind, VectorType):
        vector = cast(VectorType[Any], kind)
        return f"<{vector.get_shape()[0]} x {_type(vector.element_type)}>"
    if isinstance(kind, llvm.LLVMArrayType):
        return f"[{kind.size.data} x {_type(kind.type)}]"
    if isinstance(kind, llvm.LLVMStructType):
        return f"{{ {', '.join(_type(t) for t in kind.types)} }}"
    if (name := _NAMES.get(type(kind))) is None:
        raise LLVMTranslationException(f"LLVM has no type {kind}")
    return name


def _attribute(given: Attribute) -> str:
    if isinstance(given, StringAttr):
        return given.data
    name, value = cast(ArrayAttr[StringAttr], given).data
    return f'"{name.data}"="{value.data}"'


# How operations are written. A line, or None where the operation has none.

_Write = Callable[[_Function, Any], str | None]


def _fast(op: Operation) -> str:
    flags = op.properties.get("fastmathFlags")
    if flags is None:
        return ""
    data = cast(FastMathAttrBase, flags).data
    return "fast " if len(data) == 7 else "".join(f"{f.value} " for f in data)


def _wraps(op: Operation) -> str:
    flags = op.properties.get("overflowFlags")
    if isinstance(flags, IntegerAttr):
        flags = llvm.OverflowAttr.from_int(flags.value.data)
    return "" if flags is None else "".join(f"{f.value} " for f in cast(llvm.OverflowAttr, flags).data)


def _binary(name: str, flags: Callable[[Any], str]) -> _Write:
    def write(f: _Function, op: Operation) -> str:
        left, right = op.operands
        return f"{f.result(op)}{name} {flags(op)}{f.typed(left)}, {f.names[right]}"

    return write


def _convert(name: str, flags: Callable[[Any], str]) -> _Write:
    def write(f: _Function, op: Operation) -> str:
        return f"{f.result(op)}{name} {flags(op)}{f.typed(op.operands[0])} to {_type(op.results[0].type)}"

    return write


def _intrinsic(name: str) -> _Write:
    """The operation is a call of LLVM's own function for the type of its last operand."""

    def write(f: _Function, op: Operation) -> str:
        full = mangled(name, op.operands[-1].type)
        _declare(f, full, op)
        return f.call(op, full, op.operands, _fast(op))

    return write


def _declare(f: _Function, name: str, op: Operation) -> None:
    if name not in f.module.text.declarations:
        kind = _type(op.results[0].type) if op.results else "void"
        f.module.text.declarations[name] = f"declare {kind} @{name}({', '.join(_type(v.type) for v in op.operands)})"


def _call_intrinsic(f: _Function, op: llvm.CallIntrinsicOp) -> str:
    _declare(f, op.intrin.data, op)
    return f.call(op, op.intrin.data, op.operands, _fast(op))


def _call(f: _Function, op: llvm.CallOp) -> str:
    if op.callee is None:
        raise LLVMTranslationException("a call names its function")
    kind = op.results[0].type if op.results else None
    return f.call(op, f.module.name(op.callee.string_value()), op.args, _fast(op) if type(kind) in _FLOATS else "")


_FLOATS = (Float16Type, BFloat16Type, Float32Type, Float64Type)


def _icmp(f: _Function, op: llvm.ICmpOp) -> str:
    predicate = llvm.ICmpPredicateFlag.from_int(op.predicate.value.data).value
    return f"{f.result(op)}icmp {predicate} {f.typed(op.lhs)}, {f.names[op.rhs]}"


def _fcmp(f: _Function, op: llvm.FCmpOp) -> str:
    predicate = llvm.FCmpPredicateFlag.from_int(op.predicate.value.data).value.removeprefix("_")
    return f"{f.result(op)}fcmp {_fast(op)}{predicate} {f.typed(op.lhs)}, {f.names[op.rhs]}"


def _negative(f: _Function, op: llvm.FNegOp) -> str:
    return f"{f.result(op)}fneg {_fast(op)}{f.typed(op.arg)}"


def _select(f: _Function, op: llvm.SelectOp) -> str:
    return f"{f.result(op)}select {', '.join(f.typed(v) for v in op.operands)}"


def _alloca(f: _Function, op: llvm.AllocaOp) -> str:
    return f"{f.result(op)}alloca {_type(op.elem_type)}, {f.typed(op.size)}{_alignment(op.alignment)}"


def _load(f: _Function, op: llvm.LoadOp) -> str:
    kind = _type(op.dereferenced_value.type)
    return f"{f.result(op)}load {kind}, {f.typed(op.ptr)}{_alignment(op.alignment)}"


def _store(f: _Function, op: llvm.StoreOp) -> str:
    return f"  store {f.typed(op.value)}, {f.typed(op.ptr)}{_alignment(op.alignment)}"


def _alignment(given: IntegerAttr[IntegerType] | IntegerAttr[Any] | None) -> str:
    return "" if given is None else f", align {given.value.data}"


def _address(f: _Function, op: llvm.GEPOp) -> str:
    values = iter(op.ssa_indices)
    indices = [
        f.typed(next(values)) if i == llvm.GEP_USE_SSA_VAL else f"i32 {i}" for i in op.rawConstantIndices.iter_values()
    ]
    inside = "inbounds " if op.inbounds is not None else ""
    return f"{f.result(op)}getelementptr {inside}{_type(op.elem_type)}, {f.typed(op.ptr)}, {', '.join(indices)}"


def _extract_value(f: _Function, op: llvm.ExtractValueOp) -> str:
    return f"{f.result(op)}extractvalue {f.typed(op.container)}, {', '.join(map(str, op.position.iter_values()))}"


def _insert_value(f: _Function, op: llvm.InsertValueOp) -> str:
    place = ", ".join(map(str, op.position.iter_values()))
    return f"{f.result(op)}insertvalue {f.typed(op.container)}, {f.typed(op.value)}, {place}"


def _insert_element(f: _Function, op: llvm.InsertElementOp) -> str:
    return f"{f.result(op)}insertelement {f.typed(op.vector)}, {f.typed(op.value)}, {f.typed(op.index)}"


def _shuffle(f: _Function, op: llvm.ShuffleVectorOp) -> str:
    mask = [int(i) for i in op.mask.get_values()]
    places = ", ".join(f"i32 {i}" for i in mask)
    return f"{f.result(op)}shufflevector {f.typed(op.v1)}, {f.typed(op.v2)}, <{len(mask)} x i32> <{places}>"


def _jump(f: _Function, op: llvm.BrOp) -> str:
    bits = op.attributes.get(ELEMENT_BITS)
    hint = f", !llvm.loop {f.module.text.loop(cast(Any, bits).value.data)}" if bits is not None else ""
    return f"  br label %{f.blocks[op.successor]}{hint}"


def _branch(f: _Function, op: llvm.CondBrOp) -> str:
    return f"  br {f.typed(op.cond)}, label %{f.blocks[op.then_block]}, label %{f.blocks[op.else_block]}"


def _return(f: _Function, op: llvm.ReturnOp) -> str:
    return f"  ret {f.typed(op.operands[0])}" if op.operands else "  ret void"


def _unreachable(f: _Function, op: llvm.UnreachableOp) -> str:  # noqa: ARG001 - the interface of every writer
    return "  unreachable"


def _nothing(f: _Function, op: Operation) -> None:  # noqa: ARG001 - the interface of every writer
    return None


def _exact(op: Any) -> str:
    return "exact " if op.is_exact is not None else ""


def _disjoint(op: llvm.OrOp) -> str:
    return "disjoint " if op.is_disjoint is not None else ""


def _sign_known(op: llvm.ZExtOp) -> str:
    return "nneg " if op.non_neg is not None else ""


def _no_flags(op: Operation) -> str:  # noqa: ARG001 - the interface of flags
    return ""


def _short(kind: type[Operation]) -> str:
    """LLVM's word for an operation."""
    return kind.name.removeprefix("llvm.").removeprefix("intr.")


_WRITE: dict[type[Operation], _Write] = {
    **{k: _binary(_short(k), _fast) for k in (llvm.FAddOp, llvm.FSubOp, llvm.FMulOp, llvm.FDivOp, llvm.FRemOp)},
    **{k: _binary(_short(k), _wraps) for k in (llvm.AddOp, llvm.SubOp, llvm.MulOp, llvm.ShlOp)},
    **{k: _binary(_short(k), _exact) for k in (llvm.UDivOp, llvm.SDivOp, llvm.LShrOp, llvm.AShrOp)},
    **{k: _binary(_short(k), _no_flags) for k in (llvm.URemOp, llvm.SRemOp, llvm.AndOp, llvm.XOrOp)},
    llvm.OrOp: _binary("or", _disjoint),
    **{
        k: _convert(_short(k), _no_flags)
        for k in (
            *(llvm.SExtOp, llvm.BitcastOp, llvm.FPExtOp, llvm.FPTruncOp, llvm.SIToFPOp, llvm.PtrToIntOp),
            *(llvm.IntToPtrOp, UIToFPOp, FPToSIOp, FPToUIOp),
        )
    },
    llvm.TruncOp: _convert("trunc", _wraps),
    llvm.ZExtOp: _convert("zext", _sign_known),
    **{
        k: _intrinsic(f"llvm.{_short(k)}")
        for k in (
            *(llvm.FAbsOp, llvm.FCeilOp, llvm.FSqrtOp, llvm.FFloorOp, llvm.FCopySignOp, llvm.FMAOp),
            *(llvm.VectorFMaxOp, llvm.VectorFMinOp, llvm.VectorReduceFAddOp, llvm.VectorReduceFMulOp),
        )
    },
    llvm.CallIntrinsicOp: _call_intrinsic,
    llvm.CallOp: _call,
    llvm.ICmpOp: _icmp,
    llvm.FCmpOp: _fcmp,
    llvm.FNegOp: _negative,
    llvm.SelectOp: _select,
    llvm.AllocaOp: _alloca,
    llvm.LoadOp: _load,
    llvm.StoreOp: _store,
    llvm.GEPOp: _address,
    llvm.ExtractValueOp: _extract_value,
    llvm.InsertValueOp: _insert_value,
    llvm.InsertElementOp: _insert_element,
    llvm.ShuffleVectorOp: _shuffle,
    llvm.BrOp: _jump,
    llvm.CondBrOp: _branch,
    llvm.ReturnOp: _return,
    llvm.UnreachableOp: _unreachable,
    **dict.fromkeys((llvm.ConstantOp, llvm.UndefOp, llvm.ZeroOp, llvm.AddressOfOp), _nothing),
}

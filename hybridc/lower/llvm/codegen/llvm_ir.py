"""Print the llvm dialect as LLVM IR: modules, functions, types, constants, operations.

xDSL's own printer (through llvmlite's IR builder) lacks flags on calls, conversions, bf16 and function
attributes, and takes three times as long. Constants are printed inline; values are numbered.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Iterable
from typing import Any, cast

import numpy as np
from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    Float32Type,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    StringAttr,
    VectorType,
)
from xdsl.dialects.llvm import LLVM, GenericCastOp, LLVMPointerType
from xdsl.dialects.utils import FastMathAttrBase
from xdsl.ir import Attribute, Block, Dialect, Operation, SSAValue
from xdsl.irdl import irdl_op_definition
from xdsl.utils.exceptions import LLVMTranslationException

from hybridc.dialects.mlir.hybrid import FLOATS

# --- operations that xDSL's dialect lacks -----------------------------------------------------------------------------


# Attributes of a back edge: whether the loop is an outer one of an accumulation, or carries values by
# a few operations; its trip count, if that is known; and whether it has loops inside that are not short.
LOOP, ROUNDS, ENCLOSES = "hybrid.loop", "hybrid.rounds", "hybrid.encloses"
INNERMOST, CARRIED, OUTER, SUMS = map(StringAttr, ("innermost", "carried", "outer", "sums"))


@irdl_op_definition
class FPToSIOp(GenericCastOp):
    """Float to signed integer, truncating; poison if it does not fit."""

    name = "llvm.fptosi"


@irdl_op_definition
class UIToFPOp(GenericCastOp):
    """Unsigned integer to the nearest float."""

    name = "llvm.uitofp"


NativeLLVM = Dialect("llvm", [*LLVM.operations, FPToSIOp, UIToFPOp], [*LLVM.attributes])


# --- modules and functions --------------------------------------------------------------------------------------------


_NOT_UNROLLED, _NEVER_UNROLLED = '!"llvm.loop.unroll.runtime.disable"', '!"llvm.loop.unroll.disable"'
_MANY_REGISTERS = 512  # vectors of so many bits have 32 registers
_LONG = 16  # vector iterations after which the scalar remainder is negligible
# Iterations of loops that LLVM does not vectorise unless it is told to, but that fill vectors.
_SHORT = (8, 12)


def llvm_ir(modules: Iterable[tuple[ModuleOp, str]], vector_bits: int = 128) -> str:
    """The functions of these modules as one LLVM module.

    What a module exports gets the name given with it. Equal private functions of several modules are printed once.
    ``vector_bits`` is the width of vectors.
    """
    text = _Text(vector_bits)
    for module, symbol in modules:
        _Module(module, symbol, text).write()
    return "\n".join([*text.functions, *text.declarations.values(), *text.metadata, ""])


class _Text:
    """The LLVM module that is printed."""

    def __init__(self, vector_bits: int) -> None:
        self.vector_bits = vector_bits
        self.functions: list[str] = []
        self.private: dict[tuple[str, str], str] = {}  # name and text of a function → its symbol here
        self.declarations: dict[str, str] = {}
        self.metadata: list[str] = []
        self.properties: dict[str, str] = {}  # metadata nodes, and their names

    def add(self, name: str, head: str, body: str) -> str:
        """Print a private function, unless an equal one is there; its symbol."""
        known = self.private.get((name, head + body))
        if known is None:
            known = self.private[name, head + body] = f"{name}.{len(self.private)}"
            self.functions.append(head.replace(f"@{name}(", f"@{known}(", 1) + body)
        return known

    def declare(self, op: llvm.FuncOp) -> None:
        """Declare an external function."""
        name = op.sym_name.data
        inputs = ", ".join(type_text(t) for t in op.function_type.inputs)
        self.declarations[name] = f"declare {type_text(op.function_type.output)} @{name}({inputs})"

    def loop(self, kind: Attribute, rounds: Attribute | None, encloses: bool) -> str:
        """The loop metadata: the interleave count, or no vectorisation, and what LLVM may unroll.

        Interleaved vectors hide latencies. LLVM's default is higher, which makes twice the code, takes
        twice the time to compile, and runs as fast at best. A loop that accumulates is not vectorised over its
        iterations: the remainder would be added in another order, and results would depend on where a range is cut. A
        short loop may be unrolled, for the vectoriser, but not with loops inside: that makes several copies of these.
        """
        known = rounds.value.data if isinstance(rounds, IntegerAttr) else None
        unroll = _NEVER_UNROLLED if encloses else _NOT_UNROLLED
        if kind == OUTER:
            return self._metadata(unroll)
        if kind == SUMS:
            return self._metadata(unroll, '!"llvm.loop.vectorize.enable", i1 false')
        properties = [_NOT_UNROLLED, f'!"llvm.loop.interleave.count", i32 {self._abreast(kind, known)}']
        if known is not None and known in _SHORT:
            width = min(known & -known, self.vector_bits // 32)
            properties += ['!"llvm.loop.vectorize.enable", i1 true', f'!"llvm.loop.vectorize.width", i32 {width}']
        return self._metadata(*properties)

    def _abreast(self, kind: Attribute, rounds: int | None) -> int:
        """The interleave count: lower where the scalar remainder would be long."""
        abreast = 4 if kind == CARRIED else 2 if self.vector_bits >= _MANY_REGISTERS else 1
        lanes = self.vector_bits // 32
        while abreast > 1 and rounds is not None and rounds < _LONG * abreast * lanes and rounds % (abreast * lanes):
            abreast //= 2
        return abreast

    def _metadata(self, *properties: str) -> str:
        """The name of a distinct metadata node; equal properties are printed once."""
        names: list[str] = []
        for each in properties:
            if each not in self.properties:
                self.properties[each] = self._number(f"!{{{each}}}")
            names.append(self.properties[each])
        number = f"!{len(self.metadata)}"
        self.metadata.append(f"{number} = distinct !{{{', '.join((number, *names))}}}")
        return number

    def _number(self, text: str) -> str:
        name = f"!{len(self.metadata)}"
        self.metadata.append(f"{name} = {text}")
        return name


class _Module:
    """A module of the llvm dialect; each function is printed after its callees."""

    def __init__(self, module: ModuleOp, symbol: str, text: _Text) -> None:
        self.functions: dict[str, llvm.FuncOp] = {}
        for op in module.ops:
            if not isinstance(op, llvm.FuncOp):
                raise LLVMTranslationException(f"a module of the llvm dialect holds llvm.func only, got {op.name}")
            self.functions[op.sym_name.data] = op
        self.symbol = symbol
        self.text = text
        self.names: dict[str, str] = {}

    def write(self) -> None:
        """Print the exported function and all that it needs."""
        for name, op in self.functions.items():
            if op.body.blocks and op.linkage.linkage.data == "external":
                self.name(name)

    def name(self, name: str) -> str:
        """The symbol of a function, which is printed on first use."""
        if (known := self.names.get(name)) is None:
            known = self.names[name] = self._write(name)
        return known

    def _write(self, name: str) -> str:
        op = self.functions[name]
        if not op.body.blocks:  # external
            self.text.declare(op)
            return name
        function = LLVMFunction(op, self)
        if op.linkage.linkage.data == "external":
            self.text.functions.append(function.head(self.symbol) + function.body())
            return self.symbol
        head = function.head(name)
        return self.text.add(name, head, function.body())


class LLVMFunction:
    """One function that is printed."""

    def __init__(self, op: llvm.FuncOp, module: _Module) -> None:
        self.op = op
        self.module = module
        self.names: dict[SSAValue, str] = {}
        self.typed: dict[SSAValue, str] = {}  # operands with their types
        self.blocks: dict[Block, str] = {}
        self.incoming: dict[Block, list[tuple[str, list[str]]]] = {}
        self.lines: list[str] = []

    def head(self, name: str) -> str:
        """The ``define`` line."""
        op = self.op
        kind = op.function_type
        attributes = op.arg_attrs.data if op.arg_attrs is not None else [None] * len(kind.inputs.data)
        arguments: list[str] = []
        for value, given in zip(op.body.blocks[0].args, attributes):
            self._number(value)
            marks = "".join(f"{mark.removeprefix('llvm.')} " for mark in (given.data if given else ()))
            arguments.append(f"{type_text(value.type)} {marks}{self.names[value]}")
        linkage = "" if op.linkage.linkage.data == "external" else f"{op.linkage.linkage.data} "
        through = op.passthrough.data if isinstance(op.passthrough, ArrayAttr) else ()
        flags = "".join(f" {attribute_text(a)}" for a in through)
        width = f'"prefer-vector-width"="{self.module.text.vector_bits}"'
        return f"define {linkage}{type_text(kind.output)} @{name}({', '.join(arguments)}){flags} {width} {{\n"

    def body(self) -> str:
        """The lines after the head, which has named the arguments."""
        blocks = [(block, list(block.ops)) for block in self.op.body.blocks]
        for i, (block, ops) in enumerate(blocks):
            self.blocks[block] = f"b{i}"
            for value in block.args if i else ():
                self._number(value)
            for op in ops:
                self._name(op)
        for block, _ in blocks:
            self._leave(block)
        for i, (block, ops) in enumerate(blocks):
            self.lines.append(f"{self.blocks[block]}:")
            if i:
                self._phis(block)
            for op in ops:
                write = WRITE.get(type(op))
                if write is None:
                    raise LLVMTranslationException(f"{op.name} cannot be printed as LLVM IR")
                if (line := write(self, op)) is not None:
                    self.lines.append(line)
        return "\n".join([*self.lines, "}", ""])

    def _name(self, op: Operation) -> None:
        """Number the results; a constant's name is its text."""
        known = CONSTANTS.get(type(op))
        if known is not None:
            self._put(op.results[0], known(op))
            return
        for result in op.results:
            self._number(result)

    def _number(self, value: SSAValue) -> None:
        self._put(value, f"%{len(self.names)}")

    def _put(self, value: SSAValue, name: str) -> None:
        self.names[value] = name
        self.typed[value] = f"{type_text(value.type)} {name}"

    def _leave(self, block: Block) -> None:
        """Record the phi operands that this block passes to its successors."""
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
            self.lines.append(f"  {self.names[value]} = phi {type_text(value.type)} {cases}")

    def result(self, op: Operation) -> str:
        """``%n = `` of an operation with one result."""
        return f"  {self.names[op.results[0]]} = "

    def call(self, op: Operation, name: str, operands: Iterable[SSAValue], flags: str = "") -> str:
        """A call of a function by its symbol."""
        kind = type_text(op.results[0].type) if op.results else "void"
        head = self.result(op) if op.results else "  "
        return f"{head}call {flags}{kind} @{name}({', '.join(self.typed[v] for v in operands)})"


# --- types, constants and function attributes -------------------------------------------------------------------------


def constant_text(value: Attribute, kind: Attribute) -> str:
    """A constant of a type."""
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
        return f"<{', '.join(f'{type_text(element)} {write(v, element)}' for v in values)}>"
    raise LLVMTranslationException(f"{value} cannot be printed as an LLVM constant; expected a number or a vector")


def _integer(value: int, kind: IntegerType) -> str:
    return str(value & 1) if kind.width.data == 1 else str(value)


_PREFIXES = {"half": "0xH", "bfloat": "0xR"}  # of the bits of a constant


def _float(value: float, kind: Attribute) -> str:
    """The bits in hexadecimal; LLVM writes an f32 (which the attribute has rounded) as the double that equals it."""
    if isinstance(kind, (Float32Type, Float64Type)):
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    if (known := FLOATS.get(type(kind))) is not None and known.llvm in _PREFIXES:
        return f"{_PREFIXES[known.llvm]}{bits_of(value, known.dtype):04X}"
    raise LLVMTranslationException(f"{kind} is not a floating-point type of LLVM")


def bits_of(value: float, dtype: np.dtype[Any]) -> int:
    """The bits of the nearest number of a dtype."""
    return int(np.asarray(value, dtype).view(f"u{dtype.itemsize}"))


_TYPES: dict[Attribute, str] = {}


def type_text(kind: Attribute) -> str:
    """The text of a type."""
    if (known := _TYPES.get(kind)) is None:
        known = _TYPES[kind] = _spell(kind)
    return known


_NAMES: dict[type[Attribute], str] = {
    **{kind: t.llvm for kind, t in FLOATS.items()},
    llvm.LLVMPointerType: "ptr",
    llvm.LLVMVoidType: "void",
}


def _spell(kind: Attribute) -> str:
    if isinstance(kind, IntegerType):
        return f"i{cast(Any, kind).width.data}"
    if isinstance(kind, VectorType):
        vector = cast(VectorType[Any], kind)
        return f"<{vector.get_shape()[0]} x {type_text(vector.element_type)}>"
    if isinstance(kind, llvm.LLVMArrayType):
        return f"[{kind.size.data} x {type_text(kind.type)}]"
    if isinstance(kind, llvm.LLVMStructType):
        return f"{{ {', '.join(type_text(t) for t in kind.types)} }}"
    if (name := _NAMES.get(type(kind))) is None:
        raise LLVMTranslationException(f"{kind} is not a type of LLVM")
    return name


def attribute_text(given: Attribute) -> str:
    """A function attribute: a keyword, or a name and a value."""
    if isinstance(given, StringAttr):
        return given.data
    name, value = cast(ArrayAttr[StringAttr], given).data
    return f'"{name.data}"="{value.data}"'


# --- names of intrinsics ----------------------------------------------------------------------------------------------


@functools.lru_cache(1024)
def mangled(name: str, kind: Attribute) -> str:
    """The name of an intrinsic for a type: ``llvm.fma`` and ``vector<8xf32>`` make ``llvm.fma.v8f32``."""
    return f"{name}.{_suffix(kind)}"


def _suffix(kind: Attribute) -> str:
    if isinstance(kind, IntegerType):
        return f"i{cast(Any, kind).width.data}"
    if isinstance(kind, VectorType):
        vector = cast(VectorType[Any], kind)
        return f"v{vector.get_shape()[0]}{_suffix(vector.element_type)}"
    if isinstance(kind, LLVMPointerType):
        return "p0"
    return FLOATS[type(kind)].ir


# --- operations -------------------------------------------------------------------------------------------------------


Write = Callable[["LLVMFunction", Any], str | None]


def _fast(op: Operation) -> str:
    flags = op.properties.get("fastmathFlags")
    return "" if flags is None else _flags(cast(FastMathAttrBase, flags))


@functools.lru_cache(64)
def _flags(flags: FastMathAttrBase) -> str:
    return "fast " if len(flags.data) == 7 else "".join(f"{f.value} " for f in flags.data)


def _wraps(op: Operation) -> str:
    flags = op.properties.get("overflowFlags")
    if isinstance(flags, IntegerAttr):
        flags = llvm.OverflowAttr.from_int(flags.value.data)
    return "" if flags is None else "".join(f"{f.value} " for f in cast(llvm.OverflowAttr, flags).data)


def _binary(name: str, flags: Callable[[Any], str]) -> Write:
    def write(f: LLVMFunction, op: Operation) -> str:
        left, right = op.operands
        return f"{f.result(op)}{name} {flags(op)}{f.typed[left]}, {f.names[right]}"

    return write


def _convert(name: str, flags: Callable[[Any], str]) -> Write:
    def write(f: LLVMFunction, op: Operation) -> str:
        return f"{f.result(op)}{name} {flags(op)}{f.typed[op.operands[0]]} to {type_text(op.results[0].type)}"

    return write


def _intrinsic(name: str) -> Write:
    """A call of an intrinsic, mangled with the type of the last operand."""

    def write(f: LLVMFunction, op: Operation) -> str:
        full = mangled(name, op.operands[-1].type)
        _declare(f, full, op)
        return f.call(op, full, op.operands, _fast(op))

    return write


def _declare(f: LLVMFunction, name: str, op: Operation) -> None:
    if name not in f.module.text.declarations:
        kind = type_text(op.results[0].type) if op.results else "void"
        f.module.text.declarations[name] = (
            f"declare {kind} @{name}({', '.join(type_text(v.type) for v in op.operands)})"
        )


def _call_intrinsic(f: LLVMFunction, op: llvm.CallIntrinsicOp) -> str:
    _declare(f, op.intrin.data, op)
    return f.call(op, op.intrin.data, op.operands, _fast(op))


def _call(f: LLVMFunction, op: llvm.CallOp) -> str:
    if op.callee is None:
        raise LLVMTranslationException(f"{op.name} must name its callee; indirect calls are not supported")
    kind = op.results[0].type if op.results else None
    return f.call(op, f.module.name(op.callee.string_value()), op.args, _fast(op) if type(kind) in FLOATS else "")


def _icmp(f: LLVMFunction, op: llvm.ICmpOp) -> str:
    predicate = llvm.ICmpPredicateFlag.from_int(op.predicate.value.data).value
    return f"{f.result(op)}icmp {predicate} {f.typed[op.lhs]}, {f.names[op.rhs]}"


def _fcmp(f: LLVMFunction, op: llvm.FCmpOp) -> str:
    predicate = llvm.FCmpPredicateFlag.from_int(op.predicate.value.data).value.removeprefix("_")
    return f"{f.result(op)}fcmp {_fast(op)}{predicate} {f.typed[op.lhs]}, {f.names[op.rhs]}"


def _negative(f: LLVMFunction, op: llvm.FNegOp) -> str:
    return f"{f.result(op)}fneg {_fast(op)}{f.typed[op.arg]}"


def _select(f: LLVMFunction, op: llvm.SelectOp) -> str:
    return f"{f.result(op)}select {', '.join(f.typed[v] for v in op.operands)}"


def _alloca(f: LLVMFunction, op: llvm.AllocaOp) -> str:
    return f"{f.result(op)}alloca {type_text(op.elem_type)}, {f.typed[op.size]}{_alignment(op)}"


def _load(f: LLVMFunction, op: llvm.LoadOp) -> str:
    kind = type_text(op.results[0].type)
    return f"{f.result(op)}load {kind}, {f.typed[op.operands[0]]}{_alignment(op)}"


def _store(f: LLVMFunction, op: llvm.StoreOp) -> str:
    value, place = op.operands
    return f"  store {f.typed[value]}, {f.typed[place]}{_alignment(op)}"


def _alignment(op: Operation) -> str:
    given = op.properties.get("alignment")
    return f", align {given.value.data}" if isinstance(given, IntegerAttr) else ""


def _address(f: LLVMFunction, op: llvm.GEPOp) -> str:
    base, *indices = op.operands
    known = iter(indices)
    places = [
        f.typed[next(known)] if i == llvm.GEP_USE_SSA_VAL else f"i32 {i}" for i in op.rawConstantIndices.iter_values()
    ]
    inside = "inbounds " if "inbounds" in op.properties else ""
    return f"{f.result(op)}getelementptr {inside}{type_text(op.elem_type)}, {f.typed[base]}, {', '.join(places)}"


def _extract_value(f: LLVMFunction, op: llvm.ExtractValueOp) -> str:
    return f"{f.result(op)}extractvalue {f.typed[op.container]}, {', '.join(map(str, op.position.iter_values()))}"


def _insert_value(f: LLVMFunction, op: llvm.InsertValueOp) -> str:
    place = ", ".join(map(str, op.position.iter_values()))
    return f"{f.result(op)}insertvalue {f.typed[op.container]}, {f.typed[op.value]}, {place}"


def _insert_element(f: LLVMFunction, op: llvm.InsertElementOp) -> str:
    return f"{f.result(op)}insertelement {f.typed[op.vector]}, {f.typed[op.value]}, {f.typed[op.index]}"


def _shuffle(f: LLVMFunction, op: llvm.ShuffleVectorOp) -> str:
    mask = [int(i) for i in op.mask.get_values()]
    places = ", ".join(f"i32 {i}" for i in mask)
    return f"{f.result(op)}shufflevector {f.typed[op.v1]}, {f.typed[op.v2]}, <{len(mask)} x i32> <{places}>"


def _jump(f: LLVMFunction, op: llvm.BrOp) -> str:
    loop = op.attributes.get(LOOP)
    hint = ""
    if loop is not None:
        hint = f", !llvm.loop {f.module.text.loop(loop, op.attributes.get(ROUNDS), ENCLOSES in op.attributes)}"
    return f"  br label %{f.blocks[op.successor]}{hint}"


def _branch(f: LLVMFunction, op: llvm.CondBrOp) -> str:
    return f"  br {f.typed[op.cond]}, label %{f.blocks[op.then_block]}, label %{f.blocks[op.else_block]}"


def _return(f: LLVMFunction, op: llvm.ReturnOp) -> str:
    return f"  ret {f.typed[op.operands[0]]}" if op.operands else "  ret void"


def _unreachable(f: LLVMFunction, op: llvm.UnreachableOp) -> str:  # noqa: ARG001 - the interface of every writer
    return "  unreachable"


def _nothing(f: LLVMFunction, op: Operation) -> None:  # noqa: ARG001 - the interface of every writer
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
    """LLVM's mnemonic of an operation."""
    return kind.name.removeprefix("llvm.").removeprefix("intr.")


# Operations without a line of their own, which are printed inline.
CONSTANTS: dict[type[Operation], Callable[[Any], str]] = {
    llvm.ConstantOp: lambda op: constant_text(op.properties["value"], op.results[0].type),
    llvm.UndefOp: lambda _: "undef",
    llvm.ZeroOp: lambda _: "zeroinitializer",
    llvm.AddressOfOp: lambda op: f"@{op.global_name.string_value()}",
}

WRITE: dict[type[Operation], Write] = {
    **{k: _binary(_short(k), _fast) for k in (llvm.FAddOp, llvm.FSubOp, llvm.FMulOp, llvm.FDivOp, llvm.FRemOp)},
    **{k: _binary(_short(k), _wraps) for k in (llvm.AddOp, llvm.SubOp, llvm.MulOp, llvm.ShlOp)},
    **{k: _binary(_short(k), _exact) for k in (llvm.UDivOp, llvm.SDivOp, llvm.LShrOp, llvm.AShrOp)},
    **{k: _binary(_short(k), _no_flags) for k in (llvm.URemOp, llvm.SRemOp, llvm.AndOp, llvm.XOrOp)},
    llvm.OrOp: _binary("or", _disjoint),
    **{
        k: _convert(_short(k), _no_flags)
        for k in (
            *(llvm.SExtOp, llvm.BitcastOp, llvm.FPExtOp, llvm.FPTruncOp, llvm.SIToFPOp, llvm.PtrToIntOp),
            *(llvm.IntToPtrOp, UIToFPOp, FPToSIOp),
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
    **dict.fromkeys(CONSTANTS, _nothing),
}


# --- half-precision conversions ---------------------------------------------------------------------------------------


def half_functions() -> str:
    """The conversions between half and single as LLVM IR, for processors without instructions for them.

    LLVM calls these two functions of compiler-rt there, which a process may lack; they are added to the module.
    """
    return _EXTEND + _TRUNCATE


# Half's bits shifted left by 13 are single's but for the bias, which a multiplication corrects, subnormal or not.
_EXTEND = f"""
define weak hidden float @__extendhfsf2(half %x) nounwind {{
  %short = bitcast half %x to i16
  %bits = zext i16 %short to i32
  %size = and i32 %bits, {0x7FFF}
  %moved = shl i32 %size, 13
  %unscaled = bitcast i32 %moved to float
  %scaled = fmul float %unscaled, 0x46F0000000000000
  %finite = bitcast float %scaled to i32
  %other = or i32 %moved, {0x7F800000}
  %is_finite = icmp ult i32 %size, {0x7C00}
  %result = select i1 %is_finite, i32 %finite, i32 %other
  %sign = and i32 %bits, {0x8000}
  %high = shl i32 %sign, 16
  %whole = or i32 %result, %high
  %single = bitcast i32 %whole to float
  ret float %single
}}
"""

# Rounded to even by an addition below the last place. A subnormal is in the lowest bits of a sum with 1/2.
_TRUNCATE = f"""
define weak hidden half @__truncsfhf2(float %x) nounwind {{
  %bits = bitcast float %x to i32
  %size = and i32 %bits, {0x7FFFFFFF}
  %cut = lshr i32 %size, 13
  %odd = and i32 %cut, 1
  %biased = add i32 %size, {((15 - 127) << 23) + 0xFFF}
  %rounded = add i32 %biased, %odd
  %normal = lshr i32 %rounded, 13
  %absolute = bitcast i32 %size to float
  %summed = fadd float %absolute, 5.0e-01
  %shifted = bitcast float %summed to i32
  %subnormal = sub i32 %shifted, {0x3F000000}
  %is_small = icmp ult i32 %size, {0x38800000}
  %finite = select i1 %is_small, i32 %subnormal, i32 %normal
  %is_nan = icmp ugt i32 %size, {0x7F800000}
  %other = select i1 %is_nan, i32 {0x7E00}, i32 {0x7C00}
  %is_great = icmp uge i32 %size, {0x47800000}
  %result = select i1 %is_great, i32 %other, i32 %finite
  %shift = lshr i32 %bits, 16
  %sign = and i32 %shift, {0x8000}
  %whole = or i32 %result, %sign
  %short = trunc i32 %whole to i16
  %half = bitcast i16 %short to half
  ret half %half
}}
"""

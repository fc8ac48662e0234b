"""Loops over memory (scf, arith, math, memref, vector) as LLVM IR, each function in one walk.

The *parallel region* (the function with the unit attribute ``hybrid.region``) takes memrefs, then scalars, then the
range ``lo, hi`` and its thread's scratch memory. It becomes two functions: ``region.body`` with the same arguments and
noalias pointers, and the exported one ``(buffers, scalars, lo, hi, scratch)``, which loads the pointers and the
8-byte scalars and calls it. Every native function has this signature, so one executor runs them all.

``index`` is i64 and never wraps. A boolean is a byte in memory. Addresses are one index into a pointer.

Functions without an instruction (exp, tanh, ...) are calls of private functions that a formula of
:mod:`hybridc.lower.mathlib` writes, in single precision for halves. Powers with common constant exponents (2, 3,
0.5, ...) become products and roots in place. The logistic function 1 / (1 + exp(-x)) has a formula of its own, in
which exp cannot overflow.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from xdsl.dialects import arith, func, math, memref, scf, vector
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    ModuleOp,
    bf16,
    f16,
    f32,
    i1,
)
from xdsl.dialects.utils import FastMathAttrBase, FastMathFlag
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.exceptions import PassFailedException

from hybridc.dialects.mlir.arith import RemFOp
from hybridc.ground.buffers import ALIGNMENT
from hybridc.lower.llvm.codegen.function_text import (
    CARRIED,
    INNERMOST,
    OUTER,
    SUMS,
    FunctionText,
    ModuleText,
    Value,
    constant,
    constant_of,
    element_of,
    length,
    like,
    type_text,
)
from hybridc.lower.mathlib import FORMULAS, Formula
from hybridc.lower.mathlib.exponential import logistic
from hybridc.lower.mathlib.power import short_power
from hybridc.lower.mathlib.value import FORMATS, FormulaWriter
from hybridc.lower.mathlib.value import Value as FormulaValue

REGION = "region"
REGION_ATTRIBUTE = "hybrid.region"


# --- modules and functions --------------------------------------------------------------------------------------------


def llvm_ir(modules: Iterable[tuple[ModuleOp, str]], vector_bits: int) -> str:
    """The functions of these modules as one LLVM module.

    What a module exports gets the name given with it. Equal private functions of several modules are written once.
    ``vector_bits`` is the width of vectors.
    """
    text = ModuleText(vector_bits)
    for module, symbol in modules:
        _Functions(module, symbol, text).write()
    return str(text)


class _Functions:
    """The functions of one module of loops; each is written before what calls it."""

    def __init__(self, module: ModuleOp, symbol: str, text: ModuleText) -> None:
        self.text = text
        self._exported = symbol
        self._functions = {op.sym_name.data: op for op in module.ops if isinstance(op, func.FuncOp)}
        self._symbols: dict[str, str] = {}
        others = [op.name for op in module.ops if not isinstance(op, func.FuncOp)]
        if others:
            raise PassFailedException(f"a module of loops holds functions only, got {others[0]}")

    def write(self) -> None:
        """Write the parallel region and all that it calls."""
        for function in self._functions.values():
            if REGION_ATTRIBUTE in function.attributes:
                self._region(function)

    def symbol(self, name: str) -> str:
        """The symbol of a function, which is written on first use."""
        symbol = self._symbols.get(name)
        if symbol is None:
            symbol = self._symbols[name] = self._written(self._functions[name])
        return symbol

    def _written(self, function: func.FuncOp) -> str:
        name, (inputs, output) = function.sym_name.data, _signature(function)
        if not function.body.blocks:
            self.text.declare(name, output, inputs)
            return name
        return self._private(name, function, "alwaysinline")

    def _private(self, name: str, function: func.FuncOp, inlining: str, marks: str = "") -> str:
        inputs, output = _signature(function)
        write = LoopWriter(self.text, self.symbol, function.body.block)
        body = write.function(function.body.block)
        return self.text.add(
            name, _head("internal ", output, name, inputs, self.text, f" {inlining} nounwind", marks), body
        )

    def _region(self, function: func.FuncOp) -> None:
        """The parallel region, and its exported entry, which loads the arguments from their tables."""
        inputs, _ = _signature(function)
        body = self._private(f"{REGION}.body", function, "noinline", "noalias ")
        types = ["ptr", "ptr", "i64", "i64", "ptr"]
        f = FunctionText(self.text, types)
        buffers, numbers, low, high, scratch = f.arguments
        own = inputs[:-3]
        count = own.count("ptr")
        arguments: list[Value] = []
        for i, type_ in enumerate(own):
            table, cell = (buffers, i) if i < count else (numbers, i - count)
            arguments.append(f.load(f.address(table, constant(cell, "i64"), "i64"), type_))
        f.call(body, [*arguments, low, high, scratch], "void")
        f.write("ret void")
        self.text.functions.append(_head("", "void", self._exported, types, self.text) + f.body())


def _signature(function: func.FuncOp) -> tuple[list[str], str]:
    """The types of the arguments, and of the result."""
    outputs = [type_text(t) for t in function.function_type.outputs]
    if len(outputs) > 1:
        name = function.sym_name.data
        raise PassFailedException(f"function {name} has {len(outputs)} results; native functions have at most one")
    return [type_text(t) for t in function.function_type.inputs], outputs[0] if outputs else "void"


def _head(
    linkage: str, result: str, name: str, types: Sequence[str], text: ModuleText, flags: str = "", marks: str = ""
) -> str:
    """The ``define`` line; ``marks`` are attributes of pointers."""
    arguments = ", ".join([f"{t} {marks if t == 'ptr' else ''}%a{i}" for i, t in enumerate(types)])
    width = f'"prefer-vector-width"="{text.vector_bits}"'
    return f"define {linkage}{result} @{name}({arguments}){flags} {width} {{\n"


# --- one function -----------------------------------------------------------------------------------------------------


class LoopWriter(FunctionText):
    """Writes the body of a function in loop form; knows the value of every SSA value."""

    def __init__(self, module: ModuleText, symbol: Callable[[str], str], block: Block) -> None:
        super().__init__(module, [type_text(a.type) for a in block.args])
        self.values: dict[SSAValue, Value] = {}
        self.symbol = symbol
        self.results = 0  # so many numbers, but no indices, were computed in the innermost loop so far
        self._fused: set[Operation] = set()  # parts of logistic functions that nothing else reads

    def function(self, block: Block) -> str:
        """The body of a function of one block."""
        self.values.update(zip(block.args, self.arguments, strict=True))
        self.block(block)
        return self.body()

    def of(self, values: Iterable[SSAValue]) -> list[Value]:
        """The values of SSA values."""
        return [self.values[v] for v in values]

    def two(self, op: Operation) -> tuple[Value, Value]:
        """The values of an operation's two operands."""
        a, b = op.operands
        return self.values[a], self.values[b]

    def block(self, block: Block) -> list[Value]:
        """Write the operations of a block; its yielded values."""
        self._fused.update(_logistic_parts(block))
        for op in block.ops:
            if isinstance(op, scf.YieldOp | scf.ConditionOp):
                return self.of(op.operands)
            if op not in self._fused:
                self.operation(op)
        return []

    def operation(self, op: Operation) -> None:
        """Write an operation."""
        rule = RULES.get(type(op))
        if rule is None:
            raise PassFailedException(f"{op.name} has no lowering to LLVM IR")
        rule(self, op)
        self.results += sum([type(result.type) is not IndexType for result in op.results])

    def put(self, op: Operation, value: Value) -> None:
        """Note the value of an operation's result."""
        self.values[op.results[0]] = value


# --- arithmetic -------------------------------------------------------------------------------------------------------

Rule = Callable[[LoopWriter, Any], None]


@functools.cache
def _flags_text(flags: FastMathAttrBase) -> str:
    return "fast " if len(flags.data) == 7 else "".join([f"{flag.value} " for flag in flags.data])


def _flags(op: Operation) -> str:
    """The fast-math flags of an operation."""
    flags = op.properties.get("fastmath")
    return "" if flags is None else _flags_text(cast("FastMathAttrBase", flags))


def _float(name: str) -> Rule:
    def rule(f: LoopWriter, op: Operation) -> None:
        f.put(op, f.binary(name, *f.two(op), _flags(op)))

    return rule


def _wrapping(name: str) -> Rule:
    """An integer operation; indices get nsw, other integers their own flags."""

    def rule(f: LoopWriter, op: Operation) -> None:
        flags = op.properties.get("overflowFlags")
        names = [flag.value for flag in cast(Any, flags).data] if flags is not None else ()
        text = "nsw " if isinstance(op.results[0].type, IndexType) else "".join([f"{n} " for n in sorted(names)])
        f.put(op, f.binary(name, *f.two(op), text))

    return rule


def _plain(name: str) -> Rule:
    """An instruction of two operands without flags."""
    return lambda f, op: f.put(op, f.binary(name, *f.two(op)))


def _convert(name: str) -> Rule:
    """A conversion."""
    return lambda f, op: f.put(op, f.convert(name, f.values[op.operands[0]], type_text(op.results[0].type)))


def _intrinsic(name: str) -> Rule:
    def rule(f: LoopWriter, op: Operation) -> None:
        f.put(op, f.intrinsic(f"llvm.{name}", f.of(op.operands), type_text(op.results[0].type), _flags(op)))

    return rule


def _negf(f: LoopWriter, op: arith.NegfOp) -> None:
    operand = f.values[op.operand]
    f.put(op, f.value(operand.type, f"fneg {_flags(op)}{operand.typed}"))


def _absi(f: LoopWriter, op: math.AbsIOp) -> None:
    operand = f.values[op.operands[0]]
    f.put(op, f.intrinsic("llvm.abs", (operand, constant(0, "i1")), operand.type))  # the smallest stays itself


def _constant(f: LoopWriter, op: arith.ConstantOp) -> None:
    f.put(op, constant_of(op.value, op.result.type))


_INTEGERS = arith.CMPI_COMPARISON_OPERATIONS
_FLOATS = arith.CMPF_COMPARISON_OPERATIONS


def _cmpi(f: LoopWriter, op: arith.CmpiOp) -> None:
    a, b = f.of(op.operands)
    f.put(op, f.value(like(a.type, "i1"), f"icmp {_INTEGERS[op.predicate.value.data]} {a.typed}, {b.name}"))


def _cmpf(f: LoopWriter, op: arith.CmpfOp) -> None:
    f.put(op, f.compare(_FLOATS[op.predicate.value.data], *f.two(op), _flags(op)))


def _select(f: LoopWriter, op: arith.SelectOp) -> None:
    condition, a, b = f.of(op.operands)
    f.put(op, f.select(condition, a, b))


def _bitcast(f: LoopWriter, op: arith.BitcastOp | vector.BitcastOp) -> None:
    source, type_ = f.values[op.operands[0]], type_text(op.results[0].type)
    f.put(op, source if source.type == type_ else f.convert("bitcast", source, type_))


def _truncf(f: LoopWriter, op: arith.TruncFOp) -> None:
    source, kind = f.values[op.input], op.result.type
    if source.type == "double" and kind in (f16, bf16):
        source = _rounded_to_odd(f, source)
    f.put(op, _brain(f, source) if kind == bf16 else f.convert("fptrunc", source, type_text(kind)))


def _extf(f: LoopWriter, op: arith.ExtFOp) -> None:
    source, type_ = f.values[op.input], type_text(op.result.type)
    if op.input.type == bf16:  # the upper half of an f32
        source = f.convert("bitcast", f.integer("shl", f.convert("zext", source, "i32"), 16), "float")
    f.put(op, source if source.type == type_ else f.convert("fpext", source, type_))


def _to_integer(f: LoopWriter, op: arith.FPToSIOp | arith.FPToUIOp) -> None:
    """Float to integer, truncating; values that do not fit into 32 or 64 bits are INT_MIN, whose low bits are taken.

    That is what x86's instructions give, and so NumPy. In LLVM it is poison, and differs
    where the float is a constant. For u64 the conversion is signed, with 2**63 subtracted from larger floats.
    """
    source, type_ = f.values[op.input], type_text(op.result.type)
    unsigned, width = isinstance(op, arith.FPToUIOp), int(element_of(type_)[1:])
    if element_of(source.type) == "half":  # whose range fits
        source = f.convert("fpext", source, like(source.type, "float"))
    bits = 32 if width + unsigned <= 32 else 64
    wide, least = like(source.type, f"i{bits}"), -(2 ** (bits - 1))
    limit = constant(-float(least), source.type)
    if not (unsigned and width == 64):
        whole = _cut(f, source, limit, wide, least)
        f.put(op, whole if wide == type_ else f.convert("trunc", whole, type_))
        return
    far = f.compare("oge", source, limit)
    whole = _cut(f, f.select(far, f.binary("fsub", source, limit), source), limit, wide, least)
    f.put(op, f.binary("xor", whole, f.select(far, constant(least, wide), constant(0, wide))))


def _cut(f: LoopWriter, source: Value, limit: Value, wide: str, least: int) -> Value:
    """Float to signed integer, INT_MIN where its magnitude reaches the limit."""
    within = f.compare("olt", f.intrinsic("llvm.fabs", (source,), source.type), limit)
    return f.select(within, f.convert("fptosi", source, wide), constant(least, wide))


def _brain(f: LoopWriter, single: Value) -> Value:
    """The bits of an f32 rounded to bf16: to even, by an addition to the lower half; NaNs stay NaNs.

    Few processors have an instruction for it, and LLVM would call a library function that is not linked.
    """
    bits = f.convert("bitcast", single, "i32")
    high = f.integer("lshr", bits, 16)
    odd = f.integer("and", high, 1)
    rounded = f.integer("lshr", f.binary("add", f.integer("add", bits, 0x7FFF), odd), 16)
    quiet = f.integer("or", high, 0x40)
    return f.convert("trunc", f.select(f.compare("uno", single, single), quiet, rounded), "i16")


def _rounded_to_odd(f: LoopWriter, wide: Value) -> Value:
    """f64 to f32, rounded to odd: then rounding to f16 is exact.

    Few processors convert f64 to f16 directly, and LLVM would call a library function that is not linked.
    """
    near = f.convert("fptrunc", wide, "float")
    exact = f.convert("fpext", near, "double")
    bits = f.convert("bitcast", near, "i32")
    sizes = [f.intrinsic("llvm.fabs", (x,), "double") for x in (exact, wide)]
    cut = f.binary("sub", bits, f.convert("zext", f.compare("ogt", sizes[0], sizes[1]), "i32"))
    odd = f.integer("or", cut, 1)
    return f.convert("bitcast", f.select(f.compare("one", exact, wide), odd, bits), "float")


def _index_cast(f: LoopWriter, op: arith.IndexCastOp) -> None:
    source, type_ = f.values[op.input], type_text(op.result.type)
    if source.type != type_:
        source = f.convert("sext" if int(source.type[1:]) < int(type_[1:]) else "trunc", source, type_)
    f.put(op, source)


# --- functions without an instruction ---------------------------------------------------------------------------------


def _formula(f: LoopWriter, op: Operation) -> None:
    """A call of the formula's function."""
    operands, kind = f.of(op.operands), op.results[0].type
    if isinstance(kind, Float16Type | BFloat16Type):
        wide = [_as_single(f, x, kind) for x in operands]
        f.results += len(wide) + 1
        single = _called(f, op.name.removeprefix("math."), FORMULAS[type(op)], wide, f32)
        f.put(op, _brain(f, single) if kind == bf16 else f.convert("fptrunc", single, "half"))
        return
    if kind not in FORMATS and type(kind) is not IntegerType:
        raise PassFailedException(f"{op.name} of {kind} cannot be expanded: formulas are of scalars, not of vectors")
    f.put(op, _called(f, op.name.removeprefix("math."), FORMULAS[type(op)], operands, kind))


def _as_single(f: LoopWriter, x: Value, kind: Attribute) -> Value:
    if kind == f16:
        return f.convert("fpext", x, "float")
    return f.convert("bitcast", f.integer("shl", f.convert("zext", x, "i32"), 16), "float")


def _power(f: LoopWriter, op: math.PowFOp) -> None:
    """A power: with a simple constant exponent products and roots, else its formula."""
    exponent = op.rhs.owner
    if op.results[0].type in FORMATS and isinstance(exponent, arith.ConstantOp):
        writer = FormulaWriter(Block())
        power = short_power(FormulaValue(writer, op.lhs), cast("FloatAttr[Any]", exponent.value).value.data)
        if power is not None:
            f.block(writer.block)
            f.results -= 1  # the power itself is none of the operations
            f.put(op, f.values[power.ssa])
            return
    _formula(f, op)


def _divf(f: LoopWriter, op: arith.DivfOp) -> None:
    """A division; one that completes a logistic function calls its formula."""
    parts = _logistic(op)
    if parts is None:
        f.put(op, f.binary("fdiv", *f.two(op), _flags(op)))
    else:
        f.put(op, _called(f, "logistic", logistic, [f.values[parts[-1].operands[0]]], op.result.type))


def _logistic(op: arith.DivfOp) -> tuple[Operation, Operation, Operation] | None:
    """The sum, the power and the negation of a division that completes 1 / (1 + exp(-x))."""
    total = op.rhs.owner
    if op.result.type not in FORMATS or not _is_one(op.lhs) or not isinstance(total, arith.AddfOp):
        return None
    power = total.lhs.owner
    if not _is_one(total.rhs) or not isinstance(power, math.ExpOp):
        return None
    negation = power.operand.owner
    return (total, power, negation) if isinstance(negation, arith.NegfOp) else None


def _logistic_parts(block: Block) -> set[Operation]:
    """The sums, powers and negations of a block that are parts of logistic functions alone."""
    fused: set[Operation] = set()
    for op in block.ops:
        parts = _logistic(op) if isinstance(op, arith.DivfOp) else None
        if parts is not None:
            fused.add(op)
            for part in parts:
                if all(use.operation in fused for use in part.results[0].uses):
                    fused.add(part)
    return {op for op in fused if not isinstance(op, arith.DivfOp)}


def _is_one(x: SSAValue) -> bool:
    owner = x.owner
    return isinstance(owner, arith.ConstantOp) and isinstance(owner.value, FloatAttr) and owner.value.value.data == 1.0


def _called(f: LoopWriter, name: str, formula: Formula, operands: Sequence[Value], kind: Attribute) -> Value:
    """A call of the function that computes a formula for values of a type."""
    head, body, declared = _function_of(name, formula, len(operands), kind, f.module.vector_bits)
    for symbol, declaration in declared.items():
        f.module.declarations.setdefault(symbol, declaration)
    return f.call(f.module.add(f"{name}_{kind}", head, body), operands, type_text(kind))


@functools.cache
def _function_of(
    name: str, formula: Formula, count: int, kind: Attribute, vector_bits: int
) -> tuple[str, str, Mapping[str, str]]:
    """The head and the body of a formula's function, and the intrinsics that it calls."""
    block, alone = Block(arg_types=[kind] * count), ModuleText(vector_bits)
    writer = FormulaWriter(block)
    result = formula(*[FormulaValue(writer, x) for x in block.args])
    f = LoopWriter(alone, lambda callee: callee, block)
    f.values.update(zip(block.args, f.arguments, strict=True))
    f.block(block)
    f.write(f"ret {f.values[result.ssa].typed}")
    type_ = type_text(kind)
    head = _head("internal ", type_, f"{name}_{kind}", [type_] * count, alone, " alwaysinline nounwind")
    return head, f.body(), alone.declarations


# --- memory -----------------------------------------------------------------------------------------------------------


def _element(f: LoopWriter, base: SSAValue, indices: Sequence[SSAValue]) -> tuple[Value, str]:
    """The address of an element, and its type in memory."""
    kind = cast("MemRefType[Attribute]", base.type).element_type
    stored = "i8" if kind == i1 else type_text(kind)
    pointer = f.values[base]
    if not indices:
        return pointer, stored
    if len(indices) > 1:
        raise PassFailedException(f"a memref of rank {len(indices)} is not flat, expected rank 0 or 1: {base.type}")
    return f.address(pointer, f.values[indices[0]], stored), stored


def _load(f: LoopWriter, op: memref.LoadOp) -> None:
    address, stored = _element(f, op.memref, op.indices)
    value = f.load(address, stored)
    f.put(op, f.convert("trunc", value, "i1") if op.res.type == i1 else value)


def _store(f: LoopWriter, op: memref.StoreOp) -> None:
    address, _ = _element(f, op.memref, op.indices)
    value = f.values[op.value]
    f.store(f.convert("zext", value, "i8") if value.type == "i1" else value, address)


def _view(f: LoopWriter, op: memref.ViewOp) -> None:
    f.put(op, f.address(f.values[op.source], f.values[op.byte_shift], "i8"))


def _alloca(f: LoopWriter, op: memref.AllocaOp) -> None:
    kind = op.memref.type
    if not kind.has_static_shape():
        raise PassFailedException(f"memref.alloca needs a static shape, got {kind}")
    count = 1
    for size in kind.get_shape():
        count *= size
    stored = "i8" if kind.element_type == i1 else type_text(kind.element_type)
    f.put(op, f.stack(count, stored, ALIGNMENT))


def _vector_load(f: LoopWriter, op: vector.LoadOp) -> None:
    address, stored = _element(f, op.base, op.indices)
    f.put(op, f.load(address, type_text(op.result.type), _bytes(stored)))


def _vector_store(f: LoopWriter, op: vector.StoreOp) -> None:
    address, stored = _element(f, op.base, op.indices)
    f.store(f.values[op.vector], address, _bytes(stored))


def _bytes(stored: str) -> int:
    """The alignment of an access: that of an element."""
    return {"half": 2, "float": 4, "double": 8}.get(stored) or int(stored[1:]) // 8


# --- vectors ----------------------------------------------------------------------------------------------------------


def _broadcast(f: LoopWriter, op: vector.BroadcastOp) -> None:
    source, type_ = f.values[op.source], type_text(op.vector.type)
    first = f.value(type_, f"insertelement {type_} undef, {source.typed}, i64 0")
    f.put(op, _shuffled(f, first, Value(type_, "undef"), [0] * length(type_)))


def _shuffle(f: LoopWriter, op: vector.ShuffleOp) -> None:
    f.put(op, _shuffled(f, *f.two(op), [*map(int, op.mask.get_values())]))


def _shuffled(f: LoopWriter, a: Value, b: Value, places: Sequence[int]) -> Value:
    mask = ", ".join([f"i32 {place}" for place in places])
    type_ = f"<{len(places)} x {element_of(a.type)}>"
    return f.value(type_, f"shufflevector {a.typed}, {b.typed}, <{len(places)} x i32> <{mask}>")


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


def _reduction(f: LoopWriter, op: vector.ReductionOp) -> None:
    """A horizontal reduction; sums and products of floats begin with the accumulator."""
    kind, operand, type_ = op.kind.data.value, f.values[op.vector], type_text(op.dest.type)
    if type(op.dest.type) is IntegerType or kind not in ("add", "mul"):
        if op.acc is not None:
            raise PassFailedException(
                f"vector.reduction <{kind}> of {op.vector.type} with an accumulator has no LLVM intrinsic"
            )
        f.put(op, f.intrinsic(_REDUCE[kind], (operand,), type_, _flags(op)))
        return
    start = constant(0.0 if kind == "add" else 1.0, type_) if op.acc is None else f.values[op.acc]
    name = f"llvm.vector.reduce.f{kind}"
    f.put(op, f.intrinsic(name, (start, operand), type_, _flags(op), overload=1))


# --- control flow -----------------------------------------------------------------------------------------------------

_UNROLLED = 16  # the most iterations of a loop that LLVM may unroll as a whole
_FEW = 6  # so few operations are bound by the latency of the carried value


def _for(f: LoopWriter, op: scf.ForOp) -> None:
    lower, upper, step = f.of((op.lb, op.ub, op.step))
    starts, before = [lower, *f.of(op.iter_args)], f.label
    head, body = f.new_label(), f.new_label()
    f.jump(head)
    f.begin(head)
    (counter, *carried), place = f.phi([v.type for v in starts])
    done = f.new_label()
    f.branch(f.value("i1", f"icmp slt {counter.typed}, {upper.name}"), body, done)
    f.begin(body)
    f.values.update(zip(op.body.block.args, (counter, *carried), strict=True))
    outside, f.results = f.results, 0
    ends = f.block(op.body.block)
    work, f.results = f.results, outside
    following = [f.binary("add", counter, step, "nsw "), *ends]
    f.cases(place, (starts, before), (following, f.label))
    f.jump(head, f.module.loop(_kind(op, work), _rounds(op), _encloses_loops(op)))
    f.begin(done)
    f.values.update(zip(op.results, carried, strict=True))


def _kind(op: scf.ForOp, work: int) -> str:
    """What a loop is whose body computes so many numbers."""
    inside = [each for each in op.body.block.ops if each.regions]
    if inside:
        return SUMS if any(map(_adds_in_any_order, inside)) else OUTER
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
            if rounds is None or rounds > _UNROLLED or _encloses_loops(each):
                return True
    return False


def _constant_of(value: SSAValue) -> int | None:
    owner = value.owner
    known = owner.value if isinstance(owner, arith.ConstantOp) else None
    return cast("IntegerAttr[Any]", known).value.data if isinstance(known, IntegerAttr) else None


def _adds_in_any_order(op: Operation) -> bool:
    """Whether a loop carries values by reassociable operations."""
    if not isinstance(op, scf.ForOp) or not op.iter_args:
        return False
    flags = (each.properties.get("fastmath") for each in op.body.block.ops)
    return any(isinstance(f, FastMathAttrBase) and FastMathFlag.REASSOC in f.data for f in flags)


def _if(f: LoopWriter, op: scf.IfOp) -> None:
    then, done = f.new_label(), f.new_label()
    otherwise = f.new_label() if op.false_region.blocks else done
    f.branch(f.values[op.cond], then, otherwise)
    incoming: list[tuple[list[Value], str]] = []
    for label, region in ((then, op.true_region), (otherwise, op.false_region)):
        if region.blocks:
            f.begin(label)
            incoming.append((f.block(region.block), f.label))
            f.jump(done)
    f.begin(done)
    values, place = f.phi([type_text(r.type) for r in op.results])
    f.cases(place, *incoming)
    f.values.update(zip(op.results, values, strict=True))


def _while(f: LoopWriter, op: scf.WhileOp) -> None:
    before, after = op.before_region.block, op.after_region.block
    starts, entry = f.of(op.arguments), f.label
    head, body, done = f.new_label(), f.new_label(), f.new_label()
    f.jump(head)
    f.begin(head)
    carried, place = f.phi([v.type for v in starts])
    f.values.update(zip(before.args, carried, strict=True))
    condition, *passed = f.block(before)
    f.branch(condition, body, done)
    f.begin(body)
    f.values.update(zip(after.args, passed, strict=True))
    f.cases(place, (starts, entry), (f.block(after), f.label))
    f.jump(head)
    f.begin(done)
    f.values.update(zip(op.results, passed, strict=True))


def _call(f: LoopWriter, op: func.CallOp) -> None:
    result = type_text(op.results[0].type) if op.results else "void"
    value = f.call(f.symbol(op.callee.string_value()), f.of(op.arguments), result)
    if op.results:
        f.put(op, value)


def _return(f: LoopWriter, op: func.ReturnOp) -> None:
    f.write(f"ret {f.values[op.operands[0]].typed}" if op.operands else "ret void")


RULES: dict[type[Operation], Rule] = {
    arith.ConstantOp: _constant,
    arith.AddfOp: _float("fadd"),
    arith.SubfOp: _float("fsub"),
    arith.MulfOp: _float("fmul"),
    arith.DivfOp: _divf,
    arith.NegfOp: _negf,
    RemFOp: _float("frem"),
    arith.MaximumfOp: _intrinsic("maximum"),
    arith.MinimumfOp: _intrinsic("minimum"),
    arith.MaxnumfOp: _intrinsic("maxnum"),
    arith.MinnumfOp: _intrinsic("minnum"),
    arith.AddiOp: _wrapping("add"),
    arith.SubiOp: _wrapping("sub"),
    arith.MuliOp: _wrapping("mul"),
    arith.ShLIOp: _wrapping("shl"),
    arith.ShRSIOp: _plain("ashr"),
    arith.ShRUIOp: _plain("lshr"),
    arith.DivSIOp: _plain("sdiv"),
    arith.DivUIOp: _plain("udiv"),
    arith.RemSIOp: _plain("srem"),
    arith.RemUIOp: _plain("urem"),
    arith.AndIOp: _plain("and"),
    arith.OrIOp: _plain("or"),
    arith.XOrIOp: _plain("xor"),
    arith.MaxSIOp: _intrinsic("smax"),
    arith.MinSIOp: _intrinsic("smin"),
    arith.MaxUIOp: _intrinsic("umax"),
    arith.MinUIOp: _intrinsic("umin"),
    arith.CmpiOp: _cmpi,
    arith.CmpfOp: _cmpf,
    arith.SelectOp: _select,
    arith.BitcastOp: _bitcast,
    arith.IndexCastOp: _index_cast,
    arith.ExtFOp: _extf,
    arith.TruncFOp: _truncf,
    arith.ExtSIOp: _convert("sext"),
    arith.ExtUIOp: _convert("zext"),
    arith.TruncIOp: _convert("trunc"),
    arith.SIToFPOp: _convert("sitofp"),
    arith.UIToFPOp: _convert("uitofp"),
    arith.FPToSIOp: _to_integer,
    arith.FPToUIOp: _to_integer,
    math.AbsFOp: _intrinsic("fabs"),
    math.AbsIOp: _absi,
    math.CopySignOp: _intrinsic("copysign"),
    math.FmaOp: _intrinsic("fma"),
    math.FloorOp: _intrinsic("floor"),
    math.CeilOp: _intrinsic("ceil"),
    math.TruncOp: _intrinsic("trunc"),
    math.RoundEvenOp: _intrinsic("roundeven"),
    math.SqrtOp: _intrinsic("sqrt"),
    **dict.fromkeys(FORMULAS, _formula),
    math.PowFOp: _power,
    memref.LoadOp: _load,
    memref.StoreOp: _store,
    memref.ViewOp: _view,
    memref.AllocaOp: _alloca,
    vector.LoadOp: _vector_load,
    vector.StoreOp: _vector_store,
    vector.BroadcastOp: _broadcast,
    vector.ShuffleOp: _shuffle,
    vector.BitcastOp: _bitcast,
    vector.FMAOp: _intrinsic("fma"),
    vector.ReductionOp: _reduction,
    scf.ForOp: _for,
    scf.IfOp: _if,
    scf.WhileOp: _while,
    func.CallOp: _call,
    func.ReturnOp: _return,
}

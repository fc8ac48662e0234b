"""The LLVM IR of each operation of arith and math, and of memory and vectors, that loops are made of.

``index`` is i64 and never wraps. A boolean is a byte in memory. Addresses are one index into a pointer.

Functions without an instruction (exp, tanh, ...) are calls of private functions that a formula of
:mod:`hybridc.lower.mathlib` writes, in single precision for halves. Powers with common constant exponents (2, 3,
0.5, ...) become products and roots in place. The logistic function 1 / (1 + exp(-x)) has a formula of its own, in
which exp cannot overflow.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import (
    IndexType,
    IntegerAttr,
    IntegerType,
    bf16,
    f16,
    f32,
)
from xdsl.dialects.utils import FastMathAttrBase, FastMathFlag
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import PassFailedException

from hybridc.dialects.mlir.hybrid import FLOATS
from hybridc.dialects.scalar.table import OPERATIONS
from hybridc.dtypes import HALVES
from hybridc.ir.structured_builder import operation_class
from hybridc.lower.llvm.codegen.function_text import (
    FunctionText,
    LLVMValue,
    ModuleText,
    constant,
    constant_number,
    constant_of,
    element_of,
    length,
    like,
    type_text,
)
from hybridc.lower.mathlib import FORMULAS, Formula
from hybridc.lower.mathlib.eight_bits import EIGHT_BITS
from hybridc.lower.mathlib.exponential import logistic
from hybridc.lower.mathlib.power import short_power
from hybridc.lower.mathlib.value import FORMATS, FormulaWriter, Value, Values

# The types of half precision, and of floats of eight bits.
HALF_TYPES = frozenset(kind for kind, t in FLOATS.items() if t.dtype in HALVES)

Properties = Mapping[str, Attribute]
# What writes an operation of these operands and properties: the result, of a type that is None if there is none.
Instruction = Callable[[FunctionText, Sequence[LLVMValue], Any, Properties], LLVMValue | None]
# What is written: one of :data:`INSTRUCTIONS` by its class, or any other.
Op = type[Operation] | Instruction


# --- arithmetic -------------------------------------------------------------------------------------------------------


@functools.cache
def _reassociates(flags: FastMathAttrBase) -> bool:
    """Whether an operation may be done in any order with others."""
    return FastMathFlag.REASSOC in flags.data


@functools.cache
def _flags_text(flags: FastMathAttrBase) -> str:
    return "fast " if len(flags.data) == 7 else "".join(sorted(f"{flag.value} " for flag in flags.data))


def fast_math(properties: Properties) -> str:
    """The fast-math flags of an operation."""
    flags = properties.get("fastmath")
    return "" if flags is None else _flags_text(cast("FastMathAttrBase", flags))


def _wrapping(name: str) -> Instruction:
    """An integer operation; indices get nsw, other integers their own flags."""

    def write(f: FunctionText, x: Sequence[LLVMValue], kind: Attribute, properties: Properties) -> LLVMValue:
        flags: Any = properties.get("overflowFlags")
        names = ["nsw"] if type(kind) is IndexType else sorted(flag.value for flag in flags.data) if flags else []
        return f.binary(name, x[0], x[1], "".join([f"{word} " for word in names]))

    return write


def _by_name(name: str) -> Instruction:
    """An instruction or an intrinsic by its name."""
    if name.startswith("llvm."):
        return lambda f, x, kind, properties: f.intrinsic(name, x, type_text(kind), fast_math(properties))
    if name in ("sext", "zext", "trunc", "sitofp", "uitofp"):
        return lambda f, x, kind, _: f.convert(name, x[0], type_text(kind))
    if name.startswith("f"):
        return lambda f, x, _, properties: f.binary(name, x[0], x[1], fast_math(properties))
    if name in ("add", "sub", "mul", "shl"):
        return _wrapping(name)
    return lambda f, x, _, __: f.binary(name, x[0], x[1])


def _addf(f: FunctionText, x: Sequence[LLVMValue], _: Attribute, properties: Properties) -> LLVMValue:
    total = f.binary("fadd", x[0], x[1], fast_math(properties))
    if x[0].name in f.powers and constant_number(x[1]) == 1:
        f.sums[total.name] = (x[0].name, *f.powers[x[0].name])
    return total


def _negf(f: FunctionText, x: Sequence[LLVMValue], _: Attribute, properties: Properties) -> LLVMValue:
    opposite = f.value(x[0].type, f"fneg {fast_math(properties)}{x[0].typed}")
    f.opposites[opposite.name] = x[0]
    return opposite


def _number(attribute: Attribute) -> int:
    return cast("IntegerAttr[Any]", attribute).value.data


def _cmpi(f: FunctionText, x: Sequence[LLVMValue], _: Attribute, properties: Properties) -> LLVMValue:
    predicate = arith.CMPI_COMPARISON_OPERATIONS[_number(properties["predicate"])]
    return f.value(like(x[0].type, "i1"), f"icmp {predicate} {x[0].typed}, {x[1].name}")


def _cmpf(f: FunctionText, x: Sequence[LLVMValue], _: Attribute, properties: Properties) -> LLVMValue:
    predicate = arith.CMPF_COMPARISON_OPERATIONS[_number(properties["predicate"])]
    return f.compare(predicate, x[0], x[1], fast_math(properties))


def _bitcast(f: FunctionText, x: Sequence[LLVMValue], kind: Attribute, _: Properties) -> LLVMValue:
    type_ = type_text(kind)
    return x[0] if x[0].type == type_ else f.convert("bitcast", x[0], type_)


def _truncf(f: FunctionText, x: Sequence[LLVMValue], kind: Attribute, _: Properties) -> LLVMValue:
    source = x[0]
    if type(kind) in EIGHT_BITS:
        return _inlined(f, EIGHT_BITS[type(kind)].rounded, source, f32)
    if source.type == "double" and kind in (f16, bf16):
        source = _rounded_to_odd(f, source)
    return _brain(f, source) if kind == bf16 else f.convert("fptrunc", source, type_text(kind))


def _extf(f: FunctionText, x: Sequence[LLVMValue], kind: Attribute, _: Properties) -> LLVMValue:
    source, type_, stored = x[0], type_text(kind), f.kinds.get(x[0])
    if stored is not None and type(stored) in EIGHT_BITS:
        source = _inlined(f, EIGHT_BITS[type(stored)].widened, source, stored)
    elif stored == bf16:  # the upper half of an f32
        source = f.convert("bitcast", f.binary("shl", f.convert("zext", source, "i32"), 16), "float")
    return source if source.type == type_ else f.convert("fpext", source, type_)


def _to_integer(unsigned: bool) -> Instruction:
    """Float to integer, truncating; values that do not fit into 32 or 64 bits are INT_MIN, whose low bits are taken.

    That is what x86's instructions give, and so NumPy. In LLVM it is poison, and differs
    where the float is a constant. For u64 the conversion is signed, with 2**63 subtracted from larger floats.
    """

    def write(f: FunctionText, x: Sequence[LLVMValue], kind: Attribute, _: Properties) -> LLVMValue:
        source, type_ = x[0], type_text(kind)
        width = int(element_of(type_)[1:])
        if element_of(source.type) == "half":  # whose range fits
            source = f.convert("fpext", source, like(source.type, "float"))
        bits = 32 if width + unsigned <= 32 else 64
        wide, least = like(source.type, f"i{bits}"), -(2 ** (bits - 1))
        limit = constant(-float(least), source.type)
        if not (unsigned and width == 64):
            whole = _cut(f, source, limit, wide, least)
            return whole if wide == type_ else f.convert("trunc", whole, type_)
        far = f.compare("oge", source, limit)
        whole = _cut(f, f.select(far, f.binary("fsub", source, limit), source), limit, wide, least)
        return f.binary("xor", whole, f.select(far, constant(least, wide), constant(0, wide)))

    return write


def _cut(f: FunctionText, source: LLVMValue, limit: LLVMValue, wide: str, least: int) -> LLVMValue:
    """Float to signed integer, INT_MIN where its magnitude reaches the limit."""
    within = f.compare("olt", f.intrinsic("llvm.fabs", (source,), source.type), limit)
    return f.select(within, f.convert("fptosi", source, wide), constant(least, wide))


def _brain(f: FunctionText, single: LLVMValue) -> LLVMValue:
    """The bits of an f32 rounded to bf16: to even, by an addition to the lower half; NaNs stay NaNs.

    Few processors have an instruction for it, and LLVM would call a library function that is not linked.
    """
    bits = f.convert("bitcast", single, "i32")
    high = f.binary("lshr", bits, 16)
    odd = f.binary("and", high, 1)
    rounded = f.binary("lshr", f.binary("add", f.binary("add", bits, 0x7FFF), odd), 16)
    quiet = f.binary("or", high, 0x40)
    return f.convert("trunc", f.select(f.compare("uno", single, single), quiet, rounded), "i16")


def _rounded_to_odd(f: FunctionText, wide: LLVMValue) -> LLVMValue:
    """f64 to f32, rounded to odd: then rounding to f16 is exact.

    Few processors convert f64 to f16 directly, and LLVM would call a library function that is not linked.
    """
    near = f.convert("fptrunc", wide, "float")
    exact = f.convert("fpext", near, "double")
    bits = f.convert("bitcast", near, "i32")
    sizes = [f.intrinsic("llvm.fabs", (x,), "double") for x in (exact, wide)]
    cut = f.binary("sub", bits, f.convert("zext", f.compare("ogt", sizes[0], sizes[1]), "i32"))
    odd = f.binary("or", cut, 1)
    return f.convert("bitcast", f.select(f.compare("one", exact, wide), odd, bits), "float")


def _index_cast(f: FunctionText, x: Sequence[LLVMValue], kind: Attribute, _: Properties) -> LLVMValue:
    source, type_ = x[0], type_text(kind)
    if source.type == type_:
        return source
    return f.convert("sext" if int(source.type[1:]) < int(type_[1:]) else "trunc", source, type_)


# --- functions without an instruction ---------------------------------------------------------------------------------


def _formula(cls: type[Operation]) -> Instruction:
    """A call of the formula's function."""
    name = cls.name.removeprefix("math.")

    def write(f: FunctionText, x: Sequence[LLVMValue], kind: Attribute, _: Properties) -> LLVMValue:
        if type(kind) in HALF_TYPES:
            single = _called(f, name, FORMULAS[cls], [_extf(f, [operand], f32, {}) for operand in x], f32)
            f.facts.numbers += len(x) + 1
            return _truncf(f, [single], kind, {})
        if kind not in FORMATS and type(kind) is not IntegerType:
            raise PassFailedException(
                f"{cls.name} of {kind} cannot be expanded: formulas are of scalars, not of vectors"
            )
        return _called(f, name, FORMULAS[cls], x, kind)

    return write


def _exp(f: FunctionText, x: Sequence[LLVMValue], kind: Attribute, properties: Properties) -> LLVMValue:
    power = _formula(math.ExpOp)(f, x, kind, properties)
    assert power is not None
    if x[0].name in f.opposites:
        f.powers[power.name] = (x[0].name, f.opposites[x[0].name])
    return power


def _power(f: FunctionText, x: Sequence[LLVMValue], kind: Attribute, properties: Properties) -> LLVMValue | None:
    """A power: with a simple constant exponent products and roots, else its formula."""
    exponent = constant_number(x[1])
    if kind in FORMATS and exponent is not None:
        power = short_power(Value(TextFormulas(f), x[0], kind), exponent)
        if power is not None:
            f.facts.numbers -= 1  # the operation itself
            return power.value
    return _formula(math.PowFOp)(f, x, kind, properties)


def _inlined(f: FunctionText, formula: Callable[[Value], Value], x: LLVMValue, kind: Attribute) -> LLVMValue:
    """A formula of a value of a type, in place of an operation."""
    f.facts.numbers -= 1  # the operation itself
    return formula(Value(TextFormulas(f), x, kind)).value


def _divf(f: FunctionText, x: Sequence[LLVMValue], kind: Attribute, properties: Properties) -> LLVMValue:
    """A division; one that completes 1 / (1 + exp(-x)) calls the formula of the logistic function."""
    if x[1].name in f.sums and constant_number(x[0]) == 1 and kind in FORMATS:
        power, opposite, argument = f.sums[x[1].name]
        f.discard_unused(x[1].name, power, opposite)
        f.facts.numbers -= 3
        return _called(f, "logistic", logistic, [argument], kind)
    return f.binary("fdiv", x[0], x[1], fast_math(properties))


def _called(f: FunctionText, name: str, formula: Formula, x: Sequence[LLVMValue], kind: Attribute) -> LLVMValue:
    """A call of the function that computes a formula for values of a type."""
    head, body, declared = _function_of(name, formula, len(x), kind, f.module.vector_bits)
    for symbol, declaration in declared.items():
        f.module.declarations.setdefault(symbol, declaration)
    return f.call(f.module.add(f"{name}_{kind}", head, body), x, type_text(kind))


@functools.cache
def _function_of(
    name: str, formula: Formula, count: int, kind: Attribute, vector_bits: int
) -> tuple[str, str, Mapping[str, str]]:
    """The head and the body of a formula's function, and the intrinsics that it calls."""
    module = ModuleText(vector_bits)
    f = FunctionText(module, [type_text(kind)] * count)
    writer = TextFormulas(f)
    result: LLVMValue = formula(*[Value(writer, x, kind) for x in f.arguments]).value
    f.write(f"ret {result.typed}")
    head = module.head("internal ", type_text(kind), f"{name}_{kind}", f, " alwaysinline nounwind")
    return head, f.body(), module.declarations


# --- memory and vectors -----------------------------------------------------------------------------------------------


def load_at(f: FunctionText, x: Sequence[LLVMValue], kind: Attribute, _: Properties) -> LLVMValue:
    """The element of an array at an index, or as many from there on as a vector has."""
    type_ = type_text(kind)
    if type_ == "i1":
        return f.convert("trunc", f.load("i8", f.address(x[0], x[1], "i8")), "i1")
    return f.load(type_, f.address(x[0], x[1], element_of(type_)), _alignment(type_))


def store_at(f: FunctionText, x: Sequence[LLVMValue], _: Attribute | None, __: Properties) -> None:
    """Store a value to an array at an index, or the elements of a vector from there on."""
    value, base, index = x
    address = f.address(base, index, "i8" if value.type == "i1" else element_of(value.type))
    stored = f.convert("zext", value, "i8") if value.type == "i1" else value
    f.store(stored.type, stored, address, _alignment(value.type))


def _alignment(type_: str) -> int | None:
    """That of a vector, which is an element's."""
    element = element_of(type_)
    return None if element == type_ else {"half": 2, "float": 4, "double": 8}.get(element) or int(element[1:]) // 8


def view_bytes(f: FunctionText, x: Sequence[LLVMValue], _: Attribute, __: Properties) -> LLVMValue:
    """The array at an offset in bytes."""
    return f.address(x[0], x[1], "i8")


def splat(f: FunctionText, x: Sequence[LLVMValue], kind: Attribute, _: Properties) -> LLVMValue:
    """A vector with a scalar in all lanes."""
    type_ = type_text(kind)
    first = f.value(type_, f"insertelement {type_} undef, {x[0].typed}, i64 0")
    return _shuffled(f, first, LLVMValue(type_, "undef"), [0] * length(type_))


def shuffle_lanes(f: FunctionText, x: Sequence[LLVMValue], _: Attribute, properties: Properties) -> LLVMValue:
    """Elements of two vectors by the indices ``mask``; those of the second are counted after the first's."""
    return _shuffled(f, x[0], x[1], [*map(int, cast("Any", properties["mask"]).get_values())])


def _shuffled(f: FunctionText, a: LLVMValue, b: LLVMValue, places: Sequence[int]) -> LLVMValue:
    mask = ", ".join([f"i32 {place}" for place in places])
    type_ = f"<{len(places)} x {element_of(a.type)}>"
    return f.value(type_, f"shufflevector {a.typed}, {b.typed}, <{len(places)} x i32> <{mask}>")


INSTRUCTIONS: dict[type[Operation], Instruction] = {
    **{operation_class(o.name): _by_name(o.llvm) for o in OPERATIONS.values() if o.llvm},
    **{cls: _formula(cls) for cls in FORMULAS},
    arith.ConstantOp: lambda _, __, kind, properties: constant_of(properties["value"], kind),
    arith.AddfOp: _addf,
    arith.DivfOp: _divf,
    arith.NegfOp: _negf,
    arith.CmpiOp: _cmpi,
    arith.CmpfOp: _cmpf,
    arith.SelectOp: lambda f, x, _, __: f.select(x[0], x[1], x[2]),
    arith.BitcastOp: _bitcast,
    arith.IndexCastOp: _index_cast,
    arith.ExtFOp: _extf,
    arith.TruncFOp: _truncf,
    arith.FPToSIOp: _to_integer(unsigned=False),
    arith.FPToUIOp: _to_integer(unsigned=True),
    # The smallest number stays itself.
    math.AbsIOp: lambda f, x, _, __: f.intrinsic("llvm.abs", (x[0], constant(0, "i1")), x[0].type),
    math.ExpOp: _exp,
    math.PowFOp: _power,
}


def write_operation(
    f: FunctionText, op: Op, x: Sequence[LLVMValue], kind: Attribute | None, properties: Properties
) -> LLVMValue | None:
    """Write an operation of these operands; its result, of type ``kind``, or None."""
    write = INSTRUCTIONS.get(op) if isinstance(op, type) else op
    if write is None:
        raise PassFailedException(f"{cast('type[Operation]', op).name} has no lowering to LLVM IR")
    value = write(f, x, kind, properties)
    if "fastmath" in properties:
        f.facts.reassociates |= _reassociates(cast("FastMathAttrBase", properties["fastmath"]))
    if value is not None:
        f.facts.numbers += type(kind) is not IndexType
        if kind is not None and type(kind) in HALF_TYPES:
            f.kinds[value] = kind
    return value


class TextFormulas(FormulaWriter):
    """Writes formulas into a function."""

    def __init__(self, f: FunctionText) -> None:
        super().__init__()
        self.f = f

    def write(
        self, cls: type[Operation], operands: Values, kind: Attribute, properties: dict[str, Attribute] | None = None
    ) -> Value:
        return Value(self, write_operation(self.f, cls, [x.value for x in operands], kind, properties or {}), kind)

    def choose(self, condition: Value, then: Callable[[], Values], otherwise: Callable[[], Values]) -> Values:
        kinds: list[Attribute] = []

        def branch(write: Callable[[], Values]) -> list[LLVMValue]:
            values = write()
            kinds[:] = [x.kind for x in values]
            return [x.value for x in values]

        ends = self.f.choice(condition.value, lambda: branch(then), lambda: branch(otherwise))
        return [Value(self, x, kind) for x, kind in zip(ends, kinds, strict=True)]

    def repeat(self, starts: Values, condition: Callable[[Values], Value], body: Callable[[Values], Values]) -> Values:
        with self.f.repeat([x.value for x in starts]) as loop:
            values = [Value(self, x, start.kind) for x, start in zip(loop.carried, starts, strict=True)]
            loop.leave_unless(condition(values).value)
            loop.next = [x.value for x in body(values)]
        return values

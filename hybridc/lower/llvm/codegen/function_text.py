"""LLVM IR as text: modules, functions, types, constants and instructions.

A function is written in one go: constants are operands as they are, every other value has a number.

The *parallel region* takes pointers to arrays, then scalars, then the range ``lo, hi`` and its thread's scratch memory.
It becomes two functions: ``region.body`` with the same arguments and noalias pointers, and the exported one
``(buffers, scalars, lo, hi, scratch)``, which loads the pointers and the 8-byte scalars and calls it. Every native
function has this signature, so one executor runs them all.
"""

from __future__ import annotations

import contextlib
import functools
import re
import struct
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    VectorType,
)
from xdsl.ir import Attribute
from xdsl.utils.exceptions import PassFailedException

from hybridc.dialects.mlir.hybrid import FLOATS
from hybridc.dtypes import STORED
from hybridc.lower.llvm.codegen.ir_text import FunctionBuilder, LLVMValue, LoopFacts, OpenBody

_NOT_UNROLLED, _NEVER_UNROLLED = '!"llvm.loop.unroll.runtime.disable"', '!"llvm.loop.unroll.disable"'
_MANY_REGISTERS = 512  # vectors of so many bits have 32 registers
_LONG = 16  # vector iterations after which the scalar remainder is negligible
# Iterations of loops that LLVM does not vectorise unless it is told to, but that fill vectors.
_SHORT = (8, 12)
_FEW = 6  # so few operations are bound by the latency of the carried value

_ENTRY = ("ptr", "ptr", "i64", "i64", "ptr")  # the arguments of every exported function


Branch = Callable[[], Sequence[LLVMValue]]


class ModuleText:
    """An LLVM module while it is written; ``vector_bits`` is the width of vectors."""

    def __init__(self, vector_bits: int) -> None:
        self.vector_bits = vector_bits
        self.functions: dict[str, str] = {}  # by symbol
        self.calls: Counter[str] = Counter()  # of functions by symbol
        self.declarations: dict[str, str] = {}
        self._private: dict[tuple[str, str], str] = {}  # the symbols of private functions, by name and text
        self._metadata: list[str] = []
        self._properties: dict[str, str] = {}  # the names of metadata nodes

    def __str__(self) -> str:
        # A private function may have lost its calls, with values that nothing reads.
        unused = {symbol for symbol in self._private.values() if not self.calls[symbol]}
        functions = [text for symbol, text in self.functions.items() if symbol not in unused]
        return "\n".join([*functions, *self.declarations.values(), *self._metadata, ""])

    def add(self, name: str, head: str, body: str) -> str:
        """Add a private function, unless an equal one is there; its symbol."""
        symbol = self._private.get((name, head + body))
        if symbol is None:
            symbol = self._private[name, head + body] = f"{name}.{len(self._private)}"
            self.functions[symbol] = head.replace(f"@{name}(", f"@{symbol}(", 1) + body
        return symbol

    def declare(self, name: str, result: str, operands: Iterable[str]) -> None:
        """Declare an external function or an intrinsic, once."""
        if name not in self.declarations:
            self.declarations[name] = f"declare {result} @{name}({', '.join(operands)})"

    def write_region(self, f: FunctionText, symbol: str) -> None:
        """Write a parallel region, and its exported entry, which loads the arguments from their tables."""
        body = self.add(
            "region.body", self.head("internal ", "void", "region.body", f, " noinline nounwind", "noalias "), f.body()
        )
        entry = FunctionText(self, _ENTRY)
        buffers, numbers, low, high, scratch = entry.arguments
        own = [a.type for a in f.arguments[:-3]]
        count = own.count("ptr")
        arguments: list[LLVMValue] = []
        for i, type_ in enumerate(own):
            table, cell = (buffers, i) if i < count else (numbers, i - count)
            arguments.append(entry.load(type_, entry.address(table, constant(cell, "i64"), "i64")))
        entry.call(body, [*arguments, low, high, scratch], "void")
        entry.write("ret void")
        self.functions[symbol] = self.head("", "void", symbol, entry) + entry.body()

    def head(self, linkage: str, result: str, name: str, f: FunctionText, flags: str = "", marks: str = "") -> str:
        """The ``define`` line of a function; ``marks`` are attributes of pointers."""
        arguments = ", ".join([f"{a.type} {marks if a.type == 'ptr' else ''}{a.name}" for a in f.arguments])
        width = f'"prefer-vector-width"="{self.vector_bits}"'
        return f"define {linkage}{result} @{name}({arguments}){flags} {width} {{\n"

    def loop(self, facts: LoopFacts) -> str:
        """The metadata of a loop: the interleave count, or no vectorisation, and what LLVM may unroll.

        Interleaved vectors hide latencies. LLVM's default is higher, which makes twice the code, takes
        twice the time to compile, and runs as fast at best. A loop that accumulates is not vectorised over its
        iterations: the remainder would be added in another order, and results would depend on where a range is cut. A
        short loop may be unrolled, for the vectoriser, but not with loops inside: that makes several copies of these.
        """
        unroll = _NEVER_UNROLLED if facts.encloses else _NOT_UNROLLED
        if facts.encloses_sums:
            return self._node(unroll, '!"llvm.loop.vectorize.enable", i1 false')
        if facts.branches:
            return self._node(unroll)
        properties = [_NOT_UNROLLED, f'!"llvm.loop.interleave.count", i32 {self._abreast(facts)}']
        if facts.rounds is not None and facts.rounds in _SHORT:
            width = min(facts.rounds & -facts.rounds, self.vector_bits // 32)
            properties += ['!"llvm.loop.vectorize.enable", i1 true', f'!"llvm.loop.vectorize.width", i32 {width}']
        return self._node(*properties)

    def _abreast(self, facts: LoopFacts) -> int:
        """The interleave count: lower where the scalar remainder would be long."""
        latency = facts.carries and facts.numbers <= _FEW
        abreast = 4 if latency else 2 if self.vector_bits >= _MANY_REGISTERS else 1
        lanes, rounds = self.vector_bits // 32, facts.rounds
        while abreast > 1 and rounds is not None and rounds < _LONG * abreast * lanes and rounds % (abreast * lanes):
            abreast //= 2
        return abreast

    def _node(self, *properties: str) -> str:
        """The name of a distinct metadata node; equal properties are written once."""
        for text in properties:
            if text not in self._properties:
                self._properties[text] = f"!{len(self._metadata)}"
                self._metadata.append(f"{self._properties[text]} = !{{{text}}}")
        node = f"!{len(self._metadata)}"
        self._metadata.append(f"{node} = distinct !{{{', '.join((node, *(self._properties[p] for p in properties)))}}}")
        return node


class CarryingLoop:
    """A loop while it is written: the values that it carries, and the ``next`` ones, after an iteration."""

    def __init__(self, f: FunctionText, carried: list[LLVMValue], body: str, done: str) -> None:
        self.carried = carried
        self.next: Sequence[LLVMValue] = ()
        self._f, self._body, self._done = f, body, done

    def leave_unless(self, condition: LLVMValue) -> None:
        """Leave the loop if a condition, which follows from the carried values, fails; written once."""
        self._f.branch(condition, self._body, self._done)
        self._f.begin(self._body)


class FunctionText(FunctionBuilder[LLVMValue]):
    """The body of a function while it is written."""

    def __init__(self, module: ModuleText, arguments: Sequence[str]) -> None:
        super().__init__(LLVMValue, arguments, "b0")
        self.module = module
        # Parts of logistic functions, by name: the operands of negations; of exp of these the name of the negation
        # and its operand; of the sums of these and 1 the name of exp and the two.
        self.opposites: dict[str, LLVMValue] = {}
        self.powers: dict[str, tuple[str, LLVMValue]] = {}
        self.sums: dict[str, tuple[str, str, LLVMValue]] = {}
        self.kinds: dict[LLVMValue, Attribute] = {}  # of half precision: some are integers here
        self._perhaps_unused: list[str] = []

    @property
    def facts(self) -> LoopFacts:
        """Those of the innermost loop."""
        return self.open.facts

    def body(self) -> str:
        """The lines after the head."""
        text = "\n".join([*self.lines(), "}", ""])
        for name in self._perhaps_unused:
            if len(re.findall(rf"{name}\b", text)) == 1:
                line = re.search(rf"^  {name} = .*\n", text, re.MULTILINE)
                assert line is not None
                self.module.calls.subtract(re.findall(r"call \w+ @([\w.]+)", line[0]))
                text = text.replace(line[0], "")
        return text

    def discard_unused(self, *names: str) -> None:
        """Leave out values that nothing reads at the end, each of which may read the next ones."""
        self._perhaps_unused += names

    # --- instructions --------------------------------------------------------------------------------------

    def compare(self, predicate: str, a: LLVMValue, b: LLVMValue, flags: str = "") -> LLVMValue:
        """A comparison of floats."""
        return self.value(like(a.type, "i1"), f"fcmp {flags}{predicate} {a.type} {a.name}, {b.name}")

    def intrinsic(
        self, name: str, operands: Sequence[LLVMValue], result: str, flags: str = "", overload: int = 0
    ) -> LLVMValue:
        """A call of an intrinsic, mangled with the type of the operand ``overload``."""
        mangled = f"{name}.{_suffix(operands[overload].type)}"
        self.module.declare(mangled, result, [x.type for x in operands])
        return self.value(result, f"call {flags}{result} @{mangled}({', '.join([x.typed for x in operands])})")

    def call(self, symbol: str, operands: Sequence[LLVMValue], result: str) -> LLVMValue:
        """A call of a function of the module; of one without a result a value that nothing may read."""
        self.module.calls[symbol] += 1
        return self.call_by_name(f"@{symbol}", operands, result)

    def address(self, pointer: LLVMValue, index: LLVMValue, element: str) -> LLVMValue:
        """The address of an element."""
        return self.value("ptr", f"getelementptr inbounds {element}, ptr {pointer.name}, {index.type} {index.name}")

    # --- control flow --------------------------------------------------------------------------------------

    def choice(self, condition: LLVMValue, then: Branch, otherwise: Branch | None = None) -> list[LLVMValue]:
        """The values of one of two branches; without the second one, the first has none."""
        begin, done = self.new_label(), self.new_label()
        branches = [(begin, then)] if otherwise is None else [(begin, then), (self.new_label(), otherwise)]
        self.branch(condition, begin, done if otherwise is None else branches[1][0])
        facts, incoming = self.open.facts, list[tuple[Sequence[LLVMValue], str]]()
        for label, write in branches:
            self.begin(label)
            self.open.facts = LoopFacts()
            incoming.append((write(), self.open.label))
            self.jump(done)
        self.open.facts = facts
        facts.add(None)
        self.begin(done)
        return self._joined(self._new_like(incoming[0][0]), *incoming)

    @contextlib.contextmanager
    def count_up(
        self, low: LLVMValue, high: LLVMValue, step: LLVMValue, starts: Sequence[LLVMValue] = ()
    ) -> Generator[tuple[LLVMValue, CarryingLoop]]:
        """A loop in the innermost one, as an index goes from ``low`` to ``high``: the index, and the loop."""
        with self.repeat((low, *starts), LoopFacts(rounds_of(low, high, step), bool(starts))) as loop:
            index, *loop.carried = loop.carried
            loop.leave_unless(self.value("i1", f"icmp slt {index.typed}, {high.name}"))
            yield index, loop
            loop.next = [self.binary("add", index, step, "nsw "), *loop.next]

    @contextlib.contextmanager
    def repeat(self, starts: Sequence[LLVMValue], counted: LoopFacts | None = None) -> Generator[CarryingLoop]:
        """A loop that carries values, until it is left; one with an index is ``counted``.

        It is written before what is around it, which more may be added to meanwhile.
        """
        head, body, done = self.new_label(), self.new_label(), self.new_label()
        outside, inside = self.open, OpenBody(head, counted or LoopFacts())
        self.open, carried = inside, self._new_like(starts)
        loop = CarryingLoop(self, carried, body, done)
        yield loop
        self.jump(head, counted and self.module.loop(counted))
        self.open, entry = outside, outside.label
        self.jump(head)
        self.begin(head)
        self._joined(carried, (starts, entry), (loop.next, inside.label))
        outside.lines += inside.lines
        self.begin(done)
        outside.facts.add(counted)

    def _new_like(self, sources: Sequence[LLVMValue]) -> list[LLVMValue]:
        """Values of the same types that :meth:`_joined` defines."""
        values = [self.new_value(x.type) for x in sources]
        self.kinds.update({v: self.kinds[x] for v, x in zip(values, sources, strict=True) if x in self.kinds})
        return values

    def _joined(self, values: list[LLVMValue], *incoming: tuple[Sequence[LLVMValue], str]) -> list[LLVMValue]:
        """Define values at the beginning of a block by those of the blocks that control comes from."""
        for i, value in enumerate(values):
            cases = ", ".join([f"[ {ends[i].name}, %{label} ]" for ends, label in incoming])
            self.define(value, f"phi {value.type} {cases}")
        return values


# --- types ------------------------------------------------------------------------------------------------------------

_TYPES: dict[Attribute, str] = {}
_NAMES: dict[type[Attribute], str] = {
    IndexType: "i64",
    MemRefType: "ptr",
    **{kind: f"i{t.bits}" if t.dtype in STORED else t.llvm for kind, t in FLOATS.items()},
}


def type_text(kind: Attribute) -> str:
    """The LLVM type of a value: ``index`` is i64, a buffer is a pointer, storage-only floats are integers.

    LLVM would convert a ``bfloat`` in a register to single precision, and call a library function to convert it back.
    """
    text = _TYPES.get(kind)
    if text is None:
        text = _TYPES[kind] = _spelled(kind)
    return text


def _spelled(kind: Attribute) -> str:
    if isinstance(kind, IntegerType):
        return f"i{cast(Any, kind).width.data}"
    if isinstance(kind, VectorType):
        vector = cast("VectorType[Any]", kind)
        return f"<{vector.get_shape()[0]} x {type_text(vector.element_type)}>"
    name = _NAMES.get(type(kind))
    if name is None:
        raise PassFailedException(f"{kind} is not a type of loop form")
    return name


@functools.cache
def element_of(type_: str) -> str:
    """The type of a vector's elements, or of a scalar."""
    return type_.partition(" x ")[2][:-1] if type_[0] == "<" else type_


@functools.cache
def like(type_: str, element: str) -> str:
    """A type of other elements: of a vector as long as one, or of a scalar."""
    return f"{type_.partition(' x ')[0]} x {element}>" if type_[0] == "<" else element


@functools.cache
def length(type_: str) -> int:
    """The elements of a vector."""
    return int(type_.partition(" x ")[0][1:])


_SUFFIXES = {"half": "f16", "float": "f32", "double": "f64", "ptr": "p0"}


@functools.cache
def _suffix(type_: str) -> str:
    """The type in the name of an intrinsic: ``v8f32`` for ``<8 x float>``."""
    if type_[0] == "<":
        return f"v{length(type_)}{_suffix(element_of(type_))}"
    return _SUFFIXES.get(type_, type_)


# --- constants --------------------------------------------------------------------------------------------------------


def constant(value: float, type_: str) -> LLVMValue:
    """A number of a type; in all lanes of a vector."""
    return constants([value], type_)


def constants(numbers: Sequence[float], type_: str) -> LLVMValue:
    """Numbers of a type, one for each lane of a vector; or one for all."""
    element = element_of(type_)
    texts = [_constant(value, element) for value in numbers]
    if element == type_:
        return LLVMValue(type_, texts[0])
    lanes = texts if len(texts) > 1 else texts * length(type_)
    return LLVMValue(type_, f"<{', '.join([f'{element} {text}' for text in lanes])}>")


def _constant(value: float, element: str) -> str:
    """The bits of a float in hexadecimal; LLVM writes an f32 as the double that equals it."""
    if element in ("float", "double"):
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    if element == "half":
        return f"0xH{struct.unpack('<H', struct.pack('<e', value))[0]:04X}"
    return str(int(value) & 1 if element == "i1" else int(value))


def constant_of(value: Attribute, kind: Attribute) -> LLVMValue:
    """The constant of an attribute, of a type of loop form."""
    type_ = type_text(kind)
    float_type = FLOATS.get(type(kind))
    if float_type is not None and float_type.dtype in STORED:
        bits = np.asarray(cast("FloatAttr[Any]", value).value.data, float_type.dtype)
        return constant(int(bits.view(f"u{bits.itemsize}")), type_)
    if isinstance(value, IntegerAttr | FloatAttr):
        return constant(cast(Any, value).value.data, type_)
    if isinstance(value, DenseIntOrFPElementsAttr):
        return constants(value.get_values(), type_)
    raise PassFailedException(f"{value} is not a constant of loop form; expected a number or a vector")


def constant_number(value: LLVMValue) -> float | None:
    """The number that a constant float is; None of other values."""
    if not value.name.startswith("0x") or value.type not in ("float", "double"):
        return None
    result: float = struct.unpack("<d", struct.pack("<Q", int(value.name, 16)))[0]
    return result


def rounds_of(low: LLVMValue, high: LLVMValue, step: LLVMValue) -> int | None:
    """The iterations of a loop whose bounds are constants."""
    if "%" in low.name + high.name + step.name or not int(step.name):
        return None
    return -(-(int(high.name) - int(low.name)) // int(step.name))


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

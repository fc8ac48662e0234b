"""Builders of LLVM IR as text: the instructions of any function; and all that the native runtime needs.

The runtime's has values with operators, variables, structured control flow, structure fields. A first call with an
empty cache writes it beside the compiler: so it is not llvmlite's builder, which takes 35 ms longer for it. Variables
are allocas, which LLVM promotes to registers; so loops and conditions need no phi nodes and read as in C:

    f = module.function("count_odd", "i64", ("ptr", "i64"))
    numbers, n = f.arguments
    odd = f.variable("i64", 0)
    with f.count(n) as i:
        with f.when((f.load("i64", f.at(numbers, i * 8)) & 1).differs(0)):
            odd.set(odd.get() + 1)
    f.ret(odd.get())
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

_UNROLLED = 16  # the most iterations of a loop that LLVM may unroll as a whole


class LLVMValue(NamedTuple):
    """A value of an LLVM type: a register or a constant."""

    type: str
    name: str

    @property
    def typed(self) -> str:
        """The value as an operand with its type."""
        return f"{self.type} {self.name}"


@dataclass(eq=False)
class LoopFacts:
    """What decides how LLVM compiles a loop: facts about its own body, not about the bodies of loops inside.

    ``rounds`` is the number of iterations, if it is known; ``carries`` whether values go from one to the next;
    ``numbers`` how many numbers, but no indices, are computed; ``reassociates`` whether some operations may be done in
    any order; ``branches`` whether there is control flow inside; ``encloses`` whether loops are left inside when LLVM
    has unrolled the short ones; ``encloses_sums`` whether a loop inside carries values by operations in any order.
    """

    rounds: int | None = None
    carries: bool = False
    numbers: int = 0
    reassociates: bool = False
    branches: bool = False
    encloses: bool = False
    encloses_sums: bool = False

    def add(self, inside: LoopFacts | None) -> None:
        """Note a loop inside, or branches."""
        self.branches = True
        if inside is None:
            return
        self.encloses |= inside.rounds is None or inside.rounds > _UNROLLED or inside.encloses
        self.encloses_sums |= inside.carries and inside.reassociates


class OpenBody:
    """The code of a function, or of a loop in it, while it is written.

    ``label`` is that of the block that is written.
    """

    def __init__(self, label: str, facts: LoopFacts) -> None:
        self.label = label
        self.facts = facts
        self.lines: list[str] = []


V = TypeVar("V", LLVMValue, "TextValue")


class FunctionBuilder(Generic[V]):
    """Writes the instructions of a function; ``open`` is the innermost loop, or the function.

    Values are what is built of their types and names.
    """

    def __init__(self, build: Callable[[str, str], V], arguments: Sequence[str], label: str) -> None:
        self._build = build
        self.arguments = [build(t, f"%a{i}") for i, t in enumerate(arguments)]
        self.open: OpenBody = OpenBody(label, LoopFacts())
        self._label = label
        self._cells: list[str] = []
        self._values = 0
        self._blocks = 1

    def lines(self) -> list[str]:
        """The lines of the function: stack memory first."""
        return [f"{self._label}:", *self._cells, *self.open.lines]

    def write(self, instruction: str) -> None:
        """Write an instruction without a result."""
        self.open.lines.append(f"  {instruction}")

    def value(self, type_: str, instruction: str) -> V:
        """Write an instruction; its result."""
        value = self.new_value(type_)
        self.define(value, instruction)
        return value

    def new_value(self, type_: str) -> V:
        """A value whose instruction :meth:`define` writes later."""
        self._values += 1
        return self._build(type_, f"%v{self._values - 1}")

    def define(self, value: V, instruction: str) -> None:
        """Write the instruction of a new value."""
        self.open.lines.append(f"  {value.name} = {instruction}")

    def operand(self, type_: str, value: V | int) -> V:
        """A value, or an integer as one of a type; 0 of type ptr is null."""
        if not isinstance(value, int):
            return value
        return self._build(type_, "null" if type_ == "ptr" and value == 0 else str(value))

    def binary(self, op: str, a: V, b: V | int, flags: str = "") -> V:
        """An instruction of two operands and a result of one type."""
        return self.value(a.type, f"{op} {flags}{a.type} {a.name}, {b if isinstance(b, int) else b.name}")

    def convert(self, op: str, a: V, type_: str) -> V:
        """A conversion to another type."""
        return self.value(type_, f"{op} {a.type} {a.name} to {type_}")

    def select(self, condition: V, a: V | int, b: V) -> V:
        """One of two values."""
        return self.value(b.type, f"select {condition.typed}, {self.operand(b.type, a).typed}, {b.typed}")

    def call_by_name(self, callee: str, operands: Sequence[V], result: str, signature: str = "") -> V:
        """A call; of a function without a result a value that nothing may read."""
        text = f"call {result}{signature} {callee}({', '.join([x.typed for x in operands])})"
        if result != "void":
            return self.value(result, text)
        self.write(text)
        return self._build("void", "")

    def load(self, type_: str, pointer: V, alignment: int | None = None) -> V:
        """Load from memory."""
        return self.value(type_, f"load {type_}, ptr {pointer.name}{_align(alignment)}")

    def store(self, type_: str, value: V | int, pointer: V, alignment: int | None = None) -> None:
        """Store to memory."""
        self.write(f"store {self.operand(type_, value).typed}, ptr {pointer.name}{_align(alignment)}")

    def cell(self, memory: str) -> V:
        """Stack memory of this call, which is in registers where all accesses are known."""
        cell = self.new_value("ptr")
        self._cells.append(f"  {cell.name} = alloca {memory}")
        return cell

    def new_label(self) -> str:
        """A label for a block that is begun later."""
        self._blocks += 1
        return f"b{self._blocks - 1}"

    def begin(self, label: str) -> None:
        """Begin a block."""
        self.open.label = label
        self.open.lines.append(f"{label}:")

    def jump(self, label: str, loop: str | None = None) -> None:
        """An unconditional branch; the back edge of a loop has its metadata."""
        self.write(f"br label %{label}" + (f", !llvm.loop {loop}" if loop else ""))

    def branch(self, condition: V, then: str, otherwise: str) -> None:
        """A conditional branch."""
        self.write(f"br {condition.typed}, label %{then}, label %{otherwise}")


def _align(alignment: int | None) -> str:
    return "" if alignment is None else f", align {alignment}"


# --- the native runtime's ---------------------------------------------------------------------------------------------

_TYPES: dict[Any, str] = {ctypes.c_void_p: "ptr", ctypes.c_int64: "i64", ctypes.c_int32: "i32", ctypes.c_uint8: "i8"}


def _binary(op: str) -> Callable[[TextValue, TextValue | int], TextValue]:
    """``left op right``, both of one type."""
    return lambda left, right: left.function.binary(op, left, right)


def _compare(predicate: str) -> Callable[[TextValue, TextValue | int], TextValue]:
    """``left predicate right``: an i1."""
    return lambda left, right: left.function.compare(predicate, left, right)


@dataclass(slots=True, eq=False)
class TextValue:
    """A value of LLVM type ``type``: a register or a constant. Comparisons are signed, ``//`` is unsigned."""

    function: TextFunction
    type: str
    name: str

    __add__, __sub__, __mul__, __floordiv__ = map(_binary, ("add", "sub", "mul", "udiv"))
    __and__, __or__ = map(_binary, ("and", "or"))
    __lt__, __le__, __gt__, __ge__ = map(_compare, ("slt", "sle", "sgt", "sge"))
    equals, differs = map(_compare, ("eq", "ne"))

    @property
    def typed(self) -> str:
        """The value as an operand with its type."""
        return f"{self.type} {self.name}"


class Variable:
    """A mutable variable: an alloca."""

    def __init__(self, cell: TextValue, type_: str) -> None:
        self._cell = cell
        self._type = type_

    def get(self) -> TextValue:
        """Load it."""
        return self._cell.function.load(self._type, self._cell)

    def set(self, value: TextValue | int) -> None:
        """Store to it."""
        self._cell.function.store(self._type, value, self._cell)


class Record:
    """The structure at the address ``pointer``: ``record.field`` reads, ``record.set(field=value)`` writes."""

    def __init__(self, pointer: TextValue, struct: type[ctypes.Structure]) -> None:
        self.pointer = pointer
        self._struct = struct
        self._types: dict[str, Any] = {entry[0]: entry[1] for entry in struct._fields_}

    def __getattr__(self, field: str) -> TextValue:
        return self.pointer.function.load(_TYPES[self._types[field]], self.address(field))

    def set(self, **fields: TextValue | int) -> None:
        """Store fields."""
        for field, value in fields.items():
            self.pointer.function.store(_TYPES[self._types[field]], value, self.address(field))

    def address(self, field: str) -> TextValue:
        """The address of a field."""
        return self.pointer.function.at(self.pointer, getattr(self._struct, field).offset)

    def record(self, field: str) -> Record:
        """A field that is a structure itself."""
        return Record(self.address(field), self._types[field])


class TextLoop:
    """An infinite loop with exits."""

    def __init__(self, function: TextFunction, end: str) -> None:
        self._function = function
        self._end = end

    def leave_if(self, condition: TextValue) -> None:
        """``if (condition) break;``"""
        on = self._function.new_label()
        self._function.branch(condition, self._end, on)
        self._function.begin(on)

    def leave(self) -> None:
        """``break;``"""
        self._function.jump(self._end)
        self._function.begin(self._function.new_label())


class TextFunction(FunctionBuilder["TextValue"]):
    """A function under construction."""

    def __init__(self, name: str, result: str, arguments: Sequence[str], exported: bool, moves: bool) -> None:
        super().__init__(functools.partial(TextValue, self), arguments, "entry")
        self.name = name
        self.result = result
        self._exported = exported
        self._moves = moves

    def __str__(self) -> str:
        arguments = ", ".join(a.typed for a in self.arguments)
        linkage = "" if self._exported else "internal "
        # To make small code takes LLVM half of the time. Loops over memory are worth vectors, once; none becomes a call
        # of memset, as there are no symbols to resolve.
        size = "noinline" if self._moves else "optsize"
        head = f'define {linkage}{self.result} @{self.name}({arguments}) nounwind uwtable {size} "no-builtins" {{'
        return "\n".join([head, *self.lines(), "  unreachable", "}"])

    # Values

    def compare(self, predicate: str, left: TextValue, right: TextValue | int) -> TextValue:
        """A comparison of integers, or of pointers."""
        return self.value("i1", f"icmp {predicate} {left.typed}, {self.operand(left.type, right).name}")

    def minimum(self, left: TextValue, right: TextValue) -> TextValue:
        """The signed minimum."""
        return self.select(left < right, left, right)

    def maximum(self, left: TextValue, right: TextValue) -> TextValue:
        """The signed maximum."""
        return self.select(left > right, left, right)

    def power_of_two(self, exponent: TextValue) -> TextValue:
        """``1 << exponent``"""
        return self.binary("shl", self.operand("i64", 1), exponent)

    def widen(self, value: TextValue) -> TextValue:
        """Sign-extend an i32 to i64."""
        return self.convert("sext", value, "i64")

    # Memory

    def at(self, pointer: TextValue, offset: TextValue | int) -> TextValue:
        """The address ``pointer + offset`` in bytes."""
        return self.value("ptr", f"getelementptr i8, ptr {pointer.name}, {self.operand('i64', offset).typed}")

    def align(self, pointer: TextValue, alignment: int) -> TextValue:
        """An address rounded up to a multiple of ``alignment``, a power of two."""
        bits = self.convert("ptrtoint", pointer, "i64")
        return self.convert("inttoptr", (bits + (alignment - 1)) & -alignment, "ptr")

    def variable(self, type_: str, value: TextValue | int) -> Variable:
        """A variable with its initial value."""
        variable = Variable(self.cell(type_), type_)
        variable.set(value)
        return variable

    def stack(self, count: TextValue, size: int = 8) -> TextValue:
        """Stack memory of this call for ``count`` elements of ``size`` bytes."""
        return self.value("ptr", f"alloca [{size} x i8], {count.typed}, align 16")

    def forget_memory(self) -> None:
        """Let no load after this be answered by a store before it."""
        self.write('call void asm sideeffect "", "~{memory}"()')

    def record(self, pointer: TextValue, struct: type[ctypes.Structure], index: TextValue | int = 0) -> Record:
        """The structure at index ``index`` of an array at ``pointer``."""
        return Record(self.at(pointer, index * ctypes.sizeof(struct)), struct)

    def is_zero(self, pointer: TextValue) -> TextValue:
        """Whether the float32 at an address is zero, of either sign."""
        return (self.load("i32", pointer) & 0x7FFFFFFF).equals(0)

    # Memory that threads share

    def load_atomic(self, type_: str, pointer: TextValue) -> TextValue:
        """A sequentially consistent load."""
        return self.value(type_, f"load atomic {type_}, ptr {pointer.name} seq_cst, align {_bytes(type_)}")

    def store_atomic(self, type_: str, value: TextValue | int, pointer: TextValue) -> None:
        """A sequentially consistent store."""
        operand = self.operand(type_, value).typed
        self.write(f"store atomic {operand}, ptr {pointer.name} seq_cst, align {_bytes(type_)}")

    def add_atomic(self, type_: str, pointer: TextValue, value: TextValue | int) -> TextValue:
        """Atomic fetch-and-add; the old value."""
        return self._exchange("add", pointer, self.operand(type_, value))

    def exchange_atomic(self, type_: str, pointer: TextValue, value: TextValue | int) -> TextValue:
        """Atomic exchange; the old value."""
        return self._exchange("xchg", pointer, self.operand(type_, value))

    def _exchange(self, op: str, pointer: TextValue, value: TextValue) -> TextValue:
        return self.value(value.type, f"atomicrmw {op} ptr {pointer.name}, {value.typed} seq_cst")

    def pause(self) -> None:
        """The spin-wait hint (``pause``)."""
        self.write("call void @pause()")

    # Control

    def call(
        self, result: str, callee: TextValue | TextFunction, *arguments: TextValue, signature: str = ""
    ) -> TextValue:
        """Call a function; ``signature`` of one with variable arguments, as ``(i64, ...)``."""
        name = callee.name if isinstance(callee, TextValue) else f"@{callee.name}"
        return self.call_by_name(name, arguments, result, f" {signature}")

    def ret(self, value: TextValue | int | None = None) -> None:
        """Return from the function."""
        self.write("ret void" if value is None else f"ret {self.operand(self.result, value).typed}")
        self.begin(self.new_label())

    @contextlib.contextmanager
    def when(self, condition: TextValue) -> Generator[None]:
        """``if (condition) { … }``"""
        then, end = self.new_label(), self.new_label()
        self.branch(condition, then, end)
        self.begin(then)
        yield
        self.jump(end)
        self.begin(end)

    @contextlib.contextmanager
    def loop(self) -> Generator[TextLoop]:
        """``for (;;) { … }``"""
        start, end = self.new_label(), self.new_label()
        self.jump(start)
        self.begin(start)
        yield TextLoop(self, end)
        self.jump(start)
        self.begin(end)

    @contextlib.contextmanager
    def count(self, end: TextValue, start: TextValue | int = 0) -> Generator[TextValue]:
        """``for (int64_t i = start; i < end; i++) { … }``"""
        index = self.variable("i64", start)
        with self.loop() as loop:
            i = index.get()
            loop.leave_if(i >= end)
            yield i
            index.set(i + 1)


class TextModule:
    """A module of functions.

    ``pause`` is the call of the target's spin-wait intrinsic; empty if it has none.
    """

    def __init__(self, pause: str) -> None:
        self._functions: list[TextFunction] = []
        self._texts: list[str] = []
        self._pause = pause

    def __str__(self) -> str:
        return "\n\n".join([*self._texts, self._pause_text(), *map(str, self._functions)]) + "\n"

    def function(
        self, name: str, result: str, arguments: Sequence[str], exported: bool = False, moves: bool = False
    ) -> TextFunction:
        """A new function; one that only ``moves`` bytes does so by vectors."""
        function = TextFunction(name, result, arguments, exported, moves)
        self._functions.append(function)
        return function

    def _pause_text(self) -> str:
        if not self._pause:
            return "define internal void @pause() alwaysinline { ret void }"
        declaration = f"declare void @{self._pause.replace('i32 1', 'i32')}"
        return f"{declaration}\n\ndefine internal void @pause() alwaysinline {{ call void @{self._pause} ret void }}"

    def bytes(self, function: TextFunction, data: bytes) -> TextValue:
        """The address of a constant, aligned to a cache line."""
        name = f"@bytes{len(self._texts)}"
        written = "".join(f"\\{byte:02x}" for byte in data)
        self._texts.append(f'{name} = internal constant [{len(data)} x i8] c"{written}", align 64')
        return TextValue(function, "ptr", name)

    def text(self, function: TextFunction, text: str) -> TextValue:
        """The address of a C string constant (ASCII)."""
        name = f"@text{len(self._texts)}"
        self._texts.append(f'{name} = internal constant [{len(text) + 1} x i8] c"{text}\\00"')
        return TextValue(function, "ptr", name)


def _bytes(type_: str) -> int:
    return 8 if type_ == "ptr" else int(type_[1:]) // 8

"""A builder of LLVM IR as text: values with operators, variables, structured control flow, structure fields.

It covers what the native runtime needs. A first call with an empty cache writes it beside the compiler: so it is not
llvmlite's builder, which takes 35 ms longer for it. Variables are allocas, which LLVM promotes to registers; so loops
and conditions need no phi nodes and read as in C:

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
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

_TYPES: dict[Any, str] = {ctypes.c_void_p: "ptr", ctypes.c_int64: "i64", ctypes.c_int32: "i32", ctypes.c_uint8: "i8"}


def _binary(op: str) -> Callable[[TextValue, TextValue | int], TextValue]:
    """``left op right``, both of one type."""
    return lambda left, right: left.function.emit(left.type, f"{op} {left.with_operand(right)}")


def _compare(predicate: str) -> Callable[[TextValue, TextValue | int], TextValue]:
    """``left predicate right``: an i1."""
    return lambda left, right: left.function.emit("i1", f"icmp {predicate} {left.with_operand(right)}")


@dataclass(frozen=True, eq=False)
class TextValue:
    """A value of LLVM type ``type``: a register or a constant. Comparisons are signed, ``//`` is unsigned."""

    function: TextFunction
    type: str
    name: str

    __add__, __sub__, __mul__, __floordiv__ = map(_binary, ("add", "sub", "mul", "udiv"))
    __and__, __or__ = map(_binary, ("and", "or"))
    __lt__, __le__, __gt__, __ge__ = map(_compare, ("slt", "sle", "sgt", "sge"))
    equals, differs = map(_compare, ("eq", "ne"))

    def with_operand(self, other: TextValue | int) -> str:
        """The operands of an instruction: this value, and another of its type."""
        return f"{self.type} {self.name}, {self.function.operand(self.type, other)}"


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
        self._function.branch(condition, self._end)

    def leave(self) -> None:
        """``break;``"""
        self._function.jump(self._end)


class TextFunction:
    """A function under construction."""

    def __init__(self, name: str, result: str, arguments: Sequence[str], exported: bool, moves: bool) -> None:
        self.name = name
        self.result = result
        self.arguments = [TextValue(self, t, f"%a{i}") for i, t in enumerate(arguments)]
        self._exported = exported
        self._moves = moves
        self._cells: list[str] = []
        self._lines: list[str] = []
        self._names = 0

    def __str__(self) -> str:
        arguments = ", ".join(f"{a.type} {a.name}" for a in self.arguments)
        linkage = "" if self._exported else "internal "
        # To make small code takes LLVM half of the time. Loops over memory are worth vectors, once; none becomes a call
        # of memset, as there are no symbols to resolve.
        size = "noinline" if self._moves else "optsize"
        head = f'define {linkage}{self.result} @{self.name}({arguments}) nounwind uwtable {size} "no-builtins" {{'
        return "\n".join([head, "entry:", *self._cells, *self._lines, "  unreachable", "}"])

    # Values

    def constant(self, type_: str, value: int) -> TextValue:
        """A constant; 0 of type ptr is null."""
        return TextValue(self, type_, "null" if type_ == "ptr" and value == 0 else str(value))

    def select(self, condition: TextValue, yes: TextValue | int, no: TextValue) -> TextValue:
        """``condition ? yes : no``"""
        chosen = f"{no.type} {self.operand(no.type, yes)}, {no.type} {no.name}"
        return self.emit(no.type, f"select i1 {condition.name}, {chosen}")

    def minimum(self, left: TextValue, right: TextValue) -> TextValue:
        """The signed minimum."""
        return self.select(left < right, left, right)

    def maximum(self, left: TextValue, right: TextValue) -> TextValue:
        """The signed maximum."""
        return self.select(left > right, left, right)

    def power_of_two(self, exponent: TextValue) -> TextValue:
        """``1 << exponent``"""
        return self.emit("i64", f"shl i64 1, {exponent.name}")

    def widen(self, value: TextValue) -> TextValue:
        """Sign-extend an i32 to i64."""
        return self.emit("i64", f"sext {value.type} {value.name} to i64")

    # Memory

    def at(self, pointer: TextValue, offset: TextValue | int) -> TextValue:
        """The address ``pointer + offset`` in bytes."""
        return self.emit("ptr", f"getelementptr i8, ptr {pointer.name}, i64 {self.operand('i64', offset)}")

    def align(self, pointer: TextValue, alignment: int) -> TextValue:
        """An address rounded up to a multiple of ``alignment``, a power of two."""
        bits = self.emit("i64", f"ptrtoint ptr {pointer.name} to i64")
        aligned = (bits + (alignment - 1)) & -alignment
        return self.emit("ptr", f"inttoptr i64 {aligned.name} to ptr")

    def load(self, type_: str, pointer: TextValue) -> TextValue:
        """Load from memory."""
        return self.emit(type_, f"load {type_}, ptr {pointer.name}")

    def store(self, type_: str, value: TextValue | int, pointer: TextValue) -> None:
        """Store to memory."""
        self._line(f"store {type_} {self.operand(type_, value)}, ptr {pointer.name}")

    def variable(self, type_: str, value: TextValue | int) -> Variable:
        """A variable with its initial value."""
        name = self._name()
        self._cells.append(f"  {name} = alloca {type_}")
        variable = Variable(TextValue(self, "ptr", name), type_)
        variable.set(value)
        return variable

    def stack(self, count: TextValue, size: int = 8) -> TextValue:
        """Stack memory of this call for ``count`` elements of ``size`` bytes."""
        return self.emit("ptr", f"alloca [{size} x i8], i64 {count.name}, align 16")

    def array(self, count: int) -> TextValue:
        """Stack memory of this call for so many pointers, which are registers where all accesses are known."""
        name = self._name()
        self._cells.append(f"  {name} = alloca [{count} x ptr], align 16")
        return TextValue(self, "ptr", name)

    def forget_memory(self) -> None:
        """Let no load after this be answered by a store before it."""
        self._line('call void asm sideeffect "", "~{memory}"()')

    def record(self, pointer: TextValue, struct: type[ctypes.Structure], index: TextValue | int = 0) -> Record:
        """The structure at index ``index`` of an array at ``pointer``."""
        return Record(self.at(pointer, index * ctypes.sizeof(struct)), struct)

    def is_zero(self, pointer: TextValue) -> TextValue:
        """Whether the float32 at an address is zero, of either sign."""
        return (self.load("i32", pointer) & 0x7FFFFFFF).equals(0)

    # Memory that threads share

    def load_atomic(self, type_: str, pointer: TextValue) -> TextValue:
        """A sequentially consistent load."""
        return self.emit(type_, f"load atomic {type_}, ptr {pointer.name} seq_cst, align {_bytes(type_)}")

    def store_atomic(self, type_: str, value: TextValue | int, pointer: TextValue) -> None:
        """A sequentially consistent store."""
        operand = self.operand(type_, value)
        self._line(f"store atomic {type_} {operand}, ptr {pointer.name} seq_cst, align {_bytes(type_)}")

    def add_atomic(self, type_: str, pointer: TextValue, value: TextValue | int) -> TextValue:
        """Atomic fetch-and-add; the old value."""
        return self.emit(type_, f"atomicrmw add ptr {pointer.name}, {type_} {self.operand(type_, value)} seq_cst")

    def exchange_atomic(self, type_: str, pointer: TextValue, value: TextValue | int) -> TextValue:
        """Atomic exchange; the old value."""
        return self.emit(type_, f"atomicrmw xchg ptr {pointer.name}, {type_} {self.operand(type_, value)} seq_cst")

    def pause(self) -> None:
        """The spin-wait hint (``pause``)."""
        self._line("call void @pause()")

    # Control

    def call(
        self, result: str, callee: TextValue | TextFunction, *arguments: TextValue, signature: str = ""
    ) -> TextValue:
        """Call a function; ``signature`` of one with variable arguments, as ``(i64, ...)``."""
        passed = ", ".join(f"{a.type} {a.name}" for a in arguments)
        name = callee.name if isinstance(callee, TextValue) else f"@{callee.name}"
        text = f"call {result} {signature} {name}({passed})"
        if result != "void":
            return self.emit(result, text)
        self._line(text)
        return TextValue(self, "void", "")

    def ret(self, value: TextValue | int | None = None) -> None:
        """Return from the function."""
        self._line("ret void" if value is None else f"ret {self.result} {self.operand(self.result, value)}")
        self._label(self._name())

    @contextlib.contextmanager
    def when(self, condition: TextValue) -> Generator[None]:
        """``if (condition) { … }``"""
        then, end = self._name(), self._name()
        self._line(f"br i1 {condition.name}, label {then}, label {end}")
        self._label(then)
        yield
        self.jump(end, follow=end)

    @contextlib.contextmanager
    def loop(self) -> Generator[TextLoop]:
        """``for (;;) { … }``"""
        start, end = self._name(), self._name()
        self.jump(start, follow=start)
        yield TextLoop(self, end)
        self.jump(start, follow=end)

    @contextlib.contextmanager
    def count(self, end: TextValue, start: TextValue | int = 0) -> Generator[TextValue]:
        """``for (int64_t i = start; i < end; i++) { … }``"""
        index = self.variable("i64", start)
        with self.loop() as loop:
            i = index.get()
            loop.leave_if(i >= end)
            yield i
            index.set(i + 1)

    def branch(self, condition: TextValue, target: str) -> None:
        """Branch to a label if the condition holds."""
        on = self._name()
        self._line(f"br i1 {condition.name}, label {target}, label {on}")
        self._label(on)

    def jump(self, target: str, follow: str = "") -> None:
        """Branch to a label; what is emitted next is at ``follow``."""
        self._line(f"br label {target}")
        self._label(follow or self._name())

    # Text

    def emit(self, type_: str, text: str) -> TextValue:
        """Emit an instruction with a result."""
        name = self._name()
        self._line(f"{name} = {text}")
        return TextValue(self, type_, name)

    def operand(self, type_: str, value: TextValue | int) -> str:
        """A value or a constant as an instruction's operand."""
        return value.name if isinstance(value, TextValue) else self.constant(type_, value).name

    def _name(self) -> str:
        self._names += 1
        return f"%v{self._names}"

    def _line(self, text: str) -> None:
        self._lines.append(f"  {text}")

    def _label(self, name: str) -> None:
        self._lines.append(f"{name[1:]}:")


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

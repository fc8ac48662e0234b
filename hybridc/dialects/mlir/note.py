"""Notes: the attributes that a pass writes on functions and operations for the passes after it, as typed values.

A module prints as MLIR that other tools accept, so what is known of a function or an operation, beyond what its
dialect says, is in attributes of its dictionary. A note names one of these and its type; the constants are in
:mod:`hybridc.dialects.mlir.graph_notes` and :mod:`hybridc.ir.kernels.kernel_notes`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from xdsl.dialects.builtin import ArrayAttr, IntAttr, IntegerAttr, StringAttr, UnitAttr, i64
from xdsl.ir import Attribute, Operation

from hybridc.dialects.mlir.integer_array import integer_array, integers_of
from hybridc.ground.records import dataclass

T = TypeVar("T")
Integers = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Note(Generic[T]):
    """An attribute as a value: how it is read and written, and what it is where it is ``absent``."""

    name: str
    read: Callable[[Any], T]
    write: Callable[[Any], Attribute]
    absent: T

    @staticmethod
    def flag(name: str) -> Note[bool]:
        """A property that an operation has, or not: ``unit``."""
        return Note(name, lambda _: True, lambda _: UnitAttr(), False)

    @staticmethod
    def integer(name: str, absent: int = 0) -> Note[int]:
        """An integer: ``3 : i64``."""
        return Note(name, _read_integer, _write_integer, absent)

    @staticmethod
    def integers(name: str) -> Note[Integers]:
        """Integers: ``array<i64: 3, 4>``."""
        return Note(name, integers_of, lambda integers: integer_array(tuple(integers)), ())

    @staticmethod
    def pairs(name: str) -> Note[Pairs]:
        """Pairs of integers, one after the other: ``array<i64: 0, 1, 2, 3>``."""
        return Note(name, _read_pairs, _write_pairs, ())

    @staticmethod
    def lists(name: str) -> Note[tuple[Integers, ...]]:
        """Lists of integers: ``[array<i64: 3, 4>, array<i64>]``."""
        return Note(name, _read_lists, _write_lists, ())

    @staticmethod
    def text(name: str) -> Note[str]:
        """A text: ``"relu"``."""
        return Note(name, _read_text, _write_text, "")

    @staticmethod
    def texts(name: str) -> Note[tuple[str, ...]]:
        """Texts: ``["data", "parameter"]``."""
        return Note(name, _read_texts, _write_texts, ())

    def or_none(self) -> Note[T | None]:
        """The same attribute, whose value is None where it is absent."""
        return Note(self.name, self.read, self.write, None)

    def of(self, op: Operation) -> T:
        """The value that an operation has."""
        attribute = op.attributes.get(self.name)
        return self.absent if attribute is None else self.read(attribute)

    def is_on(self, op: Operation) -> bool:
        """Whether an operation has the attribute."""
        return self.name in op.attributes

    def put(self, op: Operation, value: Any) -> None:
        """Set the attribute to a value."""
        op.attributes[self.name] = self.write(value)

    def drop(self, op: Operation) -> None:
        """Remove the attribute."""
        op.attributes.pop(self.name, None)

    def copy(self, source: Operation, target: Operation) -> None:
        """Set the attribute of one operation to that of another, if it has one."""
        if self.is_on(source):
            target.attributes[self.name] = source.attributes[self.name]


# --- how values are read and written ----------------------------------------------------------------------------------


@functools.lru_cache(1024)
def _write_integer(value: int) -> Attribute:
    return IntegerAttr.new([IntAttr(value), i64])


def _read_integer(attribute: IntegerAttr[Any]) -> int:
    return attribute.value.data


def _read_pairs(attribute: Any) -> Pairs:
    integers = integers_of(attribute)
    return tuple(zip(integers[::2], integers[1::2], strict=True))


def _write_pairs(pairs: Sequence[tuple[int, int]]) -> Attribute:
    return integer_array([index for pair in pairs for index in pair])


def _read_lists(attribute: ArrayAttr[Any]) -> tuple[Integers, ...]:
    return tuple([integers_of(part) for part in attribute])


def _write_lists(lists: Sequence[Sequence[int]]) -> Attribute:
    return ArrayAttr([integer_array(part) for part in lists])


@functools.lru_cache(1024)
def _write_text(text: str) -> Attribute:
    return StringAttr(text)


def _read_text(attribute: StringAttr) -> str:
    return attribute.data


def _read_texts(attribute: ArrayAttr[StringAttr]) -> tuple[str, ...]:
    return tuple([text.data for text in attribute])


def _write_texts(texts: Sequence[str]) -> Attribute:
    return ArrayAttr([_write_text(text) for text in texts])

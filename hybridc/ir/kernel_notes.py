"""The attributes of kernels and of their ops as typed values: their names, and how they are read and written.

A kernel prints as a function that other MLIR tools accept, so what is known of it is in attributes. Here each is a
typed value.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from xdsl.dialects.builtin import ArrayAttr, IntAttr, IntegerAttr, UnitAttr, i64
from xdsl.ir import Attribute, Operation

from hybridc.dialects.mlir.integer_array import integer_array, integers_of

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


def _read_lists(attribute: ArrayAttr[Any]) -> tuple[Integers, ...]:
    return tuple([integers_of(part) for part in attribute])


def _write_lists(lists: Sequence[Sequence[int]]) -> Attribute:
    return ArrayAttr([integer_array(part) for part in lists])


@functools.lru_cache(1024)
def _write_integers(integers: Integers) -> Attribute:
    return integer_array(integers)


def _read_pairs(attribute: Any) -> Pairs:
    integers = integers_of(attribute)
    return tuple(zip(integers[::2], integers[1::2], strict=True))


def _write_pairs(pairs: Sequence[tuple[int, int]]) -> Attribute:
    return _write_integers(tuple([index for pair in pairs for index in pair]))


@functools.lru_cache(1024)
def _write_integer(value: int) -> Attribute:
    return IntegerAttr.new([IntAttr(value), i64])


def _read_integer(attribute: IntegerAttr[Any]) -> int:
    return attribute.value.data


def _lists(name: str) -> Note[tuple[Integers, ...]]:
    return Note(name, _read_lists, _write_lists, ())


# Of kernels, for each of their loop nests: the sizes of the iteration space; the axes that are known to vary from call
# to call; those that are the grid of all; and of attention those that are rows, and those that are keys.
DOMAINS, VARYING = _lists("hybrid.domains"), _lists("hybrid.varying")
GRID, ATTENTION = _lists("hybrid.grid"), _lists("hybrid.attention")
# Of ops in kernels: the axis of each loop, -1 for the reduction loops of contractions; and the index of the loop nest.
AXES: Note[Integers] = Note("hybrid.axes", integers_of, lambda axes: integer_array(axes), ())
LOOP_NEST = Note("hybrid.loop_nest", _read_integer, _write_integer, 0)
# Of matmuls of prepacked panels.
PANELS = Note("hybrid.panels", lambda _: True, lambda _: UnitAttr(), False)
# What the memory plan needs to know of a kernel's code: bytes of scratch; pairs of an argument and the result that may
# overwrite it; and the indices of arguments, then results, that are not contiguous in some call.
SCRATCH = Note("hybrid.scratch", _read_integer, _write_integer, 0)
INPLACE: Note[Pairs] = Note("hybrid.inplace", _read_pairs, _write_pairs, ())
STRIDED: Note[Integers] = Note("hybrid.strided", integers_of, lambda views: _write_integers(tuple(views)), ())

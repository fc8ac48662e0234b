"""A module without its integers, and these: modules with equal outlines differ in sizes only.

Sizes are the integers of types and of a few attributes (``_SIZES``). Those of other attributes, such as the axes of a
loop, and the numbers with which a program computes are none: they are a part of the outline.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    BytesAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntAttr,
    IntegerType,
    ModuleOp,
)
from xdsl.ir import Attribute, Operation, ParametrizedAttribute, SSAValue

from hybridc.ir.structured import give_type

# The attributes whose integers are sizes, and offsets that follow from them.
_SIZES = frozenset(
    ("function_type", "hybrid.attributes", "hybrid.domains", "static_offsets", "static_output_shape", "static_sizes")
)

Holder = dict[str, Attribute] | SSAValue
Make = Callable[[int], Attribute]


@dataclass(frozen=True)
class Line:
    """``slope * n + start``"""

    slope: int
    start: int

    def at(self, n: int) -> int:
        """Its value."""
        return self.slope * n + self.start

    def size_at(self, n: int) -> int:
        """Its value, which is a size; ValueError if that would be negative."""
        value = self.at(n)
        if value < 0:
            raise ValueError("a size would be negative")
        return value


@dataclass(frozen=True, eq=False)
class Place:
    """An attribute with integers, ``numbers[start:stop]`` of the outline: a value's type, or what has a key."""

    holder: Holder
    key: str
    attribute: Attribute
    start: int
    stop: int

    def put(self, attribute: Attribute) -> None:
        """Let another attribute stand there."""
        if isinstance(self.holder, SSAValue):
            give_type(self.holder, attribute)
        else:
            self.holder[self.key] = attribute


@dataclass
class Outline:
    """What a module consists of, in the order of its text: ``words`` without integers, and the ``numbers``."""

    words: list[Any] = field(default_factory=lambda: list[Any]())
    numbers: list[int] = field(default_factory=lambda: list[int]())


def outline(module: ModuleOp) -> tuple[Outline, list[Place]]:
    """The outline of a module, and where its numbers stand."""
    reader = _Reader()
    reader.operation(module)
    return reader.made, reader.places


class _Reader:
    def __init__(self) -> None:
        self.made = Outline()
        self.places: list[Place] = []
        self.values: dict[SSAValue, int] = {}
        self.parts: dict[int, tuple[list[Any], list[int]]] = {}  # of attributes that were met, by identity

    def operation(self, op: Operation) -> None:
        """An operation with all that is in it."""
        words = self.made.words
        words += [op.name, *[self.values[v] for v in op.operands]]
        for held in (op.properties, op.attributes):
            for key in sorted(held):
                words.append(key)
                if key in _SIZES:
                    self.attribute(held, key, held[key])
                else:
                    _take_apart(held[key], words, words)
        for result in op.results:
            self.value(result)
        for region in op.regions:
            for block in region.blocks:
                words += ["block", len(block.args)]
                for argument in block.args:
                    self.value(argument)
                for inner in block.ops:
                    self.operation(inner)
        words.append("end")

    def value(self, value: SSAValue) -> None:
        """A result or an argument."""
        self.values[value] = len(self.values)
        self.attribute(value, "type", value.type)

    def attribute(self, holder: Holder, key: str, attribute: Attribute) -> None:
        """An attribute and its place, if it has integers."""
        parts = self.parts.get(id(attribute))
        if parts is None:
            parts = self.parts[id(attribute)] = ([], [])
            _take_apart(attribute, *parts)
        words, numbers = parts
        self.made.words += words
        if numbers:
            start = len(self.made.numbers)
            self.made.numbers += numbers
            self.places.append(Place(holder, key, attribute, start, len(self.made.numbers)))


def _take_apart(attribute: Attribute, words: list[Any], numbers: list[int]) -> None:
    """Append what an attribute consists of."""
    match attribute:
        case IntAttr():
            numbers.append(attribute.data)
            return
        case DenseArrayBase() if isinstance(attribute.elt_type, IntegerType):
            found = cast("DenseArrayBase[IntegerType]", attribute).get_values()
            words += ["integers", attribute.elt_type, len(found)]
            numbers += found
            return
        case DictionaryAttr():
            words += ["dictionary", *attribute.data]
            inner: Sequence[Attribute] = tuple(attribute.data.values())
        case ArrayAttr():
            words += ["array", len(attribute.data)]
            inner = cast("Sequence[Attribute]", attribute.data)
        case ParametrizedAttribute() if not isinstance(attribute, IntegerType):
            words.append(type(attribute))
            inner = attribute.parameters
        case BytesAttr():  # of a constant, perhaps a large one
            words.append(hashlib.sha256(attribute.data).digest())
            return
        case _:
            words.append(attribute)
            return
    for part in inner:
        _take_apart(part, words, numbers)


class Makers:
    """What makes attributes for a size. What several have in common, such as a type, is made once for them."""

    def __init__(self) -> None:
        self._known: dict[Any, Make] = {}

    def maker(self, attribute: Attribute, numbers: Sequence[int | Line]) -> Attribute | Make:
        """What makes the same attribute for a size, with these integers; the attribute itself if none varies."""
        if all(isinstance(x, int) for x in numbers):
            return attribute
        key = (attribute, tuple(numbers))
        if key not in self._known:
            self._known[key] = _remembered(self._make(attribute, numbers))
        return self._known[key]

    def _make(self, attribute: Attribute, numbers: Sequence[int | Line]) -> Make:
        match attribute:
            case IntAttr():
                (line,) = cast("Sequence[Line]", numbers)
                return lambda n: IntAttr(line.size_at(n))
            case DenseArrayBase() if isinstance(attribute.elt_type, IntegerType):
                kind = attribute.elt_type
                return lambda n: DenseArrayBase.from_list(
                    kind, [x if isinstance(x, int) else x.size_at(n) for x in numbers]
                )
            case DictionaryAttr():
                keys = tuple(attribute.data)
                parts = self._parts([*attribute.data.values()], numbers)
                return lambda n: DictionaryAttr(dict(zip(keys, _made(parts, n), strict=True)))
            case ArrayAttr():
                parts = self._parts(cast("Sequence[Attribute]", attribute.data), numbers)
                return lambda n: ArrayAttr(_made(parts, n))
            case ParametrizedAttribute():
                kind, parts = type(attribute), self._parts(attribute.parameters, numbers)
                return lambda n: kind.new(_made(parts, n))
            case _:
                raise TypeError(f"{attribute} has no integers")

    def _parts(self, parts: Sequence[Attribute], numbers: Sequence[int | Line]) -> list[Attribute | Make]:
        found: list[Attribute | Make] = []
        start = 0
        for part in parts:
            own: list[int] = []
            _take_apart(part, [], own)
            found.append(self.maker(part, numbers[start : start + len(own)]))
            start += len(own)
        return found


def _made(parts: Sequence[Attribute | Make], n: int) -> list[Attribute]:
    return [part if isinstance(part, Attribute) else part(n) for part in parts]


def _remembered(make: Make) -> Make:
    """The same, but what was made for the size of before is not made again."""
    return functools.lru_cache(1)(make)

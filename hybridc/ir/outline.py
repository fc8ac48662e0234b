"""A module without its integers, and these: modules with equal outlines differ in sizes only.

Sizes are the integers of types and of a few attributes (``_SIZES``). Those of other attributes, such as the axes of a
loop, and the numbers with which a program computes are none: they are a part of the outline. What a pass decided by
comparing sizes it records where it does so (:class:`SizeDecisions`): a module has other sizes only if each decision
would be the same.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import math
from collections.abc import Callable, Generator, Iterable, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, cast

from xdsl.dialects import tensor
from xdsl.dialects.builtin import (
    ArrayAttr,
    BytesAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntAttr,
    IntegerType,
    ModuleOp,
    i64,
)
from xdsl.ir import Attribute, Operation, ParametrizedAttribute, SSAValue

from hybridc.ir.structured import give_type, groups_of, kernels, shape_of
from hybridc.ir.values import functions

# The attributes whose integers are sizes, and offsets that follow from them.
_SIZES = frozenset(
    (
        *("function_type", "hybrid.attributes", "hybrid.domains", "hybrid.decisions"),
        *("static_offsets", "static_output_shape", "static_sizes"),
    )
)
_DECISIONS = "hybrid.decisions"

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
class OutlinedAttribute:
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


def outline(module: ModuleOp) -> tuple[Outline, list[OutlinedAttribute]]:
    """The outline of a module, and where its numbers stand."""
    reader = _OutlineReader()
    reader.operation(module)
    return reader.made, reader.places


class _OutlineReader:
    def __init__(self) -> None:
        self.made = Outline()
        self.places: list[OutlinedAttribute] = []
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
            self.places.append(OutlinedAttribute(holder, key, attribute, start, len(self.made.numbers)))


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


# --- decisions ----------------------------------------------------------------------------------------------


class SizeDecisions:
    """What a pass decided by sizes, noted in the module: ``hybrid.decisions`` lists a limit and factors of each."""

    def __init__(self) -> None:
        self._noted: list[tuple[int, ...]] = []

    def at_least(self, limit: int, *factors: int) -> bool:
        """Whether the product of some sizes reaches a limit, on which something depends from now on."""
        self._noted.append((limit, *factors))
        return math.prod(factors) >= limit

    def note(self, module: ModuleOp) -> None:
        """Add them to those of the passes before."""
        before = cast("Iterable[Attribute]", module.attributes.get(_DECISIONS, ()))
        if self._noted:
            now = (DenseArrayBase.from_list(i64, each) for each in self._noted)
            module.attributes[_DECISIONS] = ArrayAttr([*before, *now])


@dataclass(frozen=True)
class _Guard:
    """A decision that depends on ``n``: whether the product of the factors reaches the limit."""

    limit: int
    factors: tuple[int | Line, ...]

    def reached(self, n: int) -> bool:
        """How it comes out at a size."""
        return math.prod(x if isinstance(x, int) else x.at(n) for x in self.factors) >= self.limit


def _guards(numbers: Sequence[int], places: Iterable[OutlinedAttribute], lines: dict[int, Line]) -> set[_Guard]:
    """The decisions of a module that depend on ``n``."""
    found: set[_Guard] = set()
    for place in places:
        if place.key != _DECISIONS:
            continue
        start = place.start
        for each in cast("ArrayAttr[DenseArrayBase[IntegerType]]", place.attribute):
            limit, *factors = (lines.get(i, numbers[i]) for i in range(start, start + len(each)))
            start += len(each)
            assert isinstance(limit, int), "limits are the compiler's own numbers"
            if any(isinstance(x, Line) for x in factors):
                found.add(_Guard(limit, tuple(factors)))
    return found


# --- kernels and the calls of them at any size ------------------------------------------------------------------------
# The compiler made two modules of the same graph at two sizes ``n``. If they differ in sizes only, and each of these
# is ``a * n + b`` in both, with whole numbers and ``a >= 0``, the module at any other ``n`` follows. That it is a valid
# one:
#
# * What operations demand of sizes is linear, but for two things: sizes that are equal, that add up, that are a fixed
# number times another. Linear functions of ``n`` that are equal at two sizes are equal at all. * The two things are
# checked at every ``n``: an axis that stands for several has as many elements as these together, and a part lies within
# its array. No size is negative. * A graph whose constants follow from ``n`` (the mean over a batch) has other
# constants in both modules, which then do not differ in sizes only.
#
# All that depends on sizes in other ways is decided after this level: how threads share a kernel, the pieces of
# reductions, the way of a product, where buffers lie.

_RESHAPES = (tensor.CollapseShapeOp, tensor.ExpandShapeOp)
_PARTS = (tensor.ExtractSliceOp, tensor.InsertSliceOp)


def line_through(first: tuple[int, int], second: tuple[int, int]) -> Line | None:
    """The line through two points ``(n, value)``, if its numbers are whole and it does not fall."""
    slope, rest = divmod(second[1] - first[1], second[0] - first[0])
    return None if rest or slope < 0 else Line(slope, first[1] - slope * first[0])


def lines_through(first: tuple[int, Sequence[int]], second: tuple[int, Sequence[int]]) -> dict[int, Line] | None:
    """The lines of the values that differ, by their positions; None if some lie on none."""
    found: dict[int, Line] = {}
    for i, (a, b) in enumerate(zip(first[1], second[1], strict=True)):
        if a == b:
            continue
        line = line_through((first[0], a), (second[0], b))
        if line is None:
            return None
        found[i] = line
    return found


def moved(numbers: Sequence[int], lines: dict[int, Line], n: int) -> list[int]:
    """The numbers with those that lie on lines as they are at a size."""
    made = list(numbers)
    for i, line in lines.items():
        made[i] = line.at(n)
    return made


@dataclass(frozen=True, eq=False)
class _Varying:
    """What makes an attribute with sizes that depend on ``n``, and all places where it stands."""

    make: Make
    places: list[OutlinedAttribute]


class Resizable:
    """A module whose sizes follow from one, ``n``; ``lines`` say how the numbers of its outline do, by positions.

    It was made for ``n`` and for another size. A decision that came out differently for sizes for which the compiler
    made the same does not matter.
    """

    def __init__(
        self,
        module: ModuleOp,
        n: int,
        other: int,
        made: Outline,
        places: Sequence[OutlinedAttribute],
        lines: dict[int, Line],
    ) -> None:
        self.module = module
        self.n: int = n
        self._guards = [(guard, guard.reached(n)) for guard in _guards(made.numbers, places, lines)]
        self.compiled_at(other)
        self._outline = made
        self._lines = lines
        self._varying = _grouped(made.numbers, places, lines)
        self._axes = _varying_axes(module, places, lines)
        varying = {id(place.holder) for held in self._varying for place in held.places}
        self._checked = [op for op in module.walk() if isinstance(op, (*_RESHAPES, *_PARTS)) and _varies(op, varying)]

    @contextlib.contextmanager
    def lent(self) -> Generator[ModuleOp]:
        """The module, for the passes that plan memory: what they replace and note is as before afterwards."""
        own = [f for f in functions(self.module) if f.sym_visibility is None]
        noted = [(f, dict(f.attributes)) for f in functions(self.module)]
        try:
            yield self.module
        finally:
            for function in functions(self.module):
                if function.sym_visibility is None:
                    function.detach()
            self.module.body.block.add_ops(own)
            for function, attributes in noted:
                function.attributes.clear()
                function.attributes.update(attributes)

    def note(self, module: ModuleOp) -> None:
        """Note on the kernels of a module, if it is as this one, which of their axes vary."""
        for name, function in kernels(module).items():
            if name in self._axes:
                function.attributes["hybrid.varying"] = self._axes[name]

    def is_like(self, other: Outline) -> bool:
        """Whether a module with this outline differs in sizes only."""
        return other.words == self._outline.words

    def gives(self, n: int, other: Outline) -> bool:
        """Whether a module with this outline is what this one is at a size."""
        return self.is_like(other) and other.numbers == moved(self._outline.numbers, self._lines, n)

    def compiled_at(self, n: int) -> None:
        """Note that the compiler made the same for a size."""
        self._guards = [(guard, reached) for guard, reached in self._guards if guard.reached(n) == reached]

    def resize(self, n: int) -> bool:
        """Give the module the sizes that follow from ``n``.

        False if there are none, or the compiler would decide otherwise: then it stays as it is.
        """
        if n == self.n:
            return True
        if any(guard.reached(n) != reached for guard, reached in self._guards):
            return False
        before, self.n = self.n, 0  # while it is neither
        try:
            self._put(n)
            fits = all(map(_holds, self._checked))
        except ValueError:
            fits = False
        if not fits:
            self._put(before)
        self.n = n if fits else before
        return fits

    def _put(self, n: int) -> None:
        made = [(varying.places, varying.make(n)) for varying in self._varying]
        for places, attribute in made:
            for place in places:
                place.put(attribute)


def _grouped(numbers: Sequence[int], places: Iterable[OutlinedAttribute], lines: dict[int, Line]) -> list[_Varying]:
    """Equal attributes with equal lines together, as they are made once."""
    found: dict[Any, list[OutlinedAttribute]] = {}
    makers = Makers()
    for place in places:
        span = range(place.start, place.stop)
        if any(i in lines for i in span):
            found.setdefault((place.attribute, tuple(lines.get(i, numbers[i]) for i in span)), []).append(place)
    made = ((makers.maker(attribute, given), held) for (attribute, given), held in found.items())
    return [_Varying(make, held) for make, held in made if not isinstance(make, Attribute)]


def _varying_axes(
    module: ModuleOp, places: Iterable[OutlinedAttribute], lines: dict[int, Line]
) -> dict[str, Attribute]:
    """For each kernel that has any, the axes of its nests whose sizes vary: ``hybrid.varying``."""
    found: dict[str, Attribute] = {}
    domains = {id(place.holder): place for place in places if place.key == "hybrid.domains"}
    for name, function in kernels(module).items():
        place = domains.get(id(function.attributes))
        if place is None or not any(i in lines for i in range(place.start, place.stop)):
            continue
        position, noted = place.start, list[Attribute]()
        for domain in cast("ArrayAttr[DenseArrayBase[Any]]", place.attribute):
            noted.append(DenseArrayBase.from_list(i64, [a for a in range(len(domain)) if position + a in lines]))
            position += len(domain)
        found[name] = ArrayAttr(noted)
    return found


# --- what is not linear -----------------------------------------------------------------------------------


def _varies(op: Operation, varying: Set[int]) -> bool:
    """Whether any size that an operation asks about varies, if ``varying`` are the holders of those that do."""
    values = [*op.operands, *op.results]
    return any(id(v) in varying for v in values) or any(id(a) in varying for a in (op.attributes, op.properties))


def _holds(op: Operation) -> bool:
    """Whether a reshape keeps all elements, and a part lies within its array."""
    if isinstance(op, _RESHAPES):
        few, many = sorted((shape_of(op.operands[0]), shape_of(op.results[0])), key=len)
        return all(n == math.prod(many[i] for i in group) for n, group in zip(few, groups_of(op), strict=True))
    part = cast("tensor.ExtractSliceOp | tensor.InsertSliceOp", op)
    whole: SSAValue = part.operands[0] if isinstance(part, tensor.ExtractSliceOp) else part.results[0]
    axes = zip(
        shape_of(whole),
        part.static_offsets.get_values(),
        part.static_sizes.get_values(),
        part.static_strides.get_values(),
        strict=True,
    )
    return all(n == 0 or (0 <= begin < size and 0 <= begin + (n - 1) * step < size) for size, begin, n, step in axes)

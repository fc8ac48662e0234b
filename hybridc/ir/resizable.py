"""Kernels and the calls of them at any size: what two compilations of one network have in common.

The compiler made two modules of the same graph at two sizes ``n``. If they differ in sizes only, and each of these is
``a * n + b`` in both, with whole numbers and ``a >= 0``, the module at any other ``n`` follows. That it is a valid one:

* What operations demand of sizes is linear, but for two things: sizes that are equal, that add up, that are a fixed
  number times another. Linear functions of ``n`` that are equal at two sizes are equal at all.
* The two things are checked at every ``n``: an axis that stands for several has as many elements as these together,
  and a part lies within its array. No size is negative.
* A graph whose constants follow from ``n`` (the mean over a batch) has other constants in both modules, which then do
  not differ in sizes only.

All that depends on sizes in other ways is decided after this level: how threads share a kernel, the pieces of
reductions, the way of a product, where buffers lie.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Generator, Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects import tensor
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, ModuleOp, i64
from xdsl.ir import Attribute, Operation, SSAValue

from hybridc.ir.outline import Line, Make, Makers, Outline, Place
from hybridc.ir.structured import groups_of, kernels, shape_of
from hybridc.ir.values import functions

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
    places: list[Place]


class Resizable:
    """A module whose sizes follow from one, ``n``; ``lines`` say how the numbers of its outline do, by positions."""

    def __init__(
        self, module: ModuleOp, n: int, made: Outline, places: Sequence[Place], lines: dict[int, Line]
    ) -> None:
        self.module = module
        self.n: int = n
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

    def resize(self, n: int) -> bool:
        """Give the module the sizes that follow from ``n``; False if there are none, and it stays as it is."""
        if n == self.n:
            return True
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


def _grouped(numbers: Sequence[int], places: Iterable[Place], lines: dict[int, Line]) -> list[_Varying]:
    """Equal attributes with equal lines together, as they are made once."""
    found: dict[Any, list[Place]] = {}
    makers = Makers()
    for place in places:
        span = range(place.start, place.stop)
        if any(i in lines for i in span):
            found.setdefault((place.attribute, tuple(lines.get(i, numbers[i]) for i in span)), []).append(place)
    made = ((makers.maker(attribute, given), held) for (attribute, given), held in found.items())
    return [_Varying(make, held) for make, held in made if not isinstance(make, Attribute)]


def _varying_axes(module: ModuleOp, places: Iterable[Place], lines: dict[int, Line]) -> dict[str, Attribute]:
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

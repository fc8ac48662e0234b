"""A module of which the sizes are symbolic: the same kernels, and the calls of them, for any sizes.

The compiler made it with symbolic sizes (:mod:`hybridc.ground.sizes`), so each of its integers says how it follows from
the free sizes of the graph. Where all guards hold, the compiler would do the same: the module with the values of its
sizes put in place is what it would make. All that depends on sizes in other ways is decided after this level: how
threads share a kernel, how reductions are split, the schedule of a contraction, where buffers lie.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Generator, Iterable, Sequence, Set
from dataclasses import field
from typing import cast

from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntAttr,
    ModuleOp,
    i64,
)
from xdsl.ir import Attribute, Operation, ParametrizedAttribute, SSAValue
from xdsl.ir.affine import AffineBinaryOpExpr, AffineConstantExpr, AffineExpr, AffineMap

from hybridc.dialects.body import Body
from hybridc.dialects.mlir.hybrid import HandleAttr
from hybridc.dialects.mlir.integer_array import integer_array, integers_of
from hybridc.ground.records import dataclass
from hybridc.ground.sizes import Sizes, is_size
from hybridc.ir.kernels.kernel import Axes, Kernel, LoopNest
from hybridc.ir.kernels.kernel_module import KernelFunction, kernel_functions
from hybridc.ir.structured import give_type
from hybridc.ir.values import functions

# Makes an attribute, with the values of the atoms, of those that were made before.
Make = Callable[[Sequence[Attribute], Sequence[int]], Attribute]


@dataclass(frozen=True, eq=False)
class _Holders:
    """All that has the same attribute: values as their type, dictionaries under a key."""

    values: list[SSAValue] = field(default_factory=lambda: list[SSAValue]())
    holders: list[tuple[dict[str, Attribute], str]] = field(
        default_factory=lambda: list[tuple[dict[str, Attribute], str]]()
    )

    def put(self, attribute: Attribute) -> None:
        """Let another attribute stand there."""
        for value in self.values:
            give_type(value, attribute)
        for holder, key in self.holders:
            holder[key] = attribute


class SizedModule:
    """A module that can be given the values of its symbolic sizes; until it is, nobody but this may read it.

    Axes whose sizes follow from the ``varying`` atoms are known to the kernels: their code takes them as arguments.
    """

    def __init__(self, module: ModuleOp, sizes: Sizes, varying: Set[int]) -> None:
        self.module = module
        self._sizes = sizes
        self._recipes = _Recipes()
        self._places = _places(module, self._recipes)
        self._kernels = {name: (f, f.kernel) for name, f in kernel_functions(module).items()}
        self._sized = {name for name, (_, kernel) in self._kernels.items() if _is_sized(kernel)}
        self._varying: dict[str, list[Axes]] = {}
        self._first = frozenset(varying)
        self.vary(varying)

    def put(self, values: Sequence[int]) -> None:
        """Give the module the sizes that follow from the values of the atoms."""
        attributes = self._recipes.made(values)
        for recipe, places in self._places.items():
            places.put(attributes[recipe])
        for name, (function, kernel) in self._kernels.items():
            varying = self._varying.get(name, ())
            if name in self._sized or any(varying):
                function.hold(kernel.at(lambda n: _value(n, values), varying))

    def vary(self, atoms: Set[int]) -> None:
        """Let the axes of the kernels vary that do with some free sizes.

        Axes that are summed do only with those of the first time: sums are rounded as their code adds, which must not
        depend on what was called before.
        """
        for name, (_, kernel) in self._kernels.items():
            self._varying[name] = [self._axes(nest, atoms) for nest in kernel.nests]

    def _axes(self, nest: LoopNest, atoms: Set[int]) -> Axes:
        """The axes of a loop nest that vary with some free sizes."""
        summed = {a for op in nest.ops for a in op.reduced}
        of = [self._first if a in summed else atoms for a in range(len(nest.domain))]
        return tuple([a for a, n in enumerate(nest.domain) if is_size(n) and self._sizes.depends(n, of[a])])

    def vary_as(self, other: SizedModule) -> None:
        """Let the same axes vary as of the kernels of the same names of another module."""
        self._varying = other._varying.copy()

    @contextlib.contextmanager
    def borrowed(self) -> Generator[ModuleOp]:
        """The module, for the passes that plan memory; their changes are undone afterwards."""
        own = functions(self.module)
        noted = [(f, dict(f.attributes)) for f in own]
        try:
            yield self.module
        finally:
            for function in functions(self.module):
                function.detach()
            self.module.body.block.add_ops(own)
            for function, attributes in noted:
                function.attributes.clear()
                function.attributes.update(attributes)


def _is_sized(kernel: Kernel) -> bool:
    """Whether any number of a kernel is symbolic; else it is the same kernel for all sizes."""
    shapes = itertools.chain((v.shape for v in kernel.values), (nest.domain for nest in kernel.nests))
    return any(map(is_size, itertools.chain.from_iterable(shapes))) or any(s.is_sized for s in kernel.ops)


def _places(module: ModuleOp, recipes: _Recipes) -> dict[int, _Holders]:
    """Positions of attributes around a module's kernels that have symbolic sizes, by the indices of their recipes."""
    places: dict[int, _Holders] = {}
    for op in (op for f in functions(module) if not isinstance(f, KernelFunction) for op in f.walk()):
        for value in _values(op):
            if (recipe := recipes.number(value.type)) is not None:
                places.setdefault(recipe, _Holders()).values.append(value)
        for attributes in (op.properties, op.attributes):
            for key, attribute in attributes.items():
                if (recipe := recipes.number(attribute)) is not None:
                    places.setdefault(recipe, _Holders()).holders.append((attributes, key))
    return places


def _values(op: Operation) -> Iterable[SSAValue]:
    """The results of an operation, and the arguments of its blocks."""
    yield from op.results
    for region in op.regions:
        for block in region.blocks:
            yield from block.args


class _Recipes:
    """Recipes of attributes with symbolic sizes, each once, parts before the attributes that contain them."""

    def __init__(self) -> None:
        self._numbers: dict[Attribute, int] = {}
        self._plain: dict[int, Attribute] = {}  # those without sizes, by identity, kept so that it stays theirs
        self._makes: list[Make] = []

    def made(self, values: Sequence[int]) -> list[Attribute]:
        """The attributes of all recipes, for values of the atoms."""
        attributes: list[Attribute] = []
        for make in self._makes:
            attributes.append(make(attributes, values))
        return attributes

    def number(self, attribute: Attribute) -> int | None:
        """The number of an attribute's recipe; None if it has no symbolic sizes."""
        if id(attribute) in self._plain:
            return None
        known = self._numbers.get(attribute)
        if known is not None:
            return known
        make = self._make(attribute)
        if make is None:
            self._plain[id(attribute)] = attribute
            return None
        self._makes.append(make)
        self._numbers[attribute] = len(self._makes) - 1
        return len(self._makes) - 1

    def _make(self, attribute: Attribute) -> Make | None:
        match attribute:
            case IntAttr():
                size = attribute.data
                return (lambda _, values: IntAttr(size.at(values))) if is_size(size) else None
            case DenseArrayBase():
                numbers = integers_of(attribute) if attribute.elt_type == i64 else ()
                if not any(is_size(n) for n in numbers):
                    return None
                return lambda _, values: integer_array([_value(n, values) for n in numbers])
            case AffineMapAttr():
                affine = attribute.data
                if not any(is_size(n) for e in affine.results for n in _constants(e)):
                    return None
                return lambda _, values: AffineMapAttr(
                    AffineMap(
                        affine.num_dims, affine.num_symbols, tuple(_expression(e, values) for e in affine.results)
                    )
                )
            case DictionaryAttr():
                keys = tuple(attribute.data)
                return self._of(
                    tuple(attribute.data.values()), lambda parts: DictionaryAttr(dict(zip(keys, parts, strict=True)))
                )
            case ArrayAttr():
                return self._of(cast("Sequence[Attribute]", attribute.data), ArrayAttr)
            case HandleAttr() if isinstance(attribute.data, Body):
                body = attribute.data
                fixed = body.with_attributes(lambda n: 0 if is_size(n) else n)
                if fixed is body:
                    return None
                return lambda _, values: HandleAttr(body.with_attributes(lambda n: _value(n, values)))
            case ParametrizedAttribute():
                return self._of(attribute.parameters, type(attribute).new)
            case _:
                return None

    def _of(self, parts: Sequence[Attribute], join: Callable[[list[Attribute]], Attribute]) -> Make | None:
        """The recipe of an attribute that has parts."""
        numbers = [self.number(part) for part in parts]
        if all(n is None for n in numbers):
            return None
        pairs = list(zip(numbers, parts, strict=True))
        return lambda attributes, _: join([part if n is None else attributes[n] for n, part in pairs])


def _value(size: int, values: Sequence[int]) -> int:
    return size.at(values) if is_size(size) else size


def _constants(expression: AffineExpr) -> Iterable[int]:
    """The integers in an expression of an indexing map."""
    if isinstance(expression, AffineConstantExpr):
        yield expression.value
    elif isinstance(expression, AffineBinaryOpExpr):
        yield from _constants(expression.lhs)
        yield from _constants(expression.rhs)


def _expression(expression: AffineExpr, values: Sequence[int]) -> AffineExpr:
    if isinstance(expression, AffineConstantExpr):
        return AffineExpr.constant(_value(expression.value, values))
    if isinstance(expression, AffineBinaryOpExpr):
        left, right = _expression(expression.lhs, values), _expression(expression.rhs, values)
        return AffineBinaryOpExpr(expression.kind, left, right)
    return expression

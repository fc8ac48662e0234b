"""Common subexpression elimination: of equal operations on equal operands, the first replaces all.

This is xDSL's pass of the same name, but that operations are hashed by their operands and the numbers in their
properties: all else is compared only where these are the same, which few are (of the slices of one array each has
another offset).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any, ClassVar, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, FloatAttr, IntegerAttr, IntegerType, ModuleOp
from xdsl.ir import Attribute, Block, Operation
from xdsl.passes import ModulePass
from xdsl.traits import IsolatedFromAbove, is_side_effect_free

from hybridc.dialects.mlir.erase import erase_op, replace_op
from hybridc.dialects.mlir.integer_array import integers_of
from hybridc.ground.records import dataclass
from hybridc.ground.sizes import value_of
from hybridc.ir.facts import Fact, Needs
from hybridc.transforms.graph.dce import is_pure, is_unused

Known = dict[Hashable, list[Operation]]  # by their operands and numbers


@dataclass(frozen=True)
class CommonSubexpressionElimination(ModulePass):
    """Common subexpression elimination."""

    name = "cse"
    needs: ClassVar[Needs] = frozenset((Fact.REWRITTEN,))

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        _share(op.body.block, {})


def _share(block: Block, known: Known) -> None:
    """Replace operations of a block by equal ones that dominate them."""
    added: list[list[Operation]] = []
    for op in list(block.ops):
        for region in op.regions:
            if len(region.blocks) == 1:
                _share(region.block, {} if op.has_trait(IsolatedFromAbove) else known)
        if not _is_replaceable(op):
            continue
        if is_unused(op):
            erase_op(op)
            continue
        alike = known.setdefault(_found_by(op), [])
        first = next((other for other in alike if _are_equal(op, other)), None)
        if first is None:
            alike.append(op)
            added.append(alike)
        else:
            replace_op(op, (), first.results)
    for alike in added:  # leave the scope of the block
        alike.pop()


def _is_replaceable(op: Operation) -> bool:
    if not op.regions:
        return is_pure(type(op))
    return is_side_effect_free(op) and all(len(region.blocks) == 1 for region in op.regions)


def _found_by(op: Operation) -> Hashable:
    if op.operands:
        return type(op), tuple(map(id, op.operands)), _numbers(op)
    return type(op), tuple(op.properties.items()), tuple(op.attributes.items()), op.result_types


def _numbers(op: Operation) -> Hashable:
    """The numbers in properties and attributes; of symbolic sizes the values, which asks nothing about these."""
    return tuple([n for a in (*op.properties.values(), *op.attributes.values()) for n in _numbers_in(a)])


def _numbers_in(attribute: Attribute) -> Iterator[float]:
    kind, known = type(attribute), cast(Any, attribute)  # these classes have no others below them
    if kind is IntegerAttr or kind is FloatAttr:
        yield value_of(known.value.data)
    elif kind is DenseArrayBase:
        if isinstance(known.elt_type, IntegerType):
            yield from map(value_of, integers_of(known))
    elif kind is ArrayAttr:
        for element in known.data:
            yield from _numbers_in(element)


def _are_equal(op: Operation, other: Operation) -> bool:
    return (
        op.properties == other.properties
        and op.attributes == other.attributes
        and op.result_types == other.result_types
        and all(r.is_structurally_equivalent(o) for r, o in zip(op.regions, other.regions, strict=True))
    )

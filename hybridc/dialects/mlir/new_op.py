"""Making operations: as ``Operation.create`` of xDSL does, in less than half of the time.

A compilation makes thousands of them, which is a tenth of its time otherwise. xDSL sets each part by a property that
first takes back what was there before.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from xdsl.dialects.builtin import UNKNOWN_LOC
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue, SSAValues, Use
from xdsl.irdl import IRDLOperation, OptionalDef

Op = TypeVar("Op", bound=Operation)

_NOTHING: Mapping[str, Attribute] = {}


def new_op(
    kind: type[Op],
    operands: Sequence[SSAValue] = (),
    types: Sequence[Attribute] = (),
    properties: Mapping[str, Attribute] | None = None,
    attributes: Mapping[str, Attribute] = _NOTHING,
    regions: Sequence[Region] = (),
    successors: Sequence[Block] = (),
) -> Op:
    """A new operation, without location, that is in no block."""
    op = kind.__new__(kind)
    parts: Any = op
    parts._operands = SSAValues(operands)
    parts._operand_uses = _uses(op, operands)
    parts._successors = tuple(successors)
    parts._successor_uses = _uses(op, successors)
    op.results = SSAValues([OpResult(type_, op, i) for i, type_ in enumerate(types)])
    op.properties, op.attributes = dict(properties or ()), dict(attributes)
    op.location = UNKNOWN_LOC
    op.regions = ()
    for region in regions:
        op.add_region(region)
    if _has_defaults(kind):
        op.__post_init__()
    return op


@functools.cache
def _has_defaults(kind: type[Operation]) -> bool:
    """Whether operations of a class may have attributes that they were not given, or do more when they are made."""
    if not issubclass(kind, IRDLOperation) or kind.__post_init__ is not IRDLOperation.__post_init__:
        return True
    definition = kind.get_irdl_definition()
    attributes = (*definition.properties.values(), *definition.attributes.values())
    return any(
        not isinstance(attribute, OptionalDef) and attribute.default_value is not None for attribute in attributes
    )


def _uses(op: Operation, used: Sequence[SSAValue] | Sequence[Block]) -> tuple[Use, ...]:
    """The uses of values or blocks by an operation, entered in the use lists of these."""
    uses: list[Use] = []
    for index, operand in enumerate(used):
        use = Use(op, index)
        operand.add_use(use)
        uses.append(use)
    return tuple(uses)

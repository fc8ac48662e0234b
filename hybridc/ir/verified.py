"""Verification of a module after each pass; of what a pass has left as it was, nothing new can be found."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from hybridc.ir import spec


class Verifier:
    """Verifies a module whenever anything in it, or its level, is not what it was the last time.

    ``passes`` are those of the stage that were applied to it before.
    """

    def __init__(self, module: ModuleOp, passes: Sequence[ModulePass]) -> None:
        self._module = module
        self._level = functools.reduce(lambda level, each: spec.level_after(each.name, level), passes, "graph")
        self._known: list[Any] = []

    def verify(self, after: str) -> None:
        """Raise unless the module is valid, and of the level to which the pass of this name brings it."""
        level = spec.level_after(after, self._level)
        found = [level, *_parts(self._module)]
        if len(found) == len(self._known) and all(map(operator.is_, found, self._known)):
            return
        self._module.verify()
        spec.check(self._module, level, after)
        self._level, self._known = level, found


def _parts(module: ModuleOp) -> list[Any]:
    """Everything that a module is made of, in order. Attributes and types do not change, they are replaced."""
    found: list[Any] = []
    for op in module.walk():
        found += (op, op.parent, *op.operands, *op.successors)
        found += (*op.attributes, *op.attributes.values(), *op.properties, *op.properties.values())
        found += [result.type for result in op.results]
        for region in op.regions:
            found.append(region)
            for block in region.blocks:
                found += (block, *(argument.type for argument in block.args))
    return found

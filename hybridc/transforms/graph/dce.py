"""Dead code elimination: remove pure operations without uses.

This is xDSL's pass of the same name for regions without cycles. There one walk from the last operation to the first
visits every use before its definition, so no set of live operations is needed.
"""

from __future__ import annotations

import functools
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass
from xdsl.traits import IsTerminator, MemoryEffect, NoMemoryEffect, SymbolOpInterface
from xdsl.transforms.dead_code_elimination import would_be_trivially_dead

from hybridc.dialects.mlir.erase import erase_op
from hybridc.ground.records import dataclass
from hybridc.ir.facts import Fact, Needs


@dataclass(frozen=True)
class DeadCodeElimination(ModulePass):
    """Dead code elimination."""

    name = "dce"
    needs: ClassVar[Needs] = frozenset((Fact.REWRITTEN,))
    settles: ClassVar[bool] = True  # nothing is equal or unused then

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        _clean(op.body.block)


def _clean(block: Block) -> None:
    for op in reversed(list(block.ops)):
        if is_unused(op) and (is_pure(type(op)) or would_be_trivially_dead(op)):
            erase_op(op)
            continue
        for region in op.regions:
            for inner in reversed(region.blocks):
                _clean(inner)


def is_unused(op: Operation) -> bool:
    """Whether no result of the operation has a use."""
    return all(result.first_use is None for result in op.results)


@functools.cache
def is_pure(kind: type[Operation]) -> bool:
    """Whether all operations of a class, with their regions, are free of side effects."""
    effects = kind.get_traits_of_type(MemoryEffect)
    named = kind.has_trait(IsTerminator) or kind.has_trait(SymbolOpInterface)
    return bool(effects) and all(isinstance(e, NoMemoryEffect) for e in effects) and not named

"""Algebraic simplification by the operators' ``simplify``: ``x * 1`` becomes ``x``."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from hybridc.ground.records import dataclass
from hybridc.transforms.graph.splice import rewrite


@dataclass(frozen=True)
class Canonicalize(ModulePass):
    """Replace operators by simpler equal ones, to a fixed point."""

    name = "canonicalize-graph"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, lambda splicer, current: splicer.replace(current, current.operator.simplify))

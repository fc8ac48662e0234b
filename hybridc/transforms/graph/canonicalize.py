"""Replace operators by equal cheaper ones: ``x * 1`` by ``x``; an operator's ``simplify`` says how."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from hybridc.transforms.graph.splice import rewrite


@dataclass(frozen=True)
class Canonicalize(ModulePass):
    """Replace operators by equal, simpler forms, until none has one."""

    name = "canonicalize-graph"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, lambda splicer, current: splicer.replace(current, current.operator.simplify))

"""Replace operators by equal cheaper ones: ``x * 1`` by ``x``; an operator's ``simplify`` says how."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from hybridc.dialects.hybrid import HybridOp
from hybridc.transforms.splice import Splicer
from hybridc.transforms.values import functions, hybrid_ops


@dataclass(frozen=True)
class Canonicalize(ModulePass):
    """Ask every operator for a simpler form, and what it became again."""

    name = "canonicalize-graph"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            splicer = Splicer("hybrid.training" in function.attributes)
            work = hybrid_ops(function)[::-1]
            while work:
                current = work.pop()
                operator = current.operator
                made = splicer.replace(current, operator.simplify)
                work += [o for o in reversed(made or []) if isinstance(o, HybridOp)]

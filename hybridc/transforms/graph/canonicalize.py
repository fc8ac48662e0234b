"""Algebraic simplification by the operators' ``simplify``: ``x * 1`` becomes ``x``."""

from __future__ import annotations

from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from hybridc.ground.records import dataclass
from hybridc.ir.facts import Fact, Needs
from hybridc.transforms.graph.splice import rewrite


@dataclass(frozen=True)
class Canonicalize(ModulePass):
    """Replace operators by simpler equal ones, to a fixed point."""

    name = "canonicalize-graph"
    needs: ClassVar[Needs] = frozenset((Fact.SIMPLIFIABLE,))

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, lambda splicer, current: splicer.replace(current, current.operator.simplify))

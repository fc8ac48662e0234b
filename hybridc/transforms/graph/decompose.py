"""Replace composite operators by the operators that they are made of, until only primitive ones are left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from hybridc.dialects.error_context import raise_in_context, raise_located
from hybridc.dialects.mlir.hybrid import HybridOp, location_of
from hybridc.dialects.operator import Operator
from hybridc.errors import MXNetError, UnsupportedError, VerifyError
from hybridc.ground.records import dataclass
from hybridc.ir.facts import Fact, Needs
from hybridc.transforms.graph.splice import Splicer, rewrite


@dataclass(frozen=True)
class Decompose(ModulePass):
    """softmax → max, sub, exp, sum, div, by an operator's ``decompose``."""

    name = "decompose"
    needs: ClassVar[Needs] = frozenset((Fact.COMPOSITE,))

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, _decompose)


def _decompose(splicer: Splicer, op: HybridOp) -> list[Operation] | None:
    operator = op.operator
    if not operator.decomposes():
        return None
    try:
        ops = splicer.replace(op, lambda F, inputs: _decomposed(operator, F, inputs))
    except MXNetError as error:
        raise_located(error, location_of(op))
    if ops is None:
        raise VerifyError(
            f"{operator!r} ({location_of(op)}): the results of its decomposition do not have the types of its own, "
            f"{', '.join(str(r.type) for r in op.results)}"
        )
    return ops


def _decomposed(operator: Operator, F: Any, inputs: Sequence[Any]) -> Any:
    trace = inputs[0].trace if inputs else None
    before = len(trace.leaves) if trace is not None else 0
    try:
        results = operator.expanded(F, *inputs)
    except Exception as error:
        raise_in_context(operator, "decompose", error, F, *inputs)
        raise
    if trace is not None and "capture" in trace.roles[before:]:
        raise UnsupportedError(
            f"operator {operator.NAME}: its decomposition uses an array that is not one of its inputs; make it an input"
        )
    return results

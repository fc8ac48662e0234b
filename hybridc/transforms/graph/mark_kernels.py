"""Mark the operators that have a handwritten kernel for a target; hybrid-to-linalg calls these."""

from __future__ import annotations

from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from hybridc.dialects.error_context import raise_located
from hybridc.dialects.mlir.graph_notes import BY_HAND
from hybridc.dialects.mlir.hybrid import HybridOp, location_of
from hybridc.dialects.operator import Operator
from hybridc.errors import MXNetError
from hybridc.ground.records import dataclass
from hybridc.ir.facts import Fact, Needs
from hybridc.ir.structured import arrays_of, handwritten_kernel
from hybridc.ir.values import functions


@dataclass(frozen=True)
class MarkKernels(ModulePass):
    """See the module's docstring."""

    name = "mark-kernels"
    needs: ClassVar[Needs] = frozenset((Fact.HANDWRITTEN,))

    target: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            for inner in function.body.block.ops if function.body.blocks else ():
                if isinstance(inner, HybridOp) and has_handwritten_kernel(inner, self.target):
                    BY_HAND.put(inner, True)


def has_handwritten_kernel(op: HybridOp, target: str) -> bool:
    """Whether an operator has a handwritten kernel for a target and these shapes and dtypes."""
    if op.OPERATOR.kernel is Operator.kernel:  # most have none: the cheap test first
        return False
    try:
        return handwritten_kernel(op.operator, target, arrays_of(op.operands), arrays_of(op.results)) is not None
    except MXNetError as error:
        raise_located(error, location_of(op))

"""xDSL's ``tensor`` dialect, with one operation as MLIR has it."""

from __future__ import annotations

from xdsl.dialects import tensor
from xdsl.ir import Dialect
from xdsl.utils.exceptions import VerifyException


class ExpandShapeOp(tensor.ExpandShapeOp):
    """More axes for the same elements. A tensor without axes gets axes of size 1, which xDSL's verifier rejects."""

    def verify_(self) -> None:
        """As xDSL does, but for a source of rank 0."""
        if self.src.type.get_shape() or len(self.reassociation):
            super().verify_()
        elif set(self.result.type.get_shape()) - {1}:
            raise VerifyException("a tensor without axes has one element")


Tensor = Dialect(
    "tensor",
    [ExpandShapeOp if op is tensor.ExpandShapeOp else op for op in tensor.Tensor.operations],
    [*tensor.Tensor.attributes],
)

"""xDSL's ``tensor`` dialect, with ``expand_shape`` as in MLIR."""

from __future__ import annotations

from xdsl.dialects import tensor
from xdsl.ir import Dialect
from xdsl.utils.exceptions import VerifyException

from hybridc.dialects.mlir.hybrid import hybrid_shape


class ExpandShapeOp(tensor.ExpandShapeOp):
    """``tensor.expand_shape``, also of a rank-0 tensor to axes of size 1, which xDSL's verifier rejects."""

    def verify_(self) -> None:
        """As xDSL does, but for a source of rank 0."""
        if hybrid_shape(self.src) or len(self.reassociation):
            super().verify_()
        elif any(n != 1 for n in hybrid_shape(self.result)):
            raise VerifyException(
                f"{self.name}: a rank-0 tensor expands to axes of size 1 only, got {hybrid_shape(self.result)}"
            )


Tensor = Dialect(
    "tensor",
    [ExpandShapeOp if op is tensor.ExpandShapeOp else op for op in tensor.Tensor.operations],
    [*tensor.Tensor.attributes],
)

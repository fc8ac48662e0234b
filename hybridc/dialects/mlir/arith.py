"""xDSL's ``arith`` dialect, with the operation of MLIR's that it lacks."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.arith import FloatingPointLikeBinaryOperation
from xdsl.ir import Dialect
from xdsl.irdl import irdl_op_definition


@irdl_op_definition
class RemFOp(FloatingPointLikeBinaryOperation):
    """The remainder of a truncating division; it has the sign of the dividend."""

    name = "arith.remf"


Arith = Dialect(
    "arith",
    [*arith.Arith.operations, RemFOp],
    [*arith.Arith.attributes],
    [arith.ArithConstantMaterializationInterface()],
)

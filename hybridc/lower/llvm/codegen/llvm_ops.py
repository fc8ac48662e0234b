"""Operations that xDSL's llvm dialect lacks: conversions, named as in MLIR, and loop metadata."""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr
from xdsl.dialects.llvm import LLVM, GenericCastOp
from xdsl.ir import Dialect
from xdsl.irdl import irdl_op_definition

# Attributes of a back edge: whether the loop is an outer one of an accumulation, or carries values by
# a few operations; and its trip count, if that is known.
LOOP, ROUNDS = "hybrid.loop", "hybrid.rounds"
INNERMOST, CARRIED, OUTER, SUMS = map(StringAttr, ("innermost", "carried", "outer", "sums"))


@irdl_op_definition
class FPToSIOp(GenericCastOp):
    """Float to signed integer, truncating; poison if it does not fit."""

    name = "llvm.fptosi"


@irdl_op_definition
class UIToFPOp(GenericCastOp):
    """Unsigned integer to the nearest float."""

    name = "llvm.uitofp"


NativeLLVM = Dialect("llvm", [*LLVM.operations, FPToSIOp, UIToFPOp], [*LLVM.attributes])

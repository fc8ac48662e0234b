"""What LLVM has and xDSL's llvm dialect lacks: conversions, named as in MLIR, and a word about a loop."""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr
from xdsl.dialects.llvm import LLVM, GenericCastOp
from xdsl.ir import Dialect
from xdsl.irdl import irdl_op_definition

# On the jump back to where a loop begins: whether there is another inside, which adds up numbers, or that it carries
# numbers by a few operations; and how many rounds it has, if that is known.
LOOP, ROUNDS = "hybrid.loop", "hybrid.rounds"
INNERMOST, CARRIED, OUTER, SUMS = map(StringAttr, ("innermost", "carried", "outer", "sums"))


@irdl_op_definition
class FPToSIOp(GenericCastOp):
    """The integer that a float is when its fraction is cut off; poison where that is none of its type."""

    name = "llvm.fptosi"


@irdl_op_definition
class UIToFPOp(GenericCastOp):
    """The float nearest to an unsigned integer."""

    name = "llvm.uitofp"


NativeLLVM = Dialect("llvm", [*LLVM.operations, FPToSIOp, UIToFPOp], [*LLVM.attributes])

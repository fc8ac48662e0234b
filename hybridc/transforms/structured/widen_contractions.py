"""Widen half-precision operands of contractions to float32, for processors without half-precision multiply.

A float32 matmul is many times faster, and each element is widened once instead of in each product. The casts are
ops of their own, which fuse with the operands' producers.
"""

from __future__ import annotations

import math
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Block
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from hybridc.dialects.mlir.erase import erase_op
from hybridc.dialects.mlir.graph_notes import OPERATOR
from hybridc.dtypes import wide
from hybridc.ground.records import dataclass
from hybridc.ir.facts import Fact, Needs
from hybridc.ir.structured import affine_operands, dtype_of, loop_sizes, places_of, shape_of
from hybridc.ir.structured_builder import Builder, signless
from hybridc.ir.values import functions

# Widening pays from so many products for each element on.
WIDENED = 8


@dataclass(frozen=True)
class WidenContractions(ModulePass):
    """See the module's docstring."""

    name = "widen-contractions"
    needs: ClassVar[Needs] = frozenset((Fact.CONTRACTION,))

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            for inner in list(function.body.block.ops) if function.body.blocks else ():
                if isinstance(inner, linalg.GenericOp) and _has_halves(inner) and _products(inner) >= WIDENED:
                    _widen(inner)


def _has_halves(op: linalg.GenericOp) -> bool:
    """Whether an operation has two inputs, one of half precision."""
    inputs = op.inputs
    return len(inputs) == 2 and any(wide(dtype) != dtype for dtype in map(dtype_of, inputs))


def _products(op: linalg.GenericOp) -> int:
    """In how many products each operand element is, at least; 0 if this is no contraction."""
    places = places_of(op)
    sizes = loop_sizes(op, places)
    if len(places[-1]) == len(sizes) or 0 in sizes or affine_operands(op):
        return 0
    return math.prod(sizes) // max(math.prod(shape_of(v)) for v in op.inputs)


def _widen(op: linalg.GenericOp) -> None:
    """Widen the operands by casts outside of the body."""
    body = op.body.block
    for i, value in enumerate(op.inputs):
        dtype = dtype_of(value)
        uses = [use.operation for use in body.args[i].uses]
        if wide(dtype) == dtype or not all(isinstance(use, arith.ExtFOp) for use in uses):
            continue
        builder = Builder(Block())
        name = OPERATOR.of(op)
        builder.location, builder.operator = op.location, "cast" if name is None else name
        widened = builder.cast(builder.tensor(value, shape_of(value), dtype), wide(dtype)).value
        added = list(builder.block.ops)
        for cast_op in added:
            cast_op.detach()
        Rewriter.insert_op(added, InsertPoint.before(op))
        op.operands[i] = widened
        arg = Rewriter.replace_value_with_new_type(body.args[i], signless(wide(dtype)))
        for use in uses:
            use.results[0].replace_all_uses_with(arg)
            erase_op(use)

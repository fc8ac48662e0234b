"""Constant folding: compute operations on constants while compiling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from hybridc.dialects.mlir.hybrid import HybridOp, hybrid_dtype, hybrid_shape
from hybridc.ground.records import dataclass
from hybridc.ir.facts import Fact, Needs
from hybridc.ir.values import constant_value, functions, hybrid_ops
from hybridc.trace.traced import TracedSymbol
from hybridc.transforms.graph.splice import Splicer


@dataclass(frozen=True)
class ConstantFold(ModulePass):
    """Run a pure operator with constant operands and a scalar result eagerly; its result is a constant."""

    name = "constant-fold"
    needs: ClassVar[Needs] = frozenset((Fact.CONSTANT,))

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            splicer = Splicer()
            for current in hybrid_ops(function):
                if _foldable(current):
                    _fold(splicer, current)
            splicer.release()


def _fold(splicer: Splicer, op: HybridOp) -> None:
    """Replace an operation by its constant result."""

    def build(F: Any, inputs: Sequence[TracedSymbol]) -> TracedSymbol:  # noqa: ARG001 - the interface of every rewrite
        return splicer.trace.constant(_run(op), hybrid_dtype(op.results[0]))

    splicer.replace(op, build)


def _foldable(op: HybridOp) -> bool:
    return (
        op.OPERATOR.PURE
        and bool(op.operands)
        and len(op.results) == 1
        and hybrid_shape(op.results[0]) == ()
        and all(constant_value(v) is not None for v in op.operands)
    )


def _run(op: HybridOp) -> Any:
    arrays = [np.asarray(constant_value(v), hybrid_dtype(v)) for v in op.operands]
    with np.errstate(all="ignore"):
        return np.asarray(op.operator.evaluate(*arrays)).item()

"""Where values of a nest come from, through its maps and their bodies; and what they are by that."""

from __future__ import annotations

import math
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects import math as functions
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Block, Operation, SSAValue

from hybridc.ir.kernel import Nest, Stage, number_of


class Sources:
    """Where values of a nest come from, through stages and bodies."""

    def __init__(self, nest: Nest) -> None:
        self.maps = {s.result: s for s in nest.stages if s.kind == "map"}

    def source(self, value: SSAValue) -> SSAValue:
        """The result of the operation of some body that makes a value, or what it is read from."""
        while True:
            stage = self.maps.get(value)
            if stage is not None:
                value = yielded(stage)
                continue
            block = value.owner
            stage = None if not isinstance(block, Block) else self._stage(block)
            if stage is None:
                return value
            value = stage.reads[stage.op.regions[0].block.args.index(value)].value  # pyright: ignore[reportArgumentType]

    def _stage(self, block: Block) -> Stage | None:
        return next((s for s in self.maps.values() if s.op.regions[0].block is block), None)


def yielded(stage: Stage) -> SSAValue:
    """What the body of a stage gives."""
    return cast(linalg.YieldOp, stage.op.regions[0].block.last_op).operands[0]


def combines(stage: Stage, kind: type[Operation], start: float) -> bool:
    """Whether a stage combines the elements that it reads, nothing else, from this number on."""
    plain = isinstance(stage.combine, kind) and len(stage.steps) == 1 and len(stage.reads) == 1
    return plain and number_of(stage.op.operands[-1]) == start


def is_power(sources: Sources, value: SSAValue, score: SSAValue, peak: SSAValue) -> bool:
    """Whether a value is the exponential of a score's difference from the maximum, perhaps over a positive number."""
    op = value.owner
    if not isinstance(op, functions.ExpOp):
        return False
    difference = sources.source(op.operands[0]).owner
    if isinstance(difference, arith.DivfOp | arith.MulfOp):
        factor = number_of(sources.source(difference.operands[1]))
        if factor is None or not 0 < factor < math.inf:
            return False
        difference = sources.source(difference.operands[0]).owner
    return isinstance(difference, arith.SubfOp) and [sources.source(v) for v in difference.operands] == [score, peak]

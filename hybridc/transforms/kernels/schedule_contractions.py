"""The schedule of a contraction as a tile program.

Its axes are the contraction's coalesced loops. All sizes and strides are given to the code, but strides of 0
and 1 along the innermost loop, which is vectorised; so one function serves contractions of all sizes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.ir import SSAValue

from hybridc.ir.contraction_shape import ContractionLoops, Loop
from hybridc.ir.kernel import KernelOp, LoopNest, Read
from hybridc.ir.loop_nest_plan import LoopNestPlan
from hybridc.ir.tile_program import (
    Address,
    Factor,
    TileBuffer,
    TileProgram,
    TileReduce,
    TileSweep,
    verify,
)
from hybridc.options import OPTIONS
from hybridc.transforms.kernels.tile_statements import BodyStatements, kind_of, start_of


@dataclass(frozen=True)
class ContractionSchedule:
    """A tile program with the sizes and strides that its code is given; threads share ``extent`` indices."""

    program: TileProgram
    numbers: tuple[int, ...]
    extent: int


def schedule_loops(contraction: ContractionLoops, kernel_op: KernelOp, nest: LoopNest) -> ContractionSchedule:
    """A contraction of any types and strides as loops around the op's own body.

    All loops of the result but one are parallel. That one and the reduction loops compute either a row of the result,
    to which each term adds a multiple of a row of one operand, or element by element, each a sum along the last loop.
    """
    order = _loop_order(contraction)
    rank = len(order.parallel)
    parallel, last, summed = tuple(range(rank)), rank, tuple(range(rank + 1, len(order.loops)))
    walk = (*summed, last) if order.rows else (last, *summed)
    strides = _Strides(order.loops, walk[-1])
    left, right, result = [strides.address(i) for i in range(3)]
    inner = (last, *summed)
    plan = LoopNestPlan(nest, (), {}, parallel, inner, False, frozenset(range(len(order.loops))))
    body = _ContractionBody(plan, axes=walk, addresses=dict(zip(kernel_op.reads, (left, right), strict=True)))
    assert kernel_op.combine is not None
    term = body.element(kernel_op)
    carried = 0 if order.rows else len(summed)
    rest = (summed, kind_of(kernel_op.result), carried, result, order.rows)
    body.add(TileReduce, kernel_op.combine.name, term, start_of(kernel_op), *rest)
    values = [*(r.value for r in kernel_op.reads), kernel_op.result]
    sweeps = [TileSweep((), tuple(body.before))] if body.before else []
    program = TileProgram(
        tuple(TileBuffer(f"b{i}", kind_of(v)) for i, v in enumerate(values)),
        (None,) * len(order.loops),
        parallel,
        (*sweeps, TileSweep(walk, tuple(body.statements))),
        strides=len(strides.values),
        inner=inner,
    )
    if OPTIONS.verify:
        verify(program)
    sizes = [loop.size for loop in order.loops]
    return ContractionSchedule(program, (*sizes, *strides.values), math.prod(sizes[:rank]))


@dataclass(frozen=True)
class _LoopOrder:
    """The loops that threads share, one more of the result, and the reduction loops.

    ``rows``: the reduction loops are outside that one loop of the result.
    """

    parallel: tuple[Loop, ...]
    last: Loop
    summed: tuple[Loop, ...]
    rows: bool

    @property
    def loops(self) -> tuple[Loop, ...]:
        """All loops: the axes of the program."""
        return (*self.parallel, self.last, *self.summed)


def _loop_order(contraction: ContractionLoops) -> _LoopOrder:
    """Rows of the result, if one operand has contiguous rows and no reduction loop is contiguous in both."""
    kept, summed = list(contraction.kept), list(contraction.summed)
    row = next((x for x in reversed(kept) if x.steps[2] == 1 and all(s in (0, 1) for s in x.steps)), None)
    along = next((x for x in summed if x.steps[0] == x.steps[1] == 1), None)
    if row is not None and (along is None or row.size > along.size):
        kept.remove(row)
        return _LoopOrder(tuple(kept), row, tuple(summed), rows=True)
    if along is None:
        along = min(summed, key=lambda x: abs(x.steps[0]) + abs(x.steps[1]), default=Loop(1, 0, 0, None))
    summed = [*(x for x in summed if x is not along), along]
    last = kept.pop() if kept else Loop(1, None, None, 0)
    return _LoopOrder(tuple(kept), last, tuple(summed), rows=False)


@dataclass
class _Strides:
    """The strides that code is given: those of all loops, unless they are 0 or 1 and along the ``innermost`` one."""

    loops: Sequence[Loop]
    innermost: int
    values: list[int] = field(default_factory=list[int])

    def address(self, array: int) -> Address:
        """The address of an element of the left operand, the right one, or the result."""
        found = [(axis, f) for axis, loop in enumerate(self.loops) if (f := self._factor(axis, loop, array))]
        return Address(f"b{array}", tuple(found))

    def _factor(self, axis: int, loop: Loop, array: int) -> Factor | None:
        stride = loop.steps[array]
        if not loop.kind[array] or (axis == self.innermost and stride == 0):
            return None
        if axis == self.innermost and stride == 1:
            return Factor()
        self.values.append(stride)
        return Factor(stride=len(self.values) - 1)


@dataclass(eq=False)
class _ContractionBody(BodyStatements):
    """The statements of one term of a contraction, whose operands are at given addresses: none at computed indices."""

    addresses: dict[Read, Address] = field(default_factory=dict[Read, Address])

    def address(self, read: Read) -> Address:
        return self.addresses[read]

    def buffer(self, value: SSAValue) -> str:
        raise LookupError(f"a contraction reads {value} at computed indices")

    def strides(self, value: SSAValue) -> tuple[Factor, ...]:
        raise LookupError(f"a contraction reads {value} at computed indices")

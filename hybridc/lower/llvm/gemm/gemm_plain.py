"""Any contraction, of any types and strides, as plain loops around the op's own body.

The loops of the result but the last are the parallel region's range. What remains computes either a row of the result,
to which each term adds a multiple of a row of one operand, or element by element, each a sum along the last loop.
LLVM vectorises the innermost loop, whose strides of 0 and 1 are therefore part of the code; all other sizes and
strides are scalar arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.arith import FastMathFlagsAttr
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, ModuleOp
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Attribute, SSAValue

from hybridc.ir.contraction_shape import ContractionLoops, Loop, body_key
from hybridc.ir.costs import grain_of, matmul_time
from hybridc.ir.kernel import number_of
from hybridc.lower.llvm.codegen.native_function import NativeFunction
from hybridc.lower.llvm.gemm.gemm_region import Arguments, Index, Walk, region
from hybridc.lower.llvm.loops.parallel_regions import ParallelRegion

# The cost of an operation relative to one in a register tile.
_SLOW = 5

_CONTRACT = FastMathFlagsAttr([FastMathFlag.ALLOW_CONTRACT])
_REORDER = FastMathFlagsAttr([FastMathFlag.ALLOW_CONTRACT, FastMathFlag.REASSOC, FastMathFlag.NO_SIGNED_ZEROS])


@dataclass(frozen=True)
class _Plan:
    """The loop order, from the outside in: the range, one loop of the result, the reduction loops.

    ``rows``: the reduction loops are outside that one loop of the result.
    """

    outer: tuple[Loop, ...]
    last: Loop
    summed: tuple[Loop, ...]
    rows: bool

    @property
    def innermost(self) -> Loop:
        """The loop that LLVM vectorises."""
        return self.last if self.rows else self.summed[-1]

    @property
    def fixed(self) -> tuple[int, int, int]:
        """Strides of the innermost loop that are part of the code; -1 for those that are scalar arguments."""
        a, b, c = [s if s in (0, 1) else -1 for s in self.innermost.steps]
        return a, b, c


def plain_region(contraction: ContractionLoops, buffers: tuple[int, ...]) -> ParallelRegion:
    """The parallel region of plain loops."""
    plan = _plan(contraction)
    block = contraction.op.regions[0].block
    elements = [a.type for a in block.args]
    types = ",".join(str(t) for t in elements)
    walks = f"{Walk.key(plan.outer)}/{Walk.key([plan.last])}/{Walk.key(plan.summed)}"
    key = f"product-plain {types} {body_key(block)} {walks} {plan.rows} {plan.fixed}"
    start = number_of(contraction.op.operands[-1])
    assert start is not None, "a product begins with a number"
    outer = math.prod(loop.size for loop in plan.outer)
    time = _SLOW * matmul_time(contraction.flops)
    return ParallelRegion(
        NativeFunction(f"{key} {start}", lambda: _build(contraction, plan, elements, start)),
        buffers,
        (outer, *Walk.values(plan.outer), *Walk.values([plan.last]), *Walk.values(plan.summed)),
        extent=outer,
        grain=grain_of(outer, time),
        scratch=0,
        work=time,
        algorithm="loops",
    )


def _plan(contraction: ContractionLoops) -> _Plan:
    """Rows of the result, if one operand has contiguous rows and no reduction loop is contiguous in both."""
    kept, summed = list(contraction.kept), list(contraction.summed)
    row = next((x for x in reversed(kept) if x.steps[2] == 1 and all(s in (0, 1) for s in x.steps)), None)
    along = next((x for x in summed if x.steps[0] == x.steps[1] == 1), None)
    if row is not None and (along is None or row.size > along.size):
        kept.remove(row)
        return _Plan(tuple(kept), row, tuple(summed), rows=True)
    if along is None:
        along = min(summed, key=lambda x: abs(x.steps[0]) + abs(x.steps[1]), default=Loop(1, 0, 0, None))
    summed = [*(x for x in summed if x is not along), along]
    last = kept.pop() if kept else Loop(1, None, None, 0)
    return _Plan(tuple(kept), last, tuple(summed), rows=False)


def _build(contraction: ContractionLoops, plan: _Plan, elements: Sequence[Attribute], start: int | float) -> ModuleOp:
    loops = (*plan.outer, plan.last, *plan.summed)
    return region(elements, 1 + Walk.count(loops), lambda given: _PlainWriter(contraction, plan, given, start).write())


class _PlainWriter:
    """Emits the body of the region."""

    def __init__(self, contraction: ContractionLoops, plan: _Plan, given: Arguments, start: int | float) -> None:
        self.given, self.plan, self.b = given, plan, given.b
        self.body = contraction.op.regions[0].block
        kind: Any = self.body.args[2].type
        attribute = FloatAttr(float(start), kind) if isinstance(start, float) else IntegerAttr(int(start), kind)
        self.start = self.b.constant(attribute, kind)
        last = 1 + Walk.count(plan.outer)
        summed = last + Walk.count([plan.last])
        self.outer = Walk.read(plan.outer, given.numbers[1:last])
        self.last = Walk.read([plan.last], given.numbers[last:summed])
        self.summed = Walk.read(plan.summed, given.numbers[summed:])
        inner = self.last.strides[-1] if plan.rows else self.summed.strides[-1]
        known = [inner[0].of(n) if n >= 0 and inner[0] is not None else s for n, s in zip(plan.fixed, inner)]
        inner[:] = known

    def write(self) -> None:
        """All loops."""

        def point(i: Index, _: Sequence[SSAValue]) -> None:
            at = self.outer.offsets(i)
            if self.plan.rows:
                self.row(at)
            else:
                self.elements(at)

        self.given.loop(self.given.lo, self.given.hi, point)

    def row(self, at: Sequence[Index]) -> None:
        """A row: fill it with the initial value, then add each term."""
        b, result, size = self.b, self.given.arrays[2], self.last.sizes[0]

        def begin(i: Index, _: Sequence[SSAValue]) -> None:
            b.store(self.start, result, self.moved(at, self.last, 0, i)[2].value)

        def term(at: Sequence[Index], _: Sequence[SSAValue]) -> Sequence[SSAValue]:
            def step(i: Index, _: Sequence[SSAValue]) -> None:
                here = self.moved(at, self.last, 0, i)
                sofar = b.load(result, here[2].value, level=b.depth)
                b.store(self.add(here, sofar, _CONTRACT), result, here[2].value)

            self.given.loop(0, size, step)
            return ()

        self.given.loop(0, size, begin)
        self.sum(at, 0, (), term)

    def elements(self, at: Sequence[Index]) -> None:
        """Element by element, each a sum of its own."""

        def element(i: Index, _: Sequence[SSAValue]) -> None:
            here = self.moved(at, self.last, 0, i)
            (total,) = self.sum(here, 0, (self.start,), lambda at, sofar: [self.add(at, sofar[0], _REORDER)])
            self.b.store(total, self.given.arrays[2], here[2].value)

        self.given.loop(0, self.last.sizes[0], element)

    def sum(
        self,
        at: Sequence[Index],
        number: int,
        sofar: Sequence[SSAValue],
        term: Callable[[Sequence[Index], Sequence[SSAValue]], Sequence[SSAValue]],
    ) -> Sequence[SSAValue]:
        """The reduction loops from this one on, around ``term``."""
        if number == len(self.summed.sizes):
            return term(at, sofar)

        def step(i: Index, sofar: Sequence[SSAValue]) -> Sequence[SSAValue]:
            return self.sum(self.moved(at, self.summed, number, i), number + 1, sofar, term)

        return self.given.loop(0, self.summed.sizes[number], step, starts=sofar)

    def moved(self, at: Sequence[Index], walk: Walk, number: int, i: Index) -> list[Index]:
        """The offsets of the arrays at an index of a loop."""
        return [x if s is None else x + i * s for x, s in zip(at, walk.strides[number], strict=True)]

    def add(self, at: Sequence[Index], sofar: SSAValue, flags: FastMathFlagsAttr) -> SSAValue:
        """The op's body: the accumulator and one more product."""
        b = self.b
        left, right, begun = self.body.args
        values: dict[SSAValue, SSAValue] = {
            left: b.load(self.given.arrays[0], at[0].value),
            right: b.load(self.given.arrays[1], at[1].value),
            begun: sofar,
        }
        for op in self.body.ops:
            if isinstance(op, linalg.YieldOp):
                return values[op.operands[0]]
            result = op.results[0]
            if isinstance(op, arith.ConstantOp):
                values[result] = b.constant(op.value, result.type)
                continue
            properties = dict(op.properties)
            if isinstance(op, arith.FloatingPointLikeBinaryOperation):
                properties["fastmath"] = flags
            values[result] = b.pure(type(op), [values[v] for v in op.operands], result.type, properties)
        raise AssertionError("a body ends with a yield")

"""The schedule of a contraction of any types and strides as a tile program of loops around the op's own body.

Its axes are the contraction's coalesced loops. Sizes and strides are given to the code, but those of 0 and 1 along the
innermost loop, which is vectorised; so one function serves contractions of all sizes. What follows a contraction whose
sums are in registers is an *epilogue*: statements about these.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace

from hybridc.ground.records import dataclass
from hybridc.ir.contraction_shape import ContractionLoops, Loop, accesses_after
from hybridc.ir.kernels.kernel import Axes, Kernel, KernelOp, KernelValue, LoopNest, Read
from hybridc.ir.loop_nest_plan import LoopNestPlan
from hybridc.ir.tiles.tile_program import (
    Address,
    Factor,
    Statement,
    TileBuffer,
    TileLoad,
    TileProgram,
    TileReduce,
    TileStore,
    TileSweep,
)
from hybridc.ir.tiles.tile_spec import verify
from hybridc.options import OPTIONS
from hybridc.transforms.schedules.matmul_shape import TOTAL
from hybridc.transforms.schedules.schedule_kernels import BodyStatements


@dataclass(frozen=True)
class ContractionSchedule:
    """A tile program with the sizes and strides that are its code's arguments; threads share ``extent`` indices."""

    program: TileProgram
    numbers: tuple[int, ...]
    extent: int


def schedule_loops(contraction: ContractionLoops, kernel_op: KernelOp, nest: LoopNest) -> ContractionSchedule:
    """The schedule of a contraction.

    All loops of the result but one are parallel. That one and the reduction loops compute either a row of the result,
    to which each term adds a multiple of a row of one operand, or element by element, each a sum along the last loop.
    """
    order = _loop_order(contraction)
    rank = len(order.parallel)
    parallel, last, summed = tuple(range(rank)), rank, tuple(range(rank + 1, len(order.loops)))
    walk = (*summed, last) if order.rows else (last, *summed)
    strides, innermost = StrideArguments(), order.loops[walk[-1]].steps
    left, right, result = [
        strides.address(array, order.axes(array), {walk[-1]: step} if step in (0, 1) else {})
        for array, step in enumerate(innermost)
    ]
    inner = (last, *summed)
    plan = LoopNestPlan(nest, (), {}, parallel, inner, False, frozenset(range(len(order.loops))))
    body = _ContractionBody(plan, axes=walk, addresses=dict(zip(kernel_op.reads, (left, right), strict=True)))
    assert kernel_op.combine is not None
    term = body.element(kernel_op)
    carried = 0 if order.rows else len(summed)
    rest = (summed, kernel_op.result.kind, carried, result, order.rows)
    body.add(TileReduce, kernel_op.combine.op, term, kernel_op.initial(), *rest)
    values = [*(r.value for r in kernel_op.reads), kernel_op.result]
    sweeps = [TileSweep((), tuple(body.before))] if body.before else []
    program = TileProgram(
        tuple(TileBuffer(f"b{i}", v.kind) for i, v in enumerate(values)),
        (None,) * len(order.loops),
        parallel,
        (*sweeps, TileSweep(walk, tuple(body.statements))),
        strides=len(strides.arguments),
        inner=inner,
    )
    if OPTIONS.verify:
        verify(program)
    extent = math.prod(loop.size for loop in order.parallel)
    return ContractionSchedule(program, strides.numbers(program, order.loops), extent)


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

    def axes(self, array: int) -> list[int]:
        """The axes that index the left operand, the right one, or the result."""
        return [axis for axis, loop in enumerate(self.loops) if loop.kind[array]]


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
class StrideArguments:
    """Strides that are ``arguments`` of the code: for each its array (left operand, right operand, result) and axis."""

    arguments: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])

    def address(self, array: int, axes: Iterable[int], known: Mapping[int, int]) -> Address:
        """The address of an element of an array that these axes index; the strides along some are known."""
        return Address(f"b{array}", tuple((a, self._factor(array, a, known.get(a))) for a in axes if known.get(a) != 0))

    def numbers(self, program: TileProgram, loops: Sequence[Loop]) -> tuple[int, ...]:
        """The sizes and strides that are arguments of a program's code; these loops are its axes."""
        return (*(loops[a].size for a in program.dynamic), *(loops[axis].step(array) for array, axis in self.arguments))

    def _factor(self, array: int, axis: int, known: int | None) -> Factor:
        if known is not None:
            return Factor(known)
        self.arguments.append((array, axis))
        return Factor(stride=len(self.arguments) - 1)


@dataclass(eq=False)
class _ContractionBody(BodyStatements):
    """The statements of one term of a contraction, whose operands are at given addresses: none at computed indices."""

    addresses: dict[Read, Address] = field(default_factory=dict[Read, Address])

    def address(self, read: Read) -> Address:
        return self.addresses[read]

    def affine_address(self, read: Read) -> Address:
        return self.addresses[read]

    def buffer(self, value: KernelValue) -> str:
        raise LookupError(f"a contraction reads {value} at computed indices")

    def strides(self, value: KernelValue) -> tuple[Factor, ...]:
        raise LookupError(f"a contraction reads {value} at computed indices")


# --- epilogues --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Epilogue:
    """Statements about ``TOTAL``, the last of which store results.

    Array ``i`` of those that they access, which are of these ``kinds``, is called ``e`` and its number; where its
    elements are is said by :meth:`at`.
    """

    statements: tuple[Statement, ...]
    kinds: tuple[str, ...]

    def at(self, addresses: Sequence[Address]) -> list[Statement]:
        """The statements with the address of an element of each array."""
        of = {f"e{i}": address for i, address in enumerate(addresses)}
        return [
            replace(s, address=of[s.address.buffer]) if isinstance(s, TileLoad | TileStore) else s
            for s in self.statements
        ]


def epilogue_of(kernel: Kernel) -> Epilogue | None:
    """The epilogue of a kernel of one contraction; None if it has none."""
    (nest,) = kernel.nests
    if len(nest.ops) == 1:
        return None
    assert nest.contraction is not None, "a kernel of a contraction"
    arrays = accesses_after(kernel)
    body = _EpilogueBody(
        LoopNestPlan(nest, (), {}, (), (), False, frozenset()),
        known={nest.contraction.result: TOTAL},
        varying={TOTAL},
        prefix="e",
        numbers={(read.value, read.axes): i for i, read in enumerate(arrays)},
    )
    for op in nest.ops:
        if op is not nest.contraction:
            body.known[op.result] = body.body(op)
    stores = [TileStore(body.known[v], Address(f"e{i}", ())) for i, v in enumerate(kernel.results)]
    return Epilogue((*body.before, *body.statements, *stores), tuple([r.value.kind for r in arrays]))


@dataclass(eq=False)
class _EpilogueBody(BodyStatements):
    """The statements of one element; arrays, by value and axes, have numbers in place of addresses."""

    numbers: dict[tuple[KernelValue, Axes], int] = field(default_factory=dict[tuple[KernelValue, Axes], int])

    def address(self, read: Read) -> Address:
        return Address(f"e{self.numbers[read.value, read.axes]}", ())

    def buffer(self, value: KernelValue) -> str:
        raise LookupError(f"an epilogue reads {value} at computed indices")

    def strides(self, value: KernelValue) -> tuple[Factor, ...]:
        raise LookupError(f"an epilogue reads {value} at computed indices")

"""Equal axes of linalg ops, and the factors of their elements, followed from op to op."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, cast

from xdsl.dialects import arith
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Block, Operation, SSAValue

from hybridc.ir.scalars import FLOAT_CASTS
from hybridc.ir.structured import number_of
from hybridc.transforms.structured.loop_groups import LoopGroup, OperationLoops, operation_loops

Labels = tuple[Hashable, ...]


class AxisLabels:
    """Equivalence classes of loops: those that index the same dimension of a value, where it is made and read."""

    def __init__(self, ops: Iterable[Operation]) -> None:
        self.loops: dict[Operation, OperationLoops] = {}
        self.other: dict[Hashable, Hashable] = {}
        for op in ops:
            self.add(op)

    def add(self, op: Operation) -> None:
        """Add an operation; those whose results it reads were added before."""
        loops = operation_loops(op)
        assert loops is not None
        self.loops[op] = loops
        for value, places in loops.reads:
            if value.owner in self.loops:
                maker = cast(Operation, value.owner)
                self.tie((op, places), (maker, self.loops[maker].result))

    def tie(self, one: tuple[Operation, Sequence[int]], other: tuple[Operation, Sequence[int]]) -> None:
        """Let loops of an operation be those of another."""
        for a, b in zip(self.labels(*one), self.labels(*other), strict=True):
            if a != b:
                self.other[a] = b

    def labels(self, op: Operation, places: Iterable[int]) -> Labels:
        """Labels of the axes of these loops."""
        return tuple(self._label((op, i)) for i in places)

    def result(self, op: Operation) -> Labels:
        """Labels of the axes of an operation's result."""
        return self.labels(op, self.loops[op].result)

    def reads(self, op: Operation, index: int) -> Labels:
        """Labels of the axes of an operand."""
        return self.labels(op, self.loops[op].reads[index][1])

    def reduced(self, op: Operation) -> set[Hashable]:
        """Labels of the axes that an operation sums."""
        return {*self.labels(op, self.loops[op].reduced)}

    def nest(self, ops: Sequence[Operation], whole: Operation) -> LoopGroup | None:
        """Operations as a loop nest over the axes of the result of one of them; None if they do not fit into these."""
        labels = self.result(whole)
        domain = tuple(self.loops[whole].sizes[i] for i in self.loops[whole].result)
        group = LoopGroup([*ops], 0, 0, domain)
        for op in ops:
            own = self.labels(op, range(len(self.loops[op].sizes)))
            if any(a not in labels for a in own) and not self.loops[op].is_contraction:
                return None
            if len({*own}) < len(own):  # two loops of one op would be one, as where a matmul is added to its operand
                return None
            group.axes[op] = tuple(labels.index(a) if a in labels else -1 for a in own)
        return group if len({*labels}) == len(labels) else None

    def _label(self, loop: Hashable) -> Hashable:
        while loop in self.other:
            loop = self.other[loop]
        return loop


class Factors:
    """The factors of values, through operations and casts; values of equal factors are equal products."""

    def __init__(self, axes: AxisLabels) -> None:
        self.axes = axes
        self.known: dict[SSAValue, Counter[Hashable]] = {}

    def of(self, value: SSAValue) -> Counter[Hashable]:
        """The factors of a value that an elementwise operation makes, with their multiplicity."""
        if value not in self.known:
            op = cast(Operation, value.owner)
            end = op.regions[0].block.last_op
            assert end is not None
            self.known[value] = self._inner(op, end.operands[0])
        return self.known[value]

    def _inner(self, op: Operation, value: SSAValue) -> Counter[Hashable]:
        constant, maker = number_of(value), value.owner
        if constant is not None:
            return Counter([("number", constant)])
        if isinstance(maker, Block):
            index = list(maker.args).index(cast(Any, value))
            read = op.operands[index]
            loops = self.axes.loops.get(cast(Operation, read.owner))
            if loops is not None and not loops.reduced:
                return self.of(read)
            return Counter([(read, self.axes.reads(op, index))])
        if isinstance(maker, linalg.IndexOp):
            return Counter([("index", self.axes.labels(op, [maker.dim.value.data]))])
        if maker.name in FLOAT_CASTS:
            return self._inner(op, maker.operands[0])
        if isinstance(maker, arith.MulfOp):
            return self._inner(op, maker.operands[0]) + self._inner(op, maker.operands[1])
        operands = tuple(frozenset(self._inner(op, v).items()) for v in maker.operands)
        properties = tuple(sorted((name, str(p)) for name, p in maker.properties.items() if name != "fastmath"))
        return Counter([(maker.name, properties, str(value.type), operands)])

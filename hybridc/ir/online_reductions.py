"""Online reductions: two reductions in one walk, although the second reads the result of the first.

*Powers* (online softmax): the sum of exp((x - m) / t), where m is the maximum of all x. While the maximum is still
being found, the sum so far is rescaled whenever a greater x comes. *Squares* (Welford): the sum of (x - m)², where m is
the mean of all x. Partial sums about their own means are combined by the distance of these means.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects import arith
from xdsl.ir import SSAValue

from hybridc.ir.kernel import Nest, Sources, Stage, combines, is_power, number_of
from hybridc.ir.structured import dtype_of

_WIDE = (np.dtype(np.float32), np.dtype(np.float64))


@dataclass(frozen=True, eq=False)
class Running:
    """An online pair: reductions ``first`` and ``second`` along the same axes, with elementwise ops ``between``.

    The second is a sum of powers if the first is a maximum, else of squares.
    """

    first: Stage
    between: tuple[Stage, ...]
    second: Stage
    powers: bool

    @property
    def value(self) -> SSAValue:
        """The operand of the first reduction."""
        return self.first.reads[0].value


def running_pairs(nest: Nest, stages: Sequence[Stage]) -> list[Running]:
    """The online pairs among ops of a loop nest; no op is in two."""
    sources = Sources(nest)
    sums = [s for s in stages if s.combine is not None]
    found: list[Running] = []
    for second in sums:
        taken = {s for pair in found for s in (pair.first, pair.second)}
        made = (_pair(nest, sources, stages, s, second) for s in sums if s not in taken and s is not second)
        found += [pair for pair in made if pair is not None][:1]
    return found


def _pair(nest: Nest, sources: Sources, stages: Sequence[Stage], first: Stage, second: Stage) -> Running | None:
    same = first.reduced == second.reduced and first.axes == second.axes
    if not same or not combines(second, arith.AddfOp, 0.0) or dtype_of(second.result) not in _WIDE:
        return None
    if dtype_of(first.result) != dtype_of(second.result) or len(first.reads) != 1:
        return None
    value, term = (sources.source(s.reads[0].value) for s in (first, second))
    if combines(first, arith.MaximumfOp, -math.inf) and is_power(sources, term, value, first.result):
        powers = True
    elif combines(first, arith.AddfOp, 0.0) and _is_square(sources, term, value, first, _count(nest, first)):
        powers = False
    else:
        return None
    between = _between(stages, first, second)
    return None if between is None else Running(first, between, second, powers)


def _is_square(sources: Sources, term: SSAValue, value: SSAValue, total: Stage, count: int) -> bool:
    """Whether a term is the square of a value's distance from the mean of ``count`` values."""
    op = term.owner
    if not isinstance(op, arith.MulfOp):
        return False
    off, other = (sources.source(v) for v in op.operands)
    if off is not other or not isinstance(off.owner, arith.SubfOp):
        return False
    one, mean = (sources.source(v) for v in off.owner.operands)
    if one is not value or not isinstance(mean.owner, arith.DivfOp):
        return False
    whole, divisor = mean.owner.operands
    return sources.source(whole) is total.result and number_of(sources.source(divisor)) == count


def _count(nest: Nest, stage: Stage) -> int:
    """How many elements are reduced to each element of the result."""
    return math.prod(nest.domain[a] for a in stage.reduced)


def _between(stages: Sequence[Stage], first: Stage, second: Stage) -> tuple[Stage, ...] | None:
    """The elementwise ops between the two reductions; None if these read anything else."""
    given, whole = first.reads[0], first.result
    made = {s.result: s for s in stages if s.kind == "map" and not s.anywhere}
    found: set[SSAValue] = set()
    stack = list(second.reads)
    while stack:
        read = stack.pop()
        if read.value is whole or number_of(read.value) is not None:
            continue
        if read.value is given.value:
            if read.axes != given.axes:
                return None
            continue
        if read.value not in made:
            return None
        found.add(read.value)
        stack += made[read.value].reads
    return tuple(s for s in stages if s.result in found)

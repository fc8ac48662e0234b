"""Online reductions: two reductions in one walk, although the second reads the result of the first.

*Powers* (online softmax): the sum of exp((x - m) / t), where m is the maximum of all x. While the maximum is still
being found, the sum so far is rescaled whenever a greater x comes. *Squares* (Welford): the sum of (x - m)², where m is
the mean of all x. Partial sums about their own means are combined by the distance of these means.

A *softmax* divides by the sum of powers. What is linear in its result may be done before the division: so rows can be
multiplied with something, and added up, while the maximum is still being found.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hybridc.ground.records import dataclass
from hybridc.ir.kernels.kernel import (
    BodyValue,
    KernelOp,
    KernelValue,
    LoopNest,
    Source,
    Sources,
    combines,
    is_plain,
    is_power,
)
from hybridc.ir.scalars import FLOAT_CASTS

_WIDE = (np.dtype(np.float32), np.dtype(np.float64))


@dataclass(frozen=True, eq=False)
class OnlinePair:
    """An online pair: reductions ``first`` and ``second`` along the same axes, with elementwise ops ``between``.

    The second is a sum of powers if the first is a maximum, else of squares.
    """

    first: KernelOp
    between: tuple[KernelOp, ...]
    second: KernelOp
    powers: bool

    @property
    def value(self) -> KernelValue:
        """The operand of the first reduction."""
        return self.first.reads[0].value


def online_pairs_in(nest: LoopNest, kernel_ops: Sequence[KernelOp]) -> list[OnlinePair]:
    """The online pairs among ops of a loop nest; no op is in two."""
    sources = Sources(nest)
    sums = [s for s in kernel_ops if s.combine is not None]
    pairs: list[OnlinePair] = []
    for second in sums:
        paired = {s for pair in pairs for s in (pair.first, pair.second)}
        candidates = (_pair(nest, sources, kernel_ops, s, second) for s in sums if s not in paired and s is not second)
        pairs += [pair for pair in candidates if pair is not None][:1]
    return pairs


def _pair(
    nest: LoopNest, sources: Sources, kernel_ops: Sequence[KernelOp], first: KernelOp, second: KernelOp
) -> OnlinePair | None:
    same = first.reduced == second.reduced and first.axes == second.axes
    if not same or not combines(second, "arith.addf", 0.0) or second.result.dtype not in _WIDE:
        return None
    if first.result.dtype != second.result.dtype or len(first.reads) != 1:
        return None
    value, term = (sources.source(s.reads[0].value) for s in (first, second))
    if combines(first, "arith.maximumf", -math.inf) and is_power(sources, term, value, first.result):
        powers = True
    elif combines(first, "arith.addf", 0.0) and _is_square(sources, term, value, first, _count(nest, first)):
        powers = False
    else:
        return None
    between = _between(kernel_ops, first, second)
    return None if between is None else OnlinePair(first, between, second, powers)


def _is_square(sources: Sources, term: Source, value: Source, total: KernelOp, count: int) -> bool:
    """Whether a term is the square of a value's distance from the mean of ``count`` values."""
    if not is_plain(term, "arith.mulf"):
        return False
    off, other = sources.operands(term)
    if off != other or not is_plain(off, "arith.subf"):
        return False
    one, mean = sources.operands(off)
    if one != value or not is_plain(mean, "arith.divf"):
        return False
    whole, divisor = sources.operands(mean)
    return whole == total.result and divisor.constant == count


def _count(nest: LoopNest, kernel_op: KernelOp) -> int:
    """Number of elements that are reduced to each element of the result."""
    return math.prod(nest.domain[a] for a in kernel_op.reduced)


def _between(kernel_ops: Sequence[KernelOp], first: KernelOp, second: KernelOp) -> tuple[KernelOp, ...] | None:
    """The elementwise ops between the two reductions; None if these read anything else."""
    operand, whole = first.reads[0], first.result
    producers = {s.result: s for s in kernel_ops if s.kind == "elementwise" and not s.indirect}
    between: set[KernelValue] = set()
    stack = list(second.reads)
    while stack:
        read = stack.pop()
        if read.value == whole or read.value.constant is not None:
            continue
        if read.value == operand.value:
            if read.axes != operand.axes:
                return None
            continue
        if read.value not in producers:
            return None
        between.add(read.value)
        stack += producers[read.value].reads
    return tuple(s for s in kernel_ops if s.result in between)


# --- softmax ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class OnlineSoftmax:
    """The ops of a loop nest that is a softmax of rows, which may be computed online.

    ``before`` make, of the scores, what ``peak`` takes the maximum of; ``powers`` are the exponentials of its
    differences from that, ``total`` their sum; ``shares`` divide by it; ``after`` are maps that may as well be applied
    before the division, and ``beside`` what else these need.
    """

    before: Sequence[KernelOp]
    peak: KernelOp
    powers: Sequence[KernelOp]
    total: KernelOp
    shares: Sequence[KernelOp]
    beside: Sequence[KernelOp]
    after: Sequence[KernelOp]


def online_softmax(nest: LoopNest) -> OnlineSoftmax | None:
    """The ops of a softmax by their role; None if the loop nest is no softmax."""
    pairs = online_pairs_in(nest, nest.ops)
    if [p.powers for p in pairs] != [True] or any(s.kind not in ("elementwise", "row", "column") for s in nest.ops):
        return None
    peak, total = pairs[0].first, pairs[0].second
    if any(s.combine is not None for s in nest.ops if s not in (peak, total)):
        return None
    sources = Sources(nest)
    power = sources.source(total.reads[0].value)
    of_peak, of_total = _made_of(nest, [peak.result]), _made_of(nest, [total.result])
    share = next((s for s in nest.ops if s in of_total and _is_share(sources, s, power, total.result)), None)
    if share is None:
        return None
    of_share, needed = _made_of(nest, [share.result]), _needed(nest, peak)
    beside = [s for s in nest.ops if s not in needed and s not in of_peak and s is not peak]
    powers = [s for s in nest.ops if s in of_peak and s not in of_total and s is not total]
    shares = [s for s in nest.ops if s in of_total and s not in of_share]
    after = [s for s in nest.ops if s in of_share]
    if powers[-1].result != total.reads[0].value or shares[-1] is not share or any(s.indirect for s in after):
        return None
    free = {s.result for s in beside}
    if any(r.value in free for s in (*powers, *shares) for r in s.reads):
        return None
    scaled = {share.result}
    for kernel_op in after:
        if not _keeps_scale(kernel_op, scaled):
            return None
        scaled.add(kernel_op.result)
    return OnlineSoftmax([s for s in nest.ops if s in needed], peak, powers, total, shares, beside, after)


def _needed(nest: LoopNest, last: KernelOp) -> set[KernelOp]:
    """The ops that are needed for one."""
    producers = {s.result: s for s in nest.ops}
    needed: set[KernelOp] = set()
    work = [last]
    while work:
        read = [producers[r.value] for r in work.pop().reads if r.value in producers]
        work += [s for s in read if s not in needed]
        needed |= {*read}
    return needed


def _is_share(sources: Sources, kernel_op: KernelOp, power: Source, total: KernelValue) -> bool:
    """Whether an op computes powers over their sum."""
    share = sources.source(kernel_op.result)
    if not is_plain(share, "arith.divf", "arith.mulf"):
        return False
    one, other = sources.operands(share)
    if share.op == "arith.divf":
        return one == power and other == total
    inverse = other if one == power else one
    if power not in (one, other) or not is_plain(inverse, "arith.divf"):
        return False
    return inverse.operands[0].constant == 1 and sources.operands(inverse)[1] == total


def _made_of(nest: LoopNest, values: Sequence[KernelValue]) -> set[KernelOp]:
    """The ops that need one of these values."""
    known, dependents = set(values), set[KernelOp]()
    for kernel_op in nest.ops:
        if any(r.value in known for r in kernel_op.reads):
            known.add(kernel_op.result)
            dependents.add(kernel_op)
    return dependents


def _keeps_scale(kernel_op: KernelOp, scaled: set[KernelValue]) -> bool:
    """Whether a map gives c times as much for c times as much of these values, but for rounding."""
    body = kernel_op.body
    known: set[BodyValue] = {a for a, r in zip(body.arguments, kernel_op.reads, strict=False) if r.value in scaled}
    for step in body.steps:
        depends = [v in known for v in step.operands]
        if not any(depends):
            continue
        if step.op not in FLOAT_CASTS and (step.op != "arith.mulf" or all(depends)):
            return False
        known.add(step)
    return body.result in known

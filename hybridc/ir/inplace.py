"""Which arguments of a kernel its code may write results over."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set

from xdsl.ir import SSAValue

from hybridc.ir.kernel import Kernel, Nest, Stage, number_of
from hybridc.ir.nest_parts import nests_of
from hybridc.ir.nest_plan import NestPlan, plan_nest
from hybridc.ir.structured import dtype_of, shape_of


def in_sweeps(plan: NestPlan) -> Sequence[Stage]:
    """The stages of a nest, one sweep after the other."""
    return [stage for sweep in plan.sweeps for stage in sweep.stages]


def inplace_pairs(
    kernel: Kernel, strided: frozenset[SSAValue], order_of: Callable[[NestPlan], Sequence[Stage]] = in_sweeps
) -> list[tuple[int, int]]:
    """Pairs of an argument and a result: each element of the argument is read before that of the result is written.

    ``order_of`` gives the stages of a nest in the order in which each element is computed; none where elements are
    computed in other ways.
    """
    results = set(kernel.results)
    kinds = {(shape_of(r), dtype_of(r)) for r in results - strided}
    if not any((shape_of(a), dtype_of(a)) in kinds for a in kernel.arguments):
        return []
    pairs: list[tuple[int, int]] = []
    nests = nests_of(kernel)
    anywhere = {v for s in kernel.stages for v in s.anywhere}
    for number, nest in enumerate(nests):
        plan = plan_nest(kernel, nest, strided, results.__contains__)
        order = {stage: i for i, stage in enumerate(order_of(plan))}
        later = {r.value for n in nests[number + 1 :] for s in n.stages for r in s.reads}

        def last(stage: Stage, plan: NestPlan = plan, order: Mapping[Stage, int] = order) -> int:
            return _last_read(plan, order, stage)

        pairs += pairs_in(kernel, nest, order, last, strided, later | anywhere)
    return pairs


def pairs_in(
    kernel: Kernel,
    nest: Nest,
    order: Mapping[Stage, int],
    last: Callable[[Stage], int],
    strided: Set[SSAValue],
    needed: Set[SSAValue] = frozenset(),
) -> list[tuple[int, int]]:
    """The pairs in one nest whose stages are computed in an order, in which each reads at its ``last`` place at last.

    Nothing ``needed`` is written over.
    """
    made = {stage.result: stage for stage in order}
    results = [(j, made[r]) for j, r in enumerate(kernel.results) if r in made and r not in strided]
    return [
        (i, j)
        for i, argument in enumerate(kernel.arguments)
        if argument not in strided and argument not in needed and argument not in kernel.results
        for j, stage in results
        if _may_overwrite(nest, order, last, argument, stage)
    ]


def _may_overwrite(
    nest: Nest, order: Mapping[Stage, int], last: Callable[[Stage], int], argument: SSAValue, stage: Stage
) -> bool:
    result = stage.result
    if stage.combine is not None or number_of(result) is not None:
        return False
    if (shape_of(argument), dtype_of(argument)) != (shape_of(result), dtype_of(result)):
        return False
    if len(stage.axes) != len(nest.domain) or set(stage.axes) != set(range(len(nest.domain))):
        return False
    reads = [(s, read) for s in order for read in s.reads if read.value is argument]
    return bool(reads) and all(read.axes == stage.axes and last(s) <= order[stage] for s, read in reads)


def _reads(stage: Stage, value: SSAValue) -> bool:
    return any(r.value is value for r in stage.reads)


def _last_read(plan: NestPlan, order: Mapping[Stage, int], stage: Stage) -> int:
    """Where a stage reads last: at its own place, or at that of those that compute it again."""
    last = order[stage]
    if stage.result in plan.again:
        for other in order:
            if _reads(other, stage.result):
                last = max(last, _last_read(plan, order, other))
    return last

"""Which arguments of a kernel a native phase may write results over."""

from __future__ import annotations

from xdsl.ir import SSAValue

from hybridc.lower.kernel import Kernel, Nest, Stage, number_of
from hybridc.lower.nest_parts import nests_of
from hybridc.lower.nest_plan import NestPlan, plan_nest
from hybridc.lower.structured import dtype_of, shape_of


def inplace_pairs(kernel: Kernel, strided: frozenset[SSAValue]) -> list[tuple[int, int]]:
    """Pairs of an argument and a result: each element of the argument is read before that of the result is written."""
    results = set(kernel.results)
    kinds = {(shape_of(r), dtype_of(r)) for r in results - strided}
    if not any((shape_of(a), dtype_of(a)) in kinds for a in kernel.arguments):
        return []
    pairs: list[tuple[int, int]] = []
    nests = nests_of(kernel)
    for number, nest in enumerate(nests):
        plan = plan_nest(kernel, nest, strided, results.__contains__)
        later = {r.value for n in nests[number + 1 :] for s in n.stages for r in s.reads}
        later.update(v for s in kernel.stages for v in s.anywhere)
        for i, argument in enumerate(kernel.arguments):
            if argument in strided or argument in later or argument in results:
                continue
            pairs += [(i, j) for j, r in enumerate(kernel.results) if _may_overwrite(plan, nest, argument, r, strided)]
    return pairs


def _may_overwrite(
    plan: NestPlan, nest: Nest, argument: SSAValue, result: SSAValue, strided: frozenset[SSAValue]
) -> bool:
    stage = plan.stage_of.get(result)
    if stage is None or stage.combine is not None or number_of(result) is not None or result in strided:
        return False
    if (shape_of(argument), dtype_of(argument)) != (shape_of(result), dtype_of(result)):
        return False
    if len(stage.axes) != len(nest.domain) or set(stage.axes) != set(range(len(nest.domain))):
        return False
    order = {s: i for i, s in enumerate(s for sweep in plan.sweeps for s in sweep.stages)}
    return any(_reads(s, argument) for s in order) and all(
        read.axes == stage.axes and _last_read(plan, order, s) <= order[stage]
        for s in order
        for read in s.reads
        if read.value is argument
    )


def _reads(stage: Stage, value: SSAValue) -> bool:
    return any(r.value is value for r in stage.reads)


def _last_read(plan: NestPlan, order: dict[Stage, int], stage: Stage) -> int:
    """Where a stage reads last: at its own place, or at that of those that compute it again."""
    last = order[stage]
    if stage.result in plan.again:
        for other in order:
            if _reads(other, stage.result):
                last = max(last, _last_read(plan, order, other))
    return last

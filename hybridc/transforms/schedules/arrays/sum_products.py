"""A multiplication and the sum of its result as one step, a contraction over the whole iteration space."""

from __future__ import annotations

import math

from hybridc.transforms.schedules.arrays.array_steps import SHORT_ROW, KernelSteps, NestSteps, StepValue, UfuncStep


def sum_products(kernel: KernelSteps) -> None:
    """Let a multiplication and the sum of its result be one step, over the whole iteration space.

    It sums along rows, or along the first axes.
    """
    for part in kernel.nests:
        _sum_products(part)


def _sum_products(part: NestSteps) -> None:
    axes = tuple(range(len(part.sizes)))
    readers: dict[StepValue, int] = {}
    for step in part.steps:
        for operand in step.reads():
            readers[operand.value] = readers.get(operand.value, 0) + 1
    for step in [s for s in part.steps if s.function == "reduce:np.add" and _is_short(s, part)]:
        (summed,) = step.reads()
        at = next((i for i, s in enumerate(part.steps) if s.result.value is summed.value), None)
        if at is None or summed.value.outside or readers[summed.value] > 1:
            continue
        contraction = part.steps[at]
        factors = list(contraction.reads())
        plain = all(o.axes == axes and o.dtype == step.result.dtype for o in factors)
        written = {s.result.value for s in part.steps[at + 1 : part.steps.index(step)]}
        if (
            contraction.function == "np.multiply"
            and len(factors) == 2
            and plain
            and written.isdisjoint(o.value for o in factors)
        ):
            part.steps.remove(contraction)
            step.operands = list(factors)


def _is_short(step: UfuncStep, part: NestSteps) -> bool:
    """Whether so few elements are summed at once that a few partial sums are exact enough."""
    rank = len(part.sizes)
    if step.result.dtype.kind != "f" or step.result.dtype.itemsize < 4:
        return False
    if 0 in step.reduced:
        return step.reduced == tuple(range(len(step.reduced))) and len(step.reduced) < rank
    trailing = step.reduced == tuple(range(rank - len(step.reduced), rank))
    return trailing and math.prod(part.sizes[a] for a in step.reduced) <= SHORT_ROW

"""Sums that ``np.einsum`` does: of short rows and columns, and of products."""

from __future__ import annotations

import math

from hybridc.lower.numpy.schedule import Part, Schedule, Step, Value

# ``np.add.reduce`` spends some twenty nanoseconds on each row, or each row's share of a sum of columns; ``np.einsum``
# needs a fraction of that (a third for rows of 1024 elements, less for shorter ones), and it sums products without an
# array for them. But it adds with fewer partial sums: longer rows would be less exact.
SHORT_ROW = 4096
SHORT_COLUMN = 512
# ``np.maximum.reduce`` and its like spend fifty to a hundred nanoseconds on each row. For up to so many columns, and
# from so many rows on, a call for each column takes a tenth to a third of the time.
NARROW, MANY_ROWS = 32, 512


def join_products(plan: Schedule) -> None:
    """Let sums of products be one step: of rows, or along the first axes, of arrays over the whole domain."""
    for part in plan.parts:
        _join(part)


def _join(part: Part) -> None:
    axes = tuple(range(len(part.domain)))
    readers: dict[Value, int] = {}
    for step in part.steps:
        for operand in step.reads():
            readers[operand.value] = readers.get(operand.value, 0) + 1
    for step in [s for s in part.steps if s.function == "reduce:np.add" and _is_short(s, part)]:
        (given,) = step.reads()
        at = next((i for i, s in enumerate(part.steps) if s.result.value is given.value), None)
        if at is None or given.value.outside or readers[given.value] > 1:
            continue
        product = part.steps[at]
        factors = list(product.reads())
        plain = all(o.axes == axes and o.dtype == step.result.dtype for o in factors)
        written = {s.result.value for s in part.steps[at + 1 : part.steps.index(step)]}
        if (
            product.function == "np.multiply"
            and len(factors) == 2
            and plain
            and written.isdisjoint(o.value for o in factors)
        ):
            part.steps.remove(product)
            step.operands = list(factors)


def _is_short(step: Step, part: Part) -> bool:
    """Whether so few elements are summed at once that a few partial sums are exact enough."""
    rank = len(part.domain)
    if step.result.dtype.kind != "f" or step.result.dtype.itemsize < 4:
        return False
    if step.across:
        return step.reduced == tuple(range(len(step.reduced))) and len(step.reduced) < rank
    trailing = step.reduced == tuple(range(rank - len(step.reduced), rank))
    return trailing and math.prod(part.domain[a] for a in step.reduced) <= SHORT_ROW

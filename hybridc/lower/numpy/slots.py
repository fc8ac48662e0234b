"""Where values live that no tile leaves behind: in results that are still to be written, or in scratch.

The memory of a result will be written anyway: what is there takes no place in the caches beside it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hybridc.ir.kernel import Axes
from hybridc.lower.numpy.schedule import Operand, Part, Schedule, Step, Value

Kind = tuple[np.dtype[Any], Axes]


def assign_places(plan: Schedule) -> None:
    """Number the steps, and give every value inside a tile a place; places are reused after the last read."""
    _number_steps(plan)
    for part in plan.parts:
        _Assignment(part).run()


def _number_steps(plan: Schedule) -> None:
    """Give each step its place in the order of all, and each value that of its last read."""
    number = 0
    for part in plan.parts:
        for step in (*part.before, *part.steps):
            step.number = number
            for operand in step.reads():
                operand.value.last_use = number
            number += 1
    for _, value in plan.copies:
        value.last_use = number


@dataclass
class _Result:
    """A result of the kernel as a place for other values, while it does not hold its own."""

    value: Value
    kind: Kind
    reads: dict[int, Step] = field(default_factory=lambda: dict[int, Step]())
    writes: dict[int, Step] = field(default_factory=lambda: dict[int, Step]())
    busy: bool = False

    def is_idle(self, value: Value, step: Step, last: Step | None) -> bool:
        """Whether nobody cares for its content from a step that makes a value to the last that reads it."""
        end = max(value.last_use, step.number)
        if any(step.number < n <= end for n in self.reads) or any(step.number <= n < end for n in self.writes):
            return False
        later = [n for n in self.writes if n >= end and n > step.number]
        if not later or any(end < n <= min(later) for n in self.reads):
            return False
        here = self.reads.get(step.number)
        if here is not None and not all(here.may_overwrite(o) for o in here.reads() if o.value is self.value):
            return False
        if end not in self.writes:
            return True
        return last is not None and all(last.may_overwrite(o) for o in last.reads() if o.value is value)


class _Assignment:
    def __init__(self, part: Part) -> None:
        self.part = part
        self.steps = {s.number: s for s in part.steps}
        self.free: list[int] = []
        self.moved: dict[Value, _Result] = {}
        written = dict.fromkeys(s.result.value for s in part.steps if s.result.value.out is not None)
        self.results = [r for v in written if (r := self._result(v)) is not None]
        self.args = {o.value for s in part.steps for o in s.reads() if o.value.arg is not None}

    def _result(self, value: Value) -> _Result | None:
        """A result, if it is written on tiles: one that each tile has a part of, in the order of memory."""
        rank = len(self.part.domain)
        for step in self.part.steps:
            axes = step.result.axes
            if step.result.value is value and not step.reduces and axes == tuple(range(rank)):
                found = _Result(value, (value.dtype, axes))
                for each in (*self.part.before, *self.part.steps):
                    if each.result.value is value:
                        found.writes[each.number] = each
                    if any(o.value is value for o in each.reads()):
                        found.reads[each.number] = each
                return found
        return None

    def run(self) -> None:
        for step in self.part.steps:
            dying = {o.value: o for o in step.reads() if not o.value.outside and o.value.last_use == step.number}
            early = [o.value for o in dying.values() if step.may_overwrite(o)]
            for value in early:
                self._release(value)
            value = step.result.value
            if not value.outside and value.slot is None and value not in self.moved:
                self._place(value, step, [self.moved[v] for v in early if v in self.moved])
            for value in dying:
                if value not in early:
                    self._release(value)
        for step in self.part.steps:
            step.operands = [self._moved(o) if isinstance(o, Operand) else o for o in step.operands]
            step.result = self._moved(step.result)

    def _moved(self, operand: Operand) -> Operand:
        found = self.moved.get(operand.value)
        return operand if found is None else replace(operand, value=found.value)

    def _release(self, value: Value) -> None:
        found = self.moved.get(value)
        if found is not None:
            found.busy = False
        elif value.slot is not None:
            self.free.append(value.slot)

    def _place(self, value: Value, step: Step, just: list[_Result]) -> None:
        """Where an operand was until now, else in a free slot, which is in the caches, else in a result."""
        kind = (value.dtype, step.result.axes)
        slots = self.part.slots
        slot = next((s for s in reversed(self.free) if slots[s] == kind), None)
        for result in just if slot is not None else self.results:
            if result.kind == kind and not result.busy and self._may_use(result, value, step):
                result.busy = True
                self.moved[value] = result
                return
        if slot is None:
            slot = len(slots)
            slots.append(kind)
        else:
            self.free.remove(slot)
        value.slot = slot

    def _may_use(self, result: _Result, value: Value, step: Step) -> bool:
        """Whether a value may be where a result will be, and the result still where it may be now."""
        if not result.is_idle(value, step, self.steps.get(value.last_use)):
            return False
        first = min(result.writes)
        for arg in self.args:
            if (arg.shape, arg.dtype) != (result.value.shape, result.value.dtype) or arg.last_use > first:
                continue
            reads = [o for o in step.reads() if o.value is arg]
            over = all(o.axes == step.result.axes and step.may_overwrite(o) for o in reads)
            if arg.last_use > step.number or not over:
                return False
        return True

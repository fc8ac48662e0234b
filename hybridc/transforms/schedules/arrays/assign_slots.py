"""Where values live between the statements of a tile: in slots, or in the memory of results.

The memory of a result is written anyway: used as a slot before, it takes no more of the caches.
"""

from __future__ import annotations

from dataclasses import field, replace

from hybridc.dtypes import DType
from hybridc.ground.records import dataclass
from hybridc.ir.kernels.kernel import Axes
from hybridc.transforms.schedules.arrays.array_steps import KernelSteps, NestSteps, StepOperand, StepValue, UfuncStep

Kind = tuple[DType, Axes]


def assign_slots(kernel: KernelSteps) -> None:
    """Number the steps, and give every value inside a tile a slot; slots are reused after the last read."""
    _number_steps(kernel)
    for part in kernel.nests:
        _Assignment(part).run()


def _number_steps(kernel: KernelSteps) -> None:
    """Give each step its index in the order of all, and each value that of its last read."""
    steps = [step for part in kernel.nests for step in (*part.before, *part.steps)]
    for index, step in enumerate(steps):
        step.index = index
        for operand in step.reads():
            operand.value.last_use = index
    for _, source in kernel.memory.copies:
        kernel.arrays[source].last_use = len(steps)


@dataclass
class _Result:
    """A result of the kernel as a slot for other values, while it does not hold its own."""

    value: StepValue
    kind: Kind
    reads: dict[int, UfuncStep] = field(default_factory=lambda: dict[int, UfuncStep]())
    writes: dict[int, UfuncStep] = field(default_factory=lambda: dict[int, UfuncStep]())
    busy: bool = False

    def is_idle(self, value: StepValue, step: UfuncStep, last: UfuncStep | None) -> bool:
        """Whether nobody cares for its content from a step that makes a value to the last that reads it."""
        end = max(value.last_use, step.index)
        if any(step.index < n <= end for n in self.reads) or any(step.index <= n < end for n in self.writes):
            return False
        later = [n for n in self.writes if n >= end and n > step.index]
        if not later or any(end < n <= min(later) for n in self.reads):
            return False
        reader = self.reads.get(step.index)
        if reader is not None and not all(reader.may_overwrite(o) for o in reader.reads() if o.value is self.value):
            return False
        if end not in self.writes:
            return True
        return last is not None and all(last.may_overwrite(o) for o in last.reads() if o.value is value)


class _Assignment:
    def __init__(self, part: NestSteps) -> None:
        self.part = part
        self.steps = {s.index: s for s in part.steps}
        self.free: list[int] = []
        self.moved: dict[StepValue, _Result] = {}
        written = dict.fromkeys(s.result.value for s in part.steps if s.result.value.kind == "y")
        self.results = [r for v in written if (r := self._result(v)) is not None]
        self.args = {o.value for s in part.steps for o in s.reads() if o.value.kind == "x"}

    def _result(self, value: StepValue) -> _Result | None:
        """A result, if it is written on tiles: one that each tile has a part of, in the order of memory."""
        rank = len(self.part.sizes)
        for step in self.part.steps:
            axes = step.result.axes
            if step.result.value is value and not step.reduces and axes == tuple(range(rank)):
                result = _Result(value, (value.dtype, axes))
                for other in (*self.part.before, *self.part.steps):
                    if other.result.value is value:
                        result.writes[other.index] = other
                    if any(o.value is value for o in other.reads()):
                        result.reads[other.index] = other
                return result
        return None

    def run(self) -> None:
        for step in self.part.steps:
            dying = {o.value: o for o in step.reads() if not o.value.outside and o.value.last_use == step.index}
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
            step.operands = [self._moved(o) if isinstance(o, StepOperand) else o for o in step.operands]
            step.result = self._moved(step.result)

    def _moved(self, operand: StepOperand) -> StepOperand:
        moved = self.moved.get(operand.value)
        return operand if moved is None else replace(operand, value=moved.value)

    def _release(self, value: StepValue) -> None:
        moved = self.moved.get(value)
        if moved is not None:
            moved.busy = False
        elif value.slot is not None:
            self.free.append(value.slot)

    def _place(self, value: StepValue, step: UfuncStep, just: list[_Result]) -> None:
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

    def _may_use(self, result: _Result, value: StepValue, step: UfuncStep) -> bool:
        """Whether a value may be where a result will be, and the result still where it may be now."""
        if not result.is_idle(value, step, self.steps.get(value.last_use)):
            return False
        first = min(result.writes)
        for arg in self.args:
            if (arg.shape, arg.dtype) != (result.value.shape, result.value.dtype) or arg.last_use > first:
                continue
            reads = [o for o in step.reads() if o.value is arg]
            over = all(o.axes == step.result.axes and step.may_overwrite(o) for o in reads)
            if arg.last_use > step.index or not over:
                return False
        return True

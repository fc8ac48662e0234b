"""What a kernel does, step by step: ufuncs, reductions, and the scratch arrays that hold values between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects import func
from xdsl.ir import SSAValue

from hybridc.dialects.hybrid import HybridOp, dtype_of, location_of, shape_of
from hybridc.dialects.operator import Elementwise, Reduction
from hybridc.dialects.scalar import PREDICATES, SPECIAL, Scalar, record
from hybridc.transforms.values import constant_value, hybrid_ops, is_constant, loop_domain

Shape = tuple[int, ...]
BOOL = np.dtype(bool)

# Steps that are exact on integers; all others are computed by the eager operator, which returns to the integer dtype.
_INTEGER_STEPS = PREDICATES | {"add", "sub", "mul", "max", "min", "neg", "abs", "sign", "select", "square"}


@dataclass(eq=False)
class Value:
    """Something a step reads or writes: an argument, a result of the kernel, or a scratch array."""

    dtype: np.dtype[Any]
    row: bool = False
    arg: int | None = None
    out: int | None = None
    slot: int | None = None
    last_use: int = -1
    shape: Shape = ()


@dataclass
class Step:
    """One line of NumPy: ``function`` is a step of the scalar vocabulary, ``reduce:…``, ``copy`` or ``eager``."""

    function: str
    operands: list[Any]
    result: Value
    op: HybridOp
    number: int = 0
    whole: bool = False  # a reduction over everything, of which each tile gives a part


@dataclass
class Schedule:
    """The steps of a fused kernel over its domain, with scratch slots assigned."""

    domain: Shape
    rows: int | None
    args: list[Value]
    outs: list[Value]
    steps: list[Step] = field(default_factory=lambda: list[Step]())
    slots: list[tuple[np.dtype[Any], bool]] = field(default_factory=lambda: list[tuple[np.dtype[Any], bool]]())


def is_fused(kernel: func.FuncOp) -> bool:
    """Whether a kernel is made of elementwise operators and row reductions (else it is one library or host call)."""
    return all(loop_domain(op)[0] is not None for op in hybrid_ops(kernel) if not is_constant(op))


def schedule(kernel: func.FuncOp) -> Schedule:
    """The steps of a fused kernel."""
    return _Scheduler(kernel).run()


class _Scheduler:
    def __init__(self, kernel: func.FuncOp) -> None:
        self.kernel = kernel
        self.ops = [op for op in hybrid_ops(kernel) if not is_constant(op)]
        self.values: dict[SSAValue, Any] = {}
        reductions = [o for o in self.ops if isinstance(o.operator, Reduction)]
        self.domain = shape_of(reductions[0].operands[0]) if reductions else shape_of(self.ops[-1].results[0])
        self.rows: int | None = None
        if reductions:
            axes = [op.operator.axes(len(self.domain)) for op in reductions if isinstance(op.operator, Reduction)]
            self.rows = axes[0][0]

    def run(self) -> Schedule:
        args = [self._value(v, arg=i) for i, v in enumerate(self.kernel.body.block.args)]
        end = self.kernel.body.block.last_op
        assert isinstance(end, func.ReturnOp)
        outs: list[Value] = []
        for i, v in enumerate(end.arguments):
            outs.append(self._value(v, out=i))
        plan = Schedule(self.domain, self.rows, args, outs)
        for op in self.ops:
            self._steps_of(op, plan)
        _assign_slots(plan)
        return plan

    def _value(self, v: SSAValue, **where: Any) -> Value:
        value = Value(dtype_of(v), self._is_row(shape_of(v)), shape=shape_of(v), **where)
        self.values[v] = value
        return value

    def _is_row(self, shape: Shape) -> bool:
        if self.rows is None:
            return False
        return shape == self.domain[: self.rows] + (1,) * (len(self.domain) - self.rows)

    def _operand(self, v: SSAValue) -> Any:
        number = constant_value(v)
        return number if number is not None else self.values[v]

    def _steps_of(self, op: HybridOp, plan: Schedule) -> None:
        operator = op.operator
        result = op.results[0]
        target = self.values.get(result) or self._value(result)
        operands = [self._operand(v) for v in op.operands]
        if isinstance(operator, Reduction):
            plan.steps.append(Step(f"reduce:{operator.COMBINE}", operands, target, op, whole=self.rows == 0))
            return
        assert isinstance(operator, Elementwise)
        arguments, recorded, final = record(operator, len(operands))
        steps = _needed(recorded, final)
        kind = np.result_type(*[v.dtype for v in operands if isinstance(v, Value)] or [target.dtype]).kind
        half = target.dtype == np.float16 and any(s.step in SPECIAL for s in steps)
        if half or (kind not in "f" and any(_leaves_integers(s) for s in steps)):
            plan.steps.append(Step("eager", operands, target, op))
            return
        known: dict[int, Any] = {id(a): v for a, v in zip(arguments, operands, strict=True)}
        for scalar in steps:
            dtype = self._dtype(scalar, known, target.dtype)
            direct = scalar is final and (scalar.step != "cast" or dtype == target.dtype)
            place = target if direct else Value(dtype, target.row, shape=target.shape)
            reads = [known.get(id(x), x) for x in scalar.operands if not isinstance(x, np.dtype | type | str)]
            plan.steps.append(Step(scalar.step or "", reads, place, op))
            known[id(scalar)] = place
        if known.get(id(final)) is not target:
            plan.steps.append(Step("copy", [known.get(id(final), final)], target, op))

    def _dtype(self, scalar: Scalar, known: dict[int, Any], default: np.dtype[Any]) -> np.dtype[Any]:
        if scalar.is_predicate:
            return BOOL
        if scalar.step == "cast":
            return np.dtype(scalar.operands[1])
        floats = [known[id(x)].dtype for x in scalar.operands if isinstance(known.get(id(x)), Value)]
        floats = [d for d in floats if d != BOOL]
        return floats[0] if floats else default


def _needed(steps: Sequence[Scalar], final: Any) -> list[Scalar]:
    """The recorded steps that the result depends on, in order."""
    wanted = {id(final)}
    kept: list[Scalar] = []
    for step in reversed(steps):
        if id(step) in wanted:
            kept.append(step)
            wanted |= {id(x) for x in step.operands}
    return kept[::-1]


def _leaves_integers(step: Scalar) -> bool:
    """Whether a step on integers gives NumPy floats, which a ufunc cannot write into integers."""
    return step.step not in _INTEGER_STEPS or any(isinstance(x, float) for x in step.operands)


def _assign_slots(plan: Schedule) -> None:
    """Give every value that is neither argument nor result a scratch slot; slots are reused after the last read."""
    for number, step in enumerate(plan.steps):
        step.number = number
        for value in step.operands:
            if isinstance(value, Value):
                value.last_use = number
    free: list[int] = []
    for step in plan.steps:
        dying = {
            id(v): v for v in step.operands if isinstance(v, Value) and v.slot is not None and v.last_use == step.number
        }
        # A ufunc may write over an operand; `select`, reductions and eager calls read after they have begun to write.
        overwrites = step.function not in ("select", "eager", "copy") and not step.function.startswith("reduce:")
        if overwrites:
            free += [v.slot for v in dying.values() if v.slot is not None]
        value = step.result
        if value.arg is None and value.out is None and value.slot is None:
            wanted = (value.dtype, value.row)
            slot = next((s for s in reversed(free) if plan.slots[s] == wanted), None)
            if slot is None:
                slot = len(plan.slots)
                plan.slots.append(wanted)
            else:
                free.remove(slot)
            value.slot = slot
        if not overwrites:
            free += [v.slot for v in dying.values() if v.slot is not None]


def inplace_pairs(plan: Schedule) -> list[tuple[int, int]]:
    """Which arguments may share memory with which results: same index map, declared by the operator, read no later."""
    pairs: list[tuple[int, int]] = []
    for out in plan.outs:
        first_write = min(s.number for s in plan.steps if s.result is out)
        operator = next(s.op.operator for s in plan.steps if s.result is out)
        if not operator.INPLACE or out.last_use > first_write:
            continue
        for arg in plan.args:
            same = arg.shape == out.shape and arg.dtype == out.dtype
            if same and arg.last_use <= first_write and not _clobbers(plan, arg, first_write):
                pairs.append((arg.arg or 0, out.out or 0))
    return pairs


def _clobbers(plan: Schedule, arg: Value, write: int) -> bool:
    """Whether the step that writes the result reads the argument in a way that does not allow overwriting it."""
    step = plan.steps[write]
    if step.function not in ("select", "eager", "copy") and not step.function.startswith("reduce:"):
        return False
    return any(v is arg for v in step.operands)


def lines_of(plan: Schedule) -> list[str]:
    """The user's lines that a kernel comes from."""
    found = [str(where) for s in plan.steps if (where := location_of(s.op)) is not None]
    return list(dict.fromkeys(found))

"""A graph inside an operator: what its operation in the IR holds as a region."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hybridc.dialects.attribute import DType, Shape
from hybridc.runtime.state import STATE

if TYPE_CHECKING:
    from hybridc.dialects.operator import Operator
    from hybridc.nd.ndarray import NDArray
    from hybridc.trace.location import Location
    from hybridc.trace.tracer import Trace


class Step:
    """One operator of a body: the numbers of the values that it takes, and of the first that it gives."""

    __slots__ = ("first", "inputs", "location", "name", "op")

    def __init__(
        self, op: Operator, inputs: Sequence[int], first: int, location: Location | None = None, name: str = ""
    ) -> None:
        self.op = op
        self.inputs = tuple(inputs)
        self.first = first
        self.location = location
        self.name = name

    @property
    def outputs(self) -> range:
        """The numbers of the values that it gives, hidden ones too."""
        return range(self.first, self.first + self.op.num_outputs())


class Body:
    """Operators in order, on numbered values: first the arguments, then what each operator gives.

    It knows no shapes: they follow from those of the arguments. It is never changed once made.
    """

    __slots__ = ("arguments", "results", "steps")

    def __init__(self, arguments: int, steps: Sequence[Step], results: Sequence[int]) -> None:
        self.arguments = arguments
        self.steps = tuple(steps)
        self.results = tuple(results)

    def __repr__(self) -> str:
        return f"Body({', '.join(step.op.title() for step in self.operators())})"

    def operators(self) -> list[Step]:
        """The steps that are not numbers."""
        return [step for step in self.steps if step.inputs or "value" not in step.op.ATTRIBUTES]

    def infer_shape(self, shapes: Sequence[Shape]) -> tuple[list[Shape], list[Shape]]:
        """Shapes of the arguments, unknown sizes filled in, and of the results."""
        known: list[Shape] = list(shapes)
        for step in self.steps:
            ins, outs = step.op.infer_shape([known[i] for i in step.inputs])
            for i, shape in zip(step.inputs, ins, strict=True):
                known[i] = tuple(shape) if -1 in known[i] else known[i]
            known += [tuple(s) for s in outs]
        return known[: self.arguments], [known[i] for i in self.results]

    def infer_type(self, dtypes: Sequence[DType]) -> tuple[list[DType], list[DType]]:
        """Dtypes of the arguments and of the results."""
        known: list[DType] = list(dtypes)
        for step in self.steps:
            known += step.op.infer_type([known[i] for i in step.inputs])[1]
        return known[: self.arguments], [known[i] for i in self.results]

    def values(self, inputs: Sequence[Any]) -> list[Any]:
        """All values, from those of the arguments: computed now, or recorded where they are Symbols."""
        known = list(inputs)
        for step in self.steps:
            known += outputs_of(step.op, [known[i] for i in step.inputs], step.location)
        return known

    def gradients(self, F: Any, ograds: Sequence[Any], inputs: Sequence[Any], needed: Sequence[bool]) -> list[Any]:
        """Gradients of the arguments by the operators' rules, computed or recorded; ``ograds`` may lack the last."""
        from hybridc.dialects.gradient import vjp

        known = self.values(inputs)
        active = [*needed, *[False] * (len(known) - len(needed))]
        for step in self.steps:
            for i in step.outputs:
                active[i] = any(active[j] for j in step.inputs)
        grads: dict[int, Any] = {}
        for i, grad in zip(self.results, ograds, strict=False):
            grads[i] = grad if i not in grads else grads[i] + grad
        for step in reversed(self.steps):
            visible = step.outputs[: step.op.num_visible_outputs()]
            if not any(active[i] for i in step.outputs) or not any(i in grads for i in visible):
                continue
            heads = [grads[i] if i in grads else F.zeros_like(known[i]) for i in visible]
            ins, outs = [known[i] for i in step.inputs], [known[i] for i in step.outputs]
            found = vjp(step.op, F, heads, ins, outs, [active[i] for i in step.inputs])
            for i, grad in zip(step.inputs, found, strict=True):
                if grad is not None:
                    grads[i] = grad if i not in grads else grads[i] + grad
        return [grads.get(i) if n else None for i, n in enumerate(needed)]

    def trace(self, names: Sequence[str], shapes: Sequence[Shape], dtypes: Sequence[DType], training: bool) -> Trace:
        """The body as a graph of its own, for arguments of these shapes and dtypes."""
        from hybridc.trace.tracer import Trace

        trace = Trace(training)
        trace.track_locations = False
        for name, shape, dtype in zip(names, shapes, dtypes, strict=True):
            trace.leaf(name, shape, dtype, "data")
        with trace.active():
            known = self.values(trace.leaves)
        trace.outputs = [known[i] for i in self.results]
        trace.structure = [0] * len(self.results) if len(self.results) != 1 else 0
        return trace


def outputs_of(op: Operator, inputs: Sequence[Any], location: Location | None = None) -> list[Any]:
    """All outputs of an operator that is bound to its moment, hidden ones too."""
    from hybridc.dispatch import execute

    if STATE.trace is not None:
        return STATE.trace.emit(op, list(inputs), location)
    arrays: Sequence[NDArray] = inputs
    return execute(op, arrays, [np.asarray(x.asnative()) for x in arrays])

"""Nested graphs of operators: in the IR, regions of their operations."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from hybridc.dialects.derived import outputs_of
from hybridc.dialects.gradient import pull_back
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.ground.hooks import HOOKS

if TYPE_CHECKING:
    from hybridc.dialects.operator import Operator
    from hybridc.ground.location import Location

_FLOAT32 = np.dtype(np.float32)
NOTHING: Mapping[str, str] = MappingProxyType({})


class BodyStep:
    """One operator of a body: the indices of its input values, and of its first output.

    What follows describes it and changes nothing: the user's line, its name in a graph, the text of its attributes as
    a call or a file gave them, and the user's own attributes, see :class:`hybridc.symbol.graph.SymbolNode`.
    """

    __slots__ = ("attrs", "first", "given", "inputs", "location", "name", "op")

    def __init__(
        self,
        op: Operator,
        inputs: Sequence[int],
        first: int,
        location: Location | None = None,
        name: str = "",
        given: Mapping[str, str] = NOTHING,
        attrs: Mapping[str, str] = NOTHING,
    ) -> None:
        self.op = op
        self.inputs = tuple(inputs)
        self.first = first
        self.location = location
        self.name = name
        self.given = given
        self.attrs = attrs

    def moved(self, inputs: Sequence[int], first: int) -> BodyStep:
        """The same operator on other values."""
        return BodyStep(self.op, inputs, first, self.location, self.name, self.given, self.attrs)

    def replaced(self, op: Operator, is_spelled: bool = True) -> BodyStep:
        """Another operator in its place; without ``is_spelled`` its attributes are no more those that were given."""
        given = self.given if is_spelled else NOTHING
        return BodyStep(op, self.inputs, self.first, self.location, self.name, given, self.attrs)

    @property
    def outputs(self) -> range:
        """The indices of its outputs, hidden ones included."""
        return range(self.first, self.first + self.op.num_outputs())


class Body:
    """Operators in order, on numbered values: first the arguments, then each operator's outputs.

    It has no shapes: they follow from those of the arguments. A body of a symbol has no dtypes either: its constants
    have the dtype None and take that of the array beside them. Bodies are immutable, and equal if they compute the same
    in the same order, whatever the lines. ``described`` are the user's attributes of the arguments, if there are any.
    """

    __slots__ = ("arguments", "described", "open", "results", "steps", "undecided")

    def __init__(
        self,
        arguments: int,
        steps: Sequence[BodyStep],
        results: Sequence[int],
        described: Sequence[Mapping[str, str]] = (),
    ) -> None:
        self.arguments = arguments
        self.described = tuple(described)
        self.steps = tuple(steps)
        self.results = tuple(results)
        self.open = any(_is_open(step) for step in self.steps)
        self.undecided = any(step.op.TRAIN_MODE and step.op.attrs["train"] is None for step in self.steps)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Body) or (self.arguments, self.results) != (other.arguments, other.results):
            return False
        return len(self.steps) == len(other.steps) and all(map(_same, self.steps, other.steps))

    def __hash__(self) -> int:
        return hash((self.arguments, self.results, len(self.steps)))

    def __repr__(self) -> str:
        return f"Body({', '.join(step.op.title() for step in self.operators())})"

    def operators(self) -> list[BodyStep]:
        """The steps that are not constants."""
        return [step for step in self.steps if not _is_number(step)]

    def updated(self) -> dict[int, int]:
        """The arguments that operators mutate, and the indices of their new values."""
        latest: dict[int, int] = {}
        origin = {i: i for i in range(self.arguments)}
        for step in self.steps:
            first = step.outputs.stop - len(step.op.mutated)
            for new, i in enumerate(step.op.mutated, first):
                source = origin.get(step.inputs[i])
                if source is not None:
                    latest[source], origin[new] = new, source
        return latest

    def with_numbers(self, dtype_of: Callable[[BodyStep], DType | None]) -> Body:
        """The same body with dtypes for its constants."""
        steps: list[BodyStep] = []
        for step in self.steps:
            op = step.op.bind(**{**step.op.attrs, "dtype": dtype_of(step)}) if _is_number(step) else step.op
            steps.append(step.replaced(op))
        return Body(self.arguments, steps, self.results, self.described)

    def with_attributes(self, change: Callable[[Any], Any]) -> Body:
        """The same body with other values of the operators' attributes, but for those that are tuples: of their items.

        It is this body, if none changes.
        """
        steps: list[BodyStep] = []
        for step in self.steps:
            values = tuple([_changed(value, change) for value in step.op.key[1:]])
            same = all(a is b for a, b in zip(values, step.op.key[1:], strict=True))
            op = step.op if same else step.op.bind_values(values)
            steps.append(step if same else step.replaced(op, is_spelled=False))
        same = all(a is b for a, b in zip(steps, self.steps, strict=True))
        return self if same else Body(self.arguments, steps, self.results, self.described)

    def typed(self, dtypes: Sequence[DType]) -> Body:
        """The same body for arguments of these dtypes, with typed constants."""
        if not self.open:
            return self
        known: list[Any] = list(dtypes)
        for step in self.steps:
            if _is_open(step):
                known.append(None)
                continue
            beside = next((known[i] for i in step.inputs if known[i] is not None), _FLOAT32)
            for i in step.inputs:
                known[i] = beside if known[i] is None else known[i]
            known += step.op.infer_type([known[i] for i in step.inputs])[1]
        return self.with_numbers(lambda step: _FLOAT32 if known[step.first] is None else known[step.first])

    def bound(self, train: bool, draw: int | None) -> Body:
        """The body for a call: operators with a train mode get it, those that use random samples get their counters.

        Counters begin with ``draw``; None leaves them. Where an operator does not change an input in
        this train mode, the new value is the old one.
        """
        numbers = dict(enumerate(range(self.arguments)))
        steps: list[BodyStep] = []
        count = self.arguments
        for step in self.steps:
            op = _at_moment(step.op, train, draw)
            draw = None if draw is None else draw + op.num_samples()
            inputs = step.inputs[: len(step.inputs) - step.op.DRAWS + op.DRAWS]
            steps.append(step.replaced(op).moved([numbers[i] for i in inputs], count))
            before, after = step.op.num_outputs() - len(step.op.mutated), op.num_outputs() - len(op.mutated)
            numbers |= {step.first + k: count + k for k in range(min(before, after))}
            for k, i in enumerate(step.op.mutated):
                new = count + after + op.mutated.index(i) if i in op.mutated else numbers[step.inputs[i]]
                numbers[step.first + before + k] = new
            count += op.num_outputs()
        return Body(self.arguments, steps, [numbers[i] for i in self.results], self.described)

    def complete_shapes(
        self, shapes: Sequence[Shape | None], outputs: Sequence[Shape | None] = ()
    ) -> list[Shape | None]:
        """Shape inference, forward and backward, of arguments whose shape is unknown (None)."""
        return HOOKS.graph_shapes(self, shapes, outputs)[0]

    def complete_types(self, dtypes: Sequence[DType | None]) -> list[DType | None]:
        """Dtype inference of arguments whose dtype is unknown (None)."""
        known: list[Any] = list(dtypes)
        for step in self.steps:
            ins: list[Any] = step.op.complete_types([known[i] for i in step.inputs])
            for i, dtype in zip(step.inputs, ins, strict=True):
                known[i] = dtype
            unknown = _is_open(step) or any(d is None for d in ins)
            known += [None] * len(step.outputs) if unknown else step.op.infer_type(ins)[1]
        return known[: self.arguments]

    def infer_shape(self, shapes: Sequence[Shape]) -> tuple[list[Shape], list[Shape]]:
        """Shapes of the arguments, with unknown sizes filled in, and of the results."""
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
        for step in self.typed(dtypes).steps:
            known += step.op.infer_type([known[i] for i in step.inputs])[1]
        return known[: self.arguments], [known[i] for i in self.results]

    def values(self, inputs: Sequence[Any], saved: Mapping[int, Any] = MappingProxyType({})) -> list[Any]:
        """All values, given those of the arguments: computed eagerly, or recorded if they are Symbols.

        ``saved`` are values, by index, that later operators read in place of those computed.
        """
        known = list(inputs)
        for step in self._typed_for(inputs).steps:
            results = outputs_of(step.op, [known[i] for i in step.inputs], step.location)
            known += [saved.get(i, x) for i, x in enumerate(results, len(known))]
        return known

    def _typed_for(self, inputs: Sequence[Any]) -> Body:
        return self.typed([np.dtype(x.dtype) for x in inputs])

    def gradients(
        self,
        F: Any,
        ograds: Sequence[Any],
        inputs: Sequence[Any],
        needed: Sequence[bool],
        saved: Mapping[int, Any] = MappingProxyType({}),
    ) -> list[Any]:
        """Gradients of the arguments by the operators' rules, eager or recorded; ``saved`` as for :meth:`values`.

        ``ograds`` may lack the last ones; None where no gradient starts.
        """
        values = dict(enumerate(self.values(inputs, saved)))
        heads: dict[int, Any] = {}
        for i, grad in zip(self.results, ograds, strict=False):
            if grad is not None:
                heads[i] = heads[i] + grad if i in heads else grad
        steps = [(step.op, step.inputs, step.outputs) for step in self.steps]
        grads = pull_back(F, steps, values, heads, {i for i, n in enumerate(needed) if n})
        return [grads.get(i) if n else None for i, n in enumerate(needed)]

    def trace(
        self,
        names: Sequence[str],
        shapes: Sequence[Shape],
        dtypes: Sequence[DType],
        training: bool,
        fixed: Collection[int] = (),
    ) -> Any:
        """The body as a trace of its own, for arguments of these shapes and dtypes.

        The ``fixed`` ones are the same in many calls: what follows from them alone need not be computed in each.
        """
        trace = HOOKS.new_trace(training)
        trace.track_locations = False
        for number, (name, shape, dtype) in enumerate(zip(names, shapes, dtypes, strict=True)):
            trace.leaf(name, shape, dtype, "parameter" if number in fixed else "data")
        with trace.active():
            known = self.values(trace.leaves)
        trace.outputs = [known[i] for i in self.results]
        trace.structure = [0] * len(self.results) if len(self.results) != 1 else 0
        return trace


def _same(a: BodyStep, b: BodyStep) -> bool:
    return a.inputs == b.inputs and type(a.op) is type(b.op) and a.op.key[1:] == b.op.key[1:]


def _changed(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, Body):
        return value.with_attributes(change)
    if not isinstance(value, tuple):
        return change(value)
    items = cast("tuple[Any, ...]", value)
    made = tuple([_changed(item, change) for item in items])
    return items if all(a is b for a, b in zip(made, items, strict=True)) else made


def _is_number(step: BodyStep) -> bool:
    return step.op.as_number() is not None


def _is_open(step: BodyStep) -> bool:
    return _is_number(step) and step.op.attrs["dtype"] is None


def _at_moment(op: Operator, train: bool, draw: int | None) -> Operator:
    changes: dict[str, Any] = {}
    if op.TRAIN_MODE and op.attrs["train"] is None:
        changes["train"] = train
    if op.DRAWS and draw is not None:
        changes["draw"] = draw
    return op.bind(**{**op.attrs, **changes}) if changes else op

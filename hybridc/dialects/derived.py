"""Defaults derived from an operator's definition: from the steps of its scalar body, or from its decomposition.

A composite's shapes and eager values are those of its decomposition. For its gradient an operator is expanded to a
small graph of other operators (see :mod:`hybridc.dialects.gradient`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hybridc.context import Context, working_on
from hybridc.dialects import operator_registry
from hybridc.dialects.operator_attribute import Shape
from hybridc.dialects.scalar import Scalar, numpy_step, record, replay
from hybridc.dialects.scalar.table import STEPS
from hybridc.errors import MXNetError, UnsupportedError
from hybridc.ground.hooks import HOOKS
from hybridc.ground.nesting import as_list
from hybridc.ground.records import dataclass
from hybridc.ground.state import STATE

if TYPE_CHECKING:
    from hybridc.dialects.operator import Composite, Elementwise, Operator
    from hybridc.ground.location import Location

# A trace, its inputs and its results.
Graph = tuple[Any, list[Any], list[Any]]

_KEPT = 8  # cached graphs of one operator, by input shapes


def _apply(op: Operator, step: str, *operands: Any) -> Any:
    """A step of an operator's scalar body as an operator."""
    invoke = HOOKS.invoke
    if not any(hasattr(x, "shape") for x in operands):
        return numpy_step(step, *operands)
    if step == "cast":
        x, dtype = operands
        return invoke(operator_registry.operator("hybrid.cast").bind(dtype=dtype), [x])
    if step == "like":
        x, number = operands
        return invoke(operator_registry.operator("hybrid.full_like").bind(fill_value=number), [x])
    if step == "select":  # a scalar branch takes the dtype of the other
        like = next((x for x in operands[1:] if hasattr(x, "shape")), operands[0])
        full = operator_registry.operator("hybrid.full_like")
        branches = [x if hasattr(x, "shape") else invoke(full.bind(fill_value=x), [like]) for x in operands[1:]]
        operands = (operands[0], *branches)
    row = STEPS[step]
    name = f"hybrid.{row.operator or step}"
    if name not in operator_registry.OPERATORS and row.composed is not None:
        return row.composed(_StepOperators(op), *operands)
    if not operator_registry.has_operator(name):
        raise UnsupportedError(
            f"operator {op.NAME}: the step b.{step} of its scalar body has no gradient rule; give the "
            "operator a gradient(self, F, dy, …) of its own"
        )
    return invoke(operator_registry.operator(name).bind(), list(operands))


@dataclass(frozen=True)
class _StepOperators:
    """The builder of a step that is made of others: each of these as an operator."""

    op: Operator

    def __getattr__(self, step: str) -> Callable[..., Any]:
        return functools.partial(_apply, self.op, step)


def _body(op: Elementwise, count: int) -> str:
    """The steps of a scalar body as text."""
    _, steps, result = record(op, count)
    found = [(s.step, [(x.step is None, x.index) if isinstance(x, Scalar) else x for x in s.operands]) for s in steps]
    return repr((found, (result.step is None, result.index) if isinstance(result, Scalar) else result))


def steps_graph(op: Elementwise, inputs: Sequence[Any]) -> Graph:
    """A scalar body as a graph of operators, for inputs like these; cached."""

    def write(_: Any, *xs: Any) -> Any:
        _, steps, result = record(op, len(xs))
        return replay(steps, result, xs, functools.partial(_apply, op))

    return _kept(op, "" if _is_own(op) else _body(op, len(inputs)), inputs, write)


def decomposition_graph(op: Composite, inputs: Sequence[Any]) -> Graph:
    """A decomposition as a graph of operators, for inputs like these.

    It is cached, unless a user's ``decompose`` made it, which may differ from call to call.
    """
    if _is_own(op):
        return _kept(op, "", inputs, op.expanded)
    return _written_out(op, inputs, op.expanded)


def _is_own(op: Operator) -> bool:
    return type(op).__module__.partition(".")[0] == "hybridc"


def _kept(op: Operator, body: str, inputs: Sequence[Any], write: Callable[..., Any]) -> Graph:
    kept: dict[Any, Graph] = vars(op).setdefault("_written_out", {})
    key = (STATE.training, body, *((x.shape, x.dtype) for x in inputs))
    if key in kept:
        return kept[key]
    graph = _written_out(op, inputs, write)
    if len(kept) >= _KEPT:
        kept.clear()
    kept[key] = graph
    return graph


def _written_out(op: Operator, inputs: Sequence[Any], write: Callable[..., Any]) -> Graph:
    """The graph that ``write(F, *inputs)`` records."""
    trace = HOOKS.new_trace(STATE.training)
    trace.track_locations = False
    leaves = [trace.leaf("x", x.shape, x.dtype, "value") for x in inputs]
    with trace.active():
        outputs = as_list(write(HOOKS.symbols(), *leaves))
    if len(trace.leaves) > len(leaves) + trace.draws:
        raise UnsupportedError(
            f"operator {op.NAME}: its decomposition uses an array that is not one of its inputs; make it an input"
        )
    return trace, leaves, outputs


def evaluate_decomposed(op: Composite, arrays: Sequence[Any]) -> Any:
    """A composite's results on NumPy arrays, by its decomposition."""
    before = STATE.recording, STATE.trace, STATE.in_rule
    STATE.recording, STATE.trace, STATE.in_rule = False, None, True
    try:
        with working_on(Context("cpu")):
            made = as_list(op.expanded(HOOKS.arrays(), *[HOOKS.wrap(a) for a in arrays]))
    except MXNetError:
        op.infer_shape([a.shape for a in arrays])  # whose error is clearer, if the shapes are wrong
        raise
    finally:
        STATE.recording, STATE.trace, STATE.in_rule = before
    dtype = arrays[0].dtype if arrays else np.dtype(np.float32)
    values = [np.asarray(y, dtype) if isinstance(y, int | float | np.generic) else y._data for y in made]
    results = [v.copy() if any(np.may_share_memory(v, a) for a in arrays) else v for v in values]
    return results[0] if len(results) == 1 else tuple(results)


def inferred_shapes(op: Composite, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
    """Shapes of a composite's inputs and results, by its decomposition."""
    stand_ins = [_StandIn(tuple(s), np.dtype(np.float32)) for s in shapes]
    try:
        _, leaves, outputs = decomposition_graph(op, stand_ins)
    except MXNetError as error:
        raise type(error)(
            f"{op.title()}: its decomposition does not take inputs of shapes {shapes}: {error}"
        ) from error
    return [leaf.shape for leaf in leaves], [y.shape if hasattr(y, "shape") else () for y in outputs]


def completed_shapes(
    op: Composite, shapes: Sequence[Shape | None], outputs: Sequence[Shape | None]
) -> list[Shape | None]:
    """Shapes of a composite's inputs that follow from those known, by its decomposition; of inputs None if unknown."""
    keys: list[Shape | None] = [(2,)] * (op.DRAWS and len(shapes) < len(op.input_names()))  # no inputs of symbols
    stand_ins = [_StandIn(s, np.dtype(np.float32)) for s in [*shapes, *keys]]
    try:
        trace, leaves, results = _written_out(op, stand_ins, op.expanded)
        if trace.inference is not None:
            for y, shape in zip(results, outputs, strict=False):
                if hasattr(y, "inferred_shape"):
                    trace.inference.put(y, shape)
            trace.inference.settle()
    except Exception:  # it reads an unknown shape, or takes no float32; what is wrong shows when all shapes are known
        return [*shapes]
    return [leaf.inferred_shape for leaf in leaves[: len(shapes)]]


@dataclass(frozen=True)
class _StandIn:
    """An array as its shape, which may be unknown, and dtype."""

    shape: Shape | None
    dtype: Any


def outputs_of(op: Operator, inputs: Sequence[Any], location: Location | None = None) -> list[Any]:
    """All outputs of a bound operator, hidden ones included."""
    if STATE.trace is not None:
        return STATE.trace.emit(op, list(inputs), location)
    return HOOKS.execute(op, inputs)

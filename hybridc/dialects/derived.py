"""What an operator does not say itself, by what it is made of: the steps of its scalar body, or its decomposition.

For a gradient the operator is written out as a small graph of other operators, which is computed again and gone through
backwards by their rules. So a rule of one's own is needed only where it is better: cheaper, or another one on purpose.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hybridc.dialects import registry
from hybridc.dialects.attribute import Shape
from hybridc.dialects.body import outputs_of
from hybridc.dialects.operator import Composite, Elementwise, Operator
from hybridc.dialects.scalar import NUMPY, PREDICATES, Scalar, record
from hybridc.errors import MXNetError, UnsupportedError
from hybridc.hooks import HOOKS
from hybridc.nesting import as_list
from hybridc.state import STATE

# Steps as operators, where the names differ.
_OPERATORS = {
    "sub": "subtract", "mul": "multiply", "div": "divide", "quotient": "divide", "rem": "modulo", "neg": "negative",
    "max": "maximum", "min": "minimum", "pow": "power", "asin": "arcsin", "acos": "arccos", "atan": "arctan",
    "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh", "lt": "lesser", "le": "lesser_equal",
    "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal", "lgamma": "gammaln", "select": "where",
    "logistic": "sigmoid",
}  # fmt: skip
# Steps whose derivative is 0 wherever there is one.
_FLAT = PREDICATES | {"like", "sign", "floor", "ceil", "trunc", "rint"}
_KEPT = 8  # graphs of one operator, for inputs of different shapes


def derives(op: Operator) -> bool:
    """Whether the operator leaves its gradient to its body or decomposition."""
    cls = type(op)
    if cls.gradient is not Operator.gradient or cls.gradient_of is not Operator.gradient_of:
        return False
    return isinstance(op, Elementwise | Composite)


def _smooth(op: Elementwise) -> bool:
    """Whether the result follows an input other than in jumps; asked once."""
    known = op.__dict__.get("_smooth")
    if known is None:
        arguments, _, result = record(op, len(op.input_names()))
        work, seen = [result], set[int]()
        while work:
            found = work.pop()
            if not isinstance(found, Scalar) or found.step in _FLAT or id(found) in seen:
                continue
            seen.add(id(found))
            work += found.operands[1:] if found.step == "select" else found.operands
        known = op.__dict__["_smooth"] = any(id(a) in seen for a in arguments)
    return known


class _Steps:
    """A builder whose steps are operators."""

    def __init__(self, op: Operator) -> None:
        self._op = op

    def __getattr__(self, step: str) -> Callable[..., Any]:
        def apply(*operands: Any) -> Any:
            invoke = HOOKS.invoke
            if not any(hasattr(x, "shape") for x in operands):
                return getattr(NUMPY, step)(*operands)
            if step == "cast":
                x, dtype = operands
                return invoke(registry.operator("hybrid.cast").bind(dtype=dtype), [x])
            if step == "like":
                x, number = operands
                return invoke(registry.operator("hybrid.full_like").bind(fill_value=number), [x])
            if step == "select":  # its branches have one dtype, which a number takes from the other
                like = next((x for x in operands[1:] if hasattr(x, "shape")), operands[0])
                full = registry.operator("hybrid.full_like")
                operands = (
                    operands[0],
                    *(x if hasattr(x, "shape") else invoke(full.bind(fill_value=x), [like]) for x in operands[1:]),
                )
            name = f"hybrid.{_OPERATORS.get(step, step)}"
            if name not in registry.OPERATORS:
                raise UnsupportedError(
                    f"operator {self._op.NAME}: the gradient of the step b.{step} is not known; give the operator a "
                    "gradient(self, F, dy, …) of its own"
                )
            return invoke(registry.operator(name).bind(), list(operands))

        return apply


def _outputs(op: Operator, F: Any, inputs: Sequence[Any]) -> list[Any]:
    """The operator's results by other operators."""
    if isinstance(op, Elementwise):
        return [op.scalar(_Steps(op), *inputs)]
    return as_list(op.decompose(F, *inputs))


def _body(op: Elementwise, count: int) -> str:
    """The steps of a scalar body as text."""
    _, steps, result = record(op, count)
    found = [(s.step, [(x.step is None, x.index) if isinstance(x, Scalar) else x for x in s.operands]) for s in steps]
    return repr((found, (result.step is None, result.index) if isinstance(result, Scalar) else result))


def _written_out(op: Operator, inputs: Sequence[Any]) -> tuple[Any, list[Any], list[Any]]:
    """The operator as a graph for inputs like these: its trace, its inputs and its results.

    It is kept for the next call, unless a user's ``decompose`` made it, which may give something else then.
    """
    kept: dict[Any, Any] = op.__dict__.setdefault("_written_out", {})
    is_own = type(op).__module__.partition(".")[0] == "hybridc"
    body = _body(op, len(inputs)) if isinstance(op, Elementwise) and not is_own else None
    key = (STATE.training, body, *((x.shape, x.dtype) for x in inputs))
    if key in kept:
        return kept[key]
    trace = HOOKS.new_trace(STATE.training)
    trace.track_locations = False
    leaves = [trace.leaf("x", x.shape, x.dtype, "value") for x in inputs]
    with trace.active():
        outputs = _outputs(op, HOOKS.symbols(), leaves)
    if len(trace.leaves) > len(leaves) + trace.draws:
        raise UnsupportedError(
            f"operator {op.NAME}: its decomposition uses an array that is not one of its inputs; make it an input"
        )
    if is_own or body is not None:
        if len(kept) >= _KEPT:
            kept.clear()
        kept[key] = trace, leaves, outputs
    return trace, leaves, outputs


def gradients(
    op: Operator, F: Any, ograds: Sequence[Any], inputs: Sequence[Any], needed: Sequence[bool]
) -> list[Any | None]:
    """Gradients of the needed inputs, by the rules of the operators that this one is made of."""
    from hybridc.dialects.gradient import fit, pull_back

    if isinstance(op, Elementwise) and not _smooth(op):
        return [None] * len(inputs)
    trace, leaves, outputs = _written_out(op, inputs)
    for node in trace.nodes:
        if node.op.DRAWS or not node.op.PURE:
            raise UnsupportedError(
                f"operator {op.NAME}: its decomposition uses {node.op.NAME}, which cannot be computed again for the "
                "gradient; give the operator a gradient(self, F, …) of its own"
            )
    values: dict[int, Any] = {id(leaf): x for leaf, x in zip(leaves, inputs, strict=True)}
    for node in trace.nodes:
        results = outputs_of(node.op, [values[id(s)] for s in node.inputs])
        values |= {id(s): r for s, r in zip(node.outputs, results, strict=True)}
    heads: dict[int, Any] = {}
    for output, ograd in zip(outputs, ograds, strict=False):
        if id(output) in values:  # others are numbers
            grad = fit(F, ograd, values[id(output)])
            heads[id(output)] = heads[id(output)] + grad if id(output) in heads else grad
    steps = [(n.op, [id(s) for s in n.inputs], [id(s) for s in n.outputs]) for n in trace.nodes]
    active = {id(leaf) for leaf, n in zip(leaves, needed, strict=True) if n}
    grads = pull_back(F, steps, values, heads, active)
    return [grads.get(id(leaf)) if n else None for leaf, n in zip(leaves, needed, strict=True)]


def computed(op: Operator, arrays: Sequence[Any]) -> Any:
    """A composite's results, by its decomposition on NumPy arrays."""
    before = STATE.recording, STATE.trace
    STATE.recording, STATE.trace = False, None
    try:
        made = as_list(op.decompose(HOOKS.arrays(), *[HOOKS.wrap(a) for a in arrays]))
    except MXNetError:
        op.infer_shape([a.shape for a in arrays])  # which says it better, if the shapes are what is wrong
        raise
    finally:
        STATE.recording, STATE.trace = before
    dtype = arrays[0].dtype if arrays else np.dtype(np.float32)
    values = [np.asarray(y, dtype) if isinstance(y, int | float | np.generic) else y._data for y in made]
    results = [v.copy() if any(np.may_share_memory(v, a) for a in arrays) else v for v in values]
    return results[0] if len(results) == 1 else tuple(results)


def inferred_shapes(op: Operator, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
    """Shapes of a composite's inputs and results, by its decomposition."""
    stand_ins = [_StandIn(tuple(s), np.dtype(np.float32)) for s in shapes]
    try:
        _, leaves, outputs = _written_out(op, stand_ins)
    except MXNetError as error:
        raise type(error)(
            f"{op.title()}: its decomposition does not take inputs of shapes {shapes}: {error}"
        ) from error
    return [leaf.shape for leaf in leaves], [y.shape if hasattr(y, "shape") else () for y in outputs]


@dataclass(frozen=True)
class _StandIn:
    """Stands for an array of which only shape and dtype count."""

    shape: Shape
    dtype: Any

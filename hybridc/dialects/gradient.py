"""Vector-Jacobian products of operators, for both the eager tape and the compiled backward.

An operator without a rule is expanded to a small graph of other operators, which is recomputed and differentiated
by their rules. So a rule is needed only where it is better: cheaper, or different on purpose.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from types import FunctionType
from typing import Any, TypeGuard, TypeVar

from hybridc.dialects.derived import decomposition_graph, outputs_of, steps_graph
from hybridc.dialects.error_context import defined, raise_in_context
from hybridc.dialects.operator import Composite, Elementwise, Operator
from hybridc.dialects.scalar import Scalar, record
from hybridc.dialects.scalar.table import STEPS
from hybridc.errors import MXNetError, ShapeError, UnsupportedError
from hybridc.ground.nesting import as_list
from hybridc.ground.state import STATE


def vjp(
    op: Operator,
    F: Any,
    ograds: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    needed: Sequence[bool],
) -> list[Any]:
    """Gradients of the needed inputs (None for the others), each in its input's shape and dtype.

    ``ograds`` are those of the visible outputs, ``outputs`` are all outputs. A rule may return a function without
    arguments for a gradient: it is called only if that gradient is needed. An operator without a rule has
    that of its scalar body or decomposition.
    """
    if True not in needed:
        return [None] * len(inputs)
    before, STATE.in_rule = STATE.in_rule, True
    try:
        return _vjp(op, F, ograds, inputs, outputs, needed)
    finally:
        STATE.in_rule = before


def _vjp(
    op: Operator,
    F: Any,
    ograds: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    needed: Sequence[bool],
) -> list[Any]:
    values = (*ograds, *inputs, *outputs)
    try:
        rule: Any = (
            derived_gradients(op, F, ograds, inputs, needed) if _derives(op) else op.gradient_of(needed, F, *values)
        )
    except Exception as error:
        raise_in_context(op, "gradient", error, F, *values)
        raise
    if rule is None:
        return [None] * len(inputs)
    grads = as_list(rule)
    if len(grads) != len(inputs) - op.DRAWS:
        raise MXNetError(
            f"{op.title()}: gradient gave {len(grads)} values for {len(inputs) - op.DRAWS} inputs; "
            f"return one for each, None where there is none{defined(op, 'gradient')}"
        )
    grads += [None] * op.DRAWS
    wanted = [None if not n else g() if isinstance(g, FunctionType) else g for g, n in zip(grads, needed, strict=True)]
    for i, (grad, x) in enumerate(zip(wanted, inputs, strict=True)):
        if grad is not None and not _fits(grad, x):
            raise ShapeError(
                f"operator {op.NAME}: gradient returned an array of shape {grad.shape} for input {i} of shape "
                f"{x.shape}; return one of the input's shape, or of a shape to which it broadcasts"
                f"{defined(op, 'gradient')}"
            )
    return [None if g is None else fit(F, g, x) for g, x in zip(wanted, inputs, strict=True)]


def _fits(grad: Any, x: Any) -> bool:
    """Whether a gradient is a scalar, or can be summed to its input's shape."""
    wanted = x.shape
    shape = getattr(grad, "shape", wanted)
    if shape == wanted:
        return True
    lead = len(shape) - len(wanted)
    return lead >= 0 and all(n in (1, m) for n, m in zip(wanted, shape[lead:], strict=True))


Key = TypeVar("Key", bound=Hashable)
Step = tuple[Operator, Sequence[Key], Sequence[Key]]


def pull_back(
    F: Any, steps: Sequence[Step[Key]], values: Mapping[Key, Any], grads: dict[Key, Any], active: set[Key]
) -> dict[Key, Any]:
    """Reverse-mode gradients of all values of a straight-line program that depend on the ``active`` ones.

    A step is an operator with the keys of its inputs and of all its outputs; ``grads`` are those of the results.
    """
    for _, ins, outs in steps:
        if any(i in active for i in ins):
            active.update(outs)
    for op, ins, outs in reversed(steps):
        visible = outs[: op.num_visible_outputs()]
        needed = [i in active for i in ins]
        if not any(needed) or not any(i in grads for i in visible):
            continue
        heads = [grads[i] if i in grads else F.zeros_like(values[i]) for i in visible]
        found = vjp(op, F, heads, [values[i] for i in ins], [values[i] for i in outs], needed)
        for i, grad in zip(ins, found, strict=True):
            if grad is not None:
                grads[i] = grads[i] + grad if i in grads else grad
    return grads


def fit(F: Any, grad: Any, x: Any) -> Any:
    """A gradient summed over the axes along which its input was broadcast, cast to the input's dtype."""
    if not hasattr(grad, "shape"):
        grad = F.ones_like(x) * grad
    if grad.shape != x.shape:
        grad = F.sum_to(grad, shape=x.shape)
    return grad if grad.dtype == x.dtype else F.cast(grad, x.dtype)


# --- gradients of bodies and decompositions ---------------------------------------------------------------------------


def _derives(op: Operator) -> TypeGuard[Elementwise | Composite]:
    """Whether an operator's gradient is derived from its body or decomposition."""
    cls = type(op)
    if cls.gradient is not Operator.gradient or cls.gradient_of is not Operator.gradient_of:
        return False
    return isinstance(op, Elementwise | Composite)


def _smooth(op: Elementwise) -> bool:
    """Whether the result is differentiable in some input, not piecewise constant; cached."""
    known = op.__dict__.get("_smooth")
    if known is None:
        arguments, _, result = record(op, len(op.input_names()))
        work, seen = [result], set[int]()
        while work:
            found = work.pop()
            if not isinstance(found, Scalar) or id(found) in seen or _is_flat(found):
                continue
            seen.add(id(found))
            work += found.operands[1:] if found.step == "select" else found.operands
        known = vars(op)["_smooth"] = any(id(a) in seen for a in arguments)
    return known


def _is_flat(x: Scalar) -> bool:
    """Whether the derivative of a value's step is 0 almost everywhere."""
    return x.step is not None and STEPS[x.step].flat


def derived_gradients(
    op: Elementwise | Composite, F: Any, ograds: Sequence[Any], inputs: Sequence[Any], needed: Sequence[bool]
) -> list[Any | None]:
    """Gradients of the needed inputs, by differentiating the expansion."""
    if isinstance(op, Elementwise) and not _smooth(op):
        return [None] * len(inputs)
    trace, leaves, outputs = steps_graph(op, inputs) if isinstance(op, Elementwise) else decomposition_graph(op, inputs)
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
        if id(output) in values:  # others are constants
            grad = fit(F, ograd, values[id(output)])
            heads[id(output)] = heads[id(output)] + grad if id(output) in heads else grad
    steps = [(n.op, [id(s) for s in n.inputs], [id(s) for s in n.outputs]) for n in trace.nodes]
    active = {id(leaf) for leaf, n in zip(leaves, needed, strict=True) if n}
    grads = pull_back(F, steps, values, heads, active)
    return [grads.get(id(leaf)) if n else None for leaf, n in zip(leaves, needed, strict=True)]

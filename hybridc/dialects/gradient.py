"""The gradient of an operator, from its rule: the one door for the eager tape and for the compiled backward."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from types import FunctionType
from typing import Any, TypeVar

from hybridc.dialects.blame import blame, defined
from hybridc.dialects.derived import derives, gradients
from hybridc.dialects.operator import Operator
from hybridc.errors import MXNetError, ShapeError
from hybridc.nesting import as_list


def vjp(
    op: Operator,
    F: Any,
    ograds: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    needed: Sequence[bool],
) -> list[Any]:
    """Gradients of the needed inputs (None where there is none), each in its input's shape and dtype.

    ``ograds`` are those of the visible outputs, ``outputs`` are all of them. A rule may give a function without
    arguments in place of a gradient: it is called only where that gradient is needed. An operator without a rule has
    that of its scalar body or decomposition.
    """
    if True not in needed:
        return [None] * len(inputs)
    values = (*ograds, *inputs, *outputs)
    try:
        rule: Any = gradients(op, F, ograds, inputs, needed) if derives(op) else op.gradient_of(needed, F, *values)
    except Exception as error:
        blame(op, "gradient", error, F, *values)
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
    """Whether a gradient is a number, or has a shape to which its input's broadcasts."""
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
    """Gradients of all values of a straight program that depend on the ``active`` ones, by the operators' rules.

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
    """A gradient summed over the axes along which its input was broadcast, in the input's dtype."""
    if not hasattr(grad, "shape"):
        grad = F.ones_like(x) * grad
    if grad.shape != x.shape:
        grad = F.sum_to(grad, shape=x.shape)
    return grad if grad.dtype == x.dtype else F.cast(grad, x.dtype)

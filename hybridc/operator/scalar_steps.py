"""The steps of scalar bodies, typed: what ``b`` is in ``def scalar(self, b: mx.op.Steps, x: mx.op.Value)``.

:mod:`hybridc.dialects.scalar.table` has a row for each; ``scalar_steps.pyi`` is written from it.
:mod:`hybridc.dialects.scalar` says what they mean for each dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any, Protocol, TypeAlias

from hybridc.dialects.scalar import Scalar
from hybridc.dialects.scalar.table import STEPS, ScalarStep

#: A value of a scalar body: an argument, or the result of a step.
Value: TypeAlias = Scalar
Operand: TypeAlias = Scalar | float


class Steps(Protocol):
    """The builder of a scalar body. Operands are values or Python numbers, which take the dtype of the others."""


def _method(step: ScalarStep) -> Callable[..., Any]:
    def method(self: Steps, *operands: Operand) -> Value:
        return getattr(self, step.name)(*operands)

    names = ["self", *[operand.partition(":")[0] for operand in step.operands]]
    method.__doc__, method.__name__, method.__qualname__ = step.doc, step.name, f"Steps.{step.name}"
    vars(method)["__signature__"] = Signature([Parameter(name, Parameter.POSITIONAL_ONLY) for name in names])
    return method


for _step in STEPS.values():
    setattr(Steps, _step.name, _method(_step))

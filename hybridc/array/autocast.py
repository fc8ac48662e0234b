"""Automatic mixed precision: casts in front of the operators that a user calls, by rules for their classes.

Operators that run inside a rule of another one, its decomposition or gradient, are not cast. ``mx.contrib.amp`` sets
the rules; without any, nothing here runs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hybridc.dialects import operator_registry
from hybridc.dialects.array.cast import AmpCast
from hybridc.dtypes import FLOAT32
from hybridc.ground.hooks import HOOKS
from hybridc.ground.records import dataclass
from hybridc.ground.state import STATE

if TYPE_CHECKING:
    from hybridc.dialects.operator import Operator

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class CastRule:
    """The dtype to which an operator's inputs are cast, or None for the widest among them.

    ``attribute`` and ``values``: for these values of an attribute only. ``kept`` are inputs that stay as they are.
    """

    dtype: Any
    attribute: str = ""
    values: frozenset[str] = frozenset()
    kept: frozenset[str] = frozenset()

    def applies(self, op: Operator) -> bool:
        """Whether the rule holds for the operator's attributes."""
        return not self.attribute or op.attrs.get(self.attribute) in self.values


class Autocast:
    """The rules in force, by operator class, and the losses whose gradient is scaled.

    ``target`` is the dtype of 16 bits. Only it and float32 are cast.
    """

    def __init__(self) -> None:
        self.rules: dict[type[Operator], CastRule] = {}
        self.losses: frozenset[type[Operator]] = frozenset()
        self.loss_scale: Callable[[], float] = lambda: 1.0
        self.target: Any = None

    def set(
        self,
        target: Any,
        rules: dict[type[Operator], CastRule],
        losses: Iterable[type[Operator]],
        loss_scale: Callable[[], float],
    ) -> None:
        """Let these rules hold from now on, in all threads; no rules end mixed precision."""
        changed = {*self.rules, *self.losses, *rules, *losses}
        self.target, self.rules, self.losses, self.loss_scale = target, rules, frozenset(losses), loss_scale
        for name in [name for name, cls in operator_registry.FUNCTIONS.items() if cls in changed]:
            for listener in operator_registry.LISTENERS:  # functions of operators are made anew
                listener(name)

    def concerns(self, cls: type[Operator]) -> bool:
        """Whether operators of this class are cast, or their gradients scaled."""
        return cls in self.rules or cls in self.losses

    def rule(self, op: Operator) -> CastRule | None:
        """The rule for an operator with its attributes."""
        found = self.rules.get(type(op))
        return found if found is not None and found.applies(op) else None

    def applied(self, op: Operator, inputs: Sequence[Any]) -> tuple[Operator, Sequence[Any]]:
        """The operator and its inputs as mixed precision has them, for a call on arrays or in the trace of a block."""
        trace = STATE.trace
        if STATE.in_rule or (trace is not None and not trace.casts):
            return op, inputs
        if type(op) in self.losses:
            op = self._scaled(op, trace is None)
        rule = self.rule(op)
        if rule is None:
            return op, inputs
        dtype = rule.dtype
        if dtype is None:  # float32, if one of them has it
            dtype = FLOAT32 if any(_dtype(x) == FLOAT32 for x in inputs) else self.target
        kept = self.kept(op, rule, len(inputs))
        return op, [x if i in kept else self._cast(x, dtype) for i, x in enumerate(inputs)]

    def kept(self, op: Operator, rule: CastRule, count: int) -> set[int]:
        """Which of so many inputs are not cast: states that the operator updates, and what the rule says."""
        names = op.input_names()
        named = {i for i, name in enumerate(names) if name in rule.kept} if len(names) == count else set[int]()
        return named | set(op.auxiliary())

    def as_dtype(self, x: Any, dtype: Any) -> Any:
        """The value in a dtype, if mixed precision is in force and both are dtypes that it casts."""
        dtype = np.dtype(dtype)
        return self._cast(x, dtype) if self.rules and dtype in (FLOAT32, self.target) else x

    def _cast(self, x: Any, dtype: Any) -> Any:
        found = _dtype(x)
        if found is None or found == dtype or found not in (FLOAT32, self.target):
            return x
        return HOOKS.invoke(AmpCast.bind(dtype=dtype), [x])

    def _scaled(self, op: Operator, eager: bool) -> Operator:
        """A loss whose gradient is multiplied by the scale of the losses."""
        if not eager:
            _LOG.warning("%s does not support dynamic loss scaling in symbolic and hybridized execution.", op.title())
            return op
        return op.bind(**{**op.attrs, "grad_scale": op.attrs["grad_scale"] * self.loss_scale()})


def _dtype(x: Any) -> Any:
    """The dtype of an array or a value of a trace; None for a number."""
    found = getattr(x, "dtype", None)
    return None if found is None else np.dtype(found)


AUTOCAST = Autocast()

"""Traced operands of an optimizer's formula.

An optimizer states its mathematics once, with ``+ - * /`` and the functions of ``mx.sym``::

    def formula(self, F, w, g, state, h):
        (mom,) = state
        g = limited(F, h.rescale * g, h.clip) + h.wd * w
        mom = h.momentum * mom - h.lr * g
        return w + mom, mom

The weight, its gradient and its states are Symbols, as in a hybridized forward; the numbers in ``h`` are
:class:`FormulaNumber`: what depends on numbers only is computed in Python, in double precision, at each step, and the
graph takes it as an input. So a new learning rate compiles nothing. Where MXNet has an update operator, the optimizer's
formula is that of the operator, in :mod:`hybridc.dialects.updates`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from hybridc.array.functions import function
from hybridc.context import Context, cpu
from hybridc.dialects.updates.update import limited as limited
from hybridc.ground.records import dataclass
from hybridc.trace.traced import TracedSymbol
from hybridc.trace.tracer import Trace

_CPU = cpu()
Values = Mapping[str, float | None]
# (F, weight, gradient, states, numbers) -> (new weight, new states …)
Formula = Callable[[Any, Any, Any, tuple[Any, ...], Any], tuple[Any, ...]]

# COMPAT(mxnet): an optimizer's numbers have single precision there, for weights of float64, too; 1 - beta2 = 0.001,
# computed so, is wrong in the fifth digit.
_IN_PYTHON: dict[str, Callable[[float, float], float]] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
}
UNKNOWN = "any"  # what a Kind says of a number that is an input of the graph
# A name tells how a number comes about, unless that takes longer than this.
_LONGEST_NAME = 24


@dataclass(frozen=True)
class Kind:
    """The key of a weight's update: shapes, dtypes, and the numbers that simplify it.

    ``numbers`` are pairs of a name and the value, or ``UNKNOWN``. With ``half`` the weight is a float32 copy, and
    there is a weight of this dtype to be written, too.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    gradient: np.dtype[Any]
    states: tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]
    half: np.dtype[Any] | None
    numbers: tuple[tuple[str, Any], ...]
    context: Context = _CPU


def is_trivial(value: float | None) -> bool:
    """Whether a number simplifies a formula, and so belongs to its text rather than to its inputs."""
    return value is None or value == 0 or value == 1


class FormulaNumber(TracedSymbol):
    """A number inside a formula: with numbers it computes in Python, with arrays as an input of no dimension.

    ``known`` is its value if that is part of the formula's text, else None; ``compute`` finds it at each step.
    """

    __slots__ = ("compute", "known", "numbers")

    def __init__(self, numbers: Numbers, name: str, compute: Callable[[Values], Any], known: float | None) -> None:
        super().__init__(numbers.trace, (), numbers.dtype, None, -1, name)
        self.numbers = numbers
        self.compute = compute
        self.known = known

    # Python asks the reflected methods of a subclass first: these see ``array * number`` too.

    def __add__(self, other: Any) -> Any:
        return self.numbers.binary("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return self.numbers.binary("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return self.numbers.binary("subtract", self, other)

    def __rsub__(self, other: Any) -> Any:
        return self.numbers.binary("subtract", other, self)

    def __mul__(self, other: Any) -> Any:
        return self.numbers.binary("multiply", self, other)

    def __rmul__(self, other: Any) -> Any:
        return self.numbers.binary("multiply", other, self)

    def __truediv__(self, other: Any) -> Any:
        return self.numbers.binary("divide", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self.numbers.binary("divide", other, self)

    def __neg__(self) -> Any:
        return self.numbers.binary("multiply", -1.0, self)


class Numbers:
    """The numbers of one weight's formula. Equal ones are one; what 0 and 1 make superfluous is left out."""

    def __init__(self, trace: Trace, dtype: Any, given: Mapping[str, Any]) -> None:
        self.trace = trace
        self.dtype = dtype
        self._made: dict[Any, FormulaNumber] = {}
        self._products: dict[
            int, tuple[FormulaNumber, Any]
        ] = {}  # by identity of an array: the number and array it is of
        #: What the formula finds in ``h``.
        self.given = SimpleNamespace(**{name: self._given(name, value) for name, value in given.items()})

    def binary(self, op: str, x: Any, y: Any) -> Any:
        """``op(x, y)``, where at least one is a number."""
        x, y = self._number(x), self._number(y)
        simple = _simplified(op, x, y)
        if simple is not None:
            return simple
        if isinstance(x, FormulaNumber) and isinstance(y, FormulaNumber):
            return self._computed(op, x, y)
        if op == "multiply":
            return self._scaled(x, y) if isinstance(x, FormulaNumber) else self._scaled(y, x)
        return function(op)(_operand(x), _operand(y))

    def _given(self, name: str, value: Any) -> FormulaNumber | None:
        if value is None:
            return None
        return FormulaNumber(self, name, operator.itemgetter(name), None) if value == UNKNOWN else self._number(value)

    def _number(self, x: Any) -> Any:
        """A Python number as a Number; anything else as it is."""
        if isinstance(x, TracedSymbol) or not isinstance(x, int | float):
            return x
        value = float(x)
        if repr(value) not in self._made:
            name = f"minus_{-value:g}" if value < 0 else f"{value:g}"
            self._made[repr(value)] = FormulaNumber(self, name, lambda _: value, value)
        return self._made[repr(value)]

    def _computed(self, op: str, x: FormulaNumber, y: FormulaNumber) -> FormulaNumber:
        combine = _IN_PYTHON[op]
        if x.known is not None and y.known is not None:
            return self._number(combine(x.known, y.known))
        key = op, id(x), id(y)
        if key not in self._made:
            first, second = x.compute, y.compute
            name = f"{x.name}_{op}_{y.name}"
            name = name if len(name) <= _LONGEST_NAME else f"number_{len(self._made)}"
            self._made[key] = FormulaNumber(self, name, lambda h: combine(first(h), second(h)), None)
        return self._made[key]

    def _scaled(self, number: FormulaNumber, array: Any) -> Any:
        """``number * array``: ``a * (b * array)`` is ``(a * b) * array``, one pass over the array less."""
        if id(array) in self._products:
            inner, array = self._products[id(array)]
            return self.binary("multiply", self.binary("multiply", number, inner), array)
        product = function("multiply")(_operand(number), array)
        self._products[id(product)] = number, array
        return product


def _known(x: Any) -> float | None:
    return x.known if isinstance(x, FormulaNumber) else None


def _operand(x: Any) -> Any:
    """The operand of an operator: a known number becomes a constant of the graph."""
    known = _known(x)
    return x if known is None else known


def _simplified(op: str, x: Any, y: Any) -> Any:
    """``op(x, y)`` if a 0 or a 1 makes it one of its operands, else None."""
    a, b = _known(x), _known(y)
    if op == "multiply" and (a == 0 or b == 0):
        return x if a == 0 else y
    if (op == "multiply" and a == 1) or (op == "add" and a == 0):
        return y
    if (op in ("multiply", "divide") and b == 1) or (op in ("add", "subtract") and b == 0):
        return x
    return None

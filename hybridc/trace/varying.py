"""Float attributes that change from call to call, as arguments of a graph.

While a trace runs, such an attribute is read as a :class:`Varying`, a proxy of a float. Where only operators and
Python's ``+ - * /`` use it, the graph has an argument for it, and each value runs the same graph. Any other
use (a comparison, ``int``, text, an attribute of an operator) takes its value, which then is guarded.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from hybridc.array.ndarray import NDArray
from hybridc.context import Context


class Varying:
    """A float that ``compute`` gives at each call; ``fix`` is called when its value was used."""

    __slots__ = ("compute", "fix", "value")

    def __init__(self, compute: Callable[[], float], fix: Callable[[], None]) -> None:
        self.compute = compute
        self.fix = fix
        self.value = compute()

    @property
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]  (as a proxy does)
        return float

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self.value, name)
        self.fix()
        return attribute

    def __neg__(self) -> Varying:
        return Varying(lambda: -self.compute(), self.fix)

    def __pos__(self) -> Varying:
        return self

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(used(self), dtype)


def used(x: Any) -> Any:
    """A number for a computation now: the value of a Varying, which becomes fixed."""
    if type(x) is not Varying:
        return x
    x.fix()
    return x.value


def _arithmetic(function: Callable[[Any, Any], Any], reflected: bool) -> Any:
    """An arithmetic method, which returns another Varying."""

    def combine(self: Varying, other: Any) -> Any:
        if type(other) is Varying:
            compute, fix = other.compute, other.fix
        elif type(other) in (bool, int, float):
            compute, fix = (lambda: other), _nothing
        else:
            return NotImplemented

        def both() -> None:
            self.fix()
            fix()

        if reflected:
            return Varying(lambda: function(compute(), self.compute()), both)
        return Varying(lambda: function(self.compute(), compute()), both)

    return combine


def _nothing() -> None:
    """The ``fix`` of a constant."""


def _using(name: str) -> Any:
    """A method of float that uses the value."""

    def use(self: Varying, *others: Any) -> Any:
        return getattr(float, name)(used(self), *map(used, others))

    return use


for _name in ("add", "sub", "mul", "truediv"):
    setattr(Varying, f"__{_name}__", _arithmetic(getattr(operator, _name), False))
    setattr(Varying, f"__r{_name}__", _arithmetic(getattr(operator, _name), True))
_USES = (
    *(
        "abs",
        "bool",
        "ceil",
        "divmod",
        "eq",
        "float",
        "floor",
        "floordiv",
        "format",
        "ge",
        "gt",
        "hash",
        "int",
        "le",
        "lt",
    ),
    *("mod", "ne", "pow", "rdivmod", "repr", "rfloordiv", "rmod", "round", "rpow", "str", "trunc"),
)
for _name in _USES:
    setattr(Varying, f"__{_name}__", _using(f"__{_name}__"))


class VaryingInput:
    """An input of a graph that is a Varying, in one dtype."""

    __slots__ = ("_dtype", "_varying")

    def __init__(self, varying: Varying, dtype: Any) -> None:
        self._varying = varying
        self._dtype = dtype

    def array(self, context: Context) -> Any:
        """Its current value as an array."""
        array = NDArray(np.asarray(self._dtype.type(self._varying.compute())))
        return array if context.device_type == "cpu" else array.as_in_context(context)

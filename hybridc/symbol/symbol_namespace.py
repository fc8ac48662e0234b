"""The functions of ``mx.sym`` and of its namespaces (``mx.sym.random``, …), made from those of ``mx.nd``."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from hybridc import nd
from hybridc.symbol.composed import composing, symbolic
from hybridc.symbol.composed_loops import COMPOSED

# How MXNet calls the nodes of functions that are not named as they are: of symbols, with a number, reflected.
_HINTS = {
    **{name: (f"_{name}",) for name in ("zeros", "ones", "full", "arange", "eye", "linspace", "split_v2")},
    "maximum": ("_maximum", "_maximumscalar", "_maximumscalar"),
    "minimum": ("_minimum", "_minimumscalar", "_minimumscalar"),
    "hypot": ("_hypot", "_hypotscalar", "_hypotscalar"),
    "pow": ("_power", "_powerscalar", "_rpowerscalar"),
    "power": ("_power", "_powerscalar", "_rpowerscalar"),
}


def function(name: str, found: Any) -> Any:
    """``mx.nd.<name>`` as a function of ``mx.sym``; what is no function is itself."""
    if not callable(found) or isinstance(found, type):
        return found
    return symbolic(nd, name, *_HINTS.get(name, (name.lower(),)))


class Namespace(ModuleType):
    """A namespace of ``mx.nd``, of which the functions also compose symbols."""

    def __init__(self, module: ModuleType, name: str) -> None:
        super().__init__(f"hybridc.symbol.{name}", module.__doc__)
        self._module = module
        self._name = name

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        if not callable(found) or isinstance(found, type) or name.startswith("_"):
            return found
        if self._name == "random":
            kinds = (symbolic(self._module, name, f"_{kind}_{name}") for kind in ("random", "sample"))
            made = _draws(*kinds)
        elif found in COMPOSED:
            made = _of_functions(found, COMPOSED[found])
        else:
            made = symbolic(self._module, name, name.lower())
        vars(self)[name] = made  # one function, whose calls look up what it means
        return made

    def __dir__(self) -> list[str]:
        return dir(self._module)


def _of_functions(traced: Any, composed: Any) -> Any:
    """A function of ``mx.sym`` that takes functions."""

    @functools.wraps(traced)
    def call(*args: Any, **kwargs: Any) -> Any:
        return (composed if composing() else traced)(*args, **kwargs)

    return call


def _draws(of_numbers: Any, of_symbols: Any) -> Any:
    """A function of ``mx.sym.random``: what it is called depends on what its parameters are."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if not composing():
            return of_numbers(*args, **kwargs)
        found = any(hasattr(a, "entries") for a in (*args, *kwargs.values()))
        return (of_symbols if found else of_numbers)(*args, **kwargs)

    call.__doc__ = of_numbers.__doc__
    return call

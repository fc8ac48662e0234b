"""The functions of ``mx.sym`` and of its namespaces (``mx.sym.random``, …), made from those of ``mx.nd``."""

from __future__ import annotations

import functools
import inspect
from types import ModuleType
from typing import Any

from hybridc import nd
from hybridc.context import Context
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
# Functions of shapes and numbers, which take a device in mx.nd and none in mx.sym: their parameters, in MXNet's order.
_MADE = {
    "zeros": "shape dtype",
    "ones": "shape dtype",
    "full": "shape val dtype",
    "eye": "N M k dtype",
    "arange": "start stop step repeat infer_range name dtype",
    "linspace": "start stop num endpoint name dtype",
}

_OTHERS = inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)


def function(name: str, found: Any) -> Any:
    """``mx.nd.<name>`` as a function of ``mx.sym``; what is no function is itself."""
    if not callable(found) or isinstance(found, type):
        return found
    made = symbolic(nd, name, *_HINTS.get(name, (name.lower(),)))
    return _without_context(made, found, _MADE[name].split()) if name in _MADE else made


def _without_context(call: Any, found: Any, names: list[str]) -> Any:
    """A function that makes an array, with MXNet's parameters for symbols."""
    theirs = inspect.signature(found).parameters
    parameters = [theirs[n].replace(default=None) if n == "dtype" else theirs[n] for n in names]

    @functools.wraps(found)
    def made(*args: Any, **kwargs: Any) -> Any:
        if len(args) > len(names) or any(isinstance(a, Context) for a in args):  # as it is written for arrays
            return call(*args, **kwargs)
        return call(**dict(zip(names, args, strict=False)), **kwargs)

    vars(made)["__signature__"] = inspect.Signature([*parameters, _OTHERS])
    return made


class Namespace(ModuleType):
    """A namespace of ``mx.nd``, of which the functions also compose symbols."""

    def __init__(self, module: ModuleType, name: str) -> None:
        super().__init__(f"hybridc.symbol.{name}", module.__doc__)
        self._module = module
        self._name = name

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        if not callable(found) or isinstance(found, type) or name.startswith("__"):
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

    return functools.wraps(of_numbers)(call)

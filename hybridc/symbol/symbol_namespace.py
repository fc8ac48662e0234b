"""The functions of ``mx.sym`` and of its namespaces (``mx.sym.random``, …), made from those of ``mx.nd``."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

from hybridc import nd
from hybridc.context import Context
from hybridc.symbol.composed import composing, symbolic
from hybridc.symbol.composed_loops import COMPOSED

# How MXNet calls the nodes of functions that are not named as they are: of symbols, with a number, reflected.
_HINTS = {
    **{name: (f"_{name}",) for name in ("zeros", "ones", "full", "arange", "eye", "linspace", "split_v2", "histogram")},
    "maximum": ("_maximum", "_maximumscalar", "_maximumscalar"),
    "minimum": ("_minimum", "_minimumscalar", "_minimumscalar"),
    "hypot": ("_hypot", "_hypotscalar", "_hypotscalar"),
    "pow": ("_power", "_powerscalar", "_rpowerscalar"),
    "power": ("_power", "_powerscalar", "_rpowerscalar"),
}
# Names of the two parameters of functions that mx.nd calls lhs and rhs; and what they are of two numbers.
_PAIRS: dict[str, tuple[tuple[str, str], Callable[[Any, Any], Any]]] = {
    "maximum": (("left", "right"), max),
    "minimum": (("left", "right"), min),
    "hypot": (("left", "right"), math.hypot),
    "pow": (("base", "exp"), pow),
    "power": (("base", "exp"), pow),
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
    if name in _PAIRS:
        return _of_pair(made, found, *_PAIRS[name])
    return _without_context(made, found, _MADE[name].split()) if name in _MADE else made


def _of_pair(call: Any, found: Any, names: tuple[str, str], of_numbers: Callable[[Any, Any], Any]) -> Any:
    """A function of two symbols or numbers; of numbers alone it is a number, as in MXNet."""
    first, second, *others = inspect.signature(found).parameters.values()
    theirs = {first.name: names[0], second.name: names[1]}

    @functools.wraps(found)
    def made(*args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(names, args, strict=False)), **{theirs.get(k, k): v for k, v in kwargs.items()}}
        pair = [given.pop(n, None) for n in names]
        if all(isinstance(x, int | float) for x in pair):
            return of_numbers(*pair)
        return call(*pair, **given)

    parameters = [p.replace(name=n) for p, n in zip((first, second), names, strict=True)]
    vars(made)["__signature__"] = inspect.Signature([*parameters, *others])
    return made


def _without_context(call: Any, found: Any, names: list[str]) -> Any:
    """A function that makes an array, with MXNet's parameters for symbols; the node keeps all of them."""
    theirs = inspect.signature(found).parameters
    others = {"dtype": None, "infer_range": False}
    parameters = [theirs[n].replace(default=others[n]) if n in others else theirs[n] for n in names]
    defaults = {p.name: p.default for p in parameters if p.default is not p.empty and p.name != "name"}
    defaults["dtype"] = "float32"

    @functools.wraps(found)
    def made(*args: Any, **kwargs: Any) -> Any:
        if len(args) > len(names) or any(isinstance(a, Context) for a in args):  # as it is written for arrays
            return call(*args, **kwargs)
        return call(**{**defaults, **dict(zip(names, args, strict=False)), **kwargs})

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
            called = "normal" if name == "randn" else name
            kinds = (symbolic(self._module, name, f"_{kind}_{called}") for kind in ("random", "sample"))
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
    """A function of ``mx.sym.random``: what it is called depends on what its parameters are.

    Its node keeps all parameters of the distribution.
    """
    parameters = [p for p in inspect.signature(of_numbers).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]

    def call(*args: Any, **kwargs: Any) -> Any:
        if not composing():
            return of_numbers(*args, **kwargs)
        if any(hasattr(a, "entries") for a in (*args, *kwargs.values())):
            return of_symbols(*args, **kwargs)
        defaults = {p.name: p.default for p in parameters[len(args) :] if p.default not in (p.empty, None)}
        return of_numbers(*args, **{**defaults, **kwargs})

    return functools.wraps(of_numbers)(call)

"""Composed symbols that stand for arrays of ``mx.np``, and ``mx.sym.np`` and ``mx.sym.npx``, which compose them."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnnecessaryIsInstance=false, reportIncompatibleMethodOverride=false
# Arguments are whatever NumPy takes: numbers, lists, arrays, symbols.

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

from hybridc import nd
from hybridc.array.numpy_array import NumpyMethods, as_numpy
from hybridc.context import Context
from hybridc.ground.hooks import HOOKS
from hybridc.symbol.composed import COMPOSER, ComposedSymbol, composing, symbolic
from hybridc.symbol.np_calls.np_call import OF_ARRAYS, NumpyCall, function_of, hashable, never_none, results_of
from hybridc.symbol.np_calls.np_call_files import InputPlace, KeySlice
from hybridc.symbol.np_calls.np_call_names import INPUT_ORDERS


def _places(value: Any, inputs: list[Any]) -> Any:
    """An argument, in which symbols are replaced by their places among the inputs."""
    if isinstance(value, ComposedSymbol):
        inputs.append(value)
        return InputPlace(len(inputs) - 1)
    if isinstance(value, list | tuple):
        return tuple(_places(part, inputs) for part in value)
    if isinstance(value, slice):
        return KeySlice(*(_places(part, inputs) for part in (value.start, value.stop, value.step)))
    return hashable(value)


def compose(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The node of a call of a function of ``mx.np`` with symbols."""
    inputs: list[Any] = []
    label = kwargs.pop("name", None)
    kept = never_none(name) if any(v is None for v in kwargs.values()) else ()
    kwargs = {k: v for k, v in kwargs.items() if v is not None or k in kept}
    if isinstance(kwargs.get("ctx"), Context | str):
        del kwargs["ctx"]
    if name in INPUT_ORDERS:
        bound = inspect.signature(function_of(name)).bind(*args, **kwargs).arguments
        order = INPUT_ORDERS[name]
        args, kwargs = (), {key: bound[key] for key in (*order, *sorted(bound.keys() - set(order))) if key in bound}
    places = tuple(_places(a, inputs) for a in args)
    keywords = tuple((key, _places(a, inputs)) for key, a in kwargs.items())
    op: Any = NumpyCall.bind(
        function=name, arguments=(places, keywords), results=results_of(name, places, dict(keywords))
    )
    with COMPOSER.active(), COMPOSER.naming(label, f"_np_{name.rpartition('.')[2]}", {}):
        found = COMPOSER.invoke(op, inputs)
    made = [NumpyComposedSymbol([entry]) for entry in found.entries]
    return made[0] if len(made) == 1 else made


class NumpyComposedSymbol(NumpyMethods, ComposedSymbol):
    """Results of a composed graph that stand for arrays of ``mx.np``."""

    __slots__ = ()

    def as_nd_ndarray(self) -> ComposedSymbol:
        """The same results, which stand for arrays of ``mx.nd``."""
        return ComposedSymbol(self.entries)

    def __getitem__(self, key: Any) -> Any:
        if len(self.entries) > 1 or isinstance(key, str):
            found = ComposedSymbol.__getitem__(self, key)
            return NumpyComposedSymbol(found.entries)
        parts = key if isinstance(key, tuple) else (key,)
        if not all(isinstance(part, int | slice) and not isinstance(part, bool) for part in parts):
            return compose("getitem", (self, key), {})
        # What MXNet's files have: a slice, and a reshape that drops the axes of integers.
        box = [part if isinstance(part, slice) else slice(part, part + 1 or None) for part in parts]
        begin, end, step = zip(*((s.start, s.stop, s.step) for s in box), strict=True)
        found = HOOKS.symbols().slice(self, begin=begin, end=end, step=step if any(step) else ())
        shape = [-2 if isinstance(part, slice) else -3 for part in parts]
        return compose("npx.reshape", (found, (*shape, -4)), {}) if -3 in shape else found

    def astype(self, dtype: Any, **_: Any) -> Any:
        """The same values in another dtype."""
        return compose("astype", (self, dtype), {})

    def reshape(self, *shape: Any, **kwargs: Any) -> Any:
        """The same elements in another shape."""
        wanted = shape[0] if len(shape) == 1 else shape or kwargs.get("newshape", kwargs.get("shape"))
        return compose("reshape", (self, wanted), {})

    def transpose(self, *axes: Any) -> Any:
        """The axes in another order; in reverse by default."""
        wanted = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or None
        return compose("transpose", (self,) if wanted is None else (self, wanted), {})

    @property
    def T(self) -> Any:
        """The transpose."""
        return self.transpose()


_PYTHON = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "true_divide",
    "mod": "mod",
    "pow": "power",
    "matmul": "matmul",
}
_COMPARED = {"lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal"}
_METHODS = [
    "all",
    "any",
    "argmax",
    "argmin",
    "argsort",
    "clip",
    "cumsum",
    "dot",
    "expand_dims",
    "max",
    "mean",
    "min",
    "prod",
    "ravel",
    "repeat",
    "round",
    "sort",
    "split",
    "squeeze",
    "std",
    "sum",
    "swapaxes",
    "take",
    "tile",
    "var",
]


def _method(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return compose(name, (self, *args), kwargs)

    return method


def _reflected(name: str) -> Callable[..., Any]:
    def method(self: Any, other: Any) -> Any:
        return compose(name, (other, self), {})

    return method


for _symbol, _name in (_PYTHON | _COMPARED).items():
    setattr(NumpyComposedSymbol, f"__{_symbol}__", _method(_name))
for _symbol, _name in _PYTHON.items():
    setattr(NumpyComposedSymbol, f"__r{_symbol}__", _reflected(_name))
for _name in _METHODS:
    setattr(NumpyComposedSymbol, _name, _method(_name))
NumpyComposedSymbol.__neg__ = _method("negative")
NumpyComposedSymbol.__abs__ = _method("absolute")
NumpyComposedSymbol.flatten = _method("ravel")
NumpyComposedSymbol.__hash__ = ComposedSymbol.__hash__


class NumpyNamespace(ModuleType):
    """``mx.sym.np`` or a namespace there: the functions of ``mx.np``, which compose symbols outside of traces."""

    def __init__(self, module: ModuleType, prefix: str = "") -> None:
        super().__init__(f"hybridc.symbol.np{'.' * bool(prefix)}{prefix.rstrip('.')}", module.__doc__)
        self._module = module
        self._prefix = prefix

    def __getattr__(self, name: str) -> Any:
        plain: Any = OF_ARRAYS.get(name) or getattr(self._module, name)
        if isinstance(plain, ModuleType):
            made: Any = NumpyNamespace(plain, f"{name}.")
        elif not callable(plain) or isinstance(plain, type):
            return plain
        else:
            made = _composing(plain, self._prefix + name)
        vars(self)[name] = made
        return made

    def __dir__(self) -> list[str]:
        return dir(self._module)


def _composing(plain: Any, name: str) -> Callable[..., Any]:
    @functools.wraps(plain)
    def call(*args: Any, **kwargs: Any) -> Any:
        return compose(name, args, kwargs) if composing() else plain(*args, **kwargs)

    return call


# Functions of mx.npx that are no operators of mx.nd.
_SPECIAL = frozenset(["constraint_check", "nonzero", "reshape"])


class NpxNamespace(ModuleType):
    """``mx.sym.npx``: operators of ``mx.nd`` on symbols of ``mx.np`` arrays."""

    def __init__(self) -> None:
        super().__init__("hybridc.symbol.npx", HOOKS.npx().__doc__)

    def __getattr__(self, name: str) -> Any:
        plain = getattr(HOOKS.npx(), name)
        if name == "random":
            return NumpyNamespace(plain, "npx.random.")
        if not callable(plain) or isinstance(plain, type):
            return plain
        if name in _SPECIAL:
            return _composing(plain, f"npx.{name}")
        operator = HOOKS.npx().operator_name(name)
        composed = symbolic(nd, operator, operator.lower()) if operator is not None else None

        @functools.wraps(plain)
        def call(*args: Any, **kwargs: Any) -> Any:
            if not composing() or composed is None:
                return plain(*args, **kwargs)
            return as_numpy(composed(*args, **kwargs))

        vars(self)[name] = call
        return call

    def __dir__(self) -> list[str]:
        return dir(HOOKS.npx())

"""Dataclasses that take little time to define.

    from hybridc.ground.records import dataclass

:func:`dataclasses.dataclass` writes six methods as text for each class and compiles them while a module is imported:
half a millisecond a class, and a first graph imports hundreds. Here comparing, hashing and printing are closures, and
``__init__`` is written when the first object is made, as half of the classes have none in a process. The fields are
those of the standard library, so its functions (``fields``, ``replace``, ``asdict``) take objects of either kind, and
either kind can be the base of the other.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError
from operator import attrgetter
from reprlib import recursive_repr
from typing import Any, TypeVar, dataclass_transform, overload

T = TypeVar("T")


@overload
def dataclass(cls: type[T], /) -> type[T]: ...
@overload
def dataclass(*, frozen: bool = False, eq: bool = True) -> Callable[[type[T]], type[T]]: ...


@dataclass_transform(field_specifiers=(dataclasses.field, Field))
def dataclass(cls: type[Any] | None = None, /, *, frozen: bool = False, eq: bool = True) -> Any:
    """As :func:`dataclasses.dataclass`, with these of its options."""
    if cls is None:
        return functools.partial(_defined, frozen=frozen, eq=eq)
    return _defined(cls, frozen, eq)


def _defined(cls: Any, frozen: bool, eq: bool) -> Any:
    """The class, with its fields and methods; what its body defines itself stays."""
    body: dict[str, Any] = {**vars(cls)}
    own = {name for name, value in body.items() if name != "__hash__" or value is not None}
    cls.__dataclass_params__ = _parameters(frozen, eq)
    cls.__dataclass_fields__ = fields = _fields(cls)
    methods: dict[str, Any] = {"__init__": _late_init(cls), "__repr__": _repr}
    if eq:
        compared = [f for f in dataclasses.fields(cls) if f.compare]
        methods["__eq__"] = _equality(_values(compared))
        methods["__hash__"] = _hash(_values([f for f in compared if f.hash is not False])) if frozen else None
    if frozen:
        methods["__setattr__"], methods["__delattr__"] = _refusals(cls, fields)
    methods["__match_args__"] = tuple([f.name for f in dataclasses.fields(cls) if f.init and not f.kw_only])
    for name, method in methods.items():
        if name not in own:
            setattr(cls, name, method)
    return cls


@functools.cache
def _parameters(frozen: bool, eq: bool) -> Any:
    """What the standard library notes of the options in a class."""
    noted: Any = dataclasses.dataclass(frozen=frozen, eq=eq)(type("Noted", (), {}))
    return noted.__dataclass_params__


def _fields(cls: Any) -> dict[str, Field[Any]]:
    """The fields of a class by their names, those of its bases first; a field's default is left as the attribute.

    The standard library finds the own ones, of a class that has only these.
    """
    fields: dict[str, Field[Any]] = {}
    for base in cls.__mro__[-1:0:-1]:
        inherited: dict[str, Field[Any]] = getattr(base, "__dataclass_fields__", {})
        fields |= inherited
    annotations = inspect.get_annotations(cls)
    body = {name: getattr(cls, name) for name in annotations if hasattr(cls, name)}
    body |= {"__annotations__": annotations, "__module__": cls.__module__, "__doc__": "No signature is computed."}
    alone: Any = dataclasses.dataclass(init=False, repr=False, eq=False)(type(cls.__name__, (), body))
    added: dict[str, Field[Any]] = alone.__dataclass_fields__
    for name, found in added.items():
        if isinstance(body.get(name), Field):
            if found.default is MISSING:
                delattr(cls, name)
            else:
                setattr(cls, name, found.default)
    return fields | added


# --- methods ----------------------------------------------------------------------------------------------------------


def _values(fields: list[Field[Any]]) -> Callable[[Any], tuple[Any, ...]]:
    """A function: the values of some fields of an object."""
    names = [f.name for f in fields]
    if len(names) > 1:
        return attrgetter(*names)
    return lambda record: tuple([getattr(record, name) for name in names])


def _equality(values: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any, Any], Any]:
    def __eq__(self: Any, other: Any) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return __eq__


def _hash(values: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any], int]:
    def __hash__(self: Any) -> int:
        return hash(values(self))

    return __hash__


@recursive_repr()
def _repr(self: Any) -> str:
    values = [f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self) if f.repr]
    return f"{type(self).__qualname__}({', '.join(values)})"


def _refusals(cls: type[Any], fields: dict[str, Field[Any]]) -> tuple[Callable[..., None], Callable[..., None]]:
    """``__setattr__`` and ``__delattr__`` of a frozen class; subclasses may have attributes that are no fields."""

    def __setattr__(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in fields:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in fields:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return __setattr__, __delattr__


def _late_init(cls: Any) -> Callable[..., None]:
    """``__init__`` until the first object is made."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        cls.__init__ = init = _init(cls)
        init(self, *args, **kwargs)

    return __init__


_ABSENT = object()  # the default of an argument that a function makes


def _init(cls: Any) -> Callable[..., None]:
    """``__init__`` of a class, compiled."""
    names: dict[str, Any] = {"__name__": cls.__module__, "_set": object.__setattr__, "_ABSENT": _ABSENT}
    positional, keywords, lines = ["self"], list[str](), list[str]()
    for f in dataclasses.fields(cls):
        value = f.name
        if f.default_factory is not MISSING:
            names[f"_made_{f.name}"] = f.default_factory
            value = f"_made_{f.name}() if {f.name} is _ABSENT else {f.name}" if f.init else f"_made_{f.name}()"
        elif not f.init:
            continue
        if f.init:
            names[f"_default_{f.name}"] = default = f.default if f.default_factory is MISSING else _ABSENT
            argument = f.name if default is MISSING else f"{f.name}=_default_{f.name}"
            (keywords if f.kw_only else positional).append(argument)
        frozen = cls.__dataclass_params__.frozen
        lines.append(f"_set(self, {f.name!r}, {value})" if frozen else f"self.{f.name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    arguments = ", ".join([*positional, *["*"] * bool(keywords), *keywords])
    body = "\n    ".join(lines or ["pass"])
    exec(f"def __init__({arguments}):\n    {body}", names)
    init = names["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init

"""Name registries behind ``mx.init.create``, ``mx.metric.create`` and their like: ``mx.registry``."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast

from hybridc.errors import CheckError
from hybridc.ground.location import user_depth

string_types = (str,)  # as programs import it from here, too

T = TypeVar("T")
C = TypeVar("C", bound=type[Any])


class Register(Protocol):
    """``register(klass, name=None)``: gives the class back, so it is a decorator too."""

    def __call__(self, klass: C, name: str | None = None) -> C:
        """Register a class, and return it.

        Parameters
        ----------
        klass:
            The class.
        name:
            Its name in any case; None: that of the class.
        """
        ...


class Alias(Protocol):
    """``@alias("a", "b")``."""

    def __call__(self, *aliases: str) -> Callable[[C], C]:
        """Register a class under further names.

        Parameters
        ----------
        *aliases:
            The names, in any case.
        """
        ...


_REGISTRIES: dict[type[Any], dict[str, type[Any]]] = {}


def get_registry(base_class: type[T]) -> dict[str, type[T]]:
    """A copy of a registry: classes by their names in lower case.

    Parameters
    ----------
    base_class:
        The base of the registered classes.
    """
    return dict(_REGISTRIES.get(base_class, {}))


def enter(registry: dict[str, type[Any]], nickname: str, klass: C) -> C:
    """Add a class to a registry of its own under its lower-case name; a decorator's body. Replacing a class warns.

    Parameters
    ----------
    registry:
        Classes by their names.
    nickname:
        What the classes are called in the warning, as "optimizer".
    klass:
        The class.
    """
    name = klass.__name__.lower()
    known = registry.get(name)
    if known is not None:
        warnings.warn(
            f"new {nickname} {klass.__module__}.{klass.__name__} overrides {known.__module__}.{known.__name__}",
            UserWarning,
            stacklevel=user_depth(),
        )
    registry[name] = klass
    return klass


def get_register_func(base_class: type[T], nickname: str) -> Register:
    """The function ``register(klass, name=None)`` of a registry, which is a decorator, too.

    Parameters
    ----------
    base_class:
        The base of the registered classes: a registry belongs to a base.
    nickname:
        What the classes are called in messages, as "metric".

    Examples
    --------
    >>> class Shape:
    ...     pass
    >>> register = mx.registry.get_register_func(Shape, "shape")
    >>> @register
    ... class Square(Shape):
    ...     pass
    >>> create = mx.registry.get_create_func(Shape, "shape")
    >>> type(create("square")).__name__
    'Square'
    """
    registry = _REGISTRIES.setdefault(base_class, {})

    def register(klass: C, name: str | None = None) -> C:
        if not issubclass(klass, base_class):
            raise CheckError(f"register: {klass.__name__} is not a {nickname}; derive it from {base_class.__name__}")
        key = (name or klass.__name__).lower()
        known = registry.get(key)
        if known is not None and known is not klass:
            warnings.warn(
                f"new {nickname} {klass.__module__}.{klass.__name__} registered as {key!r} "
                f"overrides {known.__module__}.{known.__name__}",
                UserWarning,
                stacklevel=user_depth(),
            )
        registry[key] = klass
        return klass

    register.__doc__ = f"""Make a {nickname} class known to ``create``, and return it: it is a decorator, too.

    Parameters
    ----------
    klass:
        The class, a subclass of ``{base_class.__name__}``, else a CheckError. It replaces another of the same name,
        with a warning.
    name:
        Its name in any case; None: that of the class.
    """
    return register


def get_alias_func(base_class: type[T], nickname: str) -> Alias:
    """The decorator ``@alias("a", "b")`` of a registry, which registers a class under further names.

    Parameters
    ----------
    base_class:
        The base of the registered classes.
    nickname:
        What the classes are called in messages.
    """
    register = get_register_func(base_class, nickname)

    def alias(*aliases: str) -> Callable[[C], C]:
        def decorate(klass: C) -> C:
            for name in aliases:
                register(klass, name)
            return klass

        return decorate

    alias.__doc__ = f"""Make a {nickname} class known to ``create`` under further names: a decorator.

    Parameters
    ----------
    *aliases:
        The names, in any case.
    """
    return alias


def get_create_func(base_class: type[T], nickname: str) -> Callable[..., T]:
    """The function ``create(spec, …)`` of a registry: ``spec`` is an instance, a name, a JSON text or a dict.

    Parameters
    ----------
    base_class:
        The base of the registered classes.
    nickname:
        What the classes are called in messages; ``create`` takes ``spec`` by this name as well.
    """
    registry = _REGISTRIES.setdefault(base_class, {})

    def create(*args: Any, **kwargs: Any) -> T:
        spec, *rest = args if args else (kwargs.pop(nickname, None),)
        if isinstance(spec, base_class):
            if rest or kwargs:
                raise CheckError(f"{nickname} is an object already; it takes no further arguments here")
            return spec
        if isinstance(spec, dict):
            return create(**cast("dict[str, Any]", spec))
        if not isinstance(spec, str):
            raise CheckError(
                f"cannot make a {nickname} from {spec!r}; expected an object, a name such as "
                f"{next(iter(registry), 'x')!r}, or a JSON text"
            )
        if spec.startswith("["):
            if rest or kwargs:
                raise CheckError(f"{nickname} is given as JSON, which has its arguments; remove the others")
            name, options = json.loads(spec)
            return create(name, **options)
        if spec.startswith("{"):
            return create(**json.loads(spec))
        key = spec.lower()
        if key not in registry:
            raise CheckError(f"unknown {nickname} {spec!r}; known are {', '.join(sorted(registry))}")
        return registry[key](*rest, **kwargs)

    create.__doc__ = f"""Make a {nickname} from a name, a JSON text, a dict, or an object (returned as it is).

    Parameters
    ----------
    *args:
        First a registered name in any case, with the arguments of its class after it; or, alone, the text of ``dumps``,
        a dict ``{{"{nickname}": name, argument: value, …}}``, or a {nickname}. Other names are a CheckError.
    **kwargs:
        Arguments of the class, by name.
    """
    return create

"""Properties of classes: ``Context.default_ctx`` is looked up on the class itself, and can be set there."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


class ClassProperty:
    """The descriptor behind :func:`classproperty`."""

    def __init__(self, fget: Any, fset: Any = None) -> None:
        self.fget = fget
        self.fset = fset

    def __get__(self, obj: Any, cls: type[Any] | None = None) -> Any:
        return self.fget.__get__(obj, type(obj) if cls is None else cls)()

    def __set__(self, obj: Any, value: Any) -> None:
        if self.fset is None:
            raise AttributeError(f"{obj!r}: this property has no setter")
        self.fset.__get__(None, obj if inspect.isclass(obj) else type(obj))(value)

    def setter(self, func: Callable[..., Any]) -> ClassProperty:
        """Decorator: the function of the class and the value that assignments call."""
        self.fset = _of_class(func)
        return self


class HasClassProperties(type):
    """The metaclass of classes whose class properties can be assigned: ``Context.default_ctx = mx.gpu()``."""

    def __setattr__(cls, key: str, value: Any) -> None:
        for base in cls.__mro__:
            found = vars(base).get(key)
            if isinstance(found, ClassProperty):
                found.__set__(cls, value)
                return
        super().__setattr__(key, value)


def _of_class(func: Any) -> Any:
    known: Any = func
    return known if isinstance(func, classmethod | staticmethod) else classmethod(func)


def classproperty(func: Callable[..., Any]) -> Any:
    """Decorator: ``func(cls)`` as a property of the class, and of its instances."""
    return ClassProperty(_of_class(func))

"""Attributes for the symbols made inside a ``with`` block: ``mx.AttrScope``."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Mapping
from typing import Any, ClassVar

from hybridc.ground.class_property import HasClassProperties, classproperty


class AttrScope(metaclass=HasClassProperties):
    """``with mx.AttrScope(ctx_group="dev1"):`` gives attributes, strings, to what is made inside.

    Examples
    --------
    >>> with mx.AttrScope(__group__="first"):
    ...     x = mx.sym.var("x")
    >>> x.attr("__group__")
    'first'
    """

    #: The scope of each thread, as its ``value``.
    _current: ClassVar[_AttributeScopes]

    def __init__(self, **kwargs: str) -> None:
        for name, value in kwargs.items():
            if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ValueError(f"Attributes need to be string, got {name}={value!r}")
        self._own = kwargs
        self._attr = kwargs
        self._outer: list[AttrScope] = []

    def get(self, attr: Mapping[str, str] | None = None) -> dict[str, str]:
        """The attributes of this scope, overridden by those given.

        Parameters
        ----------
        attr:
            A dict of attributes; None for none.
        """
        return {**self._attr, **(attr or {})}

    def __enter__(self) -> AttrScope:
        self._outer.append(_LOCAL.value)
        self._attr = {**_LOCAL.value._attr, **self._own}
        _LOCAL.value = self
        return self

    def __exit__(self, *exc: Any) -> None:
        _LOCAL.value = self._outer.pop()

    @classproperty
    def current(cls) -> AttrScope:  # pyright: ignore[reportRedeclaration]
        """Deprecated, as in MXNet: the scope of what is made now; use the ``with`` statement."""
        _warn_of_current(4)
        return _LOCAL.value

    @current.setter
    def current(cls, val: AttrScope) -> None:
        _warn_of_current(5)
        _LOCAL.value = val


def _warn_of_current(frames: int) -> None:
    warnings.warn(
        "AttrScope.current has been deprecated: use the `with` statement with AttrScope",
        DeprecationWarning,
        stacklevel=frames,
    )


class _AttributeScopes(threading.local):
    def __init__(self) -> None:
        self.value: AttrScope = AttrScope()


_LOCAL = AttrScope._current = _AttributeScopes()


def current() -> AttrScope:
    """The scope of what is made now on this thread."""
    return _LOCAL.value

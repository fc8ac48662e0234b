"""Automatic names, as MXNet counts them: ``dense0``, ``dense1``; ``mx.name``."""

from __future__ import annotations

import threading
import warnings
from typing import Any, ClassVar

from hybridc.ground.class_property import HasClassProperties, classproperty


class NameManager(metaclass=HasClassProperties):
    """Gives every hint a number of its own; use as a context manager to start counting anew.

    Examples
    --------
    >>> with mx.name.NameManager():
    ...     print(mx.sym.exp(mx.sym.var("x")), mx.sym.exp(mx.sym.var("y")))
    <Symbol exp0> <Symbol exp1>
    """

    #: The manager of each thread, as its ``value``.
    _current: ClassVar[_NameScopes]

    def __init__(self) -> None:
        self._counter: dict[str, int] = {}
        self._outer: list[NameManager] = []

    def get(self, name: str | None, hint: str) -> str:
        """``name`` if it is given, else the hint with the next number: ``dense0``.

        Parameters
        ----------
        name:
            The name, or None.
        hint:
            What it begins with otherwise.
        """
        if name:
            return name
        count = self._counter.get(hint, 0)
        self._counter[hint] = count + 1
        return f"{hint}{count}"

    def __enter__(self) -> NameManager:
        self._outer.append(_LOCAL.value)
        _LOCAL.value = self
        return self

    def __exit__(self, *exc: Any) -> None:
        _LOCAL.value = self._outer.pop()

    @classproperty
    def current(cls) -> NameManager:  # pyright: ignore[reportRedeclaration]
        """Deprecated, as in MXNet: the manager that names what is made now; use the ``with`` statement."""
        warnings.warn(
            "NameManager.current has been deprecated: use the `with` statement with NameManager",
            DeprecationWarning,
            stacklevel=3,
        )
        return _LOCAL.value

    @current.setter
    def current(cls, val: NameManager) -> None:
        _LOCAL.value = val


class Prefix(NameManager):
    """Puts a prefix before every name, also before the names that were given.

    Parameters
    ----------
    prefix:
        The prefix.

    Examples
    --------
    >>> with mx.name.Prefix("first_"):
    ...     print(mx.sym.exp(mx.sym.var("x"), name="y"))
    <Symbol first_y>
    """

    def __init__(self, prefix: str) -> None:
        super().__init__()
        self._prefix = prefix

    def get(self, name: str | None, hint: str) -> str:
        """The prefix, then the ``name``, or the ``hint`` with the next number."""
        return self._prefix + super().get(name, hint)


class _NameScopes(threading.local):
    """Each thread counts for itself."""

    def __init__(self) -> None:
        self.value: NameManager = NameManager()


_LOCAL = NameManager._current = _NameScopes()


def current() -> NameManager:
    """The manager that names what is made now on this thread."""
    return _LOCAL.value

"""Automatic names, as MXNet counts them: ``dense0``, ``dense1``; ``mx.name``."""

from __future__ import annotations

import threading
from typing import Any


class NameManager:
    """Gives every hint a number of its own; use as a context manager to start counting anew."""

    def __init__(self) -> None:
        self._counter: dict[str, int] = {}
        self._outer: list[NameManager] = []

    def get(self, name: str | None, hint: str) -> str:
        """``name`` if it is given, else the hint with the next number: ``dense0``."""
        if name:
            return name
        count = self._counter.get(hint, 0)
        self._counter[hint] = count + 1
        return f"{hint}{count}"

    def __enter__(self) -> NameManager:
        self._outer.append(current())
        _LOCAL.manager = self
        return self

    def __exit__(self, *exc: Any) -> None:
        _LOCAL.manager = self._outer.pop()


class Prefix(NameManager):
    """Puts a prefix before every name, also before the names that were given."""

    def __init__(self, prefix: str) -> None:
        super().__init__()
        self._prefix = prefix

    def get(self, name: str | None, hint: str) -> str:
        """The prefix, then the name."""
        return self._prefix + super().get(name, hint)


class _NameScopes(threading.local):
    """Each thread counts for itself."""

    def __init__(self) -> None:
        self.manager: NameManager = NameManager()


_LOCAL = _NameScopes()


def current() -> NameManager:
    """The manager that names what is made now on this thread."""
    return _LOCAL.manager

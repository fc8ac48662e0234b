"""Attributes for the symbols made inside a ``with`` block: ``mx.AttrScope``."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any


class AttrScope:
    """``with mx.AttrScope(ctx_group="dev1"):`` gives attributes, strings, to what is made inside."""

    def __init__(self, **kwargs: str) -> None:
        for name, value in kwargs.items():
            if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ValueError(f"Attributes need to be string, got {name}={value!r}")
        self._own = kwargs
        self._attr = kwargs
        self._outer: list[AttrScope] = []

    def get(self, attr: Mapping[str, str] | None = None) -> dict[str, str]:
        """The attributes of this scope, overridden by those given."""
        return {**self._attr, **(attr or {})}

    def __enter__(self) -> AttrScope:
        self._outer.append(current())
        self._attr = {**current()._attr, **self._own}
        _LOCAL.scope = self
        return self

    def __exit__(self, *exc: Any) -> None:
        _LOCAL.scope = self._outer.pop()


class _AttributeScopes(threading.local):
    def __init__(self) -> None:
        self.scope: AttrScope = AttrScope()


_LOCAL = _AttributeScopes()


def current() -> AttrScope:
    """The scope of what is made now on this thread."""
    return _LOCAL.scope

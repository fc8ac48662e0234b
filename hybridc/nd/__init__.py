"""``mx.nd``: arrays and all operators as functions; a function is made from its operator class when first used."""

from __future__ import annotations

from typing import Any

from hybridc.dialects import library as _library  # registers the operators
from hybridc.dialects import registry as _registry
from hybridc.nd.functions import function as _function
from hybridc.nd.ndarray import NDArray

__all__ = ["NDArray"]


def __getattr__(name: str) -> Any:
    if name in _registry.FUNCTIONS:
        made = globals()[name] = _function(name)
        return made
    raise AttributeError(f"mx.nd has no operator {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_registry.FUNCTIONS})

"""``mx.contrib.ndarray`` and ``mx.contrib.nd``: the operators of ``mx.nd.contrib``."""

from __future__ import annotations

from typing import Any

from hybridc.nd import contrib as _operators


def __getattr__(name: str) -> Any:
    return getattr(_operators, name)


def __dir__() -> list[str]:
    return dir(_operators)

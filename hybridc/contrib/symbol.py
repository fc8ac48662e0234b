"""``mx.contrib.symbol`` and ``mx.contrib.sym``: the operators of ``mx.sym.contrib``."""

from __future__ import annotations

from typing import Any

from hybridc import symbol as _symbol


def __getattr__(name: str) -> Any:
    return getattr(_symbol.contrib, name)


def __dir__() -> list[str]:
    return dir(_symbol.contrib)

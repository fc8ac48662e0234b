"""``mx.sym``: the operators on traced values. The functions are those of ``mx.nd``: what they are given decides."""

from __future__ import annotations

from typing import Any

from hybridc import nd as _nd
from hybridc.symbol.symbol import Symbol

__all__ = ["Symbol"]


def __getattr__(name: str) -> Any:
    found = getattr(_nd, name, None)
    if found is None:
        from hybridc.absent import absent

        raise absent("mx.sym", name, "operator", __dir__())
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(_nd)})

"""``mx.nd.op``: all operators, without the helpers of ``mx.nd``."""

from __future__ import annotations

from typing import Any

from hybridc.ground.hooks import HOOKS as _HOOKS
from hybridc.nd.namespace import lookup as _lookup

_operator, __dir__ = _lookup("op", "")


def __getattr__(name: str) -> Any:
    return _HOOKS.symbols().CachedOp if name == "CachedOp" else _operator(name)

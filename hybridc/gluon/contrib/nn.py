"""``mx.gluon.contrib.nn``."""

from __future__ import annotations

from typing import Any

from hybridc.gluon.nn.concurrent import Concurrent, HybridConcurrent, Identity
from hybridc.ground.absent import absent as _absent

__all__ = ["Concurrent", "HybridConcurrent", "Identity"]


def __getattr__(name: str) -> Any:
    raise _absent("mx.gluon.contrib.nn", name, "layer", globals())

"""``mx.gluon.contrib.nn``."""

from __future__ import annotations

from hybridc.gluon.nn.concurrent import Concurrent, HybridConcurrent, Identity

__all__ = ["Concurrent", "HybridConcurrent", "Identity"]

"""``mx.gluon.model_zoo``: well-known networks."""

from __future__ import annotations

from hybridc.gluon.model_zoo import model_store, vision

__all__ = ["model_store", "vision"]

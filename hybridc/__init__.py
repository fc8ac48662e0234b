"""hybridc: Gluon, compiled. ``import hybridc as mx``."""

from __future__ import annotations

from hybridc import autograd, nd, operator, random

__all__ = ["autograd", "nd", "operator", "random"]

"""``mx.nd.random``: the operators of this namespace."""

from __future__ import annotations

from hybridc.nd.namespace import lookup

__getattr__, __dir__ = lookup("random", "random_")

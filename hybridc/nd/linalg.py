"""``mx.nd.linalg``: the operators of this namespace."""

from __future__ import annotations

from hybridc.nd.namespace import lookup

__getattr__, __dir__ = lookup("linalg", "linalg_")

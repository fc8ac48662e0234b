"""``mx.nd.contrib``: the operators of this namespace."""

from __future__ import annotations

from hybridc.nd.namespace import lookup

__getattr__, __dir__ = lookup("contrib", "_contrib_")

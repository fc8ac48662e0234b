"""``mx.nd.op``: all operators, without the helpers of ``mx.nd``."""

from __future__ import annotations

from hybridc.nd.namespace import lookup

__getattr__, __dir__ = lookup("op", "")

"""``mx.contrib.amp.lists``: which operators run in which dtype."""

from __future__ import annotations

from hybridc.contrib.amp.lists import symbol_bf16, symbol_fp16

__all__ = ["symbol_bf16", "symbol_fp16"]

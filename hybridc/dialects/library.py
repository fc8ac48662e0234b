"""All of our operators: importing this module registers them."""

from __future__ import annotations

from hybridc.dialects import elementwise

__all__ = ["elementwise"]

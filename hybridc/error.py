"""``mx.error``: classes of errors by name. :mod:`hybridc.errors` has those that hybridc raises."""

from __future__ import annotations

from hybridc.base import register_error
from hybridc.errors import InternalError, MXNetError

__all__ = ["InternalError", "MXNetError", "register", "register_error"]

register = register_error

"""``mx.op``: how an operator is written. Subclass the kind that fits, decorate it with ``register``.

``Elementwise`` (a scalar body), ``Reduction``, ``Composite`` (other operators), ``Movement``, ``Opaque`` (a host call)
and ``Stateful`` (a host call that owns an object); ``attribute`` declares attributes, ``Sample`` a tested call. The
operators of hybridc itself are written with nothing else.
"""

from __future__ import annotations

from hybridc.dialects.operator import (
    Composite,
    Contraction,
    Elementwise,
    Movement,
    Opaque,
    Operator,
    Reduction,
    Sample,
    attribute,
    register,
)
from hybridc.dialects.stateful import Stateful

__all__ = [
    "Composite",
    "Contraction",
    "Elementwise",
    "Movement",
    "Opaque",
    "Operator",
    "Reduction",
    "Sample",
    "Stateful",
    "attribute",
    "register",
]

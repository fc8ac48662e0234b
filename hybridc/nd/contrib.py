"""``mx.nd.contrib``: the operators of this namespace, loops and branches."""

from __future__ import annotations

from hybridc.nd.control_flow import cond, foreach, while_loop
from hybridc.nd.namespace import lookup
from hybridc.nd.random import uniform

__all__ = ["cond", "foreach", "uniform", "while_loop"]

__getattr__, _names = lookup("contrib", "_contrib_")


def __dir__() -> list[str]:
    return sorted([*_names(), *__all__])

"""All operators: by their name in the IR and by the names of their functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hybridc.errors import MXNetError

if TYPE_CHECKING:
    from hybridc.dialects.operator import Operator

OPERATORS: dict[str, type[Operator]] = {}
FUNCTIONS: dict[str, type[Operator]] = {}


def add(cls: type[Operator]) -> None:
    """Enter an operator class under its name and aliases; a name can be taken once only."""
    if cls.NAME in OPERATORS and OPERATORS[cls.NAME].__qualname__ != cls.__qualname__:
        raise MXNetError(f"operator {cls.NAME!r} is registered already, by {OPERATORS[cls.NAME].__module__}")
    OPERATORS[cls.NAME] = cls
    for function in (cls.NAME.partition(".")[2], *cls.ALIASES):
        FUNCTIONS[function] = cls


def operator(name: str) -> type[Operator]:
    """The operator class that is ``name`` in the IR."""
    try:
        return OPERATORS[name]
    except KeyError:
        raise MXNetError(f"no operator {name!r}; is the module that registers it imported?") from None

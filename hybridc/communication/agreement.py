"""What all ranks must have in common is compared before it is used: a difference is an error on all, not a hang."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from hybridc.communication.communicator import Communicator
from hybridc.communication.world import communicator
from hybridc.errors import MXNetError

_LONGEST = 300  # characters of a value in a message


def require_equal(what: str, value: Any, ranks: Communicator | None = None) -> None:
    """Raise on all ranks unless ``value`` is equal on all of them; all call this. ``what`` names it: "the optimizer".

    Values can be pickled and are compared by ``==``. Of two mappings or sequences the message names the first entry
    that differs.
    """
    ranks = communicator() if ranks is None else ranks
    if ranks.size == 1:
        return
    values = ranks.gather_objects((what, value))
    for rank, other in enumerate(values):
        if other == values[0]:
            continue
        if other[0] != what or values[0][0] != what:
            raise MXNetError(
                f"rank 0 on {ranks.hosts[0]} is to compare {values[0][0]}, but rank {rank} on {ranks.hosts[rank]} "
                f"{other[0]}: all ranks must run the same program, with the same calls in the same order"
            )
        where, mine, others = _difference(values[0][1], other[1])
        raise MXNetError(
            f"{where}{what} differs between ranks: rank 0 on {ranks.hosts[0]} has {_brief(mine)}, "
            f"rank {rank} on {ranks.hosts[rank]} has {_brief(others)}; give all ranks the same"
        )


class _Absent:
    """Stands in a message for what only the other rank has."""

    def __repr__(self) -> str:
        return "nothing"


def _difference(given: Any, other: Any) -> tuple[str, Any, Any]:
    """Where two values that are not equal differ first, as text, and what is there."""
    a, b = given, other
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        pairs = cast("tuple[Mapping[Any, Any], Mapping[Any, Any]]", (a, b))
        for key in dict.fromkeys([*pairs[0], *pairs[1]]):
            first, second = (each.get(key, _Absent()) for each in pairs)
            if first != second:
                where, first, second = _difference(first, second)
                return f"{where}{key} of ", first, second
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        lists = cast("tuple[Sequence[Any], Sequence[Any]]", (a, b))
        if len(lists[0]) != len(lists[1]):
            return "", given, other
        if any(isinstance(x, Mapping | list) for x in lists[0]):
            for i, (first, second) in enumerate(zip(*lists, strict=True)):
                if first != second:
                    where, first, second = _difference(first, second)
                    return f"{where}number {i} of ", first, second
    return "", given, other


def _brief(value: Any) -> str:
    text = value if isinstance(value, str) and len(value) > _LONGEST else repr(value)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"

"""What all ranks must have in common is compared before it is used: a difference is an error on all, not a hang."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from hybridc.communication.communicator import Communicator
from hybridc.communication.world import communicator
from hybridc.errors import MXNetError

_LONGEST = 300  # characters of a value in a message
_COMPARISON = "comparison of "


def require_equal(what: str, value: Any, ranks: Communicator | None = None) -> None:
    """Raise on all ranks unless ``value`` is equal on all of them; all call this. ``what`` names it: "the optimizer".

    Values are plain ones, which differ where their ``repr`` does. Of two mappings or sequences the message names the
    first entry that differs.
    """
    ranks = communicator() if ranks is None else ranks
    if ranks.size > 1:
        ranks.agree(_COMPARISON + what, value)


def different_calls(rank: int, calls: Sequence[str], hosts: Sequence[str]) -> MXNetError:
    """The error on a rank where another one calls something else."""
    other = next(i for i, each in enumerate(calls) if each != calls[rank])
    return MXNetError(
        f"rank {rank} on {hosts[rank]} calls {_cut(calls[rank])}, but rank {other} on {hosts[other]} calls "
        f"{_cut(calls[other])}; all ranks must call the same operations in the same order, on arrays of the same "
        f"shapes and dtypes"
    )


def different_facts(call: str, values: Sequence[Any], hosts: Sequence[str]) -> MXNetError:
    """The error of all ranks where the values that they bring to a call are not equal."""
    rank = next(i for i, each in enumerate(values) if each != values[0])
    where, mine, others = _difference(values[0], values[rank])
    return MXNetError(
        f"{where}{call.removeprefix(_COMPARISON)} differs between ranks: rank 0 on {hosts[0]} has {_brief(mine)}, "
        f"rank {rank} on {hosts[rank]} has {_brief(others)}; give all ranks the same"
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
    return _cut(value if isinstance(value, str) and len(value) > _LONGEST else repr(value))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"

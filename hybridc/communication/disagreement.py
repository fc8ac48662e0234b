"""Errors that say in what the ranks differ: in which call they are, or in a value that they bring to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from hybridc.errors import MXNetError

#: Begins the name of a call that only compares what follows.
COMPARISON = "comparison of "
_LONGEST = 300  # characters of a value in a message


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
        f"{where}{call.removeprefix(COMPARISON)} differs between ranks: rank 0 on {hosts[0]} has {_brief(mine)}, "
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

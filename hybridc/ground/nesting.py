"""Nested lists and tuples (pytrees): flatten and rebuild."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from hybridc.errors import NestedArraysError

Structure = Any
_NESTED = (list, tuple)  # cached: a union would be built at each use


def flatten(value: Any, leaf: type | tuple[type, ...], what: str) -> tuple[list[Any], Structure]:
    """All leaves in order, and the structure for :func:`regroup`; None is part of the structure."""
    leaves: list[Any] = []
    return leaves, thaw(frozen(value, leaf, what, leaves))


def frozen(value: Any, leaf: type | tuple[type, ...], what: str, leaves: list[Any]) -> Any:
    """The structure as a hashable value; all leaves are appended to a list, in order."""
    if isinstance(value, leaf):
        leaves.append(value)
        return 0
    if value is None:
        return None
    if isinstance(value, _NESTED):
        found: list[Any] = ["t" if isinstance(value, tuple) else "l"]
        for part in cast("list[Any]", value):
            if isinstance(part, leaf):
                leaves.append(part)
                found.append(0)
            else:
                found.append(frozen(part, leaf, what, leaves))
        return tuple(found)
    raise NestedArraysError(
        f"{what} must be an NDArray or nested lists or tuples of them, got {type(value).__name__}; "
        "keep other values as attributes of the block"
    )


def as_list(value: Any) -> list[Any]:
    """One value or several, as a list."""
    return list(cast("list[Any]", value)) if isinstance(value, tuple | list) else [value]


def regroup(leaves: Sequence[Any], structure: Structure) -> Any:
    """The inverse of :func:`flatten`."""
    return _build(iter(leaves), structure)


def _build(leaves: Iterator[Any], structure: Structure) -> Any:
    if structure is None:
        return None
    if isinstance(structure, list | tuple):
        parts = [_build(leaves, s) for s in as_list(structure)]
        return tuple(parts) if isinstance(structure, tuple) else parts
    return next(leaves)


def grouping(structure: Structure, count: int) -> Callable[[Sequence[Any]], Any]:
    """A function that regroups several leaves to a structure."""
    if structure == (0,) * count:
        return tuple
    return list if structure == [0] * count else lambda leaves: regroup(leaves, structure)


def thaw(frozen: Any) -> Structure:
    """The structure of a hashable value from :func:`frozen`."""
    if not isinstance(frozen, tuple):
        return frozen
    kind, *parts = as_list(frozen)
    made = [thaw(part) for part in parts]
    return tuple(made) if kind == "t" else made

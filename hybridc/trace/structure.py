"""Nested lists and tuples of values, flattened and put together again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from hybridc.errors import MXNetError

Structure = Any


def flatten(value: Any, leaf: type | tuple[type, ...], what: str) -> tuple[list[Any], Structure]:
    """All leaves in order, and the structure that :func:`regroup` needs; None stays in the structure."""
    if isinstance(value, leaf):
        return [value], 0
    if value is None:
        return [], None
    if isinstance(value, list | tuple):
        leaves: list[Any] = []
        structure: list[Any] = []
        for part in as_list(value):
            inner, shape = flatten(part, leaf, what)
            leaves += inner
            structure.append(shape)
        return leaves, tuple(structure) if isinstance(value, tuple) else structure
    raise MXNetError(
        f"{what} must be an NDArray or nested lists or tuples of them, got {type(value).__name__}; "
        "keep other values as attributes of the block"
    )


def as_list(value: Any) -> list[Any]:
    """One value or several, as a list."""
    return list(cast("list[Any]", value)) if isinstance(value, tuple | list) else [value]


def regroup(leaves: list[Any], structure: Structure) -> Any:
    """The inverse of :func:`flatten`."""
    return _build(iter(leaves), structure)


def _build(leaves: Iterator[Any], structure: Structure) -> Any:
    if structure is None:
        return None
    if isinstance(structure, list | tuple):
        parts = [_build(leaves, s) for s in as_list(structure)]
        return tuple(parts) if isinstance(structure, tuple) else parts
    return next(leaves)


def freeze(structure: Structure) -> Any:
    """The structure as a hashable value."""
    if isinstance(structure, list | tuple):
        kind = "t" if isinstance(structure, tuple) else "l"
        return (kind, *(freeze(s) for s in structure))  # pyright: ignore[reportUnknownVariableType]
    return structure


def thaw(frozen: Any) -> Structure:
    """The inverse of :func:`freeze`."""
    if not isinstance(frozen, tuple):
        return frozen
    kind, *parts = as_list(frozen)
    made = [thaw(part) for part in parts]
    return tuple(made) if kind == "t" else made

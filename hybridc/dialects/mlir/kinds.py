"""Kinds of operations and attributes, asked by the type of an object.

xDSL's classes are abstract ones, of which ``isinstance`` asks Python code at each call, for each class; half of the
questions of a compilation are whether an operation is one of several kinds, and most are answered by no.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeGuard, TypeVar

T = TypeVar("T")


def of_kinds(*kinds: type[T]) -> Callable[[object], TypeGuard[T]]:
    """A function: whether an object is an instance of one of these classes; it asks once for each type."""
    answers: dict[type[Any], bool] = {}

    def is_one(asked: object) -> TypeGuard[T]:
        kind = type(asked)
        answer = answers.get(kind)
        if answer is None:
            answer = answers[kind] = issubclass(kind, kinds)
        return answer

    return is_one

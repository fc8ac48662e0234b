"""Lazily computed attributes, and functions of immutable objects."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Generic, TypeVar, overload

S = TypeVar("S")
T = TypeVar("T")
_MOST = 4096  # results that a function keeps


class cached_property(Generic[T]):
    """``functools.cached_property`` without a lock: two threads may compute the same value.

    Until Python 3.12 that of functools has one lock for all objects, and a child forked while it is held would wait
    it forever.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self._name = ""
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> cached_property[T]: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> T: ...

    def __get__(self, instance: object | None, owner: type | None = None) -> cached_property[T] | T:
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._compute(instance)
        return value


def by_identity(compute: Callable[[S], T]) -> Callable[[S], T]:
    """A function of one immutable object that keeps its results: the object is looked up, not hashed or compared.

    Hashing an attribute of the IR takes longer than most of what is computed from it.
    """
    known: dict[int, tuple[S, T]] = {}  # it holds the objects, so that no other one gets their identity

    @wraps(compute)
    def found(given: S) -> T:
        entry = known.get(id(given))
        if entry is None:
            if len(known) >= _MOST:
                known.clear()
            entry = known[id(given)] = (given, compute(given))
        return entry[1]

    return found

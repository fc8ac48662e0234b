"""Locks that a forked child finds open, whatever other threads of its parent held at the fork."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Generator, Sequence
from typing import Any


class ForkLock:
    """``with lock.current:`` is a reentrant lock; in a forked child it is a new one.

    Otherwise a child waits forever for a lock that was held, at the fork, by a thread that is not in it.
    """

    __slots__ = ("__weakref__", "current")

    def __init__(self) -> None:
        self.current = threading.RLock()
        _LOCKS.add(self)


class ArrayLocks:
    """A reentrant lock for each array that is being updated, there only while somebody holds it or waits for it.

    Operators that read an array and write it anew, as running statistics, take turns; all others do not wait.
    """

    def __init__(self) -> None:
        self._guard = ForkLock()
        self._locks: dict[int, list[Any]] = {}  # address → [lock, how many hold it or wait for it]

    @contextlib.contextmanager
    def held(self, arrays: Sequence[Any]) -> Generator[None]:
        """Hold the locks of these arrays; always taken in the order of addresses, so that nobody waits in a circle."""
        addresses = sorted({_address(a) for a in arrays})
        with contextlib.ExitStack() as stack:
            for address in addresses:
                stack.enter_context(self._one(address))
            yield

    @contextlib.contextmanager
    def _one(self, address: int) -> Generator[None]:
        with self._guard.current:
            entry = self._locks.setdefault(address, [threading.RLock(), 0])
            entry[1] += 1
        try:
            with entry[0]:
                yield
        finally:
            with self._guard.current:
                entry[1] -= 1
                if not entry[1]:
                    self._locks.pop(address, None)

    def renew(self) -> None:
        """In a forked child: nobody holds anything."""
        self._locks = {}


def _address(array: Any) -> int:
    """Where the elements of a raw array begin, on its device."""
    return array.__array_interface__["data"][0] if hasattr(array, "__array_interface__") else array.pointer


_LOCKS: weakref.WeakSet[ForkLock] = weakref.WeakSet()
UPDATES = ArrayLocks()


def _renew() -> None:
    for lock in _LOCKS:
        lock.current = threading.RLock()
    UPDATES.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)

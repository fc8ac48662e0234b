"""Locks that a forked child finds open, whatever other threads of its parent held at the fork."""

from __future__ import annotations

import os
import threading
import weakref


class ForkLock:
    """``with lock.current:`` is a reentrant lock; in a forked child it is a new one.

    Otherwise a child waits forever for a lock that was held, at the fork, by a thread that is not in it.
    """

    __slots__ = ("__weakref__", "current")

    def __init__(self) -> None:
        self.current = threading.RLock()
        _LOCKS.add(self)


_LOCKS: weakref.WeakSet[ForkLock] = weakref.WeakSet()


def _renew() -> None:
    for lock in _LOCKS:
        lock.current = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)

"""Locks that survive a fork: in the child they are free, whatever other threads of the parent held.

Python's own import locks are not among them: a child would wait forever for a module that another thread was importing,
and the module is half initialised. So a fork waits until no thread imports this package or what it uses.
"""

from __future__ import annotations

import _imp
import contextlib
import importlib._bootstrap as _bootstrap  # pyright: ignore[reportMissingModuleSource]
import os
import sys
import threading
import time
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
    """A reentrant lock for each array that is being updated; it exists only while it is held or waited for.

    Operators that read and update an array, such as running statistics, are serialised; others do not wait.
    """

    def __init__(self) -> None:
        self._guard = ForkLock()
        self._locks: dict[int, list[Any]] = {}  # address → [lock, how many hold it or wait for it]

    @contextlib.contextmanager
    def held(self, arrays: Sequence[Any]) -> Generator[None]:
        """Hold the locks of these arrays, taken in the order of addresses, which avoids deadlocks."""
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
        """In a forked child: drop all locks."""
        self._locks = {}


def _address(array: Any) -> int:
    """The address of a raw array, on its device."""
    return array.__array_interface__["data"][0] if hasattr(array, "__array_interface__") else array.pointer


_LOCKS: weakref.WeakSet[ForkLock] = weakref.WeakSet()
UPDATES = ArrayLocks()

# Packages that are partly imported on demand. Importing a user's module may run the whole program.
_PACKAGES = sys.stdlib_module_names | {"hybridc", "llvmlite", "ml_dtypes", "numpy", "scipy", "triton", "xdsl"}
# Seconds for which a fork waits for locks and compilations: the longest take some seconds.
PATIENCE = 10.0


def _hold_imports() -> None:
    """Wait until no other thread imports any of our modules, and block imports."""
    end = time.monotonic() + PATIENCE
    _imp.acquire_lock()
    while _is_imported_elsewhere() and time.monotonic() < end:
        _imp.release_lock()
        time.sleep(1e-3)
        _imp.acquire_lock()


def _is_imported_elsewhere() -> bool:
    locks: dict[str, Any] = getattr(_bootstrap, "_module_locks", {})
    ours = [lock() for name, lock in list(locks.items()) if name.partition(".")[0] in _PACKAGES]
    return any(getattr(lock, "owner", None) not in (None, threading.get_ident()) for lock in ours)


def _release_imports() -> None:
    with contextlib.suppress(RuntimeError):  # Python may have released it in the child
        _imp.release_lock()


def _in_child() -> None:
    _release_imports()
    for lock in _LOCKS:
        lock.current = threading.RLock()
    UPDATES.renew()


# Registered first, called last before a fork: other handlers may wait for threads that import something.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold_imports, after_in_parent=_release_imports, after_in_child=_in_child)

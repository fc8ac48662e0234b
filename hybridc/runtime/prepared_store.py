"""The store of prepared values: what follows from parameters alone, once for all programs that need it.

A program that is called again and again computes what depends on parameters alone once. Programs for other sizes of the
arguments, or of another network with the same parameters, need the same values. So these are kept by what is computed,
and of which arrays (:class:`~hybridc.ir.planned.PreparedValue`): who needs one finds it here, or computes it for all.
A value is freed with the last program that uses it, and is dropped as soon as one of its arrays is written.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from hybridc.ground.buffers import ALIGNMENT
from hybridc.ground.locks import ForkLock
from hybridc.ground.watches import Watch

#: What is computed, and the identities of the arrays of which.
ValueKey = tuple[Any, ...]


class ValueUser(Protocol):
    """A program's prepared values: notified when a value does not hold any more."""

    def forget(self, value: SharedValue) -> None: ...


def memories_of(sizes: Sequence[int]) -> list[Any]:
    """Fresh memory of these bytes, aligned: parts of one buffer, since the system gives large pages to large ones."""
    starts = list(itertools.accumulate((-(-size // ALIGNMENT) * ALIGNMENT for size in sizes), initial=0))
    buffer = np.empty(starts[-1] + ALIGNMENT, np.uint8)
    first = -buffer.ctypes.data % ALIGNMENT
    return [buffer[first + start : first + start + size] for start, size in zip(starts, sizes, strict=False)]


class SharedValue:
    """The memory of a value; it is valid until an array that the value is computed from is written, shared or freed."""

    def __init__(self, memory: Any, arrays: Sequence[Any]) -> None:
        self.memory = memory
        self._users: dict[int, weakref.ref[Any]] = {}
        weak: weakref.ref[SharedValue] = weakref.ref(self)
        self._watch = Watch(arrays, lambda _: _ended(weak))
        weakref.finalize(self, self._watch.end).atexit = False

    @property
    def is_valid(self) -> bool:
        """Whether no array that it is computed from has changed."""
        return not self._watch.is_over

    @property
    def user_count(self) -> int:
        """The number of programs that use it."""
        return len(self._users)

    def used_by(self, user: ValueUser) -> None:
        """Notify a program from now on."""
        identity, users = id(user), self._users
        users[identity] = weakref.ref(user, lambda _: users.pop(identity, None))

    def ended(self) -> None:
        """Notify all programs that it is not valid any more."""
        for reference in tuple(self._users.values()):
            user = reference()
            if user is not None:
                user.forget(self)


def _ended(value: weakref.ref[SharedValue]) -> None:
    shared = value()
    if shared is not None:
        shared.ended()


class PreparedStore:
    """All prepared values that a program uses now."""

    def __init__(self) -> None:
        self.lock = ForkLock()  # one thread prepares values, others wait and find them
        self._values: weakref.WeakValueDictionary[ValueKey, SharedValue] = weakref.WeakValueDictionary()

    def find(self, key: ValueKey) -> SharedValue | None:
        """The value of a key, if it is valid."""
        value = self._values.get(key)
        return value if value is not None and value.is_valid else None

    def add(self, key: ValueKey, value: SharedValue) -> None:
        """Share a value that has been computed."""
        self._values[key] = value

    @property
    def bytes(self) -> int:
        """The memory of all values."""
        return sum(value.memory.nbytes for value in list(self._values.values()))


STORE = PreparedStore()

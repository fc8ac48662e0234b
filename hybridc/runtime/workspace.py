"""Workspaces: the memory of a call of a planned program; their pool; and checks of arrays against their specs."""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

import numpy as np

from hybridc.ground.buffers import ALIGNMENT, capacity, empty
from hybridc.ground.locks import ForkLock
from hybridc.ir.planned import PlainArray
from hybridc.lower.llvm.executor.structures import ArenaRecord, ArenaTable

# The most idle workspaces, for each program: one for each thread that ran it at the same time, but no more than this,
# as each takes the memory of an arena.
KEPT = 4
# So many calls of native wrappers at a time have a workspace from the pool; others go the long way.
_RECORDS = 8
# Bytes of a workspace beside its arena, about: what keeps those without an arena few.
_OBJECT = 1 << 10


class ViewOwner:
    """A program, to workspaces, which drop its views when it is gone."""


class Workspace(np.ndarray[Any, Any]):
    """The memory of one call at a time: an arena, and the operator states of host steps."""

    states: dict[Any, Any]
    room: int  # bytes
    _views: weakref.WeakKeyDictionary[ViewOwner, dict[Any, Any]]

    def views(self, owner: ViewOwner) -> dict[Any, Any]:
        """The views of the arena that a program keeps from call to call."""
        views = self._views.get(owner)
        if views is None:
            views = self._views[owner] = {}
        return views


def workspace(arena: int) -> Workspace:
    """A workspace with an arena of ``arena`` bytes."""
    memory = np.empty(arena + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    created = memory[start : start + arena].view(Workspace)
    created.states = {}
    created.room = arena
    created._views = weakref.WeakKeyDictionary()
    return created


def plain(arena: Workspace) -> Any:
    """The memory of a workspace as a plain array: views of it that the workspace keeps are in no cycle with it."""
    return arena.view(np.ndarray)


# --- the pool -----------------------------------------------------------------------------------------------------


class WorkspacePool:
    """Idle workspaces, for all programs: a call takes one that is large enough, and returns it.

    So the programs of a network for many sizes of its arguments, which run one after the other, need the arena of the
    largest alone. Workspaces larger than any program needs that exists are freed; and of those that many threads left,
    the least recently used, beyond the bytes of ``KEPT`` of the largest.
    """

    def __init__(self) -> None:
        # The latest is the last. Threads take and return them by single operations of a list, which need no lock.
        self.idle: list[Workspace] = []
        self.table = ArenaTable(count=_RECORDS)
        self._records = (ArenaRecord * _RECORDS)(*[ArenaRecord(size=-1)] * _RECORDS)
        self.table.records = ctypes.addressof(self._records)
        self._installed: list[Workspace | None] = [None] * _RECORDS  # for native code, which takes them by itself
        self._users: dict[int, int] = {}  # sizes, by the identities of programs
        self._most = 0  # bytes of the idle ones, if they are more than KEPT
        self._lock = ForkLock()  # of what is installed
        self._is_installing = False

    def join(self, user: Any, size: int) -> None:
        """Note that a program needs so many bytes, as long as it exists."""
        self._users[id(user)] = size
        self._most = max(self._most, KEPT * (capacity(size or 1) + _OBJECT))
        weakref.finalize(user, self._leave, id(user)).atexit = False

    def acquire(self, size: int) -> Workspace:
        """An idle workspace of at least so many bytes, or a new one."""
        try:
            idle = self.idle.pop()
        except IndexError:
            return workspace(capacity(size) if size else 0)
        return idle if idle.room >= size else self._larger(idle, size)

    def release(self, returned: Workspace) -> None:
        """Return a workspace."""
        if self.table.missed and self._install(returned):
            return
        self.idle.append(returned)
        if len(self.idle) > KEPT:
            self._free_oldest()

    def reserve(self, size: int) -> None:
        """Have a workspace of so many bytes for native code."""
        if all(record.size < size for record in self._records):
            self._install(self.acquire(size))

    @property
    def bytes(self) -> int:
        """The memory of all workspaces that are idle, or that native code may take."""
        return sum(space.nbytes for space in (*self.idle, *self._installed) if space is not None)

    def _larger(self, small: Workspace, size: int) -> Workspace:
        """The smallest idle workspace that is large enough, or a new one, in the place of the largest."""
        others = [small, *self._taken()]
        enough = [space for space in others if space.room >= size]
        chosen = min(enough, key=_room) if enough else max(others, key=_room)
        self.idle += [space for space in others if space is not chosen]
        return chosen if enough else workspace(capacity(size))

    def _taken(self) -> list[Workspace]:
        """All idle workspaces, taken by this thread."""
        spaces: list[Workspace] = []
        while self.idle:
            try:
                spaces.append(self.idle.pop())
            except IndexError:  # another thread took the last one
                break
        return spaces[::-1]

    def _free_oldest(self) -> None:
        """Free the least recently used ones beyond the bytes that may be idle."""
        if sum(space.room + _OBJECT for space in self.idle) <= self._most:
            return
        left, kept = self._most, list[Workspace]()
        for space in reversed(self._taken()):
            left -= space.room + _OBJECT
            if left < 0:
                break
            kept.append(space)
        self.idle += kept[::-1]

    def _install(self, space: Workspace) -> bool:
        """Let native code take a workspace, in place of the largest if that is smaller; whether it can now.

        A call that has taken one that is replaced has a reference of its own.
        """
        with self._lock.current:
            self.table.missed = 0
            sizes = [record.size for record in self._records]
            if max(sizes) >= space.room and -1 not in sizes:
                return False
            self._is_installing = True
            self._set(sizes.index(max(sizes) if max(sizes) < space.room else -1), space)
            self._is_installing = False
            return True

    def _set(self, at: int, space: Workspace | None) -> None:
        record = self._records[at]
        record.size = -1  # another thread may look at it between these lines
        record.workspace = None if space is None else id(space)
        record.size = -1 if space is None else space.room
        self._installed[at] = space

    def _leave(self, user: int) -> None:
        """A program is gone, so a workspace may be larger than any call needs."""
        self._users.pop(user, None)
        most = capacity(max(self._users.values()) or 1) if self._users else -1
        self._most = KEPT * (most + _OBJECT)
        self.idle += [space for space in self._taken() if space.room <= most]
        with self._lock.current:
            for at, space in enumerate(self._installed):
                if space is not None and space.room > most and not self._is_installing:  # by the garbage collector
                    self._set(at, None)


def _room(space: Workspace) -> int:
    return space.room


POOL = WorkspacePool()


# --- arrays -------------------------------------------------------------------------------------------------------


def fits(array: Any, spec: PlainArray) -> bool:
    """Whether an array fits the spec without conversion."""
    if type(array) is not np.ndarray or array.shape != tuple(spec.shape) or array.dtype != spec.dtype:
        return False
    return bool(array.flags.c_contiguous and array.flags.aligned)


def fresh(spec: PlainArray) -> Any:
    """An uninitialised array of the spec."""
    return empty(tuple(spec.shape), np.dtype(spec.dtype).name)

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
        found = self._views.get(owner)
        if found is None:
            found = self._views[owner] = {}
        return found


def workspace(arena: int) -> Workspace:
    """A workspace with an arena of ``arena`` bytes."""
    memory = np.empty(arena + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    made = memory[start : start + arena].view(Workspace)
    made.states = {}
    made.room = arena
    made._views = weakref.WeakKeyDictionary()
    return made


def plain(given: Workspace) -> Any:
    """The memory of a workspace as a plain array: views of it that the workspace keeps are in no cycle with it."""
    return given.view(np.ndarray)


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
            found = self.idle.pop()
        except IndexError:
            return workspace(capacity(size) if size else 0)
        return found if found.room >= size else self._larger(found, size)

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
        return sum(each.nbytes for each in (*self.idle, *self._installed) if each is not None)

    def _larger(self, small: Workspace, size: int) -> Workspace:
        """The smallest idle workspace that is large enough, or a new one, in the place of the largest."""
        others = [small, *self._taken()]
        enough = [each for each in others if each.room >= size]
        chosen = min(enough, key=_room) if enough else max(others, key=_room)
        self.idle += [each for each in others if each is not chosen]
        return chosen if enough else workspace(capacity(size))

    def _taken(self) -> list[Workspace]:
        """All idle workspaces, taken by this thread."""
        found: list[Workspace] = []
        while self.idle:
            try:
                found.append(self.idle.pop())
            except IndexError:  # another thread took the last one
                break
        return found[::-1]

    def _free_oldest(self) -> None:
        """Free the least recently used ones beyond the bytes that may be idle."""
        if sum(each.room + _OBJECT for each in self.idle) <= self._most:
            return
        left, kept = self._most, list[Workspace]()
        for each in reversed(self._taken()):
            left -= each.room + _OBJECT
            if left < 0:
                break
            kept.append(each)
        self.idle += kept[::-1]

    def _install(self, given: Workspace) -> bool:
        """Let native code take a workspace, in place of the largest if that is smaller; whether it can now.

        A call that has taken one that is replaced has a reference of its own.
        """
        with self._lock.current:
            self.table.missed = 0
            sizes = [record.size for record in self._records]
            if max(sizes) >= given.room and -1 not in sizes:
                return False
            self._is_installing = True
            self._set(sizes.index(max(sizes) if max(sizes) < given.room else -1), given)
            self._is_installing = False
            return True

    def _set(self, at: int, given: Workspace | None) -> None:
        record = self._records[at]
        record.size = -1  # another thread may look at it between these lines
        record.workspace = None if given is None else id(given)
        record.size = -1 if given is None else given.room
        self._installed[at] = given

    def _leave(self, user: int) -> None:
        """A program is gone, so a workspace may be larger than any call needs."""
        self._users.pop(user, None)
        most = capacity(max(self._users.values()) or 1) if self._users else -1
        self._most = KEPT * (most + _OBJECT)
        self.idle += [each for each in self._taken() if each.room <= most]
        with self._lock.current:
            for at, each in enumerate(self._installed):
                if each is not None and each.room > most and not self._is_installing:  # by the garbage collector
                    self._set(at, None)


def _room(given: Workspace) -> int:
    return given.room


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

"""Workspaces: the memory of a call of a planned program; their pool; and checks of arrays against their specs."""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

import numpy as np

from hybridc.ground.buffers import ALIGNMENT, capacity, empty
from hybridc.ground.locks import ForkLock
from hybridc.ir.planned import PlainArray

# The most idle workspaces, for each program: one for each thread that ran it at the same time, but no more than this,
# as each takes the memory of an arena.
KEPT = 4
# So many calls of native wrappers at a time have a workspace from the pool; others go the long way.
_RECORDS = 8


class ViewOwner:
    """A program, to workspaces, which drop its views when it is gone."""


class Workspace(np.ndarray[Any, Any]):
    """The memory of one call at a time: an arena, and the operator states of host steps."""

    states: dict[Any, Any]
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
    made._views = weakref.WeakKeyDictionary()
    return made


def plain(given: Workspace) -> Any:
    """The memory of a workspace as a plain array: views of it that the workspace keeps are in no cycle with it."""
    return given.view(np.ndarray)


# --- the pool -----------------------------------------------------------------------------------------------------


class ArenaRecord(ctypes.Structure):
    """A workspace that wrapper calls take, one at a time; read and written under the GIL."""

    _fields_ = (
        ("workspace", ctypes.c_void_p),
        ("size", ctypes.c_int64),  # of its arena; -1 while there is none
        ("busy", ctypes.c_int64),  # a call has it
    )


class ArenaTable(ctypes.Structure):
    """The workspaces of wrapper calls."""

    _fields_ = (
        ("records", ctypes.c_void_p),  # ArenaRecord[count]
        ("count", ctypes.c_int64),
        ("missed", ctypes.c_int64),  # a call did not get one
    )


class WorkspacePool:
    """Idle workspaces, for all programs: a call takes one that is large enough, and returns it.

    So the programs of a network for many sizes of its arguments, which run one after the other, need the arena of the
    largest alone. Workspaces larger than any program needs that exists are freed.
    """

    def __init__(self) -> None:
        self.idle: list[Workspace] = []  # ascending
        self.table = ArenaTable(count=_RECORDS)
        self._records = (ArenaRecord * _RECORDS)(*[ArenaRecord(size=-1)] * _RECORDS)
        self.table.records = ctypes.addressof(self._records)
        self._installed: list[Workspace | None] = [None] * _RECORDS  # for native code, which takes them by itself
        self._users: dict[int, int] = {}  # sizes, by the identities of programs
        self._lock = ForkLock()
        self._is_changing = False

    def join(self, user: Any, size: int) -> None:
        """Note that a program needs so many bytes, as long as it exists."""
        self._users[id(user)] = size
        weakref.finalize(user, self._leave, id(user)).atexit = False

    def acquire(self, size: int) -> Workspace:
        """An idle workspace of at least so many bytes, or a new one."""
        with self._lock.current:
            self._is_changing = True
            at = next((i for i, each in enumerate(self.idle) if each.size >= size), None)
            found = None if at is None else self.idle.pop(at)
            if found is None and self.idle:
                self.idle.pop()  # it is too small for what is needed now
            self._is_changing = False
        return workspace(capacity(size) if size else 0) if found is None else found

    def release(self, returned: Workspace) -> None:
        """Return a workspace."""
        if self.table.missed and self._install(returned):
            return
        with self._lock.current:
            self._is_changing = True
            at = next((i for i, each in enumerate(self.idle) if each.size >= returned.size), len(self.idle))
            self.idle.insert(at, returned)
            if len(self.idle) > KEPT * max(1, len(self._users)):
                del self.idle[0]
            self._is_changing = False

    def reserve(self, size: int) -> None:
        """Have a workspace of so many bytes for native code."""
        if all(record.size < size for record in self._records):
            self._install(self.acquire(size))

    @property
    def bytes(self) -> int:
        """The memory of all workspaces that are idle, or that native code may take."""
        return sum(each.nbytes for each in (*self.idle, *self._installed) if each is not None)

    def _install(self, given: Workspace) -> bool:
        """Let native code take a workspace, in place of smaller ones if all are smaller; whether it can now.

        A call that has taken one that is replaced has a reference of its own.
        """
        with self._lock.current:
            self.table.missed = 0
            sizes = [record.size for record in self._records]
            if max(sizes) < given.size:
                at = sizes.index(max(sizes))
            elif -1 in sizes:
                at = sizes.index(-1)
            else:
                return False
            self._set(at, given)
            return True

    def _set(self, at: int, given: Workspace | None) -> None:
        record = self._records[at]
        record.size = -1  # another thread may look at it between these lines
        record.workspace = None if given is None else id(given)
        record.size = -1 if given is None else given.size
        self._installed[at] = given

    def _leave(self, user: int) -> None:
        """A program is gone, so a workspace may be larger than any call needs."""
        self._users.pop(user, None)
        most = max(self._users.values(), default=-1)
        with self._lock.current:
            if self._is_changing:  # by the garbage collector, within the lines above
                return
            while self.idle and self.idle[-1].size > capacity(most or 1):
                self.idle.pop()
            for at, each in enumerate(self._installed):
                if each is not None and each.size > capacity(most or 1):
                    self._set(at, None)


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

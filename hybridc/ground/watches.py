"""Watches: notice that memory from which values were prepared is written, or is shared with foreign code.

A program that is called again and again computes what depends on parameters alone once (``hoist-preparation``), and
uses it until a parameter changes. So whoever writes into an array that others may hold says so with :func:`written`,
after the write, also after one that failed half-way. Whoever gives memory to code that is not ours, or takes it from
there, says so with :func:`shared`, before: that code may write at any time, without a word. Such memory is not watched.

Memory is known by its owner, the array at the end of a view's chain of bases; an array that does not own its memory is
not watched either. Where nothing is watched, a write costs one look at an empty dict.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from numpy import ndarray

from hybridc.ground.locks import ForkLock

_LOCK = ForkLock()  # of changes of the following
_WATCHES: dict[int, set[Watch]] = {}  # by the identity of the memory's owner
_SHARED: dict[int, Any] = {}  # weak references to owners whose memory foreign code may write, by their identities


class Watch:
    """Watches arrays that own their memory; calls ``changed(self)`` once, when one is written, shared or freed.

    Any thread may call it, at any time.
    """

    def __init__(self, arrays: Sequence[Any], changed: Callable[[Watch], None]) -> None:
        self.is_over = False
        self._changed = changed
        self._owners = {id(array): weakref.ref(array, self._freed) for array in arrays}
        with _LOCK.current:
            for owner in self._owners:
                _WATCHES.setdefault(owner, set()).add(self)
        if not all(map(may_watch, arrays)):  # asked after: one may have been shared meanwhile
            self.end()

    def end(self) -> None:
        """Stop watching, and say that the arrays are not what they were."""
        with _LOCK.current:
            if self.is_over:
                return
            self.is_over = True
            for owner in self._owners:
                watches = _WATCHES[owner]
                watches.discard(self)
                if not watches:
                    del _WATCHES[owner]
            self._owners = {}
        self._changed(self)

    def _freed(self, _reference: Any) -> None:
        self.end()


def may_watch(array: Any) -> bool:
    """Whether nobody can write into an array unnoticed: it owns its memory, which was never shared."""
    return type(array) is ndarray and array.base is None and array.flags.owndata and id(array) not in _SHARED


def written(array: Any) -> None:
    """Notice that an array was written."""
    if _WATCHES:
        _changed(_owner(array))


def all_written(arrays: Iterable[Any]) -> None:
    """Notice that arrays were written."""
    if _WATCHES:
        for array in arrays:
            _changed(_owner(array))


def shared(array: Any) -> None:
    """Notice that from now on foreign code may write into an array's memory."""
    owner = _owner(array)
    number = id(owner)
    if number in _SHARED or type(owner) is not ndarray:
        return

    def freed(_reference: Any) -> None:
        _SHARED.pop(number, None)

    _SHARED[number] = weakref.ref(owner, freed)
    if _WATCHES:
        _changed(owner)


def _owner(array: Any) -> Any:
    """The array that owns a view's memory."""
    base: Any = getattr(array, "base", None)  # arrays of a GPU have none
    while base is not None:
        if not isinstance(base, ndarray):  # memory of another library
            return array
        array, base = base, base.base  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return array


def _changed(owner: Any) -> None:
    watches = _WATCHES.get(id(owner))
    for watch in () if watches is None else tuple(watches):
        watch.end()

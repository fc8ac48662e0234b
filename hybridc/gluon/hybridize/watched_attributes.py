"""The attributes that a forward reads while it is traced, at any depth: the guards of its compiled graph.

Blocks, and objects of users' classes that are met in their attributes, get a class that notes reads and writes while a
trace runs. An attribute that the forward sets before it reads it is no guard: its value is made by every call.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Generator, Iterator, Set
from typing import Any

import numpy as np

from hybridc.gluon.children import BlockRoot, Children
from hybridc.gluon.hybridize.guards import (
    MISSING,
    Contents,
    FloatGuard,
    Guard,
    Guards,
    NumbersGuard,
    Plain,
    RecordingGuard,
    in_class,
    is_mutable,
    is_plain,
    is_users,
    look_up,
    refuse,
    type_of,
)
from hybridc.gluon.parameter import Parameter
from hybridc.ground.locks import ForkLock
from hybridc.ground.state import STATE
from hybridc.trace.traced import TracedSymbol
from hybridc.trace.varying import Varying, used

# Block's own fields; a change there drops the graphs.
_INTERNAL = frozenset(
    {
        "_active",
        "_cached_graph",
        "_backends",
        "_forward_hooks",
        "_forward_pre_hooks",
        "_is_background",
        "_is_static",
        "_name",
        "_params",
        "_parents",
        "_prefix",
        "_reg_params",
        "_scope",
        "name",
        "params",
        "prefix",
    }
)

_LOCK = ForkLock()
# The field of a user's class that holds its watched subclass.
_KEPT = "__hybridc_watched__"
# The objects that are watched, by identity: how often, and the class that each has otherwise.
_WATCHED: dict[int, tuple[int, type]] = {}


class Reading:
    """The attributes that one trace reads and writes."""

    def __init__(self, varying: Set[str] = frozenset()) -> None:
        self._varying = varying
        self._recording = STATE.recording
        self._modes: list[RecordingGuard] = []
        self._floats: dict[tuple[int, str], tuple[FloatGuard, Varying]] = {}
        self._guards: dict[tuple[int, str], Guard] = {}
        self._numbers: dict[int, NumbersGuard] = {}
        self._written: set[tuple[int, str]] = set()
        self._contents: list[Contents] = []
        self._paths: dict[int, str] = {}
        self._watched: list[Any] = []  # which also keeps them alive, so that their identities are theirs

    @property
    def guards(self) -> Guards:
        """The reads: attributes in order, identities of arrays, and whether recording was queried."""
        floats = [guard for key, (guard, _) in self._floats.items() if key not in self._guards]
        return [*self._guards.values(), *floats, *self._numbers.values(), *self._modes]

    def carried(self) -> str | None:
        """An attribute that was read, and then replaced by a value of the graph: by what path; None if there is none.

        Its next call would need what this call left there.
        """
        return next((g.path for g in self._guards.values() if _has_symbol(g.value()) and g.changed()), None)

    # --- notes ---------------------------------------------------------------------------------------------

    def read(self, holder: Any, cls: Any, name: str) -> Any:
        """The value of an attribute, which is noted."""
        key = id(holder), name
        path = f"{self._path(holder, cls)}{name}"
        if path in self._varying and key not in self._written and self._is_float(holder, name):
            return self._float(holder, cls, name, path)
        if key not in self._guards and key not in self._written and _counts(holder, name):
            self._guards[key] = self._guard(holder, cls, name, path)
        value = cls.__getattribute__(holder, name)
        self.meet(value, path)
        return value

    def _is_float(self, holder: Any, name: str) -> bool:
        return isinstance(holder, BlockRoot) and type_of(look_up(holder, name)) is float and name in holder.__dict__

    def _float(self, holder: Any, cls: Any, name: str, path: str) -> Varying:
        """A float that varies from call to call, and is guarded only if its value is used."""
        key = id(holder), name
        if key not in self._floats:
            guard = FloatGuard(weakref.ref(holder), name, path)

            def fix() -> None:
                if key not in self._guards:
                    self._guards[key] = self._guard(holder, cls, name, path)

            self._floats[key] = guard, Varying(guard.value, fix)
        return self._floats[key][1]

    def wrote(self, holder: Any, name: str) -> None:
        """Note that an attribute is set or deleted."""
        key = id(holder), name
        if key in self._floats:
            self._floats[key][1].fix()
        if key not in self._guards:
            self._written.add(key)

    def numbers(self, array: Any) -> None:
        """Note that an array's numbers are used."""
        if id(array) not in self._numbers:
            self._numbers[id(array)] = NumbersGuard(array)

    def is_recording(self) -> bool:
        """Whether the call is recorded, which is noted."""
        self._modes = [RecordingGuard(self._recording)]
        return self._recording

    def meet(self, value: Any, path: str = "") -> None:
        """Note, from now on, what is read of an object, and of those in a container."""
        if isinstance(value, list | tuple):
            for i, each in enumerate(_elements(value)):
                self.meet(each, f"{path}[{i}]")
        elif isinstance(value, dict):
            for key, each in _items(value):
                self.meet(each, f"{path}[{key!r}]")
        elif is_watchable(value) and id(value) not in self._paths:
            self._paths[id(value)] = f"{path}."
            self._watched.append(value)
            with _LOCK.current:
                _watch(value)

    def _path(self, holder: Any, cls: type) -> str:
        prefix = getattr(holder, "__dict__", {}).get("_prefix")
        return self._paths.get(id(holder), f"{cls.__name__}.") if prefix is None else prefix

    def _guard(self, holder: Any, cls: type, name: str, path: str) -> Guard:
        value = look_up(holder, name)
        is_block = isinstance(holder, BlockRoot)
        owner = None if name in holder.__dict__ else in_class(cls, name)[0]
        is_noticed = is_block and (owner is None or issubclass(owner, BlockRoot) or owner is object)
        is_noticed &= isinstance(value, Children) or not is_mutable(value)
        reference: Callable[[], Any] = weakref.ref(holder) if is_block else lambda: holder
        return Guard(reference, name, path, value, self._contents, is_noticed)

    # --- the end -------------------------------------------------------------------------------------------

    def finish(self, captured: list[np.ndarray[Any, Any]]) -> None:
        """The trace is done: arrays that it takes as inputs may hold other numbers."""
        for contents in self._contents:
            contents.is_input = any(np.may_share_memory(contents.array, x) for x in captured)
        inputs = {id(c.array) for c in self._contents if c.is_input}
        for guard in self._guards.values():
            now = guard.value()
            if isinstance(now, np.ndarray) and id(now) in inputs:  # pyright: ignore[reportUnknownArgumentType]
                guard.is_noticed = True
            if guard.changed() and _is_cached(guard.holder(), guard.name):
                guard.accept(now, self._contents)

    def release(self) -> None:
        """Note nothing more."""
        with _LOCK.current:
            for each in self._watched:
                _release(each)


def _has_symbol(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_has_symbol, _elements(value)))
    if isinstance(value, dict):
        return any(_has_symbol(v) for _, v in _items(value))
    return isinstance(value, TracedSymbol)


def _elements(value: Any) -> list[Any]:
    return list(value)


def _items(value: Any) -> list[tuple[Any, Any]]:
    return list(value.items())


def _is_cached(holder: Any, name: str) -> bool:
    """Whether the class computes a field when it is first read, as functools.cached_property does."""
    found = in_class(type_of(holder), name)[1]
    return found is not MISSING and hasattr(type_of(found), "__get__") and name in getattr(holder, "__dict__", {})


def _counts(holder: Any, name: str) -> bool:
    """Whether the forward depends on an attribute; children and parameters drop the graphs when they change."""
    if not isinstance(holder, BlockRoot):
        return True
    if name in _INTERNAL:
        return False
    value = holder.__dict__.get(name)
    return not isinstance(value, Parameter) and not (isinstance(value, BlockRoot) and name in holder._children)


@contextlib.contextmanager
def watching(block: Any, varying: Set[str] = frozenset()) -> Generator[Reading]:
    """Note the attributes that are read, inside, of a block, of all its descendants, and of what is met there.

    Floats at the paths ``varying`` are read as :class:`~hybridc.trace.varying.Varying`.

    Their classes are exchanged for subclasses that notice reads, so that blocks pay nothing when not traced. Threads
    may watch the same blocks at the same time: no lock is held while the block's code runs.
    """
    reading = Reading(varying)
    for each in list(_descendants(block, set())):
        reading.meet(each)
    before, STATE.reading = STATE.reading, reading
    try:
        yield reading
    finally:
        STATE.reading = before
        reading.release()


# --- classes that notice ----------------------------------------------------------------------------------------


def is_watchable(value: Any) -> bool:
    """Whether reads of an object can be noted: of blocks, and of objects of users' classes as most are."""
    return isinstance(value, BlockRoot) or (is_users(type_of(value)) and is_plain(type_of(value)))


def _watch(value: Any) -> None:
    times, cls = _WATCHED.get(id(value), (0, type_of(value)))
    if not times:
        try:
            object.__setattr__(value, "__class__", _watched(cls))
        except TypeError:  # of a kind that cannot be exchanged
            refuse(cls)
            return
    _WATCHED[id(value)] = times + 1, cls


def _release(value: Any) -> None:
    times, cls = _WATCHED.get(id(value), (0, type_of(value)))
    if times > 1:
        _WATCHED[id(value)] = times - 1, cls
    elif times:
        del _WATCHED[id(value)]
        object.__setattr__(value, "__class__", cls)


def _descendants(block: Any, seen: set[int]) -> Iterator[Any]:
    stack = [block]
    while stack:
        block = stack.pop()
        if id(block) not in seen:
            seen.add(id(block))
            yield block
            stack += reversed(block._children.values())


def _watched(cls: Any) -> Any:
    """A subclass that records attribute reads and writes; cached with its class, and freed with it."""
    made = cls.__dict__.get(_KEPT)
    if made is None:
        # Not super() inside: another thread may give the class back meanwhile.

        def getattribute(self: Any, name: str) -> Any:
            reading = STATE.reading
            if reading is None:
                return cls.__getattribute__(self, name)
            if name[:2] == "__":
                return cls if name == "__class__" else cls.__getattribute__(self, name)
            return reading.read(self, cls, name)

        def setattr_(self: Any, name: str, value: Any) -> None:
            if STATE.reading is not None:
                STATE.reading.wrote(self, name)
            cls.__setattr__(self, name, used(value))

        def delattr_(self: Any, name: str) -> None:
            if STATE.reading is not None:
                STATE.reading.wrote(self, name)
            cls.__delattr__(self, name)

        hooks = {"__getattribute__": getattribute, "__setattr__": setattr_, "__delattr__": delattr_}
        base = BlockRoot if issubclass(cls, BlockRoot) else Plain
        made: Any = type(
            cls.__name__, (base,), {**hooks, "__module__": cls.__module__, "__qualname__": cls.__qualname__}
        )
        # Only now, and without theirs: the hooks of the user's class, and of its metaclass, need not know of it.
        type.__setattr__(made, "__bases__", (cls,))
        type.__setattr__(made, _KEPT, made)
        type.__setattr__(cls, _KEPT, made)
    return made

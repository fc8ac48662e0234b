"""Guards: values read while tracing, which must be unchanged for a compiled graph to be reused.

Numbers, strings, containers and NumPy's arrays count by value; other objects, such as functions, by identity.
"""

from __future__ import annotations

import enum
import functools
import operator
import sys
import types
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hybridc.ground.state import STATE

MISSING = object()
_CHANGES = object()

_NUMBERS: Any = (bool, int, float, complex, str, bytes, type(None), np.generic)
_PLAIN_NUMBERS = frozenset({bool, int, float, str, type(None)})
_SEQUENCES: Any = (list, tuple, deque)
_CONTAINERS: Any = (*_SEQUENCES, dict, set, frozenset, bytearray)
_HEAP = 1 << 9  # the flag of types that are made at run time
# Packages whose objects count by identity: what is in them is no business of a network.
_LIBRARIES = frozenset({*sys.stdlib_module_names, "hybridc", "numpy", "scipy", "xdsl", "llvmlite"})


class Plain:
    """An object as most classes make them: of its layout are those whose class can be exchanged."""


# Classes that are of this layout, but refuse.
_UNWATCHABLE: weakref.WeakSet[type] = weakref.WeakSet()


def refuse(cls: type) -> None:
    """Note that the class of such objects cannot be exchanged: they count by their fields."""
    _UNWATCHABLE.add(cls)
    _counts_by_identity.cache_clear()


class _Same:
    """An object that equals only itself."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value

    __hash__ = None  # pyright: ignore[reportAssignmentType]


class Contents:
    """An array with its contents, if these are guarded; of an input of the graph only the array is guarded."""

    __slots__ = ("array", "is_input", "kept")

    def __init__(self, array: np.ndarray[Any, Any], keep: bool) -> None:
        self.array = array
        self.kept = _numbers(array) if keep else None
        self.is_input = False

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Contents) or other.array is not self.array:
            return False
        if self.is_input or other.is_input:
            return True
        kept = self.kept if self.kept is not None else other.kept
        return kept == _numbers(self.array)

    __hash__ = None  # pyright: ignore[reportAssignmentType]


def _numbers(array: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    return array.shape, array.dtype, array.tobytes()


def snapshot(value: Any, kept: list[Contents] | None = None, outside: tuple[int, ...] = ()) -> Any:
    """A comparable snapshot of a value; contents of arrays are appended to ``kept``."""
    kind = class_of(value)
    if kind in _PLAIN_NUMBERS:
        return kind, repr(value)  # by text: nan is unchanged then, and 0.0 is not -0.0
    if _counts_by_identity(type_of(value)):
        return _Same(value)
    if id(value) in outside:
        return kind
    inside = (*outside, id(value))
    if isinstance(value, _NUMBERS):
        found: Any = repr(value)
    elif isinstance(value, dict):
        found = [(snapshot(k, kept, inside), snapshot(v, kept, inside)) for k, v in _items(value)]
    elif isinstance(value, set | frozenset):
        found = frozenset(_elements(value))
    elif isinstance(value, bytearray):
        found = bytes(value)
    elif isinstance(value, _SEQUENCES):
        found = [snapshot(v, kept, inside) for v in _elements(value)]
    elif isinstance(value, np.ndarray):
        found = Contents(_array(value), kept is not None)
        if kept is not None:
            kept.append(found)
        return kind, found
    else:
        found = id(value)
    return kind, found, [(name, snapshot(v, kept, inside)) for name, v in fields(value)]


def _items(value: Any) -> list[tuple[Any, Any]]:
    return list(value.items())


def _elements(value: Any) -> list[Any]:
    return list(value)


def _array(value: Any) -> Any:
    return value


def class_of(value: Any) -> Any:
    """The class of an object, also while reads of it are noted."""
    return value.__class__


def type_of(value: Any) -> Any:
    """The class that an object has now: while reads of it are noted, the one that notes them."""
    cls: Any = type(value)  # pyright: ignore[reportUnknownVariableType]
    return cls


def is_mutable(value: Any) -> bool:
    """Whether a value that is a guard may change in place, unnoticed."""
    if isinstance(value, tuple) and class_of(value) is tuple:
        return any(map(is_mutable, _elements(value)))
    cls = type_of(value)
    if isinstance(value, _NUMBERS):
        return cls.__dictoffset__ != 0
    return not _counts_by_identity(cls)


@functools.lru_cache(512)
def _counts_by_identity(cls: type) -> bool:
    return not issubclass(cls, (*_NUMBERS, *_CONTAINERS, np.ndarray)) and not counts_by_fields(cls)


def is_users(cls: type) -> bool:
    """Whether a user wrote a class, of which objects have attributes that matter."""
    if not cls.__flags__ & _HEAP or issubclass(cls, type | BaseException | enum.Enum):
        return False
    return cls.__module__.partition(".")[0] not in _LIBRARIES


def is_plain(cls: type) -> bool:
    """Whether objects of a class have the layout of :class:`Plain`."""
    ours = (Plain.__basicsize__, Plain.__dictoffset__, Plain.__weakrefoffset__, Plain.__itemsize__)
    layout = (cls.__basicsize__, cls.__dictoffset__, cls.__weakrefoffset__, cls.__itemsize__)
    return layout == ours and cls not in _UNWATCHABLE


def counts_by_fields(cls: type) -> bool:
    """Whether objects count by the values of their fields: records, and those whose reads cannot be noted."""
    if cls is types.SimpleNamespace or (cls.__module__, cls.__name__) == ("argparse", "Namespace"):
        return True
    return is_users(cls) and not issubclass(cls, _CONTAINERS) and not is_plain(cls)


def fields(value: Any) -> list[tuple[str, Any]]:
    """The fields of an object, in its dict and in slots."""
    found = [(name, look_up(value, name)) for name in _slots(type_of(value))]
    return [*found, *getattr(value, "__dict__", {}).items()]


@functools.lru_cache(512)
def _slots(cls: type) -> tuple[str, ...]:
    """The fields that objects of a class have in slots."""
    if not cls.__flags__ & _HEAP:
        return ()
    names = [name for base in cls.__mro__ for name, v in vars(base).items() if type(v) is types.MemberDescriptorType]
    return tuple(dict.fromkeys(names))


def look_up(holder: Any, name: str) -> Any:
    """An attribute without running any code of the holder's class: a field, or what the class has."""
    found = in_class(type_of(holder), name)[1]
    if type_of(found) is types.MemberDescriptorType:
        try:
            return found.__get__(holder)
        except AttributeError:
            return MISSING
    if hasattr(type_of(found), "__set__"):  # a property stands before fields
        return found
    return getattr(holder, "__dict__", {}).get(name, found)


def in_class(cls: type, name: str) -> tuple[type | None, Any]:
    """The attribute of a class by name, and the base that defines it."""
    for base in cls.__mro__:
        if name in base.__dict__:
            return base, base.__dict__[name]
    return None, MISSING


def describe(value: Any) -> str:
    """A value in a few words."""
    if value is MISSING:
        return "nothing"
    text = repr(value) if _is_short(value) else "\n"
    return text if "\n" not in text and len(text) <= 80 else f"one {class_of(value).__name__}"


def _is_short(value: Any) -> bool:
    """Whether a value is a number, or a container of few, and not, for example, of the blocks of a network."""
    left, work = 80, [value]
    while work and left:
        left -= 1
        value = work.pop()
        if isinstance(value, _CONTAINERS):
            work += [*value, *value.values()] if isinstance(value, dict) else value
        elif not isinstance(value, _NUMBERS):
            return False
    return not work


class Guard:
    """An attribute and the value that was read while tracing.

    ``is_noticed`` says that a change of it moves the epoch of attributes; others have to be compared at every call.
    """

    __slots__ = ("_kind", "_parts", "_same", "_snapshot", "_text", "holder", "is_noticed", "name", "path")

    def __init__(
        self, holder: Callable[[], Any], name: str, path: str, value: Any, kept: list[Contents], is_noticed: bool
    ) -> None:
        self.holder = holder
        self.name = name
        self.path = path
        self.is_noticed = is_noticed
        self.accept(value, kept)

    def value(self) -> Any:
        """The value that it has now."""
        holder = self.holder()
        return MISSING if holder is None else look_up(holder, self.name)

    def changed(self) -> bool:
        """Whether the attribute has another value now."""
        holder = self.holder()
        if holder is None:
            return True
        value = look_up(holder, self.name)
        if value is self._same and (self._parts is None or _are(_parts(value), self._parts)):
            return False
        return snapshot(value) != self._snapshot

    def is_other_float(self) -> bool:
        """Whether the attribute is a float of a block, and was another one."""
        return self.is_noticed and self._kind is float and type_of(self.value()) is float and self.changed()

    def accept(self, value: Any, kept: list[Contents]) -> None:
        """Count another value as the one that was read."""
        self._text, self._snapshot = describe(value), snapshot(value, kept)
        self._kind = class_of(value)
        # An object that cannot change has always the same value; so has a list or a dict of the same such objects.
        self._parts = _parts(value) if type_of(value) in (list, dict) else None
        changes = is_mutable(value) if self._parts is None else any(map(is_mutable, self._parts))
        self._same = _CHANGES if changes else value

    def reason(self) -> str:
        """A description of the change."""
        now = self.value()
        text = describe(now)
        text = text if text != self._text else f"another {class_of(now).__name__}"
        return f"attribute {self.path} changed from {self._text} to {text}"


def _parts(value: Any) -> tuple[Any, ...]:
    """The elements of a list; the keys and the values of a dict."""
    return (*value, *value.values()) if type_of(value) is dict else tuple(value)


def _are(now: tuple[Any, ...], before: tuple[Any, ...]) -> bool:
    """Whether these are the same objects."""
    return len(now) == len(before) and all(map(operator.is_, now, before))


class FloatGuard:
    """A field that is a float, whichever it is: it is an argument of the graph."""

    __slots__ = ("_name", "holder", "path")

    is_noticed = True

    def __init__(self, holder: Callable[[], Any], name: str, path: str) -> None:
        self.holder = holder
        self._name = name
        self.path = path

    def value(self) -> Any:
        """The value that it has now."""
        holder = self.holder()
        return MISSING if holder is None else look_up(holder, self._name)

    def changed(self) -> bool:
        """Whether it is no float now."""
        return type_of(self.value()) is not float

    def reason(self) -> str:
        """A description of the change."""
        return f"attribute {self.path} was a float, and is {describe(self.value())} now"


class NumbersGuard:
    """An array whose numbers the forward function used as Python's while it was traced."""

    __slots__ = ("_array", "_kept")

    is_noticed = False

    def __init__(self, array: Any) -> None:
        self._array = array
        self._kept = self._now()

    def _now(self) -> Any:
        data = self._array._data
        return _numbers(_array(data) if isinstance(data, np.ndarray) else data.host())  # of the CPU, or of a device

    def changed(self) -> bool:
        """Whether the array holds other numbers now."""
        return self._now() != self._kept

    def reason(self) -> str:
        """A description of the change."""
        return f"an array of shape {self._array.shape} changed whose numbers were read while tracing"


class RecordingGuard:
    """The guard on ``autograd.is_recording()``, if the forward function called it."""

    __slots__ = ("_recorded",)

    is_noticed = False

    def __init__(self, recorded: bool) -> None:
        self._recorded = recorded

    def changed(self) -> bool:
        """Whether it is the other way round now."""
        return STATE.recording is not self._recorded

    def reason(self) -> str:
        """A description of the change."""
        return f"autograd.is_recording() is {STATE.recording}, compiled before for {self._recorded}"


Guards = Sequence[Guard | FloatGuard | NumbersGuard | RecordingGuard]

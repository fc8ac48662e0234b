"""Which attributes a forward function reads: they are part of a compiled graph's signature.

Numbers, strings and containers count by value; arrays, functions and other objects by identity. What is in an
array may change: it is read again at every call.
"""

from __future__ import annotations

import contextlib
import inspect
import threading
import weakref
from collections.abc import Generator, Iterator
from typing import Any

import numpy as np

from hybridc.runtime.locks import ForkLock

# What Block itself keeps in its fields; a change there drops the graphs.
_INTERNAL = frozenset(
    {
        "_active",
        "_cached_graph",
        "_children",
        "_backends",
        "_forward_hooks",
        "_forward_pre_hooks",
        "_name",
        "_params",
        "_parents",
        "_prefix",
        "_reg_params",
        "_scope",
    }
)
_NUMBERS: Any = (bool, int, float, complex, str, type(None), np.generic)
_CONTAINERS: Any = (list, tuple, dict, set, frozenset)
_MISSING = object()

_LOCK = ForkLock()
# The field of a user's class that holds its watched subclass.
_KEPT = "__hybridc_watched__"
# The blocks that are watched, by identity: how often, and the class that each has otherwise.
_WATCHED: dict[int, tuple[int, type]] = {}


class _Reading(threading.local):
    """What this thread notes, the innermost trace last: what other threads read is not of it."""

    def __init__(self) -> None:
        self.stack: list[dict[tuple[int, str], Read]] = []


_READING = _Reading()


class _Same:
    """An object that equals only itself."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value

    __hash__ = None  # pyright: ignore[reportAssignmentType]


def snapshot(value: Any) -> Any:
    """What must stay equal for a value to count as unchanged."""
    kind = _type(value)
    if isinstance(value, _NUMBERS):
        return kind, repr(value)  # by text: nan is unchanged then, and 0.0 is not -0.0
    if isinstance(value, dict):
        return kind, [(snapshot(k), snapshot(v)) for k, v in _items(value)]
    if isinstance(value, set | frozenset):
        return kind, frozenset(_elements(value))
    return (kind, [snapshot(v) for v in _elements(value)]) if isinstance(value, _CONTAINERS) else _Same(value)


def _items(value: Any) -> list[tuple[Any, Any]]:
    return list(value.items())


def _elements(value: Any) -> list[Any]:
    return list(value)


def _describe(value: Any) -> str:
    if value is _MISSING:
        return "nothing"
    text = repr(value) if isinstance(value, _NUMBERS + _CONTAINERS) else "\n"
    return text if "\n" not in text and len(text) <= 80 else f"one {_kind(value)}"


def _kind(value: Any) -> str:
    return type(value).__name__


def _type(value: Any) -> Any:
    return value.__class__


class Read:
    """An attribute of a block and the value that was read while tracing."""

    __slots__ = ("block", "mutable", "name", "path", "snapshot", "text")

    def __init__(self, block: Any, name: str, value: Any) -> None:
        self.block = weakref.ref(block)
        self.path = f"{block.__dict__.get('_prefix', '')}{name}"
        self.name = name
        self.text = _describe(value)
        self.snapshot = snapshot(value)
        self.mutable = _is_mutable(value)

    def changed(self) -> bool:
        """Whether the attribute has another value now."""
        block = self.block()
        return block is None or snapshot(_look_up(block, self.name)) != self.snapshot

    def became_symbol(self) -> bool:
        """Whether the attribute was replaced, since it was read, by a value of a graph being traced."""
        block = self.block()
        return block is not None and _has_symbol(_look_up(block, self.name)) and self.changed()

    def text_now(self) -> str:
        """The value that it has now, for a message."""
        block = self.block()
        now = _MISSING if block is None else _look_up(block, self.name)
        text = _describe(now)
        return text if text != self.text else f"another {_kind(now)}"


def _has_symbol(value: Any) -> bool:
    from hybridc.symbol.traced import TracedSymbol

    if isinstance(value, list | tuple):
        return any(_has_symbol(v) for v in _elements(value))
    return isinstance(value, TracedSymbol)


def _is_mutable(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(_is_mutable(v) for v in _elements(value))
    return isinstance(value, list | dict | set)


def _look_up(block: Any, name: str) -> Any:
    """The attribute without running any code of the block."""
    fields = block.__dict__
    cls = _type(block)
    return fields[name] if name in fields else inspect.getattr_static(cls, name, _MISSING)


def _counts(block: Any, name: str) -> bool:
    """Whether the forward depends on an attribute; methods, children and parameters do not count."""
    from hybridc.gluon.block import Block
    from hybridc.gluon.parameter import Parameter

    if name in _INTERNAL or name.startswith("__"):
        return False
    value = _look_up(block, name)
    if name in block.__dict__ or value is _MISSING:
        return not isinstance(value, Block | Parameter)
    return isinstance(value, _NUMBERS + _CONTAINERS)


@contextlib.contextmanager
def watching(block: Any) -> Generator[dict[tuple[int, str], Read]]:
    """Record the attributes that are read, inside, of a block and of all its descendants.

    Their classes are exchanged for subclasses that notice reads, so that blocks pay nothing when not traced. Threads
    may watch the same blocks at the same time: no lock is held while the block's code runs.
    """
    reads: dict[tuple[int, str], Read] = {}
    blocks = list(_descendants(block, set()))
    with _LOCK.current:
        for each in blocks:
            _watch(each)
    _READING.stack.append(reads)
    try:
        yield reads
    finally:
        _READING.stack.pop()
        with _LOCK.current:
            for each in blocks:
                _release(each)


def _watch(block: Any) -> None:
    times, cls = _WATCHED.get(id(block), (0, _type(block)))
    _WATCHED[id(block)] = times + 1, cls
    if not times:
        object.__setattr__(block, "__class__", _watched(cls))


def _release(block: Any) -> None:
    times, cls = _WATCHED[id(block)]
    if times > 1:
        _WATCHED[id(block)] = times - 1, cls
        return
    del _WATCHED[id(block)]
    object.__setattr__(block, "__class__", cls)


def _descendants(block: Any, seen: set[int]) -> Iterator[Any]:
    if id(block) in seen:
        return
    seen.add(id(block))
    yield block
    for child in block._children.values():
        yield from _descendants(child, seen)


def _watched(cls: Any) -> Any:
    """The subclass of a block's class that notes reads; it is kept with the class, and goes with it."""
    from hybridc.gluon.block import Block

    made = cls.__dict__.get(_KEPT)
    if made is None:

        def getattribute(self: Any, name: str) -> Any:
            stack = _READING.stack
            if stack and (id(self), name) not in stack[-1] and _counts(self, name):
                stack[-1][id(self), name] = Read(self, name, _look_up(self, name))
            return cls.__getattribute__(self, name)  # not super(): another thread may give the class back meanwhile

        made: Any = type(cls.__name__, (Block,), {"__getattribute__": getattribute, "__module__": cls.__module__})
        made.__bases__ = (cls,)  # only now: the hooks of the user's class need not know of it
        setattr(made, _KEPT, made)
        setattr(cls, _KEPT, made)
    return made

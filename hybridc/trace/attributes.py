"""Which plain attributes a forward function reads: they are part of a compiled graph's signature."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Generator, Iterator
from typing import Any

import numpy as np

PLAIN = (bool, int, float, str, tuple, type(None), np.generic)

_LOCK = threading.RLock()
_WATCHED: dict[type, type] = {}
_READS: list[dict[tuple[int, str], Read]] = []


class Read:
    """An attribute of a block and the value that was read while tracing."""

    __slots__ = ("block", "name", "path", "value")

    def __init__(self, block: Any, name: str, value: Any) -> None:
        self.block = weakref.ref(block)
        self.path = f"{block.__dict__.get('_prefix', '')}{name}"
        self.name = name
        self.value = value

    def changed(self) -> bool:
        """Whether the attribute has another value now."""
        block = self.block()
        if block is None:
            return True
        now = block.__dict__.get(self.name, Read)
        return type(now) is not type(self.value) or now != self.value


@contextlib.contextmanager
def watching(block: Any) -> Generator[dict[tuple[int, str], Read]]:
    """Record the plain attributes that are read, inside, of a block and of all its descendants.

    Their classes are exchanged for subclasses that notice reads, so that blocks pay nothing when not being traced.
    """
    with _LOCK:
        reads: dict[tuple[int, str], Read] = {}
        blocks = list(_descendants(block, set()))
        originals: list[tuple[Any, type]] = [(b, type(b)) for b in blocks]
        _READS.append(reads)
        for b, cls in originals:
            object.__setattr__(b, "__class__", _watched(cls))
        try:
            yield reads
        finally:
            for b, cls in originals:
                object.__setattr__(b, "__class__", cls)
            _READS.pop()


def _is_plain(value: Any) -> bool:
    return isinstance(value, PLAIN)


def _descendants(block: Any, seen: set[int]) -> Iterator[Any]:
    if id(block) in seen:
        return
    seen.add(id(block))
    yield block
    for child in block._children.values():
        yield from _descendants(child, seen)


def _watched(cls: type) -> type:
    if cls in _WATCHED.values():
        return cls
    if cls not in _WATCHED:

        def getattribute(self: Any, name: str) -> Any:
            value: Any = super(_WATCHED[cls], self).__getattribute__(name)
            if _READS and _is_plain(value) and not name.startswith("__"):
                fields = object.__getattribute__(self, "__dict__")
                if name in fields:
                    _READS[-1].setdefault((id(self), name), Read(self, name, value))
            return value

        _WATCHED[cls] = type(
            cls.__name__, (cls,), {"__getattribute__": getattribute, "__module__": cls.__module__}
        )
    return _WATCHED[cls]

"""The buffer pool for results: large buffers are reused, because fresh pages cost more than most kernels.

A fresh array of 16 MiB costs 4096 page faults, several milliseconds; an elementwise kernel over it costs less. So the
pool keeps the buffers it gave out. A buffer is free again when only the pool refers to it: every view of an
array refers to the owner of the memory, so its reference count shows this. The count of an unused buffer
depends on the interpreter, so it is measured at import; where reference counts are not exact nothing is pooled.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from hybridc.ground.locks import ForkLock
from hybridc.ground.machine import NOMINAL
from hybridc.options import OPTIONS

# Smaller arrays come from malloc's own free lists without page faults: from this size on glibc asks the system.
SMALLEST = 1 << 17
# Arrays start at lines of the cache, which the widest vectors fill.
ALIGNMENT = NOMINAL.line
# The largest buffers whose sizes are powers of two.
_COARSE = 1 << 23
# A buffer, and where its aligned bytes begin.
_Entry = tuple[Any, int]


def _references(entry: _Entry) -> int:
    """The reference count of a buffer, in this very expression: its entry, other owners, perhaps the call."""
    return sys.getrefcount(entry[0])


def _idle() -> int | None:
    """:func:`_references` of an unused buffer; None if counts are not exact."""
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return None
    entry = (np.empty(1, np.uint8), 0)
    idle = _references(entry)
    view = entry[0][:0].view(np.int8)
    in_use = _references(entry)
    del view
    return idle if in_use == idle + 1 and _references(entry) == idle else None


_IDLE = _idle()
COUNTS_ARE_EXACT = _IDLE is not None


def capacity(size: int) -> int:
    """The bytes of the buffers that serve arrays of a size: powers of two, from 8 MiB on eighths of these.

    Thus arrays of many sizes, as of a network whose batches differ, share a few buffers. Pages behind the end of an
    array are never touched, so they take no memory.
    """
    power = 1 << (size - 1).bit_length()
    step = power if power <= _COARSE else power // 16
    return -(-size // step) * step


class BufferPool:
    """Buffers by capacity; at most ``limit`` bytes are kept."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bytes = 0
        self._buffers: dict[int, list[_Entry]] = {}
        self._lock = ForkLock()

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        """An uninitialised array, in reused memory if possible."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if size < SMALLEST:
            return np.empty(shape, dtype)
        buffer, start = self._take(size)
        return np.ndarray(shape, dtype, buffer, start)

    def take(self, size: int) -> Any:
        """An unused buffer; ``size`` bytes follow its first address divisible by ALIGNMENT.

        It is in use as long as the array returned, or an array over its memory, exists.
        """
        return self._take(size)[0]

    def _take(self, size: int) -> _Entry:
        if not COUNTS_ARE_EXACT:
            return _aligned(size)
        size = capacity(size)
        with self._lock.current:
            for entry in self._buffers.get(size, ()):
                if _references(entry) == _IDLE:
                    buffer, start = entry
                    return buffer, start  # refers to it before another thread may ask
            if self.bytes + size > self.limit:
                self._trim()
            buffer, start = _aligned(size)
            if self.bytes + size <= self.limit:
                self._buffers.setdefault(size, []).append((buffer, start))
                self.bytes += size
            return buffer, start

    def owns(self, buffer: Any) -> bool:
        """Whether a buffer is the pool's."""
        return any(buffer is own for own, _ in self._buffers.get(buffer.nbytes - ALIGNMENT, ()))

    def trim(self) -> None:
        """Return all free buffers to the system."""
        with self._lock.current:
            self._trim()

    def _trim(self) -> None:
        for size, buffers in list(self._buffers.items()):
            busy = [entry for entry in buffers if _references(entry) != _IDLE]
            self.bytes -= size * (len(buffers) - len(busy))
            self._buffers[size] = busy


def _aligned(size: int) -> _Entry:
    """A fresh buffer."""
    buffer = np.empty(size + ALIGNMENT, np.uint8)
    return buffer, -buffer.ctypes.data % ALIGNMENT


POOL = BufferPool(OPTIONS.pool_bytes)
empty = POOL.empty
take = POOL.take

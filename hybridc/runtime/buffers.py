"""Memory for results: large buffers are kept and used again, because fresh pages cost more than most kernels.

A fresh array of 16 MiB costs 4096 page faults, several milliseconds; an elementwise kernel over it costs less. So the
pool keeps the buffers it gave out. A buffer is free again when nobody but the pool refers to it: every view of an
array refers to the array that owns the memory, so its reference count tells.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from hybridc.options import OPTIONS
from hybridc.runtime.locks import ForkLock

# Smaller arrays come from malloc's own free lists without page faults.
SMALLEST = 1 << 17
# Where vectors and cache lines begin.
ALIGNMENT = 64
# What sys.getrefcount says of a buffer that only the pool's list, the loop variable and the call refer to.
_IDLE = 3
COUNTS_ARE_EXACT = getattr(sys, "_is_gil_enabled", lambda: True)()


class BufferPool:
    """Buffers by size; at most ``limit`` bytes are kept."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bytes = 0
        self._buffers: dict[int, list[tuple[Any, int]]] = {}
        self._lock = ForkLock()

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        """An uninitialised array, in memory that was used before if possible."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if size < SMALLEST:
            return np.empty(shape, dtype)
        buffer, start = self._take(size)
        return np.ndarray(shape, dtype, buffer, start)

    def take(self, size: int) -> Any:
        """A buffer of bytes that nobody else has; ``size`` of them follow its first address divisible by ALIGNMENT.

        It is in use as long as the array returned, or an array over its memory, exists.
        """
        return self._take(size)[0]

    def _take(self, size: int) -> tuple[Any, int]:
        if not COUNTS_ARE_EXACT:
            return _aligned(size)
        with self._lock.current:
            for buffer, start in self._buffers.get(size, ()):
                if sys.getrefcount(buffer) == _IDLE:
                    return buffer, start
            if self.bytes + size > self.limit:
                self._trim()
            made = _aligned(size)
            if self.bytes + size <= self.limit:
                self._buffers.setdefault(size, []).append(made)
                self.bytes += size
            return made

    def owns(self, buffer: Any) -> bool:
        """Whether this is a buffer of the pool."""
        return any(buffer is own for own, _ in self._buffers.get(buffer.nbytes - ALIGNMENT, ()))

    def trim(self) -> None:
        """Return all free buffers to the system."""
        with self._lock.current:
            self._trim()

    def _trim(self) -> None:
        for size, buffers in list(self._buffers.items()):
            busy: list[tuple[Any, int]] = []
            while buffers:
                buffer, start = buffers.pop()
                if sys.getrefcount(buffer) > _IDLE - 1:
                    busy.append((buffer, start))
                else:
                    self.bytes -= size
            self._buffers[size] = busy


def _aligned(size: int) -> tuple[Any, int]:
    """A buffer, and where its aligned bytes begin."""
    buffer = np.empty(size + ALIGNMENT, np.uint8)
    return buffer, -buffer.ctypes.data % ALIGNMENT


POOL = BufferPool(OPTIONS.pool_bytes)
empty = POOL.empty
take = POOL.take

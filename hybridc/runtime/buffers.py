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
# What sys.getrefcount says of a buffer that only the pool's list, the loop variable and the call refer to.
_IDLE = 3
_COUNTS_ARE_EXACT = getattr(sys, "_is_gil_enabled", lambda: True)()


class BufferPool:
    """Buffers by size; at most ``limit`` bytes are kept."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bytes = 0
        self._buffers: dict[int, list[Any]] = {}
        self._lock = ForkLock()

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        """An uninitialised array, in memory that was used before if possible."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if size < SMALLEST or not _COUNTS_ARE_EXACT:
            return np.empty(shape, dtype)
        with self._lock.current:
            for buffer in self._buffers.get(size, ()):
                if sys.getrefcount(buffer) == _IDLE:
                    return buffer.view(dtype).reshape(shape)
            if self.bytes + size > self.limit:
                self._trim()
            buffer = np.empty(size, np.uint8)
            if self.bytes + size <= self.limit:
                self._buffers.setdefault(size, []).append(buffer)
                self.bytes += size
            return buffer.view(dtype).reshape(shape)

    def trim(self) -> None:
        """Return all free buffers to the system."""
        with self._lock.current:
            self._trim()

    def _trim(self) -> None:
        for size, buffers in list(self._buffers.items()):
            busy: list[Any] = []
            while buffers:
                buffer = buffers.pop()
                if sys.getrefcount(buffer) > _IDLE - 1:
                    busy.append(buffer)
                else:
                    self.bytes -= size
            self._buffers[size] = busy


POOL = BufferPool(OPTIONS.pool_bytes)
empty = POOL.empty

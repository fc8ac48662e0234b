"""The threads of native kernels: their number, start and stop."""

from __future__ import annotations

import atexit
import ctypes
import math
import os
import platform
import sys
import time
from typing import Any

from hybridc.ground.buffers import ALIGNMENT
from hybridc.ground.locks import ForkLock
from hybridc.lower.llvm.executor.structures import ClaimRecord, Outside, Pool
from hybridc.options import OPTIONS

# The futex system call's number, on systems where our threads can wait by it.
_FUTEX = {"x86_64": 202, "aarch64": 98}


class Threads:
    """The thread pool of this process. Its workers start with the first region that is large enough."""

    def __init__(self, outside: Outside, stop: Any) -> None:
        self._outside = outside
        self._stop = stop
        self._lock = ForkLock()
        self._pools: list[Any] = []  # never freed: a late worker or caller may still read one
        self._pool = self._make(OPTIONS.num_threads)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._renew)
        atexit.register(self._stop_all)

    @property
    def count(self) -> int:
        """The number of threads of a region, the caller included."""
        return int(self._pool.threads)

    def set_count(self, count: int) -> None:
        """Set the number of threads."""
        with self._lock.current:
            if count != self.count:
                old, self._pool = self._pool, self._make(count)
                self._end(old)

    def names(self) -> dict[int, str]:
        """The names of the workers that were started, by their identities."""
        handles = ctypes.cast(self._pool.handles, ctypes.POINTER(ctypes.c_uint64))
        return {handles[i]: f"hybridc worker {i + 1}" for i in range(self._pool.started)}

    def _make(self, count: int) -> Pool:
        outside = self._outside
        outside.futex = _FUTEX.get(platform.machine(), 0) if sys.platform == "linux" else 0
        if not outside.futex:
            count = 1
        memory = (ctypes.c_char * (ctypes.sizeof(Pool) + ALIGNMENT))()
        handles, claims = (ctypes.c_int64 * count)(), (ClaimRecord * count)()
        self._pools += [memory, handles, claims]
        pool = Pool.from_address(-(-ctypes.addressof(memory) // ALIGNMENT) * ALIGNMENT)
        pool.outside = ctypes.addressof(outside)
        pool.threads = count
        pool.handles = ctypes.addressof(handles)
        pool.claims = ctypes.addressof(claims)
        outside.pool = ctypes.addressof(pool)
        return pool

    def _end(self, pool: Pool, patience: float = math.inf) -> None:
        """Stop a pool's workers, after the current region, and join them."""
        end = time.monotonic() + patience
        while not self._stop(ctypes.addressof(pool)):
            if time.monotonic() > end:
                return
            time.sleep(1e-4)
        handles = ctypes.cast(pool.handles, ctypes.POINTER(ctypes.c_int64))
        for index in range(pool.started):
            ctypes.CDLL(None).pthread_join(ctypes.c_int64(handles[index]), None)

    def _stop_all(self) -> None:
        with self._lock.current:
            self._end(self._pool, patience=1.0)

    def _renew(self) -> None:
        # The forked child has no workers, and the parent's regions were cut off at some point.
        self._pool = self._make(self.count)


def system_functions() -> dict[str, Any]:
    """The system functions that the pool calls, by their names in `Outside`; none where there can be no pool."""
    if sys.platform != "linux":
        return {}
    library = ctypes.CDLL(None)
    return {
        "thread_create": library.pthread_create,
        "thread_sigmask": library.pthread_sigmask,
        "clock_gettime": library.clock_gettime,
        "getcpu": library.sched_getcpu,
        "getaffinity": library.sched_getaffinity,
        "setaffinity": library.sched_setaffinity,
        "syscall": library.syscall,
        "thread_self": library.pthread_self,
    }

"""A few threads that share the tiles of large kernels with the thread that calls them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any

import numpy as np

Tiles = Callable[[int, int, Any], None]


class _Job:
    """One part of a kernel, given to a worker."""

    __slots__ = ("done", "error", "hi", "lo", "scratch", "tiles")

    def __init__(self, tiles: Tiles, lo: int, hi: int, scratch: Any) -> None:
        self.tiles = tiles
        self.lo = lo
        self.hi = hi
        self.scratch = scratch
        self.error: BaseException | None = None
        self.done = threading.Lock()
        self.done.acquire()


class Workers:
    """Daemon threads that wait for jobs; a forked child starts its own."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[_Job] = SimpleQueue()
        self._started = 0
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._queue = SimpleQueue()
        self._started = 0
        self._lock = threading.Lock()

    def submit(self, job: _Job, workers: int) -> None:
        """Give a job to one of at least ``workers`` threads."""
        if self._started < workers:
            with self._lock:
                while self._started < workers:
                    threading.Thread(target=self._work, name="hybridc-worker", daemon=True).start()
                    self._started += 1
        self._queue.put(job)

    def _work(self) -> None:
        queue = self._queue
        with np.errstate(all="ignore"):
            while True:
                job = queue.get()
                try:
                    job.tiles(job.lo, job.hi, job.scratch)
                except BaseException as error:
                    job.error = error
                job.done.release()
                del job


_WORKERS = Workers()


def parallel(tiles: Tiles, size: int, grain: int, scratch: Sequence[Any]) -> None:
    """Run ``tiles(lo, hi, scratch)`` over ``range(size)``, split at multiples of ``grain`` among as many threads as there
    are scratches; the caller takes the first part.
    """
    parts = len(scratch)
    blocks = -(-size // grain)
    bounds = [min(size, blocks * p // parts * grain) for p in range(parts + 1)]
    jobs: list[_Job] = []
    for part in range(1, parts):
        job = _Job(tiles, bounds[part], bounds[part + 1], scratch[part])
        _WORKERS.submit(job, parts - 1)
        jobs.append(job)
    try:
        tiles(bounds[0], bounds[1], scratch[0])
    finally:
        for job in jobs:
            job.done.acquire()
    for job in jobs:
        if job.error is not None:
            raise job.error

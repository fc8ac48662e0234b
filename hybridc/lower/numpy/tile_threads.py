"""A few threads that share the tiles of large kernels with the thread that calls them."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any

import numpy as np

from hybridc.ground import limits

Tiles = Callable[[int, int, Any], None]


class _Job:
    """A kernel whose chunks are claimed, one at a time, by the caller and by workers."""

    __slots__ = ("_active", "_claims", "_closed", "_done", "_lock", "bounds", "error", "scratch", "tiles")

    def __init__(self, tiles: Tiles, bounds: Sequence[int], scratch: Any) -> None:
        self.tiles = tiles
        self.bounds = bounds
        self.scratch = scratch
        self.error: BaseException | None = None
        self._claims = itertools.count()
        self._lock = threading.Lock()
        self._active = 0
        self._closed = False
        self._done = threading.Lock()
        self._done.acquire()

    def run(self, scratch: Any) -> None:
        """Claim chunks until none is left."""
        chunks = len(self.bounds) - 1
        for chunk in self._claims:
            if chunk >= chunks or self.error is not None:
                return
            self.tiles(self.bounds[chunk], self.bounds[chunk + 1], scratch)

    def help(self, part: int) -> None:
        """Take part as a worker, unless the caller has finished everything already."""
        with self._lock:
            if self._closed:
                return
            self._active += 1
        try:
            self.run(self.scratch[part])
        except BaseException as error:
            self.error = error
        with self._lock:
            self._active -= 1
            if self._closed and not self._active:
                self._done.release()

    def finish(self) -> None:
        """Wait for the workers that have begun."""
        with self._lock:
            self._closed = True
            waiting = self._active > 0
        if waiting:
            self._done.acquire()


class Workers:
    """Daemon threads that wait for jobs; a forked child starts its own."""

    def __init__(self) -> None:
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._queue: SimpleQueue[tuple[_Job, int]] = SimpleQueue()
        self._started = 0
        self._lock = threading.Lock()

    def submit(self, job: _Job, part: int) -> None:
        """Ask a worker to help with a job, using scratch ``part``."""
        if self._started < part:
            with self._lock:
                while self._started < part:
                    if limits.thread(self._work, "hybridc-worker", daemon=True) is None:
                        return  # the caller does this part, too
                    self._started += 1
        self._queue.put((job, part))

    def _work(self) -> None:
        queue = self._queue
        with np.errstate(all="ignore"):
            while True:
                job, part = queue.get()
                job.help(part)
                del job


_WORKERS = Workers()


def parallel(tiles: Tiles, size: int, grain: int, chunks: int, scratch: Sequence[Any]) -> None:
    """Run ``tiles(lo, hi, scratch)`` over ``range(size)``, in so many chunks at most, which are multiples of ``grain``.

    As many threads take part as there are scratches; the caller is one of them.
    """
    blocks = -(-size // grain)
    chunks = min(blocks, chunks)
    bounds = [min(size, blocks * chunk // chunks * grain) for chunk in range(chunks + 1)]
    job = _Job(tiles, bounds, scratch)
    for part in range(1, len(scratch)):
        _WORKERS.submit(job, part)
    try:
        job.run(scratch[0])
    except BaseException as error:
        job.error = error
        raise
    finally:
        job.finish()
    if job.error is not None:
        raise job.error

"""The communicator over MPI: collectives by mpi4py, one at a time, called by this thread or by one of its own."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeVar

import numpy as np

from hybridc.communication.communicator import Array, Communicator, Pending, bounds, check_array, check_operation
from hybridc.communication.rank_watch import WORLD, RankWatch
from hybridc.dtypes import is_float
from hybridc.errors import MXNetError
from hybridc.ground.events import recorded

T = TypeVar("T")

# MPI counts in 32-bit integers: larger arrays go in pieces of so many elements.
_MOST = 1 << 30


class _Queue:
    """The thread that carries out what was started, and the lock that every collective holds."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._waiting: queue.SimpleQueue[tuple[Callable[[], Any], Pending]] = queue.SimpleQueue()
        self._last: Pending | None = None
        self._thread: threading.Thread | None = None

    def put(self, collective: Callable[[], Any]) -> Pending:
        """Carry out a function after those before it."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="hybridc communication", daemon=True)
            self._thread.start()
        self._last = pending = Pending()
        self._waiting.put((collective, pending))
        return pending

    def drain(self) -> None:
        """Wait for what was started, unless this is the thread."""
        if self._last is not None and threading.current_thread() is not self._thread:
            self._last.wait()
            self._last = None

    def _run(self) -> None:
        while True:
            collective, pending = self._waiting.get()
            begin = time.perf_counter()
            try:
                with self.lock:
                    collective()
                pending.seconds = time.perf_counter() - begin
            except BaseException as error:
                pending.finish(error)
            else:
                pending.finish()
            del collective, pending


class MPICommunicator(Communicator):
    """The ranks of an MPI communicator."""

    def __init__(
        self, handle: Any, mpi: Any, watch: RankWatch, queue: _Queue | None = None, group: str = WORLD
    ) -> None:
        self._comm, self._mpi, self._watch = handle, mpi, watch
        self._group, self._splits = group, 0
        self._queue = queue or _Queue()
        self._process = os.getpid()
        self.rank, self.size = handle.rank, handle.size
        self.hosts = tuple(handle.allgather(mpi.Get_processor_name()))
        here = [i for i, host in enumerate(self.hosts) if host == self.hosts[self.rank]]
        self.local_rank, self.local_size = here.index(self.rank), len(here)

    @contextlib.contextmanager
    def _called(self, name: str) -> Generator[None]:
        """Around a collective: after those that were started, one at a time, watched."""
        if os.getpid() != self._process:
            raise MXNetError(
                f"{name}: this process was forked from a rank and is none; only the rank itself takes part"
            )
        self._queue.drain()
        with self._queue.lock, self._watch.collective(name, self._group), recorded("communication", name):
            yield

    def allreduce(self, array: Array, op: str = "sum") -> None:
        check_operation(op)
        check_array(array)
        with self._called(f"all-reduce of {_described(array)}"):
            flat, wide = self._summable(array)
            for piece in _pieces(wide):
                self._comm.Allreduce(self._mpi.IN_PLACE, piece, self._operation(op))
            if wide is not flat:
                flat[...] = wide

    def reduce_scatter(self, array: Array, counts: Sequence[int]) -> Array:
        check_array(array)
        at = bounds(counts)
        with self._called(f"reduce-scatter of {_described(array)}"):
            flat, wide = self._summable(array)
            mine = wide[at[self.rank] : at[self.rank + 1]]
            got = np.empty_like(mine)
            self._comm.Reduce_scatter(wide[: at[-1]], got, [*counts], self._mpi.SUM)
            part = flat[at[self.rank] : at[self.rank + 1]]
            part[...] = got
            return part

    def allgather(self, array: Array, counts: Sequence[int]) -> None:
        check_array(array)
        at = bounds(counts)
        with self._called(f"all-gather of {_described(array)}"):
            raw = array.reshape(-1).view(np.uint8)
            sizes = [n * array.itemsize for n in counts]
            starts = [n * array.itemsize for n in at[:-1]]
            if raw.size < _MOST:
                self._comm.Allgatherv(self._mpi.IN_PLACE, [raw, sizes, starts, self._mpi.BYTE])
                return
            for root in range(self.size):  # the counts of all of it do not fit
                part = array.reshape(-1)[at[root] : at[root + 1]]
                self._bcast(part, root)

    def alltoall(self, parts: Array) -> Array:
        check_array(parts)
        got = np.empty_like(parts)
        with self._called(f"all-to-all of {_described(parts)}"):
            self._comm.Alltoall([parts.view(np.uint8), self._mpi.BYTE], [got.view(np.uint8), self._mpi.BYTE])
        return got

    def exchange(self, array: Array, counts: Sequence[int], received: Sequence[int]) -> Array:
        check_array(array)
        got = np.empty(sum(received), array.dtype)
        with self._called(f"all-to-all of {_described(array)}"):
            element = self._mpi.BYTE.Create_contiguous(array.itemsize).Commit()
            try:
                there = [array.view(np.uint8), [*counts], bounds(counts)[:-1], element]
                here = [got.view(np.uint8), [*received], bounds(received)[:-1], element]
                self._comm.Alltoallv(there, here)
            finally:
                element.Free()
        return got

    def broadcast(self, array: Array, root: int = 0) -> None:
        check_array(array)
        with self._called(f"broadcast of {_described(array)}"):
            self._bcast(array, root)

    def _bcast(self, array: Array, root: int) -> None:
        for piece in _pieces(array.reshape(-1).view(np.uint8)):
            self._comm.Bcast([piece, self._mpi.BYTE], root)

    def gather_objects(self, value: T) -> list[T]:
        with self._called("all-gather of objects"):
            return self._comm.allgather(value)

    def broadcast_object(self, value: T, root: int = 0) -> T:
        with self._called("broadcast of an object"):
            return self._comm.bcast(value, root)

    def barrier(self) -> None:
        with self._called("barrier"):
            self._comm.Barrier()

    def split(self, color: int) -> Communicator:
        with self._called("split"):
            self._splits += 1
            group = f"{self._group}.{self._splits}.{color}"
            self._watch.join_group(group)
            part = self._comm.Split(color, self.rank)
            return MPICommunicator(part, self._mpi, self._watch, self._queue, group)

    def start(self, collective: Callable[[], Any]) -> Pending:
        return self._queue.put(collective)

    def finish(self) -> None:
        """Wait for what was started and nobody waited for."""
        with contextlib.suppress(Exception):
            self._queue.drain()

    def _operation(self, op: str) -> Any:
        return getattr(self._mpi, op.upper())

    @staticmethod
    def _summable(array: Array) -> tuple[Array, Array]:
        """A flat view of the array, and the same or a copy in a type that MPI adds in."""
        flat = array.reshape(-1)
        if flat.dtype == np.bool_:
            return flat, flat.astype(np.uint8)
        return flat, flat.astype(np.float32) if is_float(flat.dtype) and flat.itemsize < 4 else flat


def _pieces(flat: Array) -> list[Array]:
    flat = flat.reshape(-1)
    return [flat[i : i + _MOST] for i in range(0, flat.size, _MOST)]


def _described(array: Array) -> str:
    return f"{array.size} {array.dtype}"

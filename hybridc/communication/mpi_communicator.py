"""The communicator over MPI: collectives by mpi4py, one at a time, called by this thread or by one of its own."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import queue
import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from hybridc.communication.communicator import (
    OPERATIONS,
    Agreed,
    Array,
    Communicator,
    Pending,
    bounds,
    check_array,
    check_operation,
    is_agreed,
    summed_at_once,
    with_label,
    with_labels_of_now,
)
from hybridc.communication.disagreement import different_calls, different_facts
from hybridc.communication.rank_watch import WORLD, RankWatch
from hybridc.dtypes import wide
from hybridc.errors import MXNetError
from hybridc.ground.events import RECORDER, now
from hybridc.ground.limits import required_thread

T = TypeVar("T")

# MPI counts in 32-bit integers: larger arrays go in pieces of so many elements.
_MOST = 1 << 30
# Types that MPI adds in as they are, and most arrays have.
_ADDED = (np.dtype(np.float32), np.dtype(np.float64))


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
            self._thread = required_thread(self._run, "hybridc communication", "communication among ranks")
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


# What each rank says before a collective, as numbers of double precision.
_SAYS = _CALL, _FACTS, _COUNT, _SHARE, _ASKS = range(5)
_SAID = struct.Struct(f"{len(_SAYS)}d")


class _Call:
    """A collective that this rank calls within the ``with`` block; ``text`` says which, and of what."""

    __slots__ = ("_begin", "_ranks", "facts", "text")

    def __init__(self, ranks: MPICommunicator, text: str, facts: tuple[float, int, float, bool] | None = None) -> None:
        self._ranks, self.text, self.facts = ranks, text, facts

    def __enter__(self) -> Sequence[float]:
        rows = self._ranks.begin(self)
        self._begin = now() if RECORDER.active else 0
        return rows

    def __exit__(self, *_: object) -> None:
        if self._begin:
            RECORDER.add("communication", self.text, self._begin)
        self._ranks.end()

    def __str__(self) -> str:
        return self.text


@functools.lru_cache(maxsize=1024)
def _digest(text: str) -> float:
    """A number below 2 to the power of 48, which double precision has exactly; equal for equal texts."""
    return float(int.from_bytes(hashlib.blake2b(text.encode(), digest_size=6).digest(), "little"))


@functools.lru_cache(maxsize=64)
def _digest_of_text(text: str) -> float:
    """The digest of a text as a value, which is that of its ``repr``: a long one at each step of a training."""
    return _digest(repr(text))


class MPICommunicator(Communicator):
    """The ranks of an MPI communicator."""

    def __init__(
        self, handle: Any, mpi: Any, watch: RankWatch, queue: _Queue | None = None, group: str = WORLD
    ) -> None:
        self._comm, self._mpi, self._watch = handle, mpi, watch
        self._group, self._splits = group, 0
        self._queue = queue or _Queue()
        self._operations = {op: getattr(mpi, op.upper()) for op in OPERATIONS}
        self._process = os.getpid()
        self.rank, self.size = handle.rank, handle.size
        self.hosts = tuple(handle.allgather(mpi.Get_processor_name()))
        here = [i for i, host in enumerate(self.hosts) if host == self.hosts[self.rank]]
        self.local_rank, self.local_size = here.index(self.rank), len(here)
        said, heard = bytearray(_SAID.size), bytearray(_SAID.size * self.size)
        self._said, self._heard = said, memoryview(heard).cast("d")
        self._exchange = ([said, mpi.DOUBLE], [heard, mpi.DOUBLE])

    def _called(self, name: str, array: Array | None = None, is_equal: bool = True) -> _Call:
        """A collective; ``is_equal`` if its arrays have as many elements on all ranks."""
        if array is not None:
            name = f"{name} of {array.size} {array.dtype}" if is_equal else f"{name} of {array.dtype}"
        return _Call(self, with_label(name))

    def begin(self, call: _Call) -> Sequence[float]:
        """Before a collective: wait for those that were started, and for other threads; what each rank says.

        Raises on all ranks unless all call the same.
        """
        if os.getpid() != self._process:
            raise MXNetError(
                f"{call}: this process was forked from a rank and is none; only the rank itself takes part"
            )
        self._queue.drain()
        self._queue.lock.acquire()
        self._watch.enter(call, self._group)
        try:
            return self._met(call)
        except BaseException:
            self.end()
            raise

    def _met(self, call: _Call) -> Sequence[float]:
        """What all ranks say, one after the other; raises on all of them unless they call the same."""
        if call.facts is None:
            if is_agreed():
                return ()
            call.facts = (0.0, 0, 0.0, False)
        _SAID.pack_into(self._said, 0, _digest(call.text), *call.facts)
        self._comm.Allgather(*self._exchange)
        heard = self._heard.tolist()
        if not _are_equal(heard, _CALL, self.size):
            raise different_calls(self.rank, self._comm.allgather(call.text), self.hosts)
        return heard

    def end(self) -> None:
        """After a collective."""
        self._watch.leave(self._group)
        self._queue.lock.release()

    def allreduce(self, array: Array, op: str = "sum") -> None:
        check_operation(op)
        check_array(array)
        with self._called("all-reduce" if op == "sum" else f"all-reduce by {op}", array):
            flat, wide = self._summable(array)
            for piece in _pieces(wide, summed_at_once(self.size) // wide.itemsize):
                self._comm.Allreduce(self._mpi.IN_PLACE, piece, self._operations[op])
            if wide is not flat:
                flat[...] = wide

    def reduce_scatter(self, array: Array, counts: Sequence[int]) -> Array:
        check_array(array)
        at = bounds(counts)
        with self._called("reduce-scatter", array):
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
        with self._called("all-gather", array):
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
        with self._called("all-to-all", parts):
            self._comm.Alltoall([parts.view(np.uint8), self._mpi.BYTE], [got.view(np.uint8), self._mpi.BYTE])
        return got

    def exchange(self, array: Array, counts: Sequence[int], received: Sequence[int]) -> Array:
        check_array(array)
        got = np.empty(sum(received), array.dtype)
        with self._called("all-to-all", array, is_equal=False):
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
        with self._called(f"broadcast from rank {root}", array):
            self._bcast(array, root)

    def _bcast(self, array: Array, root: int) -> None:
        for piece in _pieces(array.reshape(-1).view(np.uint8), _MOST):
            self._comm.Bcast([piece, self._mpi.BYTE], root)

    def gather_objects(self, value: T) -> list[T]:
        with self._called("all-gather of objects"):
            return self._comm.allgather(value)

    def broadcast_object(self, value: T, root: int = 0) -> T:
        with self._called(f"broadcast from rank {root} of an object"):
            return self._comm.bcast(value, root)

    def barrier(self) -> None:
        with self._called("barrier"):
            self._comm.Barrier()

    def agree(
        self,
        call: str,
        facts: object = None,
        share: float = 0.0,
        asks: bool = False,
        details: Callable[[], Mapping[str, Any]] | None = None,
        count: int = 0,
    ) -> Agreed:
        digest = _digest_of_text(facts) if type(facts) is str else _digest(repr(facts))
        with _Call(self, with_label(call), (digest, count, share, asks)) as heard:
            if not (_are_equal(heard, _FACTS, self.size) and _are_equal(heard, _COUNT, self.size)):
                values: list[Any] = self._comm.allgather(facts if details is None else dict(details()))
                if any(each != values[0] for each in values):
                    raise different_facts(call, values, self.hosts)
            return Agreed(sum(heard[_SHARE :: len(_SAYS)]), any(heard[_ASKS :: len(_SAYS)]))

    def split(self, color: int) -> Communicator:
        with self._called("split"):
            self._splits += 1
            group = f"{self._group}.{self._splits}.{color}"
            self._watch.join_group(group)
            part = self._comm.Split(color, self.rank)
            return MPICommunicator(part, self._mpi, self._watch, self._queue, group)

    def start(self, collective: Callable[[], Any]) -> Pending:
        return self._queue.put(with_labels_of_now(collective))

    def watched(self, name: str, wait: Callable[[], T]) -> T:
        with self._called(name):
            return wait()

    def finish(self) -> None:
        """Wait for what was started and nobody waited for."""
        with contextlib.suppress(Exception):
            self._queue.drain()

    @staticmethod
    def _summable(array: Array) -> tuple[Array, Array]:
        """A flat view of the array, and the same or a copy in a type that MPI adds in."""
        flat = array.reshape(-1)
        if flat.dtype in _ADDED:
            return flat, flat
        if flat.dtype == np.bool_:
            return flat, flat.astype(np.uint8)
        return flat, flat.astype(wide(flat.dtype), copy=False)


def _are_equal(heard: Sequence[float], field: int, ranks: int) -> bool:
    """Whether all ranks say the same."""
    return list(heard[field :: len(_SAYS)]).count(heard[field]) == ranks


def _pieces(flat: Array, most: int) -> list[Array]:
    flat = flat.reshape(-1)
    if flat.size <= most:
        return [flat]
    return [flat[i : i + most] for i in range(0, flat.size, most)]

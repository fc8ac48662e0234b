"""Worker processes that load batches ahead.

Each worker has one two-way pipe to this process, which starts no thread. A worker sends its results from a
thread of its own, so it goes on loading while a result waits to be read, and neither side blocks the other.

A worker may end at any time, also amid a message. Its end of the pipe is then closed, unless another process that was
forked meanwhile has it, too: so this process waits for no worker without looking whether it lives.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import queue
import random as python_random
import select
import signal
import struct
import sys
import threading
import time
import traceback
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from multiprocessing import connection
from multiprocessing.reduction import ForkingPickler
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from hybridc import random
from hybridc.array.ndarray import NDArray
from hybridc.array.numpy_array import as_numpy, is_numpy
from hybridc.errors import MXNetError
from hybridc.ground.display.tracebacks import hide_frames
from hybridc.ground.limits import processes_refused, thread

Array = npt.NDArray[Any]
Load = Callable[[Sequence[Any]], Any]

_LENGTH = struct.Struct("q")  # bytes of a message, before it
_LOOK = 1.0  # seconds between two looks at whether a silent worker lives
_PATIENCE = 5.0  # seconds for a worker to end that closed its pipe


class WorkerTraceback(Exception):
    """The traceback of an exception in a worker, which is the cause of that exception in the main process."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


def too_slow(timeout: float) -> str:
    """The error of a batch that does not arrive."""
    return (
        f"a batch was not loaded within {timeout} seconds. Look for what blocks in the data set's "
        f"__getitem__ or in batchify_fn, or give the DataLoader a larger timeout"
    )


class _LoaderProcess:
    """One process, its pipe, and its pending requests: tickets and the indices of their samples."""

    def __init__(self, number: int, load: Load, siblings: Iterable[_LoaderProcess]) -> None:
        # Forked workers see the data set as it is, without pickling it; elsewhere they get a copy.
        method = "fork" if "fork" in multiprocessing.get_all_start_methods() and sys.platform != "darwin" else None
        context: Any = multiprocessing.get_context(method)
        self.pipe, theirs = context.Pipe(duplex=True)
        self.number = number
        self.tasks: dict[int, Sequence[Any]] = {}
        # A forked worker inherits our ends of the pipes and must close them, or it would never see us die.
        ours = [self.pipe, *(s.pipe for s in siblings)] if method == "fork" else []
        self.process = context.Process(
            target=_work, args=(theirs, load, ours), name=f"DataLoader worker {number}", daemon=True
        )
        with warnings.catch_warnings():
            # Python 3.12 warns of forks beside threads. Workers only load data: they take none of our locks.
            warnings.filterwarnings("ignore", ".*fork", DeprecationWarning)
            try:
                self.process.start()
            except OSError as error:
                raise processes_refused(f"DataLoader worker {number}", error, "use num_workers=0") from None
        theirs.close()


class WorkerPool:
    """Loads batches in ``count`` processes; results are fetched by the ticket that ``submit`` gave."""

    def __init__(self, load: Load, count: int, timeout: float) -> None:
        self._load = load
        self._timeout = timeout
        self._next = 0
        self._ready: dict[int, Any] = {}
        self._forgotten: set[int] = set()
        self._dropped: deque[int] = deque()  # tickets that are to be forgotten
        self._lock = threading.RLock()
        self._workers: list[_LoaderProcess] = []
        for number in range(count):
            self._workers.append(_LoaderProcess(number, load, self._workers))
        self._finalizer = weakref.finalize(self, _stop, self._workers, os.getpid())

    def submit(self, indices: Sequence[Any], seed: int) -> int:
        """Ask for a batch; gives its ticket."""
        with self._lock:
            self._forget_dropped()
            ticket, self._next = self._next, self._next + 1
            worker = min(self._workers, key=lambda w: len(w.tasks))
            worker.tasks[ticket] = indices
            try:
                worker.pipe.send((ticket, indices, seed))
            except OSError:
                self._bury(worker)
            except BaseException:
                self._interrupted(worker)
                raise
            return ticket

    def result(self, ticket: int) -> Any:
        """The batch, or the exception that loading it raised."""
        with self._lock:
            deadline = time.monotonic() + self._timeout
            while ticket not in self._ready:
                self._receive(deadline)
            outcome = self._ready.pop(ticket)
        if not isinstance(outcome, _Failure):
            return outcome
        raise outcome.error from outcome.cause

    def forget(self, tickets: Iterable[int]) -> None:
        """Drop results that are no longer wanted: now, or as soon as the thread that has the lock is done.

        It waits for no lock: the garbage collector may call it, in any thread.
        """
        self._dropped.extend(tickets)
        if self._lock.acquire(blocking=False):
            try:
                self._forget_dropped()
            finally:
                self._lock.release()

    def _forget_dropped(self) -> None:
        while self._dropped:
            ticket = self._dropped.popleft()
            if self._ready.pop(ticket, None) is None:
                self._forgotten.add(ticket)

    def close(self) -> None:
        """End the processes."""
        self._finalizer()

    def _receive(self, deadline: float) -> None:
        """Take in what some workers have sent; wait for the first."""
        owners = {w.pipe: w for w in self._workers}
        left = deadline - time.monotonic()
        waiting: Any = connection.wait(list(owners), max(0.0, min(left, _LOOK)))
        if not waiting and left <= _LOOK:
            raise TimeoutError(too_slow(self._timeout))
        if not waiting:
            for worker in [each for each in self._workers if not each.process.is_alive()]:
                if not worker.pipe.poll():
                    self._bury(worker)
        for pipe in waiting:
            worker = owners[pipe]
            try:
                ticket, outcome = _Incoming(worker, max(deadline, time.monotonic() + _PATIENCE)).message()
            except TimeoutError:
                self._interrupted(worker)
                raise TimeoutError(too_slow(self._timeout)) from None
            except (EOFError, OSError):
                self._bury(worker)
                continue
            except BaseException:
                self._interrupted(worker)
                raise
            worker.tasks.pop(ticket, None)
            self._keep(ticket, outcome)

    def _keep(self, ticket: int, outcome: Any) -> None:
        if ticket in self._forgotten:
            self._forgotten.remove(ticket)
        else:
            self._ready[ticket] = outcome

    def _interrupted(self, worker: _LoaderProcess) -> None:
        """Half a message is left in the pipe, by Control-C for instance: the worker cannot be talked to any more."""
        worker.process.kill()
        self._bury(worker)

    def _bury(self, worker: _LoaderProcess) -> None:
        """A worker has died: its batches fail, and a new one replaces it."""
        worker.process.join(_PATIENCE)
        if worker.process.exitcode is None:
            worker.process.kill()
            worker.process.join(_PATIENCE)
        code = worker.process.exitcode
        how = f"signal {signal.Signals(-code).name}" if code and code < 0 else f"exit code {code}"
        asked = ", ".join(map(_shorten, worker.tasks.values()))
        for ticket in worker.tasks:
            error = MXNetError(
                f"DataLoader worker {worker.number} died ({how}) while it had to load the samples "
                f"{asked}. SIGKILL often means that memory ran out; a crash in native code "
                f"can be found with num_workers=0"
            )
            self._keep(ticket, _Failure(error, None))
        worker.pipe.close()
        place = self._workers.index(worker)
        others = [w for w in self._workers if w is not worker]
        self._workers[place] = _LoaderProcess(worker.number, self._load, others)


class _Failure:
    """An exception instead of a batch."""

    def __init__(self, error: Exception, cause: Exception | None) -> None:
        self.error = error
        self.cause = cause


def _stop(workers: list[_LoaderProcess], owner: int) -> None:
    if os.getpid() != owner:  # a fork of the process that started them: they are not its children
        return
    for worker in workers:
        with contextlib.suppress(OSError):
            worker.pipe.close()
        worker.process.terminate()
    for worker in workers:
        worker.process.join(5)


def _shorten(indices: Sequence[Any]) -> str:
    shown = ", ".join(map(str, indices[:8]))
    return f"[{shown}{', …' if len(indices) > 8 else ''}]"


# --- in the worker ------------------------------------------------------------------------------------------


def _work(pipe: Any, load: Load, inherited: Iterable[Any]) -> None:
    """The life of a worker: until the main process closes the pipe."""
    for other in inherited:
        other.close()
    # Control-C is the main process's affair; its SIGTERM must end this one, whatever handler was inherited.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    thread(_end_with_main, "end with main", daemon=True)
    outbox: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
    is_posted = thread(_post, "post", pipe, outbox, daemon=True) is not None
    while True:
        try:
            ticket, indices, seed = pipe.recv()
        except (EOFError, OSError):
            return
        result = ticket, _attempt(load, indices, seed)
        if is_posted:
            outbox.put(result)
        elif not _send(pipe, *result):
            return


def _end_with_main() -> None:
    """End as soon as the main process does, also while a batch is loaded: launchers wait for what has their output."""
    main = multiprocessing.parent_process()
    if main is not None:
        main.join()
        os._exit(0)


def _attempt(load: Load, indices: Sequence[Any], seed: int) -> Any:
    # Forked workers inherit equal states of every generator; without this they would all augment alike.
    np.random.seed(seed % 2**32)
    python_random.seed(seed)
    try:
        with random.isolated(seed):
            return load(indices)
    except Exception as error:
        hide_frames(error)
        return _Failure(_portable(error), WorkerTraceback(traceback.format_exc()))


def _portable(error: Exception) -> Exception:
    """The exception itself if it survives the pipe, else one that says the same."""
    try:
        again = cast("Any", ForkingPickler).loads(ForkingPickler.dumps(error))
        if type(again) is type(error):
            return error
    except Exception:  # whatever its __reduce__ or __init__ raise
        return MXNetError(f"{type(error).__name__}: {error}")
    return MXNetError(f"{type(error).__name__}: {error}")


def _post(pipe: Any, outbox: queue.SimpleQueue[tuple[int, Any]]) -> None:
    """Send results: first their structure, then the arrays' bytes, which are not pickled."""
    while _send(pipe, *outbox.get()):
        pass


def _send(pipe: Any, ticket: int, outcome: Any) -> bool:
    """Send a result; False if the main process has gone."""
    arrays: list[Array] = []
    try:
        message = bytes(ForkingPickler.dumps((ticket, _strip(outcome, arrays))))
    except Exception:  # the batch holds something that cannot be pickled
        arrays = []
        text = traceback.format_exc()
        error = MXNetError("a batch could not be sent from the worker: it holds something that cannot be pickled")
        message = bytes(ForkingPickler.dumps((ticket, _Failure(error, WorkerTraceback(text)))))
    try:
        _write(pipe.fileno(), memoryview(_LENGTH.pack(len(message)) + message))
        for array in arrays:
            _write(pipe.fileno(), array.reshape(-1).view(np.uint8).data)
    except OSError:
        return False
    return True


def _write(fd: int, data: memoryview) -> None:
    """All the bytes; a Connection would copy them first."""
    while data:
        data = data[os.write(fd, data) :]


class _Slot:
    """The message for an array that is sent separately."""

    def __init__(self, array: Array, wrapped: bool, numpy: bool) -> None:
        self.dtype = array.dtype
        self.shape = array.shape
        self.wrapped = wrapped
        self.numpy = numpy


def _strip(value: Any, arrays: list[Array]) -> Any:
    """The structure of a batch, its arrays taken out."""
    if isinstance(value, (NDArray, np.ndarray)):
        array = value.asnative() if isinstance(value, NDArray) else cast("Array", value)
        if array.dtype.hasobject or array.size == 0:
            return cast("Any", value)
        arrays.append(np.ascontiguousarray(array))
        return _Slot(array, isinstance(value, NDArray), is_numpy(value))
    return _map(value, lambda v: _strip(v, arrays))


class _Incoming:
    """Reads a message of a worker, some of which has arrived.

    EOFError if the worker ends before it is whole, TimeoutError if that is not so at the deadline.
    """

    def __init__(self, worker: _LoaderProcess, deadline: float) -> None:
        self._process, self._deadline = worker.process, deadline
        self._pipe = worker.pipe.fileno()
        self._poll = select.poll()
        self._poll.register(self._pipe, select.POLLIN)

    def message(self) -> tuple[int, Any]:
        """The ticket, and the batch or why there is none."""
        (length,) = _LENGTH.unpack(self._bytes(_LENGTH.size).data)
        ticket, outcome = cast("Any", ForkingPickler).loads(self._bytes(length))
        return ticket, self._filled(outcome)

    def _filled(self, value: Any) -> Any:
        """The batch from its structure, reading the arrays in the order in which they were taken out."""
        if not isinstance(value, _Slot):
            return _map(value, self._filled)
        data = self._bytes(int(np.prod(value.shape)) * value.dtype.itemsize)
        array: Array = data.view(value.dtype).reshape(value.shape)
        return array if not value.wrapped else as_numpy(NDArray(array)) if value.numpy else NDArray(array)

    def _bytes(self, count: int) -> Array:
        made = np.empty(count, np.uint8)
        left = made.data
        while left:
            left = left[self._some(left) :]
        return made

    def _some(self, place: memoryview) -> int:
        """Read what there is; wait for it, as long as the worker lives."""
        while not self._poll.poll(_LOOK * 1000):
            if time.monotonic() > self._deadline:
                raise TimeoutError
            if not self._process.is_alive() and not self._poll.poll(0):
                raise EOFError
        count = os.readv(self._pipe, [place])
        if not count:
            raise EOFError
        return count


def _map(value: Any, fn: Callable[[Any], Any]) -> Any:
    """``fn`` of each element of a list, tuple or dict; other things as they are."""
    kind = cast("Any", type(value))
    if kind is dict:
        return {k: fn(v) for k, v in value.items()}
    if hasattr(kind, "_fields"):  # a named tuple
        return kind(*map(fn, value))
    if issubclass(kind, (list, tuple)):
        return cast("Any", kind)(map(fn, value))
    return value

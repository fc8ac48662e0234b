"""Limits of the system: where a process may start no thread, it works in turn; where memory ends, an error says so.

This file is the first one that is imported, and imports NumPy: where no thread can be started, NumPy's OpenBLAS must
not try, as that ends the process.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Generator
from concurrent.futures import Executor, Future
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from hybridc.errors import LimitError

if sys.platform == "linux":
    import resource

_VARIABLE = "OPENBLAS_NUM_THREADS"
_REMEDY = "raise the limit (ulimit -u, or pids.max of the container)"
# Seconds after which a thread counts as not started: a busy system starts one in less, and one that has no memory for
# its first lines of Python ends without a word to whoever waits for it.
_START = 20.0
# Bytes of address space beside its stack that a thread needs to begin: Python's objects, and what malloc reserves.
_BESIDE_STACK = 16 << 20
# The stack of a thread of glibc's where the user has no limit of stacks.
_UNLIMITED_STACK = 8 << 20


class _TimelyEvent(threading.Event):
    """Whether a thread has begun; ``threading.Thread.start`` waits for it, but not for ever."""

    def wait(self, timeout: float | None = None) -> bool:
        if super().wait(_START if timeout is None else timeout):
            return True
        raise RuntimeError("the new thread has not begun")


class _TimelyThread(threading.Thread):
    """A thread whose start raises RuntimeError where it does not begin in time; it may still begin later."""

    def __init__(self, target: Callable[..., Any], name: str, args: tuple[Any, ...], daemon: bool) -> None:
        super().__init__(target=target, name=name, args=args, daemon=daemon)
        self._started = _TimelyEvent()
        self._decision = threading.Lock()  # is taken by whoever is first: the thread, or who gives it up

    def run(self) -> None:
        if self._decision.acquire(blocking=False):
            super().run()

    def give_up(self) -> bool:
        """Whether this came before the thread began, which then does nothing."""
        return self._decision.acquire(blocking=False)


def thread(target: Callable[..., Any], name: str, *args: Any, daemon: bool = False) -> threading.Thread | None:
    """A thread that was started, or None where this process may start none, or has no memory for one."""
    left = address_space_left()
    if left is not None and left < _stack() + _BESIDE_STACK:
        return None
    made: _TimelyThread | None = None
    try:
        made = _TimelyThread(target, name, args, daemon)
        made.start()
    except (RuntimeError, MemoryError):  # "can't start new thread" has no class of its own
        if made is None or made.give_up():
            return None
    return made


def _stack() -> int:
    """Bytes of the stack of a new thread."""
    if sys.platform != "linux" or threading.stack_size():
        return threading.stack_size()
    limit, _ = resource.getrlimit(resource.RLIMIT_STACK)
    return _UNLIMITED_STACK if limit == resource.RLIM_INFINITY else limit


def required_thread(target: Callable[..., Any], name: str, what: str, daemon: bool = True) -> threading.Thread:
    """A thread that was started; LimitError where this process may start none. ``what`` needs it."""
    made = thread(target, name, daemon=daemon)
    if made is None:
        raise LimitError(f"{what} needs a thread, and this process may start no more; {_REMEDY}")
    return made


def processes_refused(what: str, error: OSError, remedy: str) -> LimitError:
    """The error of ``what``, for which the system starts no process."""
    return LimitError(f"{what} needs a process, which the system refuses: {error.strerror}; {_REMEDY}, or {remedy}")


def thread_pool(count: int, name: str) -> Executor:
    """An executor of at most ``count`` threads: of fewer, or of none, where this process may not start so many.

    At the exit of Python, what it does is finished, and what waits is dropped.
    """
    return _ThreadPool(count, name)


class _Work:
    """A call that an executor was given."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self.future: Future[Any] = Future()

    def do(self) -> None:
        """Call it, unless it was cancelled."""
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            self.future.set_result(self._function())
        except BaseException as error:
            self.future.set_exception(error)


class _ThreadPool(Executor):
    """Threads that are started at once; where none can be, the caller does what it asks for."""

    def __init__(self, count: int, name: str) -> None:
        self._waiting: SimpleQueue[_Work | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        while len(self._threads) < count:
            made = thread(_do_all, f"{name}_{len(self._threads)}", self._waiting, daemon=True)
            if made is None:
                break
            self._threads.append(made)
        self._is_over = False
        self._lock = threading.Lock()
        weakref.finalize(self, _end_all, self._waiting, len(self._threads)).atexit = False
        _POOLS.add(self)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        work = _Work(lambda: fn(*args, **kwargs))
        with self._lock:
            if self._is_over:
                raise RuntimeError("cannot schedule new futures after shutdown")
            if self._threads:
                self._waiting.put(work)
                return work.future
        work.do()
        return work.future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        with self._lock:
            is_first, self._is_over = not self._is_over, True
        if cancel_futures:
            self._cancel()
        if is_first or cancel_futures:  # the ends that were sent before may have been dropped
            _end_all(self._waiting, len(self._threads))
        for each in self._threads if wait else ():
            each.join()

    def _cancel(self) -> None:
        """Cancel what waits."""
        with contextlib.suppress(Empty):
            while True:
                work = self._waiting.get_nowait()
                if work is not None:
                    work.future.cancel()


_POOLS: weakref.WeakSet[_ThreadPool] = weakref.WeakSet()


def _do_all(waiting: SimpleQueue[_Work | None]) -> None:
    """The life of a thread of an executor, of which it knows nothing: it ends when the executor is gone."""
    while (work := waiting.get()) is not None:
        work.do()
        del work  # and with it what the call refers to


def _end_all(waiting: SimpleQueue[_Work | None], count: int) -> None:
    for _ in range(count):
        waiting.put(None)


@atexit.register
def _finish() -> None:
    for pool in list(_POOLS):
        pool.shutdown(cancel_futures=True)


@contextlib.contextmanager
def one_thread_of_blas(is_needed: bool = True) -> Generator[None]:
    """Within the ``with`` block OpenBLAS, when it is loaded, starts no thread; a user's own setting stays."""
    before = os.environ.get(_VARIABLE)
    if not is_needed or before:
        yield
        return
    os.environ[_VARIABLE] = "1"
    try:
        yield
    finally:
        del os.environ[_VARIABLE]
        if before is not None:
            os.environ[_VARIABLE] = before


def may_start_threads() -> bool:
    """Whether this process may start a thread now."""
    made = thread(_nothing, "hybridc probe")
    if made is None:
        return False
    made.join()
    # Python is done with the thread now; the system counts it until it has ended, too.
    end = time.monotonic() + _START
    while Path(f"/proc/self/task/{made.native_id}").exists() and time.monotonic() < end:
        time.sleep(0)
    return True


def _nothing() -> None:
    """What a thread does that is only to be started."""


def address_space_left() -> int | None:
    """Bytes of address space that this process may still map; None if there is no limit, or nobody says."""
    if sys.platform != "linux":
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return None
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (OSError, ValueError):
        return None
    return max(0, limit - pages * os.sysconf("SC_PAGE_SIZE"))


def require_address_space(size: int, what: str, remedy: str) -> None:
    """Raise LimitError if less than ``size`` bytes are left for ``what``, which ends the process without memory."""
    left = address_space_left()
    if left is not None and left < size:
        raise LimitError(
            f"{what} needs {size >> 20} MiB of address space, of which this process may have {left >> 20} MiB more; "
            f"raise the limit (ulimit -v), let OpenBLAS have fewer threads ({_VARIABLE}=1), or {remedy}"
        )


if "numpy" not in sys.modules:
    with one_thread_of_blas(not may_start_threads()):
        import numpy  # noqa: F401  # pyright: ignore[reportUnusedImport]

"""Limits of the system: where a process may start no thread, it works in turn; where memory ends, an error says so.

This file is the first one that is imported, and imports NumPy: where no thread can be started, NumPy's OpenBLAS must
not try, as that ends the process.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hybridc.errors import LimitError

if sys.platform == "linux":
    import resource

_VARIABLE = "OPENBLAS_NUM_THREADS"
_REMEDY = "raise the limit (ulimit -u, or pids.max of the container)"


def thread(target: Callable[..., Any], name: str, *args: Any, daemon: bool = False) -> threading.Thread | None:
    """A thread that was started, or None where this process may start none."""
    made = threading.Thread(target=target, name=name, args=args, daemon=daemon)
    try:
        made.start()
    except RuntimeError:  # "can't start new thread", of which there is no class of its own
        return None
    return made


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
    """An executor of at most ``count`` threads: of fewer, or of none, where this process may not start so many."""
    while count > 0:
        made, over = ThreadPoolExecutor(count, thread_name_prefix=name), threading.Event()
        started = _submitted(made, over.wait, count)  # each starts a thread, as no other one is idle
        over.set()
        if started == count:
            return made
        made.shutdown()
        count = started
    return _InTurn()


def _submitted(pool: Executor, work: Callable[[], Any], count: int) -> int:
    """How many times the executor took work: ``count`` times, unless it needs a thread that cannot be started."""
    for number in range(count):
        try:
            pool.submit(work)
        except RuntimeError:
            return number
    return count


class _InTurn(Executor):
    """Does in the caller what it is given."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
        return future


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
    if made is not None:
        made.join()
    return made is not None


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

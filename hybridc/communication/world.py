"""The communicator of all ranks: found by what started the process, made when it is first asked for."""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import os
import platform
import signal
import sys
import threading
import traceback
from collections.abc import Generator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from hybridc import random
from hybridc.communication import launched_rank
from hybridc.communication.communicator import Alone, Communicator
from hybridc.errors import LimitError, MXNetError
from hybridc.ground.locks import ForkLock
from hybridc.options import OPTIONS

if TYPE_CHECKING:
    from hybridc.communication.rank_watch import RankWatch

_LOCK = ForkLock()
_SIGNALS = [*filter(None, (getattr(signal, name, None) for name in ("SIGINT", "SIGTERM", "SIGHUP")))]
_SHARED_FOLDER = "/dev/shm"
_SHARED = f"{_SHARED_FOLDER}/mpich_shm_"
# Bytes there for each rank of a machine: what MPICH 5 uses, and a little; it dies of SIGBUS or SIGSEGV without.
_SHARED_SIZE = 5 << 18
# Bytes for each rank of which UCX, below MPICH, takes some; it fails in other ways where there are almost enough.
_SHARED_BY_UCX = 16 << 20
_AFTER_LAUNCHER = 5  # seconds
_INTERRUPTED = 130  # the status of a process that Ctrl-C ended, as shells count


class _World:
    """The communicator of all ranks, once there is one, and what watches them."""

    made: Communicator | None = None
    watch: RankWatch | None = None
    process: int = 0


_WORLD = _World()


def is_launched() -> bool:
    """Whether a launcher started this process as one of several ranks."""
    multiprocessing = sys.modules.get("multiprocessing.process")
    if multiprocessing is not None and multiprocessing.parent_process() is not None:
        return False  # a rank started it, to load data, so it has the same environment
    launched = launched_rank.found(os.environ)
    return launched is not None and launched.size > 1


def communicator() -> Communicator:
    """The communicator of all ranks of the program; all call this, once at least.

    A process that no launcher started is alone. The first call starts MPI.
    """
    with _LOCK.current:
        if _WORLD.made is None:
            _WORLD.made = made = _started() if is_launched() else Alone(platform.node())
            random.set_rank(made.rank)
        return _WORLD.made


def end_failed(status: int, error: BaseException | str) -> NoReturn:
    """End this rank because of an error, which all ranks are told."""
    watch = _WORLD.watch
    if watch is None or os.getpid() != _WORLD.process:
        sys.exit(status)
    _flush()
    if isinstance(error, BaseException):
        error = f"raised {traceback.format_exception_only(error)[-1].strip()}"
    watch.fail(error)
    _flush()
    os._exit(status)  # what MPI does at exit would wait for the others


def load_mpi() -> Any:
    """The module of MPI, which is not started yet."""
    try:
        import mpi4py
    except ImportError as error:
        raise MXNetError(
            "a launcher started this process as one of several ranks, but mpi4py is not installed, which they need to "
            "communicate; pip install hybridc[mpi]"
        ) from error
    mpi4py.rc.initialize = False
    from mpi4py import MPI

    return MPI


def mpich_settings(launched: launched_rank.LaunchedRank | None) -> dict[str, str]:
    """Variables by which MPICH sums around a ring where a rank has a machine, and the ranks are no power of two.

    By recursive halving, its own choice, some would send and receive all first.
    """
    if launched is None or launched.local_size > 1 or not launched.size & (launched.size - 1):
        return {}
    return {"MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM": "ring"}


def shared_memory_settings(ranks: int) -> dict[str, str]:
    """Variables for MPICH's ranks on this machine, so many, where there is little shared memory.

    LimitError if there is too little.
    """
    if ranks < 2 or sys.platform != "linux":
        return {}
    try:
        status = os.statvfs(_SHARED_FOLDER)
        free = status.f_bavail * status.f_frsize if os.access(_SHARED_FOLDER, os.W_OK) else 0
    except OSError:
        free = 0
    if free < ranks * _SHARED_SIZE:
        raise LimitError(
            f"{ranks} ranks on one machine need {(ranks * _SHARED_SIZE >> 20) + 1} MiB of shared memory, and in "
            f"{_SHARED_FOLDER} this process may write {free >> 20} MiB; give it more (docker run --shm-size=1g, or "
            f"mount -o remount,size=1g {_SHARED_FOLDER}), or start fewer ranks on this machine"
        )
    # MPICH has shared memory of its own, so UCX's matters little.
    return {"UCX_TLS": "^posix"} if free < ranks * _SHARED_BY_UCX else {}


def _ranks_here(launched: launched_rank.LaunchedRank | None) -> int:
    """How many ranks are on this machine, as far as the launcher says it."""
    if launched is None or (launched.launcher == launched_rank.BY_VARIABLES and "LOCAL_WORLD_SIZE" not in os.environ):
        return 1
    return launched.local_size


def _started() -> Communicator:
    MPI = load_mpi()
    launched = launched_rank.found(os.environ)
    settings = mpich_settings(launched)
    if MPI.Get_library_version().startswith("MPICH"):
        settings |= shared_memory_settings(_ranks_here(launched))
    with _started_for(launched, MPI), _with(settings), _limited():
        if not MPI.Is_initialized():
            MPI.Init_thread()
    if threading.current_thread() is threading.main_thread():
        for number in _SIGNALS:  # UCX takes SIGHUP to itself
            signal.signal(number, signal.getsignal(number))

    from hybridc.communication.mpi_communicator import MPICommunicator
    from hybridc.communication.rank_watch import RankWatch, seat

    world = MPI.COMM_WORLD
    if launched is not None and world.size != launched.size:
        raise MXNetError(
            f"{launched.launcher} started this process as rank {launched.rank} of {launched.size}, but mpi4py knows of "
            f"{world.size}: it uses another MPI, {MPI.Get_library_version().splitlines()[0].strip()}; start the "
            "program with the mpiexec of that one, or by python -m hybridc launch"
        )
    with _limited():
        seats: Any = world.allgather(seat(MPI.Get_processor_name()))

    def shared(value: Any) -> Any:
        with _limited():
            return world.bcast(value)

    watch = RankWatch(world.rank, seats, shared, OPTIONS.comm_timeout)
    made = MPICommunicator(world, MPI, watch)
    _WORLD.watch, _WORLD.process = watch, os.getpid()
    if made.local_rank == 0:
        _release_shared_memory()
    previous = sys.excepthook

    def raised(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        previous(kind, error, trace)
        if os.getpid() == _WORLD.process:
            end_failed(_INTERRUPTED if issubclass(kind, KeyboardInterrupt) else 1, error)

    def ended() -> None:
        if os.getpid() != _WORLD.process:
            return
        # What ended the main thread, if the program has a hook of its own that does not call ours.
        error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
        if error is not None and sys.excepthook is not raised:
            end_failed(1, error)
        try:
            made.finish()
            watch.end()
        except KeyboardInterrupt as interrupt:
            end_failed(_INTERRUPTED, interrupt)
        with _limited():
            MPI.Finalize()

    sys.excepthook = raised
    atexit.register(ended)
    return made


def _release_shared_memory() -> None:
    """Let the system free MPICH's shared memory when the last rank ends, however that is: all ranks have mapped it."""
    with contextlib.suppress(OSError):  # only Linux says what is mapped
        mapped = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines()}
        for path in mapped:
            if path.startswith(_SHARED):
                os.unlink(path)


@contextlib.contextmanager
def _started_for(launched: launched_rank.LaunchedRank | None, mpi: Any) -> Generator[None]:
    """Within the ``with`` block MPI finds what it asks for the other ranks, also if nothing of MPI started this one."""
    if launched is None or launched.launcher != launched_rank.BY_VARIABLES:
        yield
        return
    library = mpi.Get_library_version().splitlines()[0].strip()
    if not library.startswith("MPICH"):
        raise MXNetError(
            "RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT start ranks with MPICH only, but mpi4py uses "
            f"{library}; start them by its mpiexec, or by python -m hybridc launch, or install the package mpich"
        )
    from hybridc.communication.pmi_server import TOKEN, is_guessable, serving

    if is_guessable(os.environ):
        raise MXNetError(
            f"MASTER_ADDR={os.environ.get('MASTER_ADDR', '')} is an address that other machines reach, and without a "
            f"secret whoever does could take part as a rank; give all ranks one secret in {TOKEN} (of openssl rand "
            "-hex 16, for instance), or start them by python -m hybridc launch; ranks of one machine need none with "
            "MASTER_ADDR=127.0.0.1, or with LOCAL_WORLD_SIZE, as torchrun sets it"
        )
    with serving(os.environ, launched.rank, launched.size, OPTIONS.comm_timeout) as variables, _with(variables):
        yield


@contextlib.contextmanager
def _with(variables: Mapping[str, str]) -> Generator[None]:
    """Within the ``with`` block the environment has these variables; a user's own stay as they are."""
    added = {name: value for name, value in variables.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:  # processes that this one starts are no ranks
            del os.environ[name]


@contextlib.contextmanager
def _limited() -> Generator[None]:
    """Within the ``with`` block MPI waits for all ranks; a process for which it takes too long ends.

    No thread of Python's can do that, as MPI then holds the lock of the interpreter.
    """
    # Later than a launcher, which can say which rank is late.
    faulthandler.dump_traceback_later(OPTIONS.comm_timeout + _AFTER_LAUNCHER, exit=True, file=sys.__stderr__ or 2)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()

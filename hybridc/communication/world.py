"""The communicator of all ranks: found by what started the process, made when it is first asked for."""

from __future__ import annotations

import atexit
import os
import socket
import sys
import traceback
from types import TracebackType
from typing import Any

from hybridc import random
from hybridc.communication.communicator import Alone, Communicator
from hybridc.errors import MXNetError
from hybridc.ground.locks import ForkLock
from hybridc.options import OPTIONS

# The variables by which launchers say how many ranks they started: MPICH and Intel MPI, Open MPI, Slurm.
_SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS")

_LOCK = ForkLock()


class _World:
    """The communicator of all ranks, once there is one."""

    made: Communicator | None = None


_WORLD = _World()


def is_launched() -> bool:
    """Whether a launcher started this process as one of several ranks."""
    return any(os.environ.get(name, "1") not in ("", "0", "1") for name in _SIZES) and _is_rank()


def _is_rank() -> bool:
    # The shell of a Slurm allocation has the number of tasks too, but is none of them; nor are processes that a rank
    # starts to load data, which have its variables.
    multiprocessing = sys.modules.get("multiprocessing.process")
    if multiprocessing is not None and multiprocessing.parent_process() is not None:
        return False
    return "SLURM_NTASKS" not in os.environ or "SLURM_PROCID" in os.environ


def communicator() -> Communicator:
    """The communicator of all ranks of the program; all call this, once at least.

    A process that no launcher started is alone. The first call starts MPI.
    """
    with _LOCK.current:
        if _WORLD.made is None:
            _WORLD.made = made = _started() if is_launched() else Alone(socket.gethostname())
            random.set_rank(made.rank)
        return _WORLD.made


def _started() -> Communicator:
    try:
        import mpi4py
    except ImportError as error:
        raise MXNetError(
            "a launcher started this process as one of several ranks, but mpi4py is not installed, which they need to "
            "communicate; pip install hybridc[mpi]"
        ) from error
    mpi4py.rc.finalize = False  # at exit, after the watch has told the others
    from mpi4py import MPI

    from hybridc.communication.mpi_communicator import MPICommunicator
    from hybridc.communication.rank_watch import RankWatch

    world: Any = MPI.COMM_WORLD
    hosts, processes = zip(*world.allgather((MPI.Get_processor_name(), os.getpid())), strict=True)
    watch = RankWatch(world.rank, hosts, processes, world.bcast, OPTIONS.comm_timeout)
    made = MPICommunicator(world, MPI, watch)
    previous, process = sys.excepthook, os.getpid()

    def raised(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        previous(kind, error, trace)
        if os.getpid() != process:  # forked from the rank: its failure is no rank's
            return
        _flush()
        text = traceback.format_exception_only(kind, error)[-1].strip()
        watch.fail(f"raised {text}")
        _flush()
        os._exit(1)  # what MPI does at exit would wait for the others

    def ended() -> None:
        if os.getpid() != process:
            return
        watch.end()
        MPI.Finalize()

    sys.excepthook = raised
    atexit.register(ended)
    return made


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()

"""Which rank this is of how many, and what the communication is made of."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Any

from hybridc import profiler
from hybridc.horovod.rank_sets import communicator_of, global_process_set, is_alone
from hybridc.runtime.devices.nvidia import nccl


def rank() -> int:
    """The number of this process among all."""
    return communicator_of(global_process_set).rank


def size() -> int:
    """How many processes there are."""
    return communicator_of(global_process_set).size


def local_rank() -> int:
    """The number of this process among those of this machine."""
    return communicator_of(global_process_set).local_rank


def local_size() -> int:
    """How many processes there are on this machine."""
    return communicator_of(global_process_set).local_size


def cross_rank() -> int:
    """The number of this machine among those that have a process of this local rank."""
    return _machines().index(_host())


def cross_size() -> int:
    """How many machines have a process of this local rank."""
    return len(_machines())


def is_homogeneous() -> bool:
    """Whether all machines have equally many processes."""
    hosts = communicator_of(global_process_set).hosts
    return len({hosts.count(host) for host in hosts}) == 1


def _host() -> str:
    world = communicator_of(global_process_set)
    return world.hosts[world.rank]


def _machines() -> Sequence[str]:
    """The machines that have more processes than the local rank of this one."""
    world = communicator_of(global_process_set)
    return [host for host in dict.fromkeys(world.hosts) if world.hosts.count(host) > world.local_rank]


# --- what there is ------------------------------------------------------------------------------------------------


def mpi_built() -> bool:
    """Whether mpi4py is installed."""
    return importlib.util.find_spec("mpi4py") is not None


def mpi_enabled() -> bool:
    """Whether MPI moves the data: a launcher started several ranks."""
    return not is_alone()


def mpi_threads_supported() -> bool:
    """Whether other code may call MPI beside Horovod, from any thread."""
    if is_alone():
        return False
    from mpi4py import MPI

    return MPI.Query_thread() == MPI.THREAD_MULTIPLE


def gloo_built() -> bool:
    """False: MPI is what there is."""
    return False


def gloo_enabled() -> bool:
    """False: MPI is what there is."""
    return False


def nccl_built() -> int:
    """The version of NCCL, which sums the gradients of trainers on GPUs; 0 if there is none."""
    return nccl.nccl_version()


def ddl_built() -> bool:
    """False: MPI is what there is."""
    return False


def ccl_built() -> bool:
    """False: MPI is what there is."""
    return False


def cuda_built() -> bool:
    """Whether NCCL is installed: it sums trainers' gradients on GPUs; other GPU arrays go through host memory."""
    return bool(nccl.nccl_version())


def rocm_built() -> bool:
    """False: arrays of GPUs go through the host."""
    return False


# --- the timeline -------------------------------------------------------------------------------------------------


class _Timeline:
    """Where the timeline goes."""

    path: str | None = None


def start_timeline(file_path: str, mark_cycles: bool = False) -> None:
    """Record what this rank does, as :mod:`hybridc.profiler` does it, until ``stop_timeline``.

    Parameters
    ----------
    file_path:
        The file, which rank 0 writes.
    mark_cycles:
        Accepted for Horovod's API: there are no cycles.
    """
    _Timeline.path = file_path if rank() == 0 else None
    if _Timeline.path is not None:
        options: dict[str, Any] = {"profile_all": True, "filename": file_path}
        profiler.set_config(**options)
        profiler.set_state("run")


def stop_timeline() -> None:
    """End what ``start_timeline`` began, and write the file."""
    if _Timeline.path is not None:
        profiler.set_state("stop")
        profiler.dump()
        _Timeline.path = None

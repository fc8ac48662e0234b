"""What the launcher of MPI that started a process says of it, in environment variables.

This file imports nothing of hybridc: what a launcher starts reads it before hybridc is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class LaunchedRank:
    """A process that a launcher started: its number among all, and among those on its machine."""

    launcher: str
    rank: int
    size: int
    local_rank: int
    local_size: int


@dataclass(frozen=True)
class _Launcher:
    name: str
    size: str
    rank: str
    local_rank: str
    local_size: str
    #: A variable that must be there, too.
    also: str | None = None


# The variables of each launcher; a launcher that another one started comes before it. A Slurm allocation and its batch
# script have the number of tasks, too, but only what srun started has a step.
_LAUNCHERS = (
    _Launcher(
        "Open MPI",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    _Launcher("MPICH or Intel MPI", "PMI_SIZE", "PMI_RANK", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    _Launcher("Slurm", "SLURM_NTASKS", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_TASKS_PER_NODE", "SLURM_STEP_ID"),
)
# Beginnings of the names of variables by which a rank finds its launcher. What starts with HYDRA_, OMPI_MCA_, PRTE_MCA_
# and PMIX_MCA_ are settings of the user's.
_OF_LAUNCHERS = (
    *("PMI_", "MPI_LOCAL", "HYDI_", "OMPI_COMM_", "OMPI_UNIVERSE_SIZE", "PRTE_LAUNCHED"),
    *("PMIX_NAMESPACE", "PMIX_RANK", "PMIX_SERVER", "SLURM_PROCID", "SLURM_LOCALID"),
)


def found(env: Mapping[str, str]) -> LaunchedRank | None:
    """What started this process as a rank, if anything did."""
    for launcher in _LAUNCHERS:
        size, rank = _number(env, launcher.size), _number(env, launcher.rank)
        if size is None or rank is None or (launcher.also is not None and launcher.also not in env):
            continue
        local_rank, local_size = _number(env, launcher.local_rank), _number(env, launcher.local_size)
        return LaunchedRank(launcher.name, rank, size, rank if local_rank is None else local_rank, local_size or size)
    return None


def without(env: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process that is no rank, and may start ranks of its own."""
    return {name: value for name, value in env.items() if not name.startswith(_OF_LAUNCHERS)}


def _number(env: Mapping[str, str], name: str) -> int | None:
    # Slurm writes 4(x2) for four on each of two machines.
    digits = env.get(name, "").partition("(")[0].partition(",")[0]
    return int(digits) if digits.isdecimal() else None

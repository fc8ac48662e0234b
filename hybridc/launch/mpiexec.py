"""The program of MPI that starts ranks: which one is here, and what it is told."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from hybridc.ground.records import dataclass
from hybridc.launch.launch_options import LaunchError

_NAMES = ("mpiexec", "mpirun")
_SECONDS = 30  # for mpiexec --version, which reads files that may be far away


@dataclass(frozen=True)
class Mpiexec:
    """One of MPICH's family, which Intel's is of, or Open MPI's."""

    path: str
    is_open_mpi: bool = False
    is_mpich: bool = False

    def command(
        self, ranks: int, hosts: Sequence[str], program: Sequence[str], variables: Mapping[str, str]
    ) -> list[str]:
        """The command that starts the ranks.

        None ends all of them when one fails, which the ranks and the launcher do when they have said why.
        """
        if not self.is_open_mpi:
            where = ["-hosts", ",".join(hosts)] if hosts else []
            alive = ["-disable-auto-cleanup"] if self.is_mpich else []
            return [self.path, *alive, *where, "-n", str(ranks), *program]
        where = ["--host", ",".join(hosts)] if hosts else []
        as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        # Other machines get no variables but those that are named.
        passed = [word for name in variables if _is_passed(name) for word in ("-x", name)]
        flags = ["--oversubscribe", "--bind-to", "none", *as_root, *where, *passed]
        return [self.path, *flags, "-n", str(ranks), *program]


def _is_passed(name: str) -> bool:
    return name.startswith(("HYBRIDC_", "MXNET_", "PYTHON", "OMP_", "OPENBLAS_", "MKL_", "DMLC_")) or name in (
        *("LD_LIBRARY_PATH", "VIRTUAL_ENV"),
    )


def find(env: Mapping[str, str]) -> Mpiexec:
    """The mpiexec of this interpreter's packages, or else the system's; LaunchError if there is none."""
    folder = Path(sys.prefix) / ("Scripts" if sys.platform == "win32" else "bin")
    places = (str(folder), env.get("PATH", os.defpath))
    path = next(filter(None, (shutil.which(name, path=place) for place in places for name in _NAMES)), None)
    if path is None:
        raise LaunchError(
            f"several ranks need mpiexec, which is neither in {folder} nor on the path; pip install hybridc[mpi]"
        )
    try:
        shown = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=_SECONDS, env=dict(env))
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LaunchError(f"{path} --version does not run: {error}") from None
    said = shown.stdout + shown.stderr
    if "Open MPI" in said or "PRRTE" in said or "OpenRTE" in said:
        return Mpiexec(path, is_open_mpi=True)
    if "Intel" in said:
        return Mpiexec(path)
    if "HYDRA" in said or "MPICH" in said:
        return Mpiexec(path, is_mpich=True)
    first = said.strip().partition("\n")[0]
    raise LaunchError(f"{path} is of an MPI that is not known here, {first!r}; known are MPICH, Intel MPI and Open MPI")

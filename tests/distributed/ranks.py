"""Programs of several ranks, for tests: real processes, which MPI starts."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).resolve().parent / "programs"


@dataclass
class Completed:
    """What the processes left."""

    returncode: int
    stdout: str
    stderr: str

    @property
    def lines(self) -> dict[int, list[str]]:
        """What each rank printed by ``say`` of the programs: lines that begin with its number in brackets."""
        found: dict[int, list[str]] = {}
        for line in self.stdout.splitlines():
            for rank, text in re.findall(r"\[rank (\d+)\] (.*?)(?=\[rank \d+\] |$)", line):
                found.setdefault(int(rank), []).append(text)
        return found


def mpiexec() -> str:
    """The command that starts ranks: of the wheel beside this Python, or the system's."""
    beside = Path(sys.executable).parent / "mpiexec"
    return str(beside) if beside.exists() else shutil.which("mpiexec") or ""


def is_there() -> bool:
    """Whether ranks can be started here."""
    return bool(mpiexec()) and importlib.util.find_spec("mpi4py") is not None


def run(program, ranks=2, arguments=(), env=None, timeout=120, check=True) -> Completed:
    """Run a program of ``programs/``, or Python text with several lines, as so many ranks."""
    what = ["-c", program] if "\n" in program else [str(PROGRAMS / program)]
    command = [mpiexec(), "-n", str(ranks)]
    version = subprocess.run([mpiexec(), "--version"], capture_output=True, text=True, timeout=60, check=False).stdout
    if "HYDRA" in version:
        command.append("-disable-auto-cleanup")
    full = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")])),
        "HYBRIDC_NUM_THREADS": "1",
        **(env or {}),
    }
    done = subprocess.run(
        [*command, sys.executable, *what, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env=full,
        check=False,
    )
    result = Completed(done.returncode, done.stdout, done.stderr)
    assert not check or done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return result

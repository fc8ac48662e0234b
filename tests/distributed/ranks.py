"""Programs of several ranks, as tests start them."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"
ROOT = Path(__file__).parents[2]


@dataclass
class Finished:
    """What a program of several ranks did; ``lines`` and ``errors`` are what each rank wrote to stdout and stderr."""

    returncode: int
    stdout: str
    stderr: str
    seconds: float
    lines: dict[int, list[str]] = field(default_factory=dict)
    errors: dict[int, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.lines, self.errors = _by_rank(self.stdout), _by_rank(self.stderr)


def _by_rank(text: str) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for line in text.splitlines():
        if match := re.match(r"\[(\d+)\] (?:\[rank \d+\] )?(.*)", line):
            found.setdefault(int(match[1]), []).append(match[2])
    return found


def environment(env: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a program: this one, with the package on the path."""
    full = {**os.environ, **(env or {})}
    paths = [full.get("PYTHONPATH", ""), str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {**full, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def start(
    program: str | Sequence[str],
    ranks: int = 2,
    arguments: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    options: Sequence[str] = (),
) -> subprocess.Popen[str]:
    """Start a program by ``python -m hybridc launch``: a file of ``programs/``, its text, or ``["-m", module]``."""
    if isinstance(program, str):
        program = [_file(program)]
    command = [sys.executable, "-m", "hybridc", "launch", "-n", str(ranks), *options, *program, *arguments]
    return subprocess.Popen(
        command,
        env=environment(env),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=heed_signals,
    )


def by_variables(program: Sequence[str], **variables: str) -> list[tuple[str, str, int]]:
    """What two processes print, and how they end, that have no launcher."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    variables = {"WORLD_SIZE": "2", "MASTER_PORT": str(port), "HYBRIDC_COMM_TIMEOUT": "8", **variables}
    processes = [
        subprocess.Popen(
            [sys.executable, *program],
            env=environment({**variables, "RANK": str(rank)}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    return [(*process.communicate(timeout=60), process.returncode) for process in processes]


def heed_signals() -> None:
    """Let signals end the process: tests that a shell runs in the background, or nohup, have them ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def _file(program: str) -> str:
    if "\n" not in program:
        return str(PROGRAMS / program)
    import tempfile

    with tempfile.NamedTemporaryFile("w", suffix=".py", prefix="ranks-", delete=False) as file:
        file.write(program)
    return file.name


def finish(process: subprocess.Popen[str], timeout: float = 120) -> Finished:
    """Wait for a program; one that takes too long is an error, and ended."""
    begun = time.monotonic()
    try:
        stdout, stderr = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        for number in (signal.SIGTERM, signal.SIGTERM):  # the second one ends it at once
            process.send_signal(number)
        stdout, stderr = process.communicate()
        raise AssertionError(f"not over after {timeout:g} s\n{stdout}\n{stderr}") from None
    return Finished(process.returncode, stdout, stderr, time.monotonic() - begun)


def run(
    program: str | Sequence[str],
    ranks: int = 2,
    arguments: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    timeout: float = 120,
    options: Sequence[str] = (),
    check: bool = False,
) -> Finished:
    """Start a program and wait for it; with ``check`` it must not fail."""
    done = finish(start(program, ranks, [*map(str, arguments)], env, options), timeout)
    assert not check or done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done

"""Checks of programs in processes of their own, so that a crash or a hang is an outcome like others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any

from hybridc.tools.fuzz.check_program import Failure, Invalid, check
from hybridc.tools.fuzz.damaged_files import read
from hybridc.tools.fuzz.networks.check_network import check_network
from hybridc.tools.fuzz.networks.random_network import RandomNetwork
from hybridc.tools.fuzz.numpy_program import NumpyProgram, check_numpy
from hybridc.tools.fuzz.random_program import RandomProgram

SECONDS = 60.0  # after which a program counts as one that hangs, and after four times as many a network
KEPT = 500  # programs after which a process is replaced, so that what one left behind does not last


class Worker:
    """A process that checks programs for one target."""

    def __init__(self, target: str, cache: Path | None = None) -> None:
        self.target = target
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection[Any, Any] | None = None
        self._checked = 0
        self._cache = tempfile.TemporaryDirectory(prefix="hybridc-fuzz-")
        self._folder = Path(self._cache.name) / "cache" if cache is None else cache
        self._errors = Path(self._cache.name) / "stderr.txt"

    def _start(self) -> None:
        self._pipe, other = Pipe()
        environment = {
            **os.environ,
            "HYBRIDC_TARGET": self.target,
            "HYBRIDC_CACHE_DIR": str(self._folder),
            "PYTHONFAULTHANDLER": "1",
        }
        command = [sys.executable, "-m", "hybridc.tools.fuzz.worker", str(other.fileno())]
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(command, env=environment, pass_fds=[other.fileno()], stderr=errors)
        other.close()

    def check(
        self, program: RandomProgram | NumpyProgram | RandomNetwork, seconds: float | None = None
    ) -> tuple[str, str] | None:
        """The failure of a program: its kind and the particulars. Invalid programs are of the kind "invalid"."""
        if seconds is None:
            seconds = 4 * SECONDS if isinstance(program, RandomNetwork) else SECONDS
        return self._ask(type(program).__name__, program.to_json().encode(), seconds)

    def read(self, kind: str, data: bytes, seconds: float = SECONDS) -> tuple[str, str] | None:
        """The failure of reading a file of this kind."""
        return self._ask(kind, data, seconds)

    def _ask(self, kind: str, data: bytes, seconds: float) -> tuple[str, str] | None:
        if self._process is None or self._checked >= KEPT:
            self.close()
            self._start()
            self._checked = 0
        self._checked += 1
        assert self._pipe is not None
        assert self._process is not None
        try:
            self._pipe.send_bytes(kind.encode() + b"\n" + data)
            if not self._pipe.poll(seconds + 10 * (self._checked == 1)):
                self.close()
                return "hang", f"no answer after {seconds:.0f} seconds"
            answer = json.loads(self._pipe.recv_bytes())
        except (EOFError, OSError):
            code = self._process.wait()
            self.close()
            lines = self._errors.read_text(errors="replace").splitlines()
            return "crash", "\n".join([f"the process ended with {code}", *lines[:30]])
        return None if answer is None else (answer[0], answer[1])

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._pipe is not None
            self._pipe.close()
        self._process = None


_CHECKS: Mapping[bytes, Callable[[str], Failure | None]] = {
    b"RandomProgram": lambda text: check(RandomProgram.from_json(text)),
    b"NumpyProgram": lambda text: check_numpy(NumpyProgram.from_json(text)),
    b"RandomNetwork": lambda text: check_network(RandomNetwork.from_json(text)),
}


def serve(pipe: Connection[Any, Any]) -> None:
    """Check the programs and read the files that come through a pipe until it is closed."""
    while True:
        try:
            kind, _, data = pipe.recv_bytes().partition(b"\n")
        except EOFError:
            return
        try:
            if kind in _CHECKS:
                failure = _CHECKS[kind](data.decode())
                answer = None if failure is None else (failure.kind, failure.text)
            else:
                answer = read(kind.decode(), data)
        except Invalid as refused:
            answer = ("invalid", str(refused))
        except Exception as error:  # the check itself is wrong
            answer = ("harness", f"{type(error).__name__}: {error}\n{traceback.format_exc()}")
        pipe.send_bytes(json.dumps(answer).encode())


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))

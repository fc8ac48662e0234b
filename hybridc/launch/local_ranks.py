"""The ranks of this machine, started without mpiexec: each with a connection on which MPICH asks for the others.

MPICH's own launcher listens for connections from everywhere; here nothing does.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence

from hybridc.communication.links import BEAT
from hybridc.communication.pmi_server import PmiServer
from hybridc.launch.launch_options import LaunchError


class LocalRanks:
    """The processes that a command starts, one for each rank, with the methods of ``subprocess.Popen`` for all.

    Their connections are registered with ``selector``, whose ``selectors.SelectorKey.data`` are functions to call.
    """

    def __init__(
        self, command: Sequence[str], ranks: int, env: Mapping[str, str], selector: selectors.BaseSelector
    ) -> None:
        self._server, self._selector = PmiServer(ranks), selector
        self._processes: list[subprocess.Popen[bytes]] = []
        for rank in range(ranks):
            try:
                self._processes.append(self._start(command, rank, ranks, env))
            except OSError as error:
                self.end()
                raise LaunchError(f"cannot start rank {rank}: {error}") from None

    def _start(self, command: Sequence[str], rank: int, ranks: int, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
        ours, its = socket.socketpair()
        names = ("PMI_FD", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")
        values = (its.fileno(), rank, ranks, rank, ranks)
        with its:
            process = subprocess.Popen(
                command,
                env={**env, **{name: str(value) for name, value in zip(names, values, strict=True)}},
                stdin=None if rank == 0 else subprocess.DEVNULL,
                pass_fds=[its.fileno()],
                start_new_session=True,  # what a terminal sends goes to the launcher, and from there to the ranks
            )
        self._server.add(ours)
        self._selector.register(ours, selectors.EVENT_READ, lambda: self._read(ours))
        return process

    def _read(self, connection: socket.socket) -> None:
        if connection in self._server.connections and not self._server.read(connection):
            self._selector.unregister(connection)

    @property
    def returncode(self) -> int:
        """The first status of a process that failed; 0 if none has."""
        return next((process.returncode for process in self._processes if process.returncode), 0)

    def poll(self) -> int | None:
        """The status when all have ended; None before."""
        ended = [process.poll() is not None for process in self._processes]
        return self.returncode if all(ended) else None

    def terminate(self) -> None:
        """Ask all to end."""
        for process in self._processes:
            process.terminate()

    def end(self) -> None:
        """Leave nothing behind."""
        for process in self._processes:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
        for process in self._processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(BEAT)
        for connection in self._server.connections:
            self._server.remove(connection)

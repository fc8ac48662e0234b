"""The process that a user starts: it starts the ranks, hears of every one how it ends, and ends what is left."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import hybridc.alias
from hybridc.communication import launched_rank
from hybridc.communication.links import BACKLOG, BEAT, LOOPBACK, Door, addresses, packed, unpacked
from hybridc.communication.rank_watch import STATUS
from hybridc.ground.compiler_output import say
from hybridc.ground.records import dataclass
from hybridc.launch import mpiexec, rank_process, rank_program
from hybridc.launch.launch_options import HELP, LaunchError, LaunchOptions, parsed
from hybridc.launch.local_ranks import LocalRanks
from hybridc.options import OPTIONS

# Networks of MPICH's libraries that are enough for ranks of one machine, where a user does not choose.
_LOCAL_NETWORK = {"UCX_NET_DEVICES": "lo", "FI_TCP_IFACE": "lo"}
_TOKEN = 16  # bytes by which the launcher knows that a connection is of its ranks
# Seconds for which the ranks may end by themselves after one failed, and mpiexec after all ranks ended.
_PATIENCE = 5.0
_LAST = 2.0
_START = 60.0  # at least, for Python to start in the first rank
# Seconds for which the ranks may end after a signal: programs that schedulers stop write a checkpoint first.
_AFTER_SIGNAL = {signal.SIGINT: 10.0, signal.SIGTERM: 30.0, signal.SIGHUP: 30.0}


@dataclass
class _ConnectedRank:
    """What is known of a rank."""

    connection: socket.socket
    host: str = ""
    stage: str = rank_program.STAGES[0]
    heard: float = field(default_factory=time.monotonic)
    unread: bytearray = field(default_factory=bytearray)
    #: Its exit status, or minus the signal that ended it.
    status: int | None = None
    #: The signal that stopped it last, if one did, and whether it has not gone on since.
    stopped: int | None = None
    #: Whether the connection broke before it ended, or has been silent for too long.
    lost: bool = False
    silent: bool = False

    @property
    def failed(self) -> bool:
        return self.lost or self.status not in (None, 0)

    @property
    def is_over(self) -> bool:
        return self.lost or self.status is not None


class _OneProcess(subprocess.Popen[bytes]):
    """mpiexec, or the only rank; in a session of its own: what a terminal sends comes here, and from here to ranks."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        super().__init__(command, env=env, start_new_session=True)

    def end(self) -> None:
        """Leave nothing behind."""
        with contextlib.suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)
        self.wait()


class _Attempt:
    """One start of the program: the ranks, from their start to their end."""

    def __init__(self, options: LaunchOptions, number: int) -> None:
        self._options = options
        self._timeout = options.timeout or OPTIONS.comm_timeout
        self._token = secrets.token_hex(_TOKEN)
        self._places = addresses() if options.hosts else [LOOPBACK]
        self._ranks: dict[int, _ConnectedRank] = {}
        self._selector = selectors.DefaultSelector()
        listener = socket.create_server(("" if options.hosts else LOOPBACK, 0), backlog=BACKLOG)
        self._port = listener.getsockname()[1]
        self._door = Door(listener, self._token, options.ranks, self._selector, self._admit)
        #: Since when the ranks are started, and since when one waits for MPI to start in all.
        self._begun = self._beat = time.monotonic()
        self._waits: float | None = None
        #: Since when the first rank has ended well.
        self._done: float | None = None
        #: The ranks that failed, the first one first, and when that was.
        self._failures: list[int] = []
        self._failed: float | None = None
        self._killed: float | None = None
        self._why = ""
        #: The signal that ends the program, and when the ranks are killed.
        self.signal: int | None = None
        self._patience = 0.0
        self._processes = self._start(number)

    def run(self) -> int:
        """Wait until all is over; the exit status of the program."""
        over: float | None = None  # since when only mpiexec is left, or only its ranks
        try:
            while True:
                for key, _ in self._selector.select(BEAT / 4):
                    key.data()
                self._door.look()
                now = time.monotonic()
                self._send_beats(now)
                self._look(now)
                ended = self._processes.poll() is not None
                ranks_ended = all(rank.is_over for rank in self._ranks.values())
                if ended and ranks_ended:
                    break
                if ended or (ranks_ended and len(self._ranks) == self._options.ranks):
                    over = over or now
                    if now > over + _PATIENCE:
                        break
                if self._killed is not None and now > self._killed + _LAST:
                    break
        finally:
            self._end()
        return self._status()

    def signalled(self, number: int) -> None:
        """Pass on a signal; the second one kills the ranks."""
        now = time.monotonic()
        if self.signal is None:
            self.signal = number
            self._patience = now + _AFTER_SIGNAL[signal.Signals(number)]
            self._send_all({"signal": number})
            if not self._ranks:
                self._processes.terminate()
        else:
            self._patience = now

    # --- the start --------------------------------------------------------------------------------------------

    def _start(self, number: int) -> LocalRanks | _OneProcess:
        options = self._options
        env = launched_rank.without(os.environ)
        path = [str(Path(hybridc.alias.__file__).parent), env.get("PYTHONPATH", "")]
        env["PYTHONPATH"] = os.pathsep.join(filter(None, path))
        env["HYBRIDC_RESTART"] = str(number)
        env["HYBRIDC_COMM_TIMEOUT"] = str(self._timeout)
        env[rank_process.LAUNCHER] = f"{','.join(self._places)} {self._port} {self._token} {self._timeout}"
        # What Python was started with, such as -W and -X, holds for the program, too.
        flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
        command: list[str] = [sys.executable, *flags, rank_process.__file__, *options.program]
        self._program = command[0]
        if options.ranks > 1 or options.hosts:
            found = mpiexec.find(os.environ)
            if found.is_mpich and not options.hosts:
                network = _LOCAL_NETWORK if os.path.exists("/sys/class/net/lo") else {}
                return LocalRanks(command, options.ranks, {**network, **env}, self._selector)
            command = found.command(options.ranks, options.hosts, command, env)
        self._program = command[0]
        return _OneProcess(command, env)

    def _admit(self, number: int, connection: socket.socket) -> None:
        rank = self._ranks[number] = _ConnectedRank(connection)
        self._selector.register(connection, selectors.EVENT_READ, lambda: self._hear(number, rank))
        if self.signal is not None:
            self._send(rank, {"signal": self.signal})
        if not self._door.missing:
            self._door.close()

    # --- the ranks --------------------------------------------------------------------------------------------

    def _hear(self, number: int, rank: _ConnectedRank) -> None:
        try:
            got = rank.connection.recv(1 << 16)
            messages = unpacked(rank.unread, got)
        except BlockingIOError:
            return
        except (OSError, ValueError):
            got, messages = b"", []
        rank.heard = time.monotonic()
        for message in messages:
            rank.host = message.get("host", rank.host)
            rank.stage = message.get("stage", rank.stage)
            rank.stopped = message.get("stopped", rank.stopped)
            if "ended" in message:
                rank.status = message["ended"]
        if not got:
            self._selector.unregister(rank.connection)
            rank.connection.close()
            rank.lost = rank.status is None
        if rank.failed and number not in self._failures:
            self._fail(number)

    def _fail(self, number: int) -> None:
        """Note that a rank failed; one that ended because of another one is not the first."""
        rank = self._ranks[number]
        self._failures.append(number)
        if self._failed is None:
            self._failed = time.monotonic()
        if self._why or rank.status == STATUS:
            return
        self._why = self._text(number)
        if rank.lost or (rank.status or 0) < 0:  # others can say what they raise
            self._send_all({"say": self._why})

    def _text(self, number: int) -> str:
        rank = self._ranks[number]
        if rank.silent:
            what = f"has not answered for {self._timeout} s"
        elif rank.status is None:
            what = "was lost: the connection to it broke"
        elif rank.status < 0 and rank.stopped is not None:
            name = _signal_name(rank.stopped)
            what = f"was stopped by {name}, so that it no longer answered, and was then killed"
        elif rank.status < 0:
            what = f"was killed by {_signal_name(-rank.status)}"
        else:
            what = f"ended with exit status {rank.status}"
        return f"rank {number} on {rank.host} {what}"

    def _look(self, now: float) -> None:
        """End what is late."""
        if self._killed is not None:
            return
        if self.signal is not None:
            if now > self._patience:
                self._kill(f"the program was to end by {_signal_name(self.signal)}")
        elif self._failed is not None:
            if now > self._failed + _PATIENCE:
                self._kill(self._why or "a rank failed")
        else:
            self._look_at_silent(now)
            self._look_at_starts(now)
            self._look_at_ends(now)

    def _look_at_silent(self, now: float) -> None:
        for number, rank in self._ranks.items():
            if not rank.is_over and now > rank.heard + self._timeout:
                rank.lost, rank.silent = True, True
                self._fail(number)

    def _look_at_starts(self, now: float) -> None:
        """MPI starts in all ranks or in none: the one that is behind the others is the reason."""
        *_, last = rank_program.STAGES
        late = [number for number, rank in self._ranks.items() if rank.stage != last]
        missing = [number for number in range(self._options.ranks) if number not in self._ranks]
        if not late and not missing:
            return
        if self._waits is None and any(rank.stage != rank_program.STAGES[0] for rank in self._ranks.values()):
            self._waits = now
        limit = self._begun + max(_START, self._timeout) if self._waits is None else self._waits + self._timeout
        if now < limit:
            return
        if missing:
            self._kill(f"rank {missing[0]} has not started for {self._timeout} s")
            return
        first = min(late, key=lambda number: rank_program.STAGES.index(self._ranks[number].stage))
        if self._ranks[first].stage == rank_program.STAGES[0]:
            self._kill(
                f"rank {first} on {self._ranks[first].host} has not come to the start of MPI for {self._timeout} s"
            )
        else:
            self._kill(f"MPI has not started for {self._timeout} s in all ranks: does the network between them work?")

    def _look_at_ends(self, now: float) -> None:
        """A rank ends when all are done, and then all do at about the same time."""
        if self._done is None and any(rank.is_over for rank in self._ranks.values()):
            self._done = now
        left = [number for number, rank in self._ranks.items() if not rank.is_over]
        if self._done is not None and left and now > self._done + self._timeout:
            text = f"has not ended for {self._timeout} s, although all ranks were done"
            self._kill(f"rank {left[0]} on {self._ranks[left[0]].host} {text}")

    def _kill(self, why: str) -> None:
        self._killed = time.monotonic()
        self._why = self._why or why
        self._send_all({"kill": why})

    def _send_beats(self, now: float) -> None:
        if now > self._beat + BEAT:
            self._beat = now
            self._send_all({"alive": True})

    def _send_all(self, message: dict[str, Any]) -> None:
        for rank in self._ranks.values():
            self._send(rank, message)

    @staticmethod
    def _send(rank: _ConnectedRank, message: dict[str, Any]) -> None:
        if not rank.is_over:
            with contextlib.suppress(OSError):
                rank.connection.sendall(packed(message))

    # --- the end ----------------------------------------------------------------------------------------------

    def _end(self) -> None:
        """Leave nothing behind."""
        self._processes.end()
        for rank in self._ranks.values():
            rank.connection.close()
        self._door.close()
        self._selector.close()

    def _status(self) -> int:
        if self.signal is not None:
            return 128 + self.signal
        if self._why or self._failures:
            _say(self._why or "the program failed; above is what the ranks say of it")
        for number in sorted(self._failures, key=lambda number: self._ranks[number].status == STATUS):
            status = self._ranks[number].status
            return STATUS if status is None else status if status > 0 else 128 - status
        if self._killed is not None:
            return STATUS
        if len(self._ranks) < self._options.ranks or not all(rank.is_over for rank in self._ranks.values()):
            status = self._processes.returncode
            _say(f"{self._program} ended with status {status} before the ranks did; above is what it says")
            return status if status > 0 else 1
        return 0


def main(arguments: Sequence[str]) -> NoReturn:
    """Start a program as several ranks, and end with its exit status."""
    rank_process.open_standard_files()
    if list(arguments[:1]) in (["-h"], ["--help"]):
        sys.stdout.write(HELP)
        sys.exit()
    try:
        options = parsed(arguments)
        _check(options)
        sys.exit(_run(options))
    except LaunchError as error:
        sys.exit(f"hybridc launch: {error}")


def _check(options: LaunchOptions) -> None:
    """Raise LaunchError for what every rank would stumble on."""
    if options.ranks > 1 and importlib.util.find_spec("mpi4py") is None:
        raise LaunchError("several ranks need mpi4py, which is not installed; pip install hybridc[mpi]")
    first, *rest = options.program
    if first == "-m":
        sys.path.insert(0, os.getcwd())
        if importlib.util.find_spec(rest[0].partition(".")[0]) is None:
            raise LaunchError(f"there is no module {rest[0]}")
        return
    try:
        if not os.path.isdir(first) and first.endswith(".py"):
            rank_program.compiled(first)
    except OSError as error:
        raise LaunchError(f"cannot read the program {first}: {error.strerror}") from None
    except (SyntaxError, ValueError) as error:
        sys.excepthook(type(error), error.with_traceback(None), None)
        raise LaunchError(f"the program {first} is no Python") from None
    if not os.path.exists(first):
        raise LaunchError(f"there is no program {first}")


def _run(options: LaunchOptions) -> int:
    """Start the program until it succeeds, or has failed too often."""
    current: list[_Attempt] = []

    def signalled(number: int, _: FrameType | None) -> None:
        if current:
            current[-1].signalled(number)
        else:
            sys.exit(128 + number)

    for number in _AFTER_SIGNAL:
        if signal.getsignal(number) != signal.SIG_IGN:  # as nohup does
            signal.signal(number, signalled)
    number = 0
    while True:
        attempt = _Attempt(options, number)
        current[:] = [attempt]
        status = attempt.run()
        current.clear()
        if status == 0 or attempt.signal is not None or number == options.restarts:
            return status
        _say(f"starting the program again, {number + 1} of {options.restarts} times")
        number += 1


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _say(text: str) -> None:
    say(f"hybridc launch: {text}")

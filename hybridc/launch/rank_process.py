"""What is started for each rank: it forks the rank, and stays to write its output and to report how it ends.

The rank has cores of its own, and its output goes through pipes to this process, which puts ``[rank]`` before each
line; so what C code and tracebacks print is marked, too, and complete even if the rank is killed. The launcher says
when to send a signal to the rank or to kill it, over a connection; when that breaks, the launcher is gone, and the rank
is ended.

This file is run by its path, and imports nothing of hybridc in this process: threads of libraries that are imported in
the rank count its cores, not the machine's.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import os
import select
import selectors
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING or __name__ != "__main__":
    from hybridc.communication import launched_rank, links
else:
    import importlib.util

    def _read(name: str) -> ModuleType:
        """A module of the folder ``communication``, without the package."""
        path = Path(__file__).parents[1] / "communication" / f"{name}.py"
        spec = importlib.util.spec_from_file_location(name, path)
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    launched_rank, links = _read("launched_rank"), _read("links")

#: The variable by which the launcher says where it is: addresses, port, token, and the seconds after which one side of
#: the connection takes the other one to be gone.
LAUNCHER = "HYBRIDC_LAUNCHER"

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_HELD = (*_SIGNALS, signal.SIGUSR1)  # while the rank is forked
_UNFINISHED = 1.0  # seconds for which the beginning of a line is held back
_LONGEST = 1 << 20  # bytes of a line that is written in one piece
_PATIENCE = 5.0  # seconds for a rank to end before it is killed, and for its children to close its output
_DESCRIPTORS = 1 << 20  # at most, where the system allows any number
_PR_SET_PDEATHSIG = 1  # of Linux's prctl


class RankProcess:
    """The process beside a rank."""

    def __init__(self, rank: launched_rank.LaunchedRank, launcher: str) -> None:
        self._rank = rank.rank
        self._host = socket.gethostname()
        places, port, token, timeout = launcher.split()
        self._timeout = float(timeout)
        self._launcher: socket.socket | None = links.connected(
            places.split(","), int(port), token, self._rank, self._timeout
        )
        self._unread = bytearray()
        self._heard = self._beat = time.monotonic()
        self._selector = selectors.DefaultSelector()
        self._output: list[_Lines] = []
        self._process = 0
        self._status: int | None = None  # of the rank: its exit status, or minus the signal that ended it
        self._ended = 0.0
        self._kill_at: float | None = None

    def run(self, program: list[str]) -> NoReturn:
        """Start the rank; end when it has."""
        self._start(program)
        self._send({"host": self._host, "process": self._process})
        if self._launcher is not None:
            self._launcher.setblocking(False)
            self._selector.register(self._launcher, selectors.EVENT_READ, self._hear)
        while not self._is_over():
            for key, _ in self._selector.select(links.BEAT / 4):
                key.data()
            self._look()
        assert self._status is not None
        reported = self._report()
        if self._status != 0:
            with contextlib.suppress(OSError):  # what it started
                os.killpg(self._process, signal.SIGKILL)
        # For mpiexec the rank ended well if the launcher knows better: it would kill the others.
        os._exit(0 if reported else self._status if self._status >= 0 else 128 - self._status)

    def _is_over(self) -> bool:
        """Whether the rank ended and its output is written; what it started may keep its pipes open."""
        if self._status is None:
            return False
        late = time.monotonic() > self._ended + links.BEAT
        return not any(lines.is_alive() and (lines.writes or not late) for lines in self._output)

    def _start(self, program: list[str]) -> None:
        """Fork the rank, and leave to it what is not of this process."""
        pipes = {1: os.pipe(), 2: os.pipe()}
        said, say = os.pipe()
        signal.pthread_sigmask(signal.SIG_BLOCK, _HELD)
        parent = os.getpid()
        self._process = os.fork()
        if self._process == 0:
            for number, (_, end) in pipes.items():
                os.dup2(end, number)
            for each in (said, *pipes[1], *pipes[2]):
                os.close(each)
            self._selector.close()
            if self._launcher is not None:
                self._launcher.close()
            _become_rank(parent)
            _run_program(program, say)
        kept = {0, 1, 2, said, pipes[1][0], pipes[2][0]}
        if self._launcher is not None:
            kept.add(self._launcher.fileno())
        self._selector.close()
        _close_others(kept)
        self._selector = selectors.DefaultSelector()
        self._selector.register(said, selectors.EVENT_READ, lambda: self._stage(said))
        for number, (end, _) in pipes.items():
            self._output.append(_Lines(end, number, f"[{self._rank}] ".encode()))
            try:
                self._output[-1].start()
            except RuntimeError:
                self._say("its output needs a thread, which the system refuses; raise the limit (ulimit -u)")
                os.kill(self._process, signal.SIGKILL)
                os._exit(1)
        self._wake_on_signals()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HELD)

    def _wake_on_signals(self) -> None:
        wake, woken = os.pipe()
        os.set_blocking(woken, False)
        signal.set_wakeup_fd(woken)
        self._selector.register(wake, selectors.EVENT_READ, lambda: os.read(wake, 1 << 10))
        signal.signal(signal.SIGCHLD, _nothing)
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # MPICH's launcher sends it to all when a rank fails
        for number in _SIGNALS:
            signal.signal(number, self._forward)

    # --- what happens -----------------------------------------------------------------------------------------

    def _look(self) -> None:
        """See whether the rank ended, and whether something is late."""
        now = time.monotonic()
        while self._status is None:
            found, status = os.waitpid(self._process, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
            if not found:
                break
            if os.WIFSTOPPED(status) or os.WIFCONTINUED(status):
                self._send({"stopped": os.WSTOPSIG(status) if os.WIFSTOPPED(status) else None})
            else:
                self._status, self._ended = os.waitstatus_to_exitcode(status), now
        if self._launcher is not None and now - self._beat > links.BEAT:
            self._beat = now
            self._send({"alive": True})
            if now - self._heard > self._timeout:
                self._lose()
        if self._kill_at is not None and now > self._kill_at and self._status is None:
            self._kill_at = None
            os.kill(self._process, signal.SIGKILL)

    def _stage(self, said: int) -> None:
        """Report how far the rank is with its start."""
        got = os.read(said, 1 << 10).decode()
        if got:
            self._send({"stage": got.split()[-1]})
        else:
            self._selector.unregister(said)

    def _forward(self, number: int, _: FrameType | None) -> None:
        """Pass on a signal that mpiexec or a user sent; the rank has seconds to end."""
        self._signal(number)
        if number != signal.SIGINT and self._kill_at is None:
            self._kill_at = time.monotonic() + _PATIENCE

    def _signal(self, number: int) -> None:
        if self._status is None:
            os.kill(self._process, number)

    # --- the launcher -----------------------------------------------------------------------------------------

    def _hear(self) -> None:
        """Do what the launcher says."""
        assert self._launcher is not None
        try:
            got = self._launcher.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            got = b""
        self._heard = time.monotonic()
        for message in links.unpacked(self._unread, got):
            if "say" in message and self._status is None:
                self._say(message["say"])
            if "signal" in message:
                self._signal(message["signal"])
            if "kill" in message and self._status is None:
                self._say(f"{message['kill']}; rank {self._rank} on {self._host} is killed")
                os.kill(self._process, signal.SIGKILL)
        if not got:
            self._lose()

    def _lose(self) -> None:
        """End the rank, as the launcher is gone."""
        if self._launcher is not None:
            self._selector.unregister(self._launcher)
            self._launcher.close()
            self._launcher = None
        if self._status is None:
            self._say(f"the launcher is gone; rank {self._rank} on {self._host} ends")
            self._signal(signal.SIGTERM)
            self._kill_at = time.monotonic() + _PATIENCE

    def _say(self, text: str) -> None:
        _write(2, f"[{self._rank}] hybridc: {text}\n".encode())

    def _send(self, message: dict[str, Any]) -> None:
        if self._launcher is not None:
            with contextlib.suppress(OSError):
                self._launcher.sendall(links.packed(message))

    def _report(self) -> bool:
        """Tell the launcher how the rank ended; whether it can have heard it."""
        self._send({"ended": self._status})
        if self._launcher is None:
            return False
        links.close_gently([self._launcher])
        return True


class _Lines(threading.Thread):
    """Copies what a rank prints, as lines that begin with its number; a thread, as whoever reads them may be slow.

    Of a line that is written over itself, as progress bars are, the last state is kept. The beginning of a line whose
    end does not come is written as a line.
    """

    def __init__(self, read: int, to: int, prefix: bytes) -> None:
        super().__init__(daemon=True)
        self._read, self._to, self._prefix = read, to, prefix
        self.writes = False

    def run(self) -> None:
        held, since, is_cut = b"", 0.0, False
        while True:
            left = since + _UNFINISHED - time.monotonic() if held else None
            if left is not None and (left <= 0 or len(held) > _LONGEST):
                self._write([held])
                held, is_cut = b"", True
            elif select.select([self._read], [], [], left)[0]:
                got = os.read(self._read, 1 << 16)
                *lines, rest = (held + got).split(b"\n")
                if lines or not held:
                    since = time.monotonic()
                held = rest
                if is_cut and lines and not lines[0]:  # the end of a line of which all was written
                    lines = lines[1:]
                is_cut = False
                self._write(lines)
                if not got:
                    break
        self._write([held] if held else [])

    def _write(self, lines: list[bytes]) -> None:
        self.writes = True
        # Carriage returns at the end are of Windows' line ends.
        text = b"".join(self._prefix + line.rstrip(b"\r").rpartition(b"\r")[2] + b"\n" for line in lines)
        _write(self._to, text)
        self.writes = False


# --- in the rank ----------------------------------------------------------------------------------------------


def _become_rank(parent: int) -> None:
    """The forked process: a session of its own, which ends with its parent; signals do what they do in Python."""
    os.setsid()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):  # mpiexec may ignore some
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _HELD)
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(line_buffering=True)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


def _run_program(program: list[str], say: int) -> NoReturn:
    """Run the program as ``__main__``, and end as Python does."""
    del sys.modules["launched_rank"], sys.modules["links"]
    sys.path[0:1] = []  # the folder of this file
    package = str(Path(__file__).parents[2])
    sys.path.insert(0, package)  # the launcher's own, whichever else is installed
    from hybridc.launch import rank_program

    sys.path.remove(package)
    if importlib.machinery.PathFinder.find_spec("hybridc") is None:
        sys.path.append(package)
    rank_program.run(program, say)
    sys.exit()


# --- cores ------------------------------------------------------------------------------------------------------


def cores_of(rank: int, size: int, cores: list[int]) -> list[int]:
    """The cores of a rank, of those that all ranks of this machine share; some ranks share if there are too few."""
    if size > len(cores):
        return [cores[rank % len(cores)]]
    return cores[rank * len(cores) // size : (rank + 1) * len(cores) // size]


def _bind(rank: launched_rank.LaunchedRank) -> None:
    """Give the rank its cores, and libraries as many threads."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = sorted(affinity(0), key=_place) if affinity is not None else list(range(os.cpu_count() or 1))
    mine = cores_of(rank.local_rank, rank.local_size, cores)
    if affinity is not None:
        with contextlib.suppress(OSError):  # some containers forbid it
            os.sched_setaffinity(0, mine)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
        os.environ.setdefault(name, os.environ.get("OMP_NUM_THREADS", str(len(mine))))


def _place(core: int) -> tuple[int, int, int]:
    """Where a core is: threads of one physical core, and cores of one processor, are next to each other."""
    found: list[int] = []
    for name in ("physical_package_id", "core_id"):
        try:
            found.append(int(Path(f"/sys/devices/system/cpu/cpu{core}/topology/{name}").read_text()))
        except (OSError, ValueError):
            found.append(0)
    return found[0], found[1], core


# --- files --------------------------------------------------------------------------------------------------------


def _write(to: int, text: bytes) -> None:
    with contextlib.suppress(OSError):  # nobody reads it any more: the rank goes on
        while text:
            text = text[os.write(to, text) :]


def _close_others(kept: set[int]) -> None:
    """Close what only the rank needs, such as its connection to mpiexec: that has to close when the rank dies."""
    low = 0
    for each in sorted(kept):
        if low < each:  # Python closes all for an empty range
            os.closerange(low, each)
        low = each + 1
    os.closerange(low, max(low, min(os.sysconf("SC_OPEN_MAX"), _DESCRIPTORS)))


def _nothing(_number: int, _frame: FrameType | None) -> None:
    """What interrupts a wait."""


def open_standard_files() -> None:
    """Let the files 0, 1 and 2 be open: otherwise those of connections would have these numbers, and be printed to."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # has the least number that is free


def main(program: list[str]) -> None:
    """Start the rank of the program."""
    open_standard_files()
    launcher = os.environ.pop(LAUNCHER)
    rank = launched_rank.found(os.environ) or launched_rank.LaunchedRank("", 0, 1, 0, 1)
    _bind(rank)
    try:
        process = RankProcess(rank, launcher)
    except ConnectionError as error:
        sys.exit(f"hybridc launch: rank {rank.rank} on {socket.gethostname()} finds no launcher: it {error}")
    process.run(program)


if __name__ == "__main__":
    main(sys.argv[1:])

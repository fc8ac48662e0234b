"""The process beside this one that compiles in the background: at most one at a time, for all networks.

It is started when there is something to compile, and ends when there was nothing for :data:`IDLE`, or with this
process. A thread, which lives as long, hands it one graph after the other.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from queue import Empty, SimpleQueue

from hybridc.compile.background.compiler_worker import receive, send
from hybridc.compile.background.portable_trace import portable
from hybridc.compile.stages import Traced
from hybridc.compile.trace_key import target_of
from hybridc.compile.warm_start import compiled_identity
from hybridc.ground import limits
from hybridc.ground.locks import ForkLock
from hybridc.ground.serialize import NotWritable, to_bytes
from hybridc.options import OPTIONS

# Seconds for which the process waits for more: importing the compiler again takes a part of one, waiting costs memory.
IDLE = 30.0
# What Python runs there; its arguments are the path of imports.
_PROGRAM = (
    "import sys; sys.path[:] = sys.argv[1:]; from hybridc.compile.background import compiler_worker as w; w.serve()"
)


class BackgroundCompilation:
    """A graph that is compiled into the disk cache.

    ``is_over`` says that it is there, or will not be for the reason ``failure``. ``is_lost``: this process
    was forked during the compilation, whose result only its parent receives.
    """

    def __init__(self, request: bytes) -> None:
        self.request = request
        self.failure = ""
        self.is_over = False
        self.is_lost = False
        self._over = threading.Event()

    def end(self, failure: str) -> None:
        """It is over, with a failure or "" for none."""
        self.request = b""
        self.failure = failure
        self.is_over = True
        self._over.set()

    def wait(self, seconds: float | None) -> bool:
        """Wait until it is over, but not longer than so many seconds; whether it is."""
        return self.is_over or self._over.wait(seconds)


class BackgroundCompiler:
    """Sends graphs to the compiler process, one after the other; graphs of equal keys once."""

    def __init__(self) -> None:
        self._lock = ForkLock()
        self._forget()

    def _forget(self) -> None:
        self._by_key: dict[str, BackgroundCompilation] = {}  # those that are not over
        self._waiting: SimpleQueue[tuple[str, BackgroundCompilation]] = SimpleQueue()
        self._is_served = False
        self._process: _CompilerProcess | None = None

    def compile(self, traced: Traced) -> BackgroundCompilation:
        """Compile the graph of a trace; NotWritable if another process cannot."""
        if target_of(traced.trace) == "triton":
            raise NotWritable("a program for a GPU")
        key = compiled_identity(traced)
        request = to_bytes(portable(traced, key))
        with self._lock.current:
            compilation = self._by_key.get(key)
            if compilation is None:
                compilation = self._by_key[key] = BackgroundCompilation(request)
                self._waiting.put((key, compilation))
                self._is_served = self._is_served or self._started()
        return compilation

    def _started(self) -> bool:
        """Start the thread that serves the queue; False if none can be started, and every waiting compilation fails."""
        if limits.thread(self._serve, "hybridc background compiler", daemon=True) is not None:
            return True
        while self._by_key:
            self._by_key.popitem()[1].end("this process may start no thread")
        self._waiting = SimpleQueue()
        return False

    def _serve(self) -> None:
        while (job := self._next()) is not None:
            key, compilation = job
            failure = self._failure(compilation.request)
            with self._lock.current:
                self._by_key.pop(key, None)
            compilation.end(failure)

    def _next(self) -> tuple[str, BackgroundCompilation] | None:
        """The next compilation; None, after the process was ended, if none was requested for :data:`IDLE`."""
        while True:
            try:
                return self._waiting.get(timeout=IDLE)
            except Empty:
                with self._lock.current:
                    if self._waiting.empty():
                        self._is_served = False
                        process, self._process = self._process, None
                        break
        if process is not None:
            process.end()
        return None

    def _failure(self, request: bytes) -> str:
        """Let the process compile; the reason if it failed."""
        try:
            if self._process is None:
                self._process = _CompilerProcess()
            failure = self._process.compile(request)
        except OSError as error:  # the system starts no process, or it ended before it read
            failure = None if self._process is not None else f"no process can be started: {error.strerror}"
        if failure is None and self._process is not None:
            failure = f"the process {self._process.end()}"
            self._process = None
        return failure or ""

    def in_child(self) -> None:
        """Be as new in a forked child: its parent's process answers the parent."""
        process = self._process
        if process is not None:
            process.leave()
        lost = list(self._by_key.values())
        self._forget()
        for compilation in lost:
            compilation.is_over = compilation.is_lost = True


class _CompilerProcess:
    """The process, which compiles one graph at a time."""

    def __init__(self) -> None:
        flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
        command: list[str] = [sys.executable or "", *flags, "-c", _PROGRAM, *map(str, sys.path)]
        settings = {
            "HYBRIDC_CACHE_DIR": OPTIONS.cache,
            "HYBRIDC_CACHE_BYTES": str(OPTIONS.cache_bytes),
            "HYBRIDC_NUM_THREADS": str(OPTIONS.num_threads),
            "HYBRIDC_PROFILER_AUTOSTART": "0",
        }
        self._popen = subprocess.Popen(
            command,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **settings},
            start_new_session=True,  # what is typed at the terminal, as control-C, is for the program
        )

    def compile(self, request: bytes) -> str | None:
        """The answer to a request; None if the process has ended."""
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        send(self._popen.stdin, request)
        answer = receive(self._popen.stdout)
        return None if answer is None else answer.decode()

    def end(self) -> str:
        """End it, if it has not ended, by the end of its input; how it ended, in words."""
        self._close()
        code = self._popen.wait()
        return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"

    def leave(self) -> None:
        """In a forked child: have no part in it, so that its input ends with the parent."""
        self._close()
        self._popen.returncode = 0  # nothing to wait for

    def _close(self) -> None:
        for stream in (self._popen.stdin, self._popen.stdout):
            if stream is not None:
                stream.close()


BACKGROUND = BackgroundCompiler()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=BACKGROUND.in_child)

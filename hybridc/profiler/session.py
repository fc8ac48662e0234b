"""The state of the profiler: running, paused or stopped, its file, its statistics, and what watches memory."""

from __future__ import annotations

import atexit
import contextlib
import threading
from pathlib import Path

from hybridc.errors import MXNetError
from hybridc.ground.events import RECORDER, CounterValue, Mark, RecordedSpan, now
from hybridc.ground.limits import required_thread
from hybridc.ground.locks import ForkLock
from hybridc.profiler.aggregate_table import Aggregates
from hybridc.profiler.memory_use import memory_in_use
from hybridc.profiler.settings import Settings
from hybridc.profiler.trace_file import TraceFile

# Seconds from one look at memory to the next: often enough to see a batch, and a ten-thousandth of the time.
_MEMORY_PERIOD = 0.02


class Session:
    """The profiler of this process."""

    def __init__(self) -> None:
        self._settings = Settings()
        self._is_running = False
        self._is_paused = False
        self._has_run = False
        self._origin = 0  # the time at which traces begin
        self._file: TraceFile | None = None
        self._spans: list[RecordedSpan] = []  # not yet in the file
        self._samples: list[CounterValue] = []
        self._marks: list[Mark] = []
        self._aggregates = Aggregates()
        self._watcher: _Watcher | None = None
        self._lock = ForkLock()

    def configure(self, settings: Settings) -> None:
        """Use other settings from now on."""
        with self._lock.current:
            if settings.filename != self._settings.filename:
                self._file = None
            self._settings = settings
            self._apply()

    def start(self) -> None:
        """Begin to record."""
        with self._lock.current:
            self._origin = self._origin or now()
            self._has_run = self._is_running = True
            self._apply()

    def stop(self) -> None:
        """End to record."""
        with self._lock.current:
            self._is_running = False
            self._apply()

    def pause(self, is_paused: bool) -> None:
        """Record nothing for a while, or again."""
        with self._lock.current:
            self._is_paused = is_paused
            self._apply()

    def _apply(self) -> None:
        """Let the recorder record what the settings say."""
        settings, on = self._settings, self._is_running and not self._is_paused
        everything = settings.profile_all
        if self._watcher is not None:
            self._watcher.end()
            self._watcher = None
        RECORDER.switch(
            operators=on and (everything or settings.profile_imperative),
            graphs=on and (everything or settings.profile_symbolic),
            calls=on and (everything or settings.profile_api),
            active=on,
        )
        memory = everything or settings.profile_memory
        if on and (memory or settings.continuous_dump):
            period = settings.dump_period if settings.continuous_dump else None
            self._watcher = _Watcher(self, memory, period)

    # --- what was recorded ---------------------------------------------------------------------------------

    def dump(self, finished: bool) -> None:
        """Write what is new to the file."""
        with self._lock.current:
            if not self._has_run:
                raise MXNetError(
                    "dump: Profiler hasn't been run. Config and start profiler first: set_config(filename=…), then "
                    "set_state('run')"
                )
            if finished:
                self.stop()
            self._collect()
            if self._file is None:
                self._file = TraceFile(Path(self._settings.filename), self._origin)
            self._file.write(self._spans, self._samples, self._marks, RECORDER.threads, RECORDER.lost)
            self._spans, self._samples, self._marks = [], [], []
            if finished:
                self._file = None

    def statistics(self, reset: bool, as_json: bool, sort_by: str, ascending: bool) -> str:
        """The statistics as a text."""
        with self._lock.current:
            self._collect()
            text = self._aggregates.json(sort_by, ascending) if as_json else self._aggregates.table(sort_by, ascending)
            if reset:
                self._aggregates = Aggregates()
            return text

    def step_times(self) -> dict[tuple[str, int], tuple[int, float]]:
        """Of each step of a compiled graph, by the graph's title and the step's index: how often, and seconds in all.

        They are those since the profiler began, or since ``dumps(reset=True)``.
        """
        with self._lock.current:
            self._collect()
            return {place: (found.count, found.total / 1000) for place, found in self._aggregates.steps.items()}

    def _collect(self) -> None:
        """Take what is new from the recorder."""
        spans, samples, marks = RECORDER.take()
        self._aggregates.add(spans, samples, marks)
        self._spans += spans
        self._samples += samples
        self._marks += marks

    def at_exit(self) -> None:
        """Write what the program did not."""
        with contextlib.suppress(OSError), self._lock.current:
            self.stop()
            self._collect()
            if self._spans or self._marks:
                self.dump(True)


class _Watcher:
    """The thread that records memory, and writes the file now and then, until it is ended."""

    def __init__(self, session: Session, memory: bool, dump_period: float | None) -> None:
        self._session = session
        self._memory = memory
        self._dump_period = dump_period
        self._over = threading.Event()
        if memory:
            self._look()
        required_thread(self._run, "hybridc profiler", "recording memory, or writing the file now and then,")

    def end(self) -> None:
        """End it; it writes no more."""
        if self._memory and not self._over.is_set():
            self._look()
        self._over.set()

    def _run(self) -> None:
        last = now()
        period = _MEMORY_PERIOD if self._memory else self._dump_period
        while not self._over.wait(period):
            if self._memory:
                self._look()
            if self._dump_period is not None and now() - last > self._dump_period * 1e9:
                self._session.dump(False)
                last = now()

    def _look(self) -> None:
        for name, size in memory_in_use().items():
            RECORDER.sample("memory", name, size)


SESSION = Session()
RECORDER.step_times = SESSION.step_times
atexit.register(SESSION.at_exit)

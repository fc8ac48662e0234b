"""Events of a run, recorded while the profiler is on: all layers note them, :mod:`hybridc.profiler` shows them.

Code that may be recorded asks one flag of :data:`RECORDER`, ``operators``, ``graphs``, ``calls`` or ``active``, and
does nothing more while that is off. Times are nanoseconds of the monotonic clock, which native code reads, too.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping
from threading import get_ident
from typing import Any, NamedTuple, cast

from hybridc.ground.locks import ForkLock

now = time.perf_counter_ns
Args = Mapping[str, Any]


class RecordedSpan(NamedTuple):
    """Work of a thread from ``begin`` to ``end``; spans of a thread nest, but for those that are not ``nested``."""

    category: str
    name: str
    begin: int
    end: int
    thread: int
    args: Args | None = None
    nested: bool = True


class CounterValue(NamedTuple):
    """The value of a counter from a time on."""

    category: str
    name: str
    time: int
    value: float


class Mark(NamedTuple):
    """An instant; ``scope`` says for whom: global, process, thread, task or marker."""

    category: str
    name: str
    time: int
    thread: int
    scope: str = "process"
    args: Args | None = None


class EventSource(ABC):
    """What is told when other events are to be recorded: as it has a variant for that, or events of its own."""

    @abstractmethod
    def switch(self, recorder: EventRecorder) -> None:
        """Record what the recorder's flags say from now on."""

    def drain(self, recorder: EventRecorder) -> None:
        """Add the events of its own, if it has some, to the recorder's."""
        return


class EventRecorder:
    """The events of this process.

    ``active``: anything is recorded. Of that, ``operators`` are eager operators, ``graphs`` compiled ones with all they
    run, and ``calls`` those of blocks, ``NDArray.backward`` and the like.
    """

    def __init__(self) -> None:
        self.active = False
        #: Whether eager operators are observed: recorded, or looked at by the ``detector``.
        self.operators = False
        self.records_operators = False
        #: What looks for NaN and infinities, see :mod:`hybridc.debug`.
        self.detector: Any = None
        self.graphs = False
        self.calls = False
        #: Names of threads by their identities.
        self.threads: dict[int, str] = {}
        #: Functions that return the bytes in use of something, by its name.
        self.gauges: dict[str, Callable[[], int]] = {}
        #: How often each step of a compiled graph was recorded, by the graph's title and its index, and seconds in all.
        self.step_times: Callable[[], Mapping[tuple[str, int], tuple[int, float]]] = dict
        #: Events that were lost, as there was no room for them.
        self.lost = 0
        self._spans: list[tuple[Any, ...]] = []
        #: Record a span by its fields; a named tuple takes much longer to make. Instead of the name there may be
        #: a class with a ``title``, instead of facts the dtypes and shapes of inputs.
        self.append = self._spans.append
        self._samples: list[CounterValue] = []
        self._marks: list[Mark] = []
        self._sources: list[EventSource] = []
        self._lock = ForkLock()

    def attach(self, source: EventSource) -> None:
        """Tell a source from now on."""
        with self._lock.current:
            self._sources.append(source)
            source.switch(self)

    def switch(self, operators: bool = False, graphs: bool = False, calls: bool = False, active: bool = False) -> None:
        """Record these kinds of events, and no others, from now on; ``active``: at least what users mark themselves."""
        with self._lock.current:
            self.records_operators, self.graphs, self.calls = operators, graphs, calls
            self.active = active or operators or graphs or calls
            self._tell()

    def detect(self, detector: Any) -> None:
        """Let a detector look at the results of operators from now on, or none."""
        with self._lock.current:
            self.detector = detector
            self._tell()

    def _tell(self) -> None:
        self.operators = self.records_operators or self.detector is not None
        for source in self._sources:
            source.switch(self)

    def add(self, category: str, name: str, begin: int, args: Args | None = None) -> None:
        """Record a span of this thread, from ``begin`` until now."""
        end, thread = now(), get_ident()
        if thread not in self.threads:
            self.threads[thread] = threading.current_thread().name
        self.append((category, name, begin, end, thread, args))

    def extend(self, spans: list[tuple[Any, ...]]) -> None:
        """Record spans, which are the fields of :class:`RecordedSpan` each."""
        self._spans += spans

    def thread(self) -> int:
        """The identity of this thread, whose name is noted."""
        thread = get_ident()
        if thread not in self.threads:
            self.threads[thread] = threading.current_thread().name
        return thread

    def span(self, span: RecordedSpan) -> None:
        """Record a span."""
        self._spans.append(span)

    def sample(self, category: str, name: str, value: float) -> None:
        """Record the value of a counter now."""
        self._samples.append(CounterValue(category, name, now(), value))

    def mark(self, category: str, name: str, scope: str = "process", args: Args | None = None) -> None:
        """Record an instant."""
        self._marks.append(Mark(category, name, now(), self.thread(), scope, args))

    def take(self) -> tuple[list[RecordedSpan], list[CounterValue], list[Mark]]:
        """The events since the last call, those of all sources included."""
        with self._lock.current:
            for source in self._sources:
                source.drain(self)
            spans = self._spans.copy()
            del self._spans[: len(spans)]  # meanwhile others may have added some
            samples, marks = self._samples, self._marks
            self._samples, self._marks = [], []
            # Threads without events keep no name: another thread may get their identity.
            recorded = {span[4] for span in spans} | {mark.thread for mark in marks}
            for thread in threading.enumerate():
                if thread.ident is not None and thread.ident in recorded:
                    self.threads.setdefault(thread.ident, thread.name)
        return [_span(*span) for span in spans], samples, marks

    def forget(self) -> None:
        """Be off, without events: a forked child's are not its parent's."""
        self.switch()
        for source in self._sources:
            source.drain(self)
        self._spans.clear()
        self._samples, self._marks = [], []


def _span(category: str, name: Any, begin: int, end: int, thread: int, args: Any, nested: bool = True) -> RecordedSpan:
    """A span of fields as they were recorded."""
    name = name if isinstance(name, str) else name.title()
    if isinstance(args, list):
        args = {"inputs": [f"{dtype}{list(shape)}" for dtype, shape in cast("list[tuple[Any, Any]]", args)]}
    return RecordedSpan(category, name, begin, end, thread, args, nested)


RECORDER = EventRecorder()


@contextlib.contextmanager
def recorded(category: str, name: str, **args: Any) -> Generator[None]:
    """Record the time of this block, if anything is recorded: for work that takes long by itself."""
    if not RECORDER.active:
        yield
        return
    begin = now()
    try:
        yield
    finally:
        RECORDER.add(category, name, begin, args or None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=RECORDER.forget)

"""The events of native programs: calls, steps, and the chunks of steps that threads ran, with what they mean.

While graphs are recorded, the second variant of the native runtime runs
(:mod:`~hybridc.lower.llvm.executor.emit_events`). It writes events into a ring of this process, from which they are
taken when half of it is full, and when they are asked for. The first variant, which runs at all other times, knows
nothing of this.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from hybridc.ground.events import RECORDER, EventRecorder, EventSource
from hybridc.ground.locks import ForkLock
from hybridc.ir.planned import Host, LaunchNote, NativeRegion
from hybridc.lower.llvm.executor.structures import WHOLE, EventRecord, EventRing, StepRecord

if TYPE_CHECKING:
    from hybridc.runtime.native.native_program import Tables

# A loop of a thousand steps of ten kernels is a hundredth of it.
_CAPACITY = 1 << 20


class RecordingRuntime(Protocol):
    """What the native runtime does for its events."""

    outside: Any

    def record(self, on: bool) -> bool:
        """Run the variant that records, or the other one; whether this system has the former."""
        ...

    def thread_names(self) -> dict[int, str]:
        """The names of the threads of kernels, by their identities."""
        ...


class NativeEvents(EventSource):
    """The ring of events, and the programs that they are of."""

    def __init__(self) -> None:
        self._runtime: RecordingRuntime | None = None
        self._known: weakref.WeakSet[Tables] = weakref.WeakSet()
        self._used: set[Tables] = set()  # programs that may have events: their addresses must stay theirs
        self._is_on = False
        self._ring = EventRing()
        self._events: Any = None
        self._taken: list[Any] = []
        self._lock = ForkLock()

    def begin(self, runtime: RecordingRuntime) -> None:
        """Note the native runtime, once it is there."""
        self._runtime = runtime
        RECORDER.attach(self)

    def know(self, tables: Tables) -> None:
        """Note a program."""
        self._known.add(tables)
        if self._is_on:
            self._used.add(tables)

    def switch(self, recorder: EventRecorder) -> None:
        """Send calls to the variant that records, or to the other one."""
        assert self._runtime is not None
        on = recorder.graphs
        if on == self._is_on:
            return
        if on and self._events is None:
            self._events = np.zeros(_CAPACITY, EventRecord)  # pages that are not written take no memory
            self._ring = EventRing(half=_CAPACITY // 2, mask=_CAPACITY - 1, events=self._events.ctypes.data)
            self._runtime.outside.ring = ctypes.addressof(self._ring)
            self._runtime.outside.drain = id(_take)
        if on:
            self._is_on = True
            self._used.update(self._known)
        self._is_on = self._runtime.record(on) and on

    def take(self) -> None:
        """Take complete events out of the ring; called by native code, too."""
        if self._events is None or not self._lock.current.acquire(blocking=False):
            return
        try:
            begin, end = self._ring.drained, self._ring.next
            lost = max(0, end - begin - _CAPACITY)
            numbers = np.arange(begin + lost, end, dtype=np.int64)
            events: Any = self._events[numbers & (_CAPACITY - 1)]
            ahead: npt.NDArray[np.int64] = np.asarray(events["sequence"], np.int64) - 1 - numbers
            under_way = np.flatnonzero(ahead < 0)  # positive: written over
            if under_way.size:
                events, ahead = events[: under_way[0]], ahead[: under_way[0]]
            self._ring.drained = begin + lost + len(events)
            overwritten = int(np.count_nonzero(ahead))
            RECORDER.lost += lost + overwritten
            if len(events):
                self._taken.append(events[ahead == 0] if overwritten else events)
        finally:
            self._lock.current.release()

    def drain(self, recorder: EventRecorder) -> None:
        """Add the events so far to the recorder's, as spans."""
        self.take()
        if not self._taken or self._runtime is None:
            self._let_go()
            return
        recorder.threads.update(self._runtime.thread_names())
        batches, self._taken = self._taken, []
        meanings = _Meanings(self._used)
        columns = ("what", "begin", "end", "thread", "low", "high")
        for events in batches:
            rows = zip(*[events[name].tolist() for name in columns], strict=True)
            recorder.extend([meanings.span(*row) for row in rows])
        for thread in {int(t) for events in batches for t in np.unique(events["thread"])}:
            recorder.threads.setdefault(thread, _name_of(thread))
        self._let_go()

    def _let_go(self) -> None:
        if not self._is_on:
            self._used.clear()


NATIVE_EVENTS = NativeEvents()


def _take() -> None:
    NATIVE_EVENTS.take()


def _name_of(thread: int) -> str:
    """The name of a thread of Python that lives."""
    living = next((t for t in threading.enumerate() if t.ident == thread), None)
    return f"thread {thread}" if living is None else living.name


class _Meanings:
    """What the addresses in events stand for."""

    def __init__(self, programs: set[Tables]) -> None:
        self._calls: dict[int, tuple[str, dict[str, Any]]] = {}
        self._steps: dict[int, tuple[str, str, dict[str, Any]]] = {}
        for tables in programs:
            plan = tables.plan
            facts = {"steps": len(plan.steps), "arena bytes": plan.arena}
            self._calls[ctypes.addressof(tables.program)] = plan.title or "a program", facts
            lines = _lines_of_loops(plan.steps, noted(plan.notes))
            for address, (steps, notes) in tables.steps.items():
                known = noted([replace(n, lines=n.lines or lines.get(id(steps), ())) for n in notes])
                for index, step in enumerate(steps):
                    place = address + index * ctypes.sizeof(StepRecord)
                    described = _described(step, index, known.get(index), plan.title)
                    if steps is not plan.steps:
                        described[2]["inside"] = "a loop"
                    self._steps[place] = described

    def span(self, what: int, begin: int, end: int, thread: int, low: int, high: int) -> tuple[Any, ...]:
        """The fields of a span."""
        thread &= 2**64 - 1
        call = self._calls.get(what)
        if call is not None:
            return "graph", call[0], begin, end, thread, call[1]
        category, name, facts = self._steps.get(what, ("kernel", "of a program that is gone", {}))
        if high != WHOLE:
            return "thread", name, begin, end, thread, {**facts, "iterations": [low, high]}
        return category, name, begin, end, thread, facts


def _lines_of_loops(
    steps: Sequence[NativeRegion | Host], notes: Mapping[int, LaunchNote]
) -> dict[int, tuple[str, ...]]:
    """The lines of loops, by the identities of the lists of their steps."""
    return {
        id(program.regions): notes[index].lines
        for index, step in enumerate(steps)
        if isinstance(step, NativeRegion) and step.loop is not None and index in notes
        for program in step.loop.programs
    }


def _described(
    step: NativeRegion | Host, index: int, note: LaunchNote | None, title: str
) -> tuple[str, str, dict[str, Any]]:
    """Category, name and facts of a step."""
    facts: dict[str, Any] = {"graph": title, "step": index}
    if note is not None:
        facts |= note.facts()
    category = "kernel" if isinstance(step, Host) or step.loop is None else "loop"
    return category, step.name, facts


def noted(notes: Sequence[LaunchNote]) -> dict[int, LaunchNote]:
    """The note of each step."""
    pairs = ((range(note.first, note.first + note.count), note) for note in notes)
    return dict(itertools.chain.from_iterable(zip(steps, itertools.repeat(note)) for steps, note in pairs))

"""A trace as a file: JSON in the format of Chrome's tracing, complete after each write."""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hybridc.ground.events import CounterValue, Mark, RecordedSpan, now

# The letter of the scope of an instant: Chrome knows three.
_SCOPES = {"global": "g", "process": "p", "thread": "t", "task": "t", "marker": "t"}
_MICROSECOND = 1000  # nanoseconds


class TraceFile:
    """A trace that grows: each write puts events before the end, so that the file is always valid.

    Times are microseconds since ``origin``, a time of the recorder; "otherData" says when that was.
    """

    def __init__(self, path: Path, origin: int) -> None:
        self._path = path
        self._origin = origin
        self._end = 0  # where the events end
        self._threads: dict[int, int] = {}  # small numbers of threads by their identities
        self._named: set[tuple[int, str]] = set()
        self._tasks = 0

    def write(
        self,
        spans: Sequence[RecordedSpan],
        samples: Sequence[CounterValue],
        marks: Sequence[Mark],
        names: Mapping[int, str],
        lost: int,
    ) -> None:
        """Add events; ``names`` are those of threads, ``lost`` is how many events there was no room for."""
        made = [*self._of_spans(spans), *self._of_samples(samples), *self._of_marks(marks)]
        made = [*self._of_threads(names), *made]
        if not self._end:
            made.insert(0, {"ph": "M", "name": "process_name", "pid": os.getpid(), "args": {"name": "hybridc"}})
        began = datetime.datetime.now(datetime.UTC) - datetime.timedelta(microseconds=self._time(now()))
        tail = f'\n],\n"displayTimeUnit": "ms",\n"otherData": {{"origin": "{began.isoformat()}", "lost": {lost}}}}}\n'
        lines = ",\n".join(json.dumps(event, default=str) for event in made)
        with open(self._path, "r+b" if self._end else "wb") as file:
            if self._end:
                file.seek(self._end)
                file.write(b",\n" if lines else b"")
            else:
                file.write(b'{"traceEvents": [\n')
            file.write(lines.encode())
            self._end = file.tell()
            file.write(tail.encode())
            if file.seekable() and self._path.is_file():
                file.truncate()

    def _time(self, at: int) -> float:
        return (at - self._origin) / _MICROSECOND

    def _thread(self, identity: int) -> int:
        return self._threads.setdefault(identity, len(self._threads) + 1)

    def _of_threads(self, names: Mapping[int, str]) -> Iterator[dict[str, Any]]:
        """The names of threads that have events, once each."""
        for identity, number in self._threads.items():
            name = names.get(identity, f"thread {identity}")
            if (identity, name) not in self._named:
                self._named.add((identity, name))
                yield self._event("M", "thread_name", "", tid=number, args={"name": name})

    def _of_spans(self, spans: Iterable[RecordedSpan]) -> Iterator[dict[str, Any]]:
        """Complete events, those of a thread in the order in which they nest; what does not nest is a pair."""
        for span in sorted(spans, key=lambda s: (s.begin, -s.end)):
            about = {"tid": self._thread(span.thread), "args": dict(span.args or {})}
            begin, end = self._time(span.begin), self._time(span.end)
            if span.nested:
                yield self._event("X", span.name, span.category, ts=begin, dur=max(0.0, end - begin), **about)
                continue
            self._tasks += 1
            yield self._event("b", span.name, span.category, ts=begin, id=self._tasks, **about)
            yield self._event("e", span.name, span.category, ts=end, id=self._tasks, tid=about["tid"])

    def _of_samples(self, samples: Iterable[CounterValue]) -> Iterator[dict[str, Any]]:
        for sample in samples:
            value = {sample.name: sample.value}
            yield self._event("C", sample.name, sample.category, ts=self._time(sample.time), tid=0, args=value)

    def _of_marks(self, marks: Iterable[Mark]) -> Iterator[dict[str, Any]]:
        for mark in marks:
            about = {"s": _SCOPES[mark.scope], "tid": self._thread(mark.thread), "args": dict(mark.args or {})}
            yield self._event("i", mark.name, mark.category, ts=self._time(mark.time), **about)

    def _event(self, phase: str, name: str, category: str, **more: Any) -> dict[str, Any]:
        about = {"cat": category} if category else {}
        return {"ph": phase, "name": name, **about, "pid": os.getpid(), **more}

"""The work that a simulated card was asked for: queues that run when somebody waits, and what breaks their order.

Work is pending until something waits for it. What a card forbids, and does not report, is a violation: memory that two
streams use without an event or a wait between, memory that is freed while another stream may use it, modules that are
unloaded while their functions may run.
"""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

# Of each stream how much of its work is past; the number of a stream's first work is one.
Past = dict[int, int]


@dataclass
class Work:
    """One thing that a stream does; ``run`` answers with an error, 0 if all is well."""

    number: int
    run: Callable[[], int]
    modules: frozenset[int] = frozenset()


@dataclass
class Memory:
    """Who used memory last: the stream and number of what wrote it, and of each stream the last that read it."""

    nbytes: int
    written: tuple[int, int]
    read: Past = field(default_factory=dict)


class Queues:
    """The queues of all streams, and which of their work is known to come before which."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        #: What every call answers once some work has failed.
        self.error = 0
        self.memory: dict[int, Memory] = {}
        self.moments: dict[int, tuple[int, int, Past]] = {}  # of events: the stream, its work before it, what is past
        self._pending: dict[int, deque[Work]] = {}
        self._asked: Past = {}
        self._past: dict[int, Past] = {}  # of each stream: what comes before its next work
        self._host: Past = {}  # what the host waited for

    # --- asking --------------------------------------------------------------------------------------------

    def ask(
        self,
        stream: int,
        run: Callable[[], int],
        reads: Iterable[int] = (),
        writes: Collection[int] = (),
        modules: frozenset[int] = frozenset(),
    ) -> int:
        """Put work into a queue, which reads and writes memory at some addresses."""
        past = self._next(stream)
        number = past[stream]
        for base in {*map(self.base, reads)} - {None}:
            memory = self.memory[base]
            self._check(past, [memory.written], f"memory that stream {stream:#x} reads")
            memory.read[stream] = number
        for base in {*map(self.base, writes)} - {None}:
            memory = self.memory[base]
            self._check(past, [memory.written, *memory.read.items()], f"memory that stream {stream:#x} writes")
            memory.written, memory.read = (stream, number), {}
        self._pending.setdefault(stream, deque()).append(Work(number, run, modules))
        return 0

    def _next(self, stream: int) -> Past:
        """What is past when the next work of a stream is done."""
        past = self._past.setdefault(stream, {})
        _merge(past, self._host)
        past[stream] = self._asked[stream] = self._asked.get(stream, 0) + 1
        return past

    def base(self, address: int) -> int | None:
        """Where the memory begins that an address is in."""
        return next((b for b, m in self.memory.items() if b <= address <= b + m.nbytes), None)

    def _check(self, past: Past, uses: Iterable[tuple[int, int]], what: str) -> None:
        for stream, number in uses:
            if past.get(stream, 0) < number:
                self.violate(f"{what} is used by work of stream {stream:#x} that may not be done")

    def violate(self, what: str) -> None:
        """Note what no card reports, and who did it."""
        stack = [f"{f.filename.rpartition('/hybridc/')[2]}:{f.lineno}" for f in traceback.extract_stack()]
        ours = [where for where in stack if where.startswith(("runtime/", "nd/"))]
        self.violations.append(f"{what} ({' <- '.join(reversed(ours[-4:]))})")

    # --- memory and modules --------------------------------------------------------------------------------

    def allocated(self, base: int, nbytes: int, stream: int) -> None:
        """Memory is there for what its stream, or who comes after it, does from now on."""
        self.memory[base] = Memory(nbytes, (stream, self._next(stream)[stream]))

    def freed(self, base: int, stream: int, run: Callable[[], int]) -> None:
        """Memory may be another's for what comes behind this in its stream."""
        memory = self.memory.pop(base)
        past = self._next(stream)
        self._check(past, [memory.written, *memory.read.items()], f"memory freed in stream {stream:#x}")
        self._pending.setdefault(stream, deque()).append(Work(past[stream], run))

    def unloaded(self, module: int) -> None:
        """A module goes."""
        if any(module in work.modules for queue in self._pending.values() for work in queue):
            self.violate("a module is unloaded while its functions may run")

    # --- events --------------------------------------------------------------------------------------------

    def recorded(self, event: int, stream: int) -> None:
        """An event is behind all that its stream was asked for."""
        _merge(self._past.setdefault(stream, {}), self._host)
        self.moments[event] = (stream, self._asked.get(stream, 0), dict(self._past[stream]))

    def held(self, stream: int, event: int) -> None:
        """What a stream is asked for from now on comes after what is before an event."""
        other, number, before = self.moments[event]
        past = self._next(stream)
        _merge(past, before)
        self._pending.setdefault(stream, deque()).append(Work(past[stream], lambda: self._drain(other, number)))

    # --- waiting -------------------------------------------------------------------------------------------

    def wait(self, stream: int) -> int:
        """Run what a stream was asked for."""
        self._drain(stream, self._asked.get(stream, 0))
        _merge(self._host, self._past.get(stream, {}))
        return self.error

    def wait_for(self, event: int) -> int:
        """Run what is before an event."""
        stream, number, past = self.moments[event]
        self._drain(stream, number)
        _merge(self._host, past)
        return self.error

    def wait_all(self) -> int:
        """Run all."""
        for stream in list(self._pending):
            self.wait(stream)
        return self.error

    def _drain(self, stream: int, number: int) -> int:
        queue = self._pending.get(stream, deque())
        while queue and queue[0].number <= number and not self.error:
            found = queue.popleft().run()
            self.error = self.error or found
        return 0


def _merge(past: Past, more: Past) -> None:
    for stream, number in more.items():
        past[stream] = max(past.get(stream, 0), number)

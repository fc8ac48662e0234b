"""Native code that records events: the second variant of the runtime, which runs while the profiler is on.

Each function here writes one native function; its docstring says what that does, as C would.
"""

from __future__ import annotations

import ctypes

from hybridc.ground.records import dataclass
from hybridc.lower.llvm.codegen.ir_text import Record, TextFunction, TextModule, TextValue
from hybridc.lower.llvm.executor.structures import (
    WHOLE,
    EventRecord,
    EventRing,
    Outside,
    TimedRegion,
)


@dataclass(frozen=True)
class EventCode:
    """The functions of a module that record events."""

    clock: TextFunction
    record: TextFunction
    timed: TextFunction

    def time(self, f: TextFunction, outside: Record) -> TextValue:
        """The time now."""
        return f.call("i64", self.clock, outside.pointer)

    def whole(self, f: TextFunction, outside: Record, what: TextValue, begin: TextValue, end: TextValue) -> None:
        """Record a step, or a call, as a whole."""
        f.call("void", self.record, outside.pointer, what, begin, end, f.operand("i64", 0), f.operand("i64", WHOLE))

    def step(self, f: TextFunction, outside: Record, step: Record, begin: TextValue) -> TextValue:
        """Record a step that has just run; returns when it ended."""
        end = self.time(f, outside)
        self.whole(f, outside, step.pointer, begin, end)
        return end

    def timed_region(
        self, f: TextFunction, outside: Record, step: Record, buffers: TextValue
    ) -> tuple[TextValue, TextValue]:
        """Code and buffers of a step's parallel region, whose chunks are recorded."""
        region = f.record(f.stack(f.operand("i64", 1), ctypes.sizeof(TimedRegion)), TimedRegion)
        region.set(outside=outside.pointer, step=step.pointer, code=step.code, buffers=buffers)
        return TextValue(f, "ptr", f"@{self.timed.name}"), region.pointer

    def code_of(self, f: TextFunction, outside: Record, step: Record) -> TextValue:
        """The code of a step; loops of steps are those of this variant."""
        code = step.code
        return f.select(code.equals(outside.loop), TextValue(f, "ptr", "@loop"), code)


def emit_events(module: TextModule, clock: TextFunction) -> EventCode:
    """Emit the functions."""
    record = _record(module)
    return EventCode(clock, record, _timed(module, clock, record))


def _record(module: TextModule) -> TextFunction:
    """void record(Outside *, void *what, int64 begin, int64 end, int64 low, int64 high): put an event into the ring.

    ``sequence`` is written last: a reader sees by it that the rest is there.
    """
    f = module.function("record", "void", ("ptr", "ptr", "i64", "i64", "i64", "i64"))
    outside, (what, begin, end, low, high) = f.record(f.arguments[0], Outside), f.arguments[1:]
    thread = f.call("i64", outside.thread_self)
    ring = f.record(outside.ring, EventRing)
    index = f.add_atomic("i64", ring.address("next"), 1)
    event = f.record(ring.events, EventRecord, index & ring.mask)
    event.set(what=what, begin=begin, end=end, thread=thread, low=low, high=high)
    f.store_atomic("i64", index + 1, event.address("sequence"))
    f.ret()
    return f


def _timed(module: TextModule, clock: TextFunction, record: TextFunction) -> TextFunction:
    """void timed(TimedRegion *region, int64 *scalars, int64 lo, int64 hi, void *scratch): a chunk, and its event."""
    f = module.function("timed", "void", ("ptr", "ptr", "i64", "i64", "ptr"))
    region, (numbers, low, high, scratch) = f.record(f.arguments[0], TimedRegion), f.arguments[1:]
    outside = region.outside
    begin = f.call("i64", clock, outside)
    f.call("void", region.code, region.buffers, numbers, low, high, scratch)
    f.call("void", record, outside, region.step, begin, f.call("i64", clock, outside), low, high)
    f.ret()
    return f


def emit_drain(f: TextFunction, outside: Record) -> None:
    """Let Python take the events when half of the ring is full; null is returned if that raises."""
    ring = f.record(outside.ring, EventRing)
    with f.when((ring.next - ring.drained) > ring.half):
        null = f.operand("ptr", 0)
        answer = f.call("ptr", outside.vectorcall, outside.drain, null, f.operand("i64", 0), null)
        with f.when(answer.equals(0)):
            f.ret(0)
        f.call("void", outside.decref, answer)

"""Where buffers lie in one arena: no two that are needed at one time share bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from xdsl.ir import SSAValue


@dataclass(eq=False)
class Buffer:
    """Memory for one value or for several that follow each other in place."""

    size: int
    start: int
    end: int
    owned: bool = False
    offset: int = 0
    values: list[SSAValue] = field(default_factory=lambda: list[SSAValue]())
    donor: int | None = None  # the argument whose memory it is


def largest_live_set(buffers: list[Buffer]) -> int:
    """The most bytes that are needed at one time: no arena can be smaller."""
    changes: dict[int, int] = {}
    for buffer in buffers:
        changes[buffer.start] = changes.get(buffer.start, 0) + buffer.size
        changes[buffer.end + 1] = changes.get(buffer.end + 1, 0) - buffer.size
    most = now = 0
    for moment in sorted(changes):
        now += changes[moment]
        most = max(most, now)
    return most


ENOUGH = 1.02  # times the largest live set
ROUNDS, EFFORT = 24, 6000  # with each order at most so many attempts, and so many placements

_ORDERS: tuple[Callable[[Buffer], tuple[int, ...]], ...] = (
    lambda b: (-b.size, b.start),
    lambda b: (-b.size * (b.end - b.start + 1), b.start),
    lambda b: (b.start - b.end, -b.size),
    lambda b: (b.start, -b.end, -b.size),
)


def assign_offsets(buffers: list[Buffer]) -> int:
    """Place the buffers and return the size of their arena: the best of several orders, each first fit.

    Largest first is nearly always as small as can be, or nearly so. Where it is not, the buffer that ends the arena is
    placed first of all in the next attempt; then come other orders.
    """
    bound = largest_live_set(buffers)
    rounds = max(1, min(ROUNDS, EFFORT // max(1, len(buffers))))
    best: list[int] = []
    least = -1
    for order in _ORDERS:
        waiting = sorted(buffers, key=order)
        for _ in range(rounds):
            size = _first_fit(waiting)
            if least < 0 or size < least:
                least, best = size, [b.offset for b in buffers]
            if least <= bound * ENOUGH:
                break
            last = max(waiting, key=lambda b: b.offset + b.size)
            waiting.remove(last)
            waiting.insert(0, last)
        if least <= bound * ENOUGH:
            break
    for buffer, offset in zip(buffers, best, strict=True):
        buffer.offset = offset
    return least


def _first_fit(buffers: list[Buffer]) -> int:
    """Place buffers in this order, each at the lowest offset where it meets none that is alive at the same time."""
    alive: dict[int, list[Buffer]] = {}  # at each moment, those placed so far
    starting: dict[int, list[Buffer]] = {}
    size = 0
    for buffer in buffers:
        beside = list(alive.get(buffer.start, ()))
        for moment in range(buffer.start + 1, buffer.end + 1):
            beside += starting.get(moment, ())
        offset = 0
        for other in sorted(beside, key=lambda b: b.offset):
            if offset + buffer.size <= other.offset:
                break
            offset = max(offset, other.offset + other.size)
        buffer.offset = offset
        size = max(size, offset + buffer.size)
        starting.setdefault(buffer.start, []).append(buffer)
        for moment in range(buffer.start, buffer.end + 1):
            alive.setdefault(moment, []).append(buffer)
    return size

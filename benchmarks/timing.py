"""How all benchmarks measure time: in blocks that alternate between the things compared."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any


def block(
    call: Callable[[], Any],
    seconds: float,
    at_least: int = 3,
    reduce: Callable[[list[float]], float] = statistics.median,
) -> float:
    """The median time of a call, in seconds, over calls that take about ``seconds`` together."""
    clock = time.perf_counter
    times: list[float] = []
    end = clock() + seconds
    while True:
        start = clock()
        call()
        stop = clock()
        times.append(stop - start)
        if stop >= end and len(times) >= at_least:
            return reduce(times)


def compare(calls: Sequence[Callable[[], Any]], blocks: int, seconds: float) -> list[float]:
    """Seconds of each call: the median of ``blocks`` block medians, taken in turns after a warm-up.

    Other work on the machine and changes of its clock then meet all of them alike, so that ratios hold.
    """
    for call in calls:
        block(call, seconds / 2, at_least=2)
    medians: list[list[float]] = [[] for _ in calls]
    gc.collect()
    gc.disable()
    try:
        for _ in range(blocks):
            for call, found in zip(calls, medians):
                found.append(block(call, seconds))
    finally:
        gc.enable()
    return [statistics.median(found) for found in medians]

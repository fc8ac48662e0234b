"""Statistics of events by category and name, as MXNet prints them: a table for people, or JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from hybridc.ground.events import Args, CounterValue, Mark, RecordedSpan
from hybridc.ground.records import dataclass

# Nanoseconds of a millisecond, bytes of a kilobyte as MXNet prints it.
_MILLISECOND, _KILOBYTE = 1_000_000, 1000
_MEMORY = "memory"
# Steps of compiled graphs, which count by their lines, too.
_STEPS, _LINE = ("kernel", "loop", "host"), "line"
_NAME = 25  # the width of MXNet's column of names
_WIDEST = 60  # longer names have a line of their own
# So many lines of a fused kernel are its name in the table.
_LINES = 3
# MXNet's name of the group of memory; others have the names of their categories.
_DEVICE_STORAGE = "Device Storage"


@dataclass
class NameStatistics:
    """The events of one name."""

    count: int = 0
    total: float = 0.0
    least: float = float("inf")
    most: float = float("-inf")

    def add(self, value: float) -> None:
        """One more."""
        self.count += 1
        self.total += value
        self.least = min(self.least, value)
        self.most = max(self.most, value)

    @property
    def mean(self) -> float:
        """The mean."""
        return self.total / self.count


_KEYS: dict[str, Callable[[NameStatistics], float]] = {
    "total": lambda e: e.total,
    "avg": lambda e: e.mean,
    "min": lambda e: e.least,
    "max": lambda e: e.most,
    "count": lambda e: e.count,
}
_Groups = dict[str, dict[str, NameStatistics]]


class Aggregates:
    """Statistics of times (in milliseconds), memory (kB) and counters, each by category and name.

    Steps of compiled graphs count a second time, as a category of their own, by the user's lines and blocks. ``steps``
    has the times of each step by the title of its graph and its index there.
    """

    def __init__(self) -> None:
        self.steps: dict[tuple[str, int], NameStatistics] = {}
        self._times: _Groups = {}
        self._memory: _Groups = {}
        self._counters: _Groups = {}

    def add(self, spans: Iterable[RecordedSpan], samples: Iterable[CounterValue], marks: Iterable[Mark]) -> None:
        """Count events; a mark takes no time."""
        for span in spans:
            time = (span.end - span.begin) / _MILLISECOND
            _entry(self._times, span.category, span.name).add(time)
            if span.args is not None and span.category in _STEPS:
                self._add_step(span.args, time)
        for sample in samples:
            if sample.category == _MEMORY:
                _entry(self._memory, _DEVICE_STORAGE, sample.name).add(sample.value / _KILOBYTE)
            else:
                _entry(self._counters, sample.category, sample.name).add(sample.value)
        for mark in marks:
            _entry(self._times, mark.category, mark.name).add(0.0)

    def _add_step(self, facts: Args, time: float) -> None:
        """Count a step by its place and by its lines; those inside a loop are part of the loop's time."""
        if "step" not in facts or "inside" in facts:
            return
        self.steps.setdefault((facts["graph"], facts["step"]), NameStatistics()).add(time)
        if lines := facts.get("lines"):
            _entry(self._times, _LINE, _line(lines)).add(time)

    def table(self, sort_by: str, ascending: bool) -> str:
        """The table."""
        lines = ["", "Profile Statistics:", "\tNote the difference in units for different entries."]
        use = ("Min Use  (kB)", "Max Use  (kB)", "Avg Use  (kB)")
        time = ("Time (ms)", "Min Time (ms)", "Max Time (ms)", "Avg Time (ms)")
        value = ("Min Value", "Max Value", "Avg Value")
        for groups, heads in ((self._memory, use), (self._times, time), (self._counters, value)):
            for category in sorted(groups):
                width = max([_NAME, *(len(name) for name in groups[category] if len(name) <= _WIDEST)])
                lines += [category, "================="]
                lines += [
                    _row(width, "Name", "Total Count", heads),
                    _row(width, "----", "-----------", ["-" * len(h) for h in heads]),
                ]
                for name, entry in _sorted(groups[category], sort_by, ascending):
                    numbers = [entry.least, entry.most, entry.mean]
                    if len(heads) > len(numbers):
                        numbers.insert(0, entry.total)
                    if len(name) > _WIDEST:
                        lines.append(name)
                        name = ""
                    lines.append(_row(width, name, str(entry.count), [f"{n:.4f}" for n in numbers]))
                lines.append("")
        return "\n".join([*lines, ""])

    def json(self, sort_by: str, ascending: bool) -> str:
        """The same as JSON, by ``Time``, ``Memory`` and ``Counter``; ``Unit`` says in what."""

        def written(groups: _Groups, with_total: bool) -> dict[str, Any]:
            return {
                category: {
                    name: {
                        "Count": entry.count,
                        **({"Total": entry.total} if with_total else {}),
                        "Min": entry.least,
                        "Max": entry.most,
                        "Avg": entry.mean,
                    }
                    for name, entry in _sorted(groups[category], sort_by, ascending)
                }
                for category in sorted(groups)
            }

        found = {
            "Time": written(self._times, True),
            "Memory": written(self._memory, False),
            "Counter": written(self._counters, False),
            "Unit": {"Time": "ms", "Memory": "kB"},
        }
        return json.dumps(found, indent=4)


def _entry(groups: _Groups, category: str, name: str) -> NameStatistics:
    return groups.setdefault(category, {}).setdefault(name, NameStatistics())


def _line(lines: Sequence[str]) -> str:
    """The lines of a step as one name: each file and line once, with the blocks for which it runs."""
    blocks: dict[str, list[str]] = {}
    for line in lines:
        place, _, block = line.removesuffix(")").partition(" (in ")
        blocks.setdefault(place, []).append(block)
    names = [f"{place} (in {', '.join(filter(None, b))})" if any(b) else place for place, b in blocks.items()]
    more = [f"and {len(names) - _LINES} more"] if len(names) > _LINES else []
    return "; ".join([*names[:_LINES], *more])


def _sorted(entries: dict[str, NameStatistics], sort_by: str, ascending: bool) -> list[tuple[str, NameStatistics]]:
    key = _KEYS[sort_by]
    return sorted(entries.items(), key=lambda each: key(each[1]), reverse=not ascending)


def _row(width: int, name: str, count: str, cells: Sequence[str]) -> str:
    """A line: MXNet's widths of columns, but for names that are longer."""
    return f"{name:<{width}} {count:>15}{''.join(f' {cell:>16}' for cell in cells)}"

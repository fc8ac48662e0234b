"""The launches of compiled programs in groups, for the text and the page of ``net.explain()``.

Nothing here needs the compiler: a program that an earlier process compiled has the same notes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import PurePath

from hybridc.ground.records import dataclass
from hybridc.ir.planned import LaunchNote, PlannedProgram, Program

#: So many groups of kernels with one name are shown; of more, kernels whose names differ in a number are one group.
MOST = 10

_LINE = re.compile(r"(.*):(\d+)(?: \(in (.*)\))?")  # as a note has it


def kind_of(name: str) -> str:
    """The name of a kernel without the numbers that tell kernels of one kind apart."""
    return re.sub(r"_\d+(?=_|$)", "", name)


# --- where a launch is from -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BlockPath:
    """Where a block is in the network, as ``net[3]``, and its class."""

    path: str
    kind: str

    def __str__(self) -> str:
        return f"{self.path} {self.kind}"

    def holds(self, other: BlockPath) -> bool:
        """Whether another block is inside this one."""
        return other.path.startswith((f"{self.path}.", f"{self.path}["))


@dataclass(frozen=True)
class SourceLine:
    """A line of the user's program, and the name of the block for which it runs."""

    file: str
    line: int
    block: str

    @staticmethod
    def of(text: str) -> SourceLine:
        """The line of a note."""
        match = _LINE.fullmatch(text)
        return SourceLine(text, 0, "") if match is None else SourceLine(match[1], int(match[2]), match[3] or "")

    def __str__(self) -> str:
        """The name of the file, without its folders, and the line."""
        return f"{PurePath(self.file).name}:{self.line}" if self.line else self.file


@dataclass(frozen=True)
class Naming:
    """What launches are called in a report: ``paths`` of blocks by their names, and the ``times`` that were recorded.

    ``times`` has how often a step ran, and the seconds of all its runs, by the title of its graph and its index.
    ``rest`` is what runs for no block at all, if that is no line of the user's: of a TrainStep it is the step itself.
    """

    paths: Mapping[str, BlockPath] = field(default_factory=lambda: dict[str, BlockPath]())
    times: Mapping[tuple[str, int], tuple[int, float]] = field(
        default_factory=lambda: dict[tuple[str, int], tuple[int, float]]()
    )
    rest: str = ""

    def layers(self, lines: Iterable[SourceLine]) -> list[BlockPath]:
        """The blocks for which some lines run, but for those inside others of them.

        A Sequential computes nothing itself: it only stands for a block inside it that has its name.
        """
        blocks = [self.paths[line.block] for line in lines if line.block in self.paths]
        blocks = [b for b in blocks if "Sequential" not in b.kind or not any(map(b.holds, blocks))]
        return [layer for layer in dict.fromkeys(blocks) if not any(other.holds(layer) for other in blocks)]

    def places(self, lines: Sequence[SourceLine]) -> list[str]:
        """The layers for which lines run, and the lines that are the explained network's own."""
        own = [str(line) if line.block else self.rest or str(line) for line in lines if line.block not in self.paths]
        return list(dict.fromkeys([*map(str, self.layers(lines)), *own]))


# --- groups -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LaunchFacts:
    """A launch of a kernel, or a host call. ``is_once``: it prepares a value that later calls use again."""

    index: int
    note: LaunchNote
    is_host: bool
    is_once: bool
    lines: tuple[SourceLine, ...]
    places: tuple[str, ...]
    runs: int
    seconds: float | None  # of a run, on average

    @property
    def place(self) -> str:
        """Where it is from, in short."""
        return span_text(self.places)


@dataclass(frozen=True)
class LaunchGroup:
    """Launches of one kernel, or of kernels of one kind."""

    name: str
    launches: tuple[LaunchFacts, ...]

    @property
    def kernels(self) -> list[str]:
        """The names of its kernels, each once."""
        return list(dict.fromkeys([launch.note.name for launch in self.launches]))

    @property
    def bytes(self) -> int:
        """Bytes that its launches read and write."""
        return sum(launch.note.bytes for launch in self.launches)

    @property
    def flops(self) -> int | None:
        """Arithmetic operations of its launches; None if those of one are unknown."""
        counts = [launch.note.flops for launch in self.launches]
        return None if None in counts else sum(filter(None, counts))

    @property
    def seconds(self) -> float | None:
        """Seconds that its launches take in a call, on average; None if no run of them was recorded."""
        times = [launch.seconds for launch in self.launches if launch.seconds is not None]
        return sum(times) if times else None

    @property
    def operators(self) -> list[str]:
        """The operators that its launches compute, each once."""
        return list(dict.fromkeys(name for launch in self.launches for name in launch.note.operators))

    @property
    def place(self) -> str:
        """Where its launches are from, in short."""
        return span_text(list(dict.fromkeys(place for launch in self.launches for place in launch.places)))

    def __str__(self) -> str:
        count, kernels = len(self.launches), len(self.kernels)
        facts = [
            *([f"{count} times" if kernels < 2 else f"{count} launches of {kernels} kernels"] if count > 1 else []),
            cost_text(self.bytes, self.flops, self.seconds),
            *(["in the preparation"] if self.launches[0].is_once else []),
            *([self.place] if self.place else []),
        ]
        return f"{self.name}: {'; '.join(facts)}"


def launches(program: Program, title: str, naming: Naming) -> list[LaunchFacts]:
    """The launches of a program in order; ``title`` is the one of its graph, by which times are known."""
    once = program.preparation if isinstance(program, PlannedProgram) else 0
    hosts = {*program.host_launches}
    launched: list[LaunchFacts] = []
    for index, note in enumerate(program.notes):
        lines = tuple([SourceLine.of(line) for line in note.lines])
        steps = range(note.first, note.first + note.count)
        times = [naming.times[title, step] for step in steps if (title, step) in naming.times]
        runs = max((count for count, _ in times), default=0)
        seconds = sum(total / count for count, total in times) if times else None
        places = tuple(naming.places(lines))
        launched.append(LaunchFacts(index, note, index in hosts, note.first < once, lines, places, runs, seconds))
    return launched


def launch_groups(launched: Sequence[LaunchFacts]) -> list[LaunchGroup]:
    """Launches by kernel, in the order in which kernels are first launched; by kinds of kernels if those are many."""
    groups = _grouped(launched, [launch.note.name for launch in launched])
    return groups if len(groups) <= MOST else _grouped(launched, [kind_of(launch.note.name) for launch in launched])


def _grouped(launched: Sequence[LaunchFacts], names: Sequence[str]) -> list[LaunchGroup]:
    groups: dict[tuple[str, bool], list[LaunchFacts]] = {}
    for launch, name in zip(launched, names, strict=True):
        groups.setdefault((name, launch.is_once), []).append(launch)
    return [LaunchGroup(n[0].note.name if len(n) == 1 else name, tuple(n)) for (name, _), n in groups.items()]


def likeness(program: Program) -> tuple[object, ...]:
    """What programs have in common that differ in sizes alone: kinds of kernels, how often, and host calls."""
    kinds: dict[str, int] = {}
    for name in program.launches:
        kinds[kind_of(name)] = kinds.get(kind_of(name), 0) + 1
    return program.name, tuple(kinds.items()), len(program.host_calls)


# --- texts ------------------------------------------------------------------------------------------------------------


def program_lines(program: Program, title: str, naming: Naming, kept: str = "", most: int = MOST) -> list[str]:
    """Lines on a program: a head, its groups, loops and host calls; ``kept`` is what the head adds on memory.

    Of groups, loops and host calls there are at most ``most`` lines each.
    """
    launched = launches(program, title, naming)
    calls, count = len(program.host_calls), len(launched)
    groups = launch_groups(launched)
    head = (
        f"{count} kernel{'s' * (count != 1)}, {calls} of them host calls; arena {program.arena} bytes "
        f"({program.live} at once){kept}{f'; {total_text(launched)}' if count > 1 else ''}"
    )
    return [
        head,
        *([f"  {program.layout}"] if program.layout else []),
        *[f"  kernel {group}" for group in _largest(groups, most)],
        *_rest(groups, most),
        *[f"  {line}" for line in counted([*program.loops], most)],
        *[f"  {line}" for line in counted([f"host call {call}" for call in program.host_calls], most)],
    ]


def _largest(groups: Sequence[LaunchGroup], most: int) -> list[LaunchGroup]:
    """The groups in their order; of many those that take the most time, or that move the most bytes."""
    kept = {id(group) for group in sorted(groups, key=lambda g: (g.seconds or 0, g.bytes), reverse=True)[:most]}
    return [group for group in groups if id(group) in kept]


def _rest(groups: Sequence[LaunchGroup], most: int) -> list[str]:
    """A line on the groups that :func:`_largest` leaves out."""
    kept = {id(group) for group in _largest(groups, most)}
    rest = [launch for group in groups if id(group) not in kept for launch in group.launches]
    if not rest:
        return []
    kinds = len(groups) - len(kept)
    return [f"  {len(rest)} launches of {kinds} smaller kinds: {total_text(rest)}"]


def counted(lines: Sequence[str], most: int = MOST) -> list[str]:
    """Lines, equal ones once with their number; of many different ones the first, and how many there are more."""
    counts: dict[str, int] = {}
    for line in lines:
        counts[line] = counts.get(line, 0) + 1
    told = [f"{line}, {count} times" if count > 1 else line for line, count in counts.items()]
    return told if len(told) <= most else [*told[: most - 1], f"and {len(told) - most + 1} more like these"]


def total_text(launched: Sequence[LaunchFacts]) -> str:
    """What launches cost together in a call, without what runs once, if that is not all."""
    launched = [launch for launch in launched if not launch.is_once] or launched
    unknown = [launch for launch in launched if launch.note.flops is None]
    times = [launch.seconds for launch in launched if launch.seconds is not None]
    flops = None if len(unknown) == len(launched) else sum(launch.note.flops or 0 for launch in launched)
    without = " without host calls" if all(launch.is_host for launch in unknown) else " and more"
    size = sum(launch.note.bytes for launch in launched)
    return cost_text(size, flops, sum(times) if times else None, without if unknown else "")


def cost_text(size: int, flops: int | None, seconds: float | None, without: str = "") -> str:
    """Bytes, and arithmetic operations (``without`` some, perhaps) and time if they are known."""
    facts = [size_text(size)]
    facts += [flops_text(flops) + without] if flops is not None else []
    facts += [time_text(seconds)] if seconds is not None else []
    return ", ".join(facts)


def span_text(places: Sequence[str]) -> str:
    """One or two places; of more the first and the last, and how many there are."""
    return ", ".join(places) if len(places) < 3 else f"{places[0]} to {places[-1]}, {len(places)} places"


def size_text(count: int) -> str:
    """A number of bytes with a unit."""
    return f"{count:,} bytes" if count < 10_000 else _scaled(count, 1024, ("KiB", "MiB", "GiB", "TiB"))


def flops_text(count: int) -> str:
    """A number of arithmetic operations with a unit."""
    if count < 10_000:
        return f"{count:,} FLOP{'s' * (count != 1)}"
    return _scaled(count, 1000, ("kFLOPs", "MFLOPs", "GFLOPs", "TFLOPs"))


def time_text(seconds: float) -> str:
    """A time with a unit."""
    return f"{seconds * 1e6:.2f} µs" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def _scaled(count: float, by: int, units: Sequence[str]) -> str:
    """A number of at least ``by`` in the largest unit in which it is at least 1."""
    count /= by
    while count >= by and len(units) > 1:
        count, units = count / by, units[1:]
    return f"{count:,.1f} {units[0]}"

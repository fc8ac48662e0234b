"""hybridc beside its peers on every workload: ``python benchmarks/peers/run.py``, see ``--help``.

``--setup`` first makes the virtual environments of the peers; one that is not there is left out of the tables.

Each peer runs each workload in a process of its own, with the same inputs; its first outputs are compared with float64
NumPy (at most 1e-4 of the largest magnitude). Then all processes are there at once and take turns, a block of calls
each, round after round; only one computes at a time. A time is the median of its blocks' medians. What else happens on
the machine meets all of them alike: trust the ratios, not the milliseconds.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

if __package__ in (None, ""):
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from benchmarks.image_networks import NETWORKS
from benchmarks.images import EVERY, GROUPS
from benchmarks.peers import environments
from benchmarks.peers.client import PATIENCE, ROOT, Client, InexactError, PeerError, first_call, thread_settings
from benchmarks.peers.environments import COLUMNS, Column

QUICK, THOROUGH = (3, 0.05), (7, 0.2)  # rounds, seconds of a block
MODES = ("steady", "memory")
NOTHING = "-"


Row = dict[str, Any]  # of a workload: by the name of a column, a number, or a text where there is none


@dataclass
class Measurement:
    """What the command line asks for, and what went wrong."""

    folder: Path  # of the environments
    scratch: Path
    log: IO[str]
    columns: Mapping[str, Column]
    reuse: bool
    quick: bool
    least: bool = False
    patience: float = PATIENCE
    together: contextlib.ExitStack | None = None  # closes the processes where each peer has one for all workloads
    running: dict[int, dict[str, Client]] = field(default_factory=dict[int, dict[str, Client]])  # by threads and column
    problems: list[str] = field(default_factory=list[str])
    versions: dict[str, str] = field(default_factory=dict[str, str])

    def open(self, name: str, threads: int, cache: Path | None = None, lean: bool = False) -> Client:
        """A running peer; its caches last, unless a folder is given."""
        kept = self.folder / "cache" / name
        kept.mkdir(parents=True, exist_ok=True)
        return Client(
            self.columns[name], self.folder, cache or kept, threads, self.reuse, self.log, self.patience, lean
        )

    def failed(self, workload: str, name: str, error: PeerError) -> str:
        """Note a failure; what the table shows of it."""
        self.problems.append(f"{workload}, {self.columns[name].title}: {error}")
        print(self.problems[-1], file=sys.stderr, flush=True)
        return "inexact" if isinstance(error, InexactError) else "failed"

    # --- steady calls

    def steady(self, workload: str, threads: int) -> Row:
        """Seconds of a call, by column."""
        row: Row = dict.fromkeys(self.columns, NOTHING)
        with contextlib.ExitStack() as own:
            ready = self._ready(workload, threads, row, self.together or own)
            blocks: dict[str, list[float]] = {name: [] for name in ready}
            rounds, seconds = QUICK if self.quick else THOROUGH
            for number in range(rounds + 1):  # the first warms up
                for name in list(ready):
                    try:
                        found = ready[name].ask("block", seconds=seconds, least=self.least)["seconds"]
                    except PeerError as error:
                        row[name] = self.failed(workload, name, error)
                        del ready[name]
                    else:
                        blocks[name] += [found] if number else []
        return row | {name: (min if self.least else statistics.median)(blocks[name]) for name in ready}

    def _ready(self, workload: str, threads: int, row: Row, stack: contextlib.ExitStack) -> dict[str, Client]:
        """The peers that have the workload, with checked first calls behind them."""
        if self.together is None or threads not in self.running:
            self.running[threads] = {name: self.open(name, threads) for name in self.columns}
            for client in self.running[threads].values():
                stack.callback(client.close)
        ready: dict[str, Client] = {}
        for name, client in self.running[threads].items():
            try:
                self.versions[self.columns[name].title] = client.started()["version"]
                if first_call(client, workload, self.scratch) is not None:
                    ready[name] = client
            except PeerError as error:
                row[name] = self.failed(workload, name, error)
        return ready

    # --- memory

    def memory(self, workload: str, threads: int) -> Row:
        """MiB while running, in fresh processes, by column."""
        row: Row = dict.fromkeys(self.columns, NOTHING)
        for name in self.columns:
            with tempfile.TemporaryDirectory(dir=self.scratch) as cache:
                client = self.open(name, threads, Path(cache))
                try:
                    self.versions[self.columns[name].title] = client.started()["version"]
                    if first_call(client, workload, self.scratch) is not None:
                        row[name] = client.ask("memory")["peak"]
                except PeerError as error:
                    row[name] = self.failed(workload, name, error)
                finally:
                    client.close()
        return row


# --- tables -------------------------------------------------------------------------------------------------


def against_best(row: Row, rivals: Sequence[str]) -> tuple[str, float | None]:
    """The best rival of a row, and the figure of the first of our columns over its."""
    peers = {n: row[n] for n in rivals if isinstance(row.get(n), float)}
    if not peers:
        return NOTHING, None
    best = min(peers, key=lambda n: peers[n])
    ours = next((row[n] for n, c in COLUMNS.items() if c.ours and n in row), None)
    return COLUMNS[best].title, ours / peers[best] if isinstance(ours, float) else None


def cell(value: Any, scale: float) -> str:
    """A number with three digits, or a text."""
    if not isinstance(value, float):
        return str(value)
    shown = value * scale
    return f"{shown:.0f}" if shown >= 1000 else f"{shown:.3g}"


def line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


class Table:
    """A Markdown table, printed row by row: workloads down, peers across, then our ratio to the best peer."""

    def __init__(self, title: str, columns: Mapping[str, Column], scale: float = 1.0, floor: bool = False) -> None:
        self.columns, self.scale, self.floor = columns, scale, floor
        self.rivals = [n for n, c in columns.items() if not c.ours]
        self.ratios: list[float] = []
        head = ["workload", *(["floor"] if floor else []), *(c.title for c in columns.values())]
        head += ["best peer", "ours / best", *(["floor / ours"] if floor else [])]
        print(f"\n{title}\n\n{line(head)}\n|{'---|' * len(head)}", flush=True)

    def add(self, name: str, row: Row) -> None:
        """One workload."""
        best, ratio = against_best(row, self.rivals)
        if ratio is not None:
            self.ratios.append(ratio)
        shown = [cell(row[n], self.scale) for n in (*(["floor"] if self.floor else []), *self.columns)]
        shown += [best, NOTHING if ratio is None else f"{ratio:.2f}"]
        if self.floor:
            ours = next((row[n] for n, c in self.columns.items() if c.ours), None)
            shown.append(f"{row['floor'] / ours:.0%}" if isinstance(ours, float) else NOTHING)
        print(line([name, *shown]), flush=True)

    def divide(self, name: str, row: Row, by: Row) -> None:
        """One workload divided by another."""
        ratios = [
            row[n] / by[n] if isinstance(row[n], float) and isinstance(by[n], float) else "" for n in self.columns
        ]
        empty = [""] * self.floor
        print(line([name, *empty, *(cell(r, 1.0) for r in ratios), "", "", *empty]), flush=True)

    def end(self) -> None:
        """The last line: the geometric mean."""
        if len(self.ratios) > 1:
            print(f"\nGeometric mean of ours / best: {statistics.geometric_mean(self.ratios):.2f}", flush=True)


def machine() -> str:
    """The processor, and how busy it is."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((text.partition(":")[2].strip() for text in lines if text.startswith("model name")), "unknown")
    return f"{len(os.sched_getaffinity(0))} cores of {model}; load average {os.getloadavg()[0]:.1f}"


def floors(names: Sequence[str], threads: int) -> dict[str, float]:
    """Seconds that each workload takes at least, at the bandwidth and the multiply-adds that are measured now."""
    code = f"from benchmarks import limits; print(limits.bandwidth({threads}), limits.multiply_adds({threads}))"
    command = [sys.executable, "-c", code]
    environment = {**os.environ, **thread_settings(threads)}
    done = subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    bandwidth, speed = map(float, done.stdout.split())
    print(f"\ncopy {bandwidth / 1e9:.1f} GB/s, multiply-adds {speed / 1e9:.0f} GFLOP/s", flush=True)
    return {n: max(EVERY[n].moved / bandwidth, EVERY[n].flops / speed) for n in names}


def main() -> int:
    parser = argparse.ArgumentParser(description="hybridc beside its peers, as Markdown tables")
    parser.add_argument("--only", help=f"of {', '.join([*GROUPS, *EVERY])}", default="dense")
    parser.add_argument("--peers", help="columns, separated by commas", default=",".join(COLUMNS))
    parser.add_argument("--threads", help="numbers of threads, separated by commas", default="1,2")
    parser.add_argument("--modes", help=f"of {', '.join(MODES)}", default="steady")
    parser.add_argument(
        "--env", type=Path, help="folder of the environments, HYBRIDC_PEERS", default=environments.FOLDER
    )
    parser.add_argument("--setup", action="store_true", help="make the environments that are missing, and end")
    parser.add_argument("--reuse", action="store_true", help="let every peer's malloc keep and reuse freed memory")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter blocks")
    parser.add_argument("--least", action="store_true", help="the least time of all calls: on a busy machine")
    parser.add_argument("--together", action="store_true", help="one process of a peer for all workloads")
    parser.add_argument("--patience", type=float, help="seconds that a peer has for one answer", default=PATIENCE)
    parser.add_argument("--json", type=Path, help="also write what was found to this file")
    options = parser.parse_args()
    names = [name for given in options.only.split(",") for name in GROUPS.get(given, [given])]
    peers, modes = options.peers.split(","), options.modes.split(",")
    for given, known in ((names, EVERY), (peers, COLUMNS), (modes, MODES)):
        unknown = [x for x in given if x not in known]
        if unknown:
            parser.error(f"{unknown[0]!r} is not one of {', '.join(known)}")
    if options.setup:
        wanted = dict.fromkeys(e for e in (COLUMNS[p].environment for p in peers) if e is not None)
        return int(not environments.setup(options.env, list(wanted)))
    absent = [p for p in peers if not environments.installed(options.env, COLUMNS[p])]
    if absent:
        print(f"not installed, see --setup: {', '.join(absent)}", file=sys.stderr)
    columns = {p: COLUMNS[p] for p in COLUMNS if p in peers and p not in absent}
    print(machine(), flush=True)
    options.env.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        log = stack.enter_context((options.env / "log.txt").open("w"))
        together = stack if options.together else None
        measurement = Measurement(
            options.env, scratch, log, columns, options.reuse, options.quick, options.least, options.patience, together
        )
        found = tables(measurement, names, [int(t) for t in options.threads.split(",")], modes)
    print("\n" + ", ".join(f"{title} {version}" for title, version in measurement.versions.items()))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
    return int(bool(measurement.problems))


def tables(
    measurement: Measurement, names: Sequence[str], threads: Sequence[int], modes: Sequence[str]
) -> dict[str, dict[str, Row]]:
    """Measure and print; everything that was found, by the title of the table and the workload."""
    found: dict[str, dict[str, Row]] = {}
    for count in threads if "steady" in modes else ():
        least = floors(names, count)
        title = f"ms a call, {count} thread{'s' * (count > 1)}"
        table, rows = Table(title, measurement.columns, 1e3, floor=True), found.setdefault(title, {})
        for name in names:
            rows[name] = {"floor": least[name], **measurement.steady(name, count)}
            table.add(name, rows[name])
            beside = NETWORKS[name].beside if name in NETWORKS else ""
            if beside in rows:
                table.divide(f"{name} / {beside}", rows[name], rows[beside])
        table.end()
    if "memory" in modes:
        title = "peak memory while running, MiB above the level after the import"
        table, rows = Table(title, measurement.columns), found.setdefault(title, {})
        for name in names:
            rows[name] = measurement.memory(name, max(threads))
            table.add(name, rows[name])
        table.end()
    return found


if __name__ == "__main__":
    raise SystemExit(main())

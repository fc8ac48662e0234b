"""The loop of the fuzzer: make a program, check it on each target, shrink and print what fails."""

from __future__ import annotations

import shlex
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import field
from pathlib import Path
from random import Random
from typing import Any

from hybridc.ground.records import dataclass
from hybridc.tools.fuzz.damaged_files import MAKERS, damaged, made, source
from hybridc.tools.fuzz.generate import program as generated
from hybridc.tools.fuzz.networks.propose_network import random_network
from hybridc.tools.fuzz.networks.random_network import RandomNetwork, script
from hybridc.tools.fuzz.networks.shrink_network import shrink_network
from hybridc.tools.fuzz.numpy_program import NumpyProgram, numpy_program, numpy_source, shrink_numpy
from hybridc.tools.fuzz.program_source import python
from hybridc.tools.fuzz.shrink import shrink
from hybridc.tools.fuzz.worker import Worker

SHRINKING = 60.0  # seconds at most for one failure


@dataclass(frozen=True)
class Fuzzed:
    """What is fuzzed: how it is made of a seed and a number, made smaller, printed, and what it consists of."""

    make: Callable[[int, int], Any]
    shrink: Callable[[Any, Callable[[Any], bool], float], Any]
    source: Callable[[Any, str, str], str]
    names: Callable[[Any], Sequence[str]]


PROGRAMS = Fuzzed(generated, shrink, python, lambda program: [step.op for step in program.steps])
NUMPY = Fuzzed(numpy_program, shrink_numpy, numpy_source, NumpyProgram.names)
NETWORKS = Fuzzed(random_network, shrink_network, script, RandomNetwork.names)


@dataclass
class Found:
    """One failure: where it was found, what it is, and the smallest program."""

    number: int
    target: str
    kind: str
    text: str
    program: Any
    source: str

    def __str__(self) -> str:
        return "\n".join(
            [
                f"program {self.number} on {self.target}: {self.kind}: {self.text}",
                self.source,
                f"# --replay {shlex.quote(self.program.to_json())}",
            ]
        )


@dataclass
class FuzzReport:
    """The summary of a run of the fuzzer."""

    programs: int = 0
    steps: int = 0
    invalid: int = 0
    found: list[Found] = field(default_factory=list[Found])
    operators: Counter[str] = field(default_factory=Counter[str])


def fuzz(
    seed: int,
    targets: Sequence[str],
    *,
    count: int | None = None,
    seconds: float | None = None,
    first: int = 0,
    shrinking: float = SHRINKING,
    stop: int = 20,
    fuzzed: Fuzzed = PROGRAMS,
) -> FuzzReport:
    """Check the programs of a seed, so many or for so long, until ``stop`` different ones have failed."""
    until = None if seconds is None else time.monotonic() + seconds
    report = FuzzReport()
    workers = [Worker(target) for target in targets]
    seen: set[tuple[str, str]] = set()
    number = first
    try:
        while (count is None or number < first + count) and (until is None or time.monotonic() < until):
            program = fuzzed.make(seed, number)
            names = fuzzed.names(program)
            report.programs += 1
            report.steps += len(names)
            report.operators.update(names)
            for worker in workers:
                found = _checked(worker, fuzzed, program, number, report, shrinking, seen)
                if found is not None:
                    report.found.append(found)
                    print(found, flush=True)
            if len(report.found) >= stop:
                break
            number += 1
    finally:
        for worker in workers:
            worker.close()
    return report


def _checked(
    worker: Worker,
    fuzzed: Fuzzed,
    program: Any,
    number: int,
    report: FuzzReport,
    seconds: float,
    seen: set[tuple[str, str]],
) -> Found | None:
    outcome = worker.check(program)
    if outcome is None:
        return None
    kind, text = outcome
    if kind == "invalid":
        report.invalid += 1
        return None

    def fails(smaller: Any) -> bool:
        again = worker.check(smaller)
        return again is not None and again[0] == kind

    small = fuzzed.shrink(program, fails, seconds)
    key = (kind, " ".join(sorted({*fuzzed.names(small)})))
    if key in seen:
        return None
    seen.add(key)
    again = worker.check(small)
    text = again[1] if again is not None else text
    return Found(number, worker.target, kind, text, small, fuzzed.source(small, worker.target, kind))


# --- files ----------------------------------------------------------------------------------------------------

DAMAGED = 8  # files made of each good one


FILES = (*sorted(MAKERS), "program")


def fuzz_files(
    seed: int, target: str, *, count: int | None = None, seconds: float | None = None, kinds: Sequence[str] = FILES
) -> tuple[int, int]:
    """Read so many damaged files, or for so long; how many, and how many failures."""
    until = None if seconds is None else time.monotonic() + seconds
    worker = Worker(target)
    seen: set[tuple[str, str, str]] = set()
    number = 0
    try:
        while (count is None or number < count) and (until is None or time.monotonic() < until):
            random = Random(f"{seed}-{number}")
            kind = random.choice(kinds)
            good = generated(seed, number).to_json().encode() if kind == "program" else made(kind, random)
            files = [good]
            if kind != "program":
                files += [damaged(kind, good, random) for _ in range(DAMAGED)]
            for data in files:
                outcome = worker.read(kind, data)
                if outcome is None or (kind, outcome[0], outcome[1][:40]) in seen:
                    continue
                seen.add((kind, outcome[0], outcome[1][:40]))
                print(f"file {number} of kind {kind}: {outcome[0]}: {outcome[1]}\n{source(kind, data)}", flush=True)
            number += len(files)
    finally:
        worker.close()
    return number, len(seen)


def fuzz_cache(seed: int, target: str, rounds: int) -> int:
    """Damage the entries of a cache between two processes; the failures of the second one."""
    failed = 0
    for number in range(rounds):
        random = Random(f"{seed}-{number}")
        programs = [generated(seed, 100 * number + i) for i in range(3)]
        with tempfile.TemporaryDirectory() as folder:
            for first in (True, False):
                worker = Worker(target, Path(folder))
                for program in programs:
                    outcome = worker.check(program)
                    if not first and outcome is not None and outcome[0] != "invalid":
                        print(f"cache {number} on {target}: {outcome[0]}: {outcome[1]}", flush=True)
                        failed += 1
                    elif first and outcome is not None:
                        programs = [p for p in programs if p is not program]
                worker.close()
                for path in sorted(Path(folder).rglob("*")):
                    if path.is_file() and random.random() < 0.7:
                        path.write_bytes(damaged("cache", path.read_bytes(), random))
    return failed

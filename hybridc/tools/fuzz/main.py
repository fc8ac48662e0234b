"""The loop of the fuzzer: make a program, check it on each target, shrink and print what fails."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from hybridc.tools.fuzz.generate import program as generated
from hybridc.tools.fuzz.program import Program
from hybridc.tools.fuzz.shrink import shrink
from hybridc.tools.fuzz.source import python
from hybridc.tools.fuzz.worker import Worker

SHRINKING = 60.0  # seconds at most for one failure


@dataclass
class Found:
    """One failure: where it was found, what it is, and the smallest program."""

    number: int
    target: str
    kind: str
    text: str
    program: Program

    def __str__(self) -> str:
        return "\n".join(
            [
                f"program {self.number} on {self.target}: {self.kind}: {self.text}",
                python(self.program, self.target, self.kind),
                f"# --replay '{self.program.to_json()}'",
            ]
        )


@dataclass
class Report:
    """What a run of the fuzzer did."""

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
) -> Report:
    """Check the programs of a seed, so many or for so long, until ``stop`` different ones have failed."""
    until = None if seconds is None else time.monotonic() + seconds
    report = Report()
    workers = [Worker(target) for target in targets]
    seen: set[tuple[str, str]] = set()
    number = first
    try:
        while (count is None or number < first + count) and (until is None or time.monotonic() < until):
            program = generated(seed, number)
            report.programs += 1
            report.steps += len(program.steps)
            report.operators.update(step.op for step in program.steps)
            for worker in workers:
                found = _checked(worker, program, number, report, shrinking, seen)
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
    worker: Worker, program: Program, number: int, report: Report, seconds: float, seen: set[tuple[str, str]]
) -> Found | None:
    outcome = worker.check(program)
    if outcome is None:
        return None
    kind, text = outcome
    if kind == "invalid":
        report.invalid += 1
        return None

    def fails(smaller: Program) -> bool:
        again = worker.check(smaller)
        return again is not None and again[0] == kind

    small = shrink(program, fails, seconds)
    key = (kind, " ".join(sorted({step.op for step in small.steps})))
    if key in seen:
        return None
    seen.add(key)
    again = worker.check(small)
    return Found(number, worker.target, kind, again[1] if again is not None else text, small)

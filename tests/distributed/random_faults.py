"""Faults at random moments of a training, and whether what is promised holds:

    python -m tests.distributed.random_faults [--rounds 40] [--ranks 2] [--seed 0] [--faults kill,stop]

Each round trains with checkpoints, and once something happens to a process. Then

* all processes are gone 10 s later, or, where one stands still, 10 s after ``--timeout``; or they are started again;
* the log of every other rank that had not ended names the one that failed, with its machine;
* the launcher's restarts, or the same command after the launcher itself died, end with the losses of each step and the
  parameters of a training that nothing interrupted, to the bit. What ranks print is complete, unless a process that
  passes it on was killed.

It prints a line for each round, and ends with status 1 if one of them breaks a promise.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import queue
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.distributed import ranks

LIMIT = 10.0  # seconds, the promise
SLACK = 3.0  # seconds, for the machine to see it: it may have fewer cores than ranks
HANG = 300.0  # seconds after which a round is given up

# Which process, and the signal that it gets. "beside" is the process that writes a rank's output.
FAULTS = {
    "kill": ("rank", signal.SIGKILL),
    "stop": ("rank", signal.SIGSTOP),
    "crash": ("rank", signal.SIGSEGV),
    "abort": ("rank", signal.SIGABRT),
    "terminate": ("rank", signal.SIGTERM),
    "interrupt": ("rank", signal.SIGINT),
    "kill-beside": ("beside", signal.SIGKILL),
    "stop-beside": ("beside", signal.SIGSTOP),
    "kill-launcher": ("launcher", signal.SIGKILL),
    "kill-mpiexec": ("mpiexec", signal.SIGKILL),
}
LATE = ("stop", "stop-beside")


@dataclass
class Run:
    """A program that runs: its lines, with the seconds of the clock at which they came."""

    process: subprocess.Popen[str]
    lines: list[tuple[float, str]] = field(default_factory=list)
    came: queue.SimpleQueue[str | None] = field(default_factory=queue.SimpleQueue)

    def read(self) -> None:
        """Collect the lines, until the end."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append((time.monotonic(), line.rstrip("\n")))
            self.came.put(line)
        self.came.put(None)

    def text(self) -> str:
        return "\n".join(line for _, line in self.lines)


def start(options: argparse.Namespace, folder: Path, restarts: int) -> Run:
    """Start the training."""
    command = [sys.executable, "-m", "hybridc", "launch", "-n", str(options.ranks), "--restarts", str(restarts)]
    command += ["--timeout", str(options.timeout), str(ranks.PROGRAMS / "trains.py"), str(folder), str(options.steps)]
    process = subprocess.Popen(
        command, env=ranks.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    run = Run(process)
    threading.Thread(target=run.read, daemon=True).start()
    return run


def wait(run: Run, seconds: float = HANG) -> int:
    """The exit status; TimeoutExpired if it is not over."""
    return run.process.wait(seconds)


def children(process: int) -> list[int]:
    """The processes that a process started."""
    found = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    pairs = [tuple(map(int, line.split())) for line in found.splitlines()]
    return [child for child, parent in pairs if parent == process]


def family(process: int) -> Iterator[int]:
    """A process and all that it and its children started."""
    yield process
    for child in children(process):
        yield from family(child)


def parent_of(process: int) -> int:
    return int(subprocess.run(["ps", "-o", "ppid=", "-p", str(process)], capture_output=True, text=True).stdout)


def is_alive(process: int) -> bool:
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(process)], capture_output=True, text=True).stdout.strip()
    return bool(state) and not state.startswith("Z")


def wait_until_gone(processes: list[int], seconds: float) -> list[int]:
    """Those that are still there after so many seconds."""
    end = time.monotonic() + seconds
    while (left := [process for process in processes if is_alive(process)]) and time.monotonic() < end:
        time.sleep(0.1)
    return left


def losses(text: str) -> dict[tuple[str, str], set[str]]:
    """What each rank printed as the loss of each step: more than one value if a repeated step differed."""
    found: dict[tuple[str, str], set[str]] = {}
    for rank, step, value in re.findall(r"^\[(\d+)\] step (\d+) (\S+)$", text, re.MULTILINE):
        found.setdefault((rank, step), set()).add(value)
    return found


def finals(text: str) -> set[str]:
    return set(re.findall(r"^\[\d+\] final (\S+)$", text, re.MULTILINE))


@dataclass
class Oracle:
    """The training that nothing interrupts."""

    losses: dict[tuple[str, str], set[str]]
    final: set[str]
    seconds: float


def uninterrupted(options: argparse.Namespace) -> Oracle:
    """Train without a fault."""
    with tempfile.TemporaryDirectory() as folder:
        run = start(options, Path(folder) / "run", 0)
        if wait(run) != 0:
            raise SystemExit(f"the training fails without a fault:\n{run.text()}")
        time.sleep(0.5)
        first = next(when for when, line in run.lines if " step 1 " in line)
        return Oracle(losses(run.text()), finals(run.text()), run.lines[-1][0] - first)


def one_round(
    options: argparse.Namespace, oracle: Oracle, fault: str, chance: random.Random, folder: Path
) -> list[str]:
    """Train with a fault; the promises that are broken."""
    broken: list[str] = []
    run = start(options, folder, restarts=2)
    who = chance.randrange(options.ranks)
    processes = started(run, options.ranks)
    if processes is None:
        return [f"the ranks did not start:\n{run.text()}"]
    everyone = [*family(run.process.pid)]
    time.sleep(chance.uniform(0, oracle.seconds * 1.1))
    what, number = FAULTS[fault]
    victim = {
        "rank": lambda: processes[who],
        "beside": lambda: parent_of(processes[who]),
        "launcher": lambda: run.process.pid,
        "mpiexec": lambda: children(run.process.pid)[0],
    }[what]
    before = time.monotonic()
    try:
        os.kill(victim(), number)
    except (OSError, ValueError, IndexError):
        victim = None  # the training was faster
    limit = LIMIT + SLACK + (options.timeout if fault in LATE else 0)
    left = wait_until_gone([p for p in everyone if p != run.process.pid], limit)
    if left and victim is not None and not over(run, before):
        broken.append(f"{len(left)} processes are left after {limit:g} s")
    if what == "launcher":
        wait(run)
        for process in left:
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
        text = run.text()
        run = start(options, folder, restarts=0)
    else:
        text = ""
    try:
        status = wait(run)
    except subprocess.TimeoutExpired:
        for process in family(run.process.pid):
            os.kill(process, signal.SIGKILL)
        return [*broken, f"not over after {HANG:g} s"]
    time.sleep(0.5)  # the last lines
    text += "\n" + run.text()
    if status != 0:
        broken.append(f"the last status is {status}")
    if what == "rank" and "starting the program again" in text:
        first = text.partition("starting the program again")[0]
        for rank in {*range(options.ranks)} - {who}:
            ended = f"[{rank}] final " in first  # perhaps before the fault
            if not ended and not re.search(rf"^\[{rank}\] hybridc: .*\brank {who} on \S+ ", first, re.MULTILINE):
                broken.append(f"rank {rank} does not name rank {who}")
    printed = losses(text)
    wrong = [
        key for key, value in oracle.losses.items() if printed.get(key, value if what != "rank" else None) != value
    ]
    if wrong:
        broken.append(f"losses differ at {wrong[:3]}")
    if finals(text) != oracle.final:
        broken.append("the parameters differ")
    if broken:
        broken.append(text)
    return broken


def started(run: Run, count: int) -> dict[int, int] | None:
    """The processes of the ranks, when all have come to the first step; None if the program ended."""
    found: dict[int, int] = {}
    while (line := run.came.get()) is not None:
        if match := re.match(r"\[(\d+)\] process (\d+)", line):
            found[int(match[1])] = int(match[2])
        if " step " in line and len(found) == count:
            return found
    return None


def over(run: Run, since: float) -> bool:
    """Whether the training had come to its end when the fault came."""
    return any(" final " in line and when < since + 1 for when, line in run.lines)


def main() -> None:
    """Run the rounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--timeout", type=int, default=8, help="seconds after which a rank is late")
    parser.add_argument("--faults", default=",".join(FAULTS), help=f"some of {', '.join(FAULTS)}")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    faults = options.faults.split(",")
    oracle = uninterrupted(options)
    print(f"{options.steps} steps on {options.ranks} ranks take {oracle.seconds:.1f} s", flush=True)
    bad = 0
    for number in range(options.rounds):
        fault = faults[number % len(faults)]
        folder = Path(tempfile.mkdtemp(prefix="random-faults-"))
        begun = time.monotonic()
        broken = one_round(options, oracle, fault, chance, folder / "run")
        bad += bool(broken)
        print(f"{number + 1:3} {fault:14} {time.monotonic() - begun:6.1f} s  {'; '.join(broken) or 'ok'}", flush=True)
        shutil.rmtree(folder)
    print(f"{options.rounds - bad} of {options.rounds} rounds kept every promise")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()

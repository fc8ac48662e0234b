"""Peak memory, eager and hybridized: ``python benchmarks/memory.py [workload …]``, mlp_train by default.

Each is measured in a process of its own, in MiB above the level after everything is imported (the compiler
too) and the inputs and parameters are made. *running* is the peak over ten steps after the first; *first* is
the peak of the first step, which for a hybridized network compiles.
"""

from __future__ import annotations

import gc
import json
import resource
import statistics
import subprocess
import sys
from pathlib import Path

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

STEPS = 10


def status(field: str) -> float:
    """A field of /proc/self/status in MiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    raise KeyError(field)


def reset_peak() -> None:
    """Let the kernel's peak (VmHWM) start again from the present."""
    Path("/proc/self/clear_refs").write_text("5")


def peak() -> float:
    """The peak in MiB since the last reset."""
    return max(status("VmHWM"), 0.0) or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(name: str, hybridized: bool) -> tuple[float, float]:
    """Peak MiB of the first step and of those that follow, in this process."""
    import hybridc.compile.stages  # noqa: F401 - the compiler belongs to the level that is subtracted
    from benchmarks.workloads import WORKLOADS

    program = WORKLOADS[name].build(hybridized)
    gc.collect()
    before = status("VmRSS")
    reset_peak()
    program.call()
    first = peak() - before
    gc.collect()
    reset_peak()
    for _ in range(STEPS):
        program.call()
    return first, peak() - before


def peaks(name: str, hybridized: bool, runs: int = 3) -> tuple[float, float]:
    """As :func:`measure`, the median of several fresh processes."""
    mode = "hybridized" if hybridized else "eager"
    command = [sys.executable, str(Path(__file__).resolve()), "--here", name, mode]
    found = [
        json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout) for _ in range(runs)
    ]
    first, running = zip(*found)
    return statistics.median(first), statistics.median(running)


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--here"]:
        print(json.dumps(measure(arguments[1], arguments[2] == "hybridized")))
        return
    print("| MiB | eager, first | hybridized, first | eager, running | hybridized, running |")
    print("|---|---|---|---|---|")
    for name in arguments or ["mlp_train"]:
        eager, hybrid = peaks(name, False), peaks(name, True)
        print(f"| {name} | {eager[0]:.1f} | {hybrid[0]:.1f} | {eager[1]:.1f} | {hybrid[1]:.1f} |")


if __name__ == "__main__":
    main(sys.argv[1:])

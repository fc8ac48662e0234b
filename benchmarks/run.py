"""The benchmark table, eager against hybridized: ``python benchmarks/run.py``, see ``--help``.

Every result is checked against float64 NumPy before it is timed. Times are medians of blocks that alternate
between the two (see ``timing.py``), so that the ratio holds on a busy machine even where the times do not.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import hybridc.compile.stages  # noqa: F401 - importing the compiler is no part of any first call
from benchmarks import limits, memory, timing
from benchmarks.workloads import WORKLOADS, Workload

COLUMNS = ("workload", "what", "eager ms", "hybridized ms", "ratio", "first call ms", "kernels", "host calls")
QUICK, THOROUGH = (5, 0.1), (9, 0.4)  # number of blocks, seconds of each
PEAKS = ("eager peak MiB", "hybridized peak MiB")


def measure(workload: Workload, blocks: int, seconds: float) -> dict[str, Any]:
    """One row: both programs checked, then timed."""
    eager, hybrid = workload.build(hybridized=False), workload.build(hybridized=True)
    start = time.perf_counter()
    result = hybrid.call()
    compiled = time.perf_counter() - start
    error = max(workload.check(eager), workload.error(hybrid.fetch(result)))
    kernels, host_calls = hybrid.kernels(), hybrid.host_calls()
    slow, fast = timing.compare((eager.call, hybrid.call), blocks, seconds)
    return {
        "workload": workload.name,
        "what": workload.about,
        "eager ms": slow * 1e3,
        "hybridized ms": fast * 1e3,
        "ratio": slow / fast,
        "first call ms": compiled * 1e3,
        "kernels": kernels,
        "host calls": host_calls,
        "error": error,
    }


def in_own_process(name: str, quick: bool) -> dict[str, Any]:
    """As :func:`measure`: what ran before in a process decides how malloc serves an eager operator's large arrays."""
    command = [sys.executable, str(Path(__file__).resolve()), "--here", "--only", name, *(["--quick"] if quick else [])]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)[0]


def floor(workload: Workload, bandwidth: float, products: float) -> float:
    """Seconds that moving the bytes, or the multiply-adds, take at best; exp and its like are not counted."""
    return max(workload.moved / bandwidth, workload.flops / products)


def shown(value: Any) -> str:
    """A cell of the table."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def main() -> int:
    parser = argparse.ArgumentParser(description="eager against hybridized, as a Markdown table")
    parser.add_argument("--only", help="workloads, separated by commas", default=",".join(WORKLOADS))
    parser.add_argument("--quick", action="store_true", help="fewer and shorter blocks")
    parser.add_argument("--memory", action="store_true", help="peak memory too, in processes of their own")
    parser.add_argument("--floor", action="store_true", help="the time that the machine's limits allow, too")
    parser.add_argument("--here", action="store_true", help="measure one workload in this process, print JSON")
    parser.add_argument("--json", help="also write the rows to this file")
    options = parser.parse_args()
    names = options.only.split(",")
    unknown = [n for n in names if n not in WORKLOADS]
    if unknown:
        parser.error(f"no workload {unknown[0]!r}; there are {', '.join(WORKLOADS)}")
    if options.here:
        rows = [measure(WORKLOADS[name], *(QUICK if options.quick else THOROUGH)) for name in names]
        print(json.dumps(rows))
        return 0
    columns = COLUMNS + (PEAKS if options.memory else ()) + (("floor ms",) if options.floor else ())
    bandwidth, products = limits.limits() if options.floor else (1.0, 1.0)
    print("| " + " | ".join(columns) + " |")
    print("|" + "---|" * len(columns), flush=True)
    rows: list[dict[str, Any]] = []
    failed = False
    for name in names:
        try:
            row = in_own_process(name, options.quick)
        except subprocess.CalledProcessError as error:
            failed = True
            print(f"{name}: failed, see above ({error})", file=sys.stderr)
            continue
        if options.memory:
            row |= zip(PEAKS, (memory.peaks(name, hybridized=h)[1] for h in (False, True)))
        row["floor ms"] = floor(WORKLOADS[name], bandwidth, products) * 1e3
        rows.append(row)
        print("| " + " | ".join(shown(row[c]) for c in columns) + " |", flush=True)
    if len(rows) > 1:
        print(f"\nGeometric mean of the ratios: {statistics.geometric_mean(row['ratio'] for row in rows):.2f}")
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1))
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())

"""Two checkouts of hybridc against each other: ``python benchmarks/against.py ../before``.

For each workload both run in processes of their own, which take turns, a short block of calls each. A time is the least
of the blocks' medians: what else runs on the machine makes times longer, never shorter. First calls, with nothing in
the cache on the disk and the compiler not yet imported, are seconds of the processor, the least of a few processes. So
are imports.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]


def serve(tree: str, name: str) -> None:
    """Print what the first call takes; then, for each line of seconds, the median of a call in such a block."""
    sys.path[0] = tree
    from benchmarks.timing import block
    from benchmarks.workloads import WORKLOADS

    workload = WORKLOADS[name]
    program = workload.build(hybridized=True)
    start = time.process_time()
    result = program.call()
    first = time.process_time() - start
    workload.error(program.fetch(result))  # raises if it is wrong
    print(first, flush=True)
    for line in sys.stdin:
        print(block(program.call, float(line)), flush=True)


def started(tree: Path, name: str, threads: int | None) -> tuple[subprocess.Popen[str], float]:
    """A process that serves a workload of a checkout, and the seconds of its first call."""
    with tempfile.TemporaryDirectory() as cache:
        env = {**_environment(tree), "HYBRIDC_CACHE_DIR": cache}
        if threads is not None:
            env["HYBRIDC_NUM_THREADS"] = str(threads)
        command = [sys.executable, __file__, "--serve", str(tree), name]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env, cwd=tree)
        return process, _answer(process)


def _answer(process: subprocess.Popen[str]) -> float:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise SystemExit("a process ended; see above")
    return float(line)


def _environment(tree: Path) -> dict[str, str]:
    """The environment of a checkout's processes, which keep bytecode, as only one checkout may have some yet."""
    return {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": ""}


def imports(tree: Path, module: str, times: int = 9) -> float:
    """Seconds of the processor that it takes to import a module of a checkout."""
    code = f"import time; start = time.process_time(); import {module}; print(time.process_time() - start)"
    env = _environment(tree)
    command = [sys.executable, "-c", code]
    runs = (
        subprocess.run(command, env=env, cwd=tree, check=True, text=True, capture_output=True) for _ in range(times)
    )
    return min(float(run.stdout) for run in runs)


def measure(
    trees: Sequence[Path], name: str, blocks: int, seconds: float, firsts: int, threads: int | None
) -> list[tuple[float, float]]:
    """For each checkout the seconds of a call, and of a first call."""
    first, calls = [math.inf] * len(trees), [math.inf] * len(trees)
    for attempt in range(firsts):
        served = [started(tree, name, threads) for tree in trees]
        first = [min(before, now) for before, (_, now) in zip(first, served, strict=True)]
        for _ in range(blocks if attempt == firsts - 1 else 0):
            for i, (process, _) in enumerate(served):
                assert process.stdin is not None
                process.stdin.write(f"{seconds}\n")
                process.stdin.flush()
                calls[i] = min(calls[i], _answer(process))
        for process, _ in served:
            process.communicate()
    return [*zip(calls, first, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path, nargs="?", help="the folder of the other checkout")
    parser.add_argument("--only", help="workloads, separated by commas")
    parser.add_argument("--blocks", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.15, help="of a block")
    parser.add_argument("--firsts", type=int, default=3, help="processes whose first calls are measured")
    parser.add_argument("--threads", type=int, help="HYBRIDC_NUM_THREADS of both")
    parser.add_argument("--serve", nargs=2, metavar=("TREE", "WORKLOAD"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(*options.serve)
        return
    if options.before is None:
        parser.error("name the folder of the other checkout")
    sys.path[0] = str(HERE)
    from benchmarks.workloads import WORKLOADS

    trees = [options.before.resolve(), HERE]
    # What a checkout lacks Python would find in the installed one.
    compilers = ["hybridc.compile.stages"] if all((tree / "hybridc/compile").exists() for tree in trees) else []
    for module in ("hybridc", *compilers):
        old, new = (imports(tree, module) for tree in trees)
        print(f"import {module}: {old:.3f} s before, {new:.3f} now, {new / old:.2f}", flush=True)
    print("\n| workload | before ms | now ms | now / before | first call before s | now s | now / before |")
    print("|---|---|---|---|---|---|---|", flush=True)
    ratios: list[tuple[float, float]] = []
    for name in options.only.split(",") if options.only else WORKLOADS:
        (old, first), (new, again) = measure(
            trees, name, options.blocks, options.seconds, options.firsts, options.threads
        )
        ratios.append((new / old, again / first))
        print(
            f"| {name} | {old * 1e3:.3g} | {new * 1e3:.3g} | {new / old:.2f} "
            f"| {first:.3g} | {again:.3g} | {again / first:.2f} |",
            flush=True,
        )
    calls, compiles = (statistics.geometric_mean(column) for column in zip(*ratios, strict=True))
    print(f"\nGeometric means: {calls:.3f} and {compiles:.3f}")


if __name__ == "__main__":
    main()

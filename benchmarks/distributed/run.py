"""Milliseconds per step with several ranks: ``python benchmarks/distributed/run.py [--ranks 1,2] [--tasks mlp,gru]``.

Networks are trained by SGD with momentum on one machine, with the same batch whatever the number of ranks: hybridc's
TrainStep, with states on every rank and sharded, PyTorch's DistributedDataParallel over Gloo, and PyTorch with mpi4py
called by hand on one array of all gradients. A rank has a core where there are enough. ``hidden`` is the share of
communication during which hybridc computed. ``--messages`` compares all-reduce with MPI's own call for messages of 4
bytes to 64 MiB. PyTorch is that of ``benchmarks/peers/run.py --setup``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

if __package__ is None:
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from benchmarks.distributed.networks import TASKS
from benchmarks.peers import environments
from hybridc.launch.mpiexec import find

HERE = Path(__file__).resolve().parent
WAYS = {"hybridc": "hybridc", "hybridc-sharded": "sharded", "ddp": "torch DDP", "hand": "torch, MPI by hand"}


def started(interpreter: Path, ranks: int, *arguments: str) -> list[dict[str, Any]]:
    """What the ranks of a program print as JSON, each rank on a core of its own if there are enough."""
    cores = len(os.sched_getaffinity(0))
    threads = str(max(1, cores // ranks))
    limits = {"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads, "HYBRIDC_NUM_THREADS": threads}
    root = str(HERE.parents[1])
    environment = {**os.environ, **limits, "PYTHONPATH": root}
    command = [str(interpreter), *arguments]
    if ranks > 1:
        mpiexec = find(os.environ)
        bound = ["-bind-to", "core"] if mpiexec.is_mpich and ranks <= cores else []
        first, *rest = mpiexec.command(ranks, (), command, environment)
        command = [first, *bound, *rest]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)} failed:\n{done.stdout}\n{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def steps(folder: Path, tasks: list[str], ranks: list[int], rounds: int, seconds: float) -> list[dict[str, Any]]:
    """Rows of the table of steps."""
    torch = environments.python(folder, environments.COLUMNS["torch"])
    rows: list[dict[str, Any]] = []
    for task in tasks:
        for count in ranks:
            found: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
            for _ in range(rounds):  # in turns, so that other load meets all alike
                for way in WAYS:
                    if count == 1 and way in ("hybridc-sharded", "hand"):
                        continue
                    interpreter = Path(sys.executable) if way.startswith("hybridc") else torch
                    found[way] += started(interpreter, count, str(HERE / "worker.py"), way, task, str(seconds))
            row: dict[str, Any] = {"task": task, "ranks": count}
            row |= {way: statistics.median(f["ms"] for f in each) for way, each in found.items() if each}
            row["hidden"] = next((f.get("hidden") for f in found["hybridc"]), None)
            rows.append(row)
            print(_line(row), flush=True)
    return rows


def _line(row: dict[str, Any]) -> str:
    cells = [f"{row[way]:.2f}" if way in row else "" for way in WAYS]
    rivals = [row[way] for way in ("ddp", "hand") if way in row]
    hidden = "" if row["hidden"] is None else f"{row['hidden']:.0%}"
    return f"| {row['task']} | {row['ranks']} | {' | '.join(cells)} | {row['hybridc'] / min(rivals):.2f} | {hidden} |"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", default="1,2")
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--messages", action="store_true", help="compare all-reduce with MPI's call instead")
    parser.add_argument("--folder", type=Path, default=environments.FOLDER, help="where the peers are installed")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.messages:
        rows = started(Path(sys.executable), int(options.ranks.split(",")[-1]), str(HERE / "messages.py"))
        print("| bytes | hybridc µs | MPI µs | ratio |\n|---|---|---|---|")
        for row in rows:
            print(f"| {row['bytes']} | {row['hybridc']:.1f} | {row['mpi']:.1f} | {row['hybridc'] / row['mpi']:.2f} |")
    else:
        print(f"| network | ranks | {' | '.join(WAYS.values())} | of the best rival | hidden |")
        print("|" + "---|" * (len(WAYS) + 4))
        ranks = [int(r) for r in options.ranks.split(",")]
        rows = steps(options.folder, options.tasks.split(","), ranks, options.rounds, options.seconds)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()

"""Ranks on links of limited bandwidth, beside the model of scaling: ``benchmarks/distributed/namespaces.py``, as root.

Each rank runs in a network namespace, as on a machine of its own: see :mod:`benchmarks.distributed.machines`. Measured
are all-reduces by their size (hybridc, MPI called by hand, PyTorch's Gloo), and steps of training with one batch for
all ranks (hybridc, PyTorch's DistributedDataParallel over Gloo). ``predicted`` is what ``hybridc.tools.scaling`` says,
and the ratio is measured by predicted. The model is given the bandwidth, the time of 4 bytes between two ranks as
latency, and the compute time of ranks that train at the same time without communication. Steps are the fastest of
several rounds, all-reduces the fastest of their repetitions: what else runs here only takes time.

``--tasks`` are networks of :mod:`benchmarks.distributed.networks`. ``sent`` are the bytes that the interface of rank 0
sends for each all-reduce, beside the 2 (p-1)/p n bytes of ring and halving: they show that MPI uses the link.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

if __package__ is None:
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from benchmarks.distributed.machines import INTERFACE, TRANSPORTS, Links, Machines, started
from benchmarks.distributed.networks import TASKS, of_hybridc
from benchmarks.peers import environments

HERE = Path(__file__).resolve().parent
# Of the bytes that tc counts of an Ethernet frame, those that TCP carries.
PAYLOAD = 1448 / 1514
_SUMMING = 5e9  # bytes that a rank adds per second
_WAYS = {"hybridc": "hybridc", "ddp": "torch DDP"}


def rows_of(command: Sequence[str], environment: dict[str, str], seconds: float) -> list[dict[str, Any]]:
    """What the ranks of a program print as JSON."""
    with started(command, environment) as process:
        out, err = process.communicate(timeout=seconds)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} failed with {process.returncode}:\n{out}\n{err}")
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


class Measured:
    """What is measured by the options, with what the model predicts beside it."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.own = Path(sys.executable)
        self.torch = environments.python(options.folder, environments.COLUMNS["torch"])
        self.rows: list[dict[str, Any]] = []

    def _environment(self, machines: Machines, ranks: int) -> dict[str, str]:
        threads = str(max(1, len(os.sched_getaffinity(0)) // ranks))
        bound = {"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads, "HYBRIDC_NUM_THREADS": threads}
        paths = [str(HERE.parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
        return machines.environment(self.options.transport, {**bound, "PYTHONPATH": os.pathsep.join(paths)})

    def _cluster(self, ranks: int, gigabits: float, latency: float) -> Any:
        from hybridc.tools.scaling.cluster import Cluster, Network

        network = Network(gigabits * 1e9 / 8 * PAYLOAD, latency)
        return Cluster(ranks, network, network, _SUMMING)

    def messages(self, gigabits: float, ranks: Sequence[int]) -> float:
        """Measure all-reduces; the latency of two ranks."""
        options = self.options
        latency = 0.0
        for count in sorted({2, *ranks} - {1}):
            with Machines(count, Links(gigabits, options.latency, options.loss)) as machines:
                environment = self._environment(machines, count)
                program = (str(HERE / "messages.py"),)
                arguments = (str(options.largest if options.messages else 4), INTERFACE)
                found = rows_of(machines.ranks(self.own, *program, "hybridc", *arguments), environment, options.limit)
                gloo: list[dict[str, Any]] = []
                if options.messages and self.torch.exists():
                    command = machines.ranks(self.torch, *program, "gloo", *arguments, watched=False)
                    gloo = rows_of(command, environment, options.limit)
            latency = latency or found[0]["hybridc fastest"] * 1e-6
            for row, other in zip(found, gloo or [{}] * len(found), strict=True):
                predicted, _ = self._cluster(count, gigabits, latency).all_reduce(row["bytes"])
                row |= {name: value for name, value in other.items() if name.startswith("gloo")}
                row |= {"gigabits": gigabits, "ranks": count, "predicted": predicted * 1e6}
                row["least"] = 2 * (count - 1) / count * row["bytes"]
                if options.messages:
                    self.rows.append(row)
                    print(_message_line(row), flush=True)
        return latency

    def steps(self, gigabits: float, ranks: Sequence[int], latency: float) -> None:
        """Measure steps of training."""
        from hybridc.tools.scaling.model_layers import of_block
        from hybridc.tools.scaling.predicted_step import RankWork, predict

        options = self.options
        for task in options.tasks:
            layers = of_block(of_hybridc(task), TASKS[task][1])
            for count in ranks:
                row: dict[str, Any] = {"task": task, "gigabits": gigabits, "ranks": count}
                with Machines(count, Links(gigabits, options.latency, options.loss)) as machines:
                    environment = self._environment(machines, count)
                    for way in _WAYS:
                        interpreter = self.torch if way == "ddp" else self.own
                        if not interpreter.exists():
                            continue
                        program = (str(HERE / "worker.py"), way, task, str(options.seconds))
                        rounds: list[dict[str, Any]] = []
                        alone: list[float] = []
                        for _ in range(options.rounds):  # in turns
                            command = machines.ranks(interpreter, *program, watched=way == "hybridc")
                            rounds += rows_of(command, environment, options.limit)
                            alone.append(self._alone(machines, interpreter, program, environment))
                        best = min(rounds, key=lambda found: found["ms"])
                        work = RankWork(layers, min(alone) / 1e3, 0.0)
                        predicted = predict(work, self._cluster(count, gigabits, latency)).step * 1e3
                        row |= {f"{way} {key}": value for key, value in best.items()}
                        row |= {f"{way} alone": min(alone), f"{way} predicted": predicted}
                self.rows.append(row)
                print(_step_line(row), flush=True)

    def _alone(
        self, machines: Machines, interpreter: Path, program: Sequence[str], environment: dict[str, str]
    ) -> float:
        """Milliseconds of the slowest of ranks that train at the same time, but each alone."""
        with contextlib.ExitStack() as stack:
            processes = [
                stack.enter_context(
                    started(machines.on(k, str(interpreter), *program, f"{k}/{machines.count}"), environment)
                )
                for k in range(machines.count)
            ]
            printed = [process.communicate(timeout=self.options.limit) for process in processes]
        for process, (out, err) in zip(processes, printed, strict=True):
            if process.returncode:
                raise RuntimeError(f"{' '.join(program)} failed with {process.returncode}:\n{out}\n{err}")
        return max(json.loads(line)["ms"] for out, _ in printed for line in out.splitlines() if line.startswith("{"))


_MESSAGES = "| Gbit/s | ranks | bytes | hybridc µs | MPI µs | Gloo µs | predicted µs | ratio | sent by 2 (p-1)/p n |"
_STEPS = (
    "| network | Gbit/s | ranks | hybridc ms | alone | predicted | ratio | hidden | torch DDP ms | alone | predicted "
    "| ratio |"
)


def _message_line(row: dict[str, Any]) -> str:
    names = ("hybridc fastest", "mpi fastest", "gloo fastest", "predicted")
    times = [f"{row[name]:.1f}" if name in row else "" for name in names]
    ratio, sent = row["hybridc fastest"] / row["predicted"], row["sent"] / row["least"]
    return f"| {row['gigabits']:g} | {row['ranks']} | {row['bytes']} | {' | '.join(times)} | {ratio:.2f} | {sent:.2f} |"


def _step_line(row: dict[str, Any]) -> str:
    cells = [row["task"], f"{row['gigabits']:g}", str(row["ranks"])]
    for way in _WAYS:
        if f"{way} ms" in row:
            cells += [f"{row[f'{way} {key}']:.2f}" for key in ("ms", "alone", "predicted")]
            cells.append(f"{row[f'{way} ms'] / row[f'{way} predicted']:.2f}")
        else:
            cells += [""] * 4
        if way == "hybridc":
            hidden = row.get("hybridc hidden")
            cells.append("" if hidden is None else f"{hidden:.0%}")
    return f"| {' | '.join(cells)} |"


def _heads(title: str) -> Iterator[str]:
    yield title
    yield "|" + "---|" * (title.count("|") - 1)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--gigabits", default="1,10", help="of each link per second and direction")
    add("--ranks", default="1,2,4")
    add("--latency", type=float, default=0.0, help="microseconds more from machine to machine")
    add("--loss", type=float, default=0.0, help="share of packets that are lost from machine to machine")
    add("--tasks", default="mlp,wide,lenet", type=lambda text: text.split(","))
    add("--rounds", type=int, default=3, help="of which the fastest steps are taken")
    add("--seconds", type=float, default=2.0, help="of each measurement of steps")
    add("--largest", type=int, default=1 << 24, help="bytes of the largest all-reduce")
    add("--limit", type=float, default=600.0, help="seconds after which a program is killed")
    add("--transport", choices=TRANSPORTS, default="ucx", help="of MPICH")
    add("--messages", action=argparse.BooleanOptionalAction, default=True, help="measure all-reduces")
    add("--steps", action=argparse.BooleanOptionalAction, default=True, help="measure steps")
    add("--folder", type=Path, default=environments.FOLDER, help="where the peers are installed")
    add("--json", type=Path)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    ranks, speeds = [int(r) for r in options.ranks.split(",")], [float(g) for g in options.gigabits.split(",")]
    measured = Measured(options)
    if options.messages:
        print("\n".join(_heads(_MESSAGES)), flush=True)
    few = ranks if options.messages else [2]
    latencies = {gigabits: measured.messages(gigabits, few) for gigabits in speeds}
    if options.steps:
        print("\n" + "\n".join(_heads(_STEPS)), flush=True)
        for gigabits in speeds:
            measured.steps(gigabits, ranks, latencies[gigabits])
    if options.json:
        options.json.write_text(json.dumps(measured.rows, indent=1))


if __name__ == "__main__":
    main()

"""First calls beside JAX, torch.compile and MXNet: ``python benchmarks/peers/first_calls.py``, see ``--help``.

Seconds of the processor, of all threads and compilers, and of the clock. Each call is the first one in a process of its
own, *cold* with empty caches on the disk, *warm* with what a cold one left; importing the framework and making the
program are no part of it, but for the graph that is measured with its whole process. The processes of all columns take
turns; a figure is the least of the rounds. Results are compared with float64 NumPy, those of further calls too, but
where the calls before changed the weights. ``--before TREE`` adds a column, the hybridc of another checkout.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

if __package__ in (None, ""):
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from benchmarks.first_workloads import KEY, ROWS, STATES, UNITS
from benchmarks.images import EVERY
from benchmarks.peers import environments
from benchmarks.peers.client import PATIENCE, ROOT, PeerError, checked, first_call, further_call
from benchmarks.peers.environments import COLUMNS, Column
from benchmarks.peers.run import NOTHING, Measurement, cell, line, machine
from benchmarks.workloads import Arrays, Workload

CACHES = ("cold", "warm")
PEERS = "hybridc,jax,torch-compile,mxnet"
BEFORE = "before"
ROUNDS = 3


class Cost(NamedTuple):
    """Seconds of the processor, and of the clock."""

    processor: float
    clock: float

    def __str__(self) -> str:
        return " / ".join(cell(seconds, 1.0) for seconds in self)


Cell = Cost | str  # a text where there is no figure
Shapes = tuple[tuple[str, tuple[int, ...]], ...]  # of data, by name


@dataclass(frozen=True)
class Bound:
    """The most that hybridc may take: seconds, or so many times what another column or another line took."""

    most: float
    of: str = ""

    def __str__(self) -> str:
        if not self.of:
            return f"{self.most:g} s"
        return f"{self.most:g} times {LINES[self.of].title if self.of in LINES else title(self.of)}"


@dataclass(frozen=True)
class Line:
    """What is called, what is counted of it, and its bounds: cold, and warm if that is measured, too.

    The first call is of the workload's inputs, each further one of data of other shapes. ``counted`` are the first
    call, the mean of the further ones, all of them, or the whole *process* up to the end of the first. A
    *stateful* one gives other results each time that it is called. From one whose calls take long when nothing is
    compiled, a later call of the same data is *subtracted*.
    """

    title: str
    workload: str
    bounds: tuple[Bound | None, ...] = (None,)
    further: tuple[Shapes, ...] = ()
    counted: str = "first"
    stateful: bool = False
    subtracted: bool = False


def _words(steps: int, batch: int) -> Shapes:
    return (("x", (steps, batch)), ("y", (steps, batch)))


def _keys(number: int) -> Shapes:
    return (("x", (ROWS, KEY)), ("keys", (ROWS, number, KEY)), ("values", (ROWS, number, KEY)))


def seconds(*most: float) -> tuple[Bound, ...]:
    """Bounds that are seconds, cold and warm."""
    return tuple(map(Bound, most))


def times(most: float, of: str) -> tuple[Bound, ...]:
    """A bound beside another column or line, cold."""
    return (Bound(most, of),)


def further(title: str, workload: str, most: tuple[float, ...], **shapes: tuple[int, ...]) -> Line:
    """One further size, less a later call of it; with labels ``y`` it is one of training."""
    trains, bounds = "y" in shapes, seconds(*most)
    size = (tuple(shapes.items()),)
    return Line(f"{title}, less a later call", workload, bounds, size, "further", trains, subtracted=True)


TWICE = 2.2  # times as long may what is twice as long take
LINES = {
    "resnet18": Line("ResNet-18, 1x3x224²", "resnet18", times(0.9, "jax")),
    "resnet18_train": Line("ResNet-18, training step, 16x3x64²", "resnet18_train", times(0.4, BEFORE)),
    "resnet50": Line("ResNet-50, 1x3x224²", "resnet50", times(1.0, "jax")),
    "bert_base": Line("BERT-base, 128 tokens", "bert_base", times(1.0, "jax")),
    "encoder_24": Line("24-layer encoder, 128 tokens", "encoder_24", times(1.0, "jax")),
    "unet": Line("U-Net, 1x3x128²", "unet", times(1.0, "jax")),
    "language_model": Line("LSTM language model, training step", "language_model", times(1.0, "jax")),
    "mobilenet_train": Line("MobileNetV2, training step, 4x3x64²", "mobilenet_train", times(0.35, BEFORE)),
    "encoder": Line("encoder layer, less a later call", "encoder", seconds(0.2, 0.02), subtracted=True),
    "encoder_train": Line(
        "encoder layer, training step, less a later one", "encoder_train", (None, None), subtracted=True
    ),
    "first_graph": Line("first graph of a process, with its start", "graphs", seconds(0.6, 0.35), counted="process"),
    "further_graph": Line(
        "a further graph of two operators", "graphs", seconds(0.015, 0.003), 20 * ((("x", (ROWS, UNITS)),),),
        "further", True,
    ),
    "resnet18_batch": further("ResNet-18, a further batch size", "resnet18", (0.03, 0.02), x=(2, 3, 224, 224)),
    "resnet18_size": further("ResNet-18, a further image size", "resnet18", (0.06, 0.02), x=(1, 3, 192, 192)),
    "language_model_length": further(
        "LSTM language model, a training step of a further length", "language_model", (0.01,), x=(20, 20), y=(20, 20)
    ),
    "encoder_batch": further("encoder layer, a further batch size", "encoder", (0.01,), x=(4, 128, 256)),
    "encoder_length": further("encoder layer, a further length", "encoder", (0.01,), x=(8, 96, 256)),
    "growing_keys": Line(
        "decoder, one more key at each of 60 steps", "growing_keys", seconds(0.8, 0.2),
        tuple(_keys(n) for n in range(2, 61)), "all",
    ),
    **{
        f"unrolled_lstm_{steps}": Line(
            f"two unrolled LSTM layers, a Module of {steps} steps", f"unrolled_lstm_{steps}", seconds(1.2)
        )
        for steps in (5, 20, 60)
    },
    "buckets": Line(
        "a BucketingModule of these layers, a further bucket", "buckets", seconds(0.1),
        (_words(10, STATES), _words(30, STATES)), "further", True,
    ),
    "executors": Line("ten executors of a symbol at eight shapes each", "executors", times(1.5, "mxnet")),
    "tanh_chain_450": Line("450 tanh in a chain", "tanh_chain_450", seconds(0.45)),
    "tanh_chain_900": Line("900 tanh in a chain", "tanh_chain_900", times(TWICE, "tanh_chain_450")),
    "dense_layers_500": Line("500 layers of Dense", "dense_layers_500"),
    "dense_layers_1000": Line("1000 layers of Dense", "dense_layers_1000", times(TWICE, "dense_layers_500")),
    "normed_layers_625": Line("2500 parameters: 625 layers of Dense, LayerNorm", "normed_layers_625"),
    "normed_layers_1250": Line("5000 parameters", "normed_layers_1250", times(TWICE, "normed_layers_625")),
}  # fmt: skip


def title(name: str) -> str:
    """What a column is called."""
    return "hybridc before" if name == BEFORE else COLUMNS[name].title


def line_of(name: str) -> Line:
    """A line of the table, or that of any workload: its first call, cold and warm."""
    return LINES[name] if name in LINES else Line(name, name, (None, None))


# --- measuring ----------------------------------------------------------------------------------------------


@functools.cache
def with_shapes(name: str, shapes: Shapes) -> tuple[Workload, Arrays]:
    """A workload whose data are repeated or cut to other shapes, and these data."""
    workload = EVERY[name]
    inputs = workload.inputs()
    data = {key: np.resize(inputs[key], shape) for key, shape in shapes}
    return dataclasses.replace(workload, make=lambda rng: {**workload.make(rng), **data}), data


def one_process(measurement: Measurement, wanted: Line, name: str, threads: int, cache: Path) -> Cost | None:
    """What a fresh process takes; None if the peer has no such program."""
    client = measurement.open(name, threads, cache, lean=wanted.counted == "process")
    try:
        measurement.versions[measurement.columns[name].title] = client.started()["version"]

        def cost(call: dict[str, float]) -> Cost:
            later = client.ask("later") if wanted.subtracted else {"processor": 0.0, "seconds": 0.0}
            return Cost(call["processor"] - later["processor"], call["seconds"] - later["seconds"])

        first = first_call(client, wanted.workload, measurement.scratch)
        if first is None:
            return None
        if wanted.counted == "process":
            return Cost(first["all processor"], first["all seconds"])
        calls = [] if wanted.counted == "further" else [cost(first)]
        for shapes in wanted.further:
            workload, data = with_shapes(wanted.workload, shapes)
            found, outputs = further_call(client, data, measurement.scratch)
            if not wanted.stateful:
                checked(workload, outputs)
            calls.append(cost(found))
    finally:
        client.close()
    total = statistics.mean if wanted.counted == "further" else sum
    return Cost(*map(total, zip(*calls, strict=True)))


def measure(measurement: Measurement, wanted: Line, rounds: int, threads: int) -> list[dict[str, Cell]]:
    """The cells of a line by column, cold and warm."""
    cells: list[dict[str, Cell]] = [dict.fromkeys(measurement.columns, NOTHING) for _ in wanted.bounds]
    absent: set[str] = set()
    for _ in range(rounds):
        for name in measurement.columns:
            with tempfile.TemporaryDirectory(dir=measurement.scratch) as cache:
                for row in cells if name not in absent else ():
                    try:
                        cost = one_process(measurement, wanted, name, threads, Path(cache))
                    except PeerError as error:
                        row[name], cost = measurement.failed(wanted.title, name, error), None
                    if cost is None:
                        absent.add(name)
                        break
                    known = row[name]
                    row[name] = Cost(*map(min, known, cost)) if isinstance(known, Cost) else cost
    return cells


# --- the table ----------------------------------------------------------------------------------------------


def of_bound(bound: Bound | None, row: Mapping[str, Cell], others: Mapping[str, Mapping[str, Cell]]) -> str:
    """What hybridc took as a part of its bound, of both seconds; a line's bound may be another line's figure."""
    ours = row.get("hybridc")
    if bound is None or not isinstance(ours, Cost):
        return NOTHING
    theirs = others.get(bound.of, {}).get("hybridc") if bound.of in LINES else row.get(bound.of)
    base = theirs if bound.of else Cost(1.0, 1.0)
    if not isinstance(base, Cost):
        return NOTHING
    return " / ".join(f"{own / (bound.most * other):.2f}" for own, other in zip(ours, base, strict=True))


def print_head(columns: Mapping[str, Column]) -> None:
    """The names of the columns."""
    head = ["processor / clock, s", *(column.title for column in columns.values()), "bound", "of the bound"]
    print(f"\n{line(head)}\n|{'---|' * len(head)}", flush=True)


def print_line(name: str, rows: list[dict[str, Cell]], found: Mapping[str, list[dict[str, Cell]]]) -> None:
    """The line of the table, cold, and the one of it warm."""
    given = line_of(name)
    for number, (bound, row) in enumerate(zip(given.bounds, rows, strict=True)):
        others = {other: lines[number] for other, lines in found.items() if number < len(lines)}
        texts = [*row.values(), bound or NOTHING, of_bound(bound, row, others)]
        print(line([f"{given.title}, {CACHES[number]}", *map(str, texts)]), flush=True)


def commit() -> str:
    """Of this checkout."""
    command = ["git", "describe", "--always", "--dirty"]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(description="first calls of hybridc beside its peers, as a Markdown table")
    parser.add_argument("--only", help=f"of {', '.join(LINES)}, or any workload of run.py", default=",".join(LINES))
    parser.add_argument("--peers", help="columns, separated by commas", default=PEERS)
    parser.add_argument("--before", type=Path, help="a checkout whose hybridc is one more column")
    parser.add_argument("--rounds", type=int, help="of processes by turns", default=ROUNDS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--env", type=Path, help="folder of the environments, HYBRIDC_PEERS", default=environments.FOLDER
    )
    parser.add_argument("--patience", type=float, help="seconds that a peer has for one answer", default=PATIENCE)
    parser.add_argument("--json", type=Path, help="also write what was found to this file")
    options = parser.parse_args()
    names, peers = options.only.split(","), options.peers.split(",")
    for given, known in ((names, LINES | EVERY), (peers, COLUMNS)):
        unknown = [x for x in given if x not in known]
        if unknown:
            parser.error(f"{unknown[0]!r} is not one of {', '.join(known)}")
    columns = {p: COLUMNS[p] for p in peers if environments.installed(options.env, COLUMNS[p])}
    print(f"{machine()}; commit {commit()}", flush=True)
    absent = [COLUMNS[p].title for p in peers if p not in columns]
    if absent:
        print(f"Not installed, see run.py --setup: {', '.join(absent)}", flush=True)
    options.env.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, (options.env / "log.txt").open("w") as log:
        scratch = Path(folder)
        if options.before:
            tree = scratch / BEFORE
            tree.mkdir()
            (tree / "hybridc").symlink_to(options.before.resolve() / "hybridc")
            columns[BEFORE] = dataclasses.replace(COLUMNS["hybridc"], title=title(BEFORE), tree=tree)
        measurement = Measurement(
            options.env, scratch, log, columns, reuse=False, quick=False, patience=options.patience
        )
        found: dict[str, list[dict[str, Cell]]] = {}
        print_head(columns)
        for name in names:
            found[name] = measure(measurement, line_of(name), options.rounds, options.threads)
            print_line(name, found[name], found)
            (scratch / f"{line_of(name).workload}.npz").unlink(missing_ok=True)
    print("\n" + ", ".join(f"{name} {version}" for name, version in measurement.versions.items()))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
    return int(bool(measurement.problems))


if __name__ == "__main__":
    raise SystemExit(main())

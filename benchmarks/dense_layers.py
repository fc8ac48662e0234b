"""Three dense layers beside ONNX Runtime, and on two threads beside one: ``python benchmarks/dense_layers.py``.

``--setup`` first makes ONNX Runtime's virtual environment, as ``benchmarks/peers/run.py`` does. Each contestant runs in
a process of its own, with the same inputs; its first outputs are compared with float64 NumPy. All take turns, a short
block of calls each, and a time is the least of the blocks' medians: what else runs on the machine makes times longer,
never shorter. ``HYBRIDC_CPU`` chooses the level that our code is for.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import sys
import tempfile
from pathlib import Path
from typing import IO, Any

import numpy as np

if __package__ in (None, ""):
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks.peers import environments
from benchmarks.peers.client import Client
from benchmarks.peers.environments import COLUMNS
from benchmarks.workloads import mlp_reference

ROWS, WIDTHS = (32, 64, 128, 256, 512, 1024), (256, 512, 1024)
TASK = "tiny_mlp"  # the workload of three layers; it takes its sizes from its arrays
ERROR = 1e-4  # of the largest magnitude


def inputs(rows: int, width: int) -> dict[str, np.ndarray]:
    """Rows, and the layers' weights and biases."""
    rng = np.random.default_rng(0)
    layers = {f"w{i}": rng.standard_normal((width, width)) / math.sqrt(width) for i in (1, 2, 3)}
    biases = {f"b{i}": rng.standard_normal(width) for i in (1, 2, 3)}
    given = {"x": rng.standard_normal((rows, width)), **layers, **biases}
    return {name: value.astype(np.float32) for name, value in given.items()}


def prepare(client: Client, arrays: dict[str, np.ndarray], folder: Path) -> None:
    """Make a contestant's program, and check its first results."""
    given, found = folder / "inputs.npz", folder / "outputs.npz"
    np.savez(given, **arrays)  # pyright: ignore[reportArgumentType] - arrays by name, not an option
    settings: dict[str, Any] = {"epsilon": 1e-5, "heads": 1, "learning_rate": 0.1, "momentum": 0.9}
    client.ask("prepare", inputs=str(given), name=TASK, **settings)
    client.ask("first", outputs=str(found))
    right = mlp_reference({name: value.astype(np.float64) for name, value in arrays.items()})
    with np.load(found) as file:
        error = abs(file["arr_0"] - right).max() / abs(right).max()
    if not error < ERROR:
        raise SystemExit(f"{client.column.title} is wrong by {error:.1e} of the largest magnitude")


def times(clients: list[Client], rounds: int, seconds: float) -> list[float]:
    """Seconds of a call of each, in turns."""
    least = [math.inf] * len(clients)
    for _ in range(rounds):
        for i, client in enumerate(clients):
            least[i] = min(least[i], client.ask("block", seconds=seconds)["seconds"])
    return least


def opened(name: str, threads: int, folder: Path, log: IO[str], stack: contextlib.ExitStack) -> Client:
    """A running contestant."""
    client = Client(COLUMNS[name], environments.FOLDER, folder, threads, False, log)
    stack.callback(client.close)
    client.started()
    return client


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--setup", action="store_true")
    parser.add_argument("--rows", default=",".join(map(str, ROWS)))
    parser.add_argument("--widths", default=",".join(map(str, WIDTHS)))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.02)
    args = parser.parse_args()
    if args.setup and not environments.setup(environments.FOLDER, ["onnx"]):
        raise SystemExit("ONNX Runtime's environment could not be made")
    rivals = environments.installed(environments.FOLDER, COLUMNS["onnx"])
    contestants = [("hybridc", 1), ("hybridc", 2), *([("onnx", 1), ("onnx", 2)] if rivals else [])]
    titles = " ".join(f"{name} {threads}".rjust(11) for name, threads in contestants)
    print(f"ms; {'rows':>6} {'width':>6} {titles}   ours on two threads / on one{' / ONNX Runtime on two' * rivals}")
    ratios: list[float] = []
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        log = stack.enter_context((folder / "log.txt").open("w"))
        clients = [opened(name, threads, folder, log, stack) for name, threads in contestants]
        for width in map(int, args.widths.split(",")):
            for rows in map(int, args.rows.split(",")):
                arrays = inputs(rows, width)
                for client in clients:
                    prepare(client, arrays, folder)
                found = times(clients, args.rounds, args.seconds)
                cells = " ".join(f"{1e3 * t:11.3f}" for t in found)
                against = [found[1] / found[0], *([found[1] / found[3]] if rivals else [])]
                ratios += against[1:]
                print(f"    {rows:6} {width:6} {cells}   " + "  ".join(f"{r:5.2f}" for r in against), flush=True)
    if ratios:
        print(f"geometric mean to ONNX Runtime: {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}")


if __name__ == "__main__":
    main()

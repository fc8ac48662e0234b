"""Sparse arrays beside MXNet and SciPy: ``python benchmarks/sparse.py``, see ``--help``.

Products of a csr matrix of 100,000 rows, with 50 values each, and steps that train an embedding, in milliseconds, with
two threads; the engines take turns, and of each the best time counts. MXNet's environment is that of
``benchmarks/peers/run.py --setup --peers mxnet``; without it there is no column of it. It takes no matrix of more than
2**31 elements, so the largest product has none of it.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

if __package__ in (None, ""):
    sys.path[0] = str(Path(__file__).resolve().parents[1])

ROWS, VALUES = 100_000, 50
COLUMNS, WIDTHS = (20_000, 1_000_000), (1, 16, 64)
BATCH, DEPTH = 512, 64
TABLES = (100_000, 10_000_000)
OPTIMIZERS = ("sgd", "adam")
ENGINES = ("hybridc", "mxnet", "scipy")
ROUNDS = 3


def best(run: Callable[[], Any], least: float) -> float:
    """The shortest of some calls, for at least so many seconds, in milliseconds."""
    run()
    times: list[float] = []
    begin = time.perf_counter()
    while len(times) < 3 or time.perf_counter() - begin < least:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


def matrix(columns: int) -> tuple[Any, Any, Any]:
    """Values, columns and ends of rows of a csr matrix."""
    random = np.random.RandomState(0)
    places = np.sort(random.randint(0, columns, (ROWS, VALUES)), 1)
    return random.rand(ROWS * VALUES).astype("float32"), places.ravel(), np.arange(ROWS + 1) * VALUES


def products(engine: str, columns: int, least: float) -> dict[str, float]:
    """Times of the product with a dense matrix, and of that of the transpose."""
    found: dict[str, float] = {}
    parts, random = matrix(columns), np.random.RandomState(1)
    for width in WIDTHS:
        right, left = (random.rand(n, width).astype("float32") for n in (columns, ROWS))
        if engine == "scipy":
            import scipy.sparse

            x = scipy.sparse.csr_matrix(parts, (ROWS, columns))
            runs = {"": lambda x=x, w=right: x @ w, " transposed": lambda x=x, y=left: x.T @ y}
        else:
            mx = framework(engine)
            x, w, y = mx.nd.sparse.csr_matrix(parts, shape=(ROWS, columns)), mx.nd.array(right), mx.nd.array(left)
            runs = {
                "": lambda mx=mx, x=x, w=w: mx.nd.dot(x, w).wait_to_read(),
                " transposed": lambda mx=mx, x=x, y=y: mx.nd.dot(x, y, transpose_a=True).wait_to_read(),
            }
        found |= {f"csr of {columns:,} columns{kind}, {width}": best(run, least) for kind, run in runs.items()}
    return found


def training(engine: str, rows: int, least: float) -> dict[str, float]:
    """Times of steps of an embedding of so many rows, and the memory of the process beside the tables, in MB."""
    mx, found = framework(engine), {}
    random = np.random.RandomState(0)
    batches = [mx.nd.array(random.randint(0, rows, (BATCH,)), dtype="int64") for _ in range(8)]
    net = mx.gluon.nn.Embedding(rows, DEPTH, sparse_grad=True)
    net.initialize(mx.init.Zero())
    for optimizer in OPTIMIZERS:
        trainer = mx.gluon.Trainer(net.collect_params(), optimizer, {"learning_rate": 0.1})

        def step(trainer: Any = trainer, number: list[int] = [0]) -> None:  # noqa: B006 - it counts
            with mx.autograd.record():
                loss = (net(batches[number[0] % 8]) ** 2).sum()
            loss.backward()
            trainer.step(BATCH)
            number[0] += 1
            mx.nd.waitall()

        for _ in range(8):
            step()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        found[f"embedding of {rows:,}, {optimizer}"] = best(step, least)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        found[f"embedding of {rows:,}, {optimizer}: MB more"] = grown / 1e3
    return found


def framework(engine: str) -> Any:
    """MXNet, or hybridc under its name."""
    if engine == "mxnet":
        import mxnet  # pyright: ignore[reportMissingImports]  # noqa: TID251

        return mxnet
    import hybridc

    return hybridc


def measured(engine: str, least: float) -> dict[str, float]:
    """All times of an engine; those of what it does not do are missing."""
    found: dict[str, float] = {}
    for columns in COLUMNS:
        if engine != "mxnet" or ROWS * columns < 2**31:
            found |= products(engine, columns, least)
    for rows in TABLES if engine != "scipy" else ():
        found |= training(engine, rows, least)
    return found


def interpreter(engine: str) -> Path | None:
    """The Python that has an engine."""
    from benchmarks.peers import environments

    if engine != "mxnet":
        return Path(sys.executable)
    column = environments.COLUMNS["mxnet"]
    found = environments.installed(environments.FOLDER, column)
    return environments.python(environments.FOLDER, column) if found else None


def main() -> None:
    """Measure each engine in processes of its own, in turns, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--engine", choices=ENGINES, help="measure one engine here, and print JSON")
    parser.add_argument("--least", type=float, default=0.5, help="seconds for each time")
    args = parser.parse_args()
    if args.engine:
        print(json.dumps(measured(args.engine, args.least)))
        return
    pythons = {engine: python for engine in ENGINES if (python := interpreter(engine)) is not None}
    times: dict[str, dict[str, list[float]]] = {engine: {} for engine in pythons}
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "HYBRIDC_NUM_THREADS": "2"}
    for _ in range(ROUNDS):
        for engine, python in pythons.items():
            command = [str(python), __file__, "--engine", engine, "--least", str(args.least)]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
            for what, value in json.loads(done.stdout.splitlines()[-1]).items():
                times[engine].setdefault(what, []).append(value)
    print(f"| | {' | '.join(pythons)} |")
    print("|---" * (len(pythons) + 1) + "|")
    for what in times["hybridc"]:
        cells = [f"{min(times[e][what]):.3g}" if what in times[e] else "" for e in pythons]
        print(f"| {what} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()

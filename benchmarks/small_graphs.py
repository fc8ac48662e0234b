"""What small graphs cost the first time that they are called: ``python benchmarks/small_graphs.py [--peers FOLDER]``.

In fresh processes: the import, the first of 41 hybridized graphs of two operators, the other 40, and the training step
of ten symbols, each bound for eight batch sizes. hybridc is measured with an empty cache folder and with a full one;
MXNet 1.9.1 beside it, if ``benchmarks/peers/run.py`` installed it. All are milliseconds of processor time of all
threads, as another program's load changes them least. Bounds for hybridc, on a machine that does nothing else: 800 for
the first graph with its imports, 15 for a further one, 5 with a full folder.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

if __package__ is None:
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

GRAPHS, SYMBOLS, BATCHES = 40, 10, (1, 2, 3, 5, 8, 13, 21, 34)
REPEATS = 3  # processes, of which the fastest counts
ACTIVATIONS = ("relu", "tanh", "sigmoid", "exp", "square", "abs", "sin", "cos", "erf", "cbrt")
# What is measured, and its bounds with an empty and a full folder.
ROWS = {
    "import": (None, None),
    "first graph, with the import": (800.0, None),
    "further graph of two operators": (15.0, 5.0),
    "symbol at its first batch size": (None, None),
    "symbol at a further batch size": (None, None),
}


def measure(name: str) -> dict[str, float]:
    """In this process: milliseconds of each row with the module ``name``, hybridc or mxnet."""
    started = time.process_time()
    import importlib

    mx: Any = importlib.import_module(name)
    imported = time.process_time()

    class Two(mx.gluon.HybridBlock):
        """Two operators, other ones for each index."""

        def __init__(self, index: int) -> None:
            super().__init__()
            outer = index * 3 + 1 + index // len(ACTIVATIONS)
            self.chosen = [ACTIVATIONS[i % len(ACTIVATIONS)] for i in (index, outer)]

        def hybrid_forward(self, F: Any, x: Any) -> Any:
            inner, outer = (getattr(F, name) for name in self.chosen)
            return outer(inner(x))

    x = mx.nd.ones((4, 5))
    blocks = [Two(i) for i in range(GRAPHS + 1)]
    for block in blocks:
        block.hybridize()

    def call(some: list[Any]) -> float:
        before = time.process_time()
        for block in some:
            block(x).wait_to_read()
        return (time.process_time() - before) * 1e3

    first = call(blocks[:1])
    further = call(blocks[1:]) / GRAPHS
    at: list[list[float]] = []
    for number in range(SYMBOLS):
        y = mx.sym.FullyConnected(mx.sym.Variable("x"), num_hidden=16 + number, name="one")
        y = getattr(mx.sym, ACTIVATIONS[number])(y)
        y = mx.sym.FullyConnected(y, num_hidden=4, name="two")
        at.append([_step(mx, y, batch) for batch in BATCHES])
    others = [t for each in at for t in each[1:]]
    start = (imported - started) * 1e3
    starting = sum(each[0] for each in at) / SYMBOLS
    return dict(zip(ROWS, (start, start + first, further, starting, sum(others) / len(others)), strict=True))


def _step(mx: Any, symbol: Any, batch: int) -> float:
    """Milliseconds to bind a symbol for a batch size and run it forwards and backwards."""
    before = time.process_time()
    executor = symbol.simple_bind(mx.cpu(), x=(batch, 12))
    (y,) = executor.forward(is_train=True)
    executor.backward([mx.nd.ones(y.shape)])
    mx.nd.waitall()
    return (time.process_time() - before) * 1e3


def in_process(python: Path, name: str, cache: str) -> dict[str, float]:
    """:func:`measure` in a new process of an interpreter."""
    environment = {**os.environ, "HYBRIDC_CACHE_DIR": cache}
    if name == "hybridc":  # MXNet lives on another Python, which must not find the packages of this one
        environment["PYTHONPATH"] = str(Path(__file__).resolve().parent.parent)
    else:
        environment.pop("PYTHONPATH", None)
    command = [str(python), __file__, "--measure", name]
    made = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if made.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{made.stderr}")
    return json.loads(made.stdout.splitlines()[-1])


def _fastest(made: list[dict[str, float]]) -> dict[str, float]:
    return {row: min(each[row] for each in made) for row in ROWS}


def _peer(folder: str | None) -> Path | None:
    """The interpreter of MXNet; None if it is not installed."""
    from benchmarks.peers import environments

    found = environments.python(Path(folder) if folder else environments.FOLDER, environments.COLUMNS["mxnet"])
    return found if found.exists() else None


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", help="the folder of the peers' environments, by default HYBRIDC_PEERS")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="one process of each kind")
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(given.measure)))
        return
    repeats, mxnet = 1 if given.quick else REPEATS, _peer(given.peers)
    empty: list[dict[str, float]] = []
    full: list[dict[str, float]] = []
    theirs: list[dict[str, float]] = []
    for _ in range(repeats):  # interleaved, so that a change of the machine's load meets all
        with tempfile.TemporaryDirectory() as cache:
            empty.append(in_process(Path(sys.executable), "hybridc", cache))
            full.append(in_process(Path(sys.executable), "hybridc", cache))
            if mxnet is not None:
                theirs.append(in_process(mxnet, "mxnet", cache))
    columns = [_fastest(made) for made in (empty, full, theirs) if made]
    print("| ms of processor time | empty folder | full folder |" + " MXNet 1.9.1 |" * bool(theirs))
    print("|---|---|---|" + "---|" * bool(theirs))
    for row, bounds in ROWS.items():
        cells = [f"{column[row]:.1f}" for column in columns]
        for i, bound in enumerate(bounds):
            if bound is not None:
                cells[i] += f" (bound {bound:.0f})"
        print(f"| {row} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()

"""First calls in fresh processes, with an empty cache folder and with a full one: ``python benchmarks/first_call.py``.

An encoder layer forward, its training step, and the training step of six such layers, on the native target. What
counts is the time of the first call less that of a later one: compiling, or loading what an earlier process compiled.
It is taken twice, of different processes: *all told*, right after ``import hybridc``, and *without imports*, where what
the call needs was imported before.

Bounds with a full folder: 40, 80 and 200 ms, all told. With an empty one: 0.5, 1.2 and 3 s without imports, and 0.5 s
for these, which are the compiler's.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if __package__ is None:
    sys.path[0] = str(ROOT)

# What is called: a title, whether it trains, layers, and the bounds in milliseconds with an empty and a full folder.
CALLS = (
    ("encoder layer, forward", False, 1, 500.0, 40.0),
    ("encoder layer, training step", True, 1, 1200.0, 80.0),
    ("six layers, training step", True, 6, 3000.0, 200.0),
)
# What a first call imports where all was compiled before, and where nothing was.
RUNTIME = ("hybridc.compile.warm_start", "hybridc.gluon.hybridize.step_graph", "hybridc.symbol.symbol_namespace")
COMPILER = (
    *RUNTIME,
    "hybridc.compile.pipeline",
    "hybridc.lower.llvm.emit_steps",
)
PARTS = {"empty": COMPILER, "full": RUNTIME}
IMPORT = 500.0  # milliseconds for the parts
COLD, WARM = 3, 7  # processes of each kind, of which the fastest counts
LATER = 5


def call(before: str, trains: bool, layers: int) -> dict[str, float]:
    """In this process: milliseconds of imports, of the first call, and of the fastest later one.

    ``before`` it, parts of hybridc are imported: those of a folder, or none for "".
    """
    start = time.perf_counter()
    import hybridc as mx

    imported = time.perf_counter()
    import numpy as np

    from benchmarks.encoder_train import TokenDistance
    from benchmarks.workloads import Encoder, encoder_inputs

    before_parts = time.perf_counter()
    for name in PARTS.get(before, ()):
        importlib.import_module(name)
    parts = time.perf_counter() - before_parts
    arrays = encoder_inputs(np.random.default_rng(0))
    x = mx.nd.array(arrays.pop("x"))
    net = mx.gluon.nn.HybridSequential()
    for _ in range(layers):
        net.add(Encoder(arrays))
    if trains:
        trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01, "momentum": 0.9})
        step = mx.gluon.TrainStep(net, TokenDistance(), trainer)

        def run() -> Any:
            return step(x, x).asnumpy()
    else:
        net.hybridize()

        def run() -> Any:
            return net(x).asnumpy()

    times: list[float] = []
    for _ in range(1 + LATER):
        began = time.perf_counter()
        run()
        times.append(1000 * (time.perf_counter() - began))
    compiler = float("xdsl" in sys.modules)
    found = {"import": 1000 * (imported - start), "parts": 1000 * parts}
    return found | {"first": times[0], "later": min(times[1:]), "compiler": compiler}


def process(cache: str, before: str, trains: bool, layers: int) -> dict[str, float]:
    """The same in a fresh process with this cache folder; it finds its modules compiled, as an installed package is."""
    environment = {**os.environ, "HYBRIDC_CACHE_DIR": cache, "HYBRIDC_TARGET": "llvm", "PYTHONPATH": str(ROOT)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment.setdefault("PYTHONPYCACHEPREFIX", str(Path(tempfile.gettempdir()) / "hybridc-first-call"))
    command = [sys.executable, __file__, "--one", before, str(int(trains)), str(layers)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return json.loads(done.stdout.splitlines()[-1])


def measure(folder: str, cache: str, trains: bool, layers: int) -> tuple[dict[str, float], dict[str, float]]:
    """The fastest process of those that import before the call, and of those that do not; they take turns."""
    prepared: list[dict[str, float]] = []
    told: list[dict[str, float]] = []
    for number in range(COLD if folder == "empty" else WARM):
        for before, found in ((folder, prepared), ("", told)):
            own = f"{cache}/{before}{number}" if folder == "empty" else f"{cache}/empty0"
            found.append(process(own, before, trains, layers))
    if folder == "full" and any(found["compiler"] for found in told + prepared):
        raise SystemExit("a process that found all on the disk imported the compiler")
    return min(prepared, key=_extra), min(told, key=_extra)


def _extra(found: dict[str, float]) -> float:
    return found["first"] - found["later"]


def main() -> None:
    """Print the table; exit with an error if a bound does not hold."""
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(call(sys.argv[2], sys.argv[3] == "1", int(sys.argv[4]))))
        return
    with tempfile.TemporaryDirectory() as cache:
        process(cache, "", True, 1)  # Python's own cache of modules is full from now on
    print("| milliseconds | folder | import hybridc | its imports | without imports | all told | later call | bound |")
    print("|---|---|---|---|---|---|---|---|")
    late: list[str] = []
    for title, trains, layers, *bounds in CALLS:
        with tempfile.TemporaryDirectory() as cache:
            for folder, bound in zip(("empty", "full"), bounds, strict=True):
                prepared, told = measure(folder, cache, trains, layers)
                numbers = told["import"], prepared["parts"], _extra(prepared), _extra(told), told["later"], bound
                print(f"| {title} | {folder} | {' | '.join(f'{n:.0f}' for n in numbers)} |", flush=True)
                counts = _extra(prepared) if folder == "empty" else _extra(told)
                late += [f"{title}, {folder} folder: {counts:.0f} ms, allowed are {bound:.0f}"] * (counts > bound)
                late += [f"importing takes {numbers[1]:.0f} ms, allowed are {IMPORT:.0f}"] * (numbers[1] > IMPORT)
    if late:
        raise SystemExit("; ".join(late))


if __name__ == "__main__":
    main()

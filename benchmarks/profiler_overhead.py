"""What the profiler costs, on and off: ``python benchmarks/profiler_overhead.py [--against FOLDER]``.

* On: each workload with the profiler running over the same with it stopped, in turns; the minima of many blocks.
* Off: this tree over another one, such as a checkout of before the profiler, in processes that take turns; the minima.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import hybridc as mx

ROOT = Path(__file__).resolve().parent.parent
# Blocks of one workload, and the seconds of one; each block's minimum is of calls, or of groups of short ones.
BLOCKS, SECONDS = 15, 0.04
GROUP = 2e-4
PROCESSES = 5


def workloads() -> dict[str, Callable[[], Any]]:
    """Calls by their names: from the smallest, which is all overhead, to a step of training."""
    gluon, nd, autograd = mx.gluon, mx.nd, mx.autograd
    small, square = nd.ones((2, 3)), nd.ones((256, 256))

    def net(*layers: Any, like: Any) -> Any:
        made = gluon.nn.HybridSequential()
        made.add(*layers)
        made.initialize()
        made.hybridize()
        made(like)
        return made

    def step(model: Any, x: Any) -> Callable[[], None]:
        trainer = gluon.Trainer(model.collect_params(), "sgd", {"learning_rate": 1e-3})

        def run() -> None:
            with autograd.record():
                loss = (model(x) ** 2).mean()
            loss.backward()
            trainer.step(1)

        run()
        return run

    dense, conv = gluon.nn.Dense, gluon.nn.Conv2D
    one = net(gluon.nn.HybridLambda("exp"), like=small)
    rows = nd.ones((64, 128))
    mlp = net(dense(256, activation="relu"), dense(256, activation="relu"), dense(10), like=rows)
    images = nd.ones((16, 3, 32, 32))
    pool = gluon.nn.MaxPool2D
    cnn = net(conv(16, 3, activation="relu"), pool(), conv(32, 3, activation="relu"), pool(), dense(10), like=images)
    words = nd.ones((35, 16, 64))
    lstm = gluon.rnn.LSTM(64)
    lstm.initialize()
    lstm.hybridize()
    lstm(words)
    table = nd.ones((2048, 1000))
    softmax = net(gluon.nn.HybridLambda("softmax"), like=table)
    return {
        "exp, hybridized, 6 elements": lambda: one(small),
        "x + 1, eager, 6 elements": lambda: small + 1,
        "dot, eager, 256 x 256": lambda: nd.dot(square, square),
        "softmax, hybridized, 2048 x 1000": lambda: softmax(table),
        "LSTM, hybridized, 35 steps of 16 x 64": lambda: lstm(words),
        "3 dense layers, hybridized, forward": lambda: mlp(rows),
        "3 dense layers, hybridized, step of training": step(mlp, rows),
        "2 convolutions, hybridized, step of training": step(cnn, images),
    }


def least(call: Callable[[], Any], seconds: float = SECONDS) -> float:
    """The least seconds of a call."""
    clock = time.perf_counter
    begin = clock()
    call()
    count = max(1, round(GROUP / max(clock() - begin, 1e-7)))
    found, end = float("inf"), clock() + seconds
    while clock() < end:
        begin = clock()
        for _ in range(count):
            call()
        found = min(found, (clock() - begin) / count)
    return found


def on() -> None:
    """Print what it costs while it runs."""
    from hybridc.ground.events import RECORDER  # which the other tree lacks

    mx.profiler.set_config(profile_all=True)
    print(f"{'profiler on':48} {'off, us':>10} {'on, us':>10} {'ratio':>7}")
    for name, call in workloads().items():
        without = with_ = float("inf")
        for _ in range(BLOCKS):
            without = min(without, least(call))
            mx.profiler.set_state("run")
            with_ = min(with_, least(call))
            mx.profiler.set_state("stop")
            RECORDER.take()
        print(f"{name:48} {without * 1e6:10.2f} {with_ * 1e6:10.2f} {with_ / without:7.3f}")


def off(other: str) -> None:
    """Print what it costs while it does not run: this tree over another."""
    found: list[dict[str, float]] = [{}, {}]
    for _ in range(PROCESSES):
        for place, minima in zip((other, str(ROOT)), found, strict=True):
            # With a package, if an empty one, this file leaves the path alone, on which the other tree is first.
            code = f"import runpy, sys; sys.argv[1:] = ['--measure']; runpy.run_path({__file__!r}, run_name='__main__')"
            command = [sys.executable, "-c", code]
            done = subprocess.run(command, cwd=place, check=True, capture_output=True, text=True)
            for name, seconds in json.loads(done.stdout).items():
                minima[name] = min(seconds, minima.get(name, float("inf")))
    print(f"{'profiler off':48} {'other, us':>10} {'this, us':>10} {'ratio':>7}")
    for name, before in found[0].items():
        print(f"{name:48} {before * 1e6:10.2f} {found[1][name] * 1e6:10.2f} {found[1][name] / before:7.3f}")


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", help="a tree of the project to compare with")
    parser.add_argument("--measure", action="store_true", help="print the least seconds of each workload as JSON")
    given = parser.parse_args()
    if given.measure:
        print(json.dumps({name: min(least(call) for _ in range(BLOCKS)) for name, call in workloads().items()}))
        return
    on()
    if given.against:
        off(given.against)


if __name__ == "__main__":
    main()

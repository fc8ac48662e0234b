"""Where the time of first calls goes: ``python benchmarks/first_call_parts.py [TREE]``, seconds of the processor.

Each row is of a fresh process, with an empty cache folder, in which a small graph was compiled before: so neither
imports nor the native runtime count. *process* is all threads together, *main* the thread that called. Of these are
*LLVM*, on any thread, and *emission*: LLVM IR written from tile programs. The least of three processes each. With a
TREE, that checkout is measured beside this one, by turns; emission is 0 where it has no such function.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if __package__ is None:
    sys.path[0] = str(ROOT)

PROCESSES = 3
PARTS = ("process", "main", "LLVM", "emission")
NETWORKS = ("ResNet-18", "ResNet-18 training step", "encoder", "lstm")


def program(name: str) -> Callable[[], Any]:
    """What is called first: a network, hybridized."""
    import hybridc as mx

    if not name.startswith("ResNet-18"):
        from benchmarks.workloads import WORKLOADS

        return WORKLOADS[name].build(hybridized=True).call
    net = mx.gluon.model_zoo.vision.resnet18_v1(classes=10)
    net.initialize()
    net.hybridize()
    if name == "ResNet-18":
        x = mx.nd.ones((1, 3, 224, 224))
        return lambda: net(x).wait_to_read()
    x, label = mx.nd.ones((4, 3, 64, 64)), mx.nd.zeros((4,))
    loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"momentum": 0.9})

    def step() -> None:
        with mx.autograd.record():
            error = loss(net(x), label)
        error.backward()
        trainer.step(4)
        error.wait_to_read()

    return step


def timed(owner: Any, name: str, seconds: dict[str, float], part: str) -> None:
    """Let a function of a module add its seconds to a part, if it has one."""
    function = getattr(owner, name, None)
    if function is None:
        return

    def call(*arguments: Any) -> Any:
        start = time.thread_time()
        try:
            return function(*arguments)
        finally:
            seconds[part] += time.thread_time() - start

    setattr(owner, name, call)


def parts(name: str) -> dict[str, float]:
    """In this process: the seconds of a first call."""
    import hybridc as mx
    from hybridc.lower.llvm.codegen import native_function

    seconds: dict[str, float] = dict.fromkeys(PARTS, 0.0)
    small = mx.gluon.nn.Dense(3, in_units=2)
    small.initialize()
    small.hybridize()
    small(mx.nd.ones((2, 2))).wait_to_read()
    call = program(name)
    timed(native_function, "object_of", seconds, "LLVM")
    timed(native_function, "llvm_text", seconds, "emission")
    main, process = time.thread_time(), time.process_time()
    call()
    seconds["main"], seconds["process"] = time.thread_time() - main, time.process_time() - process
    return seconds


def measured(tree: Path, name: str) -> dict[str, float]:
    """The seconds of a process of a checkout."""
    with tempfile.TemporaryDirectory() as cache:
        env = {**os.environ, "PYTHONPATH": str(tree), "HYBRIDC_CACHE_DIR": cache}
        command = [sys.executable, __file__, "--process", name]
        run = subprocess.run(command, env=env, cwd=tree, check=True, text=True, stdout=subprocess.PIPE)
    return json.loads(run.stdout)


def main() -> None:
    """Print the table."""
    if sys.argv[1:2] == ["--process"]:
        sys.path[0] = os.environ["PYTHONPATH"]
        print(json.dumps(parts(sys.argv[2])))
        return
    trees = {"": ROOT}
    if len(sys.argv) > 1:
        trees["before"] = Path(sys.argv[1]).resolve()
    print(f"| first call | {' | '.join(PARTS)} | emission of main |\n|---|{'---|' * (len(PARTS) + 1)}", flush=True)
    for name in NETWORKS:
        runs: dict[str, list[dict[str, float]]] = {label: [] for label in trees}
        for _ in range(PROCESSES):
            for label, tree in trees.items():
                runs[label].append(measured(tree, name))
        for label, rows in runs.items():
            least = {part: min(row[part] for row in rows) for part in PARTS}
            figures = " | ".join(f"{least[part]:.2f}" for part in PARTS)
            title = f"{name}, {label}" if label else name
            print(f"| {title} | {figures} | {least['emission'] / least['main']:.0%} |", flush=True)


if __name__ == "__main__":
    main()

"""A training step as one program (``TrainStep``) against the hybridized loop: ``python benchmarks/train_step.py``.

Both begin with the same weights; the losses of three steps and the weights after them are compared with the eager loop
in float64 before anything is timed. The first step is the one that compiles; calls are those of native programs.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import hybridc as mx
from benchmarks import timing, workloads
from benchmarks.workloads import Arrays

CHECKED = 3  # steps that are compared


@dataclass(frozen=True)
class Training:
    """A network with its data: how it is built from arrays, its loss, and its optimizer."""

    inputs: Callable[[np.random.Generator], Arrays]
    net: Callable[[Mapping[str, Any]], Any]
    loss: Callable[[], Any]
    optimizer: str
    options: dict[str, float]


def encoder_inputs(rng: np.random.Generator) -> Arrays:
    arrays = workloads.encoder_inputs(rng)
    return arrays | {"y": workloads.normal(rng, *arrays["x"].shape)}


def encoder(arrays: Mapping[str, Any]) -> Any:
    return workloads.Encoder({k: v for k, v in arrays.items() if k not in "xy"})


SGD = {"learning_rate": workloads.LEARNING_RATE, "momentum": workloads.MOMENTUM}
CROSS_ENTROPY = mx.gluon.loss.SoftmaxCrossEntropyLoss
TRAININGS = {
    "tiny_mlp": Training(
        workloads.mlp_inputs(32, workloads.TINY, labels=True), workloads.mlp_net, CROSS_ENTROPY, "sgd", SGD
    ),
    "mlp_train": Training(
        workloads.mlp_inputs(128, workloads.BIG, labels=True), workloads.mlp_net, CROSS_ENTROPY, "sgd", SGD
    ),
    "encoder": Training(encoder_inputs, encoder, mx.gluon.loss.L2Loss, "adam", {"learning_rate": 1e-3}),
}


class Way:
    """A network, trained in one of the ways that are compared."""

    def __init__(self, training: Training, arrays: Mapping[str, Any], how: str) -> None:
        self.net, self.loss = training.net(arrays), training.loss()
        dtype = "float64" if how == "exact" else "float32"
        self.net.cast(dtype)
        self.x, self.y = (a.astype(dtype) if a.dtype == np.float32 else a for a in (arrays["x"], arrays["y"]))
        self.trainer = mx.gluon.Trainer(self.net.collect_params(), training.optimizer, dict(training.options))
        self.step = mx.gluon.TrainStep(self.net, self.loss, self.trainer)
        if how == "loop":
            self.net.hybridize()
            self.loss.hybridize()
        self.run = self.one_program if how == "step" else self.loop

    def loop(self) -> Any:
        with mx.autograd.record():
            loss = self.loss(self.net(self.x), self.y)
        loss.backward()
        self.trainer.step(self.x.shape[0])
        return loss

    def one_program(self) -> Any:
        return self.step(self.x, self.y)

    def weights(self) -> list[np.ndarray]:
        return [p.data().asnumpy() for p in self.net.collect_params().values()]

    def explained(self) -> list[str]:
        if self.run == self.one_program:
            return self.step.explain().splitlines()
        parts = (self.net.explain(), self.loss.explain(), self.trainer.explain())
        return [line for part in parts for line in part.splitlines()]


def native_calls(function: Callable[[], Any]) -> int:
    """How many native programs a call runs."""
    called: list[str] = []
    sys.setprofile(lambda _, event, what: called.append(what.__name__) if event == "c_call" else None)
    try:
        function()
    finally:
        sys.setprofile(None)
    return called.count("entry")


def check(name: str, got: Any, want: Any) -> None:
    error = np.max(np.abs(got - want)) / max(np.max(np.abs(want)), 1e-30)
    assert error <= workloads.TOLERANCE, f"{name} is off by {error:.1e} of its magnitude"


def measure(name: str, blocks: int, seconds: float) -> list[Any]:
    """A row of the table."""
    raw = TRAININGS[name].inputs(np.random.default_rng(workloads.SEED))
    arrays = {key: mx.nd.array(value, dtype=value.dtype) for key, value in raw.items()}
    exact, loop, step = (Way(TRAININGS[name], arrays, how) for how in ("exact", "loop", "step"))
    first: list[float] = []
    expected = [exact.run().asnumpy() for _ in range(CHECKED)]
    for way in (loop, step):
        start = time.perf_counter()
        losses = [way.run().asnumpy()]
        first.append((time.perf_counter() - start) * 1e3)
        losses += [way.run().asnumpy() for _ in range(CHECKED - 1)]
        for number, (got, want) in enumerate(zip(losses, expected, strict=True)):
            check(f"{name}: loss {number}", got, want)
        for got, want, parameter in zip(way.weights(), exact.weights(), way.net.collect_params(), strict=True):
            check(f"{name}: {parameter}", got, want)
    times = [t * 1e3 for t in timing.compare((loop.run, step.run), blocks, seconds)]
    kernels = [sum(line.strip().startswith("kernel ") for line in way.explained()) for way in (loop, step)]
    calls = [native_calls(way.run) for way in (loop, step)]
    return [name, *times, times[0] / times[1], *calls, *first, *kernels]


def main() -> None:
    parser = argparse.ArgumentParser(description="TrainStep against the loop, as a Markdown table")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter blocks")
    parser.add_argument("--only", default=",".join(TRAININGS), help="the trainings to run, with commas between")
    arguments = parser.parse_args()
    columns = ("training", "loop ms", "step ms", "ratio", "loop calls", "step calls")
    columns += ("loop first ms", "step first ms", "kernels", "in one program")
    print("| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
    for name in arguments.only.split(","):
        row = measure(name, *((3, 0.2) if arguments.quick else (9, 0.5)))
        print("| " + " | ".join(f"{x:.3g}" if isinstance(x, float) else str(x) for x in row) + " |", flush=True)


if __name__ == "__main__":
    main()

"""A step of an optimizer against the same formula in NumPy, written by hand: ``python benchmarks/optimizers.py``.

Both update all weights in place, from the same gradients, and are checked against float64 before they are timed.
``compile ms`` is the first step without importing the compiler, which a program pays once.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import hybridc as mx
import hybridc.optimizer.compiled_update  # importing the compiler is no part of compiling
from benchmarks import timing

Shapes = Sequence[tuple[int, ...]]
NETWORKS: dict[str, Shapes] = {
    "small": [(64, 64), (64,), (10, 64), (10,)],
    "mlp": [(512, 784), (512,), (512, 512), (512,), (10, 512), (10,)],
    "encoder": [(256, 256)] * 4 + [(256,)] * 8 + [(1024, 256), (1024,), (256, 1024), (256,)],
    "large": [(2048, 2048)],
}
LR, MOMENTUM, BETA1, BETA2, EPSILON, RESCALE = 0.01, 0.9, 0.9, 0.999, 1e-8, 1 / 32


def sgd(w: Any, g: Any, states: Sequence[Any], scratch: Any, step: int) -> None:
    """SGD with momentum, on NumPy arrays in place."""
    (mom,) = states
    np.multiply(g, LR * RESCALE, out=scratch)
    np.multiply(mom, MOMENTUM, out=mom)
    np.subtract(mom, scratch, out=mom)
    np.add(w, mom, out=w)


def adam(w: Any, g: Any, states: Sequence[Any], scratch: Any, step: int) -> None:
    """Adam, on NumPy arrays in place."""
    m, v = states
    rate = LR * float(np.sqrt(1 - BETA2**step)) / (1 - BETA1**step)
    np.multiply(g, RESCALE, out=scratch)
    np.multiply(m, BETA1, out=m)
    m += (1 - BETA1) * scratch
    np.square(scratch, out=scratch)
    np.multiply(v, BETA2, out=v)
    v += (1 - BETA2) * scratch
    np.sqrt(v, out=scratch)
    scratch += EPSILON
    np.divide(m, scratch, out=scratch)
    scratch *= rate
    np.subtract(w, scratch, out=w)


OPTIMIZERS: dict[str, tuple[Callable[..., None], int, dict[str, float]]] = {
    "sgd": (sgd, 1, {"learning_rate": LR, "momentum": MOMENTUM}),
    "adam": (adam, 2, {"learning_rate": LR}),
}


class ByHand:
    """All weights of a network and one way to update them."""

    def __init__(self, update: Callable[..., None], states: int, weights: Sequence[Any], grads: Sequence[Any]) -> None:
        self.weights = [w.copy() for w in weights]
        self.update = update
        self.grads = [g.astype(w.dtype) for g, w in zip(grads, weights)]
        self.states = [[np.zeros_like(w) for _ in range(states)] for w in weights]
        self.scratch = [np.empty_like(w) for w in weights]
        self.steps = 0

    def step(self) -> None:
        self.steps += 1
        for w, g, states, scratch in zip(self.weights, self.grads, self.states, self.scratch):
            self.update(w, g, states, scratch, self.steps)


def measure(kind: str, network: str, blocks: int, seconds: float) -> list[Any]:
    """A row: optimizer, network, weights, kernels, ms to compile, µs of a step, the same by hand, and their ratio."""
    update, states, options = OPTIMIZERS[kind]
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=shape).astype("float32") for shape in NETWORKS[network]]
    grads = [rng.normal(size=shape).astype("float32") for shape in NETWORKS[network]]
    arrays, slopes = [mx.nd.array(w) for w in weights], [mx.nd.array(g) for g in grads]
    optimizer = mx.optimizer.create(kind, rescale_grad=RESCALE, **options)
    updater, indices = mx.optimizer.get_updater(optimizer), list(range(len(weights)))
    start = time.perf_counter()
    updater(indices, slopes, arrays)
    compiled = time.perf_counter() - start
    updater(indices, slopes, arrays)
    exact = ByHand(update, states, [w.astype("float64") for w in weights], grads)
    hand = ByHand(update, states, weights, grads)
    for _ in range(2):
        exact.step()
        hand.step()
    for got in ([a.asnumpy() for a in arrays], hand.weights):
        for value, want in zip(got, exact.weights):
            np.testing.assert_allclose(value, want, rtol=1e-4, atol=1e-5)
    kernels = sum(map(int, re.findall(r"(\d+) kernels?,", optimizer.explain())))
    ours, theirs = timing.compare((lambda: updater(indices, slopes, arrays), hand.step), blocks, seconds)
    return [kind, network, len(weights), kernels, compiled * 1e3, ours * 1e6, theirs * 1e6, theirs / ours]


def main() -> None:
    parser = argparse.ArgumentParser(description="a step of an optimizer against NumPy, as a Markdown table")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter blocks")
    quick = parser.parse_args().quick
    columns = ("optimizer", "network", "weights", "kernels", "compile ms", "step µs", "NumPy µs", "ratio")
    print("| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
    for kind in OPTIMIZERS:
        for network in NETWORKS:
            row = measure(kind, network, *((3, 0.05) if quick else (9, 0.3)))
            print("| " + " | ".join(f"{x:.3g}" if isinstance(x, float) else str(x) for x in row) + " |", flush=True)


if __name__ == "__main__":
    main()

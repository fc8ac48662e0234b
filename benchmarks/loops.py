"""Loops and recurrent layers: ``python benchmarks/loops.py``; time for each step, of a first call, and of training.

Results are compared with NumPy's loop in float64 before anything is timed.
"""

from __future__ import annotations

import functools
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import hybridc as mx
from benchmarks import timing
from hybridc import autograd, gluon

STEPS = 1000


class Count(gluon.HybridBlock):
    """A while loop of cheap steps."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        def step(i: Any, s: Any) -> Any:
            return s, [i + 1, s * 0.99 + 1]

        def goes_on(i: Any, _: Any) -> Any:
            return i < STEPS

        return F.contrib.while_loop(goes_on, step, [F.zeros(shape=(1,)), x], max_iterations=STEPS)[0]


class Scan(gluon.HybridBlock):
    """A loop of cheap steps over rows."""

    def hybrid_forward(self, F: Any, x: Any, s: Any) -> Any:
        def step(row: Any, s: Any) -> Any:
            return row + s, s * 0.9 + row

        return F.contrib.foreach(step, x, s)[0]


def counted(x: Any) -> Any:
    rows: list[Any] = []
    for _ in range(STEPS):
        rows.append(x)
        x = x * 0.99 + 1
    return np.stack(rows)


def scanned(x: Any, s: Any) -> Any:
    rows: list[Any] = []
    for row in x:
        rows.append(row + s)
        s = s * 0.9 + row
    return np.stack(rows)


def lstm(layer: Any, x: Any) -> Any:
    """One LSTM layer from zero states."""
    weights = {n.partition("l0_")[2]: p.data().asnumpy().astype(float) for n, p in layer.collect_params().items()}
    h = c = np.zeros((x.shape[1], layer.state_info(1)[0]["shape"][2]))
    rows: list[Any] = []
    for row in x:
        gates = row @ weights["i2h_weight"].T + weights["i2h_bias"] + h @ weights["h2h_weight"].T + weights["h2h_bias"]
        i, f, g, o = np.split(gates, 4, axis=1)
        c = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
        h = np.tanh(c) / (1 + np.exp(-o))
        rows.append(h)
    return np.stack(rows)


def row(name: str, net: Any, arrays: list[Any], wanted: Any) -> None:
    """Check, time and print one network."""
    net.hybridize()
    inputs = [mx.nd.array(a) for a in arrays]
    start = time.perf_counter()
    found = net(*inputs).asnumpy()
    first = time.perf_counter() - start
    expected = wanted(*[a.astype(np.float64) for a in arrays])
    error = float(np.abs(found - expected).max() / np.abs(expected).max())
    if error > 1e-4:
        raise SystemExit(f"{name}: off by {error:.1e} of the largest magnitude")
    for x in inputs:
        x.attach_grad()

    def train() -> None:
        with autograd.record():
            total = (net(*inputs) ** 2).sum()
        total.backward()

    train()
    steps = len(found)
    forward, training = timing.block(lambda: net(*inputs).wait_to_read(), 0.5), timing.block(train, 0.5)
    print(
        f"{name:30} {steps:6} steps {forward / steps * 1e6:8.2f} µs a step {training / steps * 1e6:8.2f} in training"
        f" {first * 1e3:8.0f} ms the first call"
    )


def main() -> int:
    random = np.random.default_rng(0)

    def normal(*shape: int) -> Any:
        return random.normal(size=shape).astype("float32")

    row("while_loop, 8 numbers", Count(), [normal(8)], counted)
    row("foreach, 8 numbers", Scan(), [normal(STEPS, 8), normal(8)], scanned)
    layer = gluon.rnn.LSTM(256, input_size=128)
    layer.initialize(mx.init.Xavier())
    row("LSTM, 32x128 to 256", layer, [normal(35, 32, 128)], functools.partial(lstm, layer))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

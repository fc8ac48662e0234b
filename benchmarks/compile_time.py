"""How long compiling takes, stage by stage: ``python benchmarks/compile_time.py``.

A transformer encoder layer and networks of 2 to 24 of them, forward and backward for all inputs, without running
anything. One layer is compiled before: so neither imports nor LLVM count, which made the kernels that all these
networks share (``benchmarks/peers/first_calls.py`` is about both). Bounds: one layer in 0.6 s and twelve in 4 s, all
steps together; and a network of twice the layers takes at most 2.4 times as long.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import hybridc as mx
from benchmarks.workloads import Encoder, encoder_inputs
from hybridc.compile import stages
from hybridc.trace.tracer import trace_call

LAYERS = (1, 2, 6, 12, 24)
BOUNDS = {1: 0.6, 12: 4.0}
GROWTH = 2.4
STEPS = ("trace", "graph", "loops, kernels, plan, source", "load")
REPEATS = 3


def network(layers: int) -> tuple[Any, Any]:
    """That many encoder layers, each with parameters of its own, and an input."""
    arrays = encoder_inputs(np.random.default_rng(0))
    net = mx.gluon.nn.HybridSequential()
    for _ in range(layers):
        net.add(Encoder({k: v for k, v in arrays.items() if k != "x"}))
    return net, mx.nd.array(arrays["x"])


def compile_once(net: Any, x: Any) -> list[float]:
    """Seconds of each step."""
    seconds: list[float] = []

    def timed(step: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        made = step()
        seconds.append(time.perf_counter() - start)
        return made

    trace = timed(lambda: trace_call(net, [x], True))
    optimized = timed(lambda: stages.Traced(trace, tuple(range(len(trace.leaves)))).optimize())
    lowered = timed(optimized.lower)
    timed(lowered.compile)
    return seconds


def measure(layers: int) -> list[float]:
    """The median seconds of each step."""
    net, x = network(layers)
    gc.collect()
    runs = [compile_once(net, x) for _ in range(REPEATS)]
    return [statistics.median(step) for step in zip(*runs, strict=True)]


def main() -> None:
    """Print the table; exit with an error if a bound does not hold."""
    measure(1)
    print(f"| layers | {' | '.join(f'{s}, s' for s in STEPS)} | sum, s |")
    print("|---" * (len(STEPS) + 2) + "|")
    sums: dict[int, float] = {}
    for layers in LAYERS:
        found = measure(layers)
        sums[layers] = sum(found)
        print(f"| {layers} | {' | '.join(f'{s:.3f}' for s in found)} | {sums[layers]:.3f} |", flush=True)
    growth = sums[24] / sums[12]
    print(f"\n24 layers take {growth:.2f} times as long as 12; allowed are {GROWTH}")
    late = [f"{n} layers took {sums[n]:.2f} s, allowed are {most}" for n, most in BOUNDS.items() if sums[n] > most]
    if late or growth > GROWTH:
        raise SystemExit("; ".join([*late, *[f"the time grows {growth:.2f} times"] * (growth > GROWTH)]))


if __name__ == "__main__":
    main()

"""What the machine can do at best: ``python benchmarks/limits.py``; ``run.py --floor`` derives a floor."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

SIDE = 2048  # arrays of 16 MiB, as in the workloads
REPEATS = 15


def best(call: Callable[[], Any]) -> float:
    """Seconds of the fastest of some calls."""
    call()
    times: list[float] = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def bandwidth(threads: int) -> float:
    """Bytes read and written a second while copying an array, each thread a part of it."""
    source, target = np.ones((SIDE, SIDE), np.float32), np.empty((SIDE, SIDE), np.float32)
    parts = [slice(SIDE * t // threads, SIDE * (t + 1) // threads) for t in range(threads)]
    with ThreadPoolExecutor(threads) as pool:
        seconds = best(lambda: list(pool.map(lambda p: np.copyto(target[p], source[p]), parts)))
    return 2 * source.nbytes / seconds


def products() -> float:
    """Floating-point operations a second in a product of float32 matrices."""
    a, b = (np.random.default_rng(i).random((SIDE, SIDE), dtype=np.float32) for i in (1, 2))
    out = np.empty_like(a)
    return 2 * SIDE**3 / best(lambda: np.matmul(a, b, out=out))


def limits() -> tuple[float, float]:
    """Bandwidth and products with the threads that the library uses."""
    return bandwidth(min(2, os.cpu_count() or 1)), products()


if __name__ == "__main__":
    moved, flops = limits()
    print(f"copy of 16 MiB: {moved / 1e9:.1f} GB/s; product of 2048x2048: {flops / 1e9:.0f} GFLOP/s")

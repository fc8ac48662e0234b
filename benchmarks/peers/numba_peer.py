"""Numba: loops fused by hand, for the workloads where nothing but memory counts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numba  # pyright: ignore[reportMissingImports]
import numpy as np

from benchmarks.peers.peer import COUNTED_STEPS, Peer, Program, Task, as_list

jit: Any = numba.njit(parallel=True, fastmath=True, cache=True)
rows: Any = numba.prange


@jit
def normalize_rows(x: Any, gamma: Any, beta: Any, epsilon: Any, out: Any) -> None:
    width = np.float32(x.shape[1])
    for i in rows(x.shape[0]):
        total = np.float32(0)
        for j in range(x.shape[1]):
            total += x[i, j]
        mean = total / width
        squares = np.float32(0)
        for j in range(x.shape[1]):
            d = x[i, j] - mean
            squares += d * d
        scale = np.float32(1) / math.sqrt(squares / width + epsilon)
        for j in range(x.shape[1]):
            out[i, j] = (x[i, j] - mean) * scale * gamma[j] + beta[j]


@jit
def spread(x: Any, out: Any) -> None:
    low = np.empty(x.shape[0], np.float32)
    high = np.empty(x.shape[0], np.float32)
    for i in rows(x.shape[0]):
        least = most = x[i, 0]
        for j in range(x.shape[1]):
            least = min(least, x[i, j])
            most = max(most, x[i, j])
        low[i], high[i] = least, most
    start = low.min()
    scale = np.float32(1) / (high.max() - start)
    for i in rows(x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] = (x[i, j] - start) * scale


@numba.njit(fastmath=True, cache=True)
def counted(i: Any, s: Any, limit: Any, out: Any) -> None:
    count = i[0]
    out[:] = s
    while count < limit:
        count += np.float32(1)
        for j in range(len(out)):
            out[j] = out[j] * np.float32(0.99) + np.float32(1)


def into_fresh(loop: Callable[..., None], x: np.ndarray, *others: Any) -> Program:
    """A loop that writes into a new array."""

    def call() -> np.ndarray:
        out = np.empty_like(x)
        loop(x, *others, out)
        return out

    return Program(call, as_list)


class Numba(Peer):
    """Parallel loops."""

    def __init__(self, threads: int) -> None:
        self.version = numba.__version__
        numba.set_num_threads(threads)

    def layernorm(self, task: Task) -> Program:
        x, gamma, beta = task.arrays.values()
        return into_fresh(normalize_rows, x, gamma, beta, np.float32(task.epsilon))

    def norm_layer(self, task: Task) -> Program:
        return into_fresh(spread, *task.arrays.values())

    def while_loop(self, task: Task) -> Program:
        i, s = task.arrays.values()

        def call() -> np.ndarray:
            out = np.empty_like(s)
            counted(i, s, np.float32(COUNTED_STEPS), out)
            return out

        return Program(call, as_list)


def open_peer(mode: str, threads: int) -> Peer:
    return Numba(threads)

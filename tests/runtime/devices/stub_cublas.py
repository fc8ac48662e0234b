"""A BLAS of our own with the functions of NVIDIA's, on memory of the host: matmuls by NumPy in double precision."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import CFUNCTYPE, c_double, c_float, c_int
from typing import Any, NamedTuple

import numpy as np

from hybridc.runtime.devices.nvidia import cublas
from hybridc.runtime.devices.nvidia.cublas import FUNCTIONS
from tests.runtime.devices.stub_cuda import StubCuda

_DTYPES = {number: np.dtype(name) for name, number in cublas.KINDS.items() if name != "bfloat16"}
_INVALID, _FAILED, _UNSUPPORTED = 7, 13, 15


class Multiplied(NamedTuple):
    """A product that a stream captured: it runs with the graph."""

    run: Callable[[], int]
    memory: int  # where its workspace begins
    reads: list[int]
    writes: list[int]
    kernel: str = "product"
    function: int = 0


class StubCublas:
    """Has every function of the library as an attribute; a product takes ``takes`` milliseconds of a card."""

    def __init__(self, card: StubCuda, takes: float = 0.0) -> None:
        self.card = card
        self.takes = takes
        self.streams: dict[int, int] = {}
        self.modes: dict[int, int] = {}
        self.memory: dict[int, tuple[int, int]] = {}  # what handles were given to work in
        self.matmuls: list[tuple[int, int]] = []  # the stream of each, and its arithmetic
        self._home: dict[int, int] = {}  # the contexts of handles
        self.fails = False
        self.refuses_workspaces = False
        for name, types in FUNCTIONS.items():
            setattr(self, name, CFUNCTYPE(c_int, *types)(getattr(self, f"_{name}")))

    def _cublasCreate_v2(self, out: Any) -> int:
        if self.card.capturing:  # it allocates
            return _UNSUPPORTED
        out[0] = 0xB1A5 + len(self.streams)
        self.streams[out[0]] = 0
        self._home[out[0]] = self.card.contexts[-1]
        return 0

    def _cublasSetStream_v2(self, handle: int, stream: int | None) -> int:
        self.streams[handle] = stream or 0
        self.memory.pop(handle, None)
        return 0

    def _cublasSetWorkspace_v2(self, handle: int, pointer: int, size: int) -> int:
        self.memory[handle] = pointer, size
        return _UNSUPPORTED if self.refuses_workspaces else 0

    def _cublasSetMathMode(self, handle: int, mode: int) -> int:
        self.modes[handle] = mode
        return 0

    def _cublasGemmStridedBatchedEx(self, handle: int, *given: Any) -> int:
        if self.fails or handle not in self.streams:
            return _FAILED
        ta, tb, m, n, k, alpha, *rest = given
        a, b, beta, c, (batches, arithmetic, _) = rest[:4], rest[4:8], rest[8], rest[9:13], rest[13:]
        if self.card.contexts[-1:] != [self._home[handle]]:
            self.card.queues.violate("a product is asked for in another context than its handle's")
        number = c_double if arithmetic == cublas.DOUBLE else c_float
        factors = [number.from_address(x).value for x in (alpha, beta)]
        if factors != [1, 0] or c[2] < m or a[2] < (k if ta else m) or b[2] < (n if tb else k):
            return _INVALID
        stream = self.streams[handle]
        captured = self.card.capturing.get(stream)
        pointer, size = self.memory.get(handle, (0, 0))

        def run() -> int:
            if captured is not None and not self.card.has(pointer, size):
                return _FAILED
            for batch in range(batches):
                first = _matrix(a, batch, (k, m) if ta else (m, k))
                second = _matrix(b, batch, (n, k) if tb else (k, n))
                wide = [x.astype(np.float64) for x in (first.T if ta else first, second.T if tb else second)]
                _matrix(c, batch, (m, n))[...] = wide[0] @ wide[1]
            self.matmuls.append((stream, arithmetic))
            self.card.clock += self.takes
            return 0

        reads, writes = [a[0], b[0]], [c[0], *([pointer] if size else [])]
        if captured is None:
            return self.card.queues.ask(stream or self.card.contexts[-1], run, reads, writes)
        if not size:  # it would have to allocate
            return _UNSUPPORTED
        captured.append(Multiplied(run, pointer, reads, writes))
        return 0


def _matrix(given: Any, batch: int, shape: tuple[int, int]) -> Any:
    """A matrix column by column."""
    address, kind, apart, batches_apart = given
    dtype = _DTYPES[kind]
    rows, columns = shape
    start = address + batch * batches_apart * dtype.itemsize
    count = (columns - 1) * apart + rows
    flat = np.frombuffer((ctypes.c_char * (count * dtype.itemsize)).from_address(start), dtype)
    return np.lib.stride_tricks.as_strided(flat, shape, (dtype.itemsize, apart * dtype.itemsize))

"""An NCCL of our own, with the functions of NVIDIA's: collectives among ranks by MPI, when the card runs them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import CFUNCTYPE, c_char_p, c_int, c_void_p
from typing import Any

import numpy as np
from mpi4py import MPI

from hybridc.runtime.devices.nvidia import nccl
from hybridc.runtime.devices.nvidia.nccl import FUNCTIONS
from tests.runtime.devices.stub_cuda import StubCuda

_DTYPES = {number: np.dtype(name) for name, number in nccl.KINDS.items() if name != "bfloat16"}
_INVALID_ARGUMENT = 4


class StubNccl:
    """Has every function of the library as an attribute; all ranks of the program are its ranks."""

    def __init__(self, card: StubCuda) -> None:
        self.card = card
        self.calls: list[tuple[str, int]] = []  # what was asked for, and of how many elements
        self.together = 0  # groups that are open
        self.fails: dict[str, int] = {}
        self._ranks: dict[int, Any] = {}
        self._home: dict[int, int] = {}  # the contexts of communicators
        self._words = c_char_p(b"stub error")
        for name, types in FUNCTIONS.items():
            result = c_void_p if name == "ncclGetErrorString" else c_int
            setattr(self, name, CFUNCTYPE(result, *types)(self._answering(name)))

    def _answering(self, name: str) -> Callable[..., int]:
        answer = getattr(self, f"_{name}")
        return lambda *given: self.fails[name] if name in self.fails else answer(*given)

    def _ncclGetErrorString(self, _error: int) -> int:
        return ctypes.cast(self._words, c_void_p).value or 0

    def _ncclGetVersion(self, out: Any) -> int:
        out[0] = 22803
        return 0

    def _ncclGetUniqueId(self, out: Any) -> int:
        out[0].bytes[0] = 7
        return 0

    def _ncclCommInitRank(self, out: Any, size: int, identity: Any, rank: int) -> int:
        if (size, rank, identity.bytes[0]) != (MPI.COMM_WORLD.size, MPI.COMM_WORLD.rank, 7):
            return _INVALID_ARGUMENT
        out[0] = 0xCC1 + len(self._ranks)
        self._ranks[out[0]] = MPI.COMM_WORLD.Dup()
        self._home[out[0]] = self.card.contexts[-1]
        return 0

    def _ncclCommDestroy(self, comm: int) -> int:
        self._ranks.pop(comm).Free()
        return 0

    def _ncclGroupStart(self) -> int:
        self.together += 1
        return 0

    def _ncclGroupEnd(self) -> int:
        self.together -= 1
        return 0

    def _ncclAllReduce(self, given: int, got: int, count: int, kind: int, op: int, comm: int, stream: int) -> int:
        def run(ranks: Any, source: Any, target: Any) -> None:
            ranks.Allreduce(source.copy(), target)

        return self._ask("allreduce", (given, got, count, kind, op), (comm, stream), run)

    def _ncclReduce(
        self, given: int, got: int, count: int, kind: int, op: int, root: int, comm: int, stream: int
    ) -> int:
        def run(ranks: Any, source: Any, target: Any) -> None:
            ranks.Reduce(source.copy(), target, root=root)

        return self._ask("reduce", (given, got, count, kind, op), (comm, stream), run)

    def _ncclBroadcast(self, given: int, got: int, count: int, kind: int, root: int, comm: int, stream: int) -> int:
        def run(ranks: Any, source: Any, target: Any) -> None:
            target[...] = source
            ranks.Bcast(target, root)

        return self._ask("broadcast", (given, got, count, kind, nccl.SUM), (comm, stream), run)

    def _ask(
        self, name: str, given: tuple[int, ...], where: tuple[int, int], collective: Callable[[Any, Any, Any], None]
    ) -> int:
        (source, target, count, kind, op), (comm, stream) = given, where
        if comm not in self._ranks or op != nccl.SUM or not count or kind not in _DTYPES:
            return _INVALID_ARGUMENT
        size = count * _DTYPES[kind].itemsize
        if not self.card.has(source, size) or not self.card.has(target, size):
            return _INVALID_ARGUMENT
        if self.card.contexts[-1:] != [self._home[comm]] or stream not in self.card.streams:
            self.card.queues.violate("a collective is asked for in another context than its communicator's")
        self.calls.append((name, count))

        def run() -> int:
            collective(self._ranks[comm], *(_array(at, count, _DTYPES[kind]) for at in (source, target)))
            return 0

        return self.card.queues.ask(stream, run, [source], [target])


def _array(address: int, count: int, dtype: np.dtype[Any]) -> Any:
    return np.frombuffer((ctypes.c_char * (count * dtype.itemsize)).from_address(address), dtype)

"""A card without a card: the stub driver's memory, and launches that Triton's interpreter runs there.

Only functions that the card was given may run, and only on addresses of its own memory.
"""

from __future__ import annotations

import dataclasses
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from hybridc.lower.triton.triton_function import Config, TritonFunction
from hybridc.options import OPTIONS
from hybridc.runtime.devices import choose
from hybridc.runtime.devices.nvidia.compiled import MachineCode
from hybridc.runtime.devices.nvidia.cuda import Cuda
from hybridc.runtime.devices.nvidia.driver import Driver
from hybridc.runtime.triton_kernel import interpret
from tests.runtime.devices.stub_cuda import Launched, StubCuda

_FAILED = 719
_OWN = 2  # parameters that Triton adds


class SimulatedCuda(StubCuda):
    """Runs what it is asked to launch."""

    def __init__(self) -> None:
        super().__init__(memory=1 << 26)
        self.known: dict[str, tuple[TritonFunction, Config]] = {}

    def binary(self, function: TritonFunction, config: Config, *_: Any) -> MachineCode:
        """What stands for a function that was compiled."""
        entry = f"{function.name}_{len(self.known)}"
        self.known[entry] = function, config
        parameters = len(function.pointers) + len(function.numbers) + _OWN
        return MachineCode(entry, config.warps, 0, parameters, b"\x7fELF" + bytes(60))

    def count(self, kernel: str) -> int:
        function, _ = self.known[kernel]
        return len(function.pointers) + len(function.numbers) + _OWN

    def touched(self, launch: Launched) -> tuple[list[int], list[int]]:
        function, _ = self.known[launch.kernel]
        names = _names(function)
        found = list(zip(names, launch.values, strict=False))
        return [p for n, p in found if n.startswith("x")], [p for n, p in found if not n.startswith("x")]

    def launched(self, launch: Launched) -> int:
        super().launched(launch)
        function, config = self.known[launch.kernel]
        count = len(function.pointers)
        pointers, numbers, own = launch.values[:count], launch.values[count:-_OWN], launch.values[-_OWN:]
        if any(own):
            return _FAILED
        numbers = [_signed(n, bits) for n, bits in zip(numbers, function.numbers, strict=True)]
        try:
            interpret(function, pointers, numbers, dataclasses.replace(config, grid=launch.grid))
        except Exception:
            traceback.print_exc()
            return _FAILED
        return 0


def _names(function: TritonFunction) -> list[str]:
    """The names of a function's pointers: what it only reads is called x."""
    head = re.search(rf"def {re.escape(function.name)}\((.*?)\)", function.source, re.DOTALL)
    assert head is not None
    return [name.strip() for name in head[1].split(",")][: len(function.pointers)]


def _signed(number: int, bits: str) -> int:
    """Eight bytes as the kernel reads them."""
    kind = {"i32": np.int32, "i64": np.int64}[bits]
    return int(np.array([number], np.uint64).view(kind)[0])


@contextmanager
def simulated_gpu(stub: SimulatedCuda | None = None, kind: type[Cuda] = Cuda) -> Iterator[Cuda]:
    """Inside, ``mx.gpu(0)`` is a simulated card."""
    stub = SimulatedCuda() if stub is None else stub
    made = Driver(stub)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choose, "OPTIONS", dataclasses.replace(OPTIONS, gpu="cuda"))
        patch.setattr(choose, "driver", lambda: made)
        patch.setattr("hybridc.runtime.devices.nvidia.cuda.binary", stub.binary)
        patch.setitem(choose._KINDS, "cuda", dataclasses.replace(choose._KINDS["cuda"], make=kind))
        choose.device.cache_clear()
        made_gpu = choose.device(0)
        assert isinstance(made_gpu, Cuda)
        yield made_gpu
        stub.finish()
    choose.device.cache_clear()
    assert stub.violations == []

"""The host as a device: Triton's interpreter runs the programs of a launch one after the other, on NumPy memory.

For tests, and to step through a kernel: it is slow.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hybridc.errors import DeviceMemoryError
from hybridc.ground.machine import GPU
from hybridc.lower.triton.triton_function import Config, TritonFunction
from hybridc.runtime.devices.array import DeviceArray, DeviceMemory
from hybridc.runtime.devices.device import Device, Launch, StreamEvent
from hybridc.runtime.triton_kernel import interpret


class Interpreter(Device):
    """A synchronous device in host memory.

    It reports the properties of an H200, so that kernels are scheduled as for that GPU.
    """

    is_host = True
    capability = (9, 0)

    def __init__(self, index: int = 0) -> None:
        self.index = index
        self.name = "Triton's interpreter"

    def allocate(self, nbytes: int) -> DeviceMemory:
        try:
            owner = np.empty(nbytes + GPU.alignment, np.uint8)
        except (MemoryError, ValueError) as error:
            raise DeviceMemoryError(f"{self.name}: no {nbytes} bytes of memory are left for an array") from error
        return DeviceMemory(-(-owner.ctypes.data // GPU.alignment) * GPU.alignment, nbytes, owner)

    def upload(self, target: int, source: npt.NDArray[Any]) -> None:
        ctypes.memmove(target, source.ctypes.data, source.nbytes)

    def download(self, target: npt.NDArray[Any], source: int) -> None:
        ctypes.memmove(target.ctypes.data, source, target.nbytes)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        ctypes.memmove(target, source, nbytes)

    def memory(self) -> tuple[int, int]:
        free, whole = (os.sysconf(name) for name in ("SC_AVPHYS_PAGES", "SC_PHYS_PAGES"))
        return free * mmap.PAGESIZE, whole * mmap.PAGESIZE

    def fill(self, target: int, dtype: Any, size: int, value: int) -> None:
        self.upload(target, np.full(size, value, dtype))

    def synchronise(self) -> None:
        """Nothing to do: all work is synchronous."""

    @property
    def stream(self) -> int:
        return 0

    def event(self) -> StreamEvent:
        return _Moment()

    def put(self, array: npt.NDArray[Any]) -> DeviceArray:
        buffer = DeviceMemory(array.ctypes.data, array.nbytes, array)
        return DeviceArray(self, buffer, buffer.pointer, array.shape, array.dtype)

    def put_together(self, arrays: Sequence[npt.NDArray[Any]], into: DeviceMemory | None = None) -> list[DeviceArray]:
        return [self.put(x) for x in arrays]

    def prepare(self, function: TritonFunction, config: Config) -> Launch:
        def launch(pointers: Sequence[int], numbers: Sequence[int]) -> None:
            interpret(function, pointers, numbers, config)

        return launch


class _Moment(StreamEvent):
    """A reading of the host's clock."""

    _at: float = 0.0

    def record(self) -> None:
        self._at = time.perf_counter()

    def since(self, earlier: StreamEvent) -> float:
        assert isinstance(earlier, _Moment)
        return (self._at - earlier._at) * 1e3

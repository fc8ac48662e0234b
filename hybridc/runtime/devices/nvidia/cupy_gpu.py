"""A GPU that shares CuPy's memory pool and its current stream."""

from __future__ import annotations

import importlib
from typing import Any

from hybridc.runtime.devices.array import DeviceMemory
from hybridc.runtime.devices.nvidia.cuda import Cuda
from hybridc.runtime.devices.nvidia.driver import Driver


def has_cupy(_driver: Driver) -> bool:
    """Whether CuPy is installed; the driver has found a GPU already."""
    try:
        importlib.import_module("cupy")
    except ImportError:
        return False
    return True


class CupyGpu(Cuda):
    """A GPU with memory and streams of CuPy."""

    def __init__(self, driver: Driver, index: int = 0) -> None:
        self._cuda: Any = importlib.import_module("cupy").cuda
        super().__init__(driver, index)

    @property
    def stream(self) -> int:
        return self._cuda.get_current_stream(self.index).ptr

    def prepare_memory(self, gpu: int) -> None:
        """Nothing to do: CuPy has its own pool."""

    def allocate(self, nbytes: int) -> DeviceMemory:
        self.driver.check()
        try:
            with self._cuda.Device(self.index):
                owner = self._cuda.alloc(max(1, nbytes))
        except self._cuda.memory.OutOfMemoryError as error:
            raise self.no_memory(nbytes) from error
        return DeviceMemory(owner.ptr, nbytes, owner)

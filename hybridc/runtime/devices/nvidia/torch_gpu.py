"""A GPU that shares PyTorch's memory pool and its current stream."""

from __future__ import annotations

import importlib
from typing import Any

from hybridc.runtime.devices.array import DeviceMemory
from hybridc.runtime.devices.nvidia.cuda import Cuda
from hybridc.runtime.devices.nvidia.driver import Driver


def has_torch(_driver: Driver) -> bool:
    """Whether PyTorch is installed and sees a GPU."""
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        return False
    return bool(torch.cuda.is_available()) and torch.version.hip is None


class TorchGpu(Cuda):
    """A GPU with memory and streams of PyTorch."""

    def __init__(self, driver: Driver, index: int = 0) -> None:
        self._torch: Any = importlib.import_module("torch")
        self._torch.cuda.init()
        # Asked at each launch; Triton uses this private function, too.
        self._raw_stream: Any = getattr(self._torch._C, "_cuda_getCurrentRawStream", None)
        super().__init__(driver, index)

    @property
    def stream(self) -> int:
        if self._raw_stream is None:
            return self._torch.cuda.current_stream(self.index).cuda_stream
        return self._raw_stream(self.index)

    def prepare_memory(self, gpu: int) -> None:
        """Nothing to do: PyTorch has its own pool."""

    def allocate(self, nbytes: int) -> DeviceMemory:
        torch = self._torch
        self.driver.check()
        try:
            owner = torch.empty(max(1, nbytes), dtype=torch.uint8, device=f"cuda:{self.index}")
        except torch.cuda.OutOfMemoryError as error:
            raise self.no_memory(nbytes) from error
        return DeviceMemory(owner.data_ptr(), nbytes, owner)

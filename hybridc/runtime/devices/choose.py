"""Device discovery: the device that ``HYBRIDC_GPU`` names, or one of this machine."""

from __future__ import annotations

import functools
import warnings
import weakref
from collections.abc import Callable

from hybridc.errors import DeviceError, UnsupportedError
from hybridc.ground.events import RECORDER
from hybridc.ground.records import dataclass
from hybridc.options import OPTIONS
from hybridc.runtime.devices.device import Device
from hybridc.runtime.devices.interpreter import Interpreter
from hybridc.runtime.devices.nvidia import cupy_gpu, torch_gpu
from hybridc.runtime.devices.nvidia.cuda import Cuda
from hybridc.runtime.devices.nvidia.cupy_gpu import CupyGpu
from hybridc.runtime.devices.nvidia.driver import Driver, NoDriver, driver
from hybridc.runtime.devices.nvidia.torch_gpu import TorchGpu


@dataclass(frozen=True)
class _DeviceProvider:
    """A library that provides GPU memory and streams: whether it is usable, and how to make a device."""

    needs: str
    is_usable: Callable[[Driver], bool]
    make: Callable[[Driver, int], Device]


_MADE: weakref.WeakSet[Device] = weakref.WeakSet()
# In order of preference: memory is shared with a library that is installed.
_KINDS = {
    "torch": _DeviceProvider("PyTorch with CUDA", torch_gpu.has_torch, TorchGpu),
    "cupy": _DeviceProvider("CuPy", cupy_gpu.has_cupy, CupyGpu),
    "cuda": _DeviceProvider("NVIDIA's driver", lambda _: True, Cuda),
}


def count() -> int:
    """The number of GPUs; warns of a driver that does not work."""
    if OPTIONS.gpu == "interpreter":
        return 1
    gpu_driver = driver()
    if isinstance(gpu_driver, NoDriver):
        if gpu_driver.broken:
            warnings.warn(f"no GPU is used: {gpu_driver.reason}", stacklevel=3)
        return 0
    return 0 if _kind(gpu_driver) is None else gpu_driver.count()


@functools.cache
def device(index: int) -> Device:
    """The device of ``mx.gpu(index)``: one object each, as arrays compare devices by identity.

    Raises:
        UnsupportedError: there is no such device, or it cannot be used.
    """
    wanted = OPTIONS.gpu
    if wanted == "interpreter":
        if index:
            raise UnsupportedError(f"gpu({index}): the interpreter is one device, gpu(0)")
        return Interpreter()
    gpu_driver = driver()
    if isinstance(gpu_driver, NoDriver):
        raise UnsupportedError(_missing(index, gpu_driver.reason))
    kind = _kind(gpu_driver)
    if kind is None:
        needs = _KINDS[wanted].needs
        raise UnsupportedError(f"gpu({index}): HYBRIDC_GPU={wanted} needs {needs}, which is not installed")
    if not 0 <= index < gpu_driver.count():
        raise UnsupportedError(f"gpu({index}): this machine has {gpu_driver.count()} GPUs, numbered from 0")
    gpu = kind.make(gpu_driver, index)
    _MADE.add(gpu)
    RECORDER.gauges[f"Memory: gpu/{index}"] = functools.partial(_in_use, gpu)
    return gpu


def _in_use(gpu: Device) -> int:
    free, total = gpu.memory()
    return total - free


def synchronise() -> None:
    """Wait for all streams of all devices; then raise what failed."""
    failed: list[DeviceError] = []
    for gpu in list(_MADE):
        try:
            gpu.finish()
        except DeviceError as error:
            failed.append(error)
    if failed:
        raise failed[0]


def _kind(gpu_driver: Driver) -> _DeviceProvider | None:
    """The wanted provider, if what it needs is installed."""
    if OPTIONS.gpu in _KINDS:
        kind = _KINDS[OPTIONS.gpu]
        return kind if kind.is_usable(gpu_driver) else None
    return next((kind for kind in _KINDS.values() if kind.is_usable(gpu_driver)), None)


def _missing(index: int, reason: str) -> str:
    """The advice in the error for a missing device."""
    return (
        f"gpu({index}): {reason}. Arrays on GPUs need one of NVIDIA's, its driver, and "
        'pip install "hybridc[triton]", best with PyTorch or CuPy beside it; use ctx=mx.cpu() without. '
        "HYBRIDC_GPU=interpreter runs GPU code on the CPU, slowly, for tests"
    )

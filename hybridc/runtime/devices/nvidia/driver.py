"""The CUDA driver library: the functions that a device needs, with errors that name the failed call; contexts."""

from __future__ import annotations

import ctypes
import enum
import functools
import os
import sys
import threading
import weakref
from ctypes import POINTER, byref, c_char, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from dataclasses import replace
from typing import Any

from hybridc.errors import DeviceError, DeviceMemoryError
from hybridc.ground.machine import GPU, Gpu
from hybridc.ground.records import dataclass

# Argument types of each function; every one returns an error code, 0 for success.
_PP = POINTER(c_void_p)
FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cuInit": (c_uint,),
    "cuGetErrorString": (c_int, POINTER(c_char_p)),
    "cuDeviceGetCount": (POINTER(c_int),),
    "cuDeviceGet": (POINTER(c_int), c_int),
    "cuDeviceGetName": (POINTER(c_char), c_int, c_int),
    "cuDeviceGetUuid": (POINTER(c_char), c_int),
    "cuDeviceGetAttribute": (POINTER(c_int), c_int, c_int),
    "cuDeviceGetDefaultMemPool": (_PP, c_int),
    "cuMemPoolSetAttribute": (c_void_p, c_int, POINTER(c_uint64)),
    "cuDevicePrimaryCtxRetain": (_PP, c_int),
    "cuCtxSetCurrent": (c_void_p,),
    "cuCtxPushCurrent_v2": (c_void_p,),
    "cuCtxPopCurrent_v2": (_PP,),
    "cuCtxSynchronize": (),
    "cuPointerGetAttribute": (POINTER(c_int), c_int, c_uint64),
    "cuMemGetInfo_v2": (POINTER(c_size_t), POINTER(c_size_t)),
    "cuMemAllocAsync": (POINTER(c_uint64), c_size_t, c_void_p),
    "cuMemFreeAsync": (c_uint64, c_void_p),
    "cuMemcpyHtoDAsync_v2": (c_uint64, c_void_p, c_size_t, c_void_p),
    "cuMemcpyDtoHAsync_v2": (c_void_p, c_uint64, c_size_t, c_void_p),
    "cuMemcpyDtoDAsync_v2": (c_uint64, c_uint64, c_size_t, c_void_p),
    "cuStreamSynchronize": (c_void_p,),
    "cuStreamCreate": (_PP, c_uint),
    "cuStreamWaitEvent": (c_void_p, c_void_p, c_uint),
    "cuStreamBeginCapture_v2": (c_void_p, c_int),
    "cuStreamEndCapture": (c_void_p, _PP),
    "cuGraphInstantiateWithFlags": (_PP, c_void_p, c_uint64),
    "cuGraphLaunch": (c_void_p, c_void_p),
    "cuGraphDestroy": (c_void_p,),
    "cuGraphExecDestroy": (c_void_p,),
    "cuEventCreate": (_PP, c_uint),
    "cuEventRecord": (c_void_p, c_void_p),
    "cuEventSynchronize": (c_void_p,),
    "cuEventElapsedTime": (POINTER(c_float), c_void_p, c_void_p),
    "cuEventDestroy_v2": (c_void_p,),
    "cuModuleLoadData": (_PP, c_char_p),
    "cuModuleUnload": (c_void_p,),
    "cuModuleGetFunction": (_PP, c_void_p, c_char_p),
    "cuFuncSetAttribute": (c_void_p, c_int, c_int),
    "cuLaunchKernelEx": (c_void_p, c_void_p, c_void_p, c_void_p),
}


class LaunchConfig(ctypes.Structure):
    """``CUlaunchConfig`` of ``cuLaunchKernelEx``."""

    _fields_ = (
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("shared", c_uint),
        ("stream", c_void_p),
        ("attributes", c_void_p),
        ("attribute_count", c_uint),
    )


class GpuAttribute(enum.IntEnum):
    """``CUdevice_attribute``: of a GPU, of a program, or of a multiprocessor."""

    GRANTED = 8  # bytes of shared memory that a program has without asking
    WARP = 10
    MULTIPROCESSORS = 16
    CACHE = 38
    THREADS = 39
    MAJOR = 75
    MINOR = 76
    REGISTERS = 82
    SHARED = 97  # bytes of shared memory that a program may ask for


# What the driver says of a GPU, by the fields of its description, and the bytes of each.
READ = {
    "multiprocessors": (GpuAttribute.MULTIPROCESSORS, 1),
    "shared": (GpuAttribute.SHARED, 1),
    "granted": (GpuAttribute.GRANTED, 1),
    "registers": (GpuAttribute.REGISTERS, 4),
    "threads": (GpuAttribute.THREADS, 1),
    "warp": (GpuAttribute.WARP, 1),
    "cache": (GpuAttribute.CACHE, 1),
}
# Other constants of cuda.h: attributes of a function, a memory pool, and an address; CU_STREAM_NON_BLOCKING,
# CU_STREAM_CAPTURE_MODE_RELAXED.
FUNCTION_SHARED_MEMORY, POOL_KEEPS, MEMORY_TYPE = 8, 4, 2
NON_BLOCKING, RELAXED = 1, 2
# Its errors: of memory, of ``cuInit`` without a GPU.
_OUT_OF_MEMORY, _NO_DEVICE = 2, 100
# Errors of earlier launches, which any later call may return.
_LATE = frozenset({214, 220, 700, 702, 710, *range(714, 720)})
# Advice for errors of ``cuInit``, beside the driver's own text.
_REFUSED = {
    101: "CUDA_VISIBLE_DEVICES names a GPU that this machine does not have",
    34: "the libcuda.so that is found is the CUDA toolkit's stub: take its folder out of LD_LIBRARY_PATH",
    802: "the GPUs are not ready; those behind an NVSwitch need the service nvidia-fabricmanager",
    803: "the driver's library and its kernel module are of different versions: reboot, or update the library",
    804: "the libcuda.so of cuda-compat does not support this GPU: take its folder out of LD_LIBRARY_PATH",
    999: "the kernel module does not answer: `nvidia-smi`, run as root once, makes its device files",
}
_FORKED = (
    "this process was forked from one that had used the GPU's driver, which works in that one only: start processes "
    'by multiprocessing.get_context("spawn"), or before anything asks for a GPU'
)


class LateError(DeviceError):
    """An asynchronous error: of a launch before the call that returns it."""


@dataclass(frozen=True)
class NoDriver:
    """Why there is no driver; ``broken`` if it is installed but does not work."""

    reason: str
    broken: bool = False


class Driver:
    """The functions of the library; each method raises if its function fails."""

    def __init__(self, library: Any) -> None:
        self.functions: dict[str, Any] = {}
        #: Whether this process may call it: not in a fork of the process that initialised it.
        self.usable = True
        self.is_ending = sys.is_finalizing  # modules may be gone when the last arrays are freed
        for name, types in FUNCTIONS.items():
            function = getattr(library, name)
            function.argtypes = types
            function.restype = c_int
            self.functions[name] = function
        self.call("cuInit", 0)
        self._cards = self.pointer("cuDeviceGetCount")
        _DRIVERS.add(self)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function.

        Raises:
            DeviceMemoryError: the device's memory is full.
            LateError: an earlier launch failed.
            DeviceError: anything else.
        """
        self.check()
        error = self.functions[name](*arguments)
        if error:
            self.fail(name, error)

    def check(self) -> None:
        """Raise if this process may not call the driver."""
        if not self.usable:
            raise DeviceError(_FORKED)

    def may_free(self) -> bool:
        """Whether to free resources.

        A process that ends frees all at once, and a forked child does not own its parent's.
        """
        return self.usable and not self.is_ending()

    def fail(self, name: str, error: int) -> None:
        """Raise for an error code."""
        kind = DeviceMemoryError if error == _OUT_OF_MEMORY else LateError if error in _LATE else DeviceError
        raise kind(f"{name}: {self._words(error)} (error {error} of the CUDA driver)")

    def _words(self, error: int) -> str:
        return _words(self.functions["cuGetErrorString"], error)

    def pointer(self, name: str, *arguments: Any) -> int:
        """The result of a function that writes it through its first argument."""
        result = FUNCTIONS[name][0]._type_()
        self.call(name, byref(result), *arguments)
        return result.value or 0

    def count(self) -> int:
        """The number of GPUs."""
        return self._cards

    def name(self, gpu: int) -> str:
        """The name of a GPU."""
        text = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", text, len(text), gpu)
        return text.value.decode()

    def uuid(self, gpu: int) -> bytes:
        """The UUID of a GPU."""
        buffer = ctypes.create_string_buffer(16)
        self.call("cuDeviceGetUuid", buffer, gpu)
        return buffer.raw

    def attribute(self, what: GpuAttribute, gpu: int) -> int:
        """What the driver says of a GPU."""
        return self.pointer("cuDeviceGetAttribute", what, gpu)

    def describe(self, gpu: int) -> Gpu:
        """The description of a GPU: the driver knows sizes; rates and times are the nominal ones."""
        return replace(GPU, name=self.name(gpu), **{n: size * self.attribute(x, gpu) for n, (x, size) in READ.items()})


def _words(function: Any, error: int) -> str:
    """The library's text for an error code."""
    text = c_char_p()
    function(error, byref(text))
    return (text.value or b"unknown error").decode()


_DRIVERS: weakref.WeakSet[Driver] = weakref.WeakSet()


def _in_child() -> None:
    for inherited in _DRIVERS:
        inherited.usable = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


@functools.cache
def driver() -> Driver | NoDriver:
    """The driver of this machine, if it has one that finds a GPU."""
    for name in ("libcuda.so.1", "libcuda.so", "nvcuda.dll"):
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        return driver_of(library)
    return NoDriver("no driver of NVIDIA's was found (libcuda.so.1)")


def driver_of(library: Any) -> Driver | NoDriver:
    """The driver whose library this is, or why it cannot be used."""
    missing = [name for name in FUNCTIONS if not hasattr(library, name)]
    if missing:
        return NoDriver(f"NVIDIA's driver is too old: it lacks {missing[0]}; version 520 or later has it", broken=True)
    error = library.cuInit(0)
    if error == _NO_DEVICE:
        hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
        why = "" if hidden is None else f"; CUDA_VISIBLE_DEVICES={hidden} hides those that it does not name"
        return NoDriver(f"NVIDIA's driver finds no GPU{why}")
    if error:
        function = library.cuGetErrorString
        function.argtypes = FUNCTIONS["cuGetErrorString"]
        known = f": {_REFUSED[error]}" if error in _REFUSED else ""
        said = _words(function, error)
        return NoDriver(f"NVIDIA's driver does not start{known} (cuInit: {said}, error {error})", broken=True)
    loaded = Driver(library)
    return loaded if loaded.count() else NoDriver("NVIDIA's driver finds no GPU")


# --- the current context of a thread ----------------------------------------------------------------------------------


class Current:
    """A context manager that makes a context current, and restores the one before, on which other libraries rely."""

    def __init__(self, driver: Driver, context: int) -> None:
        self._driver = driver
        self._context = context

    def __enter__(self) -> None:
        self._driver.call("cuCtxPushCurrent_v2", self._context)

    def __exit__(self, *_: object) -> None:
        self._driver.functions["cuCtxPopCurrent_v2"](byref(c_void_p()))


class _Entered(threading.local):
    done = False


class OneGpu(Current):
    """With a single GPU its context stays current: other libraries use no other."""

    def __init__(self, driver: Driver, context: int) -> None:
        super().__init__(driver, context)
        self._entered = _Entered()

    def __enter__(self) -> None:
        if not self._entered.done or not self._driver.usable:
            self._driver.call("cuCtxSetCurrent", self._context)
            self._entered.done = True

    def __exit__(self, *_: object) -> None:
        pass

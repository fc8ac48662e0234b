"""NVIDIA's driver library, as far as a device needs it, with errors that say which call failed."""

from __future__ import annotations

import ctypes
import functools
import threading
from ctypes import POINTER, byref, c_char, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

from hybridc.errors import DeviceError, DeviceMemoryError

# Of each function the types of its arguments; every one answers with a number, 0 if all is well.
_PP = POINTER(c_void_p)
FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cuInit": (c_uint,),
    "cuGetErrorString": (c_int, POINTER(c_char_p)),
    "cuDeviceGetCount": (POINTER(c_int),),
    "cuDeviceGet": (POINTER(c_int), c_int),
    "cuDeviceGetName": (POINTER(c_char), c_int, c_int),
    "cuDeviceGetAttribute": (POINTER(c_int), c_int, c_int),
    "cuDeviceGetDefaultMemPool": (_PP, c_int),
    "cuMemPoolSetAttribute": (c_void_p, c_int, POINTER(c_uint64)),
    "cuDevicePrimaryCtxRetain": (_PP, c_int),
    "cuCtxSetCurrent": (c_void_p,),
    "cuMemGetInfo_v2": (POINTER(c_size_t), POINTER(c_size_t)),
    "cuMemAllocAsync": (POINTER(c_uint64), c_size_t, c_void_p),
    "cuMemFreeAsync": (c_uint64, c_void_p),
    "cuMemcpyHtoDAsync_v2": (c_uint64, c_void_p, c_size_t, c_void_p),
    "cuMemcpyDtoHAsync_v2": (c_void_p, c_uint64, c_size_t, c_void_p),
    "cuMemcpyDtoDAsync_v2": (c_uint64, c_uint64, c_size_t, c_void_p),
    "cuStreamSynchronize": (c_void_p,),
    "cuStreamCreate": (_PP, c_uint),
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
    """How a kernel is launched, as ``cuLaunchKernelEx`` reads it."""

    _fields_ = (
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("shared", c_uint),
        ("stream", c_void_p),
        ("attributes", c_void_p),
        ("attribute_count", c_uint),
    )


# Numbers of cuda.h.
MULTIPROCESSORS, MAJOR, MINOR, SHARED_MEMORY = 16, 75, 76, 97
FUNCTION_SHARED_MEMORY = 8
POOL_KEEPS = 4
# A stream that waits for no other; a capture that forbids no call, of this thread or of others.
NON_BLOCKING, RELAXED = 1, 2
_OUT_OF_MEMORY = 2


class Driver:
    """The functions of the library; each method raises where its function answers with an error."""

    def __init__(self, library: Any) -> None:
        self.functions: dict[str, Any] = {}
        self._thread = threading.local()
        for name, types in FUNCTIONS.items():
            function = getattr(library, name)
            function.argtypes = types
            function.restype = c_int
            self.functions[name] = function
        self.call("cuInit", 0)
        self._cards = self.pointer("cuDeviceGetCount")

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function.

        Raises:
            DeviceMemoryError: the device's memory is full.
            DeviceError: anything else.
        """
        error = self.functions[name](*arguments)
        if error:
            self.fail(name, error)

    def fail(self, name: str, error: int) -> None:
        """Raise for what a function answered."""
        text = c_char_p()
        self.functions["cuGetErrorString"](error, byref(text))
        said = (text.value or b"unknown error").decode()
        kind = DeviceMemoryError if error == _OUT_OF_MEMORY else DeviceError
        raise kind(f"{name}: {said} (error {error} of the CUDA driver)")

    def pointer(self, name: str, *arguments: Any) -> int:
        """What a function puts where its first argument points."""
        made = FUNCTIONS[name][0]._type_()
        self.call(name, byref(made), *arguments)
        return made.value or 0

    def count(self) -> int:
        """How many cards there are."""
        return self._cards

    def enter(self, context: int) -> None:
        """Make a context the one that this thread's calls are for; another library may have changed it meanwhile."""
        if self._cards > 1 or getattr(self._thread, "context", None) != context:
            self.call("cuCtxSetCurrent", context)
            self._thread.context = context

    def name(self, card: int) -> str:
        """What a card is called."""
        text = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", text, len(text), card)
        return text.value.decode()


@functools.cache
def driver() -> Driver | None:
    """The driver of this machine, if it has one that finds a card."""
    for name in ("libcuda.so.1", "libcuda.so", "nvcuda.dll"):
        try:
            found = Driver(ctypes.CDLL(name))
            return found if found.count() else None
        except (OSError, AttributeError, DeviceError):
            continue
    return None

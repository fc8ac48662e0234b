"""The current CUDA context of a thread."""

from __future__ import annotations

import threading
from ctypes import byref, c_void_p

from hybridc.runtime.devices.nvidia.driver import Driver


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

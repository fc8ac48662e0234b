"""``pytest -p tests.on_gpu``: tests of Triton functions run them on this machine's GPU, not by the interpreter.

What a test puts between forbidden pages is copied to the GPU, amid bytes that are NaN and are looked at afterwards, and
back. A test whose functions use memory of which no size is known, such as the simulated card's, is skipped.
"""

from __future__ import annotations

import bisect
import ctypes
import mmap
import os
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

os.environ.setdefault("HYBRIDC_GPU", "auto")

from hybridc.errors import DeviceError
from hybridc.runtime import triton_kernel
from tests.lower.llvm.native import Guarded

_APART = 2 * mmap.PAGESIZE  # bytes of NaN on both sides
_NAN = 0xFF
# Of functions of one program on large arrays: few elements for each thread, else the compiler takes minutes.
_WARPS = 32
# The memory of tests, by its address.
_KNOWN: dict[int, int] = {}
_ORDER: list[int] = []


def _note(address: int, size: int) -> None:
    if address not in _KNOWN:
        bisect.insort(_ORDER, address)
    _KNOWN[address] = size


def _forget(address: int) -> None:
    if _KNOWN.pop(address, None) is not None:
        _ORDER.remove(address)


def _whole(pointer: int) -> tuple[int, int]:
    """Where the memory of a pointer begins, and its size."""
    at = bisect.bisect_right(_ORDER, pointer) - 1
    start = _ORDER[at] if at >= 0 else -1
    if at < 0 or pointer > start + _KNOWN[start]:
        pytest.skip("memory of a size that is not known")
    return start, _KNOWN[start]


def _interpret(function: Any, pointers: Any, numbers: Any, config: Any) -> None:
    """A launch on the GPU, of copies of the memory of the pointers."""
    from hybridc.runtime.devices.choose import device

    gpu = device(0)
    places: dict[int, Any] = {}
    given: list[int] = []
    for pointer in pointers:
        start, size = _whole(pointer)
        if start not in places:
            room = gpu.allocate(size + 2 * _APART + mmap.PAGESIZE)
            at = room.pointer + _APART + (start - room.pointer - _APART) % mmap.PAGESIZE
            bytes_ = np.full(size + 2 * _APART, _NAN, np.uint8)
            ctypes.memmove(bytes_.ctypes.data + _APART, start, size)
            gpu.upload(at - _APART, bytes_)
            places[start] = room, at, size
        given.append(places[start][1] + pointer - start)
    try:
        gpu.launch(function, config, given, numbers)
        gpu.synchronise()
    except DeviceError as error:
        if "error 7" in str(error):  # nothing runs in this process any more: another one goes on
            print(f"{function.name}: {error}", flush=True)
            os._exit(1)
        raise
    for start, (_, at, size) in places.items():
        bytes_ = np.empty(size + 2 * _APART, np.uint8)
        gpu.download(bytes_, at - _APART)
        outside = np.concatenate([bytes_[:_APART], bytes_[_APART + size :]])
        assert (outside == _NAN).all(), f"{function.name} writes beside its memory"
        ctypes.memmove(start, bytes_.ctypes.data + _APART, size)


def _run_interpreted(function: Any, arrays: Any, numbers: Any, config: Any) -> None:
    for array in arrays:
        _note(array.ctypes.data, array.nbytes)
    try:
        _interpret(function, [array.ctypes.data for array in arrays], numbers, replace(config, warps=_WARPS))
    finally:
        for array in arrays:
            _forget(array.ctypes.data)


def _guarded(init: Any) -> Any:
    def noted(self: Guarded, size: int, at_end: bool) -> None:
        init(self, size, at_end)
        _note(self.address, size)

    return noted


def _each_alone(run: Any) -> Any:
    """A function for each op: the compiler takes minutes for one of all."""
    return lambda kernel_ops, *arrays: [run([op], *arrays)[0] for op in kernel_ops]


Guarded.__init__ = _guarded(Guarded.__init__)
Guarded.__del__ = lambda self: _forget(self.address) if hasattr(self, "address") else None
triton_kernel.interpret = _interpret
triton_kernel.run_interpreted = _run_interpreted

from tests.lower.triton import bodies  # noqa: E402  (it takes the function that is replaced)

bodies.run = _each_alone(bodies.run)

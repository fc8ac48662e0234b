"""A driver library of our own: memory of the host, and launches that are written down instead of run."""

from __future__ import annotations

import ctypes
import itertools
import struct
from ctypes import CFUNCTYPE, c_char_p, c_int, c_uint64
from typing import Any, NamedTuple

import numpy as np

from hybridc.runtime.devices import driver
from hybridc.runtime.devices.driver import FUNCTIONS

_OUT_OF_MEMORY, _INVALID_IMAGE, _INVALID_CONTEXT, _INVALID_HANDLE = 2, 200, 201, 400
_CAPTURE_UNSUPPORTED, _NOT_CAPTURING = 900, 901
_CONTEXT = 0xC0


class Launched(NamedTuple):
    """What the driver was asked to run."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    stream: int
    values: list[int]  # eight bytes each


class StubCuda:
    """Has every function of the driver as an attribute; cards have ``memory`` bytes."""

    def __init__(self, memory: int = 1 << 20, shared: int = 232448, parameters: int = 0, cards: int = 1) -> None:
        self.memory = memory
        self.shared = shared
        self.parameters = parameters
        self.cards = cards
        self.buffers: dict[int, Any] = {}
        self.launches: list[Launched] = []
        self.modules: dict[int, bytes] = {}
        self.kernels: dict[int, str] = {}
        self.attributes: list[tuple[int, int]] = []
        self.entered = 0
        self.fails: dict[str, int] = {}
        self.asked = 0  # launches that were asked for one by one
        self.streams: list[int] = []
        self.capturing: dict[int, list[Any]] = {}  # what streams that capture were given: launches, and what can run
        self.graphs: dict[int, list[Any]] = {}
        self.replays: list[tuple[list[Any], int]] = []  # graphs that ran, and where
        self.copies: list[tuple[int, int, int]] = []  # target, source and bytes of those within the device
        self.clock = 0.0  # milliseconds; whoever runs something puts it forward
        self.moments: dict[int, float] = {}
        self._handles = itertools.count(0x6A000)
        for name, types in FUNCTIONS.items():
            # What a pointer points to is set by its address: ctypes makes copies of pointers.
            given = [c_uint64 if t is c_char_p and name == "cuModuleLoadData" else t for t in types]
            made = CFUNCTYPE(c_int, *given)(self._answering(name))
            setattr(self, name, made)

    def _answering(self, name: str) -> Any:
        answer = getattr(self, f"_{name}", None)

        def call(*arguments: Any) -> int:
            if name in self.fails:
                return self.fails[name]
            return (answer(*arguments) if answer is not None else 0) or 0

        return call

    def _cuGetErrorString(self, error: int, out: Any) -> None:
        out[0] = {2: b"out of memory", 700: b"an illegal memory access was encountered"}.get(error, b"an error")

    def _cuDeviceGetCount(self, out: Any) -> None:
        out[0] = self.cards

    def _cuDeviceGet(self, out: Any, index: int) -> None:
        out[0] = index

    def _cuDeviceGetName(self, out: Any, size: int, _card: int) -> None:
        ctypes.memmove(out, b"Stub\0", 5)

    def _cuDeviceGetAttribute(self, out: Any, what: int, _card: int) -> None:
        known = {driver.MAJOR: 9, driver.MINOR: 0, driver.MULTIPROCESSORS: 132, driver.SHARED_MEMORY: self.shared}
        out[0] = known[what]

    def _cuDevicePrimaryCtxRetain(self, out: Any, card: int) -> None:
        out[0] = _CONTEXT + card

    def _cuDeviceGetDefaultMemPool(self, out: Any, card: int) -> None:
        out[0] = 0xB0

    def _cuCtxSetCurrent(self, context: int) -> int:
        self.entered += 1
        return 0 if context in range(_CONTEXT, _CONTEXT + self.cards) else _INVALID_CONTEXT

    def _cuMemGetInfo_v2(self, free: Any, whole: Any) -> None:
        free[0] = self.memory - sum(b.nbytes for b in self.buffers.values())
        whole[0] = self.memory

    def _cuMemAllocAsync(self, out: Any, size: int, _stream: int) -> int:
        if sum(b.nbytes for b in self.buffers.values()) + size > self.memory:
            return _OUT_OF_MEMORY
        owner = np.full(size + 256, 0xAB, np.uint8)
        out[0] = -(-owner.ctypes.data // 256) * 256
        self.buffers[out[0]] = owner[:size]
        return 0

    def _cuMemFreeAsync(self, pointer: int, _stream: int) -> None:
        del self.buffers[pointer]

    def _cuMemcpyHtoDAsync_v2(self, target: int, source: int, size: int, stream: int | None) -> int:
        if stream in self.capturing:
            return _CAPTURE_UNSUPPORTED  # a real one would capture the copy, which is never meant
        ctypes.memmove(target, source, size)
        return 0

    _cuMemcpyDtoHAsync_v2 = _cuMemcpyHtoDAsync_v2

    def _cuMemcpyDtoDAsync_v2(self, target: int, source: int, size: int, stream: int | None) -> int:
        self.copies.append((target, source, size))
        return self._cuMemcpyHtoDAsync_v2(target, source, size, stream)

    def _cuStreamCreate(self, out: Any, _flags: int) -> None:
        out[0] = next(self._handles)
        self.streams.append(out[0])

    def _cuStreamBeginCapture_v2(self, stream: int | None, _mode: int) -> int:
        if stream not in self.streams or stream in self.capturing:  # the default stream cannot
            return _CAPTURE_UNSUPPORTED
        self.capturing[stream] = []
        return 0

    def _cuStreamEndCapture(self, stream: int | None, out: Any) -> int:
        if stream not in self.capturing:
            return _NOT_CAPTURING
        out[0] = next(self._handles)
        self.graphs[out[0]] = self.capturing.pop(stream)
        return 0

    def _cuGraphInstantiateWithFlags(self, out: Any, graph: int, _flags: int) -> int:
        if graph not in self.graphs:
            return _INVALID_HANDLE
        out[0] = next(self._handles)
        self.graphs[out[0]] = list(self.graphs[graph])
        return 0

    def _cuGraphLaunch(self, graph: int, stream: int | None) -> int:
        if graph not in self.graphs:
            return _INVALID_HANDLE
        self.replays.append((self.graphs[graph], stream or 0))
        run = [self.launched if isinstance(each, Launched) else _run for each in self.graphs[graph]]
        return next((error for do, each in zip(run, self.graphs[graph], strict=True) if (error := do(each))), 0)

    def has(self, pointer: int, size: int) -> bool:
        """Whether this is memory that was allocated and is not freed."""
        return any(b <= pointer and pointer + size <= b + m.nbytes for b, m in self.buffers.items())

    def _cuGraphDestroy(self, graph: int) -> int:
        return 0 if self.graphs.pop(graph, None) is not None else _INVALID_HANDLE

    _cuGraphExecDestroy = _cuGraphDestroy

    def _cuEventCreate(self, out: Any, _flags: int) -> None:
        out[0] = next(self._handles)

    def _cuEventRecord(self, event: int, _stream: int | None) -> None:
        self.moments[event] = self.clock

    def _cuEventElapsedTime(self, out: Any, earlier: int, later: int) -> None:
        out[0] = self.moments[later] - self.moments[earlier]

    def _cuEventDestroy_v2(self, event: int) -> None:
        self.moments.pop(event, None)

    def _cuModuleLoadData(self, out: Any, image: int) -> int:
        if ctypes.string_at(image, 4) != b"\x7fELF":
            return _INVALID_IMAGE
        out[0] = 0xD0 + len(self.modules)
        self.modules[out[0]] = ctypes.string_at(image, 64)
        return 0

    def _cuModuleUnload(self, module: int) -> None:
        del self.modules[module]

    def _cuModuleGetFunction(self, out: Any, module: int, name: bytes) -> None:
        out[0] = 0xF00 + len(self.kernels)
        self.kernels[out[0]] = name.decode()

    def _cuFuncSetAttribute(self, kernel: int, attribute: int, value: int) -> None:
        self.attributes.append((attribute, value))

    def _cuLaunchKernelEx(self, config: int, kernel: int, places: int, _extra: int) -> int:
        found = ctypes.cast(places, ctypes.POINTER(ctypes.POINTER(c_uint64)))
        # As the driver lays it out: seven numbers, four bytes that mean nothing, the stream.
        *numbers, _, stream = struct.unpack("7I4sQ", ctypes.string_at(config, 40))
        values = [found[i][0] for i in range(self.count(self.kernels[kernel]))]
        grid, block = tuple(numbers[:3]), tuple(numbers[3:6])
        made = Launched(self.kernels[kernel], grid, block, numbers[6], stream, values)
        if stream in self.capturing:
            self.capturing[stream].append(made)
            return 0
        self.asked += 1
        return self.launched(made)

    def count(self, _kernel: str) -> int:
        """How many parameters a kernel has."""
        return self.parameters

    def launched(self, launch: Launched) -> int:
        """Write down what runs, for a millisecond."""
        self.launches.append(launch)
        self.clock += 1
        return 0


def _run(captured: Any) -> int:
    return captured.run()

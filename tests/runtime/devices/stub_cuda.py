"""A driver library of our own: memory of the host, and launches that are written down instead of run.

It is as strict as a driver where a driver answers with an error, as for grids that are too large, and stricter where a
driver says nothing and all may go wrong: these are :attr:`StubCuda.violations`.
"""

from __future__ import annotations

import ctypes
import itertools
import struct
import threading
from collections.abc import Sequence
from ctypes import CFUNCTYPE, c_char_p, c_int, c_uint64
from typing import Any, NamedTuple

import numpy as np

from hybridc.runtime.devices.nvidia import driver
from hybridc.runtime.devices.nvidia.driver import FUNCTIONS
from tests.runtime.devices.queues import Queues

_INVALID_VALUE, _OUT_OF_MEMORY, _INVALID_IMAGE, _INVALID_CONTEXT, _INVALID_HANDLE = 1, 2, 200, 201, 400
_CAPTURE_UNSUPPORTED, _NOT_CAPTURING = 900, 901
_CONTEXT = 0xC0
ILLEGAL_ADDRESS = 700
# What needs no current context, and what answers even when some work has failed.
_WITHOUT_CONTEXT = ("cuInit", "cuGetErrorString", "cuDevice", "cuCtx", "cuMemPool", "cuEventDestroy")
_ALWAYS = ("cuInit", "cuGetErrorString", "cuDevice", "cuCtxS", "cuCtxP", "cuMemFree", "cuModuleUnload")
# What a card has, by CUdevice_attribute: among others 132 multiprocessors of 65536 registers, and capability 9.0.
_ATTRIBUTES = {8: 48 << 10, 10: 32, 16: 132, 38: 50 << 20, 39: 2048, 75: 9, 76: 0, 82: 65536}
# Programs of a grid, threads of one, bytes of its shared memory without asking, and bytes of parameters, at most.
_GRID, _THREADS, _SHARED, _PARAMETERS = (2**31 - 1, 65535, 65535), 1024, 48 << 10, 4096


class Launched(NamedTuple):
    """What the driver was asked to run."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    stream: int
    values: list[int]  # eight bytes each
    function: int = 0  # the driver's handle of the kernel


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
        self.uuid = b"stub".ljust(15)  # what tells the cards of this machine from others, with their numbers
        self.asked = 0  # launches that were asked for one by one
        self.streams: list[int] = []
        self.capturing: dict[int, list[Any]] = {}  # what streams that capture were given: launches, and what can run
        self.graphs: dict[int, list[Any]] = {}
        self.replays: list[tuple[list[Any], int]] = []  # graphs that ran, and where
        self.copies: list[tuple[int, int, int]] = []  # target, source and bytes of those within the device
        self.clock = 0.0  # milliseconds; whoever runs something puts it forward
        self.moments: dict[int, float] = {}
        self.queues = Queues()
        self.pinned: set[int] = set()  # addresses of the host that the driver knows: it reads there when work runs
        self.breaks: dict[str, int] = {}  # kernels whose launches are accepted, and the error when they run
        self._of: dict[int, int] = {}  # the modules of kernels
        self._allowed: dict[int, int] = {}  # bytes of shared memory that kernels may have
        self._home: dict[int, int] = {}  # the contexts of handles
        self._thread = threading.local()
        self._lock = threading.RLock()
        self._handles = itertools.count(0x5EED_0000_0000)
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
            with self._lock:
                if not name.startswith(_WITHOUT_CONTEXT) and not self._is_here(name, arguments):
                    return _INVALID_CONTEXT
                if self.queues.error and not name.startswith(_ALWAYS):
                    return self.queues.error
                return (answer(*arguments) if answer is not None else 0) or 0

        return call

    @property
    def violations(self) -> list[str]:
        """What was done that a card forbids without a word."""
        return self.queues.violations

    def finish(self) -> None:
        """Run what is pending."""
        with self._lock:
            self.queues.wait_all()

    # --- contexts ------------------------------------------------------------------------------------------

    @property
    def contexts(self) -> list[int]:
        """The stack of this thread's contexts: its calls are for the last one."""
        if not hasattr(self._thread, "contexts"):
            self._thread.contexts = []
        return self._thread.contexts

    def _is_here(self, name: str, arguments: Sequence[Any]) -> bool:
        """Whether there is a current context, and all handles and memory of a call are its own."""
        if not self.contexts:
            self.queues.violate(f"{name} is called without a current context")
            return False
        here = self.contexts[-1]
        strangers = [x for x in arguments if isinstance(x, int) and self._home.get(x, here) != here]
        if strangers:
            self.queues.violate(f"{name} is given what is of another context than the current one")
        return not strangers

    def _own(self, handle: int) -> int:
        """A handle that is of the current context."""
        self._home[handle] = self.contexts[-1]
        return handle

    def _queue(self, stream: int | None) -> int:
        """The queue of a stream: the default one is each context's own."""
        return stream or self.contexts[-1]

    def _cuCtxSetCurrent(self, context: int) -> int:
        self.entered += 1
        self.contexts[-1:] = [context]
        return 0 if context in range(_CONTEXT, _CONTEXT + self.cards) else _INVALID_CONTEXT

    def _cuCtxPushCurrent_v2(self, context: int) -> int:
        self.contexts.append(context)
        return 0 if context in range(_CONTEXT, _CONTEXT + self.cards) else _INVALID_CONTEXT

    def _cuCtxPopCurrent_v2(self, out: Any) -> None:
        out[0] = self.contexts.pop()

    def _cuCtxSynchronize(self) -> int:
        if self.capturing:
            self.queues.violate("all streams are waited for while one is capturing")
            return _CAPTURE_UNSUPPORTED
        return self.queues.wait_all()

    # --- what there is -------------------------------------------------------------------------------------

    def _cuGetErrorString(self, error: int, out: Any) -> None:
        out[0] = {2: b"out of memory", 700: b"an illegal memory access was encountered"}.get(error, b"an error")

    def _cuDeviceGetCount(self, out: Any) -> None:
        out[0] = self.cards

    def _cuDeviceGet(self, out: Any, index: int) -> None:
        out[0] = index

    def _cuDeviceGetName(self, out: Any, size: int, _card: int) -> None:
        ctypes.memmove(out, b"Stub\0", 5)

    def _cuDeviceGetUuid(self, out: Any, card: int) -> None:
        ctypes.memmove(out, self.uuid + bytes([card]), 16)

    def _cuDeviceGetAttribute(self, out: Any, what: int, _card: int) -> None:
        out[0] = {**_ATTRIBUTES, 97: self.shared}[what]

    def _cuDevicePrimaryCtxRetain(self, out: Any, card: int) -> None:
        out[0] = _CONTEXT + card

    def _cuDeviceGetDefaultMemPool(self, out: Any, card: int) -> None:
        out[0] = 0xB0

    # --- memory --------------------------------------------------------------------------------------------

    def _cuMemGetInfo_v2(self, free: Any, whole: Any) -> None:
        free[0] = self.memory - sum(b.nbytes for b in self.buffers.values())
        whole[0] = self.memory

    def _cuMemAllocAsync(self, out: Any, size: int, stream: int | None) -> int:
        if sum(b.nbytes for b in self.buffers.values()) + size > self.memory:
            return _OUT_OF_MEMORY
        owner = np.full(size + 256, 0xAB, np.uint8)
        out[0] = -(-owner.ctypes.data // 256) * 256
        self.buffers[self._own(out[0])] = owner[:size]
        self.queues.allocated(out[0], size, self._queue(stream))
        return 0

    def _cuMemFreeAsync(self, pointer: int, stream: int | None) -> int:
        owner = self.buffers.pop(pointer, None)
        if owner is None:
            self.queues.violate("memory is freed that is not there")
            return _INVALID_VALUE
        del self._home[pointer]
        self.queues.freed(pointer, self._queue(stream), lambda: owner.fill(0xCD) or 0)
        return 0

    def has(self, pointer: int, size: int) -> bool:
        """Whether this is memory that was allocated and is not freed."""
        return any(b <= pointer and pointer + size <= b + m.nbytes for b, m in self.buffers.items())

    def _cuMemcpyHtoDAsync_v2(self, target: int, source: int, size: int, stream: int | None) -> int:
        if stream in self.capturing:
            return _CAPTURE_UNSUPPORTED  # a real one would capture the copy, which is never meant
        taken = None if source in self.pinned else ctypes.string_at(source, size)

        def run() -> int:
            ctypes.memmove(target, source if taken is None else taken, size)
            return 0

        return self.queues.ask(self._queue(stream), run, (), [target])

    def _cuPointerGetAttribute(self, out: Any, _what: int, address: int) -> int:
        out[0] = 1
        return 0 if address in self.pinned else _INVALID_VALUE

    def _cuMemcpyDtoHAsync_v2(self, target: int, source: int, size: int, stream: int | None) -> int:
        return self._copied(target, source, size, stream, ())

    def _cuMemcpyDtoDAsync_v2(self, target: int, source: int, size: int, stream: int | None) -> int:
        self.copies.append((target, source, size))
        return self._copied(target, source, size, stream, [target])

    def _copied(self, target: int, source: int, size: int, stream: int | None, writes: Sequence[int]) -> int:
        if stream in self.capturing:
            return _CAPTURE_UNSUPPORTED

        def run() -> int:
            ctypes.memmove(target, source, size)
            return 0

        return self.queues.ask(self._queue(stream), run, [source], writes)

    # --- order ---------------------------------------------------------------------------------------------

    def _cuStreamCreate(self, out: Any, _flags: int) -> None:
        out[0] = self._own(next(self._handles))
        self.streams.append(out[0])

    def _cuStreamSynchronize(self, stream: int | None) -> int:
        if stream in self.capturing:
            return _CAPTURE_UNSUPPORTED
        return self.queues.wait(self._queue(stream))

    def _cuStreamBeginCapture_v2(self, stream: int | None, _mode: int) -> int:
        if stream not in self.streams or stream in self.capturing:  # the default stream cannot
            return _CAPTURE_UNSUPPORTED
        self.capturing[stream] = []
        return 0

    def _cuStreamEndCapture(self, stream: int | None, out: Any) -> int:
        if stream not in self.capturing:
            return _NOT_CAPTURING
        out[0] = self._own(next(self._handles))
        self.graphs[out[0]] = self.capturing.pop(stream)
        return 0

    def _cuGraphInstantiateWithFlags(self, out: Any, graph: int, _flags: int) -> int:
        if graph not in self.graphs:
            return _INVALID_HANDLE
        out[0] = self._own(next(self._handles))
        self.graphs[out[0]] = list(self.graphs[graph])
        return 0

    def _cuGraphLaunch(self, graph: int, stream: int | None) -> int:
        if graph not in self.graphs:
            return _INVALID_HANDLE
        found = self.graphs[graph]
        self.replays.append((found, stream or 0))
        return next((error for each in found if (error := self._ask(each, stream))), 0)

    def _cuGraphDestroy(self, graph: int) -> int:
        return 0 if self.graphs.pop(graph, None) is not None else _INVALID_HANDLE

    _cuGraphExecDestroy = _cuGraphDestroy

    def _cuEventCreate(self, out: Any, _flags: int) -> None:
        out[0] = self._own(next(self._handles))

    def _cuEventRecord(self, event: int, stream: int | None) -> None:
        def run() -> int:
            self.moments[event] = self.clock
            return 0

        self.queues.ask(self._queue(stream), run)
        self.queues.recorded(event, self._queue(stream))

    def _cuStreamWaitEvent(self, stream: int | None, event: int, _flags: int) -> None:
        self.queues.held(self._queue(stream), event)

    def _cuEventSynchronize(self, event: int) -> int:
        return self.queues.wait_for(event)

    def _cuEventElapsedTime(self, out: Any, earlier: int, later: int) -> None:
        out[0] = self.moments[later] - self.moments[earlier]

    def _cuEventDestroy_v2(self, event: int) -> None:
        self.moments.pop(event, None)

    # --- functions -----------------------------------------------------------------------------------------

    def _cuModuleLoadData(self, out: Any, image: int) -> int:
        if ctypes.string_at(image, 4) != b"\x7fELF":
            return _INVALID_IMAGE
        out[0] = self._own(next(self._handles))
        self.modules[out[0]] = ctypes.string_at(image, 64)
        return 0

    def _cuModuleUnload(self, module: int) -> None:
        del self.modules[module]
        self.queues.unloaded(module)
        if any(self._of.get(each.function) == module for graph in self.graphs.values() for each in graph):
            self.queues.violate("a module is unloaded that a recording needs")

    def _cuModuleGetFunction(self, out: Any, module: int, name: bytes) -> None:
        out[0] = self._own(next(self._handles))
        self.kernels[out[0]] = name.decode()
        self._of[out[0]] = module

    def _cuFuncSetAttribute(self, kernel: int, attribute: int, value: int) -> int:
        self.attributes.append((attribute, value))
        if attribute != driver.FUNCTION_SHARED_MEMORY or not 0 <= value <= self.shared:
            return _INVALID_VALUE
        self._allowed[kernel] = value
        return 0

    def _cuLaunchKernelEx(self, config: int, kernel: int, places: int, _extra: int) -> int:
        found = ctypes.cast(places, ctypes.POINTER(ctypes.POINTER(c_uint64)))
        # As the driver lays it out: seven numbers, four bytes that mean nothing, the stream.
        *numbers, _, stream = struct.unpack("7I4sQ", ctypes.string_at(config, 40))
        values = [found[i][0] for i in range(self.count(self.kernels[kernel]))]
        grid, block, shared = tuple(numbers[:3]), tuple(numbers[3:6]), numbers[6]
        fits = all(0 < n <= most for n, most in zip(grid, _GRID, strict=True)) and 0 < block[0] <= _THREADS
        if not fits or shared > self._allowed.get(kernel, _SHARED) or 8 * len(values) > _PARAMETERS:
            return _INVALID_VALUE
        if self._of[kernel] not in self.modules or self._home.get(stream, self.contexts[-1]) != self.contexts[-1]:
            self.queues.violate("a kernel is launched whose module is gone, or in another context's stream")
            return _INVALID_HANDLE
        made = Launched(self.kernels[kernel], grid, block, shared, stream, values, kernel)
        if stream in self.capturing:
            self.capturing[stream].append(made)
            return 0
        self.asked += 1
        return self._ask(made, stream)

    def _ask(self, each: Any, stream: int | None) -> int:
        """Put what a graph has, or a launch, into a queue."""
        queue = self._queue(stream)
        if not isinstance(each, Launched):
            return self.queues.ask(queue, each.run, each.reads, each.writes)
        self.launches.append(each)
        reads, writes = self.touched(each)
        error = 0 if all(self.queues.base(p) is not None for p in (*reads, *writes)) else ILLEGAL_ADDRESS
        error = self.breaks.get(each.kernel, error)

        def run() -> int:
            return error or self.launched(each)

        return self.queues.ask(queue, run, reads, writes, frozenset({self._of[each.function]}))

    def touched(self, _launch: Launched) -> tuple[list[int], list[int]]:
        """The addresses that a launch reads, and those that it writes."""
        return [], []

    def count(self, _kernel: str) -> int:
        """How many parameters a kernel has."""
        return self.parameters

    def launched(self, _launch: Launched) -> int:
        """Run a launch: for a millisecond, here."""
        self.clock += 1
        return 0

"""An NVIDIA GPU through the CUDA driver: its memory pool, loaded functions, launches."""

from __future__ import annotations

import ctypes
import functools
import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakValueDictionary

import numpy.typing as npt

from hybridc.communication.communicator import Begun, Collective, Communicator
from hybridc.errors import DeviceMemoryError
from hybridc.ir.library_matmul import LibraryMatmul
from hybridc.lower.triton.triton_function import Config, TritonFunction
from hybridc.runtime.devices.array import DeviceArray, DeviceMemory
from hybridc.runtime.devices.device import Device, Launch, StreamEvent
from hybridc.runtime.devices.nvidia import driver as cuda
from hybridc.runtime.devices.nvidia.asked import LatestLaunches
from hybridc.runtime.devices.nvidia.compiled import DIVISIBLE, binary, divisible_by
from hybridc.runtime.devices.nvidia.cublas import Cublas, cublas_library
from hybridc.runtime.devices.nvidia.driver import (
    FUNCTIONS,
    Current,
    Driver,
    GpuAttribute,
    LateError,
    LaunchConfig,
    OneGpu,
)
from hybridc.runtime.devices.nvidia.nccl import Nccl, nccl_library
from hybridc.runtime.devices.nvidia.recorder import GraphRecorder

_KEEP_ALL = (1 << 64) - 1  # bytes, of a pool without a limit
# Prepared functions that stay cached, such as fills and copies; and the most that are evicted at once.
_READY, _RETIRED = 256, 64


class Cuda(Device):
    """A GPU, in its primary context, which other libraries share."""

    records = True

    def __init__(self, driver: Driver, index: int = 0) -> None:
        self.driver = driver
        self.index = index
        gpu = driver.pointer("cuDeviceGet", index)
        self.name = driver.name(gpu)
        self.uuid = driver.uuid(gpu)
        self.capability = driver.attribute(GpuAttribute.MAJOR, gpu), driver.attribute(GpuAttribute.MINOR, gpu)
        self.description = driver.describe(gpu)
        context = driver.pointer("cuDevicePrimaryCtxRetain", gpu)
        #: Context manager that makes the GPU's context current on this thread.
        self.current = (OneGpu if driver.count() == 1 else Current)(driver, context)
        self.asked = LatestLaunches()
        self._loaded: WeakValueDictionary[Any, _Loaded] = WeakValueDictionary()
        self._loading = threading.Lock()
        self._often: OrderedDict[Any, _Prepared] = OrderedDict()
        self._retired: deque[Any] = deque()
        self._recorder = GraphRecorder(self)
        self.recording = self._recorder.where
        self._cublas: Cublas | None = None
        self._nccl: Nccl | None = None
        self.prepare_memory(gpu)

    def prepare_memory(self, gpu: int) -> None:
        """Let the pool keep freed memory for later arrays, instead of returning it at every synchronisation."""
        pool = self.driver.pointer("cuDeviceGetDefaultMemPool", gpu)
        self.driver.call("cuMemPoolSetAttribute", pool, cuda.POOL_KEEPS, ctypes.byref(ctypes.c_uint64(_KEEP_ALL)))

    @property
    def stream(self) -> int:
        return 0

    def allocate(self, nbytes: int) -> DeviceMemory:
        stream = self.stream
        try:
            pointer = self.pointer("cuMemAllocAsync", max(1, nbytes), stream)
        except DeviceMemoryError as error:
            raise self.no_memory(nbytes) from error
        return DeviceMemory(pointer, nbytes, _Owned(self, pointer, stream))

    def no_memory(self, nbytes: int) -> DeviceMemoryError:
        """The out-of-memory error."""
        return DeviceMemoryError(f"gpu({self.index}), {self.name}: no {nbytes} bytes of memory are left for an array")

    def call(self, name: str, *arguments: Any) -> None:
        """Call a driver function in this GPU's context.

        Raises:
            DeviceError: it failed, or an earlier launch did: the text lists the candidates.
        """
        self.driver.check()
        with self.current:
            error = self.driver.functions[name](*arguments)
        if error:
            self.failed(name, error)

    def pointer(self, name: str, *arguments: Any) -> int:
        """Call a driver function that writes its result through its first argument; the result."""
        result = FUNCTIONS[name][0]._type_()
        self.call(name, ctypes.byref(result), *arguments)
        return result.value or 0

    def failed(self, name: str, error: int, stream: int | None = None) -> None:
        """Raise for a driver's error code, with the launches that may have caused it; on ``stream``, of a launch."""
        try:
            self.driver.fail(name, error)
        except LateError as late:
            raise self.asked.in_context(late, stream) from late

    def free(self, name: str, *arguments: Any) -> None:
        """Call a function that frees something; errors are ignored, as nothing can be done about them."""
        if self.driver.may_free():
            with self.current:
                self.driver.functions[name](*arguments)

    def upload(self, target: int, source: npt.NDArray[Any]) -> None:
        start = source.ctypes.data
        self.call("cuMemcpyHtoDAsync_v2", target, start, source.nbytes, self.stream)
        # The driver has read pageable memory when the call returns, but not pinned memory, such as PyTorch's.
        if not self.driver.functions["cuPointerGetAttribute"](ctypes.byref(ctypes.c_int()), cuda.MEMORY_TYPE, start):
            self.synchronise()

    def download(self, target: npt.NDArray[Any], source: int) -> None:
        self.call("cuMemcpyDtoHAsync_v2", target.ctypes.data, source, target.nbytes, self.stream)
        self.synchronise()

    def copy(self, target: int, source: int, nbytes: int) -> None:
        self.call("cuMemcpyDtoDAsync_v2", target, source, nbytes, self.stream)

    def memory(self) -> tuple[int, int]:
        free, whole = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(whole))
        return free.value, whole.value

    def synchronise(self) -> None:
        stream = self.stream
        self.call("cuStreamSynchronize", stream)
        self.asked.done(stream)

    def finish(self) -> None:
        with self._recorder.idle():  # no stream may be capturing at a device synchronisation
            count = len(self._retired)
            self.call("cuCtxSynchronize")
            self.asked.done()
            for _ in range(count):
                self._retired.popleft()()

    def event(self) -> CudaEvent:
        return CudaEvent(self)

    def retire(self, let_go: Callable[[], None]) -> None:
        self._retired.append(let_go)

    def prepare(self, function: TritonFunction, config: Config) -> Launch:
        return _Prepared(self, function, config)

    def launch(self, function: TritonFunction, config: Config, pointers: Sequence[int], numbers: Sequence[int]) -> None:
        self.driver.check()  # in a forked process others may have held the lock
        key = (function, config)
        with self._loading:
            prepared = self._often.pop(key, None) or _Prepared(self, function, config)
            self._often[key] = prepared
            if len(self._often) > _READY:
                self._often.popitem(last=False)
        prepared(pointers, numbers)

    def multiply(self, product: LibraryMatmul) -> Callable[[Sequence[int]], None] | None:
        if self._cublas is None:
            library = cublas_library()
            self._cublas = None if library is None else Cublas(self, library)
        return None if self._cublas is None else self._cublas.prepare(product)

    def begin_collective(
        self, ranks: Communicator, array: DeviceArray, collective: Callable[[Communicator, Any], Any]
    ) -> Begun:
        if isinstance(collective, Collective):
            if self._nccl is None:
                self._nccl = Nccl(self, nccl_library())
            begun = self._nccl.begin(ranks, collective, array)
            if begun is not None:
                return begun
        return super().begin_collective(ranks, array, collective)

    def record(self, work: Callable[[], None]) -> Callable[[], None]:
        return self._recorder.record(work)

    def recorded_memory(self, nbytes: int) -> DeviceMemory:
        """Workspace that the launches of the current recording share, one after the other; the recording owns it."""
        return self._recorder.memory(nbytes)

    @property
    def order(self) -> int:
        """The stream that launches go to: the recorder's while this thread records, else the current one."""
        return self.recording.stream or self.stream

    def load(self, function: TritonFunction, config: Config, divisible: int) -> _Loaded:
        """The function loaded on the GPU, shared by all programs that use it."""
        self.driver.check()
        key = (function, config.constants, config.warps, config.stages, divisible)
        if len(self._retired) > _RETIRED and not self.recording.stream:
            self.finish()
        with self._loading:
            loaded = self._loaded.get(key)
            if loaded is None:
                loaded = self._loaded[key] = _Loaded(self, function, config, divisible)
            return loaded


class _Owned:
    """Memory that is freed in stream order: after the work that was enqueued when this object ended."""

    __slots__ = ("_card", "_pointer", "_stream")

    def __init__(self, gpu: Cuda, pointer: int, stream: int) -> None:
        self._card = gpu
        self._pointer = pointer
        self._stream = stream

    def __del__(self) -> None:
        gpu, driver = self._card, self._card.driver
        if driver.usable and not driver.is_ending():  # as ``free``, for the memory of every result
            with gpu.current:
                driver.functions["cuMemFreeAsync"](self._pointer, self._stream)


class CudaEvent(StreamEvent):
    """A CUDA event."""

    def __init__(self, gpu: Cuda) -> None:
        self._card = gpu
        self.handle = gpu.pointer("cuEventCreate", 0)
        weakref.finalize(self, gpu.free, "cuEventDestroy_v2", self.handle).atexit = False

    def record(self, stream: int | None = None) -> None:
        """Record the work of a stream, by default the current one."""
        self._card.call("cuEventRecord", self.handle, self._card.stream if stream is None else stream)

    def hold(self, stream: int) -> None:
        """Make later work of a stream wait for the recorded work."""
        self._card.call("cuStreamWaitEvent", stream, self.handle, 0)

    def wait(self) -> None:
        """Wait for the recorded work."""
        self._card.call("cuEventSynchronize", self.handle)

    def since(self, earlier: StreamEvent) -> float:
        assert isinstance(earlier, CudaEvent)
        self.wait()
        took = ctypes.c_float()
        self._card.call("cuEventElapsedTime", ctypes.byref(took), earlier.handle, self.handle)
        return took.value


class _Prepared:
    """A function with a configuration; specialised on its arguments' divisibility at the first such call."""

    def __init__(self, gpu: Cuda, function: TritonFunction, config: Config) -> None:
        self._card = gpu
        self._function = function
        self._config = config
        self._ready: dict[int, _Ready] = {}
        # The scalars of the last call, and its launch if all addresses are divisible.
        self._last: tuple[Sequence[int], _Ready] | None = None

    def __call__(self, pointers: Sequence[int], numbers: Sequence[int]) -> None:
        together = 0
        for pointer in pointers:
            together |= pointer
        last = self._last
        if last is not None and last[0] is numbers and together % DIVISIBLE == 0:
            last[1](pointers, numbers)
        elif 0 not in self._config.grid:
            ready = self._for(pointers, numbers)
            if together % DIVISIBLE == 0:
                self._last = numbers, ready
            ready(pointers, numbers)

    def _for(self, pointers: Sequence[int], numbers: Sequence[int]) -> _Ready:
        divisible = divisible_by((*pointers, *numbers))
        ready = self._ready.get(divisible)
        if ready is None:
            loaded = self._card.load(self._function, self._config, divisible)
            ready = self._ready[divisible] = _Ready(self._card, self._function, loaded, self._config.grid)
        return ready


class _Ready:
    """A launch of a loaded function, with the parameter buffer that the driver reads."""

    def __init__(self, gpu: Cuda, function: TritonFunction, loaded: _Loaded, grid: tuple[int, int, int]) -> None:
        self._card = gpu
        self._function = function
        self._loaded = loaded
        self._launch: Any = gpu.driver.functions["cuLaunchKernelEx"]
        self._config = LaunchConfig(grid, (loaded.warps * gpu.description.warp, 1, 1), loaded.shared)
        self._where = ctypes.addressof(self._config)
        # A 4-byte integer is the first half of its 8 bytes (little endian).
        self._values = (ctypes.c_uint64 * loaded.parameters)()
        start = ctypes.addressof(self._values)
        self._places = (ctypes.c_void_p * loaded.parameters)(*[start + 8 * i for i in range(loaded.parameters)])
        self._using = threading.Lock()

    def __call__(self, pointers: Sequence[int], numbers: Sequence[int]) -> None:
        gpu = self._card
        with gpu.current, self._using:  # the driver has copied the values when it returns
            count = len(pointers)
            self._values[:count] = pointers
            self._values[count : count + len(numbers)] = numbers
            self._config.stream = stream = gpu.recording.stream or gpu.stream
            error = self._launch(self._where, self._loaded.kernel, self._places, None)
        gpu.asked.of[stream].append(self._function)
        if error:
            gpu.failed("cuLaunchKernelEx", error, stream)


class _Loaded:
    """A loaded module of machine code."""

    def __init__(self, gpu: Cuda, function: TritonFunction, config: Config, divisible: int) -> None:
        code = binary(function, config, gpu.capability, divisible)
        most = gpu.description.shared
        if code.shared > most:
            raise DeviceMemoryError(
                f"{function.name} ({config}) needs {code.shared} bytes of shared memory; {gpu.name} has {most}"
            )
        module = gpu.pointer("cuModuleLoadData", code.code)
        # A module is unloaded only when no launch of it can be pending.
        weakref.finalize(self, gpu.retire, functools.partial(gpu.free, "cuModuleUnload", module)).atexit = False
        self.kernel = gpu.pointer("cuModuleGetFunction", module, code.entry.encode())
        self.warps, self.shared, self.parameters = code.warps, code.shared, code.parameters
        if code.shared > gpu.description.granted:
            gpu.call("cuFuncSetAttribute", self.kernel, cuda.FUNCTION_SHARED_MEMORY, code.shared)

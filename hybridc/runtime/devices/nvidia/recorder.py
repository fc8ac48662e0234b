"""CUDA graphs: launches captured on a stream of our own, and replayed on any stream at once."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Generator
from contextlib import contextmanager
from ctypes import byref, c_void_p
from typing import TYPE_CHECKING

from hybridc.runtime.devices.nvidia.driver import NON_BLOCKING, RELAXED

if TYPE_CHECKING:
    from hybridc.runtime.devices.array import DeviceMemory
    from hybridc.runtime.devices.nvidia.asked import Launched
    from hybridc.runtime.devices.nvidia.cuda import Cuda


class _Where(threading.local):
    """The stream that captures what this thread launches, 0 if none does; and what memory the recording has."""

    stream = 0
    memory: tuple[DeviceMemory, ...] = ()


class GraphRecorder:
    """Captures on one GPU, by one thread at a time.

    Other libraries' streams are not used: the default stream cannot capture, and a shared one may get foreign work
    while it captures.
    """

    def __init__(self, gpu: Cuda) -> None:
        self._card = gpu
        self.where = _Where()
        self._using = threading.Lock()
        self._stream = 0

    def memory(self, nbytes: int) -> DeviceMemory:
        """Workspace of the current recording, which its launches share one after the other.

        It is allocated on the current stream, which does not capture.
        """
        buffer = next((buffer for buffer in self.where.memory if buffer.nbytes >= nbytes), None)
        if buffer is None:
            buffer = self._card.allocate(nbytes)
            self.where.memory += (buffer,)
        return buffer

    @contextmanager
    def idle(self) -> Generator[None]:
        """A context manager within which nothing is captured."""
        self._card.driver.check()
        with self._using:
            yield

    def record(self, work: Callable[[], None]) -> Recorded:
        """The launches of ``work``, captured; calling the result replays them.

        Raises:
            DeviceError: the capture failed.
        """
        gpu = self._card
        gpu.driver.check()  # in a forked process others may have held the lock
        with gpu.current, self._using:
            if not self._stream:
                self._stream = gpu.pointer("cuStreamCreate", NON_BLOCKING)
            gpu.call("cuStreamBeginCapture_v2", self._stream, RELAXED)
            self.where.stream = self._stream
            try:
                work()
            except BaseException:  # the capture must end in any case
                gpu.call("cuGraphDestroy", self._end())
                gpu.asked.done(self._stream)
                raise
            memory = self.where.memory
            graph = self._end()
            return Recorded(gpu, graph, (work, memory), gpu.asked.done(self._stream))

    def _end(self) -> int:
        """End the capture; the CUDA graph."""
        self.where.stream = 0
        self.where.memory = ()
        graph = c_void_p()
        self._card.call("cuStreamEndCapture", self._stream, byref(graph))
        return graph.value or 0


class Recorded:
    """An instantiated CUDA graph, launched on the stream that is current when it is called.

    It keeps alive what its launches use: functions and memory.
    """

    def __init__(self, gpu: Cuda, graph: int, kept: object, launched: tuple[Launched, ...]) -> None:
        self._card = gpu
        self._kept = kept
        self._launched = launched
        try:
            self._graph = gpu.pointer("cuGraphInstantiateWithFlags", graph, 0)
        finally:
            gpu.call("cuGraphDestroy", graph)
        weakref.finalize(self, gpu.free, "cuGraphExecDestroy", self._graph).atexit = False
        self._launch = gpu.driver.functions["cuGraphLaunch"]

    def __call__(self) -> None:
        gpu, stream = self._card, self._card.stream
        with gpu.current:
            error = self._launch(self._graph, stream)
        gpu.asked.of[stream].append(self._launched)
        if error:
            gpu.failed("cuGraphLaunch", error, stream)

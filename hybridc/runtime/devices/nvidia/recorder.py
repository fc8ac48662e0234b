"""Launches recorded as CUDA graphs: a stream of the card's own captures them, any stream then runs them all at once."""

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
    """Records on one card, one thread at a time.

    The streams of libraries are no part of it: the default one cannot capture, and in others nothing of anybody else's
    may be captured.
    """

    def __init__(self, card: Cuda) -> None:
        self._card = card
        self.where = _Where()
        self._using = threading.Lock()
        self._stream = 0

    def memory(self, nbytes: int) -> DeviceMemory:
        """Memory of the recording at hand: what it launches runs one after the other, and shares it.

        It is asked for in the current stream, which does not capture.
        """
        found = next((buffer for buffer in self.where.memory if buffer.nbytes >= nbytes), None)
        if found is None:
            found = self._card.allocate(nbytes)
            self.where.memory += (found,)
        return found

    @contextmanager
    def idle(self) -> Generator[None]:
        """Inside, nothing is recorded."""
        self._card.driver.check()
        with self._using:
            yield

    def record(self, work: Callable[[], None]) -> Recorded:
        """The launches of ``work``, which run when what is given back is called.

        Raises:
            DeviceError: the driver refused.
        """
        card = self._card
        card.driver.check()  # in a forked process others may have held the lock
        with card.current, self._using:
            if not self._stream:
                self._stream = card.pointer("cuStreamCreate", NON_BLOCKING)
            card.call("cuStreamBeginCapture_v2", self._stream, RELAXED)
            self.where.stream = self._stream
            try:
                work()
            except BaseException:  # whatever happened, the stream must not go on capturing
                card.call("cuGraphDestroy", self._end())
                card.asked.done(self._stream)
                raise
            memory = self.where.memory
            graph = self._end()
            return Recorded(card, graph, (work, memory), card.asked.done(self._stream))

    def _end(self) -> int:
        """The graph of what was captured."""
        self.where.stream = 0
        self.where.memory = ()
        graph = c_void_p()
        self._card.call("cuStreamEndCapture", self._stream, byref(graph))
        return graph.value or 0


class Recorded:
    """Launches that the card knows as one graph, which goes to whatever stream is current when it is called.

    It keeps what its launches need: functions and memory stay on the card as long as it does.
    """

    def __init__(self, card: Cuda, graph: int, kept: object, launched: tuple[Launched, ...]) -> None:
        self._card = card
        self._kept = kept
        self._launched = launched
        try:
            self._graph = card.pointer("cuGraphInstantiateWithFlags", graph, 0)
        finally:
            card.call("cuGraphDestroy", graph)
        weakref.finalize(self, card.free, "cuGraphExecDestroy", self._graph).atexit = False
        self._launch = card.driver.functions["cuGraphLaunch"]

    def __call__(self) -> None:
        card, stream = self._card, self._card.stream
        with card.current:
            error = self._launch(self._graph, stream)
        card.asked.of[stream].append(self._launched)
        if error:
            card.failed("cuGraphLaunch", error, stream)

"""One peer in its own process: requests arrive as lines of JSON on stdin, each is answered by one line on stdout.

``python -m benchmarks.peers.serve PEER MODE THREADS [BORN]`` runs in the peer's environment; ``client.py`` starts it.
With BORN, the time at which it did, it is *lean*: what a first call imports is left to that.

| request | does | answer |
|---|---|---|
| (the start) | imports the framework | version, seconds of the import |
| prepare | makes the program of a task that was written with ``numpy.savez`` | whether the peer has this workload |
| first | calls it for the first time, writes the outputs with ``numpy.savez`` | seconds, also since BORN, peak MiB |
| further | the same with other data, which ``numpy.savez`` wrote | the same |
| later | calls it three times with the data of the call before | the least seconds, of the clock and the processor |
| block | calls it for about so many seconds | the median seconds of a call, or the least |
| memory | calls it ten times | peak MiB |
| count | counts kernels of a network of ``counted_networks.py``, writes its results by name | what ``Counts`` has |

Peaks are of the resident memory above its level after the import. Seconds of the processor are those of all threads,
and of child processes that ended: compilers. An exception is answered by its text.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import statistics
import sys
import time
import traceback
from typing import Any

from benchmarks import memory, timing
from benchmarks.peers.peer import Arrays, Peer, Program, Task

LATER = 3


class Session:
    """The requests, as methods."""

    def __init__(self, peer: str, mode: str, threads: int, born: str) -> None:
        importlib.import_module("numpy")  # every peer needs it
        start = time.perf_counter()
        self.peer: Peer = importlib.import_module(f"benchmarks.peers.{peer}_peer").open_peer(mode, threads)
        self.born = float(born) if born else start
        if not born:
            self.peer.load()
        self.imported = time.perf_counter() - start
        self.level = memory.status("VmRSS")
        self.made: Program | None = None
        self.data: tuple[Any, ...] = ()

    def started(self) -> dict[str, Any]:
        """What the process says when it is ready."""
        return {"version": self.peer.version, "import": self.imported}

    def prepare(self, inputs: str, **settings: Any) -> dict[str, Any]:
        self.made = self.peer.program(Task(arrays=read(inputs), **settings))
        return {"made": self.made is not None}

    @property
    def program(self) -> Program:
        """What was prepared."""
        if self.made is None:
            raise RuntimeError("nothing was prepared")
        return self.made

    def first(self, outputs: str) -> dict[str, Any]:
        return self._call(outputs)

    def further(self, inputs: str, outputs: str) -> dict[str, Any]:
        return self._call(outputs, *(self.peer.array(value) for value in read(inputs).values()))

    def later(self) -> dict[str, Any]:
        seconds, processor = zip(*(self._timed()[1:] for _ in range(LATER)), strict=True)
        return {"seconds": min(seconds), "processor": min(processor)}

    def _timed(self) -> tuple[Any, float, float]:
        """The result of a call, and its seconds of the clock and of the processor."""
        before, start = processor_seconds(), time.perf_counter()
        result = self.program.call(*self.data)
        seconds = time.perf_counter() - start
        return result, seconds, processor_seconds() - before

    def _call(self, outputs: str, *data: Any) -> dict[str, Any]:
        import numpy as np

        gc.collect()
        memory.reset_peak()
        self.data = data
        result, seconds, processor = self._timed()
        whole = {"all seconds": time.perf_counter() - self.born, "all processor": processor_seconds()}
        peak = memory.peak() - self.level
        np.savez(outputs, *self.program.fetch(result))
        return {"seconds": seconds, "processor": processor, "peak": peak, **whole}

    def block(self, seconds: float, least: bool = False) -> dict[str, Any]:
        gc.collect()
        gc.disable()
        try:
            return {"seconds": timing.block(self.program.call, seconds, reduce=min if least else statistics.median)}
        finally:
            gc.enable()

    def memory(self) -> dict[str, Any]:
        gc.collect()
        memory.reset_peak()
        for _ in range(memory.STEPS):
            self.program.call()
        return {"peak": memory.peak() - self.level}

    def count(self, inputs: str, outputs: str, **settings: Any) -> dict[str, Any]:
        import numpy as np

        counts = self.peer.counts(Task(arrays=read(inputs), **settings))
        np.savez(outputs, **counts.outputs)  # pyright: ignore[reportArgumentType]
        return {name: value for name, value in vars(counts).items() if name != "outputs"}


def processor_seconds() -> float:
    """What this process, with its children that ended, has taken of the processor."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def read(inputs: str) -> Arrays:
    """Arrays that were written by name."""
    import numpy as np

    with np.load(inputs) as file:
        return {name: file[name] for name in file.files}


def pin(threads: int) -> None:
    """Leave this process so many cores, if it has more: some thread pools are as large as that."""
    cores = sorted(os.sched_getaffinity(0))
    if threads < len(cores):
        os.sched_setaffinity(0, cores[-threads:])


def main(peer: str, mode: str, threads: str, born: str = "") -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a framework prints does not meet our answers
    pin(int(threads))

    def answer(make: Any, given: dict[str, Any]) -> Any:
        try:
            said = make(**given)
        except Exception as error:
            traceback.print_exc()
            said = {"error": f"{type(error).__name__}: {error}"[:300]}
        answers.write(json.dumps(said) + "\n")

    session: list[Session] = []

    def start() -> dict[str, Any]:
        session.append(Session(peer, mode, int(threads), born))
        return session[0].started()

    answer(start, {})
    for line in sys.stdin:
        request = json.loads(line)
        answer(getattr(session[0], request.pop("do")), request)


if __name__ == "__main__":
    main(*sys.argv[1:])

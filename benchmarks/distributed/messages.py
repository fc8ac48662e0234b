"""One rank of the comparison of all-reduce with MPI's own call, in turns, for messages of 4 bytes to 64 MiB."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

if __package__ is None:
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from hybridc.communication import communicator

SIZES = [4 << (2 * i) for i in range(13)]


def main() -> None:
    """Print a line of JSON for each size, on rank 0."""
    ranks = communicator()
    from mpi4py import MPI

    world: Any = MPI.COMM_WORLD
    for size in SIZES:
        array = np.ones(size // 4, np.float32)

        def own(array: Any = array) -> None:
            ranks.allreduce(array)

        def mpi(array: Any = array) -> None:
            world.Allreduce(MPI.IN_PLACE, array)

        repeats = max(5, min(300, (1 << 26) // size))
        found: dict[str, list[float]] = {"hybridc": [], "mpi": []}
        for repeat in range(repeats + 3):
            for name, call in (("hybridc", own), ("mpi", mpi)):
                array[:] = 0
                seconds = _timed(world, call)
                if repeat >= 3:
                    found[name].append(seconds)
        if ranks.rank == 0:
            times = {name: statistics.median(each) * 1e6 for name, each in found.items()}
            print(json.dumps({"bytes": size, **times}), flush=True)


def _timed(world: Any, call: Callable[[], None]) -> float:
    world.Barrier()
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()

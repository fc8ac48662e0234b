"""One rank of the comparison of all-reduce with MPI's own call, in turns, for messages of 4 bytes to 64 MiB.

``messages.py [WAY [LARGEST [INTERFACE]]]``: ``WAY`` is ``hybridc``, beside MPI, or ``gloo``, of PyTorch; ``LARGEST``
bytes of a message; of an interface the bytes are counted that it sends for each call. Times are microseconds, medians
and the fastest, of a call; short ones are timed several in a row, as ranks do not begin at the same time.
"""

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

SIZES = [4 << (2 * i) for i in range(13)]
# Calls in a row: as many as send so many bytes together, and no more than these; and all calls of a size.
_BYTES, _LONGEST_ROW, _CALLS = 1 << 18, 20, 300


def main() -> None:
    """Print a line of JSON for each size, on rank 0."""
    way, largest, interface = (sys.argv[1:] + ["hybridc", str(SIZES[-1]), ""][len(sys.argv) - 1 :])[:3]
    if way == "hybridc":  # MPI as hybridc starts it
        from hybridc.communication import communicator

        communicator()
    from mpi4py import MPI

    world: Any = MPI.COMM_WORLD
    make = _gloo if way == "gloo" else _hybridc
    for size in (size for size in SIZES if size <= int(largest)):
        array = np.ones(size // 4, np.float32)
        calls = make(array)
        row_of = max(1, min(_LONGEST_ROW, _BYTES // size))
        repeats = max(5, min(_CALLS // row_of, (1 << 26) // size))
        found: dict[str, list[float]] = {name: [] for name in calls}
        before = 0
        for repeat in range(repeats + 3):
            if repeat == 3:
                before = _sent(interface)
            for name, call in calls.items():
                array[:] = 0
                seconds = _timed(world, call, row_of)
                if repeat >= 3:
                    found[name].append(seconds)
        sent = (_sent(interface) - before) / repeats / row_of / len(calls)
        if world.rank == 0:
            row: dict[str, float] = {"bytes": size}
            row |= {name: statistics.median(each) * 1e6 for name, each in found.items()}
            row |= {f"{name} fastest": min(each) * 1e6 for name, each in found.items()}
            print(json.dumps(row | ({"sent": sent} if interface else {})), flush=True)
    if way == "gloo":
        import torch

        torch.distributed.destroy_process_group()


def _hybridc(array: Any) -> dict[str, Callable[[], None]]:
    from mpi4py import MPI

    from hybridc.communication import communicator

    ranks = communicator()
    return {
        "hybridc": lambda: ranks.allreduce(array),
        "mpi": lambda: MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, array),
    }


def _gloo(array: Any) -> dict[str, Callable[[], None]]:
    import torch
    from mpi4py import MPI

    if not torch.distributed.is_initialized():
        world = MPI.COMM_WORLD
        torch.distributed.init_process_group("gloo", rank=world.rank, world_size=world.size)
    tensor = torch.from_numpy(array)
    return {"gloo": lambda: torch.distributed.all_reduce(tensor)}


def _sent(interface: str) -> int:
    """Bytes that an interface has sent."""
    return int(Path(f"/sys/class/net/{interface}/statistics/tx_bytes").read_text()) if interface else 0


def _timed(world: Any, call: Callable[[], None], count: int) -> float:
    """Seconds of a call, of so many in a row."""
    world.Barrier()
    begin = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - begin) / count


if __name__ == "__main__":
    main()

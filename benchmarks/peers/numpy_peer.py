"""Plain NumPy in float32: the definition of each workload, run as it is written."""

from __future__ import annotations

import numpy as np

from benchmarks.peers.peer import Peer, Program, Task, as_list


class NumPy(Peer):
    """``Workload.reference`` on the inputs."""

    def __init__(self) -> None:
        from benchmarks.images import EVERY

        self.version = np.__version__
        self.workloads = EVERY

    def program(self, task: Task) -> Program:
        reference = self.workloads[task.name].reference
        return Program(lambda: reference(task.arrays), as_list)


def open_peer(mode: str, threads: int) -> Peer:
    return NumPy()

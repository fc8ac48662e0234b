"""Plain NumPy in float32: the definition of each workload, run as it is written."""

from __future__ import annotations

import numpy as np

from benchmarks.peers.peer import Peer, Program, Task, as_list


class NumPy(Peer):
    """``Workload.reference`` on the inputs."""

    def __init__(self) -> None:
        self.version = np.__version__

    def array(self, value: np.ndarray) -> np.ndarray:
        return value

    def program(self, task: Task) -> Program:
        reference, arrays = self.workload(task.name).reference, task.arrays
        return Program(lambda *data: reference(arrays | dict(zip(arrays, data))), as_list)


def open_peer(mode: str, threads: int) -> Peer:
    return NumPy()

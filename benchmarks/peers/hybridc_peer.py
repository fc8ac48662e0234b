"""hybridc itself, hybridized; the mode is the target, which ``HYBRIDC_TARGET`` has told the library."""

from __future__ import annotations

import importlib

import hybridc as mx
from benchmarks.peers.peer import Peer, Program, Task
from hybridc.options import OPTIONS


class Hybridc(Peer):
    """The networks of ``benchmarks/workloads.py``."""

    def __init__(self, target: str) -> None:
        importlib.import_module("hybridc.stages")  # importing the compiler is no part of the first call
        from benchmarks.workloads import WORKLOADS

        if target != OPTIONS.target:
            raise RuntimeError(f"this hybridc compiles for {OPTIONS.target}, not for {target}")
        self.version = mx.__version__
        self.workloads = WORKLOADS

    def program(self, task: Task) -> Program:
        arrays = {name: mx.nd.array(value, dtype="float32") for name, value in task.arrays.items()}
        made = self.workloads[task.name].network(arrays, True)
        return Program(made.call, made.fetch)


def open_peer(mode: str, threads: int) -> Peer:
    return Hybridc(mode)

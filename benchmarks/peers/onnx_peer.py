"""ONNX Runtime, a session for each workload."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnxruntime  # pyright: ignore[reportMissingImports]

from benchmarks.peers.onnx_graphs import OnnxPeer
from benchmarks.peers.peer import Arrays, Peer


class OnnxRuntime(OnnxPeer):
    """On the processor, operators one after the other."""

    def loaded(self, model: bytes, feeds: Arrays) -> Callable[[], list[np.ndarray]]:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.threads
        options.inter_op_num_threads = 1
        run = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run
        return lambda: run(None, feeds)


def open_peer(mode: str, threads: int) -> Peer:
    return OnnxRuntime(onnxruntime.__version__, threads)

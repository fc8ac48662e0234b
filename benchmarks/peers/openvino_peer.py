"""OpenVINO, a compiled model for each workload, in float32 and for the shortest time of a call."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import openvino  # pyright: ignore[reportMissingImports]

from benchmarks.peers.onnx_graphs import OnnxPeer
from benchmarks.peers.peer import Arrays, Peer

RECURRENT = (b"LSTM", b"GRU")  # operators that give wrong results where a model is read from OpenVINO's cache (2026.4)


class OpenVino(OnnxPeer):
    """On the processor; what it compiled is kept where the other peers keep theirs."""

    def loaded(self, model: bytes, feeds: Arrays) -> Callable[[], list[np.ndarray]]:
        core = openvino.Core()
        settings = {
            "INFERENCE_NUM_THREADS": self.threads,
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": "f32",
        }
        if not any(kind in model for kind in RECURRENT):
            settings["CACHE_DIR"] = os.environ["JAX_COMPILATION_CACHE_DIR"]
        request = core.compile_model(core.read_model(model), "CPU", settings).create_infer_request()
        given = list(feeds.values())
        return lambda: [np.array(y) for y in request.infer(given, share_inputs=True, share_outputs=True).values()]


def open_peer(mode: str, threads: int) -> Peer:
    return OpenVino(openvino.__version__, threads)

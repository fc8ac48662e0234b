"""MNN, a module for each workload, with its high precision."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import MNN  # pyright: ignore[reportMissingImports]
import numpy as np
import onnx  # pyright: ignore[reportMissingImports]
from _tools import mnnconvert  # pyright: ignore[reportMissingImports]
from MNN import expr, nn  # pyright: ignore[reportMissingImports]

from benchmarks.peers.onnx_graphs import OnnxPeer
from benchmarks.peers.peer import Arrays, Peer


class Mnn(OnnxPeer):
    """On the processor; the file that a model is converted to is kept where the other peers keep theirs."""

    def loaded(self, model: bytes, feeds: Arrays) -> Callable[[], list[np.ndarray]]:
        graph = onnx.shape_inference.infer_shapes(onnx.load_from_string(model)).graph
        settings = {"backend": "CPU", "precision": "high", "numThread": self.threads}
        manager = nn.create_runtime_manager((settings,))
        shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in graph.output}
        run = nn.load_module_from_file(str(converted(model)), list(feeds), list(shapes), runtime_manager=manager)
        given = [
            expr.const(x, x.shape, expr.NCHW)
            if x.dtype == np.float32
            else expr.const(x.astype(np.int32), x.shape, expr.NCHW, expr.int)
            for x in feeds.values()
        ]

        def call() -> list[np.ndarray]:  # a result of a convolution along one axis has one more axis
            made = [expr.convert(y, expr.NCHW).read() for y in run.forward(given)]
            return [np.array(y).reshape(shape) for y, shape in zip(made, shapes.values(), strict=True)]

        return call


def converted(model: bytes) -> Path:
    """The file of a model in MNN's own format."""
    path = Path(os.environ["JAX_COMPILATION_CACHE_DIR"]) / f"{hashlib.sha256(model).hexdigest()[:32]}.mnn"
    if not path.exists():
        with tempfile.TemporaryDirectory() as folder:
            source, made = Path(folder, "model.onnx"), Path(folder, "model.mnn")
            source.write_bytes(model)
            mnnconvert(["mnnconvert", "-f", "ONNX", "--modelFile", str(source), "--MNNModel", str(made)])
            path.write_bytes(made.read_bytes())
    return path


def open_peer(mode: str, threads: int) -> Peer:
    return Mnn(MNN.version(), threads)

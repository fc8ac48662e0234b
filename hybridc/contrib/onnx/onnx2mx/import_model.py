"""An ONNX file as a symbol with its arrays, and what a file declares."""

from __future__ import annotations

from typing import Any

from hybridc import onnx


def import_model(model_file: Any) -> Any:
    """The symbol, the arguments and the auxiliary states of a file, ``model_file``: ``mx.onnx.import_model``."""
    return onnx.import_model(model_file)


def get_model_metadata(model_file: Any) -> Any:
    """Names and shapes of inputs and outputs of a file, ``model_file``: ``mx.onnx.get_model_metadata``."""
    return onnx.get_model_metadata(model_file)

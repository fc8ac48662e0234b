"""``mx.contrib.onnx``: MXNet's first functions of ONNX; those of today are in ``mx.onnx``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hybridc.ground.absent import absent as _absent
from hybridc.ground.hooks import HOOKS

__all__ = ["export_model"]

# ``from … import name`` asks for names as it asks a package, so that what there is not is told in our words.
__path__: list[str] = []


def export_model(
    sym: Any,
    params: Any,
    input_shape: Sequence[tuple[int, ...]] | None = None,
    input_type: Any = np.float32,
    onnx_file_path: str | os.PathLike[str] = "model.onnx",
    verbose: bool = False,
    **more: Any,
) -> Any:
    """``mx.onnx.export_model`` with its old names of arguments: ``input_shape`` and ``input_type``."""
    return HOOKS.onnx().export_model(sym, params, input_shape, input_type, onnx_file_path, verbose, **more)


if not TYPE_CHECKING:  # what there is not is an error of the type checker

    def __getattr__(name: str) -> Any:
        raise _absent("mx.contrib.onnx", name, "attribute", __all__)

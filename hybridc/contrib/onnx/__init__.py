"""``mx.contrib.onnx``: MXNet's first functions of ONNX; those of today are in :mod:`hybridc.onnx`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hybridc import onnx
from hybridc.contrib.onnx.onnx2mx.import_model import get_model_metadata, import_model
from hybridc.contrib.onnx.onnx2mx.import_model import get_model_metadata as get_model_metadata_
from hybridc.contrib.onnx.onnx2mx.import_model import import_model as import_model_
from hybridc.contrib.onnx.onnx2mx.import_to_gluon import import_to_gluon
from hybridc.contrib.onnx.onnx2mx.import_to_gluon import import_to_gluon as import_to_gluon_
from hybridc.ground.absent import absent as _absent

__all__ = [
    "export_model",
    "get_model_metadata",
    "get_model_metadata_",
    "import_model",
    "import_model_",
    "import_to_gluon",
    "import_to_gluon_",
]


def export_model(
    sym: Any,
    params: Any,
    input_shape: Sequence[tuple[int, ...]] | None = None,
    input_type: Any = np.float32,
    onnx_file_path: str | os.PathLike[str] = "model.onnx",
    verbose: bool = False,
    **more: Any,
) -> Any:
    """``mx.onnx.export_model`` with its old names of arguments: ``input_shape`` and ``input_type``.

    Parameters
    ----------
    sym, params:
        As for ``mx.onnx.export_model``.
    input_shape:
        The shapes of the inputs that are no parameters, in their order.
    input_type:
        Their dtypes in the same order, or one that is that of all.
    onnx_file_path:
        The file to write.
    verbose:
        Whether the log tells how many nodes were written.
    """
    return onnx.export_model(sym, params, input_shape, input_type, onnx_file_path, verbose, **more)


if not TYPE_CHECKING:  # what there is not is an error of the type checker

    def __getattr__(name: str) -> Any:
        raise _absent("mx.contrib.onnx", name, "attribute", __all__)

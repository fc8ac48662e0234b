"""``mx.contrib.onnx``: ONNX files as networks, by the names of MXNet 1.9.1; :mod:`hybridc.onnx` has more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hybridc.contrib.onnx.onnx2mx.import_model import get_model_metadata, import_model
from hybridc.contrib.onnx.onnx2mx.import_model import get_model_metadata as get_model_metadata_
from hybridc.contrib.onnx.onnx2mx.import_model import import_model as import_model_
from hybridc.contrib.onnx.onnx2mx.import_to_gluon import import_to_gluon
from hybridc.contrib.onnx.onnx2mx.import_to_gluon import import_to_gluon as import_to_gluon_
from hybridc.ground.absent import absent as _absent

__all__ = [
    "get_model_metadata",
    "get_model_metadata_",
    "import_model",
    "import_model_",
    "import_to_gluon",
    "import_to_gluon_",
]

if not TYPE_CHECKING:  # what there is not is an error of the type checker

    def __getattr__(name: str) -> Any:
        raise _absent("mx.contrib.onnx", name, "attribute", __all__)

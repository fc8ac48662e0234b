"""``mx.onnx``: networks as ONNX files, and ONNX files as networks.

``pip install hybridc[onnx]`` brings the package that it needs.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from hybridc.errors import MissingPackageError
from hybridc.ground.absent import absent as _absent

if TYPE_CHECKING:
    from hybridc.interchange.onnx.reading.as_symbol import (
        get_model_metadata,
        import_model,
        import_to_gluon,
        model_of_graph,
    )
    from hybridc.interchange.onnx.reading.onnx_block import OnnxBlock
    from hybridc.interchange.onnx.reading.opened import load
    from hybridc.interchange.onnx.writing import mx2onnx
    from hybridc.interchange.onnx.writing.mx2onnx import export_block, export_model, get_operator_support
    from hybridc.onnx import backend

__all__ = [
    "OnnxBlock",
    "backend",
    "export_block",
    "export_model",
    "get_model_metadata",
    "get_operator_support",
    "import_model",
    "import_to_gluon",
    "load",
    "model_of_graph",
    "mx2onnx",
]

# What needs the package onnx, and the modules that have it.
_READING = "hybridc.interchange.onnx.reading"
_WRITING = "hybridc.interchange.onnx.writing"
_MODULES = {"backend": "hybridc.onnx.backend", "mx2onnx": f"{_WRITING}.mx2onnx"}
_LATE = {
    "OnnxBlock": f"{_READING}.onnx_block",
    "export_block": f"{_WRITING}.mx2onnx",
    "export_model": f"{_WRITING}.mx2onnx",
    "get_model_metadata": f"{_READING}.as_symbol",
    "get_operator_support": f"{_WRITING}.mx2onnx",
    "import_model": f"{_READING}.as_symbol",
    "import_to_gluon": f"{_READING}.as_symbol",
    "load": f"{_READING}.opened",
    "model_of_graph": f"{_READING}.as_symbol",
}


if not TYPE_CHECKING:  # what there is not is an error of the type checker

    def __getattr__(name: str) -> Any:
        if name not in _LATE and name not in _MODULES:
            raise _absent("mx.onnx", name, "attribute", __all__)
        try:
            module = importlib.import_module(_LATE.get(name) or _MODULES[name])
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "onnx":
                raise
            raise MissingPackageError(
                f"hybridc.onnx.{name} needs the package onnx: pip install 'hybridc[onnx]'"
            ) from error
        found = module if name in _MODULES else getattr(module, name)
        globals()[name] = found
        return found

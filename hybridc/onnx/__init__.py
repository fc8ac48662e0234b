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
    from hybridc.onnx import backend

__all__ = ["OnnxBlock", "backend", "get_model_metadata", "import_model", "import_to_gluon", "load", "model_of_graph"]

# What needs the package onnx, and the modules that have it.
_READING = "hybridc.interchange.onnx.reading"
_LATE = {
    "OnnxBlock": f"{_READING}.onnx_block",
    "get_model_metadata": f"{_READING}.as_symbol",
    "import_model": f"{_READING}.as_symbol",
    "import_to_gluon": f"{_READING}.as_symbol",
    "load": f"{_READING}.opened",
    "model_of_graph": f"{_READING}.as_symbol",
}


if not TYPE_CHECKING:  # what there is not is an error of the type checker

    def __getattr__(name: str) -> Any:
        if name not in _LATE and name != "backend":
            raise _absent("mx.onnx", name, "attribute", __all__)
        try:
            module = importlib.import_module(_LATE.get(name, f"{__name__}.{name}"))
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "onnx":
                raise
            raise MissingPackageError(
                f"hybridc.onnx.{name} needs the package onnx: pip install 'hybridc[onnx]'"
            ) from error
        found = module if name == "backend" else getattr(module, name)
        globals()[name] = found
        return found

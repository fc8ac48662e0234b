"""The package ``onnx``, which not every installation has: it is imported when a model is read or written."""

from __future__ import annotations

import functools
import importlib
from typing import Any

from hybridc.errors import MissingPackageError


@functools.cache
def onnx_package(module: str = "onnx") -> Any:
    """``onnx`` or one of its modules; MissingPackageError if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingPackageError(
            "models of ONNX are read and written by the package onnx: pip install 'hybridc[onnx]'"
        ) from error

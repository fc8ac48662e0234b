"""``mx.contrib``: what MXNet keeps apart as experimental.

Operators, the older interface of gradients, texts, mixed precision, quantization, and callbacks for TensorBoard.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hybridc.contrib import amp, autograd, io, ndarray, quantization, svrg_optimization, symbol, tensorboard, text
from hybridc.contrib import ndarray as nd
from hybridc.contrib import quantization as quant
from hybridc.contrib import symbol as sym
from hybridc.ground.absent import absent as _absent
from hybridc.ground.hooks import HOOKS

__all__ = [
    "amp",
    "autograd",
    "io",
    "nd",
    "ndarray",
    "quant",
    "quantization",
    "svrg_optimization",
    "sym",
    "symbol",
    "tensorboard",
    "text",
]


if not TYPE_CHECKING:  # what there is not is an error of the type checker

    def __getattr__(name: str) -> Any:
        if name == "onnx":
            return HOOKS.contrib_onnx()
        raise _absent("mx.contrib", name, "attribute", __all__)

"""``mx.gluon.nn``: layers. Each is a block: make it, ``initialize()`` it, and call it with arrays.

Shapes are those of a batch: N examples, C channels (or features), and the axes of space, D depth, H height, W width.
Train mode is that of calls inside ``with autograd.record():``. Where the size of an input is not given, as ``in_units``
of a Dense, it follows from the first call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hybridc.gluon.block import Block, HybridBlock, SymbolBlock
from hybridc.gluon.nn.activations import ELU, GELU, SELU, Activation, LeakyReLU, PReLU, Swish
from hybridc.gluon.nn.basic_layers import (
    Dense,
    Dropout,
    Embedding,
    Flatten,
    HybridLambda,
    HybridSequential,
    Lambda,
    LayerNorm,
    Sequential,
)
from hybridc.gluon.nn.batch_norm_layer import BatchNorm, BatchNormReLU
from hybridc.gluon.nn.concurrent import Concurrent, HybridConcurrent, Identity
from hybridc.gluon.nn.conv_layers import (
    AvgPool1D,
    AvgPool2D,
    AvgPool3D,
    Conv1D,
    Conv1DTranspose,
    Conv2D,
    Conv2DTranspose,
    Conv3D,
    Conv3DTranspose,
    GlobalAvgPool1D,
    GlobalAvgPool2D,
    GlobalAvgPool3D,
    GlobalMaxPool1D,
    GlobalMaxPool2D,
    GlobalMaxPool3D,
    MaxPool1D,
    MaxPool2D,
    MaxPool3D,
    ReflectionPad2D,
)
from hybridc.gluon.nn.group_norm_layers import GroupNorm, InstanceNorm
from hybridc.ground.absent import absent as _absent

__all__ = [
    "Block",
    "HybridBlock",
    "SymbolBlock",
    "Sequential",
    "HybridSequential",
    "Dense",
    "Dropout",
    "Embedding",
    "LayerNorm",
    "InstanceNorm",
    "GroupNorm",
    "BatchNorm",
    "BatchNormReLU",
    "Flatten",
    "Lambda",
    "HybridLambda",
    "Concurrent",
    "HybridConcurrent",
    "Identity",
    "Activation",
    "LeakyReLU",
    "PReLU",
    "ELU",
    "SELU",
    "GELU",
    "Swish",
    "Conv1D",
    "Conv2D",
    "Conv3D",
    "Conv1DTranspose",
    "Conv2DTranspose",
    "Conv3DTranspose",
    "MaxPool1D",
    "MaxPool2D",
    "MaxPool3D",
    "AvgPool1D",
    "AvgPool2D",
    "AvgPool3D",
    "GlobalMaxPool1D",
    "GlobalMaxPool2D",
    "GlobalMaxPool3D",
    "GlobalAvgPool1D",
    "GlobalAvgPool2D",
    "GlobalAvgPool3D",
    "ReflectionPad2D",
]


if not TYPE_CHECKING:  # what there is not is an error of the type checker

    def __getattr__(name: str) -> Any:
        raise _absent("mx.gluon.nn", name, "layer", globals())

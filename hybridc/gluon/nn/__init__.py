"""``mx.gluon.nn``: layers."""

from __future__ import annotations

from typing import Any

from hybridc.gluon.block import Block, HybridBlock
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
from hybridc.gluon.nn.batch_norm_layer import BatchNorm
from hybridc.gluon.nn.concurrent import Concurrent, HybridConcurrent, Identity
from hybridc.ground.absent import absent as _absent

__all__ = [
    "Block",
    "HybridBlock",
    "Sequential",
    "HybridSequential",
    "Dense",
    "Dropout",
    "Embedding",
    "LayerNorm",
    "BatchNorm",
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
]


def __getattr__(name: str) -> Any:
    raise _absent("mx.gluon.nn", name, "layer", globals())

"""``mx.gluon.contrib.nn``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Unpack

from hybridc.errors import UnsupportedError
from hybridc.gluon.block import Block
from hybridc.gluon.naming import BlockOptions
from hybridc.gluon.nn.batch_norm_layer import SyncBatchNorm
from hybridc.gluon.nn.concurrent import Concurrent, HybridConcurrent, Identity
from hybridc.gluon.nn.pixel_shuffle import PixelShuffle1D, PixelShuffle2D, PixelShuffle3D
from hybridc.ground.absent import absent as _absent

__all__ = [
    "Concurrent",
    "HybridConcurrent",
    "Identity",
    "PixelShuffle1D",
    "PixelShuffle2D",
    "PixelShuffle3D",
    "SparseEmbedding",
    "SyncBatchNorm",
]


class SparseEmbedding(Block):
    """Not offered: an error that names ``nn.Embedding``, which has the same results with a dense gradient."""

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        dtype: Any = "float32",
        weight_initializer: Any = None,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        raise UnsupportedError(
            "SparseEmbedding: this version of hybridc does not have sparse storage; use gluon.nn.Embedding"
            f"({input_dim}, {output_dim}), whose results are the same and whose gradient is dense"
        )


if not TYPE_CHECKING:  # what there is not is an error of the type checker

    def __getattr__(name: str) -> Any:
        if name == "basic_layers":  # MXNet's file of these layers
            return sys.modules[__name__]
        raise _absent("mx.gluon.contrib.nn", name, "layer", globals())

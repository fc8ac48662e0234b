"""``mx.gluon.contrib.nn``: pixel shuffles, a sparse embedding, and batch normalization over several ranks."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Unpack

from hybridc import nd
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
    """``weight[x]``: numbers of rows (…) become these rows (…, output_dim) of a table whose storage is row_sparse.

    The gradient is row_sparse, too, and the block is not compiled. ``nn.Embedding(…, sparse_grad=True)`` has the same
    gradient and a dense weight, which is faster where it fits into memory.

    Parameters
    ----------
    input_dim:
        The number of rows of the table, as of words in a vocabulary.
    output_dim:
        The length of a row.
    dtype:
        The dtype of the table.
    weight_initializer:
        The initializer of the table; by default that of ``initialize()``.

    Examples
    --------
    >>> layer = gluon.contrib.nn.SparseEmbedding(1000, 4)
    >>> layer.initialize()
    >>> with autograd.record():
    ...     y = layer(mx.nd.array([7, 3, 7]))
    >>> y.backward()
    >>> y.shape
    (3, 4)
    >>> layer.weight.grad().indices
    [3 7]
    <NDArray 2 @cpu(0)>
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        dtype: Any = "float32",
        weight_initializer: Any = None,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(**kwargs)
        self._kwargs: dict[str, Any] = {
            "input_dim": input_dim,
            "output_dim": output_dim,
            "dtype": dtype,
            "sparse_grad": True,
        }
        self.weight = self.params.get(
            "weight",
            shape=(input_dim, output_dim),
            init=weight_initializer,
            dtype=dtype,
            stype="row_sparse",
            grad_stype="row_sparse",
        )

    def forward(self, x: Any, *_: Any) -> Any:
        """The layer's output."""
        return nd.Embedding(x, self.weight.data(x.context), name="fwd", **self._kwargs)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._kwargs['input_dim']} -> {self._kwargs['output_dim']})"


if not TYPE_CHECKING:  # what there is not is an error of the type checker

    def __getattr__(name: str) -> Any:
        if name == "basic_layers":  # MXNet's file of these layers
            return sys.modules[__name__]
        raise _absent("mx.gluon.contrib.nn", name, "layer", globals())

"""Channels rearranged as pixels: images of higher resolution; in MXNet they are in ``gluon.contrib.nn``."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from hybridc.gluon.block import HybridBlock
from hybridc.gluon.nn.conv_layers import per_axis

__all__ = ["PixelShuffle1D", "PixelShuffle2D", "PixelShuffle3D"]


class _PixelShuffle(HybridBlock):
    """The base of the three: (N, product of the factors * C, *sizes) → (N, C, *sizes * factors).

    Parameters
    ----------
    factor:
        By how much each axis grows: a number for all of them, or a tuple with one for each.
    """

    RANK: ClassVar[int] = 1

    def __init__(self, factor: Any) -> None:
        super().__init__()
        self._factors = per_axis(type(self).__name__, "factor", factor, self.RANK)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The rearranged input."""
        rank = self.RANK
        kept = (0,) * rank
        x = F.reshape(x, (0, -4, -1, math.prod(self._factors), *kept))
        for i in range(rank - 1):  # (N, C, …, product of the rest, *sizes) → (N, C, …, factor, product, *sizes)
            split = (self._factors[i], math.prod(self._factors[i + 1 :]))
            x = F.reshape(x, (0, 0, *kept[:i], -4, *split, *kept))
        behind = [axis for i in range(rank) for axis in (2 + rank + i, 2 + i)]  # each factor behind its size
        return F.reshape(F.transpose(x, (0, 1, *behind)), (0, 0, *(-3,) * rank))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._factors[0] if self.RANK == 1 else self._factors})"


class PixelShuffle1D(_PixelShuffle):
    """Every ``factor`` channels become neighbouring elements: ``(N, C * factor, W)`` → ``(N, C, W * factor)``

    Examples
    --------
    >>> x = mx.nd.array([[[1, 2], [10, 20]]])
    >>> gluon.contrib.nn.PixelShuffle1D(2)(x)
    [[[ 1. 10.  2. 20.]]]
    <NDArray 1x1x4 @cpu(0)>
    """

    RANK = 1


class PixelShuffle2D(_PixelShuffle):
    """Every f1*f2 channels become pixels of a block: ``(N, C * f1*f2, H, W)`` → ``(N, C, H * f1, W * f2)``

    ``factor`` is (f1, f2), or a number that is both (Shi et al. 2016).

    Examples
    --------
    >>> x = mx.nd.array([1, 2, 3, 4, 5, 6]).reshape((1, 6, 1, 1))
    >>> gluon.contrib.nn.PixelShuffle2D((2, 3))(x)
    [[[[1. 2. 3.]
       [4. 5. 6.]]]]
    <NDArray 1x1x2x3 @cpu(0)>
    """

    RANK = 2


class PixelShuffle3D(_PixelShuffle):
    """Every f1*f2*f3 channels become voxels: ``(N, C * f1*f2*f3, D, H, W)`` → ``(N, C, D * f1, H * f2, W * f3)``

    ``factor`` is (f1, f2, f3), or a number that is all of them.

    Examples
    --------
    >>> layer = gluon.contrib.nn.PixelShuffle3D(2)
    >>> layer(mx.nd.ones((1, 16, 4, 5, 6))).shape
    (1, 2, 8, 10, 12)
    """

    RANK = 3

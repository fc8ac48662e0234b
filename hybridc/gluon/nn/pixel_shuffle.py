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
        By how much each axis grows, a number or a tuple.
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
    """x with every ``factor`` channels as neighbouring elements: (N, C * factor, W) → (N, C, W * factor)"""

    RANK = 1


class PixelShuffle2D(_PixelShuffle):
    """x with every f1*f2 channels as pixels of a block: (N, C * f1*f2, H, W) → (N, C, H * f1, W * f2)"""

    RANK = 2


class PixelShuffle3D(_PixelShuffle):
    """x with every f1*f2*f3 channels as voxels: (N, C * f1*f2*f3, D, H, W) → (N, C, D * f1, H * f2, W * f3)"""

    RANK = 3

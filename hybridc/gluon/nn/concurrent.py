"""Containers whose children all get the same input; in MXNet they are in ``gluon.contrib.nn``."""

from __future__ import annotations

from typing import Any

from hybridc import nd
from hybridc.gluon.block import HybridBlock
from hybridc.gluon.nn.basic_layers import HybridSequential, Sequential


class Concurrent(Sequential):
    """The children's outputs for one input, concatenated along ``axis``.

    Parameters
    ----------
    axis:
        The axis along which results are joined.
    """

    def __init__(self, axis: int = -1, prefix: str | None = None, params: Any = None) -> None:
        super().__init__(prefix=prefix, params=params)
        self.axis = axis

    def _like(self) -> Any:
        return type(self)(axis=self.axis, prefix=self._prefix)

    def forward(self, x: Any) -> Any:
        """The concatenated outputs."""
        return nd.concat(*[block(x) for block in self._children.values()], dim=self.axis)


class HybridConcurrent(HybridSequential):
    """The children's outputs for one input, concatenated along ``axis``; compiled as one graph.

    Parameters
    ----------
    axis:
        The axis along which results are joined.
    """

    def __init__(self, axis: int = -1, prefix: str | None = None, params: Any = None) -> None:
        super().__init__(prefix=prefix, params=params)
        self.axis = axis

    def _like(self) -> Any:
        return type(self)(axis=self.axis, prefix=self._prefix)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The concatenated outputs."""
        return F.concat(*[block(x) for block in self._children.values()], dim=self.axis)


class Identity(HybridBlock):
    """x; with HybridConcurrent it makes a connection past the other children."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The input."""
        return x

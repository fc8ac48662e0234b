"""Containers whose children all get the same input; in MXNet they are in ``gluon.contrib.nn``."""

from __future__ import annotations

from typing import Any

from hybridc import nd
from hybridc.gluon.block import HybridBlock
from hybridc.gluon.nn.basic_layers import HybridSequential, Sequential


class Concurrent(Sequential):
    """The results of all children for the same input, joined along ``axis``; children may be blocks of any kind.

    Parameters
    ----------
    axis:
        The axis along which results are joined; the sizes of the others must agree.

    Examples
    --------
    >>> net = nn.Concurrent(axis=1)
    >>> net.add(nn.Dense(4), nn.Dense(2), nn.Lambda("relu"))
    >>> net.initialize()
    >>> net(mx.nd.ones((3, 5))).shape
    (3, 11)
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
    """The results of all children for the same input, joined along ``axis``; ``hybridize`` compiles it as one graph.

    Parameters
    ----------
    axis:
        The axis along which results are joined; the sizes of the others must agree.

    Examples
    --------
    >>> net = nn.HybridConcurrent(axis=1)
    >>> net.add(nn.Identity(), nn.HybridLambda("square"))
    >>> net(mx.nd.array([[1, 2, 3]]))
    [[1. 2. 3. 1. 4. 9.]]
    <NDArray 1x6 @cpu(0)>
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
    """``x``: in a :class:`HybridConcurrent` it leads past the other children.

    Examples
    --------
    >>> nn.Identity()(mx.nd.array([1, 2]))
    [1. 2.]
    <NDArray 2 @cpu(0)>
    """

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The input."""
        return x

"""Normalization of each example alone, over an image or groups of its channels, as layers."""

from __future__ import annotations

from typing import Any, Unpack

from hybridc.gluon.block import HybridBlock
from hybridc.gluon.naming import BlockOptions

__all__ = ["GroupNorm", "InstanceNorm"]


class _GroupedNorm(HybridBlock):
    """The base of both: gamma and beta of so many numbers, which are trained or not.

    Parameters
    ----------
    axis:
        The axis of channels.
    num_groups:
        The number of groups of channels; it must divide their number.
    epsilon:
        What is added to the variance before the root.
    center:
        Whether ``beta`` is trained; else it stays as it was initialized.
    scale:
        Whether ``gamma`` is trained; else it stays as it was initialized.
    beta_initializer:
        The initializer of ``beta``.
    gamma_initializer:
        The initializer of ``gamma``.
    in_channels:
        The number of channels; 0: it follows from the first input.
    """

    def __init__(
        self,
        size: int,
        center: bool,
        scale: bool,
        beta_initializer: Any,
        gamma_initializer: Any,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(**kwargs)
        for name, init, trained in (("gamma", gamma_initializer, scale), ("beta", beta_initializer, center)):
            parameter = self.params.get(
                name, grad_req="write" if trained else "null", shape=(size,), init=init, allow_deferred_init=True
            )
            setattr(self, name, parameter)


class InstanceNorm(_GroupedNorm):
    """``(x - mean) / sqrt(variance + epsilon) * gamma + beta``, for each example and channel (Ulyanov et al. 2016)

    Mean and variance are those of an image's channel: along all axes but the first and ``axis``. ``gamma`` and ``beta``
    have a number for each channel. The result has the shape of the input, in train mode and otherwise the same.

    Examples
    --------
    >>> layer = nn.InstanceNorm()
    >>> layer.initialize()
    >>> layer(mx.nd.array([[[1, 3], [10, 30]]]))
    [[[-0.999995  0.999995]
      [-1.        1.      ]]]
    <NDArray 1x2x2 @cpu(0)>
    """

    def __init__(
        self,
        axis: int = 1,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = False,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        in_channels: int = 0,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(in_channels, center, scale, beta_initializer, gamma_initializer, **kwargs)
        self._kwargs = {"eps": epsilon, "axis": axis, "center": center, "scale": scale}
        self._axis = axis
        self._epsilon = epsilon

    def hybrid_forward(self, F: Any, x: Any, gamma: Any, beta: Any) -> Any:
        """The layer's output."""
        if self._axis == 1:
            return F.InstanceNorm(x, gamma, beta, name="fwd", eps=self._epsilon)
        y = F.InstanceNorm(x.swapaxes(1, self._axis), gamma, beta, name="fwd", eps=self._epsilon)
        return y.swapaxes(1, self._axis)

    def __repr__(self) -> str:
        (channels,) = self.params.get("gamma").shape or (0,)
        content = ", ".join(f"{k}={v!r}" for k, v in self._kwargs.items())
        return f"{type(self).__name__}({content}, in_channels={channels})"


class GroupNorm(_GroupedNorm):
    """``(x - mean) / sqrt(variance + epsilon) * gamma + beta``, for each example and group of channels (Wu and He 2018)

    Axis 1 are the channels, of which each group has as many; ``gamma`` and ``beta`` have a number for each group. The
    result has the shape of the input, in train mode and otherwise the same.

    Examples
    --------
    >>> layer = nn.GroupNorm(num_groups=2)
    >>> layer.initialize()
    >>> layer(mx.nd.array([[1, 3, 10, 30]]).reshape((1, 4, 1))).reshape(-1)
    [-0.999995  0.999995 -1.        1.      ]
    <NDArray 4 @cpu(0)>
    """

    def __init__(
        self,
        num_groups: int = 1,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        prefix: str | None = None,
        params: Any = None,
    ) -> None:
        super().__init__(num_groups, center, scale, beta_initializer, gamma_initializer, prefix=prefix, params=params)
        self._kwargs = {"eps": epsilon, "num_groups": num_groups, "center": center, "scale": scale}
        self._num_groups = num_groups
        self._epsilon = epsilon

    def hybrid_forward(self, F: Any, data: Any, gamma: Any, beta: Any) -> Any:
        """The layer's output."""
        return F.GroupNorm(data, gamma=gamma, beta=beta, num_groups=self._num_groups, eps=self._epsilon)

    def __repr__(self) -> str:
        content = ", ".join(f"{k}={v!r}" for k, v in self._kwargs.items())
        return f"{type(self).__name__}({content})"

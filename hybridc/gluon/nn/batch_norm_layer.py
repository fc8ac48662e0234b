"""Batch normalization as a layer."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridc.communication import communicator
from hybridc.dtypes import wide
from hybridc.gluon.block import HybridBlock

__all__ = ["BatchNorm", "BatchNormReLU", "SyncBatchNorm"]


class BatchNorm(HybridBlock):
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta, for each channel: each index of ``axis``

    In training mean and variance are those of the batch, and the running ones follow them; otherwise, or with
    ``use_global_stats``, the running ones are used. Without ``center`` beta is not trained, without ``scale`` gamma
    is 1.

    Parameters
    ----------
    axis:
        The axis of channels.
    momentum:
        The share of the running mean and variance that a step keeps.
    use_global_stats:
        Whether the running mean and variance are used in training, too.
    running_mean_initializer:
        The initializer of the running mean.
    running_variance_initializer:
        The initializer of the running variance.
    epsilon:
        What is added to the variance before the root.
    center:
        Whether ``beta`` is added.
    scale:
        Whether ``gamma`` is multiplied.
    beta_initializer:
        The initializer of ``beta``.
    gamma_initializer:
        The initializer of ``gamma``.
    in_channels:
        The size of the normalized axis; 0: it follows from the first input.
    """

    def __init__(
        self,
        axis: int = 1,
        momentum: float = 0.9,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        use_global_stats: bool = False,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        running_mean_initializer: Any = "zeros",
        running_variance_initializer: Any = "ones",
        in_channels: int = 0,
        prefix: str | None = None,
        params: Any = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        self._kwargs: dict[str, Any] = {
            "axis": axis,
            "eps": epsilon,
            "momentum": momentum,
            "fix_gamma": not scale,
            "use_global_stats": use_global_stats,
        }
        self._channels(in_channels, "gamma", gamma_initializer, trained=scale)
        self._channels(in_channels, "beta", beta_initializer, trained=center)
        self._channels(in_channels, "running_mean", running_mean_initializer, trained=False, state=True)
        self._channels(in_channels, "running_var", running_variance_initializer, trained=False, state=True)

    def _channels(self, size: int, name: str, init: Any, trained: bool, state: bool = False) -> None:
        """A parameter with a number for each channel."""
        parameter = self.params.get(
            name,
            grad_req="write" if trained else "null",
            shape=(size,),
            init=init,
            allow_deferred_init=True,
            differentiable=trained or not state,
        )
        setattr(self, name, parameter)

    def cast(self, dtype: Any) -> None:
        """Change the dtype of the parameters; they stay float32 beside data of float16 and bfloat16."""
        super().cast(wide(np.dtype(dtype)))

    def hybrid_forward(
        self, F: Any, x: Any, gamma: Any = None, beta: Any = None, running_mean: Any = None, running_var: Any = None
    ) -> Any:
        """The layer's output."""
        return F.BatchNorm(x, gamma, beta, running_mean, running_var, name="fwd", **self._kwargs)

    def __repr__(self) -> str:
        (channels,) = self.params.get("gamma").shape or (0,)
        content = ", ".join(f"{k}={v!r}" for k, v in self._kwargs.items())
        return f"{type(self).__name__}({content}, in_channels={channels or None})"


class BatchNormReLU(BatchNorm):
    """max(batch normalization of x, 0): :class:`BatchNorm` with a rectifier"""

    def hybrid_forward(
        self, F: Any, x: Any, gamma: Any = None, beta: Any = None, running_mean: Any = None, running_var: Any = None
    ) -> Any:
        """The layer's output."""
        return F.contrib.BatchNormWithReLU(x, gamma, beta, running_mean, running_var, name="fwd", **self._kwargs)


class SyncBatchNorm(BatchNorm):
    """:class:`BatchNorm` with mean and variance over the batches of all ranks that train together

    Each rank has one device, so ``num_devices`` changes nothing. ``gluon.contrib.nn.SyncBatchNorm`` in MXNet.

    Parameters
    ----------
    num_devices:
        For MXNet's signature: all devices and ranks take part.
    """

    def __init__(
        self,
        in_channels: int = 0,
        num_devices: int | None = None,
        momentum: float = 0.9,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        use_global_stats: bool = False,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        running_mean_initializer: Any = "zeros",
        running_variance_initializer: Any = "ones",
        prefix: str | None = None,
        params: Any = None,
    ) -> None:
        super().__init__(
            axis=1,
            momentum=momentum,
            epsilon=epsilon,
            center=center,
            scale=scale,
            use_global_stats=use_global_stats,
            beta_initializer=beta_initializer,
            gamma_initializer=gamma_initializer,
            running_mean_initializer=running_mean_initializer,
            running_variance_initializer=running_variance_initializer,
            in_channels=in_channels,
            prefix=prefix,
            params=params,
        )
        # COMPAT(mxnet): there num_devices is the number of GPUs of this process, with a warning, if it is not given.
        self._kwargs = {
            "eps": epsilon,
            "momentum": momentum,
            "fix_gamma": not scale,
            "use_global_stats": use_global_stats,
            "ndev": communicator().size,
            "key": self.prefix,
        }

    def hybrid_forward(
        self, F: Any, x: Any, gamma: Any = None, beta: Any = None, running_mean: Any = None, running_var: Any = None
    ) -> Any:
        """The layer's output."""
        return F.contrib.SyncBatchNorm(x, gamma, beta, running_mean, running_var, name="fwd", **self._kwargs)

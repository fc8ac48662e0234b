"""Batch normalization as a layer."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridc.communication import communicator
from hybridc.dtypes import wide
from hybridc.gluon.block import HybridBlock

__all__ = ["BatchNorm", "BatchNormReLU", "SyncBatchNorm"]


class BatchNorm(HybridBlock):
    """``(x - mean) / sqrt(variance + epsilon) * gamma + beta``, for each channel alone (Ioffe and Szegedy 2015)

    In train mode, that of ``autograd.record()``, mean and variance are those of the batch along all axes but ``axis``,
    and the running ones become ``momentum * running + (1 - momentum) * batch``. Otherwise, or with
    ``use_global_stats``, the running ones are used. The result has the shape of the input.

    Parameters
    ----------
    axis:
        The axis of channels: 1, or -1 where they come last.
    momentum:
        The share of the running mean and variance that a step keeps.
    use_global_stats:
        Whether the running mean and variance are used in train mode, too: a layer that is frozen.
    running_mean_initializer:
        The initializer of the running mean.
    running_variance_initializer:
        The initializer of the running variance.
    epsilon:
        What is added to the variance before the root.
    center:
        Whether ``beta`` is trained; else it stays as it was initialized.
    scale:
        Whether ``gamma`` is trained; else it is 1.
    beta_initializer:
        The initializer of ``beta``.
    gamma_initializer:
        The initializer of ``gamma``.
    in_channels:
        The number of channels; 0: it follows from the first input.

    Examples
    --------
    >>> layer = nn.BatchNorm()
    >>> layer.initialize()
    >>> x = mx.nd.array([[1, 10], [3, 30]])
    >>> with autograd.record():
    ...     y = layer(x)
    >>> y
    [[-0.999995 -1.      ]
     [ 0.999995  1.      ]]
    <NDArray 2x2 @cpu(0)>
    >>> layer.running_mean.data()
    [0.2 2. ]
    <NDArray 2 @cpu(0)>

    The running means have begun to follow 2 and 20. Outside of train mode they are used:

    >>> layer(x)
    [[0.799996 2.423129]
     [2.799986 8.480951]]
    <NDArray 2x2 @cpu(0)>
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
        """Change the dtype of the parameters; they stay float32 beside data of float16 and bfloat16.

        Parameters
        ----------
        dtype:
            The dtype of the data, as "float16".
        """
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
    """``max(batch normalization of x, 0)``: :class:`BatchNorm` with a rectifier, whose parameters it has.

    Examples
    --------
    >>> layer = nn.BatchNormReLU()
    >>> layer.initialize()
    >>> with autograd.record():
    ...     y = layer(mx.nd.array([[1, 10], [3, 30]]))
    >>> y
    [[0.       0.      ]
     [0.999995 1.      ]]
    <NDArray 2x2 @cpu(0)>
    """

    def hybrid_forward(
        self, F: Any, x: Any, gamma: Any = None, beta: Any = None, running_mean: Any = None, running_var: Any = None
    ) -> Any:
        """The layer's output."""
        return F.contrib.BatchNormWithReLU(x, gamma, beta, running_mean, running_var, name="fwd", **self._kwargs)


class SyncBatchNorm(BatchNorm):
    """:class:`BatchNorm` whose mean and variance in train mode are over the batches of all ranks that train together.

    Each rank has one device, so ``num_devices`` changes nothing. With one rank it is BatchNorm. Channels are axis 1.

    Parameters
    ----------
    num_devices:
        For programs written for MXNet; all ranks take part.

    Examples
    --------
    >>> layer = gluon.contrib.nn.SyncBatchNorm(in_channels=2)
    >>> layer.initialize()
    >>> with autograd.record():
    ...     y = layer(mx.nd.array([[1, 10], [3, 30]]))
    >>> y
    [[-0.999995 -1.      ]
     [ 0.999995  1.      ]]
    <NDArray 2x2 @cpu(0)>
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

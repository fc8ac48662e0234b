"""Activation layers."""

from __future__ import annotations

from typing import Any, Unpack

from hybridc import initializer
from hybridc.errors import ArgumentTypeError, CheckError
from hybridc.gluon.block import HybridBlock
from hybridc.gluon.naming import BlockOptions


class Activation(HybridBlock):
    """``F.Activation``: relu, sigmoid, tanh, softrelu or softsign of every element.

    Parameters
    ----------
    activation:
        The name of the function: "relu", "sigmoid", "tanh", "softrelu", "softsign".
    """

    def __init__(self, activation: str, **kwargs: Unpack[BlockOptions]) -> None:
        if not isinstance(activation, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ArgumentTypeError(f'{type(self).__name__}: activation must be a name, as "relu", got {activation!r}')
        self._act_type = activation  # before the base class, which calls _alias
        super().__init__(**kwargs)

    def _alias(self) -> str:
        return self._act_type

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The activation of ``x``."""
        return F.Activation(x, act_type=self._act_type, name="fwd")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._act_type})"


class LeakyReLU(HybridBlock):
    """x where x >= 0, else alpha * x

    Parameters
    ----------
    alpha:
        The slope of negative elements.
    """

    def __init__(self, alpha: float, **kwargs: Unpack[BlockOptions]) -> None:
        if alpha < 0:
            raise CheckError(f"Slope coefficient for LeakyReLU must be no less than 0, got {alpha}.")
        super().__init__(**kwargs)
        self._alpha = alpha

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The activation of ``x``."""
        return F.LeakyReLU(x, act_type="leaky", slope=self._alpha, name="fwd")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._alpha})"


class PReLU(HybridBlock):
    """x where x >= 0, else alpha * x, with a learned alpha: one, or one for each channel (axis 1).

    Parameters
    ----------
    alpha_initializer:
        The initializer of the slopes; by default 0.25.
    in_channels:
        The number of slopes: 1, or that of channels.
    """

    def __init__(self, alpha_initializer: Any = None, in_channels: int = 1, **kwargs: Unpack[BlockOptions]) -> None:
        super().__init__(**kwargs)
        init = initializer.Constant(0.25) if alpha_initializer is None else alpha_initializer
        with self.name_scope():
            self.alpha = self.params.get("alpha", shape=(in_channels,), init=init)

    def hybrid_forward(self, F: Any, x: Any, alpha: Any) -> Any:
        """The activation of ``x``."""
        return F.LeakyReLU(x, gamma=alpha, act_type="prelu", name="fwd")


class ELU(HybridBlock):
    """x where x > 0, else alpha * (exp(x) - 1)

    Parameters
    ----------
    alpha:
        What negative elements tend to, negated.
    """

    def __init__(self, alpha: float = 1.0, **kwargs: Unpack[BlockOptions]) -> None:
        super().__init__(**kwargs)
        self._alpha = alpha

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The activation of ``x``."""
        return F.LeakyReLU(x, act_type="elu", slope=self._alpha)


class SELU(HybridBlock):
    """The scaled exponential linear unit of self-normalizing networks (Klambauer et al. 2017)."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The activation of ``x``."""
        return F.LeakyReLU(x, act_type="selu", name="fwd")


class GELU(HybridBlock):
    """x / 2 * (1 + erf(x / sqrt(2)))"""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The activation of ``x``."""
        return F.LeakyReLU(x, act_type="gelu", name="fwd")


class Swish(HybridBlock):
    """x * sigmoid(beta * x)

    Parameters
    ----------
    beta:
        The factor inside the sigmoid.
    """

    def __init__(self, beta: float = 1.0, **kwargs: Unpack[BlockOptions]) -> None:
        super().__init__(**kwargs)
        self._beta = beta

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The activation of ``x``."""
        return x * F.sigmoid(self._beta * x, name="fwd")

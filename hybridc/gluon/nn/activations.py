"""Activation layers."""

from __future__ import annotations

import difflib
from typing import Any, Unpack

from hybridc import initializer
from hybridc.dialects.nn.activation import Activation as ActivationOperator
from hybridc.errors import ArgumentTypeError, AttributeValueError, CheckError
from hybridc.gluon.block import HybridBlock
from hybridc.gluon.naming import BlockOptions


def _no_activation(name: str) -> str:
    """That there is no activation of a name, and what to write instead."""
    others = {
        "softmax": "softmax is no activation of single elements: end in scores, which SoftmaxCrossEntropyLoss takes as "
        "they are, and use mx.nd.softmax(scores) to predict",
        "log_softmax": "use mx.nd.log_softmax(scores), or F.log_softmax in a forward",
        "linear": "leave activation out",
        "none": "leave activation out",
        "softplus": 'softplus is "softrelu" here',
        "swish": "use nn.Swish()",
        "leaky_relu": "use nn.LeakyReLU(alpha)",
        "leakyrelu": "use nn.LeakyReLU(alpha)",
        "leaky": "use nn.LeakyReLU(alpha)",
        "elu": "use nn.ELU()",
        "selu": "use nn.SELU()",
        "prelu": "use nn.PReLU()",
    }
    hint = others.get(name.lower())
    near = difflib.get_close_matches(name, ActivationOperator.CHOICES, n=1)
    hint = hint or (f"did you mean {near[0]!r}?" if near else "")
    text = f"activation takes one of {', '.join(map(repr, ActivationOperator.CHOICES))}, got {name!r}"
    return f"{text}; {hint}" if hint else text


class Activation(HybridBlock):
    """A function of every element, which a name chooses: the result has the shape of the input.

    ``relu`` is ``max(x, 0)``, ``sigmoid`` is ``1 / (1 + exp(-x))``, ``tanh`` the hyperbolic tangent, ``softrelu``
    (softplus) is ``log(1 + exp(x))``, ``softsign`` is ``x / (1 + |x|)``, ``log_sigmoid`` is ``log(sigmoid(x))``,
    ``silu`` is ``x * sigmoid(x)``, ``gelu`` is ``x / 2 * (1 + erf(x / sqrt(2)))``. Layers as :class:`Dense` take such a
    name as a parameter, too.

    Parameters
    ----------
    activation:
        The name of the function: "relu", "sigmoid", "tanh", "softrelu", "softsign", "log_sigmoid", "silu" or "gelu".

    Examples
    --------
    >>> nn.Activation("relu")(mx.nd.array([-2, 0, 3]))
    [0. 0. 3.]
    <NDArray 3 @cpu(0)>
    >>> nn.Activation("sigmoid")(mx.nd.array([0]))
    [0.5]
    <NDArray 1 @cpu(0)>
    """

    def __init__(self, activation: str, **kwargs: Unpack[BlockOptions]) -> None:
        if not isinstance(activation, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ArgumentTypeError(f'{type(self).__name__}: activation must be a name, as "relu", got {activation!r}')
        if activation not in ActivationOperator.CHOICES:
            raise AttributeValueError(_no_activation(activation))
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
    """``x`` where ``x >= 0``, else ``alpha * x``; the result has the shape of the input.

    Parameters
    ----------
    alpha:
        The slope of negative elements, a number of at least 0; a smaller one is a CheckError.

    Examples
    --------
    >>> nn.LeakyReLU(0.1)(mx.nd.array([-2, 0, 3]))
    [-0.2  0.   3. ]
    <NDArray 3 @cpu(0)>
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
    """``x`` where ``x >= 0``, else ``alpha * x``; ``alpha`` is learned: one number, or one for each channel (axis 1)

    The result has the shape of the input (He et al. 2015).

    Parameters
    ----------
    alpha_initializer:
        The initializer of the slopes; None: they begin at 0.25.
    in_channels:
        The number of slopes: 1 for one that all channels share, or the number of channels.

    Examples
    --------
    >>> layer = nn.PReLU()
    >>> layer.initialize()
    >>> x = mx.nd.array([-2, 0, 3])
    >>> with autograd.record():
    ...     y = layer(x)
    >>> y.backward()
    >>> y
    [-0.5  0.   3. ]
    <NDArray 3 @cpu(0)>
    >>> layer.alpha.grad()
    [-2.]
    <NDArray 1 @cpu(0)>
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
    """``x`` where ``x > 0``, else ``alpha * (exp(x) - 1)`` (Clevert et al. 2015); the result has the shape of x.

    Parameters
    ----------
    alpha:
        The limit of very negative elements is -alpha.

    Examples
    --------
    >>> nn.ELU()(mx.nd.array([-100, -1, 0, 1]))
    [-1.         -0.63212055  0.          1.        ]
    <NDArray 4 @cpu(0)>
    """

    def __init__(self, alpha: float = 1.0, **kwargs: Unpack[BlockOptions]) -> None:
        super().__init__(**kwargs)
        self._alpha = alpha

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The activation of ``x``."""
        return F.LeakyReLU(x, act_type="elu", slope=self._alpha)


class SELU(HybridBlock):
    """``1.0507 * x`` where ``x > 0``, else ``1.7581 * (exp(x) - 1)``: self-normalizing (Klambauer et al. 2017)

    The result has the shape of the input.

    Examples
    --------
    >>> nn.SELU()(mx.nd.array([-100, 0, 1]))
    [-1.7580993  0.         1.050701 ]
    <NDArray 3 @cpu(0)>
    """

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The activation of ``x``."""
        return F.LeakyReLU(x, act_type="selu", name="fwd")


class GELU(HybridBlock):
    """``x / 2 * (1 + erf(x / sqrt(2)))``: x times the chance that a normal number is less (Hendrycks and Gimpel 2016)

    The result has the shape of the input.

    Examples
    --------
    >>> nn.GELU()(mx.nd.array([-3, -1, 0, 1, 3]))
    [-0.00404969 -0.15865526  0.          0.8413447   2.9959502 ]
    <NDArray 5 @cpu(0)>
    """

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The activation of ``x``."""
        return F.LeakyReLU(x, act_type="gelu", name="fwd")


class Swish(HybridBlock):
    """``x * sigmoid(beta * x)``, with ``beta=1`` also called SiLU (Ramachandran et al. 2017)

    The result has the shape of the input.

    Parameters
    ----------
    beta:
        The factor inside the sigmoid.

    Examples
    --------
    >>> nn.Swish()(mx.nd.array([-1, 0, 1]))
    [-0.2689414  0.         0.7310586]
    <NDArray 3 @cpu(0)>
    >>> nn.Swish(beta=2)(mx.nd.array([-1, 0, 1]))
    [-0.11920293  0.          0.880797  ]
    <NDArray 3 @cpu(0)>
    """

    def __init__(self, beta: float = 1.0, **kwargs: Unpack[BlockOptions]) -> None:
        super().__init__(**kwargs)
        self._beta = beta

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The activation of ``x``."""
        return x * F.sigmoid(self._beta * x, name="fwd")

"""Containers and basic layers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, Unpack, cast

from hybridc import nd
from hybridc.errors import CheckError
from hybridc.gluon.block import Block, HybridBlock
from hybridc.gluon.naming import BlockOptions
from hybridc.gluon.nn.activations import Activation
from hybridc.gluon.nn.batch_norm_layer import BatchNorm, BatchNormReLU
from hybridc.gluon.nn.group_norm_layers import GroupNorm, InstanceNorm

__all__ = [
    "BatchNorm",
    "BatchNormReLU",
    "Dense",
    "Dropout",
    "Embedding",
    "Flatten",
    "GroupNorm",
    "HybridLambda",
    "HybridSequential",
    "InstanceNorm",
    "Lambda",
    "LayerNorm",
    "Sequential",
]


class _Stack(Block):
    """The base of Sequential and HybridSequential: children in order, by index."""

    IN_SUMMARY = False

    def add(self, *blocks: Block) -> None:
        """Put blocks on top of the stack."""
        for block in blocks:
            self.register_child(block)

    def _in_order(self, x: Any) -> Any:
        for block in self._children.values():
            x = block(x)
        return x

    def _like(self) -> Any:
        """An empty container of the same kind and prefix, for a slice."""
        return type(self)(prefix=self._prefix)

    def __getitem__(self, key: Any) -> Any:
        layers = cast("Any", list(self._children.values())[key])
        if isinstance(layers, Block):
            return layers
        net = self._like()
        with net.name_scope():
            net.add(*layers)
        return net

    def __len__(self) -> int:
        return len(self._children)

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._children.values()))

    def __bool__(self) -> bool:
        return True  # an empty network is a network

    def __repr__(self) -> str:
        return self._repr(self._children)


class Sequential(_Stack):
    """Blocks one after the other: ``net.add(nn.Dense(10, activation='relu'), nn.Dense(20))``."""

    def forward(self, x: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The last block's output."""
        return self._in_order(x)

    def hybridize(self, active: bool = True, **kwargs: Any) -> None:
        """Hybridize the children, each for itself; use HybridSequential to compile them together."""
        children = list(self._children.values())
        if children and all(isinstance(c, HybridBlock) for c in children):
            warnings.warn(
                f"All children of this Sequential layer '{self.prefix}' are HybridBlocks. Consider using "
                "HybridSequential for the best performance.",
                stacklevel=2,
            )
        super().hybridize(active, **kwargs)


class HybridSequential(_Stack, HybridBlock):
    """HybridBlocks one after the other, compiled as one graph."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The last block's output."""
        return self._in_order(x)


class Dense(HybridBlock):
    """activation(x · weightᵀ + bias), weight (units, in_units)

    With ``flatten`` all axes but the first are one: (N, …) → (N, units); without it the last axis is
    transformed: (…, in_units) → (…, units). ``in_units=0`` is inferred from the first input.

    Parameters
    ----------
    units:
        The number of outputs.
    activation:
        The name of an activation function of the result, as "relu"; None for none.
    use_bias:
        Whether a bias is added.
    flatten:
        Whether all axes but the first are one.
    dtype:
        The dtype of the parameters.
    weight_initializer:
        The initializer of the weight; by default that of ``initialize()``.
    bias_initializer:
        The initializer of the bias.
    in_units:
        The number of inputs; 0: it follows from the first input.

    Examples
    --------
    >>> layer = nn.Dense(2, weight_initializer="ones", bias_initializer="ones")
    >>> layer.initialize()
    >>> layer(mx.nd.array([[1, 2, 3], [4, 5, 6]]))
    [[ 7.  7.]
     [16. 16.]]
    <NDArray 2x2 @cpu(0)>
    """

    def __init__(
        self,
        units: int,
        activation: str | None = None,
        use_bias: bool = True,
        flatten: bool = True,
        dtype: Any = "float32",
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        in_units: int = 0,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(**kwargs)
        self._flatten = flatten
        self._units = units
        self._in_units = in_units
        with self.name_scope():
            self.weight = self.params.get(
                "weight",
                shape=(units, in_units),
                init=weight_initializer,
                dtype=dtype,
                allow_deferred_init=True,
            )
            self.bias = None
            if use_bias:
                self.bias = self.params.get(
                    "bias", shape=(units,), init=bias_initializer, dtype=dtype, allow_deferred_init=True
                )
            self.act = None if activation is None else Activation(activation, prefix=f"{activation}_")

    def hybrid_forward(self, F: Any, x: Any, weight: Any, bias: Any = None) -> Any:
        """The layer's output."""
        y = F.FullyConnected(
            x, weight, bias, no_bias=bias is None, num_hidden=self._units, flatten=self._flatten, name="fwd"
        )
        return y if self.act is None else self.act(y)

    def __repr__(self) -> str:
        units, in_units = self.weight.shape or (self._units, 0)
        act = "linear" if self.act is None else self.act
        return f"{type(self).__name__}({in_units or None} -> {units}, {act})"


class Dropout(HybridBlock):
    """In train mode, zero with probability ``rate``, the rest scaled by 1 / (1 - rate)

    The elements along ``axes`` share their fate.

    Parameters
    ----------
    rate:
        The share of elements that become 0 in training.
    axes:
        The axes along which elements share their fate.
    """

    def __init__(self, rate: float, axes: tuple[int, ...] = (), **kwargs: Unpack[BlockOptions]) -> None:
        super().__init__(**kwargs)
        self._rate = rate
        self._axes = axes

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The layer's output."""
        if self._rate > 0:
            return F.Dropout(x, p=self._rate, axes=self._axes, name="fwd", cudnn_off=False)
        return F.identity(x)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p = {self._rate}, axes={self._axes})"


class Embedding(HybridBlock):
    """weight[x]: row numbers (…) → vectors (…, output_dim), weight (input_dim, output_dim)

    With ``sparse_grad`` the weight's gradient is row_sparse: a step updates the rows that x names alone.

    Parameters
    ----------
    input_dim:
        The number of rows of the table.
    output_dim:
        The length of a row.
    dtype:
        The dtype of the table.
    weight_initializer:
        The initializer of the table; by default that of ``initialize()``.
    sparse_grad:
        Whether the gradient of the table is row_sparse: the rows that a batch takes.
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        dtype: Any = "float32",
        weight_initializer: Any = None,
        sparse_grad: bool = False,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(**kwargs)
        self._input_dim = input_dim
        self._output_dim = output_dim
        self._dtype = dtype
        self._sparse_grad = sparse_grad
        self.weight = self.params.get(
            "weight",
            shape=(input_dim, output_dim),
            init=weight_initializer,
            dtype=dtype,
            allow_deferred_init=True,
            grad_stype="row_sparse" if sparse_grad else "default",
        )

    def hybrid_forward(self, F: Any, x: Any, weight: Any) -> Any:
        """The layer's output."""
        # COMPAT(mxnet): the output has the weight's dtype, so cast() of a network works.
        return F.Embedding(
            x,
            weight,
            input_dim=self._input_dim,
            output_dim=self._output_dim,
            dtype=weight.dtype,
            sparse_grad=self._sparse_grad,
            name="fwd",
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._input_dim} -> {self._output_dim}, {self._dtype})"


class LayerNorm(HybridBlock):
    """(x - mean) / sqrt(var + epsilon) * gamma + beta, along ``axis``

    Parameters
    ----------
    axis:
        The axis that is normalized.
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
        axis: int = -1,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        in_channels: int = 0,
        prefix: str | None = None,
        params: Any = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        self._axis = axis
        self._epsilon = epsilon
        self._center = center
        self._scale = scale
        self.gamma = self.params.get(
            "gamma",
            grad_req="write" if scale else "null",
            shape=(in_channels,),
            init=gamma_initializer,
            allow_deferred_init=True,
        )
        self.beta = self.params.get(
            "beta",
            grad_req="write" if center else "null",
            shape=(in_channels,),
            init=beta_initializer,
            allow_deferred_init=True,
        )

    def hybrid_forward(self, F: Any, data: Any, gamma: Any, beta: Any) -> Any:
        """The layer's output."""
        return F.LayerNorm(data, gamma=gamma, beta=beta, axis=self._axis, eps=self._epsilon)

    def __repr__(self) -> str:
        (channels,) = self.gamma.shape or (0,)
        return (
            f"{type(self).__name__}(eps={self._epsilon}, axis={self._axis}, center={self._center}, "
            f"scale={self._scale}, in_channels={channels})"
        )


class Flatten(HybridBlock):
    """(N, a, b, …) → (N, a*b*…)"""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The layer's output."""
        return F.flatten(x)

    def __repr__(self) -> str:
        return type(self).__name__


class Lambda(Block):
    """A function of NDArrays, or the name of an operator, as a block: ``nn.Lambda(lambda x: x * 2)``.

    Parameters
    ----------
    function:
        The function, or the name of an operator.
    """

    def __init__(self, function: str | Callable[..., Any], prefix: str | None = None) -> None:
        super().__init__(prefix=prefix)
        if isinstance(function, str):
            _require_operator(function)
            function = getattr(nd, function)
        _require_callable(function)
        self._func_impl: Any = function

    def forward(self, *args: Any) -> Any:
        """The function's result."""
        return self._func_impl(*args)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({_function_name(self._func_impl)})"


class HybridLambda(HybridBlock):
    """A function of F and arrays, or an operator's name: ``nn.HybridLambda(lambda F, x: F.tanh(x))``.

    Parameters
    ----------
    function:
        The function of F and the inputs, or the name of an operator.
    """

    def __init__(self, function: str | Callable[..., Any], prefix: str | None = None) -> None:
        super().__init__(prefix=prefix)
        if isinstance(function, str):
            _require_operator(function)
        else:
            _require_callable(function)
        self._func: Any = function

    def hybrid_forward(self, F: Any, x: Any, *args: Any) -> Any:
        """The function's result."""
        if isinstance(self._func, str):
            return getattr(F, self._func)(x, *args)
        return self._func(F, x, *args)

    def __repr__(self) -> str:
        name = self._func if isinstance(self._func, str) else _function_name(self._func)
        return f"{type(self).__name__}({name})"


def _require_operator(name: str) -> None:
    if not hasattr(nd, name):
        raise CheckError(f"Function name {name} is not found in ndarray.")


def _require_callable(function: object) -> None:
    if not callable(function):
        raise ValueError(f"Unrecognized function in lambda: {function} of type {type(function)}")


def _function_name(function: Any) -> str:
    return getattr(function, "__name__", repr(function))

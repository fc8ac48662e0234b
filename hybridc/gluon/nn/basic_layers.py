"""Containers and basic layers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, Unpack, cast, overload

from hybridc import nd
from hybridc.errors import CheckError
from hybridc.gluon.block import Block, HybridBlock
from hybridc.gluon.hybridize.flags import HybridizeOptions
from hybridc.gluon.naming import BlockOptions
from hybridc.gluon.nn.activations import Activation
from hybridc.gluon.nn.batch_norm_layer import BatchNorm, BatchNormReLU
from hybridc.gluon.nn.group_norm_layers import GroupNorm, InstanceNorm
from hybridc.ground.location import user_depth

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
        """Put blocks on top of the stack, the first at the bottom: ``net.add(a, b)`` computes ``b(a(x))``.

        Parameters
        ----------
        *blocks:
            The blocks; what is no block, as a function, is an AttributeValueError that names the remedy.
        """
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
    """Blocks of any kind one after the other: each gets the result of the one before.

    ``len(net)``, ``net[1]``, slices as ``net[:2]`` and ``for layer in net`` work as of a list. Blocks that are all
    HybridBlocks are better kept in a :class:`HybridSequential`, which is compiled as a whole.

    Examples
    --------
    >>> net = nn.Sequential()
    >>> net.add(nn.Dense(4, activation="relu"), nn.Dense(2))
    >>> net.initialize()
    >>> net(mx.nd.ones((3, 5))).shape
    (3, 2)
    >>> net
    Sequential(
      (0): Dense(5 -> 4, Activation(relu))
      (1): Dense(4 -> 2, linear)
    )
    """

    def forward(self, x: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The last block's output."""
        return self._in_order(x)

    @overload
    def hybridize(self, active: bool = True, **kwargs: Unpack[HybridizeOptions]) -> None: ...
    @overload
    def hybridize(self, active: bool = True, *, backend: str, **kwargs: Any) -> None: ...
    def hybridize(self, active: bool = True, **kwargs: Any) -> None:
        """Hybridize the children, each for itself; use :class:`HybridSequential` to compile them together.

        Parameters
        ----------
        active:
            Whether they are hybridized; False turns it off.
        **kwargs:
            Keywords of :meth:`HybridBlock.hybridize`.
        """
        children = list(self._children.values())
        if children and all(isinstance(c, HybridBlock) for c in children):
            warnings.warn(
                f"All children of this Sequential layer '{self.prefix}' are HybridBlocks. Consider using "
                "HybridSequential for the best performance.",
                stacklevel=user_depth(),
            )
        super().hybridize(active, **kwargs)


class HybridSequential(_Stack, HybridBlock):
    """HybridBlocks one after the other: each gets the result of the one before; they are compiled as one graph.

    ``len(net)``, ``net[1]``, slices as ``net[:2]`` and ``for layer in net`` work as of a list.

    Examples
    --------
    >>> net = nn.HybridSequential()
    >>> net.add(nn.Dense(4, activation="relu"), nn.Dense(2))
    >>> net.initialize()
    >>> net.hybridize()
    >>> net(mx.nd.ones((3, 5))).shape
    (3, 2)
    >>> net[0]
    Dense(5 -> 4, Activation(relu))
    >>> net[1:](mx.nd.ones((3, 4))).shape
    (3, 2)
    """

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The last block's output."""
        return self._in_order(x)


class Dense(HybridBlock):
    """``activation(x · weightᵀ + bias)``: a fully connected layer, weight (units, in_units), bias (units,)

    All axes of x but the first are one: (N, …) → (N, units). With ``flatten=False`` the last axis is transformed and
    the others stay: (…, in_units) → (…, units).

    Parameters
    ----------
    units:
        The number of outputs for each row.
    activation:
        The name of a function of the result, one of :class:`Activation`, as "relu"; None for none.
    use_bias:
        Whether a bias is added.
    flatten:
        Whether all axes of the input but the first are one.
    dtype:
        The dtype of the parameters.
    weight_initializer:
        The initializer of the weight; by default that of ``initialize()``.
    bias_initializer:
        The initializer of the bias.
    in_units:
        The number of inputs of each row; 0: it follows from the first input.

    Examples
    --------
    >>> layer = nn.Dense(2, weight_initializer="ones", bias_initializer="ones")
    >>> layer.initialize()
    >>> layer(mx.nd.array([[1, 2, 3], [4, 5, 6]]))
    [[ 7.  7.]
     [16. 16.]]
    <NDArray 2x2 @cpu(0)>
    >>> layer.weight.shape
    (2, 3)

    Images or sequences become rows, or keep their axes:

    >>> layers = nn.Dense(8), nn.Dense(8, flatten=False)
    >>> for layer in layers:
    ...     layer.initialize()
    ...     print(layer(mx.nd.ones((2, 5, 3))).shape)
    (2, 8)
    (2, 5, 8)
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
    """In train mode each element becomes 0 with probability ``rate``, or is multiplied by ``1 / (1 - rate)``

    Otherwise the result is x. Train mode is that of ``autograd.record()``. The result has the shape of the input, and
    on average its mean.

    Parameters
    ----------
    rate:
        The probability that an element becomes 0, from 0 to 1.
    axes:
        The axes along which elements share their fate: ``axes=(1,)`` keeps or drops whole rows of a matrix.

    Examples
    --------
    >>> layer = nn.Dropout(0.5, axes=(1,))
    >>> layer(mx.nd.ones((1, 3)))
    [[1. 1. 1.]]
    <NDArray 1x3 @cpu(0)>
    >>> mx.random.seed(3)
    >>> with autograd.record():
    ...     y = layer(mx.nd.ones((4, 3)))
    >>> y
    [[2. 2. 2.]
     [2. 2. 2.]
     [0. 0. 0.]
     [0. 0. 0.]]
    <NDArray 4x3 @cpu(0)>
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
    """``weight[x]``: numbers of rows (…) become these rows (…, output_dim) of a table, weight (input_dim, output_dim)

    Numbers outside of 0 to input_dim - 1 take the nearest row.

    Parameters
    ----------
    input_dim:
        The number of rows of the table, as of words in a vocabulary.
    output_dim:
        The length of a row.
    dtype:
        The dtype of the table and of the result.
    weight_initializer:
        The initializer of the table; by default that of ``initialize()``.
    sparse_grad:
        Whether the gradient of the table is row_sparse: it has the rows that x names alone, and a lazy update of an
        optimizer changes these alone.

    Examples
    --------
    >>> layer = nn.Embedding(4, 2)
    >>> layer.initialize()
    >>> layer.weight.set_data(mx.nd.array([[0, 0], [1, 10], [2, 20], [3, 30]]))
    >>> layer(mx.nd.array([3, 1, 3]))
    [[ 3. 30.]
     [ 1. 10.]
     [ 3. 30.]]
    <NDArray 3x2 @cpu(0)>
    >>> layer(mx.nd.zeros((8, 100))).shape
    (8, 100, 2)
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
    """``(x - mean) / sqrt(variance + epsilon) * gamma + beta``, mean and variance along ``axis`` (Ba et al. 2016)

    ``gamma`` and ``beta`` have a number for each index of ``axis``. The result has the shape of the input, in train
    mode and otherwise the same.

    Parameters
    ----------
    axis:
        The axis that is normalized, by default the last.
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
        The size of the normalized axis; 0: it follows from the first input.

    Examples
    --------
    >>> layer = nn.LayerNorm()
    >>> layer.initialize()
    >>> layer(mx.nd.array([[1, 3], [10, 30]]))
    [[-0.999995  0.999995]
     [-1.        1.      ]]
    <NDArray 2x2 @cpu(0)>
    >>> layer.gamma.shape
    (2,)
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
    """``(N, a, b, …)`` → ``(N, a*b*…)``: all axes but the first are one, as between convolutions and dense layers.

    Examples
    --------
    >>> nn.Flatten()(mx.nd.ones((2, 3, 4, 5))).shape
    (2, 60)
    """

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The layer's output."""
        return F.flatten(x)

    def __repr__(self) -> str:
        return type(self).__name__


class Lambda(Block):
    """A function of arrays as a block, for a :class:`Sequential`: ``nn.Lambda(lambda x: x * 2)``.

    It is not compiled; :class:`HybridLambda` is.

    Parameters
    ----------
    function:
        The function, or the name of one of ``mx.nd``, as "tanh". An unknown name is a CheckError, what cannot be
        called a ValueError.

    Examples
    --------
    >>> nn.Lambda(lambda x: x * 2)(mx.nd.array([1, 2]))
    [2. 4.]
    <NDArray 2 @cpu(0)>
    >>> nn.Lambda("square")(mx.nd.array([1, 2]))
    [1. 4.]
    <NDArray 2 @cpu(0)>
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
    """A function of ``F`` and arrays as a block that can be compiled: ``nn.HybridLambda(lambda F, x: F.tanh(x))``.

    ``F`` is ``mx.nd``, or ``mx.sym`` while the block is compiled.

    Parameters
    ----------
    function:
        The function of ``F`` and the inputs, or the name of a function of ``F``, as "tanh". An unknown name is a
        CheckError, what cannot be called a ValueError.

    Examples
    --------
    >>> net = nn.HybridSequential()
    >>> net.add(nn.HybridLambda(lambda F, x: F.clip(x, 0, 6)), nn.HybridLambda("square"))
    >>> net.hybridize()
    >>> net(mx.nd.array([-1, 2, 9]))
    [ 0.  4. 36.]
    <NDArray 3 @cpu(0)>
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

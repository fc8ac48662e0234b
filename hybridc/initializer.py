"""Initializers of parameters: ``mx.init``, which is ``mx.initializer``.

Layers take them as ``weight_initializer`` and so on, ``net.initialize(init)`` takes the one for all others: objects, or
registered names ("xavier", "zeros"). Their random numbers follow ``mx.random.seed``.
"""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from hybridc import nd, random, registry
from hybridc import nd as ndarray
from hybridc.array.ndarray import NDArray
from hybridc.base import string_types
from hybridc.dialects.control.rnn import Rnn
from hybridc.errors import CheckError, MXNetError, NotOverriddenError
from hybridc.ground.absent import absent as _absent
from hybridc.nd import load
from hybridc.registry import get_alias_func, get_create_func, get_register_func

Array = npt.NDArray[Any]
C = TypeVar("C", bound=type[Any])


class InitDesc(str):
    """A parameter's name, with its attributes and the initializer to fall back to.

    Parameters
    ----------
    name:
        The name of the parameter.
    attrs:
        Its attributes; ``__init__``, if it is there, names the initializer.
    global_init:
        The initializer of all others.
    """

    __slots__ = ("attrs", "global_init")

    attrs: dict[str, str]
    global_init: Initializer | None

    def __new__(
        cls, name: str, attrs: Mapping[str, str] | None = None, global_init: Initializer | None = None
    ) -> InitDesc:
        desc = super().__new__(cls, name)
        desc.attrs = dict(attrs or {})
        desc.global_init = global_init
        return desc


class Initializer:
    """The base of initializers: fills an array by what its name ends with; subclasses define ``_init_weight``.

    Call it with an :class:`InitDesc` (or a plain name) and an NDArray. Names that end in "weight" are filled as the
    subclass says, "gamma" and "running_var" with ones, "bias", "beta" and "running_mean" with zeros; other names are a
    ValueError. A description with the attribute ``__init__`` is initialized by that initializer, whatever its name: so
    are parameters that have one of their own, as the "bias_initializer" of a layer.

    Parameters
    ----------
    **kwargs:
        Arguments that :meth:`dumps` writes.

    Examples
    --------
    >>> class Eye(mx.init.Initializer):
    ...     def _init_weight(self, name, arr):
    ...         arr[:] = np.eye(*arr.shape)
    >>> layer = nn.Dense(2, in_units=2, weight_initializer=Eye())
    >>> layer.initialize()
    >>> layer.weight.data().asnumpy()
    array([[1., 0.],
           [0., 1.]], dtype=float32)
    """

    def __init__(self, **kwargs: Any) -> None:
        self._kwargs = kwargs
        self._verbose = False
        self._print_func: Callable[[Any], str] = _root_mean_square

    def set_verbosity(self, verbose: bool = False, print_func: Callable[[Any], str] | None = None) -> Initializer:
        """Log every initialization with a statistic of its values; returns the initializer.

        Parameters
        ----------
        verbose:
            Whether to log.
        print_func:
            A function of the NDArray that gives the text; None: the root mean square of the values.
        """
        self._verbose = verbose
        self._print_func = print_func or _root_mean_square
        return self

    def dumps(self) -> str:
        """The initializer as JSON, which :func:`create` reads: ``["normal", {"sigma": 0.5}]``."""
        return json.dumps([type(self).__name__.lower(), {k: _plain(v) for k, v in self._kwargs.items()}])

    def __call__(self, desc: str, arr: Any) -> None:
        """Fill an array.

        Parameters
        ----------
        desc:
            The name of the parameter, an :class:`InitDesc` or a plain string.
        arr:
            The NDArray, which is changed in place.
        """
        if not isinstance(desc, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"an initializer is called with a name and an array, got {desc!r} as the name")
        if isinstance(desc, InitDesc) and desc.global_init is None:
            desc.global_init = self
        override = desc.attrs.get("__init__", "") if isinstance(desc, InitDesc) else ""
        if override:
            create(override)._init_weight(desc, arr)
            self._verbose_print(desc, override, arr)
            return
        if not isinstance(desc, InitDesc):
            self._legacy_init(desc, arr)
        elif not self._by_suffix(desc, arr):
            self._init_default(desc, arr)

    def _by_suffix(self, desc: str, arr: Any) -> bool:
        """Initialize by what the name ends with; False where no rule is for it."""
        for suffix, method in _SUFFIXES:
            if desc.endswith(suffix):
                getattr(self, method)(desc, arr)
                self._verbose_print(desc, suffix, arr)
                return True
        return False

    def _legacy_init(self, name: str, arr: Any) -> None:
        """Initialize an array that has a plain name: as MXNet does, some names have a rule by what they begin with."""
        if name.startswith("upsampling") and len(arr.shape) == 4:
            self._init_bilinear(name, arr)
        elif name.startswith("stn_loc") and name.endswith("weight"):
            self._init_zero(name, arr)
        elif name.startswith("stn_loc") and name.endswith("bias"):
            self._init_loc_bias(name, arr)
        elif not self._by_suffix(name, arr):
            self._init_default(name, arr)

    def _verbose_print(self, desc: str, init: str, arr: Any) -> None:
        """Log what was initialized by which rule, if :meth:`set_verbosity` says so."""
        if self._verbose:
            logging.getLogger().info("Initialized %s as %s: %s", desc, init, self._print_func(arr))

    # The rules, as methods under MXNet's names because users' subclasses override them.

    def _init_weight(self, name: str, arr: Any) -> None:
        raise NotOverriddenError(
            f"{type(self).__name__} cannot initialize {name!r}: it does not define _init_weight(self, name, arr)"
        )

    def _init_bias(self, name: str, arr: Any) -> None:
        arr[:] = 0

    def _init_gamma(self, name: str, arr: Any) -> None:
        arr[:] = 1

    def _init_beta(self, name: str, arr: Any) -> None:
        arr[:] = 0

    def _init_zero(self, name: str, arr: Any) -> None:
        arr[:] = 0

    def _init_one(self, name: str, arr: Any) -> None:
        arr[:] = 1

    def _init_bilinear(self, name: str, arr: Any) -> None:
        Bilinear()._init_weight(name, arr)

    def _init_loc_bias(self, name: str, arr: Any) -> None:
        if arr.shape[0] != 6:
            raise CheckError(f"{name} has shape {arr.shape}, expected (6,): an affine map of the plane")
        arr[:] = np.array([1, 0, 0, 0, 1, 0])

    def _init_quantized_weight(self, name: str, arr: Any) -> None:
        # COMPAT(mxnet): each element has a number of its own; there all have the same one.
        arr[:] = random.generator(random.next_key()).integers(-127, 127, arr.shape)

    def _init_quantized_bias(self, name: str, arr: Any) -> None:
        arr[:] = 0

    def _init_default(self, name: str, arr: Any) -> None:
        known = ", ".join(f'"{suffix}"' for suffix, _ in _SUFFIXES)
        raise ValueError(
            f"Unknown initialization pattern for {name}: the default rules are for names that end in "
            f"{known}. Give the parameter an initializer of its own (init=mx.init.…)"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Initializer):
            return NotImplemented
        return type(self) is type(other) and self.dumps() == other.dumps()

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        options = ", ".join(f"{k}={v!r}" for k, v in self._kwargs.items())
        return f"{type(self).__name__}({options})"


# What a name ends with, and the method that initializes it; the first match counts.
_SUFFIXES = (
    ("weight", "_init_weight"),
    ("bias", "_init_bias"),
    ("gamma", "_init_gamma"),
    ("beta", "_init_beta"),
    # COMPAT(mxnet): there running and moving statistics have a rule only under plain names, not InitDesc.
    ("running_mean", "_init_zero"),
    ("moving_mean", "_init_zero"),
    ("moving_avg", "_init_zero"),
    ("moving_inv_var", "_init_zero"),
    ("running_var", "_init_one"),
    ("moving_var", "_init_one"),
    ("min", "_init_zero"),
    ("max", "_init_one"),
    ("weight_quantize", "_init_quantized_weight"),
    ("bias_quantize", "_init_quantized_bias"),
)

_register = get_register_func(Initializer, "initializer")
alias = get_alias_func(Initializer, "initializer")
create = get_create_func(Initializer, "initializer")


def register(klass: C) -> C:
    """Make an initializer class known to :func:`create`, and return it: it is a decorator, too.

    Parameters
    ----------
    klass:
        The class, known by its name in any case; a subclass of :class:`Initializer`, else a CheckError.
    """
    return _register(klass)


def _root_mean_square(arr: Any) -> str:
    values = np.asarray(arr.asnumpy(), dtype=np.float64)
    return str(float(np.sqrt(np.mean(values * values)))) if values.size else "empty"


def _plain(value: Any) -> Any:
    """An option as JSON has it: arrays become nested lists."""
    return value.tolist() if hasattr(value, "tolist") else value


def _uniform(arr: Any, scale: float) -> None:
    """Fill with numbers from [-scale, scale)."""
    dtype = np.float64 if arr.dtype == np.float64 else np.float32
    values = random.generator(random.next_key()).random(arr.shape, dtype=dtype)
    values *= 2 * scale
    values -= scale
    arr[:] = values


def _normal(arr: Any, sigma: float) -> None:
    """Fill with numbers of mean 0 and standard deviation sigma."""
    dtype = np.float64 if arr.dtype == np.float64 else np.float32
    values = random.generator(random.next_key()).standard_normal(arr.shape, dtype=dtype)
    values *= sigma
    arr[:] = values


@register
@alias("zeros")
class Zero(Initializer):
    """All zeros.

    Examples
    --------
    >>> w = mx.nd.array([3, 4])
    >>> mx.init.Zero()("weight", w)
    >>> w.asnumpy()
    array([0., 0.], dtype=float32)
    """

    def __init__(self) -> None:
        super().__init__()

    def _init_weight(self, name: str, arr: Any) -> None:
        arr[:] = 0


@register
@alias("ones")
class One(Initializer):
    """All ones.

    Examples
    --------
    >>> w = mx.nd.array([3, 4])
    >>> mx.init.One()("weight", w)
    >>> w.asnumpy()
    array([1., 1.], dtype=float32)
    """

    def __init__(self) -> None:
        super().__init__()

    def _init_weight(self, name: str, arr: Any) -> None:
        arr[:] = 1


@register
class Constant(Initializer):
    """A given number, or a given array.

    Parameters
    ----------
    value:
        A number, or an array, list or tuple of the parameter's shape, or of one that broadcasts to it; else an
        MXNetError.

    Examples
    --------
    >>> layer = nn.Dense(2, in_units=3, weight_initializer=mx.init.Constant([1, 2, 3]))
    >>> layer.initialize()
    >>> layer.weight.data().asnumpy()
    array([[1., 2., 3.],
           [1., 2., 3.]], dtype=float32)
    """

    # COMPAT(mxnet): lists and tuples are taken too; there they fail when the parameter is initialized.
    def __init__(self, value: Any) -> None:
        super().__init__(value=value)
        self.value = value

    def _init_weight(self, name: str, arr: Any) -> None:
        values = np.asarray(_plain(self.value))
        try:
            arr[:] = np.broadcast_to(values, arr.shape)
        except ValueError as error:
            raise MXNetError(
                f"Constant: cannot initialize {name!r} of shape {arr.shape} with values of shape "
                f"{values.shape}; give a number or an array of the parameter's shape"
            ) from error


@register
class Uniform(Initializer):
    """Uniform random numbers from ``-scale`` to ``scale``.

    Parameters
    ----------
    scale:
        The bound of the numbers.

    Examples
    --------
    >>> w = mx.nd.zeros(1000)
    >>> mx.init.Uniform(scale=0.5)("weight", w)
    >>> round(float(w.min().asscalar()), 1), round(float(w.max().asscalar()), 1)
    (-0.5, 0.5)
    """

    def __init__(self, scale: float = 0.07) -> None:
        super().__init__(scale=scale)
        self.scale = scale

    def _init_weight(self, name: str, arr: Any) -> None:
        _uniform(arr, self.scale)


@register
class Normal(Initializer):
    """Normal random numbers of mean 0.

    Parameters
    ----------
    sigma:
        The standard deviation of the numbers.

    Examples
    --------
    >>> w = mx.nd.zeros(100_000)
    >>> mx.init.Normal(sigma=0.5)("weight", w)
    >>> round(float(w.asnumpy().std()), 1)
    0.5
    """

    def __init__(self, sigma: float = 0.01) -> None:
        super().__init__(sigma=sigma)
        self.sigma = sigma

    def _init_weight(self, name: str, arr: Any) -> None:
        _normal(arr, self.sigma)


@register
class Orthogonal(Initializer):
    """A random matrix with orthogonal rows or columns (whichever are fewer), times ``scale``.

    From Saxe et al., https://arxiv.org/abs/1312.6120. Dimensions after the first count as one.

    Parameters
    ----------
    scale:
        The length of the rows or columns.
    rand_type:
        "uniform" or "normal": the distribution of the matrix from which it is computed.

    Examples
    --------
    >>> w = mx.nd.zeros((2, 3))
    >>> mx.init.Orthogonal(scale=2)("weight", w)
    >>> abs(mx.nd.dot(w, w.T)).asnumpy().round(3)
    array([[4., 0.],
           [0., 4.]], dtype=float32)
    """

    def __init__(self, scale: float = 1.414, rand_type: str = "uniform") -> None:
        super().__init__(scale=scale, rand_type=rand_type)
        if rand_type not in ("uniform", "normal"):
            raise ValueError(f"rand_type must be 'uniform' or 'normal', got {rand_type!r}")
        self.scale = scale
        self.rand_type = rand_type

    def _init_weight(self, name: str, arr: Any) -> None:
        rows = arr.shape[0]
        shape = (rows, math.prod(arr.shape[1:]))
        rng = random.generator(random.next_key())
        noise = rng.uniform(-1.0, 1.0, shape) if self.rand_type == "uniform" else rng.standard_normal(shape)
        u, _, v = np.linalg.svd(noise, full_matrices=False)
        basis: Array = u if u.shape == shape else v
        arr[:] = (self.scale * basis).reshape(arr.shape)


@register
class Xavier(Initializer):
    """Random numbers of scale ``sqrt(magnitude / factor)``, which keeps the gradients' scale across layers.

    The weight is of shape (outputs, inputs, …); kernels of convolutions multiply both numbers by the size of their
    window. Weights of one dimension are a ValueError. From Glorot and Bengio, "Understanding the difficulty of training
    deep feedforward neural networks".

    Parameters
    ----------
    rnd_type:
        "uniform": numbers between the scale and its negative; "gaussian": normal ones with this standard deviation.
    factor_type:
        What ``factor`` is: "in", the number of inputs; "out", that of outputs; "avg", the mean of both.
    magnitude:
        The numerator.

    Examples
    --------
    >>> w = mx.nd.zeros((100, 200))
    >>> mx.init.Xavier()("weight", w)
    >>> scale = (3 / 150) ** 0.5  # 0.1414
    >>> round(float(w.max().asscalar()), 2), bool((abs(w) <= scale).asnumpy().all())
    (0.14, True)
    """

    def __init__(self, rnd_type: str = "uniform", factor_type: str = "avg", magnitude: float = 3) -> None:
        super().__init__(rnd_type=rnd_type, factor_type=factor_type, magnitude=magnitude)
        if rnd_type not in ("uniform", "gaussian"):
            raise ValueError(f"Unknown random type {rnd_type!r}; use 'uniform' or 'gaussian'")
        if factor_type not in ("avg", "in", "out"):
            raise ValueError(f"Incorrect factor type {factor_type!r}; use 'avg', 'in' or 'out'")
        self.rnd_type = rnd_type
        self.factor_type = factor_type
        self.magnitude = float(magnitude)

    def _init_weight(self, name: str, arr: Any) -> None:
        shape = arr.shape
        if len(shape) < 2:
            raise ValueError(
                f"Xavier initializer cannot be applied to vector {name} of shape {shape}. It requires at least 2D."
            )
        window = math.prod(shape[2:])
        fan_in, fan_out = shape[1] * window, shape[0] * window
        factor = {"avg": (fan_in + fan_out) / 2.0, "in": fan_in, "out": fan_out}[self.factor_type]
        scale = math.sqrt(self.magnitude / factor) if factor else 0.0
        fill = _uniform if self.rnd_type == "uniform" else _normal
        fill(arr, scale)


@register
class MSRAPrelu(Xavier):
    """Normal numbers for layers before a PReLU of this slope: Xavier of magnitude ``2 / (1 + slope**2)``.

    From He et al., https://arxiv.org/abs/1502.01852.

    Parameters
    ----------
    slope:
        The slope of the PReLU below 0; 0 for a ReLU.

    Examples
    --------
    >>> w = mx.nd.zeros((1000, 200))
    >>> mx.init.MSRAPrelu("in", slope=0)("weight", w)
    >>> round(float(w.asnumpy().std()), 2)  # sqrt(2 / 200)
    0.1
    """

    def __init__(self, factor_type: str = "avg", slope: float = 0.25) -> None:
        super().__init__("gaussian", factor_type, 2.0 / (1 + slope**2))
        self._kwargs = {"factor_type": factor_type, "slope": slope}


@register
class Bilinear(Initializer):
    """The kernel of bilinear upsampling, for the weight (4 dimensions) of a transposed convolution.

    Examples
    --------
    >>> w = mx.nd.zeros((1, 1, 4, 4))  # for a stride of 2
    >>> mx.init.Bilinear()("weight", w)
    >>> w.asnumpy()[0, 0, :2]
    array([[0.0625, 0.1875, 0.1875, 0.0625],
           [0.1875, 0.5625, 0.5625, 0.1875]], dtype=float32)
    """

    def __init__(self) -> None:
        super().__init__()

    def _init_weight(self, name: str, arr: Any) -> None:
        if len(arr.shape) != 4:
            raise ValueError(f"Bilinear initializes arrays of 4 dimensions, {name} has shape {arr.shape}")
        height, width = map(int, arr.shape[2:])
        # The factor is that of the width in both directions, as in MXNet: kernels are square.
        factor = math.ceil(width / 2.0)
        center = (2 * factor - 1 - factor % 2) / (2.0 * factor)
        x = 1 - np.abs(np.arange(width) / factor - center)
        y = 1 - np.abs(np.arange(height) / factor - center)
        arr[:] = np.broadcast_to(np.outer(y, x), arr.shape)


@register
class LSTMBias(Initializer):
    """Zeros, but ``forget_bias`` for the forget gate: the second of the four gates of an LSTM's bias.

    Parameters
    ----------
    forget_bias:
        The value for the forget gate.

    Examples
    --------
    >>> cell = gluon.rnn.LSTMCell(2, i2h_bias_initializer=mx.init.LSTMBias(1.0))
    >>> cell.initialize()
    >>> cell.i2h_bias.data().asnumpy()
    array([0., 0., 1., 1., 0., 0., 0., 0.], dtype=float32)
    """

    def __init__(self, forget_bias: float = 1.0) -> None:
        super().__init__(forget_bias=forget_bias)
        self.forget_bias = forget_bias

    def _init_weight(self, name: str, arr: Any) -> None:
        hidden = arr.shape[0] // 4
        values = np.zeros(arr.shape)
        values[hidden : 2 * hidden] = self.forget_bias
        arr[:] = values


@register
class FusedRNN(Initializer):
    """The parts of the one parameter of the operator ``RNN``, each as a parameter of its own.

    Parameters
    ----------
    init:
        The initializer of the parts, or a registered name; None: the one for all parameters.
    num_hidden:
        The size of the hidden state.
    num_layers:
        The number of layers.
    mode:
        "rnn_relu", "rnn_tanh", "lstm" or "gru".
    bidirectional:
        Whether there are layers of both directions.
    forget_bias:
        The bias of the forget gates of an LSTM.

    Examples
    --------
    >>> w = mx.nd.zeros(16)  # of one input and one unit: two weights and two biases of 4 gates each
    >>> mx.init.FusedRNN("ones", num_hidden=1, num_layers=1, mode="lstm", forget_bias=2.0)("rnn_weight", w)
    >>> w.asnumpy()
    array([1., 1., 1., 1., 1., 1., 1., 1., 0., 2., 0., 0., 0., 2., 0., 0.],
          dtype=float32)
    """

    def __init__(
        self,
        init: Any,
        num_hidden: int,
        num_layers: int,
        mode: str,
        bidirectional: bool = False,
        forget_bias: float = 1.0,
    ) -> None:
        self._init = create(init) if isinstance(init, str) else init
        super().__init__(
            init=None if self._init is None else self._init.dumps(), num_hidden=num_hidden, num_layers=num_layers,
            mode=mode, bidirectional=bidirectional, forget_bias=forget_bias,
        )  # fmt: skip
        self._op: Any = Rnn.bind(state_size=num_hidden, num_layers=num_layers, mode=mode, bidirectional=bidirectional)
        self._forget_bias = forget_bias

    def _init_weight(self, name: str, arr: Any) -> None:
        whole = name.global_init if isinstance(name, InitDesc) else None
        chosen = whole if self._init is None else self._init
        if chosen is None:
            raise MXNetError(f"FusedRNN has no initializer for {name!r}: give it one, or a global one")
        values = np.zeros(arr.shape)
        for part, begin, shape in self._op.named_parts(self._op.features_of(arr.size)):
            made = nd.zeros(shape, dtype=arr.dtype)
            if self._op.mode == "lstm" and part.endswith("_f_bias"):
                made[:] = self._forget_bias
            else:
                chosen(InitDesc(part, global_init=whole), made)
            values[begin : begin + made.size] = made.asnumpy().reshape(-1)
        arr[:] = values


class Mixed:
    """The initializer of the first regular expression that matches the start of the parameter's name.

    A name that none matches is a ValueError: let the last one be ``".*"``.

    Parameters
    ----------
    patterns:
        Regular expressions of names.
    initializers:
        The initializer for each, or its registered name.

    Examples
    --------
    >>> init = mx.init.Mixed(["conv", ".*"], [mx.init.Constant(5), "ones"])
    >>> w, v = mx.nd.zeros(2), mx.nd.zeros(2)
    >>> init("conv0_weight", w)
    >>> init("dense0_weight", v)
    >>> w.asnumpy(), v.asnumpy()
    (array([5., 5.], dtype=float32), array([1., 1.], dtype=float32))
    """

    def __init__(self, patterns: Sequence[str], initializers: Sequence[Any]) -> None:
        if len(patterns) != len(initializers):
            raise CheckError(
                f"Mixed needs one initializer for each pattern, got {len(patterns)} patterns and "
                f"{len(initializers)} initializers"
            )
        # COMPAT(mxnet): an initializer's name is taken too.
        made = [create(init) if isinstance(init, str) else init for init in initializers]
        self.map = [(re.compile(pattern), init) for pattern, init in zip(patterns, made)]

    def __call__(self, name: str, arr: Any) -> None:
        """Fill an array.

        Parameters
        ----------
        name:
            The name of the parameter.
        arr:
            The NDArray, which is changed in place.
        """
        for pattern, init in self.map:
            if pattern.match(name):
                init(name, arr)
                return
        raise ValueError(
            f'Parameter name {name} did not match any pattern. Consider adding a ".*" pattern at the end '
            f"with a default Initializer."
        )


class Load:
    """The array of the same name in a parameter file or dict; others get ``default_init``.

    The prefixes ``arg:`` and ``aux:`` of names in the file are dropped.

    Parameters
    ----------
    param:
        Arrays by name, or the name of a parameter file.
    default_init:
        The initializer of names that are not there; None: they are a CheckError.
    verbose:
        Whether it is logged which initializer was used.

    Examples
    --------
    >>> init = mx.init.Load({"arg:dense0_weight": mx.nd.array([3, 4])}, default_init=mx.init.One())
    >>> w, other = mx.nd.zeros(2), mx.nd.zeros(2)
    >>> init("dense0_weight", w)
    >>> init("dense1_weight", other)
    >>> w.asnumpy(), other.asnumpy()
    (array([3., 4.], dtype=float32), array([1., 1.], dtype=float32))
    """

    def __init__(self, param: Any, default_init: Any = None, verbose: bool = False) -> None:
        if isinstance(param, str):
            param = load(param)
        if not hasattr(param, "items"):
            raise CheckError(f"Load needs a file name or a dict of name to NDArray, got {type(param).__name__}")
        named: Mapping[str, Any] = param
        self.param = {re.sub("^(arg|aux):", "", name): arr for name, arr in named.items()}
        self.default_init = default_init
        self.verbose = verbose

    def __call__(self, name: str, arr: Any) -> None:
        """Fill an array.

        Parameters
        ----------
        name:
            The name of the parameter.
        arr:
            The NDArray, which is changed in place.
        """
        loaded = self.param.get(name)
        if loaded is None and self.default_init is None:
            raise CheckError(
                f"Load: cannot initialize {name}: it is not among the loaded parameters "
                f"({', '.join(sorted(self.param)) or 'none'}) and there is no default_init"
            )
        if loaded is None:
            self.default_init(name, arr)
        elif tuple(loaded.shape) != tuple(arr.shape):
            raise CheckError(f"Load: {name} has shape {arr.shape}, but shape {loaded.shape} in what was loaded")
        else:
            arr[:] = loaded
        if self.verbose:
            logging.getLogger().info("Initialized %s by %s", name, "default" if loaded is None else "loading")


__all__ = [
    "Bilinear", "Constant", "FusedRNN", "InitDesc", "Initializer", "LSTMBias", "Load", "MSRAPrelu", "Mixed", "NDArray",
    "Normal", "One", "Orthogonal", "Uniform", "Xavier", "Zero", "alias", "create", "load", "ndarray", "register",
    "registry", "string_types",
]  # fmt: skip


if not TYPE_CHECKING:  # what there is not is an error of the type checker

    def __getattr__(name: str) -> Any:
        raise _absent("mx.init", name, "initializer", globals())

"""``mx.nd.random``: random numbers; the parameters are numbers, or arrays: one distribution an element."""

from __future__ import annotations

import warnings
from typing import Any

from hybridc.array.fluent import Fluent
from hybridc.array.functions import function, require_hidden
from hybridc.array.ndarray import NDArray
from hybridc.context import Context, check_device
from hybridc.errors import CheckError
from hybridc.ground.display.tracebacks import hides_frames
from hybridc.ground.location import user_depth
from hybridc.nd.namespace import lookup

__all__ = [
    "exponential",
    "gamma",
    "generalized_negative_binomial",
    "multinomial",
    "negative_binomial",
    "normal",
    "poisson",
    "randint",
    "randn",
    "shuffle",
    "uniform",
]

ShapeLike = int | tuple[int, ...] | None

# What follows is also an operator of its name; this finds the rest: bernoulli, normal_like, …
__getattr__, __dir__ = lookup("random", "random_")


def _is_array(x: Any) -> bool:
    return isinstance(x, Fluent)


def _draw(
    name: str,
    parameters: tuple[Any, ...],
    shape: Any,
    dtype: Any,
    ctx: Context | None,
    out: Any,
) -> Any:
    """The operator ``random_<name>`` for numbers, ``sample_<name>`` for arrays."""
    if ctx is not None:
        check_device(ctx)
    arrays = [_is_array(p) for p in parameters]
    if any(arrays) and not all(arrays):
        raise CheckError(
            "Distribution parameters must all have the same type, but got "
            + " and ".join(type(p).__name__ for p in parameters)
            + "; make all of them NDArrays or all of them numbers"
        )
    if out is not None and not arrays[0]:  # what is not said is that of the array which is filled
        shape = out.shape if shape is None else shape
        dtype = out.dtype if dtype in (None, "None") else dtype
    options: dict[str, Any] = {} if shape is None else {"shape": shape}
    if dtype not in (None, "None"):
        options["dtype"] = dtype
    return function(("sample_" if arrays[0] else "random_") + name)(*parameters, **options, out=out, ctx=ctx)


def _warn_of_sizes(name: str, first: Any, second: Any, shape: Any, out: Any) -> None:
    """Warn where two parameters of one number look like the sizes of a shape."""
    if shape is not None or out is not None or type(first) is not int or type(second) is not int:
        return
    if first > 1 and second > 1:
        meaning = "mean and standard deviation" if name == "normal" else "bounds"
        warnings.warn(
            f"{name}({first}, {second}) is one random number, {first} and {second} are its {meaning}; sizes are "
            f"shape=({first}, {second})",
            stacklevel=user_depth(),
        )


@hides_frames
def uniform(
    low: Any = 0,
    high: Any = 1,
    shape: ShapeLike = None,
    dtype: Any = None,
    ctx: Context | None = None,
    out: Any = None,
    **kwargs: Any,
) -> NDArray:
    """Samples of a uniform distribution on [low, high).

    Parameters
    ----------
    low, high:
        The least number, and the bound that is not reached: two numbers, or two arrays of one shape.
    shape:
        The sizes of the result. Where parameters are arrays, of the numbers for each element; None for one.
    dtype:
        The element type; None for float32, or, of arrays, theirs.
    ctx:
        The device; None for the current one.
    out:
        An array into which the numbers are written, which gives shape and dtype where they are not given.

    Examples
    --------
    >>> mx.random.seed(0)
    >>> print(mx.nd.random.uniform(0, 10, shape=(2, 3)).asnumpy().round(2))
    [[0.35 0.12 6.12]
     [2.42 3.65 1.11]]
    >>> print(mx.nd.random.uniform(mx.nd.array([0, 2]), mx.nd.array([1, 4]), shape=3).asnumpy().round(2))
    [[0.72 0.34 0.13]
     [3.15 3.53 2.17]]
    """
    require_hidden("uniform", kwargs)
    _warn_of_sizes("uniform", low, high, shape, out)
    return _draw("uniform", (low, high), shape, dtype, ctx, out)


@hides_frames
def normal(
    loc: Any = 0,
    scale: Any = 1,
    shape: ShapeLike = None,
    dtype: Any = None,
    ctx: Context | None = None,
    out: Any = None,
    **kwargs: Any,
) -> NDArray:
    """Numbers from the normal distribution.

    Parameters
    ----------
    loc, scale:
        The mean and the standard deviation: two numbers, or two arrays of one shape.
    shape:
        The sizes of the result. Where parameters are arrays, of the numbers for each element; None for one.
    dtype:
        The element type; None for float32, or, of arrays, theirs.
    ctx:
        The device; None for the current one.
    out:
        An array into which the numbers are written, which gives shape and dtype where they are not given.

    Examples
    --------
    >>> mx.random.seed(0)
    >>> print(mx.nd.random.normal(shape=(2, 3)).asnumpy().round(2))
    [[ 0.06  0.02 -1.16]
     [-0.13  0.54 -0.2 ]]
    """
    require_hidden("normal", kwargs)
    _warn_of_sizes("normal", loc, scale, shape, out)
    return _draw("normal", (loc, scale), shape, dtype, ctx, out)


@hides_frames
def randn(
    *shape: int,
    loc: Any = 0,
    scale: Any = 1,
    dtype: Any = None,
    ctx: Context | None = None,
    out: Any = None,
    **kwargs: Any,
) -> NDArray:
    """Numbers from the normal distribution, in the shape that the arguments give.

    Parameters
    ----------
    *shape:
        The sizes; none for one number.
    loc, scale:
        The mean and the standard deviation: two numbers, or two arrays of one shape.
    dtype:
        The element type; None for float32, or, of arrays, theirs.
    ctx:
        The device; None for the current one.
    out:
        An array into which the numbers are written, which gives shape and dtype where they are not given.

    Examples
    --------
    >>> mx.random.seed(0)
    >>> print(mx.nd.random.randn(2, 3).asnumpy().round(2))
    [[ 0.06  0.02 -1.16]
     [-0.13  0.54 -0.2 ]]
    """
    require_hidden("randn", kwargs)
    return _draw("normal", (loc, scale), shape or None, dtype, ctx, out)


@hides_frames
def exponential(
    scale: Any = 1,
    shape: ShapeLike = None,
    dtype: Any = None,
    ctx: Context | None = None,
    out: Any = None,
    **kwargs: Any,
) -> NDArray:
    """Numbers from the exponential distribution.

    Parameters
    ----------
    scale:
        The mean, a number or an array.
    shape:
        The sizes of the result. Where parameters are arrays, of the numbers for each element; None for one.
    dtype:
        The element type; None for float32, or, of arrays, theirs.
    ctx:
        The device; None for the current one.
    out:
        An array into which the numbers are written, which gives shape and dtype where they are not given.

    Examples
    --------
    >>> mx.random.seed(0)
    >>> print(mx.nd.random.exponential(10, shape=(2, 3)).asnumpy().round(2))
    [[ 0.38  0.09 20.51]
     [ 4.19  3.32  3.49]]
    """
    require_hidden("exponential", kwargs)
    return _draw("exponential", (1.0 / scale,), shape, dtype, ctx, out)


@hides_frames
def gamma(
    alpha: Any = 1,
    beta: Any = 1,
    shape: ShapeLike = None,
    dtype: Any = None,
    ctx: Context | None = None,
    out: Any = None,
    **kwargs: Any,
) -> NDArray:
    """Numbers from the gamma distribution, whose mean is alpha beta.

    Parameters
    ----------
    alpha, beta:
        Its shape and its scale, positive numbers, or two arrays of one shape.
    shape:
        The sizes of the result. Where parameters are arrays, of the numbers for each element; None for one.
    dtype:
        The element type; None for float32, or, of arrays, theirs.
    ctx:
        The device; None for the current one.
    out:
        An array into which the numbers are written, which gives shape and dtype where they are not given.

    Examples
    --------
    >>> mx.random.seed(0)
    >>> print(mx.nd.random.gamma(9, 0.5, shape=(2, 3)).asnumpy().round(2))
    [[4.57 6.59 4.28]
     [2.89 4.39 6.67]]
    """
    require_hidden("gamma", kwargs)
    return _draw("gamma", (alpha, beta), shape, dtype, ctx, out)


@hides_frames
def poisson(
    lam: Any = 1, shape: ShapeLike = None, dtype: Any = None, ctx: Context | None = None, out: Any = None, **kwargs: Any
) -> NDArray:
    """Counts from the Poisson distribution.

    Parameters
    ----------
    lam:
        The mean, a number or an array.
    shape:
        The sizes of the result. Where parameters are arrays, of the numbers for each element; None for one.
    dtype:
        The element type; None for float32, or, of arrays, theirs.
    ctx:
        The device; None for the current one.
    out:
        An array into which the numbers are written, which gives shape and dtype where they are not given.

    Examples
    --------
    >>> mx.random.seed(0)
    >>> print(mx.nd.random.poisson(4, shape=(2, 3)).asnumpy())
    [[0. 2. 5.]
     [3. 5. 1.]]
    """
    require_hidden("poisson", kwargs)
    return _draw("poisson", (lam,), shape, dtype, ctx, out)


@hides_frames
def negative_binomial(
    k: Any = 1,
    p: Any = 1,
    shape: ShapeLike = None,
    dtype: Any = None,
    ctx: Context | None = None,
    out: Any = None,
    **kwargs: Any,
) -> NDArray:
    """How many failures come before the k-th success of probability p.

    Parameters
    ----------
    k, p:
        The number of successes, and the probability of each: two numbers, or two arrays of one shape.
    shape:
        The sizes of the result. Where parameters are arrays, of the numbers for each element; None for one.
    dtype:
        The element type; None for float32, or, of arrays, theirs.
    ctx:
        The device; None for the current one.
    out:
        An array into which the numbers are written, which gives shape and dtype where they are not given.

    Examples
    --------
    >>> mx.random.seed(0)
    >>> print(mx.nd.random.negative_binomial(3, 0.5, shape=(2, 3)).asnumpy())
    [[4. 4. 4.]
     [3. 3. 4.]]
    """
    require_hidden("negative_binomial", kwargs)
    return _draw("negative_binomial", (k, p), shape, dtype, ctx, out)


@hides_frames
def generalized_negative_binomial(
    mu: Any = 1,
    alpha: Any = 1,
    shape: ShapeLike = None,
    dtype: Any = None,
    ctx: Context | None = None,
    out: Any = None,
    **kwargs: Any,
) -> NDArray:
    """Counts with the mean mu and the variance mu + alpha mu^2.

    Parameters
    ----------
    mu, alpha:
        The mean and the dispersion: two numbers, or two arrays of one shape.
    shape:
        The sizes of the result. Where parameters are arrays, of the numbers for each element; None for one.
    dtype:
        The element type; None for float32, or, of arrays, theirs.
    ctx:
        The device; None for the current one.
    out:
        An array into which the numbers are written, which gives shape and dtype where they are not given.

    Examples
    --------
    >>> mx.random.seed(0)
    >>> print(mx.nd.random.generalized_negative_binomial(4, 0.5, shape=(2, 3)).asnumpy())
    [[ 5.  7.  6.]
     [ 2.  2. 10.]]
    """
    require_hidden("generalized_negative_binomial", kwargs)
    return _draw("generalized_negative_binomial", (mu, alpha), shape, dtype, ctx, out)


@hides_frames
def randint(
    low: int,
    high: int,
    shape: ShapeLike = None,
    dtype: Any = None,
    ctx: Context | None = None,
    out: Any = None,
    **kwargs: Any,
) -> NDArray:
    """Integers that are equally likely from low up to but without high.

    Parameters
    ----------
    low, high:
        The least integer, and the one that is not drawn.
    shape:
        The sizes of the result; None for one number.
    dtype:
        An integer type; None for int32.
    ctx:
        The device; None for the current one.
    out:
        An array into which the numbers are written, which gives shape and dtype where they are not given.

    Examples
    --------
    >>> mx.random.seed(0)
    >>> print(mx.nd.random.randint(0, 10, shape=(2, 3)).asnumpy())
    [[0 0 6]
     [2 3 1]]
    """
    require_hidden("randint", kwargs)
    return _draw("randint", (low, high), shape, dtype, ctx, out)


@hides_frames
def multinomial(
    data: Any, shape: ShapeLike = None, get_prob: bool = False, out: Any = None, dtype: Any = "int32", **kwargs: Any
) -> Any:
    """Indices drawn by the probabilities in each row of data.

    Parameters
    ----------
    data:
        Probabilities, which sum to 1 along the last axis.
    shape:
        The sizes of what is drawn for each row; None for one index.
    get_prob:
        Give also the logarithms of the probabilities of what was drawn, whose gradient flows to data.
    out:
        An array into which the indices are written.
    dtype:
        The element type of the indices.

    Examples
    --------
    >>> mx.random.seed(0)
    >>> p = mx.nd.array([[0.1, 0.9], [0.5, 0.5]])
    >>> print(mx.nd.random.multinomial(p, shape=8).asnumpy())
    [[0 1 1 1 1 1 1 1]
     [0 0 1 0 1 0 1 1]]
    """
    require_hidden("multinomial", kwargs)
    return function("sample_multinomial")(data, () if shape is None else shape, get_prob, dtype, out=out)


@hides_frames
def shuffle(data: Any, out: Any = None, **kwargs: Any) -> NDArray:
    """The slices along the first axis in random order.

    Parameters
    ----------
    data:
        The array, which stays as it is.
    out:
        An array into which they are written.

    Examples
    --------
    >>> mx.random.seed(0)
    >>> print(mx.nd.random.shuffle(mx.nd.array([[0, 1], [2, 3], [4, 5]])).asnumpy())
    [[2. 3.]
     [4. 5.]
     [0. 1.]]
    """
    require_hidden("shuffle", kwargs)
    return function("shuffle")(data, out=out)

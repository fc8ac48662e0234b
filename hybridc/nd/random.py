"""``mx.nd.random``: random numbers; the parameters are numbers, or arrays: one distribution an element."""

from __future__ import annotations

from typing import Any

from hybridc.array.fluent import Fluent
from hybridc.array.functions import function, require_hidden
from hybridc.context import Context, check_device
from hybridc.errors import CheckError
from hybridc.nd.namespace import lookup

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


def uniform(
    low: Any = 0,
    high: Any = 1,
    shape: ShapeLike = None,
    dtype: Any = None,
    ctx: Context | None = None,
    out: Any = None,
    **kwargs: Any,
) -> Any:
    """Samples of a uniform distribution on [low, high)."""
    require_hidden("uniform", kwargs)
    return _draw("uniform", (low, high), shape, dtype, ctx, out)


def normal(
    loc: Any = 0,
    scale: Any = 1,
    shape: ShapeLike = None,
    dtype: Any = None,
    ctx: Context | None = None,
    out: Any = None,
    **kwargs: Any,
) -> Any:
    """Numbers from the normal distribution with that mean and standard deviation."""
    require_hidden("normal", kwargs)
    return _draw("normal", (loc, scale), shape, dtype, ctx, out)


def randn(
    *shape: int,
    loc: Any = 0,
    scale: Any = 1,
    dtype: Any = None,
    ctx: Context | None = None,
    out: Any = None,
    **kwargs: Any,
) -> Any:
    """Numbers from the normal distribution, in the shape that the arguments give."""
    require_hidden("randn", kwargs)
    return _draw("normal", (loc, scale), shape or None, dtype, ctx, out)


def exponential(
    scale: Any = 1,
    shape: ShapeLike = None,
    dtype: Any = None,
    ctx: Context | None = None,
    out: Any = None,
    **kwargs: Any,
) -> Any:
    """Numbers from the exponential distribution with the mean ``scale``."""
    require_hidden("exponential", kwargs)
    return _draw("exponential", (1.0 / scale,), shape, dtype, ctx, out)


def gamma(
    alpha: Any = 1,
    beta: Any = 1,
    shape: ShapeLike = None,
    dtype: Any = None,
    ctx: Context | None = None,
    out: Any = None,
    **kwargs: Any,
) -> Any:
    """Numbers from the gamma distribution with the shape alpha and the scale beta; the mean is alpha beta."""
    require_hidden("gamma", kwargs)
    return _draw("gamma", (alpha, beta), shape, dtype, ctx, out)


def poisson(
    lam: Any = 1, shape: ShapeLike = None, dtype: Any = None, ctx: Context | None = None, out: Any = None, **kwargs: Any
) -> Any:
    """Counts from the Poisson distribution with the mean lam."""
    require_hidden("poisson", kwargs)
    return _draw("poisson", (lam,), shape, dtype, ctx, out)


def negative_binomial(
    k: Any = 1,
    p: Any = 1,
    shape: ShapeLike = None,
    dtype: Any = None,
    ctx: Context | None = None,
    out: Any = None,
    **kwargs: Any,
) -> Any:
    """How many failures come before the k-th success of probability p."""
    require_hidden("negative_binomial", kwargs)
    return _draw("negative_binomial", (k, p), shape, dtype, ctx, out)


def generalized_negative_binomial(
    mu: Any = 1,
    alpha: Any = 1,
    shape: ShapeLike = None,
    dtype: Any = None,
    ctx: Context | None = None,
    out: Any = None,
    **kwargs: Any,
) -> Any:
    """Counts with the mean mu and the variance mu + alpha mu^2."""
    require_hidden("generalized_negative_binomial", kwargs)
    return _draw("generalized_negative_binomial", (mu, alpha), shape, dtype, ctx, out)


def randint(
    low: int,
    high: int,
    shape: ShapeLike = None,
    dtype: Any = None,
    ctx: Context | None = None,
    out: Any = None,
    **kwargs: Any,
) -> Any:
    """Integers that are equally likely from low up to but without high."""
    require_hidden("randint", kwargs)
    return _draw("randint", (low, high), shape, dtype, ctx, out)


def multinomial(
    data: Any, shape: ShapeLike = None, get_prob: bool = False, out: Any = None, dtype: Any = "int32", **kwargs: Any
) -> Any:
    """Indices drawn by the probabilities in each row of data; with ``get_prob``, also their logarithms."""
    require_hidden("multinomial", kwargs)
    return function("sample_multinomial")(data, () if shape is None else shape, get_prob, dtype, out=out)


def shuffle(data: Any, out: Any = None, **kwargs: Any) -> Any:
    """The slices along the first axis in random order."""
    require_hidden("shuffle", kwargs)
    return function("shuffle")(data, out=out)

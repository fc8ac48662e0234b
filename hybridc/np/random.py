"""Random arrays of ``mx.np``; the generator is that of ``mx.random``, which ``mx.random.seed`` seeds.

Samples are noise of a few operators, scaled and bent by functions that can be differentiated: so loc, scale and, where
the noise allows it, shape parameters have gradients. Parameters broadcast; with ``size=None`` samples have the shape to
which they do. A hybridized block draws anew at each call.
"""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnnecessaryIsInstance=false
# Arguments are whatever NumPy takes: numbers, lists, arrays, symbols.

from __future__ import annotations

import math
from typing import Any

import numpy as onp

from hybridc import random
from hybridc.array.dispatch import is_symbol
from hybridc.array.functions import function
from hybridc.array.ndarray import assign
from hybridc.array.numpy_array import as_numpy
from hybridc.errors import TraceError
from hybridc.ground.absent import absent as _absent
from hybridc.ground.location import user_location
from hybridc.np.apply import cast, dtype_of, into, is_number, operand, reshaped
from hybridc.np.by_element import exp, expm1, log, maximum, sqrt
from hybridc.np.by_element import power as power_of
from hybridc.np.linalg import eigh
from hybridc.np.making import arange
from hybridc.np.reducing import given
from hybridc.np.selection import argsort, take
from hybridc.np.shaping import broadcast_to, expand_dims, reshape
from hybridc.np.sums_of_products import matmul

__all__ = [
    "beta",
    "binomial",
    "chisquare",
    "choice",
    "exponential",
    "f",
    "gamma",
    "gumbel",
    "laplace",
    "logistic",
    "lognormal",
    "multinomial",
    "multivariate_normal",
    "normal",
    "pareto",
    "permutation",
    "power",
    "rand",
    "randint",
    "randn",
    "rayleigh",
    "seed",
    "shuffle",
    "uniform",
    "weibull",
]


def seed(seed: int, ctx: Any = "all") -> None:
    """Start the random numbers over from an integer."""
    random.seed(seed, ctx)


# --- noise, and parameters ---------------------------------------------------------------------------------------


def shape_of_size(size: Any) -> tuple[int, ...]:
    """The shape that the argument ``size`` gives."""
    return () if size is None else (int(size),) if isinstance(size, int | onp.integer) else tuple(size)


def drawn(name: str, numbers: tuple[Any, ...], shape: tuple[int, ...], dtype: Any, ctx: Any) -> Any:
    """Samples of a distribution whose parameters are numbers, by the operator of ``mx.nd``."""
    if 0 in shape:
        return as_numpy(function("_zeros")(shape, dtype, ctx=ctx))
    return reshaped(as_numpy(function(f"random_{name}")(*numbers, shape=shape or (1,), dtype=dtype, ctx=ctx)), shape)


class Parameters:
    """The parameters of a distribution in the dtype of its samples, with their shape and device."""

    def __init__(self, size: Any, dtype: Any, ctx: Any, *values: Any) -> None:
        self.dtype = onp.dtype("float32" if dtype is None else dtype)
        found = [v if is_number(v) else operand(v) for v in values]
        self.values = [v if is_number(v) else cast(v, self.dtype) for v in found]
        arrays = [v for v in self.values if not is_number(v)]
        self.are_numbers = not arrays
        self.ctx = arrays[0].context if ctx is None and arrays and not is_symbol(arrays[0]) else ctx
        self.shape = onp.broadcast_shapes(*[v.shape for v in arrays]) if size is None else shape_of_size(size)
        if size is not None and onp.broadcast_shapes(self.shape, *[v.shape for v in arrays]) != self.shape:
            raise ValueError(
                f"size={size} must be a shape to which the parameters broadcast, which have {[v.shape for v in arrays]}"
            )

    def noise(self, name: str, *numbers: Any) -> Any:
        """Samples of a distribution of numbers, one for each sample."""
        return drawn(name, numbers, self.shape, self.dtype, self.ctx)

    def exponentials(self) -> Any:
        """Samples of the exponential distribution with the mean 1, none of them 0: they have logarithms."""
        # Half of the resolution of the generator's samples.
        return maximum(self.noise("exponential", 1.0), 2.0**-54 if self.dtype.itemsize == 8 else 2.0**-25)

    def gammas(self, alpha: Any) -> Any:
        """Samples of the gamma distribution of a shape parameter, a number or an array, and the scale 1."""
        if is_number(alpha):
            return self.noise("gamma", alpha, 1.0)
        alpha = broadcast_to(alpha, self.shape)
        if 0 in self.shape:
            return alpha
        flat = reshape(alpha, (alpha.size,))
        return reshaped(function("sample_gamma")(flat, function("ones_like")(flat)), self.shape)


# --- distributions -----------------------------------------------------------------------------------------------


def uniform(
    low: Any = 0.0, high: Any = 1.0, size: Any = None, dtype: Any = None, ctx: Any = None, out: Any = None
) -> Any:
    """Samples of a uniform distribution on [low, high)."""
    p = Parameters(size, dtype, ctx, low, high)
    if p.are_numbers and low <= high:
        return into(p.noise("uniform", low, high), out)
    # COMPAT(mxnet): there the bounds have no gradient.
    low, high = p.values
    return into(low + (high - low) * p.noise("uniform", 0.0, 1.0), out)


def normal(
    loc: Any = 0.0, scale: Any = 1.0, size: Any = None, dtype: Any = None, ctx: Any = None, out: Any = None
) -> Any:
    """Samples of a normal distribution with mean ``loc`` and standard deviation ``scale``."""
    p = Parameters(size, dtype, ctx, loc, scale)
    if p.are_numbers:
        return into(p.noise("normal", loc, scale), out)
    loc, scale = p.values
    return into(loc + scale * p.noise("normal", 0.0, 1.0), out)


def lognormal(
    mean: Any = 0.0, sigma: Any = 1.0, size: Any = None, dtype: Any = None, ctx: Any = None, out: Any = None
) -> Any:
    """Samples whose logarithms are of a normal distribution."""
    return into(exp(normal(mean, sigma, size, dtype, ctx)), out)


def logistic(loc: Any = 0.0, scale: Any = 1.0, size: Any = None, ctx: Any = None, out: Any = None) -> Any:
    """Samples of a logistic distribution, whose variance is (scale π)² / 3."""
    p = Parameters(size, None, ctx, loc, scale)
    loc, scale = p.values
    return into(loc + scale * (log(p.exponentials()) - log(p.exponentials())), out)


def gumbel(loc: Any = 0.0, scale: Any = 1.0, size: Any = None, ctx: Any = None, out: Any = None) -> Any:
    """Samples of a Gumbel distribution, of the greatest of many: its mean is loc + 0.5772… scale."""
    p = Parameters(size, None, ctx, loc, scale)
    loc, scale = p.values
    return into(loc - scale * log(p.exponentials()), out)


def laplace(
    loc: Any = 0.0, scale: Any = 1.0, size: Any = None, dtype: Any = None, ctx: Any = None, out: Any = None
) -> Any:
    """Samples of a Laplace distribution, of the density exp(-|x - loc| / scale) / (2 scale)."""
    p = Parameters(size, dtype, ctx, loc, scale)
    loc, scale = p.values
    return into(loc + scale * (p.exponentials() - p.exponentials()), out)


def exponential(scale: Any = 1.0, size: Any = None, ctx: Any = None, out: Any = None) -> Any:
    """Samples of an exponential distribution with the mean ``scale``."""
    p = Parameters(size, None, ctx, scale)
    return into(p.values[0] * p.noise("exponential", 1.0), out)


def rayleigh(scale: Any = 1.0, size: Any = None, ctx: Any = None, out: Any = None) -> Any:
    """Samples of a Rayleigh distribution: the lengths of vectors of two numbers of normal(0, scale)."""
    p = Parameters(size, None, ctx, scale)
    return into(p.values[0] * sqrt(2.0 * p.exponentials()), out)


def weibull(a: Any, size: Any = None, ctx: Any = None, out: Any = None) -> Any:
    """Samples of a Weibull distribution of the shape ``a`` and the scale 1."""
    p = Parameters(size, None, ctx, a)
    return into(power_of(p.exponentials(), 1.0 / p.values[0]), out)


def pareto(a: Any, size: Any = None, ctx: Any = None, out: Any = None) -> Any:
    """Samples of a Pareto distribution of the second kind, of the shape ``a``: x + 1 is at least 1."""
    p = Parameters(size, None, ctx, a)
    return into(expm1(p.exponentials() / p.values[0]), out)


def power(a: Any, size: Any = None) -> Any:
    """Samples in [0, 1] of the density a x^(a - 1)."""
    p = Parameters(size, None, None, a)
    return exp(-p.exponentials() / p.values[0])


def gamma(shape: Any, scale: Any = 1.0, size: Any = None, dtype: Any = None, ctx: Any = None, out: Any = None) -> Any:
    """Samples of a gamma distribution with the mean shape · scale; ``shape`` has no gradient."""
    # COMPAT(mxnet): there scale has none either.
    p = Parameters(size, dtype, ctx, shape, scale)
    shape, scale = p.values
    return into(p.gammas(shape) * scale, out)


def beta(a: Any, b: Any, size: Any = None, dtype: Any = None, ctx: Any = None) -> Any:
    """Samples in [0, 1] of a beta distribution with the mean a / (a + b)."""
    p = Parameters(size, "float64", ctx, a, b)  # samples of small parameters are smaller than float32 can hold
    first, second = (p.gammas(v) for v in p.values)
    return cast(first / (first + second), dtype or "float32")


def chisquare(df: Any, size: Any = None, dtype: Any = None, ctx: Any = None) -> Any:
    """Samples of the sum of ``df`` squares of normal samples."""
    p = Parameters(size, dtype, ctx, df)
    return p.gammas(p.values[0] / 2.0) * 2.0


def f(dfnum: Any, dfden: Any, size: Any = None, ctx: Any = None) -> Any:
    """Samples of the ratio of the means of ``dfnum`` and of ``dfden`` squares of normal samples."""
    p = Parameters(size, None, ctx, dfnum, dfden)
    first, second = (p.gammas(v / 2.0) / v for v in p.values)
    return first / second


def binomial(n: Any, p: Any, size: Any = None, dtype: Any = None, ctx: Any = None) -> Any:
    """How many of n trials succeed that do so with the probability p; int64."""
    parameters = Parameters(size, "float64", ctx, n, p)
    shape = parameters.shape
    if 0 in shape:
        return as_numpy(function("_zeros")(shape, dtype or "int64"))
    trials, chances = (_spread(v, parameters) for v in parameters.values)
    return reshaped(as_numpy(function("_sample_binomial")(trials, chances, dtype=dtype or "int64")), shape)


def _spread(value: Any, p: Parameters) -> Any:
    """A parameter for each sample, in one axis."""
    count = math.prod(p.shape)
    if is_number(value):
        return as_numpy(function("_full")((count,), p.dtype, float(value), ctx=p.ctx))
    return reshape(broadcast_to(value, p.shape), (count,))


def randint(
    low: int, high: int | None = None, size: Any = None, dtype: Any = None, ctx: Any = None, out: Any = None
) -> Any:
    """Whole numbers that are equally likely from low up to but without high; with one number, it is high. int64."""
    if high is None:
        low, high = 0, low
    if high <= low:
        raise ValueError(f"mx.np.random.randint: low={low} must be less than high={high}")
    made = drawn("randint", (low, high), shape_of_size(size), "int64", ctx)
    return into(made if dtype is None else made.astype(dtype), out)


def rand(*size: int, **kwargs: Any) -> Any:
    """Samples of a uniform distribution on [0, 1) in the shape that the arguments give."""
    return uniform(0.0, 1.0, size, **kwargs)


def randn(*size: int, **kwargs: Any) -> Any:
    """Samples of the standard normal distribution in the shape that the arguments give."""
    return normal(0.0, 1.0, size, **kwargs)


# --- vectors -------------------------------------------------------------------------------------------------------


def multinomial(n: int, pvals: Any, size: Any = None, **kwargs: Any) -> Any:
    """How often each of some outcomes comes in n trials, by their probabilities; int64."""
    chances = operand(onp.asarray(pvals, onp.float64) if isinstance(pvals, list | tuple | onp.ndarray) else pvals)
    if chances.ndim != 1:
        raise ValueError(
            f"mx.np.random.multinomial: pvals must be a vector of probabilities, got shape {chances.shape}"
        )
    return as_numpy(function("_multinomial_counts")(chances, n=n, shape=shape_of_size(size), **kwargs))


def multivariate_normal(
    mean: Any,
    cov: Any,
    size: Any = None,
    check_valid: Any = None,  # noqa: ARG001 - accepted for MXNet's API, as the next
    tol: Any = None,  # noqa: ARG001
) -> Any:
    """Vectors of a normal distribution with a mean and a covariance; means and covariances may be batches.

    Of a covariance the lower triangle is read; negative eigenvalues, of rounding, count as 0.
    """
    mean, cov = given(mean), given(cov)
    mean = mean if dtype_of(mean).kind == "f" else cast(mean, "float32")
    cov = cast(cov, mean.dtype)
    if mean.ndim < 1 or cov.ndim < 2 or cov.shape[-2:] != (mean.shape[-1],) * 2:
        raise ValueError(
            f"mx.np.random.multivariate_normal: a mean of shape {mean.shape} needs a covariance of as many rows and "
            f"columns, got shape {cov.shape}"
        )
    lead = onp.broadcast_shapes(mean.shape[:-1], cov.shape[:-2])
    shape = (*shape_of_size(size), *lead, mean.shape[-1])
    values, vectors = eigh(cov)
    root = vectors * expand_dims(sqrt(maximum(values, 0.0)), -2)
    noise = drawn("normal", (0.0, 1.0), shape, mean.dtype, None)
    return mean + reshaped(matmul(root, expand_dims(noise, -1)), shape)


# --- choices, orders -----------------------------------------------------------------------------------------------


def choice(a: Any, size: Any = None, replace: bool = True, p: Any = None, ctx: Any = None, out: Any = None) -> Any:
    """Elements of an array, along its first axis, or numbers below ``a``; by their probabilities, if they are given.

    Without ``replace`` none is chosen twice.
    """
    is_count = is_number(a)
    source: Any = a if is_count else given(a)
    count = int(a) if is_count else source.shape[0]
    shape = shape_of_size(size)
    wanted = math.prod(shape)
    if p is not None:
        p = operand(p)
        if p.shape != (count,):
            raise ValueError("'a' and 'p' must have same size")
    if not count and wanted:
        raise ValueError("'a' cannot be empty unless no samples are taken")
    if not replace and wanted > count:
        raise ValueError("Cannot take a larger sample than population when 'replace=False'")
    if not wanted:
        chosen = as_numpy(function("_zeros")(shape, "int64", ctx=ctx))
    elif replace and p is None:
        chosen = randint(0, count, shape, ctx=ctx)
    elif replace:
        chosen = reshaped(as_numpy(function("sample_multinomial")(p, shape=(wanted,), dtype="int64")), shape)
    else:
        order = permutation(count) if p is None else argsort(-(log(p) + gumbel(size=(count,), ctx=ctx)))
        chosen = reshape(order[:wanted], shape)
    return into(chosen if is_count else take(source, chosen, 0), out)


def shuffle(x: Any) -> None:
    """Put the slices of an array along its first axis in random order, in place."""
    if is_symbol(x):
        raise TraceError(f"{user_location()}: shuffle changes its array, which a trace cannot; use random.permutation")
    assign(function("shuffle")(x), x)


def permutation(x: Any) -> Any:
    """The slices of an array along its first axis in random order; of a number, those of arange(number)."""
    rows = arange(x, dtype="int64") if is_number(x) else given(x)
    return as_numpy(function("shuffle")(rows)) if rows.shape[0] else rows


def __getattr__(name: str) -> Any:
    raise _absent("mx.np.random", name, "function", __all__)


def __dir__() -> list[str]:
    return list(__all__)

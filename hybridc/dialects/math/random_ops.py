"""Random numbers, drawn from a key: equal keys give equal numbers eagerly, compiled and on every target.

Each distribution is a function of NumPy's generator; three kinds of operators use it: parameters are numbers
(``random_normal``), arrays (``sample_normal``: so many draws for each element), or numbers with the shape of
another array (``normal_like``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from hybridc import random
from hybridc.dialects.operator import Bad, Opaque, attribute, no_gradient, register
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.dtypes import is_float
from hybridc.errors import AttributeValueError, ShapeError

FLOAT32 = np.dtype("float32")


# --- distributions: (generator, shape, dtype, parameters) -> array ------------------------------------------


def _float(dtype: DType) -> Any:
    """The dtype in which NumPy samples: it has none of 16 bits."""
    return np.float64 if dtype == np.float64 else np.float32


def uniform(rng: Any, shape: Shape, dtype: DType, low: Any, high: Any) -> Any:
    """low + (high - low) u"""
    unit = rng.random(shape, _float(dtype))
    return low + (high - low) * unit


def normal(rng: Any, shape: Shape, dtype: DType, loc: Any, scale: Any) -> Any:
    """loc + scale z"""
    return loc + scale * rng.standard_normal(shape, _float(dtype))


def exponential(rng: Any, shape: Shape, dtype: DType, lam: Any) -> Any:
    """Waiting times at the rate lam: the mean is 1 / lam"""
    return rng.standard_exponential(shape, _float(dtype)) / lam


def gamma(rng: Any, shape: Shape, _: DType, alpha: Any, beta: Any) -> Any:
    """Shape alpha and scale beta: the mean is alpha beta"""
    return rng.standard_gamma(alpha, shape) * beta


def poisson(rng: Any, shape: Shape, _: DType, lam: Any) -> Any:
    """Counts with the mean lam"""
    return rng.poisson(lam, shape)


def negative_binomial(rng: Any, shape: Shape, _: DType, k: Any, p: Any) -> Any:
    """Failures before the k-th success of probability p; k may be fractional"""
    return rng.poisson(rng.standard_gamma(k, shape) * ((1 - p) / p))


def generalized_negative_binomial(rng: Any, shape: Shape, _: DType, mu: Any, alpha: Any) -> Any:
    """Counts with the mean mu and the variance mu + alpha mu^2"""
    spread = np.maximum(alpha, 1e-12)  # a Poisson distribution in the limit
    return rng.poisson(rng.standard_gamma(1 / spread, shape) * (mu * spread))


def bernoulli(rng: Any, shape: Shape, dtype: DType, prob: Any) -> Any:
    """1 with the probability prob, else 0"""
    return rng.random(shape, _float(dtype)) < prob


# --- kinds of operators -----------------------------------------------------------------------------------


# The distributions whose samples are rarely whole numbers.
_CONTINUOUS = (uniform, normal, exponential, gamma)


class _Sampler(Opaque):
    """Draws from the distribution ``VALUES``; ``PARAMETERS`` are the attributes that it takes."""

    gradient = no_gradient

    NNVM_ONLY = ("ctx",)
    DRAWS = True
    SAME_DTYPE = False
    PARAMETERS: ClassVar[tuple[str, ...]] = ()
    LAST: ClassVar[tuple[str, ...]] = ("shape", "dtype", "draw")
    VALUES: ClassVar[Any] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        fields = cls.ATTRIBUTES  # the parameters come before the shape, as in MXNet's signatures
        first = {k: v for k, v in fields.items() if k not in cls.LAST}
        last = {k: fields[k] for k in cls.LAST if k in fields}
        cls.ATTRIBUTES = first | last  # pyright: ignore[reportConstantRedefinition]

    @classmethod
    def nnvm_name(cls) -> str:
        """All begin with an underscore there."""
        return f"_{cls.title()}"

    def check(self) -> None:
        dtype: Any = self.attrs.get("dtype")
        if self.VALUES in _CONTINUOUS and dtype is not None and not is_float(dtype):
            raise AttributeValueError(f"{self.title()}: dtype must be of floating-point numbers, got {dtype}")
        for name in self.PARAMETERS:
            value = getattr(self, name)
            if not value >= 0 and name not in ("low", "high", "loc"):
                raise AttributeValueError(f"{self.title()}: {name}={value} must not be negative")
        if "low" in self.PARAMETERS and getattr(self, "low") > getattr(self, "high"):  # noqa: B009
            raise AttributeValueError(
                f"{self.title()}: low={self.attrs['low']} must not be greater than high={self.attrs['high']}"
            )

    def drawn(self, key: Any, shape: Shape, dtype: DType, parameters: Sequence[Any]) -> Any:
        """Draws for these parameters, which the distribution may refuse."""
        rng = random.generator(key, getattr(self, "draw"))  # noqa: B009 - declared below
        try:
            values = self.VALUES(rng, shape, dtype, *parameters)
        except (ValueError, ZeroDivisionError) as error:
            given = ", ".join(f"{p}={getattr(self, p)}" for p in self.PARAMETERS)
            raise AttributeValueError(f"{self.title()}: {error}{' for ' * bool(given)}{given}") from error
        return np.asarray(values).astype(dtype, copy=False)

    def numbers(self) -> list[Any]:
        """The parameters that are attributes."""
        return [getattr(self, p) for p in self.PARAMETERS]


class _FromNumbers(_Sampler):
    """The parameters are numbers."""

    INPUTS = ("key",)
    NNVM_ALWAYS = ("shape",)  # which has no default there
    shape: Shape = attribute((1,), "the shape")
    dtype: DType = attribute(FLOAT32, "the element type")
    draw: int = attribute(0, "internal: which use of the key this is")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        return shapes, [self.shape]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [self.dtype]

    def eager(self, *arrays: Any) -> Any:
        return self.drawn(arrays[0], self.shape, self.dtype, self.numbers())

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        return [((), {"shape": "x"}, f"{cls.title()}: attribute shape takes a tuple of integers, got 'x'")]


class _SampleLike(_Sampler):
    """The parameters are numbers, shape and dtype those of an array."""

    INPUTS = ("data", "key")
    LAST = ("draw",)
    draw: int = attribute(0, "internal: which use of the key this is")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        return shapes, [shapes[0]]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [dtypes[0]]

    def eager(self, *arrays: Any) -> Any:
        x, key = arrays
        return self.drawn(key, x.shape, x.dtype, self.numbers())


class _FromArrays(_Sampler):
    """The parameters are arrays of one shape; each element gives ``shape`` samples."""

    shape: Shape = attribute((), "shape of the draws of one element")
    dtype: DType | None = attribute(None, "the element type; the parameters' by default")
    draw: int = attribute(0, "internal: which use of the key this is")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        *parameters, _ = shapes
        if any(s != parameters[0] for s in parameters):
            got = ", ".join(f"{n} {s}" for n, s in zip(self.INPUTS, parameters, strict=False))
            raise ShapeError(f"{self.title()}: the parameters must have one shape, got {got}")
        return shapes, [(*parameters[0], *self.shape)]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [dtypes[0] if self.dtype is None else self.dtype]

    def eager(self, *arrays: Any) -> Any:
        *parameters, key = arrays
        shape = self.infer_shape([a.shape for a in arrays])[1][0]
        dtype = parameters[0].dtype if self.dtype is None else self.dtype
        spread = [p.reshape(*p.shape, *(1,) * len(self.shape)) for p in parameters]
        return self.drawn(key, shape, dtype, spread)


@register("hybrid.random_uniform", "uniform", "_random_uniform")
class RandomUniform(_FromNumbers):
    """Numbers that are equally likely anywhere from low to high"""

    PARAMETERS = ("low", "high")
    VALUES = staticmethod(uniform)
    low: float = attribute(0.0, "the least number")
    high: float = attribute(1.0, "the upper bound")


@register("hybrid.random_normal", "normal", "_random_normal")
class RandomNormal(_FromNumbers):
    """Numbers from the normal distribution"""

    PARAMETERS = ("loc", "scale")
    VALUES = staticmethod(normal)
    loc: float = attribute(0.0, "the mean")
    scale: float = attribute(1.0, "the standard deviation")


@register("hybrid.random_exponential", "exponential", "_random_exponential")
class RandomExponential(_FromNumbers):
    """Numbers from the exponential distribution with the mean 1 / lam"""

    PARAMETERS = ("lam",)
    VALUES = staticmethod(exponential)
    lam: float = attribute(1.0, "the rate")


@register("hybrid.random_gamma", "_random_gamma")
class RandomGamma(_FromNumbers):
    """Numbers from the gamma distribution with the mean alpha beta"""

    PARAMETERS = ("alpha", "beta")
    VALUES = staticmethod(gamma)
    alpha: float = attribute(1.0, "the shape")
    beta: float = attribute(1.0, "the scale")


@register("hybrid.random_poisson", "poisson", "_random_poisson")
class RandomPoisson(_FromNumbers):
    """Counts from the Poisson distribution with the mean lam"""

    PARAMETERS = ("lam",)
    VALUES = staticmethod(poisson)
    lam: float = attribute(1.0, "the mean")


@register("hybrid.random_negative_binomial", "negative_binomial", "_random_negative_binomial")
class RandomNegativeBinomial(_FromNumbers):
    """How many failures come before the k-th success of probability p"""

    PARAMETERS = ("k", "p")
    VALUES = staticmethod(negative_binomial)
    k: int = attribute(1, "number of successes")
    p: float = attribute(1.0, "probability of a success", low=0, high=1)


@register(
    "hybrid.random_generalized_negative_binomial",
    "generalized_negative_binomial",
    "_random_generalized_negative_binomial",
)
class RandomGeneralizedNegativeBinomial(_FromNumbers):
    """Counts with the mean mu and the variance mu + alpha mu^2"""

    PARAMETERS = ("mu", "alpha")
    VALUES = staticmethod(generalized_negative_binomial)
    mu: float = attribute(1.0, "the mean")
    alpha: float = attribute(1.0, "the dispersion")


@register("hybrid.random_bernoulli", "bernoulli", "random.bernoulli", "_random_bernoulli")
class RandomBernoulli(_FromNumbers):
    """1 with the probability prob, else 0"""

    PARAMETERS = ("prob",)
    VALUES = staticmethod(bernoulli)
    prob: float = attribute(0.5, "the probability of 1", low=0, high=1)

    def for_nnvm(self, F: Any, *inputs: Any) -> Any:
        return F.lesser(F.random_uniform(shape=self.shape, dtype=self.dtype), self.prob)


@register("hybrid.random_randint", "_random_randint")
class RandomRandint(_FromNumbers):
    """Integers that are equally likely from low up to but without high"""

    low: int = attribute(doc="the least integer")
    high: int = attribute(doc="the upper bound, which is not drawn")
    dtype: DType = attribute(np.dtype("int32"), "the element type")

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        return [((), {"low": 5, "high": 5}, "random_randint: low=5 must be less than high=5")]

    def check(self) -> None:
        if self.low >= self.high:
            raise AttributeValueError(f"random_randint: low={self.low} must be less than high={self.high}")
        if self.dtype.kind not in "iu":
            raise AttributeValueError(f"random_randint: dtype must be an integer type, got {self.dtype}")

    def eager(self, *arrays: Any) -> Any:
        rng = random.generator(arrays[0], self.draw)
        return rng.integers(self.low, self.high, self.shape, np.int64).astype(self.dtype)


@register("hybrid.sample_uniform", "_sample_uniform")
class SampleUniform(_FromArrays):
    """For each element of low and high, numbers that are equally likely between them"""

    INPUTS = ("low", "high", "key")
    VALUES = staticmethod(uniform)


@register("hybrid.sample_normal", "_sample_normal")
class SampleNormal(_FromArrays):
    """For each element of mu and sigma, numbers from that normal distribution"""

    INPUTS = ("mu", "sigma", "key")
    VALUES = staticmethod(normal)


@register("hybrid.sample_exponential", "_sample_exponential")
class SampleExponential(_FromArrays):
    """For each element of lam, numbers from the exponential distribution with the mean 1 / lam"""

    INPUTS = ("lam", "key")
    VALUES = staticmethod(exponential)


@register("hybrid.sample_gamma", "_sample_gamma")
class SampleGamma(_FromArrays):
    """For each element of alpha and beta, numbers from that gamma distribution"""

    INPUTS = ("alpha", "beta", "key")
    VALUES = staticmethod(gamma)


@register("hybrid.sample_poisson", "_sample_poisson")
class SamplePoisson(_FromArrays):
    """For each element of lam, counts from the Poisson distribution with that mean"""

    INPUTS = ("lam", "key")
    VALUES = staticmethod(poisson)


@register("hybrid.sample_negative_binomial", "_sample_negative_binomial")
class SampleNegativeBinomial(_FromArrays):
    """For each element of k and p, how many failures come before the k-th success"""

    INPUTS = ("k", "p", "key")
    VALUES = staticmethod(negative_binomial)


@register("hybrid.sample_generalized_negative_binomial", "_sample_generalized_negative_binomial")
class SampleGeneralizedNegativeBinomial(_FromArrays):
    """For each element of mu and alpha, counts with the mean mu and the variance mu + alpha mu^2"""

    INPUTS = ("mu", "alpha", "key")
    VALUES = staticmethod(generalized_negative_binomial)


@register("hybrid.random_uniform_like", "random.uniform_like", "_random_uniform_like")
class UniformLike(_SampleLike):
    """Numbers that are equally likely from low to high, in the shape of data"""

    PARAMETERS = ("low", "high")
    VALUES = staticmethod(uniform)
    low: float = attribute(0.0, "the least number")
    high: float = attribute(1.0, "the upper bound")


@register("hybrid.random_normal_like", "random.normal_like", "_random_normal_like")
class NormalLike(_SampleLike):
    """Numbers from the normal distribution, in the shape of data"""

    PARAMETERS = ("loc", "scale")
    VALUES = staticmethod(normal)
    loc: float = attribute(0.0, "the mean")
    scale: float = attribute(1.0, "the standard deviation")


@register("hybrid.random_exponential_like", "random.exponential_like", "_random_exponential_like")
class ExponentialLike(_SampleLike):
    """Numbers from the exponential distribution with the mean 1 / lam, in the shape of data"""

    PARAMETERS = ("lam",)
    VALUES = staticmethod(exponential)
    lam: float = attribute(1.0, "the rate")


@register("hybrid.random_gamma_like", "random.gamma_like", "_random_gamma_like")
class GammaLike(_SampleLike):
    """Numbers from the gamma distribution with the mean alpha beta, in the shape of data"""

    PARAMETERS = ("alpha", "beta")
    VALUES = staticmethod(gamma)
    alpha: float = attribute(1.0, "the shape")
    beta: float = attribute(1.0, "the scale")


@register("hybrid.random_poisson_like", "random.poisson_like", "_random_poisson_like")
class PoissonLike(_SampleLike):
    """Counts from the Poisson distribution with the mean lam, in the shape of data"""

    PARAMETERS = ("lam",)
    VALUES = staticmethod(poisson)
    lam: float = attribute(1.0, "the mean")


@register("hybrid.random_negative_binomial_like", "random.negative_binomial_like", "_random_negative_binomial_like")
class NegativeBinomialLike(_SampleLike):
    """How many failures come before the k-th success of probability p, in the shape of data"""

    PARAMETERS = ("k", "p")
    VALUES = staticmethod(negative_binomial)
    k: int = attribute(1, "number of successes")
    p: float = attribute(1.0, "probability of a success", low=0, high=1)


@register(
    "hybrid.random_generalized_negative_binomial_like",
    "random.generalized_negative_binomial_like",
    "_random_generalized_negative_binomial_like",
)
class GeneralizedNegativeBinomialLike(_SampleLike):
    """Counts with the mean mu and the variance mu + alpha mu^2, in the shape of data"""

    PARAMETERS = ("mu", "alpha")
    VALUES = staticmethod(generalized_negative_binomial)
    mu: float = attribute(1.0, "the mean")
    alpha: float = attribute(1.0, "the dispersion")

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
from hybridc.dialects.operator import Bad, Opaque, attribute, define, no_gradient, register
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


def binomial(rng: Any, shape: Shape, _: DType, n: Any, p: Any) -> Any:
    """Successes in n trials of probability p"""
    return rng.binomial(n.astype(np.int64), p, shape)


# --- kinds of operators -----------------------------------------------------------------------------------


# The distributions whose samples are rarely whole numbers.
_CONTINUOUS = (uniform, normal, exponential, gamma)
# The parameters of each distribution, where they are attributes.
_PARAMETERS: dict[Any, dict[str, Any]] = {
    uniform: {"low": attribute(0.0, "the least number"), "high": attribute(1.0, "the upper bound")},
    normal: {"loc": attribute(0.0, "the mean"), "scale": attribute(1.0, "the standard deviation")},
    exponential: {"lam": attribute(1.0, "the rate")},
    gamma: {"alpha": attribute(1.0, "the shape"), "beta": attribute(1.0, "the scale")},
    poisson: {"lam": attribute(1.0, "the mean")},
    negative_binomial: {
        "k": attribute(1, "number of successes"),
        "p": attribute(1.0, "probability of a success", low=0, high=1),
    },
    generalized_negative_binomial: {
        "mu": attribute(1.0, "the mean"),
        "alpha": attribute(1.0, "the dispersion"),
    },
}


# Their examples: parameters, and six numbers that they give after ``mx.random.seed(0)``.
_EXAMPLES: dict[Any, tuple[str, str]] = {
    uniform: ("0, 10", "[[0.35 0.12 6.12]\n [2.42 3.65 1.11]]"),
    normal: ("", "[[ 0.06  0.02 -1.16]\n [-0.13  0.54 -0.2 ]]"),
    exponential: ("", "[[0.04 0.01 2.05]\n [0.42 0.33 0.35]]"),
    gamma: ("2, 1", "[[1.88 4.03 1.62]\n [0.6  1.72 4.13]]"),
    poisson: ("4", "[[0. 2. 5.]\n [3. 5. 1.]]"),
    negative_binomial: ("3, 0.5", "[[4. 4. 4.]\n [3. 3. 4.]]"),
    generalized_negative_binomial: ("4, 0.5", "[[ 5.  7.  6.]\n [ 2.  2. 10.]]"),
}


def _with_example(doc: str, call: str, drawn: str) -> str:
    """A docstring with a session that draws from the seed 0."""
    session = f">>> mx.random.seed(0)\n>>> print(mx.nd.{call}.asnumpy().round(2))\n{drawn}"
    return f"{doc}\n\nExamples\n--------\n{session}"


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


# --- the operators ----------------------------------------------------------------------------------------


def _from_numbers(name: str, doc: str, values: Any, *aliases: str) -> type[_FromNumbers]:
    """The operator whose parameters are numbers; ``_random_normal`` is MXNet's second name of ``random_normal``."""
    own, second = _PARAMETERS[values], name.replace("hybrid.", "_")
    given, drawn = _EXAMPLES[values]
    given = f"{given}, shape=(2, 3)" if given else "shape=(2, 3)"
    doc = _with_example(doc, f"{name.replace('hybrid.', '')}({given})", drawn)
    return define(_FromNumbers, name, doc, *aliases, second, VALUES=staticmethod(values), PARAMETERS=tuple(own), **own)


def _like(name: str, numbers: type[_FromNumbers]) -> type[_SampleLike]:
    """The operator that is ``numbers`` in the shape of an array, ``random.normal_like`` and ``_random_normal_like``."""
    values: Any = numbers.VALUES
    given, drawn = _EXAMPLES[values]
    call = f"{name.replace('hybrid.', '')}(mx.nd.zeros((2, 3)){given and f', {given}'})"
    text = (numbers.__doc__ or "").partition("\n")[0]
    return define(
        _SampleLike,
        name,
        _with_example(f"{text}, in the shape of data", call, drawn),
        name.replace("hybrid.random_", "random."),
        name.replace("hybrid.", "_"),
        class_name=numbers.__name__.removeprefix("Random") + "Like",
        VALUES=staticmethod(values),
        PARAMETERS=numbers.PARAMETERS,
        **_PARAMETERS[values],
    )


def _from_arrays(
    name: str, values: Any, inputs: dict[str, str], doc: str, example: tuple[str, str]
) -> type[_FromArrays]:
    """The operator whose parameters are arrays; ``_sample_normal`` is MXNet's second name of ``sample_normal``."""
    doc, second = f"For each element of {' and '.join(inputs)}, {doc}", name.replace("hybrid.", "_")
    arrays, drawn = example
    arrays = ", ".join(f"mx.nd.array({x})" for x in arrays.split("; "))
    doc = _with_example(doc, f"{name.replace('hybrid.', '')}({arrays}, shape=3)", drawn)
    values = staticmethod(values)
    return define(_FromArrays, name, doc, second, VALUES=values, INPUTS=(*inputs, "key"), INPUT_DOCS=inputs)


RandomUniform = _from_numbers(
    "hybrid.random_uniform", "Numbers that are equally likely anywhere from low to high", uniform, "uniform"
)
RandomNormal = _from_numbers("hybrid.random_normal", "Numbers from the normal distribution", normal, "normal")
RandomExponential = _from_numbers(
    "hybrid.random_exponential",
    "Numbers from the exponential distribution with the mean 1 / lam",
    exponential,
    "exponential",
)
RandomGamma = _from_numbers(
    "hybrid.random_gamma", "Numbers from the gamma distribution with the mean alpha beta", gamma
)
RandomPoisson = _from_numbers(
    "hybrid.random_poisson", "Counts from the Poisson distribution with the mean lam", poisson, "poisson"
)
RandomNegativeBinomial = _from_numbers(
    "hybrid.random_negative_binomial",
    "How many failures come before the k-th success of probability p",
    negative_binomial,
    "negative_binomial",
)
RandomGeneralizedNegativeBinomial = _from_numbers(
    "hybrid.random_generalized_negative_binomial",
    "Counts with the mean mu and the variance mu + alpha mu^2",
    generalized_negative_binomial,
    "generalized_negative_binomial",
)


@register("hybrid.random_bernoulli", "bernoulli", "random.bernoulli", "_random_bernoulli")
class RandomBernoulli(_FromNumbers):
    """1 with the probability prob, else 0

    Examples
    --------
    >>> mx.random.seed(0)
    >>> print(mx.nd.bernoulli(0.3, shape=(2, 3)).asnumpy())
    [[1. 1. 0.]
     [1. 0. 1.]]
    """

    PARAMETERS = ("prob",)
    VALUES = staticmethod(bernoulli)
    prob: float = attribute(0.5, "the probability of 1", low=0, high=1)

    def for_nnvm(self, F: Any, *inputs: Any) -> Any:
        return F.lesser(F.random_uniform(shape=self.shape, dtype=self.dtype), self.prob)


@register("hybrid.random_randint", "_random_randint")
class RandomRandint(_FromNumbers):
    """Integers that are equally likely from low up to but without high

    Examples
    --------
    >>> mx.random.seed(0)
    >>> print(mx.nd.random_randint(0, 10, shape=(2, 3)).asnumpy())
    [[0 0 6]
     [2 3 1]]
    """

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


SampleUniform = _from_arrays(
    "hybrid.sample_uniform",
    uniform,
    {"low": "the lower ends", "high": "the upper ends, of the shape of low"},
    "numbers that are equally likely between them",
    ("[0, 2]; [1, 4]", "[[0.03 0.01 0.61]\n [2.48 2.73 2.22]]"),
)
SampleNormal = _from_arrays(
    "hybrid.sample_normal",
    normal,
    {"mu": "the means", "sigma": "the standard deviations, of the shape of mu"},
    "numbers from that normal distribution",
    ("[0, 5]; [1, 2]", "[[ 0.06  0.02 -1.16]\n [ 4.73  6.09  4.6 ]]"),
)
SampleExponential = _from_arrays(
    "hybrid.sample_exponential",
    exponential,
    {"lam": "the rates; means are 1 / lam"},
    "numbers from the exponential distribution with the mean 1 / lam",
    ("[1, 0.1]", "[[0.04 0.01 2.05]\n [4.19 3.32 3.49]]"),
)
SampleGamma = _from_arrays(
    "hybrid.sample_gamma",
    gamma,
    {
        "alpha": "the shapes of the distributions, positive numbers",
        "beta": "the scales, of the shape of alpha; means are alpha beta",
    },
    "numbers from that gamma distribution",
    ("[1, 9]; [1, 2]", "[[ 0.    0.6   0.34]\n [25.44 14.45  8.87]]"),
)
SamplePoisson = _from_arrays(
    "hybrid.sample_poisson",
    poisson,
    {"lam": "the means"},
    "counts from the Poisson distribution with that mean",
    ("[1, 100]", "[[  0.   0.   0.]\n [102.  90.  87.]]"),
)
SampleNegativeBinomial = _from_arrays(
    "hybrid.sample_negative_binomial",
    negative_binomial,
    {"k": "the numbers of successes", "p": "the probabilities of a success, of the shape of k"},
    "how many failures come before the k-th success",
    ("[1, 20]; [0.5, 0.5]", "[[ 0.  1.  0.]\n [22. 21. 12.]]"),
)
SampleGeneralizedNegativeBinomial = _from_arrays(
    "hybrid.sample_generalized_negative_binomial",
    generalized_negative_binomial,
    {"mu": "the means", "alpha": "the dispersions, of the shape of mu"},
    "counts with the mean mu and the variance mu + alpha mu^2",
    ("[1, 100]; [0.1, 0.1]", "[[  1.   2.   0.]\n [ 84.  87. 145.]]"),
)

SampleBinomial = define(
    _FromArrays,
    "hybrid._sample_binomial",
    "For each element of n and p, how many of n trials succeed that do so with the probability p",
    VALUES=staticmethod(binomial),
    INPUTS=("n", "p", "key"),
    INPUT_DOCS={"n": "the numbers of trials", "p": "the probabilities of a success, of the shape of n"},
)

UniformLike = _like("hybrid.random_uniform_like", RandomUniform)
NormalLike = _like("hybrid.random_normal_like", RandomNormal)
ExponentialLike = _like("hybrid.random_exponential_like", RandomExponential)
GammaLike = _like("hybrid.random_gamma_like", RandomGamma)
PoissonLike = _like("hybrid.random_poisson_like", RandomPoisson)
NegativeBinomialLike = _like("hybrid.random_negative_binomial_like", RandomNegativeBinomial)
GeneralizedNegativeBinomialLike = _like(
    "hybrid.random_generalized_negative_binomial_like", RandomGeneralizedNegativeBinomial
)

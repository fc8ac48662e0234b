"""Densities of distributions at samples, and their logarithms.

The parameters have one shape, with which that of the samples begins: each element is one distribution, and what
follows in the samples' shape are its samples. Samples count as lying where the distribution is not 0. Counts
(Poisson and the negative binomials) have no gradient, nor have the samples of a uniform distribution.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from hybridc.dialects.math.elementwise import meaning
from hybridc.dialects.operator import Bad, Composite, Sample, attribute, register
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.dtypes import WIDE, is_float
from hybridc.errors import DTypeError, ShapeError

_SAMPLES = "the points; their shape begins with that of the parameters"


class _Density(Composite):
    """A density; ``logarithm`` is the one thing that differs.

    ``REFERENCE`` is the density in NumPy, for the inputs ``SAMPLE``.
    """

    INFERS_PARTLY = True
    COMPUTES_IN = WIDE
    INPUTS = ("sample",)
    REFERENCE: ClassVar[Any] = None
    SAMPLE: ClassVar[tuple[Any, ...]] = ()
    is_log: bool = attribute(False, "the logarithm of the density")

    @classmethod
    def nnvm_name(cls) -> str:
        """All begin with an underscore there."""
        return f"_{cls.title()}"

    def logarithm(self, F: Any, x: Any, *parameters: Any) -> Any:
        """The logarithm of the density, by operators, of values that broadcast."""
        raise ShapeError(f"{self.title()} has no density: {x}")

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        self.require_same_dtype(dtypes)
        if not is_float(dtypes[0]):
            raise DTypeError(f"{self.title()}: inputs must be floating-point, got {dtypes[0]}; use .astype('float32')")
        return dtypes, [dtypes[0]]

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        sample, *parameters = shapes
        for name, shape in zip(self.INPUTS[1:], parameters, strict=True):
            self._require_lead(name, shape, sample)
            if len(shape) != len(parameters[0]):
                self._raise_unfit(name, shape, sample)
        return shapes, [sample]

    def _require_lead(self, name: str, shape: Shape, sample: Shape) -> None:
        lead = sample[: len(shape)]
        if len(lead) < len(shape) or any(n != m and -1 not in (n, m) for n, m in zip(shape, lead, strict=True)):
            self._raise_unfit(name, shape, sample)

    def _raise_unfit(self, name: str, shape: Shape, sample: Shape) -> None:
        raise ShapeError(
            f"{self.title()}: the shape of sample, {sample}, must begin with the shape that all parameters have; "
            f"{name} has shape {shape}"
        )

    def spread(self, F: Any, parameter: Any, sample: Any) -> Any:
        """A parameter in a shape that broadcasts to the samples."""
        lead = parameter.shape
        return F.reshape_to(parameter, shape=(*lead, *(1,) * (len(sample.shape) - len(lead))))

    def decompose(self, F: Any, *inputs: Any) -> Any:
        self.infer_shape([x.shape for x in inputs])
        self.infer_type([np.dtype(x.dtype) for x in inputs])
        sample, *parameters = inputs
        y = self.logarithm(F, sample, *[self.spread(F, p, sample) for p in parameters])
        return y if self.is_log else F.exp(y)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample(cls.SAMPLE, cls.REFERENCE, low=0.5),
            Sample(cls.SAMPLE, _composed(np.log, cls.REFERENCE), low=0.5, is_log=True),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        name = cls.INPUTS[1]
        text = (
            f"{cls.title()}: the shape of sample, (2, 3), must begin with the shape that all parameters have; "
            f"{name} has shape (3,)"
        )
        others = ((3,),) * (len(cls.INPUTS) - 1)
        return [(((2, 3), *others), {}, text)]


def _composed(outer: Any, inner: Any) -> Any:
    """A function of what another function gives: a reference of the samples."""

    def call(*xs: Any) -> Any:
        return outer(inner(*xs))

    return call


def _lgamma(x: Any) -> Any:
    """The logarithm of the gamma function in Python: a reference of the samples."""
    return np.vectorize(math.lgamma, otypes=[float])(x)


@register("hybrid.random_pdf_uniform", "_random_pdf_uniform")
class PdfUniform(_Density):
    """1 / (high - low): the density of uniform distributions between low and high"""

    INPUTS = ("sample", "low", "high")
    INPUT_DOCS: ClassVar = {
        "sample": _SAMPLES,
        "low": "the lower ends",
        "high": "the upper ends, of the shape of low",
    }

    def logarithm(self, F: Any, x: Any, *parameters: Any) -> Any:
        low, high = parameters
        return F.zeros_like(x) - F.log(high - low)

    @classmethod
    def samples(cls) -> list[Sample]:
        high = np.array([2.25, 3.5])
        return [
            Sample([(2, 3), (2,), high], lambda x, a, b: np.ones_like(x) / (b - a)[:, None], low=0.1, high=1),
            Sample([(2,), (2,), high], lambda _, a, b: -np.log(b - a), low=0.1, high=1, is_log=True),
        ]


@register("hybrid.random_pdf_normal", "_random_pdf_normal")
class PdfNormal(_Density):
    """The density of normal distributions with the mean mu and the standard deviation sigma"""

    INPUTS = ("sample", "mu", "sigma")
    INPUT_DOCS: ClassVar = {
        "sample": _SAMPLES,
        "mu": "the means",
        "sigma": "the standard deviations, of the shape of mu",
    }

    def logarithm(self, F: Any, x: Any, *parameters: Any) -> Any:
        mu, sigma = parameters
        return F.square((x - mu) / sigma) * -0.5 - (F.log(sigma) + 0.5 * math.log(2 * math.pi))

    @classmethod
    def samples(cls) -> list[Sample]:
        def density(x: Any, mu: Any, sigma: Any) -> Any:
            mu, sigma = mu[..., None, None], sigma[..., None, None]
            return np.exp(-((x - mu) ** 2) / (2 * sigma**2)) / np.sqrt(2 * np.pi * sigma**2)

        sigma = np.array([0.75, 1.5])
        return [
            Sample([(2, 3, 2), (2,), sigma], density),
            Sample([(2, 3, 2), (2,), sigma], _composed(np.log, density), is_log=True),
            Sample([(0, 3, 2), (0,), (0,)], lambda x, _, __: x),
        ]


def _of_gamma(x: Any, a: Any, b: Any) -> Any:
    """The density of gamma distributions: a reference of the samples."""
    a, b = a[:, None], b[:, None]
    return b**a * x ** (a - 1) * np.exp(-b * x) / np.exp(_lgamma(a))


@register("hybrid.random_pdf_gamma", "_random_pdf_gamma")
class PdfGamma(_Density):
    """The density of gamma distributions with the shape alpha and the rate beta: their mean is alpha / beta"""

    INPUTS = ("sample", "alpha", "beta")
    INPUT_DOCS: ClassVar = {
        "sample": _SAMPLES,
        "alpha": "the shapes of the distributions, positive numbers",
        "beta": "the rates, of the shape of alpha",
    }
    SAMPLE = ((2, 3), (2,), (2,))
    REFERENCE = meaning(_of_gamma)

    def logarithm(self, F: Any, x: Any, *parameters: Any) -> Any:
        alpha, beta = parameters
        return alpha * F.log(beta) + (alpha - 1) * F.log(x) - beta * x - F.gammaln(alpha)


@register("hybrid.random_pdf_exponential", "_random_pdf_exponential")
class PdfExponential(_Density):
    """lam exp(-lam sample): the density of exponential distributions with the rate lam"""

    INPUTS = ("sample", "lam")
    INPUT_DOCS: ClassVar = {"sample": _SAMPLES, "lam": "the rates; means are 1 / lam"}
    SAMPLE = ((2, 3), (2,))
    REFERENCE = meaning(lambda x, lam: lam[:, None] * np.exp(-lam[:, None] * x))

    def logarithm(self, F: Any, x: Any, *parameters: Any) -> Any:
        (lam,) = parameters
        return F.log(lam) - lam * x


class _Probability(_Density):
    """The probability of counts."""

    SAMPLE = (np.array([[0.0, 1.0, 4.0], [2.0, 0.0, 7.0]]), (2,), (2,))
    is_log: bool = attribute(False, "the logarithm of the probability")


@register("hybrid.random_pdf_poisson", "_random_pdf_poisson")
class PdfPoisson(_Probability):
    """lam**sample exp(-lam) / sample!: the probability of counts with the mean lam"""

    INPUTS = ("sample", "lam")
    INPUT_DOCS: ClassVar = {"sample": _SAMPLES, "lam": "the means"}
    SAMPLE = _Probability.SAMPLE[:2]
    REFERENCE = meaning(lambda x, lam: lam[:, None] ** x * np.exp(-lam[:, None]) / np.exp(_lgamma(x + 1)))

    def logarithm(self, F: Any, x: Any, *parameters: Any) -> Any:
        (lam,) = parameters
        x = F.BlockGrad(x)
        return x * F.log(lam) - F.gammaln(x + 1) - lam


class _Binomial(_Probability):
    """Counts of failures before the k-th success of probability p; k need not be an integer."""

    def failures(self, F: Any, x: Any, k: Any, p: Any) -> Any:
        """The logarithm of their probability."""
        x = F.BlockGrad(x)
        ways = F.gammaln(x + k) - F.gammaln(x + 1) - F.gammaln(k)
        return ways + k * F.log(p) + x * F.log(1 - p)


def _of_failures(x: Any, k: Any, p: Any) -> Any:
    """The probability of failures: a reference of the samples."""
    k, p = k[:, None], p[:, None]
    return np.exp(_lgamma(x + k) - _lgamma(x + 1) - _lgamma(k)) * p**k * (1 - p) ** x


@register("hybrid.random_pdf_negative_binomial", "_random_pdf_negative_binomial")
class PdfNegativeBinomial(_Binomial):
    """The probability of so many failures before the k-th success of probability p; k may be fractional"""

    INPUTS = ("sample", "k", "p")
    INPUT_DOCS: ClassVar = {
        "sample": _SAMPLES,
        "k": "the numbers of successes",
        "p": "the probabilities of a success, of the shape of k",
    }
    SAMPLE = (*_Probability.SAMPLE[:2], np.array([0.3, 0.6]))
    REFERENCE = meaning(_of_failures)

    def logarithm(self, F: Any, x: Any, *parameters: Any) -> Any:
        return self.failures(F, x, *parameters)


@register("hybrid.random_pdf_generalized_negative_binomial", "_random_pdf_generalized_negative_binomial")
class PdfGeneralizedNegativeBinomial(_Binomial):
    """The probability of counts with the mean mu and the variance mu + alpha mu^2"""

    INPUTS = ("sample", "mu", "alpha")
    INPUT_DOCS: ClassVar = {
        "sample": _SAMPLES,
        "mu": "the means",
        "alpha": "the dispersions, of the shape of mu: variances are mu + alpha mu^2",
    }
    REFERENCE = meaning(lambda x, mu, alpha: _of_failures(x, 1 / alpha, 1 / (mu * alpha + 1)))

    def logarithm(self, F: Any, x: Any, *parameters: Any) -> Any:
        mu, alpha = parameters
        return self.failures(F, x, 1 / alpha, 1 / (mu * alpha + 1))


@register("hybrid.random_pdf_dirichlet", "_random_pdf_dirichlet")
class PdfDirichlet(_Density):
    """The density of Dirichlet distributions with the concentrations along alpha's last axis

    The last axis of the samples is one sample; alpha's other axes are those with which the samples' shape begins.
    """

    INPUTS = ("sample", "alpha")
    INPUT_DOCS: ClassVar = {
        "sample": "the points, whose elements along the last axis sum to 1",
        "alpha": "the concentrations, as many along the last axis as a point has elements",
    }

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        sample, alpha = shapes
        if not sample or not alpha or (alpha[-1] != sample[-1] and -1 not in (alpha[-1], sample[-1])):
            raise ShapeError(
                f"{self.title()}: alpha must have as many elements along its last axis as sample, of shape {sample}, "
                f"has; it has shape {alpha}"
            )
        self._require_lead("alpha", alpha[:-1], sample[:-1])
        return shapes, [sample[:-1] or (1,)]

    def spread(self, F: Any, parameter: Any, sample: Any) -> Any:
        *lead, size = parameter.shape
        return F.reshape_to(parameter, shape=(*lead, *(1,) * (len(sample.shape) - len(lead) - 1), size))

    def logarithm(self, F: Any, x: Any, *parameters: Any) -> Any:
        (alpha,) = parameters
        weights = F.sum((alpha - 1) * F.log(x), axis=-1)
        # Reduced last, so that what is summed has the shape of the samples.
        whole = F.gammaln(F.sum(alpha, axis=-1, keepdims=True)) - F.sum(F.gammaln(alpha), axis=-1, keepdims=True)
        shape = whole.shape[:-1] or (1,)
        return weights + F.reshape_to(whole, shape=shape)

    @classmethod
    def samples(cls) -> list[Sample]:
        def logarithm(x: Any, a: Any) -> Any:
            a = a.reshape(*a.shape[:-1], *(1,) * (x.ndim - a.ndim), a.shape[-1])
            return ((a - 1) * np.log(x)).sum(-1) + _lgamma(a.sum(-1)) - _lgamma(a).sum(-1)

        shapes: list[Any] = [(2, 3, 4), (2, 4)]
        return [
            Sample(shapes, _composed(np.exp, logarithm), low=0.5, high=1.5),
            Sample(shapes, logarithm, low=0.5, is_log=True),
            Sample([(3, 4), (4,)], logarithm, low=0.5, is_log=True),
            Sample([(4,), (4,)], _composed(np.atleast_1d, logarithm), low=0.5, is_log=True),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = "random_pdf_dirichlet: alpha must have as many elements along its last axis as sample, of shape (2, 3), "
        return [(((2, 3), (2,)), {}, text + "has; it has shape (2,)")]

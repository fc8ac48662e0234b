"""Random samples: uniform and normal ones are ONNX's own, the others are made of these, of the same distributions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hybridc.dialects.math import random_ops
from hybridc.dialects.math.random_choice import MultinomialCounts, SampleMultinomial, SampleUniqueZipfian, Shuffle
from hybridc.dialects.nn.dropout import UniformSample
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.ground.sizes import is_size
from hybridc.interchange.onnx.writing.onnx_value import INT64, OnnxValue
from hybridc.interchange.onnx.writing.operators.chosen_elements import ordered
from hybridc.interchange.onnx.writing.operators.loops import any_of, iterated
from hybridc.interchange.onnx.writing.translate import REASONS, Translator, translation

FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
# The distributions that are sampled in double precision: counts, and those that reject some samples.
Distribution = Callable[..., OnnxValue]

REASONS[SampleUniqueZipfian] = "it draws until enough classes differ; draw them before, and pass them in"
REASONS[random_ops.SampleBinomial] = "it has no sampler of binomial counts with any number of trials"


def sampled(t: Translator, operator: str, shape: Shape, dtype: DType, **numbers: float) -> OnnxValue:
    """A node that draws samples; where sizes vary, in the shape of an array."""
    given: list[OnnxValue] = []
    attributes: dict[str, Any] = {"dtype": t.writer.code(dtype), **numbers}
    if any(map(is_size, shape)):
        operator, given = f"{operator}Like", [t.moves.full(shape, dtype, 0)]
    else:
        attributes["shape"] = [int(n) for n in shape]
    return t.writer.results(operator, given, [(shape, dtype)], **attributes)[0]


def unit(t: Translator, shape: Shape, dtype: DType = FLOAT32) -> OnnxValue:
    """Uniform numbers from 0 to 1."""
    return sampled(t, "RandomUniform", shape, dtype, low=0.0, high=1.0)


def uniform(t: Translator, shape: Shape, dtype: DType, low: Any, high: Any) -> OnnxValue:
    """low + (high - low) u"""
    if isinstance(low, OnnxValue):
        return low + (high - low) * unit(t, shape, dtype)
    return sampled(t, "RandomUniform", shape, dtype, low=float(low), high=float(high))


def normal(t: Translator, shape: Shape, dtype: DType, loc: Any, scale: Any) -> OnnxValue:
    """loc + scale z"""
    if isinstance(loc, OnnxValue):
        return loc + scale * sampled(t, "RandomNormal", shape, dtype, mean=0.0, scale=1.0)
    return sampled(t, "RandomNormal", shape, dtype, mean=float(loc), scale=float(scale))


def _waiting(t: Translator, shape: Shape, dtype: DType) -> OnnxValue:
    """Waiting times at the rate 1."""
    return -t.steps.log(1.0 - unit(t, shape, dtype))


def exponential(t: Translator, shape: Shape, dtype: DType, lam: Any) -> OnnxValue:
    """Waiting times at the rate lam."""
    return _waiting(t, shape, dtype) / lam


def gamma(t: Translator, shape: Shape, _: DType, alpha: Any, beta: Any) -> OnnxValue:
    """Marsaglia and Tsang's method, repeated until all are accepted; below 1 a power of a uniform number corrects."""
    given = _spread(t, alpha, shape)
    small = given < 1.0
    own = t.steps.select(small, given + 1.0, given)
    d = own - 1 / 3
    c = 1.0 / t.steps.sqrt(d * 9.0)

    def step(_: OnnxValue, found: OnnxValue, open_: OnnxValue) -> Sequence[OnnxValue]:
        z = sampled(t, "RandomNormal", shape, FLOAT64, mean=0.0, scale=1.0)
        u = 1.0 - unit(t, shape, FLOAT64)
        root = c * z + 1.0
        volume = root * root * root
        safe = t.steps.select(volume > 0.0, volume, 1.0)
        bound = z * z * 0.5 + d - d * safe + d * t.steps.log(safe)
        accepted = (volume > 0.0) & (t.steps.log(u) < bound)
        return [t.steps.select(open_ & accepted, d * volume, found), open_ & ~accepted]

    begin = [t.moves.full(shape, FLOAT64, 0), t.moves.full(shape, bool, True)]

    def goes_on(_: OnnxValue, open_: OnnxValue) -> OnnxValue:
        return any_of(t, open_)

    found = iterated(t, begin, step, goes_on=goes_on)[0]
    correction = t.steps.pow(1.0 - unit(t, shape, FLOAT64), 1.0 / given)
    return t.steps.select(small, found * correction, found) * beta


def poisson(t: Translator, shape: Shape, _: DType, lam: Any) -> OnnxValue:
    """How many waiting times at the rate 1 fit into lam."""
    mean = _spread(t, lam, shape)

    def step(_: OnnxValue, count: OnnxValue, time: OnnxValue) -> Sequence[OnnxValue]:
        later = time + _waiting(t, shape, FLOAT64)
        return [count + t.writer.cast(later <= mean, FLOAT64), later]

    zeros = t.moves.full(shape, FLOAT64, 0)

    def goes_on(_: OnnxValue, time: OnnxValue) -> OnnxValue:
        return any_of(t, time <= mean)

    return iterated(t, [zeros, zeros], step, goes_on=goes_on)[0]


def negative_binomial(t: Translator, shape: Shape, dtype: DType, k: Any, p: Any) -> OnnxValue:
    """Counts whose mean has a gamma distribution."""
    return poisson(t, shape, dtype, gamma(t, shape, dtype, k, (1.0 - p) / p))


def generalized_negative_binomial(t: Translator, shape: Shape, dtype: DType, mu: Any, alpha: Any) -> OnnxValue:
    """The same, by mean and dispersion."""
    spread = t.steps.max(_spread(t, alpha, ()) if not isinstance(alpha, OnnxValue) else alpha, 1e-12)
    return poisson(t, shape, dtype, gamma(t, shape, dtype, 1.0 / spread, spread * mu))


def bernoulli(t: Translator, shape: Shape, dtype: DType, prob: Any) -> OnnxValue:
    """1 with the probability prob."""
    return unit(t, shape, dtype) < prob


def _spread(t: Translator, x: Any, shape: Shape) -> OnnxValue:
    """A parameter as an array in double precision."""
    value = t.writer.cast(x, FLOAT64) if isinstance(x, OnnxValue) else t.constant(np.asarray(x, np.float64))
    return t.moves.broadcast(value, shape)


_DISTRIBUTIONS: dict[Any, Distribution] = {
    random_ops.uniform: uniform,
    random_ops.normal: normal,
    random_ops.exponential: exponential,
    random_ops.gamma: gamma,
    random_ops.poisson: poisson,
    random_ops.negative_binomial: negative_binomial,
    random_ops.generalized_negative_binomial: generalized_negative_binomial,
    random_ops.bernoulli: bernoulli,
}
_IN_DOUBLE = (gamma, poisson, negative_binomial, generalized_negative_binomial)


@translation(
    random_ops.RandomUniform, random_ops.RandomNormal, random_ops.RandomExponential, random_ops.RandomGamma,
    random_ops.RandomPoisson, random_ops.RandomNegativeBinomial, random_ops.RandomGeneralizedNegativeBinomial,
    random_ops.RandomBernoulli, random_ops.UniformLike, random_ops.NormalLike, random_ops.ExponentialLike,
    random_ops.GammaLike, random_ops.PoissonLike, random_ops.NegativeBinomialLike,
    random_ops.GeneralizedNegativeBinomialLike,
)  # fmt: skip
def from_numbers(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """The distribution's samples; its parameters are numbers."""
    return _drawn(t, op, inputs, op.numbers())


@translation(
    random_ops.SampleUniform, random_ops.SampleNormal, random_ops.SampleExponential, random_ops.SampleGamma,
    random_ops.SamplePoisson, random_ops.SampleNegativeBinomial, random_ops.SampleGeneralizedNegativeBinomial,
)  # fmt: skip
def from_arrays(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """The distribution's samples; its parameters are arrays."""
    return _drawn(t, op, inputs, [t.moves.reshape(x, (*x.shape, *[1] * len(op.shape))) for x in inputs[:-1]])


def _drawn(t: Translator, op: Any, inputs: Sequence[OnnxValue], parameters: Sequence[Any]) -> OnnxValue:
    result = t.results_of(op, inputs)[0]
    distribution = _DISTRIBUTIONS[op.VALUES]
    dtype = FLOAT64 if distribution in _IN_DOUBLE or result.dtype == FLOAT64 else FLOAT32
    given = [t.writer.cast(p, dtype) if isinstance(p, OnnxValue) else p for p in parameters]
    return t.writer.cast(distribution(t, result.shape, dtype, *given), result.dtype)


@translation(UniformSample)
def uniform_sample(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """RandomUniform."""
    result = t.results_of(op, inputs)[0]
    return t.writer.cast(unit(t, result.shape, FLOAT64 if result.dtype == FLOAT64 else FLOAT32), result.dtype)


@translation(random_ops.RandomRandint)
def randint(t: Translator, op: Any, _: Sequence[OnnxValue]) -> Any:
    """The integer part of a uniform number in double precision."""
    count = op.high - op.low
    number = t.steps.min(t.steps.floor(unit(t, op.shape, FLOAT64) * float(count)), float(count - 1))
    return t.writer.cast(t.writer.cast(number, INT64) + op.low, op.dtype)


def _chosen(t: Translator, probabilities: OnnxValue, u: OnnxValue) -> OnnxValue:
    """By uniform numbers ``(rows, samples)``, indices into rows of probabilities."""
    last = probabilities.ndim - 1
    sums = t.writer.node(
        "CumSum", [probabilities, t.constant(np.asarray(last, np.int64))], probabilities.shape, probabilities.dtype
    )
    rows, count = probabilities.shape
    total = t.moves.slice(sums, (0, count - 1), (1, 1), (rows, 1))
    shares = t.moves.reshape(sums / total, (rows, 1, count))
    below = t.writer.cast(shares <= t.moves.reshape(u, (*u.shape, 1)), INT64)
    return t.steps.min(t.moves.reduce("ReduceSum", below, [2], keep=False), count - 1)


@translation(SampleMultinomial)
def multinomial(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """How many shares of the cumulated probabilities are not above a uniform number."""
    data = inputs[0]
    results = t.results_of(op, inputs)
    count = data.shape[-1]
    rows, each = math.prod(data.shape[:-1]), math.prod(op.shape)
    flat = t.writer.cast(t.moves.reshape(data, (rows, count)), FLOAT64)
    places = _chosen(t, flat, unit(t, (rows, each), FLOAT64))
    indices = t.writer.cast(t.moves.reshape(places, results[0].shape), op.dtype)
    if not op.get_prob:
        return indices
    taken = t.writer.node("GatherElements", [flat, places], (rows, each), FLOAT64, axis=1)
    logs = t.moves.reshape(t.steps.log(taken), results[1].shape)
    return indices, t.writer.cast(logs, data.dtype)


@translation(MultinomialCounts)
def multinomial_counts(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """Each trial's outcome, counted."""
    data = t.writer.cast(inputs[0], FLOAT64)
    count, each = data.shape[0], math.prod(op.shape)
    sums = t.writer.node("CumSum", [data, t.constant(np.asarray(0, np.int64))], data.shape, FLOAT64)
    u = t.moves.reshape(unit(t, (each, op.n), FLOAT64), (each, op.n, 1))
    below = t.writer.cast(t.moves.reshape(sums, (1, 1, count)) <= u, INT64)
    outcome = t.steps.min(t.moves.reduce("ReduceSum", below, [2]), count - 1)
    hits = t.writer.cast(outcome == t.constant(np.arange(count, dtype=np.int64)), INT64)
    return t.moves.reshape(t.moves.reduce("ReduceSum", hits, [1], keep=False), (*op.shape, count))


@translation(Shuffle)
def shuffle(t: Translator, _: Any, inputs: Sequence[OnnxValue]) -> Any:
    """The rows in the order of uniform numbers."""
    x = inputs[0]
    _, places = ordered(t, unit(t, x.shape[:1]), 0, x.shape[0], is_ascending=True)
    return t.node("Gather", [x, places], x, axis=0)

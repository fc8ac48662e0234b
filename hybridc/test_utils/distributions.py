"""Tests of random numbers: their mean, their variance, and how often they fall into each of some buckets."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Generator = Callable[[int], Any]


def gen_buckets_probs_with_ppf(
    ppf: Callable[[float], float], nbuckets: int
) -> tuple[list[tuple[float, float]], list[float]]:
    """Intervals of equal probability, and these probabilities.

    Parameters
    ----------
    ppf:
        The quantile function, of a number from 0 to 1.
    nbuckets:
        How many intervals.
    """
    if nbuckets <= 0:
        raise AssertionError(f"nbuckets must be positive, got {nbuckets}")
    ends = [ppf(i / nbuckets) for i in range(nbuckets + 1)]
    return list(itertools.pairwise(ends)), [1.0 / nbuckets] * nbuckets


def mean_check(generator: Generator, mu: float, sigma: float, nsamples: int = 1000000) -> bool:
    """Whether the mean of samples is within three standard errors of a number.

    Parameters
    ----------
    generator:
        A function of the number of samples that gives as many.
    mu:
        The number.
    sigma:
        The standard deviation of the distribution.
    nsamples:
        How many samples.
    """
    mean = np.array(generator(nsamples)).mean()
    return bool(abs(mean - mu) < 3 * sigma / np.sqrt(nsamples))


def var_check(generator: Generator, sigma: float, nsamples: int = 1000000) -> bool:
    """Whether the variance of samples of a normal distribution is within three standard errors of sigma squared.

    Parameters
    ----------
    generator:
        A function of the number of samples that gives as many.
    sigma:
        The standard deviation.
    nsamples:
        How many samples.
    """
    variance = np.array(generator(nsamples)).var(ddof=1)
    return bool(abs(variance - sigma**2) < 3 * np.sqrt(2 * sigma**4 / (nsamples - 1)))


def chi_square_check(
    generator: Generator, buckets: list[Any], probs: Sequence[float], nsamples: int = 1000000
) -> tuple[float, Any, Any]:
    """Pearson's test of samples: the p value, how many fell into each bucket, and how many were expected.

    Parameters
    ----------
    generator:
        A function of the number of samples that gives as many.
    buckets:
        Disjoint intervals in ascending order that cover the range of a continuous distribution, or the values of a
        discrete one.
    probs:
        The probability of each.
    nsamples:
        How many samples.
    """
    from scipy import special

    if len(probs) != len(buckets):
        raise AssertionError(f"chi_square_check: {len(buckets)} buckets and {len(probs)} probabilities")
    samples = np.asarray(generator(nsamples))
    expected = (nsamples * np.array(probs, dtype=np.float32)).astype(np.int32)
    if isinstance(buckets[0], list | tuple):
        ends = np.array(buckets, dtype=np.float32).reshape(-1)
        if (np.diff(ends) < 0).any():
            raise AssertionError(f"chi_square_check: buckets must be disjoint and in ascending order, got {buckets}")
        found = np.searchsorted(ends, samples, side="right")
        # An even place is between two buckets, where these do not cover the range.
        observed = np.array([np.count_nonzero(found // 2 == i) for i in range(len(buckets))])
    else:
        observed = np.array([np.count_nonzero(samples == value) for value in buckets])
    # Expected counts are rounded down, and samples may lie outside: their sums need not be equal.
    statistic = ((observed - expected) ** 2 / expected).sum()
    return float(special.chdtrc(len(buckets) - 1, statistic)), observed, expected


def verify_generator(
    generator: Generator,
    buckets: list[Any],
    probs: Sequence[float],
    nsamples: int = 1000000,
    nrepeat: int = 5,
    success_rate: float = 0.2,
    alpha: float = 0.05,
) -> list[float]:
    """Raise an AssertionError unless enough of several tests have a p value above ``alpha``; these.

    Parameters
    ----------
    generator:
        A function of the number of samples that gives as many.
    buckets:
        Disjoint intervals in ascending order that cover the range of a continuous distribution, or the values of a
        discrete one.
    probs:
        The probability of each.
    nsamples:
        How many samples.
    nrepeat:
        How many tests.
    success_rate:
        The share of them that must succeed.
    alpha:
        The p value above which one does.
    """
    tests = [chi_square_check(generator, buckets, probs, nsamples) for _ in range(nrepeat)]
    values = [p for p, _, _ in tests]
    if sum(p > alpha for p in values) < nrepeat * success_rate:
        counts = "".join(f"\nobserved {observed}, expected {expected}" for _, observed, expected in tests)
        raise AssertionError(f"Generator test fails, Chi-square p={values}{counts}\nbuckets={buckets}, probs={probs}")
    return values

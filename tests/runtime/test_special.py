"""Special functions of arrays against SciPy's in float64, eagerly and in kernels."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special as scipy_special

import hybridc as mx
from hybridc.dialects import special
from hybridc.dialects.scalar import NUMPY


def test_erf_is_within_seven_last_places_everywhere():
    x = np.concatenate([np.linspace(-6, 6, 1_000_001), np.logspace(-38, 1, 20_001)]).astype(np.float32)
    expected = scipy_special.erf(x.astype(np.float64))
    ulps = np.abs(special.erf(x) - expected) / np.spacing(np.abs(expected).astype(np.float32))
    assert ulps.max() <= 7


def test_erf_of_special_values():
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45], np.float32)
    y = special.erf(x)
    np.testing.assert_array_equal(y[:5], np.array([np.nan, 1, -1, 0, 0], np.float32))
    assert np.signbit(y[4])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_erf_of_views_into_given_memory(dtype):
    x = np.random.default_rng(0).standard_normal((70, 40, 3)).astype(dtype)[::2, :, 1].T
    out = np.empty((x.shape[1], x.shape[0]), dtype).T
    assert special.erf(x, out=out) is out
    np.testing.assert_allclose(out, scipy_special.erf(x.astype(np.float64)), rtol=1e-6)
    np.testing.assert_allclose(special.erf(x), out, rtol=0)


def test_erf_may_write_over_its_input():
    x = np.random.default_rng(0).standard_normal(50_000).astype(np.float32)
    expected = special.erf(x)
    special.erf(x, out=x)
    np.testing.assert_array_equal(x, expected)


RNG = np.random.default_rng(0)
# Each with SciPy's function, where it is taken, and how large an error is for its size and next to zeros.
FUNCTIONS = {
    "erf": ("erf", scipy_special.erf, [np.linspace(-6, 6, 30_001), 10.0 ** RNG.uniform(-300, 0, 1000)]),
    "erfinv": (
        "erfinv",
        scipy_special.erfinv,
        [
            np.linspace(-0.999, 0.999, 30_001),
            1 - 10.0 ** RNG.uniform(-15.9, -1, 3000),
            10.0 ** RNG.uniform(-300, 0, 99),
        ],
    ),
    "gamma": (
        "gamma",
        scipy_special.gamma,
        [RNG.uniform(-20, 20, 30_001), RNG.uniform(20, 171.5, 3000), 10.0 ** RNG.uniform(-300, 0, 1000)],
    ),
    "gammaln": (
        "lgamma",
        scipy_special.gammaln,
        [RNG.uniform(-20, 20, 30_001), 10.0 ** RNG.uniform(1, 300, 3000), 10.0 ** RNG.uniform(-300, 0, 1000)],
    ),
    "digamma": (
        "digamma",
        scipy_special.psi,
        [RNG.uniform(-20, 20, 30_001), 10.0 ** RNG.uniform(1, 200, 3000), 10.0 ** RNG.uniform(-200, 0, 1000)],
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_doubles(name):
    step, oracle, ranges = FUNCTIONS[name]
    relative = 2e-12 if name == "digamma" else 2e-14  # near its poles
    for x in ranges:
        np.testing.assert_allclose(getattr(NUMPY, step)(x), oracle(x), rtol=relative, atol=2e-14)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_functions_in_kernels(name, dtype):
    """A compiled graph computes the same formula, in one kernel with what is around it."""
    _, oracle, ranges = FUNCTIONS[name]
    net = mx.gluon.nn.HybridLambda(lambda F, x: getattr(F, name)(x) * 2)
    net.hybridize()
    x = np.concatenate([r[np.abs(r) < 30][:2001] for r in ranges]).astype(dtype)
    x = x[np.isfinite(oracle(x.astype("float64"))) & (np.abs(oracle(x.astype("float64"))) < 1e37)]
    found, wanted = net(mx.nd.array(x, dtype=dtype)).asnumpy(), 2 * oracle(x.astype("float64"))
    tolerance = 2e-6 if dtype == "float32" else 4e-14
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)
    assert "forward: 1 kernel, 0 of them host calls" in str(net.explain())


def test_logarithm_of_gamma_near_its_zeros():
    """By its series at 1, since SciPy's has few right digits there."""
    t = np.concatenate([RNG.uniform(-0.05, 0.05, 1000), [1e-9, -1e-12]])
    t = (1.0 + t) - 1.0  # what is left of it beside 1
    terms = [scipy_special.zeta(k) * (-t) ** k / k for k in range(2, 16)]
    at_one = -np.euler_gamma * t + sum(reversed(terms))
    np.testing.assert_allclose(NUMPY.lgamma(1.0 + t), at_one, rtol=2e-15)
    t = (2.0 + t) - 2.0
    terms = [scipy_special.zeta(k) * (-t) ** k / k for k in range(2, 16)]
    at_two = np.log1p(t) - np.euler_gamma * t + sum(reversed(terms))
    np.testing.assert_allclose(NUMPY.lgamma(2.0 + t), at_two, rtol=2e-15)


def test_edges_of_functions():
    """As C's, and Python's where it does not raise: infinities, poles, signs of zero."""
    x = np.array([0.0, -0.0, -1.0, -3.0, np.inf, -np.inf, np.nan, 171.7, -200.5, 1e-310, 2.0])
    inf, nan = np.inf, np.nan
    np.testing.assert_array_equal(NUMPY.gamma(x)[:10], [inf, -inf, nan, nan, inf, nan, nan, inf, 0, inf])
    np.testing.assert_array_equal(NUMPY.lgamma(x)[2:7], [inf, inf, inf, -inf, nan])
    np.testing.assert_array_equal(NUMPY.lgamma(x)[[0, 1, 10]], [inf, inf, 0])
    np.testing.assert_array_equal(NUMPY.digamma(x)[:7], [-inf, inf, nan, nan, inf, nan, nan])
    y = np.array([0.0, -0.0, 1.0, -1.0, 1.5, -1.5, nan])
    np.testing.assert_array_equal(NUMPY.erfinv(y), [0, 0, inf, -inf, nan, nan, nan])
    assert np.signbit(NUMPY.erfinv(y)[1])

"""Our float32 error function against scipy's in float64."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special as scipy_special

from hybridc.dialects import special


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

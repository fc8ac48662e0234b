"""x y + z with one rounding, against rational numbers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from hybridc.runtime.fused_multiply_add import fused_multiply_add


def nearest(exact, dtype):
    """The float nearest to a rational number that is no float of more digits at a tie."""
    guess = dtype(float(exact))
    candidates = [np.nextafter(guess, dtype(-np.inf)), guess, np.nextafter(guess, dtype(np.inf))]
    bits = f"int{np.dtype(dtype).itemsize * 8}"
    return min(candidates, key=lambda c: (abs(Fraction(float(c)) - exact), int(c.view(bits)) & 1))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_results_are_nearest(dtype):
    random = np.random.default_rng(0)
    n = 3000
    powers = 3 if dtype == np.float16 else 40
    x, y, z = ((random.normal(size=n) * 2.0 ** random.integers(-powers, powers, n)).astype(dtype) for _ in range(3))
    product = x * y
    z = np.where(random.random(n) < 0.3, -product, z)  # what the product's rounding has lost
    z = np.where(random.random(n) < 0.3, (product * dtype(1.5)).astype(dtype), z)
    z = np.where(random.random(n) < 0.1, (product * dtype(2.0**-11)).astype(dtype), z)
    got = fused_multiply_add(x, y, z)
    right = [nearest(Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c)), dtype) for a, b, c in zip(x, y, z)]
    np.testing.assert_array_equal(got, right)
    assert (got != x * y + z).any()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_infinities_nans_and_zeros(dtype):
    some = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, np.finfo(dtype).max], dtype)
    x, y, z = (v.ravel() for v in np.meshgrid(some, some, some))
    got = fused_multiply_add(x, y, z)
    with np.errstate(all="ignore"):
        right = (x.astype(np.longdouble) * y + z).astype(dtype)
    np.testing.assert_array_equal(got, right)
    signed = ~np.isnan(right)
    np.testing.assert_array_equal(np.signbit(got)[signed], np.signbit(right)[signed])

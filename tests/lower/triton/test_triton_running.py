"""Two reductions in one sweep over what registers cannot hold, where one is of the other's result."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.triton.test_triton_kernel_classes import results_of
from tests.lower.triton.test_triton_loop_nests import kinds_of, program_of

pytestmark = pytest.mark.triton


# Rows of one piece, of two, and of several with an end that no block ends at.
SHAPES = [(1, 5000), (2, 5000), (3, 20001)]
INF = np.inf


def powers(x, axis=-1, temperature=1.0):
    x = x.astype(np.float64)
    with np.errstate(invalid="ignore"):
        return np.exp((x - x.max(axis, keepdims=True)) / temperature)


def softmax(x, axis=-1, temperature=1.0):
    e = powers(x, axis, temperature)
    return e / e.sum(axis, keepdims=True)


def normalized(x, axes, eps=1e-5):
    x = x.astype(np.float64)
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def numbers(shape, seed=0, dtype="float32"):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


@pytest.mark.parametrize("shape", SHAPES)
def test_softmax(shape):
    x = numbers(shape) * 5
    (got,), _ = results_of(lambda F, x: F.softmax(x), [x])
    np.testing.assert_allclose(got, softmax(x), rtol=1e-5)


def test_a_temperature_half_precision_and_a_scale():
    x = (numbers((2, 5000)) * 5).astype("float16")
    (got,), _ = results_of(lambda F, x: F.log_softmax(x * 2, temperature=3.0), [x])
    np.testing.assert_allclose(got, np.log(softmax(x * np.float16(2), temperature=3.0)), rtol=1e-3)


def test_rows_that_have_no_greatest_number():
    """Rows of minus infinity alone, with infinity and with NaN give NaN as NumPy does; else they are as others."""
    x = numbers((6, 9000))
    x[0] = -INF
    x[1, 7000] = INF
    x[2, 3] = np.nan
    x[3, :8000] = -INF  # blocks and pieces of which nothing counts come before what does
    x[4, 10:] = -INF
    (got,), _ = results_of(lambda F, x: F.softmax(x), [x])
    want = softmax(x)
    assert np.isnan(want[:3]).all()
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_cross_entropy_reads_scores_once():
    x, label = numbers((2, 40000)), np.array([3.0, 39999.0], np.float32)

    def function(F, x, label):
        return -F.pick(F.log_softmax(x), label)

    (got,), _ = results_of(function, [x, label])
    np.testing.assert_allclose(got, -np.log(softmax(x))[[0, 1], [3, 39999]], rtol=1e-6)


@pytest.mark.parametrize("shape", SHAPES)
def test_layer_norm(shape):
    x, scale, shift = numbers(shape), numbers(shape[1:], 1), numbers(shape[1:], 2)
    (got,), _ = results_of(lambda F, *xs: F.LayerNorm(*xs), [x, scale, shift])
    np.testing.assert_allclose(got, normalized(x, 1) * scale + shift, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_variance_about_a_mean_that_is_far_from_zero(dtype):
    """The sum of squares less the square of the sum would have no digit right."""
    mean, off = 1e4, numbers((2, 20001), dtype="float64")
    off[0, 0] = 300.0
    x = (mean + off).astype(dtype)
    ones = np.ones(x.shape[1], dtype)
    (got, middle, std), _ = results_of(lambda F, *xs: F.LayerNorm(*xs, output_mean_var=True), [x, ones, ones])
    digits = 1e-7 if dtype == "float32" else 1e-14
    np.testing.assert_allclose(middle[:, 0], x.mean(1, dtype=np.float64), rtol=10 * digits)
    np.testing.assert_allclose(std[:, 0], np.sqrt(x.astype(np.float64).var(1) + 1e-5), rtol=1000 * digits)
    np.testing.assert_allclose(got - 1, normalized(x, 1), atol=1e5 * digits)


def test_channels_of_a_batch():
    """A reduction along two axes that do not follow each other, by an operator that also leaves mean and variance."""
    x = numbers((6, 3, 30, 40))

    def function(F, x):
        mean = F.mean(x, axis=(0, 2, 3), keepdims=True)
        off = x - mean
        variance = F.mean(off * off, axis=(0, 2, 3), keepdims=True)
        return off / F.sqrt(variance + 1e-5), mean, variance

    (got, mean, variance), _ = results_of(function, [x])
    axes = (0, 2, 3)
    np.testing.assert_allclose(got, normalized(x, axes), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(mean, x.mean(axes, keepdims=True, dtype=np.float64), atol=1e-6)
    np.testing.assert_allclose(variance, x.astype(np.float64).var(axes, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize(
    ("function", "shapes", "sweeps"),
    [
        (lambda F, x: F.softmax(x), [(2, 40000)], ["sums", "elements"]),
        (lambda F, x: F.log_softmax(x), [(2, 40000)], ["sums", "elements"]),
        (lambda F, *xs: F.LayerNorm(*xs), [(2, 40000), (40000,), (40000,)], ["sums", "elements"]),
        # Of the mean alone nothing can be said before it is known: no distances are absolute.
        (lambda F, x: F.sum(F.abs(x - F.mean(x, axis=1, keepdims=True)), axis=1), [(2, 40000)], ["sums", "sums"]),
        (lambda F, x: F.sum(F.exp(F.max(x, axis=1, keepdims=True) - x), axis=1), [(2, 40000)], ["sums", "sums"]),
        (lambda F, x: F.sum(F.exp(x - F.min(x, axis=1, keepdims=True)), axis=1), [(2, 40000)], ["sums", "sums"]),
        (
            lambda F, x: F.sum(F.square(x - F.sum(x, axis=1, keepdims=True) / 39999), axis=1),
            [(2, 40000)],
            ["sums", "sums"],
        ),
    ],
)
def test_how_often_rows_are_read(function, shapes, sweeps):
    """Each function that is no combination of parts reads the rows once."""
    kinds = kinds_of(program_of(function, *shapes))
    assert [kind for kind in kinds if "parts" not in kind] == sweeps

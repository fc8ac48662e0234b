"""Dropout and the randomized leaky ReLU: what is drawn, and that the gradient uses the same draw."""

from __future__ import annotations

import numpy as np
import pytest

import hybridc as mx
from hybridc import autograd, nd
from hybridc.array.ndarray import NDArray
from hybridc.dialects.nn.dropout import UniformSample


def ones(*shape, dtype="float32"):
    x = NDArray(np.ones(shape, dtype=dtype))
    x.attach_grad()
    return x


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_drops_the_given_share(p):
    mx.random.seed(1)
    x = ones(200, 100)
    with autograd.record():
        y = nd.Dropout(x, p=p)
    values = y.asnumpy()
    np.testing.assert_allclose(np.unique(values), [0, 1 / (1 - p)], rtol=1e-6)
    assert abs((values == 0).mean() - p) < 0.02


def test_gradient_has_the_factors_of_the_forward():
    x = ones(20, 30)
    with autograd.record():
        y = nd.Dropout(x, p=0.3)
    y.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), y.asnumpy())


def test_dropout_is_the_identity_in_prediction():
    x = ones(4, 5)
    with autograd.record(train_mode=False):
        y = nd.Dropout(x, p=0.5)
    np.testing.assert_array_equal(y.asnumpy(), x.asnumpy())
    assert not np.shares_memory(y._data, x._data)


def test_mode_always_drops_in_prediction():
    assert 0 < nd.Dropout(ones(20, 20), p=0.5, mode="always").asnumpy().mean() != 1


def test_axes_drop_together():
    with autograd.train_mode():
        y = nd.Dropout(ones(50, 6, 3), p=0.5, axes=(1, -1)).asnumpy()
    np.testing.assert_array_equal(y, np.broadcast_to(y[:, :1, :1], y.shape))
    assert set(np.unique(y)) == {0, 2}


def test_seed_repeats_the_draw_and_draws_differ():
    with autograd.train_mode():
        mx.random.seed(3)
        first, second = (nd.Dropout(ones(50)).asnumpy() for _ in range(2))
        mx.random.seed(3)
        again = nd.Dropout(ones(50)).asnumpy()
    np.testing.assert_array_equal(first, again)
    assert (first != second).any()


def test_rrelu_draws_slopes_between_its_bounds():
    x = NDArray(-np.ones((40, 50), dtype=np.float32))
    x.attach_grad()
    with autograd.record():
        y = nd.LeakyReLU(x, act_type="rrelu", lower_bound=0.2, upper_bound=0.3)
    y.backward()
    slopes = -y.asnumpy()
    assert slopes.min() >= 0.2
    assert slopes.max() <= 0.3
    assert abs(slopes.mean() - 0.25) < 0.01
    np.testing.assert_allclose(x.grad.asnumpy(), slopes)


def test_rrelu_is_the_identity_where_it_is_positive():
    x = ones(5)
    with autograd.record():
        y = nd.LeakyReLU(x, act_type="rrelu")
    y.backward()
    np.testing.assert_array_equal(y.asnumpy(), 1)
    np.testing.assert_array_equal(x.grad.asnumpy(), 1)


def test_rrelu_takes_the_mean_slope_in_prediction():
    y = nd.LeakyReLU(-ones(3), act_type="rrelu", lower_bound=0.2, upper_bound=0.4)
    np.testing.assert_allclose(y.asnumpy(), [-0.3] * 3, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_uniform_draw(dtype):
    key = np.array([5, 2], dtype=np.uint64)
    u = UniformSample.bind(shape=(300, 40), dtype=dtype).eager(key)
    other = UniformSample.bind(shape=(300, 40), dtype=dtype, draw=1).eager(key)
    assert u.dtype == dtype
    assert u.min() >= 0
    assert u.max() <= 1
    assert abs(u.astype(np.float64).mean() - 0.5) < 0.01
    assert (u != other).any()

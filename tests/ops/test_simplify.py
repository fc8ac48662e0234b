"""Operators that have a simpler form in a graph: the graph becomes that form's, and the values stay."""

from __future__ import annotations

import numpy as np
import pytest

import hybridc as mx
from hybridc.array.ndarray import NDArray

X = np.array([[1.5, -2.0, 0.0], [-0.0, np.inf, 3.0]], dtype=np.float32)


class Net(mx.gluon.HybridBlock):
    """One function, followed by an operator that is always there."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return mx.nd.arctan(self.function(x))


def compiled(function, x=X):
    """The values, and the names of the kernels."""
    net = Net(function)
    net.hybridize()
    values = net(NDArray(x.copy())).asnumpy()
    return values, [line.partition(":")[0] for line in net.explain().splitlines() if "kernel " in line]


@pytest.mark.parametrize(
    ("function", "simpler"),
    [
        (lambda x: x * 1, lambda x: x),
        (lambda x: 1 * x, lambda x: x),
        (lambda x: x / 1, lambda x: x),
        (lambda x: x - 0, lambda x: x),
        (lambda x: x + -0.0, lambda x: x),
        (lambda x: x**1, lambda x: x),
        (lambda x: x**2, mx.nd.square),
        (mx.nd.identity, lambda x: x),
    ],
)
def test_simpler_form(function, simpler):
    values, kernels = compiled(function)
    want, wanted_kernels = compiled(simpler)
    np.testing.assert_array_equal(values, want)
    assert kernels == wanted_kernels


@pytest.mark.parametrize(
    "function",
    [lambda x: x + 1, lambda x: x * 0, lambda x: x / 2, lambda x: 1 / x, lambda x: 0 - x, lambda x: x**3],
)
def test_what_has_no_simpler_form_stays(function):
    values, kernels = compiled(function)
    _, without = compiled(lambda x: x)
    np.testing.assert_allclose(values, Net(function)(NDArray(X)).asnumpy(), rtol=1e-6)
    assert kernels != without


def test_adding_zero_keeps_its_effect_on_negative_zero():
    values, _ = compiled(lambda x: 1 / (x + 0))
    np.testing.assert_array_equal(values, Net(lambda x: 1 / (x + 0))(NDArray(X)).asnumpy())


def test_adding_zero_to_integers_is_nothing():
    x = np.arange(6, dtype=np.int32)
    assert compiled(lambda x: x + 0, x)[1] == compiled(lambda x: x, x)[1]

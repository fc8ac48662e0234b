"""A variable through which nothing flows back has the gradient 0, not that of the last backward."""

from __future__ import annotations

import numpy as np
import pytest

import hybridc as mx
from hybridc import autograd, nd


class Floor(mx.gluon.HybridBlock):
    """A part with a gradient and one without."""

    def forward(self, x, w):
        return nd.floor(x) + nd.BlockGrad(x) + w


@pytest.mark.parametrize("hybridized", [False, True])
def test_gradient_is_zero(hybridized):
    net = Floor()
    net.hybridize(hybridized)
    x, w = nd.array([1.0, 2.0]), nd.array([1.0, 1.0])
    x.attach_grad()
    w.attach_grad()
    with autograd.record():
        y = x * 3
    y.backward()
    with autograd.record():
        y = net(x, w)
    y.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), [0, 0])
    np.testing.assert_array_equal(w.grad.asnumpy(), [1, 1])


def test_gradient_that_is_summed_stays():
    x, w = nd.array([1.0, 2.0]), nd.array([1.0, 1.0])
    x.attach_grad("add")
    w.attach_grad()
    for _ in range(2):
        with autograd.record():
            y = x * 3
        y.backward()
    with autograd.record():
        y = nd.sign(x) * w
    y.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), [6, 6])

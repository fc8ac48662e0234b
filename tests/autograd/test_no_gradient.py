"""A variable through which nothing flows back has the gradient 0, not that of the last backward."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import hybridc as mx
from hybridc import autograd, nd
from hybridc.errors import UnsupportedError
from hybridc.gluon.nn import HybridLambda


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


class Partly(mx.gluon.HybridBlock):
    """One result that has a gradient, and one that has none and says so."""

    def hybrid_forward(self, F, x):
        return F.digamma(x), F.square(x)


@pytest.mark.parametrize("hybridized", [False, True])
def test_a_result_that_cannot_be_differentiated_is_an_error_where_a_gradient_starts_from_it(hybridized):
    net = Partly()
    net.hybridize(hybridized)
    x = nd.array([1.0, 2.0])
    x.attach_grad()
    for _ in range(2):
        with autograd.record():
            first, second = net(x)
        second.backward(retain_graph=True)
        np.testing.assert_array_equal(x.grad.asnumpy(), [2, 4])
        for heads in ([first], [first, second]):
            with pytest.raises(UnsupportedError, match=r"digamma cannot be differentiated"):
                autograd.backward(heads, retain_graph=True)


@pytest.mark.long
def test_what_is_kept_on_the_disk_says_which_results_have_a_gradient(tmp_path):
    """A later process starts from the same results."""
    script = tmp_path / "partly.py"
    script.write_text(
        """
import hybridc as mx
from tests.autograd.test_no_gradient import Partly

net = Partly()
net.hybridize()
x = mx.nd.array([1.0, 2.0])
x.attach_grad()
with mx.autograd.record():
    first, second = net(x)
second.backward(retain_graph=True)
print(x.grad.asnumpy().tolist())
try:
    mx.autograd.backward([first, second])
except mx.MXNetError as error:
    print("cannot" in str(error))
"""
    )
    env = {**os.environ, "HYBRIDC_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": os.getcwd()}
    for _ in range(2):
        done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=env, check=True)
        assert done.stdout == "[2.0, 4.0]\nTrue\n"


@pytest.mark.parametrize("hybridized", [False, True])
def test_one_number_is_used_three_times(hybridized):
    net = HybridLambda(lambda F, x: F.hypot(x, x) + x)
    net.hybridize(hybridized)
    x = nd.array(np.array(3.0))
    x.attach_grad("add")
    for _ in range(2):
        with autograd.record():
            y = net(x)
        autograd.backward([x, y])
    np.testing.assert_allclose(x.grad.asnumpy(), 2 * (2 + 2**0.5), rtol=1e-6)

"""``mx.nd.CachedOp``: a symbol as a function of arrays; expected values are NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

import hybridc as mx
from hybridc.errors import MXNetError, ShapeError

X = np.array([[1, 2], [3, -4], [0, 5]], "float32")
W = np.array([[1, -1]], "float32")


def dense():
    return mx.sym.FullyConnected(mx.sym.var("data"), mx.sym.var("weight"), num_hidden=1, no_bias=True)


def test_a_call_is_recorded():
    op = mx.nd.CachedOp(dense(), [("static_alloc", True)])
    x, w = mx.nd.array(X), mx.nd.array(W)
    w.attach_grad()
    np.testing.assert_array_equal(op(x, w).asnumpy(), X @ W.T)
    with mx.autograd.record():
        loss = (op(x, w) * 2).sum()
    loss.backward()
    np.testing.assert_array_equal(w.grad.asnumpy(), 2 * X.sum(axis=0, keepdims=True))
    np.testing.assert_array_equal(op(x[:2], w).asnumpy(), X[:2] @ W.T)


def test_states_are_updated_and_several_outputs_are_a_list():
    data = mx.sym.var("data")
    bn = mx.sym.BatchNorm(data, fix_gamma=False, momentum=0.5, name="bn")
    op = mx.nd.CachedOp(mx.sym.Group([bn, data * 2]))
    arrays = {n: mx.nd.ones(2) if n != "data" else mx.nd.array(X) for n in op._names}
    with mx.autograd.record():
        results = op(*arrays.values())
    assert isinstance(results, list)
    np.testing.assert_array_equal(results[1].asnumpy(), X * 2)
    np.testing.assert_allclose(arrays["bn_moving_mean"].asnumpy(), 0.5 + X.mean(axis=0) / 2, rtol=1e-6)


def test_out_is_written_and_arguments_are_checked():
    op = mx.nd.CachedOp(dense())
    x, w, out = mx.nd.array(X), mx.nd.array(W), mx.nd.zeros((3, 1))
    assert op(x, w, out=out) is out
    np.testing.assert_array_equal(out.asnumpy(), X @ W.T)
    with pytest.raises(MXNetError, match="1 arrays for 2 inputs: data, weight"):
        op(x)
    with pytest.raises(ShapeError, match="out must be arrays of shapes"):
        op(x, w, out=mx.nd.zeros(3))

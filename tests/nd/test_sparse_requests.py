"""Sparse storage is asked for: a warning at the user's line, once a kind, and dense arrays with the same numbers."""

from __future__ import annotations

import inspect
import warnings

import numpy as np
import pytest

import hybridc as mx
from hybridc.ground import absent


@pytest.fixture
def warned(monkeypatch):
    """Warnings so far, of which none was before."""
    monkeypatch.setattr(absent, "_WARNED", set())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


def line():
    """The line of the caller."""
    return inspect.currentframe().f_back.f_lineno


def assert_one(warned, text, where):
    """There is one warning, of this line and with this text."""
    (one,) = warned
    assert (one.filename, one.lineno) == (__file__, where)
    assert str(one.message).startswith(text)
    assert "does not have sparse storage, and uses a dense array: it takes the memory of " in str(one.message)
    warned.clear()


def lookup(layer):
    layer.initialize(mx.init.Constant(2))
    with mx.autograd.record():
        y = layer(mx.nd.array([1, 1, 3])).sum()
    y.backward()
    return layer.weight.grad().asnumpy()


def test_layers(warned):
    layer, where = mx.gluon.nn.Embedding(5, 2, sparse_grad=True), line()
    assert_one(warned, "Parameter 'embedding", where)
    again = mx.gluon.nn.Embedding(5, 2, sparse_grad=True)
    assert not warned
    np.testing.assert_array_equal(lookup(layer), lookup(mx.gluon.nn.Embedding(5, 2)))
    np.testing.assert_array_equal(lookup(layer), lookup(again))


def test_gradients(warned):
    x = mx.nd.ones(2)
    x.attach_grad(stype="default")
    assert not warned
    x.attach_grad(stype="row_sparse")
    where = line() - 1
    assert_one(warned, "attach_grad: a gradient of storage type 'row_sparse': ", where)
    with mx.autograd.record():
        y = x * x
    y.backward()
    assert x.grad.asnumpy().tolist() == [2, 2]
    with pytest.raises(mx.MXNetError, match="unknown storage type 'sparse'; there are 'default', 'csr' and 'row_s"):
        x.attach_grad(stype="sparse")


def test_results(warned):
    x = mx.nd.array([[1, 2], [3, 4]])
    found, where = mx.nd.dot(x, x, forward_stype="csr"), line()
    assert_one(warned, "dot: a result of storage type 'csr': ", where)
    assert found.asnumpy().tolist() == (x.asnumpy() @ x.asnumpy()).tolist()
    stacked = mx.nd.batch_dot(x.expand_dims(0), x.expand_dims(0), forward_stype="csr")  # dense in MXNet, too
    mx.nd.dot(x, x, forward_stype="default")
    mx.nd.dot(x, x, forward_stype="None")
    assert stacked.shape == (1, 2, 2)
    assert not warned
    with pytest.raises(mx.MXNetError, match=r"forward_stype takes .*'csr', 'default', 'row_sparse'"):
        mx.nd.dot(x, x, forward_stype="sparse")


def test_tables(warned):
    table = mx.sym.Embedding(mx.sym.var("x"), input_dim=3, output_dim=2, sparse_grad=True, name="e")
    where = line() - 1
    assert_one(warned, "Embedding: sparse_grad=True: ", where)
    mx.sym.load_json(table.tojson())
    assert not warned

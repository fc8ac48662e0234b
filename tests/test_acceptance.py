"""What somebody coming from MXNet 1.9.1 writes: spellings, exception types, and help for what is not here."""

from __future__ import annotations

import os
import re

import numpy as np
import pytest

import hybridc as mx
from hybridc.gluon import nn

ABSENT = [
    (mx, "tvmop", "second interface"),
    (mx.mod, "Modul", "did you mean Module"),
    (mx.sym, "Activatoin", "did you mean Activation"),
    (mx.nd.sparse, "csr_matriks", "did you mean csr_matrix"),
    (mx.nd, "sofmax", "did you mean .*softmax"),
    (mx.nd.linalg, "portf", "did you mean potrf"),
    (mx.nd.contrib, "quantized_rnn", "this quantized operator"),
    (nn, "Dens", "did you mean Dense"),
    (mx.gluon.data.vision.transforms, "RandomHu", "did you mean RandomHue"),
    (mx.image, "imreed", "did you mean imread"),
    (mx.io, "NDArayIter", "did you mean NDArrayIter"),
    (mx.optimizer, "FTLM", "did you mean FTML"),
]


@pytest.mark.parametrize(("owner", "name", "text"), ABSENT, ids=[f"{o.__name__}.{n}" for o, n, _ in ABSENT])
def test_absent_name_says_what_is_missing(owner, name, text):
    assert not hasattr(owner, name)
    with pytest.raises(AttributeError, match=text) as caught:
        getattr(owner, name)
    assert repr(name) in str(caught.value)


def test_private_names_are_not_explained():
    with pytest.raises(AttributeError, match=r"no operator '__wrapped__'$"):
        mx.nd.__wrapped__  # noqa: B018


def test_keywords_of_mxnet():
    x = mx.nd.array([[1.0, 2, 3]])
    assert mx.nd.power(base=x, exp=2).asnumpy().tolist() == [[1, 4, 9]]
    assert mx.nd.power(2, x).asnumpy().tolist() == [[2, 4, 8]]
    assert x.broadcast_like(other=mx.nd.zeros((2, 3))).shape == (2, 3)
    for view in (x.expand_dims(axis=0, inplace=True), x.squeeze(axis=0, inplace=True), x.flatten(inplace=True)):
        view[:] += 1  # the memory is that of x, as in MXNet
    assert x.asnumpy().tolist() == [[4, 5, 6]]
    assert mx.nd.zeros((2, 0)).expand_dims(0, inplace=True).shape == (1, 2, 0)


def test_keywords_of_mxnet_in_a_hybridized_block():
    class Net(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x, y):
            z = x.expand_dims(axis=1, inplace=True).squeeze(axis=1, inplace=True)
            return F.power(base=z.broadcast_like(other=y), exp=2).flatten(inplace=True)

    net = Net()
    x, y = mx.nd.array([[1.0, 2, 3]]), mx.nd.zeros((2, 3))
    eager = net(x, y).asnumpy()
    net.hybridize()
    np.testing.assert_array_equal(net(x, y).asnumpy(), eager)
    np.testing.assert_array_equal(eager, [[1, 4, 9]] * 2)


@pytest.mark.parametrize(
    "call",
    [
        lambda: mx.metric.create("nonsense"),
        lambda: mx.init.create("nonsense"),
        lambda: mx.gluon.data.ArrayDataset([1], [1, 2]),
        lambda: mx.nd.ones(3).reshape(),
    ],
)
def test_checks_that_mxnet_asserts(call):
    with pytest.raises(AssertionError):
        call()


def _wrong_sizes():
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Dense(4, in_units=3), nn.Dense(2, in_units=5))
    net.initialize()
    return net


@pytest.mark.parametrize("active", [False, True])
def test_wrong_shape_names_the_layer(active):
    net = _wrong_sizes()
    net.hybridize(active)
    with pytest.raises(mx.MXNetError, match=re.escape("weight has shape (2, 5), expected (2, 4)")) as caught:
        net(mx.nd.ones((2, 3)))
    assert str(caught.value).count("(in ") == 1
    assert "(in net_dense1)" in str(caught.value)


def test_wrong_dtype_names_the_layer():
    net = nn.Dense(2, in_units=3, prefix="d_")
    net.initialize()
    with pytest.raises(mx.MXNetError, match=r"all inputs must have one dtype.*\(in d\)"):
        net(mx.nd.ones((2, 3), dtype="float64"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="workers are forked")
def test_loader_inherited_by_a_fork_is_left_alone(capfd):
    data = mx.gluon.data.SimpleDataset(list(range(8)))
    loader = mx.gluon.data.DataLoader(data, 2, num_workers=1)
    rows = iter(loader)
    next(rows)
    child = os.fork()
    if child == 0:
        del rows
        del loader  # ends the workers, if these are this process's
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert len(list(rows)) == 3
    assert "AssertionError" not in capfd.readouterr().err


def test_random_shapes_and_deferred_error_are_where_mxnet_has_them():
    assert len(mx.test_utils.rand_shape_nd(4)) == 4
    assert all(1 <= n <= 2 for n in mx.test_utils.rand_shape_3d(2, 2, 2))
    net = nn.Dense(2)
    net.initialize()
    with pytest.raises(mx.gluon.DeferredInitializationError):
        net.weight.data()

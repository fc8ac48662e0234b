"""Gradients of tables in compiled graphs: rows and their numbers, whatever the table has."""

import numpy as np
import pytest

import hybridc as mx
from hybridc import autograd
from hybridc.gluon import nn


class Words(mx.gluon.HybridBlock):
    """``sin`` of rows of a table, once or for two lists of words, and the product with the table itself."""

    def __init__(self, rows, dtype, twice=False, tied=False):
        super().__init__()
        self.twice, self.tied = twice, tied
        with self.name_scope():
            self.table = nn.Embedding(rows, 3, sparse_grad=True, dtype=dtype)
            self.weight = self.table.weight

    def hybrid_forward(self, F, x, y, weight):
        found = F.sin(self.table(x))
        if self.twice:
            found = found * 2 + F.sin(self.table(y))
        return F.dot(found, weight, transpose_b=True) if self.tied else found


def gradient(table, x, y, twice):
    """The gradient of the sum of the results without the product, in float64."""
    found = np.zeros(table.shape)
    rows = len(table)
    for words, scale in ((x, 2.0 if twice else 1.0), (y, 1.0 if twice else 0.0)):
        chosen = np.clip(words.astype(int), 0, rows - 1)
        np.add.at(found, chosen, scale * np.cos(table.astype(np.float64)[chosen]))
    return found


def made(*args, **kwargs):
    net = Words(*args, **kwargs)
    net.initialize(mx.init.Normal(1))
    net.hybridize()
    return net


def words(random, rows, shape):
    return random.integers(-2, rows + 2, shape).astype("float32")


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_gradient_is_rows(dtype, twice):
    random, net = np.random.default_rng(1), made(11, dtype, twice)
    for shape in ((2, 3), (2, 5), (7, 4), (2, 3), (0, 3)):
        x, y = words(random, 11, shape), words(random, 11, shape)
        with autograd.record():
            loss = net(mx.nd.array(x), mx.nd.array(y))
        loss.backward()
        grad = net.table.weight.grad()
        assert grad.stype == "row_sparse"
        taken = np.unique(np.clip(np.concatenate([x, y]) if twice else x, 0, 10))
        assert grad.indices.asnumpy().tolist() == taken.tolist()
        wanted = gradient(net.table.weight.data().asnumpy(), x, y, twice)
        np.testing.assert_allclose(grad.asnumpy(), wanted, rtol=1e-5 if dtype == "float32" else 4e-3, atol=1e-5)
    assert "gradient of words" in str(net.explain())


def test_the_table_is_neither_copied_nor_filled():
    net = made(3_000_000, "float32")
    x = mx.nd.array([[5, 2_999_999, 5]])
    with autograd.record():
        loss = net(x, x)
    loss.backward()
    assert net.table.weight.grad().indices.asnumpy().tolist() == [5, 2_999_999]
    report = str(net.explain())
    sizes = [int(line.split("arena ")[1].split()[0]) for line in report.splitlines() if "arena" in line]
    assert len(sizes) == 2
    assert max(sizes) < 10_000, report
    assert "the rows that were taken" in report


def test_a_table_that_is_a_weight_too_has_all_rows():
    """The gradient of a product is dense, so is the sum; the buffer of the parameter is row_sparse."""
    random, net = np.random.default_rng(2), made(6, "float32", tied=True)
    x = words(random, 6, (4,))
    with autograd.record():
        loss = net(mx.nd.array(x), mx.nd.array(x))
    loss.backward()
    table = net.table.weight.data().asnumpy().astype(np.float64)
    chosen = np.clip(x.astype(int), 0, 5)
    wanted = np.tile(np.sin(table[chosen]).sum(0), (6, 1))
    np.add.at(wanted, chosen, np.cos(table[chosen]) * table.sum(0))
    np.testing.assert_allclose(net.table.weight.grad().asnumpy(), wanted, rtol=1e-5, atol=1e-5)


def test_two_blocks_that_are_alike_have_equal_gradients():
    """The second one finds its graph in the cache, which says which gradients are rows."""
    x, grads = mx.nd.array([[1, 2, 9]]), []
    for _ in range(2):
        net = made(10, "float32", twice=True)
        net.table.weight.set_data(mx.nd.arange(30).reshape((10, 3)))
        with autograd.record():
            loss = net(x, x)
        loss.backward()
        grads.append(net.table.weight.grad().asnumpy())
    np.testing.assert_array_equal(*grads)


class TwoTables(mx.gluon.HybridBlock):
    """The rows of two tables, as two results."""

    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.a, self.b = (nn.Embedding(8, 2, sparse_grad=True) for _ in range(2))

    def hybrid_forward(self, F, x):
        return F.square(self.a(x)), F.square(self.b(x)) * 3


def test_gradients_from_some_results_and_added_ones():
    net = TwoTables()
    net.initialize(mx.init.One())
    net.hybridize()
    net.a.weight.grad_req = "add"
    for rows in ([1, 3], [3, 3]):
        with autograd.record():
            a, _ = net(mx.nd.array(rows))
        a.backward()
    assert net.a.weight.grad().asnumpy()[:, 0].tolist() == [0, 2, 0, 6, 0, 0, 0, 0]
    assert not net.b.weight.grad().asnumpy().any()
    with autograd.record():
        loss = sum(x.sum() for x in net(mx.nd.array([5])))
    loss.backward()
    assert net.b.weight.grad().asnumpy()[:, 1].tolist() == [0, 0, 0, 0, 0, 6, 0, 0]


def test_second_derivatives():
    net = made(5, "float32")
    x = mx.nd.array([[0, 3, 3]])
    weight = net.table.weight
    with autograd.record():
        first = autograd.grad(net(x, x), [weight.data()], create_graph=True)[0]
        loss = (first.tostype("default") * 2).sum()
    loss.backward()
    table = weight.data().asnumpy()
    wanted = np.zeros((5, 3))
    np.add.at(wanted, [0, 3, 3], -2 * np.sin(table[[0, 3, 3]]))
    np.testing.assert_allclose(weight.grad().asnumpy(), wanted, rtol=1e-5, atol=1e-6)


def trained(optimizer, is_step):
    random = np.random.default_rng(3)
    net = nn.HybridSequential()
    net.add(nn.Embedding(9, 4, sparse_grad=True), nn.Dense(3))
    mx.random.seed(3)
    net.initialize(mx.init.Normal(1))
    net.hybridize()
    before = net[0].weight.data().asnumpy()
    trainer = mx.gluon.Trainer(net.collect_params(), optimizer, {"learning_rate": 0.1})
    loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    step = mx.gluon.TrainStep(net, loss, trainer) if is_step else None
    losses = []
    for _ in range(4):
        x, y = mx.nd.array(random.integers(0, 7, (5, 2))), mx.nd.array(random.integers(0, 3, 5))
        if step is not None:
            losses.append(step(x, y).asnumpy())
            continue
        with autograd.record():
            out = loss(net(x), y)
        out.backward()
        trainer.step(5)
        losses.append(out.asnumpy())
    if step is not None:
        assert "the rows that were taken" in str(step.explain())
    if optimizer != "rmsprop":  # whose update is of all rows
        np.testing.assert_array_equal(net[0].weight.data().asnumpy()[7:], before[7:])
    return losses, [p.data().asnumpy() for p in net.collect_params().values()]


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adagrad", "rmsprop"])
def test_a_training_step_is_the_loop(optimizer):
    (losses, found), (other_losses, other) = (trained(optimizer, is_step) for is_step in (True, False))
    for a, b in zip([*losses, *found], [*other_losses, *other], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("option", [{"accumulate": 2}, {"clip_global_norm": 1.0}, {"shard_optimizer": True}])
def test_a_training_step_of_rows_names_what_it_does_not_take(option):
    net = nn.Embedding(5, 2, sparse_grad=True)
    net.initialize()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd")
    with pytest.raises(mx.errors.UnsupportedError, match=rf"embedding.*is sparse.*{next(iter(option))}"):
        mx.gluon.TrainStep(net, mx.gluon.loss.L2Loss(), trainer, **option)

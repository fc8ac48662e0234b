"""``net.compile``: what is compiled before the first call, which then compiles nothing and gives what it would give."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import hybridc as mx
from hybridc.errors import CheckError, RecompileError
from hybridc.gluon import nn


def network(dropout=0.3):
    """A network that infers shapes, has running statistics and draws random numbers."""
    mx.random.seed(5)
    net = nn.HybridSequential()
    net.add(nn.Dense(7, activation="tanh"), nn.BatchNorm(), nn.Dropout(dropout), nn.Dense(4))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    return net


def data(rows=5):
    return mx.nd.array(np.random.default_rng(rows).normal(size=(rows, 6)))


class _Pair(mx.gluon.HybridBlock):
    def hybrid_forward(self, F, x, states):
        return x + states[0], [states[1] * 2]


GIVEN = {
    "a shape": (5, 6),
    "an array": mx.nd.zeros((5, 6)),
    "an array of NumPy": np.zeros((5, 6), np.float32),
    "a shape and a dtype": SimpleNamespace(shape=(5, 6), dtype=np.dtype("float32")),
}


@pytest.mark.parametrize("given", GIVEN.values(), ids=GIVEN)
def test_the_next_call_compiles_nothing_and_gives_what_it_gives_without(given):
    net = network()
    net.compile(given)
    with mx.no_recompile():
        result = net(data())
    assert (result == network()(data())).asnumpy().all()


def test_another_size_is_compiled_by_another_call():
    net = network()
    net.compile((5, 6))
    net.compile((9, 6))
    with mx.no_recompile():
        net(data(5))
        net(data(9))
        with pytest.raises(RecompileError):
            net(data(7))


def test_shapes_have_the_given_dtype():
    net = nn.HybridLambda("exp")
    net.hybridize()
    net.compile((3,), dtype="float64")
    with mx.no_recompile():
        assert net(mx.nd.zeros((3,), dtype="float64")).dtype is np.float64
        with pytest.raises(RecompileError):
            net(mx.nd.zeros((3,)))


def test_nested_arguments():
    net = _Pair()
    net.hybridize()
    net.compile((2, 3), [(2, 3), mx.nd.zeros((4,))])
    with mx.no_recompile():
        _, (second,) = net(mx.nd.ones((2, 3)), [mx.nd.ones((2, 3)), mx.nd.ones((4,))])
    assert second.asnumpy().tolist() == [2] * 4


def trained(ahead):
    net = network()
    if ahead:
        net.compile((5, 6), training=True)
        before = {p.name: p.data().asnumpy().copy() for p in net.collect_params().values()}
    with mx.no_recompile() if ahead else mx.autograd.predict_mode():
        if ahead:
            assert all((p.data().asnumpy() == before[p.name]).all() for p in net.collect_params().values())
        with mx.autograd.record():
            y = net(data())
        y.backward()
    return [y, *[p.grad() for p in net.collect_params().values() if p.grad_req != "null"]]


def test_with_gradients():
    for ours, theirs in zip(trained(ahead=True), trained(ahead=False), strict=True):
        assert (ours == theirs).asnumpy().all()


@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize("optimizer", ["sgd", "nadam"])
def test_a_training_step(optimizer, accumulate):
    def losses(ahead):
        net = network()
        schedule = mx.lr_scheduler.FactorScheduler(step=2, factor=0.5, base_lr=0.1)
        trainer = mx.gluon.Trainer(net.collect_params(), optimizer, {"learning_rate": 0.1, "lr_scheduler": schedule})
        loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()
        step = mx.gluon.TrainStep(net, loss, trainer, accumulate=accumulate)
        if ahead:
            step.compile((5, 6), (5,))
        found = []
        for number in range(6):
            if number or not ahead:
                found.append(step(data(), mx.nd.arange(5) % 4))
                continue
            with mx.no_recompile():
                found.append(step(data(), mx.nd.arange(5) % 4))
        return [x.asnumpy().tolist() for x in found], trainer.optimizer.num_update

    assert losses(ahead=True) == losses(ahead=False)


def test_random_numbers_are_those_of_calls_alone():
    net = network()
    net(data())
    drawn, second = mx.random.state(), network()
    second.compile((5, 6), training=True)
    second(data())
    assert mx.random.state() == drawn


def test_a_block_that_is_not_hybridized_says_what_to_do():
    net = nn.Dense(3)
    net.initialize()
    with pytest.raises(CheckError, match="call hybridize"):
        net.compile((1, 2))


def test_what_is_no_array_is_refused():
    net = network()
    with pytest.raises(mx.MXNetError, match="a shape as a tuple of integers"):
        net.compile("1,2")

"""Whole trainings: compiled and eager runs stay together, step by step, random numbers included."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import hybridc as mx
from hybridc.gluon import HybridBlock, nn
from hybridc.runtime.workspace import POOL
from tests.slices import crossed


class Attention(HybridBlock):
    """Multi-head self-attention with a residual connection."""

    def __init__(self, size, heads):
        super().__init__()
        self.heads = heads
        with self.name_scope():
            self.qkv = nn.Dense(3 * size, in_units=size, flatten=False)
            self.out = nn.Dense(size, in_units=size, flatten=False)

    def hybrid_forward(self, F, x):
        batch, length, size = x.shape
        part = size // self.heads

        def split(t):
            t = F.transpose(F.reshape(t, (batch, length, self.heads, part)), axes=(0, 2, 1, 3))
            return F.reshape(t, (batch * self.heads, length, part))

        q, k, v = (split(t) for t in F.split(self.qkv(x), num_outputs=3, axis=2))
        weights = F.softmax(F.batch_dot(q, k, transpose_b=True) / part**0.5)
        y = F.reshape(F.batch_dot(weights, v), (batch, self.heads, length, part))
        return self.out(F.reshape(F.transpose(y, axes=(0, 2, 1, 3)), (batch, length, size))) + x


class FeedForward(HybridBlock):
    """Normalisation, two layers, dropout, residual."""

    def __init__(self, size):
        super().__init__()
        with self.name_scope():
            self.norm = nn.LayerNorm(in_channels=size)
            self.a = nn.Dense(2 * size, in_units=size, flatten=False)
            self.b = nn.Dense(size, in_units=2 * size, flatten=False)
            self.dropout = nn.Dropout(0.2)

    def hybrid_forward(self, F, x):
        return x + self.dropout(self.b(F.LeakyReLU(self.a(self.norm(x)), act_type="gelu")))


def transformer():
    net = nn.HybridSequential()
    net.add(nn.Embedding(20, 16), Attention(16, 4), FeedForward(16), Attention(16, 2), FeedForward(16))
    net.add(nn.Dense(20, in_units=16, flatten=False))
    rng = np.random.default_rng(0)
    batch = mx.nd.array(rng.integers(0, 20, (4, 6))), mx.nd.array(rng.integers(0, 20, (4, 6)))
    return net, batch, mx.gluon.loss.SoftmaxCrossEntropyLoss()


def perceptron():
    net = nn.HybridSequential()
    net.add(nn.Dense(64, activation="tanh"), nn.Dropout(0.5), nn.Dense(32, activation="relu"), nn.Dense(3))
    rng = np.random.default_rng(0)
    return net, (mx.nd.array(rng.normal(size=(30, 10))), mx.nd.array(rng.normal(size=(30, 3)))), mx.gluon.loss.L2Loss()


def train(make, hybrid, optimizer, steps=5):
    mx.random.seed(3)
    net, (x, y), loss_function = make()
    net.initialize(mx.init.Xavier())
    if hybrid:
        net.hybridize()
        loss_function.hybridize()
    settings = {"learning_rate": 0.05, "wd": 1e-3}
    if optimizer == "adam":  # the gradient of a bias of keys is 0 but for rounding, which Adam would make large
        settings["epsilon"] = 1e-3
    trainer = mx.gluon.Trainer(net.collect_params(), optimizer, settings)
    losses = []
    for step in range(steps):
        mx.random.seed(100 + step)
        with mx.autograd.record():
            loss = loss_function(net(x), y)
        loss.backward()
        trainer.step(len(x))
        losses.append(loss.asnumpy())
    return np.array(losses), [p.data().asnumpy() for p in net.collect_params().values()], net(x).asnumpy()


@pytest.mark.parametrize(("make", "optimizer"), crossed(2, [perceptron, transformer], ["adam", "sgd"]))
def test_training_eager_and_hybridized(make, optimizer):
    eager, hybrid = train(make, False, optimizer), train(make, True, optimizer)
    assert (eager[0][-1] != eager[0][0]).all()
    np.testing.assert_allclose(hybrid[0], eager[0], rtol=2e-3, atol=1e-4)
    for a, b in zip(hybrid[1], eager[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-3)
    np.testing.assert_allclose(hybrid[2], eager[2], rtol=5e-3, atol=5e-3)


@pytest.mark.long
def test_training_does_not_grow():
    """Neither workspaces nor arrays pile up from step to step."""
    net, (x, y), loss_function = perceptron()
    net.initialize()
    net.hybridize()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01})

    def step():
        with mx.autograd.record():
            loss = loss_function(net(x), y)
        loss.backward()
        trainer.step(len(x))

    def arrays():
        gc.collect()
        return sum(1 for o in gc.get_objects() if type(o).__name__ in ("NDArray", "TapeNode", "RecordedCall"))

    for _ in range(3):
        step()
    before, idle = arrays(), len(POOL.idle)
    for _ in range(20):
        step()
    assert arrays() <= before
    assert len(POOL.idle) == idle

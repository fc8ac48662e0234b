"""Hybridized blocks that make arrays of unknown sizes: ``F.zeros(shape=(0, n))``."""

from __future__ import annotations

import numpy as np
import pytest

import hybridc as mx
from hybridc import autograd, gluon


class Recurrent(gluon.HybridBlock):
    """States of batch size 0 where the batch is unknown, as programs for symbols make them."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.cell = gluon.rnn.LSTMCell(4)
            self.out = gluon.nn.Dense(3, flatten=False)
            self.norm = gluon.nn.BatchNorm()

    def hybrid_forward(self, F, x):
        batch = x.shape[0] if isinstance(x, mx.nd.NDArray) else 0
        states = self.cell.begin_state(batch_size=batch, func=F.zeros)
        outputs, states = self.cell.unroll(5, x, begin_state=states, layout="NTC", merge_outputs=True)
        return self.norm(self.out(outputs) + F.zeros((batch, 5, 3))), states


@pytest.mark.parametrize("batch", [1, 3])
def test_states_get_the_batch_size_of_what_they_meet(batch):
    x = mx.nd.array(np.random.default_rng(1).normal(size=(batch, 5, 2)))
    mx.random.seed(1)
    net = Recurrent()
    net.initialize(mx.init.Xavier())
    heads = mx.nd.array(np.random.default_rng(2).normal(size=(batch, 5, 3)))

    def results():
        with autograd.record():
            out, states = net(x)
        out.backward(heads)
        grads = [p.grad().asnumpy() for p in net.collect_params().values() if p.grad_req != "null"]
        return [out.asnumpy(), *(s.asnumpy() for s in states), *grads]

    eager = results()
    net.hybridize()
    for a, b in zip(eager, results(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5 * max(1, np.abs(a).max()))


def test_parameters_whose_shapes_are_unknown_are_inferred_in_the_first_hybridized_call():
    net = Recurrent()
    net.initialize()
    net.hybridize()
    out, (state, _) = net(mx.nd.ones((2, 5, 7)))
    assert out.shape == (2, 5, 3)
    assert state.shape == (2, 4)
    assert net.cell.i2h_weight.shape == (16, 7)


def test_where_nothing_says_more_there_are_no_elements():
    class Empty(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return F.concat(F.zeros((0, 1)), F.zeros((0, 3)), dim=1), x

    net = Empty()
    net.hybridize()
    assert net(mx.nd.ones((2, 3)))[0].shape == (0, 4)


def test_a_forward_that_needs_shapes_keeps_its_empty_arrays():
    class Shaped(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            rows = F.zeros((0, x.shape[1]))  # no symbol has a shape
            return F.concat(rows, x, dim=0)

    net = Shaped()
    net.hybridize()
    assert net(mx.nd.ones((2, 3))).shape == (2, 3)


def test_states_of_a_loop_get_the_batch_size_of_its_data():
    class Loop(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.cell = gluon.rnn.LSTMCell(3)
                self.out = gluon.nn.Dense(2)

        def hybrid_forward(self, F, x):
            batch = x.shape[1] if isinstance(x, mx.nd.NDArray) else 0
            outputs, states = F.contrib.foreach(self.cell, x, [F.zeros((batch, 3))] * 2)
            return outputs, self.out(states[0])

    net = Loop()
    net.initialize()
    net.hybridize()
    x = mx.nd.array(np.random.default_rng(1).normal(size=(4, 2, 5)))
    compiled = net(x)
    net.hybridize(False)
    for a, b in zip(compiled, net(x), strict=True):
        np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=1e-5, atol=1e-6)


def test_random_arrays_get_the_sizes_of_what_they_meet():
    class Noisy(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return x + F.random.uniform(shape=(0, 3)) + F.ones((0, 0)), F.zeros((0, 2))

    net = Noisy()
    net.hybridize()
    assert [y.shape for y in net(mx.nd.ones((2, 3)))] == [(2, 3), (0, 2)]


def test_a_condition_says_the_shape_of_what_it_chooses():
    """As DeepAR does of GluonTS, whose states are zeros of batch size 0 where steps are padded."""

    class Padded(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.cell = gluon.rnn.LSTMCell(3)

        def hybrid_forward(self, F, x, padded):
            batch = x.shape[0] if isinstance(x, mx.nd.NDArray) else 0
            begin = self.cell.begin_state(func=F.zeros, batch_size=batch)
            states = [F.where(padded.repeat(repeats=3, axis=1), s, s) for s in begin]
            rows = [F.where(padded.reshape((-1,)), s, s) for s in states]
            return self.cell.unroll(2, x, begin_state=rows, layout="NTC", merge_outputs=True)[0]

    net = Padded()
    net.initialize()
    x, padded = mx.nd.array(np.random.default_rng(1).normal(size=(4, 2, 5))), mx.nd.array([[0], [1], [0], [1]])
    eager = net(x, padded).asnumpy()
    net.hybridize()
    np.testing.assert_allclose(net(x, padded).asnumpy(), eager, rtol=1e-5, atol=1e-6)

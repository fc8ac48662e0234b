"""Gradients through compiled graphs: every variant of ``backward`` and ``grad``."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import hybridc as mx
from hybridc.errors import MXNetError
from hybridc.gluon import HybridBlock, nn
from hybridc.runtime.workspace import POOL
from tests.function_blocks import hybrid


def variable(values, req="write", dtype="float64"):
    x = mx.nd.array(values, dtype=dtype)
    x.attach_grad(req)
    return x


def test_write_add_null():
    net = hybrid(lambda F, x, y, z: x * y * z)
    x, y, z = variable([2.0]), variable([3.0], "add"), variable([5.0], "null")
    for _ in range(3):
        with mx.autograd.record():
            out = net(x, y, z)
        out.backward()
    assert x.grad.asscalar() == 15
    assert y.grad.asscalar() == 30
    assert z._entry is None


def test_head_gradients():
    net = hybrid(lambda F, x: F.exp(x))
    x = variable([0.0, 1.0])
    with mx.autograd.record():
        y = net(x)
    y.backward(mx.nd.array([10.0, -1.0], dtype="float64"))
    np.testing.assert_allclose(x.grad.asnumpy(), [10, -np.e])


@pytest.mark.parametrize("which", [0, 1, 2])
def test_one_of_several_outputs(which):
    net = hybrid(lambda F, x, y: [x * y, F.exp(x), F.sum(y)])
    x, y = variable([1.0, 2.0]), variable([3.0, 4.0])
    with mx.autograd.record():
        out = net(x, y)[which]
    out.backward()
    expected = [([3, 4], [1, 2]), (np.exp([1, 2]), [0, 0]), ([0, 0], [1, 1])][which]
    np.testing.assert_allclose(x.grad.asnumpy(), expected[0])
    np.testing.assert_allclose(y.grad.asnumpy(), expected[1])


def test_several_heads_at_once():
    net = hybrid(lambda F, x: [x * 2, x * 3])
    x = variable([1.0])
    with mx.autograd.record():
        a, b = net(x)
    mx.autograd.backward([a, b], [None, mx.nd.array([10.0], dtype="float64")])
    assert x.grad.asscalar() == 32


def test_output_that_is_an_input():
    net = hybrid(lambda F, x, y: [x, x + y, F.reshape(x, (1, 2))])
    x, y = variable([1.0, 2.0]), variable([3.0, 4.0])
    with mx.autograd.record():
        a, b, c = net(x, y)
        loss = F_sum(a) + 2 * F_sum(b) + 4 * F_sum(c)
    loss.backward()
    assert x.grad.asnumpy().tolist() == [7, 7]
    assert y.grad.asnumpy().tolist() == [2, 2]


def F_sum(x):
    return mx.nd.sum(x)


def test_unused_input_gets_zeros():
    net = hybrid(lambda F, x, y: F.exp(x) + F.zeros_like(y))
    x, y = variable([1.0]), variable([2.0])
    y.grad[:] = 9
    with mx.autograd.record():
        z = net(x, y)
    z.backward()
    assert y.grad.asscalar() == 0


def test_backward_twice_is_an_error_unless_retained():
    net = hybrid(lambda F, x: F.exp(x))
    x = variable([1.0])
    with mx.autograd.record():
        y = net(x)
    y.backward(retain_graph=True)
    y.backward()
    np.testing.assert_allclose(x.grad.asnumpy(), [np.e])
    with pytest.raises(MXNetError) as error:
        y.backward()
    assert str(error.value) == (
        "this part of the graph was differentiated already and its buffers are freed; "
        "use backward(retain_graph=True) the first time to do it again"
    )


def test_retained_graph_is_not_disturbed_by_other_calls():
    net = hybrid(lambda F, x: F.tanh(F.sin(F.exp(x))))
    x, other = variable([0.1, 0.2]), variable([5.0, 6.0])
    with mx.autograd.record():
        y = net(x)
        net(other)
        z = net(other)
    for _ in range(3):
        net(other)
    z.backward()
    y.backward(retain_graph=True)
    first = x.grad.asnumpy()
    with mx.autograd.record():
        net(other).backward()
    y.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), first)
    e = np.exp([0.1, 0.2])
    np.testing.assert_allclose(first, (1 - np.tanh(np.sin(e)) ** 2) * np.cos(e) * e, rtol=1e-12)


def test_same_network_twice_in_one_recording():
    net = nn.Dense(2, in_units=2, use_bias=False)
    net.initialize(mx.init.Constant(0.5))
    net.hybridize()
    x = variable([[1.0, 2.0]], dtype="float32")
    with mx.autograd.record():
        y = net(net(x))
    y.backward()
    # h = [1.5, 1.5]; dW = dy^T h + (W^T dy)^T x
    np.testing.assert_allclose(net.weight.grad().asnumpy(), [[2.5, 3.5], [2.5, 3.5]])
    np.testing.assert_allclose(x.grad.asnumpy(), [[1, 1]])


def test_workspaces_return_after_backward():
    net = hybrid(lambda F, x: F.tanh(F.exp(F.sin(x))))
    x = variable(np.ones(10))
    idle = set()
    for _ in range(3):
        with mx.autograd.record():
            y = net(x)
        y.backward()
        idle.add(len(POOL.idle))
    assert len(idle) == 1


def test_recording_without_backward_keeps_nothing():
    net = hybrid(lambda F, x: F.tanh(F.exp(x)))
    x = variable(np.ones(10))
    with mx.autograd.record():
        y = net(x)
    rule = weakref.ref(y._entry[0].op)
    del y
    gc.collect()
    assert rule() is None


def test_grad_is_returned_and_not_stored():
    net = hybrid(lambda F, x, y: x * F.exp(y))
    x, y = variable([2.0]), variable([0.5])
    with mx.autograd.record():
        z = net(x, y)
    gx, gy = mx.autograd.grad(z, [x, y])
    np.testing.assert_allclose([gx.asscalar(), gy.asscalar()], [np.exp(0.5), 2 * np.exp(0.5)])
    assert x.grad.asscalar() == 0


def test_second_and_third_order():
    net = hybrid(lambda F, x: F.sin(x) * x)
    x = variable([0.3, 1.2])
    with mx.autograd.record():
        y = net(x)
        (g1,) = mx.autograd.grad(y, x, create_graph=True)
        (g2,) = mx.autograd.grad(g1, x, create_graph=True)
        (g3,) = mx.autograd.grad(g2, x, create_graph=True)
    v = np.array([0.3, 1.2])
    np.testing.assert_allclose(g1.asnumpy(), np.sin(v) + v * np.cos(v), rtol=1e-12)
    np.testing.assert_allclose(g2.asnumpy(), 2 * np.cos(v) - v * np.sin(v), rtol=1e-12)
    np.testing.assert_allclose(g3.asnumpy(), -3 * np.sin(v) - v * np.cos(v), rtol=1e-12)


def test_gradient_penalty_with_a_network_used_twice():
    """The graph's input depends on the graph's own parameter: nothing may be counted twice."""

    class Cube(HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.w = self.params.get("w", shape=(1,), dtype="float64", init=mx.init.Constant(1.5))

        def hybrid_forward(self, F, x, w):
            return w * x * x

    results = []
    for active in (False, True):
        net = Cube()
        net.initialize()
        net.hybridize(active)
        x = variable([0.7])
        with mx.autograd.record():
            y = net(net(x))  # w (w x²)² = w³ x⁴
            gx, gw = mx.autograd.grad(y, [x, net.w.data()], create_graph=True)
            penalty = gx * gx
        penalty.backward()
        results.append([g.asscalar() for g in (gx, gw, x.grad, net.w.grad())])
    w, x = 1.5, 0.7
    gx = 4 * w**3 * x**3
    expected = [gx, 3 * w**2 * x**4, 2 * gx * 12 * w**3 * x**2, 2 * gx * 12 * w**2 * x**3]
    np.testing.assert_allclose(results[0], expected, rtol=1e-12)
    np.testing.assert_allclose(results[1], expected, rtol=1e-12)


def test_create_graph_through_a_chain_of_blocks_is_not_exponential():
    nets = [hybrid(lambda F, x: F.sin(x) + x) for _ in range(12)]
    calls = []
    x = variable([0.1])
    with mx.autograd.record():
        y = x
        for net in nets:
            y = net(y)
        from hybridc.compile import compiled_graph as recorded_call

        original = recorded_call.replay

        def counted(trace, inputs):
            calls.append(trace)
            return original(trace, inputs)

        recorded_call.replay = counted
        try:
            (g,) = mx.autograd.grad(y, x, create_graph=True)
        finally:
            recorded_call.replay = original
    v, expected = 0.1, 1.0
    for _ in nets:
        expected *= np.cos(v) + 1
        v = np.sin(v) + v
    np.testing.assert_allclose(g.asscalar(), expected, rtol=1e-10)
    assert len(calls) == len(nets)


def test_gradients_are_separate_arrays():
    net = hybrid(lambda F, x, y: x + y)
    x, y = variable([1.0]), variable([2.0])
    head = mx.nd.array([3.0], dtype="float64")
    with mx.autograd.record():
        z = net(x, y)
    gx, gy = mx.autograd.grad(z, [x, y], [head])
    gx[:] = 100
    assert (gy.asscalar(), head.asscalar()) == (3, 3)
    with mx.autograd.record():
        z = x + y
    gx, gy = mx.autograd.grad(z, [x, y], [head])
    gx[:] = 100
    assert (gy.asscalar(), head.asscalar()) == (3, 3)


def test_captured_array_gets_a_gradient():
    w = variable([2.0, 3.0])
    net = hybrid(lambda F, x: x * w)
    x = variable([5.0, 7.0])
    with mx.autograd.record():
        y = net(x)
    y.backward()
    assert w.grad.asnumpy().tolist() == [5, 7]
    w[:] = 1
    assert net(x).asnumpy().tolist() == [5, 7]


def test_stopped_gradient():
    net = hybrid(lambda F, x: F.BlockGrad(x) * x + x.detach())
    x = variable([3.0])
    with mx.autograd.record():
        y = net(x)
    y.backward()
    assert x.grad.asscalar() == 3


def test_integer_inputs_beside_recorded_ones():
    net = hybrid(lambda F, x, i: F.take(x, i) * 2)
    x = variable([1.0, 2.0, 3.0], dtype="float32")
    i = mx.nd.array([2, 0, 2], dtype="int32")
    with mx.autograd.record():
        y = net(x, i)
    y.backward()
    assert x.grad.asnumpy().tolist() == [2, 0, 4]


def test_gradient_of_a_nested_structure():
    net = hybrid(lambda F, xs, y: [xs[0] * y, (xs[1] * 2, [y * 3])])
    a, b, y = variable([1.0]), variable([2.0]), variable([4.0])
    with mx.autograd.record():
        p, (q, [r]) = net([a, b], y)
        loss = p + q + r
    loss.backward()
    assert [v.grad.asscalar() for v in (a, b, y)] == [4, 2, 4]


def test_inference_and_recording_interleaved():
    net = hybrid(lambda F, x: F.exp(F.sin(x)))
    x = variable([0.5])
    with mx.autograd.record():
        y = net(x)
        with mx.autograd.pause():
            z = net(x)
    assert z._entry is None
    np.testing.assert_allclose(y.asnumpy(), z.asnumpy())
    y.backward()
    np.testing.assert_allclose(x.grad.asscalar(), np.exp(np.sin(0.5)) * np.cos(0.5))


LARGE = (300, 200)  # large enough for gradients to be written where they belong at once


@pytest.mark.parametrize("active", [False, True], ids=["eager", "hybrid"])
def test_a_gradient_buffer_that_the_graph_reads(active):
    """The old gradient is an input of an earlier part of the graph: it may be replaced only after the last read."""
    net = nn.HybridLambda(lambda F, a, w: F.tanh(a) * w)
    net.hybridize(active)
    w, v = variable(np.full(LARGE, 2.0)), variable(np.full(LARGE, 0.5))
    w.grad[:] = 3
    with mx.autograd.record():
        a = w.grad * v
        y = net(a, w)
    y.backward()
    np.testing.assert_allclose(v.grad.asnumpy(), (1 - np.tanh(1.5) ** 2) * 2 * 3, rtol=1e-12)
    np.testing.assert_allclose(w.grad.asnumpy(), np.tanh(1.5), rtol=1e-12)


@pytest.mark.parametrize("active", [False, True], ids=["eager", "hybrid"])
def test_a_gradient_buffer_as_head_gradient(active):
    net = nn.HybridLambda(lambda F, x: F.sin(x))
    net.hybridize(active)
    x = variable(np.full(LARGE, 0.5))
    with mx.autograd.record():
        z = net(x * 1) + x
        y = net(x)
    x.grad[:] = 3
    y.backward(x.grad, retain_graph=True)
    np.testing.assert_allclose(x.grad.asnumpy(), 3 * np.cos(0.5), rtol=1e-12)
    x.grad[:] = 3
    mx.autograd.backward([y, z], [None, x.grad])
    np.testing.assert_allclose(x.grad.asnumpy(), np.cos(0.5) + 3 * (np.cos(0.5) + 1), rtol=1e-12)


def test_gradients_written_at_once_equal_those_that_are_copied():
    rng = np.random.default_rng(0)
    net = nn.HybridSequential()
    net.add(nn.Dense(150, activation="tanh", in_units=120), nn.Dense(110, in_units=150))
    net.initialize(mx.init.Normal(0.1))
    x = mx.nd.array(rng.normal(size=(40, 120)))
    found = []
    for active in (False, True):
        net.hybridize(active)
        for _ in range(2):
            with mx.autograd.record():
                loss = (net(x) ** 2).sum()
            loss.backward(retain_graph=True)
            loss.backward()
        found.append([p.grad().asnumpy() for p in net.collect_params().values()])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


def test_what_is_kept_for_the_backward_is_told():
    """Only tanh's result: inputs and results are there anyway, views and numbers are made again."""
    net = mx.gluon.nn.HybridLambda(lambda F, x, w, v: F.dot(F.transpose(F.tanh(F.dot(x, w) * 2)), v))
    net.hybridize()
    x, w, v = (mx.nd.ones(shape) for shape in ((4, 5), (5, 6), (4, 7)))
    for array in (x, w, v):
        array.attach_grad()
    with mx.autograd.record():
        net(x, w, v)
    assert f" at once), {4 * 6 * 4} of them for the backward; " in net.explain()
    net(x, w, v)
    assert net.explain().count("for the backward") == 1

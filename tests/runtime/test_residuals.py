"""What a forward keeps for its backward: little, never what is cheap to make again, and always enough."""

from __future__ import annotations

import numpy as np
import pytest

import hybridc as mx
from benchmarks.workloads import WORKLOADS
from hybridc.compile import stages
from hybridc.dialects.mlir.hybrid import HybridOp
from hybridc.gluon import nn
from hybridc.ir.values import byte_size, functions, hybrid_ops, is_constant, is_view, result_count
from hybridc.trace.tracer import trace_call


def recorded(net, *args):
    """The first stage of a network in training, differentiated for all its inputs that are floats."""
    trace = trace_call(net, list(args), True)
    return stages.Traced(trace, tuple(i for i, leaf in enumerate(trace.leaves) if leaf._dtype.kind == "f"))


def kept(traced):
    """What the forward returns for its backward only."""
    forward, backward = functions(traced.optimize().module)
    values = [*forward.body.block.args, *forward.body.block.last_op.arguments]
    own = len(forward.body.block.args) + result_count(forward) + len(traced.trace.updates)
    return [values[i] for i in backward.attributes["hybrid.saved"].get_values() if i >= own]


def fraction(traced):
    """The bytes kept for the backward, of those that keeping every result of the user's operators would take."""
    (forward,) = functions(traced.module)
    made = [op for op in hybrid_ops(forward) if not is_view(op) and not is_constant(op)]
    return sum(map(byte_size, kept(traced))) / sum(byte_size(r) for op in made for r in op.results)


# Measured 0.460, 0.498, 0.201, 0.286, 0.333, 0, 0.002, 0. Half of what an mlp's layers make is products, which no
# gradient needs: they keep what the activations make of them.
BOUNDS = {
    "encoder": 0.47,
    "mlp": 0.5,
    "lstm": 0.21,
    "attention": 0.29,
    "chain": 0.34,
    "gelu_bias": 0,
    "layernorm": 0.01,
    "softmax": 0,
}


@pytest.mark.parametrize("name", BOUNDS)
def test_bytes_kept(name):
    program = WORKLOADS[name].build(False)
    assert fraction(recorded(program.blocks[0], *program.feeds()[0])) <= BOUNDS[name]


ACTIVATIONS = {
    "relu": (lambda F, x: F.relu(x), lambda x: (x > 0) * 1.0),
    "maximum": (lambda F, x: F.maximum(x, 0), lambda x: (x > 0) * 1.0),
    "where": (lambda F, x: F.where(x > 0, x, F.zeros_like(x)), lambda x: (x > 0) * 1.0),
    "mask": (lambda F, x: x * (x > 0), lambda x: (x > 0) * 1.0),
    "clip": (lambda F, x: F.clip(x, 0, 6), lambda x: ((x > 0) & (x < 6)) * 1.0),
    "leaky": (lambda F, x: F.LeakyReLU(x, slope=0.25), lambda x: np.where(x > 0, 1, 0.25)),
    "hard_swish": (
        lambda F, x: x * F.clip(x + 3, 0, 6) / 6,
        lambda x: (np.clip(x + 3, 0, 6) + x * ((x > -3) & (x < 3))) / 6,
    ),
    "bias": (lambda F, x: F.square(x * 2 + 1), lambda x: 4 * (2 * x + 1)),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_between_products_keeps_one_array(name):
    """Before or after it, not both; and the gradients are those of the formula."""
    activation, slope = ACTIVATIONS[name]
    net = nn.HybridLambda(lambda F, x, w, v: F.dot(activation(F, F.dot(x, w)), v))
    rng = np.random.default_rng(1)
    arrays = [rng.normal(size=shape) * 2 for shape in ((5, 4), (4, 6), (6, 3), (5, 3))]
    x, w, v, head = (mx.nd.array(a, dtype="float64") for a in arrays)
    assert [value.type.get_shape() for value in kept(recorded(net, x, w, v))] == [(5, 6)]
    net.hybridize()
    for array in (x, w, v):
        array.attach_grad()
    with mx.autograd.record():
        out = net(x, w, v)
    out.backward(head)
    xs, ws, vs, gs = arrays
    h = xs @ ws
    dh = (gs @ vs.T) * slope(h)
    np.testing.assert_allclose(x.grad.asnumpy(), dh @ ws.T, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(w.grad.asnumpy(), xs.T @ dh, rtol=1e-12, atol=1e-12)
    given = activation(mx.nd, mx.nd.array(h, dtype="float64")).asnumpy()
    np.testing.assert_allclose(v.grad.asnumpy(), given.T @ gs, rtol=1e-12, atol=1e-12)


def test_layers_of_a_network_keep_one_array_each():
    net = nn.HybridSequential()
    net.add(*[nn.Dense(8, activation="relu", in_units=8) for _ in range(4)])
    net.initialize()
    found = kept(recorded(net, mx.nd.ones((3, 8))))
    assert len(found) == 3  # the last one's activation is the result
    assert all(value.owner.name == "hybrid.relu" for value in found)


def test_heads_are_kept_undivided():
    """As the one product that they are parts of: a training forward copies no head."""
    program = WORKLOADS["encoder"].build(False)
    traced = recorded(program.blocks[0], *program.feeds()[0])
    assert [v.type.get_shape() for v in kept(traced)].count((8, 128, 768)) == 1
    programs = traced.optimize().lower().programs
    alone = stages.Traced(traced.trace).optimize().lower().programs["forward"]
    assert len(programs["forward"].launches) == len(alone.launches)


def test_a_mean_is_kept_and_not_the_difference():
    net = nn.HybridLambda(lambda F, x: F.square(x - F.mean(F.tanh(x), axis=1, keepdims=True)))
    shapes = [value.type.get_shape() for value in kept(recorded(net, mx.nd.ones((3, 64))))]
    assert sorted(shapes) == [(3, 1), (3, 64)]


def test_what_is_drawn_is_never_drawn_again():
    """The draw itself is kept, or what the mask was made of it; the backward holds no draw."""
    net = nn.HybridSequential()
    net.add(nn.Dense(16, in_units=8), nn.Dropout(0.5), nn.Dense(4, in_units=16))
    net.initialize()
    traced = recorded(net, mx.nd.ones((4, 8)))
    _, backward = functions(traced.optimize().module)
    used = [op.operator for op in backward.body.block.ops if isinstance(op, HybridOp)]
    assert not any(op.DRAWS for op in used)
    assert all(op.PURE for op in used)
    net.hybridize()
    x = mx.nd.ones((4, 8))
    x.attach_grad()
    with mx.autograd.record():
        y = net(x)
    y.backward()
    w, v = (layer.weight.data().asnumpy().astype(np.float64) for layer in (net[0], net[2]))
    # Which units were let through shows in the gradient of the second weight; the first layer's must agree with it.
    hidden = net[2].weight.grad().asnumpy()[0]
    h = np.broadcast_to(w.sum(axis=1) + net[0].bias.data().asnumpy(), (4, 16))
    through = hidden / (2 * h[0])  # how many of four rows let a unit through
    np.testing.assert_allclose(through, np.round(through), atol=1e-4)
    expected = (2 * through * v.sum(axis=0)) @ w
    np.testing.assert_allclose(x.grad.asnumpy().sum(axis=0), expected, rtol=1e-4)


def test_statistics_that_a_forward_updates_are_those_that_it_saw():
    """Batch normalization writes its running mean after the forward; the backward makes nothing of the new one."""
    rng = np.random.default_rng(2)
    data = rng.normal(size=(64, 3)) * 2 + 1
    found = []
    for active in (False, True):
        net = nn.HybridSequential()
        net.add(nn.BatchNorm(in_channels=3, use_global_stats=True), nn.BatchNorm(in_channels=3))
        net.initialize()
        net.cast("float64")
        for layer in net:
            layer.running_mean.set_data(mx.nd.array([0.5, -1, 2], dtype="float64"))
        net.hybridize(active)
        x = mx.nd.array(data, dtype="float64")
        x.attach_grad()
        with mx.autograd.record():
            y = mx.nd.square(net(x)) * mx.nd.arange(64, dtype="float64").reshape((64, 1))
        y.backward()
        found.append(x.grad.asnumpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-9, atol=1e-9)

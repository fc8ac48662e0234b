"""Networks with several results, of which some are differentiated: gradients start from these alone.

MXNet 1.9.1 computed the expected gradients of ``CASES``, eagerly: hybridized, it gives its losses zeros as head
gradients, which they do not read.
"""

import numpy as np
import pytest

import hybridc as mx
from hybridc import autograd, op
from hybridc.errors import RecompileError
from hybridc.gluon import HybridBlock, SymbolBlock, nn
from tests.function_blocks import Lambda

HEADS = ((0,), (1,), (0, 1))
SOFTMAX = 1 / (1 + np.e)

# name → forward, and the gradients of x = [0, 1] from the first result, from the second, and from both
CASES = {
    "infinite": (lambda F, x: (x * 2, F.sqrt(x)), [[2, 2], [np.inf, 0.5], [np.inf, 2.5]]),
    "make_loss": (lambda F, x: [x * 2, F.make_loss(x)], [[2, 2], [1, 1], [3, 3]]),
    "MakeLoss": (lambda F, x: (x * 2, F.MakeLoss(x * 3)), [[2, 2], [3, 3], [5, 5]]),
    "a loss scaled": (lambda F, x: (x * 2, F.make_loss(x) * 3), [[2, 2], [1, 1], [3, 3]]),
    "MAE": (lambda F, x: (x * 2, F.MAERegressionOutput(x, x * 0 + 5)), [[2, 2], [-1, -1], [1, 1]]),
    "SoftmaxOutput": (
        lambda F, x: (x * 2, F.SoftmaxOutput(F.reshape(x, shape=(1, 2)), F.zeros(shape=(1,)))),
        [[2, 2], [SOFTMAX - 1, 1 - SOFTMAX], [SOFTMAX + 1, 3 - SOFTMAX]],
    ),
    "split": (lambda F, x: F.split(x * x, num_outputs=2, axis=0), [[0, 0], [0, 2], [0, 2]]),
}


def variable(*values):
    x = mx.nd.array(values)
    x.attach_grad()
    return x


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "hybridized"])
@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_mxnet(name, compiled):
    function, expected = CASES[name]
    net = Lambda(function)
    net.hybridize(compiled)
    x = variable(0, 1)
    for heads, want in zip(HEADS, expected, strict=True):
        with autograd.record():
            results = net(x)
        chosen = [results[i] for i in heads]
        (found,) = autograd.grad(chosen, [x], retain_graph=True)
        autograd.backward(chosen)
        np.testing.assert_allclose(found.asnumpy(), want, rtol=1e-6)
        np.testing.assert_allclose(x.grad.asnumpy(), want, rtol=1e-6)


class Branches(HybridBlock):
    """A trunk with two branches, one of them a hybridized block inside a hybridized block."""

    def __init__(self):
        super().__init__()
        self.trunk = nn.HybridSequential()
        self.trunk.add(nn.Dense(5, activation="tanh", in_units=3), nn.BatchNorm(in_channels=5), nn.Dropout(0.5))
        self.left, self.right = nn.Dense(2, in_units=5), nn.Dense(4, in_units=5)
        self.left.hybridize()

    def forward(self, x):
        h = self.trunk(x)
        return self.left(h), [mx.nd.softmax(self.right(h)), h * h]


def branches():
    """The same network twice, eager and hybridized."""
    made = []
    for compiled in (False, True):
        mx.random.seed(4)
        net = Branches()
        net.initialize(mx.init.Xavier())
        net.hybridize(compiled)
        made.append(net)
    return made


def run(net, x):
    mx.random.seed(5)
    with autograd.record():
        left, (right, squares) = net(x)
    return [left, right, squares]


def grads(net):
    params = net.collect_params().values()
    return [p.grad().asnumpy() for p in params if p.grad_req != "null"]


@pytest.mark.parametrize("heads", [(0,), (1,), (2,), (0, 2), (1, 2), (0, 1, 2)], ids=str)
def test_eager_and_hybridized_agree(heads):
    """Also in what the heads do not depend on: its gradients stay as they were."""
    x = mx.nd.array(np.random.default_rng(0).normal(size=(6, 3)))
    found = []
    for net in branches():
        for p in net.collect_params().values():
            if p.grad_req != "null":
                p.grad()[:] = 7
        results = run(net, x)
        scales = [mx.nd.array(np.random.default_rng(i).normal(size=results[i].shape)) for i in heads]
        autograd.backward([results[i] for i in heads], scales)
        found.append(grads(net))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_one_call_is_differentiated_from_one_result_after_the_other():
    x = mx.nd.array(np.random.default_rng(0).normal(size=(6, 3)))
    found = []
    for net in branches():
        results = run(net, x)
        seen = []
        for head in results:
            head.backward(retain_graph=True)
            seen += grads(net)
        found.append(seen)
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_the_forward_runs_once_and_backwards_are_compiled_once():
    x = mx.nd.ones((6, 3))
    other, net = branches()
    other.hybridize()
    autograd.backward(run(other, x))  # the second network gets what was compiled for this one
    for _ in range(2):
        run(net, x)[1].backward()
    with mx.no_recompile():
        run(net, x)[1].backward()
        with pytest.raises(RecompileError, match="gradients start from results 0, 2 of 3"):
            autograd.backward(run(net, x)[::2])
    (graph,) = net._cached_graph.graphs()
    assert "backward from result 1: " in net.explain()  # and not: after a forward of its own
    assert graph.of_heads((1,)).forward is graph.forward


def test_a_backward_whose_forward_keeps_other_values_runs_that_first():
    function, expected = CASES["infinite"]
    net = Lambda(function)
    net.hybridize()
    x = variable(0, 1)
    with autograd.record():
        net(x)
    (graph,) = net._cached_graph.graphs()
    graph.forward.program.source += " "  # as where sizes were planned, and not compiled
    with autograd.record():
        y, z = net(x)
    y.backward(retain_graph=True)
    np.testing.assert_array_equal(x.grad.asnumpy(), expected[0])
    z.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), expected[1])
    assert "backward from result 0, after a forward of its own: " in net.explain()


def test_new_sizes():
    net = Lambda(lambda F, x: (F.tanh(x) * 2, F.sqrt(x)))
    net.hybridize()
    for n in (3, 4, 6, 9):
        x = variable(*range(n))
        with autograd.record():
            y, _ = net(x)
        y.backward()
        np.testing.assert_allclose(x.grad.asnumpy(), 2 - 2 * np.tanh(np.arange(n)) ** 2, rtol=1e-4, atol=1e-6)


class Calls:
    number = 0


@op.register("tests.times_calls")
class TimesCalls(op.Stateful):
    """data * the number of the call; so is the gradient"""

    def create_state(self, shapes, dtypes):
        return Calls()

    def forward(self, state, x):
        state.number += 1
        return x * state.number

    def backward(self, state, needed, ograds, inputs, outputs):
        return [ograds[0] * state.number]


def test_states_are_those_of_the_forward():
    net = Lambda(lambda F, x: (F.times_calls(x), F.sqrt(x)))
    net.hybridize()
    x = variable(0, 1)
    for number in (1, 2, 3):
        with autograd.record():
            y, _ = net(x)
        y.backward()
        np.testing.assert_array_equal(y.asnumpy(), [0, number])
        np.testing.assert_array_equal(x.grad.asnumpy(), [number, number])


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "hybridized"])
def test_gradients_of_gradients(compiled):
    net = Lambda(lambda F, x: (x * x * x, F.sqrt(x)))
    net.hybridize(compiled)
    x = variable(0, 2)
    with autograd.record():
        y, _ = net(x)
        (first,) = autograd.grad(y, [x], create_graph=True)
    first.backward()
    np.testing.assert_allclose(first.asnumpy(), [0, 12], rtol=1e-6)
    np.testing.assert_allclose(x.grad.asnumpy(), [0, 12], rtol=1e-6)


def test_a_symbol_block():
    data = mx.sym.var("data")
    net = SymbolBlock([data * 2, mx.sym.make_loss(data)], [data])
    net.hybridize()
    x = variable(0, 1)
    with autograd.record():
        y, _ = net(x)
    y.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), [2, 2])


def test_an_executor_that_shows_values_between():
    """They are further results, whose gradients nobody asks for."""
    data = mx.sym.var("data")
    loss = mx.sym.make_loss(mx.sym.sqrt(data))
    executor = loss.bind(mx.cpu(), {"data": mx.nd.array([1, 4])}, {"data": mx.nd.zeros(2)})
    for callback in (None, lambda name, array: None):
        executor.set_monitor_callback(callback)
        executor.forward(is_train=True)
        executor.backward()
        np.testing.assert_array_equal(executor.grad_dict["data"].asnumpy(), [0.5, 0.25])


def test_a_training_step_starts_from_its_loss():
    """The network has a loss among its results that the step's loss does not read."""

    class Net(HybridBlock):
        def __init__(self):
            super().__init__()
            self.dense = nn.Dense(1, in_units=2, use_bias=False)

        def hybrid_forward(self, F, x):
            y = self.dense(x)
            return y, F.make_loss(y)

    class First(mx.gluon.loss.L2Loss):
        def hybrid_forward(self, F, pred, label):
            return super().hybrid_forward(F, pred[0], label)

    weights = []
    for as_one in (False, True):
        net, loss_of = Net(), First()
        net.initialize(mx.init.One())
        net.hybridize()
        trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
        x, y = mx.nd.ones((3, 2)), mx.nd.zeros((3, 1))
        if as_one:
            mx.gluon.TrainStep(net, loss_of, trainer)(x, y)
        else:
            with autograd.record():
                loss = loss_of(net(x), y)
            loss.backward()
            trainer.step(3)
        weights.append(net.dense.weight.data().asnumpy())
    np.testing.assert_allclose(weights, np.full((2, 1, 2), 0.8), rtol=1e-6)

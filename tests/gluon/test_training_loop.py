"""The training loop with compiled networks and losses: one native call for each program, and gradients that are
never those of another call. The oracle is the same loop with nothing compiled, and float64 NumPy.
"""

import contextlib
import gc
import threading
import weakref

import numpy as np
import pytest

import hybridc as mx
from hybridc import autograd
from hybridc.gluon import nn
from hybridc.options import OPTIONS
from hybridc.runtime.native import native_program as program
from tests.runtime.test_training import transformer

NATIVE = OPTIONS.target == "llvm"


@pytest.fixture
def calls(monkeypatch):
    """A function that gives the number of native calls since it was called last."""
    count = [0]
    make = program.native_entry

    def counted(tables):
        entry = make(tables)

        def call(*args):
            count[0] += 1
            return entry(*args)

        return call

    def taken():
        found, count[0] = count[0], 0
        return found

    monkeypatch.setattr(program, "native_entry", counted)
    return taken


def perceptron(dropout=0.0, normalized=False):
    net = nn.HybridSequential()
    net.add(nn.Dense(7, activation="tanh", in_units=6))
    if normalized:
        net.add(nn.BatchNorm(in_channels=7))
    net.add(nn.Dropout(dropout), nn.Dense(4, in_units=7))
    return net


class Loop:
    """A network and a loss, trained with batches that depend on the iteration's number only."""

    def __init__(self, compiled, make=perceptron, loss=mx.gluon.loss.SoftmaxCrossEntropyLoss, grad_req="write"):
        mx.random.seed(3)
        self.net, self.loss = make(), loss()
        self.net.initialize(mx.init.Xavier())
        self.params = list(self.net.collect_params().values())
        for p in self.params:
            if p.grad_req != "null":
                p.grad_req = grad_req
        if compiled:
            self.net.hybridize()
            self.loss.hybridize()
        self.trainer = mx.gluon.Trainer(self.net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
        self.number = 0

    def batch(self):
        rng = np.random.default_rng(self.number)
        self.number += 1
        return mx.nd.array(rng.normal(size=(8, 6))), mx.nd.array(rng.integers(0, 4, 8))

    def step(self):
        x, y = self.batch()
        with autograd.record():
            loss = self.loss(self.net(x), y)
        loss.backward()
        self.trainer.step(8)
        return loss.asnumpy()

    def state(self):
        """Weights and gradients."""
        found = [p.data().asnumpy() for p in self.params]
        return found + [p.grad().asnumpy() for p in self.params if p.grad_req != "null"]


def assert_close(ours, theirs, what=""):
    assert len(ours) == len(theirs)
    for got, want in zip(ours, theirs, strict=True):
        atol = 1e-5 * max(1, np.max(np.abs(want)))
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=atol, err_msg=what)


def compare(scenario, **how):
    """Do the same twice in two loops, one of them compiled, between iterations that train."""
    seen = []
    for compiled in (True, False):
        loop = Loop(compiled, **how)
        mx.random.seed(7)
        found = [[loop.step()]]
        for _ in range(2):
            found.append([r.asnumpy() for r in scenario(loop) or ()])
            found.append(loop.state())
        found.append([loop.step()])
        found.append(loop.state())
        seen.append(found)
    for number, (ours, theirs) in enumerate(zip(*seen, strict=True)):
        assert_close(ours, theirs, f"part {number}")


# --- the number of native calls -------------------------------------------------------------------------------


@pytest.mark.parametrize("grad_req", ["write", "add"])
@pytest.mark.parametrize(
    "make", [perceptron, lambda: perceptron(0.5), lambda: perceptron(0.5, True)], ids=["plain", "dropout", "norm"]
)
def test_a_loop_is_five_native_calls(calls, make, grad_req):
    ours, theirs = Loop(True, make, grad_req=grad_req), Loop(False, make, grad_req=grad_req)
    losses = []
    for loop in (ours, theirs):
        mx.random.seed(11)
        losses.append([])
        counts = []
        for _ in range(4):
            calls()
            losses[-1].append(loop.step())
            counts.append(calls())
        if loop is ours:
            assert counts == [5 if NATIVE else 0] * 4
    assert_close(*losses)
    assert_close(ours.state(), theirs.state())


def test_gradients_are_those_of_float64():
    rng = np.random.default_rng(0)
    w, v = rng.normal(size=(5, 6)), rng.normal(size=(1, 5))
    net = nn.HybridSequential()
    net.add(nn.Dense(5, in_units=6, use_bias=False, activation="tanh"), nn.Dense(1, in_units=5, use_bias=False))
    net.initialize()
    loss = mx.gluon.loss.L2Loss()
    net.hybridize()
    loss.hybridize()
    first, second = net.collect_params().values()
    first.set_data(mx.nd.array(w))
    second.set_data(mx.nd.array(v))
    for _ in range(5):
        x, y = rng.normal(size=(8, 6)), rng.normal(size=(8, 1))
        with autograd.record():
            out = loss(net(mx.nd.array(x)), mx.nd.array(y))
        out.backward()
        h = np.tanh(x @ w.T)
        error = h @ v.T - y
        np.testing.assert_allclose(out.asnumpy(), (error**2 / 2).mean(1), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(second.grad().asnumpy(), error.T @ h, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(first.grad().asnumpy(), (error @ v * (1 - h * h)).T @ x, rtol=1e-4, atol=1e-5)


def test_gradients_of_the_same_iteration_are_the_same_to_the_bit():
    loop = Loop(True)
    x, y = loop.batch()
    found = []
    for _ in range(4):  # the same weights each time
        with autograd.record():
            loss = loop.loss(loop.net(x), y)
        loss.backward()
        found.append([loss.asnumpy(), *[p.grad().asnumpy() for p in loop.params]])
    for later in found[1:]:
        for a, b in zip(found[0], later, strict=True):
            assert a.tobytes() == b.tobytes()


@pytest.mark.long
def test_a_transformer():
    losses = []
    for compiled in (True, False):
        mx.random.seed(5)
        net, (x, y), loss_of = transformer()
        net.initialize(mx.init.Xavier())
        if compiled:
            net.hybridize()
            loss_of.hybridize()
        trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.05})
        losses.append([])
        for _ in range(6):
            with autograd.record():
                loss = loss_of(net(x), y)
            loss.backward()
            trainer.step(4)
            losses[-1].append(loss.asnumpy())
    np.testing.assert_allclose(*losses, rtol=1e-4, atol=1e-5)


class WithLoss(mx.gluon.HybridBlock):
    """A network with its loss."""

    def __init__(self):
        super().__init__()
        self.net = perceptron()
        self.of = mx.gluon.loss.SoftmaxCrossEntropyLoss()

    def forward(self, x, y):
        return self.of(self.net(x), y)


def test_a_loss_inside_the_network(calls):
    found = []
    for compiled in (True, False):
        mx.random.seed(3)
        both = WithLoss()
        both.initialize(mx.init.Xavier())
        both.hybridize(compiled)
        trainer = mx.gluon.Trainer(both.collect_params(), "adam")
        batches = Loop(False)
        losses = []
        for _ in range(4):
            calls()
            with autograd.record():
                loss = both(*batches.batch())
            loss.backward()
            trainer.step(8)
            count = calls()
            assert not (compiled and NATIVE) or count == 3
            losses.append(loss.asnumpy())
        found.append(losses)
    assert_close(*found)


def wide():
    net = nn.HybridSequential()
    net.add(nn.Dense(40_000, in_units=6), nn.Dense(4, in_units=40_000))
    return net


def test_large_gradients_are_not_copied():
    ours, theirs = Loop(True, wide), Loop(False, wide)
    for _ in range(2):
        got = ours.step()
        assert_close([got, *ours.state()], [theirs.step(), *theirs.state()])
    for loop, moves in ((ours, False), (theirs, True)):  # written in place, or the memory is taken over
        loss = forward(loop)[3]
        place = loop.params[0].grad().asnative().ctypes.data
        loss.backward()
        assert (loop.params[0].grad().asnative().ctypes.data != place) == moves


def test_views_of_gradients_show_them_still():
    loop = Loop(True, wide)
    grads = [p.grad() for p in loop.params]
    views = [g[1:3] for g in grads[:2]]
    raw, other = grads[2].asnative(), np.from_dlpack(grads[3])
    for _ in range(3):
        loop.step()
        for view, grad in zip(views, grads[:2], strict=True):
            assert view.asnumpy().any()
            np.testing.assert_array_equal(view.asnumpy(), grad[1:3].asnumpy())
        np.testing.assert_array_equal(raw, grads[2].asnumpy())
        np.testing.assert_array_equal(other, grads[3].asnumpy())
        assert all(p.grad() is g for p, g in zip(loop.params, grads, strict=True))


class Kept(autograd.Function):
    """A backward that remembers what it gave."""

    def forward(self, x):
        return x * 2

    def backward(self, dy):
        self.given = dy * 2
        return self.given


def test_gradients_that_others_know_are_copied():
    x, y = mx.nd.ones((100, 100)), mx.nd.ones((100, 100))
    for a in (x, y):
        a.attach_grad()
    function = Kept()
    with autograd.record():
        z = function(x)
    z.backward()
    function.given[:] = 5
    np.testing.assert_array_equal(x.grad.asnumpy(), np.full((100, 100), 2))
    head = mx.nd.ones((100, 100))
    with autograd.record():
        z = x + y
    z.backward(head)
    head[:] = 7
    x.grad[:] = 9
    np.testing.assert_array_equal(y.grad.asnumpy(), np.ones((100, 100)))


# --- what happens between the loss and its backward -----------------------------------------------------------


def forward(loop):
    x, y = loop.batch()
    with autograd.record():
        out = loop.net(x)
        loss = loop.loss(out, y)
    return x, y, out, loss


def other_head_gradients(loop):
    loss = forward(loop)[3]
    loss.backward(mx.nd.arange(8))


def ones_given(loop):
    loss = forward(loop)[3]
    loss.backward(mx.nd.ones(8))


def mean(loop):
    x, y = loop.batch()
    with autograd.record():
        loss = loop.loss(loop.net(x), y).mean()
    loss.backward()


def weight_set(loop):
    loss = forward(loop)[3]
    loop.params[-2].set_data(loop.params[-2].data() * 2)
    loss.backward()


def weight_assigned(loop):
    loss = forward(loop)[3]
    loop.params[-2].data()[1:3] = 5
    loss.backward()


def part_of_a_weight_scaled(loop):
    loss = forward(loop)[3]
    part = loop.params[-2].data()[1:3]
    part *= 3
    loss.backward()


def weight_written_by_an_operator(loop):
    loss = forward(loop)[3]
    weight = loop.params[-2].data()
    mx.nd.negative(weight, out=weight)
    loss.backward()


def weight_updated(loop):
    first, second = forward(loop)[3], forward(loop)[3]
    first.backward()
    loop.trainer.step(8)
    second.backward()


def data_written(loop):
    x, _, _, loss = forward(loop)
    x[:] = 1
    loss.backward()


def label_written(loop):
    _, y, _, loss = forward(loop)
    y[:] = 1
    loss.backward()


def result_written(loop):
    _, _, out, loss = forward(loop)
    out[:] = 1
    loss.backward()


def result_used_twice(loop):
    x, y = loop.batch()
    with autograd.record():
        out = loop.net(x)
        loss = loop.loss(out, y) + mx.nd.square(out).sum(axis=1)
    loss.backward()


def two_losses(loop):
    x, y = loop.batch()
    with autograd.record():
        out = loop.net(x)
        loss = loop.loss(out, y) + loop.loss(out, 3 - y)
    loss.backward()


def two_losses_one_after_the_other(loop):
    x, y = loop.batch()
    with autograd.record():
        out = loop.net(x)
        first, second = loop.loss(out, y), loop.loss(out, 3 - y)
    second.backward(retain_graph=True)
    first.backward()


def two_heads(loop):
    _, _, out, loss = forward(loop)
    autograd.backward([loss, out], [None, mx.nd.ones(out.shape)])


def only_the_result(loop):
    _, _, out, _loss = forward(loop)
    out.backward()


def twice(loop):
    loss = forward(loop)[3]
    loss.backward(retain_graph=True)
    loss.backward()


def gradients_returned(loop):
    _, _, out, loss = forward(loop)
    return autograd.grad(loss, [out, *[p.data() for p in loop.params if p.grad_req != "null"]])


def gradients_returned_and_written(loop):
    _, _, out, loss = forward(loop)
    (first,) = autograd.grad(loss, [out], retain_graph=True)
    first[:] = 0
    loss.backward()
    return [first]


def gradients_of_gradients(loop):
    x, y = loop.batch()
    weight = loop.params[0].data()
    with autograd.record():
        loss = loop.loss(loop.net(x), y)
        (first,) = autograd.grad(loss, [weight], create_graph=True)
        norm = mx.nd.square(first).sum()
    norm.backward()


class Doubled(autograd.Function):
    def forward(self, x):
        return x

    def backward(self, dy):
        return 2 * dy


def function_between(loop):
    x, y = loop.batch()
    with autograd.record():
        loss = loop.loss(Doubled()(loop.net(x)), y)
    loss.backward()


def operator_between(loop):
    x, y = loop.batch()
    with autograd.record():
        loss = loop.loss(loop.net(x).reshape((8, 4)) * 2, y)
    loss.backward()


def loss_not_recorded(loop):
    x, y = loop.batch()
    with autograd.record():
        out = loop.net(x)
        with autograd.pause():
            loss = loop.loss(out, y)
    out.backward(loss.reshape((8, 1)) * mx.nd.ones(out.shape))


def no_backward(loop):
    forward(loop)


def an_exception(loop):
    x, y = loop.batch()
    with contextlib.suppress(ZeroDivisionError), autograd.record():
        loss = loop.loss(loop.net(x), y)
        loss.backward(1 / 0)
    forward(loop)[3].backward()


def gradients_cleared(loop):
    loss = forward(loop)[3]
    loop.net.zero_grad()
    loss.backward()


def request_changed_before(loop):
    for p in loop.params[:2]:
        p.grad_req = "add"
    forward(loop)[3].backward()
    forward(loop)[3].backward()


def request_changed_between(loop):
    loss = forward(loop)[3]
    for p in loop.params[:2]:
        p.grad_req = "null"
    loss.backward()
    for p in loop.params[:2]:
        p.grad_req = "write"
    forward(loop)[3].backward()


def gradients_accumulated(loop):
    for p in loop.params:
        if p.grad_req != "null":
            p.grad_req = "add"
    losses = [forward(loop)[3] for _ in range(3)]
    for loss in losses:
        loss.backward()


def summed_over_batches(loop):
    with autograd.record():
        total = 0
        for _ in range(3):
            x, y = loop.batch()
            total = total + loop.loss(loop.net(x), y)
    total.backward()


def old_gradients_read(loop):
    forward(loop)[3].backward()
    loss = forward(loop)[3]
    old = [p.grad().copy() for p in loop.params if p.grad_req != "null"]
    loss.backward()
    return old


def another_batch_size(loop):
    x, y = loop.batch()
    with autograd.record():
        loss = loop.loss(loop.net(x[:5]), y[:5])
    loss.backward()


def strided(loop):
    x, y = loop.batch()
    x, y = mx.nd.array(x.asnumpy().repeat(2, 0)), mx.nd.array(y.asnumpy().repeat(2))
    with autograd.record():
        loss = loop.loss(loop.net(mx.nd.NDArray(x.asnative()[::2])), mx.nd.NDArray(y.asnative()[::2]))
    loss.backward()


def gradient_of_the_data(loop):
    x, y = loop.batch()
    x.attach_grad()
    with autograd.record():
        loss = loop.loss(loop.net(x), y)
    loss.backward()
    return [x.grad]


def weighted(loop):
    x, y = loop.batch()
    with autograd.record():
        loss = loop.loss(loop.net(x), y, mx.nd.arange(8).reshape((8, 1)))
    loss.backward()


def predict_mode(loop):
    x, y = loop.batch()
    with autograd.record(train_mode=False):
        loss = loop.loss(loop.net(x), y)
    loss.backward(train_mode=False)


SCENARIOS = (
    other_head_gradients,
    ones_given,
    mean,
    weight_set,
    weight_assigned,
    part_of_a_weight_scaled,
    weight_written_by_an_operator,
    weight_updated,
    data_written,
    label_written,
    result_written,
    result_used_twice,
    two_losses,
    two_losses_one_after_the_other,
    two_heads,
    only_the_result,
    twice,
    gradients_returned,
    gradients_returned_and_written,
    gradients_of_gradients,
    function_between,
    operator_between,
    loss_not_recorded,
    no_backward,
    an_exception,
    gradients_cleared,
    request_changed_before,
    request_changed_between,
    gradients_accumulated,
    summed_over_batches,
    old_gradients_read,
    another_batch_size,
    strided,
    gradient_of_the_data,
    weighted,
    predict_mode,
)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda f: f.__name__)
def test_what_happens_in_between(scenario):
    compare(scenario)


@pytest.mark.parametrize("scenario", [twice, weight_updated, two_losses, no_backward], ids=lambda f: f.__name__)
@pytest.mark.parametrize("grad_req", ["write", "add"])
def test_running_statistics_and_random_numbers_in_between(scenario, grad_req):
    compare(scenario, make=lambda: perceptron(0.5, True), grad_req=grad_req)


class Foreign:
    """An array whose memory NumPy writes, by one of the ways to share it."""

    def __init__(self, values, how):
        if how == "from_numpy":
            self.view = np.array(values, "float32")
            self.array = mx.nd.from_numpy(self.view, zero_copy=True)
        else:
            self.array = mx.nd.array(values)
            self.view = np.from_dlpack(self.array)


@pytest.mark.parametrize("how", ["from_numpy", "from_dlpack"])
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "hybridized"])
def test_foreign_writes_are_seen_alike_in_every_iteration(how, compiled):
    """NumPy writes the data between forward and backward of a loss (w·x)²/2."""
    net, loss_of = nn.Dense(1, in_units=3, use_bias=False), mx.gluon.loss.L2Loss()
    net.initialize(mx.init.Constant(2))
    if compiled:
        net.hybridize()
        loss_of.hybridize()
    zeros = mx.nd.zeros((2, 1))
    for _ in range(8):
        x = Foreign(np.ones((2, 3)), how)
        with autograd.record():
            loss = loss_of(net(x.array), zeros)
        x.view[:] = 5
        loss.backward()
        np.testing.assert_array_equal(net.weight.grad().asnumpy(), np.full((1, 3), 2 * 6 * 5))


# --- networks that share a loss, threads, memory --------------------------------------------------------------


def test_two_networks_with_one_loss():
    """As generator and discriminator."""
    found = []
    for compiled in (True, False):
        loops = [Loop(compiled), Loop(compiled, lambda: nn.Dense(4, in_units=6))]
        loops[1].loss = loops[0].loss
        losses = []
        for _ in range(3):
            losses += [loop.step() for loop in loops]
        found.append(losses)
    assert_close(*found)


def test_threads_that_share_network_and_loss():
    shared = Loop(True)
    batches = [shared.batch() for _ in range(4)]
    expected = []
    for x, y in batches:
        with autograd.record():
            loss = shared.loss(shared.net(x), y)
        expected.append([g.asnumpy() for g in autograd.grad(loss, [p.data() for p in shared.params])])
    wrong = []

    def work(number):
        x, y = batches[number]
        for _ in range(30):
            with autograd.record():
                loss = shared.loss(shared.net(x), y)
            found = autograd.grad(loss, [p.data() for p in shared.params])
            same = (g.asnumpy().tobytes() == e.tobytes() for g, e in zip(found, expected[number], strict=True))
            if not all(same):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_networks_go_though_their_loss_stays():
    loop = Loop(True)
    for _ in range(2):
        loop.step()
    (graph,) = loop.net._cached_graph.graphs()
    gone = weakref.ref(graph)
    loss = loop.loss
    del loop, graph
    gc.collect()
    assert gone() is None
    assert loss.is_active


def test_a_gradient_that_is_the_head_gradient_is_an_array_of_its_own():
    """The sum of the data: its gradient is the ones that came."""
    same = nn.HybridLambda(lambda F, x: F.identity(x))
    same.hybridize()
    for _ in range(2):
        x = mx.nd.arange(3)
        x.attach_grad()
        with autograd.record():
            y = same(x)
        (grad,) = autograd.grad(y, [x])
        np.testing.assert_array_equal(grad.asnumpy(), np.ones(3))
        grad[:] = 5

"""Several devices on the CPU, ``cpu(0)``, ``cpu(1)``, …: arrays keep theirs, parameters have a copy on each."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import hybridc as mx
from hybridc import autograd, gluon, nd

TWO = [mx.cpu(0), mx.cpu(1)]


def test_results_are_on_the_device_of_the_first_input():
    a, b = nd.ones((2, 3), ctx=mx.cpu(1)), nd.ones((2, 3))
    assert a.context == mx.cpu(1)
    assert mx.cpu(1) != mx.cpu(0)
    for y in (a + 1, 2 - a, a + b, nd.dot(a, b.T), nd.concat(a, b, dim=0), a[0], a[:, 1:], a[a > 0], a.reshape((3, 2))):
        assert y.context == mx.cpu(1), y
    for y in (b + a, b.as_in_context(mx.cpu(0)), a.as_in_context(mx.cpu(0)), a.copyto(b), nd.add_n(b, a)):
        assert y.context == mx.cpu(0), y
    assert [y.context for y in nd.split(a, 3, axis=1)] == [mx.cpu(1)] * 3
    for y in (
        a.copy(),
        a.astype("int32"),
        a.detach(),
        nd.zeros_like(a),
        nd.array(a, ctx=a.ctx),
        a.as_in_context(a.ctx),
    ):
        assert y.context == mx.cpu(1), y
    assert a.copyto(mx.cpu(2)).context == mx.cpu(2)
    assert nd.zeros((1,), ctx=mx.cpu_pinned()).context == mx.cpu_pinned(0)
    assert copy.deepcopy(a).context == mx.cpu(1)
    out = nd.zeros((2, 3), ctx=mx.cpu(5))
    assert nd.broadcast_add(a, b, out=out).context == mx.cpu(5)
    np.testing.assert_array_equal(out.asnumpy(), np.full((2, 3), 2.0))


def test_new_arrays_are_on_the_current_device():
    with mx.cpu(2):
        made = [nd.zeros((1,)), nd.array([1, 2]), mx.random.uniform(shape=(2,)), nd.arange(3), nd.array(nd.ones((2,)))]
    assert [x.context for x in made[:4]] == [mx.cpu(2)] * 4
    assert nd.zeros((1,)).context == mx.cpu(0)


def test_views_share_memory():
    a = nd.zeros((2, 3), ctx=mx.cpu(1))
    a[0][:] = 1
    a[1] += 2
    a.reshape((6,))[5] = 9
    np.testing.assert_array_equal(a.asnumpy(), [[1, 1, 1], [2, 2, 9]])
    a[:, 0] = nd.array([7, 8])
    np.testing.assert_array_equal(a.asnumpy(), [[7, 1, 1], [8, 2, 9]])


def test_gradients_are_on_the_device_of_the_variable():
    x = nd.arange(1, 4, ctx=mx.cpu(1))
    x.attach_grad()
    with autograd.record():
        y = (x * x)[1:] * nd.array([1, 10])
    assert y.context == mx.cpu(1)
    y.backward()
    assert x.grad.context == mx.cpu(1)
    np.testing.assert_array_equal(x.grad.asnumpy(), [0, 4, 60])
    with autograd.record():
        y = x**3
        (first,) = autograd.grad(y, x, create_graph=True)
    (second,) = autograd.grad(first, [x])
    assert first.context == second.context == mx.cpu(1)
    np.testing.assert_allclose(second.asnumpy(), [6, 12, 18], rtol=1e-6)


class _Square(autograd.Function):
    def forward(self, x):
        self.save_for_backward(x)
        return x * x

    def backward(self, dy):
        (x,) = self.saved_tensors
        return 2 * x * dy


def test_a_function_of_a_users_own():
    x = nd.array([1, 3], ctx=mx.cpu(1))
    x.attach_grad()
    with autograd.record():
        y = _Square()(x)
    y.backward()
    assert y.context == x.grad.context == mx.cpu(1)
    np.testing.assert_array_equal(x.grad.asnumpy(), [2, 6])


def test_parameters_have_an_array_on_each_device():
    p = gluon.Parameter("w", shape=(2, 3))
    p.initialize(ctx=TWO)
    assert p.list_ctx() == TWO
    assert [x.context for x in p.list_data()] == [x.context for x in p.list_grad()] == TWO
    np.testing.assert_array_equal(p.data(TWO[0]).asnumpy(), p.data(TWO[1]).asnumpy())
    assert p.data() is p.data(TWO[0])
    with mx.cpu(1):
        assert p.data() is p.data(TWO[1])
        assert p.grad() is p.grad(TWO[1])
    for read in (p.data, p.grad):
        with pytest.raises(
            RuntimeError, match=r"not initialized on context cpu\(2\). It was only .* \[cpu\(0\), cpu\(1\)"
        ):
            read(mx.cpu(2))
    p.set_data(nd.ones((2, 3)))
    p.data(TWO[1])[:] = 4
    np.testing.assert_array_equal(p._reduce().asnumpy(), np.full((2, 3), 2.5))
    p.reset_ctx([mx.cpu(3), mx.cpu(1)])
    assert p.list_ctx() == [mx.cpu(3), mx.cpu(1)]
    np.testing.assert_array_equal(p.data(mx.cpu(1)).asnumpy(), np.full((2, 3), 2.5))
    p.cast("float64")
    assert [x.dtype for x in (*p.list_data(), *p.list_grad())] == [np.float64] * 4
    copied = copy.deepcopy(p)
    assert copied.list_ctx() == p.list_ctx()


def test_a_network_runs_where_its_input_is(tmp_path):
    net = gluon.nn.Dense(3)
    net.initialize(ctx=TWO)
    x = np.arange(8, dtype="float32").reshape(2, 4)
    found = [net(nd.array(x, ctx=ctx)) for ctx in TWO]
    assert [y.context for y in found] == TWO
    net.weight.data(TWO[1])[:] = 0
    for hybridized in (False, True):
        net.hybridize(hybridized)
        np.testing.assert_allclose(net(nd.array(x)).asnumpy(), found[0].asnumpy(), rtol=1e-6)
        on_second = net(nd.array(x, ctx=TWO[1]))
        assert on_second.context == TWO[1]
        np.testing.assert_array_equal(on_second.asnumpy(), np.zeros((2, 3)))
        with pytest.raises(RuntimeError, match=r"not initialized on context cpu\(2\)"):
            net(nd.array(x, ctx=mx.cpu(2)))
    both = gluon.nn.HybridLambda(lambda F, a, b: F.broadcast_add(a, b))
    both.hybridize()
    with pytest.raises(ValueError, match=r"the arguments are on cpu\(0\) and cpu\(1\)"):
        both(nd.array(x), nd.array(x, ctx=TWO[1]))
    file = str(tmp_path / "net.params")
    net.save_parameters(file)
    net.load_parameters(file, ctx=TWO)
    with pytest.raises(AssertionError, match=r"Failed to load Parameter .* on \[cpu\(1\)\]"):
        net.load_parameters(file, ctx=TWO[1])


@pytest.mark.parametrize("options", [{}, {"update_on_kvstore": False}, {"kvstore": "local"}, {"kvstore": None}])
def test_steps_sum_the_gradients_of_the_devices(options):
    p = gluon.Parameter("w", shape=(2,))
    p.initialize(mx.init.One(), ctx=TWO)
    trainer = gluon.Trainer([p], "sgd", {"learning_rate": 0.1, "momentum": 0.9}, **options)
    summed = options.get("kvstore", "device") is not None
    grads = [np.array([1.0, 2.0]), np.array([2.0, 4.0])]
    used = [grads[0] + grads[1]] * 2 if summed else grads
    weights, momenta = [np.ones(2), np.ones(2)], [np.zeros(2), np.zeros(2)]
    for _ in range(3):
        with autograd.record():
            losses = [(p.data(c) * nd.arange(1, 3, ctx=c) * (i + 1)).sum() for i, c in enumerate(TWO)]
        autograd.backward(losses)
        trainer.step(2)
        for i in range(2):
            momenta[i] = 0.9 * momenta[i] - 0.1 * used[i] / 2
            weights[i] = weights[i] + momenta[i]
            np.testing.assert_allclose(p.data(TWO[i]).asnumpy(), weights[i], rtol=1e-5)
        left = used if options.get("update_on_kvstore") is False else grads
        for grad, expected in zip(p.list_grad(), left, strict=True):
            np.testing.assert_array_equal(grad.asnumpy(), expected)
    assert trainer.optimizer.num_update == 3
    with pytest.raises(UserWarning, match=r"on context cpu\(0\) has not been updated"):
        trainer.step(2)


@pytest.mark.parametrize("store", [lambda: "device", lambda: None, lambda: mx.kv.create("device")])
@pytest.mark.parametrize("update_on_kvstore", [True, False])
def test_no_device_is_updated_where_one_has_a_stale_gradient(store, update_on_kvstore):
    w = gluon.Parameter("w", shape=(2,))
    w.initialize(ctx=TWO, init="ones")
    trainer = gluon.Trainer([w], "sgd", {"learning_rate": 1}, store(), update_on_kvstore=update_on_kvstore)
    with autograd.record():
        loss = (w.data(TWO[0]) * 3).sum()
    loss.backward()
    with pytest.raises(UserWarning, match=r"Parameter `w` on context cpu\(1\) has not been updated"):
        trainer.step(1)
    assert [x.asnumpy().tolist() for x in w.list_data()] == [[1, 1], [1, 1]]
    if trainer._kvstore is None:
        trainer.step(1, ignore_stale_grad=True)
        assert [x.asnumpy().tolist() for x in w.list_data()] == [[-2, -2], [1, 1]]


def test_a_subclass_replaces_the_sum_of_gradients():
    class Doubling(gluon.Trainer):
        """As libraries for MXNet do it, such as Horovod and BytePS."""

        def __init__(self, *args):
            super().__init__(*args, kvstore=None)
            self._update_on_kvstore = False

        def _allreduce_grads(self):
            for param in self._params:
                param.list_grad()[0][:] *= 2

    w = gluon.Parameter("w", shape=(2,))
    w.initialize(init="ones")
    trainer = Doubling([w], "sgd", {"learning_rate": 1})
    with autograd.record():
        loss = (w.data() * 3).sum()
    loss.backward()
    trainer.step(1)
    assert w.data().asnumpy().tolist() == [-5, -5]


def test_trainers_refuse_what_they_cannot_do():
    a, b = gluon.Parameter("a", shape=(2,)), gluon.Parameter("b", shape=(2,))
    a.initialize(ctx=TWO)
    b.initialize()
    with pytest.raises(AssertionError, match=r"Parameter b is initialized on \[cpu\(0\)\] while previous"):
        gluon.Trainer([a, b], "sgd")
    trainer = gluon.Trainer([a], "sgd")
    for call in (trainer.allreduce_grads, lambda: trainer.update(1)):
        with pytest.raises(AssertionError, match="Try setting `update_on_kvstore` to False"):
            call()
    with pytest.raises(mx.errors.AttributeValueError, match=r"expected .*2bit.* got .*3bit"):
        gluon.Trainer([a], "sgd", compression_params={"type": "3bit"})
    net = gluon.nn.Dense(1, in_units=2)
    net.initialize(ctx=TWO)
    step = gluon.TrainStep(net, gluon.loss.L2Loss(), gluon.Trainer(net.collect_params(), "sgd"))
    with pytest.raises(mx.errors.UnsupportedError, match="on 2 devices"):
        step(nd.ones((4, 2)), nd.ones((4, 1)))


def test_training_on_two_devices_gives_what_one_gives():
    x = np.random.default_rng(0).standard_normal((8, 4)).astype("float32")
    label = np.arange(8) % 3
    found = []
    for ctx in ([mx.cpu()], TWO, [mx.cpu(1), mx.cpu(4)]):
        mx.random.seed(3)
        net = gluon.nn.HybridSequential()
        net.add(gluon.nn.Dense(5, activation="tanh"), gluon.nn.Dense(3))
        net.initialize(mx.init.Xavier(), ctx=ctx)
        net.hybridize()
        trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.05})
        loss = gluon.loss.SoftmaxCrossEntropyLoss()
        for _ in range(3):
            data, labels = (gluon.utils.split_and_load(a, ctx) for a in (x, label))
            with autograd.record():
                losses = [loss(net(a), b) for a, b in zip(data, labels, strict=True)]
            autograd.backward(losses)
            trainer.step(8)
        found.append([p.list_data()[-1].asnumpy() for p in net.collect_params().values()])
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("store", "batch"), [(lambda: "device", 2), (lambda: mx.kv.create("device"), 2), (lambda: None, 1)]
)
def test_values_that_a_user_sets_between_steps_are_trained_on(store, batch):
    """A store that updates parameters has values of its own; without one each device has its own gradient."""
    weight = gluon.Parameter("weight", shape=(3,))
    weight.initialize(ctx=TWO, init="ones")
    trainer = gluon.Trainer([weight], "sgd", {"learning_rate": 0.5}, kvstore=store())

    def step():
        for x in weight.list_data():
            with autograd.record():
                y = (x * 2).sum()
            y.backward()
        trainer.step(batch)
        return [x.asnumpy().tolist() for x in weight.list_data()]

    assert step() == [[0, 0, 0]] * 2
    weight.set_data(nd.array([5, 6, 7]))
    assert step() == [[4, 5, 6]] * 2
    weight.initialize(ctx=TWO, init=mx.init.Constant(9), force_reinit=True)
    assert step() == [[8, 8, 8]] * 2


@pytest.mark.parametrize("update_on_kvstore", [True, False])
def test_a_trainer_says_what_store_mxnet_has(update_on_kvstore):
    """Programs read its type, and the states of its updater, after the first step."""
    w = gluon.Parameter("w", shape=(2,))
    assert w._ctx_map is None
    w.initialize(ctx=[mx.cpu(2), mx.cpu(0)])
    assert w._ctx_map == [[], [1, None, 0]]
    options = {"kvstore": "local", "update_on_kvstore": update_on_kvstore}
    trainer = gluon.Trainer([w], "sgd", {"learning_rate": 1, "momentum": 0.5}, **options)
    assert trainer._kvstore is None
    for ctx in w.list_ctx():
        with autograd.record():
            loss = (w.data(ctx) * 3).sum()
        loss.backward()
    trainer.step(1)
    assert trainer._kvstore.type == "local"
    assert trainer._kvstore_params == options
    states = (trainer._kvstore._updater if update_on_kvstore else trainer._updaters[0]).states
    assert states[0].asnumpy().tolist() == [-6, -6]
    assert trainer._kvstore._updater is (trainer.updater if update_on_kvstore else None)


def test_the_first_step_copies_the_first_device_s_values():
    """Running means, too; what each device has of them later is its own, as in MXNet."""
    bn = gluon.nn.BatchNorm(in_channels=1, momentum=0.5)
    bn.initialize(ctx=TWO)
    trainer = gluon.Trainer(bn.collect_params(), "sgd")
    # Half of what it was before, and half of the mean of the device's batch.
    for means, want in (((2, 10), [1, 1]), ((4, 10), [2.5, 5.5])):
        for ctx, mean in zip(TWO, means, strict=True):
            with autograd.record():
                loss = bn(nd.full((4, 1), mean, ctx=ctx)).sum()
            loss.backward()
        trainer.step(1)
        assert [x.asscalar() for x in bn.running_mean.list_data()] == want

"""The switches of NumPy's semantics: nested, restored after exceptions, of a thread, of a function or class."""

from __future__ import annotations

import pickle  # noqa: TID251
import threading

import numpy as onp
import pytest

import hybridc as mx
from hybridc import gluon, np, npx, util
from hybridc.gluon import nn


@pytest.fixture(autouse=True)
def _legacy():
    yield
    npx.reset_np()


def state():
    return npx.is_np_shape(), npx.is_np_array()


def test_set_and_reset():
    assert state() == (False, False)
    npx.set_np()
    assert state() == (True, True)
    npx.set_np(array=False)
    assert state() == (True, False)
    with pytest.raises(ValueError, match="NumPy Shape semantics is required"):
        npx.set_np(shape=False)
    npx.reset_np()
    assert state() == (False, False)


def test_scopes_nest_and_are_restored():
    with util.np_array(True):
        assert state() == (False, True)
        with util.np_shape(), util.np_array(False):
            assert state() == (True, False)
        with pytest.raises(KeyError), util.np_array(False):
            raise KeyError
        assert state() == (False, True)
    assert state() == (False, False)


def test_scopes_belong_to_a_thread():
    npx.set_np()
    seen = []
    thread = threading.Thread(target=lambda: seen.append(state()))
    thread.start()
    thread.join()
    assert seen == [(False, False)]


def test_decorators():
    assert util.use_np(state)() == (True, True)
    assert util.use_np_array(state)() == (False, True)
    assert util.use_np_shape(state)() == (True, False)

    @util.use_np
    class Block(nn.HybridBlock):
        def __init__(self):
            super().__init__()
            self.dense = nn.Dense(3)
            self.seen = state()

        def hybrid_forward(self, F, x):
            return self.dense(x) + state()[1]

    block = Block()
    assert block.seen == (True, True)
    block.initialize()
    y = block(np.ones((2, 4)))
    assert isinstance(y, np.ndarray)
    assert state() == (False, False)


def test_parameters_have_the_class_of_the_scope():
    net = nn.Dense(3, in_units=2)
    net.initialize()
    assert type(net.weight.data()) is mx.nd.NDArray
    with util.np_array():
        data, grad = net.weight.data(), net.weight.grad()
        assert type(data) is type(grad) is np.ndarray
        assert [type(x) for x in (*net.weight.list_data(), *net.weight.list_grad())] == [np.ndarray] * 2
    data[:] = 2  # the memory is the parameter's
    assert (net.weight.data().asnumpy() == 2).all()


def test_one_memory_and_one_tape():
    x = mx.nd.array([[1.0, 2.0], [3.0, 4.0]])
    x.attach_grad()
    y = x.as_np_ndarray()
    assert type(y) is np.ndarray
    with mx.autograd.record():
        z = (y * y).sum().as_nd_ndarray()
    z.backward()
    assert type(z) is mx.nd.NDArray
    onp.testing.assert_allclose(x.grad.asnumpy(), 2 * x.asnumpy())
    assert type(y.grad) is np.ndarray
    onp.testing.assert_allclose(y.grad.asnumpy(), x.grad.asnumpy())
    y[0, 0] = 7
    assert x.asnumpy()[0, 0] == 7
    assert y.as_nd_ndarray().as_np_ndarray().asnative() is x.asnative()


def test_default_array():
    assert type(util.default_array([1])) is mx.nd.NDArray
    npx.set_np()
    assert type(util.default_array([1])) is np.ndarray


def test_training_gives_what_nd_gives():
    def train(kind):
        mx.random.seed(1)
        net = nn.HybridSequential()
        net.add(nn.Dense(8, activation="tanh", in_units=4), nn.Dense(1, in_units=8))
        net.initialize(mx.init.Uniform(0.5))
        trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.05})
        loss = gluon.loss.L2Loss()
        rng = onp.random.default_rng(0)
        x = kind(rng.normal(size=(16, 4)).astype("float32"))
        y = kind(rng.normal(size=(16, 1)).astype("float32"))
        losses = []
        for step in range(6):
            if step == 3:
                net.hybridize()
            with mx.autograd.record():
                value = loss(net(x), y)
            value.backward()
            trainer.step(16)
            losses.append(value.mean().asnumpy().item())
        return losses

    plain = train(mx.nd.array)
    npx.set_np()
    numpy = train(np.array)
    onp.testing.assert_allclose(numpy, plain, rtol=1e-5)
    assert numpy[-1] < numpy[0]


@pytest.mark.parametrize("context", [mx.cpu(1), pytest.param(mx.gpu(0), marks=pytest.mark.triton)], ids=str)
def test_arrays_on_other_devices(context):
    npx.set_np()
    x = np.array([[1.0, 2.0], [3.0, 4.0]], ctx=context)
    assert isinstance(x, np.ndarray)
    x.attach_grad()
    with mx.autograd.record():
        y = (x * x + np.ones((2,), ctx=context)).sum()
    y.backward()
    for made, wanted in ((y, 34.0), (x.grad, 2 * x.asnumpy()), (x > 2, x.asnumpy() > 2), (x[1, 0], 3.0)):
        assert isinstance(made, np.ndarray)
        assert made.context == context
        onp.testing.assert_array_equal(made.asnumpy(), wanted)
        assert made.shape == onp.shape(wanted)
    on_cpu = x.as_in_ctx(mx.cpu())
    assert type(on_cpu) is np.ndarray
    assert ("ctx=gpu(0)" in repr(x)) == (context.device_type == "gpu")
    assert "ctx" not in repr(on_cpu)
    restored = pickle.loads(pickle.dumps(x))
    assert isinstance(restored, np.ndarray)
    x[0] = 7
    assert float(x[0, 0]) == 7
    net = nn.Dense(3, in_units=2)
    net.initialize(ctx=context)
    eager = net(x)
    net.hybridize()
    onp.testing.assert_allclose(net(x).asnumpy(), eager.asnumpy(), rtol=1e-5)
    assert isinstance(net(x), np.ndarray)


def test_unknown_sizes_of_parameters_are_minus_one():
    net = nn.Dense(3)
    assert net.weight.shape == (3, 0)
    npx.set_np()
    assert net.weight.shape == (3, -1)
    net.initialize()
    assert net(np.ones((2, 5))).shape == (2, 3)
    assert net.weight.shape == (3, 5)


def test_a_parameter_may_be_a_number():
    class Scaled(nn.HybridBlock):
        def __init__(self):
            super().__init__()
            self.scale = self.params.get("scale", shape=(), init=mx.init.Constant(3))

        def hybrid_forward(self, F, x, scale):
            return x * scale

    npx.set_np()
    net = Scaled()
    net.initialize()
    for hybridized in (False, True):
        net.hybridize(hybridized)
        x = np.array([1.0, 2.0])
        with mx.autograd.record():
            y = net(x)
        y.backward()
        assert net.scale.data().shape == net.scale.grad().shape == ()
        onp.testing.assert_array_equal(y.asnumpy(), [3, 6])
        assert float(net.scale.grad()) == 3


def test_dtypes_are_those_of_numpy():
    x = np.ones(2)
    assert (str(x.dtype), x.dtype.kind, x.dtype.itemsize) == ("float32", "f", 4)
    assert x.dtype == onp.float32
    assert x.as_nd_ndarray().dtype is onp.float32

    class Names(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            seen.append(str(x.dtype))
            return x + 1

    seen: list[str] = []
    block = Names()
    block.hybridize()
    block(x)
    assert set(seen) == {"float32"}


def test_iterators_give_arrays_of_nd():
    """As MXNet's, in the scope of mx.np, too."""
    with util.np_shape(), util.np_array():
        batch = next(mx.io.NDArrayIter(onp.ones((4, 2)), onp.ones(4), 2))
    assert type(batch.data[0]) is type(batch.label[0]) is mx.nd.NDArray

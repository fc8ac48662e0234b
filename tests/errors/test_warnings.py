"""What is possible, but hardly meant, is warned of with the line of the user; what only resembles it is not."""

from __future__ import annotations

import inspect
import warnings

import numpy as np
import pytest

import hybridc as mx
from hybridc import autograd, gluon, nd
from hybridc.gluon import nn


class Returning(gluon.HybridBlock):
    """A block whose forward is a function."""

    def __init__(self, function, **kwargs):
        super().__init__(**kwargs)
        self.function = function

    def hybrid_forward(self, F, x):
        return self.function(x)


class Plain(gluon.Block):
    """A block that forgot its return."""

    def forward(self, x):
        x * 2


def warned(function):
    """The texts of the warnings of a call, which name a line of this file."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        function()
    assert all(w.filename == __file__ for w in found), [w.filename for w in found]
    return [str(w.message) for w in found]


@pytest.mark.parametrize("hybridized", [False, True])
def test_a_forward_without_a_return(hybridized):
    net = Returning(lambda x: None)
    net.hybridize(hybridized)
    (text,) = warned(lambda: net(nd.ones((2,))))
    assert text.startswith("Returning: hybrid_forward returned None; is its last line to be a return? (")
    assert str(inspect.getsourcelines(Returning.hybrid_forward)[1]) in text
    (text,) = warned(lambda: Plain()(nd.ones((2,))))
    assert text.startswith("Plain: forward returned None")
    assert not warned(lambda: Returning(lambda x: (x, None))(nd.ones((2,))))


def test_the_gradient_of_what_is_no_variable():
    x = nd.ones((2,))
    x.attach_grad()
    with autograd.record():
        y = x * 2
        z = (y * y).sum()
    np.testing.assert_array_equal(autograd.grad(z, [y], retain_graph=True)[0].asnumpy(), [4, 4])  # as the text says
    z.backward()
    (text,) = warned(lambda: y.grad)
    assert "grad is None" in text
    assert "attach_grad() before record()" in text
    assert not warned(lambda: x.grad)
    assert not warned(lambda: nd.ones((2,)).grad)


def test_numpy_in_a_forward_under_record():
    x = nd.ones((2,))
    x.attach_grad()

    def recorded(function, net=None):
        with autograd.record():
            return warned(lambda: (net or Returning(function))(x))

    for function in (np.tanh, lambda x: np.cumsum(x * 2), np.asarray):
        (text,) = recorded(function)
        assert "its result has no gradient; use the function of F or mx.nd, as F.tanh(x) for np.tanh(x)" in text
    assert not recorded(lambda x: x * x.asnumpy())
    assert not recorded(lambda x: x * np.tanh(x.detach()))
    assert not warned(lambda: Returning(np.tanh)(x))


def test_loops_may_look_at_results():
    net = nn.Dense(3, in_units=2)
    net.initialize()
    metric = mx.metric.Accuracy()

    def loop():
        with autograd.record():
            y = net(nd.ones((4, 2)))
            metric.update([nd.zeros((4,))], [y])
            np.asarray(y), np.tanh(y), str(y), y.asnumpy()

    assert not warned(loop)


def test_arrays_as_a_data_set():
    x, y = np.zeros((4, 2)), np.zeros((4,))
    (text,) = warned(lambda: gluon.data.DataLoader((x, y), batch_size=2))
    assert "gluon.data.ArrayDataset(x, y)" in text
    assert not warned(lambda: gluon.data.DataLoader([x, x], batch_size=2))
    assert not warned(lambda: gluon.data.DataLoader(gluon.data.ArrayDataset(x, y), batch_size=2))
    with pytest.raises(mx.MXNetError, match=r"a list of whole arrays is no data set, gluon\.data\.ArrayDataset"):
        next(iter(gluon.data.DataLoader([x, y], batch_size=2)))


def test_images_with_channels_first():
    transform = gluon.data.vision.transforms.ToTensor()
    (text,) = warned(lambda: transform(nd.zeros((3, 8, 6), dtype="uint8")))
    assert "of (3, 8, 6) it makes (6, 3, 8)" in text
    assert not warned(lambda: transform(nd.zeros((8, 6, 3), dtype="uint8")))
    assert not warned(lambda: transform(nd.zeros((3, 3, 3), dtype="uint8")))


def test_sizes_of_random_numbers():
    (text,) = warned(lambda: nd.random.normal(2, 3))
    assert "sizes are shape=(2, 3)" in text
    assert warned(lambda: nd.random.uniform(2, 3))
    assert not warned(lambda: (nd.random.normal(0, 1), nd.random.uniform(0, 5), nd.random.normal(2, 3, (2,))))


def test_rates_below_0():
    params = nn.Dense(3, in_units=2).collect_params()
    params.initialize()
    for name in ("learning_rate", "wd"):
        (text,) = warned(lambda name=name: gluon.Trainer(params, "sgd", {name: -1}))
        assert "is -1: as it is negative" in text
    assert not warned(lambda: gluon.Trainer(params, "sgd", {"learning_rate": 0, "wd": 0}))


def test_freezing_a_network_as_in_keras():
    class Net(gluon.HybridBlock):
        pass

    class Own(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.trainable = True

    def freeze(net):
        net.trainable = False
        assert net.trainable is False

    (text,) = warned(lambda: freeze(Net()))
    assert text.startswith("Net.trainable = False has no effect here; that is net.collect")
    assert not warned(lambda: freeze(Own()))
    with pytest.raises(AttributeError, match="here that is"):
        assert Net().trainable


def test_what_works_meanwhile():
    x = nd.array([[1, 2], [3, 6]])
    assert f"{x.sum():.1f}" == "12.0"
    assert f"{x[0, 0]}" == str(x[0, 0])
    assert np.mean(x).asscalar() == 3
    np.testing.assert_array_equal(np.mean(x, axis=1).asnumpy(), [1.5, 4.5])

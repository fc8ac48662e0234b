"""What people who come from PyTorch and Keras write first: the error says what does the same here."""

from __future__ import annotations

import pytest

import hybridc as mx
from hybridc import gluon, nd
from hybridc.gluon import nn
from hybridc.ground import absent


def network():
    net = nn.HybridSequential()
    net.add(nn.Dense(2, in_units=3))
    net.initialize()
    return net


@pytest.mark.parametrize("name", ["parameters", "state_dict", "eval", "train", "fit", "to"])
def test_methods_of_networks(name):
    with pytest.raises(AttributeError, match=rf"no attribute '{name}'; here that is "):
        getattr(network(), name)
    assert not hasattr(network(), name)


@pytest.mark.parametrize("name", ["numpy", "cuda", "view", "permute", "unsqueeze", "requires_grad"])
def test_methods_of_arrays(name):
    with pytest.raises(AttributeError, match=rf"no attribute '{name}'; here that is x\.") as error:
        getattr(nd.ones((2,)), name)
    assert error.value.args


def test_these_names_are_not_listed_and_are_free():
    assert "numpy" not in dir(nd.ones((2,)))
    assert "asnumpy" in dir(nd.ones((2,)))
    net = network()
    assert "fit" not in dir(net)
    net.layers = [1]
    assert net.layers == [1]

    class Model(gluon.Block):
        def fit(self):
            return 7

    assert Model().fit() == 7
    assert "fit" in dir(Model())


@pytest.mark.parametrize(
    ("owner", "name", "text"),
    [
        (nn, "Linear", "nn.Dense"),
        (nn, "ReLU", 'nn.Activation("relu")'),
        (nn, "LSTM", "gluon.rnn.LSTM"),
        (gluon.loss, "CrossEntropyLoss", "SoftmaxCrossEntropyLoss"),
        (nd, "cat", "mx.nd.concat"),
        (mx, "no_grad", "autograd.pause"),
        (mx, "zeros", "mx.nd.zeros"),
        (mx.autograd, "no_grad", "autograd.pause"),
        (mx.init, "kaiming_normal_", "mx.init.Xavier"),
        (mx.lr_scheduler, "StepLR", "FactorScheduler"),
        (mx.metric, "SparseCategoricalAccuracy", "mx.metric.Accuracy"),
        (mx.callback, "EarlyStopping", "EarlyStoppingHandler"),
    ],
)
def test_names_of_modules(owner, name, text):
    with pytest.raises(mx.errors.AbsentError) as error:
        getattr(owner, name)
    assert f"{name!r}; here that is " in str(error.value)
    assert text in str(error.value)


def test_what_the_hints_name_exists():
    """Names after ``mx.``, ``nn.`` and ``gluon.`` in the hints."""
    import re

    for table in absent._OWNERS.values():
        for hint in table.values():
            for path in re.findall(r"\b(?:mx|nn|gluon|autograd)(?:\.\w+)+", hint):
                found = {"mx": mx, "nn": nn, "gluon": gluon, "autograd": mx.autograd}[path.partition(".")[0]]
                for part in path.split(".")[1:]:
                    found = getattr(found, part)


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: nn.HybridSequential(nn.Dense(2), nn.Dense(3)), TypeError, r"prefix must be a string.*net\.add"),
        (lambda: nn.Sequential([nn.Dense(2)]), TypeError, "prefix must be a string, got list"),
        (
            lambda: nn.HybridSequential().add(nn.Dense),
            ValueError,
            r"got the class Dense; make a block of it: Dense\(…\)",
        ),
        (lambda: nn.Sequential().add(abs), ValueError, r"nn\.Lambda\(function\)"),
        (lambda: nn.HybridSequential().add(abs), ValueError, r"nn\.HybridLambda\(function\)"),
        (lambda: nn.HybridSequential().add([nn.Dense(2)]), ValueError, r"net\.add\(\*blocks\)"),
    ],
)
def test_children(make, error, text):
    with pytest.raises(error, match=text):
        make()


def test_a_child_that_is_refused_is_none():
    net = nn.Sequential()
    with pytest.raises(ValueError, match="children must be blocks"):
        net.add(abs)
    assert len(net) == 0
    net.hybridize()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"lr": 0.1}, "SGD has no argument 'lr'; here that is learning_rate"),
        ({"weight_decay": 0.1}, "'weight_decay'; here that is wd"),
        ({"learning_rate": "0.1"}, "must be a number, got str '0.1'"),
        ({"learning_rate": float("nan")}, "NaN"),
        ({"lr_scheduler": mx.lr_scheduler.FactorScheduler}, "the class FactorScheduler; make a scheduler"),
    ],
)
def test_arguments_of_optimizers(arguments, text):
    with pytest.raises((TypeError, ValueError), match=text):
        gluon.Trainer(network().collect_params(), "sgd", arguments)


@pytest.mark.parametrize("size", [0, -2, float("nan"), "2"])
def test_batch_sizes(size):
    net = network()
    trainer = gluon.Trainer(net.collect_params(), "sgd")
    with mx.autograd.record():
        loss = net(nd.ones((2, 3))).sum()
    loss.backward()
    before = net[0].weight.data().asnumpy()
    with pytest.raises((TypeError, ValueError), match="batch_size must be a positive number"):
        trainer.step(size)
    assert (net[0].weight.data().asnumpy() == before).all()
    trainer.step(2)


def test_a_rate_that_is_set_must_be_a_number():
    trainer = gluon.Trainer(network().collect_params(), "sgd")
    for rate in ("0.1", float("nan"), None):
        if rate is not None:
            with pytest.raises((TypeError, ValueError), match="learning rate"):
                trainer.set_learning_rate(rate)
    trainer.set_learning_rate(0)
    assert trainer.learning_rate == 0


def test_labels_of_another_size():
    with pytest.raises(mx.errors.ShapeError, match=r"L2Loss: pred has shape \(4, 2\), label has shape \(4, 3\)"):
        gluon.loss.L2Loss()(nd.ones((4, 2)), nd.ones((4, 3)))


def test_arguments_of_other_kinds():
    net = network()
    with pytest.raises(TypeError, match=r'activation must be a name, as "relu", got 3'):
        nn.Dense(2, 3)
    with pytest.raises(TypeError, match="activation must be a name"):
        nn.Conv2D(2, 3, activation=nd.relu)
    with pytest.raises(TypeError, match=r"takes arrays, got Parameter; of parameters give the gradients"):
        gluon.utils.clip_global_norm(list(net.collect_params().values()), 1.0)
    with pytest.raises(RuntimeError, match=r"call initialize\(\) on the network before"):
        gluon.Trainer(nn.Dense(2).collect_params(), "sgd")

"""``mx.contrib.svrg_optimization``: as MXNet 1.9.1 trains (tests/golden/make_svrg.py), and as SVRG is defined."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import hybridc as mx
from hybridc.contrib.svrg_optimization.svrg_module import SVRGModule
from hybridc.errors import CheckError

GOLDEN = Path(__file__).parents[1] / "golden"
sys.path.insert(0, str(GOLDEN))

import svrg_cases  # noqa: E402

MXNET = json.loads((GOLDEN / "svrg.json").read_text())


def svrg(update_freq, epochs, count, rate=0.1, size=4):
    """The definition, in float64, for whole batches."""
    x, y = (a.astype(np.float64) for a in svrg_cases.examples(count))
    x = np.concatenate([x, np.ones((count, 1))], 1)
    w = np.array([*svrg_cases.START["fc_weight"][0], *svrg_cases.START["fc_bias"]])
    batches = [slice(i, i + size) for i in range(0, count, size)]
    old, mean = w, 0 * w

    def gradient(w, part):
        return x[part].T @ (x[part] @ w - y[part]) / size

    for epoch in range(epochs):
        if epoch % update_freq == 0:
            old = w
            mean = np.mean([gradient(old, part) for part in batches], 0)
        for part in batches:
            w = w - rate * (gradient(w, part) - gradient(old, part) + mean)
    return {"fc_weight": [w[:3]], "fc_bias": w[3:]}


def assert_near(found, wanted):
    for name, value in found.items():
        np.testing.assert_allclose(value, wanted[name], rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", svrg_cases.CASES)
def test_same_as_mxnet(name):
    assert_near(svrg_cases.run(mx, **svrg_cases.CASES[name]), MXNET[name])


@pytest.mark.parametrize(("update_freq", "epochs"), [(1, 3), (2, 5), (4, 3)])
def test_same_as_its_definition(update_freq, epochs):
    assert_near(svrg_cases.run(mx, update_freq, epochs, count=12), svrg(update_freq, epochs, 12))


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_several_devices_train_as_one(optimizer):
    several = svrg_cases.run(mx, 2, 3, count=12, devices=2, optimizer=optimizer)
    assert_near(several, svrg_cases.run(mx, 2, 3, count=12, optimizer=optimizer))


def test_gradients_are_nearly_those_of_all_examples():
    """At the old weights every batch has the mean gradient: no variance is left."""
    x, y = svrg_cases.examples(12)
    iterator = mx.io.NDArrayIter(x, y, batch_size=4, label_name="label")
    layer = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=1, name="fc")
    symbol = mx.sym.LinearRegressionOutput(layer, mx.sym.Variable("label"), name="loss")
    module = SVRGModule(symbol, label_names=["label"], update_freq=1)
    module.bind(iterator.provide_data, iterator.provide_label)
    module.init_params(mx.init.Uniform(0.5))
    module.init_optimizer()
    module.update_full_grads(iterator)
    iterator.reset()
    found = []
    for batch in iterator:
        module.forward_backward(batch)
        module._update_svrg_gradients()
        found.append(module._exec_group.grad_arrays[0][0].asnumpy())
    np.testing.assert_allclose(found, [found[0]] * 3, rtol=1e-5, atol=1e-5)


def test_wrong_frequencies_are_refused():
    symbol = mx.sym.LinearRegressionOutput(mx.sym.Variable("data"), mx.sym.Variable("softmax_label"))
    with pytest.raises(TypeError, match=r"update_freq must be an integer, .*, got None"):
        SVRGModule(symbol)
    with pytest.raises(ValueError, match="update_freq must be a positive number of epochs, got 0"):
        SVRGModule(symbol, update_freq=0)


def test_training_before_full_gradients_says_what_is_missing():
    symbol = mx.sym.LinearRegressionOutput(mx.sym.Variable("data"), mx.sym.Variable("softmax_label"))
    module = SVRGModule(symbol, update_freq=1)
    module.bind([("data", (2, 1))], [("softmax_label", (2, 1))])
    module.init_params()
    with pytest.raises(CheckError, match="update_full_grads: "):
        module.update_full_grads(None)

"""Dtypes under mixed precision of every layer, cell, loss and network of Gluon: eagerly, hybridized, and in MXNet."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import hybridc as mx
from hybridc import gluon
from hybridc.contrib import amp
from hybridc.trace.tracer import trace_call
from tests.contrib.test_amp import started as started  # a fixture
from tests.golden import amp_cases as cases

MXNET = json.loads((Path(__file__).parents[1] / "golden" / "amp.json").read_text())
# There where(ones, new, old) takes the wider dtype of the old state also in predict mode, which zones nothing out.
OTHERWISE = {"rnn.ZoneoutCell"}


def space(where):
    found = gluon
    for part in where.split("."):
        found = getattr(found, part)
    return found


def test_every_class_of_gluon_is_in_the_table():
    missing = []
    for where, layers in cases.LAYERS.items():
        for name in space(where).__all__:
            made = getattr(space(where), name)
            if not isinstance(made, type) or not issubclass(made, gluon.Block) or name in cases.OTHERS:
                continue
            if name not in layers and made.__name__ not in layers:  # an alias
                missing.append(f"{where}.{name}")
    assert not missing


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.usefixtures("by_numpy")
def test_layers_have_the_dtypes_of_mxnet_eagerly_and_hybridized(started, dtype):
    started(dtype)
    wrong = {}
    for where, layers in cases.LAYERS.items():
        for name in layers:
            key = f"{where}.{name}"
            eager, hybridized = (cases.result_dtypes(mx, where, name, flag) for flag in (False, True))
            if eager != hybridized:
                wrong[key] = f"eagerly {eager}, hybridized {hybridized}"
            theirs = MXNET[dtype][key]["eager"] or MXNET[dtype][key]["hybridized"]
            if theirs is not None and theirs != eager and key not in OTHERWISE:
                wrong[key] = f"{eager}, in MXNet {theirs}"
    assert not wrong


@pytest.mark.parametrize("dtype", ["float16", pytest.param("bfloat16", marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "name",
    [
        name if name in ("mobilenet0.25", "resnet18_v2") else pytest.param(name, marks=pytest.mark.long)
        for name in cases.NETWORKS
    ],
)
def test_networks_of_the_zoo(started, name, dtype):
    started(dtype)
    size = cases.NETWORKS[name]
    net = gluon.model_zoo.vision.get_model(name, classes=10)
    net.initialize()
    x = mx.nd.ones((1, 3, size, size))
    eager = net(x)
    traced = trace_call(net, [x], training=False)
    # These end with what bfloat16's list keeps in float32.
    last = "float32" if dtype == "bfloat16" and name.startswith(("squeezenet", "mobilenetv2")) else dtype
    assert np.dtype(eager.dtype).name == traced.outputs[0]._dtype.name == last
    assert all(np.dtype(p.dtype) == np.float32 for p in net.collect_params().values())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("layer", ["LSTM", "GRU", "RNN"])
@pytest.mark.usefixtures("by_numpy")
def test_recurrent_layers_train_alike(started, dtype, layer):
    started(dtype)
    mx.random.seed(1)
    net = getattr(gluon.rnn, layer)(4, num_layers=2)
    net.initialize(mx.init.Xavier())
    x = mx.nd.array(np.random.default_rng(1).normal(size=(3, 2, 5)))

    def results():
        with mx.autograd.record():
            out = net(x)
        out.backward()
        return [out.asnumpy(), *[p.grad().asnumpy() for p in net.collect_params().values()]]

    eager = results()
    net.hybridize()
    for a, b in zip(eager, results(), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a.astype("f"), b.astype("f"), atol=1e-2 * max(1, np.abs(a.astype("f")).max()))


def test_converted_networks_of_deferred_parameters(started):
    started("float16")
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Conv2D(4, 3, activation="relu"), gluon.nn.BatchNorm(), gluon.nn.Dense(3))
    net.initialize()
    net.hybridize()
    x = mx.nd.ones((2, 3, 6, 6))
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    amp.init_trainer(trainer)
    with mx.autograd.record(), amp.scale_loss(net(x).sum(), trainer) as scaled:
        scaled.backward()
    amp.unscale(trainer)
    trainer.step(2)
    assert {np.dtype(p.dtype).name for p in net.collect_params().values()} == {"float32"}
    made = amp.convert_hybrid_block(net, "float16")
    assert made(x).dtype == net(x).dtype == np.float16


@pytest.mark.usefixtures("by_numpy")
def test_states_of_loops_keep_their_dtype(started):
    class Loop(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.dense = gluon.nn.Dense(3, in_units=5)

        def hybrid_forward(self, F, x):
            def step(row, states):
                out = self.dense(F.concat(row, states[0], dim=1))
                return out, [out]

            return F.contrib.foreach(step, x, [F.zeros((2, 3))])

    started("float16")
    net = Loop()
    net.initialize(mx.init.Xavier())
    x = mx.nd.array(np.random.default_rng(1).normal(size=(4, 2, 2)))
    found = []
    for hybridize in (False, True):
        net.hybridize(hybridize)
        outputs, (state,) = net(x)
        assert (outputs.dtype, state.dtype) == (np.float16, np.float32)
        found.append(outputs.asnumpy())
    np.testing.assert_allclose(*found, atol=2e-3)

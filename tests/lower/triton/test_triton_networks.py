"""Whole networks by Triton's interpreter, forward and backward, against eager results; a training step in float64."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import hybridc as mx
from benchmarks import workloads
from hybridc.compile import targets, trace_key, warm_start
from hybridc.options import OPTIONS

pytestmark = pytest.mark.triton


RNG = np.random.default_rng(11)


@pytest.fixture
def by_triton(monkeypatch):
    for module in (targets, trace_key, warm_start):
        monkeypatch.setattr(module, "OPTIONS", dataclasses.replace(OPTIONS, target="triton"))


def nd(arrays):
    return {name: mx.nd.array(a, dtype="float32") for name, a in arrays.items()}


def run(net, inputs):
    """Results, gradients of the inputs and of the parameters, of a sum of all results with weights."""
    for x in inputs:
        x.attach_grad()
    with mx.autograd.record():
        outputs = net(*inputs)
        outputs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
        heads = [(y * mx.nd.array(np.cos(np.arange(y.size)).reshape(y.shape), dtype="float32")).sum() for y in outputs]
    mx.autograd.backward(heads)
    found = [*outputs, *(x.grad for x in inputs), *(p.grad() for p in net.collect_params().values())]
    return [x.asnumpy() for x in found]


def agrees(net, inputs):
    eager = run(net, inputs)
    net.hybridize()
    got = run(net, inputs)
    (graph,) = net._cached_graph.graphs()
    assert type(graph.forward.program).__name__ == type(graph.backward.program).__name__ == "TritonProgram"
    assert not graph.forward.program.host_calls
    assert not graph.backward.program.host_calls
    for x, y in zip(got, eager, strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=3e-5 * max(1.0, np.abs(y).max()))


@pytest.mark.usefixtures("by_triton")
def test_an_encoder_layer(monkeypatch):
    monkeypatch.setattr(workloads, "WIDTH", 64)
    monkeypatch.setattr(workloads, "HIDDEN", 96)
    arrays = nd(workloads.encoder_inputs(RNG))
    del arrays["x"]
    agrees(workloads.Encoder(arrays), [mx.nd.array(RNG.normal(size=(2, 9, 64)), dtype="float32")])


@pytest.mark.usefixtures("by_triton")
def test_an_unrolled_lstm(monkeypatch):
    for name, size in {"STEPS": 3, "LSTM_BATCH": 5, "LSTM_IN": 24, "LSTM_OUT": 32}.items():
        monkeypatch.setattr(workloads, name, size)
    arrays = nd(workloads.lstm_inputs(RNG))
    parameters = {name: arrays.pop(name) for name in ("wx", "wh", "b")}
    agrees(workloads.LSTM(parameters), list(arrays.values()))


@pytest.mark.usefixtures("by_triton")
def test_training_steps_of_a_classifier():
    """Three steps of SGD with momentum: losses, and parameters after them, against definitions in float64."""
    arrays = workloads.mlp_inputs(12, (20, 32, 32, 10), labels=True)(RNG)
    program = workloads.mlp_train_program(nd(arrays), hybridized=True)
    got = program.fetch(program.call())
    wide = {k: v.astype(np.float64) if v.dtype == np.float32 else v for k, v in arrays.items()}
    for x, y in zip(got, workloads.mlp_train_reference(wide), strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=1e-5 * max(1.0, np.abs(y).max()))


@pytest.mark.usefixtures("by_triton")
def test_dropout_draws_what_the_cpu_draws():
    class Net(mx.gluon.HybridBlock):
        def forward(self, x):
            return mx.nd.Dropout(x, p=0.4) * mx.nd.random.uniform(shape=(301,))

    net = Net()
    x = mx.nd.ones((301,))
    found = []
    for active in (False, True):
        net.hybridize(active)
        mx.random.seed(9)
        with mx.autograd.record():
            found.append(net(x).asnumpy())
    np.testing.assert_array_equal(*found)

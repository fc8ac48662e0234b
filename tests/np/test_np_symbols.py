"""Symbols of mx.np: files and results are MXNet's (tests/golden/make_np_symbols.py)."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as onp
import pytest

import hybridc as mx
from hybridc import autograd, gluon, np, npx
from hybridc.gluon import nn
from hybridc.util import np_array, np_shape

GOLDEN = Path(__file__).parent.parent / "golden"
sys.path.insert(0, str(GOLDEN))

from np_symbol_cases import X, Y  # noqa: E402

RECORDED = json.loads((GOLDEN / "np_symbols.json").read_text())
# Expressions for which we write other operators than MXNet, which it knows, too.
OTHER_NAMES = {
    "-x": ["_npi_negative"],
    "x[:, 1:2]": ["slice"],
    "S.npx.relu(x)": ["relu"],
    "S.np.maximum(x, y)": ["_npi_maximum"],
    "S.np.flip(x, 0)": ["_npi_flip"],
}
S = mx.sym


def composed(expression):
    x, y = (mx.sym.var(name).as_np_ndarray() for name in "xy")
    return eval(expression, {"S": S, "x": x, "y": y})


def values(symbol):
    arrays = {"x": np.array(X), "y": np.array(Y)}
    return symbol.eval(**{name: arrays[name] for name in symbol.list_inputs()}, ctx=mx.cpu())[0]


def operators(text):
    return [node["op"] for node in json.loads(text)["nodes"] if node["op"] != "null"]


@pytest.mark.parametrize(("expression", "written", "result"), RECORDED, ids=[case for case, _, _ in RECORDED])
def test_same_as_mxnet(expression, written, result):
    symbol = composed(expression)
    ours = operators(symbol.tojson())
    assert ours == OTHER_NAMES.get(expression, operators(written))
    if result is None:
        return
    for each in (symbol, mx.sym.load_json(written), mx.sym.load_json(symbol.tojson())):
        found = values(each)
        onp.testing.assert_allclose(found.asnumpy(), onp.array(result[0]), rtol=2e-6, atol=1e-6)
        assert found.shape == onp.shape(result[0])
        assert found.dtype == onp.dtype(result[1])


def test_inference():
    x = mx.sym.var("x").as_np_ndarray()
    assert (x > 0).infer_type(x="float32")[1] == [onp.bool_]
    assert S.np.argmax(x, axis=1).infer_type(x="float32")[1] == [onp.int64]
    with np_shape():
        assert x.sum().infer_shape(x=(2, 3))[1] == [()]
        assert S.np.concatenate([x, x], axis=1).infer_shape(x=(2, 3))[1] == [(2, 6)]


def test_several_results_and_gradients():
    x = mx.sym.var("x").as_np_ndarray()
    left, right = S.np.split(x, 2, axis=1)
    total = (left * right).sum()
    executor = total.as_nd_ndarray().simple_bind(mx.cpu(), x=(3, 4))
    executor.arg_dict["x"][:] = onp.arange(12).reshape(3, 4)
    executor.forward(is_train=True)
    executor.backward(mx.nd.ones(executor.outputs[0].shape))
    data = onp.arange(12.0).reshape(3, 4)
    onp.testing.assert_allclose(executor.outputs[0].asnumpy().item(), (data[:, :2] * data[:, 2:]).sum())
    onp.testing.assert_allclose(executor.grad_dict["x"].asnumpy(), onp.hstack([data[:, 2:], data[:, :2]]))


class Network(nn.HybridBlock):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.hidden = nn.Dense(4, activation="relu")
            self.weight = self.params.get("weight", shape=(4, 3))

    def hybrid_forward(self, F, x, weight):
        hidden = self.hidden(x)
        scores = F.np.dot(hidden, weight) + 1
        return F.npx.softmax(scores).sum(axis=1) * F.np.where(scores > 1, scores, 0 * scores).mean(), hidden[:, 1:3]


@pytest.fixture
def network():
    with np_shape(), np_array():
        net = Network()
        net.initialize(mx.init.Uniform(1.0))
        yield net


def test_exported_network(network, tmp_path):
    x = np.random.uniform(size=(5, 6))
    network.hybridize()
    first = network(x)
    network.export(str(tmp_path / "net"))
    loaded = gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"], str(tmp_path / "net-0000.params"))
    for hybridized in (False, True):
        loaded.hybridize(hybridized)
        for a, b in zip(first, loaded(x), strict=True):
            assert isinstance(b, np.ndarray)
            onp.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=1e-6)
    ours = set(operators((tmp_path / "net-symbol.json").read_text()))
    assert {"FullyConnected", "_np_dot", "_npi_add_scalar", "softmax", "_np_sum", "_npi_where"} <= ours


def test_hybridized_is_eager(network):
    x = np.random.uniform(size=(5, 6))
    x.attach_grad()

    def step():
        with autograd.record():
            a, b = network(x)
            loss = (a.sum() * b).mean()
        loss.backward()
        return a, b, x.grad, network.weight.grad()

    eager = [y.asnumpy() for y in step()]
    network.hybridize()
    compiled = step()
    for a, b in zip(eager, compiled, strict=True):
        assert isinstance(b, np.ndarray)
        onp.testing.assert_allclose(a, b.asnumpy(), rtol=1e-5, atol=1e-7)


def test_arrays_of_both_kinds_have_graphs_of_their_own():
    class First(nn.HybridBlock):
        def hybrid_forward(self, F, x):
            return x[0]

    block = First()
    block.hybridize()
    assert block(np.array([1.0, 2.0])).shape == ()
    assert block(mx.nd.array([1.0, 2.0])).shape == (1,)
    assert type(block(np.array([1.0, 2.0]))) is np.ndarray


def test_composed_constraint():
    assert npx.constraint_check(np.array([1, 1]) > 0, "positive")
    with pytest.raises(ValueError, match="positive"):
        npx.constraint_check(np.array([1, -1]) > 0, "positive")

"""Symbols of mx.np: files and results are MXNet's (tests/golden/make_np_symbols.py)."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as onp
import pytest

import hybridc as mx
from hybridc import autograd, gluon, np, npx
from hybridc.dialects import operator_registry
from hybridc.gluon import nn
from hybridc.symbol.np_calls.np_call import of_file
from hybridc.symbol.np_calls.np_call_names import BY_TITLE, OF_ND
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
    "S.np.ravel(x)": ["_np_reshape"],
    "S.np.random.beta(1.0, 2.0, (3,))": ["_npi_gamma", "_npi_gamma", "_npi_add", "_npi_true_divide"],
}
# Names of one operator of MXNet, of which it writes the second.
SECOND_NAMES = {f"_npi_{name}_scalar": f"_{name}_scalar" for name in ("hypot", "maximum", "minimum")}
SECOND_NAMES |= {"_npi_det": "_linalg_det", "_npi_slogdet": "_linalg_slogdet", "_npi_inv": "_linalg_inverse"}
SECOND_NAMES |= {"sigmoid": "_npx_sigmoid"}
S = mx.sym
SCALARS = operator_registry.of_scalar()


def composed(expression):
    x, y = (mx.sym.var(name).as_np_ndarray() for name in "xy")
    found = eval(expression, {"S": S, "x": x, "y": y})
    return found if isinstance(found, mx.sym.Symbol) else found[0]


def values(symbol):
    arrays = {"x": np.array(X), "y": np.array(Y)}
    return symbol.eval(**{name: arrays[name] for name in symbol.list_inputs()}, ctx=mx.cpu())[0]


def operators(text):
    return [node["op"] for node in json.loads(text)["nodes"] if node["op"] != "null"]


@pytest.mark.parametrize(("expression", "written", "result"), RECORDED, ids=[case for case, _, _ in RECORDED])
def test_same_as_mxnet(expression, written, result):
    with np_shape():
        symbols = [mx.sym.load_json(written)]
    if "_internal" not in expression:
        symbol = composed(expression)
        ours = operators(symbol.tojson())
        renamed = [SECOND_NAMES.get(name, name) for name in ours]
        assert OTHER_NAMES.get(expression, operators(written)) in (ours, renamed)
        symbols += [symbol, mx.sym.load_json(symbol.tojson())]
    symbols.append(mx.sym.load_json(symbols[0].tojson()))
    if result is None:
        return
    for each in symbols:
        found = values(each)
        assert found.shape == tuple(result[2])
        assert found.dtype == onp.dtype(result[1])
        if result[0] is not None:
            onp.testing.assert_allclose(found.asnumpy(), onp.array(result[0]), rtol=2e-6, atol=2e-6)


X_ = np.array(X)
Y_ = np.array(Y)
COUNTED = np.array([1, 1, 3], dtype="int32")
# Operators whose results have shapes that depend on values, or that only other programs write: operator, attributes,
# inputs, and the same with functions of mx.np.
READ = (
    ("_npi_bincount", {"minlength": "5", "has_weights": "False"}, [COUNTED], lambda: np.bincount(COUNTED, minlength=5)),
    ("_npi_bincount", {}, [COUNTED, X_[0, [0, 1, 1]]], lambda: np.bincount(COUNTED, X_[0, [0, 1, 1]])),
    ("_npi_delete", {"int_ind": "1", "axis": "0"}, [X_], lambda: np.delete(X_, 1, axis=0)),
    ("_npi_delete", {"start": "0", "stop": "1", "step": "1"}, [X_], lambda: np.delete(X_, slice(0, 1, 1))),
    ("_npi_delete", {"axis": "1"}, [X_, COUNTED[:1]], lambda: np.delete(X_, COUNTED[:1], axis=1)),
    (
        "_npi_insert_slice",
        {"start": "0", "stop": "2", "val": "5.0", "axis": "0"},
        [X_],
        lambda: np.insert(X_, slice(0, 2), 5.0, axis=0),
    ),
    ("_npi_insert_tensor", {"axis": "1"}, [X_, Y_, COUNTED[:2]], lambda: np.insert(X_, COUNTED[:2], Y_, axis=1)),
    ("_npi_insert_tensor", {"val": "4.0"}, [X_, COUNTED[:2]], lambda: np.insert(X_, COUNTED[:2], 4.0)),
    ("_npi_unique", {"return_counts": "True"}, [Y_], lambda: np.unique(Y_, return_counts=True)),
    ("_npx_nonzero", {}, [X_ > 0], lambda: npx.nonzero(X_ > 0)),
    ("_npi_boolean_mask_assign_scalar", {"value": "7.0"}, [X_, X_ > 0], lambda: np.where(X_ > 0, 7.0, X_)),
    (
        "_npi_boolean_mask_assign_scalar",
        {"value": "7.0", "start_axis": "1"},
        [X_, np.array([True, False], dtype="bool")],
        lambda: np.array([[7.0, 0.5], [7.0, 3.0]]),
    ),
    (
        "_npi_boolean_mask_assign_tensor",
        {},
        [X_, X_ > 0, Y_[0, [0, 1, 1]]],
        lambda: np.array([[-1.0, 4.0], [-2.0, -2.0]]),
    ),
    ("_npi_share_memory", {}, [X_, X_], lambda: np.array(True)),
    ("_npi_pinv", {"hermitian": "False"}, [X_, np.array(0.1)], lambda: np.linalg.pinv(X_, 0.1)),
    ("_npi_lcm_scalar", {"scalar": "4.0", "is_int": "False"}, [COUNTED], lambda: np.lcm(COUNTED, 4)),
    ("_npi_multinomial", {"n": "4", "pvals": "(1.0, 0.0)"}, [], lambda: np.array([4, 0])),
    ("_npi_multinomial", {"n": "4", "pvals": "None"}, [np.array([1.0, 0.0])], lambda: np.array([4, 0])),
    (
        "_npi_choice",
        {"a": "2", "size": "(3,)", "replace": "True", "weighted": "True"},
        [np.array([0.0, 1.0])],
        lambda: np.array([1, 1, 1]),
    ),
    ("_npi_bernoulli", {"prob": "None", "logit": "None", "is_logit": "True"}, [X_ * 1000], lambda: X_ > 0),
    ("_npi_split", {"indices": "[0, 1]", "axis": "1", "sections": "0"}, [X_], lambda: np.split(X_, [1], axis=1)),
    ("_npi_norm", {"axis": "(1,)", "flag": "1", "ord": "2"}, [X_], lambda: np.linalg.norm(X_, axis=1)),
    ("_npi_concatenate", {"axis": "None", "num_args": "2"}, [X_, Y_], lambda: np.concatenate([X_, Y_], axis=None)),
)


@pytest.mark.parametrize(("title", "attrs", "inputs", "expected"), READ, ids=[row[0] for row in READ])
def test_reading(title, attrs, inputs, expected):
    call = of_file(title, attrs, len(inputs))
    assert call is not None
    wanted = expected()
    results = call.call(*inputs)
    for found, reference in zip(results, wanted if isinstance(wanted, list | tuple) else [wanted], strict=True):
        onp.testing.assert_array_equal(found.asnumpy(), reference.asnumpy())


OPERATORS = (GOLDEN / "np_operators.txt").read_text().split()
# Operators on files of images, which are no operators of graphs.
NOT_READ = {"_npi_cvimdecode", "_npi_cvimread", "_npi_cvimresize"}


def test_all_operators_of_mxnet_are_known():
    unknown = {
        name
        for name in OPERATORS
        if not (
            name in BY_TITLE
            or OF_ND.get(name, name) in SCALARS
            or operator_registry.of_mxnet(OF_ND.get(name, name))
            or of_file(name, {}, 2)
            or of_file(name, {"scalar": "1"}, 1)
        )
    }
    assert unknown == NOT_READ


def test_inference():
    x = mx.sym.var("x").as_np_ndarray()
    assert (x > 0).infer_type(x="float32")[1] == [onp.bool_]
    assert S.np.argmax(x, axis=1).infer_type(x="float32")[1] == [onp.int64]
    with np_shape():
        assert x.sum().infer_shape(x=(2, 3))[1] == [()]
        assert S.np.concatenate([x, x], axis=1).infer_shape(x=(2, 3))[1] == [(2, 6)]


def test_inference_draws_no_random_number():
    symbol = S.np.random.uniform(size=(2, 3)) + 1
    mx.random.seed(3)
    before = np.random.uniform(size=(4,)).asnumpy()
    mx.random.seed(3)
    assert symbol.infer_type()[1] == [onp.float32]
    with np_shape():
        assert symbol.infer_shape()[1] == [(2, 3)]
    onp.testing.assert_array_equal(np.random.uniform(size=(4,)).asnumpy(), before)


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

"""ONNX models as blocks: called, compiled at each size, trained, and in the forms of MXNet's importer."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import hybridc as mx
from hybridc.options import OPTIONS
from hybridc.tools.onnx_operators import openvino as by_openvino
from tests.onnx.onnx_models import by_runtime, mlp, model, results

X = np.random.RandomState(1).randn(5, 3).astype("float32")


def by_numpy(weights, x=X):
    """What the network of two layers gives."""
    hidden = np.maximum(x.astype("float64") @ weights["w1"] + weights["b1"], 0)
    return hidden @ weights["w2"].T + weights["b2"]


@pytest.mark.parametrize("hybridize", [False, True])
def test_a_file_is_a_block_with_named_inputs(tmp_path, hybridize):
    built, weights = mlp()
    onnx.save(built, tmp_path / "mlp.onnx")
    net = mx.onnx.load(tmp_path / "mlp.onnx")
    assert (net.input_names, net.output_names) == (["x"], ["y"])
    if hybridize:
        net.hybridize()
    for y in (net(mx.np.array(X)), net(x=mx.np.array(X)), net(X)):
        assert type(y) is mx.np.ndarray
        np.testing.assert_allclose(y.asnumpy(), by_numpy(weights), rtol=1e-5)
    legacy = net(mx.nd.array(X))
    assert type(legacy) is mx.nd.NDArray
    np.testing.assert_allclose(legacy.asnumpy(), by_numpy(weights), rtol=1e-5)


def test_results_are_those_of_onnx_runtime():
    built, _ = mlp()
    np.testing.assert_allclose(results(built, X, hybridize=True)[0], by_runtime(built, x=X)[0], rtol=1e-5)


def shapes_model():
    """Reshape to a shape that is computed from the data's."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"]),
        helper.make_node("Concat", ["n", "rest"], ["shape"], axis=0),
        helper.make_node("Reshape", ["x", "shape"], ["y"]),
    ]
    return model(nodes, {"x": ("float32", ["N", 2, 3])}, ["y"], {"zero": np.array([0]), "rest": np.array([-1])})


def test_sizes_fold_while_a_graph_is_traced():
    net = mx.onnx.load(shapes_model())
    net.hybridize()
    for n in (4, 2, 4):
        x = np.random.RandomState(n).randn(n, 2, 3).astype("float32")
        np.testing.assert_array_equal(net(mx.np.array(x)).asnumpy(), x.reshape(n, -1))
    assert "shape_array" not in str(net.trace(mx.np.array(x)))


def test_a_network_is_compiled_before_its_first_call():
    net = mx.onnx.load(mlp()[0])
    net.hybridize()
    net.compile((5, 3))
    with mx.no_recompile():
        assert net(mx.np.array(X)).shape == net(mx.nd.array(X)).shape == (5, 2)


def test_an_input_of_sizes_is_part_of_a_compiled_graph():
    built = model([helper.make_node("Reshape", ["x", "s"], ["y"])], {"x": ("float32", [6]), "s": ("int64", [2])}, ["y"])
    net = mx.onnx.load(built)
    net.hybridize()
    x = np.arange(6, dtype="float32")
    for shape in ((2, 3), (3, 2), (2, 3)):
        assert net(mx.np.array(x), np.array(shape)).shape == shape


def chosen_model():
    """The rows of ``relu(x @ w)`` whose sum is above 0, times 3: how many there are follows from values."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"]),
        helper.make_node("Relu", ["product"], ["positive"]),
        helper.make_node("ReduceSum", ["positive", "axis"], ["sums"], keepdims=0),
        helper.make_node("NonZero", ["sums"], ["found"]),
        helper.make_node("Squeeze", ["found", "first"], ["rows"]),
        helper.make_node("Gather", ["positive", "rows"], ["chosen"]),
        helper.make_node("Mul", ["chosen", "three"], ["y"]),
    ]
    constants = {"axis": np.array([1]), "first": np.array([0]), "three": np.array(3, "float32")}
    return model(nodes, {"x": ("float32", ["n", 2])}, ["y"], {"w": np.eye(2, 3, dtype="float32"), **constants})


def test_what_is_around_sizes_that_follow_from_values_is_compiled():
    net = mx.onnx.load(chosen_model())
    net.hybridize()
    weight = net.collect_params()["w"]
    for x in ([[1, 2], [-1, -2], [3, -1]], [[-1, 2], [-1, -2], [-3, -1]], [[-1, -2], [-3, -1]], [[1, 1]]):
        data = np.array(x, "float32")
        hidden = np.maximum(data @ np.eye(2, 3), 0)
        rows = hidden.sum(1) > 0
        with mx.autograd.record():
            y = net(mx.np.array(data))
        y.backward()
        np.testing.assert_array_equal(y.asnumpy(), 3 * hidden[rows])
        np.testing.assert_array_equal(weight.grad().asnumpy(), data.T @ (3 * (hidden > 0) * rows[:, None]))
    explained = str(net.explain())
    assert [line for line in explained.splitlines() if line.startswith(("nodes", "the node"))] == [
        f"nodes 0 to 2: {net._parts[0].block.name}: traced 3 times",
        "the node NonZero of ('found',): runs at once, as sizes follow from values",
        f"nodes 4 to 6: {net._parts[2].block.name}: traced 4 times",
    ]


def test_sizes_that_follow_from_values_are_an_error_in_a_graph_around():
    class Around(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.inner = mx.onnx.load(chosen_model())

        def forward(self, x):
            return self.inner(x)

    net = Around()
    net.hybridize()
    with pytest.raises(mx.errors.OnnxUnsupportedError, match=r"NonZero.* must be known when the graph is compiled"):
        net(mx.np.ones((2, 2)))


@pytest.mark.parametrize("hybridize", [False, True])
def test_float_initializers_train(hybridize):
    built, weights = mlp()
    net = mx.contrib.onnx.import_to_gluon(built, mx.cpu())
    if hybridize:
        net.hybridize()
    assert sorted(net.collect_params()) == ["b1", "b2", "w1", "w2"]
    with mx.autograd.record():
        loss = (net(mx.np.array(X)) ** 2).sum()
    loss.backward()
    y = by_numpy(weights)
    hidden = np.maximum(X.astype("float64") @ weights["w1"] + weights["b1"], 0)
    np.testing.assert_allclose(net.collect_params()["w2"].grad().asnumpy(), (2 * y).T @ hidden, rtol=1e-4)
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1e-3})
    trainer.step(1)
    assert float((net(mx.np.array(X)) ** 2).sum()) < float(loss)


@pytest.mark.parametrize("hybridize", [False, True])
def test_running_statistics_move_and_have_no_gradient(hybridize):
    nodes = [helper.make_node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"], momentum=0.75)]
    ones = np.ones(3, "float32")
    net = mx.onnx.load(model(nodes, {"x": ("float32", ["N", 3])}, ["y"], {"s": ones, "b": ones, "m": ones, "v": ones}))
    requests = {name: p.grad_req for name, p in net.collect_params().items()}
    assert requests == {"s": "write", "b": "write", "m": "null", "v": "null"}
    if hybridize:
        net.hybridize()
    np.testing.assert_allclose(net(X).asnumpy(), (X - 1) / np.sqrt(1 + 1e-5) + 1, rtol=1e-5, atol=1e-6)
    with mx.autograd.record():
        y = net(mx.np.array(X))
    np.testing.assert_allclose(y.asnumpy(), (X - X.mean(0)) / np.sqrt(X.var(0) + 1e-5) + 1, rtol=1e-3, atol=1e-4)
    moved = net.collect_params()["m"].data().asnumpy()
    np.testing.assert_allclose(moved, 0.75 + 0.25 * X.mean(0), rtol=1e-5)


def images():
    """A small convolutional network."""
    random = np.random.RandomState(5)
    weights = {
        "k": random.randn(6, 2, 3, 3).astype("float32"),
        "s": random.rand(6).astype("float32") + 0.5,
        "m": random.randn(6).astype("float32"),
        "w": random.randn(6, 4).astype("float32"),
    }
    nodes = [
        helper.make_node("Conv", ["x", "k"], ["c"], pads=[1, 1, 0, 0], strides=[2, 1]),
        helper.make_node("BatchNormalization", ["c", "s", "m", "m", "s"], ["n"]),
        helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2], auto_pad="SAME_UPPER"),
        helper.make_node("Resize", ["p", "", "f"], ["z"], mode="linear"),
        helper.make_node("GlobalAveragePool", ["z"], ["g"]),
        helper.make_node("Flatten", ["g"], ["h"]),
        helper.make_node("MatMul", ["h", "w"], ["q"]),
        helper.make_node("Softmax", ["q"], ["y"]),
    ]
    weights["f"] = np.array([1, 1, 2, 1.5], "float32")
    return model(nodes, {"x": ("float32", ["N", 2, 9, 7])}, ["y"], weights, opset=17)


@pytest.mark.parametrize("hybridize", [False, True])
def test_a_convolutional_network_is_that_of_two_other_engines(hybridize):
    built = images()
    x = np.random.RandomState(6).randn(3, 2, 9, 7).astype("float32")
    have = results(built, x, hybridize=hybridize)[0]
    np.testing.assert_allclose(have, by_runtime(built, x=x)[0], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(have, by_openvino(built, {"x": x})[0], rtol=1e-3, atol=1e-5)


def test_integers_that_are_not_compiled_are_computed_in_wider_ones():
    nodes = [helper.make_node("Add", ["x", "c"], ["s"]), helper.make_node("Mul", ["s", "s"], ["y"])]
    built = model(nodes, {"x": ("uint16", [3])}, ["y"], {"c": np.array(7, "uint16")})
    built.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.UINT16
    x = np.array([1, 300, 65000], "uint16")
    found = results(built, x, hybridize=True)[0]
    assert found.dtype == np.uint16
    np.testing.assert_array_equal(found, (x + np.uint16(7)) ** 2)


def test_a_symbol_with_its_arrays(tmp_path):
    built, weights = mlp(batch=5)
    onnx.save(built, tmp_path / "mlp.onnx")
    symbol, arguments, states = mx.contrib.onnx.import_model(str(tmp_path / "mlp.onnx"))
    assert set(symbol.list_arguments()) == {"x", *weights}
    assert set(arguments) == set(weights)
    assert not states
    found = symbol.eval(x=mx.nd.array(X), **arguments)[0].asnumpy()
    np.testing.assert_allclose(found, by_numpy(weights), rtol=1e-5)
    metadata = mx.contrib.onnx.get_model_metadata(str(tmp_path / "mlp.onnx"))
    assert metadata == {"input_tensor_data": [("x", (5, 3), 1)], "output_tensor_data": [("y", ())]}
    assert mx.contrib.onnx.onnx2mx.import_onnx.GraphProto().get_graph_metadata(built.graph) == metadata


def test_running_statistics_are_auxiliary_states_of_a_symbol():
    nodes = [helper.make_node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"])]
    values = dict(zip("sbmv", np.float32([[1, 2, 3], [0, 1, 0], [1, 1, 2], [1, 4, 9]]), strict=True))
    with pytest.warns(UserWarning, match="of the first size 1, as the file leaves it open"):
        symbol, arguments, states = mx.onnx.import_model(model(nodes, {"x": ("float32", ["N", 3])}, ["y"], values))
    assert (set(arguments), set(states)) == ({"s", "b"}, {"m", "v"})
    found = symbol.eval(x=mx.nd.array(X[:1]), **arguments, **states)[0].asnumpy()
    want = (X[:1] - values["m"]) / np.sqrt(values["v"] + 1e-5) * values["s"] + values["b"]
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)


def test_the_names_of_mxnet():
    from hybridc.contrib.onnx.onnx2mx import import_model, import_to_gluon

    assert mx.contrib.onnx.import_model is import_model.import_model is mx.contrib.onnx.import_model_
    assert mx.contrib.onnx.import_to_gluon is import_to_gluon.import_to_gluon


def test_the_core_does_not_import_onnx():
    code = "import sys, hybridc as mx; mx.contrib.onnx; mx.onnx; sys.exit('onnx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_the_package_the_error_names_the_extra():
    code = "import sys\nsys.modules['onnx'] = None\nimport hybridc as mx\nmx.onnx.load('a.onnx')"
    found = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert "MissingPackageError: hybridc.onnx.load needs the package onnx: pip install 'hybridc[onnx]'" in found.stderr


@pytest.mark.skipif(OPTIONS.target != "llvm", reason="the llvm target keeps prepared values")
def test_a_constant_does_not_keep_weights_from_being_prepared():
    weight = np.random.RandomState(7).randn(64, 64).astype("float32")
    nodes = [
        helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(np.array(3, "float32"), "c")),
        helper.make_node("Mul", ["w", "c"], ["scaled"]),
        helper.make_node("MatMul", ["x", "scaled"], ["y"]),
    ]
    net = mx.onnx.load(model(nodes, {"x": ("float32", [2, 5, 64])}, ["y"], {"w": weight}))
    net.hybridize()
    x = np.random.RandomState(8).randn(2, 5, 64).astype("float32")
    for _ in range(2):
        np.testing.assert_allclose(net(x).asnumpy(), 3 * (x @ weight), rtol=1e-4, atol=1e-4)
    assert "done 1 time, whose" in str(net.explain())

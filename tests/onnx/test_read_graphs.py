"""Graphs inside nodes, functions of models, recurrent layers: eagerly and compiled, against NumPy and ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

import hybridc as mx
from tests.onnx.onnx_models import by_runtime, graph, model, results

X = np.random.RandomState(0).randn(4, 3).astype("float32")


@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_condition_that_follows_from_values(hybridize, sign):
    branches = {
        "then_branch": graph([helper.make_node("Mul", ["x", "x"], ["a"])], [], ["a"]),
        "else_branch": graph([helper.make_node("Neg", ["x"], ["a"])], [], ["a"]),
    }
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["t"], keepdims=0),
        helper.make_node("Greater", ["t", "zero"], ["c"]),
        helper.make_node("If", ["c"], ["y"], **branches),
    ]
    built = model(nodes, {"x": ("float32", [4, 3])}, ["y"], {"zero": np.float32(0)})
    x = sign * np.abs(X)
    np.testing.assert_allclose(results(built, x, hybridize=hybridize)[0], x * x if sign > 0 else -x, rtol=1e-6)


@pytest.mark.parametrize("hybridize", [False, True])
def test_a_loop_of_known_steps_stacks_its_results(hybridize):
    body = graph(
        [
            helper.make_node("Add", ["s", "x"], ["t"]),  # x is captured
            helper.make_node("Identity", ["c"], ["d"]),
            helper.make_node("Mul", ["t", "t"], ["q"]),
        ],
        ["i", "c", "s"],
        ["d", "t", "q"],
    )
    nodes = [helper.make_node("Loop", ["n", "", "x"], ["last", "all"], body=body)]
    built = model(nodes, {"x": ("float32", [4, 3])}, ["last", "all"], {"n": np.array(3)})
    last, squares = results(built, X, hybridize=hybridize)
    np.testing.assert_allclose(last, 4 * X, rtol=1e-6)
    np.testing.assert_allclose(squares, np.stack([(k * X) ** 2 for k in (2, 3, 4)]), rtol=1e-5)


@pytest.mark.parametrize("hybridize", [False, True])
def test_a_loop_while_a_condition_holds(hybridize):
    body = graph(
        [
            helper.make_node("Add", ["s", "s"], ["t"]),
            helper.make_node("ReduceSum", ["t"], ["sum"], keepdims=0),
            helper.make_node("Less", ["sum", "limit"], ["d"]),
        ],
        ["i", "c", "s"],
        ["d", "t"],
    )
    nodes = [helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)]
    built = model(nodes, {"x": ("float32", [2])}, ["y"], {"n": np.array(20), "limit": np.float32(100)})
    np.testing.assert_array_equal(results(built, np.ones(2, "float32"), hybridize=hybridize)[0], [64, 64])


def test_a_loop_that_runs_at_once_has_a_compiled_body():
    """Its results are stacked, and their number follows from values."""
    body = graph(
        [
            helper.make_node("Mul", ["s", "factor"], ["t"]),
            helper.make_node("ReduceSum", ["t"], ["sum"], keepdims=0),
            helper.make_node("Less", ["sum", "limit"], ["d"]),
            helper.make_node("Identity", ["t"], ["u"]),
        ],
        ["i", "c", "s"],
        ["d", "t", "u"],
    )
    nodes = [
        helper.make_node("Relu", ["x"], ["positive"]),
        helper.make_node("Loop", ["n", "", "positive"], ["last", "all"], body=body),
        helper.make_node("Neg", ["all"], ["y"]),
    ]
    constants = {"n": np.array(20), "limit": np.float32(100), "factor": np.array([2, 3], "float32")}
    net = mx.onnx.load(model(nodes, {"x": ("float32", [2])}, ["y"], constants))
    net.hybridize()
    for x in ([1, 1], [1, -1], [60, 0]):
        state, rows = np.maximum(np.array(x, "float32"), 0), []
        while not rows or rows[-1].sum() < 100:
            state = state * [2, 3]
            rows.append(state)
        np.testing.assert_array_equal(net(np.array(x, "float32")).asnumpy(), -np.stack(rows))
    (compiled,) = net._bodies.values()
    assert f"{compiled.block.name}: traced once" in str(compiled.block.explain())


@pytest.mark.parametrize("hybridize", [False, True])
def test_a_scan_is_one_loop(hybridize):
    body = graph(
        [helper.make_node("Add", ["s", "r"], ["t"]), helper.make_node("Identity", ["t"], ["u"])], ["s", "r"], ["t", "u"]
    )
    nodes = [helper.make_node("Scan", ["start", "x"], ["last", "y"], body=body, num_scan_inputs=1)]
    built = model(nodes, {"x": ("float32", [4, 3])}, ["last", "y"], {"start": np.zeros(3, "float32")})
    last, sums = results(built, X, hybridize=hybridize)
    np.testing.assert_allclose(sums, np.cumsum(X, 0), rtol=1e-5)
    np.testing.assert_allclose(last, X.sum(0), rtol=1e-5)


@pytest.mark.parametrize("hybridize", [False, True])
def test_a_function_of_the_model_with_an_attribute_that_its_call_decides(hybridize):
    elu = helper.make_node("Elu", ["a"], ["b"])
    elu.attribute.add(name="alpha", ref_attr_name="slope", type=1)
    function = helper.make_function("own", "Soft", ["a"], ["b"], [elu], [helper.make_opsetid("", 21)], ["slope"])
    nodes = [helper.make_node("Soft", ["x"], ["y"], domain="own", slope=2.0)]
    built = model(nodes, {"x": ("float32", [4, 3])}, ["y"], functions=[function])
    want = np.where(X > 0, X, 2 * np.expm1(X))
    np.testing.assert_allclose(results(built, X, hybridize=hybridize)[0], want, rtol=1e-5)


@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize(("kind", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_recurrent_layers_in_both_directions(kind, gates, hybridize):
    random = np.random.RandomState(3)
    weights = {
        "w": random.randn(2, gates * 5, 3).astype("float32"),
        "r": random.randn(2, gates * 5, 5).astype("float32"),
        "b": random.randn(2, gates * 10).astype("float32"),
        "lengths": np.array([4, 2], "int32"),
    }
    nodes = [helper.make_node(kind, ["x", *weights], ["y", "h"], hidden_size=5, direction="bidirectional")]
    built = model(nodes, {"x": ("float32", [4, 2, 3])}, ["y", "h"], weights, opset=14)
    x = random.randn(4, 2, 3).astype("float32")
    for have, want in zip(results(built, x, hybridize=hybridize), by_runtime(built, x=x), strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("hybridize", [False, True])
def test_a_loop_of_many_steps_is_one_loop_of_the_program(hybridize):
    nodes = [
        helper.make_node("Cast", ["i"], ["f"], to=1),
        helper.make_node("Add", ["s", "f"], ["t"]),
        helper.make_node("Identity", ["c"], ["d"]),
    ]
    body = graph(nodes, ["i", "c", "s"], ["d", "t"])
    built = model(
        [helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)],
        {"x": ("float32", [2])},
        ["y"],
        {"n": np.array(300)},
    )
    np.testing.assert_array_equal(results(built, np.ones(2, "float32"), hybridize=hybridize)[0], [44851, 44851])

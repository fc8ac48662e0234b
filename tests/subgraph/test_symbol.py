"""``Symbol.optimize_for``: names, inference, execution, and the graph it started from."""

from __future__ import annotations

import re

import numpy as np
import pytest
from backends import RAN, note, numeric_gradient, partitioner

import hybridc as mx
from hybridc import nd
from hybridc.errors import MXNetError, ShapeError
from tests.slices import one_in

pytestmark = pytest.mark.usefixtures("by_numpy")


def titles(symbol):
    """The operators inside each subgraph of a symbol."""
    nodes = [n for n, _ in symbol.get_internals().entries]
    found = {n.name: n.op for n in nodes if n.op is not None and n.op.NAME == "hybrid.subgraph"}
    return {name: [step.op.title() for step in op.body.operators()] for name, op in found.items()}


def network():
    a, b = mx.sym.var("a"), mx.sym.var("b", lr_mult=2)
    fc = mx.sym.FullyConnected(a, num_hidden=3, name="fc")
    bn = mx.sym.BatchNorm(fc, name="bn", fix_gamma=False)
    return mx.sym.tanh(mx.sym.exp(bn * 0.1) + b * 2, name="tanh")


TASTES = [
    ({"exp", "add", "multiply"}, [["multiply", "exp", "multiply", "add"]]),
    ({"BatchNorm", "FullyConnected"}, [["FullyConnected", "BatchNorm"]]),
    ({"BatchNorm", "exp", "multiply"}, None),
    ({"tanh"}, [["tanh"]]),
    ({"sin"}, []),
]


@pytest.mark.parametrize(("known", "dtype"), one_in(2, [(False, "float64"), (True, "float32")]))
@pytest.mark.parametrize(("wanted", "expected"), TASTES)
def test_an_executor_gives_the_same(wanted, expected, known, dtype):
    partitioner("taken", wanted)
    plain = network()
    symbol = plain.optimize_for("taken", **({"shape_dict": {"a": (4, 2)}} if known else {}))
    if expected is not None:
        assert [sorted(ops) for ops in titles(symbol).values()] == [sorted(ops) for ops in expected]
    assert symbol.list_arguments() == plain.list_arguments()
    assert symbol.list_auxiliary_states() == ["bn_moving_mean", "bn_moving_var"]
    assert symbol.infer_shape(a=(4, 2)) == plain.infer_shape(a=(4, 2))
    assert symbol.infer_type(a=dtype, b=dtype) == plain.infer_type(a=dtype, b=dtype)
    assert symbol.attr_dict()["b"] == plain.attr_dict()["b"]
    found = [results_of(s, dtype) for s in (plain, symbol)]
    for got, reference in zip(found[1], found[0], strict=True):
        np.testing.assert_allclose(got, reference, rtol=1e-5 if dtype == "float32" else 1e-12, atol=1e-6)
    assert bool(RAN) == bool(titles(symbol))


def results_of(symbol, dtype):
    executor = symbol.simple_bind(a=(4, 2), b=(4, 3), type_dict={"a": dtype, "b": dtype})
    for name, array in executor.arg_dict.items():
        array[:] = np.random.RandomState(len(name)).uniform(0.5, 1, array.shape)
    executor.aux_dict["bn_moving_var"][:] = 1
    outs = [executor.forward(is_train=train)[0].asnumpy() for train in (False, True, True, False, True)]
    executor.backward(nd.array(np.random.RandomState(9).rand(4, 3), dtype=dtype))
    grads = [g.asnumpy() for g in executor.grad_dict.values()]
    return [*outs, *grads, *[a.asnumpy() for a in executor.aux_dict.values()]]


def test_against_numpy_and_finite_differences():
    partitioner("taken", {"exp", "multiply"})
    x, y = mx.sym.var("x"), mx.sym.var("y")
    symbol = mx.sym.sin(mx.sym.exp(x) * y * 3).optimize_for("taken")
    assert titles(symbol) == {"taken0": ["exp", "multiply", "multiply"]}
    a, b = np.random.RandomState(0).rand(2, 3, 2)
    executor = symbol.bind(mx.cpu(), {"x": nd.array(a, dtype="float64"), "y": nd.array(b, dtype="float64")}, [
        nd.zeros((3, 2), dtype="float64"),
        nd.ones((3, 2), dtype="float64"),
    ], grad_req=["write", "add"])  # fmt: skip
    (out,) = executor.forward(is_train=True)
    np.testing.assert_allclose(out.asnumpy(), np.sin(np.exp(a) * b * 3), rtol=1e-12)
    executor.backward(nd.ones((3, 2), dtype="float64"))
    da, db = numeric_gradient(lambda a, b: np.sin(np.exp(a) * b * 3).sum(), [a, b])
    np.testing.assert_allclose(executor.grad_dict["x"].asnumpy(), da, rtol=1e-6)
    np.testing.assert_allclose(executor.grad_dict["y"].asnumpy(), db + 1, rtol=1e-6)


def test_names_and_attributes_of_what_stays():
    partitioner("taken", {"exp"})
    with mx.AttrScope(ctx_group="stage1"):
        x = mx.sym.var("x")
        first = mx.sym.sin(x, name="first")
    plain = mx.sym.Group([mx.sym.cos(mx.sym.exp(first, name="exp"), name="last"), first, x])
    symbol = plain.optimize_for("taken")
    assert symbol.list_outputs() == ["last_output", "first_output", "x"]
    assert {k: v for k, v in symbol.attr_dict().items() if k != "taken0"} == plain.attr_dict()
    assert symbol.get_internals().list_outputs() == ["x", "first_output", "taken0_output", "last_output"]
    assert plain.get_internals().list_outputs() == ["x", "first_output", "exp_output", "last_output"]


def test_several_results():
    partitioner("taken", {"exp", "log"})
    x = mx.sym.var("x")
    e = mx.sym.exp(x)
    symbol = mx.sym.Group([mx.sym.log(e + 1), e, mx.sym.log(e)]).optimize_for("taken")
    assert symbol.list_outputs() == ["taken1_output", "taken0_output0", "taken0_output1"]
    a = np.array([0.5, 1.5])
    found = symbol.eval(x=nd.array(a))
    for got, expected in zip(found, [np.log(np.exp(a) + 1), np.exp(a), a], strict=True):
        np.testing.assert_allclose(got.asnumpy(), expected, rtol=1e-6)


def test_dropout_inside_follows_the_train_mode_and_draws_anew():
    partitioner("taken", {"Dropout", "exp"})
    x = mx.sym.var("x")
    d = mx.sym.Dropout(x, p=0.5) + mx.sym.Dropout(mx.sym.exp(mx.sym.Dropout(x, p=0.5)), p=0.5)
    symbol = d.optimize_for("taken")
    assert sorted(titles(symbol).values()) == [["Dropout"], ["Dropout", "exp", "Dropout"]]
    ones = np.ones(400)
    executor = symbol.bind(mx.cpu(), {"x": nd.array(ones, dtype="float64")}, {"x": nd.zeros((400,), dtype="float64")})
    np.testing.assert_allclose(executor.forward(is_train=False)[0].asnumpy(), 1 + np.e, rtol=1e-12)
    mx.random.seed(5)
    first = executor.forward(is_train=True)[0].asnumpy()
    executor.backward(nd.ones((400,), dtype="float64"))
    kept = {round(v, 6) for v in first}
    # 0 or 2, plus 0, 2 or 2 e²: the three masks are independent of each other
    assert kept == {round(a + b, 6) for a in (0, 2) for b in (0, 2, 2 * np.e**2)}
    grad = executor.grad_dict["x"].asnumpy()
    inner = np.array([v > 10 for v in first])
    np.testing.assert_allclose(grad[inner] - 4 * np.e**2, np.where(first[inner] > 15, 2, 0), atol=1e-9)
    assert (executor.forward(is_train=True)[0].asnumpy() != first).any()


def test_a_second_backend():
    partitioner("first", {"exp"})
    partitioner("second", {"exp", "log", "sin"})
    x = mx.sym.var("x")
    once = mx.sym.log(mx.sym.exp(mx.sym.sin(x))).optimize_for("first")
    twice = once.optimize_for("second", shape_dict={"x": (3,)})
    assert titles(twice) == {"first0": ["exp"], "second0": ["sin"], "second1": ["log"]}
    a = np.array([0.1, 0.2, 0.3])
    np.testing.assert_allclose(twice.eval(x=nd.array(a))[0].asnumpy(), np.sin(a), rtol=1e-6)
    assert sorted(RAN) == [("first", "first0", ["exp"]), ("second", "second0", ["sin"]), ("second", "second1", ["log"])]


def test_options_arrays_and_shapes_reach_the_partitioner():
    seen = []

    class Curious(mx.subgraph.Partitioner):
        ops = ("FullyConnected",)

        def review(self, part):
            seen.append((part.options, part.arguments, part.shapes, part.dtypes))
            seen.append({k: v.asnumpy().tolist() for k, v in self.arrays.items()})
            return True

        def run(self, part, *arrays):
            note(part)
            return part(*arrays)

    mx.subgraph.register_partitioner("curious")(Curious)
    symbol = mx.sym.FullyConnected(mx.sym.var("x"), num_hidden=2, no_bias=True, name="fc")
    weight = nd.array([[1, 2], [3, 4]], dtype="float64")
    symbol.optimize_for("curious", level=3)
    args = {"fc_weight": weight, "x": nd.ones((1, 2), dtype="float64")}
    symbol.optimize_for("curious", args=args)
    symbol.optimize_for("curious", args=[nd.ones((5, 2)), nd.ones((2, 2))])
    symbol.optimize_for("curious", args=args, skip_infer=True)
    f32, f64 = np.dtype("float32"), np.dtype("float64")
    names = ("x", "fc_weight")
    assert seen[::2] == [
        ({"level": 3}, names, [None, None], [f32, f32]),
        ({}, names, [(1, 2), (2, 2)], [f64, f64]),
        ({}, names, [(5, 2), (2, 2)], [f32, f32]),
        ({}, names, [None, None], [f32, f32]),
    ]
    assert seen[1] == {}
    assert seen[3] == {"fc_weight": [[1, 2], [3, 4]], "x": [[1, 1]]}


def test_a_pass_on_a_symbol():
    @mx.subgraph.register_pass("straight")
    def straight(module):
        mx.subgraph.rewrite(
            module, lambda F, op, value: F.sqrt(value(op.operands[0])) * 2 if op.name == "hybrid.sin" else None
        )

    x = mx.sym.var("x")
    symbol = mx.sym.exp(mx.sym.sin(x, name="bent"), name="out").optimize_for("straight", shape_dict={"x": (2,)})
    assert symbol.list_outputs() == ["out_output"]
    a = np.array([1.0, 4.0])
    np.testing.assert_allclose(symbol.eval(x=nd.array(a))[0].asnumpy(), np.exp(np.sqrt(a) * 2), rtol=1e-6)


def test_the_graph_prints_with_open_shapes():
    partitioner("taken", {"exp"})
    text = str(mx.sym.exp(mx.sym.var("x")).optimize_for("taken").module())
    assert "(tensor<*xf32>) -> (tensor<*xf32>, tensor<*x!hybrid.state>) {" in text
    assert re.search(r"hybrid.exp %\d+ : \(tensor<\*xf32>\) -> tensor<\*xf32>\n *hybrid.yield", text)


def test_errors():
    partitioner("taken", {"exp"}, review=lambda self, part: part(nd.ones((1,))) is None)
    x = mx.sym.var("x")
    with pytest.raises(MXNetError, match="Error optimizing for backend 'nope': it cannot be found"):
        x.optimize_for("nope")
    with pytest.raises(MXNetError) as caught:
        mx.sym.exp(x).optimize_for("taken")
    assert str(caught.value) == (
        "taken0 of backend 'taken' cannot be computed: the shape of 'x' is unknown while a symbol is partitioned; give "
        "optimize_for the arrays (args=…) or shapes (shape_dict=…)"
    )
    with pytest.raises(MXNetError) as caught:
        x.optimize_for("taken", args={"x": 3})
    assert str(caught.value) == "optimize_for: args['x'] must be an NDArray, got int"
    with pytest.raises(MXNetError) as caught:
        mx.sym.exp(x).optimize_for("taken", shape_dict={"z": (3,)})
    assert str(caught.value) == "optimize_for: shape_dict names 'z', which is no input; the inputs are x"
    with pytest.raises(ShapeError, match=r"optimize_for was given x: \(2,\), y: \(3,\)"):
        (x + mx.sym.var("y")).optimize_for("taken", shape_dict={"x": (2,), "y": (3,)})

"""Symbols of MXNet 1.9.1 give the results that they give there; what is written loads there."""

from __future__ import annotations

import functools
import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hybridc as mx
from hybridc.array.dispatch import invoke
from hybridc.symbol.graph import topological
from tests.golden.store import Reader
from tests.golden.symbol_cases import (
    BY_HAND,
    DRAWS,
    OLD,
    compact,
    graph,
    old_inputs,
    operator,
    symbol_cases,
    variable,
    whole,
    written_by_hybridc,
)
from tests.slices import each_in, named_groups

HERE = Path(__file__).parents[1] / "golden"
OPS = Reader(HERE / "ops.npz")
CASES = symbol_cases()
OF_MXNET = json.loads(gzip.decompress((HERE / "symbols.json.gz").read_bytes()))


def run(symbol, arrays):
    """The results of a symbol for arrays by name: operator after operator, eagerly."""
    values = {}
    for node in topological(symbol.entries):
        if node.is_variable:
            values[node] = [arrays[node.name]]
        elif node.number is not None:
            values[node] = [node.number]
        else:
            made = invoke(node.op, [values[source][i] for source, i in node.inputs])
            values[node] = made if isinstance(made, list) else [made]
    return [values[node][i].asnumpy() for node, i in symbol.entries]


def inputs_of(name):
    record = OPS.index[name]["inputs"]
    return {key: mx.nd.array(OPS.get(ref), dtype=OPS.get(ref).dtype) for key, ref in record.items()}


def assert_results(name, found):
    case = CASES[name]
    wanted = [OPS.get(ref) for ref in OPS.index[name]["outs"]]
    assert len(found) == len(wanted)
    for x, y in zip(found, wanted):
        assert x.dtype == y.dtype
        assert x.shape == y.shape
        loose = {"float16": 2e-3, "float32": 1e-5}.get(y.dtype.name, 1e-7)
        np.testing.assert_allclose(x, y, max(case.rtol, loose), max(case.atol, loose))


@each_in("name", named_groups({name: name for name in OF_MXNET}, 32))
def test_symbols_of_mxnet(name):
    assert_results(name, run(mx.sym.load_json(OF_MXNET[name]), inputs_of(name)))


CHECKED = json.loads(gzip.decompress((HERE / "symbols_checked.json.gz").read_bytes()))


@functools.cache
def written():
    """What hybridc writes for each case."""
    return written_by_hybridc(mx)


def test_what_is_written_was_checked_in_mxnet():
    assert written().keys() - CHECKED.keys() == FAIL_IN_MXNET
    for name, text in CHECKED.items():
        assert plain(written()[name]) == plain(text), f"{name}: run tests/golden/check_files_in_mxnet.py"


# MXNet lacks a kernel for graphs.
FAIL_IN_MXNET = {"nd.fill_element_0index(x, y, i) | x:float32[3,4] y:float32[3] i:float32[3]"}


def plain(text):
    """A symbol without the names of operators."""
    graph = json.loads(text)
    for node in graph["nodes"]:
        if node["op"] != "null":
            del node["name"]
    return graph


@each_in("name", named_groups({name: name for name in (*CHECKED, *FAIL_IN_MXNET)}, 32))
def test_what_is_written_is_read(name):
    symbol = mx.sym.load_json(written()[name])
    assert compact(symbol.tojson(remove_amp_cast=False)) == written()[name]
    assert_results(name, run(symbol, inputs_of(name)))


def test_nodes_have_as_many_outputs_as_in_mxnet():
    ours = written()
    same = [n for n in ours.keys() & OF_MXNET.keys() if nodes_of(ours[n]) == nodes_of(OF_MXNET[n])]
    assert len(same) > 700
    for name in same:
        assert json.loads(ours[name])["node_row_ptr"] == json.loads(OF_MXNET[name])["node_row_ptr"], name


def nodes_of(text):
    return [node["op"] for node in json.loads(text)["nodes"]]


# --- files of earlier versions ------------------------------------------------------------------------------

GOLDEN = json.loads((HERE / "files" / "symbols.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", OLD)
def test_files_of_earlier_versions(name):
    wanted = GOLDEN["old"][name]
    symbol = mx.sym.load_json(OLD[name])
    assert symbol.list_arguments() == wanted["arguments"]
    assert symbol.list_auxiliary_states() == wanted["states"]
    assert symbol.list_outputs() == wanted["outputs"]
    inputs = {k: mx.nd.array(v, dtype=v.dtype) for k, v in old_inputs(name, symbol.list_inputs()).items()}
    np.testing.assert_allclose(run(symbol, inputs)[0], wanted["result"], 1e-5)
    assert symbol.attr_dict() == wanted["attrs"]


@pytest.mark.parametrize("name", [*BY_HAND, *DRAWS])
def test_files_written_by_hand(name):
    op, attrs, inputs = {**BY_HAND, **DRAWS}[name]
    symbol = mx.sym.load_json(whole(op, attrs, *inputs))
    (written,) = [n for n in json.loads(symbol.tojson())["nodes"] if n["op"] != "null"]
    assert (written["op"], written.get("attrs", {})) == (op, attrs)
    mx.random.seed(0)
    (found,) = run(symbol, {key: mx.nd.array(x, dtype=x.dtype) for key, x in inputs.items()})
    wanted = GOLDEN["by_hand"][name]
    assert found.dtype == wanted["dtype"]
    assert list(found.shape) == wanted["shape"]
    if name in BY_HAND:
        np.testing.assert_allclose(found, wanted["result"], 1e-5)
        return
    assert abs(found.mean() - wanted["mean"]) <= 0.1 * wanted["std"] + 1e-6
    assert abs(found.std() - wanted["std"]) <= 0.15 * wanted["std"] + 1e-6


def test_the_layout_is_mxnets():
    symbol = mx.sym.Group([mx.sym.var(f"größe {i}", attr={"__a__": '"\n'}) for i in range(11)])
    assert symbol.tojson() == GOLDEN["layout"]
    assert mx.sym.load_json(GOLDEN["layout"]).attr_dict()["größe 3"] == {"__a__": '"\n'}


# --- files --------------------------------------------------------------------------------------------------


def test_symbols_survive_a_file(tmp_path):
    x = mx.sym.var("x", shape=(2, 3), lr_mult=2, dtype="float16")
    symbol = mx.sym.Group([mx.sym.FullyConnected(x, num_hidden=4, name="fc"), 2 - x])
    symbol.save(str(tmp_path / "a.json"))
    again = mx.sym.load(str(tmp_path / "a.json"))
    assert again.tojson() == symbol.tojson()
    assert again.list_outputs() == symbol.list_outputs()
    assert again.attr_dict() == symbol.attr_dict()
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_auxiliary_states_are_marked():
    symbol = mx.sym.BatchNorm(mx.sym.var("x"), name="bn")
    nodes = json.loads(symbol.tojson())["nodes"]
    assert nodes[-1]["inputs"] == [[0, 0, 0], [1, 0, 0], [2, 0, 0], [3, 0, 1], [4, 0, 1]]
    again = mx.sym.load_json(symbol.tojson())
    assert again.list_auxiliary_states() == ["bn_moving_mean", "bn_moving_var"]


def test_amp_casts_are_left_out_on_request():
    symbol = mx.sym.amp_cast(mx.sym.amp_cast(mx.sym.var("x"), dtype="float16") + 1, dtype="float32", name="out")
    assert [n["op"] for n in json.loads(symbol.tojson())["nodes"]] == ["null", "_plus_scalar"]
    kept = json.loads(symbol.tojson(remove_amp_cast=False))
    assert [n["op"] for n in kept["nodes"]] == ["null", "amp_cast", "_plus_scalar", "amp_cast"]


def test_numbers_that_mxnet_takes_as_arrays_only():
    x = mx.sym.var("x")
    symbol = mx.sym.where(x, x, 7, name="y")
    assert [n["op"] for n in json.loads(symbol.tojson())["nodes"]] == ["null", "ones_like", "_mul_scalar", "where"]
    arrays = {"x": mx.nd.array([0, 2])}
    assert run(mx.sym.load_json(symbol.tojson()), arrays)[0].tolist() == [7, 2]


LACKING = {
    "contrib.isnan": lambda F, x: F.contrib.isnan(x),
    "contrib.isinf": lambda F, x: F.contrib.isinf(x),
    "contrib.isfinite": lambda F, x: F.contrib.isfinite(x),
    "full_like": lambda F, x: F.full_like(x, fill_value=2.5),
    "silu": lambda F, x: F.silu(x, beta=1.5),
    "gelu": lambda F, x: F.gelu(x),
    "elu": lambda F, x: F.elu(x, slope=0.5),
    "selu": lambda F, x: F.selu(x),
    "leaky": lambda F, x: F.leaky(x, slope=0.1),
    "softrelu": lambda F, x: F.softrelu(x),
    "log_sigmoid": lambda F, x: F.log_sigmoid(x),
    "basic_index": lambda F, x: F.basic_index(x, begin=(1, None), end=(2, None), step=(None, -1), squeeze=(0,)),
    "newaxis": lambda F, x: F.basic_index(x, begin=(), end=(), newaxis=(1,)),
    "reshape_to": lambda F, x: F.reshape_to(x, shape=(3, 2)),
    "prelu": lambda F, x: F.prelu(x, F.ones(3) / 4),
}


@pytest.mark.parametrize("name", LACKING)
def test_operators_that_mxnet_lacks_are_written_by_others(name):
    x = mx.nd.array([[1, np.nan, -np.inf], [-2, 0.5, 3]] if "is" in name else [[1, 0, -1], [-2, 0.5, 3]])
    symbol = LACKING[name](mx.sym, mx.sym.var("x"))
    operators = {n["op"] for n in json.loads(symbol.tojson())["nodes"]}
    assert not operators & {name, f"_{name.replace('.', '_')}"}
    assert mx.sym.load_json(symbol.tojson()).list_outputs() == symbol.list_outputs()
    found = run(mx.sym.load_json(symbol.tojson()), {"x": x})
    np.testing.assert_allclose(found[0], LACKING[name](mx.nd, x).asnumpy(), 1e-6)


def test_custom_operators():
    @mx.operator.register("files_scale")
    class Scale(mx.operator.CustomOpProp):
        def __init__(self, factor="1"):
            super().__init__()
            self.factor = float(factor)

        def list_arguments(self):
            return ["data", "label"]

        def create_operator(self, ctx, shapes, dtypes):
            prop = self

            class Op(mx.operator.CustomOp):
                def forward(self, is_train, req, in_data, out_data, aux):
                    self.assign(out_data[0], req[0], in_data[0] * prop.factor + in_data[1])

            return Op()

        def infer_shape(self, in_shape):
            return [in_shape[0], in_shape[0]], [in_shape[0]], []

    symbol = mx.sym.Custom(mx.sym.var("x"), op_type="files_scale", factor=3, name="c")
    node = json.loads(symbol.tojson())["nodes"][-1]
    assert node == {
        "op": "Custom",
        "name": "c",
        "attrs": {"factor": "3", "op_type": "files_scale"},
        "inputs": [[0, 0, 0], [1, 0, 0]],
    }
    again = mx.sym.load_json(symbol.tojson())
    assert again.list_arguments() == ["x", "c_label"]
    assert run(again, {"x": mx.nd.array([1, 2]), "c_label": mx.nd.array([5, 6])})[0].tolist() == [8, 12]
    with pytest.raises(mx.MXNetError, match=r"the text: node 'c' \(Custom\): .*no operator is registered as 'other'"):
        mx.sym.load_json(symbol.tojson().replace("files_scale", "other"))


def test_nodes_in_any_order():
    """Graph passes that were compiled with MXNet's header list nodes before their inputs, and MXNet reads that."""
    a, b = mx.sym.var("a"), mx.sym.var("b")
    c = mx.sym.exp(a - b)
    given = json.loads((c * b + c).tojson())
    last = len(given["nodes"]) - 1
    given["nodes"].reverse()
    for entry in [*given["heads"], *(e for node in given["nodes"] for e in node["inputs"])]:
        entry[0] = last - entry[0]
    again = mx.sym.load_json(json.dumps(given))
    assert again.list_arguments() == ["a", "b"]
    x, y = np.array([1, 2], "f4"), np.array([0.5, 3], "f4")
    found = again.eval(a=mx.nd.array(x), b=mx.nd.array(y))[0].asnumpy()
    np.testing.assert_allclose(found, np.exp(x - y) * y + np.exp(x - y), rtol=1e-6)


LACKING_HERE = {
    "_sg_mkldnn_conv": "was made for MKL-DNN",
    "_cvimresize": "is a function of arrays; call mx.image",
    "_backward_Convolution": "exists in a running MXNet only; save the symbol of the forward",
    "_npi_cvimread": "is a function of arrays; call mx.image",
}


@pytest.mark.parametrize("op", LACKING_HERE)
def test_why_an_operator_of_mxnet_is_not_there(op):
    with pytest.raises(mx.MXNetError, match=LACKING_HERE[op]) as error:
        mx.sym.load_json(graph(variable("x"), operator(op, [0])))
    assert f"the text: node 'y' ({op}): MXNet's operator {op!r} " in str(error.value)


# --- errors -------------------------------------------------------------------------------------------------

X = variable("x")
WRONG = {
    "text": ("{", "the text is not a symbol in nnvm's JSON: Expecting property name"),
    "deep": ("[" * 100000, "the text is not a symbol in nnvm's JSON: "),
    "list": ("[]", "the text is not a symbol in nnvm's JSON: it has no list 'nodes'"),
    "heads": ('{"nodes": []}', "the heads: expected a list of [node, output, 0], got None"),
    "no heads": ('{"nodes": [], "heads": []}', "it has no heads"),
    "name": ('{"nodes": [{"op": "null"}], "heads": [[0, 0, 0]]}', "node 0 has no 'op' or no 'name'"),
    "number": ('{"nodes": [7], "heads": [[0, 0, 0]]}', "node 0 is int, expected an object"),
    "later": (graph(X, operator("relu", [1])), "node 'y' (relu): node 1 does not exist before it"),
    "negative": (graph(X, operator("relu", [-1])), "node 'y' (relu): expected [node, output, 0], got [-1, 0]"),
    "output": (
        graph(X, {"op": "relu", "name": "y", "inputs": [[0, 1, 0]]}),
        "node 'y' (relu): 'x' has no output 1, only 1",
    ),
    "inputs": (
        graph(X, operator("dot", [0]), version=10901),
        "node 'y' (dot) takes the inputs (lhs, rhs), got 1",
    ),
    "of scalar": (graph(X, X, operator("_plus_scalar", [0, 1])), "node 'y' (_plus_scalar) takes one input, got 2"),
    "scalar": (
        graph(X, operator("_plus_scalar", [0], attrs={"scalar": "two"})),
        "node 'y' (_plus_scalar): attribute scalar takes a number, got 'two'",
    ),
    "attributes": (
        graph(X, operator("sum", [0], attrs={"axis": 1})),
        "node 'y' (sum): 'attrs' must be an object of strings",
    ),
    "attribute": (
        graph(X, operator("sum", [0], attrs={"axes": "1"})),
        "the text: node 'y' (sum): sum: no attribute 'axes'; it takes axis, keepdims, exclude",
    ),
    "value": (
        graph(X, operator("sum", [0], attrs={"axis": "(1"})),
        "the text: node 'y' (sum): sum: attribute axis takes an integer or a tuple of integers, got '(1'",
    ),
    "infinite": (
        graph(X, operator("sum", [0], attrs={"axis": "1e999"})),
        "the text: node 'y' (sum): sum: attribute axis takes an integer or a tuple of integers, got '1e999'",
    ),
    "nested": (
        graph(X, operator("sum", [0], attrs={"axis": "(" * 1000})),
        "the text: node 'y' (sum): sum: attribute axis takes an integer or a tuple of integers, got '((((",
    ),
    "own words": (
        graph(X, operator("_split_v2", [0], attrs={"sections": "1F"})),
        "node 'y' (_split_v2): {'sections': '1F'} cannot be its attributes: invalid literal",
    ),
    "operator": (
        graph(X, operator("my_gemm", [0])),
        "the text: node 'y' (my_gemm): no operator 'my_gemm' is registered. If it is of a library of operators, load "
        "that first, with mx.library.load(path) or by importing its module; hybridc lacks some of MXNet's operators",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_and_where(what):
    text, wanted = WRONG[what]
    with pytest.raises(mx.MXNetError) as error:
        mx.sym.load_json(text)
    assert wanted in str(error.value)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(mx.MXNetError, match=r"cannot read .*none: No such file or directory"):
        mx.sym.load(str(tmp_path / "none"))
    (tmp_path / "a").write_bytes(b"\xff")
    with pytest.raises(mx.MXNetError, match="a is not a symbol in JSON: 'utf-8' codec"):
        mx.sym.load(str(tmp_path / "a"))
    (tmp_path / "a").write_text("{}")
    with pytest.raises(mx.MXNetError, match="a is not a symbol in nnvm's JSON: it has no list 'nodes'"):
        mx.sym.load(str(tmp_path / "a"))
    with pytest.raises(TypeError, match="the JSON must be a string, got bytes"):
        mx.sym.load_json(b"{}")


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damaged_texts_give_an_error_or_a_symbol(data):
    text = OF_MXNET[data.draw(st.sampled_from(sorted(OF_MXNET)[::20]))]
    at = data.draw(st.integers(0, len(text) - 1))
    damaged = text[:at] + data.draw(st.text(max_size=2)) + text[at + data.draw(st.integers(0, 3)) :]
    try:
        mx.sym.load_json(damaged)
    except mx.MXNetError:
        return


def test_a_factor_that_is_no_number():
    damaged = mx.sym.load_json((mx.sym.var("x") * mx.sym.var("w", lr_mult=2)).tojson().replace('"2"', '"two"'))
    with pytest.raises(mx.MXNetError, match="the variable w has __lr_mult__='two', expected a number"):
        mx.gluon.SymbolBlock(damaged, [mx.sym.var("x")])

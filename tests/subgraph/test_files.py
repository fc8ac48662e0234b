"""Partitioned symbols in nnvm's JSON."""

from __future__ import annotations

import json
import pickle  # noqa: TID251 - a Symbol can be pickled as it could in MXNet

import numpy as np
import pytest
from backends import RAN, partitioner
from test_symbol import network, results_of, titles

import hybridc as mx
from hybridc import nd
from hybridc.errors import MXNetError
from hybridc.gluon import nn

pytestmark = pytest.mark.usefixtures("by_numpy")


@pytest.mark.parametrize("wanted", [{"exp", "add", "multiply"}, {"BatchNorm", "FullyConnected", "exp"}])
def test_written_and_read(wanted, tmp_path):
    partitioner("taken", wanted, review=lambda self, part: {"size": len(part.operators), "text": "it's"})
    plain = network()
    symbol = plain.optimize_for("taken", level=2)
    symbol.save(tmp_path / "net.json")
    for again in (mx.sym.load(tmp_path / "net.json"), pickle.loads(pickle.dumps(symbol))):
        assert again.tojson() == symbol.tojson()
        assert titles(again) == titles(symbol)
        assert again.list_auxiliary_states() == symbol.list_auxiliary_states()
        for got, expected in zip(results_of(again, "float64"), results_of(plain, "float64"), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-15)  # some are sums that are zero
        ops = [n.op for n, _ in again.get_internals().entries if n.name.startswith("taken")]
        assert {op.options for op in ops} == {(("level", 2),)}
        assert {dict(op.properties)["text"] for op in ops} == {"it's"}
    assert RAN


def test_the_layout_is_mxnets():
    """Where MXNet 1.9.1 writes the graph inside a node, and the inputs of that graph in its order."""
    partitioner("taken", {"exp", "add", "sqrt"})
    x, y = mx.sym.var("x"), mx.sym.var("y")
    symbol = mx.sym.sin(mx.sym.sqrt(y, name="root") + mx.sym.exp(x, name="e"), name="s").optimize_for("taken")
    nodes = json.loads(symbol.tojson())["nodes"]
    assert [n["name"] for n in nodes] == ["y", "x", "taken0", "s"]
    (inner,) = nodes[2]["subgraphs"]
    assert nodes[2]["inputs"] == [[0, 0, 0], [1, 0, 0]]
    assert [(n["op"], n["name"]) for n in inner["nodes"]] == [
        ("null", "y"),
        ("sqrt", "root"),
        ("null", "x"),
        ("exp", "e"),
        ("broadcast_add", inner["nodes"][4]["name"]),
    ]
    assert inner["arg_nodes"] == [0, 2]
    assert inner["heads"] == [[4, 0, 0]]
    assert inner["node_row_ptr"] == [0, 1, 2, 3, 4, 5]
    assert '      "subgraphs": [\n        {\n          "nodes": [\n            {\n' in symbol.tojson()


def test_an_operator_of_the_backends_own_in_files():
    """A file calls the subgraphs of such a backend by its operator, with the properties as attributes."""
    partitioner("taken", {"exp"}, operator="my_runner", review=lambda self, part: {"level": "3"})
    symbol = mx.sym.exp(mx.sym.var("x")).optimize_for("taken")
    node = json.loads(symbol.tojson())["nodes"][1]
    assert (node["op"], node["attrs"]) == ("my_runner", {"level": "3"})
    again = mx.sym.load_json(symbol.tojson())
    assert titles(again) == {"taken0": ["exp"]}
    np.testing.assert_allclose(again.eval(x=nd.ones((2,)))[0].asnumpy(), np.e, rtol=1e-6)
    assert again.tojson() == symbol.tojson()


BROKEN = [
    (lambda n: n.update(op="their_runner"), "no backend runs subgraphs with the operator 'their_runner'; load its"),
    (lambda n: n["inputs"].append([0, 0, 0]), "its graph takes 1 inputs, got 2"),
    (lambda n: n.update(subgraphs=[3]), "a subgraph is int, expected an object"),
    (lambda n: n["subgraphs"][0].pop("heads"), "expected a list of [node, output, 0], got None"),
    (lambda n: n["attrs"].update(options="{3"), "attribute options takes a dict, got '{3'"),
]


@pytest.mark.parametrize(("change", "text"), BROKEN, ids=range(len(BROKEN)))
def test_damaged(change, text):
    partitioner("taken", {"exp"})
    graph = json.loads(mx.sym.exp(mx.sym.var("x")).optimize_for("taken").tojson())
    change(graph["nodes"][1])
    with pytest.raises(MXNetError) as caught:
        mx.sym.load_json(json.dumps(graph))
    assert text in str(caught.value)
    assert "'taken0'" in str(caught.value) or "heads" in str(caught.value)


def test_a_file_whose_backend_is_missing():
    partitioner("taken", {"exp"})
    text = mx.sym.exp(mx.sym.var("x")).optimize_for("taken").tojson()
    mx.subgraph._BACKENDS.clear()
    symbol = mx.sym.load_json(text)
    assert symbol.infer_shape(x=(2, 3))[1] == [(2, 3)]
    with pytest.raises(MXNetError, match=r"backend 'taken': it cannot be found \(registered: none so far\)"):
        symbol.eval(x=nd.ones((2,)))


def test_export_writes_what_the_backends_made(tmp_path):
    partitioner("taken", {"FullyConnected", "Activation"})

    @mx.subgraph.register_pass("doubled")
    def doubled(module):
        mx.subgraph.rewrite(module, lambda F, op, value: value(op.operands[0]) * 2 if op.name == "hybrid.sin" else None)

    class Net(nn.HybridSequential):
        def hybrid_forward(self, F, x):
            return F.sin(super().hybrid_forward(F, x))

    net = Net(prefix="net_")
    net.add(nn.Dense(4, activation="relu", in_units=3, prefix="a_"), nn.BatchNorm(in_channels=4, prefix="b_"))
    net.initialize()
    x = nd.array(np.random.RandomState(0).rand(2, 3))
    net.optimize_for(x, backend="taken")
    net.optimize_for(x, backend="doubled")
    expected = net(x).asnumpy()
    net.export(str(tmp_path / "net"))
    RAN.clear()
    again = mx.gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"], str(tmp_path / "net-0000.params"))
    np.testing.assert_allclose(again(x).asnumpy(), expected, rtol=1e-6)
    assert [(backend, sorted(ops)) for backend, _, ops in RAN] == [("taken", ["Activation", "FullyConnected"])]
    assert '"op": "sin"' not in (tmp_path / "net-symbol.json").read_text()

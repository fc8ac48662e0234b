"""Partitioners and graph passes of libraries built with our headers, called through the binary interface."""

import json

import numpy as np
import pytest
from libraries import compiled
from thunks import Failed, Thunks, made


def _graph(*nodes, heads, **more):
    """nnvm's JSON of nodes (op, name, inputs, attributes); an input is a node's number, or with an output's."""

    def entry(i):
        return [*i, 0] if isinstance(i, tuple) else [i, 0, 0]

    written = [
        {"op": op, "name": name, "inputs": [entry(i) for i in inputs], **({"attrs": attrs[0]} if attrs else {})}
        for op, name, inputs, *attrs in nodes
    ]
    variables = [i for i, node in enumerate(written) if node["op"] == "null"]
    return json.dumps({"nodes": written, "arg_nodes": variables, "heads": [entry(h) for h in heads], **more})


def _edges(text):
    """A graph as {name: (op, names of inputs with output numbers)} and its heads."""
    graph = json.loads(text)
    names = [node["name"] for node in graph["nodes"]]

    def told(entries):
        return [names[i] + (f":{output}" if output else "") for i, output, _ in entries]

    return {n["name"]: (n["op"], told(n["inputs"])) for n in graph["nodes"]}, told(graph["heads"])


CHAIN = _graph(
    ("null", "a", []),
    ("null", "b", []),
    ("elemwise_add", "sum", [0, 1]),
    ("exp", "power", [2]),
    ("log", "back", [3]),
    ("sin", "wave", [4]),
    ("sqrt", "root", [0]),
    ("elemwise_add", "end", [5, 6]),
    heads=[7, 4],
)


@pytest.fixture
def graphs():
    return Thunks(compiled("build_graphs.cc"))


def test_pass_rewrites():
    library = made("lib_pass", "pass_lib")
    edges, heads = _edges(library.run_pass("my_simplify", CHAIN, {}))
    assert edges == {
        "a": ("null", []),
        "b": ("null", []),
        "sum": ("elemwise_add", ["a", "b"]),
        "wave": ("sin", ["sum"]),
        "root": ("sqrt", ["a"]),
        "end": ("elemwise_add", ["wave", "root"]),
    }
    assert heads == ["end", "sum"]


def test_pass_adds_an_array():
    library, arrays = made("lib_pass", "pass_lib"), {"a": np.ones((2, 2), "f4")}
    text = library.run_pass("my_shift", CHAIN, arrays, shift=2.5)
    edges, heads = _edges(text)
    assert (edges["shifted"], edges["shift_amount"], heads) == (
        ("broadcast_add", ["end", "shift_amount"]),
        ("null", []),
        ["shifted", "back"],
    )
    assert [json.loads(text)["nodes"][i]["name"] for i in json.loads(text)["arg_nodes"]] == ["a", "b", "shift_amount"]
    assert arrays["shift_amount"].tolist() == [2.5]


def test_pass_error():
    with pytest.raises(Failed, match=r"^pass_lib.cc\[\d+\]: my_shift: expected the option shift$"):
        made("lib_pass", "pass_lib").run_pass("my_shift", CHAIN, {})


@pytest.mark.long
def test_supported():
    library = made("lib_subgraph", "subgraph_lib")
    op, supported, selector, review = library.partitioners()["my_partitioner", "by_name"]
    assert (op, selector) == ("my_subgraph_op", None)
    assert library.supported(supported, CHAIN, 8) == [-2, -2, -1, -1, -1, -2, -1, -1]
    assert library.reviewed(review, CHAIN, {}) == (True, {"nodes": "6"})
    assert library.reviewed(review, CHAIN, {}, reject="True")[0] is False


def test_selector():
    library = made("lib_subgraph", "subgraph_lib")
    _, supported, create, _ = library.partitioners()["my_selector", "by_selector"]
    selector = library.selector(create, CHAIN)
    assert supported is None
    assert [library.select("_partCallSelect", selector, i) for i in range(8)] == [0, 0, 1, 1, 1, 0, 1, 1]
    assert library.select("_partCallSelectInput", selector, 7, 6) == 1
    assert library.select("_partCallSelectOutput", selector, 4, 5) == 0
    assert (library.filtered(selector, [2, 3, 4]), library.filtered(selector, [7])) == ([2, 3, 4], [])
    library.handle._partCallReset(selector)


def test_subgraph_operator():
    library = made("lib_subgraph", "subgraph_lib")
    assert library.ops["my_subgraph_op"].is_subgraph
    inner = _graph(("null", "a", []), ("null", "b", []), ("elemwise_mul", "m", [0, 1]), ("exp", "e", [2]), heads=[3, 2])
    a, b = np.random.default_rng(0).normal(size=(2, 3, 2)).astype("f4")
    state = library.ops["my_subgraph_op"].state([(3, 2)] * 2, [0, 0], subgraph_sym_json=inner)
    e, m = library.stateful(1, state, [a, b], [np.empty_like(a), np.empty_like(a)])
    np.testing.assert_allclose(m, a.astype("f8") * b, rtol=1e-6)
    np.testing.assert_allclose(e, np.exp(a.astype("f8") * b), rtol=1e-5)
    with pytest.raises(Failed, match=r"my_subgraph_op runs a subgraph, and was created without one$"):
        library.ops["my_subgraph_op"].state([(3, 2)], [0])


@pytest.mark.long
def test_graph_is_kept(graphs):
    """What a pass does not touch comes back: attributes, outputs by number, subgraphs, texts with any character."""
    inner = json.loads(_graph(("null", "x", []), ("exp", "y", [0]), heads=[1]))
    text = _graph(
        ("null", "data", [], {"__shape__": "(2, 3)"}),
        ("split", 'odd "name"\n\\ é \U0001f600', [0], {"num_outputs": "3", "tab": "\t\x01"}),
        ("add_n", "sum", [(1, 2), (1, 0), (1, 2)]),
        heads=[2, (1, 1)],
        attrs={"mxnet_version": ["int", 10901], "flag": True, "none": None, "real": -1.5e-3},
    )
    given = json.loads(text)
    given["nodes"][2]["subgraphs"] = [inner]
    made = json.loads(graphs.run_pass("same", json.dumps(given), {}))
    assert made.pop("node_row_ptr") == [0, 1, 4, 5]
    assert made["nodes"][2]["subgraphs"][0].pop("node_row_ptr") == [0, 1, 2]
    assert made == given
    plain = json.loads(graphs.run_pass("same", json.dumps(given, ensure_ascii=False), {}))
    assert plain["nodes"][1] == given["nodes"][1]


def test_tensors_of_variables(graphs):
    arrays = {"a": np.array([1, 2, 4], "f4"), "unused": np.zeros(3, "f4")}
    edges, _ = _edges(graphs.run_pass("name_by_sum", CHAIN, arrays))
    assert edges["a is 7"] == ("null", [])
    assert "b" in edges


def test_consumers_come_first(graphs):
    edges, _ = _edges(graphs.run_pass("name_by_order", CHAIN, {}))
    assert all(int(name) < int(i) for name, (_, inputs) in edges.items() for i in inputs)
    assert sorted(map(int, edges)) == list(range(8))


def test_deep_graph(graphs):
    nodes = [("null", "n0", []), *[("exp", f"n{i}", [i - 1]) for i in range(1, 20000)]]
    edges, heads = _edges(graphs.run_pass("same", _graph(*nodes, heads=[19999]), {}))
    assert (len(edges), heads) == (20000, ["n19999"])


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", 'JSON: expected a value at character 0, got ""'),
        ("{", 'JSON: expected \'"\' at character 1, got ""'),
        ('{"nodes": [1 2]}', "JSON: expected ',' or ']' at character 13, got \"2]}\""),
        ('{"nodes": []} x', 'JSON: expected the end at character 14, got "x"'),
        ('{"nodes": [12a]}', 'JSON: expected a value at character 14, got "]}"'),
        ('{"nodes": []}', 'JSON: expected a map with key "heads"'),
        ("[]", 'JSON: expected a map with key "nodes"'),
    ],
)
def test_bad_json(graphs, text, error):
    with pytest.raises(Failed) as caught:
        graphs.run_pass("same", text, {})
    assert str(caught.value) == "C++ exception: " + error


def test_bad_graphs(graphs):
    with pytest.raises(Failed, match=r"^C\+\+ exception: graph: node .* needs itself$"):
        graphs.run_pass("cycle", CHAIN, {})
    review = graphs.partitioners()["checks", "s"][3]
    with pytest.raises(Failed, match=r"^C\+\+ exception: arrays can be made in a graph pass only$"):
        graphs.reviewed(review, CHAIN, {})


def test_selector_errors(graphs):
    _, _, create, _ = graphs.partitioners()["checks", "s"]
    with pytest.raises(Failed, match=r"^C\+\+ exception: createSelector succeeded and set no selector$"):
        graphs.selector(create, CHAIN)
    selector = graphs.selector(create, CHAIN, make=1)
    assert graphs.select("_partCallSelect", selector, 1) == 0
    assert graphs.messages() == ["C++ exception: no choice"]
    assert graphs.filtered(selector, [3, 1]) == [3, 1]


def test_attribute_texts(graphs):
    """getShapeAt and getDtypeAt read what hosts write of nodes' outputs."""
    text = _graph(("null", "a", [], {"__ext_shape__": "[[1],[2, 3],[]]", "__ext_dtype__": "[1,2]"}), heads=[0])
    assert list(_edges(graphs.run_pass("name_by_attributes", text, {}))[0]) == ["[1] [2,3] [] 2"]

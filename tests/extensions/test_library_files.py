"""Symbols that a library's backends partitioned: the same graphs as MXNet 1.9.1 makes, and its files load."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import hybridc as mx
from tests import built

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
sys.path.insert(0, str(GOLDEN))

from subgraph_cases import build, cases  # noqa: E402

FOUND = json.loads((GOLDEN / "subgraphs.json").read_text())


@pytest.fixture(scope="module", autouse=True)
def library():
    mx.library.load(built.example("lib_subgraph", "subgraph_lib"), verbose=False)


def plain(graph):
    """A graph of a file without what libraries are told of shapes, and without the names of a part's inputs."""
    nodes = []
    for node in graph["nodes"]:
        attrs = {k: v for k, v in node.get("attrs", {}).items() if not k.startswith("__ext")}
        inside = [plain(part) for part in node.get("subgraphs", [])]
        for part in inside:
            for inner in part["nodes"]:
                if inner["op"] == "null":
                    inner.update(name="", attrs={})
        made = {"op": node["op"], "name": node["name"], "attrs": attrs, "inputs": node["inputs"]}
        nodes.append({**made, "subgraphs": inside} if inside else made)
    return {"nodes": nodes, **{k: graph[k] for k in ("arg_nodes", "node_row_ptr", "heads")}}


@pytest.mark.parametrize(("name", "graph", "backend", "options"), [pytest.param(*c, id=c[0]) for c in cases()])
def test_as_mxnet(name, graph, backend, options):
    expected = FOUND[name]
    symbol, arrays = build(mx, graph)
    made = symbol.optimize_for(backend, arrays, **options)
    assert plain(json.loads(made.tojson())) == plain(expected["json"])
    assert made.list_outputs() == expected["outputs"]
    assert made.get_internals().list_outputs() == expected["internals"]
    theirs = mx.sym.load_json(json.dumps(expected["json"]))
    for each in (made, theirs, mx.sym.load_json(made.tojson())):
        for got, wanted in zip(each.bind(mx.cpu(), arrays).forward(), expected["results"], strict=True):
            np.testing.assert_allclose(got.asnumpy(), wanted, rtol=1e-5)

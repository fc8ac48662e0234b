"""mx.viz: tables that MXNet prints alike, and drawings."""

import json
import pathlib
import sys

import pytest

import hybridc as mx
from hybridc.errors import MXNetError

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden"
sys.path.insert(0, str(GOLDEN))
import viz_cases  # noqa: E402

PRINTED = json.loads((GOLDEN / "viz.json").read_text())


@pytest.mark.parametrize("name", viz_cases.CASES)
def test_the_table_is_that_of_mxnet(name, capsys):
    make, options = viz_cases.CASES[name]
    mx.viz.print_summary(make(mx), **options)
    assert capsys.readouterr().out == PRINTED[name]


def test_without_shapes_parameters_are_not_guessed(capsys):
    mx.viz.print_summary(viz_cases.mlp(mx), line_length=60)
    lines = capsys.readouterr().out.splitlines()
    assert lines[5].split() == ["fc1(FullyConnected)", "?", "data"]
    assert lines[-2] == "Total params: unknown; give shape"


def test_shared_parameters_count_once(capsys):
    data, weight = mx.sym.var("data"), mx.sym.var("shared_weight")
    first = mx.sym.FullyConnected(data, weight, num_hidden=4, no_bias=True, name="first")
    second = mx.sym.FullyConnected(first, weight, num_hidden=4, no_bias=True, name="second")
    mx.viz.print_summary(second, shape={"data": (2, 4)})
    assert "Total params: 16" in capsys.readouterr().out


def test_the_drawing_has_every_node_and_edge():
    drawing = mx.viz.plot_network(viz_cases.mlp(mx), title="net", shape={"data": (32, 784)})
    assert drawing.name == "net"
    lines = [line.strip() for line in drawing.source.splitlines()]
    edges = {tuple(line.split(" [")[0].split(" -> ")) for line in lines if " -> " in line}
    assert edges == {
        ("fc1", "data"), ("relu1", "fc1"), ("fc2", "relu1"), ("bn", "fc2"), ("joined", "bn"), ("joined", "fc2"),
        ("softmax", "joined"), ("softmax", "softmax_label"),
    }  # fmt: skip
    assert "fc1 -> data [label=784 arrowtail=open dir=back]" in lines
    shown = mx.viz.plot_network(viz_cases.mlp(mx), hide_weights=False, node_attrs={"shape": "oval"}).source
    assert "fc1 -> fc1_weight" in shown
    assert "shape=box" not in shown


def test_errors():
    x = mx.sym.var("x")
    with pytest.raises(TypeError, match="symbol must be Symbol, got int"):
        mx.viz.print_summary(3)
    with pytest.raises(TypeError, match="symbol must be Symbol, got NDArray"):
        mx.viz.plot_network(mx.nd.ones(2))
    with pytest.raises(MXNetError) as error:
        mx.viz.plot_network(mx.sym.exp(x, name="y") + mx.sym.exp(x * 2, name="y"))
    assert str(error.value) == "plot_network: two nodes are called 'y'; give one of them another name"

"""``hybridc-opt``: what it prints between passes, how long they took, locations, and what it says of mistakes."""

from __future__ import annotations

import contextlib
import io
import re

import pytest

from hybridc.compile import pipeline
from hybridc.tools.opt import HybridcOpt

GRAPH = """
func.func @forward(%x: tensor<2x3xf32>) -> tensor<2x3xf32> attributes {hybrid.grads = array<i64: 0>} {
  %y = hybrid.softmax %x {axis = -1 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32> loc("layer"("net.py":12:0))
  func.return %y : tensor<2x3xf32>
}
"""


@pytest.fixture
def opt(tmp_path):
    """A function that runs the tool on the graph: what it prints to the two streams."""
    file = tmp_path / "graph.mlir"
    file.write_text(GRAPH)

    def run(*arguments):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            HybridcOpt(description="test", args=[str(file), *arguments]).run()
        return out.getvalue(), err.getvalue()

    return run


def test_printing_between_passes(opt):
    out, _ = opt("-p", "differentiate,decompose,dce", "--print-between-passes")
    differentiated, decomposed, cleaned = out.split("builtin.module {")[1:]  # the last is the result
    assert re.findall(r"^IR after (.*):$", out, re.MULTILINE) == ["differentiate", "decompose"]
    assert "hybrid.softmax" in differentiated.partition("@backward")[0]
    assert "hybrid.softmax" not in decomposed
    assert "hybrid.exp" in cleaned


def test_times_of_passes(opt):
    out, err = opt("-p", "decompose,dce", "--time-passes")
    for name in ("decompose", "dce"):
        assert re.search(rf"{name}\D+\d+\.\d+", out + err), out + err


def test_locations(opt):
    out, _ = opt("-p", "decompose", "--print-debuginfo")
    assert re.search(r'hybrid\.exp .* loc\("layer"\("net\.py":12:0\)\)', out)


def test_every_pass_of_the_pipeline_is_there(opt):
    """One after the other they lead from the graph to the plan, and from there to the program."""
    passes = ",".join(_spec(each) for each in (*pipeline.GRAPH, *pipeline.numpy()))
    out, _ = opt("-p", passes)
    assert "hybrid_rt.launch" in out
    out, _ = opt("-p", passes, "-t", "numpy")
    assert re.search(r"^def forward\(", out, re.MULTILINE)
    assert re.search(r"^def backward\(", out, re.MULTILINE)


def _spec(each):
    return str(each.pipeline_pass_spec())


def test_a_pass_that_does_not_exist(opt):
    with pytest.raises(ValueError, match=r"Unrecognized passes: \['fuse'\]"):
        opt("-p", "fuse")

"""``hybridc-opt``: what it prints between passes, how long they took, locations, and what it says of mistakes."""

from __future__ import annotations

import contextlib
import importlib
import io
import pkgutil
import re
import sys

import pytest
from xdsl.passes import ModulePass

import hybridc
from hybridc.compile import pipeline
from hybridc.lower.llvm.native_target import native_machine
from hybridc.tools.opt import HybridcOpt, main

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


def test_every_pass_of_the_package_is_there():
    for found in pkgutil.walk_packages(hybridc.__path__, "hybridc."):
        folder = found.name.split(".")[1]
        if folder in ("transforms", "lower", "subgraph") and "triton" not in found.name:
            importlib.import_module(found.name)
    known = HybridcOpt(args=[]).available_passes
    every = {each for each in _below(ModulePass) if each.__module__.startswith("hybridc.")}
    assert len(every) >= 27
    assert not [each.__name__ for each in every if known.get(each.name, lambda: None)() is not each]


def _below(cls):
    return {each for sub in cls.__subclasses__() for each in (sub, *_below(sub))}


def test_the_passes_of_the_native_target_can_be_named(opt):
    passes = [_spec(each) for each in (*pipeline.GRAPH, *pipeline.llvm_kernels(native_machine()))]
    out, _ = opt("-p", ",".join(passes))
    assert any(spec.startswith("join-epilogues") for spec in passes)
    assert "@forward" in out


MISTAKES = [
    (
        ("-p", "join-epilogue"),
        "-p join-epilogue: there is no pass 'join-epilogue', did you mean join-epilogues?; the ",
    ),
    (("-p", "decompose{x=1}"), '-p decompose{x=1}: Provided arguments ["x"] not found'),
    (("-p", "plan-memory"), "pass plan-memory: TypeError: hybrid.softmax is not a view"),
    (("-p", "decompose{"), "-p decompose{: "),
    (("--load", "/nosuch.py"), "load path /nosuch.py does NOT exist"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES)
def test_mistakes_are_a_line_on_stderr(tmp_path, monkeypatch, arguments, message):
    (tmp_path / "graph.mlir").write_text(GRAPH)
    monkeypatch.setattr("sys.argv", ["hybridc-opt", str(tmp_path / "graph.mlir"), *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    assert str(caught.value).startswith(f"hybridc-opt: {message}")
    monkeypatch.setattr("sys.argv", [*sys.argv, "--traceback"])
    with pytest.raises(Exception, match=re.escape(message[:20])):
        main()


def test_a_file_that_is_none(tmp_path, monkeypatch):
    for name, content in (("text.mlir", b"bad {"), ("bytes.mlir", bytes(range(200, 256)))):
        (tmp_path / name).write_bytes(content)
        monkeypatch.setattr("sys.argv", ["hybridc-opt", str(tmp_path / name)])
        with pytest.raises(SystemExit, match=r"^hybridc-opt: "):
            main()
    monkeypatch.setattr("sys.argv", ["hybridc-opt", str(tmp_path / "none.mlir")])
    with pytest.raises(SystemExit, match=r"hybridc-opt: .*No such file or directory: .*none.mlir"):
        main()


def test_a_pass_that_does_not_exist(opt):
    with pytest.raises(ValueError, match=r"there is no pass 'fuse-kernel', did you mean fuse-kernels\?; the "):
        opt("-p", "fuse-kernel")


def test_a_pass_of_a_loaded_file(opt, tmp_path):
    """A class of a file given by ``--load`` is a pass under its name."""
    path = tmp_path / "my_pass.py"
    path.write_text(
        "from dataclasses import dataclass\n"
        "from xdsl.passes import ModulePass\n\n"
        "@dataclass(frozen=True)\n"
        "class Renamed(ModulePass):\n"
        "    name = 'test-renamed'\n\n"
        "    def apply(self, ctx, op):\n"
        "        print('applied to', op.name)\n"
    )
    out, _ = opt("--load", str(path), "-p", "test-renamed")
    assert "applied to builtin.module" in out

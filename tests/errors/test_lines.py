"""What is generated names the lines of the network: each kernel in its docstring, each library call in a comment."""

from __future__ import annotations

import ast
import re

import pytest

from benchmarks import workloads
from hybridc.compile import stages
from hybridc.trace.tracer import trace_call

LINE = re.compile(r"/(benchmarks|tests)/\S+\.py:\d+ \(in \w+\)")  # a library's layer has the line of its call


@pytest.mark.parametrize("name", ["encoder", "lstm", "mlp_train"])
def test_kernels_name_the_users_lines(name, monkeypatch):
    monkeypatch.setattr(workloads, "STEPS", 3)  # of the lstm; they show what 35 would
    program = workloads.WORKLOADS[name].build(False)
    for net, args in zip(program.blocks, program.feeds(), strict=True):
        trace = trace_call(net, list(args), True)
        grads = tuple(i for i, leaf in enumerate(trace.leaves) if leaf._dtype.kind == "f")
        optimized = stages.Traced(trace, grads).optimize()
        for written in optimized.lower("llvm").programs.values():
            launches = [line for line in written.source.splitlines()[1:] if not line.startswith("    ")]
            computing = [line for line in launches if "fused" in line or "matmul" in line]
            assert computing
            assert all(LINE.search(line) for line in computing), written.source
        lowered = optimized.lower("numpy")
        assert set(lowered.programs) == {"forward", "backward"}
        for entry, written in lowered.programs.items():
            text = written.source
            functions = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
            kernels = [node for node in functions if node.name not in (entry, "workspace")]
            kernels = [node for node in kernels if node.args.args[0].arg == "x0"]  # not zeros for an unused input
            assert kernels
            for node in kernels:
                assert LINE.search(ast.get_docstring(node) or ""), ast.unparse(node)
            (main,) = [node for node in functions if node.name == entry]
            for statement in main.body:
                called = [n for n in ast.walk(statement) if isinstance(n, ast.Call)]
                names = [ast.unparse(n.func) for n in called]
                if any(n.endswith((".call_out", ".matmul")) for n in names):
                    assert LINE.search(text.splitlines()[statement.end_lineno - 1]), ast.unparse(statement)

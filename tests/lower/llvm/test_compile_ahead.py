"""LLVM compiles kernels while memory is planned, each once; and equal blocks add no kernel."""

import os
import uuid

import pytest

import hybridc as mx
from hybridc.compile.stages import Traced
from hybridc.gluon import nn
from hybridc.lower.llvm.codegen import native_function as codegen
from hybridc.lower.llvm.codegen.native_function import NativeFunction
from hybridc.options import OPTIONS
from hybridc.tools.loop_form import loop_form
from hybridc.trace.tracer import trace_call
from tests.lower.llvm.native import parse
from tests.lower.llvm.test_code_memory import DOUBLE


def counted(monkeypatch):
    """The keys of functions whose IR is written for LLVM from now on."""
    made = []
    text = codegen.llvm_text

    def noted(functions):
        made.extend(f.key for f in functions)
        return text(functions)

    monkeypatch.setattr(codegen, "llvm_text", noted)
    return made


def test_a_function_that_was_started_is_not_compiled_again(monkeypatch):
    made = counted(monkeypatch)
    function = NativeFunction(f"test {uuid.uuid4()}", loop_form(lambda: parse(DOUBLE)))
    started = codegen.compile_functions_ahead([function])
    assert len(started) == 1
    assert not codegen.compile_functions_ahead([function]), "it is being compiled"
    (code,) = codegen.load_functions([function])
    assert code.address
    assert made == [function.key]
    assert not codegen.compile_functions_ahead([function]), "it is loaded"


def test_what_is_wrong_with_a_function_is_raised_where_it_is_loaded(monkeypatch):
    function = NativeFunction(f"test {uuid.uuid4()}", loop_form(lambda: parse(DOUBLE)))
    with monkeypatch.context() as patch:
        text = codegen.llvm_text
        patch.setattr(codegen, "llvm_text", lambda functions: f"{text(functions)}\n!broken")
        started = codegen.compile_functions_ahead([function])
    with pytest.raises(RuntimeError, match="cannot parse"):
        codegen.load_functions([function])
    assert len(started) == 1
    assert codegen.load_functions([function])[0].address, "it is compiled anew"


def test_a_fork_waits_for_what_was_started():
    functions = [NativeFunction(f"test {uuid.uuid4()}", loop_form(lambda: parse(DOUBLE))) for _ in range(3)]
    started = codegen.compile_functions_ahead(functions)
    pid = os.fork()
    if pid == 0:
        os._exit(0 if all(code.address for code in codegen.load_functions(functions)) else 3)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert len(codegen.load_functions(functions)) == len(started) == 3


class Residual(nn.HybridBlock):
    def __init__(self, blocks, channels):
        super().__init__()
        self.blocks = [
            [
                nn.Conv2D(channels, 3, padding=1, use_bias=False, in_channels=channels),
                nn.BatchNorm(in_channels=channels),
            ]
            for _ in range(blocks)
        ]
        for layer in [layer for pair in self.blocks for layer in pair]:
            self.register_child(layer)

    def hybrid_forward(self, F, x):
        for convolution, normalization in self.blocks:
            x = F.relu(x + normalization(convolution(x)))
        return x


def compiled(blocks, monkeypatch):
    """A training step's graph, the keys of its functions, and of those that LLVM compiled for it."""
    net = Residual(blocks, 24)
    net.initialize()
    trace = trace_call(net, [mx.nd.zeros((2, 24, 8, 8))], True)
    wanted = tuple([i for i, leaf in enumerate(trace.leaves) if "running" not in leaf.name])
    with monkeypatch.context() as patch:
        patch.setattr(codegen, "kept", lambda key, kind, made_for: None)  # as if no process had stored anything
        made = counted(patch)
        graph = Traced(trace, wanted).graph()
    called = [f for program in (graph.forward, graph.backward) for f in program.program.functions_called()]
    return graph, {f.key for f in called}, made


@pytest.mark.skipif(OPTIONS.target != "llvm", reason="the llvm target compiles kernels ahead")
def test_equal_blocks_share_kernels(monkeypatch):
    graph, functions, made = compiled(4, monkeypatch)
    assert len(made) == len({*made}) > 5
    assert {*made} <= functions
    _, same, more = compiled(8, monkeypatch)
    assert same == functions
    assert not more, "all were in memory"
    assert graph.backward is not None

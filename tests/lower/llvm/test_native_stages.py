"""Every level of the native target is valid IR that prints and parses to the same, for whole networks."""

from __future__ import annotations

import pytest
from xdsl.context import Context
from xdsl.dialects.memref import MemRef
from xdsl.dialects.scf import Scf
from xdsl.parser import Parser

from benchmarks import workloads
from hybridc.compile import pipeline, stages
from hybridc.compile.targets import target_named
from hybridc.ir.values import functions
from hybridc.lower.llvm.codegen import llvm
from hybridc.lower.llvm.emit_steps import emit_native_plan
from hybridc.lower.llvm.native_target import native_target
from hybridc.trace.tracer import trace_call
from hybridc.transforms.code.kernel_cache import KernelCache
from tests.slices import but

PASSES = target_named("llvm").passes()
LONG = ("mlp", "mlp_train", "chain", "encoder", "lstm", "layernorm", "gelu_bias", "custom_op", "attention")


@pytest.fixture(scope="module")
def checked():
    """The keys of functions that were checked, and all texts: networks share some, and not every pass changes all."""
    return set()


def context():
    """All dialects from the graph to the plan."""
    made = pipeline.context()
    for dialect in (MemRef, Scf):
        made.load_dialect(dialect)
    return made


@pytest.mark.parametrize("name", but(LONG, workloads.WORKLOADS))
def test_every_level_is_valid(name, checked, monkeypatch):
    """Graph to plan, then the LLVM IR of each function of the plan; forward and backward."""
    monkeypatch.setattr(workloads, "STEPS", 3)  # of the lstm; they show what 35 would
    program = workloads.WORKLOADS[name].build(False)
    for net, args in zip(program.blocks, program.feeds(), strict=True):
        trace = trace_call(net, list(args), True)
        grads = tuple(i for i, leaf in enumerate(trace.leaves) if leaf._dtype.kind == "f")
        module = stages.Traced(trace, grads).optimize().module.clone()
        for number, each in enumerate(PASSES):
            each.apply(Context(), module)
            _same(module, f"{number}, {each.name}", checked)
        for function in functions(module):
            if function.sym_visibility is None:
                _check_functions(
                    emit_native_plan(module, function.sym_name.data, KernelCache(native_target(2))), checked
                )


def _check_functions(source, checked):
    """The LLVM IR of each function."""
    made = {function.key: function for function in source.functions_called()}
    assert made, "nothing runs natively"
    for key in made.keys() - checked:
        checked.add(key)
        llvm.LLVMModule(made[key].explain("llvm"))  # LLVM verifies it


def _same(module, level, checked):
    module.verify()
    text = str(module)
    if text in checked:
        return
    checked.add(text)
    again = Parser(context(), text).parse_module()
    again.verify()
    assert str(again) == text, level

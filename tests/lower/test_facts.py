"""The facts of a module: which passes they let run, and that a wrong claim is noticed."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from xdsl.context import Context

import hybridc as mx
from hybridc.compile import pipeline, stages
from hybridc.errors import VerifyError
from hybridc.ir.facts import Fact, Facts
from hybridc.lower.llvm.native_target import native_machine
from hybridc.trace.tracer import trace_call
from hybridc.transforms.graph.cse import CommonSubexpressionElimination
from tests.function_blocks import Lambda

X = np.ones((4, 6), np.float32)
IMAGES = np.ones((1, 3, 8, 8), np.float32)


def graph_of(forward, *arrays):
    """The graph of a function of arrays."""
    trace = trace_call(Lambda(forward), [mx.nd.array(a) for a in arrays], False)
    return stages.Traced(trace).module


def structured(forward, *arrays):
    """The structured form of it."""
    module = graph_of(forward, *arrays)
    for each in (*pipeline.graph_passes(), *pipeline.structured_passes("llvm")):
        each.apply(Context(), module)
    return module


def attention(F, x):
    return F.batch_dot(F.softmax(F.batch_dot(x, x, transpose_b=True)), x)


STRUCTURED = {
    "two elementwise operators": (lambda F, x: F.tanh(F.relu(x)), X, set()),
    "a reduction": (lambda F, x: F.sum(x, axis=1, keepdims=True), X, set()),
    "a transpose": (lambda F, x: F.relu(F.transpose(x)), X, {Fact.ORDER}),
    "slices": (lambda F, x: F.slice_axis(x, axis=1, begin=0, end=2), X, {Fact.ORDER, Fact.SLICE}),
    "a matmul": (lambda F, x: F.dot(x, x, transpose_b=True), X, {Fact.ORDER, Fact.CONTRACTION}),
    "reads at indices": (lambda F, x: F.pick(x, F.argmax(x, axis=1)), X, {Fact.INDIRECT}),
    "windows": (
        lambda F, x: F.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max"),
        IMAGES,
        {Fact.ORDER, Fact.WINDOWS},
    ),
    "an attention": (attention, np.ones((2, 4, 6), np.float32), {Fact.ORDER, Fact.CONTRACTION, Fact.SOFTMAX}),
}


@pytest.mark.parametrize("name", STRUCTURED)
def test_facts_of_the_structured_form(name):
    forward, array, wanted = STRUCTURED[name]
    facts = Facts(structured(forward, array))
    kinds = {Fact.ORDER, Fact.SLICE, Fact.CONTRACTION, Fact.WINDOWS, Fact.SOFTMAX, Fact.INDIRECT}
    found = {fact for fact in kinds if facts.suit(frozenset((fact,)))}
    assert wanted <= found
    assert found <= wanted | {Fact.ORDER}


def test_a_graph_of_two_operators_runs_few_passes(monkeypatch):
    ran = []
    follow = Facts.follow
    monkeypatch.setattr(Facts, "follow", lambda facts, made: (ran.append(made.name), follow(facts, made)))
    monkeypatch.setattr(pipeline, "OPTIONS", dataclasses.replace(pipeline.OPTIONS, verify=False))
    module = graph_of(lambda F, x: F.tanh(F.relu(x)), X)
    pipeline.run(pipeline.GRAPH, module)
    pipeline.run(pipeline.llvm_kernels(native_machine()), module)
    assert ran == ["cse", "dce", "hybrid-to-linalg", "cse", "dce", "fuse-kernels"]


def test_equal_operations_are_sought_again_only_after_another_pass():
    module = graph_of(lambda F, x: F.tanh(x) + F.tanh(x), X)
    facts, (_, _, cse, dce) = Facts(module), pipeline.CLEANUP
    for each in (cse, dce):
        assert facts.suit(each.needs)
        facts.follow(each)
    assert not facts.suit(cse.needs)
    assert not facts.suit(dce.needs)
    facts.follow(pipeline.GRAPH[0])
    assert facts.suit(cse.needs)


def test_a_pass_that_would_be_skipped_and_changes_something_is_an_error(monkeypatch):
    monkeypatch.setattr(pipeline, "OPTIONS", dataclasses.replace(pipeline.OPTIONS, verify=True))
    monkeypatch.setattr(CommonSubexpressionElimination, "needs", frozenset((Fact.GRADIENTS,)))
    module = graph_of(lambda F, x: F.tanh(x) + F.tanh(x), X)
    message = "^cse changes a module of which the facts say that it lacks a function with gradients to compute"
    with pytest.raises(VerifyError, match=message):
        pipeline.run(pipeline.GRAPH, module)


@pytest.mark.parametrize("name", STRUCTURED)
def test_skipped_passes_would_change_nothing(name, monkeypatch):
    forward, array, _ = STRUCTURED[name]
    monkeypatch.setattr(pipeline, "OPTIONS", dataclasses.replace(pipeline.OPTIONS, verify=True))
    module = graph_of(forward, array)
    pipeline.run(pipeline.GRAPH, module)
    pipeline.run(pipeline.llvm_kernels(native_machine()), module)


@pytest.mark.usefixtures("natively_stored")
def test_skipped_passes_are_verified_with_symbolic_sizes_too(monkeypatch):
    """Of which xDSL could not print or verify the module."""
    net = Lambda(lambda F, x: F.LayerNorm(x, F.ones((6,)), F.zeros((6,))))
    net.hybridize()
    checked, check = [], pipeline._require_unchanged

    def require(each, *given):
        checked.append(each.name)
        check(each, *given)

    monkeypatch.setattr(pipeline, "OPTIONS", dataclasses.replace(pipeline.OPTIONS, verify=True))
    monkeypatch.setattr(pipeline, "_require_unchanged", require)
    net(mx.nd.array(X))
    assert {*checked} >= {"winograd", "hoist-slices", "fuse-indexed-reads"}

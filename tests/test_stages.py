"""The stages of a compilation: each prints, holds the next, and is written down on request."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from xdsl.parser import Parser

import hybridc as mx
from hybridc.compile import pipeline
from hybridc.compile.pipeline import context
from hybridc.compile.targets import target_named
from hybridc.errors import UnsupportedError
from hybridc.gluon import nn
from hybridc.gluon.hybridize import cached_graph
from hybridc.gluon.nn import HybridLambda
from hybridc.transforms.memory.verify_plan import VerifyPlan


def network():
    net = nn.HybridSequential(prefix="net_")
    net.add(nn.Dense(4, activation="tanh", in_units=3, prefix="a_"))
    net.initialize(mx.init.Constant(0.5))
    return net


def test_each_stage_prints_and_leads_to_the_next():
    net, x = network(), mx.nd.ones((2, 3))
    traced = net.trace(x)
    assert "hybrid.fully_connected %data0, %a_weight, %a_bias" in str(traced)
    optimized = traced.optimize()
    assert "hybrid.matmul" in str(optimized)
    assert "hybrid.fully_connected" not in str(optimized)
    lowered = optimized.lower(target="numpy")
    assert "hybrid_rt.arena" in lowered.plan()
    assert "def forward(ws, data0, a_weight, a_bias):" in str(lowered)
    compiled = lowered.compile()
    np.testing.assert_allclose(compiled(x).asnumpy(), net(x).asnumpy(), rtol=1e-6)
    assert str(compiled) == str(lowered)


def test_stages_leave_the_one_before_as_it_was():
    traced = network().trace(mx.nd.ones((2, 3)))
    before = str(traced)
    optimized = traced.optimize()
    middle = str(optimized)
    optimized.lower().compile()
    assert (str(traced), str(optimized)) == (before, middle)
    assert str(traced.optimize()) == middle


def test_printed_stages_parse():
    traced = network().trace(mx.nd.ones((2, 3)))
    optimized = traced.optimize()
    for printed in (str(traced), str(optimized), optimized.lower().plan()):
        module = Parser(context(), printed).parse_module()
        module.verify()


def test_unknown_target():
    with pytest.raises(UnsupportedError) as error:
        network().trace(mx.nd.ones((2, 3))).optimize().lower(target="cuda")
    assert str(error.value) == "target 'cuda' does not exist; use one of ('numpy', 'llvm', 'triton')"


def test_every_stage_is_dumped(tmp_path, monkeypatch):
    options = dataclasses.replace(pipeline.OPTIONS, dump=str(tmp_path / "stages"))
    monkeypatch.setattr(pipeline, "OPTIONS", options)
    net, x = network(), mx.nd.ones((2, 3))
    net.hybridize()
    net(x)
    with mx.autograd.record():
        net(x)
    names = sorted(p.name for p in (tmp_path / "stages").iterdir())
    (number,) = {n.removeprefix("net-").split(".")[0] for n in names if "-recorded" not in n}
    expected = [f"net-{number}.graph.{n:02}-{p.name}.mlir" for n, p in enumerate(pipeline.GRAPH)]
    expected += [f"net-{number}.kernels.{n:02}-{p.name}.mlir" for n, p in enumerate(target_named(None).passes())]
    suffix = "plan" if target_named(None).name == "llvm" else "py"
    expected += [f"net-{number}.kernels.forward.{suffix}"]
    assert set(expected) <= set(names)
    (recorded,) = [n for n in names if n.endswith(f"-recorded.kernels.backward.{suffix}")]
    assert "backward" in (tmp_path / "stages" / recorded).read_text()


def test_plans_are_checked_where_verification_is_on(monkeypatch):
    assert pipeline.OPTIONS.verify, "in tests of stages it is"
    planned = []
    monkeypatch.setattr(VerifyPlan, "apply", lambda self, ctx, op: planned.append(op))
    for verify in (True, False):
        monkeypatch.setattr(
            pipeline, "OPTIONS", dataclasses.replace(pipeline.OPTIONS, verify=False, verify_plan=verify)
        )
        for target in ("numpy", "llvm"):
            planned.clear()
            network().trace(mx.nd.ones((2, 3))).optimize().lower(target)
            assert bool(planned) == verify, target


def test_reasons_are_bounded(monkeypatch):
    monkeypatch.setattr(cached_graph, "_REASONS", 3)
    net = HybridLambda(lambda F, x: x * 2, prefix="net_")
    net.hybridize()
    for n in range(1, 6):
        net(mx.nd.ones((n,)))
    assert net.explain().splitlines()[:4] == [
        "net: traced 5 times",
        "  3. argument 0 has shape (3,), compiled before for (2,)",
        "  4. to 5. likewise, at last: argument 0 has shape (5,), compiled before for (4,)",
        "signature (float32[1]), predict mode",
    ]


def test_equal_graphs_give_equal_programs():
    """Nothing depends on the addresses of objects: the same network compiles to the same text every time."""

    def branches(F, x):
        parts = [F.exp(x * n) + F.dot(x, x) for n in range(4)]
        sums = [F.sum(p, axis=1, keepdims=True) for p in parts]
        return sum(parts) * sum(sums), [p / s for p, s in zip(parts, sums, strict=True)]

    x = mx.nd.ones((5, 5))
    programs = {str(HybridLambda(branches, prefix="net_").trace(x).optimize().lower()) for _ in range(8)}
    assert len(programs) == 1

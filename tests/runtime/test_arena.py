"""The arena of every benchmark network, forward and backward, is hardly larger than what must lie in it at one time."""

from __future__ import annotations

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr

from benchmarks.workloads import WORKLOADS
from hybridc.compile import pipeline
from hybridc.compile.collector import collector_at_rest
from hybridc.compile.stages import Traced
from hybridc.dialects.mlir.hybrid_rt import ArenaOp
from hybridc.trace.tracer import trace_call
from hybridc.transforms.memory.verify_plan import VerifyPlan
from tests.slices import one_in


@collector_at_rest()
def planned(trace, grads):
    module = Traced(trace, grads).optimize().module.clone()
    for each in (*pipeline.numpy(), VerifyPlan()):
        each.apply(Context(), module)
    return [f for f in module.ops if f.sym_visibility is None]


@pytest.mark.parametrize("name", one_in(2, WORKLOADS))
def test_arena_is_near_the_largest_live_set(name):
    program = WORKLOADS[name].build(hybridized=False)
    for block, feed in zip(program.blocks, program.feeds(), strict=True):
        for recorded in (False, True):
            trace = trace_call(block, list(feed), recorded)
            floats = tuple(i for i, leaf in enumerate(trace.leaves) if leaf._dtype.kind == "f")
            for function in planned(trace, floats if recorded else ()):
                (arena,) = [op for op in function.walk() if isinstance(op, ArenaOp)]
                live = function.attributes["hybrid.live"]
                assert isinstance(live, IntegerAttr)
                assert live.value.data <= arena.size <= 1.1 * live.value.data, function.sym_name.data

"""The arena of every benchmark network, forward and backward, is hardly larger than what must lie in it at one time."""

from __future__ import annotations

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr
from xdsl.transforms.common_subexpression_elimination import CommonSubexpressionElimination
from xdsl.transforms.dead_code_elimination import DeadCodeElimination

from benchmarks.workloads import WORKLOADS
from hybridc.dialects.hybrid_rt import ArenaOp
from hybridc.lower.hybrid_to_linalg import HybridToLinalg
from hybridc.pipeline import collector_at_rest
from hybridc.stages import Traced
from hybridc.switch.fuse_kernels import FuseKernels
from hybridc.switch.plan_memory import PlanMemory
from hybridc.switch.tile_kernels import TileKernels
from hybridc.switch.verify_plan import VerifyPlan
from hybridc.trace.tracer import trace_call
from hybridc.transforms.fold_views import FoldViews

CLEANUP = (CommonSubexpressionElimination(), DeadCodeElimination())
PASSES = (
    HybridToLinalg("numpy"),
    *CLEANUP,
    FoldViews(),
    *CLEANUP,
    FuseKernels(),
    TileKernels(2),
    PlanMemory(),
    VerifyPlan(),
)


@collector_at_rest()
def planned(trace, grads):
    module = Traced(trace, grads).optimize().module.clone()
    for each in PASSES:
        each.apply(Context(), module)
    return [f for f in module.ops if f.sym_visibility is None]


@pytest.mark.parametrize("name", WORKLOADS)
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

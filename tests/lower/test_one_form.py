"""The structured form and the kernels of the benchmark networks are the same text for all targets."""

from __future__ import annotations

import pytest
from xdsl.context import Context

from benchmarks import workloads
from hybridc.compile import pipeline
from hybridc.compile.stages import Traced
from hybridc.trace.tracer import trace_call

NETWORKS = [w.name for w in workloads.WORKLOADS.values() if w.name not in ("mlp_train", "custom_op")]
LISTS = {
    "numpy": pipeline.NUMPY_KERNELS,
    "llvm": (*pipeline.structured("llvm"), *pipeline.KERNELS),
    "triton": (*pipeline.structured("triton"), *pipeline.KERNELS),
}


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", NETWORKS)
def test_targets_have_one_form(name, dtype):
    workload = workloads.WORKLOADS[name]
    program = workload.build(False)
    block, arrays = program.blocks[0], program.feeds()[0]
    block.cast(dtype)
    trace = trace_call(block, [x.astype(dtype) for x in arrays], training=False)
    module = Traced(trace, tuple(range(len(arrays)))).optimize().module
    texts = set()
    for passes in LISTS.values():
        formed = module.clone()
        for each in passes:
            each.apply(Context(), formed)
        texts.add(str(formed))
    assert len(texts) == 1

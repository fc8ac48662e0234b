"""The structured form and the kernels of the benchmark networks are the same text for all targets."""

from __future__ import annotations

import pytest
from xdsl.context import Context

from benchmarks import workloads
from hybridc.compile import pipeline
from hybridc.compile.stages import Traced
from hybridc.trace.tracer import trace_call
from hybridc.transforms.structured.fuse_attention import FuseAttention
from tests.slices import but, crossed

NETWORKS = [w.name for w in workloads.WORKLOADS.values() if w.name not in ("mlp_train", "custom_op")]
LISTS = {
    "numpy": pipeline.NUMPY_KERNELS,
    "llvm": (*pipeline.structured_passes("llvm"), *pipeline.KERNELS),
    "triton": pipeline.triton_kernels(),
}


def texts(name, dtype, training, lists):
    """What these lists of passes make of a network, or of it and its gradients."""
    program = workloads.WORKLOADS[name].build(False)
    block, arrays = program.blocks[0], program.feeds()[0]
    block.cast(dtype)
    trace = trace_call(block, [x.astype(dtype) for x in arrays], training=False)
    module = Traced(trace, tuple(range(len(arrays))) if training else ()).optimize().module
    found = set()
    for passes in lists:
        formed = module.clone()
        for each in passes:
            each.apply(Context(), formed)
        found.add(str(formed))
    return found


@pytest.mark.parametrize(("name", "dtype"), crossed(2, NETWORKS, ["float32", "float16"]))
def test_targets_have_one_form(name, dtype):
    assert len(texts(name, dtype, False, LISTS.values())) == 1


@pytest.mark.parametrize(("name", "dtype"), but([("lstm", "float16")], crossed(2, NETWORKS, ["float16", "float32"])))
def test_targets_differ_in_what_attention_saves_alone(name, dtype):
    """With gradients, too, if what a backward of an attention is given is the same."""
    same = FuseAttention()
    lists = [[same if isinstance(p, FuseAttention) else p for p in passes] for passes in LISTS.values()]
    assert len(texts(name, dtype, True, lists)) == 1

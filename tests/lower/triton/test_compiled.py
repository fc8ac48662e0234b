"""Kernels of the benchmark's networks compiled for cards that are not there: no spills, memory moved by 16 bytes."""

from __future__ import annotations

import pytest

import hybridc as mx
from benchmarks.gpu.compile import functions_of
from benchmarks.workloads import WORKLOADS
from hybridc.gluon.nn import HybridLambda
from hybridc.tools.triton_report import NVIDIA_H100, SHARED, TARGETS, report


def traced(name):
    program = WORKLOADS[name].build(hybridized=False)
    return [block.trace(*feed) for block, feed in zip(program.blocks, program.feeds(), strict=True)]


@pytest.mark.parametrize("target", TARGETS)
def test_kernels_bound_by_memory(target):
    names = ("chain", "gelu_bias", "softmax", "layernorm", "norm_layer")
    for made in report(functions_of((t for name in names for t in traced(name)), target), [target]):
        assert made.spilled == 0, made
        assert made.shared <= SHARED[target], made
        if made.function != "combine":  # which reads a few numbers
            assert made.wide, made
            assert made.wide >= made.narrow - 2, made  # what is reduced is stored as single numbers


def test_a_network_with_products():
    """All kernels of an attention: no spills; what follows the products moves 16 bytes at a time."""
    for made in report(functions_of(traced("attention"), NVIDIA_H100), [NVIDIA_H100]):
        assert made.spilled == 0, made
        assert made.wide > made.narrow, made


def test_draws_gathers_and_rows_that_are_added():
    def function(F, index, table):
        return F.Embedding(index, table, input_dim=1000, output_dim=256) * F.random.uniform(shape=(32, 256))

    traces = [HybridLambda(function).trace(mx.nd.ones((32,), dtype="int32"), mx.nd.ones((1000, 256)))]
    for made in report(functions_of(traces, NVIDIA_H100), [NVIDIA_H100]):
        assert made.spilled == 0, made

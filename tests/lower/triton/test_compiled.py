"""Kernels of the benchmark's networks compiled for cards that are not there: no spills, memory moved by 16 bytes."""

from __future__ import annotations

import pytest

import hybridc as mx
from benchmarks.gpu.compile import functions_of
from benchmarks.workloads import WORKLOADS
from hybridc.gluon.nn import HybridLambda
from hybridc.lower.kernel import analyse
from hybridc.lower.structured import kernels
from hybridc.lower.triton.nests import phases_of
from hybridc.tools.triton_report import NVIDIA_H100, SHARED, TARGETS, report
from tests.lower.kernels import parse
from tests.lower.write_kernel import BODIES, Writer


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


@pytest.mark.parametrize("sizes", [(4096, 992, 16), (4097, 1033, 2047)])
def test_maps_of_any_size_move_vectors(sizes):
    """Alone and launched together, when each program chooses its arrays; single numbers only in the last block."""
    for domains in (sizes[:1], sizes):
        writer = Writer("f32", domains=[(n,) for n in domains])
        made = [
            writer.map([writer.arg((0,), n), writer.arg((0,), n)], (0,), BODIES[2][0], n) for n in range(len(domains))
        ]
        (function,) = kernels(parse(writer.text(made))).values()
        (phase,) = phases_of(analyse(function), {}).phases
        block, warps = dict(phase.configs[0].constants)["BLOCK"], phase.configs[0].warps
        for compiled in report([(phase.function, phase.configs[0], phase.numbers)], [NVIDIA_H100]):
            assert compiled.spilled == 0, compiled
            assert compiled.wide == 3 * block // (4 * 32 * warps), compiled
            assert compiled.narrow == (3 * block // (32 * warps) if sizes[0] % 16 else 0), compiled


def test_long_rows():
    """As many elements as a program holds, with 32 for each thread; and more, by what is carried along."""
    functions = [
        (lambda F, x: F.log_softmax(x), [(4096, 32000)], "float16"),
        (lambda F, x: F.softmax(x), [(4, 100000)], "float32"),
        (lambda F, *xs: F.LayerNorm(*xs), [(4, 100000), (100000,), (100000,)], "float32"),
    ]
    traces = [HybridLambda(f).trace(*[mx.nd.zeros(s, dtype=d) for s in shapes]) for f, shapes, d in functions]
    for made in report(functions_of(traces, NVIDIA_H100), [NVIDIA_H100]):
        assert made.spilled == 0, made
        if made.shared and made.function != "combine":  # it reduces rows
            assert made.wide, made

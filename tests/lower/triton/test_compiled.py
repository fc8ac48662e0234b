"""Kernels of the benchmark's networks compiled for cards that are not there: no spills, memory moved by 16 bytes."""

from __future__ import annotations

import pytest

import hybridc as mx
from benchmarks.gpu import bench
from benchmarks.gpu.compile import functions_of, traces
from hybridc.gluon.nn import HybridLambda
from hybridc.ir.kernels.kernel_text import read_kernel
from hybridc.ir.structured import kernels
from hybridc.tools.triton_report import AMD_MI300, NVIDIA_A100, NVIDIA_H100, SHARED, report
from tests.lower.kernels import parse
from tests.lower.triton.printed import launches_of
from tests.lower.write_kernel import BODIES, Writer
from tests.slices import but

pytestmark = pytest.mark.triton


# Of each family of workloads those that are compiled here; the attention of the benchmarks is in
# test_compiled_attention.py and test_compiled_attention_backward.py.
BOUND_BY_MEMORY = ("tanh(", "gelu(x + b)", "softmax", "layer norm", "cross entropy")
NETWORKS = ("small network", "LSTM", "Adam")
PRODUCTS = ("gelu(x w + b), 2048", "gelu(x w sx sw + b)", "encoder layer, training step, float16")
COMPILED = {
    NVIDIA_H100: (*BOUND_BY_MEMORY, *NETWORKS, *PRODUCTS),
    NVIDIA_A100: (*BOUND_BY_MEMORY, *NETWORKS, "gelu(x w sx sw + b)"),
    AMD_MI300: (*BOUND_BY_MEMORY, *NETWORKS, "gelu(x w sx sw + b)", "gelu(x w + b), 2048"),
}


def test_what_is_compiled_is_what_is_measured():
    """Each workload of the GPU's benchmarks has traces, each family of them is compiled by some test."""
    measured = [name.replace(" on 100 M parameters", "") for name in bench.checks(False) if name != "machine"]
    known = traces()
    assert [name for name in measured if name not in known] == []
    families = {name.partition(", ")[0] for name in measured}
    covered = [*COMPILED[NVIDIA_H100], "attention", "encoder layer"]
    assert [f for f in families if not any(f.startswith(name.partition(",")[0]) for name in covered)] == []


@pytest.fixture(scope="module", params=but(COMPILED, COMPILED))
def compiled(request):
    """What becomes of the benchmarks' functions for a target: pairs of a workload and what became of a function."""
    target = request.param
    chosen = [(name, make) for name, make in traces().items() if name.startswith(COMPILED[target])]
    chosen = [(name, make) for name, make in chosen if "CPU" not in name]
    work = [(name, each) for name, make in chosen for each in functions_of(make(), target)]
    names = [name for name, _ in work]
    return target, list(zip(names, report([each for _, each in work], [target]), strict=True))


def test_nothing_spills_and_shared_memory_suffices(compiled):
    target, found = compiled
    assert len(found) > len(COMPILED[target])
    for name, made in found:
        assert made.spilled == 0, (name, made)
        assert made.shared <= SHARED[target], (name, made)


def test_memory_is_accessed_16_bytes_at_a_time(compiled):
    """All that is large; not what is one number for each row, nor what is gathered."""
    _, found = compiled
    for name, made in found:
        assert made.wide, (name, made)
        if name.startswith(BOUND_BY_MEMORY) and made.function != "combine":
            gathered = 4 * (name.startswith("cross entropy") or "keep" in made.function)
            assert made.wide >= made.narrow - gathered, (name, made)


def test_tensor_cores_multiply(compiled):
    for name, made in compiled[1]:
        if "matmul" in made.function and "float16" in name and "16-byte" not in name:
            loops = "bk=" in made.config
            assert (made.tensor > 0) == loops, (name, made)


def test_a_network_with_products():
    """All kernels of an attention: no spills; what follows the matmuls moves 16 bytes at a time."""
    for made in report(functions_of(traces()["attention (CPU's)"](), NVIDIA_H100), [NVIDIA_H100]):
        assert made.spilled == 0, made
        assert made.wide > made.narrow, made


def test_draws_gathers_and_rows_that_are_added():
    def function(F, index, table):
        return F.Embedding(index, table, input_dim=1000, output_dim=256) * F.random.uniform(shape=(32, 256))

    given = [HybridLambda(function).trace(mx.nd.ones((32,), dtype="int32"), mx.nd.ones((1000, 256)))]
    for made in report(functions_of(given, NVIDIA_H100), [NVIDIA_H100]):
        assert made.spilled == 0, made


@pytest.mark.parametrize("sizes", [(4097, 1033, 2047), pytest.param((4096, 992, 16), marks=pytest.mark.long)])
def test_maps_of_any_size_move_vectors(sizes):
    """Alone and launched together, when each program chooses its arrays; single numbers only in the last block."""
    for domains in (sizes[:1], sizes):
        writer = Writer("f32", domains=[(n,) for n in domains])
        made = [
            writer.map([writer.arg((0,), n), writer.arg((0,), n)], (0,), BODIES[2][0], n) for n in range(len(domains))
        ]
        (function,) = kernels(parse(writer.text(made))).values()
        (kernel_launch,) = launches_of(read_kernel(function), {}).kernel_launches
        block, warps = dict(kernel_launch.configs[0].constants)["BLOCK"], kernel_launch.configs[0].warps
        for compiled in report(
            [(kernel_launch.function, kernel_launch.configs[0], kernel_launch.numbers)], [NVIDIA_H100]
        ):
            assert compiled.spilled == 0, compiled
            assert compiled.wide == 3 * block // (4 * 32 * warps), compiled
            assert compiled.narrow == (3 * block // (32 * warps) if sizes[0] % 16 else 0), compiled


def test_long_rows():
    """As many elements as a program holds, with 32 for each thread; and more, by what is carried along."""
    functions = [
        (lambda F, dy, y: y * (dy - F.sum(y * dy, axis=1, keepdims=True)), [(4096, 32000)] * 2, "float32"),
        (lambda F, x: F.log_softmax(x), [(4096, 32000)], "float16"),
        (lambda F, x: F.softmax(x), [(4, 100000)], "float32"),
        (lambda F, *xs: F.LayerNorm(*xs), [(4, 100000), (100000,), (100000,)], "float32"),
    ]
    given = [HybridLambda(f).trace(*[mx.nd.zeros(s, dtype=d) for s in shapes]) for f, shapes, d in functions]
    for made in report(functions_of(given, NVIDIA_H100), [NVIDIA_H100]):
        assert made.spilled == 0, made
        assert made.wide, made
        if made.function != "combine":  # which reads a few numbers
            assert made.narrow <= 2, made

"""Products compiled without a GPU: nothing spills, memory is accessed 16 bytes at a time, tensor cores multiply."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import hybridc as mx
from hybridc.compile import pipeline
from hybridc.gluon.nn import HybridLambda
from hybridc.ir.kernels.kernel_text import read_kernel
from hybridc.ir.structured import kernels
from hybridc.tools.triton_report import AMD_MI300, NVIDIA_A100, NVIDIA_H100, SHARED, fitting, report
from hybridc.transforms.code.blocks import choose_block_matmul as contractions
from hybridc.transforms.schedules.blocks import tile_blocks
from tests.lower.llvm.guarded import run_passes
from tests.lower.llvm.test_gemm import contraction_kernel
from tests.lower.triton.printed import launches_of_matmul

pytestmark = pytest.mark.triton


def dense(F, x, w, b):
    return F.LeakyReLU(F.FullyConnected(x, w, b, num_hidden=w.shape[0]), act_type="gelu")


def network():
    """The kernel of a layer with its activation, as networks give it."""
    arrays = [mx.nd.array(np.ones(s), dtype="float16") for s in ((512, 256), (512, 256), (512,))]
    module = HybridLambda(dense).trace(*arrays).optimize().module.clone()
    run_passes(module, pipeline.triton_kernels())
    (function,) = kernels(module).values()
    return read_kernel(function)


KERNELS = {
    "f16": lambda: contraction_kernel("ik,kj->ij", {"i": 2048, "j": 2048, "k": 512}, "f16"),
    "f16, heads": lambda: contraction_kernel("bqhd,bkhd->bhqk", {"b": 8, "q": 128, "h": 8, "d": 64, "k": 128}, "f16"),
    "f16, few outputs": lambda: contraction_kernel("ik,kj->ij", {"i": 64, "j": 64, "k": 65536}, "f16"),
    "f16, what follows": network,
    "f32": lambda: contraction_kernel("ik,kj->ij", {"i": 2048, "j": 2048, "k": 512}),
    "f32, a vector": lambda: contraction_kernel("k,jk->j", {"j": 4096, "k": 4096}),
    "f32, a vector across": lambda: contraction_kernel("k,kj->j", {"j": 4096, "k": 4096}),
    "f64": lambda: contraction_kernel("ik,kj->ij", {"i": 512, "j": 512, "k": 512}, "f64"),
}


@pytest.fixture(scope="module")
def compiled():
    """What became of all of them, by name and target."""
    made = {name: launches_of_matmul(make(), {}).kernel_launches for name, make in KERNELS.items()}
    given = [(name, kernel_launch) for name, kernel_launches in made.items() for kernel_launch in kernel_launches]
    found = {}
    for target, names in ((NVIDIA_H100, [*KERNELS]), (NVIDIA_A100, ["f16", "f32"]), (AMD_MI300, ["f16"])):
        chosen = [(name, kernel_launch) for name, kernel_launch in given if name in names]
        work = [(kernel_launch.function, fitting(kernel_launch.configs, target), ()) for _, kernel_launch in chosen]
        for (name, _), each in zip(chosen, report(work, [target]), strict=True):
            found.setdefault((name, target), []).append(each)
    return found


@pytest.mark.long
def test_nothing_spills_and_shared_memory_suffices(compiled):
    for (_, target), kernel_launches in compiled.items():
        for made in kernel_launches:
            assert made.spilled == 0, made
            assert made.registers > 16, made
            assert made.shared <= SHARED[target], made


@pytest.mark.long
def test_memory_is_accessed_16_bytes_at_a_time(compiled):
    """All that is large: of a bias, or of a vector, each thread may need fewer elements."""
    for (name, _), kernel_launches in compiled.items():
        for made in kernel_launches:
            assert made.wide > 3, made
            assert made.narrow <= (6 if "vector" in name else 2), made


@pytest.mark.long
def test_tensor_cores_multiply(compiled):
    for (name, _), (contraction, *_) in compiled.items():
        if "f32" not in name:
            assert contraction.tensor > 0, contraction
    assert all(made.tensor == 0 for made in compiled["f32", NVIDIA_H100])


def test_single_precision_goes_to_tensor_cores_if_allowed(monkeypatch):
    for module in (tile_blocks, contractions):
        monkeypatch.setattr(module, "OPTIONS", replace(module.OPTIONS, tf32=True))
    kernel = contraction_kernel("ik,jk->ij", {"i": 2048, "j": 2048, "k": 512})
    (kernel_launch,) = launches_of_matmul(kernel, {}).kernel_launches
    (made,) = report([(kernel_launch.function, kernel_launch.configs[0], kernel_launch.numbers)])
    assert made.tensor > 0
    assert made.spilled == 0
    assert made.narrow == 0


def test_odd_sizes_keep_wide_accesses_if_the_product_is_large():
    """What multiplies reads 16 bytes at a time; what it writes has the odd rows that are asked for."""
    kernel = contraction_kernel("ik,jk->ij", {"i": 2048, "j": 2048, "k": 1001}, "f16")
    kernel_launches = launches_of_matmul(kernel, {}).kernel_launches
    *copies, made = report([(p.function, p.configs[0], ()) for p in kernel_launches])
    assert len(copies) == 2
    assert made.tensor > 0
    assert made.spilled == 0
    assert made.narrow == 0

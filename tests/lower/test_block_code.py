"""The code of kernels for a machine whose programs work on whole tiles, as data: what each alternative is for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import hybridc as mx
from hybridc.compile import pipeline
from hybridc.gluon.nn import HybridLambda
from hybridc.ground.machine import GPU
from hybridc.ir.kernels.kernel_text import read_kernel
from hybridc.ir.structured import kernels
from hybridc.ir.tiles.block_code import BlockCopy, BlockFill, JoinedLaunches, PaddedCopy
from hybridc.ir.tiles.tile_program import TileLaunch, TileMap, TileSweep
from hybridc.transforms.code.blocks import matmul_padding
from hybridc.transforms.code.blocks.block_alternatives import BLOCK_ALTERNATIVES, choose_block_code
from hybridc.transforms.code.blocks.block_kernel_cache import BlockKernelCache
from hybridc.transforms.schedules.blocks.rough_maps import with_rough_maps
from tests.lower.kernels import parse
from tests.lower.llvm.guarded import native_kernels, run_passes
from tests.lower.llvm.test_gemm import contraction_kernel
from tests.lower.write_kernel import BODIES, Writer


def kernels_of(function, *arrays):
    """The kernels of a function of arrays, as a GPU has them."""
    module = HybridLambda(function).trace(*arrays).optimize().module.clone()
    run_passes(module, pipeline.triton_kernels())
    return native_kernels(module)


def attention(F, q, k, v):
    return F.batch_dot(F.softmax(F.batch_dot(q, k, transpose_b=True)), v)


def matmul(dtype, **sizes):
    return contraction_kernel("ik,kj->ij", {"i": 64, "j": 64, "k": 64} | sizes, dtype)


@pytest.mark.parametrize(
    ("kernel", "index", "what"),
    [
        (lambda: matmul("f16"), 0, ["matmul (64x64, 64 terms)"]),
        (
            lambda: kernels_of(attention, *[mx.nd.ones((2, 64, 16))] * 3)[0],
            1,
            ["attention (64 rows, 64 keys, 2 times)"],
        ),
        (lambda: kernels_of("softmax", mx.nd.ones((4, 5)))[0], 2, ["rows"]),
        (lambda: matmul("i32"), 2, ["rows"]),
        (lambda: matmul("f32", i=0), 2, []),
    ],
    ids=["matmul", "attention", "rows", "a matmul of integers", "a matmul without rows"],
)
def test_the_first_alternative_that_fits(kernel, index, what):
    fitting = kernel()
    assert [a.code(fitting, {}) is not None for a in BLOCK_ALTERNATIVES[:index]] == [False] * index
    code = choose_block_code(fitting, {})
    assert [launch.what for launch in code.launches if isinstance(launch, TileLaunch)] == what
    assert len(code.launches) == len(what)


def launches_of(text):
    """The launches of a kernel, which is given as text."""
    (function,) = kernels(parse(text)).values()
    return choose_block_code(read_kernel(function), {}).launches


def test_results_that_are_constant():
    fill = """
    func.func private @kernel() -> tensor<3x4xf32> attributes {hybrid.domains = []} {
      %n = arith.constant 2.5 : f32
      %e = tensor.empty() : tensor<3x4xf32>
      %r = linalg.fill ins(%n : f32) outs(%e : tensor<3x4xf32>) -> tensor<3x4xf32>
      func.return %r : tensor<3x4xf32>
    }"""
    assert launches_of(fill) == [BlockFill(np.dtype("float32"), 12, 2.5, "y0")]


def test_a_result_that_is_another_s_too():
    writer = Writer(domains=[(5,)])
    made = writer.map([writer.arg((0,), 0)], (0,), BODIES[1][0], 0)
    launch, copy = launches_of(writer.text([made, made]))
    assert launch.buffers == ("x0", "y0")
    assert copy == BlockCopy(np.dtype("float64"), (5,), "y0", "y1")


def test_operands_with_odd_rows_are_copied(monkeypatch):
    monkeypatch.setattr(matmul_padding, "GPU", replace(GPU, launch=-1e9))
    code = choose_block_code(matmul("f16", i=20, k=9), {})
    copy, launch = code.launches
    assert isinstance(copy, PaddedCopy)
    assert (copy.lines, copy.size, copy.filled, copy.inner) == (20, 9, 16, "terms")
    assert (copy.source, copy.target) == ("x0", code.buffers[-1]) == ("x0", "w0")
    assert launch.buffers == ("w0", "x1", "y0")
    assert code.locals == [20 * 16 * 2]


def test_a_large_matmul_has_a_library_s_beside_it():
    assert choose_block_code(matmul("f32"), {}).library is None
    library = choose_block_code(matmul("f32", i=1024, j=1024, k=1024), {}).library
    assert (library.matmul.m, library.matmul.buffers, library.after) == (1024, (1, 0, 2), None)


def test_equal_launches_are_one():
    sizes = (3, 40, 1)
    writer = Writer(domains=[(n,) for n in sizes])
    made = [writer.map([writer.arg((0,), n)], (0,), BODIES[1][0], n) for n in range(3)]
    (joined,) = launches_of(writer.text(made))
    assert isinstance(joined, JoinedLaunches)
    assert [launch.sizes for launch in joined.members] == [(n,) for n in sizes]
    assert [launch.buffers for launch in joined.members] == [(f"x{n}", f"y{n}") for n in range(3)]


def test_maps_are_rough_where_all_uses_round_them():
    maps = TileMap("1", "math.exp", ("0",), "f32"), TileMap("2", "arith.truncf", ("1",), "f16")
    other = TileMap("3", "arith.addf", ("1", "1"), "f32")

    def rough(*statements):
        (sweep,) = with_rough_maps([TileSweep((), statements)])
        return [s.name for s in sweep.statements if s.rough]

    assert rough(*maps) == ["1"]
    assert rough(*maps, other) == []


def test_code_is_printed_once_for_equal_calls():
    printed = []
    cache = BlockKernelCache(lambda code: printed.append(code) or code)
    kernel = matmul("f32")
    assert cache.of(kernel, {}) is cache.of(kernel, {}) is printed[0]
    assert cache.of(kernel, {0: (1, 64)}) is printed[1]
    assert cache.memory(kernel, {}) == (0, [])
    assert len(printed) == 2

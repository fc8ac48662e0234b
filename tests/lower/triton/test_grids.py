"""How many programs kernels have: of a grid's axes only the first may pass 65535."""

from __future__ import annotations

import numpy as np
import pytest

import hybridc as mx
from hybridc.dialects.handwritten import ArraySpec
from hybridc.dialects.kernels.add_rows import add_rows
from hybridc.errors import UnsupportedError
from hybridc.ir.kernels.kernel_text import read_kernel
from hybridc.lower.triton.handwritten_launch import launch
from hybridc.lower.triton.triton_function import PROGRAMS
from hybridc.runtime.triton_kernel import run_interpreted
from tests.lower.kernels import kernel
from tests.lower.llvm.test_gemm import contraction_kernel
from tests.lower.triton.printed import launches_of, launches_of_matmul

MANY = 70000
F32 = np.dtype("float32")


def transposed(*shape: int):
    """The launches of a batch of transpositions, by the sizes of what is read."""
    n, a, b = shape
    found = kernel(f"""
    func.func private @transpose(%x: tensor<{n}x{a}x{b}xf32>) -> tensor<{n}x{b}x{a}xf32>
        attributes {{hybrid.domains = [array<i64: {n}, {b}, {a}>]}} {{
      %e = tensor.empty() : tensor<{n}x{b}x{a}xf32>
      %r = linalg.generic {{indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2, d1)>,
          affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]}}
          ins(%x : tensor<{n}x{a}x{b}xf32>) outs(%e : tensor<{n}x{b}x{a}xf32>)
          attrs = {{hybrid.axes = array<i64: 0, 1, 2>, hybrid.loop_nest = 0 : i64}} {{
        ^bb0(%v: f32, %o: f32):
          linalg.yield %v : f32
      }} -> tensor<{n}x{b}x{a}xf32>
      func.return %r : tensor<{n}x{b}x{a}xf32>
    }}""")
    return launches_of(read_kernel(found), {}).kernel_launches


def grids(kernel_launches):
    return [config.grid for kernel_launch in kernel_launches for config in kernel_launch.configs]


def add_rows_region(data, index, shape, count):
    """The launch that adds rows along the second of three axes."""
    given = ArraySpec((shape[0], count, shape[2]), data), ArraySpec((count,), index)
    return launch(add_rows("triton", *given, shape, 1, "clip"), [data, index, data])


@pytest.mark.parametrize(
    "kernel_launches",
    [
        lambda: transposed(MANY, 33, 40),
        lambda: transposed(2, 40, MANY * 64),
        lambda: [add_rows_region(F32, F32, (MANY, 5, 3), 7)],
        lambda: [add_rows_region(F32, F32, (1, 5, MANY * 128), 7)],
        lambda: (
            launches_of_matmul(
                contraction_kernel("bik,bkj->bij", {"b": MANY, "i": 2, "j": 2, "k": 2}), {}
            ).kernel_launches
        ),
        lambda: (
            launches_of_matmul(
                contraction_kernel("ik,kj->ij", {"i": 512, "j": MANY * 128 + 1, "k": 64}, "f16"), {}
            ).kernel_launches
        ),
    ],
)
def test_grids_are_those_that_a_gpu_takes(kernel_launches):
    """A driver answers to any other launch that a value is invalid."""
    found = grids(kernel_launches())
    assert found
    assert all(n <= most for grid in found for n, most in zip(grid, PROGRAMS, strict=True))
    assert any(grid[0] > PROGRAMS[1] for grid in found)


def test_a_batch_of_tiles():
    """Each program finds its rows, its columns and its number in the batch."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, 70, 33)).astype(np.float32)
    (kernel_launch,) = transposed(*x.shape)
    for config in kernel_launch.configs:
        y = np.zeros((3, 33, 70), np.float32)
        run_interpreted(
            kernel_launch.function, [(x, y)[i] for i in kernel_launch.buffers], kernel_launch.numbers, config
        )
        np.testing.assert_array_equal(y, x.swapaxes(1, 2))


def test_a_batch_of_row_sums():
    rng = np.random.default_rng(0)
    data, index = rng.normal(size=(3, 9, 150)), np.array([0, 69, 3, 3, 40, 69, 8, 0, 33])
    kernel_launch = add_rows_region(np.dtype("float64"), np.dtype("int64"), (3, 70, 150), 9)
    y = np.zeros((3, 70, 150))
    run_interpreted(kernel_launch.function, [data, index, y], kernel_launch.numbers, kernel_launch.configs[0])
    want = np.zeros_like(y)
    for n, place in enumerate(index):
        want[:, place] += data[:, n]
    np.testing.assert_allclose(y, want, rtol=1e-12)


def nothing(x_ptr):
    pass


def test_a_grid_of_an_authors_that_no_gpu_takes():
    with pytest.raises(UnsupportedError, match=r"nothing: .* needs 1x65536x1 programs; a GPU runs at most "):
        launch(mx.op.TritonKernel(nothing, (1, 65536)), [F32])

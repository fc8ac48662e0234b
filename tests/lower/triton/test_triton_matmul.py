"""Products and what follows them by Triton functions, in the interpreter, against NumPy in float64."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

import hybridc as mx
from hybridc.compile import pipeline
from hybridc.gluon.nn import HybridLambda
from hybridc.ground.machine import GPU
from hybridc.ir.kernels.kernel_text import read_kernel
from hybridc.ir.structured import kernels
from hybridc.transforms.code.blocks import matmul_padding
from hybridc.transforms.code.blocks.matmul_configs import CANDIDATES, MOST, MatmulTile, choose, choose_vector
from tests.lower.evaluate import Evaluator
from tests.lower.kernels import parse
from tests.lower.llvm.guarded import run_passes
from tests.lower.llvm.test_gemm import TOLERANCE, contraction_kernel, expected, numbers_of
from tests.lower.triton.guarded import Interpreted, run_regions
from tests.lower.triton.printed import launches_of_matmul
from tests.lower.write_kernel import BODIES, Writer, _operand, _product, examples

pytestmark = pytest.mark.triton


EPS = {"float16": 1e-3, "float32": 1.2e-7, "float64": 2.3e-16}
SMALL = MatmulTile(16, 32, 16, 4, 2, 2)


def check(spec, sizes, dtype="f32", tiles=(), parts=0, config=0, seed=0):
    """The matmul agrees with einsum; returns its launches."""
    rng = np.random.default_rng(seed)
    kernel = contraction_kernel(spec, sizes, dtype)
    left, right, _ = spec.replace("->", ",").split(",")
    a, b = (numbers_of(rng, tuple(sizes[x] for x in axes), dtype) for axes in (left, right))
    made = launches_of_matmul(kernel, {}, tiles, parts)
    assert made is not None
    want, scale = expected(spec, a, b)
    for at_end in (True, False):
        (got,) = run_regions(kernel, made, [a, b], at_end=at_end, config=config)
        assert np.all(abs(got - want) <= 4 * TOLERANCE[dtype] * scale + 1e-30), spec
    return made.kernel_launches


# --- products alone ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f16", "f32", "f64"])
@pytest.mark.parametrize("spec", ["ik,kj->ij", "ki,kj->ij", "ik,jk->ij", "ki,jk->ji"])
def test_matrices(spec, dtype):
    """All layouts of operands and results, sizes that blocks divide and sizes that they do not."""
    check(spec, {"i": 40, "j": 33, "k": 21}, dtype, [SMALL])
    check(spec, {"i": 32, "j": 64, "k": 48}, dtype, [SMALL])


@pytest.mark.parametrize("sizes", [(1, 6, 9), (4, 1, 5), (1, 1, 8), (3, 2, 1), (1, 1, 1), (4, 3, 0)])
def test_small(sizes):
    """One row, column or term, and none."""
    i, j, k = sizes
    for dtype in ("f16", "f32", "f64"):
        check("ik,kj->ij", {"i": i, "j": j, "k": k}, dtype)


@pytest.mark.parametrize(
    ("spec", "sizes"),
    [
        ("k,kj->j", {"k": 70, "j": 50}),
        ("k,jk->j", {"k": 700, "j": 50}),
        ("ik,k->i", {"k": 300, "i": 5}),
        ("bk,bkj->bj", {"k": 70, "j": 5, "b": 3}),
        ("k,k->", {"k": 3000}),
        ("bk,bk->b", {"b": 3, "k": 100}),
    ],
)
def test_vectors(spec, sizes):
    """A vector times a matrix, either way round and in batches, and a vector times a vector."""
    for config in range(4):
        check(spec, sizes, "f32", config=config)
    check(spec, sizes, "f16")


@pytest.mark.parametrize(
    ("spec", "sizes"),
    [
        ("bik,bkj->bij", {"b": 3, "i": 20, "j": 18, "k": 17}),
        ("bqhd,bkhd->bhqk", {"b": 2, "q": 17, "k": 19, "h": 3, "d": 8}),  # scores of split heads
        ("bhqk,bkhd->bqhd", {"b": 2, "q": 17, "k": 19, "h": 3, "d": 8}),  # and what they weigh
        ("bshd,hde->bse", {"b": 2, "s": 5, "h": 3, "d": 7, "e": 20}),  # heads merged while they are multiplied
        ("bse,hde->bhsd", {"b": 2, "s": 5, "h": 3, "d": 7, "e": 20}),  # and split
        ("bshd,bse->hde", {"b": 2, "s": 5, "h": 3, "d": 7, "e": 20}),  # the gradient of that weight: terms of two axes
        ("hbsd,hed->bse", {"b": 2, "s": 5, "h": 3, "d": 7, "e": 20}),  # terms that do not follow each other in memory
        ("ibjk,lkb->jil", {"i": 3, "b": 4, "j": 5, "k": 6, "l": 7}),
    ],
)
def test_any_axes(spec, sizes):
    for dtype in ("f32", "f16"):
        check(spec, sizes, dtype, [SMALL])


@pytest.mark.parametrize(
    ("spec", "sizes"),
    [
        ("ik,kj->ij", {"i": 20, "k": 19, "j": 37}),
        ("ki,jk->ij", {"i": 20, "k": 19, "j": 37}),
        ("bhqk,bkhd->bqhd", {"b": 2, "q": 17, "k": 19, "h": 3, "d": 7}),
        ("hbsd,hed->bse", {"b": 2, "s": 5, "h": 3, "d": 7, "e": 21}),
    ],
)
def test_operands_with_odd_rows_are_laid_out_anew(spec, sizes, monkeypatch):
    """Of half precision, where that pays; else they are read as they are."""
    assert len(check(spec, sizes, "f16", [SMALL])) == 1
    monkeypatch.setattr(matmul_padding, "GPU", replace(GPU, launch=-1e9))
    assert len(check(spec, sizes, "f16", [SMALL])) == 3
    assert len(check(spec, sizes, "f16", [SMALL], parts=2)) == 4
    assert len(check(spec, sizes, "f32", [SMALL])) == 1


def test_a_view_with_odd_rows_is_laid_out_anew(monkeypatch):
    monkeypatch.setattr(matmul_padding, "GPU", replace(GPU, launch=-1e9))
    kernel = contraction_kernel("bik,bkj->bij", {"b": 2, "i": 20, "j": 33, "k": 9}, "f16")
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 20, 9)).astype("f2"), rng.standard_normal((2, 9, 33)).astype("f2")
    strides = {0: (1, 18, -2), 1: (1, 2, 20)}
    made = launches_of_matmul(kernel, strides, [SMALL])
    assert len(made.kernel_launches) == 3
    assert made.locals == launches_of_matmul(kernel, {}, [SMALL]).locals, "memory is planned before strides are known"
    (got,) = run_regions(kernel, made, [a, b], strides)
    np.testing.assert_allclose(got, a.astype(float) @ b, atol=1e-5)


def test_strides():
    """Operands and results with gaps, backwards and transposed; what lies between is left alone."""
    kernel = contraction_kernel("bik,bkj->bij", {"b": 2, "i": 20, "j": 35, "k": 9})
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 20, 9)).astype("f"), rng.standard_normal((2, 9, 35)).astype("f")
    strides = {0: (190, -9, 1), 1: (1, 2, 20), 2: (1000, 40, 1)}
    made = launches_of_matmul(kernel, strides, [SMALL])
    for at_end in (True, False):
        (got,) = run_regions(kernel, made, [a, b], strides, at_end)
        np.testing.assert_allclose(got, a.astype(float) @ b, atol=1e-5)


@pytest.mark.parametrize(
    ("spec", "sizes"), [("ik,kj->ij", {"i": 20, "j": 40, "k": 200}), ("bk,bkj->bj", {"b": 2, "j": 9, "k": 200})]
)
def test_parts(spec, sizes):
    """Terms that programs share, of whom none has nothing; the same result every time."""
    for parts, shared in ((3, 3), (14, 13)):
        first, second = check(spec, sizes, "f32", [SMALL if "i" in sizes else MatmulTile(1, 16, 16, 4, 2)], parts)
        assert first.configs[0].grid[1] == shared
        assert second.configs[0].grid[1] == 1
    check(spec, sizes, "f64", parts=2)


def test_every_configuration_of_a_choice_gives_the_same():
    for config in range(MOST):
        check("ik,kj->ij", {"i": 70, "j": 50, "k": 40}, "f32", config=config)
        check("ik,kj->ij", {"i": 64, "j": 64, "k": 64}, "f16", config=config)


def test_sums_that_are_not_of_floating_point_are_left_to_loops():
    for dtype in ("i32", "i8"):
        assert launches_of_matmul(contraction_kernel("ik,kj->ij", {"i": 3, "j": 4, "k": 5}, dtype), {}) is None


def test_empty_results_are_left_to_loops():
    assert launches_of_matmul(contraction_kernel("ik,kj->ij", {"i": 0, "j": 3, "k": 2}), {}) is None


def test_nan_and_infinity():
    """What is masked counts for nothing, what is there does."""
    kernel = contraction_kernel("ik,kj->ij", {"i": 5, "j": 6, "k": 7})
    a, b = np.ones((5, 7), "f"), np.ones((7, 6), "f")
    a[1, 2], a[3, 0] = np.nan, np.inf
    (got,) = run_regions(kernel, launches_of_matmul(kernel, {}), [a, b])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(got, a @ b)


def test_far_offsets_are_of_64_bits():
    """An array of more than 2**31 elements, of which the last rows would lie before the first."""
    small = launches_of_matmul(contraction_kernel("ik,kj->ij", {"i": 64, "j": 64, "k": 64}), {})
    large = launches_of_matmul(contraction_kernel("ik,kj->ij", {"i": 2**20, "j": 64, "k": 2**12}), {})
    assert "int64" not in small.kernel_launches[0].function.source
    assert "int64" in large.kernel_launches[0].function.source


# --- what follows -----------------------------------------------------------------------------------------


def run(function, *arrays):
    """The results of a function of operators, its matmuls by Triton, and the kernels that these were."""
    net = HybridLambda(function)
    module = net.trace(*[mx.nd.array(x, dtype=x.dtype) for x in arrays]).optimize().module.clone()
    run_passes(module, pipeline.triton_kernels())
    made = Interpreted(module, lambda kernel, strides: launches_of_matmul(kernel, strides, _tiles(kernel)))
    return made.call("forward", *arrays), made.ran


def _tiles(kernel):
    """Small blocks, where there are rows."""
    return [SMALL] if len(kernel.nests[0].domain) > 1 else ()


def dense(F, x, w, b):
    return F.FullyConnected(x, w, b, num_hidden=w.shape[0], flatten=False)


def gelu(x):
    return 0.5 * x * (1 + special.erf(x / np.sqrt(2)))


EPILOGUES = {
    "bias and activation": (
        lambda F, x, w, b: F.tanh(dense(F, x, w, b)),
        lambda x, w, b: np.tanh(x @ w.T + b),
        [(20, 24), (40, 24), (40,)],
    ),
    "rows in two axes": (
        lambda F, x, w, b: F.relu(dense(F, x, w, b)),
        lambda x, w, b: np.maximum(x @ w.T + b, 0),
        [(3, 7, 24), (33, 24), (33,)],
    ),
    "gelu": (
        lambda F, x, w, b: F.LeakyReLU(dense(F, x, w, b), act_type="gelu"),
        lambda x, w, b: gelu(x @ w.T + b),
        [(20, 24), (40, 24), (40,)],
    ),
    "residual": (
        lambda F, x, w, b, r: dense(F, x, w, b) * 0.5 + r,
        lambda x, w, b, r: (x @ w.T + b) * 0.5 + r,
        [(20, 24), (40, 24), (40,), (20, 40)],
    ),
    "each row": (
        lambda F, x, w, s: F.broadcast_mul(F.dot(x, w), s),
        lambda x, w, s: (x @ w) * s,
        [(20, 24), (24, 40), (20, 1)],
    ),
    "one number": (
        lambda F, x, w, s: F.broadcast_add(F.dot(x, w), s),
        lambda x, w, s: x @ w + s,
        [(20, 24), (24, 40), (1, 1)],
    ),
    "scores with a mask": (
        lambda F, q, k, m: F.broadcast_add(F.batch_dot(q, k, transpose_b=True) / 4, m),
        lambda q, k, m: q @ k.transpose(0, 2, 1) / 4 + m,
        [(3, 18, 16), (3, 20, 16), (1, 18, 20)],
    ),
    "heads split": (
        lambda F, x, w, b: F.transpose(F.reshape(dense(F, x, w, b), (2, 9, 4, 8)), (0, 2, 1, 3)) + 1,
        lambda x, w, b: (x @ w.T + b).reshape(2, 9, 4, 8).transpose(0, 2, 1, 3) + 1,
        [(2, 9, 24), (32, 24), (32,)],
    ),
    "heads merged": (
        lambda F, x, w, b: F.sigmoid(dense(F, F.reshape(F.transpose(x, (0, 2, 1, 3)), (2, 9, 32)), w, b)),
        lambda x, w, b: special.expit(x.transpose(0, 2, 1, 3).reshape(2, 9, 32) @ w.T + b),
        [(2, 4, 9, 8), (24, 32), (24,)],
    ),
    "several results": (
        lambda F, x, w, b: (dense(F, x, w, b), F.exp(dense(F, x, w, b))),
        lambda x, w, b: (x @ w.T + b, np.exp(x @ w.T + b)),
        [(20, 6), (40, 6), (40,)],
    ),
    "a vector": (
        lambda F, x, w: F.exp(F.dot(x, w)) - 1,
        lambda x, w: np.exp(x @ w) - 1,
        [(50, 6), (6,)],
    ),
}


@pytest.mark.parametrize("name", EPILOGUES)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_what_follows(name, dtype):
    """Networks' kernels of a matmul and its epilogue are one function, and right."""
    function, reference, shapes = EPILOGUES[name]
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(-1, 1, s).astype(dtype) for s in shapes]
    got, ran = run(function, *arrays)
    assert ran
    assert any(len(kernel.ops) > 1 for kernel in ran)
    want = reference(*(x.astype(np.float64) for x in arrays))
    for g, w in zip(got, want if isinstance(want, tuple) else (want,), strict=True):
        np.testing.assert_allclose(g.astype(np.float64), w, rtol=0, atol=16 * EPS[dtype] * max(1, abs(w).max()))


@st.composite
def fused(draw):
    """The text of a random matmul and what follows it, in any order of its axes."""
    rank = draw(st.integers(1, 4))
    domain = draw(st.lists(st.sampled_from((1, 2, 3)), min_size=rank, max_size=rank))
    domain[draw(st.integers(0, rank - 1))] = 18
    writer = Writer(domains=[tuple(domain)])
    values = [draw(_product(writer, 0, rank))]
    for _ in range(draw(st.integers(0, 3))):
        reads = [draw(_operand(writer, 0, rank, values)) for _ in range(draw(st.integers(1, 2)))]
        axes = draw(st.permutations(range(rank)))
        values.append(writer.map(reads, axes, draw(st.sampled_from(BODIES[len(reads)])), 0))
    return writer.text([v for v in values if v is values[-1] or draw(st.booleans())])


@examples(25)
@given(text=fused(), parts=st.integers(1, 2), seed=st.integers(0, 99))
def test_random_products(text, parts, seed):
    """Any axes, against the meaning of each operation."""
    module = parse(text)
    (function,) = kernels(module).values()
    kernel = read_kernel(function)
    rng = np.random.default_rng(seed)
    arrays = [rng.uniform(-2, 2, a.shape).astype(a.dtype) for a in kernel.arguments]
    made = launches_of_matmul(kernel, {}, parts=parts)
    assert made is not None, text
    got = run_regions(kernel, made, arrays, at_end=seed % 2 == 0)
    for y, w in zip(got, Evaluator(module).call("kernel", *arrays), strict=True):
        np.testing.assert_allclose(y, w, rtol=1e-12, atol=1e-12, err_msg=text)


def test_a_row_reduction_after_a_product_is_left_to_loops():
    def net(F, x, w):
        return F.sum(F.dot(x, w), axis=1)

    x, w = np.ones((4, 5), "f"), np.ones((5, 6), "f")
    module = HybridLambda(net).trace(mx.nd.array(x), mx.nd.array(w)).optimize().module.clone()
    run_passes(module, pipeline.triton_kernels())
    made = [read_kernel(f) for f in kernels(module).values()]
    fused = [k for k in made if k.nests[0].contraction is not None and any(s.kind == "row" for s in k.ops)]
    assert all(launches_of_matmul(k, {}) is None for k in fused)


# --- the choice -------------------------------------------------------------------------------------------


def test_few_rows_get_small_blocks_and_many_large_ones():
    for size, dtype in ((2, np.float16), (4, np.float32), (8, np.float64)):
        (few, *_), _ = choose(16, 4096, 4096, 1, np.dtype(dtype))
        (many, *_), parts = choose(8192, 8192, 8192, 1, np.dtype(dtype))
        assert few.m == 16
        assert many.m * many.n == max(t.m * t.n for t in CANDIDATES[size])
        assert parts == 1


def test_long_sums_of_few_outputs_are_shared():
    _, parts = choose(64, 64, 65536, 1, np.dtype(np.float16))
    assert parts > 8
    _, parts = choose(4096, 4096, 4096, 1, np.dtype(np.float16))
    assert parts == 1
    _, parts = choose_vector(1, 1 << 20, 1, along=True)
    assert parts > 8


def test_at_most_four_and_no_mask_that_the_best_does_without():
    rng = np.random.default_rng(0)
    for _ in range(50):
        m, n, k = (int(x) for x in 2 ** rng.uniform(1, 13, 3))
        tiles, _ = choose(m, n, k, 1, np.dtype(np.float16))
        assert 1 <= len(tiles) <= MOST
        for size, blocks in ((m, [t.m for t in tiles]), (n, [t.n for t in tiles]), (k, [t.k for t in tiles])):
            assert size % blocks[0] or not any(size % b for b in blocks)

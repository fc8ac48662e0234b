"""Prepacked operands of matmuls: the same results, valid kernels, made once for each matrix."""

from __future__ import annotations

import numpy as np
import pytest

import hybridc as mx
from hybridc.gluon.nn import HybridLambda
from hybridc.ir import spec
from hybridc.ir.costs import HIDE_PACKING as ROWS
from hybridc.ir.structured import kernels
from hybridc.ir.values import functions
from hybridc.lower.llvm.gemm.vector_registers import registers
from hybridc.transforms.code import choose_matmul
from hybridc.transforms.kernels import prepack_operands
from hybridc.transforms.kernels.merge_contractions import MergeContractions
from hybridc.transforms.kernels.prepack_operands import PrepackOperands
from hybridc.transforms.kernels.split_contractions import SplitContractions
from tests.lower.llvm.guarded import Native, lowered, native_kernels
from tests.lower.test_split_contractions import check, kernels_of

WIDTH = 0 if registers() is None else 2 * registers().bytes // 8
pytestmark = pytest.mark.skipif(registers() is None, reason="this processor has no registers for tiles")


@pytest.fixture(autouse=True)
def panels_for_one_product(monkeypatch):
    """One matmul with many rows is enough, on every processor."""
    monkeypatch.setattr(choose_matmul, "FAST_FROM_SCRATCH", np.inf)


def packed(function, *shapes, training=False):
    """The names of the kernels that the functions call, in order; packing changes no result."""
    module = kernels_of(HybridLambda(function), [mx.nd.ones(s, dtype="float64") for s in shapes], training)
    check(module, SplitContractions(), MergeContractions(), PrepackOperands(registers().bytes, registers().count))
    names = [op.callee.string_value() for f in functions(module) if f.sym_visibility is None for op in _calls(f)]
    assert {*names} == {*kernels(module)}, "kernels that nobody calls are gone"
    return names


def _calls(function):
    return [op for op in function.body.block.ops if op.name == "func.call"]


def dense(F, x, w):
    """Rows times a weight as Gluon stores it."""
    return F.dot(x, w, transpose_b=True)


def test_a_weight_is_laid_out_for_many_rows():
    names = packed(dense, (ROWS, 40), (3 * WIDTH, 40))
    assert names == ["k_panels", "k_matmul_of_panels"]


def test_columns_that_follow_memory():
    names = packed(lambda F, x, w: F.dot(x, w), (ROWS, 40), (40, 3 * WIDTH))
    assert names == ["k_panels", "k_matmul_of_panels"]


def test_leading_axes_are_rows():
    names = packed(lambda F, x, w: F.FullyConnected(x, w, None, num_hidden=WIDTH, no_bias=True, flatten=False),
                   (ROWS // 4, 4, 40), (WIDTH, 40))  # fmt: skip
    assert len(names) == 2


def test_a_weight_is_laid_out_once_for_all_steps():
    def steps(F, x, w):
        for _ in range(9):
            x = F.tanh(dense(F, x, w))
        return x

    names = packed(steps, (ROWS // 8, 2 * WIDTH), (2 * WIDTH, 2 * WIDTH))
    assert names.count("k_panels") == 1
    assert names.count("k_matmul_of_panels") == 9


def test_a_gradient_multiplies_with_other_panels():
    names = packed(lambda F, x, w: F.square(dense(F, x, w)), (ROWS, 2 * WIDTH), (4 * WIDTH, 2 * WIDTH), training=True)
    assert sum(name.startswith("k_panels") for name in names) > 1


@pytest.mark.parametrize(
    ("rows", "columns", "terms"),
    [
        (ROWS - 1, 4 * WIDTH, 40),
        (ROWS, 4 * WIDTH + 1, 40),
        (ROWS, 4 * WIDTH, 3),
        (ROWS, WIDTH, 5000),
        (ROWS, 0, 40),
        (ROWS, WIDTH, 0),
    ],
)
def test_what_stays_as_it_is(rows, columns, terms):
    assert not any("panels" in name for name in packed(dense, (rows, terms), (columns, terms)))


def test_large_matrices_stay_as_they_are(monkeypatch):
    monkeypatch.setattr(prepack_operands, "LARGEST", 40 * 4 * WIDTH - 1)
    assert not any("panels" in name for name in packed(dense, (ROWS, 40), (4 * WIDTH, 40)))
    assert any("panels" in name for name in packed(dense, (ROWS, 40), (3 * WIDTH, 40)))


def test_one_product_that_is_as_fast_from_scratch_stays_as_it_is(monkeypatch):
    monkeypatch.setattr(choose_matmul, "FAST_FROM_SCRATCH", 0)
    assert packed(dense, (ROWS, 40), (3 * WIDTH, 40)) == ["k_matmul"]
    assert "k_panels" in packed(lambda F, x, y, w: dense(F, x, w) + dense(F, y, w),
                                (ROWS, 40), (ROWS, 40), (3 * WIDTH, 40))  # fmt: skip


@pytest.mark.parametrize("axis", [0, 1])
def test_parts_of_an_array(axis):
    shapes = (ROWS, 2 * WIDTH), (2 * WIDTH, 2 * WIDTH)
    assert packed(lambda F, x, w: F.concat(dense(F, x, w), F.exp(x), dim=axis), *shapes)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rows", [ROWS, ROWS + 61])
def test_native_code_agrees(dtype, rows):
    """The panels and the matmul between forbidden pages, in pieces, for whole and for cut rows."""
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(s).astype(dtype) for s in ((rows, 48), (4 * WIDTH, 48), (4 * WIDTH, 64))]

    def net(F, x, w, v):
        return F.dot(F.relu(dense(F, x, w)), v)

    module = lowered(HybridLambda(net), *[mx.nd.array(x, dtype=x.dtype) for x in arrays])
    spec.check_level(module, "kernels", "prepack-operands")
    assert any("panels" in k.name for k in native_kernels(module))
    (got,) = Native(module).call("forward", *arrays)
    x, w, v = (a.astype(np.float64) for a in arrays)
    want = np.maximum(x @ w.T, 0) @ v
    np.testing.assert_allclose(got, want, rtol=0, atol=64 * np.finfo(dtype).eps * abs(want).max())

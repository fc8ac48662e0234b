"""Every class of kernel by Triton's interpreter, between forbidden pages: the same tests as of native code."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hybridc as mx
from hybridc.compile.targets import target_named
from hybridc.gluon.nn import HybridLambda
from hybridc.ir.structured import dtype_of, kernels, shape_of
from tests.lower.evaluate import Evaluator
from tests.lower.kernels import parse
from tests.lower.llvm import test_kernel_classes
from tests.lower.llvm.guarded import run_passes
from tests.lower.llvm.test_kernel_classes import (  # noqa: F401  (they are run here, too)
    caller,
    test_a_map_over_one_range,
    test_a_map_with_operands_that_broadcast,
    test_a_product_that_is_not_the_first_stage,
    test_a_transpose_in_a_map,
    test_arguments_that_are_views,
    test_axes_in_any_order,
    test_casts,
    test_empty_and_single_axes,
    test_every_dtype,
    test_extremes_of_nan_are_nan,
    test_parts_of_one_array,
    test_products_and_what_follows_them,
    test_reductions_over_any_axes,
    test_results_of_several_shapes,
    test_rows_of_every_size,
    test_rows_of_several_blocks,
    test_sums_across_what_threads_share,
    test_sums_of_what_broadcasts,
    test_the_variance_needs_several_sweeps,
    test_values_that_later_sweeps_read_are_kept_or_made_again,
)
from tests.lower.triton.guarded import Interpreted
from tests.lower.triton.printed import kernel_cache
from tests.lower.write_kernel import examples
from tests.lower.write_kernel import kernels as random_kernels

pytestmark = pytest.mark.triton


def results_of(function, arrays, threads=2, seed=0):
    """What a function of operators gives for these arrays by interpreted kernels, and the kernels."""
    inputs = [mx.nd.array(x, dtype=x.dtype) for x in arrays]
    module = HybridLambda(function).trace(*inputs).optimize().module.clone()
    run_passes(module, itertools.takewhile(lambda p: p.name != "plan-memory", target_named("triton").passes()))
    codes = kernel_cache()
    interpreted = Interpreted(module, codes.of, codes.inplace)
    return interpreted.call("forward", *arrays), interpreted.ran


@pytest.fixture(autouse=True)
def by_triton(monkeypatch):
    monkeypatch.setattr(test_kernel_classes, "results_of", results_of)


@examples(40)
@given(text=random_kernels(sizes=(0, 1, 2, 3, 5, 33)), seed=st.integers(0, 99))
def test_random_kernels(text, seed):
    """Loop nests of maps, reductions and contractions over any axes, against the meaning of each operation."""
    module = parse(text + caller(text))
    (function,) = kernels(module).values()
    rng = np.random.default_rng(seed)
    arrays = [rng.uniform(-2, 2, shape_of(a)).astype(dtype_of(a)) for a in function.body.block.args]
    want = Evaluator(parse(text)).call("kernel", *arrays)
    codes = kernel_cache()
    got = Interpreted(module, codes.of, codes.inplace).call("main", *arrays)
    for y, w in zip(got, want, strict=True):
        np.testing.assert_allclose(y, w, rtol=1e-12, atol=1e-12, err_msg=text)

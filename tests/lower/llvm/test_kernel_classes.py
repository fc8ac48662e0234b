"""Every class of kernel by native code: between forbidden pages, in pieces, in place, against NumPy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import hybridc as mx
from hybridc.gluon.nn import HybridLambda
from hybridc.ground.machine import NOMINAL, using
from hybridc.ground.sizes import row_major
from hybridc.ir.kernels.kernel_text import read_kernel
from hybridc.ir.structured import dtype_of, kernels, shape_of
from hybridc.lower.llvm.native_target import print_program
from hybridc.transforms.code.parallel_regions import move_region
from hybridc.transforms.kernels.split_contractions import SplitContractions
from hybridc.transforms.schedules.schedule_moves import copy_of, schedule_copy
from tests.lower.evaluate import Evaluator
from tests.lower.kernels import parse
from tests.lower.llvm.guarded import Array, Native, lowered, native_kernels, run_passes, run_regions
from tests.lower.write_kernel import examples
from tests.lower.write_kernel import kernels as random_kernels
from tests.slices import crossed, one_in

EPS = {"float16": 1e-3, "float32": 1.2e-7, "float64": 2.3e-16}


@pytest.fixture(autouse=True)
def cut_finely():
    """Ranges may be cut at almost every iteration, as those of costly kernels may."""
    with using(replace(NOMINAL, costs=replace(NOMINAL.costs, region=0.1))):
        yield


def results_of(function, arrays, threads=2, seed=0):
    """What a function of operators gives for these arrays by native kernels, and the kernels."""
    dtypes = [x.dtype for x in arrays]
    inputs = [mx.nd.array(x, dtype=d) for x, d in zip(arrays, dtypes, strict=True)]
    module = lowered(HybridLambda(function), *inputs)
    return Native(module, threads, seed).call("forward", *arrays), native_kernels(module)


def numbers(rng, shape, dtype="float32"):
    """Random elements, of both signs."""
    kind = np.dtype(dtype).kind
    if kind == "f":
        return rng.uniform(-2, 2, shape).astype(dtype)
    return rng.integers(0 if kind in "bu" else -9, 2 if kind == "b" else 9, shape).astype(dtype)


def check(function, reference, shapes, dtype="float32", ulps=16, change=lambda *xs: xs, seed=0, threads=2):
    """Native results agree with the reference in float64, relative to the largest number of each result."""
    rng = np.random.default_rng(seed)
    arrays = change(*(numbers(rng, s, dtype) for s in shapes))
    got, made = results_of(function, arrays, threads, seed)
    assert made, "no kernel is run by native code"
    want = reference(*(x.astype(np.float64) if x.dtype.kind == "f" else x for x in arrays))
    want = want if isinstance(want, tuple) else (want,)
    for g, w in zip(got, want, strict=True):
        assert g.shape == w.shape
        if g.dtype.kind != "f":
            np.testing.assert_array_equal(g, np.asarray(w).astype(g.dtype))
            continue
        scale = max(1.0, np.max(np.abs(w[np.isfinite(w)]), initial=0.0))
        np.testing.assert_allclose(g.astype(np.float64), w, rtol=0, atol=ulps * EPS[g.dtype.name] * scale)


# --- random ones ------------------------------------------------------------------------------------------


@examples(25)
@given(text=random_kernels(sizes=(0, 1, 2, 3, 5, 33)), seed=st.integers(0, 99))
def test_random_kernels(text, seed):
    """Loop nests of maps, reductions and contractions over any axes, against the meaning of each operation."""
    module = parse(text + caller(text))
    (function,) = kernels(module).values()
    made = read_kernel(function)
    assume(len(made.nests) == 1 or not any(n.contraction for n in made.nests))
    rng = np.random.default_rng(seed)
    arrays = [rng.uniform(-2, 2, shape_of(a)).astype(dtype_of(a)) for a in function.body.block.args]
    want = Evaluator(parse(text)).call("kernel", *arrays)
    run_passes(module, [SplitContractions()])
    got = Native(module, 2, seed).call("main", *arrays)
    for y, w in zip(got, want, strict=True):
        np.testing.assert_allclose(y, w, rtol=1e-12, atol=1e-12, err_msg=text)


def caller(text):
    """A function that calls the only kernel of a text."""
    (function,) = kernels(parse(text)).values()
    kinds = [list(map(str, types)) for types in (function.function_type.inputs, function.function_type.outputs)]
    ins, outs = map(", ".join, kinds)
    given = [f"%a{i}" for i in range(len(kinds[0]))]
    made = [f"%r{i}" for i in range(len(kinds[1]))]
    arguments = ", ".join(f"{name}: {kind}" for name, kind in zip(given, kinds[0], strict=True))
    return (
        f"\nfunc.func @main({arguments}) -> ({outs}) {{\n"
        f"{', '.join(made)} = func.call @kernel({', '.join(given)}) : ({ins}) -> ({outs})\n"
        f"func.return {', '.join(made)} : {outs}\n}}"
    )


# --- maps -------------------------------------------------------------------------------------------------


def test_a_map_over_one_range():
    check(lambda F, x, y: F.tanh(x) * y + x, lambda x, y: np.tanh(x) * y + x, [(1003,), (1003,)])


@pytest.mark.parametrize(
    "shapes", [[(5, 7, 9), (7, 1)], [(5, 7, 9), (5, 1, 9)], [(1, 7, 1), (5, 1, 9)], [(4, 1), (1, 4)]]
)
def test_a_map_with_operands_that_broadcast(shapes):
    check(lambda F, x, y: F.broadcast_mul(x + 1, y), lambda x, y: (x + 1) * y, shapes)


@pytest.mark.parametrize(
    ("sizes", "outer"),
    crossed(2, [(31, 33), (32, 32), (33, 31), (63, 65), (65, 64), (1, 40), (40, 1), (32, 2)], [(), (3,)]),
    ids=str,
)
def test_a_transpose_in_a_map(sizes, outer):
    order = (*range(len(outer)), len(outer) + 1, len(outer))
    check(
        lambda F, x, y: F.transpose(x, axes=order) * 2 + y,
        lambda x, y: x.transpose(order) * 2 + y,
        [(*outer, *sizes), (*outer, *sizes[::-1])],
    )


def test_axes_in_any_order():
    check(lambda F, x, y: x.transpose((2, 0, 1)) - y, lambda x, y: x.transpose(2, 0, 1) - y, [(4, 33, 35), (35, 4, 33)])


def test_results_of_several_shapes():
    """What follows some of the axes only is made once."""
    check(
        lambda F, x, y: (F.exp(y), F.broadcast_add(x, F.exp(y)), F.exp(x)),
        lambda x, y: (np.exp(y), x + np.exp(y), np.exp(x)),
        [(6, 5, 4), (5, 1)],
    )


# --- reductions -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", one_in(3, [*range(1, 19), 31, 33, 64, 65, 70]))
def test_rows_of_every_size(size):
    check(
        lambda F, x: (F.sum(x, axis=1), F.max(x, axis=1), F.softmax(x)),
        lambda x: (x.sum(1), x.max(1), softmax(x)),
        [(7, size)],
    )


@pytest.mark.parametrize("size", [4095, 4096, 4097, 9000])
def test_rows_of_several_blocks(size):
    check(
        lambda F, x: (F.sum(x, axis=1), F.softmax(x)),
        lambda x: (x.sum(1), softmax(x)),
        [(3, size)],
        change=lambda x: (abs(x),),
    )


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


@pytest.mark.parametrize(
    ("shape", "axis"),
    crossed(
        3,
        [(3, 5, 7), (70, 3, 33), (2, 40, 5), (300, 17, 1)],
        [(1,), (2,), (1, 2), (0,), (0, 1), (0, 2), (0, 1, 2)],
    ),
    ids=str,
)
def test_reductions_over_any_axes(shape, axis):
    check(
        lambda F, x: (F.sum(F.square(x), axis=axis), F.min(x, axis=axis)),
        lambda x: (np.atleast_1d((x * x).sum(axis)), np.atleast_1d(x.min(axis))),
        [shape],
    )


@pytest.mark.parametrize("axis", [0, 1])
def test_the_variance_needs_several_sweeps(axis):
    def ours(F, x):
        d = F.broadcast_sub(x, F.mean(x, axis=axis, keepdims=True))
        return F.broadcast_div(d, F.sqrt(F.mean(F.square(d), axis=axis, keepdims=True) + 0.1))

    def reference(x):
        d = x - x.mean(axis, keepdims=True)
        return d / np.sqrt((d * d).mean(axis, keepdims=True) + 0.1)

    check(ours, reference, [(29, 37)])


def test_values_that_later_sweeps_read_are_kept_or_made_again():
    def ours(F, x):
        e, s = F.exp(F.tanh(x)), F.abs(x)  # one is costly, one is not
        return F.broadcast_div(e, F.sum(e, axis=1, keepdims=True)), F.broadcast_div(s, F.sum(s, axis=1, keepdims=True))

    def reference(x):
        e, s = np.exp(np.tanh(x)), abs(x)
        return e / e.sum(1, keepdims=True), s / s.sum(1, keepdims=True)

    check(ours, reference, [(19, 45)])


@pytest.mark.parametrize("shape", [(400, 300), (100_003,), (70_000, 1), (1, 70_000)], ids=str)
def test_sums_across_what_threads_share(shape):
    """In pieces, whose sums are added in their order."""
    check(
        lambda F, x: (F.sum(x), F.sum(F.exp(x), axis=0)),
        lambda x: (x.sum(keepdims=True).ravel(), np.atleast_1d(np.exp(x).sum(0))),
        [shape],
        change=lambda x: (abs(x),),
    )


def test_sums_of_what_broadcasts():
    """A sum that leaves out an axis that threads share counts each element once."""
    check(
        lambda F, x, y: (F.sum(F.exp(y), axis=0), F.broadcast_add(x, F.exp(y))),
        lambda x, y: (np.exp(y).sum(0), x + np.exp(y)),
        [(4, 5, 6), (4, 5, 1)],
    )
    check(
        lambda F, x, y: (F.sum(F.exp(y), axis=2), F.sum(F.broadcast_add(x, F.exp(y)), axis=2)),
        lambda x, y: (np.exp(y).sum(2), (x + np.exp(y)).sum(2)),
        [(4, 5, 6), (4, 1, 6)],
    )


@pytest.mark.parametrize("axis", [0, 1, (0, 1)], ids=str)
def test_extremes_of_nan_are_nan(axis):
    def spoilt(x):
        x = x.copy()
        x[3, 5] = np.nan
        return (x,)

    rng = np.random.default_rng(0)
    (x,) = spoilt(numbers(rng, (40, 37)))
    (high, low), _ = results_of(lambda F, x: (F.max(x, axis=axis), F.min(x, axis=axis)), [x])
    np.testing.assert_array_equal(high.ravel(), np.max(x, axis).ravel())
    np.testing.assert_array_equal(low.ravel(), np.min(x, axis).ravel())
    assert np.isnan(high).any()


# --- edges ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0), (1, 1), (1, 0, 3), (2, 1, 1)], ids=str)
def test_empty_and_single_axes(shape):
    """What does not depend on an empty axis is written all the same."""
    check(
        lambda F, x, y: (F.broadcast_add(x, F.exp(y)), F.exp(y), F.sum(x, axis=0), F.sum(x, axis=-1), F.sum(x)),
        lambda x, y: (x + np.exp(y), np.exp(y), x.sum(0), x.sum(-1), x.sum(keepdims=True).ravel()),
        [shape, (shape[-1],)],
    )
    check(
        lambda F, x, y: (F.broadcast_add(x, F.exp(y)), F.exp(y), F.sum(F.broadcast_mul(x, y), axis=0)),
        lambda x, y: (x + np.exp(y), np.exp(y), (x * y).sum(0)),
        [shape, (*[1] * (len(shape) - 1), 1)],
    )


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint8", "int32", "int64"])
def test_every_dtype(dtype):
    """Integers exactly, wrapping around as NumPy's do."""

    def ours(F, x, y):
        z = F.broadcast_mul(x, y) + x
        return z, F.max(z, axis=1), F.min(z, axis=0), F.sum(z, axis=1), F.transpose(z), F.broadcast_greater(x, y)

    def reference(x, y):
        if x.dtype.kind == "f":
            z = x * y + x
            return z, z.max(1), z.min(0), z.sum(1), z.T, (x > y) * 1.0
        with np.errstate(all="ignore"):
            z = x * y + x
        return z, z.max(1), z.min(0), z.sum(1, dtype=dtype), z.T, (x > y).astype(dtype)

    check(ours, reference, [(33, 34), (1, 34)], dtype)


@pytest.mark.parametrize(
    ("given", "dtype"),
    crossed(2, ["float32", "int32", "uint8"], ["float16", "float32", "float64", "int8", "uint8", "int32", "int64"]),
)
def test_casts(given, dtype):
    check(lambda F, x: F.cast(abs(x), dtype), lambda x: abs(x), [(5, 37)], given)


# --- copies and views -------------------------------------------------------------------------------------

VIEWS = {
    "part": (lambda F, x: x[1:, 2:-1], lambda x: x[1:, 2:-1]),
    "steps": (lambda F, x: x[::2, ::3], lambda x: x[::2, ::3]),
    "backwards": (lambda F, x: x[::-1, ::-2], lambda x: x[::-1, ::-2]),
    "transposed part": (lambda F, x: F.transpose(x)[1::2], lambda x: x.T[1::2]),
    "column": (lambda F, x: x[:, 3:4], lambda x: x[:, 3:4]),
    "nothing": (lambda F, x: x[2:2], lambda x: x[2:2]),
}


@pytest.mark.parametrize("name", VIEWS)
def test_arguments_that_are_views(name):
    ours, numpy = VIEWS[name]
    check(
        lambda F, x, y: (F.exp(ours(F, F.dot(x, y))), F.sum(ours(F, F.dot(x, y)), axis=0)),
        lambda x, y: (np.exp(numpy(x @ y)), numpy(x @ y).sum(0)),
        [(34, 3), (3, 67)],
        ulps=64,
    )


@pytest.mark.parametrize("axis", [0, 1])
def test_parts_of_one_array(axis):
    """Written side by side."""
    check(
        lambda F, x, y: F.concat(F.exp(x), y * 2, F.softmax(x), dim=axis),
        lambda x, y: np.concatenate([np.exp(x), y * 2, softmax(x)], axis),
        [(13, 13), (13, 13)],
    )


COPIED = {
    "plain": lambda x: x,
    "steps": lambda x: x[::2, 1:],
    "backwards": lambda x: x[::-1, :, ::-1],
    "reversed": lambda x: x.transpose(2, 1, 0),
    "swapped": lambda x: x.transpose(0, 2, 1),
    "moved part": lambda x: x.transpose(1, 2, 0)[3:, ::-2],
    "empty": lambda x: x[:, :0],
    "row": lambda x: x[:1, 2:3],
    "broadcast": lambda x: np.broadcast_to(x[:, :1], x.shape),
}


@pytest.mark.parametrize(
    ("view", "dtype"), crossed(3, list(COPIED), ["float16", "float32", "float64", "int8", "int64", "bool"])
)
def test_copies(view, dtype):
    x = COPIED[view](numbers(np.random.default_rng(0), (3, 33, 35), dtype))
    strides = tuple(s // x.itemsize for s in x.strides)
    for at_end in (True, False):
        source = Array(x.dtype, x.shape, strides, at_end, x)
        target = Array(x.dtype, x.shape, row_major(x.shape), at_end)
        region = move_region(schedule_copy(copy_of(x.dtype, x.shape, strides), None), (0, 1), print_program)
        run_regions([region], [source.address, target.address], at_end, np.random.default_rng(1))
        np.testing.assert_array_equal(target.array(), x)


# --- with products ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(1, 7, 5), (9, 4, 33), (33, 20, 17), (64, 3, 64), (5, 0, 4), (0, 3, 4)], ids=str)
def test_products_and_what_follows_them(sizes):
    n, k, m = sizes
    check(
        lambda F, x, w, b: F.softmax(F.relu(F.FullyConnected(x, w, b, num_hidden=m)) + 1),
        lambda x, w, b: softmax(np.maximum(x @ w.T + b, 0) + 1),
        [(n, k), (m, k), (m,)],
        ulps=64,
    )


@pytest.mark.parametrize("threads", [1, 3])
def test_batches_of_products(threads):
    check(
        lambda F, q, k: F.batch_dot(F.tanh(F.batch_dot(q, k, transpose_b=True) * 0.3), k),
        lambda q, k: np.tanh(q @ k.swapaxes(1, 2) * 0.3) @ k,
        [(3, 9, 8), (3, 9, 8)],
        ulps=64,
        threads=threads,
    )


def test_a_product_that_is_not_the_first_stage():
    """Gradients are added in the order of their uses, so a matmul may come amid them."""
    x = mx.nd.array(np.arange(21, dtype="float64").reshape(3, 7) / 21)
    net = HybridLambda(lambda F, x: (F.sum(x, axis=(0,)), F.dot(x, x, transpose_b=True), x + 0, x + 0))
    net.hybridize()
    x.attach_grad()
    with mx.autograd.record():
        total, *_ = net(x)
    total.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), np.ones((3, 7)))

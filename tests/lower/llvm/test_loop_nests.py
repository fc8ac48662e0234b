"""Kernels of loops by native code against NumPy: reads at computed places, extremes, parts of arrays, sums of rows.

Every array lies between two pages that nobody may touch, and every range is cut, so that what reads or writes one
element too far, or depends on how threads share the work, is found.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects import func

import hybridc as mx
from hybridc.compile import pipeline
from hybridc.dialects.handwritten import ArraySpec
from hybridc.dialects.kernels.add_rows import add_rows
from hybridc.gluon.nn import HybridLambda
from hybridc.ir.kernels.kernel_text import read_kernel
from hybridc.ir.structured import is_host, kernels, root
from hybridc.lower.llvm.native_target import native_target, print_program
from hybridc.transforms.code.kernel_builder import loop_kernel_region
from hybridc.transforms.code.parallel_regions import KernelLoops
from tests.lower.llvm.guards import in_guards
from tests.slices import crossed, one_in

RNG = np.random.default_rng(5)
SIZES = [1, 2, 3, 17, 130]


def regions_of(kernel, strides=None):
    """The regions of a kernel's loops; ``strides`` are those of what is not contiguous."""
    strided = strides or {}
    return KernelLoops(kernel, frozenset(strided), (), print_program).at(kernel, strided)


def only_kernel(function, *arrays):
    """The one kernel of a function, and which of the function's arguments each of its own is."""
    traced = HybridLambda(function).trace(*[mx.nd.array(a, dtype=a.dtype) for a in arrays])
    module = traced.optimize().module.clone()
    for each in (*pipeline.structured_passes("llvm"), *pipeline.KERNELS):
        each.apply(Context(), module)
    (found,) = kernels(module).values()
    assert not is_host(found)
    (launch,) = [op for op in module.walk() if isinstance(op, func.CallOp)]
    return read_kernel(found), [root(v).index for v in launch.arguments]


def results(function, *arrays):
    """What the one kernel of a function makes of the arrays."""
    kernel, order = only_kernel(function, *arrays)
    made = regions_of(kernel)
    shapes = [(v.shape, v.dtype) for v in kernel.results]
    outputs = [np.frombuffer(b"\xa5" * math.prod(s) * d.itemsize, d).reshape(s) for s, d in shapes]
    given = [arrays[i].reshape(v.shape) for i, v in zip(order, kernel.arguments, strict=True)]
    return in_guards(made.regions, given, outputs, made.locals)


def floats(*shape):
    return RNG.normal(size=shape).astype(np.float32)


# --- gathers ----------------------------------------------------------------------------------------------


def bounded(index, size, mode):
    index = index.astype(np.int64)
    return index % size if mode == "wrap" else np.clip(index, 0, size - 1)


@pytest.mark.parametrize("mode", ["clip", "wrap"])
@pytest.mark.parametrize("kind", ["float32", "int32", "int64", "uint8"])
@pytest.mark.parametrize("shape", [(1,), (5,), (3, 7), (2, 1, 4)])
def test_take_gives_the_rows_that_indices_name_in_range_or_not(mode, kind, shape):
    table = floats(11, 6)
    index = RNG.integers(0 if kind == "uint8" else -30, 40, shape).astype(kind)
    (got,) = results(lambda F, i, a: F.take(a, i, mode=mode), index, table)
    np.testing.assert_array_equal(got.reshape(*shape, 6), table[bounded(index, 11, mode)])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_take_along_any_axis(size, axis):
    shape = [3, 2, 4]
    shape[axis] = size
    x, index = floats(*shape), RNG.integers(-3, size + 3, (5,))
    (got,) = results(lambda F, a, i: F.take(a, i, axis=axis), x, index)
    expected = np.take(x, bounded(index, size, "clip"), axis)
    np.testing.assert_array_equal(got.reshape(expected.shape), expected)


@pytest.mark.parametrize("rows", SIZES)
def test_what_is_gathered_is_part_of_the_loops_around_it(rows):
    """An embedding with positions, scaled, then softmax: one kernel, which reads the table itself."""
    table, index, positions = floats(50, 9), RNG.integers(-5, 60, (2, rows)), floats(1, rows, 9)

    def function(F, i, w, p):
        return F.softmax(F.broadcast_add(F.take(w, i), p) * 3)

    (got,) = results(function, index, table, positions)
    x = (table[np.clip(index, 0, 49)].astype(np.float64) + positions) * 3
    expected = np.exp(x - x.max(-1, keepdims=True))
    expected /= expected.sum(-1, keepdims=True)
    np.testing.assert_allclose(got.reshape(expected.shape), expected, rtol=3e-6)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("mode", ["clip", "wrap"])
def test_pick_reads_one_element_of_each_row(axis, mode):
    x = floats(3, 5, 4)
    index = RNG.integers(-9, 9, np.delete(x.shape, axis)).astype(np.float32)
    (got,) = results(lambda F, x, i: F.pick(x, i, axis=axis, mode=mode), x, index)
    place = np.expand_dims(bounded(index, x.shape[axis], mode), axis)
    np.testing.assert_array_equal(got, np.take_along_axis(x, place, axis).squeeze(axis))


def bordered(F, x, mode, *widths):
    return F.pad(x.reshape((1, 1, *x.shape)), mode=mode, constant_value=2, pad_width=(0, 0, 0, 0, *widths))


@pytest.mark.parametrize("shape", [(1, 1), (4, 1), (5, 3), (17, 130)])
def test_reversed_stepped_and_bordered_arrays(shape):
    x = floats(*shape)
    for function, expected in [
        (lambda F, x: F.reverse(x, axis=1), x[:, ::-1]),
        (lambda F, x: F.reverse(x, axis=0), x[::-1]),
        (lambda F, x: F.slice(x, begin=(None, -1), end=(None, None), step=(1, -2)), x[:, ::-2]),
        (lambda F, x: bordered(F, x, "edge", 2, 1, 0, 3), np.pad(x, ((2, 1), (0, 3)), mode="edge")),
        (lambda F, x: bordered(F, x, "constant", 1, 1, 1, 1), np.pad(x, 1, constant_values=2)),
    ]:
        (got,) = results(function, x)
        np.testing.assert_array_equal(got.reshape(expected.shape), expected)


def test_a_view_is_read_anywhere_by_its_strides():
    table, index = floats(7, 5), RNG.integers(0, 5, (4,))
    kernel, order = only_kernel(lambda F, a, i: F.take(a, i), table.T.copy(), index)
    made = regions_of(kernel, {order.index(0): (1, 5)})
    (got,) = in_guards(made.regions, [[table, index][i] for i in order], [np.zeros((4, 7), np.float32)], made.locals)
    np.testing.assert_array_equal(got, table.T[index])


@pytest.mark.parametrize("step", [1, 2])
def test_contiguous_rows_of_a_view_have_no_stride_among_the_arguments(step):
    whole = floats(5, 14)
    x = whole[:, : 7 * step : step]
    kernel, _ = only_kernel(lambda F, x: F.relu(x) * 2, x.copy())
    made = regions_of(kernel, {0: (14, step)})
    (got,) = in_guards(made.regions, [whole], [np.zeros((5, 7), np.float32)], made.locals)
    np.testing.assert_array_equal(got, np.maximum(x, 0) * 2)
    (region,) = made.regions
    assert region.numbers[-2:] == ((14, 2) if step == 2 else (5, 14))


# --- reductions -------------------------------------------------------------------------------------------


ORDERS = [*("".join(map(str, order)) for axes in (3, 4) for order in itertools.permutations(range(axes)))]


@pytest.mark.parametrize("order", [*ORDERS[:6], *one_in(3, ORDERS[6:])])
def test_a_transposed_array_is_reduced(order):
    """Results lie in memory in another order than the loops: every element begins with the neutral one."""
    order = tuple(map(int, order))
    x = floats(*[3, 2, 4, 5][: len(order)])
    for axes in (*((a,) for a in range(len(order))), (0, 2), (1, len(order) - 1)):
        (got,) = results(lambda F, x, axes=axes: F.max(F.transpose(x, axes=order), axis=axes), x)
        expected = x.transpose(order).max(axes)
        np.testing.assert_array_equal(got.reshape(expected.shape), expected)


# --- extremes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "axis", "size"), crossed(2, ["argmax", "argmin"], [None, 0, 1, 2], [*SIZES, 5000]))
def test_the_first_extreme_element_and_nan_is_extreme(name, axis, size):
    x = RNG.integers(-4, 4, (2, size, 3)).astype(np.float32)  # many are equal
    x[0, size // 2, 1] = np.nan
    (got,) = results(lambda F, x: getattr(F, name)(x, axis=axis), x)
    np.testing.assert_array_equal(got.reshape(-1), getattr(np, name)(x, axis).reshape(-1))


@pytest.mark.parametrize("kind", ["int32", "uint8", "float64", "float16"])
def test_extremes_of_other_dtypes(kind):
    x = RNG.integers(0, 200, (6, 37)).astype(kind)
    (got,) = results(lambda F, x: F.argmax(x, axis=1), x)
    np.testing.assert_array_equal(got, np.argmax(x, 1).astype(kind))


# --- parts of arrays --------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1, 1), (1, 40), (33, 1), (5, 7), (40, 130)])
def test_a_result_may_lie_in_a_greater_array(shape):
    """What is around it stays as it was."""
    rows, columns = shape
    x = floats(*shape)
    kernel, _ = only_kernel(lambda F, x: F.relu(x) * 2, x)
    whole = np.full((rows, columns + 5), 7, np.float32)
    strides = tuple(s for s, n in zip((columns + 5, 1), shape, strict=True) if n > 1)
    made = regions_of(kernel, {1: strides})
    (got,) = in_guards(made.regions, [x], [whole], made.locals)
    np.testing.assert_array_equal(got[:, :columns], np.maximum(x, 0) * 2)
    np.testing.assert_array_equal(got[:, columns:], 7)


# --- sums of rows -----------------------------------------------------------------------------------------


def add_rows_region(data, index, shape, count, mode):
    """The parallel region that adds rows along the second of three axes, for two threads."""
    outer, _, inner = shape
    specs = [ArraySpec((outer, count, inner), data), ArraySpec((count,), index), ArraySpec(shape, data)]
    return loop_kernel_region(add_rows("llvm", *specs[:2], shape, 1, mode), specs, native_target(2))


@pytest.mark.parametrize("sums", [(1, 7, 5), (3, 4, 1), (2, 1, 33), (1, 50, 64)])
@pytest.mark.parametrize("count", [0, 1, 40])
@pytest.mark.parametrize("mode", ["clip", "wrap"])
@pytest.mark.parametrize("kind", ["float32", "float16", "int32"])
def test_rows_are_added_in_their_order_at_the_places_that_indices_name(sums, count, mode, kind):
    outer, rows, inner = sums
    data = (floats(outer, count, inner) * 10).astype(kind)
    index = RNG.integers(-2 * rows, 3 * rows, (count,)).astype(np.int32)
    region = add_rows_region(data.dtype, index.dtype, (outer, rows, inner), count, mode)
    (got,) = in_guards([region], [data, index], [np.full((outer, rows, inner), 7, kind)])
    expected = np.zeros((outer, rows, inner), kind)
    for k, place in enumerate(bounded(index, rows, mode)):
        expected[:, place] += data[:, k]
    np.testing.assert_array_equal(got, expected)


def test_every_place_has_a_thread_and_many_rows_have_many():
    region = add_rows_region(np.dtype("float32"), np.dtype("float32"), (1, 10000, 256), 4096, "clip")
    assert region.extent == 10000
    assert 2 <= math.ceil(region.extent / region.grain) <= 8

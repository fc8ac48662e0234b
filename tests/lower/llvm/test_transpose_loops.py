"""Squares turned in registers: every order of axes, between forbidden pages and in pieces, against NumPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import hybridc as mx
from hybridc.gluon.nn import HybridLambda
from hybridc.lower.llvm.gemm.vector_registers import registers
from hybridc.transforms.schedules.schedule_moves import move_of, schedule_transposition
from tests.lower.llvm.guarded import Native, lowered, native_kernels
from tests.slices import crossed


def is_transposed(kernel, strides):
    """Whether a kernel is a transposition by squares in registers."""
    move = move_of(kernel, strides)
    return move is not None and schedule_transposition(move, registers()) is not None


def turned(function, x):
    """The result of native kernels, and whether one of them turns squares."""
    module = lowered(HybridLambda(function), mx.nd.array(x, dtype=x.dtype))
    (got,) = Native(module).call("forward", x)
    return got, any(is_transposed(k, {}) for k in native_kernels(module))


@pytest.mark.parametrize(
    ("shape", "order", "dtype"),
    crossed(
        2,
        [(32, 48, 16), (64, 2, 80), (16, 64, 64), (5, 32, 16), (16, 48, 0)],
        [p for p in itertools.permutations(range(3)) if p[-1] != 2],
        ["float32", "float64"],
    ),
    ids=str,
)
def test_orders(shape, order, dtype):
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    got, _ = turned(lambda F, x: F.transpose(x, axes=order), x)
    np.testing.assert_array_equal(got, x.transpose(order))


@pytest.mark.parametrize(("shape", "yes"), [((64, 128), True), ((64, 130), True), ((17, 64), True), ((7, 64), False)])
def test_what_is_turned(shape, yes):
    x = np.arange(np.prod(shape), dtype="f").reshape(shape)
    got, found = turned(lambda F, x: F.transpose(x), x)
    np.testing.assert_array_equal(got, x.T)
    assert found is (yes and registers() is not None), "squares are turned in registers, if there are some"


def test_what_computes_is_no_transpose():
    x = np.ones((64, 64), "f")
    got, found = turned(lambda F, x: F.transpose(x) * 2, x)
    np.testing.assert_array_equal(got, 2 * x)
    assert not found


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("shape", "border", "value"),
    [
        ((2, 16, 9, 11), (1, 1, 1, 1), 0.0),
        ((3, 19, 1, 150), (0, 0, 2, 0), -np.inf),  # of one axis, on its one side, in strips
        ((1, 8, 5, 8), (0, 3, 0, 21), 2.5),
        ((2, 40, 3, 131), (2, 1, 130, 0), 0.0),  # strips that are all border
        ((2, 33, 7, 7), (0, 0, 1, 1), 0.0),  # short rows, if there are registers for them
    ],
    ids=str,
)
def test_borders(shape, border, value, dtype):
    """What is transposed into the inside of a border, channels last, as a convolution wants its data."""
    n, channels, height, width = shape
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    attrs = {"mode": "constant", "constant_value": value, "pad_width": (0, 0, *border, 0, 0)}
    module = lowered(
        HybridLambda(lambda F, x: F.pad(F.transpose(x, axes=(0, 2, 3, 1)), **attrs)), mx.nd.array(x, dtype=dtype)
    )
    (got,) = Native(module).call("forward", x)
    widths = [(0, 0), border[:2], border[2:], (0, 0)]
    np.testing.assert_array_equal(got, np.pad(x.transpose(0, 2, 3, 1), widths, constant_values=value))
    if registers() is not None and width >= registers().lanes(np.dtype(dtype)):
        steps = (channels * height * width, width, 1, height * width)
        given = tuple(s for s, size in zip(steps, (n, height, width, channels), strict=True) if size > 1)
        (kernel,) = native_kernels(module)
        assert is_transposed(kernel, {0: given})

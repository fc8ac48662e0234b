"""What follows a contraction is computed where its sums are: in registers, or in a tile of a grid."""

from __future__ import annotations

import re

import numpy as np
import pytest

import hybridc as mx
from hybridc import gluon
from hybridc.gluon import nn
from hybridc.lower.llvm.gemm.vector_registers import registers
from hybridc.runtime.native.native_program import set_num_threads
from hybridc.transforms.schedules.schedule_register_tiles import RegisterTile
from tests.lower.test_convolutions import convolved
from tests.slices import crossed

pytestmark = [
    pytest.mark.skipif(mx.options.OPTIONS.target != "llvm", reason="the llvm target joins epilogues"),
    pytest.mark.skipif(registers() is None, reason="this processor's registers hold no tiles"),
]

CONVOLUTIONS = {
    "pointwise": (32, 48, {"kernel_size": 1}),
    "narrow": (16, 24, {"kernel_size": 1}),
    "lines": (16, 32, {"kernel_size": 5, "padding": 2}),
    "strided": (16, 32, {"kernel_size": 3, "padding": 1, "strides": 2}),
    "depthwise": (48, 48, {"kernel_size": 3, "padding": 1, "groups": 48}),
    "grouped": (32, 64, {"kernel_size": 3, "padding": 1, "groups": 8}),
    "winograd": (32, 32, {"kernel_size": 3, "padding": 1}),
}


class Normalised(gluon.HybridBlock):
    """A convolution, its batch norm, and a function of the result."""

    def __init__(self, channels, filters, given, after, use_bias=False):
        super().__init__()
        self.given, self.after = given, after
        self.conv = nn.Conv2D(filters, in_channels=channels, use_bias=use_bias, **given)
        self.norm = nn.BatchNorm(in_channels=filters)

    def hybrid_forward(self, F, x, *more):
        return self.after(F, self.norm(self.conv(x)), *more)

    def float64(self, x):
        """The normalised convolution, by NumPy."""
        p = {
            name.rpartition("_")[2]: v.data().asnumpy().astype(np.float64) for name, v in self.collect_params().items()
        }
        strides, pad = [(self.given.get(name, default),) * 2 for name, default in (("strides", 1), ("padding", 0))]
        data = x.asnumpy().astype(np.float64)
        y = convolved(data, p["weight"], strides, (1, 1), pad, self.given.get("groups", 1))
        if "bias" in p:
            y = y + p["bias"][:, None, None]
        scale = p["gamma"] / np.sqrt(p["var"] + 1e-5)
        return (y - p["mean"][:, None, None]) * scale[:, None, None] + p["beta"][:, None, None]


def made(kind, after, use_bias=False, dtype="float32"):
    """The network of one of the convolutions, with parameters from a seed."""
    net = Normalised(*CONVOLUTIONS[kind], after, use_bias)
    rng = np.random.default_rng(3)
    net.initialize()
    net.cast(dtype)
    for _, parameter in sorted(net.collect_params().items()):
        parameter.set_data(mx.nd.array(rng.uniform(0.5, 1.5, parameter.shape) * rng.choice([-1, 1]), dtype=dtype))
    net.norm.running_var.set_data(mx.nd.array(rng.uniform(0.5, 2, net.norm.running_var.shape), dtype=dtype))
    net.hybridize()
    return net


def image(kind, batch=2, size=16, dtype="float32"):
    shape = (batch, CONVOLUTIONS[kind][0], size, size)
    return mx.nd.array(np.random.default_rng(batch).standard_normal(shape), dtype=dtype)


def kernels(net):
    """The kernels that run in every call, without those that fill borders and change the layout."""
    lines = str(net.explain()).splitlines()
    start = next(i for i, line in enumerate(lines) if " kernels, " in line or " kernel, " in line)
    each_call = [line for line in lines[start:] if " in the preparation" not in line]
    rows = [re.match(r" {4}kernel (\w+):(?: (\d+) times;)?", line) for line in each_call]
    names = [row[1] for row in rows if row for _ in range(int(row[2] or 1))]
    return [name for name in names if not name.startswith(("k_copy", "k_pad"))]


def lanes(dtype="float32"):
    """The elements of a vector."""
    return RegisterTile(np.dtype(dtype), registers()).lanes


def kernels_of_convolution(kind):
    """One; two where columns of the last panel are padding, which what follows must not see."""
    return 1 if CONVOLUTIONS[kind][1] % lanes() == 0 else 2


def close(result, expected, rtol=2e-5, sums=None):
    """``sums`` are what was computed of, whose rounding errors count."""
    largest = abs(expected if sums is None else sums).max(initial=0)
    np.testing.assert_allclose(result.asnumpy(), expected, rtol=rtol, atol=rtol * largest)


def channels_last(F, y):
    """The elements in the order in which convolutions write them, so that nothing is transposed."""
    return F.transpose(F.relu(y), axes=(0, 2, 3, 1))


@pytest.mark.parametrize(("kind", "use_bias"), crossed(2, list(CONVOLUTIONS), [False, True]))
def test_a_normalised_convolution_is_one_kernel_at_all_sizes(kind, use_bias):
    net = made(kind, channels_last, use_bias)
    for batch, size in ((2, 16), (1, 16), (3, 9), (0, 16)):
        x = image(kind, batch, size)
        close(net(x), np.maximum(net.float64(x), 0).transpose(0, 2, 3, 1))
    net = made(kind, channels_last, use_bias)
    net(image(kind, 8))
    assert len(kernels(net)) == kernels_of_convolution(kind), kernels(net)


@pytest.mark.parametrize("kind", CONVOLUTIONS)
def test_what_follows_reads_more_arrays_and_has_several_results(kind):
    def after(F, y, residual, scale):
        total = F.transpose(y, axes=(0, 2, 3, 1)) + residual
        return F.clip(total, -1, 2), F.LeakyReLU(F.broadcast_mul(total, scale), slope=0.25), total > 0.5

    net = made(kind, after)
    x = image(kind, 8)
    expected = net.float64(x).transpose(0, 2, 3, 1)
    rng = np.random.default_rng(1)
    residual, scale = rng.standard_normal(expected.shape), rng.standard_normal((1, *expected.shape[1:3], 1))
    found = net(x, mx.nd.array(residual), mx.nd.array(scale))
    total = expected + residual
    close(found[0], np.clip(total, -1, 2), sums=total)
    close(found[1], np.where(total * scale > 0, total * scale, 0.25 * total * scale))
    sure = abs(total - 0.5) > 1e-4 * abs(total).max()
    np.testing.assert_array_equal(found[2].asnumpy()[sure], (total > 0.5)[sure])
    assert len(kernels(net)) == kernels_of_convolution(kind), kernels(net)


@pytest.mark.parametrize("dtype", ["int8", "int32", "float16", "float64"])
@pytest.mark.parametrize("kind", ["pointwise", "depthwise", "winograd"])
def test_results_of_other_types(kind, dtype):
    net = made(kind, lambda F, y: F.cast(F.transpose(F.clip(y, -100, 100), axes=(0, 2, 3, 1)) + 0.3, dtype))
    x = image(kind)
    expected = np.clip(net.float64(x).transpose(0, 2, 3, 1), -100, 100) + 0.3
    found = net(x)
    assert found.dtype == np.dtype(dtype)
    if dtype.startswith("int"):
        sure = abs(expected - np.round(expected)) > 1e-2
        np.testing.assert_array_equal(found.asnumpy()[sure], np.trunc(expected)[sure])
    else:
        close(found, expected, 1e-3 if dtype == "float16" else 2e-5)


@pytest.mark.parametrize("kind", ["pointwise", "lines", "depthwise"])
def test_double_precision(kind):
    net = made(kind, channels_last, dtype="float64")
    x = image(kind, dtype="float64")
    close(net(x), np.maximum(net.float64(x), 0).transpose(0, 2, 3, 1), 1e-13)


@pytest.mark.parametrize("kind", ["pointwise", "depthwise", "winograd"])
def test_functions_and_other_views_stay_right(kind):
    def after(F, y, other):
        y = F.transpose(y, axes=(0, 2, 3, 1))
        return F.tanh(y / 100), y + F.slice(other, begin=(None,) * 4, end=(None,) * 4, step=(None, None, None, 2))

    net = made(kind, after)
    x = image(kind)
    expected = net.float64(x).transpose(0, 2, 3, 1)
    other = np.random.default_rng(2).standard_normal((*expected.shape[:3], 2 * expected.shape[3]))
    found = net(x, mx.nd.array(other))
    close(found[0], np.tanh(expected / 100))
    close(found[1], expected + other[..., ::2])


@pytest.mark.parametrize("kind", CONVOLUTIONS)
def test_results_do_not_depend_on_threads(kind):
    net = made(kind, channels_last)
    x = image(kind, 4, 24)
    before = net(x).asnumpy()
    set_num_threads(1)
    try:
        np.testing.assert_array_equal(net(x).asnumpy(), before)
    finally:
        set_num_threads(mx.options.OPTIONS.num_threads)


def test_a_scale_is_folded_into_the_weight_and_follows_it():
    net = made("pointwise", channels_last, use_bias=True)
    x = image("pointwise")
    net(x)
    for parameter in (net.conv.weight, net.conv.bias, net.norm.gamma, net.norm.beta, net.norm.running_mean):
        parameter.set_data(parameter.data() * 1.25 - 0.25)
        close(net(x), np.maximum(net.float64(x), 0).transpose(0, 2, 3, 1))


def test_numbers_that_are_none_pass_through():
    net = made("pointwise", channels_last)
    x = image("pointwise").asnumpy()
    x[0, 3, 2, 2], x[1, 5, 1, 1] = np.nan, np.inf
    found = net(mx.nd.array(x)).asnumpy()
    assert np.isnan(found[0, 2, 2]).all()
    weight = net.conv.weight.data().asnumpy()[:, 5, 0, 0] * net.norm.gamma.data().asnumpy()
    np.testing.assert_array_equal(found[1, 1, 1], np.where(weight > 0, np.inf, 0))
    found[0, 2, 2], found[1, 1, 1] = 0, 0
    assert np.isfinite(found).all()


class Product(gluon.HybridBlock):
    """A matmul of two arrays, neither of which is a parameter, and what follows it."""

    def __init__(self, after, transposed):
        super().__init__()
        self.after, self.transposed = after, transposed

    def hybrid_forward(self, F, x, y, *more):
        return self.after(F, F.dot(x, y, transpose_b=self.transposed), *more)


# Rows, columns, terms: whole tiles; tiles beyond the last row and column; exchanged; few columns; few terms; narrow.
PRODUCTS = [(64, 64, 64), (37, 50, 33), (64, 784, 64), (40, 1000, 72), (128, 10, 64), (128, 64, 10), (64, 17, 40)]


def operands(m, n, k, transposed, dtype="float32"):
    rng = np.random.default_rng(m + n + k)
    arrays = [rng.standard_normal(s) for s in ((m, k), (n, k) if transposed else (k, n), (n,), (m, 1), (m, n))]
    return [mx.nd.array(a, dtype=dtype) for a in arrays], [a.astype(dtype).astype(np.float64) for a in arrays]


def results(F, y, bias, scale, residual):
    total = F.broadcast_mul(F.broadcast_add(y, bias), scale)
    return F.relu(total), total - residual, F.cast(total, "int32")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("shape", "transposed"), crossed(2, PRODUCTS, [False, True]))
def test_a_matmul_that_is_not_prepacked_and_what_follows_are_one_kernel(shape, transposed, dtype):
    net = Product(results, transposed)
    net.hybridize()
    given, (x, y, bias, scale, residual) = operands(*shape, transposed, dtype)
    found = net(*given)
    total = (x @ (y.T if transposed else y) + bias) * scale
    rtol = 2e-5 if dtype == "float32" else 1e-13
    close(found[0], np.maximum(total, 0), rtol, total)
    close(found[1], total - residual, rtol, total)
    sure = abs(total - np.round(total)) > 1e-3
    np.testing.assert_array_equal(found[2].asnumpy()[sure], np.trunc(total)[sure])
    # BLAS multiplies with fewer columns than a vector has elements, and what follows reads its result.
    assert len(kernels(net)) == (1 if shape[1] >= lanes(dtype) else 2), kernels(net)


@pytest.mark.parametrize("shape", PRODUCTS)
def test_a_matmul_with_an_epilogue_does_not_depend_on_threads_and_passes_nan_on(shape):
    net = Product(results, True)
    net.hybridize()
    given, _ = operands(*shape, True)
    given[0][2, 3] = np.nan
    before = [each.asnumpy() for each in net(*given)[:2]]
    assert np.isnan(before[0][2]).all()
    assert not np.isnan(np.delete(before[0], 2, 0)).any()
    set_num_threads(1)
    try:
        for found, expected in zip(net(*given), before, strict=False):
            np.testing.assert_array_equal(found.asnumpy(), expected)
    finally:
        set_num_threads(mx.options.OPTIONS.num_threads)


def test_a_batch_of_matmuls_with_what_follows():
    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F, x, y, bias, residual):
            return F.broadcast_add(F.batch_dot(x, y), bias) * residual

    net = Net()
    net.hybridize()
    rng = np.random.default_rng(0)
    for batch, m, n, k in ((6, 24, 40, 32), (5, 33, 18, 20), (0, 24, 40, 32)):
        shapes = (batch, m, k), (batch, k, n), (batch, 1, n), (batch, m, n)
        x, y, bias, residual = arrays = [rng.standard_normal(s) for s in shapes]
        close(net(*map(mx.nd.array, arrays)), (x @ y + bias) * residual)


def test_a_result_that_is_a_part_of_a_concatenation_is_written_there():
    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F, x, y):
            return F.concat(x, F.relu(F.dot(x, y)), dim=1)

    net = Net()
    net.hybridize()
    (x, y, *_), (data, weight, *_) = operands(48, 40, 24, False)
    close(net(x, y), np.concatenate([data, np.maximum(data @ weight, 0)], 1))
    assert not [name for name in kernels(net) if "relu" in name and "matmul" not in name], kernels(net)

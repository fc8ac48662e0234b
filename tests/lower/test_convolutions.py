"""Convolutions on each target: against their definition, one form for all targets, channels last without copies."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.linalg import ops as linalg

import hybridc as mx
from hybridc import autograd
from hybridc.compile.stages import Traced
from hybridc.gluon.nn import HybridLambda
from hybridc.ir.tiles.tile_parser import parse
from hybridc.ir.tiles.tile_spec import faults
from hybridc.lower.llvm.gemm.vector_registers import registers
from hybridc.trace.tracer import trace_call
from hybridc.transforms.schedules.loop_machine import Registers
from hybridc.transforms.schedules.schedule_register_tiles import RegisterTile, in_place_program, line_program
from tests.lower.test_one_form import LISTS
from tests.slices import but, crossed

TOLERANCE = {"float16": 4e-3, "float32": 2e-5, "float64": 1e-12}


def convolved(x, w, stride, dilate, pad, groups):
    """The definition, tap by tap, of channels-first data."""
    x = np.pad(x, [(0, 0), (0, 0), *[(p, p) for p in pad]])
    kernel = w.shape[2:]
    sizes = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(x.shape[2:], kernel, stride, dilate, strict=True)]
    parted, out = np.stack(np.split(x, groups, 1), 1), 0.0
    weights = np.stack(np.split(w, groups))
    for tap in itertools.product(*map(range, kernel)):
        at = [slice(t * d, t * d + s * (n - 1) + 1, s) for t, d, s, n in zip(tap, dilate, stride, sizes, strict=True)]
        taps = weights[(slice(None),) * 3 + tap]
        out = out + np.einsum("ngc...,goc->ngo...", parted[(slice(None),) * 3 + tuple(at)], taps)
    return out.reshape(x.shape[0], w.shape[0], *sizes)


def geometries():
    """Convolutions of one to three axes, from a seed: data, weight, attributes."""
    rng = np.random.default_rng(5)
    fixed = [
        ((2, 3, 9, 11), (33, 3, 3, 3), {"pad": (1, 1)}),  # filters that fill no panels
        ((1, 64, 5, 5), (32, 64, 3, 3), {"pad": (1, 1)}),
        ((2, 16, 8, 30), (16, 16, 3, 3), {"pad": (1, 1), "stride": (2, 1)}),
        ((1, 24, 7, 7), (24, 1, 3, 3), {"pad": (1, 1), "groups": 24}),
        ((1, 8, 6, 6), (16, 2, 3, 3), {"pad": (1, 1), "groups": 4}),
        ((2, 32, 6, 6), (64, 32, 1, 1), {"stride": (2, 2)}),
        ((3, 16, 40), (32, 16, 2), {"dilate": (8,), "pad": (8,)}),
        ((1, 4, 5, 6, 7), (16, 4, 3, 3, 3), {"pad": (1, 1, 1), "stride": (1, 2, 1)}),
        ((1, 3, 33, 32), (64, 3, 7, 7), {"pad": (3, 3), "stride": (2, 2)}),
        ((1, 16, 1, 1), (32, 16, 3, 3), {"pad": (1, 1)}),
        ((3, 20, 37, 41), (36, 20, 3, 3), {"pad": (1, 1)}),  # the weight's gradient is summed in pieces
        ((6, 1, 28, 30), (20, 1, 5, 5), {}),  # one channel
        ((8, 24, 14, 14), (24, 1, 3, 3), {"pad": (1, 1), "groups": 24}),
        ((2, 2, 11, 13), (9, 2, 3, 5), {"pad": (1, 2), "stride": (1, 2)}),
    ]
    for data, weight, given in fixed:
        yield data, weight, given
    for rank in (1, 2, 2, 3):
        groups = int(rng.choice([1, 1, 2, 3]))
        kernel = rng.integers(1, 4, rank)
        stride, dilate, pad = (tuple(map(int, rng.integers(low, 4, rank))) for low in (1, 1, 0))
        sizes = [int(d * (k - 1) + 1 + rng.integers(0, 6)) for k, d in zip(kernel, dilate, strict=True)]
        channels, filters = (groups * int(rng.integers(1, 9)) for _ in range(2))
        weight = (filters, channels // groups, *map(int, kernel))
        given = {"stride": stride, "dilate": dilate, "pad": pad, "groups": groups}
        yield (int(rng.integers(1, 3)), channels, *sizes), weight, given
    # Group by group: one channel each, two results of each channel, groups within a vector, of one, and of several.
    for channels, filters, groups, kernel, more in [
        (40, 40, 40, 3, {}),
        (24, 48, 24, 5, {"stride": (2, 1)}),
        (64, 64, 32, 3, {"dilate": (2, 1)}),
        (32, 32, 8, 3, {"stride": (2, 2)}),
        (32, 64, 4, 3, {}),
        (48, 96, 3, 1, {}),
    ]:
        pad = (kernel // 2, kernel // 2)
        weight = (filters, channels // groups, kernel, kernel)
        yield (3, channels, 11, 13), weight, {"pad": pad, "groups": groups, **more}


CASES = list(geometries())


def full(given, rank):
    """All attributes."""
    return {"stride": (1,) * rank, "dilate": (1,) * rank, "pad": (0,) * rank, "groups": 1, **given}


def network(weight, given):
    """A hybridized convolution."""
    attrs = {k: v for k, v in given.items() if k != "groups"}
    attrs |= {"kernel": weight[2:], "num_filter": weight[0], "num_group": given["groups"], "no_bias": True}
    net = HybridLambda(lambda F, x, w: F.Convolution(x, w, **attrs))
    net.hybridize()
    return net


def compare(data, weight, given, dtype, context=None):
    """A convolution and its gradients, which are found by its linearity in both operands, against the definition."""
    given, rng = full(given, len(data) - 2), np.random.default_rng(1)
    x, w, u, v = (rng.normal(size=shape).astype(dtype).astype("float64") for shape in (data, weight, data, weight))
    want = convolved(x, w, **given)
    dy = rng.normal(size=want.shape).astype(dtype).astype("float64")
    context = mx.cpu() if context is None else context
    ours = [mx.nd.array(each, dtype=dtype, ctx=context) for each in (x, w, dy)]
    for each in ours[:2]:
        each.attach_grad()
    net = network(weight, given)
    with autograd.record():
        y = net(*ours[:2])
    y.backward(ours[2])

    def close(got, expected, scale):
        assert np.max(np.abs(got - expected)) <= TOLERANCE[dtype] * max(1e-30, scale)

    close(y.asnumpy().astype("float64"), want, np.abs(want).max())
    close(net(*ours[:2]).asnumpy().astype("float64"), want, np.abs(want).max())  # in predict mode
    sizes = np.abs(dy).sum() * np.abs(x).max() * np.abs(w).max()
    close((ours[0].grad.asnumpy().astype("float64") * u).sum(), (dy * convolved(u, w, **given)).sum(), sizes)
    close((ours[1].grad.asnumpy().astype("float64") * v).sum(), (dy * convolved(x, v, **given)).sum(), sizes)


@pytest.mark.parametrize("number", range(len(CASES)))
def test_a_convolution_and_its_gradients_are_what_they_are_defined_as(number):
    compare(*CASES[number], "float32")


def test_sums_are_arranged_in_the_dtype_of_the_result():
    """Vectors of AVX-512 have sums of several groups: they are cast, and then moved to their places."""
    compare((3, 48, 11, 13), (96, 16, 1, 1), {"groups": 3}, "float16")


@pytest.mark.parametrize(("number", "dtype"), crossed(6, range(len(CASES)), ["float64", "float16"]))
def test_in_other_dtypes(number, dtype):
    compare(*CASES[number], dtype)


@pytest.mark.triton
@pytest.mark.parametrize("number", but([10, 11], [3, 5, 10, 11, 14]))
def test_triton_too(number):
    compare(*CASES[number], "float32", mx.gpu())


# --- the form -------------------------------------------------------------------------------------------------------


def residual(F, x, w, v):
    """A residual block, and what reads the result channel by channel."""
    y = F.Convolution(x, w, kernel=(3, 3), pad=(1, 1), num_filter=8, no_bias=True)
    y = F.Convolution(F.relu(y), v, kernel=(3, 3), pad=(1, 1), num_filter=8, no_bias=True)
    z = F.relu(x + y)
    z = z + F.Convolution(z, v, kernel=(3, 3), pad=(1, 1), num_filter=8, no_bias=True)
    return F.mean(F.relu(z), axis=(2, 3))


def traced(dtype, gradients=()):
    arrays = [mx.nd.ones(s, dtype=dtype) for s in ((2, 8, 6, 6), (8, 8, 3, 3), (8, 8, 3, 3))]
    return Traced(trace_call(HybridLambda(residual), arrays, training=bool(gradients)), gradients).optimize().module


def formed(passes, dtype, gradients=()):
    module = traced(dtype, gradients).clone()
    for each in passes:
        each.apply(Context(), module)
    return module


@pytest.mark.parametrize("gradients", [(), (0, 1, 2)], ids=["forward", "with gradients"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_all_targets_are_given_the_same_kernels(dtype, gradients):
    assert len({str(formed(passes, dtype, gradients)) for passes in LISTS.values()}) == 1


def transposes(module):
    """What is transposed between kernels."""
    return [op for op in module.walk() if isinstance(op, linalg.TransposeOp)]


def test_a_residual_network_is_channels_last_inside():
    """Its data is read transposed once, where it is padded; nothing else is but weights."""
    module = formed(LISTS["llvm"], "float32")
    read = [op.operands[0] for op in transposes(module)]
    assert len([v for v in read if v.type.get_shape() == (2, 8, 6, 6)]) == 1
    assert all(tuple(op.results[0].type.get_shape()) == (2, 6, 6, 8) for op in transposes(module))


def test_what_a_backward_is_given_is_channels_last():
    """No kernel writes what is saved in another order: the backward's arguments are (N, H, W, C)."""
    module = formed(LISTS["llvm"], "float32", (0, 1, 2))
    backward = next(op for op in module.ops if op.sym_name.data == "backward")
    shapes = [tuple(a.type.get_shape()) for a in backward.body.block.args]
    data = [s for s in shapes if len(s) == 4 and s[:2] != (8, 8)]
    assert data.count((2, 8, 6, 6)) == 1, "the data itself"
    assert data.count((2, 6, 6, 8)) == len(data) - 1 > 0


def normalized(F, x, w, gamma, beta, mean, var, v):
    y = F.Convolution(x, w, kernel=(3, 3), pad=(1, 1), num_filter=8, no_bias=True)
    y = F.relu(F.BatchNorm(y, gamma, beta, mean, var, fix_gamma=False))
    y = F.relu(F.Convolution(y, v, kernel=(3, 3), pad=(1, 1), num_filter=8, no_bias=True))
    return F.mean(y, axis=(2, 3))


def test_gradients_through_a_normalization_are_channels_last():
    """What sums over pixels and what a convolution reads take the same arrays, as the convolutions have them."""
    shapes = [(2, 3, 6, 5), (8, 3, 3, 3), (8,), (8,), (8,), (8,), (8, 8, 3, 3)]
    arrays = [mx.nd.ones(shape) for shape in shapes]
    trace = trace_call(HybridLambda(normalized), arrays, training=True)
    module = Traced(trace, (1, 2, 3, 6)).optimize().module.clone()
    for each in LISTS["llvm"]:
        each.apply(Context(), module)
    made = [tuple(r.type.get_shape()) for op in module.walk() if isinstance(op, linalg.GenericOp) for r in op.results]
    assert (2, 6, 5, 8) in made
    assert (2, 8, 6, 5) not in made


# --- programs in registers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vectors", [Registers(32, 16), Registers(64, 32)])
@pytest.mark.parametrize("abreast", [1, 2])
def test_programs_hold_to_their_specification(vectors, abreast):
    tile = RegisterTile(np.dtype("float32"), vectors, abreast)
    for made in (line_program(tile, 2, 1), line_program(tile, 3, 2), in_place_program(tile, 2, 2)):
        assert faults(made.program) == []
        assert parse(str(made.program)) == made.program


@pytest.mark.skipif(registers() is None, reason="this processor has no registers for tiles")
def test_a_convolution_before_a_group_normalization_is_one():
    """Groups split the axis of its channels, and its loops stay whole."""
    x, w = mx.nd.ones((2, 16, 8, 8)), mx.nd.ones((32, 16, 3, 3))
    scale, shift = mx.nd.ones(4), mx.nd.zeros(4)

    def normalized(F, x, w):
        y = F.Convolution(x, w, kernel=(3, 3), pad=(1, 1), num_filter=32, no_bias=True)
        return F.GroupNorm(y, scale, shift, num_groups=4)

    launched = HybridLambda(normalized).trace(x, w).optimize().lower("llvm").programs["forward"].launches
    assert "k_contract_of_panels" in launched


@pytest.mark.skipif(registers() is None, reason="this processor has no registers for tiles")
def test_a_convolution_is_computed_in_place():
    """Weights are prepacked, and no patches are copied: the kernels of a call are few and named so."""
    x, w = mx.nd.ones((2, 16, 8, 8)), mx.nd.ones((32, 16, 3, 3))
    net = network((32, 16, 3, 3), full({"pad": (1, 1)}, 2))
    launched = net.trace(x, w).optimize().lower("llvm").programs["forward"].launches
    assert list(launched) == ["k_pad", "k_panels", "k_contract_of_panels", "k_transpose"]


@pytest.mark.parametrize("groups", [1, 4, 16])
def test_the_same_digits_with_one_thread_and_with_two(groups):
    from hybridc.runtime.native import num_threads, set_num_threads

    weight = (48, 16 // groups, 3, 3)
    net, rng = network(weight, full({"pad": (1, 1), "groups": groups}, 2)), np.random.default_rng(3)
    x = mx.nd.array(rng.normal(size=(4, 16, 40, 40)))
    w = mx.nd.array(rng.normal(size=weight))
    x.attach_grad()
    w.attach_grad()
    found, threads = [], num_threads()
    try:
        for count in (1, 2):
            set_num_threads(count)
            with autograd.record():
                y = net(x, w)
            y.backward()
            found.append([each.asnumpy() for each in (y, x.grad, w.grad)])
    finally:
        set_num_threads(threads)
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)

"""Winograd's convolutions: against the definition in double precision, chosen by size alone, and switched off."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from xdsl.context import Context

import hybridc as mx
from hybridc import autograd
from hybridc.compile.stages import Traced
from hybridc.gluon.nn import HybridLambda
from hybridc.lower.llvm.gemm.vector_registers import registers
from hybridc.options import OPTIONS
from hybridc.trace.tracer import trace_call
from hybridc.transforms.structured import winograd
from tests.lower.test_convolutions import convolved

# Largest errors, as parts of the largest result: what users are told.
ERROR = {"float32": 1e-5, "float64": 2e-14}
pytestmark = [
    pytest.mark.skipif(OPTIONS.target != "llvm", reason="the llvm target has Winograd's algorithm"),
    pytest.mark.skipif(registers() is None, reason="Winograd needs vector registers with multiply-add"),
]


def network(weight, pad):
    net = HybridLambda(
        lambda F, x, w: F.Convolution(x, w, kernel=weight[2:], num_filter=weight[0], pad=pad, no_bias=True)
    )
    net.hybridize()
    return net


def kernels_of(net, *arrays):
    """The names of the kernels of a call."""
    return [line.split()[1].rstrip(":") for line in net.explain().splitlines() if line.strip().startswith("kernel ")]


def arrays(data, weight, dtype="float32"):
    rng = np.random.default_rng(3)
    return rng.standard_normal(data).astype(dtype), rng.standard_normal(weight).astype(dtype)


CASES = [
    ((8, 32, 24, 20), (64, 32, 3, 3), (1, 1)),  # tiles cut along a grid
    ((4, 64, 14, 14), (64, 64, 3, 3), (1, 1)),  # tiles that end beyond the last row
    ((2, 48, 17, 31), (96, 48, 3, 3), (1, 1)),  # odd sizes
    ((1, 32, 40, 33), (32, 32, 3, 3), (0, 2)),  # other borders
    ((1, 32, 12, 16, 20), (64, 32, 3, 3, 3), (1, 1, 1)),  # three axes, of which two are transformed
    ((1, 32, 12, 16, 20), (64, 32, 1, 3, 3), (0, 1, 1)),
    ((2, 32, 36, 24), (64, 32, 5, 3), (2, 1)),  # one axis
    ((4, 128, 300), (128, 128, 3), (1,)),
]


@pytest.mark.parametrize(("data", "weight", "pad"), CASES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_results(data, weight, pad, dtype):
    x, w = arrays(data, weight, dtype)
    net = network(weight, pad)
    got = net(mx.nd.array(x, dtype=dtype), mx.nd.array(w, dtype=dtype)).asnumpy()
    ones = (1,) * len(pad)
    want = convolved(x.astype(np.float64), w.astype(np.float64), ones, ones, pad, 1)
    assert any("winograd" in name or "data_of" in name for name in kernels_of(net))
    assert np.abs(got - want).max() <= ERROR[dtype] * np.abs(want).max()


@pytest.mark.parametrize("transforms", [winograd.F2, winograd.F4], ids=["F2", "F4"])
def test_each_algorithm(transforms, monkeypatch):
    """Both make the same results, with errors as their factors have."""
    monkeypatch.setattr(winograd, "CHOICES", (transforms,))
    x, w = arrays((2, 32, 18, 22), (64, 32, 3, 3))
    offset = float(transforms.results)  # another network for each: kernels are reused at other sizes
    net = HybridLambda(
        lambda F, x, w: F.Convolution(x, w, kernel=(3, 3), num_filter=64, pad=(1, 1), no_bias=True) + offset
    )
    net.hybridize()
    got = net(mx.nd.array(x), mx.nd.array(w)).asnumpy() - offset
    want = convolved(x.astype(np.float64), w.astype(np.float64), (1, 1), (1, 1), (1, 1), 1)
    assert any("results_of" in name or "winograd" in name for name in kernels_of(net))
    error = np.abs(got - want).max() / np.abs(want).max()
    assert error <= (1e-6 if transforms is winograd.F2 else 1e-5)


@pytest.mark.parametrize("transforms", [winograd.F2, winograd.F4], ids=["F2", "F4"])
def test_matrices(transforms):
    """The transforms convolve."""
    rng = np.random.default_rng(0)
    x, w = rng.integers(-9, 10, transforms.points), rng.integers(-9, 10, 3)
    got = transforms.back @ ((transforms.weights @ w) * (transforms.data @ x))
    assert np.allclose(got, [x[i : i + 3] @ w for i in range(transforms.results)], rtol=0, atol=1e-12)
    # Opposite points: so that their sums are shared.
    for one, other in itertools.pairwise(range(1, transforms.points - 1)):
        if one % 2:
            assert np.array_equal(abs(transforms.data[one]), abs(transforms.data[other]))


def test_gradients():
    """The gradient of the data is a convolution with the kernel backwards."""
    x, w = arrays((2, 64, 20, 24), (64, 64, 3, 3))
    data, weight = mx.nd.array(x), mx.nd.array(w)
    net = network(w.shape, (1, 1))
    for each in (data, weight):
        each.attach_grad()
    with autograd.record():
        y = net(data, weight)
    dy = np.random.default_rng(4).standard_normal(y.shape).astype(np.float32)
    y.backward(mx.nd.array(dy))
    flipped = w.transpose(1, 0, 2, 3)[:, :, ::-1, ::-1].astype(np.float64)
    want = convolved(dy.astype(np.float64), flipped, (1, 1), (1, 1), (1, 1), 1)
    assert np.abs(data.grad.asnumpy() - want).max() <= 1e-5 * np.abs(want).max()


def test_equal_for_any_number_of_threads(monkeypatch):
    x, w = arrays((3, 32, 28, 28), (32, 32, 3, 3))
    found = []
    for threads in (1, 2):
        monkeypatch.setattr("hybridc.options.OPTIONS", dataclasses.replace(OPTIONS, num_threads=threads))
        found.append(network(w.shape, (1, 1))(mx.nd.array(x), mx.nd.array(w)).asnumpy())
    assert np.array_equal(*found)


def test_strided_data():
    """A part of an array is read where it lies."""
    x, w = arrays((2, 40, 30, 26), (64, 32, 3, 3))
    net = HybridLambda(
        lambda F, x, w: F.Convolution(
            F.relu(F.slice(x, begin=(0, 4, 2, 1), end=(2, 36, 28, 25))), w, kernel=(3, 3), num_filter=64, no_bias=True
        )
    )
    net.hybridize()
    got = net(mx.nd.array(x), mx.nd.array(w)).asnumpy()
    part = np.maximum(x[:, 4:36, 2:28, 1:25], 0).astype(np.float64)
    want = convolved(part, w.astype(np.float64), (1, 1), (1, 1), (0, 0), 1)
    assert np.abs(got - want).max() <= 1e-5 * np.abs(want).max()


@pytest.mark.parametrize(
    ("data", "weight", "attrs"),
    [
        ((1, 3, 64, 64), (32, 3, 3, 3), {}),  # few channels
        ((1, 32, 64, 64), (20, 32, 3, 3), {}),  # filters that fill no vectors
        ((1, 32, 6, 6), (32, 32, 3, 3), {}),  # few pixels
        ((1, 64, 64, 64), (64, 64, 3, 3), {"stride": (2, 2)}),
        ((1, 64, 64, 64), (64, 64, 3, 3), {"dilate": (2, 2)}),
        ((1, 64, 64, 64), (64, 16, 3, 3), {"num_group": 4}),
        ((1, 64, 64, 64), (64, 64, 1, 1), {}),
    ],
)
def test_others_are_left(data, weight, attrs):
    assert not _is_rewritten(data, weight, attrs, (32, 16))


def test_switch():
    """Without registers, as with HYBRIDC_WINOGRAD=0, nothing is rewritten."""
    shapes = (2, 64, 32, 32), (64, 64, 3, 3)
    assert _is_rewritten(*shapes, {}, (32, 16))
    assert not _is_rewritten(*shapes, {}, None)


def _is_rewritten(data, weight, attrs, vectors):
    """Whether the pass changes a convolution, with these registers."""
    from hybridc.compile import pipeline

    net = HybridLambda(
        lambda F, x, w: F.Convolution(x, w, kernel=weight[2:], num_filter=weight[0], pad=(1, 1), no_bias=True, **attrs)
    )
    traced = Traced(trace_call(net, [mx.nd.zeros(data), mx.nd.zeros(weight)], False))
    module = traced.optimize().module
    for each in (*pipeline.structured_passes("llvm"), *pipeline.LOOPS):
        each.apply(Context(), module)
    before = str(module)
    winograd.Winograd(*(vectors or (0, 0))).apply(Context(), module)
    return str(module) != before

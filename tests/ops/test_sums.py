"""Sums of many terms: eager ones over any axes, and those of a weight's gradient, against double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hybridc as mx

RANDOM = np.random.default_rng(0)
# The largest error of a sum, in units of the sum of all absolute values: a naive sum of a thousand terms has 1.6e-6.
BOUND = 3e-7


def far(shape: tuple[int, ...], dtype: str = "float32") -> Any:
    """Numbers far from 0, whose sums round at each step."""
    return (RANDOM.standard_normal(shape) + 100).astype(dtype)


@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((1000, 100), 0),
        ((1009, 3), 0),
        ((20000, 2), 0),
        ((7, 1001, 5), 1),
        ((40, 50, 30), (0, 1)),
        ((500, 2, 3), (0, 2)),
        ((17, 19, 23, 4), (0, 1, 2)),
        ((9, 1, 4), (0, 1)),
        ((3000,), None),
        ((300, 40), None),
    ],
)
@pytest.mark.parametrize("order", ["C", "F"])
def test_eager_sums(shape: tuple[int, ...], axis: Any, order: Any) -> None:
    x = far(shape)
    given = mx.nd.array(x if order == "C" else x.T)
    given = given if order == "C" else given.T
    wide = x.astype("float64")
    options: dict[str, Any] = {} if axis is None else {"axis": axis}
    for made, wanted in (
        (mx.nd.sum(given, **options), wide.sum(axis)),
        (mx.nd.mean(given, **options), wide.mean(axis)),
        (mx.nd.nansum(given, **options), wide.sum(axis)),
        (mx.nd.norm(given, **options), np.sqrt((wide * wide).sum(axis))),
        (mx.nd.sum(given.astype("float64"), **options), wide.sum(axis)),
        (mx.nd.sum(given, keepdims=True, **options), wide.sum(axis, keepdims=True)),
    ):
        assert made.shape == (np.shape(wanted) or (1,))
        np.testing.assert_allclose(made.asnumpy(), wanted, rtol=BOUND)


def test_eager_sums_of_halves_round_once() -> None:
    x = RANDOM.random((2000, 3)).astype("float16")
    wanted = x.astype("float64").sum(0)
    np.testing.assert_allclose(mx.nd.sum(mx.nd.array(x, dtype="float16"), axis=0).asnumpy(), wanted, rtol=5e-4)


def test_eager_statistics_of_columns() -> None:
    x = far((3000, 4))
    wide = x.astype("float64")
    mean, variance = mx.nd.moments(mx.nd.array(x), axes=0)
    np.testing.assert_allclose(mean.asnumpy(), wide.mean(0), rtol=BOUND)
    np.testing.assert_allclose(variance.asnumpy(), wide.var(0), rtol=1e-5)
    made = mx.nd.softmax(mx.nd.array(x / 100), axis=0).asnumpy()
    shares = np.exp((x / 100).astype("float64"))
    np.testing.assert_allclose(made, shares / shares.sum(0), rtol=2e-6)


def test_gradient_of_a_broadcast_operand() -> None:
    x, dy = mx.nd.zeros((1, 5)), far((4000, 5))
    x.attach_grad()
    with mx.autograd.record():
        y = mx.nd.broadcast_add(x, mx.nd.zeros((4000, 5)))
    y.backward(mx.nd.array(dy))
    np.testing.assert_allclose(x.grad.asnumpy()[0], dy.astype("float64").sum(0), rtol=BOUND)


@pytest.mark.parametrize(
    ("channels", "filters", "sizes", "kernel"),
    [(4, 8, (16, 16, 16), 3), (3, 32, (64, 64), 3), (32, 32, (64, 64), 1), (4, 8, (4096,), 3)],
)
def test_gradient_of_a_weight_sums_all_places(channels: int, filters: int, sizes: tuple[int, ...], kernel: int) -> None:
    """20480 terms for each element: one after the other they have an error of 4e-6 of the largest element."""
    layers = {1: mx.gluon.nn.Conv1D, 2: mx.gluon.nn.Conv2D, 3: mx.gluon.nn.Conv3D}
    net = layers[len(sizes)](filters, kernel, padding=kernel // 2, in_channels=channels, use_bias=False)
    net.initialize()
    net.hybridize()
    x, dy = RANDOM.standard_normal((5, channels, *sizes)), RANDOM.standard_normal((5, filters, *sizes))
    x, dy = x.astype("float32"), dy.astype("float32")
    with mx.autograd.record():
        y = net(mx.nd.array(x))
    y.backward(mx.nd.array(dy))
    border = [(0, 0)] * 2 + [(kernel // 2,) * 2] * len(sizes)
    padded = np.pad(x.astype("float64"), border)
    wanted = np.zeros(net.weight.shape)
    places = [0, *range(2, x.ndim)]
    for tap in np.ndindex(*(kernel,) * len(sizes)):
        part = padded[(slice(None), slice(None), *(slice(t, t + n) for t, n in zip(tap, sizes, strict=True)))]
        wanted[(slice(None), slice(None), *tap)] = np.tensordot(dy.astype("float64"), part, [places, places])
    error = np.abs(net.weight.grad().asnumpy() - wanted).max() / np.abs(wanted).max()
    assert error < 2.5e-6

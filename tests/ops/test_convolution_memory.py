"""Eager convolutions take memory by the sizes of their arrays, not by those of all windows."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

import hybridc as mx

MIB = 1 << 20


def peak(run: Any) -> tuple[Any, int]:
    """What a function returns, and the bytes that it takes at most."""
    tracemalloc.start()
    try:
        made = run()
        return made, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def forward_and_backward(operator: Any, x: Any, w: Any, dy: Any, **attributes: Any) -> list[Any]:
    data, weight = mx.nd.array(x), mx.nd.array(w)
    for each in (data, weight):
        each.attach_grad()
    with mx.autograd.record():
        y = operator(data, weight, no_bias=True, **attributes)
    y.backward(mx.nd.array(dy))
    return [y.asnumpy(), data.grad.asnumpy(), weight.grad.asnumpy()]


@pytest.mark.parametrize("size", [40, 224])
def test_kernels_as_large_as_the_data(size: int) -> None:
    rng = np.random.default_rng(0)
    x, w, dy = rng.random((2, 3, size, size)), rng.random((4, 3, size, size)), rng.random((2, 4, 1, 1))
    attributes = {"kernel": (size, size), "num_filter": 4}
    (y, dx, dw), most = peak(lambda: forward_and_backward(mx.nd.Convolution, x, w, dy, **attributes))
    assert most < 32 * MIB
    np.testing.assert_allclose(y[..., 0, 0], np.einsum("nchw,ochw->no", x, w), rtol=1e-4)
    np.testing.assert_allclose(dx, np.einsum("no,ochw->nchw", dy[..., 0, 0], w), rtol=1e-4)
    np.testing.assert_allclose(dw, np.einsum("no,nchw->ochw", dy[..., 0, 0], x), rtol=1e-4)


# What each element of the kernel sees of the data, (n, c, places…), sums to all that a convolution has to do with it.
CASES = [
    ((4, 32, 64, 64), (5, 5), {"pad": (2, 2)}),
    ((4, 8, 8001), (65,), {"stride": (2,), "dilate": (3,)}),
    ((2, 4, 20, 20, 20), (6, 6, 6), {"num_group": 2, "pad": (2, 2, 2)}),
    ((2, 8, 90, 121), (13, 9), {"num_group": 2, "stride": (1, 2)}),
]


@pytest.mark.parametrize(("shape", "kernel", "options"), CASES)
@pytest.mark.parametrize("transposed", [False, True])
def test_windows_that_overlap(
    shape: tuple[int, ...], kernel: tuple[int, ...], options: dict[str, Any], transposed: bool
) -> None:
    """All windows are 33 to 60 MiB; results and gradients are those of sums over the kernel's elements."""
    rng, groups, filters = np.random.default_rng(0), options.get("num_group", 1), 8
    ones = (1,) * len(kernel)
    stride, dilate = options.get("stride", ones), options.get("dilate", ones)
    pad = options.get("pad", (0,) * len(kernel))
    outs = [
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, p, d, k, s in zip(shape[2:], pad, dilate, kernel, stride, strict=True)
    ]
    x, dy = rng.standard_normal(shape), rng.standard_normal((shape[0], filters, *outs))
    w = rng.standard_normal((filters, shape[1] // groups, *kernel))
    attributes = {"kernel": kernel, **options}
    if transposed:  # the same three arrays, with data and result exchanged
        sizes = {"num_filter": shape[1], "target_shape": shape[2:]}
        operator, given, head = mx.nd.Deconvolution, dy, x
        attributes |= sizes if "pad" not in options else {"num_filter": shape[1]}
    else:
        attributes["num_filter"] = filters
        operator, given, head = mx.nd.Convolution, x, dy
    made, most = peak(lambda: forward_and_backward(operator, given, w, head, **attributes))
    assert most < 64 * MIB + 8 * (x.nbytes + dy.nbytes + w.nbytes)
    y, dx, dw = np.zeros(dy.shape), np.zeros(shape), np.zeros(w.shape)
    padded = np.pad(x, [(0, 0)] * 2 + [(p, p) for p in pad])
    back = np.zeros_like(padded)
    places = [0, *range(2, x.ndim)]
    for tap in np.ndindex(*kernel):
        at = [slice(t * d, t * d + s * (m - 1) + 1, s) for t, d, s, m in zip(tap, dilate, stride, outs, strict=True)]
        for g in range(groups):
            c, o = shape[1] // groups, filters // groups
            own, ours = slice(g * c, (g + 1) * c), slice(g * o, (g + 1) * o)
            part, ws = padded[(slice(None), own, *at)], w[(ours, slice(None), *tap)]
            y[:, ours] += np.einsum("nc...,oc->no...", part, ws, optimize=True)
            back[(slice(None), own, *at)] += np.einsum("no...,oc->nc...", dy[:, ours], ws, optimize=True)
            dw[(ours, slice(None), *tap)] = np.tensordot(dy[:, ours], part, [places, places])
    inside = tuple(slice(p, p + n) for p, n in zip(pad, shape[2:], strict=True))
    dx = back[(slice(None), slice(None), *inside)]
    for got, want in zip(made, (dx, y, dw) if transposed else (y, dx, dw), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4 * np.abs(want).max())

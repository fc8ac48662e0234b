"""Chains of every kind of operator, deeper than Python's recursion: hybridized they give what they give eagerly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hybridc as mx

DEEP = 1100
Step = Callable[[Any, Any, Any, Any, int], Any]


def _rotated(F: Any, y: Any) -> Any:
    return F.concat(F.slice_axis(y, axis=1, begin=1, end=3), F.slice_axis(y, axis=1, begin=0, end=1), dim=1)


# Of F, the value so far, the input, the weight and the number of the step: the next value.
QUICK: dict[str, Step] = {
    "attention": lambda F, y, x, w, i: y * 0.5 + F.dot(F.softmax(F.dot(y, y, transpose_b=True)), y) * 0.5,
    "dense and activation": lambda F, y, x, w, i: F.Activation(F.dot(y, w), act_type="softrelu") - 0.5,
    "dot": lambda F, y, x, w, i: F.dot(y, w),
    "mean": lambda F, y, x, w, i: F.broadcast_sub(y, F.mean(y, axis=1, keepdims=True) * 0.01),
    "softmax": lambda F, y, x, w, i: F.softmax(y * 3 + x),
    "transpose": lambda F, y, x, w, i: F.transpose(y),
}
LONG: dict[str, Step] = {
    "broadcast": lambda F, y, x, w, i: F.broadcast_to(F.expand_dims(y, axis=0), shape=(2, 2, 3)).sum(axis=0) * 0.5,
    "concat": lambda F, y, x, w, i: F.slice_axis(F.concat(y, x, dim=1), axis=1, begin=1, end=4),
    "concat and function": lambda F, y, x, w, i: F.tanh(F.concat(y, x, dim=0).slice_axis(axis=0, begin=1, end=3)),
    "flip": lambda F, y, x, w, i: F.flip(y, axis=i % 2),
    "residual": lambda F, y, x, w, i: y + F.tanh(y) * 0.001,
    "layer norm": lambda F, y, x, w, i: F.LayerNorm(y + x, F.sum(w * 0, axis=0) + 1, F.sum(w * 0, axis=0)),
    "reshape": lambda F, y, x, w, i: F.reshape(y, shape=(2, 3) if i % 2 else (3, 2)),
    "scalars": lambda F, y, x, w, i: y * 1.0001 + i * 1e-5,
    "slice and concat": lambda F, y, x, w, i: _rotated(F, y),
    "split": lambda F, y, x, w, i: F.concat(*F.split(y, num_outputs=3, axis=1)[::-1], dim=1),
    "stack": lambda F, y, x, w, i: F.sum(F.stack(y, x * 0.001, axis=0), axis=0),
    "sums of inputs": lambda F, y, x, w, i: F.elemwise_add(y, x * (i * 1e-4)),
    "transpose and reshape": lambda F, y, x, w, i: F.reshape(F.transpose(y), shape=(2, 3)),
}


class Chain(mx.gluon.HybridBlock):
    """A step many times."""

    def __init__(self, step: Step) -> None:
        super().__init__()
        self.step = step
        self.weight = self.params.get("weight", shape=(3, 3), dtype="float64", init=mx.init.Orthogonal(scale=1.0))

    def hybrid_forward(self, F: Any, x: Any, weight: Any) -> Any:
        y = x
        for i in range(DEEP):
            y = self.step(F, y, x, weight, i)
        return y


def _check(step: Step) -> None:
    net = Chain(step)
    net.initialize()
    x = mx.nd.array(np.random.default_rng(0).standard_normal((2, 3)), dtype="float64")
    results: list[list[Any]] = []
    for hybridized in (False, True):
        net.hybridize(hybridized)
        x.attach_grad()
        with mx.autograd.record():
            y = net(x)
        y.backward()
        results.append([array.asnumpy() for array in (y, x.grad, net.weight.grad())])
    for eager, hybrid in zip(*results, strict=True):
        np.testing.assert_allclose(hybrid, eager, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("kind", QUICK)
def test_chains(kind: str) -> None:
    _check(QUICK[kind])


@pytest.mark.long
@pytest.mark.parametrize("kind", LONG)
def test_long_chains_of_more_kinds(kind: str) -> None:
    _check(LONG[kind])

"""Runs a function of ``mx.np`` eagerly and in a hybridized block, and its gradients against differences."""

from __future__ import annotations

import numpy as onp

from hybridc import autograd, np
from hybridc.gluon import HybridBlock


class FunctionNet(HybridBlock):
    """A block that is a function."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *xs):
        return self.function(*xs)


def as_list(value):
    return list(value) if isinstance(value, list | tuple) else [value]


def results(function, *xs):
    """The results for NumPy arrays: eager ones and those of a hybridized block, as lists of arrays of mx.np."""
    net = FunctionNet(function)
    net.hybridize()
    arrays = [np.array(x, dtype=x.dtype) for x in xs]
    return as_list(function(*arrays)), as_list(net(*arrays))


def check(function, reference, *xs, dtype=None, rtol=1e-5, atol=1e-6):
    """Both results against NumPy's for the inputs, in float64 where they are floats."""
    wide = [x.astype("float64") if x.dtype.kind == "f" else x for x in xs]
    with onp.errstate(all="ignore"):
        want = as_list(reference(*wide))
    for found in results(function, *xs):
        assert len(found) == len(want)
        for y, w in zip(found, want, strict=True):
            assert type(y) is np.ndarray
            assert y.shape == onp.shape(w), (y.shape, onp.shape(w))
            if dtype is not None:
                assert y.dtype == onp.dtype(dtype), y.dtype
            with onp.errstate(all="ignore"):
                near = onp.asarray(w).astype(y.dtype)
            onp.testing.assert_allclose(y.asnumpy(), near, rtol=rtol, atol=atol)


def check_gradient(function, *xs, rtol=1e-5, atol=1e-6):
    """Gradients of a weighted sum of the result, on the tape and compiled, against differences in float64."""
    xs = [onp.asarray(x, "float64") for x in xs]
    shape = function(*[np.array(x, dtype="float64") for x in xs]).shape
    weights = onp.random.default_rng(3).uniform(0.5, 1.5, shape)

    def value(*arrays):
        y = function(*[np.array(a, dtype="float64") for a in arrays]).asnumpy()
        return float((y * weights).sum())

    net = FunctionNet(function)
    net.hybridize()
    for apply in (function, net):
        arrays = [np.array(x, dtype="float64") for x in xs]
        for x in arrays:
            x.attach_grad()
        with autograd.record():
            y = (apply(*arrays) * np.array(weights, dtype="float64")).sum()
        y.backward()
        for i, x in enumerate(xs):
            differences = onp.zeros_like(x)
            for place in onp.ndindex(*x.shape):
                above, below = x.copy(), x.copy()
                above[place] += 1e-6
                below[place] -= 1e-6
                differences[place] = (value(*xs[:i], above, *xs[i + 1 :]) - value(*xs[:i], below, *xs[i + 1 :])) / 2e-6
            onp.testing.assert_allclose(arrays[i].grad.asnumpy(), differences, rtol=rtol, atol=atol)

"""Backends and networks that the tests of this folder share."""

from __future__ import annotations

import numpy as np

import hybridc as mx
from hybridc import autograd, gluon, nd
from hybridc.ir.values import functions, hybrid_ops
from hybridc.subgraph.partition_graph import PartitionGraph

RAN = []  # what the backends below were asked to run: (backend, subgraph, operators)


def note(part):
    RAN.append((part.backend, part.name, [op.title() for op in part.operators]))


def partitioner(backend, wanted, **methods):
    """A backend that takes these operators and runs them as hybridc would; methods override."""

    def run(self, part, *arrays):
        note(part)
        return part(*arrays)

    body = {"ops": wanted, "run": run, **methods}
    return mx.subgraph.register_partitioner(backend)(type("Taken", (mx.subgraph.Partitioner,), body))


class Function(gluon.HybridBlock):
    """A block that computes ``function(F, *inputs)``."""

    def __init__(self, function):
        super().__init__()
        self._function = function

    def hybrid_forward(self, F, x, *args):
        return self._function(F, x, *args)


def values(*shape, low=0.5, high=2.0, dtype="float64"):
    """Numbers of their own for every shape, away from zero."""
    return nd.array(np.random.RandomState(sum(shape) + 7 * len(shape)).uniform(low, high, shape), dtype=dtype)


def run(net, *arrays, backend=None, **options):
    """Results and gradients of the sum of squares of the results, as NumPy arrays."""
    net.hybridize(**({"backend": backend, **options} if backend else {"active": False}))
    arrays = [a.copy() for a in arrays]
    for a in arrays:
        a.attach_grad()
    with autograd.record():
        out = net(*arrays)
        outs = out if isinstance(out, list | tuple) else [out]
        loss = sum((y * y).sum() for y in outs)
    loss.backward()
    return [y.asnumpy() for y in outs], [a.grad.asnumpy() for a in arrays]


def partitioned(net, *arrays, backend, **options):
    """The graph of a network after a backend took its parts."""
    net.hybridize(False)
    module = net.trace(*arrays).module
    PartitionGraph(backend, options).apply(mx_context(), module)
    module.verify()
    return module


def mx_context():
    from hybridc.compile.pipeline import context

    return context()


def parts(module):
    """For every subgraph of the first function: the titles of the operators inside."""
    found = [op.operator for op in hybrid_ops(functions(module)[0]) if op.name == "hybrid.subgraph"]
    return [[step.op.title() for step in op.body.operators()] for op in found]


def numeric_gradient(function, arrays, eps=1e-6):
    """Finite differences of a NumPy function to a number."""
    found = []
    for k, a in enumerate(arrays):
        grad = np.zeros_like(a)
        for index in np.ndindex(a.shape):
            moved = []
            for sign in (1, -1):
                b = [x.copy() for x in arrays]
                b[k][index] += sign * eps
                moved.append(function(*b))
            grad[index] = (moved[0] - moved[1]) / (2 * eps)
        found.append(grad)
    return found

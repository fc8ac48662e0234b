"""Symbols that the backends of examples/extensions/lib_subgraph partition, in MXNet and in hybridc."""

from __future__ import annotations

import numpy as np

ARRAYS = {name: (np.arange(6, dtype=np.float32).reshape(2, 3) + i + 1) / 8 for i, name in enumerate("abc")}


def chain(sym, a, b, c):
    return sym.log(sym.exp(a, name="e"), name="l")


def outside(sym, a, b, c):
    return sym.cos(sym.exp(sym.sin(sym.sqrt(a, name="r"), name="s"), name="e"), name="c")


def diamond(sym, a, b, c):
    e = sym.exp(a, name="e")
    return sym.elemwise_add(sym.sqrt(e, name="r"), sym.sin(e, name="s"), name="sum")


def several(sym, a, b, c):
    e = sym.exp(a, name="e")
    log = sym.log(e, name="l")
    s = sym.sin(log, name="s")
    return sym.Group([sym.elemwise_add(sym.exp(s, name="e2"), sym.sqrt(b, name="r"), name="sum"), e])


def order(sym, a, b, c):
    left = sym.elemwise_mul(c, sym.exp(a, name="e"), name="m")
    return sym.elemwise_add(left, sym.elemwise_mul(b, c, name="n"), name="sum")


def uses(sym, a, b, c):
    e, r = sym.exp(a, name="e"), sym.sqrt(b, name="r")
    both = sym.elemwise_mul(e, r, name="both")
    # No result that is also used: MXNet then takes wrong ones.
    return sym.Group([sym.cos(r, name="c"), sym.sin(both, name="s"), sym.tanh(e, name="t")])


def two_parts(sym, a, b, c):
    first = sym.elemwise_mul(sym.exp(a, name="e"), b, name="m")
    middle = sym.cos(first, name="cos")
    return sym.elemwise_add(sym.log(sym.sqrt(middle, name="r"), name="l"), sym.sin(c, name="s"), name="sum")


def nothing(sym, a, b, c):
    return sym.sin(sym.cos(a, name="c"), name="s")


GRAPHS = (chain, outside, diamond, several, order, uses, two_parts, nothing)
BACKENDS = (("my_partitioner", {}), ("my_selector", {}), ("my_partitioner", {"reject": True}))


def cases():
    """Every graph with every backend: a name, the graph, the backend and its options."""
    for graph in GRAPHS:
        for backend, options in BACKENDS:
            yield " ".join([graph.__name__, backend, *options]), graph, backend, options


def build(mx, graph):
    """The symbol of a graph, and the arrays of its arguments."""
    symbol = graph(mx.sym, *[mx.sym.var(name) for name in ARRAYS])
    return symbol, {name: mx.nd.array(ARRAYS[name]) for name in symbol.list_arguments()}

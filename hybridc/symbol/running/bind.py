"""A composed graph on values: run operator by operator, or traced for the compiler."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hybridc import nd
from hybridc.array.dispatch import invoke
from hybridc.dialects.body import Body
from hybridc.dialects.control.inner_graph import InnerGraphs
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.ground.nesting import as_list
from hybridc.ground.state import STATE, inside_rule
from hybridc.symbol import graph
from hybridc.symbol.graph import Entry, SymbolNode
from hybridc.symbol.infer import Shapes, is_open
from hybridc.symbol.np_calls.np_call import NumpyCall
from hybridc.symbol.subgraph_nodes import body_to_nodes
from hybridc.trace.roll_steps import roll_steps
from hybridc.trace.tracer import Trace

_NUMBER = itertools.count()


def evaluate(
    entries: Sequence[Entry], values: Mapping[str, Any], results: dict[int, list[Any]] | None = None
) -> list[Any]:
    """The results for values of the variables, by name: NDArrays run at once, traced Symbols are recorded.

    ``results`` are those of nodes that ran before, by identity; it gets those of the others.
    """
    results = {} if results is None else results
    nodes = graph.topological(entries)
    shapes = None
    if any(map(is_open, nodes)) and not getattr(STATE.trace, "opens", False):  # a block's trace infers them itself
        shapes = Shapes(entries, {name: x.shape for name, x in values.items()}, "evaluation", exact=True)
    with inside_rule():
        for node in nodes:
            if id(node) in results:
                continue
            if shapes is not None and is_open(node):
                results[id(node)] = _apply(node, [], shapes.get((node, 0)))
            elif node.op is None:
                results[id(node)] = [values[node.name]]
            elif node.number is not None:
                results[id(node)] = [node.number]
            else:
                results[id(node)] = _apply(node, [results[id(n)][i] for n, i in node.inputs])
        return [results[id(node)][i] if node.number is None else _apply(node, [])[0] for node, i in entries]


def _apply(node: SymbolNode, inputs: list[Any], shape: Shape | None = None) -> list[Any]:
    assert node.op is not None
    if isinstance(node.op, InnerGraphs):
        return _apply_graphs(node.op, inputs)
    if isinstance(node.op, NumpyCall):
        return node.op.call(*inputs)
    op = node.op if shape is None else node.op.bind(**{**node.op.attrs, "shape": shape})
    if isinstance(STATE.trace, Trace):
        return as_list(STATE.trace.invoke(op, inputs, None, node.location))
    return as_list(invoke(op, inputs))


def _apply_graphs(op: InnerGraphs, inputs: list[Any]) -> list[Any]:
    """The results of an operator with graphs inside, which are evaluated as this graph is."""

    def evaluated(body: Body) -> Callable[..., list[Any]]:
        variables = [SymbolNode(None, str(i)) for i in range(len(inputs))]
        entries = body_to_nodes(body, variables, len(body.results))
        return lambda *values: evaluate(entries, {v.name: x for v, x in zip(variables, values, strict=True)})

    return op.call(nd, [evaluated(body) for body in op.bodies()], *inputs)


def to_trace(
    entries: Sequence[Entry], shapes: Mapping[str, Shape], dtypes: Mapping[str, DType], training: bool
) -> Trace:
    """The trace of a graph for these shapes and dtypes of all variables: its inputs are the variables, in order."""
    trace = Trace(training)
    trace.name = f"{re.sub(r'[^A-Za-z0-9_]', '_', entries[0][0].name)}-{next(_NUMBER)}"  # it names files
    leaves = {
        name: trace.leaf(name, shapes[name], dtypes[name], "data")
        for name in dict.fromkeys(n.name for n in graph.variables(entries))
    }
    with trace.active():
        results = evaluate(entries, leaves)
    trace.structure = [0] * len(results)
    trace.finish(results)
    roll_steps(trace)
    return trace

"""Checks of a model that was read: every value is made once, before it is used; functions do not call themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from hybridc.errors import OnnxFileError
from hybridc.interchange.onnx.reading.model_graph import ModelFunction, ModelGraph, ModelNode

#: How deeply graphs may lie in nodes of graphs, and calls of functions in functions.
DEEPEST = 64


def check_graph(graph: ModelGraph, outer: frozenset[str], where: str, depth: int = 0) -> None:
    """Raise unless each name in a graph has one meaning; ``outer`` are the names around it."""
    if depth > DEEPEST:
        raise OnnxFileError(f"{where}: its graphs lie in one another more than {DEEPEST} deep")
    known = {x.name for x in graph.inputs}
    if len(known) < len(graph.inputs):
        raise OnnxFileError(f"{where}: two inputs of the graph {graph.name!r} have one name")
    known |= graph.initializers.keys()
    later = {name for node in graph.nodes for name in node.outputs}
    for node in graph.nodes:
        for name in node.inputs:
            if name and name not in known and name not in outer:
                reason = (
                    "is made by a later node, or by itself: the graph is cyclic, or its nodes are not in order"
                    if name in later
                    else "is neither an input, an initializer nor an output of a node"
                )
                raise OnnxFileError(f"{where}: {node} takes {name!r}, which {reason}")
        for inner in graphs_of(node):
            check_graph(inner, outer | known, f"{where}, a graph in {node}", depth + 1)
        for name in node.outputs:
            if name and name in known:
                raise OnnxFileError(f"{where}: {node} gives {name!r}, and so does something before it")
            known.add(name)
    for output in graph.outputs:
        if output.name not in known and output.name not in outer:
            raise OnnxFileError(f"{where}: nothing gives the output {output.name!r} of the graph {graph.name!r}")


def graphs_of(node: ModelNode) -> Iterator[ModelGraph]:
    """The graphs in a node's attributes."""
    for value in node.attributes.values():
        values = cast("tuple[Any, ...]", value if isinstance(value, tuple) else (value,))
        yield from (x for x in values if isinstance(x, ModelGraph))


def all_nodes(nodes: tuple[ModelNode, ...]) -> Iterator[ModelNode]:
    """Nodes, and those of the graphs in them."""
    for node in nodes:
        yield node
        for graph in graphs_of(node):
            yield from all_nodes(graph.nodes)


def check_recursion(functions: Mapping[tuple[str, str, str], ModelFunction], where: str) -> None:
    """Raise if a function of the model calls itself, directly or through others."""
    done: set[tuple[str, str, str]] = set()

    def visit(key: tuple[str, str, str], path: tuple[tuple[str, str, str], ...]) -> None:
        if key in path or len(path) > DEEPEST:
            names = " → ".join(name for _, name, _ in (*path, key)[-5:])
            raise OnnxFileError(f"{where}: functions of the model call themselves, or too deeply: {names}")
        if key in done:
            return
        for node in all_nodes(functions[key].nodes):
            called = node.domain, node.op, node.overload
            if called in functions:
                visit(called, (*path, key))
        done.add(key)

    for key in functions:
        visit(key, ())

"""A model in parts: nodes that follow each other as a model of their own, for what compiles parts one by one."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from hybridc.interchange.onnx.reading.check_model import graphs_of
from hybridc.interchange.onnx.reading.model_graph import ModelGraph, ModelNode, OnnxModel, TensorInfo


def part_of(model: OnnxModel, start: int, stop: int, parameters: Collection[str]) -> OnnxModel:
    """The nodes from ``start`` up to ``stop``: of values made before, of those that nodes after them or outputs need.

    ``parameters`` are values that are no inputs, as initializers are none.
    """
    graph = model.graph
    nodes = graph.nodes[start:stop]
    used = free_names(nodes)
    needed = {*free_names(graph.nodes[stop:]), *(x.name for x in graph.outputs)}
    made = {name: None for node in nodes for name in node.outputs if name in needed}
    declared = {x.name: x for x in (*graph.inputs, *graph.outputs)}
    apart = {*graph.initializers, *parameters}
    own = ModelGraph(
        graph.name,
        tuple(declared.get(name, TensorInfo(name)) for name in used if name not in apart),
        tuple(declared.get(name, TensorInfo(name)) for name in made),
        nodes,
        {name: value for name, value in graph.initializers.items() if name in used},
    )
    return replace(model, graph=own)


def body_of(model: OnnxModel, graph: ModelGraph, parameters: Collection[str]) -> OnnxModel:
    """A graph inside a node as a model of its own, whose further inputs are the values that it takes from outside."""
    apart = {*model.graph.initializers, *parameters}
    outside = names_from_outside(graph)
    inputs = (*graph.inputs, *(TensorInfo(name) for name in outside if name not in apart))
    constants = {name: value for name, value in model.graph.initializers.items() if name in outside}
    return replace(model, graph=replace(graph, inputs=inputs, initializers={**constants, **graph.initializers}))


def free_names(nodes: Iterable[ModelNode]) -> dict[str, None]:
    """The names that nodes, and the graphs in them, take from outside, in order."""
    made: set[str] = set()
    free: dict[str, None] = {}
    for node in nodes:
        taken = [*node.inputs, *(name for graph in graphs_of(node) for name in names_from_outside(graph))]
        free |= {name: None for name in taken if name and name not in made}
        made |= set(node.outputs)
    return free


def names_from_outside(graph: ModelGraph) -> list[str]:
    """The names that a graph inside a node takes from around it."""
    own = {*(x.name for x in graph.inputs), *graph.initializers}
    made = {name for node in graph.nodes for name in node.outputs}
    taken = [*free_names(graph.nodes), *(x.name for x in graph.outputs if x.name not in made)]
    return [name for name in taken if name not in own]

"""What the values that enter a model are for: numbers that sizes follow from, parameters that train, or states."""

from __future__ import annotations

from collections.abc import Sequence

from hybridc.interchange.onnx.reading.check_model import all_nodes, graphs_of
from hybridc.interchange.onnx.reading.model_graph import ModelFunction, ModelNode, OnnxModel
from hybridc.interchange.onnx.reading.onnx_rules import rule_of
from hybridc.interchange.onnx.reading.standard_bodies import plain_body

# Operators that need shapes alone.
_OF_SHAPES = frozenset({("", "Shape"), ("", "Size"), ("", "SequenceLength"), ("", "OptionalHasElement")})


class InputRoles:
    """The roles of names in the graph of a model.

    ``known`` are inputs and initializers from which sizes follow, directly or through other nodes; ``trained`` are the
    initializers that something else uses, and ``states`` those among them that are running statistics.
    """

    def __init__(self, model: OnnxModel) -> None:
        self._functions = model.functions
        self._opsets = model.opsets
        nodes = list(all_nodes(model.graph.nodes))
        self.known = self._reached(nodes)
        self.trained = {x.name for x in model.graph.outputs}
        self.states: set[str] = set()
        for node in nodes:
            known, states = self._positions(node)
            rule = rule_of(node)
            fixed = known if rule is None else {*known, *rule.constants}
            self.trained |= {name for i, name in enumerate(node.inputs) if i not in fixed}
            self.states |= {name for i, name in enumerate(node.inputs) if i in states}

    def _positions(self, node: ModelNode) -> tuple[set[int], set[int]]:
        """The inputs of a node that must be numbers, and those that are states."""
        function = self._functions.get((node.domain, node.op, node.overload))
        rule = None if function is not None else rule_of(node)
        if rule is not None:
            return set(rule.known), set(rule.states)
        if function is None:
            function = plain_body(node, self._opsets)
        return set() if function is None else self._of_function(function), set()

    def _of_function(self, function: ModelFunction) -> set[int]:
        known = self._reached(list(all_nodes(function.nodes)))
        return {i for i, name in enumerate(function.inputs) if name in known}

    def _reached(self, nodes: Sequence[ModelNode]) -> set[str]:
        """The names that numbers are computed from."""
        sources: dict[str, Sequence[str]] = {}
        for node in nodes:
            needs = () if (node.domain, node.op) in _OF_SHAPES else node.inputs
            inner = [x.name for graph in graphs_of(node) for x in graph.outputs]
            sources |= dict.fromkeys((name for name in node.outputs if name), (*needs, *inner))
            sources |= {x.name: node.inputs for graph in graphs_of(node) for x in graph.inputs}
        waiting = [node.inputs[i] for node in nodes for i in self._positions(node)[0] if i < len(node.inputs)]
        reached: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name and name not in reached:
                reached.add(name)
                waiting += sources.get(name, ())
        return reached

"""The walk over a model's nodes: each is computed by its rule, or by the body that a function or the standard gives."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false
# Messages of protobuf have fields that type checkers do not see.

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hybridc.errors import MXNetError, OnnxFileError, OnnxUnsupportedError
from hybridc.interchange.onnx.reading.model_graph import ModelFunction, ModelGraph, ModelNode, OnnxModel
from hybridc.interchange.onnx.reading.onnx_rules import OnnxCall, OnnxRule, bound, rule_of
from hybridc.interchange.onnx.reading.standard_bodies import body_of, defaults_of
from hybridc.interchange.onnx.reading.walk_values import at_once, has_dtype, is_known, lifted, lowered, numbers

# What Python raises where a rule meets arguments that do not fit together.
_MISFITS = (
    ValueError,
    TypeError,
    IndexError,
    KeyError,
    ArithmeticError,
    AttributeError,
    MemoryError,
    NotImplementedError,
)


# The results of a graph for inputs in a walk around it, or None.
GraphFunction = Callable[[ModelGraph, list[Any], "Walk"], list[Any] | None]


class Walk:
    """One run through a graph or a function: the values by name, and those around it.

    ``attributes`` are those that the caller of a function decided. ``compiled`` computes the graphs inside nodes, see
    :class:`OnnxBlock`; without it a walk goes through them.
    """

    def __init__(
        self,
        model: OnnxModel,
        values: dict[str, Any],
        outer: Walk | None = None,
        attributes: Mapping[str, Any] | None = None,
        compiled: GraphFunction | None = None,
    ) -> None:
        self.model = model
        self.values = values
        self.outer = outer
        self.attributes: Mapping[str, Any] = attributes or {}
        self.position = 0
        self.compiled = compiled

    def run(self, nodes: Sequence[ModelNode]) -> None:
        """Compute the values of nodes; ``position`` is the index of the one that it is at."""
        for self.position, node in enumerate(nodes):
            inputs = [self.value(name) if name else None for name in node.inputs]
            for name, value in zip(node.outputs, self.results(node, inputs), strict=False):
                if name:
                    self.values[name] = value

    def value(self, name: str) -> Any:
        """A value of this graph, or of one around it."""
        walk: Walk | None = self
        while walk is not None:
            if name in walk.values:
                return walk.values[name]
            walk = walk.outer
        raise OnnxFileError(f"no node, input or initializer gives {name!r}")

    def graph(self, graph: ModelGraph, inputs: list[Any]) -> list[Any]:
        """The results of a graph inside a node, which sees the values of this one."""
        if len(inputs) > len(graph.inputs):
            raise OnnxFileError(f"the graph {graph.name!r} has {len(graph.inputs)} inputs, and gets {len(inputs)}")
        results = None if self.compiled is None else self.compiled(graph, inputs, self)
        if results is not None:
            return results
        values = {**graph.initializers, **dict(zip((x.name for x in graph.inputs), inputs, strict=False))}
        walk = Walk(self.model, values, self, self.attributes, self.compiled)
        walk.run(graph.nodes)
        return [walk.value(x.name) for x in graph.outputs]

    def results(self, node: ModelNode, inputs: list[Any]) -> Sequence[Any]:
        """The results of a node; an error names it."""
        try:
            return self._results(node, inputs)
        except OnnxFileError as error:
            if "the node " in str(error):
                raise
            raise error.restated(f"{node}: {error}") from error
        except MXNetError as error:
            if "the node " in str(error):
                raise
            raise error.restated(f"{error} (in {node} of the ONNX model)") from error
        except _MISFITS as error:
            reason = f": {error}" if isinstance(error, ValueError | ArithmeticError | MemoryError) else ""
            given = ", ".join(map(_described, inputs)) or "nothing"
            raise OnnxFileError(f"{node} cannot be computed of {given} with its attributes{reason}") from error

    def _results(self, node: ModelNode, inputs: list[Any]) -> Sequence[Any]:
        attributes = bound(node.attributes, self.attributes)
        function = self.model.functions.get((node.domain, node.op, node.overload))
        if function is not None:
            return self._called(function, attributes, inputs)
        rule, defaults = rule_of(node), defaults_of(node.domain, node.op, node.version)
        if rule is None:
            body = body_of(node, attributes, inputs, self.model.opsets)
            return self._called(body, {**defaults, **attributes}, inputs)
        call = OnnxCall(node, attributes, defaults, self)
        results = _applied(rule, call, inputs)
        return results if isinstance(results, tuple) else (results,)

    def _called(self, function: ModelFunction, attributes: Mapping[str, Any], inputs: list[Any]) -> list[Any]:
        if len(inputs) > len(function.inputs):
            raise OnnxFileError(
                f"the function {function.name!r} has {len(function.inputs)} inputs, and gets {len(inputs)}"
            )
        values: dict[str, Any] = dict.fromkeys(function.inputs)
        walk = Walk(self.model, values | dict(zip(function.inputs, inputs)), None, {**function.defaults, **attributes})
        walk.run(function.nodes)
        return [walk.values.get(name) for name in function.outputs]


def _applied(rule: OnnxRule, call: OnnxCall, inputs: list[Any]) -> Any:
    """What a rule gives; known values of known ones."""
    if rule.raw:
        return rule.apply(call, *inputs)
    title = call.node.title
    if rule.host or any(isinstance(x, np.ndarray) and not has_dtype(x) for x in inputs):
        if not rule.host:
            dtypes = ", ".join(sorted({str(x.dtype) for x in inputs if isinstance(x, np.ndarray) and not has_dtype(x)}))
            raise OnnxUnsupportedError(f"{title} of arrays of the dtype {dtypes}, which hybridc does not compute in")
        with at_once():
            return rule.apply(call, *(numbers(x, f"input {i} of {title}") for i, x in enumerate(inputs)))
    folds = rule.pure and is_known(inputs)
    with at_once() if folds else contextlib.nullcontext():
        given = [numbers(x, f"input {i} of {title}") if i in rule.known else lifted(x) for i, x in enumerate(inputs)]
        results = rule.apply(call, *given)
        return lowered(results) if folds else results


def _described(value: Any) -> str:
    """A value's dtype and shape."""
    if value is None or isinstance(value, list):
        return "no array" if value is None else f"a sequence of {len(value)}"
    return f"{np.dtype(value.dtype)}{list(value.shape)}"

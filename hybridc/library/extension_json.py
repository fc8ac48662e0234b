"""Functions of the graph dialect in nnvm's JSON, with shapes and dtypes, for the libraries that read it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import TensorType, UnrankedTensorType
from xdsl.ir import Operation, SSAValue

from hybridc.dialects import operator_registry
from hybridc.dialects.mlir.hybrid import HybridOp, hybrid_dtype, hybrid_shape
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.ground.records import dataclass
from hybridc.library.extension_call import CODES
from hybridc.symbol.json import to_json
from hybridc.symbol.symbol_to_graph import FunctionNodes

SHAPE, DTYPE = "__ext_shape__", "__ext_dtype__"


@dataclass
class WrittenFunction:
    """A function in nnvm's JSON, and the number there of each operation."""

    graph: dict[str, Any]
    numbers: dict[Operation, int]

    @property
    def text(self) -> str:
        """The graph in the JSON that libraries read."""
        return json.dumps(self.graph)


def write(function: func.FuncOp, made: FunctionNodes) -> WrittenFunction:
    """The JSON of a function, with shapes and dtypes where they are known."""
    graph = json.loads(to_json(made.entries, remove_amp_cast=False))
    places = {node["name"]: i for i, node in enumerate(graph["nodes"])}
    results: dict[str, Sequence[SSAValue]] = {}
    for node, argument in zip(made.arguments, function.body.block.args, strict=True):
        if node is not None:
            results[node.name] = [argument]
    for op, node in made.nodes.items():
        assert isinstance(op, HybridOp)
        results[node.name] = op.results[: op.operator.num_visible_outputs()]
        if node.name in places:
            written = graph["nodes"][places[node.name]]
            written["op"] = _of_equal_shapes(written["op"], op)
    for name, values in results.items():
        if name in places and (found := _described(values)):
            graph["nodes"][places[name]].setdefault("attrs", {}).update(found)
    numbers = {op: places[node.name] for op, node in made.nodes.items() if node.name in places}
    return WrittenFunction(graph, numbers)


def _of_equal_shapes(name: str, op: HybridOp) -> str:
    """MXNet's name of ``x + y`` without broadcasting: ``elemwise_add`` rather than ``broadcast_add``."""
    same = name.replace("broadcast_", "elemwise_")
    found = operator_registry.FUNCTIONS.get(same)
    known = not any(isinstance(v.type, UnrankedTensorType) or -1 in hybrid_shape(v) for v in op.operands)
    equal = known and len({hybrid_shape(v) for v in op.operands}) == 1
    return same if equal and found is not None and issubclass(found, op.OPERATOR) else name


def _described(values: Sequence[SSAValue]) -> dict[str, str]:
    """The attributes of shapes and dtypes; none, if a shape is unknown."""
    if not all(isinstance(v.type, TensorType) and -1 not in hybrid_shape(v) for v in values):
        return {}
    return types_text([(hybrid_shape(v), hybrid_dtype(v)) for v in values])


def types_text(types: Sequence[tuple[Shape, DType]]) -> dict[str, str]:
    """The attributes in which a library finds shapes and dtypes, of several results."""
    shapes = ",".join(f"[{','.join(map(str, s))}]" for s, _ in types)
    return {SHAPE: f"[{shapes}]", DTYPE: f"[{','.join(str(CODES.get(d, -1)) for _, d in types)}]"}


def without_types(text: str) -> str:
    """A graph without the shapes and dtypes that were written for a library: they follow anew."""
    graph = json.loads(text)
    for node in graph["nodes"]:
        attributes: dict[str, str] = node.get("attrs") or {}
        for name in (SHAPE, DTYPE):
            attributes.pop(name, None)
    return json.dumps(graph)

"""From the graph level to a composed symbol: the nodes of a function of ``hybrid`` operations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Operation, SSAValue

from hybridc.dialects.hybrid import HybridOp, location_of
from hybridc.symbol.graph import Entry, Node
from hybridc.transforms.values import hybrid_ops, result_count


@dataclass
class SymbolOfGraph:
    """The results of a function as entries of a graph of nodes, and which node an operation or argument became."""

    entries: list[Entry] = field(default_factory=list[Entry])
    arguments: list[Node | None] = field(default_factory=list[Node | None])  # None for the random key
    nodes: dict[Operation, Node] = field(default_factory=dict[Operation, Node])


def graph_to_symbol(function: func.FuncOp) -> SymbolOfGraph:
    """The graph of a function: a variable for each argument, a node for each operation, named as in the IR.

    Random keys are no inputs of nodes, and the new value of an input that an operation updates is the input itself.
    """
    made = SymbolOfGraph()
    taken: set[str] = set()
    values: dict[SSAValue, Entry] = {}
    keys = _keys(function)
    for i, argument in enumerate(function.body.block.args):
        node = None if i in keys else Node(None, _unique(argument.name_hint or f"arg{i}", taken))
        made.arguments.append(node)
        if node is not None:
            values[argument] = node, 0
    for op in hybrid_ops(function):
        node = made.nodes[op] = _node(op, values, taken)
        for i, result in enumerate(op.results):
            values[result] = node, i
        operator = op.operator
        for i, new in zip(operator.mutated, op.results[len(op.results) - len(operator.mutated) :], strict=True):
            values[new] = values[op.operands[i]]
    end = function.body.block.last_op
    assert isinstance(end, func.ReturnOp)
    made.entries = [values[v] for v in end.arguments[: result_count(function)]]
    return made


def _keys(function: func.FuncOp) -> list[int]:
    """The numbers of the arguments that are random keys."""
    roles: Any = function.attributes.get("hybrid.roles")
    if not isinstance(roles, ArrayAttr):
        return []
    listed = [r.data if isinstance(r, StringAttr) else "" for r in cast(ArrayAttr[Any], roles)]
    return [i for i, role in enumerate(listed) if role == "key"]


def _node(op: HybridOp, values: dict[SSAValue, Entry], taken: set[str]) -> Node:
    operator = op.operator
    operands = op.operands[: len(op.operands) - operator.DRAWS]
    title = op.results[0].name_hint or f"{operator.title().lower()}0"
    return Node(operator, _unique(title, taken), [values[v] for v in operands], {}, location_of(op))


def _unique(name: str, taken: set[str]) -> str:
    """The name, with another number behind it if it is taken."""
    stem, number, found = name.rstrip("0123456789"), 0, name
    while found in taken:
        number += 1
        found = f"{stem}{number}"
    taken.add(found)
    return found

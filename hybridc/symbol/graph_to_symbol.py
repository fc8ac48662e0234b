"""From the graph level to a composed symbol: the inverse of :mod:`hybridc.symbol.symbol_to_graph`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import Operation, SSAValue

from hybridc.dialects.hybrid import HybridOp, location_of
from hybridc.dialects.operator import Operator
from hybridc.errors import MXNetError
from hybridc.ir.values import functions, result_count
from hybridc.subgraph.subgraph_operator import Subgraph
from hybridc.symbol.graph import Entry, Node
from hybridc.symbol.symbol_to_graph import Origins


@dataclass
class FunctionNodes:
    """The results of a function as entries of a graph of nodes, and which node an argument or operation became."""

    entries: list[Entry] = field(default_factory=list[Entry])
    arguments: list[Node | None] = field(default_factory=list[Node | None])  # None for the random key
    nodes: dict[Operation, Node] = field(default_factory=dict[Operation, Node])


def graph_to_symbol(module: ModuleOp, origins: Origins) -> list[Entry]:
    """The results of the module's function; arguments and operations that have an origin keep its name and attributes.

    Random keys and train mode are not of a symbol: it gets them when it runs.
    """
    return function_nodes(functions(module)[0], origins).entries


def function_nodes(function: func.FuncOp, origins: Origins | None = None) -> FunctionNodes:
    """A variable for each argument and a node for each operation: its origin, or else named as in the IR.

    Random keys are no inputs of nodes, and the new value of an input that an operation updates is the input itself.
    """
    made, known = FunctionNodes(), origins or {}
    taken = {n.name for n in known.values() if n.number is None}
    values: dict[SSAValue, Entry] = {}
    for role, arg in zip(roles_of(function), function.body.block.args, strict=True):
        node = known.get(arg) or Node(None, _unique(arg.name_hint or f"arg{arg.index}", taken))
        made.arguments.append(None if role == "key" else node)
        if role != "key":
            values[arg] = node, 0
    for op in function.body.block.ops:
        if isinstance(op, func.ReturnOp):
            made.entries = [values[v] for v in op.arguments[: result_count(function)]]
            return made
        if not isinstance(op, HybridOp):
            raise MXNetError(f"{op.name} cannot be an operator of a symbol; hybrid operations can")
        operator = op.operator
        inputs = [values[v] for v in op.operands if v in values]
        node = made.nodes[op] = _node(op, operator, inputs, known.get(op), taken, of_symbol=origins is not None)
        values |= {result: (node, i) for i, result in enumerate(op.results)}
        for i, new in zip(operator.mutated, op.results[len(op.results) - len(operator.mutated) :], strict=True):
            values[new] = values[op.operands[i]]
    raise MXNetError("the graph has no return operation")


def roles_of(function: func.FuncOp) -> list[str]:
    """What each argument is: data, parameter, key, …"""
    roles = function.attributes.get("hybrid.roles")
    if not isinstance(roles, ArrayAttr):
        return ["data"] * len(function.body.block.args)
    return [r.data for r in cast("ArrayAttr[StringAttr]", roles)]


def _node(
    op: HybridOp, operator: Operator, inputs: Sequence[Entry], origin: Node | None, taken: set[str], of_symbol: bool
) -> Node:
    if origin is not None and [(id(n), i) for n, i in origin.inputs] == [(id(n), i) for n, i in inputs]:
        return origin
    if origin is not None:
        return Node(origin.op, origin.name, inputs, origin.attrs, origin.location)
    if of_symbol and isinstance(operator, Subgraph):
        part = _of_symbol(operator, keyed=len(inputs) < len(op.operands))
        return Node(part, part.name, inputs, {}, location_of(op))
    hint: Any = op.results[0].name_hint
    return Node(operator, _unique(hint or f"{operator.title().lower()}0", taken), inputs, {}, location_of(op))


def _unique(name: str, taken: set[str]) -> str:
    """The name, with another number behind it if it is taken."""
    stem, number, found = name.rstrip("0123456789"), 0, name
    while found in taken:
        number += 1
        found = f"{stem}{number}"
    taken.add(found)
    return found


def _of_symbol(operator: Subgraph, keyed: bool) -> Any:
    """The subgraph as it is before a symbol runs: without train mode, key, and dtypes of numbers."""
    arguments = operator.input_names()
    return Subgraph.bind(
        **{
            **operator.attrs,
            "body": operator.body.with_numbers(lambda _: None),
            "arguments": arguments[:-1] if keyed and not operator.keyed else arguments,
            "keyed": keyed,
            "train": None,
        }
    )

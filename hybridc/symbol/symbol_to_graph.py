"""Composed symbols as a ``func.func`` of ``hybrid`` operations, unranked where shapes are unknown; and the inverse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue

from hybridc.dialects.mlir.graph_notes import ROLES
from hybridc.dialects.mlir.hybrid import HybridOp, location_of, open_type, tensor_type
from hybridc.dialects.operator import Operator
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.errors import MXNetError
from hybridc.ground.records import dataclass
from hybridc.ir.values import functions, result_count
from hybridc.subgraph.subgraph_operator import Subgraph
from hybridc.symbol import graph
from hybridc.symbol.graph import Entry, SymbolNode
from hybridc.symbol.infer import Shapes, Types, by_name
from hybridc.trace.trace_to_graph import identifier

Origins = dict[Operation | SSAValue, SymbolNode]


def symbol_to_graph(entries: Sequence[Entry], given: Mapping[str, Any]) -> ModuleOp:
    """The graph as a module; tensors are unranked, or have dynamic sizes, where shapes are unknown."""
    shapes = Shapes(entries, by_name(entries, (), given, "module"), "module")
    return convert(entries, shapes, Types(entries, {}, np.dtype(np.float32)))[0]


def convert(entries: Sequence[Entry], shapes: Shapes, dtypes: Types) -> tuple[ModuleOp, Origins]:
    """The graph as a module, and the node that each argument and operation comes from."""
    nodes = graph.topological(entries)
    names = [n for n in nodes if n.is_variable]
    types = [open_type(shapes.get((n, 0)), dtypes.get((n, 0))) for n in names]
    draws = any(n.op is not None and n.op.DRAWS for n in nodes)
    roles = [*["data"] * len(names), *["key"] * draws]
    block = Block(arg_types=[*types, *[tensor_type((2,), np.uint64)] * draws])
    values: dict[tuple[int, int], Any] = {}
    origins: Origins = {}
    for node, arg in zip(names, block.args, strict=False):
        arg.name_hint = identifier(node.name)
        values[id(node), 0] = arg
        origins[arg] = node
    for node in nodes:
        if node.op is None:
            continue
        operands = [values[id(n), i] for n, i in node.inputs] + [block.args[-1]] * node.op.DRAWS
        results = [open_type(*_type(node, i, shapes, dtypes)) for i in range(node.op.num_outputs())]
        op = HybridOp.build_op(node.op, operands, node.location, results)
        for i, result in enumerate(op.results):
            values[id(node), i] = result
        if node.number is None:
            op.results[0].name_hint = identifier(node.name)
        origins[op] = node
        block.add_op(op)
    outputs = [values[id(n), i] for n, i in entries]
    block.add_op(func.ReturnOp(*outputs))
    signature = FunctionType.from_lists([a.type for a in block.args], [o.type for o in outputs])
    function = func.FuncOp("forward", signature, Region(block))
    ROLES.put(function, roles)
    return ModuleOp([function]), origins


def _type(node: SymbolNode, index: int, shapes: Shapes, dtypes: Types) -> tuple[Shape | None, DType]:
    if node.number is not None:
        return (), np.dtype(np.float32)
    dtype = dtypes.get((node, index))
    return shapes.get((node, index)), np.dtype(np.float32) if dtype is None else dtype


# --- the inverse: from the graph level to a composed symbol -----------------------------------------------------------


@dataclass
class FunctionNodes:
    """The results of a function as entries of a graph of nodes, and which node an argument or operation became."""

    entries: list[Entry] = field(default_factory=list[Entry])
    arguments: list[SymbolNode | None] = field(default_factory=list[SymbolNode | None])  # None for the random key
    nodes: dict[Operation, SymbolNode] = field(default_factory=dict[Operation, SymbolNode])


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
        node = known.get(arg) or SymbolNode(None, _unique(arg.name_hint or f"arg{arg.index}", taken))
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


def roles_of(function: func.FuncOp) -> Sequence[str]:
    """The role of each argument: data, parameter, key, …"""
    return ROLES.of(function) or ["data"] * len(function.body.block.args)


def _node(
    op: HybridOp,
    operator: Operator,
    inputs: Sequence[Entry],
    origin: SymbolNode | None,
    taken: set[str],
    of_symbol: bool,
) -> SymbolNode:
    if origin is not None and [(id(n), i) for n, i in origin.inputs] == [(id(n), i) for n, i in inputs]:
        return origin
    if origin is not None:
        return origin.with_inputs(inputs)
    if of_symbol and isinstance(operator, Subgraph):
        part = _of_symbol(operator, keyed=len(inputs) < len(op.operands))
        return SymbolNode(part, part.name, inputs, {}, location_of(op))
    hint: Any = op.results[0].name_hint
    return SymbolNode(operator, _unique(hint or f"{operator.title().lower()}0", taken), inputs, {}, location_of(op))


def _unique(name: str, taken: set[str]) -> str:
    """A unique name: with a number appended if it is taken."""
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

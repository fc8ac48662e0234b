"""From a composed symbol to the graph level: one ``func.func`` of ``hybrid`` operations, unranked where need be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, FunctionType, ModuleOp, StringAttr
from xdsl.ir import Block, Operation, Region, SSAValue

from hybridc.dialects.attribute import DType, Shape
from hybridc.dialects.hybrid import HybridOp, open_type, tensor_type
from hybridc.symbol import graph
from hybridc.symbol.graph import Entry, Node
from hybridc.symbol.infer import Shapes, Types, by_name
from hybridc.trace.trace_to_graph import identifier

Origins = dict[Operation | SSAValue, Node]


def symbol_to_graph(entries: Sequence[Entry], given: Mapping[str, Any]) -> ModuleOp:
    """The graph as a module; tensors are unranked, or have open sizes, where the given shapes do not tell more."""
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
    function.attributes["hybrid.roles"] = ArrayAttr([StringAttr(r) for r in roles])
    return ModuleOp([function]), origins


def _type(node: Node, index: int, shapes: Shapes, dtypes: Types) -> tuple[Shape | None, DType]:
    if node.number is not None:
        return (), np.dtype(np.float32)
    dtype = dtypes.get((node, index))
    return shapes.get((node, index)), np.dtype(np.float32) if dtype is None else dtype
